"""What a result says, and that print, page, picture and frame say the same."""

import re

import numpy as np
import pandas as pd
import pytest
from asking import causes
from quantities import quantities, quantity

from countermax import Design, InputError, Trial, Worlds
from countermax.couplings import Independent

LABELS = ["Dead", "Ill", "Well"]
COUNTS = ([35, 30, 35], [14, 30, 56])
ARMS = ("usual care", "new")
KINDS = ("any coupling", "stable couplings", "monotone")


def people(control, treated, **more):
    """A row for each person of two arms, A and B."""
    outcomes = np.concatenate([np.repeat(np.arange(len(each)), each) for each in (control, treated)])
    arms = np.repeat(["A", "B"], [sum(control), sum(treated)])
    return pd.DataFrame({"arm": arms, "y": outcomes, **more})


@pytest.fixture(scope="module")
def saved():
    return Trial.from_counts(*COUNTS, labels=LABELS, names=ARMS, score=range(3)).causes("Dead")


def words_below(result):
    return "\n".join((*result.assumptions, *result.notes))


def test_people_whom_the_treatment_saves_are_not_told_to_be_harmed(saved):
    told = words_below(saved)
    assert "by the estimates new must prevent 'Dead' in some people." in told
    assert (
        "Monotone: new never causes 'Dead' (prevention); nobody has a lower score with new than with usual care ("
        in told
    )
    assert "harms" not in str(saved)
    assert "worse off" not in str(saved)
    assert quantity(saved, "PN").monotone_bounds is None
    worse = Trial.from_counts(*COUNTS[::-1], labels=LABELS, score=range(3)).causes("Dead")
    told = words_below(worse)
    assert "Monotone: treated never prevents 'Dead' (PN, PS, PNS, disablement, enablement)." in told
    assert "of benefit, harm, tie: by the estimates some people must have a lower score with treated" in told


def test_print_page_and_picture_use_the_same_words(saved, tmp_path):
    page = saved.write_page(tmp_path / "page.html").read_text()
    heads = re.findall(r"<th>(.*?)</th>", page)
    names = [*KINDS, *quantity(saved, "PN").by_coupling]
    assert {each for each in heads if each != "quantity"} == set(names)
    assert all(kind in str(saved) for kind in KINDS)
    legend = [each.get_text() for each in saved.plot().legends[0].get_texts()]
    assert set(names) <= set(legend)
    low, high = quantity(saved, "PN").interval("Gumbel-max")
    for shown in (page, " ".join(str(saved).split())):
        assert f"({low:.3f} to {high:.3f})" in shown
        for sentence in (
            "Any coupling: smallest to largest",
            "Stable couplings: an outcome changes only",
            "Monotone: ",
        ):
            assert sentence in shown


def test_where_the_treatment_lowers_the_event_the_question_about_prevention_is_named():
    trial = Trial.from_counts([30, 70], [28, 72], labels=["event", "none"], names=("usual", "new"))
    lowered = trial.causes("event")
    told = lowered.summary()
    assert "the event is rarer with new (28 %) than with usual (30 %). Whatever the coupling: " in told
    assert (
        "of those who had 'event' with usual, 7 to 100 % (0 to 100 %) would not have had it with new (prevention)"
        in told
    )
    assert "may be anything from 7 to 100 %" in told
    raised = trial.causes("none")
    assert "rarer" not in raised.summary()
    assert "of those who had 'none' with new, 3 to 42 % " in raised.summary()
    by_complement = {(each.coupling, each[3:]) for each in raised.rows if each.quantity == "PS"}
    assert by_complement == {(each.coupling, each[3:]) for each in lowered.rows if each.quantity == "prevention"}
    assert [each for each in lowered.rows if each.coupling == "monotone"]  # an interval, and no estimate
    assert not any(each.shown for each in lowered.rows if each.coupling == "monotone" and each.quantity == "PN")


def test_labels_of_any_letters_stand_in_the_summary_as_they_are():
    label = "fever: 39; {high}"
    told = Trial.from_counts([30, 70], [50, 50], labels=[label, "none"], names=("a; {0}", "b: {}")).causes(label)
    assert f"of those who had {label!r} with b: {{}}, 40 to 100 % (" in told.summary()
    assert "would not have had it with a; {0} (PN)" in told.summary()


def test_the_sample_names_the_arms():
    seen = {"usual": [20, 30], "new": [10, 40]}
    trial = Trial.from_counts([30, 70], [40, 60], names=("usual", "new"), observational=seen)
    assert trial.causes(0).sample == "100 people in usual, 100 in new, and 100 who chose"
    frame = people([60, 40], [40, 60], sev=[0, 1] * 100)
    strata = Trial(frame, outcome="y", arm="arm", treated="B", design=Design(strata="sev"))
    assert strata.causes(1).sample == "100 people in A and 100 in B"


def test_what_every_number_means_is_told(saved):
    told = words_below(saved)
    for line in (
        "PN: necessity: had 'Dead' with new; would not have had it with usual care.",
        "disablement: PN of both arms: had 'Dead' in either arm; would not have had it with usual care.",
        "enablement: PS of both arms: did not have 'Dead' in either arm; would have had it with new.",
        "prevention: PS of the event's absence: had 'Dead' with usual care; would not have had it with new.",
    ):
        assert line in told
    assert "From worst to best: Dead, Ill, Well (scored 0 to 2)." in told
    assert saved.summary().count(". ") <= 4


def test_a_coupling_has_its_own_interval_and_so_has_the_range(saved):
    for answer in quantities(saved):
        whole = answer.interval()
        for name, value in answer.by_coupling.items():
            lower, upper = answer.interval(name)
            assert lower <= value <= upper
        assert whole[0] <= answer.bounds.lower <= answer.bounds.upper <= whole[1]


def test_of_a_group_that_nobody_is_in_nothing_is_told():
    found = Worlds([0.2, 0.8], [0.0, 1.0], labels=["Dead", "Well"]).causes("Dead")
    (note,) = (each for each in found.notes if each.startswith("PN: undefined"))
    assert note == "PN: undefined, because nobody in these data is in the group that is asked about."


def test_what_the_bounds_are_compatible_with_is_what_is_known():
    observed = {"usual care": [30, 30, 40], "new": [10, 30, 60]}
    chosen = Trial.from_counts(None, None, labels=LABELS, names=ARMS, observational=observed).causes("Dead")
    assert "compatible with what is known" in " ".join(chosen.notes)
    assert "The data alone (200 people who chose), whatever the coupling" in chosen.summary()
    asked = Trial.from_counts(*COUNTS, labels=LABELS, names=ARMS).causes("Dead", people="chosen")
    assert "(people who chose, from 100 people in usual care and 100 in new)" in asked.summary()
    assert "compatible with the two arms" in " ".join(asked.notes)


def test_names_of_couplings_hide_no_column_of_a_row():
    rows = causes(
        pd.DataFrame({"row": [0]}), control=[[0.5, 0.5]], treated=[[0.2, 0.8]], labels=[0, 1], event=1,
        couplings={"lower": Independent()},
    ).individual  # fmt: skip
    assert rows["PNS_lower"][0] == pytest.approx(0.3)
    assert rows["PNS_lower_2"][0] == pytest.approx(0.4)


def test_the_picture_shows_every_interval_and_couplings_that_the_first_number_lacks(saved):
    thin = {tuple(line.get_xdata()) for line in saved.plot().axes[0].lines if line.get_linewidth() < 1}
    for answer in quantities(saved):
        assert {answer.interval(name) for name in answer.by_coupling} <= thin
        assert answer.interval("stable couplings") in thin
    nobody = Worlds([0.5, 0.5], [1.0, 0.0], score=range(2)).causes(1)
    assert quantity(nobody, "PN").bounds is None
    assert "Gumbel-max" in [each.get_text() for each in nobody.plot().legends[0].get_texts()]


def test_a_column_that_is_not_there_has_a_reason():
    stream = np.random.default_rng(0)
    frame = people([60, 40], [40, 60], sev=stream.choice(["hi", "lo"], 200))
    read, asked = {"outcome": "y", "arm": "arm", "treated": "B"}, {"event": 1, "couplings": []}
    plain = Trial(frame, **read).causes(**asked)
    assert "exactly one coupling is stable" in words_below(plain)
    assert "There are no" not in words_below(plain)
    strata = Trial(frame, **read, design=Design(strata="sev")).causes(**asked)
    some = frame.assign(y=frame["y"].where(frame.index % 20 != 0))
    lost = Trial(some, **read, missing="worst").causes(**asked)
    for result, reason in (
        (strata, "There are no stable bounds: they are not computed within strata."),
        (lost, "There are no stable bounds: they are computed only if every outcome is known."),
    ):
        assert reason in words_below(result)
        assert "exactly one coupling is stable" not in words_below(result)
        assert {each.coupling for each in result.rows} == {"any coupling", "monotone"}
    unsure = Trial(some, **read, missing="worst", design=Design(strata="sev")).causes(**asked)
    for name in ("PN", "PS", "PNS"):
        some_of, every = unsure.row(name, "monotone"), unsure.row(name, "any coupling")
        assert every.lower <= some_of.lower <= some_of.upper <= every.upper
    chosen = Trial(frame, **read).causes(**asked, people="chosen").summary()
    assert "In parentheses" not in chosen  # nothing is
    gain = Worlds([0.5, 0.5], [0.4, 0.6]).causes(gain=np.eye(2))
    assert "There are no monotone bounds: monotonicity is about an `event` or a `score`" in words_below(gain)
    seen = {"factual": [0.2, 0.2], "counterfactual": [0.2, 0.3], "elsewhere": [0.1, 0.0]}
    both = Worlds([0.5, 0.5], [0.5, 0.5], observational=seen).causes(1)
    assert "There are no stable bounds: they are computed for a trial alone." in words_below(both)
    assert "There are no monotone bounds: some people chose something else." in words_below(both)


def test_rows_are_no_trial_and_ratios_no_means():
    p, q = [[0.5, 0.5], [0.9, 0.1]], [[0.2, 0.8], [0.8, 0.2]]
    found = causes(pd.DataFrame({"row": [0, 1]}), control=p, treated=q, labels=[0, 1], event=1)
    told = words_below(found)
    assert found.people == "rows"
    assert "participants" not in told
    assert "as good as randomised" in told
    assert "Means over 2 rows; PN, PS and prevention are shares of all who are asked about" in told
    assert "Bounds over stable or monotone couplings are not computed for rows." in told
    assert {each.coupling for each in found.rows} == {"any coupling"}
    only = causes(pd.DataFrame({"row": [0, 1]}), control=p, treated=q, labels=[0, 1], score=[0, 1])
    assert "Means over 2 rows. Each" in words_below(only)


def test_rows_take_several_couplings_by_name():
    stream = np.random.default_rng(1)
    p, q = stream.dirichlet(np.ones(3), (2, 20))
    frame = pd.DataFrame({"row": np.arange(20)})
    found = causes(
        frame, control=p, treated=q, labels=["a", "b", "c"], event="c", couplings=["gumbel-max", "inverse-cdf"]
    )
    assert [*quantity(found, "PNS").by_coupling] == ["Gumbel-max", "inverse CDF"]
    alone = Worlds(p[7], q[7]).causes(2, couplings=["inverse-cdf"])
    assert found.individual["PN_inverse_CDF"][7] == pytest.approx(quantity(alone, "PN").by_coupling["inverse CDF"])
    assert "goes by the order of the outcomes" not in words_below(found)  # `labels` are one


def test_the_order_that_inverse_cdf_runs_through_is_told():
    frame = people([30, 30, 40], [20, 30, 50])
    read = {"outcome": "y", "arm": "arm", "treated": "B"}
    assert "Inverse CDF runs through the outcomes sorted as numbers" in words_below(
        Trial(frame, **read).causes(2, couplings="all")
    )
    assert "in the order of `labels`: 2, 0, 1" in words_below(
        Trial(frame, **read, labels=[2, 0, 1]).causes(2, couplings="all")
    )
    counted = Trial.from_counts(*COUNTS, labels=LABELS).causes("Dead", couplings="all")
    assert "Inverse CDF runs through the outcomes as they were given: Dead, Ill, Well." in words_below(counted)
    seen = people([30, 30, 40], [20, 30, 50])
    both = Trial(frame, **read, observational=seen).causes(2, couplings=["inverse-cdf"])
    assert "sorted as numbers" in words_below(both)
    assert "runs through" not in words_below(Trial(frame, **read).causes(2, couplings=["maximal"]))


def test_refusals_name_what_the_user_gave():
    with pytest.raises(InputError, match="`at_least` is a gain of the score and needs a `score`"):
        Worlds([0.5, 0.5], [0.4, 0.6]).causes(1, at_least=1)
    with pytest.raises(InputError, match="`control` must hold counts, whole numbers from 0 on, got 1.5"):
        Trial.from_counts([1.5, 2], [1, 2])
    seen = {"control": [1, 2], "treated": [1.5, 2]}
    with pytest.raises(InputError, match=r"`observational\['treated'\]` must hold counts"):
        Trial.from_counts(None, None, observational=seen)
    frame = people([30, 40], [20, 50])
    read = {"outcome": "y", "arm": "arm"}
    with pytest.raises(InputError, match="`at_least`"):
        Trial(frame, **read, treated="B").causes(1, at_least=1)
    with pytest.raises(InputError, match="`control` must be one of the arms .*column 'arm'"):
        Trial(frame, **read, control="7", treated="B")
    with pytest.raises(InputError, match="`control` and `treated` must be two arms"):
        Trial(frame, **read, control="B", treated="B")
