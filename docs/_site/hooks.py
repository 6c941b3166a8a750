"""What MkDocs is told beside mkdocs.yml: pages made from the source, and links that leave the folder of documents.

- One page for each public module, with an entry for each public name; the tutorials, from their notebooks; the
  changelog.
- Names of public things in code spans become links to their entries.
- Links to files outside of docs/ lead to the repository where `repo_url` names one; until then documents and examples
  get a page of their own, pictures are copied, and folders lose their link.
- Pages that the navigation does not name come at the end of the guides.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import notebooks  # noqa: E402 (beside this file, which is no package)
import public  # noqa: E402

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```\n?|^(?: {4}|\t).*\n?)", re.DOTALL | re.MULTILINE)
OTHERS = {"changelog.md": "CHANGELOG.md"}  # pages that are written elsewhere
COPIES = "repository"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts pages without a place at the end of the guides, and the modules behind the reference."""
    assert config.nav is not None
    named = set(re.findall(r"[\w/]+\.md", str(config.nav)))
    for page in sorted(ROOT.joinpath("docs").glob("*.md")):
        if page.name not in named:
            _section(config.nav, "Guides").append(page.name)
    modules = [{room.name.removeprefix(f"{public.PACKAGE}."): public.page_of(room.name)} for room in public.rooms()]
    _section(config.nav, "Reference").append({"Every module": modules})
    return config


def _section(nav: list[Any], title: str) -> list[Any]:
    return next(entry[title] for entry in nav if title in entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made here, and whatever they and the others point to outside of docs/."""
    for path, content in public.api_pages().items():
        files.append(File.generated(config, path, content=content))
    for path, source in OTHERS.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text()))
    for notebook in sorted(notebooks.FOLDER.glob("*.ipynb")):
        text, pictures = notebooks.as_markdown(notebook)
        files.append(File.generated(config, f"tutorials/{notebook.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=picture))
    waiting = [*OTHERS.values(), *(f"docs/{path.name}" for path in ROOT.joinpath("docs").glob("*.md"))]
    while waiting:
        source = waiting.pop()
        for target in _targets(source):
            path = _copy_of(target)
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


def _targets(source: str) -> list[str]:
    """What a document links to in the repository but not in docs/, as paths from its root."""
    text = (ROOT / source).read_text()
    found = (_resolved(source, target) for _, _, target, _ in LINK.findall(text) if target and "://" not in target)
    return [target for target in found if not target.startswith("docs/") and (ROOT / target).is_file()]


def _resolved(source: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def _copy_of(target: str) -> str | None:
    """The page or file of the site that stands for a file of the repository."""
    for path, source in OTHERS.items():
        if target == source:
            return path
    if target == "README.md":
        return "index.md"
    if not (ROOT / target).is_file():
        return None
    return f"{COPIES}/{target}.md" if target.endswith(".py") else f"{COPIES}/{target}"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links that leave docs/ into links of the site, and names of public things into links to their entries."""
    path = page.file.src_uri
    if path.startswith("api/"):
        return markdown
    source = OTHERS.get(path) or (path.removeprefix(f"{COPIES}/") if path.startswith(COPIES) else f"docs/{path}")
    return _outside_of_code(markdown, lambda text: _crossed(_rewritten(text, source, path, config.repo_url)))


def _outside_of_code(markdown: str, change: Any) -> str:
    pieces = FENCED.split(markdown)
    return "".join(piece if place % 2 else change(piece) for place, piece in enumerate(pieces))


def _rewritten(text: str, source: str, page: str, repository: str | None) -> str:
    def replace(match: re.Match[str]) -> str:
        picture, shown, target, anchor = match.groups()
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        resolved = _resolved(source, target)
        if resolved.startswith("docs/"):
            new = resolved.removeprefix("docs/")
            if new.endswith(".ipynb") and not page.startswith("tutorials/"):
                new = f"{new.removesuffix('.ipynb')}.md"  # its page; the page offers the notebook itself
        elif repository and not picture and resolved not in OTHERS.values():
            return f"[{shown}]({repository.rstrip('/')}/tree/main/{resolved}{anchor or ''})"
        else:
            found = _copy_of(resolved)
            if found is None:
                return shown
            new = found
        relative = posixpath.relpath(new, posixpath.dirname(page) or ".")
        return f"{picture}[{shown}]({relative}{anchor or ''})"

    return LINK.sub(replace, text)


_NAMES: dict[str, str] = {}


def _crossed(text: str) -> str:
    """`compare(...)` as a link to the entry of `compare`, unless it is in a link or a heading already."""
    if not _NAMES:
        _NAMES.update(public.entries())

    def replace(match: re.Match[str]) -> str:
        name = re.match(r"[\w.]+", match["code"])
        entry = _NAMES.get(name[0].removeprefix(f"{public.PACKAGE}.")) if name else None
        return f"[`{match['code']}`][{entry}]" if entry else match[0]

    lines = []
    for line in text.splitlines(keepends=True):
        plain = line.startswith("#")
        lines.append(line if plain else re.sub(r"(?<![\[`\w])`(?P<code>[^`\n]+)`(?![\]`])", replace, line))
    return "".join(lines)


def on_post_build(config: MkDocsConfig) -> None:
    """Every public name has an entry; otherwise the site is not built."""
    built = "".join(path.read_text() for path in Path(config.site_dir, "api").rglob("*.html"))
    anchors = set(re.findall(r'id="(countermax[\w.]*)"', built))
    missing = sorted(set(public.homes(public.rooms()).values()) - anchors)
    if missing:
        raise SystemExit(f"public names without an entry in the reference: {', '.join(missing)}")
