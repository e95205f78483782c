"""Selections have exactly their laws, keep the time to themselves, and these tests can fail.

Statistical tests run on fixed streams; on a fresh one a right selection would fail each with probability at most 1e-6.
"""

from __future__ import annotations

import itertools
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine.noise import profiles
from releases.engine.errors import InvalidInput
from releases.engine.noise import selection
from releases.engine.noise.discrete import OperatingSystemRandomness, StreamRandomness
from releases.engine.noise.selection import GapWeights, exponential_mechanism, permute_and_flip, report_noisy_max
from tests.engine.goodness import FALSE_ALARM, Words, laplace_law, law_of, p_value

MECHANISMS = [exponential_mechanism, permute_and_flip, report_noisy_max]
SCORES = [7, 5, 7, 1, 6]
ONE = Fraction(1)


def softmax_law(scores, rate: float, weights=1) -> np.ndarray:
    law = np.exp(rate * (np.array(scores, dtype=float) - max(scores))) * np.array(weights, dtype=float)
    return law / law.sum()


def permute_and_flip_law(scores, rate: float) -> np.ndarray:
    """By its definition: over all orders of the candidates, the chance to be the first whose coin comes up."""
    coins = np.exp(rate * (np.array(scores, dtype=float) - max(scores)))
    law = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for candidate in order:
            law[candidate] += reached * coins[candidate] / len(orders)
            reached *= 1 - coins[candidate]
    return law


def noisy_max_law(scores, rate: float) -> np.ndarray:
    """By summing over the winning value and who else reaches it, with discrete Laplace noise of scale 1 / rate."""
    reach = int(30 / rate)
    noise = laplace_law(1 / rate, reach)
    low, high = min(scores) - reach, max(scores) + reach
    mass = np.zeros((len(scores), high - low + 1))
    for candidate, score in enumerate(scores):
        start = score - reach - low
        mass[candidate, start : start + noise.size] = noise
    below = np.cumsum(mass, axis=1) - mass
    law = np.zeros(len(scores))
    for tied in itertools.product((False, True), repeat=len(scores)):
        if any(tied):
            parts = [mass[index] if ties else below[index] for index, ties in enumerate(tied)]
            law[list(tied)] += np.prod(parts, axis=0).sum() / sum(tied)
    return law


LAWS = {exponential_mechanism: softmax_law, permute_and_flip: permute_and_flip_law, report_noisy_max: noisy_max_law}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("monotone", [False, True])
def test_the_law_is_the_one_defined_and_not_that_of_another_epsilon(mechanism, monotone):
    rng = StreamRandomness(f"{mechanism.__name__} {monotone}".encode())
    epsilon, sensitivity = Fraction(3, 2), Fraction(2)

    def draw() -> int:
        return mechanism(SCORES, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, rng=rng)

    counts = law_of(draw, len(SCORES), 10_000)
    rate = 1.5 / 2 if monotone else 1.5 / 4
    assert p_value(counts, LAWS[mechanism](SCORES, rate)) > FALSE_ALARM
    for wrong in (1.2 * rate, rate / 1.2, 2 * rate, rate / 2):
        assert p_value(counts, LAWS[mechanism](SCORES, wrong)) < FALSE_ALARM


@settings(max_examples=60)
@given(
    st.fractions(Fraction(1, 10**7), 100, max_denominator=10**9),
    st.lists(st.integers(0, 2**62), min_size=1, max_size=30),
    st.lists(st.integers(0, 100_000), min_size=1, max_size=30),
)
def test_every_bound_on_a_weight_is_below_it_by_no_more_than_the_stated_error(rate, far, near):
    table = GapWeights(rate)
    edges = [int(table._last) + move for move in (-1, 0, 1)]
    gaps = np.array([0, *far, *near, *edges], dtype=np.int64)
    bounds = table.lower(gaps)
    mpmath.mp.prec = 300
    for gap, bound in zip(gaps.tolist(), bounds.tolist(), strict=True):
        exponent = rate * gap
        exact = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**62
        assert bound <= exact <= bound + table.error
    assert bounds[0] == 2**62


@pytest.mark.parametrize("weights", [None, [1, 2, 3, 5], [2**40, 1, 3**60, 7]])
@pytest.mark.parametrize("bits", [8, 62])
def test_bound_and_remainder_together_are_exactly_the_law(bits, weights):
    gaps, rate = [0, 1, 4, 2], Fraction(2, 3)
    table = GapWeights(rate, bits=bits)
    measure = weights or [1] * 4
    lower = table.lower(np.array(gaps)).tolist()
    bounded = sum(weight * bound for weight, bound in zip(measure, lower, strict=True))
    whole = bounded + table.error * sum(measure)
    sums = selection._sum_remainder(gaps, measure, lower, whole, table, 64)
    mpmath.mp.prec = 600
    exact = [weight * mpmath.exp(-mpmath.mpf(2 * gap) / 3) for weight, gap in zip(measure, gaps, strict=True)]
    rest = [
        whole * value / mpmath.fsum(exact) - weight * bound
        for value, weight, bound in zip(exact, measure, lower, strict=True)
    ]
    assert min(rest) >= 0
    for index, (below, above) in enumerate(zip(sums.below, sums.above, strict=True)):
        assert below <= mpmath.fsum(rest[: index + 1]) * 2**64 <= above
        assert above - below < max(measure) * 2**10
    assert sums.total[0] <= (whole - bounded) << 64 <= sums.total[1]


@pytest.mark.parametrize("weights", [None, [3, 1, 4, 1, 5]])
@pytest.mark.parametrize("bits", [4, 8])
def test_the_exponential_mechanism_is_exact_by_way_of_the_remainder(bits, weights):
    """With bounds of a few bits a large part of the draws reaches the remainder."""
    table = GapWeights(Fraction(1, 2), bits=bits)
    gaps = max(SCORES) - np.array(SCORES)
    rng = StreamRandomness(b"remainder")
    counts = law_of(lambda: selection._draw_by_weight(gaps, weights, table, rng), 5, 4000)
    assert p_value(counts, softmax_law(SCORES, 0.5, weights or 1)) > FALSE_ALARM
    assert p_value(counts, softmax_law(SCORES, 0.7, weights or 1)) < FALSE_ALARM


def test_a_coin_within_the_error_of_its_bound_goes_on_with_the_same_word():
    # Three digits, so that the bound is a few units off and leaves both words open.
    table = GapWeights(Fraction(1, 10**7))
    mpmath.mp.prec = 300
    exact = int(mpmath.floor(mpmath.exp(-mpmath.mpf(12_345_678) / 10**7) * 2**64))
    for word, heads in ((exact - 1, True), (exact + 1, False)):
        rng = Words([word, 2**63])
        assert selection._toss(np.array([12_345_678]), table, rng).tolist() == [heads]
        assert rng.asked == [1, 1]


@settings(max_examples=50)
@given(st.lists(st.integers(1, 2**62), min_size=1, max_size=40), st.booleans())
def test_a_base_measure_in_an_array_is_that_in_a_list(weights, small):
    measure = [1 + weight % 2**32 for weight in weights] if small else weights
    listed, array = selection._digits(measure), selection._digits(np.array(measure, dtype=np.int64))
    assert [each.tolist() for each in listed] == [each.tolist() for each in array]


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, 2**100)), min_size=1, max_size=40),
    st.booleans(),
    st.data(),
)
def test_blocks_and_digits_add_up_to_the_exact_running_sums(pairs, weighted, data):
    bounds = np.array([bound for bound, _ in pairs], dtype=np.uint64)
    weights = [weight for _, weight in pairs] if weighted else [1] * len(pairs)
    parts = selection._parts(bounds, selection._digits(weights) if weighted else [])
    running = list(itertools.accumulate(b * w for b, w in zip(bounds.tolist(), weights, strict=True)))
    assert selection._block_sums(parts) == [running[-1]]
    if running[-1]:
        drawn = data.draw(st.integers(0, running[-1] - 1))
        assert selection._locate(parts, drawn) == next(i for i, total in enumerate(running) if drawn < total)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("place", [0, 4095, 4096, 9999])
def test_a_score_far_above_the_others_is_chosen_wherever_it_stands(mechanism, place):
    scores = np.zeros(10_000, dtype=np.int64)
    scores[place] = 10**6
    assert mechanism(scores, epsilon=ONE, sensitivity=ONE, rng=StreamRandomness(b"spike")) == place


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_fractions_and_numerators_over_one_denominator_mean_the_same(mechanism):
    fractions = [Fraction(1, 2), Fraction(5, 3), Fraction(1), Fraction(3, 2)]
    forms = [
        (fractions, 1),
        (np.array(fractions, dtype=object), 1),
        (np.array([3, 10, 6, 9], dtype=np.int8), 6),
        (np.array([3, 10, 6, 9], dtype=np.uint64), 6),
        ([Fraction(3), np.int64(10), 6, Fraction(9)], 6),
    ]
    fixed = {"epsilon": Fraction(2), "sensitivity": Fraction(1, 3)}
    for seed in range(20):
        chosen = {
            mechanism(scores, denominator=denominator, **fixed, rng=StreamRandomness(b"%d" % seed))
            for scores, denominator in forms
        }
        assert len(chosen) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_same_randomness_is_asked_for_whatever_the_scores(mechanism):
    asked = set()
    for scores in profiles(50_000).values():
        rng = Words(then=StreamRandomness(b"work"))
        mechanism(scores, epsilon=Fraction(1, 10), sensitivity=ONE, rng=rng)
        asked.add(tuple(rng.asked))
    assert len(asked) == 1


def test_the_time_hardly_depends_on_the_scores():
    """Processor time, the least of several tries: under 3 times the fastest profile's. A library's is a hundred."""
    scores = profiles(100_000)
    for mechanism in MECHANISMS:
        least = dict.fromkeys(scores, float("inf"))
        for _ in range(12):
            for shape in scores:
                start = time.process_time_ns()
                mechanism(scores[shape], epsilon=Fraction(1, 10), sensitivity=ONE, rng=OperatingSystemRandomness())
                least[shape] = min(least[shape], time.process_time_ns() - start)
        assert max(least.values()) < 3 * min(least.values()), (mechanism, least)


POSITIVE = r" .* must be (an exact rational|above 0)$"
DENOMINATOR, WEIGHTS = r"^denominator: .* must be an integer above 0$", r"^weights: .* must be integers above 0$"


@pytest.mark.parametrize(
    ("mechanism", "arguments", "rule"),
    [
        *(
            (mechanism, {field: value}, f"^{field}:{POSITIVE}")
            for mechanism in MECHANISMS
            for field in ("epsilon", "sensitivity")
            for value in (Fraction(0), Fraction(-1), 0.5, True, "1", None)
        ),
        *((m, {"denominator": value}, DENOMINATOR) for m in MECHANISMS for value in (0, True, Fraction(2), 2.0)),
        (report_noisy_max, {"epsilon": Fraction(1, 2**52)}, r"^scale: .* at most 2\*\*52$"),
        (exponential_mechanism, {"weights": [1, 2, 3]}, r"^weights: 3 must be one a candidate, 2 in all$"),
        *((exponential_mechanism, {"weights": each}, WEIGHTS) for each in ([0, 1], [1, -2], [1.5, 1])),
        *((exponential_mechanism, {"weights": np.array(each)}, WEIGHTS) for each in ([0, 1], [1, -2], [1.5, 1])),
    ],
)
def test_an_argument_out_of_range_is_refused(mechanism, arguments, rule):
    with pytest.raises(InvalidInput, match=rule):
        mechanism([1, 2], **{"epsilon": ONE, "sensitivity": ONE, "rng": Words(), **arguments})


ONE_EACH, IN_SIZE = "must be one integer a candidate, and at least one", "must be at most 2**61 in size"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("scores", "shown", "rule"),
    [
        ([], "an array of int64 of shape (0,)", ONE_EACH),
        (np.zeros((2, 2), dtype=int), "an array of int64 of shape (2, 2)", ONE_EACH),
        (np.array([12345.0]), "an array of float64 of shape (1,)", ONE_EACH),
        (np.array([True]), "an array of bool of shape (1,)", ONE_EACH),
        ([12345.0], "a list of 1", "must be integers or fractions"),
        ([True, 2], "a list of 2", "must be integers or fractions"),
        ([Fraction(12345, 2**40 + 1)], "a list of 1", "must have a common denominator up to 2**40"),
        ([2**61 + 1, 0], "an array of 2", IN_SIZE),
        ([0, -(2**61) - 1], "an array of 2", IN_SIZE),
        ([2**80], "an array of 1", IN_SIZE),
        (np.array([2**63], dtype=np.uint64), "an array of 1", IN_SIZE),
        (np.array([-(2**63)]), "an array of 1", IN_SIZE),
    ],
)
def test_scores_that_do_not_fit_are_refused_in_words_that_tell_none_of_them(mechanism, scores, shown, rule):
    with pytest.raises(InvalidInput) as refused:
        mechanism(scores, epsilon=ONE, sensitivity=ONE, rng=Words())
    assert str(refused.value) == f"scores: '{shown}' {rule}"
