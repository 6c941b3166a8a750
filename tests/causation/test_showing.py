"""What a result says, and that print, page, picture and frame say the same."""

import re

import numpy as np
import pandas as pd
import pytest

from countermax import InputError, causation_of_arms, probabilities_of_causation
from countermax.couplings import Independent
from countermax.tables import causation_of_rows

LABELS = ["Dead", "Ill", "Well"]
SAVED = {"control": [35, 30, 35], "treated": [14, 30, 56], "labels": LABELS, "arms": ("usual care", "new")}
KINDS = ("any coupling", "stable", "monotone")


def people(control, treated, **more):
    """A row for each person of two arms, A and B."""
    outcomes = np.concatenate([np.repeat(np.arange(len(each)), each) for each in (control, treated)])
    arms = np.repeat(["A", "B"], [sum(control), sum(treated)])
    return pd.DataFrame({"arm": arms, "y": outcomes, **more})


@pytest.fixture(scope="module")
def saved():
    return probabilities_of_causation(**SAVED, event="Dead", score=range(3), counts=True)


def words_below(result):
    return "\n".join(result.sentences())


def test_people_whom_the_treatment_saves_are_not_told_to_be_harmed(saved):
    told = words_below(saved)
    assert "contradict that new prevents 'Dead' in nobody; new must prevent 'Dead' in some" in told
    assert "Monotone: nobody has a lower score with new than with usual care (benefit, harm, tie)." in told
    assert "harms" not in str(saved)
    assert "worse off" not in str(saved)
    assert saved["PN"].monotone_bounds is None
    assert saved["PN"].monotonicity == "new prevents 'Dead' in nobody"
    worse = probabilities_of_causation(
        SAVED["treated"], SAVED["control"], labels=LABELS, event="Dead", score=range(3), counts=True
    )
    told = words_below(worse)
    assert "Monotone: treated prevents 'Dead' in nobody (PN, PS, PNS, disablement, enablement)." in told
    assert "of benefit, harm, tie: these estimates contradict that nobody has a lower score with treated" in told


def test_print_page_and_picture_use_the_same_words(saved, tmp_path):
    page = saved.write_report(tmp_path / "page.html").read_text()
    heads = re.findall(r"<th>(.*?)</th>", page)
    assert heads == ["number", *KINDS, "meaning", "number", *saved["PN"].by_coupling]
    assert [line for line in str(saved).splitlines() if " any coupling " in line][0].split("  ")[0].strip() == "number"
    assert all(kind in str(saved) for kind in KINDS)
    legend = [each.get_text() for each in saved.plot().legends[0].get_texts()]
    assert legend[: len(KINDS)] == [*KINDS]
    assert "What single couplings say" in page
    low, high = saved["PN"].intervals.by_coupling["Gumbel-max"][:2]
    for shown in (page, str(saved)):
        assert f"({low:.3f} to {high:.3f})" in shown
        for sentence in ("Any coupling: from the least", "Stable: an outcome changes only", "Monotone: "):
            assert sentence in shown


def test_a_name_of_a_coupling_hides_no_other_column():
    couplings = {name: Independent() for name in ("lower", "meaning", "bounds_ci_lower", "mine", "mine ci upper")}
    asked = {**SAVED, "event": "Well", "counts": True}
    plain = probabilities_of_causation(**asked, couplings=[]).to_frame()
    frame = probabilities_of_causation(**asked, couplings=couplings).to_frame()
    for column in plain:
        if not column.endswith(("ci_lower", "ci_upper")):  # draws are shared with the couplings
            assert (frame[column].isna() == plain[column].isna()).all()
            assert frame[column].dropna().tolist() == plain[column].dropna().tolist(), column
    assert frame["lower_2"].tolist() == frame["mine"].tolist() == frame["meaning_2"].tolist()
    assert (frame["bounds_ci_lower"] <= frame["lower"]).all()
    assert (frame["mine_ci_upper_2"] > frame["mine_ci_upper"]).all()  # the interval, and a coupling of that name
    rows = causation_of_rows(
        pd.DataFrame({"row": [0]}), control=[[0.5, 0.5]], treated=[[0.2, 0.8]], labels=[0, 1], event=1,
        couplings={"lower": Independent()},
    ).individual  # fmt: skip
    assert rows["PNS_lower"][0] == pytest.approx(0.3)
    assert rows["PNS_lower_2"][0] == pytest.approx(0.4)


def test_a_coupling_has_its_own_interval_and_so_has_the_range(saved):
    frame = saved.to_frame()
    assert not {"ci_lower", "stable_ci_lower"} & set(frame)
    for name, column in (("Gumbel-max", "Gumbel-max"), ("inverse CDF", "inverse_CDF")):
        for answer in saved.answers:
            interval = answer.intervals.by_coupling[name]
            found = frame.loc[answer.name]
            assert (found[f"{column}_ci_lower"], found[f"{column}_ci_upper"]) == interval[:2]
            assert (found["bounds_ci_lower"], found["bounds_ci_upper"]) == answer.intervals.bounds[:2]
            assert found[f"{column}_ci_lower"] <= found[column] <= found[f"{column}_ci_upper"]


def test_the_picture_shows_every_interval_and_couplings_that_the_first_number_lacks(saved):
    thin = {tuple(line.get_xdata()) for line in saved.plot().axes[0].lines if line.get_linewidth() < 1}
    for answer in saved.answers:
        assert {each[:2] for each in answer.intervals.by_coupling.values()} <= thin
        assert answer.intervals.stable_bounds[:2] in thin
    nobody = probabilities_of_causation([0.5, 0.5], [1.0, 0.0], event=1, score=range(2))
    assert nobody["PN"].bounds is None
    assert "Gumbel-max" in [each.get_text() for each in nobody.plot().legends[0].get_texts()]


def test_a_column_that_is_not_there_has_a_reason():
    stream = np.random.default_rng(0)
    frame = people([60, 40], [40, 60], sev=stream.choice(["hi", "lo"], 200))
    asked = {"outcome": "y", "arm": "arm", "treated": "B", "event": 1, "couplings": []}
    plain = causation_of_arms(frame, **asked)
    assert "exactly one coupling is stable" in words_below(plain)
    assert "There are no" not in words_below(plain)
    strata = causation_of_arms(frame, **asked, strata="sev")
    lost = causation_of_arms(frame.assign(y=frame["y"].where(frame.index % 20 != 0)), **asked, missing="worst")
    for result, reason in (
        (strata, "There are no stable bounds: they are not computed within strata."),
        (lost, "There are no stable bounds: they are computed only if every outcome is known."),
    ):
        assert reason in words_below(result)
        assert "exactly one coupling is stable" not in words_below(result)
        assert " stable  " not in str(result)
        assert " monotone  " in str(result)
    gain = probabilities_of_causation([0.5, 0.5], [0.4, 0.6], gain=np.eye(2))
    assert "There are no monotone bounds: monotonicity is about an `event` or a `score`" in words_below(gain)
    seen = {"control": [0.2, 0.2], "treated": [0.2, 0.3], "elsewhere": [0.1, 0.0]}
    both = probabilities_of_causation([0.5, 0.5], [0.5, 0.5], observational=seen, event=1)
    assert "There are no stable bounds: they are computed for a trial alone." in words_below(both)
    assert "There are no monotone bounds: some people chose something else." in words_below(both)


def test_rows_are_no_trial_and_ratios_no_means():
    p, q = [[0.5, 0.5], [0.9, 0.1]], [[0.2, 0.8], [0.8, 0.2]]
    found = causation_of_rows(pd.DataFrame({"row": [0, 1]}), control=p, treated=q, labels=[0, 1], event=1)
    told = words_below(found)
    assert found.people == "rows"
    assert "drawn by lot" not in told
    assert "as good as randomised" in told
    assert "Means over 2 rows; PN and PS are shares of all who are asked about" in told
    assert "There are neither stable nor monotone bounds of rows." in told
    assert "stable  " not in str(found)
    only = causation_of_rows(pd.DataFrame({"row": [0, 1]}), control=p, treated=q, labels=[0, 1], score=[0, 1])
    assert "Means over 2 rows. Each" in words_below(only)


def test_rows_take_several_couplings_by_name():
    stream = np.random.default_rng(1)
    p, q = stream.dirichlet(np.ones(3), (2, 20))
    frame = pd.DataFrame({"row": np.arange(20)})
    found = causation_of_rows(
        frame, control=p, treated=q, labels=["a", "b", "c"], event="c", couplings=["gumbel-max", "inverse-cdf"]
    )
    assert [*found["PNS"].by_coupling] == ["Gumbel-max", "inverse CDF"]
    alone = probabilities_of_causation(p[7], q[7], event=2, couplings=["inverse-cdf"])
    assert found.individual["PN_inverse_CDF"][7] == pytest.approx(alone["PN"].by_coupling["inverse CDF"])
    assert "goes by the order of the outcomes" not in words_below(found)  # `labels` are one


def test_the_order_that_inverse_cdf_runs_through_is_told():
    frame = people([30, 30, 40], [20, 30, 50])
    asked = {"outcome": "y", "arm": "arm", "treated": "B", "event": 2}
    assert "Inverse CDF runs through the outcomes sorted as numbers, because no order was given" in words_below(
        causation_of_arms(frame, **asked)
    )
    assert "in the order of `labels`: 2, 0, 1" in words_below(causation_of_arms(frame, **asked, labels=[2, 0, 1]))
    counted = probabilities_of_causation(**SAVED, event="Dead", counts=True)
    assert "Inverse CDF runs through the outcomes as they were given: Dead, Ill, Well." in words_below(counted)
    seen = people([30, 30, 40], [20, 30, 50])
    both = causation_of_arms(frame, **asked, observational=seen, couplings=["inverse-cdf"])
    assert "sorted as numbers, because no order was given" in words_below(both)
    assert "runs through" not in words_below(causation_of_arms(frame, **asked, couplings=["maximal"]))


def test_refusals_name_what_the_user_gave():
    with pytest.raises(InputError, match="`at_least` is a gain of the score and needs a `score`"):
        probabilities_of_causation([0.5, 0.5], [0.4, 0.6], event=1, at_least=1)
    with pytest.raises(InputError, match="`control` must hold counts, whole numbers from 0 on, got 1.5"):
        probabilities_of_causation([1.5, 2], [1, 2], event=1, counts=True)
    seen = {"control": [1, 2], "treated": [1.5, 2]}
    with pytest.raises(InputError, match=r"`observational\['treated'\]` must hold counts"):
        probabilities_of_causation(observational=seen, event=1, counts=True)
    frame = people([30, 40], [20, 50])
    asked = {"outcome": "y", "arm": "arm", "event": 1}
    with pytest.raises(InputError, match="`at_least`"):
        causation_of_arms(frame, **asked, treated="B", at_least=1)
    with pytest.raises(InputError, match="`control` must be an arm of column 'arm'"):
        causation_of_arms(frame, **asked, control="7", treated="B")
    with pytest.raises(InputError, match="`control` and `treated` must be two arms"):
        causation_of_arms(frame, **asked, control="B", treated="B")
