"""Whole rows from weights: exact in number, never negative, and close in every marginal."""

import itertools
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.errors import InvalidInput
from releases.engine.estimation import rounding
from releases.engine.estimation.marginals import MarginalTree
from releases.engine.estimation.rounding import controlled_counts, systematic_counts
from releases.engine.noise.randomness import StreamRandomness

SHAPE = (7, 6, 5, 4, 3)
TRIPLES = list(itertools.combinations(range(5), 3))


def smooth_weights(shape=SHAPE, seed=0, scale=0.5):
    rng = np.random.default_rng(seed)
    tree = MarginalTree(shape, list(itertools.combinations(range(len(shape)), 2)))
    return tree.density(scale * rng.normal(size=tree.cells))


def marginal_error(counts, weights, sets=TRIPLES):
    """Mean over marginals of the sum over cells of |rows - expected|, in rows."""
    tree = MarginalTree(counts.shape, sets)
    expected = tree.answer_vector(weights * (counts.sum() / weights.sum()))
    return np.abs(tree.answer_vector(counts.astype(float)) - expected).sum() / len(sets)


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(0, 2**32),
    st.sampled_from([0, 1, 2, 17, 1000, 10**6]),
)
def test_counts_are_whole_never_negative_and_sum_to_the_rows(shape, seed, rows):
    rng = np.random.default_rng(seed)
    weights = rng.random(shape) * (rng.random(shape) < 0.7) + 1e-9
    counts = controlled_counts(weights, rows, StreamRandomness(b"rows"))
    assert counts.dtype == np.int64
    assert counts.shape == tuple(shape)
    assert counts.sum() == rows
    assert (counts >= 0).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.floats(0, 1, exclude_max=True), st.integers(0, 10**9))
def test_a_systematic_sample_is_within_one_of_its_expectation(seed, start, rows):
    weights = np.random.default_rng(seed).random((4, 5)) ** 8
    counts = systematic_counts(weights, rows, start)
    assert counts.sum() == rows
    assert np.abs(counts - weights * (rows / weights.sum())).max() < 1 + 1e-9 * rows


@pytest.mark.parametrize("rows", [500, 50_000])
def test_marginals_are_closer_than_those_of_independent_draws_and_of_a_systematic_sample(rows):
    weights = smooth_weights()
    drawn = np.random.default_rng(0).multinomial(rows, weights.reshape(-1)).reshape(SHAPE)
    counts = controlled_counts(weights, rows, StreamRandomness(b"close"))
    error = marginal_error(counts, weights)
    assert error < 0.5 * marginal_error(systematic_counts(weights, rows, 0.5), weights)
    assert error < 0.35 * marginal_error(drawn, weights)


def test_without_compiled_loops_the_systematic_sample_is_returned(monkeypatch):
    monkeypatch.setattr(rounding, "compiled_kernels", lambda: None)
    rng = StreamRandomness(b"plain")
    counts = controlled_counts(smooth_weights(), 3000, rng)
    start = int(StreamRandomness(b"plain").words(1)[0]) / 2.0**64
    assert np.array_equal(counts, systematic_counts(smooth_weights(), 3000, start))


@pytest.mark.parametrize("kernels", ["releases.engine.estimation.kernels", "releases.engine.smalldb.kernels"])
def test_a_long_loop_lets_the_thread_work_that_keeps_the_lease(kernels):
    loops = [each for each in vars(import_module(kernels)).values() if hasattr(each, "targetoptions")]
    called = [each for each in loops if "inline" not in each.targetoptions]
    assert called
    assert all(each.targetoptions.get("nogil") for each in called)


@pytest.mark.parametrize(
    ("weights", "rows", "field"),
    [
        *((np.array([each]), 10, "weights") for each in ([0.0, 0.0], [1.0, -1e-9], [1.0, np.nan])),
        (np.ones((2, 2)), -1, "rows"),
    ],
)
def test_what_is_no_distribution_of_rows_is_refused(weights, rows, field):
    with pytest.raises(InvalidInput, match=field):
        controlled_counts(weights, rows, StreamRandomness(b"none"))
