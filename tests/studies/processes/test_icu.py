"""The process of the package icu-sepsis, against its published baselines."""

import numpy as np
import pytest

from countermax import InputError
from countermax.mdp import policy_iteration, policy_value
from countermax.mdp._planning import state_distributions
from studies.processes import icu
from studies.processes.icu import icu_sepsis


def test_the_icu_process_has_its_published_baselines():
    """Returns .78, .78, .88 and lengths 9.45, 9.22, 10.99 of the random, the expert and the optimal policy."""
    icu = icu_sepsis()
    assert icu.mdp.probs.shape[:2] == (716, 25)
    assert icu.mdp.absorbing.nonzero()[0].tolist() == [713, 714, 715]
    assert icu.admissible.sum() == 2313
    policies = [np.full((716, 25), 1 / 25), icu.expert_policy, policy_iteration(icu.mdp).policy]
    for policy, value, length in zip(policies, (0.78, 0.78, 0.88), (9.45, 9.22, 10.99), strict=True):
        assert abs(policy_value(icu.mdp, policy) - value) < 0.005
        steps = state_distributions(icu.mdp, policy, 400)[:, ~icu.mdp.absorbing].sum()
        assert abs(steps - length) < 0.03


def test_the_icu_process_can_keep_to_what_was_seen():
    icu = icu_sepsis(admissible_only=True)
    np.testing.assert_array_equal(icu.mdp.allowed, icu.admissible | icu.mdp.absorbing[:, None])
    assert icu.admissible[np.arange(716), policy_iteration(icu.mdp).actions][:713].all()


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(icu, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install icu-sepsis"):
        icu_sepsis()


@pytest.mark.parametrize("damage", ["cut", "text", "missing", "nan", "flat", "short", "actions"])
def test_damaged_data_are_told_in_one_line(damage, tmp_path, monkeypatch):
    arrays = {name: np.ones((3, 2, 3)) for name in icu._ARRAYS}
    if damage == "missing":
        del arrays["sofa_scores"]
    if damage in ("nan", "flat"):
        arrays["tx_mat"] = np.full((3, 2, 3), np.nan) if damage == "nan" else np.ones(3)
    np.savez(tmp_path / "dynamics.npz", **arrays)
    content = (tmp_path / "dynamics.npz").read_bytes()
    (tmp_path / "dynamics.npz").write_bytes({"cut": content[:1000], "text": b"not an archive"}.get(damage, content))
    actions = {"short": "header\n0 1\n", "actions": "header\n0 1\n0 99\n0\n"}
    (tmp_path / "admissible_actions.txt").write_text(actions.get(damage, "header\n0 1\n0\n1\n"))
    monkeypatch.setattr(icu, "_folder", lambda: tmp_path)
    with pytest.raises(InputError, match="cannot read the data of icu-sepsis in .*; install it again"):
        icu_sepsis()
