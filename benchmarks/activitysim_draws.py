"""Frozen error terms by ActivitySim itself, for `benchmarks.nests`; run by a Python that has it installed.

    python benchmarks/activitysim_draws.py QUESTION.json

The question has the utilities of one chooser before and after a change, ActivitySim's own tree of nests, how many
copies of the chooser to draw, and how often. The answer is printed as JSON: how many copies switched from what to what,
and the seconds of CPU time that ActivitySim's routine took.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from activitysim.core import logit, workflow


def main(question: dict) -> dict:
    """Draws error terms of many copies of one chooser, and lets them choose before and after the change."""
    names, copies = question["names"], question["copies"]
    size, counts, taken = len(names), np.zeros(len(names) ** 2, np.int64), 0.0
    state = workflow.State().default_settings()
    state.settings.use_explicit_error_terms = True
    generator = state.get_rn_generator()
    for repeat in range(question["repeats"]):
        index = pd.Index(np.arange(copies) + repeat * copies, name="person_id")
        before = pd.DataFrame(np.tile(question["base"], (copies, 1)), index=index, columns=names)
        after = np.asarray(question["scenario"])
        generator.add_channel("persons", before)
        generator.begin_step(f"step {repeat}")
        start = process_time()
        errors = logit.sample_nested_logit_exact_leaf_error_terms(state, before, question["nests"]).to_numpy()
        cells = (before.to_numpy() + errors).argmax(axis=1) * size + (after + errors).argmax(axis=1)
        counts += np.bincount(cells, minlength=size * size)
        taken += process_time() - start
        generator.end_step(f"step {repeat}")
        generator.drop_channel("persons")
    return {"counts": counts.reshape(size, size).tolist(), "seconds": taken, "version": version("activitysim")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
