"""What a training leaves behind: the coupling, what was seen on the way, and how it ended."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from countermax import _plotting as plotting
from countermax._core.console import Listing, add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractOldResult, plain
from countermax.couplings import AbstractSampler

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Coupling = TypeVar("Coupling", bound=AbstractSampler)


@dataclass(frozen=True)
class History:
    """What was seen during training, one entry for each evaluation."""

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """Mean of the objective since the entry before."""
    held_out: list[float] = field(default_factory=list)
    """Exact loss on held-out pairs."""


@final
@dataclass(frozen=True, eq=False)
class Fit(AbstractOldResult, Generic[Coupling]):
    """A trained coupling, how it came about and how training ended."""

    coupling: Coupling
    history: History
    ended: str
    """`finished` or `patience` (no more progress); `start` where training ended worse on the held-out pairs than it had
    started, so that the coupling is the one it started from; in an error's `fits`, `interrupted` or `non-finite`."""
    optimum: float | None
    """The least loss that any coupling has on the held-out pairs, where it is known."""
    start: float | None = None
    """The loss on the held-out pairs before training; a training that has ended never exceeds it."""

    @property
    def held_out(self) -> float | None:
        """The coupling's exact loss on the held-out pairs; None where it has no exact law, or was not evaluated."""
        if not self.history.held_out or self.ended == "start":
            return self.start
        return self.history.held_out[-1]

    @property
    def above_optimum(self) -> float | None:
        """How far the held-out loss is above the optimum, as a fraction of it."""
        if self.optimum is None or self.held_out is None or self.optimum <= 0:
            return None
        return self.held_out / self.optimum - 1

    def to_frame(self) -> "pd.DataFrame":
        """One row for each evaluation."""
        return import_pandas().DataFrame(vars(self.history))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words; the coupling itself is kept by `countermax.save`."""
        about = {"coupling": type(self.coupling).__name__, "ended": self.ended, "optimum": self.optimum}
        about |= {"start": self.start}
        return plain({**about, "above_optimum": self.above_optimum, "history": vars(self.history)})

    def plot(self, title: str = "Held-out loss during training") -> "Figure":
        """The held-out loss over the steps, with the optimum."""
        curve = {type(self.coupling).__name__: (self.history.step, self.history.held_out)}
        return plotting.draw_curves(curve, self.optimum, title)

    def __rich__(self) -> Listing:
        above = "" if self.above_optimum is None else f", {self.above_optimum:.2%} above the optimum"
        title = f"{type(self.coupling).__name__}: {self.ended} at step {(self.history.step or [0])[-1]}{above}"
        lines = listing(title, ["step", "objective", "held-out loss"], left=0)
        for step, loss, held_out in zip(self.history.step, self.history.loss, self.history.held_out, strict=True):
            add_line(lines, [str(step), f"{loss:.5g}", f"{held_out:.5g}"])
        return lines


class TrainingError(RuntimeError):
    """Training had to stop; `fits` holds the last good state of every member."""

    def __init__(self, message: str, fits: list[Fit[Any]]):
        super().__init__(message)
        self.fits = fits


class TrainingInterrupted(KeyboardInterrupt):
    """Somebody stopped a training (Ctrl-C); `fits` holds what had been learned by then, which is not the result."""

    def __init__(self, message: str, fits: list[Fit[Any]]):
        super().__init__(message)
        self.fits = fits
