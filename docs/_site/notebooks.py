"""Tutorials: scripts in cells, the executed notebooks made from them, and their pages.

A tutorial is written as docs/tutorials/NAME.py, in cells that begin with `# %%`; those that begin with
`# %% [markdown]` are text.
`python docs/_site/notebooks.py` (`make tutorials`) runs each one and stores it with its outputs as NAME.ipynb.
"""

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "tutorials"


def cells(script: str) -> list[tuple[str, str]]:
    """The cells of a script: whether each is `markdown` or `code`, and its text."""
    found = []
    for piece in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        head, _, body = piece.partition("\n")
        kind = "markdown" if "[markdown]" in head else "code"
        text = re.sub(r"^# ?", "", body, flags=re.MULTILINE) if kind == "markdown" else body
        found.append((kind, text.strip("\n")))
    return found


def stored_cells(notebook: Path) -> list[tuple[str, str]]:
    """The same of a notebook."""
    return [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook.read_text())["cells"]]


def execute(script: Path) -> None:
    """Runs a tutorial in a kernel of its own and stores it as a notebook, without what differs from run to run."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(metadata={"language_info": {"name": "python"}})
    for number, (kind, text) in enumerate(cells(script.read_text())):
        new = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        book.cells.append(new(text, id=f"cell-{number}"))
    NotebookClient(book, timeout=300, kernel_name="python3").execute()
    for cell in book.cells:
        cell.metadata = {}
    book.metadata = {"language_info": {"name": "python"}}
    nbformat.write(book, script.with_suffix(".ipynb"))


def as_markdown(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as a page, and the pictures that it shows by their names."""
    text, pictures = [], dict[str, bytes]()
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        text.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in _joined(cell.get("outputs", [])):
            name = f"{notebook.stem}_{len(pictures) + 1}.png"
            shown, picture = _shown(output)
            if picture:
                pictures[name] = picture
            kind = "{ .text .columns }" if re.search(r"\S {3,}\S", shown) else "text"
            text.append(f"![Output of the cell above]({name})" if picture else f"```{kind}\n{shown.rstrip()}\n```")
    text.append(f"*[The notebook]({notebook.name}), as it was run; `make tutorials` runs it again.*")
    return "\n\n".join(text) + "\n", pictures


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs with what was printed in a row as one."""
    found: list[dict[str, Any]] = []
    for output in outputs:
        if found and output.get("output_type") == found[-1].get("output_type") == "stream":
            found[-1] = {**output, "text": [*found[-1]["text"], *output["text"]]}
        else:
            found.append(output)
    return found


def _shown(output: dict[str, Any]) -> tuple[str, bytes]:
    data = output.get("data", {})
    if "image/png" in data:
        return "", base64.b64decode("".join(data["image/png"]))
    return "".join(output.get("text", data.get("text/plain", ""))), b""


if __name__ == "__main__":
    for each in sys.argv[1:] or sorted(FOLDER.glob("*.py")):
        execute(Path(each))
