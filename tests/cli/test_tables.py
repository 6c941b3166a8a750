"""`countermax counterfactuals` and `countermax transitions`, as a person meets them."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from countermax.cli import app
from countermax.cli._shared import COUPLING_WORDS, WORDS_WITHOUT_SCORE
from countermax.couplings import NAMES, name_of, named_couplings

LABELS = ["dead", "ill, at home", "well"]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_help_lists_the_couplings_that_there_are():
    assert COUPLING_WORDS == NAMES
    fixed = named_couplings()
    assert [name_of(word) for word in WORDS_WITHOUT_SCORE] == list(fixed)
    listed = " ".join(run("counterfactuals", "--help").stdout.replace("│", " ").split())
    assert all(name in listed for name in NAMES)


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
    asked += ["--labels", 'dead,"ill, at home",well', "--resamples", 0, "--out", out, "--plot", picture]
    result = run(*asked, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["labels"] == LABELS
    assert set(pd.read_csv(out).iloc[:, 0]) >= {"ill, at home"}
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = run(*asked).stdout
    assert told.splitlines()[-2:] == [f"written: {picture}", f"written: {out}"]
