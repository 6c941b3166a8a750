"""Links between documents: files, anchors, navigation; offline."""

import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")


def plain(document):
    """A document without its code."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)


def anchors(document):
    """As both GitHub and the site make them from headings that hold letters, digits, spaces and marks."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", plain(document), re.MULTILINE):
        text = unicodedata.normalize("NFKD", re.sub(r"[`*]", "", heading)).encode("ascii", "ignore").decode()
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower()))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_anchors_lead_somewhere(document):
    for target, anchor in LINK.findall(plain(document)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), f"{target}#{anchor}"


def test_every_page_that_the_navigation_names_exists():
    config = (ROOT / "mkdocs.yml").read_text()
    navigation = config.split("\nnav:\n")[1].split("\n\n")[0]
    pages = re.findall(r": ([\w/]+\.md)$", navigation, re.MULTILINE)
    assert len(pages) == len(set(pages)) > 20
    made = {"changelog.md": ROOT / "CHANGELOG.md"}
    for page in pages:
        source = made.get(page, ROOT / "docs" / page)
        assert source.exists() or source.with_suffix(".ipynb").exists(), page


def test_nobody_is_sent_to_a_host_that_loads_by_itself():
    """Pictures are files of the repository; the site's theme asks no other host for fonts."""
    for document in DOCUMENTS:
        assert not re.search(r"!\[[^\]]*\]\(https?://", document.read_text()), document.name
    assert "font: false" in (ROOT / "mkdocs.yml").read_text()


def test_every_picture_is_made_by_a_command():
    """`make figures` copies some of the demo's and draws others, `make examples` draws one for each example."""
    figures = (ROOT / "Makefile").read_text().split("\nfigures:")[1].split("\n\n")[0]
    drawn = re.findall(r"^def (\w+)", (ROOT / "docs/_site/figures.py").read_text(), re.MULTILINE)
    names = {*drawn, *(path.stem for path in (ROOT / "examples").glob("*.py"))}
    made = set(re.findall(r"(\w+\.png)", figures)) | {f"{name}.png" for name in names}
    assert {path.name for path in (ROOT / "docs/images").iterdir()} == made


def test_every_guide_and_tutorial_has_a_picture(notebooks):
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    learn, do = (navigation.split(f"  - {title}:\n")[1].split("\n  - ")[0] for title in ("Learn", "Do"))
    guides = re.findall(r": ([\w/]+)\.md$", f"{learn}\n{do}", re.MULTILINE)
    assert len(guides) > 12
    for guide in guides:
        notebook = ROOT / f"docs/{guide}.ipynb"
        text = notebooks.as_markdown(notebook)[0] if notebook.exists() else (ROOT / f"docs/{guide}.md").read_text()
        assert re.search(r"!\[.+?\]\(\S+\.png\)", text), guide


@pytest.mark.parametrize(
    ("written", "on_the_site"),
    [
        ("[bounds](bounds.md#a-score)", "[bounds](bounds.md#a-score)"),
        ("![it](../results/paper/best/figures/table1.png)", "![it](repository/results/paper/best/figures/table1.png)"),
        ("[speed](../benchmarks/results/tables.md)", "[speed](repository/benchmarks/results/tables.md)"),
        ("[code](../examples/churn.py)", "[code](repository/examples/churn.py.md)"),
        ("[cells](../results/paper)", "cells"),
        ("[changes](../CHANGELOG.md)", "[changes](changelog.md)"),
        ("[start](../README.md)", "[start](index.md)"),
        ("[tutorial](tutorials/two_arms.ipynb)", "[tutorial](tutorials/two_arms.md)"),
        ("[out](https://example.org/x)", "[out](https://example.org/x)"),
        ("    [in code](../results/paper)\n", "    [in code](../results/paper)\n"),
        ("    code\n\n[behind code](../results/paper)", "    code\n\nbehind code"),
        ("[live](../src/countermax/explorer/index.html)", "[live](explorer/index.html)"),
    ],
)
def test_links_that_leave_the_documents_work_on_the_site(links, written, on_the_site):
    assert links.rewritten(written, "tables.md") == on_the_site


def test_links_lead_to_the_repository_once_its_address_is_known(links):
    there = "https://example.org/countermax"
    assert (
        links.rewritten("[cells](../results/paper)", "paper.md", there) == f"[cells]({there}/tree/main/results/paper)"
    )
    assert links.rewritten("[b](bounds.md)", "paper.md", there) == "[b](bounds.md)"
    picture = "![it](../results/paper/best/figures/table1.png)"
    assert links.rewritten(picture, "paper.md", there) == links.rewritten(picture, "paper.md")


def test_pages_of_the_repository_keep_their_links(links):
    assert links.rewritten("[a](docs/own_mechanism.md)", "repository/CONTRIBUTING.md") == "[a](../own_mechanism.md)"
    assert links.rewritten("[a](docs/promises.md)", "changelog.md") == "[a](promises.md)"


def test_code_spans_of_public_names_become_links_but_not_in_headings(links, public):
    said = links.crossed("# The `Worlds`\n`Worlds(p, q)` and `nothing`, [`Worlds`](x.md)\n", public.entries())
    assert said == "# The `Worlds`\n[`Worlds(p, q)`][countermax.trial.Worlds] and `nothing`, [`Worlds`](x.md)\n"
