"""One contract for every registered mechanism: what a plan is, what a run keeps of it, and that its bound is true."""

import json
from dataclasses import asdict, replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import PureDP, privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.errors import Infeasible, InvalidInput
from releases.engine.mechanisms import answers as made_of_answers
from releases.engine.mechanisms.base import (
    PUBLIC_ALREADY,
    Consistency,
    PlanChanged,
    mechanism,
    mechanisms,
    plan_from_json,
)
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload
from tests.engine import telling
from tests.engine.telling import RELATIONS
from tests.engine.verification.test_statistics_contract import BUDGETS, CASES, UNITS, plan_for, some_rows

#: The mechanisms that answer counts. What those that answer a statistic draw and promise is in
#: test_statistics_contract.py.
NAMES = [name for name, each in mechanisms().items() if not each.answers]
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 10, 20, 30]},
    {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"},
]
QUERIES = [{"marginals": 2}, {"prefix": "age"}, {"count": {"sex": ["f"], "age": {"from": 10}}}]
EVERY_CASE = [pytest.param(name, COLUMNS, QUERIES, id=name) for name in NAMES] + CASES
in_every_case = pytest.mark.parametrize(("name", "columns", "query"), EVERY_CASE)


class Untouchable:
    """Counts that must not be looked at."""

    def __getattribute__(self, name):
        raise AssertionError(f"a plan looked at the data ({name})")


def planned(
    name, neighbours="add_remove", budget=BUDGETS[1], beta=Fraction(1, 20), queries=QUERIES, columns=COLUMNS, **options
):
    return telling.planned(name, columns, queries, neighbours, budget=budget, beta=beta, **options)


def counts_of(plan, seed=3, rows=300):
    universe = plan.schema.universe
    weights = np.random.default_rng(seed).dirichlet(np.full(universe.size, 0.3))
    drawn = np.random.default_rng(seed + 1).multinomial(rows, weights).astype(np.int64)
    return Histogram(universe=universe, counts=drawn.reshape(universe.shape))


def plan_of(name, columns, query, **given):
    """With a budget that it can be run with, if there is one."""
    return planned(name, **given) if name in NAMES else plan_for(name, columns, query, **given)


def table_for(plan, rows=300):
    return counts_of(plan, rows=rows) if plan.mechanism in NAMES else some_rows(plan.schema.universe, rows=rows)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


#: Of each plan, to count how often its bound is left.
RUNS = 100
#: What can be planned at all: (mechanism, relation, budget).
FEASIBLE = [
    pytest.param(
        name, neighbours, budget, id=f"{name}-{neighbours}-{'pure' if isinstance(budget, PureDP) else 'approx'}"
    )
    for name in NAMES
    for neighbours in RELATIONS
    for budget in BUDGETS
    if not planned(name, neighbours, budget).infeasible
]


@pytest.mark.slow
def test_how_values_read_is_counted_without_synthetic_rows(name):
    """They would look like rows of the table."""
    states = [each.state.to_json() for each in Schema.from_json({"version": 1, "columns": COLUMNS}).universe.attributes]
    for budget in BUDGETS:
        plan = planned(name, budget=budget, queries=[{"marginals": 1}], columns=states)
        assert not plan.makes_synthetic_rows
        if not plan.infeasible:
            assert run_release(plan, counts_of(plan), rng=StreamRandomness(b"states")).records is None


def test_every_mechanism_can_be_planned_for_some_budget_under_either_relation():
    assert {(each.values[0], each.values[1]) for each in FEASIBLE} == {(n, r) for n in NAMES for r in RELATIONS}


@in_every_case
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "approx"])
def test_a_plan_costs_at_most_its_budget_or_says_why_it_cannot_be_run(name, columns, query, neighbours, unit, budget):
    plan = plan_of(name, columns, query, neighbours=neighbours, unit=unit, budget=budget)
    if plan.infeasible:
        assert plan.infeasible.endswith(".")
        assert not plan.events
        with pytest.raises(Infeasible):
            plan.run(Untouchable.__new__(Untouchable), rng=StreamRandomness(b"x"))
        return
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    assert price.epsilon is not None
    assert price.epsilon <= budget.epsilon * 10**accountant.EPSILON_PLACES
    assert price.delta <= plan.delta * 10**accountant.DELTA_PLACES


@pytest.mark.parametrize("epsilon", ["0.000000000001", "0.0000001", "0.0001", "100"])
@pytest.mark.parametrize("delta", ["0", "0.000000000000000001", "0.0000001", "0.9"])
def test_the_smallest_and_the_largest_budgets_are_planned_or_refused_in_a_sentence(name, epsilon, delta):
    """Whatever may be typed: a mechanism that raised would take the whole comparison with it."""
    plan = planned(name, budget=privacy_budget(epsilon=epsilon, delta=delta))
    if plan.infeasible:
        assert plan.infeasible.endswith(".")
    else:
        assert accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)


@pytest.mark.parametrize(("name", "neighbours", "budget"), FEASIBLE)
def test_every_plan_shows_the_formula_of_its_bound_and_where_it_is_from(name, neighbours, budget):
    plan = planned(name, neighbours, budget)
    shown = plan.bound or plan.expectation or plan
    assert "alpha" in shown.formula
    assert shown.source


@in_every_case
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_plan_can_be_stored_and_made_again_unless_it_comes_out_differently(name, columns, query, neighbours):
    plan = plan_of(name, columns, query, neighbours=neighbours)
    stored = json.loads(json.dumps(plan.to_json()))
    assert plan_from_json(stored) == plan
    with pytest.raises(PlanChanged):
        plan_from_json({**stored, "version": 99})
    stored["planned"]["events"] = [{"kind": "something else"}]
    with pytest.raises(PlanChanged):
        plan_from_json(stored)


@in_every_case
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("rows", [300, 0], ids=["rows", "empty"])
def test_a_run_gives_every_answer(name, columns, query, neighbours, rows):
    plan = plan_of(name, columns, query, neighbours=neighbours)
    if plan.infeasible:
        return
    steps, table = [], table_for(plan, rows)
    made = run_release(plan, table, rng=StreamRandomness(b"run"), progress=lambda *step: steps.append(step))
    result, universe = made.result, plan.schema.universe
    assert [len(each) for each in result.estimates] == [part.cells(universe) for part in plan.workload.families]
    assert all(np.isfinite(each).all() for each in result.estimates)
    assert len(result.bound.half_widths) == len(plan.workload.families)
    assert result.bound.beta == plan.beta
    assert result.bound.says.endswith(".") or name in NAMES
    # A mechanism that may refuse to answer says so in its notes; its bound is then another.
    if plan.bound is not None and result.notes.get("answered", True):
        assert result.bound == plan.bound
        assert plan.bound.proof is Proof.BEFORE
    if name not in NAMES and plan.workload.statistic.is_choice:
        assert result.chosen or plan.workload.statistic.is_open
    shares = [share for _, share in steps]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)


@pytest.mark.parametrize("query", [{"marginals": 2}, {"marginal": ["sex"]}, {"count": {"sex": ["f"]}}], ids=str)
def test_a_public_number_of_rows_is_released_as_it_is(name, query):
    """The receipt calls it public, and shares and their intervals are taken of it."""
    no_row_is_left_out = {"age": {"missing_as": "no number"}, "sex": {"outside": "m"}, "town": {}}
    columns = [each | no_row_is_left_out[each["name"]] for each in COLUMNS]
    plan = planned(name, "replace", queries=[query], columns=columns)
    assert plan.schema.total_is_public
    if not plan.infeasible:
        assert run_release(plan, counts_of(plan), rng=StreamRandomness(b"public")).result.total == 300


def test_synthetic_rows_lie_in_the_declared_domain_and_are_as_many_as_chosen(name):
    plan = planned(name, rows=77)
    records = run_release(plan, counts_of(plan), rng=StreamRandomness(b"rows")).records
    assert set(records.columns) == {"age", "sex", "town"}
    assert all(len(column) == 77 for column in records.columns.values())
    assert records.columns["age"].min() >= 0
    assert records.columns["age"].max() <= 30
    assert set(records.columns["sex"].tolist()) <= {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "neighbours", "budget"), FEASIBLE)
def test_no_answer_leaves_its_bound_more_often_than_beta_allows(name, neighbours, budget, monkeypatch):
    """At beta 0.2 a true bound fails this test with probability below 1e-5."""
    # Where answers are noised by themselves, no row is fitted to them: that took most of the time.
    monkeypatch.setattr(made_of_answers, "described", lambda *given, **options: (0.0, None))
    beta, runs = Fraction(1, 5), RUNS
    plan = planned(name, neighbours, budget, beta)
    counts = counts_of(plan)
    truth = plan.workload.answer(counts.marginal)
    rng = StreamRandomness(f"coverage {name} {neighbours}".encode())
    left = 0
    for _ in range(runs):
        result = plan.run(counts, rng=rng)
        assert result.bound.beta == beta
        left += any(
            np.abs(np.asarray(estimate) - true).max() > width
            for estimate, true, width in zip(result.estimates, truth, result.bound.half_widths, strict=True)
        )
    assert left <= runs * beta + 5 * sqrt(runs * beta * (1 - beta))


def test_a_question_about_columns_declared_otherwise_is_not_planned():
    """Where it leaves rows out that the schema counts, a row would move the answers further than is paid for."""
    columns = [{"name": "age", "type": "integer", "edges": [0, 50, 100], "missing_as": "no number"}]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "replace"})
    workload = Workload.from_json({"version": 1, "queries": [{"prefix": "age"}]}, schema.universe)
    assert not schema.rows_may_vanish
    budget, beta = privacy_budget(epsilon="1", delta="0"), Fraction(1, 20)
    with pytest.raises(InvalidInput, match="declared otherwise"):
        mechanism("laplace-queries").plan(schema, workload, budget=budget, beta=beta)
    of_its_own = replace(schema, universe=workload.universe)
    assert of_its_own.rows_may_vanish
    assert not mechanism("laplace-queries").plan(of_its_own, workload, budget=budget, beta=beta).infeasible


@in_every_case
def test_a_plan_never_sees_data_and_a_run_is_the_same_with_the_same_randomness(name, columns, query):
    plan = plan_of(name, columns, query)
    with pytest.raises(TypeError):
        mechanism(name).plan(Untouchable(), budget=BUDGETS[0], beta=Fraction(1, 20))
    if plan.infeasible:
        return
    table = table_for(plan)
    first, second = (asdict(plan.run(table, rng=StreamRandomness(b"same"))) for _ in range(2))
    np.testing.assert_equal(first, second)
    # What it says is a function of its arguments alone, whatever was run before.
    again = telling.planned(name, columns, query, budget=plan.budget)
    assert again.to_json() == plan.to_json()


@in_every_case
def test_rows_of_another_universe_are_refused(name, columns, query):
    plan = plan_of(name, columns, query)
    more = [*columns, {"name": "more", "type": "categorical", "categories": ["x", "y"]}]
    with pytest.raises((InvalidInput, Infeasible), match=None if plan.infeasible else "another universe"):
        plan.run(some_rows(telling.schema_of(more).universe), rng=StreamRandomness(b"x"))


@in_every_case
def test_options_and_betas_that_break_their_rule_are_refused_by_name(name, columns, query):
    def refused(field, **given):
        with pytest.raises(InvalidInput, match=field):
            telling.planned(name, columns, query, **given)

    refused("options", colour=3)
    for option in mechanism(name).options:
        refused(f"options.{option.name}", **{option.name: "no such choice"})
    for rows in (0, True) if name in NAMES else ():
        refused("options", rows=rows)
    for beta in (Fraction(0), Fraction(1), 0.05):
        refused("beta", beta=beta)


def test_a_universe_of_a_million_million_cells_is_answered_or_refused_in_one_sentence(name):
    plan = planned(name, columns=telling.integers([100] * 6), queries=[{"marginals": 1}])
    if not plan.infeasible:
        assert name in (
            *("laplace-queries", "laplace-tree", "gaussian-queries", "gaussian-cumulative", "residual-queries"),
            "correlated-queries",
            *("marginal-fit", "mixture-fit", "pmw"),
        )
        return
    assert "1,000,000,000,000" in plan.infeasible
    with pytest.raises(Infeasible):
        plan.run(Untouchable.__new__(Untouchable), rng=StreamRandomness(b"x"))


@pytest.mark.slow
#: In a session it depends on what was asked before.
@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("-online")])
def test_it_says_truly_whether_its_tables_have_the_same_total(name):
    plan = planned(name, queries=[{"marginal": ["age"]}, {"marginal": ["sex"]}, {"marginal": ["town", "sex"]}])
    runs = [plan.run(counts_of(plan), rng=StreamRandomness(b"%d" % seed)) for seed in range(3)]
    totals = np.array([[table.sum() for table in each.estimates] for each in runs])
    # Each table is rounded by itself: by half a row a cell.
    rounding = 6
    says = mechanism(name).consistency_under(plan.parameters)
    pairs = [(0, 1), (0, 2), (1, 2)]
    same = [pair for pair in pairs if np.abs(totals[:, pair[0]] - totals[:, pair[1]]).max() <= rounding]
    if says is Consistency.SAME_ROWS_MADE_TO_AGREE:
        # The column of sex is in both, and leaves rows out.
        assert same == [(1, 2)]
    else:
        assert (same == pairs) is (says is not Consistency.OWN_NOISE)
    is_cut = any(table.min() < 0 for seed in range(20) for table in _of_few(plan, seed).estimates)
    assert is_cut is (says is not Consistency.ONE_TABLE)


def _of_few(plan, seed):
    """A run on a table of three rows, whose noise is larger than its counts."""
    return plan.run(counts_of(plan, rows=3), rng=StreamRandomness(b"%d" % seed))


TOWN = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"}
SAME = {"name": "same", "type": "categorical", "categories": ["x"], "outside": "x"}
EVERYBODY = {"count": {"town": ["a", "b", "c"]}}

PUBLIC_COUNTS = [
    [EVERYBODY],
    [{"marginal": ["same"]}],
    [{"prefix": "same"}, {"count": {"town": ["a", "b", "c"], "same": ["x"]}, "weight": 5}],
]
#: Of statistics, those that can come to the number of rows alone.
PUBLIC_STATISTICS = [
    {"largest_count": [EVERYBODY["count"], {"same": ["x"]}]},
    {"threshold": {"counts": [EVERYBODY["count"]], "above": 3}},
    {"votes": {"columns": ["same"], "category": "x"}},
    {
        "largest_error": {
            "workload": {"version": 1, "queries": [EVERYBODY]},
            "released": {"synthetic rows": {"numbers": [[6]]}},
        }
    },
]


def asked_of_towns(name, queries, *, delta="0.00001"):
    budget = privacy_budget(epsilon="1", delta=delta)
    return telling.planned(name, [TOWN, SAME], queries, "replace", budget=budget)


@pytest.mark.parametrize("queries", PUBLIC_COUNTS)
def test_every_mechanism_for_counts_refuses_counts_that_are_public(name, queries):
    for delta in ("0", "0.00001"):
        assert asked_of_towns(name, queries, delta=delta).infeasible == PUBLIC_ALREADY


@pytest.mark.parametrize("query", PUBLIC_STATISTICS, ids=lambda query: next(iter(query)))
def test_so_does_every_mechanism_for_statistics_of_counts_that_are_public(query):
    refused = {name: asked_of_towns(name, [query]).infeasible for name in mechanisms() if name not in NAMES}
    answering = {name: said for name, said in refused.items() if not said.startswith("It answers")}
    assert answering
    assert set(answering.values()) == {PUBLIC_ALREADY}


def test_public_counts_among_others_are_answered(name):
    queries = [{**EVERYBODY, "weight": 7}, {"prefix": "town"}, {"marginal": ["same"]}, {"marginal": ["town"]}]
    plan = asked_of_towns(name, queries)
    assert plan.infeasible == ""
    bound = plan.bound or plan.expectation
    # A net says how close it is only once it is released.
    assert (bound is None) == (name == "smalldb-net")
    # By residuals what is public is told as it is, within 0.
    lowest = 0 if name in ("residual-queries", "listed-online") else 1e-9
    assert bound is None or all(lowest <= width < float("inf") for width in bound.half_widths)
    result = plan.run(telling.table(plan, [(0, 0), (1, 0), (2, 0)]), rng=StreamRandomness(name.encode()))
    assert [each.size for each in result.estimates] == [1, 3, 1, 3]
    assert all(np.isfinite(each).all() for each in result.estimates)
