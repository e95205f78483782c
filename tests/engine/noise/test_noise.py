"""The samplers have exactly the laws they claim, and every test here can also fail.

Statistical tests run on fixed streams, so they always come out the same; the probability that a right sampler would
have failed one on a fresh stream is at most 1e-6 each. Each also turns down a law that is off by a tenth.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest, laplace, norm

from releases.engine.errors import InvalidInput
from releases.engine.noise import discrete
from releases.engine.noise.discrete import (
    LARGEST_NOISE,
    LARGEST_SCALE,
    AliasTable,
    LogQuadraticLaw,
    SamplerFailure,
    StreamRandomness,
    discrete_gaussian,
    discrete_laplace,
)
from tests.engine.goodness import FALSE_ALARM, Words, counts_around_zero, gaussian_law, laplace_law, p_value

SCALES = [Fraction(text) for text in ("1/3", "1/2", "1", "3/2", "2", "27/10", "3", "5", "7", "10", "37")]

LAWS = {
    "Laplace 1/3": LogQuadraticLaw(linear=Fraction(3), two_sided=True),
    "Laplace 3/2": LogQuadraticLaw(linear=Fraction(2, 3), two_sided=True),
    "Laplace 10": LogQuadraticLaw(linear=Fraction(1, 10), two_sided=True),
    "Gaussian 1/4": LogQuadraticLaw(quadratic=Fraction(2), two_sided=True),
    "Gaussian 50": LogQuadraticLaw(quadratic=Fraction(1, 100), two_sided=True),
    "a digit": LogQuadraticLaw(linear=Fraction(1, 7), length=10),
    "a sign": LogQuadraticLaw(linear=Fraction(1, 7), length=2),
    "one-sided": LogQuadraticLaw(linear=Fraction(1, 5)),
    "blocks": LogQuadraticLaw(quadratic=Fraction(1, 90)),
}


def exact_law(law: LogQuadraticLaw) -> dict[int, mpmath.mpf]:
    """P(x) where it is above 2**-100, by mpmath at 400 bits: an independent computation."""
    mpmath.mp.prec = 400
    a, b = (mpmath.mpf(part.numerator) / part.denominator for part in (law.quadratic, law.linear))
    weights = {}
    for size in itertools.count():
        weight = mpmath.exp(-a * size * size - b * size)
        if weight < mpmath.mpf(2) ** -350 or size == law.length:
            break
        weights[size] = weight
        if law.two_sided:
            weights[-size] = weight
    total = mpmath.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items() if weight > total * mpmath.mpf(2) ** -100}


@pytest.mark.parametrize(
    ("scale", "answers"),
    [
        ("1", "0 0 -1 -1 0 0 -1 0 -2 0 0 1"),
        ("10", "3 0 -12 -12 -1 4 -14 -5 -23 -1 -3 8"),
        ("1000", "2645 -1094 204 673 -1736 -72 -811 -174 -1353 -1784 3058 -333"),
        ("1099511627776", "2294911842901 1024470078533 -1735776051406 858182826229 1002266838727 130003090678"),
    ],
)
def test_discrete_laplace_noise_from_a_fixed_stream_is_what_it_was(scale, answers):
    drawn = discrete_laplace(scale=Fraction(scale), size=12, rng=StreamRandomness(b"known answers"))
    assert " ".join(map(str, drawn.tolist())).startswith(answers)


@pytest.mark.parametrize(
    ("variance", "answers"),
    [
        ("1", "0 -2 0 -1 0 0 -1 0 2 0 0 1"),
        ("100", "2 -17 -3 -9 -27 3 11 -4 -15 0 -2 -6"),
        ("1000000", "220 2184 -409 993 -68 336 1118 485 1589 77 -291 -658"),
        (
            "1208925819614629174706176",
            "236658287505 2345240307737 -439498701211 1086285693822 -71681749852 365918373935",
        ),
    ],
)
def test_discrete_gaussian_noise_from_a_fixed_stream_is_what_it_was(variance, answers):
    drawn = discrete_gaussian(variance=Fraction(variance), size=12, rng=StreamRandomness(b"known answers"))
    assert " ".join(map(str, drawn.tolist())).startswith(answers)


@pytest.mark.parametrize("name", LAWS)
def test_every_one_of_the_4096_words_of_12_bits_leads_where_the_exact_law_says(name, monkeypatch):
    table = AliasTable(LAWS[name], word_bits=12)
    monkeypatch.setattr(table, "_draw_remainder", lambda rng: 10**6)
    words = np.arange(4096, dtype=np.uint64) << np.uint64(52)
    drawn = table.draw(4096, Words(words))
    # Bits below the twelve have no effect.
    assert np.array_equal(drawn, table.draw(4096, Words(words | np.uint64(2**52 - 1))))
    counts = dict(zip(*(part.tolist() for part in np.unique(drawn, return_counts=True)), strict=True))
    assert counts.pop(10**6, 0) == table.remainder
    assert counts == {x: int(4096 * p) for x, p in exact_law(LAWS[name]).items() if 4096 * p >= 1}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("word_bits", [4, 12, 64])
def test_floor_and_remainder_together_are_exactly_the_law(name, word_bits):
    table = AliasTable(LAWS[name], word_bits=word_bits)
    sums = table._sum_remainder(64)
    law = exact_law(LAWS[name])
    below, above = mpmath.mpf(0), mpmath.mpf(0)
    for index, x in enumerate(LAWS[name].support(len(sums.below))):
        if x not in law:
            break
        rest = 2**word_bits * law[x] - table.floors.get(x, 0)
        assert rest >= 0
        below += rest
        above += rest
        assert sums.below[index] <= below * 2**64 <= sums.above[index]
        assert sums.above[index] - sums.below[index] < 2**-10 * 2**64
    assert sums.total == (table.remainder << 64, table.remainder << 64)


@pytest.mark.parametrize("scale", [*SCALES, Fraction(1, 1000), Fraction(180)])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_places_of_a_table_are_exactly_its_floors_and_the_remainder_is_all_but_never_reached(kind, scale):
    table = discrete._laplace_sampler(scale) if kind == "laplace" else discrete._gaussian_sampler(scale**2)
    buckets = len(table._cuts)
    places: dict[int, int] = {}
    for bucket in range(buckets):
        start, cut, end = bucket * 2**64 // buckets, int(table._cuts[bucket]), (bucket + 1) * 2**64 // buckets
        assert start <= cut < end
        first, second = table._values[2 * bucket : 2 * bucket + 2].tolist()
        places[first] = places.get(first, 0) + cut - start
        places[second] = places.get(second, 0) + end - cut
    assert places.pop(discrete._REMAINDER) == table.remainder < 2**16
    assert {x: count for x, count in places.items() if count} == table.floors


@pytest.mark.parametrize("name", ["Laplace 3/2", "Gaussian 50", "a digit", "one-sided"])
@pytest.mark.parametrize("word_bits", [4, 8, 12])
def test_a_table_of_short_words_has_the_exact_law_by_way_of_the_remainder(name, word_bits):
    law = LAWS[name]
    table = AliasTable(law, word_bits=word_bits)
    drawn = table.draw(20_000, StreamRandomness(b"short words"))
    counts = counts_around_zero(drawn, 60)
    x = np.abs(np.arange(-60, 61))
    weights = np.exp(-float(law.quadratic) * x**2 - float(law.linear) * x)
    wrong = np.exp(-float(law.quadratic) * x**2 / 1.21 - float(law.linear) * x / 1.1)
    for candidate in (weights, wrong):
        if not law.two_sided:
            candidate[:60] = 0
        if law.length is not None:
            candidate[60 + law.length :] = 0
    assert p_value(counts, weights) > FALSE_ALARM
    if name != "a digit":
        assert p_value(counts, wrong) < FALSE_ALARM
    assert table.remainder / 2**word_bits > {4: 0.1, 8: 0.01, 12: 0.0005}[word_bits]


def drawn_of(kind, spread, size, rng):
    """Noise of this scale, or of this standard deviation."""
    if kind == "laplace":
        return discrete_laplace(scale=Fraction(spread), size=size, rng=rng)
    return discrete_gaussian(variance=Fraction(spread) ** 2, size=size, rng=rng)


def law_around_zero(kind, spread, reach):
    return laplace_law(spread, reach) if kind == "laplace" else gaussian_law(spread**2, reach)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_law_is_the_claimed_one_and_not_one_a_tenth_wider_or_narrower(kind, scale):
    drawn = drawn_of(kind, scale, 200_000, StreamRandomness(f"{kind} {scale}".encode()))
    reach, right = int(25 * scale) + 6, float(scale)
    counts = counts_around_zero(drawn, reach)
    assert p_value(counts, law_around_zero(kind, right, reach)) > FALSE_ALARM
    for wrong in (1.1 * right, 0.9 * right):
        assert p_value(counts, law_around_zero(kind, wrong, reach)) < FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(3), Fraction(3, 2)])
def test_neighbouring_values_have_the_ratio_that_privacy_rests_on(scale):
    draws = 1_500_000
    drawn = discrete_laplace(scale=scale, size=draws, rng=StreamRandomness(b"ratio"))
    counts = counts_around_zero(drawn, 10)

    def worst(claimed: float) -> float:
        """The largest distance from the claim in standard errors, over the 18 pairs |k| <= 9."""
        pairs = [(abs(k), abs(k) + 1, np.sign(k) or 1) for k in range(-8, 9)]
        ratios = [(counts[10 + sign * near], counts[10 + sign * far]) for near, far, sign in pairs]
        return max(abs(np.log(a / b) - claimed) / np.sqrt(1 / a + 1 / b) for a, b in ratios)

    assert worst(1 / float(scale)) < 5
    assert worst(1 / float(scale) * 1.1) > 5
    assert worst(1 / float(scale) * 0.9) > 5


def _wilson(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    z = norm.isf(alpha / 2)
    centre = (successes + z * z / 2) / (trials + z * z)
    half = z / (trials + z * z) * np.sqrt(successes * (trials - successes) / trials + z * z / 4)
    return centre - half, centre + half


@pytest.mark.parametrize(("kind", "reach"), [("laplace", 12), ("gaussian", 8)])
def test_every_single_probability_lies_in_its_wilson_interval(kind, reach):
    counts = counts_around_zero(drawn_of(kind, 2, 60_000, StreamRandomness(b"wilson " + kind.encode())), reach)
    intervals = [_wilson(count, 60_000, 1e-6) for count in counts.tolist()]
    for spread, is_right in ((2, True), (2.4, False)):
        law = law_around_zero(kind, spread, reach)
        assert all(lo <= p <= hi for (lo, hi), p in zip(intervals, law, strict=True)) == is_right


def test_noise_is_symmetric_falls_with_its_size_and_factors_as_a_geometric_law_does():
    draws, t = 60_000, 4
    drawn = discrete_laplace(scale=Fraction(t), size=draws, rng=StreamRandomness(b"shape"))
    signs = (drawn > 0).sum() - (drawn < 0).sum()
    assert abs(signs) < 6 * np.sqrt((drawn != 0).sum())
    counts = np.bincount(np.abs(drawn))
    falls = counts[1:12] - counts[2:13]
    assert (falls > -6 * np.sqrt(counts[1:12] + counts[2:13])).all()
    # P(|x| >= a + b | |x| >= a) = exp(-b / t) for a >= 1.
    for a, b in itertools.product((1, 3, 5), (1, 2, 4)):
        base, further = (np.abs(drawn) >= a).sum(), (np.abs(drawn) >= a + b).sum()
        p = np.exp(-b / t)
        assert abs(further - base * p) < 6 * np.sqrt(base * p * (1 - p))
        assert a > 1 or abs(further - base * p**1.3) > 6 * np.sqrt(base * p * (1 - p))


@pytest.mark.parametrize(("digit_bits", "widest"), [(1, 1), (2, 1), (2, Fraction(1, 10)), (3, 2)])
def test_a_laplace_law_of_several_digits_is_the_law_of_one_table(digit_bits, widest, monkeypatch):
    monkeypatch.setattr(discrete._WideLaplace, "_DIGIT_BITS", digit_bits)
    monkeypatch.setattr(discrete, "_WIDEST_LAPLACE_TABLE", widest)
    sampler = discrete._WideLaplace(Fraction(10))
    assert len(sampler._digits) >= 2
    counts = counts_around_zero(sampler.draw(200_000, StreamRandomness(b"digits")), 100)
    assert p_value(counts, laplace_law(10, 100)) > FALSE_ALARM
    assert p_value(counts, laplace_law(10.5, 100)) < FALSE_ALARM


@pytest.mark.parametrize("widest", [1, 3, 5, 20])
def test_a_gaussian_law_of_blocks_is_the_law_of_one_table(widest, monkeypatch):
    monkeypatch.setattr(discrete, "_WIDEST_GAUSSIAN_TABLE", widest)
    variance = Fraction(200 if widest < 20 else 20_000)
    sampler = discrete._WideGaussian(variance)
    draws = 20_000 if widest < 20 else 200_000
    counts = counts_around_zero(sampler.draw(draws, StreamRandomness(b"blocks")), 500)
    assert p_value(counts, gaussian_law(float(variance), 500)) > FALSE_ALARM
    assert p_value(counts, gaussian_law(float(variance) * 1.21, 500)) < FALSE_ALARM


@pytest.mark.parametrize("variance", [Fraction(850**2 + 1), Fraction(10**12), Fraction(2**100, 3)])
def test_the_line_decides_a_toss_only_where_the_exact_exponential_agrees(variance):
    """Each toss just past the slack, on either side, over blocks and places in a block."""
    sampler = discrete._WideGaussian(variance)
    block_size = 2**sampler._block_bits
    mpmath.mp.prec = 300
    choice = np.random.default_rng(5)
    blocks = np.concatenate([[0, 0, len(sampler._losses) - 1], choice.integers(0, len(sampler._losses), 60)])
    within = np.concatenate([[0, block_size - 1, block_size - 1], choice.integers(0, block_size, 60)])
    asked = Words([0])
    for q, d in zip(blocks.tolist(), within.tolist(), strict=True):
        exponent = Fraction(2 * block_size * q * d + d * d) / (2 * variance)
        exact = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**32
        kept = min(sampler._block_bits, 30)
        fall = (int(sampler._losses[q]) * (d >> (sampler._block_bits - kept))) >> kept
        slack = int(sampler._slacks[q])
        accepted_last, refused_first = 2**32 - fall - slack - 1, 2**32 - fall + slack + 1
        assert accepted_last + 1 <= exact <= refused_first
        # `Words` has nothing after the first word, so a toss that went on to `bernoulli` would fail the test.
        here = np.array([q]), np.array([d])
        asked.left = np.array([max(accepted_last, 0) << 32 | 0xFFFFFFFF], dtype=np.uint64)
        assert sampler._toss(*here, asked).tolist() == [False]
        if refused_first < 2**32:
            asked.left = np.array([refused_first << 32], dtype=np.uint64)
            assert sampler._toss(*here, asked).tolist() == [True]


def test_a_toss_too_close_to_the_line_or_beyond_the_table_is_decided_by_the_exponential_itself():
    sampler = discrete._WideGaussian(Fraction(10**12))
    q, d = 900, 2**sampler._block_bits // 2
    mpmath.mp.prec = 300
    start = q << sampler._block_bits
    exact = int(mpmath.floor(mpmath.exp(-mpmath.mpf((start + d) ** 2 - start**2) / (2 * 10**12)) * 2**64))
    beyond = len(sampler._losses) + 5
    for block, within, word, refused in ((q, d, exact - 1, False), (q, d, exact + 1, True), (beyond, 1, 2**62, False)):
        rng = Words([word, 2**63])
        assert sampler._toss(np.array([block]), np.array([within]), rng).tolist() == [refused]
        assert rng.asked == [1, 1]


@pytest.mark.parametrize("scale", [181, 1000, 10**6, 2**40, 2**52])
@pytest.mark.parametrize(("kind", "law", "least"), [("laplace", laplace, 0), ("gaussian", norm, 851)])
def test_a_wide_law_is_the_continuous_law_to_the_eye_and_its_low_digits_are_even(kind, law, least, scale):
    """Kolmogorov and Smirnov at 5,000 draws (critical distance 0.03805 at 1e-6), and chi-square of the residues."""
    spread = max(scale, least)
    drawn = drawn_of(kind, spread, 5000, StreamRandomness(f"wide {kind} {scale}".encode()))
    assert kstest(drawn, law(scale=float(spread)).cdf).statistic < 0.03805
    assert kstest(drawn, law(scale=1.25 * spread).cdf).statistic > 0.03805
    assert p_value(np.bincount(drawn % 16, minlength=16), np.ones(16)) > FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(10), Fraction(180)])
def test_one_word_is_asked_for_each_cell_whatever_is_drawn(scale):
    for parameter, draw in (("scale", discrete_laplace), ("variance", discrete_gaussian)):
        rng = Words(then=StreamRandomness(b"work"))
        draw(**{parameter: scale}, size=1000, rng=rng)
        assert rng.asked == [1000]


@pytest.mark.parametrize(
    ("scale", "variance"),
    [
        *((value, value) for value in (Fraction(0), Fraction(-1, 2), 0.5, True, "1", None)),
        (LARGEST_SCALE + Fraction(1, 2), LARGEST_SCALE**2 + Fraction(1, 2)),
    ],
)
def test_a_scale_that_is_no_rational_in_range_is_refused(scale, variance):
    rng = Words()
    with pytest.raises(InvalidInput, match=r"^scale: .* must be (an exact|above 0 and at most 2\*\*52)"):
        discrete_laplace(scale=scale, size=1, rng=rng)
    with pytest.raises(InvalidInput, match=r"^variance: .* must be (an exact|above 0 and at most 2\*\*104)"):
        discrete_gaussian(variance=variance, size=1, rng=rng)
    assert rng.asked == []


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_an_integer_scale_is_made_a_fraction_before_it_is_divided_by(kind, monkeypatch):
    asked = []
    make = getattr(discrete, f"_{kind}_sampler")
    monkeypatch.setattr(discrete, f"_{kind}_sampler", lambda parameter: asked.append(parameter) or make(parameter))
    field = "scale" if kind == "laplace" else "variance"
    getattr(discrete, f"discrete_{kind}")(**{field: 10}, size=1, rng=StreamRandomness(b"int"))
    assert [type(parameter) for parameter in asked] == [Fraction]


@pytest.mark.parametrize("scale", [181, 10**6, 2**40, 2**52])
def test_the_parts_of_a_wide_draw_cannot_add_up_to_more_than_the_largest_noise(scale):
    tables = [discrete._WideLaplace(Fraction(scale))._digits[-1]]
    gaussian = discrete._WideGaussian(Fraction(max(scale, 851)) ** 2)
    tables.append((gaussian._blocks, 2**gaussian._block_bits))
    for table, place in tables:
        assert (table._largest + 1) * int(place) <= LARGEST_NOISE
    with pytest.raises(SamplerFailure, match="too large for a 64-bit integer"):
        AliasTable(LAWS["Laplace 10"], word_bits=4, largest=5).draw(5000, StreamRandomness(b"large"))


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({}, "must not be below 0, nor both be 0"),
        ({"linear": Fraction(-1), "quadratic": Fraction(2)}, "must not be below 0, nor both be 0"),
        ({"linear": Fraction(1), "length": 0}, "must be at least 1, and the law one-sided"),
        ({"linear": Fraction(1), "length": 3, "two_sided": True}, "must be at least 1, and the law one-sided"),
        ({"linear": Fraction(1, 250), "two_sided": True}, "entries are too many for one table of 16384"),
    ],
)
def test_a_law_that_does_not_fall_or_fit_a_table_is_refused(arguments, rule):
    with pytest.raises(InvalidInput, match=rule):
        AliasTable(LogQuadraticLaw(**arguments))
