"""How far one unit moves sums over rows: against brute force over all neighbours of small tables."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import floor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from releases.engine.tables.counts import Rows
from releases.engine.workload import row_means, row_regression
from releases.engine.workload.measurements import measurements
from releases.engine.workload.sensitivity import ONE, Span, changes
from tests.engine import telling
from tests.engine.telling import RELATIONS

YES_NO = {"type": "categorical", "categories": ["yes", "no"], "outside": "no"}


def schema_of(columns, neighbours, rows=1):
    return telling.schema_of(columns, neighbours, telling.unit_of(rows))


def integers(ends):
    return [{"name": f"c{i}", "type": "integer", "edges": [low, high]} for i, (low, high) in enumerate(ends)]


def measured(schema, query):
    return measurements(telling.workload_of([query], schema).statistic, schema, takes_pairs=True)


def contributions(measurement):
    """What each possible row adds to the totals, by taking them of tables of that one row."""
    universe = measurement.schema.universe
    ends = [(each.lowest, each.highest) if each.is_numeric else (0, each.size - 1) for each in universe.attributes]
    rows = [dict(zip(universe.names, row, strict=True)) for row in product(*(range(a, b + 1) for a, b in ends))]
    tables = [{name: np.array([value]) for name, value in row.items()} for row in rows]
    return np.array([measurement.totals(Rows(universe=universe, columns=columns)) for columns in tables])


def all_values(measurement):
    """What the rows of one unit can add to the totals."""
    schema = measurement.schema
    rows, added = schema.unit.max_rows, contributions(measurement)
    may_be_none = schema.universe.may_drop or schema.neighbours.value == "add_remove"
    values = [
        sum((added[i] for i in chosen), np.zeros(added.shape[1], dtype=np.int64))
        for size in range(0 if may_be_none else 1, rows + 1)
        for chosen in combinations_with_replacement(range(len(added)), size)
    ]
    return np.unique(np.array(values), axis=0)


def differences_of(values, none, neighbours):
    """What one unit's rows add, less what its old rows added, for all neighbours; less `none` where rows are added."""
    if neighbours == "add_remove":
        return values - none
    return (values[:, None, :] - values[None, :, :]).reshape(-1, values.shape[1])


def all_differences(measurement):
    """f(D) - f(D') for all neighbours."""
    values = all_values(measurement)
    return differences_of(values, np.zeros_like(values[0]), measurement.schema.neighbours.value)


def compared(measurement, weights, *, is_attained):
    """The declared sensitivities against the largest differences there are, each coordinate weighted."""
    moved, differences = measurement.moved, np.abs(all_differences(measurement)).astype(object)
    weights = [Fraction(each) for each in weights[: len(moved.most)]] if len(moved.most) > 1 else [Fraction(1)]
    true_l1 = max(sum(d / w for d, w in zip(row, weights, strict=True)) for row in differences)
    true_l2 = max(sum(d * d / w for d, w in zip(row, weights, strict=True)) for row in differences)
    l1, l2 = moved.l1(scales=weights), moved.l2_squared(variances=weights)
    if is_attained:
        assert (l1, l2) == (true_l1, true_l2)
        assert moved.most == tuple(differences.max(axis=0))
    else:
        assert l1 >= true_l1
        assert l2 >= true_l2
        assert all(most >= true for most, true in zip(moved.most, differences.max(axis=0), strict=True))


ends = st.tuples(st.integers(-3, 3), st.integers(1, 3)).map(lambda pair: (pair[0], pair[0] + pair[1]))
relations = st.sampled_from(RELATIONS)
weights = st.lists(st.integers(1, 5), min_size=6, max_size=6)


@settings(max_examples=40)
@given(st.lists(ends, min_size=1, max_size=2), relations, st.integers(1, 2), weights)
def test_sums_and_centred_sums_with_their_count_move_exactly_as_far_as_declared(columns, neighbours, rows, weights):
    schema = schema_of(integers(columns), neighbours, rows)
    names = list(schema.universe.names)
    for measurement in (*measured(schema, {"sum": names}), *measured(schema, {"mean": names})):
        compared(measurement, weights, is_attained=True)


@pytest.mark.slow
@settings(max_examples=40)
@given(ends, st.integers(2, 3), relations, st.integers(1, 2), weights)
def test_sums_by_group_move_exactly_as_far_as_declared_in_one_group_or_from_one_to_another(
    column, groups, neighbours, rows, weights
):
    """Every way to spread a unit's rows over the groups is tried; noise is the same in each of them."""
    towns = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"][:groups], "outside": "a"}
    schema = schema_of([*integers([column]), towns], neighbours, rows)
    for kind in ("sum", "mean"):
        for measurement in measured(schema, {kind: {"columns": ["c0"], "by": "town"}}):
            compared(measurement, weights[: len(measurement.each.coordinates)] * groups, is_attained=True)


@settings(max_examples=40)
@given(
    ends,
    st.integers(1, 3),
    relations,
    st.integers(1, 3),
    st.lists(st.fractions(1, 4, max_denominator=4), min_size=2, max_size=2),
    st.lists(st.integers(0, 60), min_size=6, max_size=6),
    weights,
)
@example((0, 3), 3, "add_remove", 3, [Fraction(2), Fraction(1)], [1] * 6, [1] * 6)
@example((0, 3), 3, "replace", 3, [Fraction(2), Fraction(1)], [1] * 6, [1] * 6)
def test_rounded_sums_move_no_further_than_declared_however_a_unit_s_rows_are_spread(
    column, groups, neighbours, rows, units, others, weights
):
    """Each group's sum is rounded by itself, wherever other people's rows have put it."""
    towns = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"][:groups], "outside": "a"}
    schema = schema_of([*integers([column]), towns], neighbours, rows)
    for kind in ("sum", "mean"):
        for measurement in measured(schema, {kind: {"columns": ["c0"], "by": "town"}}):
            if measurement.pairs:
                continue
            of_one = len(measurement.each.coordinates)
            lattice, scales = units[:of_one] * groups, weights[:of_one] * groups
            start = np.array(others[: len(lattice)])
            steps = [
                [floor(v / u + Fraction(1, 2)) for v, u in zip(value, lattice, strict=True)]
                for value in [start.tolist(), *(start + all_values(measurement)).tolist()]
            ]
            moved = np.abs(differences_of(np.array(steps[1:]), np.array(steps[0]), neighbours))
            declared = measurement.moved.on_lattice(lattice)
            assert (moved / np.array(scales)).sum(axis=1).max() <= float(declared.l1(scales=scales)) + 1e-9
            assert (moved**2 / np.array(scales)).sum(axis=1).max() <= float(
                declared.l2_squared(variances=scales)
            ) + 1e-9
            assert (moved.max(axis=0) <= np.array(declared.most)).all()


@settings(max_examples=25)
@given(ends, st.integers(1, 2), st.integers(0, 2), relations, st.integers(1, 2), weights)
def test_weighted_sums_means_and_counts_move_exactly_as_far_as_declared_for_any_weights_up_to_the_cap(
    column, cap, groups, neighbours, rows, weights
):
    """Every weight from 0 to the cap is tried, on both sides: those between the ends move nothing further."""
    towns = {"name": "town", "type": "categorical", "categories": ["a", "b"][:groups], "outside": "a"}
    schema = schema_of([*integers([column, (0, cap)]), *([towns] if groups else [])], neighbours, rows)
    by = {"by": "town"} if groups else {}
    for query in (
        {"sum": {"columns": ["c0"], "weighted_by": "c1", **by}},
        {"mean": {"columns": ["c0"], "weighted_by": "c1", **by}},
        {"weighted_count": {"weighted_by": "c1", **by}},
    ):
        for measurement in measured(schema, query):
            of_one = len(measurement.each.coordinates) if groups else len(measurement.coordinates)
            compared(measurement, weights[:of_one] * max(1, groups), is_attained=True)


@given(
    st.tuples(st.integers(-9, 9), st.integers(1, 40)),
    st.integers(1, 7),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=6),
    st.tuples(st.integers(0, 40), st.integers(0, 5)),
)
def test_a_weighted_pair_on_any_lattice_moves_by_the_steps_of_its_weight_together(ends, steps, cap, others, new):
    (low, size), half = ends, row_means._PAIR_STEPS
    schema = schema_of(integers([(low, low + size), (0, cap)]), "add_remove")
    _, pair = measured(schema, {"mean": {"columns": ["c0"], "weighted_by": "c1"}})

    def stepped(rows):
        values, weights = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        table = {"c0": low + np.minimum(values, size), "c1": np.minimum(weights, cap)}
        return np.array(pair.rounded(pair.totals(Rows(universe=schema.universe, columns=table)), pair.units(1)))

    row_means._PAIR_STEPS = steps * cap
    try:
        moved = stepped([*others, new]) - stepped(others)
        assert moved.min() >= 0
        assert moved.sum() == steps * min(new[1], cap)
        assert pair.moved.on_lattice(pair.units(1)).cases == ((steps * cap, 0), (0, steps * cap))
    finally:
        row_means._PAIR_STEPS = half


@given(
    st.tuples(st.integers(-9, 9), st.integers(1, 40)),
    st.integers(1, 7),
    st.lists(st.integers(0, 40), max_size=6),
    st.integers(0, 40),
)
def test_a_pair_on_any_lattice_moves_by_the_steps_of_its_range_together_when_a_row_is_added(ends, steps, others, new):
    (low, size), half = ends, row_means._PAIR_STEPS
    schema = schema_of(integers([(low, low + size)]), "add_remove")
    _, pair = measured(schema, {"mean": ["c0"]})

    def stepped(values):
        rows = Rows(universe=schema.universe, columns={"c0": low + np.minimum(np.array(values, dtype=np.int64), size)})
        return np.array(pair.rounded(pair.totals(rows), pair.units(1)))

    row_means._PAIR_STEPS = steps
    try:
        moved = stepped([*others, new]) - stepped(others)
        assert moved.min() >= 0
        assert moved.sum() == steps
        assert pair.moved.on_lattice(pair.units(1)).cases == ((steps, 0), (0, steps))
    finally:
        row_means._PAIR_STEPS = half


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(ends, min_size=1, max_size=2), relations, st.integers(1, 2), weights)
def test_second_moments_move_no_further_than_declared_and_exactly_so_where_rows_are_added(
    columns, neighbours, rows, weights
):
    schema = schema_of(integers(columns), neighbours, rows)
    plain, centred = measured(schema, {"second_moments": list(schema.universe.names)})
    compared(plain, weights, is_attained=neighbours == "add_remove" or len(columns) == 1)
    # About their middles no row need have all products at an end.
    compared(centred, weights, is_attained=len(columns) == 1)


@settings(max_examples=40)
@given(st.lists(ends, min_size=2, max_size=3), relations, st.integers(1, 2), weights)
@example([(0, 1)] * 3, "replace", 1, [1, 1, 1, 5, 1, 1])
def test_sums_of_a_regression_move_exactly_as_far_as_declared_where_rows_are_added(columns, neighbours, rows, weights):
    """With one noise for all numbers, one for all products and one for all squares, as it is drawn."""
    rows = rows if len(columns) == 2 else 1
    schema = schema_of(integers([(low, min(high, low + 2)) for low, high in columns]), neighbours, rows)
    outcome, *others = schema.universe.names
    (measurement,) = measured(schema, {"regression": {"outcome": outcome, "columns": others}})
    numbers, steps = len(columns), row_regression._STEPS
    of_rows, of_numbers, of_products, of_squares, *_ = weights
    scales = [of_rows, *[of_numbers * steps] * numbers, *[of_products * steps**2] * (numbers * (numbers - 1) // 2)]
    compared(measurement, [*scales, *[of_squares * steps**2] * numbers], is_attained=neighbours == "add_remove")


def moves_exactly_as_declared(schema, query):
    (measurement,) = measured(schema, query)
    differences = np.abs(all_differences(measurement))
    declared = measurement.moved.sensitivity()
    assert declared.l1 == differences.sum(axis=1).max()
    assert declared.l2_squared == (differences**2).sum(axis=1).max()
    assert measurement.moved.most == tuple(differences.max(axis=0))


@settings(max_examples=20)
@given(st.sampled_from(["no", "drop"]), relations, st.integers(1, 2))
def test_cells_of_a_logistic_regression_move_exactly_as_far_as_declared(outside, neighbours, rows):
    columns = [{"name": f"c{i}", **YES_NO, "outside": outside} for i in range(2)]
    schema = schema_of([*columns, {"name": "n", "type": "integer", "edges": [0, 1, 2]}], neighbours, rows)
    query = {"logistic_regression": {"outcome": "c0", "values": ["yes"], "columns": ["n", "c1"]}}
    moves_exactly_as_declared(schema, query)


@settings(max_examples=70)
@given(st.integers(1, 4), st.sampled_from(["no", "drop"]), st.data(), relations, st.integers(1, 3))
def test_votes_move_exactly_as_far_as_declared(columns, outside, data, neighbours, rows):
    ballots = data.draw(st.integers(1, columns))
    schema = schema_of([{"name": f"c{i}", **YES_NO, "outside": outside} for i in range(columns)], neighbours, rows)
    query = {"votes": {"columns": list(schema.universe.names), "category": "yes", "ballots": ballots}}
    moves_exactly_as_declared(schema, query)


def test_only_where_no_row_can_be_dropped_a_replaced_row_moves_a_sum_by_its_range_alone():
    salary, sex = Span(lowest=10_000, highest=100_000), [{"name": "sex", **YES_NO}]
    assert changes([salary], schema_of(sex, "replace")).sensitivity().l1 == 90_000
    # A number may be none, so its row may be dropped, and a mean always pays for the number of rows.
    assert changes([salary], schema_of(integers([(0, 1)]), "replace")).sensitivity().l1 == 100_000
    assert changes([salary], schema_of(integers([(0, 1)]), "add_remove")).sensitivity().l1 == 100_000
    # A person may lose rows where no value is dropped.
    assert [changes([ONE], schema_of(sex, "replace", rows=rows)).most for rows in (1, 3)] == [(0,), (3,)]
