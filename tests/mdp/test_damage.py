"""Damaged files and arrays: one clear line each, and never an answer that holds NaN."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from processes import LOG, MDP, POLICY, frame_of, steps_and_decisions, write_frames

from countermax import InputError
from countermax.couplings import AbstractMatrixCoupling, AbstractSampler
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, estimate_policy
from countermax.mdp._estimation import policy_rows, softened
from countermax.mdp._files import read_log_and_policy
from countermax.mdp._importance import effective_sample_size, importance_estimates, importance_ratios
from studies.queries import query

HEADER = b"episode,step,state,action,next_state,reward\n"
POLICY_FILE = b"state,action,probability\nill,wait,1\n"
KEY = jax.random.key(0)


@pytest.fixture
def refusal(tmp_path):
    """The message for these files, in one line, with the file's name in it."""

    def read(log=HEADER + b"a,0,ill,wait,home,1\n", policy=POLICY_FILE, *, blamed):
        paths = tmp_path / "steps.csv", tmp_path / "policy.csv"
        for path, content in zip(paths, (log, policy), strict=True):
            path.write_bytes(content)
        with pytest.raises(InputError) as refused:
            read_log_and_policy(*paths)
        message = str(refused.value)
        assert str(tmp_path / blamed) in message
        assert len(message.splitlines()) == 1
        return message

    return read


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (b"", "must begin with a line of column names, but is empty"),
        (HEADER, "at least one step, got no rows"),
        (HEADER + b"a,0,ill,wait,home\n", "line 2 must have 6 cells, as the header has, got 5"),
        (HEADER + b"a,0,ill,wait,home,1,2\n", "line 2 must have 6 cells, as the header has, got 7"),
        (HEADER + b"a,0,ill,wait,home,1\n\nb,0,ill\n", "line 4 must have 6 cells, as the header has, got 3"),
        (HEADER + b'a,0,"ill,wait,home,1\n', "must close every quoted cell, but ends in one"),
        (HEADER + b"a,0,ill,wait,home,1\n" * 2, "`step` must be different in each row of an episode, got '0'"),
        (HEADER + b"a,01,ill,wait,ill,1\na,1,ill,wait,home,1\n", "`step` must be different in each row of an episode"),
        (
            HEADER + b"a,1,ill,wait,ill,1\na,3,ill,wait,home,1\n",
            "`step` must count 1, 2, 3, ... without a gap",
        ),
        (HEADER + b"a,0x1,ill,wait,home,1\n", "`step` must hold finite numbers, got '0x1'"),
        (HEADER + b"a,0.5,ill,wait,home,1\n", "`step` must hold whole numbers, got '0.5'"),
        (HEADER + b"a,1e300,ill,wait,home,1\n", "`step` must hold whole numbers, got '1e300'"),
        (HEADER + b"a,0,ill,wait,home,nan\n", "`reward` must hold finite numbers, got 'nan'"),
        (HEADER + b"a,0,ill,wait,home,1e400\n", "`reward` must hold finite numbers, got '1e400'"),
        (HEADER + b"a,0,ill,wait,home,1e300\n", "`reward` must lie within 1e+100, got '1e300'"),
        (HEADER + b"a,0,ill,wait,home,\n", "`reward` must hold finite numbers, got nothing"),
        (HEADER + b",0,ill,wait,home,1\n", "`episode` must name an episode, got nothing"),
        (HEADER + b"a,0,ill,,home,1\n", "`action` must not be missing, got nothing"),
        (HEADER + b"a,0,ill,wait,g\xe9n\xe9,1\n", "must be UTF-8, but line 2 has the byte 0xe9"),
        ((HEADER + b"a,0,ill,wait,home,1\n").decode().encode("utf-16"), "must be UTF-8, but is UTF-16"),
        (
            HEADER.replace(b"next_state", b"state"),
            "must have each column once, but has 'state' twice",
        ),
        (
            HEADER.replace(b"reward", b"reward,state") + b"a,0,ill,wait,home,1,ill\n",
            "must have each column once, but has 'state' twice",
        ),
        (POLICY_FILE, "lacks episode, step, next_state, reward; it has 'state', 'action', 'probability'; are the two"),
    ],
)
def test_a_damaged_log_is_refused_in_one_line(refusal, log, message):
    assert message in refusal(log, blamed="steps.csv")


def test_parquet_with_texts_that_are_not_utf_8_is_refused_in_one_line(tmp_path):
    log, policy = tmp_path / "steps.parquet", tmp_path / "policy.csv"
    frame_of(("a", 0, "ill", "zzzz", "home", 1.0)).to_parquet(log, compression=None)
    log.write_bytes(log.read_bytes().replace(b"zzzz", b"z\xe9zz"))
    policy.write_bytes(b"state,action\nill,wait\n")
    with pytest.raises(InputError, match=r"cannot read .*steps\.parquet: .*UTF8"):
        read_log_and_policy(log, policy)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (b"", "must begin with a line of column names, but is empty"),
        (b"state,action,probability\n", "must have a row for each state in which the log acts, but has none for 'ill'"),
        (b"state,action,probability\nill,wait,0.5\n", "must sum to one in each state, got 0.5 in state 1 (ill)"),
        (b"state,action,probability\nill,wait,-1\nill,treat,2\n", "must be finite and not negative, got -1 in state 1"),
        (b"state,action,probability\nill,wait,nan\n", "row 0: `probability` must hold finite numbers, got 'nan'"),
        (
            b"state,action,probability\nill,wait,1\nill,wait,0\n",
            "`action` must be given once in state ill",
        ),
        (b"state,action\nill,wait\nill,treat\n", "must have a column probability if a state has several actions, as"),
        (
            b"state,action,probability\n ill,wait,1\n",
            "must have a row for each state in which the log acts, but has none for 'ill'",
        ),
        (HEADER + b"a,0,ill,wait,home,1\n", "but has those of a log; are the two files swapped?"),
    ],
)
def test_a_damaged_policy_is_refused_in_one_line(refusal, policy, message):
    assert message in refusal(policy=policy, blamed="policy.csv")


def test_a_mark_at_the_beginning_and_either_end_of_line_are_read(tmp_path):
    paths = tmp_path / "steps.csv", tmp_path / "policy.csv"
    paths[0].write_bytes(b"\xef\xbb\xbf" + (HEADER + b'a,0,"i\nll",wait,home,1\n').replace(b"0\n", b"0\r\n"))
    paths[1].write_bytes(b'state,action\r\n"i\nll",wait\r\n')
    assert read_log_and_policy(*paths).log.state_names == ("home", "i\nll")


def test_a_parquet_file_that_says_it_is_huge_is_refused_before_it_is_read(tmp_path, monkeypatch):
    frames = steps_and_decisions(LOG, POLICY)
    paths = tmp_path / "steps.parquet", tmp_path / "policy.parquet"
    for frame, path in zip(frames, paths, strict=True):
        frame.to_parquet(path)
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "0.000001")
    with pytest.raises(InputError, match=r"steps\.parquet.*rows of 6 columns would need about .*, and the limit is"):
        read_log_and_policy(*paths)
    monkeypatch.undo()
    for broken in (paths[0].read_bytes()[:-20], b"PAR1" + bytes(100) + b"PAR1", b""):
        paths[0].write_bytes(broken)
        with pytest.raises(InputError, match=r"cannot read .*steps\.parquet: "):
            read_log_and_policy(*paths)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probs": np.full(MDP.probs.shape, np.nan)}, "needs probabilities"),
        ({"probs": np.full(MDP.probs.shape, np.inf)}, "probabilities must sum to one"),
        ({"probs": -MDP.probs}, "needs probabilities"),
        ({"probs": MDP.probs * 0.9}, "probabilities must sum to one"),
        ({"probs": MDP.probs.astype(str)}, "`probs` must hold numbers"),
        ({"probs": MDP.probs[0]}, r"`probs` must be \[state, action, slot\]"),
        ({"probs": None}, "`probs` must hold numbers, got None"),
        ({"rewards": np.full(MDP.probs.shape, 1e200)}, r"finite rewards within 1e\+100"),
        ({"successors": MDP.successors + 0.5}, "`successors` must hold integers, got float64"),
        ({"successors": MDP.successors + 9}, r"`successors` must lie in 0\.\.3, got 9"),
        ({"successors": MDP.successors[:, :, ::-1]}, "reachable successors must come first"),
        ({"start": [0.5, np.nan, 0.5, 0]}, "`start` must be finite and not negative, got nan for state 1"),
        ({"start": [0.5, 0.2, 0.2, 0]}, "`start` must sum to one, got 0.9"),
        ({"absorbing": [0, 0, 0, 1]}, "`absorbing` must hold booleans, got int64"),
        ({"allowed": np.full((4, 2), 2)}, "`allowed` must hold booleans, got int64"),
        ({"counts": np.full(MDP.probs.shape, -1)}, "`counts` must hold whole numbers, got -1"),
        ({"discount": np.nan}, "`discount` must be a finite number, got nan"),
        ({"discount": None}, "`discount` must be a finite number, got None"),
        ({"state_names": ("a", "b", "c", "a")}, "`state_names` must hold 4 different names, got 3 in 4"),
    ],
)
def test_a_damaged_process_is_refused(change, message):
    fields = {name: getattr(MDP, name) for name in FiniteMDP.__dataclass_fields__}
    with pytest.raises(InputError, match=message):
        FiniteMDP(**fields | change)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: softened([[np.nan, 1.0]], 0.9), "`policy` must hold finite numbers, got nan at entry 0"),
        (lambda: policy_rows(MDP, [["0.5", "0.5"]] * 4), "`policy` must hold numbers, got"),
        (lambda: policy_rows(MDP, [[0.5, 0.5 + 1j]] * 4), "`policy` must hold numbers, got"),
        (lambda: estimate_policy(LOG, pseudo_count=np.inf), "`pseudo_count` must be a finite number"),
        (lambda: Cohort(LOG, POLICY, process=MDP).bounds(final=[np.nan] * 4), "`final` must hold finite numbers"),
        (
            lambda: Cohort(LOG, POLICY, process=MDP).bounds(rewards=[0.0] * 4),
            "`rewards` must be a number or have shape",
        ),
        (lambda: query(MDP, 0, 0, 1).outcome_of(2.5), "`next_state` must be reachable from state 0, got 2.5"),
        (
            lambda: Cohort(LOG, POLICY, process=MDP).rank(7),
            "`couplings` must be words or files, or couplings by name",
        ),
        (lambda: Cohort(LOG, POLICY, process=MDP).rank([1]), r"couplings by name, got \[1\]"),
        (lambda: LOG.select([0.5]), "`episodes` must hold integers, got float64"),
        (
            lambda: EpisodeLog.from_frame({"state": [1]}),
            "`frame` must be a pandas or polars DataFrame or an Arrow table, got dict",
        ),
        (
            lambda: EpisodeLog.from_frame(pd.concat([LOG.to_frame(), LOG.to_frame()[["state"]]], axis=1)),
            "each of them once, but has state 2 times",
        ),
        (
            lambda: EpisodeLog.from_frame(LOG.to_frame().astype({"state": np.uint64}).assign(next_state=2.0**60)),
            "`next_state` must hold whole numbers",
        ),
    ],
)
def test_numbers_that_would_become_nan_or_others_are_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()


def test_an_estimate_without_a_value_is_none_and_not_nan():
    log = EpisodeLog.from_frame(
        frame_of(("a", 0, 0, 0, 1, 1.0), ("a", 1, 1, 1, 2, 1.0), ("b", 0, 0, 1, 1, 0.0), ("b", 1, 1, 0, 2, 0.0))
    )
    never = np.array([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])  # one did the first, the other the second
    found = Cohort(log, never).evaluate(["maximal"], num_resamples=2)
    assert found["weighted importance sampling"].value is None
    assert found["weighted importance sampling"].interval is None
    assert "weighted importance sampling" in str(found)
    assert "nan" not in str(found).lower()
    assert '"value": null' in found.to_json()
    assert found.plot() is not None


def test_weights_beyond_all_numbers_are_refused_and_large_ones_are_counted():
    steps = [("a", step, 0, 0, 0, 1.0) for step in range(200)]
    log = EpisodeLog.from_frame(frame_of(*steps), num_actions=2)
    behaviour, target = np.array([[1e-3, 1 - 1e-3]]), np.array([[1.0, 0.0]])
    with pytest.raises(InputError, match=r"more than 1e\+150 times as likely .* episode a by step 50: importance"):
        importance_ratios(log, target, behaviour)
    assert effective_sample_size(np.array([[1e150], [1e150]])) == pytest.approx(2)
    short = EpisodeLog.from_frame(frame_of(*steps[:40]), num_actions=2)
    assert np.isfinite(importance_estimates(short, importance_ratios(short, target, behaviour), discount=1.0)).all()


@final
class Silent(AbstractMatrixCoupling):
    """A coupling that has no answer."""

    num_outcomes = None

    def _joint(self, log_p, log_q):
        return jnp.full((log_p.size, log_p.size), jnp.nan)

    def _counterfactual_probs(self, log_p, log_q, x):
        return jnp.full(log_p.shape, jnp.nan)


@final
class Astray(AbstractSampler):
    """Draws an outcome that cannot be."""

    num_outcomes = None

    def _pair(self, log_p, log_q, *, key):
        return jnp.argmax(log_p), jnp.argmin(log_q)

    def _counterfactual(self, log_p, log_q, x, *, key):
        return jnp.argmin(log_q)


def test_a_coupling_without_an_answer_is_an_error_and_never_an_argmax():
    for ask in (
        lambda: Cohort(LOG, POLICY, process=MDP).replay(Silent()),
        lambda: Cohort(LOG, POLICY, process=MDP).rank({"silent": Silent()}),
    ):
        with pytest.raises(InputError, match="must answer with outcomes that are possible, but Silent does not"):
            ask()
    with pytest.raises(InputError, match="must answer with outcomes that are possible, but Astray does not"):
        Cohort(LOG, POLICY, process=MDP).sample(Astray(), num_samples=3)


def test_a_log_given_for_a_policy_in_a_frame_is_refused(tmp_path):
    steps, _ = steps_and_decisions(LOG, POLICY, names=True)
    with pytest.raises(InputError, match=r"policy\.csv: the policy must have .*are the two files swapped"):
        read_log_and_policy(*write_frames((steps, steps), tmp_path))
