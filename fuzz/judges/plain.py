"""For calls of which only the form of what comes back is judged."""

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import dirty, refused


def judge(case: Case, outcome: Outcome) -> Failure | None:
    """No traceback, one line, nothing half; and refused, where the case says so."""
    found = dirty(case, outcome, outputs=case.means.get("outputs", ()), statuses=case.means.get("statuses", ()))
    if found is None and case.means.get("refuse") and not refused(outcome):
        return Failure("accepted", str(case.means["refuse"]))
    return found
