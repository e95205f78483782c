"""A workload is recognised as the shape that it has, with the kinds of cells that its questions tell apart."""

from __future__ import annotations

from itertools import combinations, product
from math import factorial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from releases.engine.noise.randomness import StreamRandomness
from releases.engine.smalldb.candidates import Databases, ways
from releases.engine.smalldb.enumeration import Signatures, read_signatures
from releases.engine.smalldb.state_sampler import FrontierCounter, read_steps
from releases.engine.smalldb.strategies import shape_of
from releases.engine.smalldb.tree import read_forest
from tests.engine.small_databases import (
    CASES,
    CASES_AND_DATABASES,
    CHAIN,
    NESTED,
    PARTITION,
    Everything,
    asked,
    columns_of,
    kinds_of,
    matrix,
    outcome,
    predicate,
    setting,
    shape_for,
    span,
    tables_of,
)


@st.composite
def workloads(draw):
    """A few families over three bins by two, or six bins."""
    sizes = draw(st.sampled_from([(3, 2), (6,), (2, 2, 2)]))
    names = "abc"[: len(sizes)]
    marginals = [{"marginal": list(chosen)} for k in (1, 2, 3) for chosen in combinations(names, k)]
    prefixes = [{"prefix": name} for name in names]

    def spans(name, size):
        start = st.integers(0, size - 1)
        return start.flatmap(lambda first: st.integers(first + 1, size).map(lambda stop: {name: (first, stop)}))

    one = st.one_of(*(spans(name, size) for name, size in zip(names, sizes, strict=True)))
    counts = st.lists(one, min_size=1, max_size=2).map(
        lambda parts: predicate(**{name: span for part in parts for name, span in part.items()})
    )
    family = st.one_of(st.sampled_from(marginals + prefixes), counts, counts)
    return asked(sizes, draw(st.lists(family, min_size=1, max_size=4)))


def _cross(one, other):
    return bool((one & other).any() and (one & ~other).any() and (other & ~one).any())


@given(workloads())
@settings(max_examples=100)
def test_a_workload_is_a_forest_exactly_where_no_two_of_its_sets_cross(workload):
    names = sorted({name for family in workload.families for name in family.attributes})
    universe = workload.universe.project(tuple(names))
    sets = matrix(workload.families, universe).astype(bool)
    crossing = any(_cross(one, other) for one, other in combinations(sets, 2))
    forest = read_forest(workload.families, universe)
    assert (forest is None) == crossing
    signatures = read_signatures(workload.families, universe)
    distinct = {tuple(row) for row in sets.tolist()}
    alike = [tuple(column) for column in sets.T.tolist()]
    for found in (forest, signatures):
        if found is None:
            continue
        # Cells are of one kind exactly where the same queries count them.
        assert len(set(zip(alike, found.kind_of_cell.tolist(), strict=True))) == len(set(alike)) == found.kinds
        assert np.bincount(found.kind_of_cell).tolist() == found.cells_of_kind.tolist()
    assert {tuple(row) for row in signatures.incidence[:, signatures.kind_of_cell].tolist()} == distinct
    assert len(signatures.incidence) == len(distinct)
    if forest is not None:
        assert forest.answers == len(distinct)


@given(workloads(), st.sampled_from(Databases), st.data())
@settings(max_examples=30)
def test_following_open_questions_counts_any_workload(workload, databases, data):
    names = tuple(sorted({name for family in workload.families for name in family.attributes}))
    universe = workload.universe.project(names)
    signatures = read_signatures(workload.families, universe)
    assume(signatures.incidence.size)
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=signatures.kinds, max_size=signatures.kinds)))
    rows, size = max(1, int(counts.sum())), 3
    counter = FrontierCounter(
        signatures,
        steps=read_steps(signatures.incidence),
        databases=databases,
        outside=2,
        size=size,
        rows=rows,
        counts=counts,
    )
    cells = [2 * each for each in signatures.cells_of_kind.tolist()]
    goal = size * (signatures.incidence.astype(int) @ counts)
    constant = factorial(size) if databases is Databases.SEQUENCES else 1
    weights = {}
    for vector in product(range(size + 1), repeat=signatures.kinds):
        if sum(vector) == size:
            error = int(np.abs(rows * (signatures.incidence.astype(int) @ np.array(vector)) - goal).max())
            assert counter.error(np.array(vector)) == error
            weight = constant * np.prod([ways(databases, cells=w, count=y) for w, y in zip(cells, vector, strict=True)])
            weights[error] = weights.get(error, 0) + weight
    for level in weights:
        within = sum(weight for error, weight in weights.items() if error <= level)
        assert counter.within(level) == (within, 0)
        assert counter.within(level - 1) == (within - weights[level], 0)
        assert counter.error(counter.draw(level, StreamRandomness(b"open"))) <= level


@pytest.mark.parametrize(
    ("title", "sizes", "queries"),
    [
        (CHAIN, (50, 3), [{"prefix": "a"}]),
        (CHAIN, (50,), [{"prefix": "a"}, span("a", 0, 20)]),
        (PARTITION, (5, 4), [{"marginal": ["a", "b"]}]),
        (PARTITION, (9,), [span("a", 1, 3), span("a", 5, 9)]),
        (NESTED, (5, 4), [{"marginal": ["a", "b"]}, {"marginal": ["b"]}]),
        (NESTED, (9,), [span("a", 1, 6), span("a", 2, 4)]),
        (NESTED, (9,), [{"prefix": "a"}, span("a", 2, 3)]),
    ],
)
def test_nested_workloads_are_recognised(title, sizes, queries):
    assert shape_of(asked(sizes, queries), Databases.MULTISETS).title == title


def test_kinds_are_found_without_looking_at_every_question_in_every_cell():
    """Twenty predicates on 64,000 cells tell few kinds apart."""
    names = [column["name"] for column in columns_of((40, 40, 40))]
    queries = [span(names[i % 3], i, i + 15) for i in range(20)]
    workload = asked((40, 40, 40), queries)
    signatures = read_signatures(workload.families, workload.universe)
    assert isinstance(signatures, Signatures)
    assert signatures.cells_of_kind.sum() == 40**3
    assert signatures.kinds == len({tuple(column) for column in signatures.incidence.T.tolist()})


@pytest.mark.parametrize(("name", "databases"), CASES_AND_DATABASES)
def test_every_case_has_the_shape_it_is_tried_for(name, databases):
    case, shape = CASES[name], shape_for(CASES[name], databases)
    assert shape.title == case.title
    everything = Everything.of(case, databases)
    distinct = [len({tuple(row) for row in rows.tolist()}) for rows in everything.queries]
    assert shape.answers == sum(distinct)
    drawn = shape.draw(
        kinds_of(shape, tables_of(case.workload, shape, [1] * case.workload.universe.size)),
        setting(case.size, rows=case.workload.universe.size),
        StreamRandomness(b"shape"),
        lambda: None,
    )
    assert outcome(shape, drawn) in everything.outcomes
