"""Workloads: what they ask, and what one unit can change in the answers, held against brute force."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.counts import Histogram
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from releases.engine.workload.questions import renamed

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 10, 20, 30]},
    {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"},
]


def schema(neighbours="add_remove", columns=COLUMNS, unit=None):
    return Schema.from_json(
        {"version": 1, "columns": columns, "neighbours": neighbours, "unit": unit or {"kind": "row"}}
    )


def workload(*queries, columns=COLUMNS):
    return Workload.from_json({"version": 1, "queries": list(queries)}, schema(columns=columns).universe)


def answers_of_cell(asked, cell):
    counts = np.zeros(asked.universe.shape, dtype=np.int64)
    if cell is not None:
        counts[cell] = 1
    histogram = Histogram(universe=asked.universe, counts=counts)
    return np.concatenate(asked.answer(histogram.marginal))


def test_the_workload_of_the_formats_section_reads_as_it_says():
    asked = workload(
        {"marginals": 2},
        {"marginals": 1, "columns": ["town", "sex"]},
        {"marginal": ["town", "age"]},
        {"count": {"age": {"from": 10, "to": 30}, "sex": ["f"]}},
        {"prefix": "age"},
    )
    # The marginal asked twice, in whatever order of columns, is kept once.
    assert [family.title(asked.universe) for family in asked.families] == [
        *("age × sex", "age × town", "sex × town", "sex", "town", "age: 10 to 30 and sex: f", "age, up to each value")
    ]
    assert asked.size == 6 + 9 + 6 + 2 + 3 + 1 + 3


def test_answers_are_the_counts_they_say():
    asked = workload({"marginal": ["sex"]}, {"count": {"age": {"to": 20}, "town": ["a", "c"]}}, {"prefix": "age"})
    counts = np.arange(18, dtype=np.int64).reshape(3, 2, 3)
    histogram = Histogram(universe=asked.universe, counts=counts)
    sex, count, prefix = asked.answer(histogram.marginal)
    assert sex.tolist() == counts.sum(axis=(0, 2)).tolist()
    assert count.tolist() == [counts[:2][:, :, [0, 2]].sum()]
    assert prefix.tolist() == np.cumsum(counts.sum(axis=(1, 2))).tolist()


QUERIES = st.lists(
    st.one_of(
        st.sampled_from([1, 2, 3]).map(lambda order: {"marginals": order}),
        st.lists(st.sampled_from(["age", "sex", "town"]), min_size=1, max_size=3, unique=True).map(
            lambda names: {"marginal": names}
        ),
        st.sampled_from(["age", "sex", "town"]).map(lambda name: {"prefix": name}),
        st.fixed_dictionaries(
            {},
            optional={
                "age": st.sampled_from([{"from": 10}, {"to": 10}, {"from": 10, "to": 20}, ["0 to 9", "20 to 30"]]),
                "sex": st.sampled_from([["f"], ["m"], ["f", "m"]]),
                "town": st.lists(st.sampled_from("abc"), min_size=1, unique=True),
            },
        )
        .filter(bool)
        .map(lambda predicate: {"count": predicate}),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150)
@given(QUERIES, st.sampled_from(["add_remove", "replace"]), st.integers(1, 3))
def test_the_sensitivity_is_what_brute_force_over_all_neighbours_finds(queries, neighbours, max_rows):
    asked = workload(*queries)
    unit = {"kind": "row"} if max_rows == 1 else {"kind": "person", "id": "p", "max_rows": max_rows}
    cells = [*np.ndindex(*asked.universe.shape), None]
    changes = [answers_of_cell(asked, cell) for cell in cells]
    if neighbours == "replace":
        changes = [one - other for one, other in itertools.combinations(changes, 2)]
    found = asked.sensitivity(schema(neighbours, unit=unit))
    assert found.l1 == max_rows * max(int(np.abs(change).sum()) for change in changes)
    assert found.l2_squared == max_rows**2 * max(int((change**2).sum()) for change in changes)


def test_the_sensitivity_of_a_workload_too_large_to_enumerate_is_that_of_its_parts():
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(0, 1001, 10))} for i in range(4)]
    queries = [{"count": {f"c{i}": {"from": 100, "to": 500} for i in range(4)}}, {"prefix": "c0"}]
    assert workload(*queries, columns=columns).sensitivity(schema(columns=columns)).l1 == 1 + 100


@settings(max_examples=60)
@given(QUERIES)
def test_a_workload_survives_a_round_trip_through_json(queries):
    asked = workload(*queries)
    assert Workload.from_json(json.loads(json.dumps(asked.to_json())), asked.universe) == asked


@settings(max_examples=60)
@given(QUERIES)
def test_the_adjoint_is_the_adjoint(queries):
    asked = workload(*queries)
    generator = np.random.default_rng(5)
    for family in asked.families:
        shape = tuple(asked.universe[name].size for name in family.attributes)
        table, vector = generator.random(shape), generator.random(family.cells(asked.universe))
        assert np.isclose(family.answer(table) @ vector, (table * family.adjoint(vector, shape)).sum())


@pytest.mark.parametrize(
    ("query", "field", "rule"),
    [
        ({"marginals": 0}, "queries[0].marginals", "from 1 to 3"),
        ({"marginals": "2"}, "queries[0].marginals", "whole number"),
        ({"marginals": 2, "columns": ["age", "wage"]}, "queries[0].columns", "declared column"),
        ({"marginal": ["age", "age"]}, "queries[0].marginal", "twice"),
        ({"marginal": "age"}, "queries[0].marginal", "list of column names"),
        ({"count": {}}, "queries[0].count", "must be an object"),
        ({"count": {"age": {"from": 12}}}, "queries[0].count.age.from", "nearest: 0, 10, 20"),
        ({"count": {"age": {"from": 20, "to": 10}}}, "queries[0].count.age", "from below to"),
        ({"count": {"age": {"above": 20}}}, "queries[0].count.age", "must be an object such as"),
        ({"count": {"sex": {"from": 1}}}, "queries[0].count.sex", "list of categories"),
        ({"count": {"sex": ["x"]}}, "queries[0].count.sex", "one of f, m"),
        ({"count": {"wage": ["x"]}}, "queries[0].count", "declared column"),
        ({"prefix": "wage"}, "queries[0].prefix", "declared column"),
        ({"prefix": "age", "marginals": 1}, "queries[0].query", "must have one of"),
        ({"prefix": "age", "colour": 1}, "queries[0].query", "not a known field"),
        ({"prefix": "age", "weight": 0}, "queries[0].weight", "must be a whole number from 1 to 1,000"),
        ({"count": {"sex": ["f"]}, "weight": 1001}, "queries[0].weight", "must be a whole number from 1 to 1,000"),
        ({"marginal": ["age"], "weight": True}, "queries[0].weight", "must be a whole number from 1 to 1,000"),
        ({}, "queries[0].query", "must be an object"),
    ],
)
def test_a_wrong_query_is_refused_by_field_value_and_rule(query, field, rule):
    with pytest.raises(InvalidInput) as refusal:
        workload(query)
    assert refusal.value.field == field
    assert rule in refusal.value.rule


def test_a_workload_without_queries_or_of_more_answers_than_anybody_could_read_is_refused():
    for value in ({"version": 1, "queries": []}, {"version": 1, "queries": {}}):
        with pytest.raises(InvalidInput, match="at least one query"):
            Workload.from_json(value, schema().universe)
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(500))} for i in range(3)]
    with pytest.raises(InvalidInput, match="at most 50,000,000 answers"):
        workload({"marginals": 3}, columns=columns)


WEIGHED = {"weighted_by": {"column": "age", "cap": "30"}}


@pytest.mark.parametrize(
    "query",
    [
        {"marginal": ["sex", "age"]},
        {"marginals": 2},
        {"prefix": "age", "weight": 3},
        {"count": {"sex": ["f"], "town": ["a", "b"]}},
        {"mean": ["income"]},
        {"mean": {"columns": ["income"], "by": ["sex", "town"]}},
        {"mean": {"columns": ["income"], "by": ["sex"], **WEIGHED}},
        {"sum": {"columns": ["income"], **WEIGHED}},
        {"variance": {"columns": ["income"], "by": ["town"]}},
        {"weighted_count": {"by": ["sex"], **WEIGHED}},
        {"median": "age"},
        {"quantiles": {"column": "age", "at": ["0.25", "0.5"]}},
        {"quantiles": {"column": "age", "at": ["0.25", "0.5"], "by": "sex"}},
        {"most_common": "town"},
        {"votes": {"columns": ["sex"], "category": "f"}},
        {"regression": {"outcome": "income", "columns": ["sex", "age"]}},
        {"logistic_regression": {"outcome": "town", "values": ["b"], "columns": ["age", "sex"]}},
        {"strongest_associations": {"columns": ["sex", "town", "age"], "k": 1}},
    ],
    ids=str,
)
def test_questions_about_columns_of_other_names_are_those_written_with_these_names(query):
    columns = [*COLUMNS, {"name": "income", "type": "integer", "edges": [0, 50, 100]}]
    others = {each["name"]: f"{each['name'].upper()} 2025" for each in columns}

    def asked(text, columns):
        universe = schema(columns=columns).universe
        return read_question({"version": 1, "queries": [json.loads(text)]}, universe)

    written = json.dumps(query)
    for name, other in others.items():
        written = written.replace(f'"{name}"', f'"{other}"')
    expected = asked(written, [each | {"name": others[each["name"]]} for each in columns])
    found = renamed(asked(json.dumps(query), columns), others)
    assert found == expected
    assert found.to_json() == expected.to_json()
