"""Links between documents, as the site needs them; nothing but text in and text out.

Documents link to each other and to files of the repository by relative paths, which work wherever the repository is
shown. The site holds the documents only, so links that leave docs/ lead to the repository where its address is known.
Until then documents and examples get a page of their own, pictures are copied, and folders lose their link.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"changelog.md": "CHANGELOG.md"}  # pages that are written outside of docs/
EXPLORER = "src/countermax/explorer/index.html"  # stands on the site as explorer/index.html
COPIES = "repository"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```\n?|^(?: {4}|\t)[^\n]*\n?)", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<![\[`\w$])`(?P<code>[^`\n]+)`(?![\]`])")


def source_of(page: str) -> str:
    """The file of the repository behind a page of the site."""
    if page.startswith(f"{COPIES}/"):
        return page.removeprefix(f"{COPIES}/")
    return ELSEWHERE.get(page, f"docs/{page}")


def page_of(target: str) -> str | None:
    """The page or file of the site that stands for a file of the repository; None for folders."""
    if target.startswith("docs/"):
        page = target.removeprefix("docs/")
        return f"{page.removesuffix('.ipynb')}.md" if page.endswith(".ipynb") else page
    written = {source: page for page, source in ELSEWHERE.items()} | {"README.md": "index.md"}
    if target in written:
        return written[target]
    if target == EXPLORER:
        return "explorer/index.html"
    if not (ROOT / target).is_file():
        return None
    return f"{COPIES}/{target}.md" if target.endswith(".py") else f"{COPIES}/{target}"


def resolved(source: str, target: str) -> str:
    """A relative link of a document, as a path from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def targets(source: str) -> list[str]:
    """Files of the repository outside of docs/ that a document links to."""
    text = (ROOT / source).read_text()
    found = (resolved(source, target) for _, _, target, _ in LINK.findall(text) if _is_local(target))
    return [target for target in found if not target.startswith("docs/") and (ROOT / target).is_file()]


def rewritten(markdown: str, page: str, repository: str | None = None) -> str:
    """A page's text with links that work on the site."""
    source = source_of(page)

    def replace(match: re.Match[str]) -> str:
        picture, shown, target, anchor = match.groups()
        if not _is_local(target):
            return match[0]
        path = resolved(source, target)
        if path.endswith(".ipynb") and page.startswith("tutorials/"):
            return match[0]  # the page of a tutorial offers the notebook itself
        written = path.startswith("docs/") or path in ELSEWHERE.values()
        if repository and not picture and not written and path != EXPLORER:
            return f"[{shown}]({repository.rstrip('/')}/tree/main/{path}{anchor or ''})"
        found = page_of(path)
        if found is None:
            return shown
        return f"{picture}[{shown}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{anchor or ''})"

    return _outside_of_code(markdown, lambda text: LINK.sub(replace, text))


def crossed(markdown: str, entries: Mapping[str, str]) -> str:
    """A page's text in which `compare(...)` is a link to the entry of `compare`, but for headings and links."""

    def replace(match: re.Match[str]) -> str:
        name = re.match(r"[\w.]+", match["code"])
        entry = entries.get(name[0].removeprefix("countermax.")) if name else None
        return f"[`{match['code']}`][{entry}]" if entry else match[0]

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        return "".join(line if line.startswith("#") else SPAN.sub(replace, line) for line in lines)

    return _outside_of_code(markdown, change)


def _is_local(target: str) -> bool:
    return bool(target) and "://" not in target and not target.startswith("mailto:")


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    pieces = CODE.split(markdown)
    return "".join(piece if place % 2 else change(piece) for place, piece in enumerate(pieces))
