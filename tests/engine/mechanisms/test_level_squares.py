"""Noisy tables over a column and its levels: they add up, are the best linear estimate, and are within what is said."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism, plan_from_json
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.level_squares import LevelSquares
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.workload.queries import Workload

TOWNS = [f"t{each}" for each in range(7)]
#: What a town becomes; the last two are in no district, and the categories name one district that no town is in.
DISTRICTS = dict(zip(TOWNS, ["d0", "d0", "d0", "d1", "d1"], strict=False))
REGIONS = dict(zip(TOWNS, ["r0", "r0", "r0", "r0", "r0", "r1", "r1"], strict=True))
#: Of no town's neighbours: it crosses the districts.
KINDS = dict(zip(TOWNS, ["city", "land", "land", "city", "land", "land", "land"], strict=True))


def made(name, source, table, categories, outside):
    pairs = ", ".join(f'"{key}": "{value}"' for key, value in table.items())
    formula = f'recode({source}, {{{pairs}}}, "other")'
    return {"name": name, "type": "categorical", "categories": categories, "outside": outside, "formula": formula}


#: Towns that are not listed are in one bin, with which any district goes.
SCHEMA = Schema.from_json(
    {
        "version": 1,
        "columns": [
            {"name": "work", "type": "categorical", "categories": ["a", "b", "c"], "outside": "a"},
            made("region", "town", REGIONS, ["r0", "r1"], "r1"),
            {"name": "town", "type": "categorical", "categories": [*TOWNS[:6], "rest"], "outside": "rest"},
            made("kind", "town", KINDS, ["city", "land"], "land"),
            {"name": "sex", "type": "categorical", "categories": ["f", "m"], "outside": "f"},
            made("district", "town", DISTRICTS, ["d0", "d1", "d9", "other"], "other"),
        ],
        "neighbours": "add_remove",
    }
)
NAMES, SIZES = SCHEMA.universe.names, SCHEMA.universe.shape
TABLES = [
    each
    for many in (1, 2, 3)
    for each in product(NAMES, repeat=many)
    if list(each) == sorted(set(each), key=NAMES.index)
]
BUDGETS = {
    "gaussian-queries": ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)),
    "laplace-queries": PureDP(epsilon=Fraction(1)),
}
CROSSED = [("work", "town"), ("work", "district"), ("region", "sex"), ("work", "sex")]


def workload_of(tables):
    queries = [{"marginal": list(names)} for names in tables]
    return Workload.from_json({"version": 1, "queries": queries}, SCHEMA.universe)


def rows_there_can_be():
    """One of each kind, from texts: each town, and one that nobody lists."""
    label = {name: SCHEMA.universe[name].categories.index for name in NAMES}
    for text, work, sex in product([*TOWNS, "elsewhere"], range(3), range(2)):
        row = {
            "town": label["town"](text if text in TOWNS[:6] else "rest"),
            "district": label["district"](DISTRICTS.get(text, "other")),
            "region": label["region"](REGIONS.get(text, "r1")),
            "kind": label["kind"](KINDS.get(text, "land")),
            "work": work,
            "sex": sex,
        }
        yield row


def by_rows(names):
    """The cells of a table, as sums of the kinds of rows."""
    shape = [SIZES[NAMES.index(name)] for name in names]
    columns = list(rows_there_can_be())
    found = np.zeros((int(np.prod(shape)), len(columns)))
    for place, row in enumerate(columns):
        found[np.ravel_multi_index([row[name] for name in names], shape), place] = 1
    return found


def best(tables, variances):
    """C of the head of the module, for the answers from noise on each: dense, by singular values."""
    matrices = [by_rows(names) for names in tables]
    precisions = np.repeat([1 / each for each in variances], list(map(len, matrices)))
    x = np.concatenate(matrices)
    scaled = np.sqrt(precisions)[:, None] * x
    return x @ np.linalg.pinv(scaled, rcond=1e-9) * np.sqrt(precisions), 1 / precisions


def squares_of(tables, variances):
    workload = workload_of(tables)
    assert LevelSquares.can_combine(workload)
    return LevelSquares(workload=workload, law=DISCRETE_GAUSSIAN, variances=tuple(variances))


@pytest.mark.parametrize("apart", [1e6, 1e12, 1e160])
def test_a_table_that_is_far_surer_than_others_shifts_none_and_has_a_bound(apart):
    tables = [("work",), ("region",), ("work", "town", "sex")]
    squares = squares_of(tables, (9 / apart, 9.0, 9.0))
    exact = [1000 * by_rows(names).sum(axis=1) for names in tables]
    for found, true in zip(squares.combined(exact), exact, strict=True):
        np.testing.assert_allclose(found, true, atol=1e-3)
    assert min(squares.half_widths(beta=0.05)) > 0


def factors_of(squares):
    """By noise of 1 on one draw after the other."""
    cells = [family.cells(squares.workload.universe) for family in squares.workload.families]
    noisy = (np.split(unit, np.cumsum(cells)[:-1]) for unit in np.eye(sum(cells)))
    return np.array([np.concatenate(squares.combined(each)) for each in noisy]).T


def are_levels(tables):
    return len({name for names in tables for name in names} & {"town", "district", "region", "kind"}) > 1


CHOSEN = st.lists(st.sampled_from(TABLES), min_size=2, max_size=5, unique=True).filter(are_levels)


@settings(max_examples=60, deadline=None)
@given(CHOSEN, st.data())
def test_answers_are_the_best_linear_estimate_and_their_deviations_are_what_is_said(tables, data):
    variances = [data.draw(st.sampled_from([4.0, 10.0, 25.0])) for _ in tables]
    squares = squares_of(tables, variances)
    wanted, of_draws = best(tables, variances)
    np.testing.assert_allclose(factors_of(squares), wanted, atol=1e-8)
    deviations = np.sqrt(wanted**2 @ of_draws)
    start = 0
    for names, errors in zip(tables, map(squares._errors_of, squares.tables), strict=True):
        cells = len(by_rows(names))
        largest = max(each.scaled(variances[0]).errors[0].deviation for each in [errors])
        assert largest == pytest.approx(deviations[start : start + cells].max(), rel=2e-3)
        start += cells


def added_up(table, names, others):
    """A table by others, through the kinds of rows: for each of its cells those cells of the other that it has."""
    one, other = by_rows(others), by_rows(names)
    inside = (one @ other.T > 0).astype(float)
    assert (inside.sum(axis=0)[other.any(axis=1)] == 1).all()
    return inside @ table


@pytest.mark.parametrize("name", BUDGETS)
def test_released_levels_add_up_and_each_is_narrower_than_by_itself(name):
    tables = [("work", "town"), ("work", "region"), ("town",), ("region",)]
    plans = {
        agree: mechanism(name).plan(
            SCHEMA.project(["work", "region", "town"]),
            _asked(tables),
            budget=BUDGETS[name],
            beta=Fraction(1, 20),
            options={"agree": agree},
        )
        for agree in ("no", "yes")
    }
    alone, agreed = (plans[agree] for agree in ("no", "yes"))
    assert isinstance(agreed.together, LevelSquares)
    assert plan_from_json(agreed.to_json()) == agreed
    assert all(one < other for one, other in zip(agreed.bound.half_widths, alone.bound.half_widths, strict=True))
    drawn = np.random.default_rng(3)
    noisy = tuple(drawn.normal(0, 9, len(by_rows(names))).round() for names in tables)
    towns, regions, town, region = agreed.together.combined(noisy)
    np.testing.assert_allclose(added_up(towns, ("work", "town"), ("work", "region")), regions, atol=1e-9)
    np.testing.assert_allclose(added_up(town, ("town",), ("region",)), region, atol=1e-9)
    np.testing.assert_allclose(towns.reshape(3, -1).sum(axis=0), town, atol=1e-9)
    # What they are made of does not add up.
    assert np.abs(added_up(noisy[0], ("work", "town"), ("work", "region")) - noisy[1]).max() > 5


def _asked(tables):
    queries = [{"marginal": list(names)} for names in tables]
    return Workload.from_json({"version": 1, "queries": queries}, SCHEMA.project(["work", "region", "town"]).universe)


def test_a_bin_that_no_row_can_have_is_released_as_0():
    squares = squares_of([("town",), ("district",)], [4.0, 4.0])
    _, districts = squares.combined([np.full(7, 50.0), np.array([100.0, 90.0, 80.0, 70.0])])
    assert districts[2] == 0
    assert districts[:2] == pytest.approx([110, 290 / 3], rel=0.2)


@pytest.mark.parametrize("name", BUDGETS)
def test_errors_are_within_the_bound_as_often_as_it_says(name):
    """4,000 times, at beta 0.2: a bound that holds fails this once in 10^9, one a fifth too narrow never passes it."""
    queries = [{"marginal": list(names)} for names in CROSSED]
    workload = Workload.from_json({"version": 1, "queries": queries}, SCHEMA.universe)
    plan = mechanism(name).plan(SCHEMA, workload, budget=BUDGETS[name], beta=Fraction(1, 5), options={"agree": "yes"})
    widths = np.repeat(plan.bound.half_widths, [len(by_rows(names)) for names in CROSSED])
    factors, _ = best(CROSSED, [plan.noise.variance] * len(CROSSED))
    errors = np.abs(plan.noise.draw(4000 * widths.size, StreamRandomness(b"often")).reshape(4000, -1) @ factors.T)
    assert binom.sf((errors > widths).any(axis=1).sum() - 1, 4000, 0.2) > 1e-9
    assert binom.sf((errors > 0.8 * widths).any(axis=1).sum() - 1, 4000, 0.2) < 1e-9


def test_tables_of_one_level_alone_are_put_together_as_before_and_too_many_ways_are_left_to_that():
    assert not LevelSquares.can_combine(workload_of([("work", "town"), ("town",), ("sex",)]))
    towns = [f"t{each}" for each in range(1001)]
    levels = {town: f"d{place // 100}" for place, town in enumerate(towns)}
    columns = [{"name": "town", "type": "categorical", "categories": towns}]
    columns.append(made("district", "town", levels, [f"d{each}" for each in range(11)], "drop"))
    universe = Schema.from_json({"version": 1, "columns": columns}).universe
    asked = {"version": 1, "queries": [{"marginal": ["town"]}, {"marginal": ["district"]}]}
    workload = Workload.from_json(asked, universe)
    assert not LevelSquares.can_combine(workload)
    assert LeastSquares.can_combine(workload)
