"""Noise of a private real scale: its laws against mpmath, its draws against the rounded law, at every precision."""

from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from releases.engine.errors import InvalidInput
from releases.engine.noise.lattice import (
    CAUCHY,
    GAUSSIAN,
    LAPLACE,
    arctan_interval,
    erfc_interval,
    largest_rounded,
    rounded_noise,
)
from releases.engine.noise.randomness import SamplerFailure, StreamRandomness
from tests.engine.goodness import FALSE_ALARM, Words, counts_around_zero, p_value

LAWS = [CAUCHY, LAPLACE, GAUSSIAN]
in_every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
TRUE_TAIL = {
    "Cauchy": lambda x: 1 - 2 * mpmath.atan(x) / mpmath.pi,
    "Laplace": lambda x: mpmath.exp(-x),
    "Gaussian": lambda x: mpmath.erfc(x / mpmath.sqrt(2)),
}


def real(value):
    return mpmath.mpf(value.numerator) / value.denominator


def unit_scale(precision):
    return 1 << precision, 1 << precision


def widened(scale, precision):
    """An enclosure a few units wide, as that of a scale that is no fraction."""
    exact = scale * (1 << precision)
    return int(exact) - 2, int(exact) + 2


@settings(max_examples=200)
@example(GAUSSIAN, Fraction(1, 280700194), 64)
@example(GAUSSIAN, Fraction(1, 10**40), 64)
@given(
    st.sampled_from(LAWS),
    st.one_of(st.fractions(0, 40, max_denominator=10**6), st.fractions(0, 10**12), st.just(Fraction(1))),
    st.sampled_from([1, 8, 64, 96, 300]),
)
def test_tails_are_enclosed_and_narrow(law, x, precision):
    lo, hi = law.tail(x, precision=precision)
    with mpmath.workdps(130):
        true = TRUE_TAIL[law.name](real(x)) * mpmath.mpf(2) ** precision
        assert lo <= true <= hi
    assert hi - lo <= 4


def rounded_law(law, sigma, most):
    """P(-most), ..., P(most) of round(sigma Z), the ends holding the tails."""
    beyond = [1.0, *(float(TRUE_TAIL[law.name](mpmath.mpf((j + 0.5) / sigma))) for j in range(most)), 0.0]
    sizes = -np.diff(beyond)
    return np.concatenate([sizes[:0:-1] / 2, sizes[:1], sizes[1:] / 2])


class Remembered:
    """A law whose tails are computed once: thousands of draws of one scale."""

    def __init__(self, law):
        self.tail = lru_cache(4096)(law.tail)


def drawn(law, *, scale, multiplier, most, seed, bits, count):
    given = {"multiplier": multiplier, "scale_at": lambda p: widened(scale, p), "most": most, "bits": bits}
    quick, rng = Remembered(law), StreamRandomness(seed)
    return np.array([rounded_noise(quick, rng=rng, **given) for _ in range(count)])


@in_every_law
@pytest.mark.parametrize("bits", [2, 64])
def test_draws_have_the_rounded_law_and_not_that_of_another_scale(law, bits):
    """Each acceptance fails with probability 1e-6; a scale off by 15% is seen, also where few bits are drawn first."""
    most, multiplier, scale = 12, Fraction(3, 2), Fraction(7, 5)
    count = 12_000 if bits == 64 else 4_000
    noise = drawn(law, scale=scale, multiplier=multiplier, most=most, seed=b"law", bits=bits, count=count)
    counts = counts_around_zero(noise, most)
    sigma = float(multiplier * scale)
    assert p_value(counts, rounded_law(law, sigma, most)) > FALSE_ALARM
    for wrong in (0.85, 1.15) if bits == 64 else ():
        assert p_value(counts, rounded_law(law, wrong * sigma, most)) < FALSE_ALARM


@in_every_law
def test_every_first_word_that_decides_lies_inside_its_cell(law):
    """All 2**9 values of nine bits: a size is given only where the whole cell of the uniform number agrees."""
    bits, most, sigma = 9, 6, 1.7
    edges = [float(TRUE_TAIL[law.name](mpmath.mpf((j + 0.5) / sigma))) for j in range(most)]
    decided = 0
    for value in range(1 << bits):
        try:
            words, of_scale = Words([0, value << (64 - bits)]), {"multiplier": Fraction(17, 10), "scale_at": unit_scale}
            size = rounded_noise(law, most=most, rng=words, bits=bits, **of_scale)
        except AssertionError:  # more words were asked for than given
            continue
        decided += 1
        low, high = value / 2**bits, (value + 1) / 2**bits
        assert size == sum(high <= edge for edge in edges) == sum(low < edge for edge in edges)
    assert decided >= (1 << bits) - 2 * most


def test_a_draw_takes_two_words_whatever_comes_and_whatever_the_scale():
    asked = []
    for seed in range(60):
        words = Words([], then=StreamRandomness(b"%d" % seed))
        scale = Fraction(10) ** (seed % 12 - 6)
        rounded_noise(CAUCHY, multiplier=scale, scale_at=unit_scale, most=10**6, rng=words)
        asked.append(words.asked)
    assert asked == [[1, 1]] * 60


def test_noise_is_cut_at_the_most_and_a_tiny_scale_gives_none():
    rng = StreamRandomness(b"cut")
    far = {rounded_noise(LAPLACE, multiplier=Fraction(10**9), scale_at=unit_scale, most=3, rng=rng) for _ in range(40)}
    assert far == {-3, 3}
    tiny = lambda precision: (0, 1)  # noqa: E731 - a scale below every power of two asked for
    assert {rounded_noise(GAUSSIAN, multiplier=Fraction(1), scale_at=tiny, most=9, rng=rng) for _ in range(40)} == {0}


def test_a_scale_that_never_narrows_is_reported_and_bad_arguments_are_refused():
    wide, words = lambda precision: (1, 1 << precision + 6), Words([0, 1 << 60], then=StreamRandomness(b"x"))
    with pytest.raises(SamplerFailure):
        rounded_noise(LAPLACE, multiplier=Fraction(1), scale_at=wide, most=9, rng=words)
    for multiplier, most in ((Fraction(0), 1), (Fraction(1), 0)):
        with pytest.raises(InvalidInput):
            rounded_noise(LAPLACE, multiplier=multiplier, scale_at=unit_scale, most=most, rng=StreamRandomness(b"x"))
    with pytest.raises(InvalidInput):
        arctan_interval(Fraction(3, 2), precision=9)
    with pytest.raises(InvalidInput):
        erfc_interval(Fraction(-1), precision=9)


@in_every_law
def test_the_largest_rounded_noise_is_exceeded_as_often_as_beta_and_not_one_unit_less(law):
    sigma, most = 6.3, 400
    chances = rounded_law(law, sigma, most)
    for beta in (0.3, 0.05):
        reach = largest_rounded(law, scale=sigma, beta=beta, most=most)
        sizes = np.abs(np.arange(-most, most + 1))
        assert chances[sizes > reach].sum() <= beta < chances[sizes >= reach].sum() * 1.2
    assert largest_rounded(law, scale=float("inf"), beta=0.5, most=7) == 7
    assert largest_rounded(law, scale=1e-9, beta=0.5, most=7) == 0
