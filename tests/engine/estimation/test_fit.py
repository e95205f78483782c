"""The fit to noisy marginals, and the design of what to measure. Noise comes from fixed streams."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.errors import Cancelled, InvalidInput
from releases.engine.estimation.fit import NoisyMarginal, fit_marginals, measured_rows
from releases.engine.estimation.marginals import MarginalTree
from releases.engine.mechanisms.marginal_fit.design import (
    Share,
    design_error,
    gaussian_design,
    laplace_design,
)

SHAPE = (4, 3, 5, 2)
TRIPLES = list(itertools.combinations(range(4), 3))


def a_table(shape=SHAPE, rows=20_000, seed=3):
    """A histogram with interactions of every order."""
    rng = np.random.default_rng(seed)
    tree = MarginalTree(shape, [axes for k in (1, 2, 3) for axes in itertools.combinations(range(len(shape)), k)])
    scales = np.repeat([(1.0, 0.5, 0.2)[len(axes) - 1] for axes in tree.sets], np.diff(tree.offsets))
    return rng.multinomial(rows, tree.density(scales * rng.normal(size=tree.cells)).reshape(-1)).reshape(shape)


def marginal(table, axes):
    kept = sorted(axes)
    return table.sum(axis=tuple(a for a in range(table.ndim) if a not in axes)).transpose([kept.index(a) for a in axes])


def measured(table, sets, variance, seed=0):
    rng = np.random.default_rng(seed)
    tables = [marginal(table, axes) for axes in sets]
    noisy = [exact + rng.normal(size=exact.shape) * np.sqrt(variance) for exact in tables]
    return [
        NoisyMarginal(axes=axes, table=each, variance=variance, population=None)
        for axes, each in zip(sets, noisy, strict=True)
    ]


def distance(weights, table, sets=TRIPLES):
    """Mean total-variation distance of normalised marginals."""
    mine, true = weights / weights.sum(), table / table.sum()
    return np.mean([np.abs(marginal(mine, axes) - marginal(true, axes)).sum() / 2 for axes in sets])


def test_noiseless_marginals_are_recovered():
    table = a_table()
    fitted = fit_marginals(
        SHAPE, [NoisyMarginal(axes=a, table=marginal(table, a) * 1.0, variance=1e-2, population=None) for a in TRIPLES]
    )
    assert fitted.total == pytest.approx(table.sum())
    assert distance(fitted.weights, table) < 1e-4


@pytest.mark.parametrize("variance", [4.0, 2500.0])
def test_the_loss_ends_where_noise_explains_it(variance):
    """Twice the loss has `degrees` less the decided effects as its expectation, and its own spread around that."""
    fitted = fit_marginals(SHAPE, measured(a_table(rows=200_000), TRIPLES, variance))
    assert 2 * fitted.loss < fitted.degrees + 4 * np.sqrt(2 * fitted.degrees)


@pytest.mark.parametrize(("variance", "share"), [(100.0, 0.9), (40_000.0, 0.75)])
def test_the_fit_is_nearer_than_what_was_measured_the_more_so_the_more_noise(variance, share):
    table = a_table()
    noisy = measured(table, TRIPLES, variance, seed=7)
    raw = np.mean([np.abs(np.maximum(one.table, 0) - marginal(table, one.axes)).sum() for one in noisy]) / 2
    assert distance(fit_marginals(SHAPE, noisy).weights, table) < share * raw / table.sum()


def test_axes_in_any_order_say_the_same():
    table = a_table()
    plain = measured(table, TRIPLES, 400.0)
    turned = [replace(one, axes=one.axes[::-1], table=one.table.transpose(2, 1, 0)) for one in plain]
    np.testing.assert_allclose(fit_marginals(SHAPE, turned).weights, fit_marginals(SHAPE, plain).weights, rtol=1e-6)


def test_a_table_measured_twice_counts_as_its_mean_with_half_the_variance():
    table = a_table()
    first, second = measured(table, [(0, 1, 2)], 100.0, seed=1), measured(table, [(0, 1, 2)], 100.0, seed=2)
    mean = NoisyMarginal(axes=(0, 1, 2), table=(first[0].table + second[0].table) / 2, variance=50.0, population=None)
    rest = measured(table, [(1, 2, 3), (0, 3)], 100.0)
    both = fit_marginals(SHAPE, [*first, *second, *rest])
    once = fit_marginals(SHAPE, [mean, *rest])
    assert both.total == pytest.approx(once.total)
    # One of the two tables alone, or their mean with the whole variance, leads elsewhere.
    for other in (
        [*first, *rest],
        [NoisyMarginal(axes=mean.axes, table=mean.table, variance=100.0, population=None), *rest],
    ):
        assert np.abs(fit_marginals(SHAPE, other).weights - once.weights).sum() > 2e-3 * once.total
    assert np.abs(both.weights - once.weights).sum() < 1e-3 * once.total


def test_a_measured_number_of_rows_is_weighed_against_the_tables_and_a_public_one_is_kept():
    noisy = [NoisyMarginal(axes=(0,), table=np.full(4, 30.0), variance=1.0, population=None)]
    assert measured_rows(noisy, 200, 4.0) == pytest.approx(160)
    assert fit_marginals((4, 3), noisy, total=200).total == 200


def test_a_table_of_nothing_but_negative_noise_still_gives_a_distribution():
    fitted = fit_marginals(
        (4, 3), [NoisyMarginal(axes=(0, 1), table=np.full((4, 3), -50.0), variance=100.0, population=None)]
    )
    assert np.isfinite(fitted.weights).all()
    assert fitted.total == 1.0


def test_progress_grows_and_cancelling_stops_between_steps():
    seen = []
    fit_marginals(SHAPE, measured(a_table(), TRIPLES, 400.0), progress=seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] < 1

    def cancel(share):
        if share > 0.05:
            raise Cancelled("asked to stop")

    with pytest.raises(Cancelled):
        fit_marginals(SHAPE, measured(a_table(), TRIPLES, 400.0), progress=cancel)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2**32), st.sampled_from([0.1, 10.0, 1e4]))
def test_any_small_universe_and_any_noise_give_finite_weights(shape, seed, variance):
    rng = np.random.default_rng(seed)
    table = rng.poisson(20, size=shape)
    every = [axes for k in range(1, len(shape) + 1) for axes in itertools.combinations(range(len(shape)), k)]
    sets = [every[i] for i in rng.choice(len(every), size=rng.integers(1, len(every) + 1), replace=False)]
    fitted = fit_marginals(shape, measured(table, sets, variance, seed=seed))
    assert np.isfinite(fitted.weights).all()
    assert (fitted.weights >= 0).all()
    assert fitted.weights.sum() == pytest.approx(fitted.total)


@pytest.mark.parametrize(
    ("axes", "table", "variance", "rule"),
    [
        *(((0,), np.ones(4), variance, "variance") for variance in (0.0, -1.0, np.inf, np.nan)),
        ((0,), np.array([1.0, np.nan]), 1.0, "finite numbers"),
        ((0, 1), np.ones((3, 4)), 1.0, "shape of axes"),
        ((2,), np.ones(2), 1.0, "distinct axes"),
        ((), np.array(5.0), 1.0, "at least one table"),
    ],
)
def test_a_table_that_is_not_of_this_universe_or_has_no_variance_is_refused(axes, table, variance, rule):
    with pytest.raises(InvalidInput, match=rule):
        fit_marginals((4, 3), [NoisyMarginal(axes=axes, table=table, variance=variance, population=None)])


def test_a_design_covers_what_is_wanted_and_spends_the_whole_budget():
    shape = (16, 7, 15, 5, 2, 2, 10)
    wanted = list(itertools.combinations(range(7), 3))
    for design in (gaussian_design(shape, wanted), laplace_design(shape, wanted, epsilon=0.1)):
        assert sum(one.share for one in design) == pytest.approx(1)
        assert all(any(set(axes) <= set(one.axes) for one in design) for axes in wanted)
        assert all(one.axes == tuple(sorted(one.axes)) for one in design)
    # Few cells are measured as one histogram, and no table is larger than allowed.
    wanted = list(itertools.combinations(range(8), 3))
    assert laplace_design((2,) * 8, wanted, epsilon=0.1) == (Share(axes=tuple(range(8)), share=1.0),)
    assert all(len(one.axes) <= 6 for one in laplace_design((2,) * 8, wanted, epsilon=0.1, most_cells=100))


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_the_error_of_a_design_is_what_generalised_least_squares_leaves(seed):
    """The pieces' closed form against the covariance of the best unbiased estimate, by linear algebra."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, size=3).tolist())
    every = [axes for k in (1, 2, 3) for axes in itertools.combinations(range(3), k)]
    tables = [(axes, float(rng.uniform(0.5, 2))) for axes in every if rng.random() < 0.5 or len(axes) == 3]
    cells = np.arange(np.prod(shape)).reshape(shape)

    def matrix(axes):
        picked = np.eye(cells.size)[cells.reshape(-1)].reshape(*shape, -1)
        return picked.sum(axis=tuple(a for a in range(3) if a not in axes)).reshape(-1, cells.size)

    information = sum(matrix(axes).T @ matrix(axes) / variance for axes, variance in tables)
    covariance = np.linalg.inv(information)

    def left(axes):
        rows = matrix(axes)
        # without the total, which every table shows besides its pieces
        centred = rows - rows.sum(axis=0) / len(rows)
        return np.sqrt(len(rows) * np.trace(centred @ covariance @ centred.T)) * np.sqrt(2 / np.pi) / 2

    wanted, below = (0, 1, 2), [(0, 1), (0, 2), (1, 2)]
    expected = np.sqrt(left(wanted) * np.mean([left(axes) for axes in below]))
    assert design_error(shape, [wanted], tables) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_design_that_leaves_something_out_has_no_error():
    with pytest.raises(InvalidInput, match="cover every wanted marginal"):
        design_error((2, 2, 2), [(0, 1)], [((1, 2), 1.0)])
    for design in (lambda: gaussian_design((2, 2), [(0, 2)]), lambda: laplace_design((2, 2), [], epsilon=1.0)):
        with pytest.raises(InvalidInput, match="attributes of the universe"):
            design()
