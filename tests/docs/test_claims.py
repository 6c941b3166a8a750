"""Claims that were wrong once: what the documents say of them now is what the code, or arithmetic, says."""

import re
from pathlib import Path

import numpy as np
import pytest

from countermax import GumbelMax, Worlds

ROOT = Path(__file__).parents[2]
PAGES = {path.name: " ".join(path.read_text().split()) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]}
WITHDRAWN = re.compile(
    r"below 1\.5 is out of reach|no interval that keeps its promise can be|floor of any mechanism"
    r"|stay open unless the trial shows no effect|worlds with impossible outcomes follow\."
    r"|half of the gains cannot be known|whatever is assumed about luck",
    re.IGNORECASE,
)


def test_claims_that_were_withdrawn_stay_away():
    assert {name: WITHDRAWN.search(text)[0] for name, text in PAGES.items() if WITHDRAWN.search(text)} == {}


def test_necessity_of_those_who_chose_can_be_known_from_a_trial_alone_at_an_edge():
    """Nobody has the event without the treatment: whoever had it, had it because of the treatment."""
    edge = Worlds([1.0, 0.0], [0.7, 0.3], labels=["no", "yes"]).causes("yes", people="chosen")
    necessary = edge.row("PN", "any coupling")
    assert (necessary.lower, necessary.upper) == pytest.approx((1, 1))
    inside = (
        Worlds([0.9, 0.1], [0.7, 0.3], labels=["no", "yes"]).causes("yes", people="chosen").row("PN", "any coupling")
    )
    assert (inside.lower, inside.upper) == pytest.approx((0, 1))
    assert "From a trial alone, PN and PS of people who chose stay open but for extreme cases" in PAGES["causation.md"]


def test_stability_among_worlds_of_each_kind_says_nothing_about_pairs_of_both():
    """Noise of their own in worlds with an impossible outcome: stable within each kind, and not between them."""
    possible = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    impossible = np.array([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0]])

    def moved_against(p, q, joint):
        """The probability of going to an outcome that the change favours less."""
        ratio = np.divide(q, p, out=np.zeros(3), where=p > 0)
        against = (ratio[None, :] <= ratio[:, None]) & ~np.eye(3, dtype=bool) & (p > 0)[:, None]
        return float(joint[against].sum())

    with np.errstate(divide="ignore"):
        for p, q in (possible, impossible):
            assert moved_against(p, q, np.asarray(GumbelMax().joint(np.log(p), np.log(q)))) < 1e-6
        p, q = possible[0], impossible[0]
        assert moved_against(p, q, np.asarray(GumbelMax().joint(np.log(p), np.log(q)))) < 1e-6
        assert moved_against(p, q, np.outer(p, q)) > 0.1
    said = "Worlds with impossible outcomes follow if stability is assumed between them and the worlds above, too"
    assert said in PAGES["stability.md"]


@pytest.mark.parametrize(
    "names",
    ["Strauss", "Saks and Yu", "Huang, Fang, Hanley and Rosenblum", "Ji, Lei and Spector", "`dualbounds`"]
    + ["Gabriel, Sachs and Jensen", "Li and Pearl, AAAI 2024", "a monotonicity as well"],
)
def test_the_nearest_prior_work_is_named(names):
    assert names in PAGES["prior_art.md"]


def test_the_floor_of_quantiles_is_said_to_be_at_most_what_was_reached():
    reached = re.search(r"\| VectorQuantile, 1,024 atoms \| [^|]*\| [^|]*\| ([\d.]+)%", PAGES["optimum.md"])[1]
    assert f"the floor is at most {reached} %" in PAGES["optimum.md"]
    assert 'at least at "lower limit of every mechanism"' in PAGES["optimum.md"]


def test_recreated_episodes_give_the_published_numbers_within_the_errors_of_their_draws():
    block = re.search(
        r"```text\n( +published  its error.*?)```", (ROOT / "docs" / "replays.md").read_text(), re.DOTALL
    )[1]
    rows = re.findall(r"^([a-z\- ]+?) +(-?\d\.\d+) +(\d\.\d+) +(-?\d\.\d+)$", block, re.MULTILINE)
    assert [name for name, *_ in rows] == ["model-based", "counterfactual", "true"]
    for name, published, error, here in rows:
        assert abs(float(published) - float(here)) < 3 * float(error), name
    observed = re.search(r"^observed +(\S+) +(\S+)$", block, re.MULTILINE)
    assert float(observed[2]) == pytest.approx(float(observed[1]), abs=0.0015)
