"""Dataframes in, dataframes out: labels and index are kept, and the numbers are those of `compare`."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from asking import counterfactuals, effects, transitions
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from countermax import Gadget2, GumbelMax, InputError, InverseCDF, Maximal, Worlds, save
from countermax._core.labels import Written
from countermax.couplings import AbstractCoupling, Comonotone
from countermax.tables import Predicted

LABELS = ["dead", "ill", "well"]
SCORE = {"dead": 0.0, "ill": 1.0, "well": 2.0}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
ASK = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}


def patients(count=7, seed=0):
    """Columns of a small table, every outcome among them; some rows repeat."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet([2, 3, 4], count), rng.dirichlet([1, 3, 5], count)
    p[count // 2], q[count // 2] = p[0], q[0]
    columns = {"id": np.arange(100, 100 + count), "status": [LABELS[row % 3] for row in range(count)]}
    columns |= {f"p_{label}": p[:, place] for place, label in enumerate(LABELS)}
    return columns | {f"q_{label}": q[:, place] for place, label in enumerate(LABELS)}


def column(frame, name):
    return frame[name].to_pylist() if isinstance(frame, pa.Table) else list(frame[name])


def numbers_of(frame, names):
    return np.array([column(frame, name) for name in names], float).T


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_row_has_the_answer_of_compare(library):
    columns = patients()
    frame = LIBRARIES[library](columns)
    result = counterfactuals(frame, **ASK, score=SCORE)
    assert type(result) is type(frame)
    for row in range(7):
        p, q = ([columns[f"{world}_{label}"][row] for label in LABELS] for world in "pq")
        one = Worlds(p, q, labels=LABELS, score=list(SCORE.values())).compare(columns["status"][row])
        limits = np.stack(one.bounds, axis=1).ravel()
        bounds, score = (one.row("expected score", name) for name in ("any coupling", "Gumbel-max"))
        numbers = [*one.probabilities["Gumbel-max"], score.value, bounds.lower, bounds.upper, *limits]
        names = [f"counterfactual_{label}" for label in LABELS]
        names += [f"counterfactual_score{side}" for side in ("", "_lower", "_upper")]
        names += [f"counterfactual_{label}_{side}" for label in LABELS for side in ("lower", "upper")]
        assert_allclose(numbers_of(result, names)[row], numbers, atol=1e-14)
        assert (
            column(result, "counterfactual_most_likely")[row] == LABELS[int(one.probabilities["Gumbel-max"].argmax())]
        )
        assert column(result, "counterfactual_coupling_matters")[row] == one.coupling_matters


def test_columns_come_behind_the_frames_own_and_nothing_else_changes():
    frame = pd.DataFrame(patients(), index=list("tuvwxyz"))
    before = frame.copy()
    result = counterfactuals(frame, **ASK)
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(result[list(frame.columns)], frame)
    assert list(result.columns[len(frame.columns) :]) == [
        *(f"counterfactual_{label}" for label in LABELS),
        "counterfactual_most_likely",
        *(f"counterfactual_{label}_{side}" for label in LABELS for side in ("lower", "upper")),
        "counterfactual_coupling_matters",
    ]


def test_probabilities_may_come_in_any_form():
    columns = patients()
    frame = pd.DataFrame(columns)
    p, q = (frame[[f"{world}_{label}" for label in LABELS]].to_numpy() for world in "pq")
    expected = counterfactuals(frame, **ASK)
    shuffled = ["well", "dead", "ill"]
    named = {label: f"q_{label}" for label in shuffled}  # in another order than `factual`
    forms = [
        {"factual": p, "counterfactual": q, "labels": LABELS},
        {"factual": [f"p_{label}" for label in LABELS], "counterfactual": named, "labels": LABELS},
        {"factual": pd.DataFrame(p, columns=LABELS), "counterfactual": pl.DataFrame(q, schema=LABELS)},
    ]
    pd.testing.assert_frame_equal(counterfactuals(frame, **(ASK | {"outcome": tuple(frame["status"])})), expected)
    for form in forms:
        pd.testing.assert_frame_equal(counterfactuals(frame, outcome="status", **form), expected)
        pd.testing.assert_frame_equal(counterfactuals(frame, outcome=frame["status"], **form), expected)
    reordered = counterfactuals(frame, **ASK, labels=shuffled)
    pd.testing.assert_frame_equal(reordered[expected.columns], expected)
    counts = frame.assign(**{f"p_{label}": 40 * frame[f"p_{label}"] for label in LABELS})
    normalised = counterfactuals(counts, **ASK, normalise=True)
    assert_allclose(normalised.filter(like="counterfactual_dead"), expected.filter(like="counterfactual_dead"))


@pytest.mark.parametrize("coupling", ["maximal", "comonotone", "file"])
def test_any_coupling_can_be_asked(coupling, tmp_path):
    import jax

    frame = pd.DataFrame(patients())
    gadget = Gadget2(3, 2, key=jax.random.key(0), hidden=(4,), rounds=1)
    file = save(gadget, tmp_path / "gadget.npz")
    couplings = {
        "maximal": ("maximal", Maximal()),
        "comonotone": ("comonotone", Comonotone(list(SCORE.values()))),
        "file": (file, gadget),
    }
    given, same = couplings[coupling]
    result = counterfactuals(frame, **ASK, coupling=given, bounds="none", score=SCORE)
    with jax.enable_x64(True):
        p, q = (np.log(frame[[f"{world}_{label}" for label in LABELS]].to_numpy()[0]) for world in "pq")
        expected = eqx.filter_jit(same.counterfactual_probs)(p, q, 0)
    assert_allclose(result[[f"counterfactual_{label}" for label in LABELS]].iloc[0], expected, atol=1e-12)
    assert not [name for name in result.columns if name.endswith("_lower")]


def test_stable_bounds_lie_within_the_others_and_hold_gumbel_max():
    frame = pd.DataFrame(patients())
    loose, stable = counterfactuals(frame, **ASK), counterfactuals(frame, **ASK, bounds="stable")
    for label in LABELS:
        probability = loose[f"counterfactual_{label}"]
        for one, other in ((loose, stable), (stable, stable)):
            assert (one[f"counterfactual_{label}_lower"] <= other[f"counterfactual_{label}_lower"] + 1e-12).all()
            assert (one[f"counterfactual_{label}_upper"] >= other[f"counterfactual_{label}_upper"] - 1e-12).all()
        assert (stable[f"counterfactual_{label}_lower"] <= probability + 1e-12).all()
        assert (stable[f"counterfactual_{label}_upper"] >= probability - 1e-12).all()


def outcomes_of_every_kind():
    """A column of outcomes, the labels that its worlds are called by, and what the result must look like."""
    unused = pd.CategoricalDtype(["well", "unused", "ill", "dead"], ordered=True)
    words = pd.Series(["dead", "ill", "well", "ill"])
    flags, numbers = pd.Series([True, False, True, False]), pd.Series([7, -2, 40, 7])
    return {
        "strings": (words, LABELS),
        "objects": (words.astype(object), LABELS),
        "categories": (words.astype(unused), LABELS),
        "categories without a label": (words.astype("category"), [*LABELS, "cured"]),
        "booleans": (flags, [False, True]),
        "nullable booleans": (flags.astype("boolean"), [True, False]),
        "booleans by name": (flags, [Written("true"), Written("False")]),
        "integers": (numbers, [-2, 7, 40]),
        "integers by name": (numbers.astype("Int64"), [Written(each) for each in ("40", "-2", "7.0", "8")]),
        "whole floats": (numbers.astype(float), [-2, 7, 40]),
    }


@pytest.mark.parametrize("kind", outcomes_of_every_kind())
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_labels_keep_their_type(kind, library):
    outcome, labels = outcomes_of_every_kind()[kind]
    size = len(labels)
    p = np.random.default_rng(1).dirichlet(np.ones(size), 4)
    frame = pd.DataFrame({"y": outcome})
    frame = frame if library == "pandas" else pl.from_pandas(frame)
    result = counterfactuals(frame, outcome="y", factual=p, counterfactual=p, labels=labels)
    likeliest = result["counterfactual_most_likely"]
    assert list(likeliest) == list(frame["y"])  # equal worlds: Gumbel-max changes nothing
    if kind == "categories without a label" and library == "pandas":
        assert set(likeliest.cat.categories) == {*LABELS, "cured"}
    else:
        assert likeliest.dtype == frame["y"].dtype


def test_an_enumeration_of_polars_stays_one_unless_a_label_is_not_in_it():
    p = np.full((3, 3), 1 / 3)
    for categories, labels in ((["well", "unused", "ill", "dead"], LABELS), (["ill", "dead"], [*LABELS[:2], "cured"])):
        frame = pl.DataFrame({"y": ["dead", "ill", "dead"]}, schema={"y": pl.Enum(categories)})
        result = counterfactuals(frame, outcome="y", factual=p, counterfactual=p, labels=labels)
        likeliest = result["counterfactual_most_likely"]
        assert likeliest.to_list() == ["dead", "ill", "dead"]
        assert likeliest.dtype == (frame["y"].dtype if "cured" not in labels else pl.String)


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_without_an_answer_are_named_or_left_missing(library):
    columns = patients()
    columns["status"][1] = None
    columns["status"][2] = "cured"
    columns["p_ill"][3] = np.nan
    columns["q_well"][4] += 0.25
    columns["p_dead"][5] = -0.1
    columns["p_dead"][6], columns["p_ill"][6] = 0.0, columns["p_ill"][6] + columns["p_dead"][6]
    frame = LIBRARIES[library](columns)
    result = counterfactuals(frame, **ASK, errors="missing")
    problems = column(result, "counterfactual_problem")
    expected = [
        "'status' is missing",
        "the outcome 'cured' is none of the labels 'dead', 'ill', 'well'",
        "the `factual` probability of 'ill' is missing",
        "the `counterfactual` probabilities sum to 1.25, not to 1; pass normalise=True",
        "the `factual` probability of 'dead' is -0.1",
        "'dead' was observed but has probability zero",
    ]
    assert problems[0] is None or problems[0] != problems[0]
    for problem, words in zip(problems[1:], expected, strict=True):
        assert words in problem
    good = counterfactuals(LIBRARIES[library]({name: values[:1] for name, values in columns.items()}), **ASK)
    names = [f"counterfactual_{label}{side}" for label in LABELS for side in ("", "_lower", "_upper")]
    assert_allclose(numbers_of(result, names)[:1], numbers_of(good, names))
    assert np.isnan(numbers_of(result, names)[1:]).all()
    for name in ("counterfactual_most_likely", "counterfactual_coupling_matters"):
        assert all(value is None or value is pd.NA or value != value for value in column(result, name)[1:])
    with pytest.raises(InputError, match=r"row 1 \(counted from 0\) cannot be answered: the outcome in 'status' is mi"):
        counterfactuals(frame, **ASK)


def test_an_error_names_the_row_by_its_index():
    frame = pd.DataFrame(patients(), index=[f"patient {row}" for row in range(7)])
    frame.loc["patient 4", "q_ill"] = np.nan
    with pytest.raises(
        InputError,
        match=r"index 'patient 4'\) .* probability of 'ill' is missing. It is the first of 1 such rows among 7 read",
    ):
        counterfactuals(frame, **ASK)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_integers_and_booleans_stay_what_they_are(library):
    p = np.full((3, 2), 0.5)
    for outcome, labels in (([1, None, 5], [1, 5]), ([True, None, False], [True, False])):
        make = pd.DataFrame if library == "pandas" else pl.DataFrame
        frame = make({"y": outcome})
        result = counterfactuals(frame, outcome="y", factual=p, counterfactual=p, labels=labels, errors="missing")
        values = column(result, "counterfactual_most_likely")
        assert values[0] == outcome[0]
        assert values[2] == outcome[2]
        assert values[1] is None or values[1] is pd.NA or values[1] != values[1]


def test_one_row_no_row_and_one_outcome_are_ordinary():
    frame = pd.DataFrame(patients())
    whole = counterfactuals(frame, **ASK)
    pd.testing.assert_frame_equal(counterfactuals(frame[2:3], **ASK), whole[2:3])
    empty = counterfactuals(frame[:0], **ASK)
    assert list(empty.columns) == list(whole.columns)
    assert len(empty) == 0
    one = counterfactuals(
        frame, outcome=["x"] * 7, factual=np.ones((7, 1)), counterfactual=np.ones((7, 1)), labels=["x"]
    )
    assert (one["counterfactual_x"] == 1).all()


def test_rows_that_repeat_and_rows_that_do_not_have_the_same_answers(monkeypatch):
    from countermax._kernel import _batches
    from countermax.tables import _reading

    columns = patients(2000)
    frame = pd.DataFrame(columns)
    few = frame.iloc[np.random.default_rng(0).integers(0, 40, 2000)].reset_index(drop=True)
    found = {}
    for name in ("repeats", "none"):
        if name == "none":
            monkeypatch.setattr(_batches, "_repeats", lambda arrays: None)
            monkeypatch.setattr(_reading, "CHUNK_ROWS", 700)  # chunks and batches that end in the middle
        found[name] = counterfactuals(few, **ASK)
    pd.testing.assert_frame_equal(found["repeats"], found["none"])


def test_a_classifier_is_asked_twice_with_the_treatment_changed():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=60), "treated": rng.integers(0, 2, 60)})
    frame["status"] = np.array(LABELS)[rng.integers(0, 3, 60)]
    model = LogisticRegression().fit(frame[["age", "treated"]], frame["status"])
    changed = frame[["age", "treated"]].assign(treated=1)
    expected = counterfactuals(
        frame,
        outcome="status",
        factual=model.predict_proba(frame[["age", "treated"]]),
        counterfactual=model.predict_proba(changed),
        labels=LABELS,
        unchanged=frame["treated"] == 1,
    )
    ask = {"outcome": "status", "factual": model}
    forms = [{"treated": 1}, {"treated": np.ones(60, int)}, {"treated": lambda column: 0 * column + 1}]
    for change in forms:
        result = counterfactuals(frame, **ask, counterfactual=Predicted(model, change))
        pd.testing.assert_frame_equal(result, expected)
    asked = counterfactuals(pl.from_pandas(frame), **ask, counterfactual=Predicted(model, {"treated": 1}))
    assert_allclose(numbers_of(asked, expected.columns[4:6]), expected.iloc[:, 4:6])
    unnamed = LogisticRegression().fit(frame[["age", "treated"]].to_numpy(), frame["status"])
    features = ["age", "treated"]
    result = counterfactuals(
        frame,
        outcome="status",
        factual=Predicted(unnamed, features=features),
        counterfactual=Predicted(unnamed, {"treated": 1}, features),
    )
    assert_allclose(result["counterfactual_ill"], expected["counterfactual_ill"], atol=1e-6)
    for words, source in (
        ("must change what the classifier reads", lambda: Predicted(model, {"status": 1})),
        ("one value of 'treated' for each of 60 rows", lambda: Predicted(model, {"treated": [1, 0]})),
        ("must name the columns", lambda: unnamed),
        ("no `classes_`", lambda: Predicted(LogisticRegression())),
    ):
        with pytest.raises(InputError, match=words):
            counterfactuals(frame, **ask, counterfactual=source())
    frame.loc[3, "age"] = np.nan
    with pytest.raises(InputError, match="must predict every row, but failed in rows 0 to 59: Input X contains NaN"):
        counterfactuals(frame, **ask, counterfactual=Predicted(model, {"treated": 1}))


BAD = {
    "no such column": (
        {"outcome": "state"},
        "`outcome` must name a column, got 'state'; the columns are 'id', 'status'",
    ),
    "no such prefix": ({"factual": "r_"}, "none begins with 'r_'"),
    "no such probability": ({"factual": {"dead": "p_dead", "ill": "p_sick", "well": "p_well"}}, "got 'p_sick'"),
    "text": ({"factual": ["id", "note", "p_ill"], "labels": LABELS}, "column 'note' holds"),
    "other labels": ({"counterfactual": {"dead": "q_dead", "ill": "q_ill"}}, "'well' not in it; give an outcome that"),
    "labels too few": (
        {"labels": ["dead", "ill"]},
        r"sum to 0.\d+, not to 1 \(without 'p_well', which no label names\)",
    ),
    "label without a column": (
        {"labels": ["dead", "ill", "well", "cured"]},
        "there is no column 'p_cured'; the columns",
    ),
    "labels twice": ({"labels": ["dead", "dead", "ill"]}, "must differ from each other, got 'dead', 'dead'"),
    "labels in one text": ({"labels": "dead,ill,well"}, "must be a list of labels, got the text 'dead,ill,well'"),
    "no labels": ({"factual": np.ones((7, 3)), "counterfactual": np.ones((7, 3))}, "`labels` must name the outcomes"),
    "wrong shape": ({"factual": np.ones((6, 3))}, "a row of probabilities for each of 7 rows, got shape"),
    "nonsense": ({"factual": object()}, "must be columns"),
    "short outcome": ({"outcome": ["dead"]}, "one value for each of 7 rows, got 1"),
    "other index": ({"outcome": pd.Series(["dead"] * 7, index=range(1, 8))}, "must have the index of the frame"),
    "coupling": ({"coupling": "gumbel"}, "`coupling` must be one of gumbel-max, inverse-cdf"),
    "class": ({"coupling": GumbelMax}, "make an instance of it"),
    "size": ({"coupling": InverseCDF([0, 1])}, "for 3 outcomes, got one for 2"),
    "no score": ({"coupling": "inverse-cdf-by-score"}, "only with a `score` beside it"),
    "score": ({"score": {"dead": 1, "ill": 2}}, "one number for each of 'dead', 'ill', 'well': 'well' has none"),
    "short score": ({"score": [1, 2]}, "one number for each of 3 labels"),
    "infinite score": ({"score": [1, 2, np.inf]}, "finite numbers"),
    "errors": ({"errors": "ignore"}, "`errors` must be one of raise, missing"),
    "bounds": ({"bounds": "all"}, "`bounds` must be one of any, stable, none"),
    "tolerance": ({"tolerance": -1}, "`tolerance` must not be negative"),
    "outcome twice": ({"outcome": "p_ill"}, "`outcome` must not be a column of `factual`, got 'p_ill'"),
    "prefix": ({"prefix": "p_"}, "'p_dead' would be written over one that is there; pass another `prefix`"),
}


@pytest.mark.parametrize(
    ("case", "library"),
    [
        (case, library)
        for case in BAD
        for library in ("pandas", "polars")
        if (case, library) != ("other index", "polars")
    ],
)
def test_bad_input_says_what_to_do(case, library, as_users_call):
    change, words = BAD[case]
    frame = LIBRARIES[library](patients() | ({"note": ["x"] * 7} if case == "text" else {}))
    with pytest.raises(InputError, match=words):
        counterfactuals(frame, **(ASK | change))


def test_frames_that_cannot_be_read_are_refused():
    frame = pd.DataFrame(patients())
    for double in ("p_ill", "status", "id"):
        twice = pd.concat([frame, frame[[double]]], axis=1)
        for ask in (counterfactuals, transitions, lambda *given, **options: effects(*given, **options, score=SCORE)):
            for given in (
                twice,
                pa.Table.from_arrays([*pa.Table.from_pandas(frame), [1] * 7], [*frame.columns, double]),
            ):
                with pytest.raises(InputError, match=f"must have each column once, but has '{double}' twice; rename"):
                    ask(given, **ASK)
    with pytest.raises(InputError, match="several levels; flatten them"):
        counterfactuals(pd.concat({"a": frame}, axis=1), **ASK)
    with pytest.raises(InputError, match="got LazyFrame; collect"):
        counterfactuals(pl.from_pandas(frame).lazy(), **ASK)
    with pytest.raises(InputError, match="got dict"):
        counterfactuals(patients(), **ASK)
    labels, p = ["score", "ill", "well"], np.full((7, 3), 1 / 3)
    with pytest.raises(InputError, match="'counterfactual_score' would be written twice"):
        counterfactuals(frame, outcome=["ill"] * 7, factual=p, counterfactual=p, labels=labels, score=[0, 1, 2])
    model = LogisticRegression().fit(frame[["id"]], frame["status"])
    worlds = {"outcome": "status", "factual": model, "counterfactual": model}
    arrow = counterfactuals(pa.Table.from_pandas(frame), **worlds)
    assert arrow.column("counterfactual_ill").to_pylist() == list(
        counterfactuals(frame, **worlds)["counterfactual_ill"]
    )


@final
class Broken(AbstractCoupling):
    """Has no answer where the first outcome was seen."""

    @property
    def num_outcomes(self):
        return None

    def _joint(self, log_p, log_q):
        return jnp.exp(log_p)[:, None] * jnp.exp(log_q)[None, :]

    def _counterfactual_probs(self, log_p, log_q, x):
        return jnp.where(x == 0, jnp.nan, jnp.exp(log_q))

    def _expected_loss(self, log_p, log_q, loss):
        return (self._joint(log_p, log_q) * loss).sum()

    def _pair(self, log_p, log_q, *, key):
        raise AssertionError

    def _counterfactual(self, log_p, log_q, x, *, key):
        raise AssertionError


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_answer_that_is_not_a_number_is_never_the_most_likely_one(library):
    frame = LIBRARIES[library](patients())
    for ask in (counterfactuals, transitions):
        with pytest.raises(
            InputError, match=r"row 0 \(counted from 0\) cannot be answered: the coupling Broken gives NaN"
        ):
            ask(frame, **ASK, coupling=Broken())
    found = counterfactuals(frame, **ASK, coupling=Broken(), errors="missing")
    seen, likeliest = column(frame, "status"), column(found, "counterfactual_most_likely")
    assert [label == "dead" for label in seen] == [value is None or value != value for value in likeliest]
    moved = transitions(frame, **ASK, coupling=Broken(), errors="missing", num_resamples=0)
    assert moved.num_left_out == seen.count("dead")
    assert np.isfinite(moved.counts).all()
    with pytest.raises(InputError, match=r"row 0 .* one of the couplings x, inverse CDF by score gives NaN"):
        effects(frame, **ASK, score=SCORE, couplings={"x": Broken()})


def test_labels_that_look_alike_are_told_apart_in_messages():
    columns = patients(3)
    columns["status"] = ["dead", "Ill", "well "]
    problems = counterfactuals(pd.DataFrame(columns), **ASK, errors="missing")["counterfactual_problem"]
    assert "the label 'ill' and 'Ill' differ in how they are written" in problems[1]
    assert "the label 'well' and 'well ' differ in how they are written" in problems[2]
    numbers = pd.DataFrame({"y": [1], "p_1": [1.0], "q_1": [1.0]})
    worlds = {"factual": {"1": "p_1"}, "counterfactual": {"1": "q_1"}}
    with pytest.raises(InputError, match="the outcome 1 is none of the labels '1'; '1' is a label, but a text never"):
        counterfactuals(numbers, outcome="y", **worlds)
    assert counterfactuals(numbers, outcome="y", factual="p_", counterfactual="q_")["counterfactual_1"][0] == 1
    with pytest.raises(
        InputError,
        match="`score` must have one number for each of 1: 1 has none, '1' is no label; 1 is a label, but a number",
    ):
        counterfactuals(numbers, outcome="y", factual="p_", counterfactual="q_", score={"1": 3})


def test_a_name_of_a_column_has_the_type_of_the_outcomes():
    """p_2, p_02 and p_2.0 are one label of a column of numbers, and three of a column of texts."""
    world = {f"{world}_{label}": [1 / 3] * 3 for world in "pq" for label in ("2", "02", "2.0")}
    texts = pd.DataFrame({"y": ["2", "02", "2.0"], **world})
    asked = {"outcome": "y", "factual": "p_", "counterfactual": "q_"}
    for library in LIBRARIES.values():
        found = counterfactuals(library(texts.to_dict("list")), **asked)
        assert column(found, "counterfactual_most_likely") == ["2", "02", "2.0"]
        for outcomes in ([2, 2, 2], [2.0, 2.0, None]):
            with pytest.raises(InputError, match="`labels` must differ from each other, got 2, 2, 2"):
                counterfactuals(library({**texts.to_dict("list"), "y": outcomes}), **asked)
    numbers = pd.DataFrame({"y": [2.0, 3, None], "p_02": 0.5, "p_3": 0.5, "q_3.0": 0.5, "q_2": 0.5})
    found = counterfactuals(numbers, **asked, errors="missing", labels=[3, 2])
    assert list(found.columns[5:8]) == ["counterfactual_3", "counterfactual_2", "counterfactual_most_likely"]
    assert found["counterfactual_most_likely"].tolist()[:2] == [2.0, 3.0]
    assert "counterfactual_02" in counterfactuals(numbers, **asked, errors="missing")


def test_values_of_several_types_in_one_column_stay_what_they_are():
    frame = pd.DataFrame({"y": pd.Series([1, True, "1", 1.0, None, "True"], dtype=object)})
    p = np.full((6, 3), 1 / 3)
    found = counterfactuals(frame, outcome="y", factual=p, counterfactual=p, labels=[1, True, "one"], errors="missing")
    assert found["counterfactual_problem"].notna().tolist() == [False, False, True, False, True, True]
    assert [type(value) for value in found["counterfactual_most_likely"][:2]] == [int, bool]
    given = counterfactuals(frame, outcome=[1, "1", "one"] * 2, factual=p, counterfactual=p, labels=[1, 2, "one"],
                            errors="missing")  # fmt: skip
    assert given["counterfactual_problem"].notna().tolist() == [False, True, False] * 2
    cells = transitions(frame, outcome="y", factual=p, counterfactual=p, labels=[1, True, "one"], errors="missing",
                        num_resamples=0).to_frame()  # fmt: skip
    assert set(cells["about"]) == {"seen 1", "seen True", "seen one", "everybody"}
    for library in (pl.DataFrame, pa.table):
        for mixed in ([1, "a", 2], [1, True, 2]):
            with pytest.raises(InputError, match="`outcome` must hold values of one type"):
                counterfactuals(library({"z": [1, 2, 3]}), outcome=mixed, factual=p[:3], counterfactual=p[:3])


def test_a_column_that_no_label_names_is_left_alone():
    columns = patients() | {"p_value": ["n.s."] * 7, "q_": [0] * 7, "q_note": [None] * 7}
    for library in LIBRARIES.values():
        found = counterfactuals(library(columns), **ASK, labels=LABELS)
        expected = counterfactuals(library(patients()), **ASK)
        assert column(found, "counterfactual_ill") == column(expected, "counterfactual_ill")


def test_an_impossible_amount_of_memory_is_refused_before_it_is_asked_for(monkeypatch):
    frame = pd.DataFrame(patients())
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "1e-7")
    with pytest.raises(InputError, match="7 rows with 3 outcomes would need about .* and the limit is 100 bytes"):
        counterfactuals(frame, **ASK)
