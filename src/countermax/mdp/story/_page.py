"""The page of a story: what happened, what would have happened, how sure that is, what would change it, numbers."""

from collections.abc import Sequence

from countermax._core import page as report
from countermax.mdp._posterior import UNDOUBTED
from countermax.mdp.story._words import FEW_VISITS, Told

_MOST_DECISIONS = 8  # on the page; the JSON has all of them
_OVER_TIME = (
    "From the top: black dots are treatments that were given, blue rings what the other policy would give, fainter "
    "where it is less likely, with a number where a treatment comes in levels; dashed where this rests on fewer than "
    f"{FEW_VISITS} visits. Then, over time: black, what happened; coloured, what would have happened; grey, what could "
    "be said under any assumption about luck. Bars: how far the answer is open at each step because nobody can see "
    f"luck, with the number of visits behind each; hatched where they are fewer than {FEW_VISITS}."
)
_GAINS = (
    "At each step the best of all other decisions. Marks: what it would have added, one for each assumption about "
    f"luck; hollow where it rests on fewer than {FEW_VISITS} visits. Thick line: any assumption about luck. Dashed "
    "line: with other data too. Right of the black line the decision would have helped; if all of the lines lie there, "
    "that is robust."
)


def page(
    told: Told,
    notes: Sequence[str],
    pictures: Sequence[bytes],
    answers: report.Grid,
    couplings: Sequence[str],
    decisions: Sequence[Sequence[float | str | None]],
    numbers: str,
) -> list[report.Block]:
    """The blocks of the page.

    Args:
        told: The sentences.
        notes: Notes on what the numbers leave out.
        pictures: The story over time and, if there are any, the decisions.
        answers: Returns that the episode would have had.
        couplings: Names of the couplings.
        decisions: Rows of the sheet of decisions.
        numbers: Everything, as JSON.
    """
    blocks: list[report.Block] = [report.Heading("What happened"), *map(report.Paragraph, told.happened)]
    blocks += [report.Heading("What would have happened"), *map(report.Paragraph, told.instead)]
    blocks += [
        report.Picture(pictures[0], "treatments and features over time"),
        report.Paragraph(_OVER_TIME, note=True),
    ]
    blocks += [report.Heading("How sure that is"), *map(report.Paragraph, told.sure)]
    if len(pictures) > 1:
        blocks += [report.Picture(pictures[1], "what single decisions would have added")]
        blocks += [report.Paragraph(_GAINS, note=True)]
    blocks.append(report.Box("What would change this answer", told.changes))
    effects = [f"effect, {name}" for name in couplings]
    headers = ("when", "done", "instead", *effects, "effect lower", "effect upper", "other data", "visits", "how sure")
    blocks += [
        report.Heading("Numbers: what the episode would have earned"),
        answers,
        report.Heading("Numbers: one decision changed, the rest as it was"),
        report.Grid(headers, decisions[:_MOST_DECISIONS]),
        *(report.Paragraph(note.removesuffix(UNDOUBTED).strip(), note=True) for note in notes),
        report.Preformatted("All numbers", numbers),
    ]
    return blocks
