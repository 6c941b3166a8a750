"""What a clinician reads: treatments by their parts, ends instead of returns, visits in every sentence."""

import re
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from processes import frame_of

from countermax import GumbelMax
from countermax._core.words import percent, percents
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, Posterior, estimate
from countermax.mdp._estimation import restricted
from countermax.mdp._posterior import NO_CONFOUNDING
from countermax.mdp._process import MODEL_GIVEN
from countermax.mdp._results import COUPLING, PERSISTENCE, UNTRIED, Claim, Meaning
from countermax.mdp._results import MODEL as ESTIMATE
from countermax.mdp._story import behind, steps_in_words, treatments_of

STATES, ACTIONS = ("ill", "worse", "death", "survival"), ("fluid 0, oxygen", "fluid 2, oxygen", "fluid 0")
QUICK = Posterior(num_draws=12)


def _log():
    """Sixty patients; fluid helps; no fluid and no oxygen was tried twice, in the first state."""
    rng = np.random.default_rng(3)
    rows = []
    for episode in range(60):
        state = 0
        for step in range(4):
            action = 2 if episode in (5, 6) and step == 0 else int(rng.integers(2))
            chance = (0.3, 0.3, 0.1, 0.3) if action == 1 else (0.3, 0.4, 0.25, 0.05)
            after = 1 if episode == 0 and step == 0 else int(rng.choice(4, p=chance))
            after = 2 if episode == 0 and step == 1 else after
            rows.append((episode, step, state, action, after, float(after == 3)))
            state = after
            if state > 1:
                break
    return EpisodeLog.from_frame(frame_of(*rows), state_names=None, num_states=4, num_actions=3)


def _named(log):
    frame = log.to_frame()
    for column in ("state", "next_state"):
        frame[column] = [STATES[each] for each in frame[column]]
    frame["action"] = [ACTIONS[each] for each in frame["action"]]
    return EpisodeLog.from_frame(frame, state_names=STATES, action_names=ACTIONS)


LOG = _named(_log())
MODEL = estimate(LOG, absorbing=[2, 3])
TREAT = restricted(MODEL, np.eye(3)[[1, 1, 1, 1]])[0]
STARVE = restricted(MODEL, np.eye(3)[[2, 1, 1, 1]])[0]


@pytest.fixture(scope="module")
def story():
    return Cohort(LOG, TREAT, process=MODEL, posterior=QUICK).explain(0)


@pytest.fixture(scope="module")
def starved():
    return Cohort(LOG, STARVE, process=MODEL, posterior=QUICK).explain(0, couplings=["maximal"])


def _process(names):
    size = len(names)
    return FiniteMDP.from_dense(np.full((2, size, 2), 0.5), np.zeros((2, size, 2)), start=[1, 0], action_names=names)


def test_actions_are_split_into_parts_with_their_levels():
    found = treatments_of(_process(["fluid 0, vasopressor 0", "fluid 2, vasopressor 0", "fluid 2, vasopressor 1.5"]))
    assert found.names == ("fluid", "vasopressor")
    assert found.graded == (True, True)
    np.testing.assert_array_equal(found.levels, [[0, 0], [2, 0], [2, 1.5]])
    mixed = treatments_of(_process(["none", "oxygen + fluid 3"]))
    assert mixed.names == ("oxygen", "fluid")
    assert mixed.graded == (False, True)
    np.testing.assert_array_equal(mixed.levels, [[0, 0], [1, 3]])


def test_numbers_of_drugs_and_of_actions_are_no_levels():
    drugs = treatments_of(_process(["drug 1 + drug 2", "drug 1"]))
    assert drugs.names == ("drug 1", "drug 2")
    assert drugs.graded == (False, False)
    assert treatments_of(_process(["7", "8"])).names == ("action 7", "action 8")
    assert treatments_of(_process(["a,b", "c"])).names == ("a,b", "c")


@pytest.mark.parametrize(
    ("bounds", "interval", "limits", "expected"),
    [
        ((0.1, 0.3), None, None, ()),
        ((0.1, 0.3), (0.1, 0.4), (0.05, 0.5), ()),
        ((-0.1, 0.3), None, None, (COUPLING,)),
        ((-0.1, 0.3), (0.1, 0.4), (-0.2, 0.5), (COUPLING,)),
        ((0.1, 0.3), (-0.1, 0.4), (-0.2, 0.5), (ESTIMATE,)),
        ((0.1, 0.3), (0.1, 0.4), (-0.2, 0.5), (ESTIMATE,)),
        ((-0.1, 0.3), (-0.1, 0.4), (-0.2, 0.5), (COUPLING, ESTIMATE)),
    ],
)
def test_robust_means_every_coupling_with_confidence_in_the_model(bounds, interval, limits, expected):
    both = [None if each is None else Interval(*each, 0.9) for each in (interval, limits)]
    assert Claim(0.2, Bounds(*bounds), *both, Bounds(0.01, 1)).depends_on == expected
    turned = [None if each is None else Interval(-each[1], -each[0], 0.9) for each in (interval, limits)]
    mirrored = Claim(-0.2, Bounds(-bounds[1], -bounds[0]), *turned, Bounds(-1, -0.01))
    assert mirrored.depends_on == expected
    assert ("robust" in mirrored.sure) == (not expected and limits is not None)
    if expected:
        assert mirrored.sure == f"depends on {' and on '.join(expected)}"
    else:
        assert Claim(0.2, Bounds(*bounds), *both, Bounds(-0.1, 1)).depends_on == (PERSISTENCE,)
        assert Claim(0.2, Bounds(*bounds), *both, Bounds(0.01, 1), untried=True).depends_on == (UNTRIED,)


def test_no_effect_by_any_coupling_can_still_depend_on_the_model():
    assert Claim(0.0, Bounds(0.0, 0.0), None, None, Bounds(0.0, 0.0)).depends_on == ()
    nothing, wide = Interval(0.0, 0.0, 0.9), Interval(0.0, 0.4, 0.9)
    assert Claim(0.0, Bounds(0.0, 0.0), nothing, nothing, Bounds(0.0, 0.0)).depends_on == ()
    assert Claim(0.0, Bounds(0.0, 0.0), nothing, wide, Bounds(0.0, 0.0)).depends_on == (ESTIMATE,)


def test_a_return_that_counts_deaths_is_told_as_their_chance_but_drawn_as_a_return():
    deaths = Meaning(("death", "home"), np.array([-1.0, 0.0]), 1.0)
    assert deaths.gain(0.2) == "lowered the chance of death by 20 percentage points"
    assert deaths.between(-0.3, -0.1) == "10 to 30 %"
    assert deaths.drawn == "score"
    assert Meaning(("death", "home"), np.array([0.0, 1.0]), 1.0).drawn == "chance of home"
    assert Meaning(("death", "home"), np.array([0.0, 1.0]), 0.9).gain(0.2) == "added 0.2 to the score"


def test_numbers_in_words():
    assert behind(None) == behind(np.nan) == ""
    assert behind(2) == " (rests on 2 visits only)"
    assert behind(1, "it ") == " (it rests on 1 visit only)"
    assert behind(5) == " (rests on 5 visits)"
    assert steps_in_words([3]) == "step 3"
    assert steps_in_words([0, 1, 2, 5, 7, 8]) == "steps 0 to 2, 5, 7 and 8"


def test_intervals_are_those_of_the_ranking(story):
    ranking = Cohort(LOG, TREAT, process=MODEL, posterior=QUICK).rank()
    earned = story.observed_return
    assert story.returns.any_interval.lower - earned == pytest.approx(ranking.any_interval.lower[0])
    assert story.returns.any_interval.upper - earned == pytest.approx(ranking.any_interval.upper[0])
    for name, interval in story.returns.intervals.items():
        assert interval.lower - earned == pytest.approx(ranking.intervals[name].lower[0])
    assert (not story.depends_on) == bool(ranking.robust[0])
    assert all(each.any_interval is not None for found in story.decisions_by_coupling.values() for each in found)


def test_an_estimate_has_intervals_unless_it_is_taken_as_given(story):
    given = Cohort(LOG, TREAT, process=MODEL, posterior=Posterior(num_draws=0)).explain(0)
    for each in (given.returns, *given.ends, given.unfinished):
        assert each.any_interval is None
        assert not each.intervals
    assert given.assumptions == (MODEL_GIVEN, NO_CONFOUNDING)
    assert story.assumptions == (NO_CONFOUNDING,)
    assert not any("obust" in each for each in given.notes)
    short = LOG.select([0])
    model = estimate(short, absorbing=[2, 3])
    done = restricted(model, TREAT)[0]
    assert Cohort(short, done, process=model).explain(0, couplings=["maximal"]).returns.any_interval is not None


def _last():
    """Where the first episode would have ended, on average over the posterior draws."""
    drawn = [Cohort(LOG, TREAT, process=each).replay(GumbelMax()).last.toarray()[0] for each in QUICK.draws(MODEL)]
    return np.mean(drawn, axis=0)


def test_ends_are_told_by_their_names_and_chances(story):
    last = _last()
    places = [STATES.index(end) for end in story.end_names]
    np.testing.assert_allclose([each.values["Gumbel-max"] for each in story.ends], last[places], atol=1e-12)
    for place, each in enumerate(story.ends):
        assert each.bounds.contains(each.values["inverse CDF"], 1e-9)
        assert each.bounds.lower == pytest.approx(story.features.bounds.lower[-1, place], abs=1e-9)
    happened, its_path, meaning, *_ = story.told.happened
    done = [ACTIONS[each] for each in LOG.actions[0, :2]]
    path = f"step 0 ill ({done[0]}), 1 worse ({done[1]}), 2 death"
    assert happened == "In 2 steps the episode came to its end: death."
    assert its_path == f"Its path: {path}."
    assert story.summary().startswith(f"{happened} {its_path}\n")
    assert story.notes.count(meaning) == 1
    texts = [each.get_text() for each in story.plot().axes[0].texts]
    assert [each for each in texts if each in STATES] == ["ill", "worse", "death"]
    assert "counts nothing but how it ends: " in meaning
    assert "survival 1" in meaning
    assert f"survival {percent(last[3])}" in story.told.instead[0]
    assert not any("earned" in each for each in story.notes)
    assert "raised the chance of survival by" in story.told.instead[-1]


def test_a_story_says_what_the_ranking_says_of_an_episode_that_ended_early(story):
    assert LOG.lengths[0] < LOG.longest == story.num_steps
    ranking = Cohort(LOG, TREAT, process=MODEL, posterior=QUICK).rank()
    for name, value in story.returns.values.items():
        assert value - story.observed_return == pytest.approx(ranking.effects[name][0])
    assert story.returns.bounds.lower - story.observed_return == pytest.approx(ranking.bounds.lower[0])
    assert story.returns.bounds.upper - story.observed_return == pytest.approx(ranking.bounds.upper[0])


def test_what_comes_to_no_end_is_told_beside_the_ends(story):
    last = _last()
    left = story.unfinished.values["Gumbel-max"]
    assert left == pytest.approx(last[:2].sum())
    assert left + sum(each.values["Gumbel-max"] for each in story.ends) == pytest.approx(1)
    assert left > 0.05
    assert f"no end within 4 steps {percent(left)} by Gumbel-max" in story.told.instead[0]
    lower, upper = story.unfinished.bounds
    assert lower <= left <= upper
    assert f"no end within 4 steps {percents(lower, upper)}" in story.told.sure[1]
    assert f"would not have ended by then with a chance of {percent(left)} by Gumbel-max" in story.told.changes[-1]
    assert story.row("P(no end)", "Gumbel-max").value == left


def test_an_episode_carried_on_is_said_to_be():
    open_ended = next(place for place in range(len(LOG)) if LOG.last_states[place] < 2)
    nothing = Posterior(num_draws=0)
    told = Cohort(LOG, TREAT, process=MODEL, posterior=nothing, horizon=9, censored="model").explain(
        open_ended, couplings=["maximal"]
    )
    recorded = LOG.lengths[open_ended]
    assert told.told.changes[-1].endswith(
        f"9 steps are compared in both worlds. The episode is censored after {recorded}; from there the model carries "
        "both worlds on."
    )


def test_features_of_a_far_horizon_are_those_of_every_time_alone(story):
    far = Cohort(LOG, TREAT, process=MODEL, posterior=Posterior(num_draws=0), horizon=30).explain(
        0, couplings=["maximal"]
    )
    for time in (1, 3, 30):
        mark = np.eye(4)[[STATES.index(far.features.names[0])]]
        found = Cohort(LOG.select([0]), TREAT, process=MODEL, horizon=time, discount=1.0).bounds(
            rewards=0.0, final=mark
        )
        np.testing.assert_allclose(far.features.bounds.lower[time, 0], found.lower[0], atol=1e-12)
        np.testing.assert_allclose(far.features.bounds.upper[time, 0], found.upper[0], atol=1e-12)


def test_the_visits_behind_the_least_known_step_are_told_once_and_first(story, starved):
    for each in (story, starved):
        told = [sentence for part in each.told for sentence in part]
        assert sum("least known step" in sentence for sentence in told) == 1
        assert " ".join(str(each).split()).count("least known step") == 1
        assert re.search(r"least known step rests on \d+ visit", each.summary())


def test_what_rests_on_few_visits_is_marked_in_words_and_in_the_pictures(story, starved):
    assert starved.record.visits[0] == 2
    assert "its least known step rests on 2 visits only" in starved.summary()
    assert "at steps 0 and 1 was seen fewer than 5 times" in starved.told.sure[-1]
    assert starved.plot().axes[-1].containers[1][0].get_height() == pytest.approx(starved.step_bounds.width[0])
    assert not any("only" in each for each in story.told.sure)
    behind_decision = {(each.step, each.other_action): each.visits for each in story.decisions}
    assert behind_decision[0, 2] == 2
    rare = [each for each in starved.to_dict()["decisions"] if each["visits"] == 2]
    assert rare
    assert set(rare[0]["effects"]) == {"maximal"}


def test_the_page_reads_from_what_happened_to_the_numbers(story, tmp_path):
    page = story.write_page(tmp_path / "story.html").read_text()
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings[:4] == [
        "What happened",
        "What would have happened",
        "How sure that is",
        "What would change this answer",
    ]
    assert headings[4:] == ["One decision changed, the rest as it was"]
    assert page.count("data:image/png;base64,") == 2
    box = re.search('<div class="box">.*?</div>', page, re.DOTALL)[0]
    for word in ("nder every coupling", "Another model", "the records do not hold", "Another horizon"):
        assert word in box
    assert page.partition("<pre>")[0].count(NO_CONFOUNDING) == 1
    assert page.index(story.summary()[:40]) < page.index("What happened")


def test_a_record_without_an_end_is_told_as_one(tmp_path):
    open_ended = next(place for place in range(len(LOG)) if LOG.last_states[place] < 2)
    told = Cohort(LOG, TREAT, process=MODEL, posterior=Posterior(num_draws=0), horizon=9).explain(
        open_ended, couplings=["maximal"]
    )
    assert told.num_steps + 1 == LOG.lengths[open_ended] + 1
    assert "the record stops without an end" in told.told.happened[0]
    assert "is not counted" in told.told.changes[-1]


def test_names_are_escaped_on_the_page(tmp_path):
    from dataclasses import replace

    evil = ("ill", "worse", "<script>", "survival")
    log = replace(LOG, state_names=evil)
    model = estimate(log, absorbing=[2, 3])
    page = (
        Cohort(log, TREAT, process=model, posterior=Posterior(num_draws=0))
        .explain(0, couplings=["maximal"])
        .write_page(tmp_path / "story.html")
    )
    assert "<script>" not in page.read_text()


def test_steps_and_times_are_told_in_the_words_of_their_columns():
    table = pd.DataFrame(
        {
            "patient": ["ann", "ann", "bob", "cy", "cy"],
            "day": [0, 1, 0, 0, 1],
            "hour": [0, 30.5, 7, 2, 3],
            "state": [0, 1, 0, 0, 1],
            "action": [0, 0, 1, 1, 1],
            "status": [2, 2, 3, 3, 3],
        }
    )
    called, score, policy = {"episode": "patient", "outcome": "status"}, {3: 1, 2: 0}, np.eye(2)[[1, 1, 1, 1]]
    days = EpisodeLog.from_frame(table, columns={**called, "step": "day"}, score=score)
    story = Cohort(days, policy, posterior=QUICK).explain("ann")
    assert story.told.happened[0] == "In 2 days the episode came to its end: state 2."
    assert story.told.happened[1] == "Its path: day 0 state 0 (action 0), 1 state 1 (action 0), 2 state 2."
    assert story.told.instead[0].startswith("Under the other policy, by day 2: ")
    assert story.plot().axes[-1].get_xlabel() == "day"
    assert not any("step" in each for each in story.told.happened)
    hours = EpisodeLog.from_frame(table, columns={**called, "time": "hour"}, score=score)
    story = Cohort(hours, policy, posterior=QUICK).explain("ann")
    told = story.told.happened[1]
    assert told == "Its path: hour 0 state 0 (action 0), 30.5 state 1 (action 0), then state 2."
    assert story.record.when(1) == "step 1 (hour 30.5)"
    assert story.told.instead[0].startswith("Under the other policy, by step 2: ")  # when that was, nobody knows
    assert "state 1, hour 30.5" in [each.get_text() for each in story.plot().axes[0].texts]


def test_a_score_of_ends_stays_within_what_is_possible():
    table = pd.DataFrame({"episode": [0, 0, 1, 2, 2], "time": [0, 1, 0, 0, 1], "state": [0, 1, 0, 0, 1]})
    table = table.assign(action=[0, 0, 1, 1, 1], outcome=[2, 2, 3, 3, 3])
    log = EpisodeLog.from_frame(table, score={3: 1, 2: 0})
    story = Cohort(log, np.eye(2)[[1, 1, 1, 1]], posterior=QUICK).explain(0)
    for row in story.rows:
        if row.quantity == "score" or row.quantity.startswith("effect"):
            assert all(0 <= each <= 1 for each in row[3:] if each is not None), row


@pytest.mark.parametrize(
    ("hours", "start", "steps", "until"),
    [
        ([0, 1, 0, 0, 1], 0, "In 2 hours", "by hour 2: "),
        ([0, 4, 0, 0, 4], 0, "In 2 steps", "by hour 8: "),
        ([6, 7, 6, 6, 7], 6, "In 2 steps", "by hour 8: "),
        ([3, 5, 0, 1, 3], 3, "In 2 steps", "by hour 7: "),
    ],
)
def test_times_that_follow_a_rule_stand_for_steps(hours, start, steps, until):
    """A column of hours: nobody reads a step's number where all steps take as long."""
    table = pd.DataFrame({"patient": ["ann", "ann", "bob", "cy", "cy"], "hours": hours, "state": [0, 1, 0, 0, 1]})
    table = table.assign(action=[0, 0, 1, 1, 1], status=[2, 2, 3, 3, 3])
    called = {"episode": "patient", "time": "hours", "outcome": "status"}
    log = EpisodeLog.from_frame(table, columns=called, score={3: 1, 2: 0})
    cohort = Cohort(log, np.eye(2)[[1, 1, 1, 1]], posterior=QUICK)
    story = cohort.explain("ann")
    assert story.told.happened[0].startswith(steps)
    assert story.told.instead[0].startswith(f"Under the other policy, {until}")
    assert f"at hour {hours[1]} would have helped most" in cohort.decisions("ann").summary()
    assert story.record.when(0) == f"hour {start}"
    if steps == "In 2 steps":
        assert story.record.when_all([1]) == f"hour {hours[1]}"
        assert story.record.when_all([0, 1]) in (f"hours {start}, {hours[1]}", f"hours {start} and {hours[1]}")


def test_ends_that_are_known_are_shown_as_observed(story):
    assert [table.columns[1] for table in story.tables()] == ["observed", next(iter(story.returns.values))]
    by_end = {name: answer.observed for name, answer in zip(story.end_names, story.ends, strict=True)}
    assert by_end == {name: float(name == story.record.states[-1]) for name in story.end_names}
    assert story.unfinished.observed == 0
    for table in story.tables():
        assert not any(cell == "" for line in table.lines for cell in line)


def test_no_number_on_the_page_has_more_decimals_than_elsewhere(story, tmp_path):
    shown = story.write_page(tmp_path / "story.html").read_text().partition("<pre>")[0]
    assert not re.search(r">[^<]*\d\.\d{4,}[^<]*<", re.sub(r"data:image[^\"]*", "", shown))


def test_who_came_to_the_worst_end_could_not_have_done_worse_and_the_least_gain_is_told(story):
    """Patient 0 died, so that a gain is no news; how large it is at least is."""
    least, limit = (100 * each for each in (story.claim.bounds.lower, story.claim.any_interval.lower))
    assert story.depends_on == (PERSISTENCE,)
    told = story.told.sure[2]
    assert told.startswith(
        "Nothing counts less than how it ended, so no policy could do worse. Every coupling that draws"
    )
    assert f"raises the chance of survival by {least:.2g} percentage points or more (limit {max(limit, 0):.2g}" in told
    assert "unless an unrecorded trait of the patient acts at several steps" in told
    lower, upper = (f"{100 * each:.0f}" for each in story.returns.any_interval[:2])
    assert (
        f"Another model that fits the log: under any coupling the chance of survival would be {lower} to {upper} %"
        in (story.told.changes[1])
    )
    home = Cohort(LOG, STARVE, process=MODEL, posterior=QUICK)
    saved = int(np.flatnonzero(LOG.last_states == 3)[0])
    assert "could do worse" not in home.explain(saved).summary()


def test_couplings_that_disagree_on_the_decision_that_mattered_most_say_so():
    found = 0
    for patient in np.flatnonzero(LOG.last_states == 2)[:12].tolist():
        story = Cohort(LOG, TREAT, process=MODEL, posterior=Posterior(num_draws=0)).explain(patient)
        one, other = (each[0] for each in story.decisions_by_coupling.values())
        differ = one.effect > 1e-9 and other.effect > 1e-9 and one[:4] != other[:4]
        assert differ == any("The couplings disagree on which: by inverse CDF it is" in each for each in story.notes)
        found += differ
    assert found


def test_a_record_that_goes_on_beyond_the_horizon_has_not_stopped():
    data = files("countermax") / "data"
    cohort = Cohort(
        data / "ward_log.csv",
        data / "ward_policy.csv",
        absorbing=["home", "dead"],
        horizon=2,
        posterior=Posterior(num_draws=0),
    )
    longer = [name for name, length in zip(cohort.log.names, cohort.log.lengths, strict=True) if length > 2]
    told = str(cohort.explain(longer[0]))
    assert "After 2 steps the horizon is reached without an end" in told
    assert "the record stops" not in told
    open_ = int((~np.isin(cohort.log.states[np.arange(len(cohort)), np.minimum(cohort.log.lengths, 2)],
                          [cohort.log.state_names.index(end) for end in ("home", "dead")])).sum())  # fmt: skip
    assert f"{open_} without an end by the horizon" in repr(cohort)
