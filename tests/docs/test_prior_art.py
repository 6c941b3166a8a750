"""The joint law of Gumbel-max against what discrete choice and hashing know it as, written independently of `race`."""

import math

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from countermax import GumbelMax

BASE = [0.9, 0.2, 0.4, -0.8, 0.0]
SCENARIO = [0.5, 0.2, 1.0, -0.6, -0.4]  # the first and the last lose alike, and so no one moves between them


def switching_by_integral(before, after):
    """Conditioned on by how much the best utility rises, with unchanged Gumbel terms."""
    gain = [w - v for v, w in zip(before, after, strict=True)]

    def density(s, i, j):
        return (
            math.exp(before[i] + after[j] - s)
            / sum(max(math.exp(v), math.exp(w - s)) for v, w in zip(before, after, strict=True)) ** 2
        )

    table = np.zeros((len(gain), len(gain)))
    for i, j in np.ndindex(*table.shape):
        kinks = sorted(each for each in set(gain) if gain[i] < each < gain[j])
        ends = [gain[i], *kinks, gain[j]]
        if gain[i] < gain[j]:
            pieces = zip(ends[:-1], ends[1:], strict=True)
            table[i, j] = sum(quad(density, low, high, args=(i, j), epsabs=1e-14)[0] for low, high in pieces)
    return table


def switching_in_closed_form(before, after):
    """The same, piece by piece: between two neighbouring gains the sum of maxima is V + W exp(-s)."""
    gain = [w - v for v, w in zip(before, after, strict=True)]
    levels = sorted(set(gain))
    table = np.zeros((len(gain), len(gain)))
    for low, high in zip(levels[:-1], levels[1:], strict=True):
        lost = sum(math.exp(v) for v, each in zip(before, gain, strict=True) if each <= low)
        gained = sum(math.exp(w) for w, each in zip(after, gain, strict=True) if each >= high)
        piece = (1 / (lost + gained * math.exp(-high)) - 1 / (lost + gained * math.exp(-low))) / gained
        for i, j in np.ndindex(*table.shape):
            if gain[i] <= low and gain[j] >= high:
                table[i, j] += math.exp(before[i] + after[j]) * piece
    return table


@pytest.fixture
def joint():
    with jax.enable_x64(True):
        return np.asarray(GumbelMax().joint(np.array(BASE), np.array(SCENARIO)))


@pytest.mark.parametrize("published", [switching_by_integral, switching_in_closed_form])
def test_the_joint_law_is_the_transition_choice_probabilities_of_the_logit_model(published, joint):
    moved = joint - np.diag(np.diag(joint))
    assert_allclose(moved, published(BASE, SCENARIO), atol=1e-12)
    assert moved.max() > 0.05


def test_its_diagonal_is_the_probability_jaccard_index(joint):
    p, q = (np.exp(each) / np.exp(each).sum() for each in map(np.array, (BASE, SCENARIO)))
    by_outcome = [1 / np.maximum(p / p[i], q / q[i]).sum() for i in range(len(p))]
    assert_allclose(np.diag(joint), by_outcome, atol=1e-14)


def test_it_keeps_the_outcome_as_often_as_correlated_sampling_promises(joint):
    p, q = (np.exp(each) / np.exp(each).sum() for each in map(np.array, (BASE, SCENARIO)))
    distance = abs(p - q).sum() / 2
    weighted_minhash = np.minimum(p, q).sum() / np.maximum(p, q).sum()
    assert_allclose(weighted_minhash, (1 - distance) / (1 + distance))
    assert weighted_minhash <= np.trace(joint) <= 1 - distance
