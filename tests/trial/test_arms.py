"""Two arms from raw data: frames and files, orders, weights, clusters, strata and missing outcomes."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from countermax import Design, InputError, Trial, Worlds

LABELS = ["dead", "ill", "well"]
READ = {"outcome": "status", "arm": "arm", "control": "placebo", "treated": "drug"}
COUPLINGS = ["gumbel-max", "inverse-cdf"]
DESIGN = {"weights", "clusters", "strata", "population"}


def compare_arms(data, *, seen="dead", couplings=COUPLINGS, level=0.95, **read):
    """The usual question, with the options of a design among the others."""
    design = {name: read.pop(name) for name in DESIGN & set(read)}
    trial = Trial(data, **{**READ, **read}, design=Design(**design) if design else None)
    return trial.compare(seen, couplings=couplings, level=level)


def ends(result, quantity, coupling, about=""):
    row = result.row(quantity, coupling, about)
    return row.ci_lower, row.ci_upper


def people(ordered=True):
    """30, 40, 30 on placebo; 10, 30, 60 on the drug; and a third arm."""
    counts = {"placebo": [30, 40, 30], "drug": [10, 30, 60], "other": [5, 5, 5]}
    rows = [
        (arm, label)
        for arm, each in counts.items()
        for label, count in zip(LABELS, each, strict=True)
        for _ in range(count)
    ]
    frame = pd.DataFrame(rows, columns=["arm", "status"])
    if ordered:
        frame["status"] = pd.Categorical(frame["status"], LABELS, ordered=True)
    return frame


def test_raw_data_and_counts_are_the_same_question():
    raw = compare_arms(people())
    trial = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=LABELS, score=[0, 1, 2], names=("placebo", "drug"))
    counted = trial.compare("dead", couplings=COUPLINGS)
    for name in ("bounds", "stable_bounds"):
        np.testing.assert_allclose(getattr(raw, name).upper, getattr(counted, name).upper)
    first, second = (each.to_frame() for each in (raw, counted))
    pd.testing.assert_frame_equal(first, second)
    assert raw.worlds == ("placebo", "drug")


def test_an_ordered_category_is_the_order_and_the_score():
    shuffled = people()
    shuffled["status"] = shuffled["status"].cat.reorder_categories(["ill", "well", "dead"])
    result = compare_arms(shuffled)
    assert result.labels == ("ill", "well", "dead")
    assert result.row("expected score", "any coupling").lower is not None
    assert any("in the order of the category: ill, well, dead" in note for note in result.notes)


def test_without_an_order_the_result_says_so():
    result = compare_arms(people(ordered=False))
    assert not any(each.quantity == "expected score" for each in result.rows)
    assert any("sorted, because nobody gave them an order" in note for note in result.notes)
    listed = compare_arms(people(ordered=False), labels=["well", "ill", "dead"], score={"dead": 0, "ill": 1, "well": 2})
    assert listed.labels == ("well", "ill", "dead")
    assert listed.row("expected score", "Gumbel-max").value is not None


def test_without_an_order_outcomes_run_from_worst_to_best_where_there_is_a_score():
    data = people(ordered=False)
    data.loc[0, "status"] = None
    trial = Trial(data, **READ, score={"dead": 2, "ill": 0, "well": 1}, missing="drop")
    assert trial.labels == ("ill", "well", "dead")
    assert "placebo: ill 40, well 30, dead 29" in str(trial)
    assert "from worst to best: ill, well, dead" in str(trial)
    numbered = Trial(
        data.replace({"status": {"dead": 3, "ill": 1, "well": 2}}), **READ, score={1: 1, 2: 0, 3: 2}, missing="drop"
    )
    assert numbered.labels == ("1", "2", "3")  # numbers have an order of their own


def test_frames_of_all_libraries_and_files_agree(tmp_path):
    frame = people()
    plain = frame.astype({"status": str})
    plain.to_csv(tmp_path / "trial.csv", index=False)
    plain.to_parquet(tmp_path / "trial.parquet")
    enum = pl.DataFrame(
        {"arm": frame["arm"].tolist(), "status": pl.Series(frame["status"].tolist(), dtype=pl.Enum(LABELS))}
    )
    arrow = pa.table(
        {
            "arm": frame["arm"].tolist(),
            "status": pa.DictionaryArray.from_arrays(frame["status"].cat.codes.to_numpy(), LABELS, ordered=True),
        }
    )
    reference = compare_arms(frame).to_frame()
    for data in (enum, arrow):
        pd.testing.assert_frame_equal(compare_arms(data).to_frame(), reference)
    for name in ("trial.csv", "trial.parquet"):
        found = compare_arms(tmp_path / name, labels=LABELS, score=[0, 1, 2]).to_frame()
        pd.testing.assert_frame_equal(found, reference)


def test_any_two_of_several_arms_and_the_others_play_no_part():
    result = compare_arms(people(), treated="other")
    np.testing.assert_allclose(result.q, 1 / 3)
    assert any("left out: 100 in other arms ('drug')." in note for note in result.notes)


def test_missing_outcomes_are_refused_unless_something_is_said_about_them():
    frame = people()
    frame.loc[frame.index[:10], "status"] = None
    with pytest.raises(InputError, match="10 of 200 people have no `outcome`; say `missing`"):
        compare_arms(frame)
    dropped = compare_arms(frame, missing="drop")
    np.testing.assert_allclose(dropped.p, np.array([20, 40, 30]) / 90)
    with pytest.raises(InputError, match="`couplings` must be left out with missing='worst'"):
        compare_arms(frame, missing="worst")
    worst = compare_arms(frame, missing="worst", couplings=None)
    assert {each.coupling for each in worst.rows} == {"any coupling"}
    assert not any(word in str(worst) for word in ("Win probability", "Stable"))
    assert "Under" not in worst.summary()
    np.testing.assert_allclose(worst.p, dropped.p)
    # Whatever those ten had: with any of them dead, ill or well, and every coupling, the answer is within the bounds.
    for extra in range(3):
        counts = np.array([20, 40, 30]) + 10 * np.eye(3)[extra]
        laws = Worlds(counts, [10, 30, 60], labels=LABELS, score=[0, 1, 2], normalise=True)
        filled = laws.compare("dead", couplings=COUPLINGS)
        for limit, sign in (("lower", 1), ("upper", -1)):
            for name in ("expected score", "better", "worse", "same"):
                for about in ("this person",) if name in ("expected score", "same") else ("this person", "everybody"):
                    outer, inner = (getattr(each.row(name, "any coupling", about), limit) for each in (worst, filled))
                    assert sign * outer <= sign * inner + 1e-9
            outer, inner = (getattr(each.bounds, limit) for each in (worst, filled))
            assert (sign * outer <= sign * inner + 1e-9).all()
    np.testing.assert_allclose(worst.bounds.upper, [0.5, 1, 1])


def test_strata_are_standardised_over_both_arms_unless_told_otherwise():
    rows = [
        ("placebo", "a", "dead", 8),
        ("placebo", "a", "well", 8),
        ("placebo", "b", "dead", 1),
        ("placebo", "b", "well", 3),
    ]
    rows += [("drug", "a", "dead", 1), ("drug", "a", "well", 4), ("drug", "b", "dead", 3), ("drug", "b", "well", 12)]
    frame = pd.DataFrame([row[:3] for row in rows for _ in range(row[3])], columns=["arm", "sex", "status"])
    shares = {"both": (21 / 40, 19 / 40), "control": (16 / 20, 4 / 20), "treated": (5 / 20, 15 / 20)}
    for population, (first, second) in shares.items():
        found = compare_arms(frame, strata="sex", population=population)
        np.testing.assert_allclose(found.p[0], first * 8 / 16 + second * 1 / 4)
        np.testing.assert_allclose(found.q[0], first * 1 / 5 + second * 3 / 15)
        (note,) = (each for each in found.notes if "Standardised over column 'sex'" in each)
        assert "those within strata can differ, and bounds there can be narrower (`causes`)" in note
    with pytest.raises(InputError, match="must have people in both arms, but 'b' has people in one arm only"):
        compare_arms(frame[~((frame.arm == "drug") & (frame.sex == "b"))], strata="sex")


def test_a_stratum_of_another_arm_alone_changes_nothing():
    frame = people().assign(sex=lambda each: np.arange(len(each)) % 2)
    found = compare_arms(frame.assign(sex=frame["sex"].where(frame["arm"] != "other", 2)), strata="sex")
    assert found.rows == compare_arms(frame, strata="sex").rows


@pytest.mark.parametrize("arm", ["placebo", "drug"])
def test_an_arm_whose_weights_are_all_zero_is_named(arm):
    frame = people().assign(weight=lambda each: 1.0 * (each["arm"] != arm))
    with pytest.raises(InputError, match=f"`weights` must not all be zero in arm '{arm}'"):
        compare_arms(frame, weights="weight")


def test_weights_count_people_and_equal_ones_change_nothing():
    frame = people().assign(weight=1.0)
    plain = compare_arms(frame)
    weighted = compare_arms(frame, weights="weight")
    np.testing.assert_allclose(weighted.p, plain.p)
    for label in LABELS:
        upper = [ends(each, f"P({label})", "any coupling")[1] for each in (weighted, plain)]
        assert upper[0] == pytest.approx(upper[1], abs=0.15)
    doubled = compare_arms(frame.assign(weight=1 + (frame.status == "dead")), weights="weight")
    np.testing.assert_allclose(doubled.p, np.array([60, 40, 30]) / 130)


def test_people_who_come_in_clusters_tell_less():
    frame = people()
    frame["site"] = frame.groupby(["arm", "status"], observed=True).cumcount() // 10  # ten people of one mind
    frame["site"] = frame["arm"] + frame["status"].astype(str) + frame["site"].astype(str)
    alone = compare_arms(frame)
    together = compare_arms(frame, clusters="site")
    widths = [np.diff(ends(each, "P(dead)", "Gumbel-max"))[0] for each in (alone, together)]
    assert widths[1] > 1.3 * widths[0]
    assert "clusters" in together.sample


def rarely_dead(count):
    """130 on placebo; 200 on the drug, of whom few died."""
    counts = {"placebo": [40, 50, 40], "drug": [count, 90, 110 - count]}
    rows = [
        (arm, label)
        for arm, each in counts.items()
        for label, number in zip(LABELS, each, strict=True)
        for _ in range(number)
    ]
    frame = pd.DataFrame(rows, columns=["arm", "status"]).assign(one=1.0)
    stream = np.random.default_rng(0)
    return frame.assign(site=stream.integers(0, 40, len(frame)), sex=stream.choice(["f", "m"], len(frame)))


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("design", [{"weights": "one"}, {"clusters": "site"}, {"strata": "sex"}])
def test_what_hardly_anybody_had_is_as_uncertain_in_every_design(count, design):
    """The rule of three says that nobody of 200 may be up to 0.015; nobody in any resample does not make it nothing."""
    plain, designed = (
        ends(
            compare_arms(rarely_dead(count), couplings=["independent"], labels=LABELS, **each), "P(dead)", "independent"
        )
        for each in ({}, design)
    )
    assert plain[1] > 0.01
    assert 0.75 * plain[1] < designed[1] < 2 * plain[1]
    assert designed[0] <= count / 200


def test_clusters_are_counted_in_each_arm():
    frame = people()
    alone = frame.assign(site=np.where(frame.arm == "drug", -1, np.arange(len(frame)) % 40))
    with pytest.raises(
        InputError, match=r"two in each sample, but arm 'drug' has one in column 'site'.*leave `clusters`"
    ):
        compare_arms(alone, clusters="site")
    few = frame.assign(site=np.where(frame.arm == "drug", -1 - np.arange(len(frame)) % 3, np.arange(len(frame)) % 40))
    (note,) = [each for each in compare_arms(few, clusters="site").notes if "clusters of" in each]
    assert "43 clusters of column 'site', 40 of them in placebo and 3 in drug: few, so intervals may be too" in note
    many = frame.assign(site=np.arange(len(frame)) % 40)
    (note,) = [each for each in compare_arms(many, clusters="site").notes if "clusters of" in each]
    assert "few" not in note


def test_weights_say_how_many_people_they_count_as():
    frame = people()
    heavy = frame.assign(weight=np.where(frame.groupby("arm").cumcount() < 3, 100.0, 1.0))
    (note,) = [each for each in compare_arms(heavy, weights="weight").notes if "weighted" in each]
    sizes = [int((frame.arm == arm).sum()) for arm in ("placebo", "drug")]
    counting = [(300 + size - 3) ** 2 / (3 * 100**2 + size - 3) for size in sizes]
    assert f"effective sample size is {counting[0]:,.0f} in placebo and {counting[1]:,.0f} in drug: few" in note
    (note,) = [each for each in compare_arms(frame.assign(weight=2.0), weights="weight").notes if "weighted" in each]
    assert f"effective sample size is {sizes[0]} in placebo" in note
    assert "few" not in note


def test_thin_strata_are_named():
    frame = people().assign(sex="f")
    frame.loc[frame.groupby("arm").cumcount() < 5, "sex"] = "m"
    thin = compare_arms(frame, strata="sex")
    assert "Fewer than 10 people in an arm of stratum 'm': intervals may be too short; merge strata." in thin.notes
    assert not any("Fewer than" in note for note in compare_arms(people().assign(sex="f"), strata="sex").notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arm": "arms"}, "`arm` must name a column, got 'arms'.*; is 'arm' meant?"),
        ({"control": "A"}, "`control` must be one of the arms .*column 'arm'"),
        ({"control": "drug"}, "must be two arms"),
        ({"seen": "alive"}, "`seen` must be one of the labels"),
        ({"missing": "zero"}, "`missing` must be one of refuse, worst, drop"),
        ({"population": "all"}, "`population` must be one of both"),
        ({"weights": "status"}, "`weights` must name columns of numbers"),
        ({"level": 1.5}, "`level` must lie between 0 and 1"),
        ({"labels": ["dead", "ill"]}, "`outcome` must hold labels 'dead', 'ill' only, got 'well'"),
    ],
)
def test_questions_that_cannot_be_asked(change, words):
    with pytest.raises(InputError, match=words):
        compare_arms(people().assign(one=1.0), **{**change})


def test_an_outcome_that_nobody_had_can_be_anything():
    frame = people()
    frame = frame[~((frame.arm == "placebo") & (frame.status == "dead"))]
    result = compare_arms(frame)
    for label in LABELS:
        assert ends(result, f"P({label})", "Gumbel-max") == (0, 1)
    assert "Nobody in the sample of placebo had 'dead'" in result.summary()
    assert "unknown" in str(result)
    told = [each for each in result.to_dict()["rows"] if each["quantity"] == "P(ill)"]
    assert [each["value"] for each in told] == [None] * len(told)
    assert result.row("agreement", "Gumbel-max").value < 1


def test_a_trial_prints_what_it_holds():
    trial = Trial(people().assign(one=1.0), **READ, design=Design(weights="one"))
    assert repr(trial).splitlines() == [
        "Trial of drug against placebo: 100 and 100 people",
        "  placebo: dead 30, ill 40, well 30 (weighted)",
        "  drug: dead 10, ill 30, well 60 (weighted)",
        "  left out: 15 in other arms ('other')",
        "  from worst to best: dead, ill, well (scored 0 to 2)",
        "  design: weights 'one'",
    ]
    counted = Trial.from_counts([1, 2], [3, 4], observational={"control": [1, 1], "treated": [2, 2]})
    assert "observed: 6 people who chose their arm" in repr(counted)
    assert "no score" in repr(counted)


def test_people_who_were_in_both_arms_are_noticed():
    frame = people().query("arm != 'other'").assign(person=np.tile(np.arange(100), 2), house=np.arange(200) // 2)
    frame["period"] = np.tile(np.arange(50), 4)  # four rows for each person, two of them in each arm
    frame["third"] = np.where(frame["person"] < 35, frame["person"], np.arange(200) + 1000)
    frame["site"] = np.tile(np.arange(10), 20)
    for rows, asked, noticed in (
        (200, {"clusters": "person"}, True),
        (180, {"clusters": "person"}, True),
        (200, {"clusters": "period"}, True),
        (200, {"clusters": "third"}, True),
        (200, {"strata": "person"}, True),
        (200, {"clusters": "house"}, False),
        (200, {"clusters": "site"}, False),
        (200, {"strata": "site"}, False),
    ):
        notes = Trial(frame[:rows], **READ, design=Design(**asked))._held.notes
        assert any("a crossover" in each for each in notes) == noticed


def test_the_person_may_have_been_in_either_arm():
    trial = Trial(people(), **READ)
    under = trial.compare("well", under="drug", couplings=COUPLINGS)
    assert under.worlds == ("drug", "placebo")
    turned = Trial(people(), **{**READ, "control": "drug", "treated": "placebo"})
    assert under.rows == turned.compare("well", couplings=COUPLINGS).rows
    with pytest.raises(InputError, match="`under` must be one of the two arms 'placebo', 'drug', got 'other'"):
        trial.compare("well", under="other")


def test_a_score_in_a_list_needs_an_order_and_the_good_end_can_be_named():
    frame = people(ordered=False)
    with pytest.raises(InputError, match="`score` must be a dictionary by label, because nobody gave"):
        Trial(frame, **READ, score=[0, 1, 2])
    assert Trial(frame, **READ, labels=LABELS, score=[0, 1, 2]).score.tolist() == [0, 1, 2]
    assert Trial(frame, **READ, labels=LABELS, best="well").score.tolist() == [0, 1, 2]
    assert Trial(frame, **READ, labels=LABELS[::-1], best="well").score.tolist() == [2, 1, 0]
    assert Trial(people(), **READ, best="dead").score.tolist() == [2, 1, 0]
    assert Trial(frame, **READ, score={"dead": 0, "ill": 1, "well": 3}, best="well").score.tolist() == [0, 1, 3]
    for given, words in (
        ({"best": "well"}, "`best` is an end of an order"),
        ({"labels": LABELS, "best": "ill"}, "`best` must be the first or the last of 'dead', 'ill', 'well', got 'ill'"),
        ({"labels": LABELS, "score": [2, 1, 0], "best": "well"}, "`best` must agree with the score, in which 'dead'"),
    ):
        with pytest.raises(InputError, match=words):
            Trial(frame, **READ, **given)


def test_a_design_is_one_object(as_users_call):
    with pytest.raises(InputError, match=r"`design` must be a Design\(weights="):
        Trial(people(), **READ, design={"weights": "one"})
    with pytest.raises(InputError, match="`thin` must be one of refuse, merge"):
        Design(thin="drop")


def test_a_reversed_scale_cannot_pass_unnoticed():
    grades = pd.Series([0, 1, 2, 3, 4, 5, 6] * 6)
    people = pd.DataFrame({"mRS": grades, "arm": [0] * 21 + [1] * 21})
    order = list(range(7))
    ordered = people.assign(mRS=pd.Categorical(grades, order, ordered=True))
    columns = {"outcome": "mRS", "arm": "arm"}
    higher = {each: each for each in order}
    for reversed_scale in (
        Trial(ordered, **columns),
        Trial(people, labels=order, best=6, **columns),
        Trial(people, score=higher, **columns),
    ):
        told = reversed_scale.compare(6)
        assert "WARNING: Column 'mRS' looks like the modified Rankin Scale, on which 0 is best" in told.notes[1]
        assert str(told).index("WARNING") < str(told).index("The data alone")
        assert told.summary().endswith("Best: 6; worst: 0.")
    for right in (Trial(people, labels=order, best=0, **columns), Trial(ordered, best=0, **columns)):
        answer = right.compare(6)
        assert not any("Rankin" in each for each in answer.notes)
        assert "From worst to best: 6, 5, 4, 3, 2, 1, 0 (scored 0 to 6)." in answer.notes
        assert answer.summary().endswith("Best: 0; worst: 6.")
        assert answer.plot().axes[0].get_ylabel() == "best ← mRS → worst"
    unscored = Trial(people, **columns).compare(6)
    assert "0 is best: say best=0 (--best 0)." in str(unscored).splitlines()[1]  # before the answer
    assert unscored.plot().axes[0].get_ylabel() == "mRS"
    assert ("better", "this person") not in {(each.quantity, each.about) for each in unscored.rows}


def test_whole_floats_are_integers_from_any_reader_and_in_every_output(tmp_path):
    """As soon as one outcome is missing, pandas reads 0 to 6 as 0.0 to 6.0: nothing may depend on that."""
    grades = pd.Series([*range(7)] * 6 + [None] * 2)
    assert grades.dtype == float
    frame = pd.DataFrame({"mRS": grades, "arm": [0, 1] * 22})
    frame.to_csv(tmp_path / "trial.csv", index=False)
    assert "6.0" in (tmp_path / "trial.csv").read_text()
    frame.to_parquet(tmp_path / "trial.parquet")
    read = {"outcome": "mRS", "arm": "arm", "missing": "drop"}
    kinds = (frame, frame.astype({"mRS": "Int64"}), tmp_path / "trial.csv", tmp_path / "trial.parquet")
    for data in (*kinds, pa.Table.from_pandas(frame), pl.from_pandas(frame)):
        trial = Trial(data, best=6, **read)
        assert trial.labels == tuple("0123456")
        assert "WARNING: Column 'mRS' looks like the modified Rankin Scale" in repr(trial)
        assert "0 3, 1 3, 2 3" in repr(trial)
        assert [Trial(data, best=0, **read).compare(each).title.split(".")[0] for each in (6, 6.0)] == [
            "Seen under 0: 6"
        ] * 2
    lost = frame.assign(mRS=grades.fillna(9.0))
    assert "0 to 6, but 9 counts as an outcome too" in repr(Trial(lost, outcome="mRS", arm="arm"))


def test_what_a_trial_leaves_out_or_warns_of_is_printed_with_it():
    frame = people(ordered=False)
    frame.loc[0, "arm"], frame.loc[1, "arm"], frame.loc[2, "status"] = "Placebo", "placebo ", None
    trial = Trial(frame, missing="drop", **READ)
    lines = repr(trial).splitlines()
    assert lines[3] == (
        "  left out: 17 in other arms ('Placebo', 'other', 'placebo '); 1 without an outcome "
        "(0.5 %: 1 in placebo, 0 in drug), assumed to be like the others"
    )
    warning = "WARNING: 'Placebo' (1 cell), 'placebo' (98 cells) and 'placebo ' (1 cell) are three arms"
    assert lines[-1].startswith(f"  {warning}")
    answer = trial.compare("dead")
    for text in (answer.summary(), str(answer), trial.causes("dead").summary()):
        assert text.count(warning) == 1


def test_what_is_asked_in_the_wrong_place_or_the_wrong_way_is_told_the_right_one():
    frame = people(ordered=False).assign(site="a", status=np.tile(["0", "1", "unknown", "2", "3"], 43))
    with pytest.raises(InputError, match="`strata` belongs to the design: say design=Design\\(strata='site'\\)"):
        Trial(frame, **READ, strata="site")
    with pytest.raises(TypeError, match="no argument 'stratum'"):
        Trial(frame, **READ, stratum="site")
    with pytest.raises(InputError, match="'unknown' is no number: if it means that nothing is known, empty"):
        Trial(frame, **READ, best="0")
    with pytest.raises(InputError, match="if -99 means that nothing is known, empty these cells"):
        Trial(frame.assign(status=np.tile([0, 1, 2, 3, -99], 43)), **READ, best=0)
    listed = Trial(frame.query("status != 'unknown'"), **READ, best="0", score=[9, 5, 1, 0])
    assert listed.score.tolist() == [9, 5, 1, 0]  # numbers have an order, of which `best` says the good end
    weights = frame.assign(w=[1.0, -1.0, -2.0] + [1.0] * 212)
    with pytest.raises(InputError, match="but 2 of column 'w' are negative, the first in row 1 .*: -1"):
        Trial(weights, **READ, design=Design(weights="w"))
    with pytest.raises(InputError, match="`outcome` must name a column, got 'Status'.*; 'status' differs"):
        Trial(frame, **READ | {"outcome": "Status"})


def test_numbers_name_what_a_text_file_writes(tmp_path):
    """A CSV file has no types: 6 is the outcome that is written 6, as long as one is; Parquet's texts stay texts."""
    rows = [(each % 7, each % 2) for each in range(84)]
    path = tmp_path / "trial.csv"
    path.write_text("mrs,arm\n" + "".join(f"{outcome},{arm}\n" for outcome, arm in rows) + ",1\n")
    read = {"outcome": "mrs", "arm": "arm", "missing": "drop"}
    by_number = Trial(path, **read, best=0)
    assert by_number.score.tolist() == [6, 5, 4, 3, 2, 1, 0]
    score = {each: 6 - each for each in range(7)}
    for same in (Trial(path, **read, labels=list(range(7)), best=0), Trial(path, **read, score=score)):
        assert same.compare(6).rows == by_number.compare("6").rows
    assert by_number.causes([0, 1]).rows == by_number.causes(["0", "1"]).rows
    path.write_text(path.read_text() + "06,0\n")
    with pytest.raises(InputError, match="got 6; '06' is a label, but a text never equals a number"):
        Trial(path, **read).compare(6)
    texts = pd.DataFrame({"mrs": [str(each) for each, _ in rows], "arm": [arm for _, arm in rows]})
    with pytest.raises(InputError, match="got 6; '6' is a label"):
        Trial(texts, outcome="mrs", arm="arm").compare(6)


def test_what_is_no_grade_of_a_scale_is_warned_of():
    grades = pd.Series(["0", "1", "2", "3", "4", "5", "6", "lost"] * 6)
    told = Trial(pd.DataFrame({"mRS": grades, "arm": [0] * 24 + [1] * 24}), outcome="mRS", arm="arm").compare("6")
    assert "looks like the modified Rankin Scale, 0 to 6, but 'lost' counts as an outcome too" in str(told)


def test_methods_say_what_was_done_to_these_people():
    frame = people().assign(site=np.arange(215) % 40, ward=np.arange(215) % 2)
    design = Design(clusters="site", strata="ward")
    frame.loc[0, "status"] = None
    plain = Trial(frame, **READ, missing="drop").compare("ill").methods()
    assert "199 of 215 people were analysed; left out: 15 in other arms ('other'); 1 without an outcome (" in plain
    assert "and over counterfactually stable ones" in plain
    told = Trial(frame, **READ, missing="drop", design=design).compare("ill").methods()
    assert "clusters of column 'site'" in told
    assert "Standardised over column 'ward'" in told
    worst = Trial(frame, **READ, missing="worst").compare("ill").methods()
    assert "stable" not in worst
    assert "say missing" not in worst  # advice is for the reader of the answer, not of the paper
    causes = Trial(frame, **READ, missing="drop", design=Design(strata="ward")).causes("ill").methods()
    assert "Bounds are averages over the strata of column 'ward', cross-fitted." in causes
    assert "Bounds are sharp" not in causes
    assert "Hunter and Worsley" not in causes


def test_what_cannot_be_is_not_told():
    """Nothing is worse than the worst outcome: `worse 0 %` would read as safety."""
    asked = Trial(people(), **READ).compare("dead")
    assert "worse" not in asked.summary()
    assert "worse" in Trial(people(), **READ).compare("ill").summary()
    assert "the same 0 to 33 %" in Trial(people(ordered=False), **READ).compare("dead").summary()


def test_numbers_name_arms_of_a_text_file_too(tmp_path):
    path = tmp_path / "trial.csv"
    path.write_text("arm,mrs\n" + "".join(f"{each % 2},{each % 4}\n" for each in range(80)))
    trial = Trial(path, outcome="mrs", arm="arm", control=0, treated=1, best=3)
    assert trial.compare(2, under=1).worlds == ("1", "0")


def test_causes_refuse_a_population_that_only_comparisons_have():
    trial = Trial(people().assign(one=1), **READ, design=Design(strata="one", population="treated"))
    with pytest.raises(InputError, match="`population` standardises comparisons"):
        trial.causes("dead")


def test_a_measurement_among_outcomes_is_told():
    frame = pd.DataFrame({"arm": [0, 1] * 30, "weight": np.linspace(50, 90, 60), "age": [20, 30, 40] * 20})
    warned = Trial(frame, outcome="weight", arm="arm").compare(50.0, couplings=[])
    assert "WARNING: Column 'weight' has 60 different outcomes of 60 people." in warned.summary()
    assert "WARNING" not in Trial(frame, outcome="age", arm="arm").compare(20, couplings=[]).summary()
