"""How outcomes are listed changes no limit."""

import numpy as np
import pytest

from countermax import Trial


def _limits(found):
    return {(each.quantity, each.about, each.coupling): (each.ci_lower, each.ci_upper) for each in found.rows}


def _worst(one, other):
    assert one.keys() == other.keys()
    return max(abs(a - b) for key in one for a, b in zip(one[key], other[key], strict=True))


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_limits_do_not_depend_on_how_outcomes_are_listed(seed, scored):
    stream = np.random.default_rng(seed)
    size = 3 + seed
    labels, score = np.array(list("abcdef")[:size]), stream.permutation(size).astype(float)
    counts = stream.permutation(np.arange(5, 5 + 3 * size, 3)), stream.multinomial(60, stream.dirichlet(np.ones(size)))
    order = np.roll(np.arange(size), 1 + seed)[stream.permutation(size)]

    def asked(places):
        own = {"score": score[places].tolist()} if scored else {}
        trial = Trial.from_counts(*(each[places] for each in counts), labels=labels[places].tolist(), **own)
        couplings = ["gumbel-max", "maximal", "independent"]
        compared = _limits(trial.compare("b", couplings=couplings))
        return compared, _limits(trial.causes("b", couplings=couplings))

    for one, other in zip(asked(np.arange(size)), asked(order), strict=True):
        assert _worst(one, other) < 1e-8
