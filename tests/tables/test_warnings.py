"""What an analyst may have mixed up is said before the answer: worlds, models, columns, files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from countermax import InputError, Predicted, Rows, Utilities
from countermax.cli import app
from countermax.tables._notes import calibration_note

LABELS = ["left", "less", "stayed"]
ASK = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}


def customers(count=2000, seed=0):
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(each, count) for each in ([2, 3, 4], [1, 3, 9]))
    x = (p.cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)
    frame = pd.DataFrame({"status": np.array(LABELS)[x]})
    for name, world in (("p_", p), ("q_", q)):
        frame[[name + label for label in LABELS]] = world
    return frame


def warnings_of(result):
    return [note for note in result.notes if note.startswith("WARNING")]


def test_swapped_worlds_and_a_model_that_expects_others_are_said_first():
    frame = customers()
    assert not warnings_of(Rows(frame, **ASK).transitions(num_resamples=0))
    found = Rows(frame, **(ASK | {"factual": "q_", "counterfactual": "p_"})).transitions(num_resamples=0)
    (note,) = warnings_of(found)
    assert f"'stayed' {100 * (frame.status == 'stayed').mean():.1f} %" in note
    assert f"expects {100 * frame.q_stayed.mean():.1f} %. Are the worlds swapped" in note
    assert str(found).splitlines()[1].startswith("WARNING: seen: 'stayed'")


def test_a_model_that_is_right_is_seldom_called_wrong():
    """2,000 tables with rare outcomes, at most one in 1,000 by Bernstein: nine or more, less than once in 4,000."""
    rng, wrong = np.random.default_rng(5), 0
    for _ in range(2000):
        p = rng.dirichlet([0.02, 0.5, 5], 40)
        x = (p.cumsum(axis=1) > rng.random((40, 1))).argmax(axis=1)
        expected = p.sum(axis=0)
        wrong += bool(calibration_note(LABELS, np.bincount(x, minlength=3), expected, expected - (p**2).sum(axis=0)))
    assert wrong <= 8
    assert calibration_note(LABELS, np.array([90.0, 5, 5]), np.array([60.0, 20, 20]), np.array([24.0, 16, 16]))


def test_one_world_twice_is_said():
    frame = customers(50)
    for rows in (
        Rows(frame, **(ASK | {"counterfactual": "p_"})),
        Rows(frame, outcome="status", factual=[f"p_{each}" for each in LABELS], counterfactual="p_", labels=LABELS),
    ):
        assert any("the same probabilities: nothing changes" in note for note in warnings_of(rows.transitions()))
    assert not warnings_of(Rows(frame, **ASK).causes("stayed"))


def test_causes_say_that_some_had_the_treatment_already():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"offer": rng.integers(0, 2, 200), "age": rng.normal(size=200)})
    frame["status"] = np.where(rng.random(200) < 0.3 + 0.4 * frame.offer, "stayed", "left")
    model = LogisticRegression().fit(frame[["offer", "age"]], frame.status)
    treated, control = (Predicted(model, {"offer": value}) for value in (1, 0))
    diluted = Rows(frame, outcome="status", factual=model, counterfactual=treated).causes("stayed")
    had = int(frame.offer.sum())
    (note,) = warnings_of(diluted)
    assert note.startswith(f"WARNING: {had} of 200 rows are the same in both worlds: they had offer=1 already")
    assert "factual=Predicted(classifier, {'offer': '...'})" in note
    whole = Rows(frame, outcome="status", factual=control, counterfactual=treated).causes("stayed")
    assert not warnings_of(whole)
    assert diluted.row("PNS").lower < 0.7 * whole.row("PNS").lower


def test_probabilities_in_place_of_utilities_are_noticed():
    frame = customers(30)
    found = Rows(frame, factual="p_", counterfactual="q_", utilities=Utilities()).switching()
    assert "every row is non-negative and sums to 1" in warnings_of(found)[0]
    worlds = [each for each in frame if each[1] == "_"]
    frame[worlds] = np.log(frame[worlds])
    assert not warnings_of(Rows(frame, factual="p_", counterfactual="q_", utilities=Utilities()).switching())


def test_columns_in_another_order_than_the_labels_are_refused():
    frame = customers(5)
    names = ["q_stayed", "q_less", "q_left"]
    worlds = {"factual": [f"p_{each}" for each in LABELS], "counterfactual": names, "labels": LABELS}
    with pytest.raises(InputError, match="'q_stayed' would be 'left'; sort them"):
        Rows(frame, outcome="status", **worlds)


def changed(name, value):
    frame = customers(8)
    frame.loc[2, name] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            changed("p_less", -0.1),
            r"the `factual` probability of 'less' is -0.1\. It is the first of 1 such rows among 8",
        ),
        (
            customers(8).drop(columns="q_left"),
            "`counterfactual` needs a column for each outcome, and there is no 'q_left'",
        ),
        (customers(8).assign(p_less="0.5"), "column 'p_less' holds text"),
        (customers(8).assign(status=1), "it is a number, and labels are text: map them.* first of 8 such rows among 8"),
        (
            customers(8).assign(p_left=0.0, p_less=0.0, p_stayed=1.0, status="left"),
            "zero under `factual`; are the two worlds swapped. It is",
        ),
        (
            customers(8).assign(p_left=-1.0),
            "is -1; of logits give the probabilities, and for utilities ask `switching`",
        ),
    ],
)
def test_a_bad_table_is_told_by_label_column_and_number(frame, words):
    with pytest.raises(InputError, match=words):
        Rows(frame, **ASK).transitions(num_resamples=0)


def test_no_file_is_lost_and_no_folder_is_made_by_mistake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = customers(20)
    (tmp_path / "lake").mkdir()
    frame.to_parquet(tmp_path / "lake" / "a.parquet")
    (tmp_path / "notes.csv").write_text("precious")
    rows = Rows("lake", **ASK)
    cases = {
        "notes.csv": "notes.csv is there already",
        "out.xlsx": "or be a folder, got 'out.xlsx'; a new folder whose name has a dot ends in /",
        "disk/out": "there is no folder disk",
    }
    for target, words in cases.items():
        with pytest.raises(InputError, match=words):
            rows.write(target)
    with pytest.raises(InputError, match="save the table as Parquet and pass that path"):
        Rows(frame, **ASK).write("folder")
    assert {each.name for each in tmp_path.iterdir()} == {"lake", "notes.csv"}
    assert (tmp_path / "notes.csv").read_text() == "precious"
    assert rows.write("v1.2/").is_new
    assert not rows.write("v1.2/").is_new
    asked = ["counterfactuals", "lake", "--outcome", "status", "--factual", "p_", "--counterfactual", "q_", "-o"]
    assert (
        "v1.2/ is complete already (20 rows); nothing was written" in CliRunner().invoke(app, [*asked, "v1.2/"]).stdout
    )
    assert "pass --overwrite" in CliRunner().invoke(app, [*asked, "notes.csv"]).stderr
    told = CliRunner().invoke(app, ["transitions", *asked[1:-1], "--by", "status", "--num-resamples", "0"])
    assert "status = stayed" in told.stdout
