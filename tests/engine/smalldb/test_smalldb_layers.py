"""A small database is drawn by layers of levels, with its law wherever they are cut; their masses are enclosed."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.noise.randomness import StreamRandomness
from releases.engine.smalldb import level_sampler
from tests.engine.goodness import FALSE_ALARM, p_value


@given(st.fractions(min_value=0, max_value=5000), st.integers(20, 200))
@settings(max_examples=60)
def test_a_decay_is_enclosed_as_closely_as_it_says(exponent, bits):
    low, high, shift = level_sampler.decay(exponent, bits=bits)
    assert (high - low) << bits <= low
    with mpmath.workprec(8 * bits + 16000):
        true = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * mpmath.mpf(2) ** shift
        assert low <= true <= high


class _Listed:
    """A `Counted` of candidates that are listed with their weights and errors; B is `slack` times F, rounded up."""

    def __init__(self, weights, errors, slack=Fraction(1)) -> None:
        self.weights, self.errors, self.slack = weights, errors, slack

    def everything(self):
        return sum(self.weights), 0

    def draw_any(self, rng):
        return self._any_of(range(len(self.weights)), sum(self.weights), rng)

    def within(self, level):
        inside = sum(weight for weight, error in zip(self.weights, self.errors, strict=True) if error <= level)
        return -int(-(inside * self.slack) // 1), 0

    def draw(self, level, rng):
        inside = [index for index, error in enumerate(self.errors) if error <= level]
        return self._any_of(inside, self.within(level)[0], rng)

    def error(self, candidate):
        return self.errors[candidate]

    def _any_of(self, inside, bound, rng):
        point = level_sampler.random_below(bound, rng)
        for index in inside:
            point -= self.weights[index]
            if point < 0:
                return index
        return None


WEIGHTS, ERRORS = [5, 1, 30, 40, 100, 7], [0, 3, 11, 4, 40, 4]


@pytest.mark.parametrize("far", [0, 5, 60, 10**9])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 2000), Fraction(3, 4)])
def test_a_draw_by_layers_has_its_law_wherever_the_layers_are_cut(far, rate):
    """Chi-square of 1200 draws; a right draw fails with probability 1e-6."""
    listed = _Listed(WEIGHTS, ERRORS, slack=Fraction(5, 4))
    drawn = level_sampler.Layers(listed, rate=rate, far=far)
    rng = StreamRandomness(b"layers")
    observed = np.bincount([drawn.draw(rng) for _ in range(1200)], minlength=len(WEIGHTS))
    exponents = -float(rate) * np.array(ERRORS, dtype=float)
    law = np.array(WEIGHTS) * np.exp(exponents - exponents.max())
    assert p_value(observed, law) > FALSE_ALARM
    if rate == Fraction(1, 3):
        assert p_value(observed, law * np.exp(exponents / 2)) < FALSE_ALARM
        assert p_value(observed, law / np.array([1, 1, 1, 2, 1, 1])) < FALSE_ALARM


def test_a_guess_of_the_last_level_that_is_far_too_near_is_mended():
    """One candidate fits at level 10^6, a thousand million others at ten times that: no patience would find it."""
    listed = _Listed([1, 10**9], [10**6, 10**7])
    asked_for = []
    drawn = level_sampler.Layers(listed, rate=Fraction(1, 1000), far=0, pause=lambda: asked_for.append(1))
    assert drawn.draw(StreamRandomness(b"near")) == 0
    assert len(asked_for) < 200


@given(st.integers(0, 80), st.fractions(min_value=Fraction(1, 10**6), max_value=4), st.integers(10, 90))
@settings(max_examples=40)
def test_the_masses_of_the_blocks_are_enclosed_at_every_precision(far, rate, precision):
    drawn = level_sampler.Layers(_Listed(WEIGHTS, ERRORS), rate=rate, far=far)
    sums = drawn._sum_masses(precision)
    with mpmath.workprec(600):
        q = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        masses = [
            block.bound[0] * (q**block.first - (0 if block.last is None else q ** (block.last + 1)))
            for block in drawn.blocks
        ]
        total = sum(masses)
        low, high = sums.total
        assert low <= high
        running = mpmath.mpf(0)
        for index, mass in enumerate(masses):
            running += mass
            # Whatever the unit, every running sum lies between the shares that its ends enclose.
            assert mpmath.mpf(sums.below[index]) / high <= running / total * (1 + mpmath.mpf(2) ** -500)
            assert running / total <= mpmath.mpf(sums.above[index]) / low * (1 + mpmath.mpf(2) ** -500)
    assert [block.first for block in drawn.blocks] == sorted({block.first for block in drawn.blocks})
    assert drawn.blocks[-1].last is None


@pytest.mark.parametrize("length", [None, 3, 40])
@pytest.mark.parametrize("rate", [Fraction(1, 5), Fraction(3, 2)])
def test_a_level_in_a_block_falls_off_exponentially(length, rate):
    """Chi-square of 2000 draws; a right sampler fails with probability 1e-6."""
    rng = StreamRandomness(b"level")
    reach = length or 400
    observed = np.bincount([level_sampler._level_in(length, rate, rng) for _ in range(2000)], minlength=reach)
    law = np.exp(-float(rate) * np.arange(reach))
    assert observed.size == reach
    assert p_value(observed, law) > FALSE_ALARM
    assert p_value(observed, law**3) < FALSE_ALARM
