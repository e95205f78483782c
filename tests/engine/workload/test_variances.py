"""Variances by group: what their sums move by, what their intervals hold, and how good they are."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.verification.tables import Remembered
from releases.engine.verification.truths import bound_holds, truths
from releases.engine.workload import row_variances
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import of_columns_asked
from releases.engine.workload.row_variances import variances_within
from tests.engine import telling
from tests.engine.workload.test_sensitivity import (
    RELATIONS,
    all_differences,
    compared,
    ends,
    integers,
    measured,
    relations,
    schema_of,
)

PURE, APPROX = PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
TOWNS = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "a"}
weights = st.lists(st.integers(1, 5), min_size=2, max_size=2)


def norms(measurement, weights):
    """The largest L1 and squared L2 norm of a change there is, and those declared; one weight for a column's sums."""
    scales = [Fraction(weight) for weight in weights for _ in range(3)]
    scales = (scales * 9)[: len(measurement.coordinates)]
    moved, found = measurement.moved, np.abs(all_differences(measurement)).astype(object)
    true_l1 = max(sum(d / s for d, s in zip(row, scales, strict=True)) for row in found)
    true_l2 = max(sum(d * d / s for d, s in zip(row, scales, strict=True)) for row in found)
    assert all(most >= true for most, true in zip(moved.most, found.max(axis=0), strict=True))
    return (true_l1, true_l2), (moved.l1(scales=scales), moved.l2_squared(variances=scales))


@settings(max_examples=30)
@given(st.lists(ends, min_size=1, max_size=2), relations, st.integers(1, 2), weights)
@example([(0, 1)], "add_remove", 2, [1, 1])
@example([(0, 1)], "replace", 1, [1, 1])
def test_squares_and_products_move_exactly_as_far_as_declared(columns, neighbours, rows, weights):
    schema = schema_of(integers(columns), neighbours, rows)
    (measurement,) = measured(schema, {"variance": list(schema.universe.names)})
    found, declared = norms(measurement, weights[: len(columns)])
    assert found == declared


@settings(max_examples=30)
@given(ends, st.integers(0, 2), st.integers(2, 3), relations, st.integers(1, 2), weights)
def test_those_of_groups_too_with_all_rows_of_a_unit_in_one_or_from_one_to_another_and_with_weights(
    column, cap, groups, neighbours, rows, weights
):
    towns = {**TOWNS, "categories": TOWNS["categories"][:groups]}
    rows, weighted = (1, {"weighted_by": "c1"}) if cap else (rows, {})
    columns = integers([column, (0, cap)]) if cap else integers([column])
    schema = schema_of([*columns, towns], neighbours, rows)
    (measurement,) = measured(schema, {"variance": {"columns": ["c0"], "by": "town", **weighted}})
    found, declared = norms(measurement, weights[:1])
    assert found == declared


@settings(max_examples=30)
@given(ends, relations, st.integers(1, 2), st.lists(st.integers(1, 5), min_size=2, max_size=2))
def test_second_moments_by_group_move_exactly_as_far_as_declared(column, neighbours, rows, weights):
    schema = schema_of([*integers([column]), {**TOWNS, "categories": ["a", "b"]}], neighbours, rows)
    for measurement in measured(schema, {"second_moments": {"columns": ["c0"], "by": "town"}}):
        is_plain = len(measurement.each.coordinates) == 1
        compared(measurement, weights[: len(measurement.each.coordinates)] * 2, is_attained=is_plain)


@settings(max_examples=200)
@given(st.integers(2, 60), st.integers(4, 40), st.integers(1, 3), st.data())
def test_rounded_sums_move_by_no_more_steps_than_declared(size, steps, rows, data):
    """Each is rounded by itself, wherever other people's rows have put it."""
    values = st.lists(st.integers(0, size), max_size=rows)
    others, new = data.draw(st.lists(st.integers(0, size), max_size=9)), data.draw(values)
    schema = schema_of(integers([(0, size)]), "add_remove", rows)
    (measurement,) = measured(schema, {"variance": ["c0"]})

    def stepped(values, units):
        table = Rows(universe=schema.universe, columns={"c0": np.array(values, dtype=np.int64)})
        return np.array(measurement.rounded(measurement.totals(table), units))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_variances, "_SQUARE_STEPS", steps)
        units = measurement.units(0)
        declared, moved = measurement.moved.on_lattice(units), stepped(others + new, units) - stepped(others, units)
    ones = (Fraction(1),) * 3
    assert moved.min() >= 0
    assert moved.sum() <= declared.l1(scales=ones)
    assert (moved**2).sum() <= declared.l2_squared(variances=ones)


share = st.floats(0, 1)


def eighths(low, high):
    return st.integers(low, high).map(lambda whole: whole / 8)


@settings(max_examples=300)
@given(st.lists(st.tuples(eighths(-24, 480), eighths(0, 160)), min_size=3, max_size=3), st.tuples(share, share, share))
def test_an_interval_holds_the_variance_of_every_table_in_its_box_and_ends_at_some(box, inside):
    low, high = np.array([start for start, _ in box]), np.array([start + size for start, size in box])
    least, largest = variances_within(low.tolist(), high.tolist())
    if high.min() < 0:
        assert (least, largest) == (0, 0.25)
        return
    steps = np.linspace(0, 1, 40)
    grid = np.stack(np.meshgrid(*(np.maximum(0, a + (b - a) * steps) for a, b in zip(low, high, strict=True))), -1)
    points = np.vstack([grid.reshape(-1, 3), np.maximum(0, low + (high - low) * np.array(inside))])
    points = points[points.sum(axis=1) > 0]
    found = points[:, 0] / points.sum(axis=1) - ((points[:, 0] + points[:, 1] / 2) / points.sum(axis=1)) ** 2
    if not found.size:
        return
    assert least <= max(0, found.min()) + 1e-12
    assert largest >= max(0, found.max())
    # A finer grid has points that are nearer to the ends: no more than this is lost between two of its points.
    lost = 2 * (high - np.maximum(0, low)).max() / 39 / max(1e-9, np.maximum(0, low).sum())
    assert least >= max(0, found.min()) - lost - 1e-9
    assert largest <= max(0, found.max()) + lost + 1e-9


@given(st.tuples(share, share, share).filter(lambda each: sum(each) > 1e-6))
def test_the_parts_of_the_gradient_add_up_to_1_over_the_number_of_rows_at_most(sums):
    a, b, c = np.array(sums) / sum(sums)
    v = a * c - b * b / 4
    assert abs(c - 2 * v) + abs(b / 2 + 2 * v) + abs(a - 2 * v) <= 1 + 1e-12


COLUMNS = [
    {"name": "pay", "type": "number", "edges": [-20, 500], "decimals": 2},
    {"name": "age", "type": "integer", "edges": [15, 80]},
    TOWNS,
    {"name": "tea", "type": "categorical", "categories": ["yes", "no"], "outside": "no"},
]


def planned(name, query, *, neighbours="add_remove", rows=1, beta=Fraction(1, 20), **options):
    budget = PURE if name == "laplace-numbers" else APPROX
    return telling.planned(name, schema_of(COLUMNS, neighbours, rows), query, budget=budget, beta=beta, **options)


def people(universe, size, seed=3):
    """Unlike groups, one of them empty, one of a single row."""
    drawn = np.random.default_rng(seed)
    town = np.minimum(drawn.integers(0, 3, size), 1)
    pay = np.clip(drawn.lognormal(8, 0.6, size) * (1 + town), -2000, 50000).astype(np.int64)
    columns = {"pay": pay, "age": drawn.integers(15, 81, size), "town": town, "tea": drawn.integers(0, 2, size)}
    return Rows(universe=universe, columns=columns)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", ["laplace-numbers", "gaussian-numbers"])
@pytest.mark.parametrize("size", [0, 1, 3_000])
def test_the_bounds_hold_for_every_number_of_rows_also_none(name, neighbours, size):
    """At beta 1e-9 no bound is broken with probability below 1e-7."""
    query = {"variance": {"columns": ["pay", "age"], "by": ["town", "tea"]}}
    plan = planned(name, query, neighbours=neighbours, rows=2, beta=Fraction(1, 10**9))
    rows, rng = people(plan.schema.universe, size), StreamRandomness(b"any number")
    for _ in range(5):
        assert bound_holds(plan, plan.run(rows, rng=rng), rows)


@pytest.mark.parametrize("name", ["laplace-numbers", "gaussian-numbers"])
@pytest.mark.parametrize("weighted", [{}, {"weighted_by": "age"}], ids=str)
def test_the_sums_that_are_published_tell_those_measured_within_the_noise_that_is_published(name, weighted):
    """Of each group the squares of the distances to either end and twice their product, at beta 1e-9."""
    of = ["pay"] if weighted else ["pay", "age"]
    query = {"variance": {"columns": of, "by": ["town"], **weighted}}
    schema = schema_of(COLUMNS, "add_remove", 1)
    rows, question = people(schema.universe, 3_000), read_question({"version": 1, "queries": [query]}, schema.universe)
    about, asked = of_columns_asked(schema, question)
    budget = PURE if name == "laplace-numbers" else APPROX
    plan = mechanism(name).plan(about, asked, budget=budget, beta=Fraction(1, 10**9))
    counted = Rows(universe=about.universe, columns={each: rows.columns[each] for each in about.universe.names})
    notes = plan.run(counted, rng=StreamRandomness(b"sums")).notes
    for column, low, high, unit in (("pay", -20, 500, 100), ("age", 15, 80, 1))[: len(of)]:
        about, squares, products, within = (
            np.array(notes[what][column])
            for what in (
                "noisy sums about the middle",
                "noisy sums of squares about the middle",
                "noisy sums of the products of the distances to both ends",
                "noise on each measured sum within",
            )
        )
        for town in range(3):
            here = rows.columns["town"] == town
            times = rows.columns["age"][here] if weighted else 1
            above, below = rows.columns[column][here] / unit - low, high - rows.columns[column][here] / unit
            read = [2 * squares + products + (high - low) * each * about for each in (1, -1)]
            true = ((times * above**2).sum(), (times * below**2).sum(), 2 * (times * above * below).sum())
            for found, exact in zip((*read, 2 * products), true, strict=True):
                assert abs(found[town] - exact) <= within[town] * (1 + 1e-6)
            assert within[town] < (6_000 if weighted else 300) * (high - low) ** 2


@pytest.mark.parametrize(
    "query", [{"variance": ["pay", "age"]}, {"variance": {"columns": ["age"], "by": "tea"}}], ids=str
)
@pytest.mark.parametrize("name", ["laplace-numbers", "gaussian-numbers"])
def test_what_is_foretold_for_so_many_rows_holds_of_their_release(name, query):
    """At beta 1e-9 no bound is broken with probability below 1e-6. Groups have at least 1,400 rows."""
    plan = planned(name, query, beta=Fraction(1, 10**9), expected_rows=2_800)
    rows, rng = people(plan.schema.universe, 3_000), StreamRandomness(b"foretold")
    assert plan.expectation.says.startswith("if at least ")
    for _ in range(20):
        result = plan.run(rows, rng=rng)
        parts = zip(result.estimates, truths(plan, rows), plan.expectation.half_widths, strict=True)
        assert all((np.abs(found - true) <= width).all() for found, true, width in parts)
        # Of groups, what is foretold is the width of the whole interval.
        widths = zip(result.bound.half_widths, plan.expectation.half_widths, strict=True)
        assert not result.spans or all(width <= foretold for width, foretold in widths)


def errors_of_groups(kind, rows, releases, by_itself):
    """Mean squared errors of four groups: of what is released, and of what its own noisy sums alone give each."""
    plan = planned("laplace-numbers", {kind: {"columns": ["age"], "by": ["town", "tea"]}})
    rows = people(plan.schema.universe, rows)
    counts, rng, (true,) = Remembered(rows), StreamRandomness(kind.encode()), truths(plan, rows)
    errors = []
    for _ in range(releases):
        result = plan.run(counts, rng=rng)
        (about,) = result.notes["noisy sums about the middle"].values()
        alone = by_itself(result, np.maximum(1, result.notes["noisy numbers of rows"]), np.array(about))
        errors.append([((found - true)[:4] ** 2).mean() for found in (result.estimates[0], alone)])
    return np.mean(errors, axis=0)


def test_small_groups_are_drawn_towards_all_and_the_interval_is_not():
    """Over 60 releases the mean squared error is under two thirds of that of the noisy sums by themselves: it is a
    sixth in expectation, and less than two thirds fails with probability below 1e-6."""

    def by_itself(result, n, about):
        (squares,) = result.notes["noisy sums of squares about the middle"].values()
        return np.clip(np.array(squares) / n - (about / n) ** 2, *result.spans[0].T)

    errors, alone = errors_of_groups("variance", 240, 60, by_itself)
    assert errors < 2 / 3 * alone


def test_empty_groups_hide_nothing_of_how_far_the_means_of_large_ones_are_apart():
    """Over 40 releases of four groups of thousands, beside two of none, the mean squared error is that of the noisy
    sums by themselves: 0.98 to 1.02 times as much in trials, and 6 times where empty groups weigh as much as full."""
    errors, alone = errors_of_groups("mean", 20_000, 40, lambda result, n, about: 47.5 + about / n)
    assert errors < 2 * alone


def test_a_variance_has_a_narrow_interval_where_rows_are_many():
    """The half width is about 4 of a variance of 367. Another draw makes it 10 with probability below 1e-6."""
    plan = planned("laplace-numbers", {"variance": ["age"]})
    rows = people(plan.schema.universe, 3_000)
    result = plan.run(rows, rng=StreamRandomness(b"narrow"))
    ((true,),) = truths(plan, rows)
    assert result.bound.half_widths[0] < 10
    assert abs(result.estimates[0][0] - true) < 10


@pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name, size in product(["laplace-numbers", "gaussian-numbers"], [0, 5, 400])]
)
def test_weighted_variances_and_moments_lie_in_their_intervals(name, size):
    """At beta 1e-9 no bound is broken with probability below 1e-8."""
    weight = {"weighted_by": "pay"}
    columns = [{**COLUMNS[0], "edges": [0, 500]}, *COLUMNS[1:]]
    for kind in ("variance", "second_moments"):
        query = {kind: {"columns": ["age"], "by": "town", **weight}}
        budget = PURE if name == "laplace-numbers" else APPROX
        plan = telling.planned(name, columns, query, budget=budget, beta=Fraction(1, 10**9))
        rows = people(plan.schema.universe, size)
        rows.columns["pay"] = np.clip(rows.columns["pay"], 0, 50000)
        assert bound_holds(plan, plan.run(rows, rng=StreamRandomness(b"weighed")), rows)
