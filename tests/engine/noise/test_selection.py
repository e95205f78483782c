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

from releases.benchmarks.noise import profiles
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


@pytest.mark.parametrize("rate", [Fraction(1, 10**30), Fraction(1, 2**40), Fraction(1, 3), Fraction(10**6)])
def test_rates_of_every_size_have_tables_of_bounded_size(rate):
    table = GapWeights(rate)
    assert sum(entries.size for entries in table._tables) <= 6 * 2049
    gaps = np.array([0, 1, 2**61, 2**62], dtype=np.int64)
    mpmath.mp.prec = 300
    exact = [mpmath.exp(-mpmath.mpf(rate.numerator) * int(gap) / rate.denominator) * 2**62 for gap in gaps]
    for bound, value in zip(table.lower(gaps).tolist(), exact, strict=True):
        assert bound <= value <= bound + table.error


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


@pytest.mark.parametrize("bits", [4, 8])
def test_a_coin_of_permute_and_flip_is_exact_where_the_bound_does_not_decide(bits):
    table = GapWeights(Fraction(1, 2), bits=bits)
    gaps = np.repeat([0, 1, 2, 6], 5000)
    heads = selection._toss(gaps, table, StreamRandomness(b"coins")).reshape(4, 5000).sum(axis=1)
    assert heads[0] == 5000
    for gap, count in zip((1, 2, 6), heads[1:].tolist(), strict=True):
        p = np.exp(-gap / 2)
        assert p_value(np.array([count, 5000 - count]), np.array([p, 1 - p])) > FALSE_ALARM
        off = np.exp(-gap / 2 * 0.7)
        assert p_value(np.array([count, 5000 - count]), np.array([off, 1 - off])) < FALSE_ALARM


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
@given(st.lists(st.integers(1, 2**62), min_size=1, max_size=40), st.booleans(), st.binary(max_size=4))
def test_a_base_measure_in_an_array_is_that_in_a_list(weights, small, seed):
    measure = [1 + weight % 2**32 for weight in weights] if small else weights
    listed, array = selection._digits(measure), selection._digits(np.array(measure, dtype=np.int64))
    assert [each.tolist() for each in listed] == [each.tolist() for each in array]
    for bits in (8, 62):
        table = GapWeights(Fraction(1, 2), bits=bits)
        one, other = (
            selection._draw_by_weight(np.arange(len(measure)), each, table, StreamRandomness(seed))
            for each in (measure, np.array(measure, dtype=np.int64))
        )
        assert one == other


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


def test_every_candidate_is_chosen_from_its_first_place_to_its_last():
    gaps = np.zeros(2 * selection._BLOCK, dtype=np.int64)
    table = GapWeights(ONE)
    whole = (gaps.size << 62) + table.error * gaps.size
    words = 2 + (gaps.size << 64).bit_length() // 64
    share = 2 ** (64 * words) // whole

    def chosen(place: int) -> int:
        drawn = [place * share >> (64 * index) & (2**64 - 1) for index in range(words)]
        return selection._draw_by_weight(gaps, None, table, Words(drawn))

    for candidate in (0, 1, selection._BLOCK - 1, selection._BLOCK, gaps.size - 1):
        assert chosen(candidate << 62) == candidate
        assert chosen((candidate + 1 << 62) - 1) == candidate


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("place", [0, 4095, 4096, 9999])
def test_a_score_far_above_the_others_is_chosen_wherever_it_stands(mechanism, place):
    scores = np.zeros(10_000, dtype=np.int64)
    scores[place] = 10**6
    assert mechanism(scores, epsilon=ONE, sensitivity=ONE, rng=StreamRandomness(b"spike")) == place


def test_the_base_measure_multiplies_the_law():
    rng = StreamRandomness(b"measure")
    weights = [1, 10, 2, 1000, 3]
    draw = lambda: exponential_mechanism(SCORES, epsilon=ONE, sensitivity=ONE, weights=weights, rng=rng)  # noqa: E731
    counts = law_of(draw, 5, 5000)
    assert p_value(counts, softmax_law(SCORES, 0.5, weights)) > FALSE_ALARM
    assert p_value(counts, softmax_law(SCORES, 0.5)) < FALSE_ALARM


@settings(max_examples=30)
@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=20),
    st.integers(-(2**60), 2**60),
    st.sampled_from(MECHANISMS),
)
def test_moving_all_scores_alike_changes_nothing(scores, move, mechanism):
    def chosen(values) -> int:
        return mechanism(values, epsilon=ONE, sensitivity=Fraction(3), rng=StreamRandomness(b"moved"))

    assert chosen(scores) == chosen([score + move for score in scores])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_fractions_and_numerators_over_one_denominator_mean_the_same(mechanism):
    fractions = [Fraction(1, 2), Fraction(5, 3), Fraction(1), Fraction(3, 2)]
    forms = [
        (fractions, 1),
        (np.array(fractions, dtype=object), 1),
        ([3, 10, 6, 9], 6),
        (np.array([3, 10, 6, 9], dtype=np.int8), 6),
        (np.array([3, 10, 6, 9], dtype=np.uint64), 6),
        ([Fraction(3), np.int64(10), 6, Fraction(9)], 6),
    ]
    for seed in range(20):
        chosen = {
            mechanism(
                scores,
                epsilon=Fraction(2),
                sensitivity=Fraction(1, 3),
                denominator=denominator,
                rng=StreamRandomness(b"%d" % seed),
            )
            for scores, denominator in forms
        }
        assert len(chosen) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_finer_unit_leaves_the_law_what_it_was(mechanism):
    rng = StreamRandomness(b"units")
    draw = lambda: mechanism([0, 2, 6], epsilon=ONE, sensitivity=ONE, denominator=2, rng=rng)  # noqa: E731
    counts = law_of(draw, 3, 4000)
    law = noisy_max_law([0, 2, 6], 0.25) if mechanism is report_noisy_max else LAWS[mechanism]([0, 1, 3], 0.5)
    assert p_value(counts, law) > FALSE_ALARM


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_candidate_is_always_chosen_and_the_largest_scores_fit(mechanism):
    rng = OperatingSystemRandomness()
    assert mechanism([-5], epsilon=ONE, sensitivity=ONE, rng=rng) == 0
    assert mechanism([-(2**61), 2**61], epsilon=ONE, sensitivity=ONE, rng=rng) == 1


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


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("field", ["epsilon", "sensitivity"])
@pytest.mark.parametrize("value", [Fraction(0), Fraction(-1), 0.5, True, "1", None])
def test_a_parameter_that_is_no_rational_above_zero_is_refused(mechanism, field, value):
    arguments = {"epsilon": ONE, "sensitivity": ONE, field: value}
    with pytest.raises(InvalidInput, match=rf"^{field}: .* must be (an exact rational|above 0)$"):
        mechanism([1, 2], **arguments, rng=Words())


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


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("denominator", [0, -1, True, Fraction(2), 2.0])
def test_a_denominator_that_is_no_integer_above_zero_is_refused(mechanism, denominator):
    with pytest.raises(InvalidInput, match=r"^denominator: .* must be an integer above 0$"):
        mechanism([1], epsilon=ONE, sensitivity=ONE, denominator=denominator, rng=Words())


def test_a_base_measure_that_does_not_fit_is_refused():
    def select(weights):
        return exponential_mechanism([1, 2], epsilon=ONE, sensitivity=ONE, weights=weights, rng=Words())

    with pytest.raises(InvalidInput, match=r"^weights: 3 must be one a candidate, 2 in all$"):
        select([1, 2, 3])
    for weights in ([0, 1], [1, -2], [1.5, 1], np.array([0, 1]), np.array([1, -2]), np.array([1.5, 1])):
        with pytest.raises(InvalidInput, match=r"^weights: .* must be integers above 0$"):
            select(weights)


def test_noise_too_wide_for_64_bits_is_refused_by_noisy_max():
    with pytest.raises(InvalidInput, match=r"^scale: .* at most 2\*\*52$"):
        report_noisy_max([1, 2], epsilon=Fraction(1, 2**52), sensitivity=ONE, rng=Words())
