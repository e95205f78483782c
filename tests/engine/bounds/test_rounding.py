"""Whole rows from weights: exact in number, never negative, and close in every marginal."""

from __future__ import annotations

import itertools
from importlib import import_module
from types import SimpleNamespace

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


def test_a_systematic_sample_has_its_expectation_on_average():
    weights = np.random.default_rng(1).random(40)
    starts = (np.arange(4000) + 0.5) / 4000
    mean = np.mean([systematic_counts(weights, 30, start) for start in starts], axis=0)
    np.testing.assert_allclose(mean, weights * 30 / weights.sum(), atol=1e-3)


def test_sampling_a_few_cells_at_a_time_gives_the_same_kind_of_sample(monkeypatch):
    weights = np.random.default_rng(4).random((5, 7, 3))
    whole = systematic_counts(weights, 40, 0.3)
    monkeypatch.setattr(rounding, "_CHUNK", 8)
    counts = systematic_counts(weights, 40, 0.3)
    assert counts.sum() == 40
    assert np.abs(counts - weights * 40 / weights.sum()).max() < 1
    assert np.abs(np.cumsum(counts) - np.cumsum(whole)).max() <= 1


def test_whole_weights_come_back_as_they_are():
    table = np.random.default_rng(2).poisson(3, size=SHAPE)
    counts = controlled_counts(table.astype(float), int(table.sum()), StreamRandomness(b"whole"))
    assert np.array_equal(counts, table)


def test_annealing_that_ends_further_off_than_the_sample_is_dropped(monkeypatch):
    monkeypatch.setattr(rounding, "_HOTTEST", 5.0)
    monkeypatch.setattr(rounding, "_COLDEST", 5.0)
    table = np.random.default_rng(3).poisson(smooth_weights() * 3_000)
    counts = controlled_counts(table.astype(float), int(table.sum()), StreamRandomness(b"hot"))
    assert np.array_equal(counts, table)


def test_cells_that_expect_nothing_stay_empty():
    weights = smooth_weights()
    weights[3] = 0.0
    assert controlled_counts(weights, 5000, StreamRandomness(b"empty"))[3].sum() == 0


@pytest.mark.parametrize("rows", [500, 5000, 50_000])
def test_marginals_are_closer_than_those_of_independent_draws_and_of_a_systematic_sample(rows):
    weights = smooth_weights()
    drawn = np.random.default_rng(0).multinomial(rows, weights.reshape(-1)).reshape(SHAPE)
    counts = controlled_counts(weights, rows, StreamRandomness(b"close"))
    error = marginal_error(counts, weights)
    assert error < 0.5 * marginal_error(systematic_counts(weights, rows, 0.5), weights)
    assert error < 0.35 * marginal_error(drawn, weights)


def test_only_the_sets_asked_for_are_kept_close():
    weights, sets = smooth_weights(), [(0, 1), (3, 4)]
    counts = controlled_counts(weights, 5000, StreamRandomness(b"sets"), sets=sets)
    every = controlled_counts(weights, 5000, StreamRandomness(b"sets"))
    assert marginal_error(counts, weights, sets) < marginal_error(every, weights, sets)


def test_the_same_words_give_the_same_rows_and_others_give_others():
    weights = smooth_weights()
    first, again, other = (controlled_counts(weights, 3000, StreamRandomness(seed)) for seed in (b"a", b"a", b"b"))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_without_compiled_loops_the_systematic_sample_is_returned(monkeypatch):
    monkeypatch.setattr(rounding, "compiled_kernels", lambda: None)
    rng = StreamRandomness(b"plain")
    counts = controlled_counts(smooth_weights(), 3000, rng)
    start = int(StreamRandomness(b"plain").words(1)[0]) / 2.0**64
    assert np.array_equal(counts, systematic_counts(smooth_weights(), 3000, start))


def test_work_is_bounded_by_making_fewer_sweeps(monkeypatch):
    monkeypatch.setattr(rounding, "_MAX_WORK", 1.0)
    weights = smooth_weights()
    counts = controlled_counts(weights, 5000, StreamRandomness(b"work"))
    assert marginal_error(counts, weights) < marginal_error(systematic_counts(weights, 5000, 0.5), weights)


def test_work_is_bounded_where_every_row_is_alone_and_all_its_values_are_looked_at(monkeypatch):
    weights, kernels, swept = np.random.default_rng(0).random((40, 40, 40)), rounding.compiled_kernels(), []

    def anneal_rows(rows, *given):
        swept.append(len(rows))
        return kernels.anneal_rows(rows, *given)

    monkeypatch.setattr(rounding, "compiled_kernels", lambda: SimpleNamespace(anneal_rows=anneal_rows))
    monkeypatch.setattr(rounding, "_MAX_WORK", 2e6)
    monkeypatch.setattr(rounding, "_CACHED", 1000)
    counts = controlled_counts(weights, 20_000, StreamRandomness(b"alone"))
    look_ups_of_a_row = 3 * 40 * 2
    assert 0.5e6 < sum(swept) * look_ups_of_a_row < 2.5e6
    assert counts.sum() == 20_000
    sampled = systematic_counts(weights, 20_000, 0.5)
    assert marginal_error(counts, weights, [(0, 1, 2)]) < marginal_error(sampled, weights, [(0, 1, 2)])


@pytest.mark.parametrize("kernels", ["releases.engine.estimation.kernels", "releases.engine.smalldb.kernels"])
def test_a_long_loop_lets_the_thread_work_that_keeps_the_lease(kernels):
    loops = [each for each in vars(import_module(kernels)).values() if hasattr(each, "targetoptions")]
    called = [each for each in loops if "inline" not in each.targetoptions]
    assert called
    assert all(each.targetoptions.get("nogil") for each in called)


@pytest.mark.parametrize("weights", [np.zeros((2, 2)), np.array([[1.0, -1e-9]]), np.array([[1.0, np.nan]])])
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(InvalidInput, match="weights"):
        controlled_counts(weights, 10, StreamRandomness(b"none"))


def test_a_negative_number_of_rows_is_refused():
    with pytest.raises(InvalidInput, match="rows"):
        controlled_counts(np.ones((2, 2)), -1, StreamRandomness(b"none"))
