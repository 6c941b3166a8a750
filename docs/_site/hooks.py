"""What MkDocs is told beside mkdocs.yml: pages made from the source, and links that leave the folder of documents.

- One page for each public module, with an entry for each public name; one of all commands; the tutorials, from their
  notebooks; the changelog.
- Names of public things in code spans become links to their entries; links to files outside of docs/ work.
- Formulas (```math, and $`...`$ within a line, as GitHub has them) become MathML: nothing is loaded to show them.
- The explorer is there, live. Pages that the navigation does not name come at the end of "Do".
"""

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import commands  # noqa: E402 (beside this file, which is no package)
import formulas  # noqa: E402
import links  # noqa: E402
import notebooks  # noqa: E402
import public  # noqa: E402

ROOT = links.ROOT


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts pages without a place at the end of "Do", and the modules behind the reference."""
    assert config.nav is not None
    named = set(re.findall(r"[\w/]+\.md", str(config.nav)))
    for page in sorted(ROOT.joinpath("docs").glob("*.md")):
        if page.name not in named:
            _section(config.nav, "Do").append(page.name)
    modules = [{room.name.removeprefix(f"{public.PACKAGE}."): public.page_of(room.name)} for room in public.rooms()]
    _section(config.nav, "Reference").extend([{"Command line": commands.PAGE}, {"Every module": modules}])
    return config


def _section(nav: list[Any], title: str) -> list[Any]:
    return next(entry[title] for entry in nav if title in entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made here, and whatever they and the others point to outside of docs/."""
    for path, content in {commands.PAGE: commands.page(), **public.api_pages()}.items():
        files.append(File.generated(config, path, content=content))
    for path, source in links.ELSEWHERE.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text()))
    for notebook in sorted(notebooks.FOLDER.glob("*.ipynb")):
        text, pictures = notebooks.as_markdown(notebook)
        files.append(File.generated(config, f"tutorials/{notebook.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=picture))
    files.append(File.generated(config, "explorer/index.html", abs_src_path=str(ROOT / links.EXPLORER)))
    waiting = [*links.ELSEWHERE.values(), *(f"docs/{path.name}" for path in ROOT.joinpath("docs").glob("*.md"))]
    while waiting:
        for target in links.targets(waiting.pop()):
            path = links.page_of(target)
            if path is None or files.get_file_from_path(path):
                continue
            if target.endswith(".md"):
                files.append(File.generated(config, path, content=(ROOT / target).read_text()))
                waiting.append(target)
            elif target.endswith(".py"):
                text = f"# {Path(target).name}\n\n```python\n{(ROOT / target).read_text()}```\n"
                files.append(File.generated(config, path, content=text))
            else:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links that leave docs/ into links of the site, and names of public things into links to their entries."""
    del files
    path = page.file.src_uri
    made = path.startswith(("api/", f"{links.COPIES}/"))
    page.meta["search"] = {"boost": 4 if path == "glossary.md" else 0.3 if made else 1}
    if path.startswith("api/"):
        return markdown
    return formulas.typeset(links.crossed(links.rewritten(markdown, path, config.repo_url), _entries()))


@cache
def _entries() -> dict[str, str]:
    return public.entries()


def on_post_build(config: MkDocsConfig) -> None:
    """Every public name has an entry; otherwise the site is not built."""
    built = "".join(path.read_text() for path in Path(config.site_dir, "api").rglob("*.html"))
    anchors = set(re.findall(r'id="(countermax[\w.]*)"', built))
    missing = sorted(set(public.homes(public.rooms()).values()) - anchors)
    if missing:
        raise SystemExit(f"public names without an entry in the reference: {', '.join(missing)}")
