"""Mixtures of products: their marginals, the fit to noisy tables, and rows made of them."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.errors import InvalidInput
from releases.engine.estimation import mixture_fit as fit_module
from releases.engine.estimation.fit import NoisyMarginal
from releases.engine.estimation.levels import Levels
from releases.engine.estimation.mixture import Mixture
from releases.engine.estimation.mixture_fit import fit_mixture, normals
from releases.engine.estimation.mixture_rows import mixture_rows, rows_bytes
from releases.engine.estimation.triples import promising, triples_to_measure
from releases.engine.noise.randomness import StreamRandomness

SHAPE = (3, 2, 4, 3)


def mixture_of(shape=SHAPE, components=5, seed=1):
    rng = np.random.default_rng(seed)
    stacked = np.concatenate([rng.dirichlet(np.full(bins, 0.6), size=components).T for bins in shape])
    shares = rng.dirichlet(np.ones(components))
    return Mixture(shape=tuple(shape), shares=shares.astype(np.float32), stacked=stacked.astype(np.float32))


def joint(mixture):
    """The probability of every cell, cell by cell."""
    ends = np.cumsum(mixture.shape)
    blocks = np.split(mixture.stacked.astype(float), ends[:-1])
    table = np.zeros(mixture.shape)
    for cell in np.ndindex(*mixture.shape):
        product = mixture.shares.astype(float)
        for block, value in zip(blocks, cell, strict=True):
            product = product * block[value]
        table[cell] = product.sum()
    return table


def table_of(joint_table, axes):
    others = tuple(axis for axis in range(joint_table.ndim) if axis not in axes)
    kept = sorted(axes)
    return joint_table.sum(axis=others).transpose([kept.index(axis) for axis in axes])


def noisy(joint_table, sets, *, rows, deviation, seed=5):
    rng = np.random.default_rng(seed)
    return [
        NoisyMarginal(
            axes=axes,
            table=rows * table_of(joint_table, axes) + rng.normal(0, deviation, table_of(joint_table, axes).shape),
            variance=deviation**2,
            population=None,
        )
        for axes in sets
    ]


def ways(order, attributes=4):
    return list(combinations(range(attributes), order))


def distance(one, other):
    return float(np.abs(one - other).sum() / 2)


@pytest.mark.parametrize("axes", [(), (2,), (0, 1), (3, 0), (2, 0, 1), (3, 1, 2, 0)])
def test_a_marginal_is_the_sum_over_the_joint_table_in_the_order_asked(axes):
    mixture = mixture_of()
    np.testing.assert_allclose(mixture.marginal(axes), table_of(joint(mixture), axes), atol=1e-6)


def exactly(shares, stacked):
    """A mixture in double precision, which need not be one of probabilities."""
    exact = Mixture.__new__(Mixture)
    for name, value in (("shape", SHAPE), ("shares", shares), ("stacked", stacked)):
        object.__setattr__(exact, name, value)
    return exact


#: Three bins as two levels, four as two, and each of the others by itself.
LEVELS = Levels(bins=SHAPE, starts=tuple(map(np.array, ([0, 2], [0, 1], [0, 1], [0, 1, 2]))))


def merged(table, axes):
    """A marginal as one of these levels, cell by cell."""
    level = {0: (0, 0, 1), 1: (0, 1), 2: (0, 1, 1, 1), 3: (0, 1, 2)}
    made = np.zeros([max(level[axis]) + 1 for axis in axes])
    for cell in np.ndindex(*table.shape):
        made[tuple(level[axis][value] for axis, value in zip(axes, cell, strict=True))] += table[cell]
    return made


def objective(shares, stacked, tables, triples, rows, penalty):
    """Straight from the definition, in double precision; triples are of levels."""
    whole = joint(exactly(shares, stacked))
    found = [(each, table_of(whole, each.axes)) for each in tables]
    found += [(each, merged(table_of(whole, each.axes), each.axes)) for each in triples]
    loss = sum(((rows * table - each.table) ** 2).sum() / (2 * each.variance) for each, table in found)
    information = 0.0
    for block in np.split(stacked, np.cumsum(SHAPE)[:-1]):
        own = block @ shares
        information += (shares * (block * np.log(block / own[:, None])).sum(axis=0)).sum()
    return loss + 2 * penalty * information


@pytest.mark.parametrize("penalty", [0.0, 7.0])
def test_the_gradient_is_that_of_the_objective_as_it_is_stated(penalty):
    """Along random directions that keep every column's sum, by differences."""
    truth, rows = joint(mixture_of(seed=2)), 1000.0
    tables = noisy(truth, [*ways(1), *ways(2)], rows=rows, deviation=30.0)
    tables.append(tables[5])  # measured twice
    triples = [
        NoisyMarginal(
            axes=axes, table=rows * merged(table_of(truth, axes), axes) + 5.0, variance=900.0, population=None
        )
        for axes in [(0, 2, 3), (0, 1, 2)]
    ]
    target = fit_module._Target.of(SHAPE, [*tables, *triples], rows, LEVELS)
    descent = fit_module._Descent.from_mixture(mixture_of(seed=3))
    by_stacked, by_shares = descent._gradient(target, penalty)
    shares, stacked = descent.shares.astype(float), descent.stacked.astype(float)
    rng, step = np.random.default_rng(4), 1e-5
    for _ in range(5):
        turn = rng.normal(size=stacked.shape) * stacked
        turn = np.concatenate([block - block.mean(axis=0) for block in np.split(turn, np.cumsum(SHAPE)[:-1])])
        slide = rng.normal(size=shares.shape)
        slide -= slide.mean()
        high, low = (
            objective(shares + sign * step * slide, stacked + sign * step * turn, tables, triples, rows, penalty)
            for sign in (1, -1)
        )
        found = float((by_stacked * turn).sum() + (by_shares * slide).sum())
        assert found == pytest.approx((high - low) / (2 * step), rel=2e-3, abs=0.5)


def test_a_bin_with_enough_rows_is_a_level_and_lighter_neighbours_are_merged():
    counts = [np.array([1.0, 50, 2, 3, 4, 2, 60, -3, 1]), np.array([5.0, 5, 5]), np.array([100.0])]
    levels = Levels.merged(counts, least=9.0, most=10)
    assert [each.tolist() for each in levels.starts] == [[0, 1, 2, 5, 6, 7], [0, 2], [0]]
    assert levels.shape == (6, 2, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-5, 60), min_size=1, max_size=40), st.floats(0, 50), st.integers(1, 12))
def test_every_bin_is_in_one_level_and_no_more_levels_are_left_than_may_be(counts, least, most):
    levels = Levels.merged([np.array(counts)], least=least, most=most)
    (starts,) = levels.starts
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert starts[-1] < len(counts)
    assert len(starts) <= most
    table = np.arange(len(counts) * 2.0).reshape(-1, 2)
    assert levels.sums(table).sum() == table.sum()
    assert levels.table(table[:, 0], (0,)).tolist() == levels.sums(table)[:, 0].tolist()


def test_where_triples_are_too_many_those_of_dependent_pairs_are_looked_at():
    """The first three attributes depend on one another, the fourth on the third alone, the others on nothing."""
    rng = np.random.default_rng(3)
    stacked = np.full((12, 2), 0.5, np.float32)
    stacked[:6] = np.array([[0.9, 0.1], [0.1, 0.9]] * 3)
    stacked[6:8] = np.array([[0.7, 0.4], [0.3, 0.6]])
    mixture = Mixture(shape=(2,) * 6, shares=np.full(2, 0.5, np.float32), stacked=stacked)
    triples = [tuple(each) for each in rng.permutation(ways(3, 6)).tolist()]
    found = promising(mixture, triples, most=4, most_cells=10**6)
    assert set(found) == {(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)}
    assert promising(mixture, triples, most=20, most_cells=10**6) == triples
    assert promising(mixture, triples, most=20, most_cells=8) == [(0, 1, 2)]


def test_a_fit_to_tables_with_next_to_no_noise_gives_these_tables():
    truth = joint(mixture_of(seed=6))
    tables = noisy(truth, [*ways(1), *ways(2), *ways(3)], rows=10_000.0, deviation=0.5)
    rng = StreamRandomness(b"fit")
    made = fit_mixture(SHAPE, tables, rows=1e4, components=20, strength=0.0, steps=600, rate=0.1, rng=rng)
    for axes in ways(3):
        assert distance(made.marginal(axes), table_of(truth, axes)) < 0.01


def test_noise_about_a_product_is_fitted_without_the_penalty_and_not_with_it():
    alone = [np.full(bins, 1 / bins) for bins in (6, 6, 6, 6)]
    truth = np.einsum("a,b,c,d->abcd", *alone)
    tables = noisy(truth, [*ways(1), *ways(2)], rows=1000.0, deviation=12.0)

    def error(strength):
        how = {"rows": 1000.0, "components": 30, "steps": 300, "rate": 0.1, "rng": StreamRandomness(b"noise")}
        made = fit_mixture(truth.shape, tables, strength=strength, **how)
        return np.mean([distance(made.marginal(axes), table_of(truth, axes)) for axes in ways(2)])

    free, held = error(0.0), error(1.2)
    one_way = np.mean([distance(np.maximum(each.table, 0) / 1000, table_of(truth, each.axes)) for each in tables[:4]])
    assert held < 2.5 * one_way
    assert free > 2 * held


def test_what_is_no_mixture_and_tables_that_none_is_fitted_to_are_refused():
    good = mixture_of()
    with pytest.raises(InvalidInput, match="one row a bin"):
        Mixture(shape=(3, 2), shares=good.shares, stacked=good.stacked)
    with pytest.raises(InvalidInput, match="finite"):
        Mixture(shape=SHAPE, shares=-good.shares, stacked=good.stacked)
    truth = joint(good)
    given = {"rows": 10.0, "components": 2, "strength": 0.0, "steps": 1, "rate": 0.1, "rng": StreamRandomness(b"x")}
    with pytest.raises(InvalidInput, match="one, two or three"):
        fit_mixture(SHAPE, noisy(truth, [*ways(1), *ways(4)], rows=10.0, deviation=1.0), **given)
    with pytest.raises(InvalidInput, match="marginal of each"):
        fit_mixture(SHAPE, noisy(truth, ways(2), rows=10.0, deviation=1.0), **given)


def test_the_normal_numbers_of_starts_have_the_moments_of_the_normal_law():
    drawn = normals(200_001, StreamRandomness(b"normal")).astype(float)
    assert drawn.shape == (200_001,)
    assert abs(drawn.mean()) < 5 / 200_001**0.5
    assert drawn.var() == pytest.approx(1, abs=0.02)
    assert (drawn**4).mean() == pytest.approx(3, abs=0.1)
    assert abs((drawn[:-1] * drawn[1:]).mean()) < 0.02


def chosen(distances, deviation, *, worth=None, cells=20, rows=1000.0, most_cells=10**6):
    found = triples_to_measure(
        np.array(distances),
        np.full(len(distances), cells),
        worth=np.ones(len(distances)) if worth is None else np.array(worth),
        expected=lambda at: np.full(cells, rows / cells),
        deviations=lambda weights: np.full(len(weights), deviation * len(weights) ** 0.5),
        rows=rows,
        most_cells=most_cells,
    )
    return sorted(at for at, _ in found)


def test_the_triples_that_are_missed_most_are_measured_where_it_is_worth_it_and_as_many_cells_as_may_be():
    assert chosen([0.01, 0.4, 0.02, 0.3], 10.0) == [1, 3]
    # Noise would be no better than the fit.
    assert chosen([0.01, 0.02, 0.0], 200.0) == []
    assert chosen([0.3, 0.4, 0.4], 1.0, worth=[1, 0, 1]) == [0, 2]
    assert chosen([0.4, 0.5], 1.0, worth=[1, 1 / 3], most_cells=25) == [0]
    assert chosen([0.4, 0.5, 0.6], 1.0) == [0, 1, 2]
    assert chosen([0.4, 0.5, 0.6], 1.0, most_cells=45) == [1, 2]


@pytest.mark.parametrize("shape", [(3,), (2, 5), SHAPE, (1, 3, 1)])
@pytest.mark.parametrize("rows", [1, 500])
def test_rows_are_as_many_as_asked_and_lie_in_the_bins(shape, rows):
    made = mixture_rows(mixture_of(shape), rows, StreamRandomness(b"rows"))
    assert made.shape == (rows, len(shape))
    assert (made >= 0).all()
    assert (made < np.array(shape)).all()


def counted(rows, axes, shape):
    table = np.zeros([shape[axis] for axis in axes])
    np.add.at(table, tuple(rows[:, axis] for axis in axes), 1)
    return table / len(rows)


@pytest.mark.parametrize("order", [2, 3])
def test_rows_keep_marginals_far_closer_than_independent_draws_do(order, monkeypatch):
    if order == 2:
        monkeypatch.setattr("releases.engine.estimation.mixture_rows._MAX_WORK", 200_000)
    shape, rows = (5, 4, 6, 3, 5), 2000
    mixture = mixture_of(shape, components=12)
    truth = joint(mixture)
    made = mixture_rows(mixture, rows, StreamRandomness(b"close"))
    drawn = np.random.default_rng(3).choice(truth.size, size=rows, p=truth.ravel() / truth.sum())
    independent = np.stack(np.unravel_index(drawn, shape), axis=1)
    near, far = (
        np.mean([distance(counted(each, axes, shape), table_of(truth, axes)) for axes in ways(order, 5)])
        for each in (made, independent)
    )
    assert near < far / 3


@given(st.lists(st.integers(1, 9), min_size=3, max_size=8))
def test_the_memory_of_rows_counts_every_table_that_they_are_kept_close_to(shape):
    tables = sum(map(prod, combinations(shape, 3)))
    assert rows_bytes(shape, 10) == 10 * (4 * len(shape) + 16) + 4 * tables
    # Of two attributes there is one table.
    assert rows_bytes(shape[:2], 10) == 10 * 24 + 4 * prod(shape[:2])
