"""Marginals of dense arrays and their adjoint: the tree against plain sums, compiled against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.errors import InvalidInput
from releases.engine.estimation import warmup
from releases.engine.estimation.marginals import (
    MarginalTree,
    TableRotation,
    compiled_kernels,
)
from releases.engine.tables.files import md5


@st.composite
def universes(draw, *, most_axes=6, least_axes=1):
    """A shape, and some sets of its axes in any order, among them perhaps () and all of them."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=least_axes, max_size=most_axes)))
    every = [axes for size in range(len(shape) + 1) for axes in itertools.combinations(range(len(shape)), size)]
    chosen = draw(st.lists(st.sampled_from(every), max_size=10, unique=True))
    return shape, [tuple(draw(st.permutations(axes))) for axes in chosen]


def over_trees(examples, **more):
    """A test of a tree, compiled and not, and of a source of random numbers."""

    def decorated(test):
        @pytest.mark.parametrize("compiled", [True, False], ids=["numba", "numpy"])
        @settings(max_examples=examples)
        @given(universe=universes(), seed=st.integers(0, 2**32), **more)
        def run(compiled, universe, seed, **drawn):
            test(MarginalTree(*universe, compiled=compiled), np.random.default_rng(seed), **drawn)

        run.__name__ = test.__name__
        return run

    return decorated


def plain(array, axes):
    """The marginal over `axes`, by one numpy sum."""
    kept = sorted(axes)
    summed = array.sum(axis=tuple(a for a in range(array.ndim) if a not in axes))
    return summed.transpose([kept.index(a) for a in axes])


def spread(table, axes, shape):
    """table[x_S] for every x."""
    ascending = table.transpose(np.argsort([sorted(axes).index(a) for a in axes]))
    return np.broadcast_to(ascending.reshape([shape[a] if a in axes else 1 for a in range(len(shape))]), shape)


def tables_for(shape, sets, rng, scale=1.0):
    return [scale * rng.normal(size=[shape[a] for a in axes]) for axes in sets]


@over_trees(60)
def test_answers_equal_plain_sums_and_those_of_whole_numbers_exactly(tree, rng):
    shape, sets = tree.shape, tree.sets
    array = rng.normal(size=shape)
    for table, axes in zip(tree.answer(array), sets, strict=True):
        np.testing.assert_allclose(table, plain(array, axes), rtol=1e-12, atol=1e-12)
    whole = rng.integers(-(2**50), 2**50, size=shape)
    for table, axes in zip(tree.answer(whole), sets, strict=True):
        assert table.dtype == np.int64
        assert np.array_equal(table, plain(whole, axes))


@over_trees(60)
def test_the_adjoint_is_the_sum_of_spread_tables(tree, rng):
    shape, sets = tree.shape, tree.sets
    tables = tables_for(shape, sets, rng)
    expected = sum((spread(t, axes, shape) for t, axes in zip(tables, sets, strict=True)), np.zeros(shape))
    np.testing.assert_allclose(tree.adjoint(tables), expected, rtol=1e-12, atol=1e-12)
    start = rng.normal(size=shape)
    np.testing.assert_allclose(tree.add_adjoint(tables, start.copy()), start + expected, rtol=1e-12, atol=1e-12)


@over_trees(60, scale=st.sampled_from([0.1, 3.0, 400.0]))
def test_scaling_multiplies_by_the_exponential_of_the_adjoint(tree, rng, scale):
    """At scale 400 the factors of the parts would vanish one by one, and the product is taken in logarithms."""
    shape, sets = tree.shape, tree.sets
    weights, tables = rng.random(shape) + 0.1, tables_for(shape, sets, rng, scale)
    exponents = tree.adjoint(tables)
    expected = weights * np.exp(exponents - exponents.max())
    scaled = tree.scale_by_exp(weights, tables)
    np.testing.assert_allclose(weights * np.exp(scaled.log_shift - exponents.max()), expected, rtol=1e-9, atol=1e-100)
    assert scaled.total == pytest.approx(float(weights.sum()))
    assert np.isfinite(weights).all()
    for table, axes in zip(tree.tables(scaled.answers), sets, strict=True):
        np.testing.assert_allclose(table, plain(weights, axes), rtol=1e-9, atol=1e-12)


@over_trees(40, data=st.data())
def test_scaling_by_some_tables_leaves_the_others_out(tree, rng, data):
    shape, sets = tree.shape, tree.sets
    tables = tables_for(shape, sets, rng)
    some = data.draw(st.sets(st.sampled_from(range(len(sets))))) if sets else set()
    weights = rng.random(shape)
    expected = weights * np.exp(sum((spread(tables[i], sets[i], shape) for i in some), np.zeros(shape)))
    scaled = tree.scale_by_exp(weights, {i: tables[i] for i in some})
    np.testing.assert_allclose(weights * np.exp(scaled.log_shift), expected, rtol=1e-10)
    np.testing.assert_allclose(scaled.answers, tree.answer_vector(weights), rtol=1e-10)


@over_trees(60, scale=st.sampled_from([0.3, 300.0]))
def test_a_gibbs_distribution_has_the_marginals_of_its_density(tree, rng, scale):
    tables = tables_for(tree.shape, tree.sets, rng, scale)
    exponents = tree.adjoint(tables)
    top = float(exponents.max())
    density = np.exp(exponents - top)
    gibbs = tree.gibbs(tables)
    density /= density.sum()
    np.testing.assert_allclose(tree.density(tables), density, rtol=1e-9, atol=1e-100)
    np.testing.assert_allclose(gibbs.marginals, tree.answer_vector(density), rtol=1e-9, atol=1e-15)


@over_trees(40)
def test_covariance_is_the_derivative_of_the_marginals(tree, rng):
    at, along, other = rng.normal(size=(3, tree.cells))
    gibbs = tree.gibbs(at)
    step = 1e-5
    slope = (tree.gibbs(at + step * along).marginals - tree.gibbs(at - step * along).marginals) / (2 * step)
    np.testing.assert_allclose(gibbs.covariance(along), slope, atol=1e-8)
    assert float(other @ gibbs.covariance(along)) == pytest.approx(float(along @ gibbs.covariance(other)), abs=1e-10)


@settings(max_examples=40)
@given(universes(), st.integers(0, 2**32), st.integers(1, 2))
def test_rotation_multiplies_every_table_along_every_axis(universe, seed, least):
    shape, sets = universe
    rng = np.random.default_rng(seed)
    factors = [(m + m.T) for m in (rng.normal(size=(n, n)) for n in shape)]
    results = []
    for compiled in (True, False):
        tree = MarginalTree(shape, sets, compiled=compiled)
        vector = np.random.default_rng(seed).normal(size=tree.cells)
        rotated = TableRotation(tree, factors, least=least)(vector)
        for before, after, axes in zip(tree.tables(vector), tree.tables(rotated), sets, strict=True):
            expected = before
            for k, axis in enumerate(axes if len(axes) >= least else ()):
                expected = np.moveaxis(np.tensordot(factors[axis], expected, axes=(1, k)), 0, k)
            np.testing.assert_allclose(after, expected, rtol=1e-9, atol=1e-9)
        results.append(rotated)
    np.testing.assert_allclose(*results, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "sets", "text"),
    [
        ((2, 0), [(0,)], "lengths of at least 1"),
        ((2, 3), [(0, 2)], "distinct axes from 0 to 1"),
        ((2, 3), [(0, 0)], "distinct axes"),
        ((2, 3), [(0, 1), (1, 0)], "must not name the same axes twice"),
    ],
)
def test_a_tree_that_makes_no_sense_is_refused(shape, sets, text):
    with pytest.raises(InvalidInput, match=text):
        MarginalTree(shape, sets)


def test_arrays_and_tables_of_another_shape_are_refused():
    tree = MarginalTree((2, 3), [(0,), (1,)])
    for wrong in (np.ones((3, 2)), np.ones((3, 2)).T):
        with pytest.raises(InvalidInput, match="array"):
            tree.answer(wrong)
    with pytest.raises(InvalidInput, match="tables"):
        tree.adjoint([np.ones(3), np.ones(2)])


def test_running_them_once_compiles_every_loop_that_a_release_goes_through():
    kernels = compiled_kernels()
    warmup.compile_loops()
    for loop in warmup.LOOPS:
        assert getattr(kernels, loop).signatures, loop
    assert getattr(md5, warmup.HASHES).signatures
    assert warmup.are_compiled()
