"""Tables of rows and tables of persons in one release: how far one person moves all of them, by brute force."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from releases.engine.domain.counted import Counted
from releases.engine.domain.population import one_population
from releases.engine.errors import InvalidInput
from releases.engine.estimation.fit import NoisyMarginal, fit_marginals
from releases.engine.mechanisms.base import ROWS_AND_PERSONS, ROWS_AS_PERSONS, mechanisms, plan_from_json
from releases.engine.mechanisms.budget_split import Allowance
from releases.engine.mechanisms.error_certificate import Certificate
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import CountsApart, Histogram
from tests.engine import telling
from tests.engine.telling import PERSON, workload_of
from tests.engine.workload.test_own_rows import BUDGETS

SEX = {"name": "sex", "type": "categorical", "categories": ["f", "m"]}
WARD = {"name": "ward", "type": "categorical", "categories": ["a", "b"], "outside": "b"}
COST = {"name": "cost", "type": "integer", "edges": [0, 1, 2, 3]}
VISITS = {"name": "visits", "type": "integer", "edges": [0, 2, 3], "formula": "count_per_person()"}
SOME = {"name": "some", "type": "categorical", "categories": ["true", "false"]}
SOME["formula"] = 'any_per_person(ward = "a")'
COLUMNS = [SEX, VISITS, WARD, SOME, COST]
SIZES = {"sex": 2, "ward": 2, "cost": 3, "visits": 2, "some": 2}
QUERIES_OF_ROWS = [
    {"marginal": ["sex"]},
    {"marginal": ["ward"]},
    {"marginal": ["sex", "ward"]},
    {"prefix": "cost"},
    {"count": {"sex": ["f"], "ward": ["a"]}},
    {"count": {"cost": {"from": 1, "to": 3}}},
]
QUERIES_OF_PERSONS = [
    {"marginal": ["visits"]},
    {"marginal": ["visits", "some"]},
    {"count": {"some": ["true"]}},
    {"prefix": "visits"},
]


def schema_of(neighbours="add_remove", rows=2, columns=COLUMNS):
    return telling.schema_of(columns, neighbours, {**PERSON, "max_rows": rows})


def planned(name, queries, schema=None, **options):
    return telling.planned(name, schema or schema_of(), queries, budget=BUDGETS[name], **options)


def answered(query, cell):
    """What one row, or one person, adds to the answers of a question; nothing where a column has no bin for it."""
    weight, (kind, of) = query.get("weight", 1), next(iter(query.items()))
    if kind == "marginal":
        table = np.zeros([SIZES[name] for name in of], dtype=int)
        if all(cell[name] is not None for name in of):
            table[tuple(cell[name] for name in of)] = 1
        return weight * table.ravel()
    if kind == "prefix":
        return weight * np.array([int(cell[of] is not None and cell[of] <= last) for last in range(SIZES[of])])
    accepted = {"f": 0, "a": 0, "true": 0}
    bins = {name: [1, 2] if name == "cost" else [accepted[each] for each in given] for name, given in of.items()}
    return weight * np.array([int(all(cell[name] in given for name, given in bins.items()))])


def person(rows):
    """The values of one person, of all rows: from 3 on, the number of visits is outside and leaves the person out."""
    return {"visits": [None, 0, 1, 1, None][len(rows)], "some": 0 if any(row["ward"] == 0 for row in rows) else 1}


def moves(queries, neighbours, most):
    """The changes of all answers between all neighbours, of persons of up to four rows; each table of rows has its own,
    of the same rows of a person."""
    cells = [dict(zip(("sex", "ward", "cost"), cell, strict=True)) for cell in product([0, 1, None], [0, 1], [0, 2])]
    of_rows = [np.concatenate([answered(query, cell) for query in of_kind(queries, 0)]) for cell in cells]
    added = set()
    for number in (1, 2, 4):
        for places in combinations_with_replacement(range(len(cells)), number):
            kept, one = places[::-1][:most], person([cells[place] for place in places])
            of_person = np.concatenate([answered(query, one) for query in of_kind(queries, 1)])
            added.add((*sum(of_rows[place] for place in kept).tolist(), *of_person.tolist()))
    held = np.array(sorted(added | {(0,) * len(next(iter(added)))}))
    if neighbours == "add_remove":
        return np.abs(held).sum(axis=1).max(), (held**2).sum(axis=1).max()
    l1 = max(np.abs(held - one).sum(axis=1).max() for one in held)
    return l1, max(((held - one) ** 2).sum(axis=1).max() for one in held)


def of_kind(queries, is_of_persons):
    return [query for query in queries if ("visits" in str(query) or "some" in str(query)) == bool(is_of_persons)]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_one_person_moves_answers_about_rows_and_persons_together_as_far_as_is_declared(neighbours, most):
    drawn, exact, less, larger = random.Random(f"{neighbours} {most}"), 0, 0, 0
    for place in range(8):
        queries = [*drawn.sample(QUERIES_OF_ROWS, 2), *drawn.sample(QUERIES_OF_PERSONS, 1 + place % 2)]
        if place % 2:
            queries = [{**query, "weight": drawn.randrange(1, 4)} for query in queries]
            queries[0]["weight"] = 1 + queries[-1]["weight"]
        schema = schema_of(neighbours, most)
        left = planned("laplace-queries", queries, schema)
        if "tables with noise" in left.parameters:
            pairs = zip(left.tables.marginals, left.tables.weights, strict=True)
            tables = [{"marginal": list(names), "weight": weight} for names, weight in pairs]
            assert moves(tables, neighbours, most)[0] <= left.noise.l1_sensitivity
            larger += 1
        plan = planned("laplace-queries", queries, schema, measured="asked")
        workload, schema = plan.counts_asked, plan.schema
        l1, l2_squared = moves(queries, neighbours, most)
        declared = workload.weighted_sensitivity(schema)
        assert l1 <= declared.l1, queries
        assert l2_squared <= declared.l2_squared, queries
        exact += (l1, l2_squared) == (declared.l1, declared.l2_squared)
        # The price is the sum of what both cost alone: in squares for L2.
        apart = [planned("laplace-queries", of_kind(queries, each), schema_of(neighbours, most)) for each in (0, 1)]
        of_each = [replace(workload, families=each.counts_asked.families) for each in apart]
        less += declared.l2_squared < declared.l1**2
        if place % 2 == 0:
            assert declared.l1 == sum(each.sensitivity(schema).l1 for each in of_each)
            assert declared.l2_squared == sum(each.sensitivity(schema).l2_squared for each in of_each)
            assert plan.parameters["l1 sensitivity"] == str(declared.l1)
    assert exact > 1
    assert less == 8
    # Whole tables alone are drawn in one of the four.
    assert larger or (neighbours, most) != ("add_remove", 1)


def test_a_release_of_both_makes_no_synthetic_rows_and_can_be_planned_again():
    queries = [{"marginal": ["sex", "ward"]}, {"marginal": ["visits"]}, {"prefix": "cost"}]
    for name in BUDGETS:
        plan = planned(name, queries)
        assert not plan.infeasible
        assert not plan.makes_synthetic_rows
        assert plan.schema.counted is Counted.BOTH
        assert plan.schema.to_json()["rows_counted"] == "by own columns"
        assert plan_from_json(plan.to_json()) == plan
        for chosen in ({"rows_counted": "same"}, {"agree": "yes"}, {"rows": 50}):
            refused = planned(name, queries, **chosen)
            assert refused.infeasible == ROWS_AS_PERSONS
            assert plan_from_json(refused.to_json()) == refused


def test_every_other_method_says_why_it_does_not_answer_both():
    queries, tried = [{"marginal": ["ward"]}, {"marginal": ["some"]}], 0
    schema = schema_of(columns=[WARD, SOME])
    workload = workload_of(queries, schema)
    for name, each in mechanisms().items():
        if not each.can_answer(workload):
            continue
        plan = each.plan(schema, workload, budget=BUDGETS["gaussian-queries"], beta=Fraction(1, 20))
        assert plan.infeasible == ("" if name in BUDGETS else ROWS_AND_PERSONS), name
        tried += 1
    assert tried > 10


@pytest.mark.parametrize(
    "query",
    [
        {"marginal": ["ward", "visits"]},
        {"marginals": 2, "columns": ["ward", "visits"]},
        {"count": {"ward": ["a"], "some": ["true"]}},
        {"mean": {"columns": ["cost"], "by": "some"}},
    ],
)
def test_no_table_and_no_statistic_is_of_rows_and_persons_at_once(query):
    with pytest.raises(InvalidInput, match="count persons, and the other columns count rows"):
        workload_of([query], schema_of())


def test_where_a_row_is_protected_there_is_nothing_of_persons():
    schema = replace(schema_of(), unit=replace(schema_of().unit, kind="row", id_column=None, max_rows=1))
    for name in BUDGETS:
        with pytest.raises(InvalidInput, match="a person must be protected"):
            planned(name, [{"marginal": ["ward"]}, {"marginal": ["visits"]}], schema)


def counts_of(schema, of_rows, of_persons):
    parts = [
        Histogram(universe=each.universe, counts=np.asarray(counts), population=each.population)
        for each, counts in zip(schema.apart, (of_rows, of_persons), strict=True)
    ]
    return CountsApart(universe=schema.universe, parts=tuple(parts))


def test_each_table_is_answered_with_the_counts_of_its_own_kind():
    queries = [{"marginal": ["some"]}, {"marginal": ["sex", "ward"]}, {"prefix": "visits"}, {"marginal": ["ward"]}]
    columns = [VISITS, SEX, SOME, WARD]
    schema = schema_of("replace", 3, columns)
    plan = telling.planned("laplace-queries", schema, queries, epsilon=100)
    counts = counts_of(plan.schema, [[100, 200], [300, 400]], [[1000, 2000], [3000, 4000]])
    result = plan.run(counts, rng=StreamRandomness(b"both"))
    expected = [[4000, 6000], [100, 200, 300, 400], [3000, 10_000], [400, 600]]
    # Noise of scale 0.2 moves none of them by 9 with a chance above 1e-17.
    for found, counted in zip(result.estimates, expected, strict=True):
        assert found == pytest.approx(counted, abs=9)
    assert result.distribution is None
    assert result.notes["noisy numbers of rows in tables"] == pytest.approx([1000, 10_000], abs=20)


def test_counts_of_both_are_of_both_populations_and_no_other_ones():
    plan = planned("laplace-queries", [{"marginal": ["ward"]}, {"marginal": ["some"]}], schema_of(columns=[WARD, SOME]))
    counts = counts_of(plan.schema, [5, 6], [2, 3])
    plan.run(counts, rng=StreamRandomness(b"both"))
    assert counts.population == plan.schema.population
    of_rows, of_persons = counts.parts
    more = replace(of_rows.population, unit=replace(of_rows.population.unit, max_rows=9))
    for parts in (
        (replace(of_rows, population=more), of_persons),
        (of_rows, replace(of_persons, population=of_rows.population)),
    ):
        with pytest.raises(InvalidInput, match="another population"):
            plan.run(replace(counts, parts=parts), rng=StreamRandomness(b"both"))
    with pytest.raises(InvalidInput, match="other universes"):
        replace(counts, parts=counts.parts[::-1])
    with pytest.raises(InvalidInput, match="count persons, and the other columns count rows"):
        counts.histogram()
    assert [each.tolist() for each in counts.marginals([("some",), ("ward",), ("some",)])] == [[2, 3], [5, 6], [2, 3]]
    assert counts.tally(("some",)).counts.tolist() == [2, 3]
    assert counts.texts("ward").counts.tolist() == [5, 6]


def test_rows_and_persons_are_in_no_fit_and_no_least_squares_together():
    schema = planned("laplace-queries", [{"marginal": ["ward"]}, {"marginal": ["some"]}]).schema
    both, *each = schema.population, *(schema.population_of([name]) for name in ("ward", "some"))
    assert [one.counted for one in each] == [Counted.ROWS, Counted.PERSONS]
    for mixed in ([both], [both, both], each, [each[0], both]):
        with pytest.raises(InvalidInput, match="populations"):
            one_population(mixed)
    measured = [NoisyMarginal(axes=(0,), table=np.full(2, 9.0), variance=4.0, population=one) for one in each]
    for tables in (measured, [replace(measured[0], population=both)]):
        with pytest.raises(InvalidInput, match="population"):
            fit_marginals((2, 2), tables)
    workload = planned("laplace-queries", [{"marginal": ["ward"]}, {"marginal": ["some"]}]).counts_asked
    with pytest.raises(InvalidInput, match="count different rows"):
        LeastSquares(workload=workload, law=None, variances=(1.0, 1.0))


def test_the_largest_error_of_both_moves_by_the_rows_of_one_person():
    schema = schema_of(rows=4)
    allowance = Allowance(amount=Fraction(1), is_pure=True)
    tails = [Certificate.of(allowance, schema=each, beta=Fraction(1, 20)).tail for each in (schema, *schema.apart)]
    assert tails[0] == tails[1] > 3 * tails[2]
