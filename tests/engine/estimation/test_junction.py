"""Junction trees: sums clique by clique agree with sums over the whole universe, fits too, and rows follow them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product
from math import prod

import numpy as np
import pytest

from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.schema import Schema
from releases.engine.estimation import components
from releases.engine.estimation import fit as fit_module
from releases.engine.estimation.fit import NoisyMarginal, fit_cliques, fit_marginals
from releases.engine.estimation.junction import CliqueTree, junction_tree
from releases.engine.estimation.result import TreeComponent
from releases.engine.estimation.rounding import split_counts
from releases.engine.estimation.synthetic import synthetic_records
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.marginal_fit import mechanism as fit_mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram, Rows
from releases.engine.workload.queries import Workload

APPROX = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
#: Shapes with sets that make a chain, a ring, a star with a triple, and one clique.
GRAPHS = [
    ((3, 2, 4, 3), ((0, 1), (1, 2), (2, 3))),
    ((2, 3, 2, 3, 2), ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4))),
    ((3, 4, 2, 5, 3, 2), ((0, 1, 2), (2, 3), (3, 4), (2, 5), (4, 5))),
    ((2, 3, 2), ((0, 1, 2),)),
]


def inside(sets):
    found = {part for axes in sets for size in range(1, len(axes) + 1) for part in combinations(axes, size)}
    return tuple(sorted(found, key=lambda axes: (len(axes), axes)))


def whole(shape, sets, vector):
    """The sum of the tables of a vector at every cell of the universe, cell by cell."""
    table, start = np.zeros(shape), 0
    for axes in sets:
        lengths = [shape[axis] for axis in axes]
        piece = vector[start : start + prod(lengths)].reshape(lengths)
        start += prod(lengths)
        for cell in product(*map(range, shape)):
            table[cell] += piece[tuple(cell[axis] for axis in axes)]
    return table


def summed(table, axes):
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in axes))


def answers_of(table, sets):
    return np.concatenate([summed(table, axes).ravel() for axes in sets])


def chain(columns, bins):
    declared = [{"name": f"c{i}", "type": "integer", "edges": list(range(bins + 1))} for i in range(columns)]
    return Schema.from_json({"version": 1, "columns": declared})


def pairs_along(schema):
    names = schema.universe.names
    queries = [{"marginal": [one, other]} for one, other in pairwise(names)]
    return Workload.from_json({"version": 1, "queries": queries}, schema.universe)


def table_along(schema, rows):
    """Rows in which a column is often the same as the one before."""
    rng = np.random.default_rng(3)
    columns, before = {}, np.zeros(rows, dtype=np.int64)
    for each in schema.universe.attributes:
        before = np.where(rng.random(rows) < 0.6, before, rng.integers(0, each.size, rows))
        columns[each.name] = before
    return Rows(universe=schema.universe, columns=columns)


def planned(schema, workload):
    return mechanism("marginal-fit").plan(schema, workload, budget=APPROX, beta=Fraction(1, 20))


@pytest.mark.parametrize(("shape", "sets"), GRAPHS)
def test_every_set_lies_in_a_clique_and_the_cliques_that_hold_a_column_are_connected(shape, sets):
    cliques = junction_tree(shape, sets, 10**6)
    assert all(any(set(axes) <= set(each.axes) for each in cliques) for axes in sets)
    for axis in range(len(shape)):
        holders = [place for place, each in enumerate(cliques) if axis in each.axes]
        assert all(axis in cliques[cliques[place].parent].axes for place in holders[1:])


@pytest.mark.parametrize(("shape", "sets"), GRAPHS)
def test_marginals_and_their_derivative_are_those_of_the_whole_universe(shape, sets):
    effects = inside(sets)
    tree = CliqueTree(shape, junction_tree(shape, sets, 10**6), effects)
    rng = np.random.default_rng(1)
    potentials, along = rng.normal(size=(2, tree.cells)) * 2
    weights = np.exp(whole(shape, effects, potentials))
    weights /= weights.sum()
    gibbs = tree.gibbs(potentials)
    expected = answers_of(weights, effects)
    np.testing.assert_allclose(gibbs.marginals, expected, atol=1e-13)
    bent = whole(shape, effects, along)
    change = answers_of(weights * bent, effects) - expected * float((weights * bent).sum())
    np.testing.assert_allclose(gibbs.covariance(along), change, atol=1e-12)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("strength", [650.0, 713.0, 1e5])
def test_a_value_that_one_clique_all_but_rules_out_and_another_makes_certain_is_as_likely_as_both_say(strength):
    shape, sets = (2, 2, 2), ((0, 1), (1, 2))
    ruled_out = np.array([[0.0, 0.0], [-strength, -strength + 1]])
    certain = np.array([[0.0, strength], [0.0, strength + 1]])
    tree = CliqueTree(shape, junction_tree(shape, sets, 100), sets)
    for wanted in (certain, certain.T):
        first = wanted if wanted is certain else ruled_out.T
        second = ruled_out if wanted is certain else wanted
        potentials = np.concatenate([first.ravel(), second.ravel()])
        table = whole(shape, sets, potentials)
        expected = np.exp(table - table.max())
        expected /= expected.sum()
        assert tree.gibbs(potentials).marginals == pytest.approx(answers_of(expected, sets), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("shape", "sets"), GRAPHS)
def test_the_fit_on_cliques_is_the_fit_to_the_whole_universe(shape, sets, monkeypatch):
    # Both go on until little is left to gain. With the usual end they differ by 0.13 rows in one of the shapes.
    monkeypatch.setattr(fit_module, "_TOLERANCE", 1e-9)
    monkeypatch.setattr(fit_module, "_LAST", (1.0, 60, 200))
    rng = np.random.default_rng(2)
    truth = rng.multinomial(3000, rng.dirichlet(np.full(prod(shape), 0.3))).reshape(shape)
    measured = [
        NoisyMarginal(
            axes=axes,
            table=summed(truth, axes) + rng.normal(0, 4, [shape[a] for a in axes]),
            variance=16.0,
            population=None,
        )
        for axes in sets
    ]
    cliques = junction_tree(shape, sets, 10**6)
    dense = fit_marginals(shape, measured, total=3000).weights
    for clique, table in zip(cliques, fit_cliques(shape, cliques, measured, total=3000), strict=True):
        # The noise's deviation is 4.
        np.testing.assert_allclose(table, summed(dense, clique.axes), atol=0.03)


def test_cliques_that_are_too_large_are_none():
    assert junction_tree((10, 10, 10), ((0, 1), (1, 2), (0, 2)), 999) == ()
    assert junction_tree((10, 10, 10), ((0, 1), (1, 2)), 199) == ()
    assert len(junction_tree((10, 10, 10), ((0, 1), (1, 2)), 200)) == 2


def test_any_marginal_of_a_tree_is_that_of_the_whole_distribution():
    shape, sets = GRAPHS[2]
    cliques = junction_tree(shape, sets, 10**6)
    effects = inside(sets)
    potentials = np.random.default_rng(4).normal(size=CliqueTree(shape, cliques, effects).cells)
    weights = np.exp(whole(shape, effects, potentials))
    names = ("a", "b", "c", "d", "e", "f")
    held = TreeComponent(names=names, cliques=cliques, tables=CliqueTree(shape, cliques, effects).densities(potentials))
    for size in (1, 2, 3):
        for axes in combinations(range(6), size):
            expected = summed(weights / weights.sum(), axes)
            found = held.marginal([names[axis] for axis in axes])
            np.testing.assert_allclose(found, expected, atol=1e-12)
    turned = held.marginal(("f", "a"))
    np.testing.assert_allclose(turned, summed(weights / weights.sum(), (0, 5)).T, atol=1e-12)


def test_split_counts_add_up_and_stay_by_their_means():
    rng = np.random.default_rng(5)
    weights, held = rng.random((6, 40)), np.array([0, 1, 7, 400, 3, 0])
    totals = np.zeros((6, 40))
    for seed in range(400):
        counts = split_counts(weights, held, StreamRandomness(bytes([seed % 256, seed // 256])))
        np.testing.assert_array_equal(counts.sum(axis=1), held)
        totals += counts
    means = held[:, None] * weights / weights.sum(axis=1, keepdims=True)
    # A count is within 1 of its mean, so its deviation over 400 draws is at most 1/40: six of these.
    assert np.abs(totals / 400 - means).max() < 0.15
    # Larger tables are moved towards their own tables.
    counts = split_counts(rng.random((2, 3, 4, 5)), held, StreamRandomness(b"moved"))
    assert counts.min() >= 0
    np.testing.assert_array_equal(counts.sum(axis=(2, 3)).ravel(), held)


def test_tables_are_counted_alike_from_the_rows_and_from_the_joint_table(monkeypatch):
    schema = chain(5, 6)
    table = table_along(schema, 500)
    counts = Histogram(universe=schema.universe, counts=table.histogram())
    found = []
    for limit in (10**8, 100):
        monkeypatch.setattr(components, "MAX_DENSE_CELLS", limit)
        (part,) = planned(schema, pairs_along(schema)).parts
        found.append(fit_mechanism._counted(part, counts, [*part.sets, (0,), (1, 2)]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_chain_of_fourteen_columns_is_fitted_on_its_pairs_and_its_rows_follow():
    schema = chain(14, 10)
    workload = pairs_along(schema)
    plan = planned(schema, workload)
    assert plan.parameters["cells fitted"] == "1,300"
    (part,) = plan.parts
    assert all(any(set(table.axes) <= set(each.axes) for each in part.cliques) for table in plan.tables)
    table = table_along(schema, 20_000)
    result = plan.run(table, rng=StreamRandomness(b"chain"))
    made = synthetic_records(schema.universe, result.distribution, rows=20_000, rng=StreamRandomness(b"rows"))
    rows = Rows(universe=schema.universe, columns=made.columns)
    for each, estimate in zip(workload.families, result.estimates, strict=True):
        true, fitted = table.marginal(each.attributes), result.distribution.marginal(each.attributes)
        assert np.abs(fitted - true / 20_000).sum() / 2 < 0.06
        assert np.abs(rows.marginal(each.attributes) / 20_000 - fitted).sum() / 2 < 0.004
        assert np.abs(true.ravel() - estimate).max() <= result.bound.alpha
