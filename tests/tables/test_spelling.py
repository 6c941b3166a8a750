"""A text is a label or says that there is none; results say so where it may say that, or looks like another one."""

import re

import numpy as np
import pandas as pd
import pytest
from asking import counterfactuals, counterfactuals_file, effects, transitions

from countermax import InputError, Trial, Worlds
from countermax._tables.files import read_frame
from countermax.trial._people import read_people

ARMS = {"outcome": "status", "arm": "arm"}
WORLDS = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}
LEFT_BLANK = "Among the outcomes are '-' (2 cells) and 'None' (3 cells): each counts as one of its own, not as missing."


def a_trial(odd, count=60):
    """People of two arms; those at the beginning have odd outcomes."""
    status = np.array(["dead", "well"])[np.random.default_rng(0).integers(0, 2, count)].astype(object)
    status[: len(odd)] = odd
    return pd.DataFrame({"arm": np.array(["new", "old"])[np.arange(count) % 2], "status": status, "sex": "f"})


def rows_of(labels, count=12):
    stream = np.random.default_rng(0)
    frame = pd.DataFrame({"status": np.array(labels)[np.arange(count) % len(labels)]})
    for world in "pq":
        frame[[f"{world}_{label}" for label in labels]] = stream.dirichlet(np.ones(len(labels)), count)
    return frame


def read(data, missing="refuse", **more):
    """Who is in the two arms, from a frame or a file."""
    asked = dict.fromkeys(("clusters", "strata", "weights")) | ARMS | more
    frame = read_frame(data, {name: column for name, column in asked.items() if column is not None})
    return read_people(frame, asked, ("old", "new"), None, missing)


@pytest.mark.parametrize("from_file", [False, True])
def test_words_that_may_mean_missing_count_as_outcomes_and_results_say_so(tmp_path, from_file):
    data = trial = a_trial(["None", "None", "None", "-", "-"])
    if from_file:
        data = str(tmp_path / "trial.csv")
        trial.to_csv(data, index=False)
    found = read(data)
    assert found.labels.values == ("-", "None", "dead", "well")
    assert any(note.startswith(LEFT_BLANK) and "`missing`" in note for note in found.notes)


@pytest.mark.parametrize("from_file", [False, True])
def test_words_that_mean_missing_are_missing_and_counted_unless_they_are_listed(tmp_path, from_file):
    data = trial = a_trial(["NA", "NA", ".", "N/A", ""])
    if from_file:
        data = str(tmp_path / "trial.csv")
        trial.to_csv(data, index=False)
    with pytest.raises(InputError, match=r"5 of 60 people have no `outcome` \([45] cells .*'NA'.*\); say `missing`"):
        read(data)
    for missing in ("drop", "worst"):
        found = read(data, missing)
        assert found.labels.values == ("dead", "well")
        assert any("cells hold" in note and "'NA'" in note for note in found.notes)
    listed = Trial(data, **ARMS, treated="new", missing="drop", labels=["NA", "dead", "well"])
    assert listed.labels == ("NA", "dead", "well")
    assert "left out: 3 without an outcome (5 %: " in repr(listed)


def test_cells_that_are_empty_are_missing_and_need_no_such_note():
    found = read(a_trial([None] * 5), missing="drop")
    assert not any("Among the" in note for note in found.notes)
    assert any(note.startswith("55 of 60 people were analysed; left out: 5 without") for note in found.notes)


def test_outcomes_that_look_alike_are_named():
    notes = read(a_trial(["Well", "well ", "Well", "well "])).notes
    told = r"WARNING: 'Well' \(2 cells\), 'well' \(\d+ cells\) and 'well ' \(2 cells\) are three outcomes: "
    assert any(re.match(told, note) for note in notes)


def test_outcomes_that_look_alike_are_told_apart_in_print():
    labels = ["Well", "well", "well "]
    worlds = Worlds([0.2, 0.5, 0.3], [0.4, 0.4, 0.2], labels=labels)
    found = worlds.compare("well ", couplings=["independent"])
    assert all(f"P({label}) " in str(found) for label in ("Well", "'well'", "'well '"))
    assert str(found).startswith("Seen under factual: 'well '.")
    ticks = [tick.get_text() for tick in found.plot().axes[0].get_yticklabels()]
    assert ticks == ["Well", "'well'", "'well '"]
    assert found.labels == tuple(labels)  # which are what they were
    assert worlds.causes("well ", couplings=[]).title.endswith("cause or prevent 'well '?")


@pytest.mark.parametrize(("column", "what"), [("sex", "strata"), ("site", "clusters"), ("arm", "arms")])
def test_other_columns_that_are_written_in_two_ways_are_named_too(column, what):
    trial = a_trial([], 200).assign(site="s1")
    trial.loc[np.arange(100, 200), column] = trial[column].str.upper()
    found = read(trial, strata="sex", clusters="site")
    assert any(f" {what}: labels are compared letter by letter" in note for note in found.notes)
    assert not any("letter by letter" in note for note in read(a_trial([]), strata="sex").notes)


def test_tables_with_probabilities_name_such_labels_wherever_the_rows_are(tmp_path):
    frame = rows_of(["dead", "NA", "well", "Well"])
    source = tmp_path / "rows.csv"
    frame.to_csv(source, index=False)
    alike = r"'well'( \(\d+ cells\))? and 'Well'( \(\d+ cells\))? are two outcomes: "
    for found in (transitions(frame, **WORLDS, num_resamples=0), transitions(source, **WORLDS, num_resamples=0)):
        text = " ".join(found.notes)
        assert "Among the outcomes is 'NA' (3 cells): it counts as one of its own, not as missing." in text
        assert "errors='missing'" in text
        assert re.search(alike, text)
    rows = counterfactuals(frame, **WORLDS).attrs["countermax"]["notes"]
    written = counterfactuals_file(source, tmp_path / "out.csv", **WORLDS).notes
    added = effects(frame, factual="p_", counterfactual="q_", score=[0, 1, 2, 3]).notes
    for notes in (rows, written, added):
        assert "Among the outcomes is 'NA': " in " ".join(notes)
        assert re.search(alike, " ".join(notes))


def test_plain_labels_get_no_note():
    found = transitions(rows_of(["dead", "ill", "well"]), **WORLDS, num_resamples=0)
    assert not any("Among the" in note or "compared letter by letter" in note for note in found.notes)


def test_numbers_are_in_the_same_order_from_a_frame_and_from_a_file(tmp_path):
    trial = a_trial([]).assign(status=np.arange(60) % 4 + 8)
    source = str(tmp_path / "trial.csv")
    trial.to_csv(source, index=False)
    frame, file = read(trial), read(source)
    assert frame.labels.values == (8, 9, 10, 11)
    assert file.labels.values == ("8", "9", "10", "11")
    assert (frame.outcome == file.outcome).all()
    assert "sorted as numbers" in frame.order
    assert frame.order == file.order


def test_causation_from_a_file_sorts_numbers_and_says_what_looks_missing(tmp_path):
    source = str(tmp_path / "trial.csv")
    a_trial([]).assign(status=np.array(["9", "10", "None"])[np.arange(60) % 3]).to_csv(source, index=False)
    found = Trial(source, **ARMS, treated="new").causes("10", couplings=["inverse-cdf"])
    assert found.labels == ("9", "10", "None")
    assert any(note.startswith("Among the outcomes is 'None' (20 cells)") for note in found.notes)


def test_numbers_in_a_text_column_that_stand_in_their_order_need_no_remark(tmp_path):
    source = tmp_path / "rows.csv"
    rows_of(["9", "10", "11"]).to_csv(source, index=False)
    found = transitions(source, **WORLDS, coupling="inverse-cdf", num_resamples=0)
    assert not any("none was given" in note for note in found.notes)
