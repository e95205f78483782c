"""Sessions that buy a fit: what all of it costs, what it answers for nothing, and that measured bounds hold."""

from fractions import Fraction
from functools import partial
from itertools import product
from math import prod, sqrt

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms.additive_noise import GaussianNoise
from releases.engine.mechanisms.live.fitted import largest_sum
from releases.engine.mechanisms.live.noise import PARTS
from releases.engine.mechanisms.pmw.session import AnswerKind, SessionOver
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Count
from tests.engine.mechanisms.live.test_live_listed import ALL_SUMS, COLUMNS, FITTED, PAIRS, SHAPE, truth_of
from tests.engine.mechanisms.live.test_live_listed import opened as opened_list
from tests.engine.mechanisms.live.test_live_listed import plan_for as plan_for_list
from tests.engine.mechanisms.live.test_live_noise import APPROX, BUDGETS, PURE, drawn
from tests.engine.mechanisms.test_pmw_online import Forbidden
from tests.engine.telling import PERSON, RELATIONS, planned, schema_of, some_counts

__all__ = ["drawn"]
plan_for, opened = partial(plan_for_list, name=FITTED), partial(opened_list, name=FITTED)
WHOLE = Count(attributes=("c0", "c1", "c2"), bins=((0,), (0,), (0,)))


@BUDGETS
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_the_fit_and_all_later_answers_together_cost_what_was_charged(budget, neighbours, unit, drawn):
    plan, session, truth, rng = opened(budget, questions=1000, neighbours=neighbours, unit=unit, population=10**6)
    for bins in list(product((0, 1, 2, 3), (0, 1, 2), (0, 1)))[:20]:
        asked = Count(attributes=("c0", "c1", "c2"), bins=tuple((each,) for each in bins))
        session.ask(asked, truth, rng=rng)
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    most = budget.epsilon * 10**accountant.EPSILON_PLACES
    assert 0.999 * most <= price.epsilon <= most
    # What was drawn, each by its own price: a table moves twice as far where rows replace one another.
    spent = sum(
        each.epsilon
        if budget is PURE
        else each.rho
        if isinstance(each, GaussianNoise)
        else accountant.forms(each.event).rho
        for each in drawn
    )
    assert any(isinstance(each, GaussianNoise) for each in drawn) == (budget is APPROX)
    priced = plan.events[-1].epsilon if budget is PURE else plan.events[-1].rho
    whole = Fraction(most if budget is PURE else price.rho, 10**accountant.EPSILON_PLACES)
    whole -= priced * Fraction(session.parts_left, PARTS)
    assert 0 < session.parts_left < PARTS
    assert 0.999 * whole < spent <= whole * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_largest_error_of_a_sum_is_that_over_all_sums_and_moves_by_no_more_than_a_unit_has_rows(rows, neighbours):
    workload = read_question({"version": 1, "queries": PAIRS}, schema_of(COLUMNS).universe)
    rng = np.random.default_rng(5)

    def answers(cells):
        return [cells.sum(axis=left_out).reshape(-1) for left_out in (2, 1, 0)]

    def brute(released, exact):
        """Over every set of cells of every table."""
        found = 0
        for one, other in zip(released, exact, strict=True):
            error = (one - other).tolist()
            sums = {0}
            for each in error:
                sums |= {each + before for before in sums}
            found = max(found, max(sums), -min(sums))
        return found

    moved = set()
    for _ in range(60):
        cells = rng.integers(0, 4, SHAPE)
        released = [each + rng.integers(-3, 4, each.shape) for each in answers(cells)]
        other = cells.copy()
        for _ in range(rows):
            other[tuple(rng.integers(0, size) for size in SHAPE)] += 1
            if neighbours == "replace":
                full = np.argwhere(other > 0)
                other[tuple(full[rng.integers(0, len(full))])] -= 1
        before = largest_sum(workload, released, answers(cells))
        assert before == brute(released, answers(cells))
        moved.add(abs(before - largest_sum(workload, released, answers(other))))
    assert max(moved) == rows


@BUDGETS
def test_what_the_fit_knows_as_closely_as_is_needed_is_answered_without_the_rows(budget):
    plan, session, _, rng = opened(budget, questions=200)
    largest, largest_sum_of_all = session.bought[-2:]
    asked = Count(attributes=("c0", "c1"), bins=((1, 3), (0, 2)))
    answer = session.ask(asked, Forbidden(), rng=rng, within=10**6)
    table = session.bought[:12].reshape(4, 3)
    assert answer.kind is AnswerKind.PUBLIC
    assert answer.estimate == sum(table[i, j] for i in (1, 3) for j in (0, 2))
    assert answer.half_width == min(4 * largest, largest_sum_of_all)
    one = session.ask(Count(attributes=("c0", "c1"), bins=((0,), (0,))), Forbidden(), rng=rng)
    assert one.half_width == min(largest, largest_sum_of_all) <= plan.rules.paid_half_width
    assert (session.parts_left, session.questions_left) == (PARTS, 200)
    # Before it is opened nothing is known of it, and what is said is what a measured answer is within.
    assert plan.half_width_of(one.query) == plan.rules.half_width == plan.rules.paid_half_width
    assert plan.opened(session.bought).half_width_of(one.query) == one.half_width
    assert plan.expected_error(one.query) is None
    assert plan.expected_error(WHOLE) > 0


@BUDGETS
def test_what_the_fit_does_not_know_as_closely_is_measured_and_nothing_else(budget):
    _, session, truth, rng = opened(budget, questions=3)
    asked = Count(attributes=("c0", "c1"), bins=((0,), (0,)))
    bought = session.ask(asked, Forbidden(), rng=rng, within=10**6)
    assert session.price(asked, int(bought.half_width)).parts == 0
    closer = int(bought.half_width) - 1
    price = session.price(asked, closer)
    answer = session.ask(asked, truth, rng=rng, within=closer)
    assert answer.kind is AnswerKind.MEASURED
    assert answer.parts == price.parts > 0
    assert answer.half_width <= closer
    # What the list does not hold, and what is left when no answer with a price is.
    assert session.ask(WHOLE, truth, rng=rng, within=5000).kind is AnswerKind.MEASURED
    session.ask(Count(attributes=("c0", "c1", "c2"), bins=((1,), (0,), (0,))), truth, rng=rng, within=5000)
    with pytest.raises(SessionOver, match="bought at the start"):
        session.ask(Count(attributes=("c0", "c1", "c2"), bins=((2,), (0,), (0,))), Forbidden(), rng=rng)
    assert session.ask(Count(attributes=("c1",), bins=((0,),)), Forbidden(), rng=rng, within=10**6).parts == 0
    assert not session.is_used_up


@pytest.mark.parametrize("population", [1, 10**6], ids=["mixture", "marginals"])
@BUDGETS
def test_all_sums_of_a_fit_keep_what_was_measured_at_once(budget, population):
    """60 sessions at beta 0.8, so that a fifth is for the answers and a fifth for sums: fails below 1e-6 each. Without
    what is added for the noise on the measured errors, half of them are left."""
    beta, runs = Fraction(4, 5), 60
    plan = plan_for(budget, beta=beta, questions=1, population=population)
    assert plan.start.plan.mechanism == ("mixture-fit" if population == 1 else "marginal-fit")
    held = some_counts(plan.schema.universe, 100)
    exact = np.array([truth_of(query, held.counts) for query in ALL_SUMS])
    cells = np.array([prod(map(len, query.bins)) for query in ALL_SUMS])
    left = left_by_one = left_by_sums = short = 0
    for number in range(runs):
        session = plan.open(held, rng=StreamRandomness(b"sums %d" % number))
        widths = np.array([session.start.width_of(query) for query in ALL_SUMS])
        found = np.array([session.start.estimate(query, session.bought) for query in ALL_SUMS])
        left += bool((np.abs(found - exact) > widths).any())
        truths = [held.counts.sum(axis=axis).reshape(-1) for axis in (2, 1, 0)]
        errors = [one - other for one, other in zip(session.start.answers(session.bought), truths, strict=True)]
        one = max(np.abs(each).max() for each in errors)
        together = max(each[each * sign > 0].sum() * sign for each in errors for sign in (1, -1))
        left_by_one += one > session.bought[-2]
        left_by_sums += together > session.bought[-1]
        short += together > session.bought[-1] - plan.start.sums.tail
        # A single cell is a sum of one, and what is said of sums is said of it.
        assert (widths[cells == 1] <= session.bought[-1]).all()
    share = float(beta) / 4
    most = runs * share + 5 * sqrt(runs * share * (1 - share))
    assert max(left_by_one, left_by_sums) <= most < runs
    assert left <= runs * 2 * share + 5 * sqrt(runs * 2 * share * (1 - 2 * share))
    assert short > left_by_sums


def test_a_listed_count_is_within_the_largest_error_alone():
    count = {"count": {"c0": ["v0", "v2"], "c1": ["v1"]}}
    _, session, _, rng = opened(asked=[count])
    answer = session.ask(Count(attributes=("c0", "c1"), bins=((0, 2), (1,))), Forbidden(), rng=rng, within=10**6)
    assert (answer.estimate, answer.half_width) == (session.bought[0], session.bought[-2])
    assert session.start.width_of(Count(attributes=("c0", "c1"), bins=((0,), (1,)))) is None


def test_too_little_to_spend_is_refused():
    little = ApproxDP(epsilon=Fraction(1, 10**11), delta=Fraction(1, 10**9))
    assert planned(FITTED, COLUMNS, PAIRS, budget=little).infeasible
