"""The examples run, say what the documents say they show, and draw the pictures that are there."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).parent.parent


def run(name, folder):
    result = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](folder)
    drawn = (folder / f"{name}.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert (ROOT / "docs/images" / f"{name}.png").exists()
    return result


def test_every_example_is_run_here():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {
        "trial_in_dowhy",
        "churn",
        "choosing",
        "patient",
    }


def test_the_trial_in_dowhy_shows_that_mechanisms_disagree(tmp_path, capsys):
    pytest.importorskip("dowhy")
    answers = run("trial_in_dowhy", tmp_path)
    assert_allclose([sum(answer) for answer in answers.values()], 1)
    assert abs(answers["Gumbel-max"] - answers["inverse CDF"]).max() > 0.3
    for line in capsys.readouterr().out.splitlines()[:6]:  # exactly ..., in 1,000 samples ...
        exact, share = (float(part.split()[-1]) for part in line.rsplit(", in", 1))
        assert abs(exact - share) < 0.08  # five standard errors of 1,000 draws


def test_customers_who_churned_would_have_stayed(tmp_path, capsys):
    found = run("churn", tmp_path)
    assert found.num_rows == round(found.counts.sum())
    assert found.counts[0, 2] > 0.3 * found.seen[0]
    assert found.counts[2, 0] < 1e-6  # Gumbel-max: a discount drives nobody away
    said = " ".join(capsys.readouterr().out.split())
    assert "would have stayed with a discount under Gumbel-max" in said
    assert f"other couplings say {found.bounds.lower[0, 2]:.0f} to {found.bounds.upper[0, 2]:.0f}" in said


@pytest.mark.slow
def test_the_variance_falls_with_the_right_coupling(tmp_path):
    one, both = run("choosing", tmp_path)
    assert one.mean > 0  # intensive treatment adds comfort
    assert one.choice == "inverse CDF by score"
    assert one.variances[one.choice] == pytest.approx(one.variance_bounds.lower)
    assert both.choice == "vector quantile"
    others = {name: value for name, value in both.variances.items() if name != both.choice}
    learned = others.pop("learned Gadget 2")
    assert both.variance_bounds.lower < both.variances[both.choice] <= learned < 0.9 * min(others.values())
    assert np.isfinite(both.fit.history.held_out).all()


@pytest.mark.slow
def test_the_patients_story_names_a_decision_and_the_couplings_part(tmp_path, capsys):
    story = run("patient", tmp_path)
    said = capsys.readouterr().out
    assert said.splitlines() == list(story.findings)
    assert "mattered most" in said
    assert "Whatever is assumed about luck" in said
