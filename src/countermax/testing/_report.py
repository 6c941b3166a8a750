"""What a check found, law by law."""

from dataclasses import dataclass
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text


class Law(NamedTuple):
    """One law and how the coupling fared."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Conformance:
    """The verdict on a coupling, law by law."""

    coupling: str
    num_outcomes: int
    laws: tuple[Law, ...]

    @property
    def passed(self) -> bool:
        """Whether all laws hold."""
        return all(law.passed for law in self.laws)

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the laws that do not hold."""
        return tuple(law.name for law in self.laws if not law.passed)

    def raise_if_broken(self) -> None:
        """Fails with the report as the message, for use in a test."""
        if not self.passed:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        lines = [f"{self.coupling}, {self.num_outcomes} outcomes: {'conforms' if self.passed else 'DOES NOT CONFORM'}"]
        lines += [f"  {'ok    ' if law.passed else 'BROKEN'}  {law.name}: {law.detail}" for law in self.laws]
        return "\n".join(lines)

    def __rich__(self) -> Table:
        # Details quote errors and names; square brackets in them are no markup.
        title = Text(f"{self.coupling}, {self.num_outcomes} outcomes")
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for column in ("law", "holds", "detail"):
            table.add_column(column)
        for law in self.laws:
            table.add_row(Text(law.name), "yes" if law.passed else "[bold red]NO[/]", Text(law.detail))
        return table
