"""What a check found, law by law."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractOldResult, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Law(NamedTuple):
    """One law and how the coupling fared."""

    name: str
    passed: bool
    detail: str


@final
@dataclass(frozen=True)
class Conformance(AbstractOldResult):
    """The verdict on a coupling, law by law."""

    coupling: str
    num_outcomes: int
    level: str
    """`quick` or `thorough`."""
    num_samples: int
    """Draws for each statistical law."""
    false_alarm: float
    """The probability that a correct coupling fails any of the statistical laws."""
    laws: tuple[Law, ...]

    @property
    def passed(self) -> bool:
        """Whether all laws hold."""
        return all(law.passed for law in self.laws)

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the laws that do not hold."""
        return tuple(law.name for law in self.laws if not law.passed)

    @property
    def verdict(self) -> str:
        """Whether it conforms, in words, with everything that was seen of broken laws."""
        name = f"{self.coupling} with {self.num_outcomes} outcomes"
        if self.passed:
            return f"{name} conforms: {len(self.laws)} laws hold ({self.level} check)."
        details = "".join(f"\nBROKEN: {law.name}: {law.detail}" for law in self.laws if not law.passed)
        return f"{name} DOES NOT CONFORM: {len(self.broken)} of {len(self.laws)} laws are broken.{details}"

    def raise_if_broken(self) -> None:
        """Fails with the report as the message, for use in a test."""
        if not self.passed:
            raise AssertionError(f"\n{self}")

    def to_frame(self) -> "pd.DataFrame":
        """One row for each law: whether it holds, and what was seen."""
        pd = import_pandas()
        return pd.DataFrame([law._asdict() for law in self.laws]).set_index("name").rename_axis("law")

    def to_dict(self) -> dict[str, Any]:
        """Plain words and numbers."""
        return plain({**vars(self), "passed": self.passed, "verdict": self.verdict})

    def plot(self) -> "Figure":
        """One line for each law, green where it holds."""
        return plotting.draw_verdicts(
            {law.name: law.passed for law in self.laws}, f"{self.coupling}, {self.num_outcomes} outcomes"
        )

    def __rich__(self) -> Group:
        title = (
            f"{self.coupling}, {self.num_outcomes} outcomes; {self.level}, {self.num_samples:,} draws, false alarm "
            f"{self.false_alarm:.0e}"
        )
        table = listing(title, ["law", "holds", "what was seen"], left=3)
        for law in self.laws:
            add_line(table, [law.name, "yes" if law.passed else "NO", law.detail])
        return Group(table, Text(self.verdict))
