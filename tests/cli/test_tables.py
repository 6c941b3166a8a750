"""`countermax counterfactuals`, `transitions`, `effects` and `causes` of tables, as a person meets them."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from countermax import Rows
from countermax.cli import app
from countermax.couplings._words import NAMES

LABELS = ["dead", "ill, at home", "well"]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_help_lists_the_couplings_that_there_are():
    listed = " ".join(run("counterfactuals", "--help").stdout.replace("│", " ").split())
    assert all(name in listed for name in (*NAMES, "gumbel-max-shared-RATE"))


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "people.csv"
    columns = {"p1": 0.3, "p2": 0.4, "p3": 0.3, "q1": 0.1, "q2": 0.3, "q3": 0.6}
    pd.DataFrame({"status": LABELS * 2}).assign(**columns).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("factual", "counterfactual"),
    [("p1,p2,p3", "q1,q2,q3"), ('dead=p1,"ill, at home=p2",well=p3', 'dead=q1,"ill, at home=q2",well=q3')],
)
def test_a_quoted_label_may_contain_a_comma(data, tmp_path, factual, counterfactual):
    out, picture = tmp_path / "cells.csv", tmp_path / "flows.png"
    asked = ["transitions", data, "--outcome", "status", "--factual", factual, "--counterfactual", counterfactual]
    asked += ["--labels", 'dead,"ill, at home",well', "--num-resamples", 0, "--out", out, "--plot", picture]
    result = run(*asked, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["labels"] == LABELS
    assert set(pd.read_csv(out)["about"]) >= {"seen ill, at home"}
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = run(*asked, "--overwrite").stdout
    assert told.splitlines()[-2:] == [f"written: {picture}", f"written: {out}"]


ASK = ["--outcome", "y", "--factual", "p_", "--counterfactual", "q_"]


def cells(path):
    """What was seen, and how often it would have been the same, by label."""
    found = pd.read_csv(path, keep_default_na=False)
    rows = found[(found["coupling"] == "Gumbel-max") & found["quantity"].str.startswith("count(")]
    pairs = zip(rows["about"].str.removeprefix("seen "), rows["quantity"].str[6:-1], rows["value"], strict=True)
    return {seen: round(float(count), 9) for seen, instead, count in pairs if seen == instead}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_labels_are_the_exact_texts_of_a_file_and_the_values_of_a_schema(suffix, tmp_path):
    labels = ["01", "1", "None"]
    worlds = {f"{world}_{label}": [1 / 3] * 3 for world in "pq" for label in labels}
    frame, source = pd.DataFrame({"y": labels, **worlds}), tmp_path / f"in{suffix}"
    write = {".csv": "to_csv", ".jsonl": "to_json", ".parquet": "to_parquet"}[suffix]
    getattr(frame, write)(source, **({"orient": "records", "lines": True} if suffix == ".jsonl" else {"index": False}))
    for more in ([], ["--labels", "1,01,None", "--score", "01=1,1=2,None=3"]):
        result = run(
            "transitions", source, *ASK, *more, "--num-resamples", 0, "--out", tmp_path / "cells.csv", "--overwrite"
        )
        assert result.exit_code == 0, result.output
        assert cells(tmp_path / "cells.csv") == {"01": 1, "1": 1, "None": 1}
    for score, words in (
        ("01=0,01=5,1=1", "each label must be given once, got '01' twice"),
        ("1=0,01=1", "must have one"),
    ):
        refused = run("counterfactuals", source, *ASK, "--score", score, "-o", tmp_path / "out.csv")
        assert refused.exit_code == 2
        assert words in refused.stderr


COUNTS, NORMALISE = ["transitions", "counts.csv", *ASK], "pass normalise=True"
TO_NAME = {
    "sum of a table": (COUNTS, "pass --normalise if these are counts or weights"),
    "sum of a question": (
        ["compare", "--factual", "3,7", "--counterfactual", "1,1", "--seen", "0"],
        "Trial.from_counts",
    ),
    "seed": ([*COUNTS, "--normalise", "--seed", "-1"], "must be a whole number from 0 to 4294967295, got -1"),
    "resamples": ([*COUNTS, "--normalise", "--num-resamples", "1000000000"], "--num-resamples"),
    "one resample": ([*COUNTS, "--normalise", "--num-resamples", "1"], "--num-resamples must be at"),
    "coding": (["transitions", "latin.csv", *ASK], "latin.csv must be UTF-8, but line 2 has the byte 0xe9"),
    "errors": (COUNTS, "--errors missing"),
    "prefix": (
        ["counterfactuals", "counts.csv", *ASK, "--prefix", "p_", "--normalise", "-o", "x.csv"],
        "pass another --prefix",
    ),
    "labels": ([*COUNTS, "--factual", "p_a,p_b", "--counterfactual", "q_a,q_b"], "--labels must"),
    "empty label": ([*COUNTS, "--labels", "a,b,"], "there is no column 'p_'"),
}


@pytest.mark.parametrize("case", TO_NAME)
def test_a_complaint_names_the_option(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("counts.csv").write_text("y,p_a,p_b,q_a,q_b\na,3,7,1,1\nb,1,1,1,1\n")
    Path("latin.csv").write_bytes("y,p_a,q_a\ncaf\u00e9,1,1\n".encode("latin-1"))
    arguments, words = TO_NAME[case]
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_names_of_columns_may_have_an_equals_sign(tmp_path):
    source, out = tmp_path / "in.csv", tmp_path / "cells.csv"
    source.write_text("y,P(X=a,P(X=b,Q(a,Q(b\na,0.5,0.5,1,0\n")
    asked = ["--outcome", "y", "--factual", "P(X=", "--counterfactual", "a=Q(a,b=Q(b", "--num-resamples", 0]
    result = run("transitions", source, *asked, "--out", out)
    assert result.exit_code == 0, result.output
    assert cells(out) == {"a": 1, "b": 0}


def test_spaces_between_quotation_marks_are_part_of_a_label(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("y,p_ a,p_a,q_ a,q_a\n a,0.5,0.5,0.2,0.8\n")
    asked = ["--labels", '" a", a', "--score", '" a=5" , a = 1', "-o", "out.csv"]
    result = run("counterfactuals", "x.csv", *ASK, *asked)
    assert result.exit_code == 0, result.output
    (row,) = pd.read_csv("out.csv").to_dict("records")
    assert row["counterfactual_ a"] == pytest.approx(0.4)
    assert row["counterfactual_score"] == pytest.approx(0.4 * 5 + 0.6)


def test_help_keeps_what_stands_in_brackets():
    """A help text is no markup: `[bus|tram]` would vanish from it."""
    shown = " ".join(run("switching", "--help").stdout.replace("│", " ").split())
    assert "nested-gumbel-max-0.5[bus|tram]" in shown


def test_a_folder_that_is_not_there_is_no_question_of_its_format(tmp_path):
    result = run("transitions", tmp_path / "lak", *ASK)
    assert result.exit_code == 2
    assert "no such file or folder" in " ".join(result.stderr.split())


WORLDS = ["--factual", "p_", "--counterfactual", "q_"]


@pytest.fixture
def predictions(tmp_path):
    path = tmp_path / "predictions.csv"
    columns = {"p_dead": [0.3, 0.2], "p_well": [0.7, 0.8], "q_dead": [0.1, 0.2], "q_well": [0.9, 0.8]}
    pd.DataFrame({"y": ["dead", "well"]} | columns).to_csv(path, index=False)
    return path


def test_effects_are_what_python_says(predictions):
    score = {"dead": 0, "well": 1}
    result = run("effects", predictions, *WORLDS, "--score", "dead=0,well=1", "--couplings", "gumbel-max", "--json")
    assert result.exit_code == 0, result.output
    rows = Rows(pd.read_csv(predictions), factual="p_", counterfactual="q_", score=score)
    assert json.loads(result.stdout)["mean"] == pytest.approx(rows.effects(["gumbel-max"]).mean.tolist(), abs=1e-12)


def test_a_table_with_predictions_is_asked_for_causes_by_the_command_of_trials(predictions):
    result = run("causes", predictions, *WORLDS, "--event", "well", "--json")
    assert result.exit_code == 0, result.output
    rows = Rows(pd.read_csv(predictions), factual="p_", counterfactual="q_").causes("well")
    assert json.loads(result.stdout)["rows"] == json.loads(rows.to_json())["rows"]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ([*WORLDS, "--arm", "y"], "--arm is for a file of people"),
        (WORLDS[:2], "--factual and --counterfactual must both be given"),
        (["--outcome", "y", "--arm", "y", "--unchanged", "y"], "--unchanged is for a table with predictions"),
    ],
)
def test_options_of_people_and_of_predictions_are_not_mixed(predictions, typed, told):
    result = run("causes", predictions, *typed, "--event", "well")
    assert result.exit_code == 2
    assert told in result.output


def test_who_interrupts_is_told_what_is_left(data, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Rows, "write", stop)
    asked = ["counterfactuals", data, "--outcome", "status", "--factual", "p1,p2,p3", "--counterfactual", "q1,q2,q3"]
    asked += ["--labels", 'dead,"ill, at home",well']
    result = run(*asked, "--out", tmp_path / "answers.csv")
    assert result.exit_code == 130
    assert result.stderr == f"countermax: interrupted; {tmp_path / 'answers.csv'} was not written\n"
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "_UNFINISHED").touch()
    told = f"interrupted; the same command without --overwrite resumes {tmp_path / 'begun'}"
    assert told in run(*asked, "--out", tmp_path / "begun").stderr


def test_a_prefix_without_its_last_sign_is_named(data):
    frame = pd.read_csv(data)
    frame.rename(columns=lambda name: f"{name[0]}_{name[1]}" if len(name) == 2 else name).to_csv(data, index=False)
    result = run("transitions", data, "--outcome", "status", "--factual", "p", "--counterfactual", "q_")
    told = "--factual must be all that stands before the outcome in the names 'p_1', 'p_2', 'p_3': 'p_', got 'p'"
    assert told in result.stderr


def test_labels_may_begin_with_a_sign(tmp_path):
    """Where the prefix has its own, what follows belongs to the outcome."""
    (tmp_path / "signs.csv").write_text("y,p_-1,p_-2,q_-1,q_-2\n-1,.5,.5,.2,.8\n-2,.5,.5,.2,.8\n")
    asked = ("--outcome", "y", "--factual", "p_", "--counterfactual", "q_")
    assert run("transitions", tmp_path / "signs.csv", *asked).exit_code == 0


def test_a_table_under_a_wrong_ending_is_told_how_to_be_called(data):
    wrong = data.rename(data.with_suffix(".parquet"))
    error = run("transitions", wrong, *ASK).stderr
    assert "it is damaged or no Parquet file; if it is another format, end its name in .csv or .jsonl" in error
