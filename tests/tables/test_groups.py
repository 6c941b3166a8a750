"""What rows add up to by the values of a column: the same as of the rows that have them, asked alone."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.linear_model import LogisticRegression

from countermax import InputError, Predicted, Refit, Rows, Utilities

LABELS = ["left", "less", "stayed"]
SCORE = {"left": 0.0, "less": 0.4, "stayed": 1.0}
ASK = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}


def customers(count=9000, seed=0):
    rng = np.random.default_rng(seed)
    segment = rng.choice(["old", "new", "firm"], count, p=[0.6, 0.3, 0.1])
    p, q = (rng.dirichlet(each, count) for each in ([2, 3, 4], [1, 3, 5]))
    x = (p.cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)
    frame = pd.DataFrame({"segment": segment, "status": np.array(LABELS)[x], "same": rng.random(count) < 0.1})
    for name, world in (("p_", p), ("q_", q)):
        frame[[name + label for label in LABELS]] = world
    return frame


VERBS = {
    "transitions": lambda rows: rows.transitions(num_resamples=0),
    "effects": lambda rows: rows.effects(["gumbel-max"]),
    "causes": lambda rows: rows.causes("stayed", couplings=["gumbel-max"]),
    "switching": lambda rows: rows.switching(),
}


def asked(verb):
    if verb == "switching":
        return {"factual": "p_", "counterfactual": "q_", "utilities": Utilities(), "unchanged": "same"}
    return ASK | {"score": SCORE, "unchanged": "same"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_group_has_the_numbers_of_its_rows_asked_alone_and_the_whole_those_of_all(verb):
    frame = customers()
    if verb == "switching":
        frame[[each for each in frame if each[1] == "_"]] *= 3.0  # utilities need not sum to one
    found, whole = VERBS[verb](Rows(frame, **asked(verb)).by("segment")), VERBS[verb](Rows(frame, **asked(verb)))
    numbers = found.to_frame().set_index(["about", "quantity", "coupling"])
    pd.testing.assert_frame_equal(numbers.iloc[: len(whole.rows)], whole.to_frame().set_index(numbers.index.names))
    assert list(found.groups) == ["segment = firm", "segment = new", "segment = old"]
    for name, group in found.groups.items():
        alone = VERBS[verb](Rows(frame[frame.segment == name.removeprefix("segment = ")], **asked(verb)))
        assert (group.num_rows, group.num_unchanged) == (alone.num_rows, alone.num_unchanged) if verb != "causes" else 1
        for row in alone.rows:
            about = name if row.about in ("everybody", "rows") else f"{name}, {row.about}"
            again = numbers.loc[(about, row.quantity, row.coupling)]
            np.testing.assert_allclose(again.astype(float), np.array(row[3:], float), rtol=1e-9, atol=1e-12)
    assert "segment = firm" in str(found)
    assert json.loads(found.to_json())["rows"][-1]["about"].startswith("segment = old")


def test_every_source_divides_rows_alike(tmp_path):
    frame = customers(3000)
    frame.loc[5, "segment"] = None
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    for place in range(3):
        frame.iloc[1000 * place : 1000 * place + 1000].to_parquet(pieces / f"{place}.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    table = pa.Table.from_pandas(frame)
    sums = Rows(table.schema, **ASK, labels=LABELS).by("segment").sums("transitions", num_resamples=20)
    for place in range(3):
        sums.add(table.slice(1000 * place, 1000))
    whole = Rows(frame, **ASK).by("segment").transitions(num_resamples=20)
    assert list(whole.groups) == ["segment missing", "segment = firm", "segment = new", "segment = old"]
    others = [Rows(each, **ASK).by("segment").transitions(num_resamples=20) for each in (pieces, tmp_path / "rows.csv")]
    for found in [*others, sums.result()]:
        for each, own in zip(found.rows, whole.rows, strict=True):
            assert each[:3] == own[:3]
            np.testing.assert_allclose(np.array(each[3:], float), np.array(own[3:], float), rtol=1e-6, atol=1e-9)


def test_intervals_are_those_of_a_mean_of_as_many_as_were_seen():
    """By the formula of a mean's standard error; the noise of 2,000 resamples is 2 % of a width, 6 are allowed."""
    frame = customers()
    found = Rows(frame, **ASK).by("segment").transitions(num_resamples=2000)
    probs = (
        Rows(frame, **ASK).counterfactuals(bounds="none")[[f"counterfactual_{label}" for label in LABELS]].to_numpy()
    )
    parts = {"": np.full(len(frame), True)} | {f"segment = {each}": frame.segment == each for each in ("old", "firm")}
    for name, among in parts.items():
        result = found.groups[name] if name else found
        variances = np.zeros(3)
        for place, label in enumerate(LABELS):
            own = probs[among & (frame.status == label)]
            spread = 1.96 * own.std(axis=0) * np.sqrt(len(own))
            variances += own.var(axis=0) * len(own)
            lower, upper = (limit[place] for limit in result.counts_interval[:2])
            np.testing.assert_allclose(upper - lower, 2 * spread, rtol=0.12)
            assert (upper <= len(own)).all()
        rows = [result.row(f"count({label})", "Gumbel-max", "everybody") for label in LABELS]
        np.testing.assert_allclose([each.ci_upper - each.ci_lower for each in rows], 3.92 * variances**0.5, rtol=0.12)


def test_refits_have_intervals_of_each_group_that_hold_what_was_found():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"offer": rng.integers(0, 2, 300), "age": rng.normal(size=300)})
    frame["old"] = frame.age > 0
    chance = 1 / (1 + np.exp(-0.8 * frame.offer - frame.age))
    frame["status"] = np.where(rng.random(300) < chance, "stayed", "left")
    model = LogisticRegression().fit(frame[["offer", "age"]], frame.status)
    worlds = {"factual": Predicted(model, {"offer": 0}), "counterfactual": Predicted(model, {"offer": 1})}
    rows = Rows(frame, outcome="status", **worlds, refit=Refit(num_resamples=8), score={"left": 0, "stayed": 1}).by(
        "old"
    )
    for found in (rows.transitions(), rows.effects(["gumbel-max"]), rows.causes("stayed")):
        known = [row for row in found.rows if row.ci_lower is not None and row.about.startswith("old = ")]
        assert len({row.about.split(",")[0] for row in known}) == 2
        for row in known:
            ends = (row.value, row.value) if row.lower is None else (row.lower, row.upper)
            assert row.ci_lower - 1e-9 <= ends[0] <= ends[1] <= row.ci_upper + 1e-9
        young, old = (group.rows[1] for group in found.groups.values())
        assert young[5:] != old[5:]


def test_a_column_with_many_values_is_refused():
    frame = customers(300)
    frame["number"] = range(300)
    rows = Rows(frame, **ASK)
    with pytest.raises(InputError, match="`by` must name a column with at most 200 values, got more: 0, 1, 2, ..."):
        rows.by("number").transitions(num_resamples=0)
    with pytest.raises(InputError, match="`by` must name a column, got 'part'"):
        rows.by("part")


def test_the_summary_says_how_many_of_each_group_keep_their_outcome():
    found = VERBS["transitions"](Rows(customers(), **ASK).by("segment"))
    told = found.summary()
    for name, group in found.groups.items():
        assert f"{name}: {100 * np.trace(group.counts) / group.num_rows:.0f} % (" in told
    assert "by group" not in VERBS["transitions"](Rows(customers(), **ASK)).summary()
