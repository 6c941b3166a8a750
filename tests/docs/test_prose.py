"""Plain English: phrases that read like a translation stay away, and arguments are described by nouns."""

import ast
import re
from pathlib import Path

import pytest
import typer.main

from countermax.cli import app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "countermax"
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "docs").rglob("*.ipynb"),
    *SOURCE.rglob("*.py"),
    *SOURCE.rglob("*.html"),
]
PHRASES = re.compile(
    r"hangs? together|\banew\b|\bgoes? on where|told apart|an error in words|refused in words|for so many outcomes"
    r"|other data could have|counts likeliest|can chew|held equally often|by luck|are so coupled"
    r"|about luck|other data too"
    r"|processes that the log|whichever that column holds|Units of the trial|repeats the luck|what the change favours"
    r"|its row from state|told before with|promises itself"
    r"|prevents \S+ \S+ in nobody|each for itself",
    re.IGNORECASE,
)
ROOMS = (".", *sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")))
FRAGMENTS = re.compile(r"(Added|Among|At|By|Consumed|For|From|How|Of|Over|Says|What|When|Where|Which|Whose|Who|With)\b")


def test_phrases_that_read_like_a_translation_are_gone():
    found = {str(path.relative_to(ROOT)): PHRASES.search(path.read_text()) for path in TEXTS}
    assert {path: match[0] for path, match in found.items() if match} == {}


def arguments(docstring):
    """Each argument's name and description in a docstring."""
    _, _, section = docstring.partition("\nArgs:\n")
    block = section.split("\n\n")[0]
    return re.findall(r"^ {4}(\*{0,2}\w+): (.*)$", block, re.MULTILINE)


@pytest.mark.parametrize("room", ROOMS)
def test_arguments_are_described_by_nouns(room):
    found = []
    for path in SOURCE.glob("*.py") if room == "." else (SOURCE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                described = arguments(ast.get_docstring(node) or "")
                found += [f"{path.name}: {name}: {text}" for name, text in described if FRAGMENTS.match(text)]
    assert found == []


def test_commands_say_what_the_user_gets():
    for name, command in typer.main.get_command(app).commands.items():
        summary = (command.help or "").strip().splitlines()[0]
        assert summary.endswith((".", "?")), name
        assert len(summary) < 120
        for option in command.params:
            text = getattr(option, "help", None)
            assert text is None or not FRAGMENTS.match(text), f"{name} {option.name}"


def test_novelty_is_claimed_with_its_reservation_and_its_source():
    """Whatever says that something was not seen elsewhere says to whose knowledge, and links to who did what before."""
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        text = " ".join(path.read_text().split())
        if "seen elsewhere" in text or "seems ours" in text:
            assert "to our knowledge" in text.lower(), path.name
            assert "prior_art.md" in text, path.name
        assert not re.search(r"\bnovel\b|for the first time|nobody else|no one else", text), path.name
    assert "docs/prior_art.md" in (ROOT / "README.md").read_text()
