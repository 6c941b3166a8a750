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
    """`make figures` copies some of the demo's, `make examples` draws one for each example."""
    figures = (ROOT / "Makefile").read_text().split("\nfigures:")[1].split("\n\n")[0]
    made = set(re.findall(r"(\w+\.png)", figures)) | {f"{path.stem}.png" for path in (ROOT / "examples").glob("*.py")}
    assert {path.name for path in (ROOT / "docs/images").iterdir()} == made
