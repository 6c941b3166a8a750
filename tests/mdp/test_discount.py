"""One rule for the discount: the process's own everywhere, unless another is asked for."""

import numpy as np
import pytest
from processes import MDP, POLICY, some_episodes

from countermax import GumbelMax
from countermax.mdp import Cohort

LOG = some_episodes(MDP, 12, seed=4)
ONE = LOG.select([int(LOG.lengths.argmax())])


@pytest.mark.parametrize("asked", [{}, {"discount": 0.5}], ids=["the process's own", "another"])
def test_every_question_about_an_episode_has_the_same_discount(asked):
    assert MDP.discount == 0.9
    factor = asked.get("discount", 0.9)
    couplings = {"Gumbel-max": GumbelMax()}
    cohort = Cohort(ONE, POLICY, process=MDP, **asked)
    exact = cohort.replay(GumbelMax())
    drawn = cohort.sample(GumbelMax(), num_samples=1)
    bounds = cohort.bounds()
    ranking = cohort.rank(couplings)
    story = cohort.explain(0, couplings=couplings, features={"last": np.eye(4)[3]})
    evaluation = cohort.evaluate(couplings, num_resamples=0)
    assert exact.discount == drawn.discount == story.discount == evaluation.discount == factor

    observed = ONE.rewards[0] @ factor ** np.arange(ONE.longest)
    for each in (
        exact.observed[0],
        drawn.observed[0],
        ranking.observed[0],
        story.observed_return,
        evaluation["observed return"].value,
    ):
        assert each == pytest.approx(observed, abs=1e-12)
    for each in (
        ranking.effects["Gumbel-max"][0] + observed,
        story.returns.values["Gumbel-max"],
        evaluation["counterfactual, Gumbel-max"].value,
    ):
        assert each == pytest.approx(exact.values[0], abs=1e-12)
    for side in ("lower", "upper"):
        for each in (
            getattr(ranking.bounds, side)[0] + observed,
            getattr(story.returns.bounds, side),
        ):
            assert each == pytest.approx(getattr(bounds, side)[0], abs=1e-12)


def test_an_estimated_model_has_no_discount_unless_it_is_given_one():
    found = Cohort(LOG, POLICY).evaluate({}, num_resamples=0)
    assert found.discount == 1
    assert found["observed return"].value == pytest.approx(LOG.returns().mean())
