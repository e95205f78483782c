"""Tables that each count rows of their own: how far one unit moves all answers together, by brute force."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.components import Counting, exact_answers
from releases.engine.mechanisms.base import OWN_ROWS, mechanism, mechanisms, plan_from_json
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.level_squares import LevelSquares
from releases.engine.mechanisms.mixed_squares import MixedSquares
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from tests.engine import telling

SEX = {"name": "sex", "type": "categorical", "categories": ["f", "m"]}
#: One bin, and what it leaves out.
ILL = {"name": "ill", "type": "categorical", "categories": ["yes"]}
AGE = {"name": "age", "type": "integer", "edges": [0, 1, 2, 3], "missing_as": "no number"}
TOWN = {"name": "town", "type": "categorical", "categories": ["a", "b"], "outside": "b"}
COLUMNS = [SEX, ILL, AGE, TOWN]
QUERIES = [
    {"marginal": ["sex"]},
    {"marginal": ["ill"]},
    {"marginal": ["sex", "town"]},
    {"marginal": ["town"]},
    {"marginal": ["ill", "town"]},
    {"prefix": "age"},
    {"marginal": ["age"]},
    {"count": {"sex": ["f", "m"]}},
    {"count": {"sex": ["f"]}},
    {"count": {"sex": ["m"], "ill": ["yes"]}},
    {"count": {"age": {"from": 1, "to": 3}, "town": ["a", "b"]}},
    {"count": {"town": ["a"]}},
]


def schema_of(neighbours="add_remove", rows=1, columns=COLUMNS):
    return telling.schema_of(columns, neighbours, telling.unit_of(rows))


def asked(queries, schema, *, own_rows=True):
    """The workload, and the schema it is planned under."""
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    universe = replace(workload.universe, own_rows=own_rows)
    return replace(workload, universe=universe), replace(schema, universe=universe)


def bins(schema):
    """Of each column what a row may have: a bin, or none where a rule leaves it out."""
    return {
        each.name: [*range(each.size), *([None] if each.name in ("sex", "ill") or not each.missing_as else [])]
        if each.name != "town"
        else [0, 1]
        for each in schema.universe.attributes
    }


def answered(queries, row):
    """What one row adds to all answers, each times its weight, by the words of the format."""
    found = []
    for query in queries:
        weight, (kind, asks) = query.get("weight", 1), next(iter(query.items()))
        if kind == "marginal":
            sizes = [{"sex": 2, "ill": 1, "age": 4 - row["no_age_bin"], "town": 2}[name] for name in asks]
            table = np.zeros(sizes, dtype=int)
            if all(row[name] is not None for name in asks):
                table[tuple(row[name] for name in asks)] = 1
            found += (weight * table).ravel().tolist()
        elif kind == "prefix":
            found += [weight * int(row["age"] is not None and row["age"] <= last) for last in range(3)]
        else:
            names = {"sex": {"f": 0, "m": 1}, "ill": {"yes": 0}, "town": {"a": 0, "b": 1}}
            accepted = [[1, 2] if name == "age" else [names[name][each] for each in of] for name, of in asks.items()]
            found.append(weight * int(all(row[name] in of for name, of in zip(asks, accepted, strict=True))))
    return found


def all_moves(queries, schema, neighbours, rows):
    """The changes of all answers between all neighbours: a unit has up to so many rows, or exactly one."""
    may_have = bins(schema)
    cells = [dict(zip(may_have, cell, strict=True)) for cell in product(*may_have.values())]
    has_prefix = any("prefix" in query for query in queries)
    each = np.unique([answered(queries, {**cell, "no_age_bin": has_prefix}) for cell in cells], axis=0)
    held = [
        np.array(chosen).sum(axis=0) for n in range(1, rows + 1) for chosen in combinations_with_replacement(each, n)
    ]
    held = np.unique(
        np.array([*held, np.zeros_like(each[0])]) if rows > 1 or neighbours == "add_remove" else held, axis=0
    )
    if neighbours == "add_remove":
        return held
    return (held[:, None, :] - held[None, :, :]).reshape(-1, held.shape[1])


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_one_unit_moves_all_answers_exactly_as_far_as_is_declared(neighbours, rows):
    drawn, more = random.Random(f"{neighbours} {rows}"), 0
    for place in range(40):
        queries = drawn.sample(QUERIES, drawn.randrange(2, 5))
        if place % 3 == 0:
            queries = [{**query, "weight": drawn.randrange(1, 4)} for query in queries]
        workload, schema = asked(queries, schema_of(neighbours, rows))
        if len(workload.families) < len(queries):
            continue
        weights = [query.get("weight", 1) for query in queries]
        # One weight for all says nothing.
        if len(set(weights)) == 1:
            queries = [{**query, "weight": 1} for query in queries]
        moves = np.abs(all_moves(queries, schema, neighbours, rows))
        declared = workload.weighted_sensitivity(schema)
        assert declared.l1 == moves.sum(axis=1).max(), queries
        assert declared.l2_squared == (moves**2).sum(axis=1).max(), queries
        same, under = asked(queries, schema_of(neighbours, rows), own_rows=False)
        more += declared.l1 > same.weighted_sensitivity(under).l1
    # Where a unit is replaced, rows of their own can cost more: a row may come into one table and go from another.
    assert (more > 0) == (neighbours == "replace")


def test_where_cells_cannot_be_listed_the_declared_move_is_no_smaller(monkeypatch):
    monkeypatch.setattr("releases.engine.workload.queries._ENUMERATED_CELLS", 0)
    for neighbours in ("add_remove", "replace"):
        for one in QUERIES:
            for other in QUERIES:
                workload, schema = asked([one, other], schema_of(neighbours))
                moves = np.abs(all_moves([one, other] if one != other else [one], schema, neighbours, 1))
                assert workload.sensitivity(schema).l1 >= moves.sum(axis=1).max(), (one, other)


OVERLAPPING = [{"marginal": ["sex", "town"]}, {"marginal": ["town", "age"]}, {"marginal": ["town"]}]
#: The rows of each are those that the rule of its own column keeps.
ALONE = [{"marginal": ["sex"]}, {"marginal": ["town"]}, {"prefix": "age"}]
#: Of more than two columns, and beside counts of some of them.
LARGER = [{"marginal": ["sex", "ill", "town"]}, {"count": {"age": {"from": 1, "to": 3}, "town": ["a"]}}]
#: Rows are left out of all tables alike, by the same rule or by none.
ALIKE = (
    [{"marginal": ["sex", "town"]}, {"marginal": ["sex"]}],
    [{"marginal": ["sex", "age"]}, {"marginal": ["sex", "town"]}, {"count": {"sex": ["f"]}}],
    [{"marginal": ["town"]}, {"marginal": ["age", "town"]}],
)
BUDGETS = {
    "laplace-queries": privacy_budget(epsilon="1"),
    "gaussian-queries": privacy_budget(epsilon="1", delta="1e-6"),
}
NAMES = sorted(BUDGETS)


CATCHING = schema_of(columns=[AGE, TOWN])


def planned(name, queries, schema=None, **options):
    schema = schema or schema_of()
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    schema = replace(schema, universe=workload.universe)
    return mechanism(name).plan(schema, workload, budget=BUDGETS[name], beta=Fraction(1, 20), options=options)


@pytest.mark.parametrize("name", NAMES)
def test_tables_count_rows_of_their_own_unless_something_chosen_puts_them_together(name):
    for queries in (OVERLAPPING, ALONE, LARGER):
        for chosen in ({}, {"agree": "no"}, {"rows_counted": "own"}):
            own = planned(name, queries, **chosen)
            assert own.schema.universe.own_rows
            assert own.counts_asked.universe.own_rows
            assert not own.makes_synthetic_rows
            assert own.parameters["rows counted"]
            assert own.schema.to_json()["rows_counted"] == "by own columns"
            assert plan_from_json(own.to_json()) == own
        for options in ({"rows_counted": "same"}, {"agree": "yes"}, {"rows": 50}):
            same = planned(name, queries, **options)
            assert not same.schema.universe.own_rows
            assert same.infeasible or same.makes_synthetic_rows
            assert "rows counted" not in same.parameters
            assert plan_from_json(same.to_json()) == same
    assert "agree" in planned(name, ALONE, agree="yes", rows_counted="own").infeasible
    assert not planned(name, OVERLAPPING, agree="yes", rows_counted="own").infeasible
    assert "synthetic rows" in planned(name, OVERLAPPING, rows=50, rows_counted="own").infeasible


@pytest.mark.parametrize("name", NAMES)
def test_where_rules_leave_the_same_rows_out_of_all_tables_nothing_is_chosen_and_rows_are_made(name):
    for queries in ALIKE:
        for chosen in ({}, {"rows_counted": "own"}, {"rows_counted": "same"}):
            plan = planned(name, queries, CATCHING if "sex" not in str(queries) else None, **chosen)
            assert OWN_ROWS.name not in plan.options
            assert "rows_counted" not in plan.schema.to_json()
            assert "rows counted" not in plan.parameters
            assert plan.makes_synthetic_rows


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_of_before_there_was_a_choice_counts_the_same_rows_at_the_same_price(name):
    for queries in (OVERLAPPING, ALONE, LARGER):
        before = planned(name, queries, rows_counted="same").to_json()
        del before["options"]["rows_counted"]
        again = plan_from_json(before)
        assert not again.schema.universe.own_rows
        assert again.makes_synthetic_rows
        assert again.to_json()["planned"] == before["planned"]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_plan_to_which_the_choice_is_left_makes_noise_for_all_that_one_unit_can_move(neighbours, rows):
    drawn, own = random.Random(f"plans {neighbours} {rows}"), 0
    for _ in range(25):
        queries = drawn.sample(QUERIES, drawn.randrange(2, 5))
        plan = planned("laplace-queries", queries, schema_of(neighbours, rows))
        if plan.infeasible or not plan.schema.universe.own_rows or len(plan.counts_asked.families) < len(queries):
            continue
        if "tables with noise" in plan.parameters:
            tables = zip(plan.tables.marginals, plan.tables.weights, strict=True)
            queries = [{"marginal": list(names), "weight": weight} for names, weight in tables]
        moves = np.abs(all_moves(queries, plan.schema, neighbours, rows)).sum(axis=1).max()
        word = "weighted l1 sensitivity" if len({query.get("weight", 1) for query in queries}) > 1 else "l1 sensitivity"
        assert plan.parameters[word] == str(moves), queries
        own += 1
    assert own > 10


def test_no_other_mechanism_counts_rows_that_only_some_tables_keep():
    """They fit tables, or add them up, or draw noise that is not independent."""
    tried = 0
    for name, each in mechanisms().items():
        schema = schema_of()
        workload = Workload.from_json({"version": 1, "queries": OVERLAPPING}, schema.universe)
        if name in NAMES or not each.can_answer(workload):
            continue
        own = replace(schema.universe, own_rows=True)
        plan = each.plan(
            replace(schema, universe=own),
            replace(workload, universe=own),
            budget=BUDGETS["gaussian-queries"],
            beta=Fraction(1, 20),
        )
        assert not plan.schema.universe.own_rows, name
        tried += 1
    assert tried > 5


@pytest.mark.parametrize("squares", [LeastSquares, LevelSquares, MixedSquares])
def test_least_squares_refuse_tables_that_count_different_rows(squares):
    own, _ = asked(OVERLAPPING, schema_of())
    same, _ = asked(OVERLAPPING, schema_of(), own_rows=False)
    more = {"measuring": (None,) * 3} if squares is MixedSquares else {}
    given = {"law": None, "variances": (1.0,) * 3, **more}
    squares(workload=same, **given)
    squares(workload=replace(own, families=own.families[1:]), **given)
    with pytest.raises(InvalidInput, match="count different rows"):
        squares(workload=own, **given)


def test_only_tables_of_one_rule_are_counted_from_one_joint_table():
    """A joint table of all columns has no row that any of them leaves out."""
    queries = [
        {"marginal": ["sex", "town"]},
        {"marginal": ["sex", "age"]},
        {"marginal": ["town"]},
        {"marginal": ["age"]},
    ]
    workload, _ = asked(queries, schema_of())

    class Told(Histogram):
        asked: list[tuple[str, ...]] = []

        def marginal(self, names):
            self.asked.append(names)
            return super().marginal(names)

        def marginals(self, sets):
            self.asked.extend(sets)
            return super().marginals(sets)

    counts = Told(universe=workload.universe, counts=np.arange(2 * 4 * 2).reshape(2, 1, 4, 2))
    exact_answers(workload, counts)
    assert set(Told.asked) == {("sex", "age", "town"), ("town",), ("age",)}
    assert Counting.of(workload).readings == 2


def test_the_release_answers_each_table_with_the_rows_of_its_own_columns():
    plan = planned("laplace-queries", OVERLAPPING)
    counts = Histogram(universe=plan.schema.universe, counts=np.full((2, 1, 4, 2), 1000))
    result = plan.run(counts, rng=StreamRandomness(b"own"))
    assert result.distribution is None
    assert [each.size for each in result.estimates] == [4, 8, 2]
    totals = [float(round(each.sum())) for each in result.estimates]
    assert result.notes == {"noisy numbers of rows in tables": [min(totals), max(totals)]}
    assert result.total == max(totals)


def test_only_counts_and_their_certificates_can_have_rows_of_their_own():
    schema = schema_of()
    question = read_question({"version": 1, "queries": [{"mean": ["age"]}]}, schema.universe)
    given = {"budget": BUDGETS["laplace-queries"], "beta": Fraction(1, 20)}
    own = replace(question, universe=replace(question.universe, own_rows=True))
    with pytest.raises(InvalidInput, match="counts alone"):
        mechanism("laplace-numbers").plan(replace(schema, universe=own.universe), own, **given)
    with pytest.raises(InvalidInput, match="rows_counted"):
        Schema.from_json({"version": 1, "columns": COLUMNS, "rows_counted": "some"})
