"""`compare`: one question, all answers, as table, dataframe, JSON and pictures."""

import io
import json

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from countermax import GumbelMax, InputError, InverseCDF, compare
from countermax import _plotting as plotting
from countermax.couplings._named import named_couplings

P, Q, LABELS, SCORE = [0.3, 0.4, 0.3], [0.1, 0.3, 0.6], ["dead", "ill", "well"], [0.0, 1.0, 2.0]


@pytest.fixture(scope="module")
def comparison():
    return compare(P, Q, "dead", labels=LABELS, score=SCORE)


def test_answers_are_the_couplings_own(comparison):
    answers = {answer.name: answer for answer in comparison.answers}
    assert list(answers) == ["Gumbel-max", "inverse CDF", "inverse CDF by score", "maximal", "independent"]
    with jax.enable_x64(True):
        expected = GumbelMax().counterfactual_probs(np.log(P), np.log(Q), 0)
    np.testing.assert_allclose(answers["Gumbel-max"].probabilities, expected, atol=1e-12)
    # By hand: q/p is 1/3, 3/4 and 2, so the dead stay dead with probability q/p = 1/3, and so on along the race.
    np.testing.assert_allclose(answers["Gumbel-max"].probabilities, [1 / 3, 1 / 9, 5 / 9], atol=1e-12)
    np.testing.assert_allclose(answers["inverse CDF"].probabilities, [1 / 3, 2 / 3, 0], atol=1e-12)
    assert answers["independent"].expected_score == pytest.approx(1.5)
    assert answers["independent"].effect == pytest.approx(1.5)  # what the change would have added
    assert answers["inverse CDF by score"].effect_variance == pytest.approx(0.25)
    assert answers["maximal"].agreement == pytest.approx(0.7)


def test_bounds_and_flag(comparison):
    np.testing.assert_allclose(comparison.bounds.upper, [1 / 3, 1, 1], atol=1e-12)
    np.testing.assert_allclose(comparison.stable_bounds.lower, [1 / 3, 0, 0], atol=1e-12)
    assert comparison.score_bounds.effect.lower == pytest.approx(2 / 3)
    assert comparison.score_bounds.effect.upper == pytest.approx(2)
    assert comparison.coupling_matters
    assert "matters here" in comparison.verdict
    assert comparison.slack == pytest.approx(1)
    assert comparison.disagreement == pytest.approx(2 / 3)


def test_where_data_fix_the_answer_the_coupling_does_not_matter():
    certain = compare([0.5, 0.5], [0.0, 1.0], 0)
    assert not certain.coupling_matters
    assert certain.slack == pytest.approx(0, abs=1e-12)
    assert "hardly matters" in certain.verdict


def test_counts_logits_and_probabilities_are_the_same_question(comparison):
    counts = compare([30, 40, 30], [10, 30, 60], "dead", labels=LABELS, normalise=True)
    shifted = compare(np.log(P) + 5, np.log(Q) - 3, "dead", labels=LABELS, logits=True)
    for other in (counts, shifted):
        np.testing.assert_allclose(other.answers[0].probabilities, comparison.answers[0].probabilities, atol=1e-12)
        assert other.score_bounds is None


def test_a_score_for_each_world():
    result = compare(P, Q, 0, score=[0, 1, 2], counterfactual_score=[1, 2, 3])
    shifted = compare(P, Q, 0, score=[0, 1, 2])
    assert result.answers[0].effect == pytest.approx(shifted.answers[0].effect + 1)
    assert result.answers[0].effect_variance == pytest.approx(shifted.answers[0].effect_variance)


def test_own_couplings_can_be_asked():
    result = compare(P, Q, 2, couplings={"backwards": InverseCDF([2, 1, 0])})
    assert [answer.name for answer in result.answers] == ["backwards"]
    np.testing.assert_allclose(result.answers[0].probabilities, [0, 0, 1], atol=1e-12)


def test_couplings_can_be_asked_by_name():
    result = compare(P, Q, 0, score=SCORE, couplings=["gumbel-max", "inverse-cdf-by-score"])
    assert [answer.name for answer in result.answers] == ["Gumbel-max", "inverse CDF by score"]
    with pytest.raises(InputError, match="only with a `score` beside it"):
        compare(P, Q, 0, couplings=["inverse-cdf-by-score"])


def test_a_vector_quantile_of_one_score_answers_as_the_inverse_cdf_by_score():
    result = compare(P, Q, 0, score=SCORE, couplings=["vector-quantile", "inverse-cdf-by-score"])
    assert [answer.name for answer in result.answers] == ["vector quantile", "inverse CDF by score"]
    np.testing.assert_array_equal(result.answers[0].joint, result.answers[1].joint)


def test_a_coupling_by_name_is_made_for_both_scores():
    asked = compare(P, Q, 0, score=SCORE, counterfactual_score=[2, 0, 1], couplings=["comonotone"]).answers[0]
    default = compare(P, Q, 0, score=SCORE, counterfactual_score=[2, 0, 1]).answers[-1]
    assert default.name == asked.name == "comonotone"
    np.testing.assert_allclose(asked.joint, default.joint, atol=1e-15)
    assert not np.allclose(asked.joint, compare(P, Q, 0, score=SCORE, couplings=["comonotone"]).answers[0].joint)


def test_labels_are_compared_as_in_tables():
    """2.0 is the label 2, and a text is never a boolean or a number."""
    assert compare(P, Q, 2.0, labels=[1, 2, 3]).observed == 1
    assert compare(P[:2] / np.sum(P[:2]), [0.5, 0.5], True, labels=[False, True]).observed == 1
    for observed, labels in (("true", [False, True, 2]), ("2", [1, 2, 3]), (2, ["1", "2", "3"]), (True, None)):
        with pytest.raises(InputError, match="never equals|must be one of the labels 0, 1, 2, got True"):
            compare(P, Q, observed, labels=labels)


def test_a_result_prints_itself(comparison):
    assert "any stable coupling" in str(comparison)
    assert "\x1b" not in str(comparison)


def test_many_outcomes_and_few_are_solved_alike():
    """Few outcomes are compiled quickly, many with all optimisations; both are the couplings' own laws."""
    rng = np.random.default_rng(3)
    for size in (5, 100):
        p, q = rng.dirichlet(np.ones(size), 2)
        with jax.enable_x64(True):
            expected = GumbelMax().joint(np.log(p), np.log(q))
        np.testing.assert_allclose(compare(p, q, 0).answers[0].joint, expected, atol=1e-14)


def test_an_outcome_too_rare_for_the_joint_law_has_an_answer():
    logits = np.array([-800.0, 0.0, 1.0]), np.array([0.0, -700.0, 1.0])
    rare = compare(*logits, 0, logits=True)
    with jax.enable_x64(True):
        for answer, coupling in zip(rare.answers, named_couplings().values(), strict=True):
            np.testing.assert_allclose(answer.probabilities, coupling.counterfactual_probs(*logits, 0), atol=1e-14)
            assert answer.probabilities.sum() == pytest.approx(1)


def test_answers_are_rows_of_the_exact_law(comparison):
    with jax.enable_x64(True):
        for answer, coupling in zip(comparison.answers, named_couplings(score=np.array(SCORE)).values(), strict=True):
            expected = coupling.counterfactual_probs(np.log(P), np.log(Q), 0)
            np.testing.assert_allclose(answer.probabilities, expected, atol=1e-15)


def test_the_listing_shows_everything(comparison):
    console = Console(file=io.StringIO(), width=100)
    console.print(comparison)
    text = console.file.getvalue()
    for word in (
        "Gumbel-max",
        "0.556",
        "any coupling",
        "any stable coupling",
        "0.000 to 0.667",
        "effect variance",
        "matters here",
    ):
        assert word in text


def test_many_outcomes_are_cut_in_the_terminal_only():
    result = compare(np.full(90, 1 / 90), np.full(90, 1 / 90), 3)
    console = Console(file=io.StringIO(), width=120)
    console.print(result)
    assert "30 more outcomes" in console.file.getvalue()
    assert result.to_frame().shape[1] == 91


def test_dataframe_and_json_say_the_same(comparison):
    frame, plain = comparison.to_frame(), json.loads(comparison.to_json())
    assert frame.loc["Gumbel-max", "well"] == pytest.approx(plain["answers"][0]["probabilities"][2])
    assert frame.loc["any coupling, upper", "effect"] == pytest.approx(plain["score_bounds"]["effect"]["upper"])
    assert plain["observed"] == "dead"
    assert plain["coupling_matters"] is True
    assert "effect" not in compare(P, Q, 0).to_frame().columns


def test_pictures_hold_the_numbers(comparison):
    figure = comparison.plot()
    assert isinstance(figure, Figure)
    heights = [bar.get_height() for container in figure.axes[0].containers[:1] for bar in container]
    np.testing.assert_allclose(heights, comparison.answers[0].probabilities)
    heatmaps = [
        axes.images[0].get_array()
        for axes in comparison.plot_couplings().findobj(match=type(figure.axes[0]))
        if axes.images
    ]
    assert len(heatmaps) == 5
    np.testing.assert_allclose(heatmaps[0], comparison.answers[0].joint)


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_pictures_are_repeatable(comparison, suffix):
    first, second = (plotting.picture(comparison.plot(), suffix) for _ in range(2))
    assert len(first) > 1000
    assert first == second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.3, 0.4, 0.2]}, "`p` must sum to 1, got 0.9"),
        ({"q": [0.3, -0.4, 1.1]}, "`q` must not be negative, got -0.4"),
        ({"p": [0.3, float("nan"), 0.2]}, "`p` must not contain NaN: number 2"),
        ({"q": [0.5, 0.5]}, "same number of outcomes, got 3 and 2"),
        ({"p": []}, "`p` must have a number for each outcome, got none"),
        ({"observed": "sick"}, "one of the labels 'dead', 'ill', 'well', got 'sick'"),
        ({"p": [0, 0.5, 0.5]}, "'dead' was observed but has probability zero under p; .*swapped"),
        ({"labels": ["a", "b"]}, "each of the 3 outcomes, got 2"),
        ({"labels": ["a", "a", "dead"]}, "differ from each other, got 'a'"),
        ({"score": [1, 2]}, "one number for each of 3 labels"),
        ({"score": [1, 2, float("inf")]}, "`score` must hold finite numbers"),
        ({"counterfactual_score": [1, 2, 3]}, "needs a `score`"),
        ({"couplings": {}}, "at least one coupling"),
        ({"p": [0, 0, 0], "normalise": True}, "positive, finite sum"),
        ({"p": [0.0, np.inf, 0.0], "logits": True}, "logits below"),
        ({"p": [1e308, 1e308, 0.0], "normalise": True}, "positive, finite sum, got inf"),
        ({"p": ["a", "b", "c"]}, "`p` must be a vector of numbers"),
        ({"q": [0.5, [0.5], 0]}, "`q` must be a vector of numbers"),
        ({"score": ["a", "b", "c"]}, "`score` must be a vector of numbers"),
        ({"score": [0, 1, -1e200]}, "`score` must hold finite numbers within 1e100"),
        ({"labels": ["dead", "effect", "well"]}, "`labels` must not be expected_score.*, got 'effect'"),
        (
            {"couplings": {"mine": GumbelMax}},
            r"`couplings\['mine'\]` must be a coupling with an exact law.*make an instance",
        ),
        ({"couplings": {"mine": 3}}, r"`couplings\['mine'\]` must be a coupling with an exact law, got 3"),
        ({"tolerance": -1.0}, "`tolerance` must not be negative"),
        ({"tolerance": float("nan")}, "`tolerance` must not be negative"),
    ],
)
def test_bad_input_is_named(change, message, as_users_call):
    arguments = {"p": P, "q": Q, "observed": "dead", "labels": LABELS} | change
    with pytest.raises(InputError, match=message):
        compare(**arguments)


def test_an_error_does_not_list_thousands_of_labels():
    with pytest.raises(InputError, match="labels 0, 1, .*, 9 and 1990 more, got 'x'"):
        compare(np.full(2000, 1 / 2000), np.full(2000, 1 / 2000), "x")


def printed(renderable):
    console = Console(file=io.StringIO(), width=160)
    console.print(renderable)
    return console.file.getvalue()


def test_labels_are_shown_as_they_are_written():
    """Neither Rich's markup nor matplotlib's formulas nor the score columns' underscores are read into them."""
    labels = ["[red]", "[/b] $1$", "not_well"]
    result = compare(P, Q, "[red]", labels=labels, couplings={"[my] own": GumbelMax()})
    text = printed(result)
    for word in ("Seen under p: [red].", *labels, "[my] own"):
        assert word in text
    assert text.count("[red]") >= 2
    figure = result.plot()
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["[red]", r"[/b] \$1\$", "not_well"]
    for each in (figure, result.plot_couplings()):
        plotting.picture(each)


def test_a_bar_chart_of_many_outcomes_shows_those_that_could_be_likeliest():
    p, q = np.ones(50), np.arange(1.0, 51)
    p[3] = 200
    figure = compare(p, q, 3, normalise=True).plot()
    assert figure.get_size_inches()[0] < 20
    assert len(figure.axes[0].get_xticklabels()) == 12
    assert "12 of 50 outcomes" in figure.axes[0].get_title(loc="left")
    assert figure.axes[0].get_xticklabels()[-1].get_text() == "49"


def test_pictures_are_saved_in_the_house_style(comparison):
    figure = comparison.plot()
    header = plotting.picture(figure)[16:24]  # width and height of a PNG
    pixels = int.from_bytes(header[:4], "big")
    assert pixels == pytest.approx(200 * figure.get_size_inches()[0], abs=1)


@pytest.mark.filterwarnings("error")
def test_unusual_scripts_give_no_warning():
    plotting.picture(compare(P, Q, 0, labels=[0, "\u4e2d", "\u0e01"], couplings={"one": GumbelMax()}).plot())
