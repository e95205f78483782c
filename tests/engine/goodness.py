"""What the tests of samplers share: the laws in floating point, Pearson's test, and generators that cheat."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import chi2

#: A statistical test fails by chance with at most this probability, were its stream not fixed.
FALSE_ALARM = 1e-6


def laplace_law(scale: float, reach: int) -> np.ndarray:
    """P(-reach), ..., P(reach) of the discrete Laplace law; the outermost entries hold the tails."""
    r = np.exp(-1 / scale)
    law = (1 - r) / (1 + r) * r ** np.abs(np.arange(-reach, reach + 1, dtype=float))
    law[[0, -1]] = r**reach / (1 + r)
    return law


def gaussian_law(variance: float, reach: int) -> np.ndarray:
    """P(-reach), ..., P(reach) of the discrete Gaussian law; the outermost entries hold the tails."""
    far = max(reach, int(40 * variance**0.5) + 10)
    weights = np.exp(-(np.arange(-far, far + 1, dtype=float) ** 2) / (2 * variance))
    weights /= weights.sum()
    law = weights[far - reach : far + reach + 1].copy()
    law[0], law[-1] = weights[: far - reach + 1].sum(), weights[far + reach :].sum()
    return law


def p_value(counts: np.ndarray, law: np.ndarray, *, fewest: float = 10) -> float:
    """Pearson's chi-square test of counts against probabilities, neighbouring bins pooled up to `fewest` expected."""
    expected = counts.sum() * law / law.sum()
    observed_bins, expected_bins = [0.0], [0.0]
    for seen, due in zip(counts.tolist(), expected.tolist(), strict=True):
        if expected_bins[-1] >= fewest:
            observed_bins.append(0.0)
            expected_bins.append(0.0)
        observed_bins[-1] += seen
        expected_bins[-1] += due
    if expected_bins[-1] < fewest and len(expected_bins) > 1:
        last_seen, last_due = observed_bins.pop(), expected_bins.pop()
        observed_bins[-1] += last_seen
        expected_bins[-1] += last_due
    observed, due_array = np.array(observed_bins), np.array(expected_bins)
    return float(chi2.sf(((observed - due_array) ** 2 / due_array).sum(), len(observed) - 1))


def counts_around_zero(drawn: np.ndarray, reach: int) -> np.ndarray:
    return np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)


class Words:
    """Gives the words it was given, then those of another generator; counts how many were asked for."""

    def __init__(self, words: list[int] | np.ndarray = (), *, then: object = None) -> None:
        self.left = np.array(words, dtype=np.uint64)
        self.then = then
        self.asked: list[int] = []

    def words(self, count: int) -> np.ndarray:
        self.asked.append(count)
        given, self.left = self.left[:count], self.left[count:]
        if given.size == count:
            return given
        assert self.then is not None, "more words were asked for than given"
        return np.concatenate([given, self.then.words(count - given.size)])


def law_of(draw: Callable[[], int], outcomes: int, draws: int) -> np.ndarray:
    """How often each of 0 ... outcomes - 1 came."""
    return np.bincount([draw() for _ in range(draws)], minlength=outcomes)
