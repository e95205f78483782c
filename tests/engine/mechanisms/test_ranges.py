"""A column's range by two draws on ranks: exact privacy on small neighbours, exact bounds, draws as planned.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting import accountant
from releases.engine.accounting.events import ExponentialMechanismEvent, RepeatedEvent
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms import quantiles
from releases.engine.mechanisms.quantiles import rank_sensitivity
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.recording import record, with_noise_scaled
from releases.engine.verification.truths import both_ends_are_near
from releases.engine.workload.parsing import read_question
from tests.engine.goodness import law_of, p_value
from tests.engine.mechanisms.test_quantiles import law
from tests.engine.telling import (
    FALSE_ALARM,
    PERSON,
    RELATIONS,
    all_neighbours,
    epsilon_proved,
    log_ratios,
    neighbouring_rows,
    planned,
    table,
)

GRADE = [{"name": "grade", "type": "integer", "edges": [0, 4]}]
WIDE = [{"name": "income", "type": "number", "edges": [0, 10_000_000], "decimals": 2}]
INSIDE = ["0.02", "0.5", "0.98"]
both = pytest.mark.parametrize("neighbours", RELATIONS)


def asked(inside="0.5", column="grade"):
    return {"range": {"column": column, "inside": inside}}


def joint_law(plan, rows):
    """The probability of every pair of a lower and an upper end, by the definition of the two draws."""
    rate = float(plan.epsilon / (2 * plan.sensitivity))
    low, high = (law(rows, at, rate) for at in plan.workload.statistic.ends)
    pairs = np.outer(low, high)
    return np.triu(pairs) + np.tril(pairs, -1).T


# Privacy


@both
@pytest.mark.parametrize("inside", INSIDE)
def test_both_ends_together_keep_the_claim_for_neighbouring_tables(neighbours, inside):
    there = np.triu_indices(5)

    def worst_loss(epsilon):
        plan = planned("exponential-range", GRADE, asked(inside), neighbours, epsilon=epsilon)
        laws = {}
        for rows in {tuple(sorted(each)) for pair in pairs for each in pair}:
            laws[rows] = joint_law(plan, rows)[there]
        return max(
            np.abs(log_ratios(laws[tuple(sorted(one))], laws[tuple(sorted(other))])).max() for one, other in pairs
        )

    pairs = list(all_neighbours(range(5), most_rows=4, neighbours=neighbours))
    assert worst_loss(2) <= 2
    if inside == "0.02":  # there nearly all of it is spent, so that half of the noise breaks the claim
        assert worst_loss(4) > 2


@both
def test_a_run_has_the_law_of_its_plan_and_not_that_of_another_epsilon(neighbours):
    plan = planned("exponential-range", GRADE, asked(), neighbours, epsilon=3)
    rows, rng = [0, 0, 1, 3, 3, 3, 4], StreamRandomness(b"law of ranges")
    counts = table(plan, [(x,) for x in rows])

    def drawn():
        low, high = plan.run(counts, rng=rng).chosen
        return 5 * int(low) + int(high)

    seen = law_of(drawn, 25, 4000)
    right = joint_law(plan, rows)
    there = right.reshape(-1) > 0
    assert seen[~there].sum() == 0
    assert p_value(seen[there], right.reshape(-1)[there]) > FALSE_ALARM
    for factor in (Fraction(1, 2), 2):
        wrong = planned("exponential-range", GRADE, asked(), neighbours, epsilon=3 * factor)
        assert p_value(seen[there], joint_law(wrong, rows).reshape(-1)[there]) < FALSE_ALARM


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_neighbours_get_the_same_two_draws_and_scores_within_the_sensitivity(neighbours, unit):
    plan = planned("exponential-range", GRADE, asked("0.8"), neighbours, unit=unit)
    row = st.tuples(st.integers(0, 4))

    @settings(max_examples=40, derandomize=True)
    @given(neighbouring_rows(row, neighbours=neighbours, unit_rows=2 if unit else 1), st.binary(max_size=3))
    def same(pair, seed):
        one, other = (record(lambda rng, rows=rows: plan.run(table(plan, rows), rng=rng), seed=seed) for rows in pair)
        assert one.flow == other.flow
        draws = [draw for draw in one.draws if draw.sampler == "exponential_mechanism"]
        assert len(draws) == 2
        for place, draw in enumerate(draws):
            told = dict(draw.parameters)
            assert told["epsilon"] == plan.epsilon == Fraction(1, 2)
            assert told["sensitivity"] == plan.sensitivity == rank_sensitivity(plan.schema, Fraction(1, 10))
            change = np.abs(one.private[place] - other.private[place]).max()
            assert change <= told["sensitivity"] * told["denominator"]

    same()


@both
def test_on_a_wide_range_neighbours_ask_for_the_same_random_words(neighbours):
    plan = planned("exponential-range", WIDE, asked("0.98", "income"), neighbours)
    rows = [(x * 1000,) for x in range(50)]
    runs = [rows, rows[:-1], [*rows[:-1], (700_000_000,)], []]
    made = [record(lambda rng, each=each: plan.run(table(plan, each), rng=rng), seed=b"wide") for each in runs]
    assert all(each.words == made[0].words for each in made)


@both
def test_runs_on_neighbours_prove_no_more_than_the_claim_and_less_noise_is_caught(neighbours):
    columns = [{"name": "x", "type": "integer", "edges": [0, 2]}]
    plan = planned("exponential-range", columns, asked("0.02", "x"), neighbours, epsilon=2)
    ends = [(0,)] * 3 + [(2,)] * 3
    pair = ([*ends, (1,)], ends) if neighbours == "add_remove" else ([(0,), (1,), (0,)], [(0,), (1,), (2,)])
    assert epsilon_proved(plan, *pair, runs=1000, seed="right range") <= 2
    with with_noise_scaled(Fraction(1, 10)):
        assert epsilon_proved(plan, *pair, runs=1000, seed="wrong range") > 2


def test_two_draws_are_priced_and_cost_exactly_the_budget():
    plan = planned("exponential-range", WIDE, asked("0.98", "income"), epsilon="0.3")
    assert plan.events == (RepeatedEvent(event=ExponentialMechanismEvent(epsilon=Fraction(3, 20)), times=2),)
    price = accountant.price(plan.events, delta=Fraction(0))
    assert price.pure_epsilon == Fraction(3, 10) * 10**accountant.EPSILON_PLACES


def test_a_large_delta_is_made_use_of():
    budget = ApproxDP(epsilon=Fraction(1, 10), delta=Fraction(1, 100))
    plan = planned("exponential-range", WIDE, asked("0.98", "income"), budget=budget)
    price = accountant.price(plan.events, delta=budget.delta)
    spent = Fraction(price.epsilon, 10**accountant.EPSILON_PLACES)
    assert budget.epsilon * Fraction(999, 1000) <= spent <= budget.epsilon
    assert plan.bound.alpha < planned("exponential-range", WIDE, asked("0.98", "income"), epsilon="1/10").bound.alpha


# What is drawn


def test_draws_that_cross_are_put_in_order(monkeypatch):
    plan = planned("exponential-range", GRADE, asked(), epsilon="1/100")
    drawn, draw = [], quantiles.draw_value
    monkeypatch.setattr(
        quantiles, "draw_value", lambda *args, **kwargs: drawn.append(draw(*args, **kwargs)) or drawn[-1]
    )
    counts, crossed = table(plan, [(1,), (2,)]), 0
    for index in range(60):
        result = plan.run(counts, rng=StreamRandomness(b"crossed %d" % index))
        first, second = drawn[-2:]
        crossed += first > second
        assert result.chosen == tuple(str(end) for end in sorted((first, second)))
        assert result.estimates[0].tolist() == [float(end) for end in sorted((first, second))]
        assert result.notes == {"lowest": result.chosen[0], "highest": result.chosen[1]}
    assert crossed > 5


def test_an_end_is_a_fixed_point_of_the_declared_range_whatever_the_rows():
    plan = planned("exponential-range", WIDE, asked("0.98", "income"))
    for rows in ([], [(0,)], [(1_000_000_000,)] * 50):
        result = plan.run(table(plan, rows), rng=StreamRandomness(b"fixed"))
        for text, value in zip(result.chosen, result.estimates[0], strict=True):
            assert float(text) == value
            assert 0 <= value <= 10_000_000
            assert len(text.partition(".")[2]) <= 2


def test_incomes_of_a_thousand_rows_are_found_within_a_range_of_a_billion_values():
    """Between 20,000 and 60,000 of 0 to 10,000,000: the ends are within the bound's rows of the true ones."""
    plan = planned("exponential-range", WIDE, asked("0.9", "income"), epsilon=2)
    assert plan.bound.alpha < 50
    counts = table(plan, [(100 * (20_000 + 40 * i),) for i in range(1000)])
    low, high = plan.run(counts, rng=StreamRandomness(b"incomes")).estimates[0]
    assert abs(low - 22_000) <= 50 * 40
    assert abs(high - 58_000) <= 50 * 40


# The bound


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.integers(0, 4), max_size=20), st.sampled_from(INSIDE), st.sampled_from(RELATIONS))
def test_no_table_misses_either_rank_more_often_than_the_bound_says(rows, inside, neighbours):
    """The exact law of both ends, in order, so crossed draws are among them."""
    plan = planned("exponential-range", GRADE, asked(inside), neighbours, beta="1/10")
    assert plan.bound.proof is Proof.BEFORE
    alpha, n = Fraction(plan.bound.alpha), len(rows)

    def is_near(value, at):
        below, up_to = sum(x < value for x in rows), sum(x <= value for x in rows)
        return below <= at * n + alpha and up_to >= at * n - alpha

    near = [[is_near(value, at) for value in range(5)] for at in plan.workload.statistic.ends]
    assert joint_law(plan, rows)[~np.outer(*near)].sum() <= 0.1 + 1e-12


@both
def test_the_bound_holds_as_often_as_it_says_and_with_twice_the_noise_it_does_not(neighbours):
    """1,200 runs on a pile of equal rows, the worst table; a true bound is broken more than 5 deviations too often
    with probability below 1e-6.
    """
    beta, runs = Fraction(1, 5), 1200
    plan = planned("exponential-range", GRADE, asked("0.02"), neighbours, beta=beta)
    pile = int(2 * (Fraction(plan.bound.alpha) + 1))
    counts = table(plan, [(2,)] * pile)
    rows = counts._rows

    def broken(seed):
        rng = StreamRandomness(seed)
        return sum(not both_ends_are_near(plan, plan.run(counts, rng=rng), rows) for _ in range(runs))

    most = runs * beta + 5 * sqrt(runs * beta * (1 - beta))
    assert broken(b"as planned") <= most
    with with_noise_scaled(Fraction(2)):
        assert broken(b"another epsilon") > most


def test_the_bound_is_said_in_rows_at_both_ends():
    plan = planned("exponential-range", WIDE, asked("0.98", "income"), epsilon=1)
    assert plan.bound.says == (
        "at most 1% of the rows and 96.6 rows more lie below the range given, and at most as many above it; at least "
        "1% of the rows less 96.6 rows are at or below its lowest value, and at least as many at or above its highest, "
        "all at once."
    )
    halves = [planned("exponential-range", WIDE, asked("0.98", "income"), epsilon=each) for each in (1, 2)]
    assert halves[0].bound.alpha == pytest.approx(2 * halves[1].bound.alpha, rel=0.01)


# What is asked


def read(value):
    universe = Schema.from_json({"version": 1, "columns": [*GRADE, *WIDE]}).universe
    return read_question({"version": 1, "queries": [{"range": value}]}, universe)


def test_a_range_is_read_and_written_as_it_was_asked():
    question = read({"column": "income", "inside": 0.98})
    assert question.to_json()["queries"] == [{"range": {"column": "income", "inside": "0.98"}}]
    assert question.statistic.ends == (Fraction(1, 100), Fraction(99, 100))
    (part,) = question.families
    assert part.title(question.universe) == "range that holds 98% of income"
    assert list(part.labels(question.universe)) == [("lowest",), ("highest",)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("income", "range: 'income' must be an object with column, inside"),
        ({"column": "wage", "inside": "0.98"}, "range.column: 'wage' must name a declared column"),
        ({"column": "income"}, "range.inside: None must be a number"),
        ({"column": "income", "inside": "1"}, "range.inside: '1' must be above 0 and below 1 (0.98 for 98%)"),
        ({"column": "income", "inside": "0"}, "range.inside: '0' must be above 0 and below 1 (0.98 for 98%)"),
        ({"column": "income", "inside": "all"}, "range.inside: 'all' must be a number"),
        ({"column": "income", "inside": "0.98", "at": 1}, "range: 'at' is not a known field"),
    ],
)
def test_what_is_no_range_is_refused_with_field_value_and_rule(value, message):
    with pytest.raises(InvalidInput) as refused:
        read(value)
    assert message in str(refused.value)


def test_a_share_of_too_many_decimals_is_refused_in_a_sentence():
    assert "at most six decimals" in planned("exponential-range", GRADE, asked("0.1234567")).infeasible
    assert not planned("exponential-range", GRADE, asked("0.999998")).infeasible
