"""Rows and columns on a page, and three ways to write them down."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

Value = float | str | None

_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "±": r"$\pm$"}


@dataclass(frozen=True)
class Sheet:
    """Rows and columns on a page; numbers keep their digits until they are shown."""

    caption: str
    columns: Sequence[str]
    formats: Sequence[str]
    """How each column's numbers are shown, for instance `.2f` or `.1%`; empty for text."""
    rows: Sequence[Sequence[Value]]

    def __post_init__(self) -> None:
        assert all(len(each) == len(self.columns) for each in (self.formats, *self.rows))

    def shown(self) -> list[list[str]]:
        """The rows as text."""
        return [[_text(value, form) for value, form in zip(row, self.formats, strict=True)] for row in self.rows]

    def markdown(self) -> str:
        """Markdown, for a document."""
        rule = ["---:" if form else "---" for form in self.formats]
        lines = [list(self.columns), rule, *self.shown()]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def latex(self) -> str:
        """LaTeX, for a paper; needs the package booktabs."""
        alignment = "".join("r" if form else "l" for form in self.formats)
        body = [" & ".join(_escaped(text) for text in line) + r" \\" for line in self.shown()]
        head = " & ".join(_escaped(text) for text in self.columns) + r" \\"
        top, middle, bottom = r"\toprule", r"\midrule", r"\bottomrule"
        lines = [rf"\begin{{tabular}}{{{alignment}}}", top, head, middle, *body, bottom, r"\end{tabular}"]
        return f"% {self.caption}\n" + "\n".join(lines) + "\n"

    def csv(self) -> str:
        """CSV with all digits, for a program."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if value is None else value for value in row] for row in self.rows)
        return text.getvalue()


def _text(value: Value, form: str) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else format(value, form if "+" in form or not form else f"z{form}")


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
