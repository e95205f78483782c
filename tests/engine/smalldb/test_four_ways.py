"""Four ways of releasing many counts: their bounds against independent arithmetic, simulation and real plans."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import ceil, lgamma, log

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.bounds import theory
from releases.engine.bounds.theory import Axis, Numbers, Way, alpha, bounds, crossings, log_multisets, stretches
from releases.engine.domain.privacy import NeighbouringRelation, privacy_budget
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanism
from releases.engine.workload.queries import Workload

#: The sample's, and those of the theory's own example.
SAMPLE = Numbers(
    neighbours=NeighbouringRelation.REPLACE,
    rows=8_802,
    cells=290_304,
    queries=733,
    changed=110,
    epsilon=Fraction(1),
    delta=Fraction(1, 10**6),
    beta=Fraction(1, 20),
)
PRIVATE = replace(SAMPLE, neighbours=NeighbouringRelation.ADD_REMOVE, changed=55)
LARGE = replace(SAMPLE, rows=200_000, cells=256, queries=2_000, changed=2_000)


def by_way(numbers, *, is_pure):
    return {each.way: each for each in bounds(numbers) if each.is_pure == is_pure}


@cache
def rho(numbers):
    """The largest rho of (epsilon, delta), from the conversion's own formula in 40 digits."""
    with mpmath.workdps(40):
        epsilon, delta = (mpmath.mpf(each.numerator) / each.denominator for each in (numbers.epsilon, numbers.delta))

        def converted(rho, a):
            return mpmath.exp((a - 1) * (a * rho - epsilon) + (a - 1) * mpmath.log(1 - 1 / a)) / a

        low, high = mpmath.mpf(0), epsilon
        for _ in range(40):
            middle = (low + high) / 2
            orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(step) / 100) for step in range(0, 300, 2)]
            best = min(converted(middle, a) for a in orders)
            low, high = (middle, high) if best <= delta else (low, middle)
        return low


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE])
def test_laplace_on_each_answer_is_the_exact_quantile_below_the_theorem(numbers):
    found = by_way(numbers, is_pure=True)[Way.QUERIES]
    with mpmath.workdps(30):
        scale = mpmath.mpf(numbers.changed)
        tail = lambda m: 2 * mpmath.exp(-(m + 1) / scale) / (1 + mpmath.exp(-1 / scale))  # noqa: E731
        within = lambda m: (1 - tail(m)) ** numbers.queries >= mpmath.mpf("0.95")  # noqa: E731
        assert within(found.alpha)
        assert not within(found.alpha - 1)
        assert found.published == pytest.approx(float(scale * mpmath.log(numbers.queries * 20)))
    assert found.alpha <= ceil(found.published)


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE])
def test_gaussian_on_each_answer_is_the_normal_quantile_and_one(numbers):
    found = by_way(numbers, is_pure=False)[Way.QUERIES]
    with mpmath.workdps(30):
        sigma = mpmath.sqrt(numbers.changed / (2 * rho(numbers)))
        z = (found.alpha - 1) / sigma
        assert float((1 - mpmath.erfc(z / mpmath.sqrt(2))) ** numbers.queries) == pytest.approx(0.95, abs=1e-4)
    assert found.alpha < found.published


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE, replace(SAMPLE, cells=3, queries=10**9)])
def test_the_histogram_s_bound_is_chernoff_s_at_the_best_point_and_below_the_closed_form(numbers):
    found = by_way(numbers, is_pure=True)[Way.HISTOGRAM]
    with mpmath.workdps(30):
        odds = mpmath.log(2 * numbers.queries * 20)
        width = lambda t: 2 * (odds - numbers.cells * mpmath.log(1 - t * t)) / t  # noqa: E731
        start = mpmath.sqrt(odds / (numbers.cells + odds))
        best = min(
            width(start * mpmath.mpf(10) ** (mpmath.mpf(s) / 200))
            for s in range(-60, 20)
            if start * mpmath.mpf(10) ** (mpmath.mpf(s) / 200) < 1
        )
        assert found.alpha == pytest.approx(float(best), rel=1e-3)
    assert found.alpha <= found.published
    gaussian = by_way(numbers, is_pure=False)[Way.HISTOGRAM]
    assert gaussian.alpha == pytest.approx(float(mpmath.sqrt(2 * numbers.cells * odds / rho(numbers))), rel=1e-3)


@pytest.mark.parametrize("is_pure", [True, False])
@pytest.mark.parametrize("numbers", [SAMPLE, LARGE, PRIVATE])
def test_multiplicative_weights_has_the_least_bound_over_rounds_and_shares(numbers, is_pure):
    found = by_way(numbers, is_pure=is_pure)[Way.WEIGHTS]
    n, beta, epsilon, total_rho, off = numbers.rows, 0.05, 1.0, float(rho(numbers)), 0.0
    if numbers is PRIVATE:
        off = numbers.measured(is_pure=is_pure).off
        n, beta, epsilon, total_rho = n + off, 0.045, 0.95, 0.95 * total_rho
    best = np.inf
    for rounds in {*range(1, 64), *(round(64 * 1.04**step) for step in range(120))}:
        for share in np.linspace(0.04, 0.96, 24):
            if is_pure:
                choice, noise = (
                    share * epsilon / rounds,
                    rounds / ((1 - share) * epsilon) * log(2 * rounds / beta) + 0.5,
                )
            else:
                choice = (8 * share * total_rho / rounds) ** 0.5
                sigma = (rounds / (2 * (1 - share) * total_rho)) ** 0.5
                noise = sigma * (2 * log(2 * rounds / beta)) ** 0.5 + 1
            lost = 2 / choice * (log(numbers.queries) + log(2 * rounds / beta))
            best = min(best, (n * n * log(numbers.cells) / (2 * rounds) + (noise + off) ** 2) ** 0.5 + lost + off)
    assert best <= found.alpha * 1.01
    assert found.alpha <= best * 1.01


def test_the_published_theorem_of_weights_is_worked_out_by_hand():
    # T = 17 of at most 18 = floor(0.05 * 733 / 2): 2 n sqrt(ln|X| / T) + 10 T ln k.
    by_hand = min(2 * 8802 * (log(290_304) / t) ** 0.5 + 10 * t * log(733) for t in range(1, 19))
    assert by_way(SAMPLE, is_pure=True)[Way.WEIGHTS].published == pytest.approx(by_hand)
    assert by_way(replace(SAMPLE, queries=30, changed=30), is_pure=True)[Way.WEIGHTS].published is None


def test_where_the_number_of_rows_is_private_it_is_measured_and_the_histogram_has_half_the_noise():
    for is_pure in (True, False):
        public, private = by_way(SAMPLE, is_pure=is_pure), by_way(PRIVATE, is_pure=is_pure)
        halved = 2 if is_pure else 2**0.5
        assert private[Way.HISTOGRAM].alpha == pytest.approx(public[Way.HISTOGRAM].alpha / halved, rel=1e-6)
        assert public[Way.QUERIES].alpha / halved == pytest.approx(private[Way.QUERIES].alpha, rel=0.02)
        for way in (Way.WEIGHTS, Way.SMALL_DATABASE):
            assert public[way].alpha < private[way].alpha < 1.1 * public[way].alpha
            assert private[way].published is None
    # A twentieth of epsilon 1 is noise of scale 20, and a tenth of beta its tail: 2 r^(o + 1) / (1 + r) <= 1/200.
    off = PRIVATE.measured(is_pure=True).off
    ratio = mpmath.exp(-mpmath.mpf(1) / 20)
    assert 2 * ratio ** (off + 1) / (1 + ratio) <= mpmath.mpf(1) / 200 < 2 * ratio**off / (1 + ratio)
    sigma = (20 / (2 * float(rho(PRIVATE)))) ** 0.5
    assert PRIVATE.measured(is_pure=False).off == pytest.approx(1 + sigma * 2.807034, rel=1e-3)


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE, PRIVATE])
def test_the_small_database_has_the_least_bound_over_its_sizes(numbers):
    found = by_way(numbers, is_pure=True)[Way.SMALL_DATABASE]
    off, beta, epsilon = 0.0, 0.05, 1.0
    if numbers is PRIVATE:
        off, beta, epsilon = numbers.measured(is_pure=True).off, 0.045, 0.95
    by_hand = off + min(
        (numbers.rows + off) * min(numbers.cells / 4 / m, (log(2 * numbers.queries) / (2 * m)) ** 0.5)
        + 2 / epsilon * (lgamma(numbers.cells + m) - lgamma(numbers.cells) - lgamma(m + 1) - log(beta))
        for m in (*range(1, 200), *(round(200 * 1.01**step) for step in range(550)))
    )
    assert found.alpha == pytest.approx(by_hand, rel=0.01)
    if numbers is PRIVATE:
        assert found.published is None
        return
    assert found.alpha <= found.published
    assert found.published == pytest.approx(
        numbers.rows * ((16 * log(numbers.cells) * log(numbers.queries) + 4 * log(20)) / numbers.rows) ** (1 / 3)
    )


def test_the_number_of_small_databases_is_exact_to_many_digits():
    sizes = np.array([1.0, 2.0, 17.0, 5_000.0, 10.0**6])
    for cells in (2, 3, 290_304, 10**15, 10**60):
        with mpmath.workdps(80):
            exact = [
                mpmath.loggamma(cells + m) - mpmath.loggamma(cells) - mpmath.loggamma(m + 1)
                for m in map(mpmath.mpf, sizes)
            ]
        np.testing.assert_allclose(log_multisets(cells, sizes), [float(each) for each in exact], rtol=1e-9)


def test_delta_gives_a_single_choice_nothing_unless_epsilon_is_large():
    for epsilon in ("0.1", "1", "5"):
        numbers = replace(SAMPLE, epsilon=Fraction(epsilon))
        assert alpha(Way.SMALL_DATABASE, numbers, is_pure=False) == alpha(Way.SMALL_DATABASE, numbers, is_pure=True)
    large = replace(SAMPLE, epsilon=Fraction(60))
    assert 8 * large.rho > 0
    assert alpha(Way.SMALL_DATABASE, large, is_pure=False) <= alpha(Way.SMALL_DATABASE, large, is_pure=True)


COLUMNS = [
    {"name": "age", "type": "integer", "edges": list(range(41))},
    {"name": "sex", "type": "categorical", "categories": ["f", "m"], "outside": "f"},
]


def planned(name, queries, *, budget, neighbours="replace", **options):
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": neighbours})
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    plan = mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(1, 20), options=options)
    assert not plan.infeasible, plan.infeasible
    changed = workload.sensitivity(schema).l1
    numbers = Numbers(
        neighbours=schema.neighbours,
        rows=10_000,
        cells=schema.universe.size,
        queries=workload.size,
        changed=changed,
        epsilon=budget.epsilon,
        delta=budget.delta if hasattr(budget, "delta") else Fraction(0),
        beta=Fraction(1, 20),
    )
    return plan, numbers


QUERIES = [[{"prefix": "age"}], [{"marginals": 2}], [{"marginals": 1}, {"prefix": "age"}]]


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_noise_on_each_answer_is_what_the_plans_promise(queries, epsilon):
    plan, numbers = planned("laplace-queries", queries, budget=privacy_budget(epsilon=epsilon))
    assert alpha(Way.QUERIES, numbers, is_pure=True) == plan.bound.alpha
    plan, numbers = planned("gaussian-queries", queries, budget=privacy_budget(epsilon=epsilon, delta="0.000001"))
    assert plan.bound.alpha <= alpha(Way.QUERIES, numbers, is_pure=False) <= plan.bound.alpha + 2


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_noise_on_the_histogram_is_at_least_what_the_plans_promise_and_little_more(epsilon, neighbours):
    whole = [{"count": {"age": {"from": 0, "to": 40}}}, {"count": {"sex": ["f", "m"]}}]
    plan, numbers = planned("laplace-histogram", whole, budget=privacy_budget(epsilon=epsilon), neighbours=neighbours)
    assert plan.bound.alpha <= alpha(Way.HISTOGRAM, numbers, is_pure=True) <= 1.4 * plan.bound.alpha + 1
    both = privacy_budget(epsilon=epsilon, delta="0.000001")
    plan, numbers = planned("gaussian-histogram", whole, budget=both, neighbours=neighbours)
    assert plan.bound.alpha <= alpha(Way.HISTOGRAM, numbers, is_pure=False) <= 1.4 * plan.bound.alpha + 1


def test_the_small_database_is_never_worse_planned_than_in_general():
    """The plan knows the questions' structure and takes as much epsilon; in general nothing is known of it."""
    plan, numbers = planned("smalldb", [{"prefix": "age"}], budget=privacy_budget(epsilon="1"), measure=0)
    assert plan.expectation.alpha <= alpha(Way.SMALL_DATABASE, numbers, is_pure=True)


@given(
    rows=st.integers(2, 10**7),
    cells=st.integers(2, 10**30),
    queries=st.integers(1, 10**7),
    thousandths=st.integers(1, 20_000),
    neighbours=st.sampled_from(NeighbouringRelation),
)
@settings(max_examples=60)
def test_every_bound_falls_with_epsilon_and_grows_with_n_cells_and_queries(
    rows, cells, queries, thousandths, neighbours
):
    numbers = replace(
        SAMPLE,
        neighbours=neighbours,
        rows=rows,
        cells=cells,
        queries=queries,
        changed=queries,
        epsilon=Fraction(thousandths, 1000),
    )
    more = {
        "epsilon": replace(numbers, epsilon=numbers.epsilon * 2),
        "rows": replace(numbers, rows=2 * rows),
        "cells": replace(numbers, cells=2 * cells),
        "queries": replace(numbers, queries=2 * queries, changed=2 * queries),
        "surer": replace(numbers, beta=numbers.beta / 2),
    }
    for is_pure in (True, False):
        for way in Way:
            here = alpha(way, numbers, is_pure=is_pure)
            assert 0 <= here < float("inf")
            # Parameters are searched on a grid, so a hundredth of play is left.
            assert alpha(way, more["epsilon"], is_pure=is_pure) <= here * 1.01
            for name in ("rows", "cells", "queries", "surer"):
                assert alpha(way, more[name], is_pure=is_pure) >= here * 0.99, (way, name)


def test_every_crossing_is_where_the_order_changes():
    for axis in Axis:
        for is_pure in (True, False):
            found = crossings(SAMPLE, axis, is_pure=is_pure)
            assert found
            for each in found:
                step = Fraction(1) if axis is Axis.ROWS else Fraction(str(each.at)) / 500
                place = Fraction(str(each.at))
                before, after = (theory.at(SAMPLE, axis, value) for value in (place - step, place))
                assert alpha(each.before, before, is_pure=is_pure) <= alpha(each.after, before, is_pure=is_pure)
                assert alpha(each.after, after, is_pure=is_pure) <= alpha(each.before, after, is_pure=is_pure)
                assert each.alpha == alpha(each.after, after, is_pure=is_pure)


def test_the_stretches_cover_the_range_and_each_names_the_best():
    for axis in Axis:
        for is_pure in (True, False):
            found = list(stretches(SAMPLE, axis, is_pure=is_pure))
            values = theory.axis_values(axis, SAMPLE)
            assert found[0][1] == float(values[0])
            assert found[-1][2] == float(values[-1])
            assert [each[2] for each in found[:-1]] == [each[1] for each in found[1:]]
            for way, start, end in found:
                for value in values:
                    if start < value < end:
                        assert theory.best(theory.at(SAMPLE, axis, value), is_pure=is_pure).way is way


def test_with_delta_0_there_are_the_pure_forms_alone():
    assert [each.is_pure for each in bounds(replace(SAMPLE, delta=Fraction(0)))] == [True] * 4


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("rows", 0, "must be a whole number from 1 to 1,000,000,000,000"),
        ("rows", True, "must be a whole number"),
        ("rows", "many", "must be a whole number"),
        ("cells", 1, "must be a whole number from 2 to 10^100"),
        ("cells", 10**101, "must be a whole number"),
        ("queries", 10**13, "must be a whole number"),
        ("changed", 734, "must be a whole number from 1 to 733"),
        ("epsilon", Fraction(0), "must be above 0"),
        ("delta", Fraction(1), "below 1"),
        ("beta", Fraction(1), "must be a rational above 0 and below 1"),
    ],
)
def test_numbers_that_break_their_rule_are_refused_by_name(field, value, rule):
    with pytest.raises(InvalidInput) as refused:
        replace(SAMPLE, **{field: value})
    assert refused.value.field == field
    assert rule in str(refused.value)
