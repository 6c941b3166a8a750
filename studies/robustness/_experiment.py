"""The plan and the page: for each family of processes, how many gains called robust are none."""

from collections.abc import Mapping
from typing import final

from countermax._core.sheet import Sheet, Value
from studies.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.robustness._trials import (
    FAMILIES,
    HORIZON,
    NUM_RESAMPLES,
    Family,
    robust_gains,
    sepsis_gains,
)

_SEPSIS = "sepsis"
_NUM_PROCESSES = {"quick": 2, "published": 30, "best": 30}
_NUM_PATIENTS = {"quick": 50, "published": 1000, "best": 1000}
_COST_OF_A_PROCESS = 5.0


@final
class Robustness(AbstractExperiment):
    """Random processes that are known, and policies optimised on estimates of them."""

    name = "robustness"
    title = "Are gains called robust gains in truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each family, and one for the sepsis patients; `seeds` counts the processes."""
        number = _NUM_PROCESSES[checked_preset(preset)] if seeds is None else seeds
        common = {"horizon": HORIZON, "num_processes": number, "num_resamples": NUM_RESAMPLES}
        families = [
            Cell(self.name, name, {**family._asdict(), **common}, cost=number * _COST_OF_A_PROCESS)
            for name, family in FAMILIES.items()
        ]
        patients = {"num_episodes": _NUM_PATIENTS[preset], "num_resamples": NUM_RESAMPLES}
        return [*families, Cell(self.name, _SEPSIS, patients, cost=60.0)]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Counts of gains."""
        if context.train_only:
            return None
        settings = cell.settings
        if cell.name == _SEPSIS:
            return sepsis_gains(settings["num_episodes"], settings["num_resamples"])
        family = Family(settings["num_states"], settings["num_successors"], settings["num_episodes"])
        return robust_gains(family, settings["num_processes"], settings["num_resamples"], context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """Gains by what was asked for: every mechanism of the estimate, or every model too."""
        headers = (
            "processes",
            "every mechanism of the estimate",
            "of these wrong",
            "robust: with 95 % confidence in the model too",
            "of these wrong",
            "true gains found",
        )
        lines: list[list[Value]] = [
            [
                name,
                str(each["agreed"]),
                _share(each["agreed_wrongly"], each["agreed"]),
                str(each["robust"]),
                _share(each["robust_wrongly"], each["robust"]),
                _share(each["found"], each["true"]),
            ]
            for name, each in sorted(stored.items())
            if name != _SEPSIS
        ]
        sheet = Sheet("Gains of episodes that are called robust", headers, ("",) * len(headers), lines)
        words = [
            "Processes are drawn at random and known; a log is drawn from each, a process is estimated from the log, "
            "and the policy is the one that looks best on the estimate: the hardest case for claims about it. A gain "
            "is wrong if it is not one under every mechanism of the true process.",
        ]
        if _SEPSIS in stored:
            found = stored[_SEPSIS]
            words.append(
                f"Of {found['episodes']} sepsis patients, {found['agreed']} are told of a gain by every mechanism of "
                f"the estimate, and {found['robust']} of a robust one; the policy is worth {found['true_value']:.3f} "
                f"in truth where {found['observed']:.3f} was observed."
            )
        return Section(self.title, words, {"robustness": sheet})


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"
