"""Tables that count rows of their own: those that count the same ones agree, and one bound holds for all answers."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.answers import noise_on
from releases.engine.mechanisms.base import Consistency, mechanism, plan_from_json
from releases.engine.mechanisms.squares_by_rules import SquaresByRules, share_of_beta
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.parsing import read_question
from tests.engine.workload.test_own_rows import BUDGETS, NAMES, planned
from tests.engine.workload.test_own_rows import schema_of as own_schema_of
from tests.engine.workload.test_rows_and_persons import planned as planned_of_both
from tests.engine.workload.test_rows_and_persons import schema_of

#: Of the rows that the rule of sex keeps; and of all rows, by the place of each table among the questions.
TABLES = [["sex", "town"], ["age", "town"], ["sex"], ["town"], ["ill", "town"]]
GROUPS = [[0, 2], [1, 3], [4]]
SIZES = {"sex": 2, "ill": 1, "age": 4, "town": 2}
QUERIES = [{"marginal": names} for names in TABLES]
#: Noise on the answers and not on larger tables, whether they agree or not.
ON_ANSWERS = {"laplace-queries": {"measured": "asked"}, "gaussian-queries": {}}
WEIGHTED = [{**query, "weight": 1 + place % 3} for place, query in enumerate(QUERIES)]


def sums(tables):
    """A line for each answer of some tables: which cells of the table over all of their columns it adds up."""
    names = sorted({name for table in tables for name in table}, key=list(SIZES).index)
    cells = list(product(*(range(SIZES[name]) for name in names)))
    return np.array(
        [
            [all(cell[names.index(name)] == at for name, at in zip(table, answer, strict=True)) for cell in cells]
            for table in tables
            for answer in product(*(range(SIZES[name]) for name in table))
        ],
        dtype=float,
    )


@pytest.mark.parametrize("queries", [QUERIES, WEIGHTED], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_answers_of_one_group_are_the_least_squares_of_their_own_noisy_numbers_alone(name, queries):
    plan = planned(name, queries, agree="yes", rows_counted="own")
    assert isinstance(plan.together, SquaresByRules)
    assert [each is not None for each in plan.together.groups] == [True, True, False]
    drawn = np.random.default_rng(5)
    noisy = [drawn.normal(50, 20, prod(SIZES[each] for each in table)) for table in TABLES]
    agreed = plan.together.combined(noisy)
    for places in GROUPS[:2]:
        variances = [plan.noise.of_weight(queries[place].get("weight", 1)).variance for place in places]
        weights = np.concatenate([np.full(noisy[i].size, v**-0.5) for i, v in zip(places, variances, strict=True)])
        counted = sums([TABLES[i] for i in places])
        given = np.concatenate([noisy[i] for i in places])
        solved = np.linalg.lstsq(counted * weights[:, None], given * weights, rcond=None)[0]
        assert np.concatenate([agreed[i] for i in places]) == pytest.approx(counted @ solved)
    assert agreed[4].tolist() == noisy[4].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_groups_share_one_beta_and_one_that_is_left_as_it_is_keeps_its_bound(name):
    plan, alone = planned(name, QUERIES, **ON_ANSWERS[name]), planned(name, QUERIES, agree="no")
    workload, beta = plan.counts_asked, float(plan.beta)
    shares = [share_of_beta(group, workload, beta=beta) for group in workload.by_rules]
    assert [each.size for each in workload.by_rules] == [6, 10, 2]
    # More than the union bound leaves each, and no more than all together may have.
    assert all(each > 0.999 * beta * size / 18 for each, size in zip(shares, (6, 10, 2), strict=True))
    assert 1 - beta <= prod(1 - each for each in shares) < 1 - beta * (1 - 1e-6)
    assert plan.events == alone.events
    assert plan.bound.half_widths[4] == alone.bound.half_widths[4]
    narrower = [own < other for own, other in zip(plan.bound.half_widths, alone.bound.half_widths, strict=True)]
    assert any(narrower)
    assert max(plan.bound.half_widths) <= max(alone.bound.half_widths)
    said = mechanism(name).consistency_under(plan.parameters)
    assert said is Consistency.SAME_ROWS_MADE_TO_AGREE


@pytest.mark.parametrize("queries", [QUERIES, WEIGHTED], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_all_answers_are_within_their_intervals_at_once_as_often_as_is_stated(name, queries):
    """At a beta of 0.3, so that what is too narrow shows; an error of the same answers depends on no table."""
    plan = planned(name, queries, agree="yes", rows_counted="own")
    plan = mechanism(name).plan(
        plan.schema, plan.workload, budget=BUDGETS[name], beta=Fraction(3, 10), options=dict(plan.options)
    )
    truth = [np.full(prod(SIZES[name] for name in table), 50.0) for table in TABLES]
    widths, runs, rng = np.array(plan.bound.half_widths), 2000, StreamRandomness(b"coverage")
    off, exact = np.zeros((runs, len(TABLES))), plan.together.combined(truth)
    for run in range(runs):
        released = plan.together.combined(drawn_of(plan, rng, truth))
        off[run] = [np.abs(each - true).max() for each, true in zip(released, exact, strict=True)]
    held = (off <= widths).all(axis=1).mean()
    # Five deviations of 2,000 runs are 0.052.
    assert held > 0.7 - 0.052
    assert (off <= 0.6 * widths).all(axis=1).mean() < 0.7 - 0.052


@pytest.mark.parametrize("name", NAMES)
def test_of_tables_with_equal_parts_of_beta_none_is_wider_for_agreeing_and_each_keeps_to_its_part(name):
    """At a beta of 0.3 for five tables; five deviations of 2,000 runs are 0.027."""
    given = {"confidence": "tables", "rows_counted": "own", **ON_ANSWERS[name]}
    plan, alone = (
        mechanism(name).plan(
            made.schema, made.workload, budget=BUDGETS[name], beta=Fraction(3, 10), options=dict(made.options)
        )
        for made in (planned(name, QUERIES, **given), planned(name, QUERIES, **given, agree="no"))
    )
    assert isinstance(plan.together, SquaresByRules)
    widths = np.array(plan.bound.half_widths)
    assert (widths <= alone.bound.half_widths).all()
    assert widths.sum() < sum(alone.bound.half_widths)
    truth = [np.full(prod(SIZES[name] for name in table), 50.0) for table in TABLES]
    off, rng = np.zeros((2000, len(TABLES))), StreamRandomness(b"each table")
    exact = plan.together.combined(truth)
    for run in off:
        released = plan.together.combined(drawn_of(plan, rng, truth))
        run[:] = [np.abs(each - true).max() for each, true in zip(released, exact, strict=True)]
    assert (off > widths).mean(axis=0).max() < 0.06 + 0.027


def drawn_of(plan, rng, truth):
    exact = np.concatenate(truth)
    noisy = plan.counts_asked.split(exact + noise_on(plan.counts_asked, plan.noise, rng))
    return [each.astype(float) for each in noisy]


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_persons_agree_each_among_themselves(name):
    caught = {"type": "categorical", "categories": ["a", "b"], "outside": "b"}
    columns = [{"name": each, **caught} for each in ("ward", "city")]
    columns += [{"name": "usual", **caught, "formula": "most_frequent_per_person(ward)"}]
    columns += [{"name": "some", **caught, "formula": 'if(any_per_person(city = "a"), "a", "b")'}]
    queries = [{"marginal": names} for names in (["ward"], ["usual", "some"], ["ward", "city"], ["some"])]
    plan = planned_of_both(name, queries, schema_of(columns=columns), agree="yes", rows_counted="own")
    assert isinstance(plan.together, SquaresByRules)
    truth = [np.full(size, 120.0 / size) for size in (2, 4, 4, 2)]
    agreed = plan.together.combined(drawn_of(plan, StreamRandomness(b"both"), truth))
    assert agreed[0] == pytest.approx(agreed[2].reshape(2, 2).sum(axis=1))
    assert agreed[3] == pytest.approx(agreed[1].reshape(2, 2).sum(axis=0))
    assert agreed[0].sum() != pytest.approx(agreed[3].sum())
    assert plan_from_json(plan.to_json()) == plan


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_that_was_stored_before_there_were_groups_is_run_as_it_was_planned(name):
    before = planned(name, QUERIES, agree="no").to_json()
    before["options"]["agree"] = None
    again = plan_from_json(before)
    assert again.together is None
    assert again.to_json()["planned"] == before["planned"]
    now = planned(name, QUERIES)
    assert now.to_json()["planned"] != before["planned"]
    assert plan_from_json(now.to_json()) == now


def test_where_no_two_tables_count_the_same_rows_nothing_can_agree():
    queries = [{"marginal": ["sex"]}, {"marginal": ["town"]}, {"marginal": ["ill"]}]
    assert "No two of these tables" in planned("laplace-queries", queries, agree="yes", rows_counted="own").infeasible
    left = planned("laplace-queries", queries)
    assert left.together is None
    assert replace(left, options={}) == replace(planned("laplace-queries", queries, agree="no"), options={})


def test_the_numbers_of_rows_that_are_said_are_those_of_the_answers_that_agree():
    plan = planned("laplace-queries", QUERIES)
    counts = Histogram(universe=plan.schema.universe, counts=np.full((2, 1, 4, 2), 1000))
    result = plan.run(counts, rng=StreamRandomness(b"said"))
    totals = [float(round(each.sum())) for each in result.estimates]
    assert totals[0] == totals[2]
    assert totals[1] == totals[3]
    assert result.notes == {"noisy numbers of rows in tables": [min(totals), max(totals)]}


#: Of the rows that the rules of none, of the first, and of the first two of these columns keep.
WIDE, RULED = (3, 2, 2, 3, 2, 2), {"w0", "w1"}


def planned_of_wide(neighbours="add_remove", rows=1, beta=Fraction(1, 20), **options):
    columns = [
        {"name": f"w{i}", "type": "categorical", "categories": [f"v{j}" for j in range(size)]}
        | ({} if f"w{i}" in RULED else {"outside": "v0"})
        for i, size in enumerate(WIDE)
    ]
    schema = own_schema_of(neighbours, rows, columns)
    question = read_question({"version": 1, "queries": [{"marginals": 2}]}, schema.universe)
    budget = BUDGETS["laplace-queries"]
    return mechanism("laplace-queries").plan(schema, question, budget=budget, beta=beta, options=options)


def test_each_group_of_tables_that_count_the_same_rows_is_put_together_from_larger_ones_of_its_own():
    plan, asked = planned_of_wide(measured="larger"), planned_of_wide(measured="asked")
    tables = plan.tables.marginals
    assert len(tables) < len(plan.workload.marginals) == 15
    for names in plan.workload.marginals:
        assert any(set(names) <= set(table) and RULED & set(names) == RULED & set(table) for table in tables)
    # What noise is on has to have the rows of what is asked for: each answer is their sum where nothing is added.
    counts = np.random.default_rng(3).integers(0, 60, [size + (f"w{i}" in RULED) for i, size in enumerate(WIDE)])
    truths = [own_table(counts, names) for names in plan.workload.marginals]
    found = plan.together.combined([own_table(counts, names) for names in tables])
    for one, other in zip(found, truths, strict=True):
        assert one == pytest.approx(other)
    assert plan.bound.alpha < asked.bound.alpha
    assert planned_of_wide().bound == plan.bound
    assert mechanism(plan.mechanism).consistency_under(plan.parameters) is Consistency.SAME_ROWS_MADE_TO_AGREE
    assert plan_from_json(plan.to_json()) == plan
    for before in ({"measured": "asked"}, {"agree": "no"}):
        was = planned_of_wide(**before)
        stored = planned_of_wide().to_json() | {"planned": was.to_json()["planned"]}
        assert plan_from_json(stored).bound == was.bound


def own_table(counts, names):
    """Of a table with a place for what its rules leave out, last: what the rules of these columns alone keep."""
    columns = [f"w{i}" for i in range(len(WIDE))]
    kept = counts[tuple(slice(0, size) if n in names else slice(None) for n, size in zip(columns, WIDE, strict=True))]
    return kept.sum(axis=tuple(i for i, n in enumerate(columns) if n not in names)).reshape(-1).astype(float)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_noise_on_larger_tables_of_several_groups_is_made_for_what_a_unit_changes_in_all_of_them(neighbours, rows):
    """Over all rows, also those that some rules leave out; of so many each is changed alike."""
    plan = planned_of_wide(neighbours, rows, measured="larger")
    weights = dict(zip(plan.tables.marginals, plan.tables.weights, strict=True))

    def counted(row):
        return {
            (names, tuple(row[int(name[1])] for name in names))
            for names in weights
            if all(row[int(name[1])] is not None for name in names)
        }

    there = [
        counted(row)
        for row in product(*([*range(size), *([None] if f"w{i}" in RULED else [])] for i, size in enumerate(WIDE)))
    ]
    others = [set()] if neighbours == "add_remove" else there
    most = max(sum(weights[names] for names, _ in one ^ other) for one in there for other in others)
    assert len(set(weights.values())) > 1
    assert plan.noise.l1_sensitivity == rows * most
    assert plan.noise.of_weight(3).scale == Fraction(rows * most, 3) / BUDGETS["laplace-queries"].epsilon


@pytest.mark.parametrize("confidence", ["answers", "tables"])
def test_answers_of_groups_from_larger_tables_are_within_their_intervals_as_often_as_is_stated(confidence):
    """At a beta of 0.3 of 2,000 runs, with five deviations: 0.052 of all answers, and 0.016 of one of 15 tables."""
    plan = planned_of_wide(beta=Fraction(3, 10), measured="larger", confidence=confidence)
    truth = [np.full(each.cells(plan.tables.universe), 50.0) for each in plan.tables.families]
    exact, rng = plan.together.combined(truth), StreamRandomness(b"larger by rules")
    off, weights = np.zeros((2000, 15)), plan.tables.weights
    for run in off:
        drawn = [
            each + plan.noise.of_weight(weight).draw(each.size, rng)
            for each, weight in zip(truth, weights, strict=True)
        ]
        found = plan.together.combined(drawn)
        run[:] = [np.abs(each - true).max() for each, true in zip(found, exact, strict=True)]
    widths = np.array(plan.bound.half_widths)
    if confidence == "answers":
        assert (off <= widths).all(axis=1).mean() > 0.7 - 0.052
        assert (off <= 0.6 * widths).all(axis=1).mean() < 0.7 - 0.052
    else:
        assert (off > widths).mean(axis=0).max() < 0.02 + 0.016


def test_a_larger_table_that_leaves_out_other_rows_than_the_answers_is_refused():
    plan = planned_of_wide(measured="larger")
    kept = next(each for each in plan.groups if not RULED & set(each.workload.columns))
    ruled = next(each for each in plan.groups if RULED & set(each.workload.columns))
    with pytest.raises(InvalidInput, match="different rows"):
        replace(kept, measured=ruled.measured, variances=ruled.variances)
