"""Words, and the exact draws made of them. Statistical tests run on fixed streams; else a false alarm is below 1e-6."""

from __future__ import annotations

import hashlib
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.arithmetic.intervals import CertifiedSums, exp_interval
from releases.engine.errors import InvalidInput
from releases.engine.noise.discrete import discrete_laplace
from releases.engine.noise.randomness import (
    OperatingSystemRandomness,
    SamplerFailure,
    StreamRandomness,
    bernoulli,
    choose,
    in_chunks,
    random_below,
    random_bits,
    uniform_below,
    uniform_bits,
)
from tests.engine.goodness import FALSE_ALARM, Words, law_of, p_value


def test_the_stream_is_the_one_its_documentation_states():
    seed = b"a seed"
    block = hashlib.shake_256(len(seed).to_bytes(8, "little") + seed + (0).to_bytes(8, "little")).digest(65_536)
    expected = [int.from_bytes(block[8 * index : 8 * index + 8], "little") for index in range(5)]
    assert StreamRandomness(seed).words(5).tolist() == expected


@settings(max_examples=30)
@given(st.lists(st.integers(0, 20_000), max_size=6))
def test_the_stream_does_not_depend_on_how_it_is_asked_for(counts):
    pieces = StreamRandomness(b"pieces")
    asked = [pieces.words(count) for count in counts]
    whole = StreamRandomness(b"pieces").words(sum(counts))
    assert np.array_equal(np.concatenate([*asked, np.empty(0, np.uint64)]), whole)
    assert StreamRandomness(b"pieces\0").words(4).tolist() != StreamRandomness(b"pieces").words(4).tolist()


def test_the_operating_system_is_asked_for_exactly_the_bytes_used(monkeypatch):
    asked = []

    def given_bytes(count):
        asked.append(count)
        return bytes(range(1, 9)) * (count // 8)

    monkeypatch.setattr(os, "urandom", given_bytes)
    words = OperatingSystemRandomness().words(3)
    assert words.tobytes() == bytes(range(1, 9)) * 3
    assert OperatingSystemRandomness().words(2_500_000).size == 2_500_000
    assert asked == [24, 2**23, 2**23, 20_000_000 - 2**24]


def _noise_of_two_children(rng) -> list[bytes]:
    """What two children of this process draw from a generator made before the fork."""
    drawn = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, discrete_laplace(scale=Fraction(1000), size=100, rng=rng).tobytes())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            drawn.append(pipe.read())
        os.waitpid(child, 0)
    return drawn


def test_two_forked_workers_never_give_equal_noise():
    rng = OperatingSystemRandomness()
    rng.words(100)
    first, second = _noise_of_two_children(rng)
    assert len(first) == len(second) == 800
    assert first != second


def test_the_fork_test_sees_a_generator_that_keeps_state_in_the_process():
    first, second = _noise_of_two_children(StreamRandomness(b"kept"))
    assert len(first) == 800
    assert first == second


@pytest.mark.parametrize("bits", [1, 63])
def test_uniform_bits_are_the_top_bits_of_each_word(bits):
    words = StreamRandomness(b"bits").words(200)
    drawn = uniform_bits(bits, (10, 20), StreamRandomness(b"bits"))
    assert drawn.dtype == np.int64
    assert drawn.ravel().tolist() == [int(word) >> (64 - bits) for word in words]


def test_uniform_below_draws_again_exactly_the_words_that_would_favour_small_numbers():
    n = 3 * 2**61
    kept = (2**64 // n) * n
    rng = Words([kept - 1, kept, 2**64 - 1, 5, n + 7, 0], then=None)
    # The second and third are refused; their replacements are the next words: 0 for one, and then what follows.
    rng.then = Words([kept, 9])
    assert uniform_below(n, 5, rng).tolist() == [n - 1, 0, 9, 5, 7]
    # A power of two keeps every word.
    assert uniform_below(2**63, 3, Words([2**64 - 1, 2**63, 3])).tolist() == [2**63 - 1, 0, 3]


@pytest.mark.parametrize("n", [1, 6, 2**64 - 1, 2**64, 3**100])
def test_a_long_integer_below_n_takes_every_value_equally_often(n):
    drawn = [random_below(n, StreamRandomness(b"%d" % seed)) for seed in range(300)]
    assert all(0 <= value < n for value in drawn)
    if n == 6:
        assert p_value(np.bincount(drawn, minlength=6), np.ones(6)) > FALSE_ALARM
    # The largest words but those drawn again, and the smallest, lead to the ends of the range.
    words = 2 + n.bit_length() // 64
    share = 2 ** (64 * words) // n
    last = n * share - 1
    assert random_below(n, Words([last >> (64 * place) & (2**64 - 1) for place in range(words)])) == n - 1
    assert random_below(n, Words([0] * words)) == 0


def test_a_long_integer_is_drawn_again_where_it_would_favour_some():
    words = 2
    refused = 6 * (2**128 // 6)
    rng = Words([refused & (2**64 - 1), refused >> 64, *[0] * words])
    assert random_below(6, rng) == 0
    assert rng.asked == [2, 2]


def test_the_words_drawn_for_a_long_integer_tell_its_public_bound_alone():
    for n in (1, 2**63, 2**64, 2**70):
        rng = Words([0] * 9)
        random_below(n, rng, most=2**70)
        assert rng.asked == [3]


def test_a_coin_on_the_edge_is_decided_by_the_next_word_after_the_same_first_bits():
    # In base 2**64 every digit of 1/3 is `third`, so equal first words leave the matter to the second.
    third = (2**64 - 1) // 3
    chance = lambda bits: (2**bits // 3, 2**bits // 3 + 1)  # noqa: E731
    assert bernoulli(chance, rng=Words([third - 1]))
    assert not bernoulli(chance, rng=Words([third + 1]))
    assert bernoulli(chance, rng=Words([third, third - 1]))
    assert not bernoulli(chance, rng=Words([third, third + 1]))
    assert bernoulli(chance, rng=Words([third - 1]), revealed=third, bits=64)
    assert not bernoulli(chance, rng=Words([third + 1]), revealed=third, bits=64)


def test_a_coin_has_its_probability_though_few_bits_of_it_were_revealed_before():
    rng = StreamRandomness(b"coin")

    def toss() -> int:
        revealed = random_bits(2, rng)
        return bernoulli(lambda bits: exp_interval(Fraction(-1), precision=bits), rng=rng, revealed=revealed, bits=2)

    counts = law_of(toss, 2, 20_000)
    assert p_value(counts, np.array([1 - np.exp(-1), np.exp(-1)])) > FALSE_ALARM
    assert p_value(counts, np.array([1 - np.exp(-1.2), np.exp(-1.2)])) < FALSE_ALARM


def test_a_draw_by_inversion_has_the_law_of_its_weights():
    rng = StreamRandomness(b"choose")
    exponents = [Fraction(0), Fraction(-1), Fraction(-1, 3), Fraction(-5, 2)]

    def sums_at(bits):
        return CertifiedSums.of([exp_interval(exponent, precision=bits) for exponent in exponents])

    counts = law_of(lambda: choose(sums_at, rng=rng), 4, 10_000)
    law = np.exp([float(exponent) for exponent in exponents])
    assert p_value(counts, law) > FALSE_ALARM
    assert p_value(counts, law**1.2) < FALSE_ALARM


def test_a_draw_on_the_edge_between_two_candidates_asks_for_more_bits():
    third = (2**64 - 1) // 3
    asked = []

    def sums_at(bits):
        asked.append(bits)
        return CertifiedSums.of([(1, 1), (2, 2)])

    assert choose(sums_at, rng=Words([third, third + 1])) == 1
    assert choose(sums_at, rng=Words([third, third - 1])) == 0
    assert asked == [64, 128, 64, 128]


def test_what_cannot_be_decided_is_reported_and_not_repeated_for_ever():
    with pytest.raises(SamplerFailure, match="a coin could not be decided"):
        bernoulli(lambda bits: (0, 2**bits), rng=StreamRandomness(b""))
    with pytest.raises(SamplerFailure, match="a draw could not be decided"):
        choose(lambda bits: CertifiedSums.of([(0, 1), (0, 1)]), rng=StreamRandomness(b""))


@pytest.mark.parametrize("size", [-1, (3, -1), 2.0, True, "3", (2, None)])
def test_a_size_that_is_no_shape_is_refused(size):
    with pytest.raises(InvalidInput, match="must be a number of cells, or a shape, not below 0"):
        in_chunks(size, lambda count: np.zeros(count, dtype=np.int64))


@pytest.mark.parametrize("size", [0, (0,), (3, 0), (), (2, 3), 5, np.int64(4)])
def test_noise_has_the_shape_asked_for(size):
    drawn = in_chunks(size, lambda count: np.ones(count, dtype=np.int64))
    assert drawn.shape == np.zeros(size).shape
    assert drawn.sum() == drawn.size


@pytest.mark.parametrize(
    ("draw", "rule"),
    [
        *((lambda n=n: uniform_below(n, 1, Words()), r"must be between 1 and 2\*\*63") for n in (0, 2**63 + 1)),
        *((lambda bits=bits: uniform_bits(bits, 1, Words()), "must be between 1 and 63") for bits in (0, 64)),
        (lambda: random_below(0, Words()), "must be at least 1, and not above the most stated"),
        (lambda: random_below(8, Words(), most=7), "must be at least 1, and not above the most stated"),
        (lambda: OperatingSystemRandomness().words(-1), r"^count: -1 must not be below 0$"),
        (lambda: StreamRandomness(b"").words(-1), r"^count: -1 must not be below 0$"),
    ],
)
def test_ranges_and_counts_that_do_not_fit_are_refused(draw, rule):
    with pytest.raises(InvalidInput, match=rule):
        draw()
