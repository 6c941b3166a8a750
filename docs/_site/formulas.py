"""Formulas as MathML, which browsers typeset by themselves: written as GitHub reads them, in LaTeX.

A fence ```math holds a formula of its own, $`...`$ one within a line.
"""

import re

from latex2mathml.converter import convert

BLOCK = re.compile(r"^```math\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$`([^`\n]+)`\$")


def typeset(markdown: str) -> str:
    """A page's text with its formulas as MathML."""
    text = BLOCK.sub(lambda match: f'<div class="formula">{_rows(match[1])}</div>', markdown)
    return INLINE.sub(lambda match: f"<span>{convert(match[1])}</span>", text)  # <math> alone would begin a paragraph


def _rows(formula: str) -> str:
    return "".join(convert(row, display="block") for row in formula.strip().split("\\\\\n"))
