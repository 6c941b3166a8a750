"""The reference names every public name of decision processes."""

import re
from pathlib import Path

import countermax.mdp


def test_every_public_name_of_decision_processes_is_in_the_reference():
    reference = (Path(__file__).parents[2] / "docs/reference.md").read_text()
    for module in (countermax.mdp, countermax.mdp.processes.sepsis):
        public = re.findall(r" as (\w+)$", Path(module.__file__).read_text(), re.MULTILINE)
        assert len(public) > 10
        assert [name for name in public if not re.search(rf"\b{name}\b", reference)] == []
