"""Filters: nothing past the caps is accepted, no adversary breaks the promise, what was spent and remains is exact."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from releases.engine.accounting.accountant import Price, price
from releases.engine.accounting.composition import FigureUse
from releases.engine.accounting.conversions import epsilon_of_rho, largest_rho
from releases.engine.accounting.events import ApproximateEvent, DiscreteGaussianEvent, PureEvent
from releases.engine.accounting.filters import (
    CLOSED,
    Caps,
    Policy,
    Totals,
    admits,
    amounts,
    remaining,
    report,
    shortfalls,
    times_admitted,
)
from releases.engine.accounting.mixture import ORDERS, weights
from releases.engine.errors import InvalidInput, Unpriceable

MILLIONTH = Fraction(1, 10**6)
E = 10**12
D = 10**18
ZERO = Totals()


def pure(epsilon):
    return price([PureEvent(epsilon=Fraction(epsilon))], delta=Fraction(0))


def gaussian(variance, delta=Fraction(1, 10**7)):
    return price([DiscreteGaussianEvent(noise_variance=Fraction(variance))], delta=Fraction(delta))


def approximate(epsilon, delta):
    return price([ApproximateEvent(epsilon=Fraction(epsilon), delta=Fraction(delta))], delta=Fraction(delta))


def caps(policy=Policy.ZCDP, epsilon=1, delta=MILLIONTH, is_before=False):
    return Caps.of(policy, epsilon=Fraction(epsilon), delta=Fraction(delta), is_before=is_before)


def noise(rho):
    return Price(pure_epsilon=None, epsilon=None, delta=0, rho=round(rho * E), rho_delta=0)


def after(*charges, policy=Policy.ZCDP):
    return Totals.of(amounts(charge, policy=policy) for charge in charges)


def accepted(charge, limits, spent=ZERO, most=10_000):
    """How often the same release is accepted, and what is then spent."""
    count = 0
    while count < most and admits(spent, charge, limits):
        spent, count = spent.plus(amounts(charge, policy=limits.policy)), count + 1
    return count, spent


def test_the_parts_of_delta_add_up_to_no_more_than_the_whole():
    for delta in (Fraction(10, D), Fraction(19, D), Fraction(1, 3), MILLIONTH, Fraction(7, 10**13)):
        limits = caps(delta=delta, is_before=True)
        share = limits.branches[0].limits[1].cap
        conversion = Fraction(limits.delta - 2 * share, D)
        assert conversion + 2 * Fraction(share, D) <= delta
        assert epsilon_of_rho(rho=Fraction(limits.rho, E), delta=conversion) <= 1
        today = caps(delta=delta)
        assert Fraction(today.mixture.delta + 2 * today.branches[0].limits[1].cap, D) <= delta


def test_caps_are_rounded_down_and_the_plain_policies_have_one_branch():
    limits = caps(Policy.APPROX, epsilon=Fraction(1, 3), delta=Fraction(1, 3))
    assert (limits.epsilon, limits.delta) == (333_333_333_333, 333_333_333_333_333_333)
    assert limits.guarantee.epsilon < Fraction(1, 3)
    assert (limits.guarantee.question, limits.guarantee.delta < Fraction(1, 3)) == (FigureUse.FILTER, True)
    for policy, delta, cap in ((Policy.PURE, 0, 0), (Policy.APPROX, MILLIONTH, 10**12)):
        (branch,) = caps(policy, delta=delta).branches
        assert [(limit.column, limit.cap) for limit in branch.limits] == [("spent_epsilon", E), ("spent_delta", cap)]


@pytest.mark.parametrize(
    ("policy", "epsilon", "delta"),
    [
        (Policy.PURE, Fraction(1), MILLIONTH),
        *((Policy.PURE, epsilon, Fraction(0)) for epsilon in map(Fraction, ("0", "-1", "101", "1e-13"))),
        *((Policy.APPROX, Fraction(1), delta) for delta in (Fraction(0), Fraction(1), Fraction(-1, 2), 1e-6)),
        *((Policy.ZCDP, Fraction(1), delta) for delta in (Fraction(0), Fraction(9, D))),
        (Policy.APPROX, 1.0, MILLIONTH),
    ],
)
def test_a_budget_that_the_policy_cannot_hold_is_refused(policy, epsilon, delta):
    with pytest.raises(InvalidInput):
        Caps.of(policy, epsilon=epsilon, delta=delta)


def test_caps_are_stored_as_whole_numbers():
    limits = caps()
    assert limits.to_json() == {"policy": "zcdp", "epsilon": E, "delta": 10**12, "rho": 0, "mixture": 1}
    before = caps(is_before=True)
    # As the grants of before say it, whose entries have to verify.
    assert before.to_json() == {"policy": "zcdp", "epsilon": E, "delta": 10**12, "rho": before.rho}
    assert Caps(**{**before.to_json(), "policy": Policy(before.to_json()["policy"])}) == before


def test_pure_releases_add_up_to_exactly_epsilon_under_every_policy():
    for policy, delta in ((Policy.PURE, 0), (Policy.APPROX, MILLIONTH), (Policy.ZCDP, MILLIONTH)):
        count, spent = accepted(pure("1/10"), caps(policy, delta=delta))
        assert count == 10
        assert 0.999 < report(spent, caps(policy, delta=delta)).epsilon <= 1


def test_the_zcdp_policy_books_the_pure_form_where_there_is_one():
    many = price([PureEvent(epsilon=Fraction(1, 10))] * 200, delta=MILLIONTH)
    assert many.delta > 0
    booked = amounts(many, policy=Policy.ZCDP)
    assert (booked.spent_epsilon, booked.spent_delta) == (20 * E, 0)
    assert amounts(many, policy=Policy.APPROX).spent_delta == 10**12


def test_sums_stop_where_a_64_bit_column_still_holds_them():
    closed = Totals(**dict.fromkeys(ZERO.amounts(), CLOSED), spent_orders=(CLOSED,) * len(ORDERS))
    spent = closed.plus(closed).plus(closed)
    assert {*spent.amounts().values(), *spent.spent_orders} == {CLOSED}
    assert 2 * CLOSED < 2**63
    assert CLOSED > D > max(limit.cap for branch in caps(epsilon=100).branches for limit in branch.limits)
    for wrong in (-1, CLOSED + 1, 1.0, True):
        with pytest.raises(InvalidInput, match="must be a whole number from 0"):
            Totals(spent_rho=wrong)


def test_a_report_is_of_what_was_spent_and_says_which_question_it_answers():
    for limits in (caps(), caps(Policy.APPROX), caps(Policy.PURE, delta=0)):
        assert (report(ZERO, limits).epsilon, report(ZERO, limits).delta) == (0, 0)
    with pytest.raises(Unpriceable, match="fits no branch"):
        report(Totals(spent_epsilon=CLOSED, spent_rho=CLOSED), caps())
    # A description, except where sums of epsilon are all there is.
    spent = after(pure("1/10"), policy=Policy.PURE)
    assert report(spent, caps(Policy.PURE, delta=0)).question is FigureUse.FILTER
    assert report(spent, caps()).question is FigureUse.DISPLAY


def test_the_report_converts_at_the_delta_that_the_releases_own_deltas_leave():
    limits = caps()
    _, spent = accepted(approximate("1/100", MILLIONTH / 50), limits, most=5)
    spent = spent.plus(amounts(gaussian(100, delta=0), policy=Policy.ZCDP))
    spare = MILLIONTH - 5 * MILLIONTH / 50
    stated = report(spent, limits)
    expected = epsilon_of_rho(rho=Fraction(spent.spent_rho, E), delta=spare)
    assert expected <= stated.epsilon < expected + Fraction(1, E)
    assert stated.delta == MILLIONTH


def test_what_remains_is_exactly_what_is_still_accepted():
    plain = remaining(ZERO, caps(Policy.PURE, delta=0))
    assert (plain.pure_epsilon, plain.epsilon, plain.delta, plain.rho, plain.rho_delta) == (E, E, 0, 0, 0)
    limits = caps()
    for charges in ([], [pure("1/10")], [pure("1/100")] * 5, [gaussian(1000)], [gaussian(10_000, delta=0)] * 3):
        spent = after(*charges)
        left = remaining(spent, limits)
        for unit, expected in ((0, True), (1, False)):
            epsilon = Fraction(left.pure_epsilon + unit, E)
            assert admits(spent, pure(epsilon), limits) is expected
        if left.rho:
            noise = Price(pure_epsilon=None, epsilon=None, delta=0, rho=left.rho, rho_delta=left.rho_delta)
            assert admits(spent, noise, limits)
            assert not admits(spent, replace(noise, rho=left.rho + 1), limits)


def test_a_refusal_says_every_number_that_is_in_the_way():
    spent = after(pure("9/10"))
    for limits, other in ((caps(is_before=True), "rho would come to 0.3996"), (caps(), "110.5% of what they may")):
        reasons = [shortfall.in_words() for shortfall in shortfalls(spent, pure("1/5"), limits)]
        assert "epsilon would come to 1.1, and the budget allows 1" in reasons
        assert any(other in reason for reason in reasons)
        assert shortfalls(spent, pure("1/10"), limits) == ()


charges = st.one_of(
    st.builds(pure, st.sampled_from(["1/50", "1/10", "1/4", "1/3", "2/3"])),
    st.builds(gaussian, st.sampled_from([50, 400, 10_000]), st.sampled_from([0, MILLIONTH / 10, MILLIONTH])),
    st.builds(approximate, st.sampled_from(["1/20", "1/2"]), st.sampled_from([MILLIONTH / 100, MILLIONTH / 20])),
    st.just(Price(pure_epsilon=None, epsilon=E // 9, delta=D // 10**8, rho=None, rho_delta=0)),
)
policies = st.sampled_from([caps(), caps(is_before=True), caps(Policy.APPROX), caps(Policy.PURE, delta=0)])


@pytest.mark.slow
@given(sequence=st.lists(charges, max_size=25), limits=policies)
@settings(max_examples=100)
def test_no_sequence_gets_past_the_caps_and_no_report_past_the_budget(sequence, limits):
    spent, kept = ZERO, []
    for charge in sequence:
        is_admitted = admits(spent, charge, limits)
        if limits.mixture is None:
            assert is_admitted is is_within_the_caps([*kept, charge], limits)
        if is_admitted:
            spent, kept = spent.plus(amounts(charge, policy=limits.policy)), [*kept, charge]
        stated = report(spent, limits)
        assert stated.epsilon <= limits.guarantee.epsilon
        assert stated.delta <= limits.guarantee.delta
    assert is_within_the_caps(kept, limits)


def is_within_the_caps(kept, limits):
    share = limits.delta // 10 if limits.policy is Policy.ZCDP else limits.delta
    booked = [amounts(charge, policy=limits.policy) for charge in kept]
    epsilon, delta = sum(each.spent_epsilon for each in booked), sum(each.spent_delta for each in booked)
    if epsilon <= limits.epsilon and delta <= share:
        return True
    if limits.policy is not Policy.ZCDP or sum(charge.rho_delta for charge in kept) > share:
        return False
    if limits.mixture is not None:
        return is_in_the_mixture(kept, limits)
    return sum(CLOSED if charge.rho is None else charge.rho for charge in kept) <= limits.rho


def is_in_the_mixture(kept, limits):
    """The condition as the theorem states it, on a grid of x and by ordinary numbers, to one part in a million."""
    rule = limits.mixture
    shares = [mp.mpf(weight) / 2**100 for weight in weights(rule)]
    assert sum(shares) <= 1
    epsilon, conversion = mp.mpf(rule.epsilon) / E, mp.mpf(rule.delta) / D
    sums = [sum(divergence_of(charge, order) for charge in kept) for order in ORDERS]
    for step in range(-120, 41):
        x = epsilon + mp.mpf(10) ** (mp.mpf(step) / 20)
        mixed = sum(
            share * mp.exp((as_mp(order) - 1) * (x - total))
            for share, order, total in zip(shares, ORDERS, sums, strict=True)
        )
        if 1 - mp.exp(epsilon - x) > conversion * mixed * (1 + mp.mpf(10) ** -6):
            return False
    return True


def as_mp(value):
    return mp.mpf(value.numerator) / value.denominator


def divergence_of(charge, order):
    """D_a of a price: of Gaussian noise of its rho, or of two answers whose odds are e^epsilon : 1."""
    if charge.rho is None:
        return mp.inf
    a = as_mp(order)
    bound = a * charge.rho / E
    if charge.pure_epsilon is not None:
        truth = 1 / (1 + mp.exp(-mp.mpf(charge.pure_epsilon) / E))
        odds = truth**a * (1 - truth) ** (1 - a) + (1 - truth) ** a * truth ** (1 - a)
        bound = min(bound, mp.log(odds) / (a - 1))
    return bound


@pytest.mark.parametrize(
    ("epsilon", "laplace", "least"), [(4, 0, 0.95 * 0.306009), (10, 0, 0.95 * 1.519053), (10, 3, 0.766)]
)
def test_so_much_gaussian_noise_fits_alone_and_after_laplace_noise(epsilon, laplace, least):
    limits = caps(epsilon=epsilon)
    spent = amounts(pure(1), policy=Policy.ZCDP).times(laplace)
    assert remaining(spent, limits).rho / E >= least
    assert admits(spent, noise(least), limits)


def test_what_plain_addition_accepts_is_still_accepted():
    limits = caps(epsilon=4)
    spent = ZERO
    for charge in [approximate("1/2", MILLIONTH / 20), pure("3/2"), approximate("1", MILLIONTH / 20), pure("1")]:
        assert admits(spent, charge, limits)
        spent = spent.plus(amounts(charge, policy=Policy.ZCDP))
    assert (spent.spent_epsilon, spent.spent_delta) == (4 * E, D // 10**7)


@given(
    sums=st.lists(st.sampled_from(["1/20", "1/4", "1", "2"]), max_size=5),
    rho=st.sampled_from([0, 1e-3, 0.02, 0.1, 0.25]),
    epsilon=st.integers(1, 40 * 10**6),
    raised=st.sampled_from([1, 10**3, 10**5, 3 * 10**6, 10**7]),
    factor=st.sampled_from([1, 2, 10**4]),
)
@settings(max_examples=60, deadline=None)
def test_a_raised_grant_accepts_all_that_the_smaller_accepted(sums, rho, epsilon, raised, factor):
    spent = after(*map(pure, sums), *([noise(rho)] if rho else []))
    small, large = (
        caps(epsilon=Fraction(units, 10**6), delta=delta)
        for units, delta in ((epsilon, MILLIONTH / 10**4), (epsilon + raised, factor * MILLIONTH / 10**4))
    )
    # For every order at once: what the weights have to satisfy, exactly as the proof asks.
    for one, other, order in zip(weights(small.mixture), weights(large.mixture), ORDERS, strict=True):
        gained = mp.exp(mp.mpf(raised) / 10**6 * (as_mp(order) - 1))
        assert one * small.mixture.delta <= other * large.mixture.delta * gained
    if small.branches[0].holds(spent):
        assert large.branches[0].holds(spent)


@given(epsilon=st.integers(1, 100 * E), delta=st.integers(10, D - 1))
@settings(max_examples=100, deadline=None)
def test_the_weights_of_every_budget_add_up_to_at_most_one(epsilon, delta):
    assert sum(weights(caps(epsilon=Fraction(epsilon, E), delta=Fraction(delta, D)).mixture)) <= 2**100


def test_a_pure_release_costs_the_divergence_of_randomized_response_rounded_up():
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(3)):
        charge = pure(epsilon)
        for booked, order in zip(amounts(charge, policy=Policy.ZCDP).spent_orders, ORDERS, strict=True):
            with mp.workdps(40):
                exact = divergence_of(charge, order) * E
                assert exact <= booked < exact + 2


def test_sums_without_their_orders_are_read_as_what_they_were_at_most():
    spent = after(pure("1/3"), gaussian(77))
    stored = spent.columns()
    assert Totals.read(stored) == spent
    del stored["spent_orders"]
    assert all(one >= other for one, other in zip(Totals.read(stored).spent_orders, spent.spent_orders, strict=True))
    assert Totals.read(ZERO.amounts()) == ZERO


def test_a_budget_of_before_takes_the_mixture_only_where_that_accepts_all_its_rule_did():
    before = caps(epsilon=4, is_before=True)
    assert not caps(epsilon=4).replaces(before.rho)
    assert caps(epsilon=5).replaces(before.rho)
    assert not before.replaces(before.rho)


def test_times_admitted_counts_as_one_after_the_other():
    limits = caps(epsilon=4)
    for charge in (pure("1/2"), noise(0.02), approximate("1/2", MILLIONTH / 30)):
        assert times_admitted(ZERO, charge, limits, most=1000) == accepted(charge, limits)[0]
    assert times_admitted(ZERO, pure("1/1000"), limits, most=7) == 7
    assert times_admitted(ZERO, pure(5), limits, most=7) == 0


# The worst adversary, who is not sampled but computed: over a menu of mechanisms, by dynamic programming on (what was
# run, log-likelihood ratio so far), the largest hockey-stick divergence that any adaptive strategy reaches.

CELL = 0.125  # log-likelihood ratios are whole multiples of this
REACH = 400


@dataclass(frozen=True)
class Mechanism:
    """Outcomes as (probability under P, step of the log ratio in cells; None: seen under P alone), and the price."""

    outcomes: tuple[tuple[float, int | None], ...]
    cost: Price


def randomized_response(cells):
    epsilon = Fraction(cells, 8)
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return Mechanism(outcomes=((truth, cells), (1 - truth, -cells)), cost=pure(epsilon))


def leak(cells, delta):
    """The worst (epsilon, delta)-DP mechanism: with probability delta it tells everything."""
    epsilon = Fraction(cells, 8)
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    outcomes = ((delta, None), ((1 - delta) * truth, cells), ((1 - delta) * (1 - truth), -cells))
    return Mechanism(outcomes=outcomes, cost=approximate(epsilon, Fraction(delta)))


def bell(mean_loss, delta):
    """A mechanism with a bell of log ratios, like Gaussian noise, priced by its own rho and epsilon at delta."""
    losses = np.arange(-24, 25) * CELL
    p = np.exp(-(losses**2) / (4 * mean_loss) + losses / 2)
    p /= p.sum()
    q = p * np.exp(-losses)
    assert q.sum() == pytest.approx(1)
    rhos = [
        math.log((p * np.exp((order - 1) * losses)).sum()) / (order - 1) / order
        for order in 1 + np.exp(np.linspace(-8, 5, 800))
    ]
    low, high = 0.0, 3.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(p - math.exp(middle) * q, 0).sum() > delta else (low, middle)
    cost = Price(
        pure_epsilon=None,
        epsilon=math.ceil(high * E),
        delta=math.ceil(delta * (1 + 1e-9) * D),
        rho=math.ceil(max(rhos) * (1 + 1e-4) * E),
        rho_delta=0,
    )
    outcomes = tuple((float(one), cell - 24) for cell, one in enumerate(p))
    return Mechanism(outcomes=outcomes, cost=cost)


def worst_under(limits, deciding=None):
    """sup over adaptive strategies of the hockey-stick divergence at the epsilon of these caps of all that is accepted.

    value(run)[l] is the most that can still be had from likelihood ratio e^l, as a share of the probability under P:
    now (1 - e^(epsilon - l))_+, or the best further mechanism that is accepted: by these caps, or by the deciding ones.
    """
    delta = limits.delta / D
    largest = largest_rho(epsilon=Fraction(limits.epsilon, E), delta=Fraction(limits.delta, D) * 8 / 10)
    menu = [randomized_response(2), randomized_response(3), bell(float(largest) / 3, delta / 30), leak(2, delta / 30)]
    ratios = np.arange(-REACH, REACH + 1) * CELL
    stop = np.maximum(0, 1 - np.exp(limits.epsilon / E - ratios))
    index = np.arange(len(ratios))

    @cache
    def value(run: tuple[int, ...]) -> np.ndarray:
        done = [one.cost for one, count in zip(menu, run, strict=True) for _ in range(count)]
        best = stop
        for choice, one in enumerate(menu):
            if not admits(after(*done), one.cost, deciding or limits):
                continue
            further = value(tuple(count + (place == choice) for place, count in enumerate(run)))
            gained = np.zeros_like(stop)
            for probability, step in one.outcomes:
                reached = 1.0 if step is None else further[np.clip(index + step, 0, len(index) - 1)]
                gained += probability * reached
            best = np.maximum(best, gained)
        return best

    return float(value((0,) * len(menu))[REACH])


ARENAS = [(Fraction(1), Fraction(1, 20)), (Fraction(3, 2), Fraction(1, 10)), (Fraction(1, 4), Fraction(1, 2))]


@pytest.mark.parametrize(("epsilon", "delta"), ARENAS)
def test_no_adaptive_strategy_breaks_the_promise_of_the_rule_of_before(epsilon, delta):
    assert 0.3 * delta < worst_under(caps(epsilon=epsilon, delta=delta, is_before=True)) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(Fraction(3, 2), Fraction(1, 1000)), (Fraction(3), Fraction(1, 10_000)), *ARENAS]
)
def test_no_adaptive_strategy_breaks_the_promise_of_the_mixture(epsilon, delta):
    assert 0.03 * delta < worst_under(caps(epsilon=epsilon, delta=delta)) <= delta


def test_the_adversary_finds_a_filter_with_twice_the_rho():
    epsilon, delta = ARENAS[0]
    limits = caps(epsilon=epsilon, delta=delta, is_before=True)
    doubled = replace(limits, rho=2 * limits.rho)
    assert worst_under(limits, deciding=doubled) > 1.5 * delta
