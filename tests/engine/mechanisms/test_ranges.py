"""A column's range by two draws on ranks: exact privacy on small neighbours, exact bounds, draws as planned.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting import accountant
from releases.engine.accounting.events import ExponentialMechanismEvent, RepeatedEvent
from releases.engine.bounds.accuracy import Proof
from releases.engine.mechanisms import quantiles
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.truths import both_ends_are_near
from tests.engine.goodness import law_of, p_value
from tests.engine.mechanisms.test_quantiles import law
from tests.engine.telling import FALSE_ALARM, RELATIONS, all_neighbours, log_ratios, planned, table

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


def test_two_draws_are_priced_and_cost_exactly_the_budget():
    plan = planned("exponential-range", WIDE, asked("0.98", "income"), epsilon="0.3")
    assert plan.events == (RepeatedEvent(event=ExponentialMechanismEvent(epsilon=Fraction(3, 20)), times=2),)
    price = accountant.price(plan.events, delta=Fraction(0))
    assert price.pure_epsilon == Fraction(3, 10) * 10**accountant.EPSILON_PLACES
    assert plan.bound.alpha == pytest.approx(321.7, abs=0.1)


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


def test_the_check_of_a_range_wants_both_ends_near_their_ranks():
    """Of 0 ... 9 the ranks asked for are 2.5 and 7.5, and each may be one row off."""
    plan = planned("exponential-range", [{"name": "x", "type": "integer", "edges": [0, 9]}], asked("0.5", "x"))
    counts = table(plan, [(x,) for x in range(10)])
    result = plan.run(counts, rng=StreamRandomness(b"check"))
    bound = replace(result.bound, half_widths=(1.0,))

    def holds(low, high):
        shown = replace(result, estimates=(np.array([low, high], dtype=float),), bound=bound)
        return both_ends_are_near(plan, shown, counts._rows)

    assert holds(1, 8)
    assert not holds(0, 8)
    assert not holds(4, 8)
    assert not holds(1, 5)
    assert not holds(1, 9)
