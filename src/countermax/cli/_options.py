"""Options of commands that read a trial: one wording for one thing."""

from typing import Annotated

import typer

OUTCOME, ARM = "Column with the outcomes.", "Column with the arms, as assigned or as received."

TrialScore = Annotated[
    str | None, typer.Option(help="Score of each outcome: label=number,... or numbers in the order of --labels.")
]
Weights = Annotated[str | None, typer.Option(help="Column with the weight of each person.")]
Clusters = Annotated[str | None, typer.Option(help="Column that groups people who were sampled together.")]
Missing = Annotated[
    str,
    typer.Option(help="Treatment of people without an outcome: refuse, worst (bounds cover any outcome) or drop."),
]
Level = Annotated[float, typer.Option(help="Confidence of the intervals.")]
DrawSeed = Annotated[int, typer.Option(help="Seed of the draws behind the intervals.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
