"""Switching tables: against the joint laws, against frozen error terms, and what they refuse."""

import jax
import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from countermax import GumbelMax, InputError, Maximal, NestedGumbelMax, Rows, Utilities
from countermax.cli import app

pytestmark = pytest.mark.usefixtures("double")

FALSE_ALARM = 1e-6
MODES = ["car", "walk", "train", "bus", "tram"]
NESTS = {"public": ["train", {"street": ["bus", "tram"]}]}
MODEL = NestedGumbelMax(NESTS, {"public": 0.75, "street": 0.5}, labels=MODES)
STREET, PUBLIC = 0.375, 0.75  # scales


def _people(count, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(count, 5))
    scenario = base + [-0.3, 0.0, 0.0, 0.2, 0.9]
    base[: count // 5, 0] = scenario[: count // 5, 0] = np.nan  # no car
    scenario[-2:, 2] = -np.inf  # the line is closed
    return base, scenario


def switching_table(base, scenario, coupling, labels=MODES, **more):
    frame = pd.DataFrame({"row": np.arange(len(base))})
    utilities = Utilities(coupling, **more)
    return Rows(frame, factual=base, counterfactual=scenario, labels=labels, utilities=utilities).switching()


def _open(u):
    return np.where(np.isnan(u), -np.inf, u)


def _textbook(u):
    """Log-probabilities and the logsum, nest by nest."""
    u = _open(u)
    street = STREET * np.log(np.exp(u[3:] / STREET).sum())
    public = PUBLIC * np.log(np.exp(u[2] / PUBLIC) + np.exp(street / PUBLIC))
    whole = np.log(np.exp(u[0]) + np.exp(u[1]) + np.exp(public))
    inside = (public - whole) + (street - public) / PUBLIC
    logs = [u[0] - whole, u[1] - whole, (public - whole) + (u[2] - public) / PUBLIC]
    return np.array([*logs, *(inside + (u[3:] - street) / STREET)]), whole


def test_choices_are_those_of_the_textbook():
    for u in _people(20)[1]:
        found, logsum = MODEL.choice(_open(u))
        expected, whole = _textbook(u)
        np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=1e-14)
        assert float(logsum) == pytest.approx(whole, abs=1e-13)


def test_elasticities_are_derivatives_and_largest_within_a_nest():
    u = np.array([0.3, -0.2, 0.1, 0.5, 0.0])
    found = np.asarray(jax.jacobian(lambda each: MODEL.choice(each)[0])(u))
    steps = 1e-6 * np.eye(5)
    expected = [(_textbook(u + step)[0] - _textbook(u - step)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(found, np.array(expected).T, atol=1e-8)
    assert found[3, 4] < found[2, 4] < found[0, 4] == pytest.approx(found[1, 4])  # who loses most to the tram


def test_a_table_is_the_sum_of_joint_laws():
    base, scenario = _people(40)
    weights = np.random.default_rng(1).uniform(0, 3, 40)
    for model in (MODEL, GumbelMax()):
        found = switching_table(base, scenario, model, weights=weights)
        logs = [_open(each) for each in (base, scenario)]
        if model is MODEL:
            logs = [np.array([_textbook(row)[0] for row in each]) for each in logs]
        laws = np.asarray(jax.vmap(model.joint)(*logs))
        np.testing.assert_allclose(found.counts, np.tensordot(weights, laws, 1), atol=1e-12)
        p, q = laws.sum(axis=2), laws.sum(axis=1)
        lower = np.maximum(p[:, :, None] + q[:, None, :] - 1, 0)
        np.testing.assert_allclose(found.bounds.lower, np.tensordot(weights, lower, 1), atol=1e-12)
        assert (found.bounds.lower <= found.counts + 1e-12).all()
        assert (found.counts <= found.bounds.upper + 1e-12).all()
        assert (found.interval.lower <= found.counts).all()


def test_the_surplus_of_all_pairs_is_the_change_of_the_logsums():
    base, scenario = _people(60)
    found = switching_table(base, scenario, MODEL, money=0.25)
    change = sum(_textbook(after)[1] - _textbook(before)[1] for before, after in zip(base, scenario, strict=True))
    assert found.surplus.sum() == pytest.approx(change / 0.25, abs=1e-10)
    assert found.logsums[1] - found.logsums[0] == pytest.approx(change / 0.25, abs=1e-10)
    stayed = switching_table(base, scenario, MODEL).mean_surplus[1, 1]
    assert stayed == pytest.approx(0, abs=1e-12)  # walking did not change, nor did what it is worth to who still walks


def test_frozen_error_terms_switch_as_the_table_says():
    """Errors of the nested logit, drawn from its generating function and kept: counts at a family-wise level of 1e-6.

    The mean surplus of each pair is within five standard errors.
    """
    rng, drawn = np.random.default_rng(3), 400_000
    u, w = np.array([0.3, -0.2, 0.1, 0.5, 0.0]), np.array([0.0, -0.2, 0.1, 0.7, 0.9])

    def shift(index):
        angle, wait = rng.uniform(0, np.pi, drawn), rng.exponential(size=drawn)
        stable = np.sin(index * angle) / np.sin(angle) ** (1 / index)
        return np.log(stable * (np.sin((1 - index) * angle) / wait) ** ((1 - index) / index))

    errors = rng.gumbel(size=(drawn, 5)) * [1, 1, PUBLIC, STREET, STREET]
    errors[:, 2:] += PUBLIC * shift(0.75)[:, None]
    errors[:, 3:] += STREET * shift(0.5)[:, None]
    before, after = (u + errors).argmax(axis=1), (w + errors).argmax(axis=1)
    gain = (w + errors).max(axis=1) - (u + errors).max(axis=1)
    table = switching_table(u[None], w[None], MODEL)
    values = []
    for i in range(5):
        for j in range(5):
            cell = (before == i) & (after == j)
            law = float(table.counts[i, j])
            values.append(binomtest(int(cell.sum()), drawn, min(max(law, 0.0), 1.0)).pvalue if law > 1e-12 else 1.0)
            assert law > 1e-12 or not cell.any()
            if cell.sum() > 100:
                error = gain[cell].std() / np.sqrt(cell.sum()) + 1e-12
                assert abs(gain[cell].mean() - table.mean_surplus[i, j]) < 5 * error
    assert min(values) > FALSE_ALARM / 25
    assert table.interval is None


def test_what_is_printed_names_the_model_and_the_bounds():
    table = switching_table(*_people(30), MODEL)
    text = table.summary()
    assert "nested Gumbel-max 0.75, 0.5" in text
    assert "whatever the coupling" in text
    assert table.row("logsum before").value == pytest.approx(table.logsums[0])


def test_the_largest_flows_are_printed_beside_demand_before_and_after():
    whole, flows = switching_table(*_people(30), MODEL).tables()
    counts = np.array([[float(each) for each in line[1:]] for line in whole.lines])
    np.testing.assert_allclose(counts[:-1, :-1].sum(axis=1), counts[:-1, -1], atol=0.3)
    np.testing.assert_allclose(counts[:-1].sum(axis=0), counts[-1], atol=0.3)
    largest = [float(line[2].split()[0]) for line in flows.lines[:12]]
    assert largest == sorted(largest, reverse=True)
    assert largest[0] == (counts[:-1, :-1] - np.diag(np.diag(counts[:, :-1]))).max()
    many = switching_table(*np.random.default_rng(0).normal(size=(2, 1, 9)), GumbelMax(), labels=range(9))
    assert [len(each.columns) for each in many.tables()] == [4, 5]
    still = switching_table(np.zeros((1, 5)), np.zeros((1, 5)), MODEL).tables()[1]
    assert still.lines == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base": np.full((30, 5), np.nan)}, r"row 0 .*`factual` leaves no alternative available"),
        ({"base": np.full((30, 5), np.inf)}, r"row 0 .*a utility in `factual` is infinite"),
        ({"weights": np.ones(3)}, r"`weights` must be 30 numbers"),
        ({"weights": np.full(30, -1.0)}, r"its weight is missing, negative or infinite"),
        ({"weights": np.zeros(30)}, r"at least one chooser"),
        ({"money": -1.0}, r"`money` must be positive, got -1.0; it is minus the coefficient of cost"),
        ({"coupling": Maximal()}, r"`coupling` must be a `NestedGumbelMax` or `GumbelMax`"),
        (
            {"coupling": NestedGumbelMax(NESTS, 0.5, labels=["walk", "car", "train", "bus", "tram"])},
            r"`coupling` must have the outcomes in their order, labels=\['car', 'walk', .*not \['walk', 'car', ",
        ),
        ({"coupling": NestedGumbelMax({"a": [0, 1]}, 0, labels=5)}, r"`dissimilarity` must be above 0 for utilities"),
    ],
)
def test_bad_input_is_refused(change, message):
    base, scenario = _people(30)
    given = {"base": base, "scenario": scenario, "coupling": MODEL} | change
    with pytest.raises(InputError, match=message):
        switching_table(**given)


def _stored(folder, count=500):
    base, scenario = _people(count)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({f"base_{mode}": base[:, place] for place, mode in enumerate(MODES)})
    for place, mode in enumerate(MODES):
        frame[f"scenario_{mode}"] = scenario[:, place]
    frame["persons"] = rng.uniform(1, 3, count)
    frame.to_parquet(folder / "choosers.parquet")
    frame.to_csv(folder / "choosers.csv", index=False)
    (folder / "parts").mkdir()
    for part in range(3):
        frame.iloc[part::3].to_parquet(folder / "parts" / f"{part}.parquet")
    return switching_table(base, scenario, MODEL, weights=frame["persons"].to_numpy())


def test_who_is_not_affected_stays_under_every_coupling():
    base, scenario = _people(40)
    same = np.arange(40) % 3 == 0
    frame = pd.DataFrame({"same": same})
    worlds = {"counterfactual": scenario, "labels": MODES, "utilities": Utilities(MODEL)}
    found = Rows(frame, factual=base, **worlds, unchanged="same").switching()
    moved = switching_table(base[~same], scenario[~same], MODEL)
    stay = np.diag(switching_table(base[same], base[same], MODEL).counts.sum(axis=1))
    for left, right in ((found.counts, moved.counts), *zip(found.bounds, moved.bounds, strict=True)):
        np.testing.assert_allclose(left, right + stay, atol=1e-12)
    assert np.diff(found.logsums) == pytest.approx(np.diff(moved.logsums))
    assert found.surplus.sum() == pytest.approx(np.diff(found.logsums)[0])


def test_files_folders_and_the_command_line_say_the_same(tmp_path):
    wanted = _stored(tmp_path)
    asked = {"factual": "base_", "counterfactual": "scenario_", "utilities": Utilities(MODEL, weights="persons")}
    for data in ("choosers.parquet", "choosers.csv", "parts"):
        found = Rows(tmp_path / data, **asked).switching()
        assert found.labels == wanted.labels
        for name in ("counts", "surplus", "logsums"):
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.interval.upper, wanted.interval.upper, rtol=1e-10)
    (tmp_path / "numbers.csv").write_text("coefficient_name,value\ncoef_public,0.75\n")
    (tmp_path / "model.yaml").write_text(
        """
        COEFFICIENTS: numbers.csv
        NESTS:
          name: root
          coefficient: 1.0
          alternatives: [car, walk, {name: public, coefficient: coef_public, alternatives:
            [train, {name: street, coefficient: 0.5, alternatives: [bus, tram]}]}]
        """
    )
    options = ["--factual", "base_", "--counterfactual", "scenario_", "--weights", "persons"]
    out = str(tmp_path / "out.parquet")
    command = ["switching", str(tmp_path / "choosers.parquet"), *options, "-o", out]
    said = CliRunner().invoke(app, [*command, "--coupling", str(tmp_path / "model.yaml")])
    assert said.exit_code == 0, said.output
    assert "choosers" in said.output
    rows = parquet.read_table(out).to_pylist()
    moved = next(each["value"] for each in rows if (each["quantity"], each["about"]) == ("count(tram)", "before bus"))
    assert moved == pytest.approx(wanted.counts[3, 4], rel=1e-9)
    with pytest.raises(InputError, match="`weights` must name a column, got 'person'.*; is 'persons' meant?"):
        Rows(tmp_path / "choosers.csv", factual="base_", counterfactual="scenario_",
             utilities=Utilities(MODEL, weights="person"))  # fmt: skip


def test_choosers_who_cannot_choose_are_left_out_where_that_is_asked_for():
    base, scenario = _people(50)
    whole = switching_table(base[1:], scenario[1:], MODEL)
    base[0] = np.nan
    frame = pd.DataFrame({"row": np.arange(50)})
    rows = Rows(
        frame, factual=base, counterfactual=scenario, labels=MODES, utilities=Utilities(MODEL), errors="missing"
    )
    found = rows.switching()
    np.testing.assert_allclose(found.counts, whole.counts, atol=1e-12)
    assert (found.num_rows, found.num_left_out) == (49, 1)
    with pytest.raises(InputError, match="`switching` needs utilities"):
        Rows(frame, factual=np.full((50, 5), 0.2), counterfactual=np.full((50, 5), 0.2), labels=MODES).switching()


def test_a_model_by_name_has_all_its_digits_whatever_precision_jax_has():
    base, scenario = _people(20)
    with jax.enable_x64(False):
        found = switching_table(base, scenario, "nested-gumbel-max-0.3[bus|tram]")
        assert found.coupling == "nested Gumbel-max 0.3"
    wanted = switching_table(base, scenario, NestedGumbelMax({"street": ["bus", "tram"]}, 0.3, labels=MODES))
    np.testing.assert_allclose(found.counts, wanted.counts, atol=1e-12)


def test_sums_that_leave_the_numbers_of_choosers_out_say_so():
    base, scenario = _people(30)
    frame = pd.DataFrame({"chosen": np.array(MODES)[_open(base).argmax(axis=1)]})
    worlds = {"outcome": "chosen", "factual": base, "counterfactual": scenario, "labels": MODES}
    rows = Rows(frame, **worlds, utilities=Utilities(MODEL, weights=np.full(30, 2.0)))
    note = "WARNING: each row counts once: the weights of `Utilities` are for `switching` alone."
    assert note in rows.transitions(MODEL, num_resamples=0).notes
    assert note not in rows.switching().notes
