"""Episodes by the published program's random stream follow the published process; the file is read with care."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from countermax import InputError
from studies.processes import sepsis
from studies.recreated import Stream, read_matrices

PROCESS = sepsis.process(as_published=True)


def test_steps_of_the_stream_follow_the_published_process():
    """Every step is possible, and each kind of next state is as frequent as it should be (false alarm 1e-4)."""
    anything = np.full((PROCESS.num_states, PROCESS.num_actions), 1 / PROCESS.num_actions)
    log = Stream(anything, seed=1).episodes(150)
    steps = log.steps()
    rows = np.array([PROCESS.row(s, a) for s, a in zip(steps.state.tolist(), steps.action.tolist(), strict=True)])
    assert (rows[np.arange(len(rows)), steps.next_state] > 0).all()
    assert (PROCESS.start[log.states[:, 0]] > 0).all()
    values = sepsis.FULL.all_values()
    for place, size in enumerate(sepsis.FULL.sizes[:5]):
        for level in range(size):
            there = values[:, place] == level
            chance = rows[:, there].sum(axis=1)
            missing = there[steps.next_state].sum() - chance.sum()
            assert abs(missing) <= 4.8 * np.sqrt((chance * (1 - chance)).sum()) + 1e-9


def test_a_file_that_holds_more_than_arrays_is_refused(tmp_path):
    path = tmp_path / "matrices.pkl"
    path.write_bytes(pickle.dumps({"tx_mat": Path("anywhere")}))
    with pytest.raises(InputError, match="arrays only"):
        read_matrices(path)
    path.write_bytes(pickle.dumps({"tx_mat": np.zeros(3), "r_mat": np.zeros(3)}))
    with pytest.raises(InputError, match="tx_mat and r_mat"):
        read_matrices(path)
