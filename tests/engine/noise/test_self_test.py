"""The test a worker runs on its samplers before it releases anything: it passes right ones and no wrong ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from releases.engine.errors import InvalidInput
from releases.engine.noise import discrete
from releases.engine.noise.discrete import SamplerFailure, StreamRandomness, self_test


def test_working_samplers_pass_the_self_test():
    self_test(StreamRandomness(b"self-test"), false_alarm=1e-6)


def _biased(drawn: np.ndarray) -> np.ndarray:
    """Near what a published sampler drew at scale 3 until 2026: neighbours' log ratios .52, .15, .33 in turn."""
    steps = np.cumsum(np.tile([0.52, 0.15, 0.33], 40))
    size_law = np.exp(-np.concatenate([[0], steps]))
    law = np.concatenate([size_law[:0:-1], size_law])
    return np.random.default_rng(1).choice(np.arange(-120, 121), size=drawn.size, p=law / law.sum())


def _broken(kind: str, fault: str):
    """A sampler with one fault, to stand in for discrete_laplace or discrete_gaussian."""
    name = "scale" if kind == "laplace" else "variance"
    right = getattr(discrete, f"discrete_{kind}")
    factor = {"wider": Fraction(11, 10), "narrower": Fraction(9, 10)}.get(fault, Fraction(1))

    def draw(**arguments):
        parameter = arguments.pop(name)
        drawn = right(**{name: parameter * (factor if kind == "laplace" else factor**2)}, **arguments)
        if fault == "biased at scale 3" and parameter == (3 if kind == "laplace" else 9):
            return _biased(drawn)
        if fault == "without a sign":
            return np.abs(drawn)
        if fault == "even alone at scale 1000" and parameter == (1000 if kind == "laplace" else 10**6):
            return drawn // 2 * 2
        return drawn + 1 if fault == "moved by one" else drawn

    return draw


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "fault", ["wider", "narrower", "biased at scale 3", "without a sign", "moved by one", "even alone at scale 1000"]
)
def test_the_self_test_turns_down_a_sampler(kind, fault, monkeypatch):
    monkeypatch.setattr(discrete, f"discrete_{kind}", _broken(kind, fault))
    with pytest.raises(SamplerFailure, match=f"discrete {kind.title()} noise of .* failed its self-test"):
        self_test(StreamRandomness(b"self-test"))


def test_the_limit_of_the_self_test_is_never_below_the_quantile_of_chi_square_nor_far_above():
    for degrees in (1, 5, 30, 300, 3000):
        for probability in (1e-3, 1e-6, 1e-11):
            quantile = chi2.isf(probability, degrees)
            assert quantile <= discrete._chi_square_limit(degrees, probability) <= 1.2 * quantile + 10


@pytest.mark.parametrize("false_alarm", [0, 1, -0.1, float("nan")])
def test_a_false_alarm_that_is_no_probability_is_refused(false_alarm):
    with pytest.raises(InvalidInput, match="must be between 0 and 1"):
        self_test(StreamRandomness(b""), false_alarm=false_alarm)
