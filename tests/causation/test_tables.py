"""Causes in trials and tables: strata, clusters, a second source, rows, the command line."""

import itertools
import json
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from asking import causes
from quantities import quantities, quantity
from typer.testing import CliRunner

from countermax import Design, InputError, Trial, Worlds
from countermax._tables.frames import as_frame
from countermax.causation._crossing import crossed_limits
from countermax.causation._questions import questions_about
from countermax.cli import app
from countermax.couplings import GumbelMax
from countermax.tables import Predicted
from countermax.trial._people import read_people
from countermax.trial._strata import crossing_of, merged_strata
from studies.causation import TRUTHS, sampled_causes

PATH = str(files("countermax") / "data/stroke_trial.csv")
ARMS = {"outcome": "outcome", "arm": "arm", "treated": "drug", "event": "home", "couplings": ["maximal"]}


VERB = {"event", "at_least", "gain", "people", "treated_share", "couplings", "level"}
DESIGN = {"weights", "clusters", "strata", "thin"}


def causation_of_arms(data, **given):
    """A question about a trial; options of the verb and of the design are told by their names."""
    asked, design = ({name: given.pop(name) for name in names & set(given)} for names in (VERB, DESIGN))
    return Trial(data, **given, design=Design(**design) if design else None).causes(**asked)


@pytest.fixture(scope="module")
def trial():
    return pd.read_csv(PATH)


def test_a_trial_is_answered_as_its_counts(trial):
    found = causation_of_arms(trial, **ARMS)
    table = pd.crosstab(trial["arm"], trial["outcome"])
    counted = Trial.from_counts(table.loc["placebo"], table.loc["drug"]).causes("home", couplings=["maximal"])
    for ours, theirs in zip(quantities(found), quantities(counted), strict=True):
        assert ours.bounds == pytest.approx(theirs.bounds, abs=1e-12)
        assert ours.interval() == pytest.approx(theirs.interval(), abs=1e-12)


def test_strata_clusters_and_weights(trial):
    plain = causation_of_arms(trial, **ARMS)
    strata = causation_of_arms(trial, **ARMS, strata="severity", clusters="hospital")
    assert quantity(strata, "PNS").bounds.upper <= quantity(plain, "PNS").bounds.upper + 1e-9
    assert "cross-fitted" in " ".join(strata.notes)
    assert "40 clusters" in " ".join(strata.notes)
    weighted = causation_of_arms(trial.assign(weight=2.0), **ARMS, weights="weight")
    assert quantity(weighted, "PN").bounds == pytest.approx(quantity(plain, "PN").bounds)
    with pytest.raises(InputError, match="at least 10 people in each arm"):
        causation_of_arms(trial[::2], **ARMS, strata="hospital")
    merged = causation_of_arms(trial.assign(place=trial["hospital"].str[:2]), **ARMS, strata="place", thin="merge")
    assert quantity(merged, "PNS").bounds.lower <= quantity(merged, "PNS").bounds.upper


def test_an_event_that_nobody_had_is_possible_with_weights_and_one_cluster_is_refused(trial):
    without = trial[(trial["arm"] == "placebo") | (trial["outcome"] != "home")].assign(one=1.0)
    asked = {**ARMS, "couplings": ()}
    plain, weighted = (
        quantity(causation_of_arms(without, **asked, **each), "PNS") for each in ({}, {"weights": "one"})
    )
    assert weighted.bounds.upper == 0
    assert weighted.interval()[1] == pytest.approx(plain.interval()[1], rel=0.4)
    alone = trial.assign(site=np.where(trial["arm"] == "drug", "none", trial["hospital"]))
    with pytest.raises(InputError, match="two in each sample, but arm 'drug' has one in column 'site'"):
        causation_of_arms(alone, **ARMS, clusters="site")
    chose = trial.assign(hospital="H00")
    with pytest.raises(InputError, match="but the sample of those who chose has one in column 'hospital'"):
        causation_of_arms(trial, **asked, clusters="hospital", observational=chose)


def test_the_design_can_say_how_many_were_treated(trial):
    table = pd.crosstab(trial["arm"], trial["outcome"], normalize="index")
    known = Worlds(table.loc["placebo"], table.loc["drug"]).causes("home", treated_share=0.25)
    plain = causation_of_arms(trial, **ARMS, treated_share=0.25)
    weighted = trial.assign(weight=1.0 + (trial["arm"] == "drug"))
    said = causation_of_arms(weighted, **ARMS, weights="weight", treated_share=0.25)
    unsaid = causation_of_arms(weighted, **ARMS, weights="weight")
    for found in (plain, said):
        assert quantity(found, "disablement").bounds == pytest.approx(quantity(known, "disablement").bounds)
        assert "as known" not in " ".join(found.notes)
    assert "disablement" not in unsaid.meanings  # with weights the share of the treated is an estimate
    assert "need the share of the treated: say `treated_share`" in " ".join(unsaid.notes)
    with pytest.raises(InputError, match="`treated_share`"):
        causation_of_arms(trial, **ARMS, treated_share=1.5)


def test_cross_fitting_removes_the_bias_of_small_strata():
    """Four people in each stratum and arm, no effect: the plain mean of bounds is far above 0."""
    stream = np.random.default_rng(0)
    frame = pd.DataFrame({
        "arm": np.tile([0, 1], 800), "stratum": np.repeat(np.arange(200), 8), "outcome": stream.integers(0, 4, 1600),
    })  # fmt: skip
    asked = {"outcome": "outcome", "arm": "arm", "clusters": None, "strata": "stratum", "weights": None}
    people = read_people(as_frame(frame), asked, (0, 1), None, "refuse")
    (benefit, *_) = questions_about(people.labels, ("a", "b"), None, (np.arange(4.0),) * 2, None, None, False)
    counts = np.zeros((2, 200, 4))
    np.add.at(counts, (people.arm, people.stratum, people.outcome), 0.25)
    survival = counts[..., ::-1].cumsum(axis=2)
    plain = np.maximum((survival[1] - survival[0]).max(axis=1), 0).mean()
    assert plain > 0.1
    bounds, interval = crossed_limits(benefit, crossing_of([people], 4, 0.5), "trial", "any coupling")
    assert bounds.lower < 0.04
    assert interval.lower == 0
    assert len(merged_strata([people], "merge")[0][0].strata) < 60


def test_strata_are_thin_by_effective_numbers_and_join_their_neighbours():
    """Forty people in each stratum and arm; in stratum 1 two of each arm weigh more than all others of it."""
    frame = pd.DataFrame(
        {"arm": np.tile([0, 1], 120), "stratum": np.repeat([0, 1, 2], 80), "outcome": [0, 1, 1, 0] * 60}
    )
    frame["weight"] = np.where((frame.stratum == 1) & (frame.index % 40 < 2), 100.0, 1.0)
    asked = {"outcome": "outcome", "arm": "arm", "clusters": None, "strata": "stratum", "weights": "weight"}
    people = read_people(as_frame(frame), asked, (0, 1), None, "refuse")
    with pytest.raises(InputError, match="at least 10 people in each arm, but '1' has fewer"):
        merged_strata([people], "refuse")
    (merged,), notes = merged_strata([people], "merge")
    assert " + " in merged.strata[0]
    assert "were merged with their neighbours" in notes[0]
    equal, _ = merged_strata([people._replace(weight=np.full(240, 0.1))], "refuse")
    assert equal[0].strata == ("0", "1", "2")


def test_a_second_source_is_read_from_a_second_table(trial):
    people = pd.DataFrame({"arm": ["placebo"] * 40 + ["drug"] * 60, "outcome": (["dead", "home"] * 50)})
    found = causation_of_arms(trial, **ARMS | {"couplings": None}, observational=people)
    assert found.people == "chosen"
    assert found.observational[:2].sum() == pytest.approx(1)


def test_arms_that_cannot_be_told_or_never_occur_are_refused(trial):
    asked = ARMS | {"treated": None}
    with pytest.raises(InputError, match="must say which arms of column 'arm' are compared; they are"):
        causation_of_arms(trial, **asked)
    with pytest.raises(InputError, match="`treated` must be one of the arms .*, got 'Drug'"):
        causation_of_arms(trial, **asked | {"treated": "Drug"})
    with pytest.raises(InputError, match="'surgery'"):
        causation_of_arms(trial, **asked | {"treated": "surgery", "control": "placebo"})
    flags = trial.assign(arm=trial["arm"] == "drug")
    assert (
        quantity(causation_of_arms(flags, **asked), "PN").bounds
        == quantity(causation_of_arms(trial, **ARMS), "PN").bounds
    )


def test_rows_are_answered_as_each_alone():
    stream = np.random.default_rng(0)
    p, q = stream.dirichlet(np.ones(3), 40), stream.dirichlet(np.ones(3), 40)
    gain = stream.normal(size=(3, 3))
    frame = pd.DataFrame({"row": np.arange(40)})
    found = causes(
        frame,
        control=p,
        treated=q,
        event=2,
        score=range(3),
        gain=gain,
        couplings={"Gumbel-max": GumbelMax()},
        labels=range(3),
    )
    for place in range(0, 40, 9):
        alone = Worlds(p[place], q[place], score=range(3)).causes(2, gain=gain, treated_share=0.5)
        row = found.individual.iloc[place]
        for answer in quantities(found):
            assert row[f"{answer.name}_lower"] == pytest.approx(quantity(alone, answer.name).bounds.lower)
            assert row[f"{answer.name}_upper"] == pytest.approx(quantity(alone, answer.name).bounds.upper)
            assert row[f"{answer.name}_Gumbel-max"] == pytest.approx(
                quantity(alone, answer.name).by_coupling["Gumbel-max"]
            )
        assert row["decision"] == alone.decision.certain
        assert row["least_regret"] == alone.decision.least_regret
    assert quantity(found, "PNS").bounds.lower == pytest.approx(found.individual["PNS_lower"].mean())


def test_a_classifier_is_fitted_again():
    from sklearn.linear_model import LogisticRegression

    stream = np.random.default_rng(0)
    frame = pd.DataFrame({"age": stream.normal(size=200), "treated": stream.integers(0, 2, 200)})
    well = stream.random(200) < 0.3 + 0.3 * frame["treated"]
    frame["status"] = np.where(well, "well", "ill")
    model = LogisticRegression().fit(frame[["age", "treated"]], frame["status"])
    found = causes(
        frame, control=Predicted(model, {"treated": 0}), treated=Predicted(model, {"treated": 1}), outcome="status",
        event="well", refit=True, num_resamples=8,
    )  # fmt: skip
    for answer in quantities(found):
        assert answer.interval()[0] <= answer.bounds.lower <= answer.bounds.upper
        assert answer.bounds.upper <= answer.interval()[1]
    assert "refitted" in " ".join(found.notes)


def test_the_command_prints_draws_and_writes_a_page(tmp_path):
    command = ["causes", PATH, "--outcome", "outcome", "--arm", "arm", "--treated", "drug", "--event", "home"]
    outputs = ["--plot", str(tmp_path / "causes.png"), "--page", str(tmp_path / "causes.html")]
    done = CliRunner().invoke(app, [*command, "--gain", "dead>home=1,home>dead=-1", "--json", *outputs])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["decision"]["certain"] == "open"
    assert list(told["meanings"])[:3] == ["PN", "PS", "PNS"]
    assert (tmp_path / "causes.png").read_bytes().startswith(b"\x89PNG")
    assert "necessity" in (tmp_path / "causes.html").read_text()
    wrong = CliRunner().invoke(app, [*command[:-1], "homme"])
    assert wrong.exit_code == 2
    assert "must be one of the labels" in wrong.stderr


SMALL = {"outcome": "outcome", "arm": "arm", "labels": range(3), "event": [1, 2], "score": range(3), "couplings": []}


def small_trial(control, treated):
    outcomes = [each for arm in (control, treated) for each in arm]
    arms = [0] * len(control) + [1] * len(treated)
    return pd.DataFrame({"arm": arms, "outcome": pd.array(outcomes, dtype="Int64")})


@pytest.mark.parametrize("seed", range(2))
def test_missing_outcomes_at_their_worst_are_the_extremes_of_all_ways_to_fill_them_in(seed):
    """Arms are equally large, so that an extreme is attained by whole people."""
    stream = np.random.default_rng(seed)
    known = [stream.choice(3, 9, p=stream.dirichlet(np.ones(3))).tolist() for _ in range(2)]
    gain = stream.normal(size=(3, 3))
    worst = causation_of_arms(
        small_trial(known[0] + [None] * 2, known[1] + [None] * 2), **SMALL, missing="worst", gain=gain
    )
    spans = {name: [] for name in worst.meanings}
    monotone = {name: [] for name in worst.meanings}
    for extra in itertools.product(range(3), repeat=4):
        arms = (np.bincount(known[side] + list(extra[2 * side : 2 * side + 2]), minlength=3) for side in (0, 1))
        laws = Worlds(*arms, score=range(3), normalise=True)
        filled = laws.causes([1, 2], gain=gain, treated_share=0.5, couplings=[])
        for answer in quantities(filled):
            spans[answer.name] += [] if answer.bounds is None else [answer.bounds]
            monotone[answer.name] += [] if answer.monotone_bounds is None else [answer.monotone_bounds]
    for answer in quantities(worst):
        for found, filled in ((answer.bounds, spans[answer.name]), (answer.monotone_bounds, monotone[answer.name])):
            if filled:
                assert found.lower == pytest.approx(min(each.lower for each in filled), abs=1e-9), answer.name
                assert found.upper == pytest.approx(max(each.upper for each in filled), abs=1e-9), answer.name
        assert answer.interval()[0] <= answer.bounds.lower
        assert answer.interval()[1] >= answer.bounds.upper
    assert "cover whatever they had" in " ".join(worst.notes)


def test_missing_outcomes_widen_bounds_within_strata(trial):
    some = trial.assign(outcome=trial["outcome"].mask(np.arange(len(trial)) % 12 == 0))
    asked = ARMS | {"strata": "severity", "couplings": ["maximal"]}
    dropped, worst = (causation_of_arms(some, **asked, missing=rule) for rule in ("drop", "worst"))
    for name in ("PN", "PS", "PNS", "enablement"):
        assert quantity(worst, name).bounds.lower <= quantity(dropped, name).bounds.lower + 1e-9
        assert quantity(worst, name).bounds.upper >= quantity(dropped, name).bounds.upper - 1e-9
        assert (
            quantity(worst, name).bounds.upper - quantity(worst, name).bounds.lower
            > quantity(dropped, name).bounds.width + 0.01
        )
        assert quantity(worst, name).by_coupling["maximal"] == pytest.approx(
            quantity(dropped, name).by_coupling["maximal"], abs=0.02
        )


def drawn(stream, laws, number):
    """People of several strata, equally many in each: stratum and outcome."""
    stratum = np.repeat(np.arange(len(laws)), number)
    chance = stream.random(len(stratum))
    return stratum, (chance[:, None] > np.cumsum(np.asarray(laws)[stratum], axis=1)).sum(axis=1)


def two_sources(number, seed=0):
    """A trial and people who chose, in two strata with opposite choices."""
    stream = np.random.default_rng(seed)
    arms = []
    for arm, laws in enumerate(([[0.7, 0.3], [0.5, 0.5]], [[0.4, 0.6], [0.35, 0.65]])):
        stratum, outcome = drawn(stream, laws, number)
        arms.append(pd.DataFrame({"arm": arm, "place": stratum, "outcome": outcome}))
    stratum, cell = drawn(stream, [[0.45, 0.1, 0.1, 0.35], [0.2, 0.3, 0.1, 0.4]], 2 * number)
    return pd.concat(arms), pd.DataFrame({"arm": cell // 2, "place": stratum, "outcome": cell % 2})


BINARY = {"outcome": "outcome", "arm": "arm", "labels": range(2), "event": 1}


def test_strata_of_two_sources_are_bounded_each_and_averaged_by_who_chose():
    trial, seen = two_sources(4000)
    strata = causation_of_arms(trial, **BINARY, observational=seen, strata="place")
    assert strata.people == "chosen"
    assert "cross-fitted" in " ".join(strata.notes)
    by_place = [
        quantity(
            causation_of_arms(trial[trial["place"] == place], **BINARY, observational=seen[seen["place"] == place]),
            "PNS",
        )
        for place in (0, 1)
    ]
    for side in ("lower", "upper"):
        mean = np.mean([getattr(each.bounds, side) for each in by_place])
        assert getattr(quantity(strata, "PNS").bounds, side) == pytest.approx(mean, abs=0.01)
    together = quantity(causation_of_arms(trial, **BINARY, observational=seen), "PNS")
    assert quantity(strata, "PNS").bounds.width < together.bounds.width - 0.02
    for answer in quantities(strata):
        assert answer.interval()[0] <= answer.bounds.lower <= answer.bounds.upper
        assert answer.bounds.upper <= answer.interval()[1]


def test_two_sources_take_weights_and_clusters():
    trial, seen = two_sources(150)
    some = {"weights": "weight", "clusters": "group"}
    with_group = [each.assign(weight=2.0, group=np.arange(len(each)) // 5) for each in (trial, seen)]
    found = causation_of_arms(with_group[0], **BINARY, observational=with_group[1], **some)
    plain = causation_of_arms(trial, **BINARY, observational=seen)
    assert quantity(found, "PNS").bounds == pytest.approx(quantity(plain, "PNS").bounds, abs=0.02)
    assert "clusters" in " ".join(found.notes)
    with pytest.raises(InputError, match="`couplings` must be left out with `observational` and strata"):
        causation_of_arms(trial, **BINARY, observational=seen, strata="place", couplings=["maximal"])


def test_sources_that_contradict_each_other_name_the_stratum():
    trial, seen = two_sources(2000)
    wrong = seen.assign(outcome=np.where((seen["place"] == 1) & (seen["arm"] == 0), 1, seen["outcome"]))
    wrong = wrong.assign(arm=np.where(wrong["place"] == 1, 0, wrong["arm"])).assign(outcome=lambda f: f["outcome"])
    wrong.loc[wrong.index[:40], "arm"] = 1
    with pytest.raises(InputError, match="the sources cannot both be right in stratum '1'"):
        causation_of_arms(trial, **BINARY, observational=wrong, strata="place")


def test_people_elsewhere_are_counted_whatever_is_done_about_missing_outcomes():
    trial, seen = two_sources(300)
    others = pd.DataFrame({"arm": 2, "place": 0, "outcome": [0] * 100})
    gone = pd.DataFrame({"arm": 0, "place": 0, "outcome": [None] * 20})
    both = pd.concat([seen, others, gone]).astype({"outcome": "Int64"})
    for extra in ({}, {"strata": "place"}):
        found = causation_of_arms(trial, **BINARY, observational=both, missing="drop", **extra)
        assert found.observational[2].sum() == pytest.approx(100 / 1300)


def test_people_elsewhere_are_in_the_strata_of_all_columns_together():
    trial, seen = two_sources(300)
    others = pd.DataFrame({"arm": 2, "place": 1, "outcome": [0] * 100})
    trial, seen = (each.assign(half=each["outcome"].index % 2) for each in (trial, pd.concat([seen, others])))
    joined = [each.assign(both=each["place"].astype(str) + "/" + each["half"].astype(str)) for each in (trial, seen)]
    several = causation_of_arms(trial, **BINARY, observational=seen, strata=["place", "half"])
    one = causation_of_arms(joined[0], **BINARY, observational=joined[1], strata="both")
    assert several.rows == one.rows
    assert "over the strata of columns 'place', 'half', cross-fitted" in " ".join(several.notes)


def test_an_interval_over_five_strata_reaches_a_tie_at_which_every_stratum_has_a_kink():
    """No truth near the estimates has as small a tie as the true one, 0: tests of those missed 5 of 14 samples."""
    truth = TRUTHS["5 strata, no effect, kinks"]
    stream = np.random.default_rng(1)
    held = [quantity(sampled_causes(truth, stream), "tie").interval()[1] == 1 for _ in range(14)]
    assert sum(held) >= 11  # fewer once in 2,000 times, if 95 % of samples are held


def test_no_coupling_need_be_asked():
    found = Trial.from_counts([30, 70], [60, 40]).causes(1, couplings=[])
    assert not any(each.by_coupling for each in quantities(found))


def test_the_command_takes_strata_with_two_sources_and_missing_outcomes(tmp_path):
    trial, seen = two_sources(60)
    paths = [tmp_path / "trial.csv", tmp_path / "seen.csv"]
    for path, frame in zip(paths, (trial, seen), strict=True):
        frame.to_csv(path, index=False)
    asked = ["causes", str(paths[0]), "--outcome", "outcome", "--arm", "arm", "--event", "1", "--json"]
    result = CliRunner().invoke(app, [*asked, "--observational", str(paths[1]), "--strata", "place"])
    assert json.loads(result.stdout)["people"] == "chosen"
    trial.assign(outcome=trial["outcome"].astype(object).where(np.arange(len(trial)) % 9 > 0, "")).to_csv(
        paths[0], index=False
    )
    found = json.loads(CliRunner().invoke(app, [*asked, "--missing", "worst"]).stdout)
    assert "cover whatever they had" in " ".join(found["notes"])


def test_what_couplings_say_within_strata_without_effects_reaches_the_boundary():
    """With no effect nobody changes under a maximal coupling, and every estimate says that somebody does."""
    truth = TRUTHS["couplings, 3 strata, no effect"]
    stream = np.random.default_rng(2)
    for _ in range(4):
        found = sampled_causes(truth, stream)
        for answer in quantities(found):
            for name, said in answer.by_coupling.items():
                lower, upper = answer.interval(name)
                assert lower <= said <= upper
        assert quantity(found, "tie").by_coupling["maximal"] < 1
        assert quantity(found, "tie").interval("maximal")[1] == 1
        assert quantity(found, "harm").interval("Gumbel-max")[0] == 0


def merged_names(columns, strata):
    """What strata become, of which each has so many people in each arm."""
    rows = [(*names, arm) for names, number in columns for arm in (0, 1) for _ in range(number)]
    names = strata if isinstance(strata, list) else [strata]
    frame = pd.DataFrame(rows, columns=[*names, "arm"])
    if isinstance(strata, str) and strata == "ordered":
        frame["ordered"] = pd.Categorical(frame["ordered"], ["low", "medium", "high"], ordered=True)
    frame["outcome"] = np.arange(len(frame)) % 2
    asked = {"outcome": "outcome", "arm": "arm", "clusters": None, "strata": strata, "weights": None}
    (merged,), notes = merged_strata([read_people(as_frame(frame), asked, (0, 1), None, "refuse")], "merge")
    assert all(name in notes[0] for name in merged.strata if " + " in name)
    return list(merged.strata)


@pytest.mark.parametrize(
    ("strata", "counts", "expected"),
    [
        ("ordered", {"high": 3, "low": 20, "medium": 20}, ["low", "medium + high"]),
        ("age", {">60": 3, "<50": 20, "50-60": 20}, ["<50", "50-60 + >60"]),
        ("age", {"age 30": 3, "age 9": 20, "age 10": 20}, ["age 9", "age 10 + age 30"]),
        ("place", {"c": 3, "a": 20, "b": 20}, ["a", "b + c"]),
        (["sex", "age"], {"F,low": 20, "F,old": 20, "M,low": 3, "M,old": 20}, ["F, low", "F, old", "M, low + M, old"]),
    ],
)
def test_thin_strata_join_neighbours_in_their_own_order(strata, counts, expected):
    assert merged_names([(name.split(","), number) for name, number in counts.items()], strata) == expected
