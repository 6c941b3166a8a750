"""Two known laws and one question: all answers, as table, dataframe, JSON and pictures."""

import io
import json
from time import process_time
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from scipy.optimize import linprog

from countermax import GumbelMax, InputError, InverseCDF, Trial, Worlds
from countermax import _plotting as plotting
from countermax.couplings import AbstractMatrixCoupling
from countermax.couplings._named import named_couplings

P, Q, LABELS, SCORE = [0.3, 0.4, 0.3], [0.1, 0.3, 0.6], ["dead", "ill", "well"], [0.0, 1.0, 2.0]


def compare(p, q, seen, *, couplings="all", tolerance=0.05, **read):
    return Worlds(p, q, **read).compare(seen, couplings=couplings, tolerance=tolerance)


@pytest.fixture(scope="module")
def comparison():
    return compare(P, Q, "dead", labels=LABELS, score=SCORE)


def test_answers_are_the_couplings_own(comparison):
    answers = comparison.probabilities
    names = ["Gumbel-max", "inverse CDF", "inverse CDF by score", "maximal", "independent"]
    assert list(answers) == list(comparison.joints) == names
    with jax.enable_x64(True):
        expected = GumbelMax().counterfactual_probs(np.log(P), np.log(Q), 0)
    np.testing.assert_allclose(answers["Gumbel-max"], expected, atol=1e-12)
    # By hand: q/p is 1/3, 3/4 and 2, so the dead stay dead with probability q/p = 1/3, and so on along the race.
    np.testing.assert_allclose(answers["Gumbel-max"], [1 / 3, 1 / 9, 5 / 9], atol=1e-12)
    np.testing.assert_allclose(answers["inverse CDF"], [1 / 3, 2 / 3, 0], atol=1e-12)
    assert comparison.row("expected score", "independent").value == pytest.approx(1.5)
    assert comparison.row("effect", "independent").value == pytest.approx(1.5)  # what the change would have added
    assert comparison.row("effect variance", "inverse CDF by score").value == pytest.approx(0.25)
    assert comparison.row("agreement", "maximal").value == pytest.approx(0.7)


def test_whether_this_person_would_have_done_better_is_told_apart_from_everybody(comparison):
    ill = compare(P, Q, "ill", labels=LABELS, score=SCORE)
    for name, row in ill.probabilities.items():
        for quantity, expected in (("better", row[2]), ("worse", row[0]), ("same", row[1])):
            assert ill.row(quantity, name, "this person").value == pytest.approx(expected)
        joint = ill.joints[name]
        assert ill.row("better", name, "everybody").value == pytest.approx(joint[np.triu_indices(3, 1)].sum())
        assert ill.row("worse", name, "everybody").value == pytest.approx(joint[np.tril_indices(3, -1)].sum())
    for family, limits in (("any coupling", ill.bounds), ("stable couplings", ill.stable_bounds)):
        for quantity, place in (("better", 2), ("worse", 0), ("same", 1)):
            found = ill.row(quantity, family, "this person")
            assert (found.lower, found.upper) == pytest.approx((limits.lower[place], limits.upper[place]))
    spared = comparison.row("better", "any coupling", "this person")
    assert (spared.lower, spared.upper) == pytest.approx((2 / 3, 1))


def test_bounds_and_flag(comparison):
    np.testing.assert_allclose(comparison.bounds.upper, [1 / 3, 1, 1], atol=1e-12)
    np.testing.assert_allclose(comparison.stable_bounds.lower, [1 / 3, 0, 0], atol=1e-12)
    effect = comparison.row("effect", "any coupling")
    assert (effect.lower, effect.upper) == pytest.approx((2 / 3, 2))
    assert comparison.coupling_matters
    assert "coupling matters" in comparison.summary()
    assert comparison.slack == pytest.approx(1)
    assert comparison.disagreement == pytest.approx(2 / 3)


def test_where_data_fix_the_answer_the_coupling_does_not_matter():
    certain = compare([0.5, 0.5], [0.0, 1.0], 0)
    assert not certain.coupling_matters
    assert certain.slack == pytest.approx(0, abs=1e-12)
    assert "hardly matters" in certain.summary()


def test_counts_logits_and_probabilities_are_the_same_question(comparison):
    counts = compare([30, 40, 30], [10, 30, 60], "dead", labels=LABELS, normalise=True)
    shifted = compare(np.log(P) + 5, np.log(Q) - 3, "dead", labels=LABELS, logits=True)
    for other in (counts, shifted):
        for name, answer in other.probabilities.items():
            np.testing.assert_allclose(answer, comparison.probabilities[name], atol=1e-12)
        assert {each.quantity for each in other.rows} == {"P(dead)", "P(ill)", "P(well)", "agreement"}


def test_a_score_for_each_world():
    result = compare(P, Q, 0, score=[0, 1, 2], counterfactual_score=[1, 2, 3])
    shifted = compare(P, Q, 0, score=[0, 1, 2])
    for quantity, more in (("effect", 1), ("effect variance", 0)):
        one, other = (each.row(quantity, "Gumbel-max").value for each in (result, shifted))
        assert one == pytest.approx(other + more)


def test_own_couplings_can_be_asked():
    result = compare(P, Q, 2, couplings={"backwards": InverseCDF([2, 1, 0])})
    assert list(result.joints) == ["backwards"]
    np.testing.assert_allclose(result.probabilities["backwards"], [0, 0, 1], atol=1e-12)
    with pytest.raises(InputError, match="must not reuse the name 'any coupling'"):
        compare(P, Q, 2, couplings={"any coupling": GumbelMax()})


def test_couplings_can_be_asked_by_name():
    result = compare(P, Q, 0, score=SCORE, couplings=["gumbel-max", "inverse-cdf-by-score"])
    assert list(result.joints) == ["Gumbel-max", "inverse CDF by score"]
    with pytest.raises(InputError, match="only with a `score` beside it"):
        compare(P, Q, 0, couplings=["inverse-cdf-by-score"])


def test_a_vector_quantile_of_one_score_answers_as_the_inverse_cdf_by_score():
    result = compare(P, Q, 0, score=SCORE, couplings=["vector-quantile", "inverse-cdf-by-score"])
    assert list(result.joints) == ["vector quantile", "inverse CDF by score"]
    np.testing.assert_array_equal(*result.joints.values())


def test_a_coupling_by_name_is_made_for_both_scores():
    both = {"score": SCORE, "counterfactual_score": [2, 0, 1]}
    asked = compare(P, Q, 0, **both, couplings=["comonotone"]).joints["comonotone"]
    np.testing.assert_allclose(asked, compare(P, Q, 0, **both).joints["comonotone"], atol=1e-15)
    one = compare(P, Q, 0, score=SCORE, couplings=["comonotone"])
    assert not np.allclose(asked, next(iter(one.joints.values())))


def test_labels_are_compared_as_in_tables():
    """2.0 is the label 2, and a text is never a boolean or a number."""
    assert compare(P, Q, 2.0, labels=[1, 2, 3]).seen == 1
    assert compare(P[:2] / np.sum(P[:2]), [0.5, 0.5], True, labels=[False, True]).seen == 1
    for observed, labels in (("true", [False, True, 2]), ("2", [1, 2, 3]), (2, ["1", "2", "3"]), (True, None)):
        with pytest.raises(InputError, match="never equals|must be one of the labels 0, 1, 2, got True"):
            compare(P, Q, observed, labels=labels)


def test_a_result_prints_itself(comparison):
    assert "stable couplings" in str(comparison)
    assert "\x1b" not in str(comparison)


def test_many_outcomes_and_few_are_solved_alike():
    """Few outcomes are compiled quickly, many with all optimisations; both are the couplings' own laws."""
    rng = np.random.default_rng(3)
    for size in (5, 100):
        p, q = rng.dirichlet(np.ones(size), 2)
        with jax.enable_x64(True):
            expected = GumbelMax().joint(np.log(p), np.log(q))
        np.testing.assert_allclose(compare(p, q, 0).joints["Gumbel-max"], expected, atol=1e-14)


def test_an_outcome_too_rare_for_the_joint_law_has_an_answer():
    logits = np.array([-800.0, 0.0, 1.0]), np.array([0.0, -700.0, 1.0])
    rare = compare(*logits, 0, logits=True)
    with jax.enable_x64(True):
        for name, coupling in named_couplings().items():
            answer = rare.probabilities[name]
            np.testing.assert_allclose(answer, coupling.counterfactual_probs(*logits, 0), atol=1e-14)
            assert answer.sum() == pytest.approx(1)


def test_answers_are_rows_of_the_exact_law(comparison):
    with jax.enable_x64(True):
        for name, coupling in named_couplings(score=np.array(SCORE)).items():
            expected = coupling.counterfactual_probs(np.log(P), np.log(Q), 0)
            np.testing.assert_allclose(comparison.probabilities[name], expected, atol=1e-15)


def test_the_listing_shows_everything(comparison):
    console = Console(file=io.StringIO(), width=160)
    console.print(comparison)
    text = " ".join(console.file.getvalue().split())
    for word in (
        "Gumbel-max",
        "0.556",
        "any coupling",
        "stable couplings",
        "0.000 to 0.667",
        "effect variance",
        "coupling matters",
        "From worst to best: dead, ill, well (scored 0 to 2).",
    ):
        assert word in text


def test_many_outcomes_are_cut_in_the_terminal_only():
    result = compare(np.full(90, 1 / 90), np.full(90, 1 / 90), 3)
    console = Console(file=io.StringIO(), width=120)
    console.print(result)
    assert "more: see to_frame()" in console.file.getvalue()
    assert result.to_frame()["quantity"].nunique() == 91


def test_dataframe_and_json_say_the_same(comparison):
    frame, plain = comparison.to_frame().set_index(["quantity", "coupling"]), json.loads(comparison.to_json())
    stored = {(each["quantity"], each["coupling"]): each for each in plain["rows"] if each["about"] == "this person"}
    assert frame.loc["P(well)", "Gumbel-max"]["value"] == pytest.approx(stored["P(well)", "Gumbel-max"]["value"])
    assert frame.loc["effect", "any coupling"]["upper"] == pytest.approx(stored["effect", "any coupling"]["upper"])
    assert plain["seen"] == "dead"
    assert plain["coupling_matters"] is True
    assert plain["joints"]["maximal"] == comparison.joints["maximal"].tolist()


def test_pictures_hold_the_numbers(comparison):
    figure = comparison.plot()
    assert isinstance(figure, Figure)
    drawn = {tuple(map(float, line.get_xdata())) for line in figure.axes[0].lines}
    for value in comparison.probabilities["Gumbel-max"]:  # a dot is a range without width
        assert any(ends == pytest.approx((value, value)) for ends in drawn)
    heatmaps = [
        axes.images[0].get_array()
        for axes in comparison.plot_couplings().findobj(match=type(figure.axes[0]))
        if axes.images
    ]
    assert len(heatmaps) == len(comparison.joints)
    np.testing.assert_allclose(heatmaps[0], comparison.joints["Gumbel-max"])


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_pictures_are_repeatable(comparison, suffix):
    first, second = (plotting.picture(comparison.plot(), suffix) for _ in range(2))
    assert len(first) > 1000
    assert first == second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.3, 0.4, 0.2]}, "`factual` must sum to 1, got 0.9; correct them, or rescale them"),
        ({"p": [30, 40, 30]}, "`factual` must sum to 1, got 100; if these count people, ask `Trial.from_counts`"),
        ({"q": [0.3, -0.4, 1.1]}, "`counterfactual` must not be negative, got -0.4"),
        ({"p": [0.3, float("nan"), 0.2]}, "`factual` must not contain NaN: number 2"),
        ({"q": [0.5, 0.5]}, "same number of outcomes, got 3 and 2"),
        ({"p": []}, "`factual` must have a number for each outcome, got none"),
        ({"seen": "sick"}, "`seen` must be one of the labels 'dead', 'ill', 'well', got 'sick'"),
        ({"p": [0, 0.5, 0.5]}, "'dead' was seen but has probability zero under factual; .*swapped"),
        ({"labels": ["a", "b"]}, "each of the 3 outcomes, got 2"),
        ({"labels": ["a", "a", "dead"]}, "differ from each other, got 'a'"),
        ({"score": [1, 2]}, "one number for each of 3 labels"),
        ({"score": [1, 2, float("inf")]}, "`score` must hold finite numbers"),
        ({"counterfactual_score": [1, 2, 3]}, "needs a `score`"),
        ({"p": [0, 0, 0], "normalise": True}, "positive, finite sum"),
        ({"p": [0.0, np.inf, 0.0], "logits": True}, "logits below"),
        ({"p": [1e308, 1e308, 0.0], "normalise": True}, "positive, finite sum, got inf"),
        ({"p": ["a", "b", "c"]}, "`factual` must be a vector of numbers"),
        ({"q": [0.5, [0.5], 0]}, "`counterfactual` must be a vector of numbers"),
        ({"score": ["a", "b", "c"]}, "`score` must be a vector of numbers"),
        ({"score": [0, 1, -1e200]}, "`score` must hold finite numbers within 1e100"),
        ({"names": ("a", "a")}, "`names` must be two different names"),
        (
            {"couplings": {"mine": GumbelMax}},
            r"`couplings\['mine'\]` must be a coupling with an exact law.*make an instance",
        ),
        ({"couplings": {"mine": 3}}, r"`couplings\['mine'\]` must be a coupling with an exact law, got 3"),
        ({"tolerance": 5}, "`tolerance` .* must lie between 0 and 1"),
        ({"tolerance": -1.0}, "`tolerance` .* must lie between 0 and 1"),
        ({"tolerance": float("nan")}, "`tolerance` .* must lie between 0 and 1"),
    ],
)
def test_bad_input_is_named(change, message, as_users_call):
    arguments = {"p": P, "q": Q, "seen": "dead", "labels": LABELS} | change
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
    for word in ("Seen under factual: [red].", *labels, "[my] own"):
        assert word in text
    assert text.count("[red]") >= 2
    figure = result.plot()
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["[red]", r"[/b] \$1\$", "not_well"]
    for each in (figure, result.plot_couplings()):
        plotting.picture(each)


def test_a_picture_of_many_outcomes_shows_those_that_could_be_likeliest():
    p, q = np.ones(50), np.arange(1.0, 51)
    p[3] = 200
    figure = compare(p, q, 3, normalise=True).plot()
    assert figure.get_size_inches()[0] < 20
    assert len(figure.axes[0].get_yticklabels()) == 12
    assert "12 of 50 outcomes" in figure.axes[0].get_title(loc="left")
    assert figure.axes[0].get_yticklabels()[0].get_text() == "3"  # what was seen


def test_pictures_are_saved_in_the_house_style(comparison):
    figure = comparison.plot()
    header = plotting.picture(figure)[16:24]  # width and height of a PNG
    pixels = int.from_bytes(header[:4], "big")
    assert pixels == pytest.approx(200 * figure.get_size_inches()[0], abs=1)


@pytest.mark.filterwarnings("error")
def test_unusual_scripts_give_no_warning():
    plotting.picture(compare(P, Q, 0, labels=[0, "\u4e2d", "\u0e01"], couplings={"one": GumbelMax()}).plot())


def test_two_worlds_print_what_they_hold():
    worlds = Worlds(dict(zip(LABELS, P, strict=True)), Q, score={"well": 1, "ill": 0.5, "dead": 0.5})
    assert repr(worlds).splitlines() == [
        "Worlds of 3 outcomes: factual and counterfactual",
        "  factual: dead 0.3, ill 0.4, well 0.3",
        "  counterfactual: dead 0.1, ill 0.3, well 0.6",
        "  score: dead 0.5 = ill 0.5 < well 1 (higher is better)",
    ]
    assert printed(worlds).startswith("Worlds of 3 outcomes")
    assert "no score" in repr(Worlds(P, Q))


def test_a_list_of_scores_needs_an_order_that_somebody_gave():
    by_label = dict(zip(LABELS, P, strict=True))
    with pytest.raises(InputError, match="`score` must be a dictionary by label, because nobody gave"):
        Worlds(by_label, Q, score=SCORE)
    listed = Worlds(by_label, Q, labels=LABELS, score=SCORE)
    np.testing.assert_array_equal(listed.score, Worlds(by_label, Q, score=dict(zip(LABELS, SCORE, strict=True))).score)
    np.testing.assert_array_equal(Worlds(P, Q, score=SCORE).score, SCORE)  # in the order of the laws


def test_one_problem_is_asked_many_things():
    worlds = Worlds(P, Q, labels=LABELS, score=SCORE)
    assert worlds.compare("dead").seen == 0
    assert worlds.compare("well").seen == 2
    assert worlds.causes("well").row("PNS", "any coupling").lower == pytest.approx(0.3)


def test_limits_of_a_score_move_with_its_zero_and_its_unit():
    """A score of 0 and 2 is twice a probability, so its limits are too."""
    event, *others = (
        Trial.from_counts([60, 40], [30, 70], score=[a, b]).compare(0, couplings="all")
        for a, b in ((0, 1), (0, 2), (3, 8))
    )
    for found, start, unit in zip(others, (0, 3), (2, 5), strict=True):
        for name in ("any coupling", "stable couplings", *found.joints):
            got, want = found.row("expected score", name), event.row("P(1)", name)
            limits = start + unit * np.array([want.ci_lower, want.ci_upper])
            np.testing.assert_allclose([got.ci_lower, got.ci_upper], limits, atol=1e-6, err_msg=name)


def test_ranges_of_everybody_are_those_of_a_linear_programme():
    stream = np.random.default_rng(3)
    for size in (2, 3, 5):
        p, q, score = stream.dirichlet(np.ones(size)), stream.dirichlet(np.ones(size)), stream.integers(0, 4, size)
        found = compare(p, q, 0, score=score.astype(float))
        sums = np.concatenate([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
        squared = (score[None, :] - score[:, None]) ** 2
        less = (q @ score - p @ score) ** 2
        for quantity, worth, shift in (("agreement", np.eye(size), 0.0), ("effect variance", squared, less)):
            ends = [
                sign * linprog(sign * worth.ravel(), A_eq=sums, b_eq=np.concatenate([p, q])).fun for sign in (1, -1)
            ]
            row = found.row(quantity, "any coupling")
            assert (row.lower, row.upper) == pytest.approx((ends[0] - shift, ends[1] - shift), abs=1e-9)


def test_the_table_says_nothing_twice_and_has_no_empty_cells():
    score = {"dead": 0, "ill": 1, "well": 2}
    trial = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=LABELS, score=score)
    person, everybody = trial.compare("dead").tables()
    assert [line[0] for line in person.lines] == ["better", "P(dead)", "P(ill)", "P(well)", "effect"]
    assert [line[0] for line in everybody.lines] == ["better", "worse", "agreement", "effect variance"]
    assert all(all(line) for each in (person, everybody) for line in each.lines)
    assert [line[0] for line in trial.compare("ill").tables()[0].lines][:3] == ["better", "worse", "P(dead)"]
    alike = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=LABELS, score={**score, "ill": 0})
    assert "same" in [line[0] for line in alike.compare("dead").tables()[0].lines]


def test_the_summary_is_four_short_lines_about_better_and_worse():
    trial = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=LABELS, score={"dead": 0, "ill": 1, "well": 2})
    question, data, coupling, verdict = trial.compare("dead").summary().splitlines()
    assert question == "Seen under control: dead. What would have happened under treated?"
    assert data.startswith(
        "The data alone (100 people in control and 100 in treated), whatever the coupling: better 67 to"
    )
    assert coupling.startswith("With Gumbel-max assumed: better 67 % (")
    assert verdict.startswith("The choice of coupling matters: better may be anything from 67 to 100 %.")
    sure = compare([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 0, score=[0.0, 1.0, 2.0]).summary()
    assert "matters for the outcome, hardly for what is told above: P(1) may be" in sure


def test_of_two_outcomes_without_a_score_the_summary_names_the_other():
    _, data, coupling, verdict = (
        Worlds({"no": 0.7, "yes": 0.3}, {"no": 0.5, "yes": 0.5}).compare("no").summary().split("\n")
    )
    assert data == "The data alone, whatever the coupling: 'yes' 29 to 71 %, the same 29 to 71 %."
    assert coupling == "With Gumbel-max assumed: 'yes' 29 %, the same 71 %."
    assert verdict == "The choice of coupling matters: 'yes' may be anything from 29 to 71 %."


def test_the_best_outcome_says_what_is_better_of_known_laws_too():
    by_rank = Worlds(P, Q, labels=LABELS, score=[0, 1, 2]).compare("dead").summary()
    assert Worlds(P, Q, labels=LABELS, best="well").compare("dead").summary() == by_rank
    with pytest.raises(InputError, match="`best` must be the first or the last"):
        Worlds(P, Q, labels=LABELS, best="ill")
    with pytest.raises(InputError, match="`best` is an end of an order"):
        Worlds(dict(zip(LABELS, P, strict=True)), dict(zip(LABELS, Q, strict=True)), best="well")


def test_what_rounding_leaves_of_zero_or_one_is_not_told():
    worlds = Worlds([0.2, 0.3, 0.3, 0.2], [0.1, 0.25, 0.3, 0.35], labels=list("abcd"), score=[0, 1, 2, 3])
    found = worlds.compare("d")
    assert 0 < found.row("worse", "any coupling", "this person").lower < 1e-12
    assert "worse 0 to 100 %" in found.summary()
    assert "worse may be anything from 0 to 100 %" in found.summary()
    other = Worlds([0.2, 0.3, 0.5, 0.0], [0.0, 0.25, 0.3, 0.45], labels=list("abcd")).causes("d")
    assert "With Gumbel-max assumed: PN 100 %." in other.summary()


def test_two_dials_say_once_what_is_true_of_both():
    trial = Trial.from_counts([20, 30, 50], [10, 25, 65], labels=list("abc"))
    found = trial.compare("b", sharing=True, nests={"like": ["a", "b"]})
    assert len(found.notes) == len(set(found.notes))
    assert sum("pointwise" in each for each in found.notes) == 1


def test_names_of_thousands_of_letters_break_neither_print_nor_picture_nor_page(tmp_path):
    names = ["x" * 3000, "x" * 2999 + "y", "word " * 600 + "end"]
    score, arms = dict(zip(names, range(3), strict=True)), ("p" * 3000, "p" * 2999 + "q")
    trial = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=names, score=score, names=arms)
    for answer in (trial.compare(names[0]), trial.causes(names[1])):
        cells = [cell for table in answer.tables() for line in table.lines for cell in line]
        assert max(map(len, cells)) < 100
        assert len(answer.title) < 300
        axes = answer.plot().axes[0]
        ticks = [each.get_text().splitlines() for each in axes.get_yticklabels()]
        assert max(map(len, ticks)) <= 3
        assert max(len(line) for lines in ticks for line in lines) <= 24
        assert len(axes.get_xlabel()) < 120
        assert answer.write_page(tmp_path / "page.html", overwrite=True).exists()
    shown = [line[0] for line in trial.compare(names[0]).tables()[0].lines if line[0].startswith("P(")]
    assert len(shown) == 3  # those that begin alike have lines of their own
    assert {f"P({each})" for each in names} <= {each.quantity for each in trial.compare(names[0]).rows}  # as they are


def test_of_many_outcomes_the_row_is_found_without_matrices(monkeypatch):
    monkeypatch.setattr("countermax.comparison._measuring.MOST_JOINT", 20)
    monkeypatch.setattr("countermax.comparison._asking.MOST_JOINT", 20)
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(37), 2)
    found = Worlds(p, q, score=np.arange(37.0), labels=range(37)).compare(5, couplings="all")
    assert not found.joints
    with jax.enable_x64(True):
        laws = {
            name: np.asarray(each.joint(np.log(p), np.log(q)))
            for name, each in named_couplings(score=np.arange(37.0), counterfactual_score=np.arange(37.0)).items()
        }
    assert set(found.couplings) == set(laws)
    for name, law in laws.items():
        np.testing.assert_allclose(found.probabilities[name], law[5] / law[5].sum(), atol=1e-12)
        np.testing.assert_allclose(found.row("better", name).value, law[5, 6:].sum() / law[5].sum(), atol=1e-12)
    everybody = {each.quantity for each in found.rows if each.about == "everybody"}
    assert everybody == {"agreement", "effect variance"}
    for name in ("Gumbel-max", "independent", "maximal"):
        np.testing.assert_allclose(found.row("agreement", name).value, np.trace(laws[name]), atol=1e-12)
    assert "Left out are numbers about everybody that need the joint law of 37 by 37 outcomes." in str(found)
    shown = found.tables()[0].lines
    told = [line[0] for line in shown if line[0].startswith("P(")]
    assert told[0] == "P(5)"
    chances = np.max([*found.probabilities.values()], axis=0)
    assert {f"P({place})" for place in np.argsort(-chances)[:11]} <= set(told)
    assert shown[-1][0] == "... 25 more: see to_frame()"
    with pytest.raises(InputError, match="there are none of 37 outcomes"):
        found.plot_couplings()


def test_causes_of_a_vocabulary_are_refused_before_anything_is_computed():
    with pytest.raises(InputError, match="at most 1,000 outcomes for `causes`, .* got 50,000; merge outcomes"):
        Worlds(np.zeros(50_000), np.zeros(50_000), logits=True).causes(3)


def test_outcomes_of_a_vocabulary_are_listed_at_once():
    worlds = Worlds(*np.random.default_rng(0).normal(size=(2, 20_000)), logits=True, score=np.arange(20_000.0))
    start = process_time()
    assert "(scored 0 to 19999)" in str(worlds)
    assert process_time() - start < 10


def test_bounds_may_be_asked_alone():
    found = Worlds(P, Q).compare(0, couplings=[])
    assert not found.couplings
    assert {each.coupling for each in found.rows} == {"any coupling", "stable couplings"}
    assert "whatever the coupling" in str(found)


@final
class Wrong(AbstractMatrixCoupling):
    """A law that has nothing to do with the other world."""

    @property
    def num_outcomes(self):
        return None

    def _joint(self, log_p, log_q):
        return jnp.outer(jnp.exp(log_p), jnp.exp(log_p))

    def _counterfactual_probs(self, log_p, log_q, x):
        return jnp.exp(log_p)


@pytest.mark.parametrize("most", [2048, 1])
def test_a_coupling_of_other_worlds_is_refused(most, monkeypatch):
    monkeypatch.setattr("countermax.comparison._measuring.MOST_JOINT", most)
    p, q = [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]
    with pytest.raises(InputError, match="'mine' must couple the two worlds, but its laws are off by 0.[78]"):
        Worlds(p, q).compare(0, couplings={"mine": Wrong()})


def test_outcomes_that_are_equally_bad_are_all_named_as_the_worst():
    told = compare(P, Q, "well", labels=["dead", "worse", "well"], score=[0, 0, 1], couplings=[]).summary()
    assert "Best: well; worst: dead and worse." in told
