"""What one row, or one person with any number of rows up to g, can change: against all pairs of what they may have.

The questions are evaluated row by row in plain Python, from the words of the workload format; nothing of the engine is
used but what it declares.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting.accountant import price
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import PUBLIC_ALREADY, mechanism
from releases.engine.mechanisms.budget_split import Allowance
from releases.engine.mechanisms.choices import score_sensitivity
from releases.engine.mechanisms.error_certificate import Certificate
from releases.engine.mechanisms.histogram import histogram_sensitivity
from releases.engine.workload import queries as workloads
from releases.engine.workload.queries import Workload

#: A text that no column declares.
UNDECLARED = "?"
RELATIONS = ["add_remove", "replace"]
DROPS, CATCHES = "drop", "catch-all"
#: Of numbers: rows without one have a bin of their own.
APART, NO_NUMBER = "apart", "no number"


def column(name, categories, outside):
    """What the evaluator reads; of numbers also what is declared, for their bins are no categories."""
    if outside == APART:
        edges = list(range(categories + 1))
        labels = [*map(str, edges[:-2]), f"{edges[-2]} to {edges[-1]}", NO_NUMBER]
        declared = {"name": name, "type": "integer", "edges": edges, "missing_as": NO_NUMBER}
        return {"name": name, "categories": labels, "outside": NO_NUMBER, "declared": declared}
    labels = [f"{name}{position}" for position in range(categories)]
    outside = "drop" if outside == DROPS else labels[-1]
    return {"name": name, "type": "categorical", "categories": labels, "outside": outside}


def unit_of(rows):
    return {"kind": "row"} if rows is None else {"kind": "person", "id": "who", "max_rows": rows}


def schema_of(columns, relation, rows):
    declared = [each.get("declared", each) for each in columns]
    return Schema.from_json({"version": 1, "columns": declared, "neighbours": relation, "unit": unit_of(rows)})


def as_counted(columns, queries):
    """Where running totals are asked of numbers, a row without one does not count."""
    running = [query["prefix"] for query in queries if "prefix" in query]
    return [
        {**each, "categories": [label for label in each["categories"] if label != NO_NUMBER], "outside": "drop"}
        if each["name"] in running and "declared" in each
        else each
        for each in columns
    ]


def read(row, columns):
    """A row as it counts: a label for each column, or None where a rule leaves it out."""
    told = {}
    for each, text in zip(columns, row, strict=True):
        if text not in each["categories"]:
            text = each["outside"]
        if text == "drop":
            return None
        told[each["name"]] = text
    return told


def questions(queries, columns):
    """By what is asked: its weight, and one test of a row for each answer."""
    labels = {each["name"]: each["categories"] for each in columns}
    asked = {}

    def ask(key, tests, query):
        weight = query.get("weight", asked[key][0] if key in asked else 1)
        asked[key] = (weight, tests)

    def table(names, query):
        cells = list(product(*(labels[name] for name in names)))
        tests = [lambda row, cell=cell: tuple(row[name] for name in names) == cell for cell in cells]
        ask(("table", frozenset(names)), tests, query)

    for query in queries:
        if "marginals" in query:
            for names in combinations(list(labels), query["marginals"]):
                table(names, query)
        elif "marginal" in query:
            table(tuple(query["marginal"]), query)
        elif "prefix" in query:
            name = query["prefix"]
            starts = [labels[name][: last + 1] for last in range(len(labels[name]))]
            tests = [lambda row, name=name, start=start: row[name] in start for start in starts]
            ask(("prefix", name), tests, query)
        else:
            wanted = {name: frozenset(bins) for name, bins in query["count"].items()}
            test = [lambda row, wanted=wanted: all(row[name] in bins for name, bins in wanted.items())]
            ask(("count", frozenset(wanted.items())), test, query)
    return list(asked.values())


def what_a_unit_may_have(columns, relation, rows):
    """All multisets of texts that one unit's rows may be, on either side."""
    every = list(product(*([*each["categories"], UNDECLARED] for each in columns)))
    if rows is None:
        return [(row,) for row in every]
    return [held for size in range(rows + 1) for held in combinations_with_replacement(every, size)]


def contributions(columns, relation, rows, tests):
    """For each thing a unit may have, how much it adds to each of the counts; without repetition."""
    every = what_a_unit_may_have(columns, relation, rows)
    one_row = {
        row: np.array([0 if told is None else int(test(told)) for test in tests], dtype=np.int64)
        for row in {row for held in every for row in held}
        for told in [read(row, columns)]
    }
    nothing = np.zeros(len(tests), dtype=np.int64)
    return np.unique(np.array([sum((one_row[row] for row in held), nothing) for held in every]), axis=0)


def changes(columns, relation, rows, tests):
    """Every difference of the counts between neighbours, one a row."""
    added = contributions(columns, relation, rows, tests)
    if relation == "add_remove":
        return added
    return (added[:, None, :] - added[None, :, :]).reshape(-1, added.shape[1])


def counts_every_row(row):
    return True


NAMES = ("a", "b")
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 2))
OUTSIDE = st.tuples(*[st.sampled_from([DROPS, CATCHES])] * 2)
OR_APART = st.tuples(*[st.sampled_from([DROPS, CATCHES, APART])] * 2)
#: None is a row.
UNITS = st.sampled_from([None, 1, 2, 3])


@st.composite
def asked(draw):
    columns = [column(*each) for each in zip(NAMES, draw(SIZES), draw(OR_APART), strict=True)]
    running = draw(st.lists(st.sampled_from(NAMES), unique=True))
    counted = as_counted(columns, [{"prefix": name} for name in running])
    labels = {each["name"]: each["categories"] for each in counted}
    some = {name: st.lists(st.sampled_from(labels[name]), min_size=1, unique=True) for name in NAMES}
    query = st.one_of(
        st.sampled_from([{"marginals": 1}, {"marginals": 2}]),
        st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(lambda names: {"marginal": names}),
        *([st.sampled_from(running).map(lambda name: {"prefix": name})] if running else []),
        st.sampled_from(NAMES).map(lambda name: {"count": {name: labels[name]}}),
        st.fixed_dictionaries({}, optional=some).filter(bool).map(lambda count: {"count": count}),
    )
    weighted = st.tuples(query, st.sampled_from([None, None, 1, 2, 7])).map(
        lambda pair: pair[0] if pair[1] is None else {**pair[0], "weight": pair[1]}
    )
    asks = [{"prefix": name} for name in running if "declared" in dict(zip(NAMES, columns, strict=True))[name]]
    return columns, [*asks, *draw(st.lists(weighted, min_size=1, max_size=4))]


def weighed(queries, columns):
    """Of each answer its test and its weight, all 1 where no question matters more than another."""
    found = questions(queries, columns)
    equal = len({weight for weight, _ in found}) == 1
    return [(test, 1 if equal else weight) for weight, tests in found for test in tests]


def workload_of(queries, schema):
    return Workload.from_json({"version": 1, "queries": queries}, schema.universe)


def planned_of(queries, columns, relation, rows):
    """The workload, and the schema that it is planned with."""
    schema = schema_of(columns, relation, rows)
    workload = workload_of(queries, schema)
    return workload, replace(schema, universe=workload.universe)


def declared_and_moved(queries, columns, relation, rows):
    """What is declared without weights and with them, l1 and the square of l2, and by how much answers move."""
    workload, schema = planned_of(queries, columns, relation, rows)
    counted = as_counted(columns, queries)
    tests, weights = zip(*weighed(queries, counted), strict=True)
    moved = np.abs(changes(counted, relation, rows, tests))
    true = [(each.sum(axis=1).max(), (each**2).sum(axis=1).max()) for each in (moved, moved * np.array(weights))]
    declared = workload.sensitivity(schema), workload.weighted_sensitivity(schema)
    return [(each.l1, each.l2_squared) for each in declared], true


@settings(max_examples=250)
@given(asked(), st.sampled_from(RELATIONS), UNITS)
def test_counts_move_exactly_as_far_as_declared_with_and_without_weights(given_, relation, rows):
    declared, true = declared_and_moved(given_[1], given_[0], relation, rows)
    assert declared == true


@pytest.mark.parametrize("limit", ["_ENUMERATED_CELLS", "_ENUMERATED_PAIRS", "_ENUMERATED_CHANGES"])
@settings(max_examples=80)
@given(given_=asked(), relation=st.sampled_from(RELATIONS), rows=UNITS)
def test_where_cells_are_too_many_to_look_at_counts_move_no_further_than_declared(limit, given_, relation, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workloads, limit, 0)
        declared, true = declared_and_moved(given_[1], given_[0], relation, rows)
    assert (np.array(declared, dtype=object) >= np.array(true, dtype=object)).all()


def test_running_totals_leave_out_what_is_no_number_however_they_are_asked():
    """Also where a workload is made of its families, and not read."""
    schema = schema_of([column("a", 2, APART)], "replace", None)
    asked = Workload(universe=schema.universe, families=(workloads.Prefix(attributes=("a",)),))
    assert asked.universe.shape == (2,)
    assert asked.universe.may_drop
    assert workload_of([{"prefix": "a"}], schema) == asked


def test_ten_rows_of_a_person_in_prefixes_of_two_categories_vanish_from_both():
    """The loss was 1.9 and rho 0.0441 where 1 and 0.0244 were charged: each row was thought to stay somewhere."""
    columns = [column("a", 2, CATCHES)]
    schema = schema_of(columns, "replace", 10)
    workload = workload_of([{"prefix": "a"}], schema)
    assert workload.sensitivity(schema).l1 == 20
    assert workload.sensitivity(schema).l2_squared == 200
    gone, beta = 10, Fraction(1, 20)
    pure, approximate = PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    laplace = mechanism("laplace-queries").plan(schema, workload, budget=pure, beta=beta)
    assert 2 * gone / laplace.noise.scale <= 1
    gaussian = mechanism("gaussian-queries").plan(schema, workload, budget=approximate, beta=beta)
    spent = 2 * gone**2 / (2 * gaussian.noise.exact_variance)
    assert spent <= Fraction(price(gaussian.events, delta=gaussian.delta).rho, 10**12)


@settings(max_examples=100)
@given(asked(), st.sampled_from(RELATIONS), UNITS)
def test_the_number_of_rows_is_called_public_exactly_where_no_neighbour_has_another(given_, relation, rows):
    columns, _ = given_
    moved = changes(columns, relation, rows, [counts_every_row])
    assert schema_of(columns, relation, rows).total_is_public == (not moved.any())


@settings(max_examples=150)
@given(asked(), st.sampled_from(RELATIONS), UNITS)
def test_questions_are_refused_as_public_exactly_where_no_answer_can_change(given_, relation, rows):
    columns, queries = given_
    workload, schema = planned_of(queries, columns, relation, rows)
    counted = as_counted(columns, queries)
    moved = changes(counted, relation, rows, [test for test, _ in weighed(queries, counted)])
    plan = mechanism("laplace-queries").plan(schema, workload, budget=PureDP(epsilon=Fraction(1)), beta=Fraction(1, 20))
    assert plan.infeasible == ("" if moved.any() else PUBLIC_ALREADY)


# Its relatives: whatever else declares how far a unit can move something


@settings(max_examples=60)
@given(SIZES, OUTSIDE, st.sampled_from(RELATIONS), UNITS, st.data())
def test_a_histogram_its_scores_and_its_largest_error_move_no_further_than_declared(
    sizes, outside, relation, rows, data
):
    columns = [column(*each) for each in zip(NAMES, sizes, outside, strict=True)]
    schema = schema_of(columns, relation, rows)
    cells = list(product(*(each["categories"] for each in columns)))
    tests = [lambda row, cell=cell: tuple(row.values()) == cell for cell in cells]
    moved = changes(columns, relation, rows, tests)
    declared = histogram_sensitivity(schema)
    assert declared.l1 >= np.abs(moved).sum(axis=1).max()
    assert declared.l2_squared >= (moved**2).sum(axis=1).max()
    if len(cells) > 1:
        assert declared.l1 == np.abs(moved).sum(axis=1).max()
        assert declared.l2_squared == (moved**2).sum(axis=1).max()
    # A candidate, or a question of a threshold, is any set of cells.
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(cells), max_size=len(cells))))
    most, monotone = score_sensitivity(schema)
    of_set = moved[:, chosen].sum(axis=1)
    assert np.abs(of_set).max(initial=0) <= most
    assert not monotone or (of_set >= 0).all()
    # The largest error of whatever was published, and the sum of errors that multiplicative weights look at.
    numbers = st.lists(st.integers(-5, 5), min_size=len(cells), max_size=len(cells))
    released, others = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    largest = np.abs(released - others - moved).max(axis=1) - np.abs(released - others).max()
    noise = Certificate.of(Allowance(amount=Fraction(1), is_pure=True), schema=schema, beta=Fraction(1, 20)).noise
    assert np.abs(largest).max() <= noise.l1_sensitivity
    whole = np.abs(released - others - moved).sum(axis=1) - np.abs(released - others).sum()
    assert np.abs(whole).max() <= declared.l1
