"""Choices: exact privacy on all small neighbours, and bounds that cannot be improved.

Statistical tests run on fixed streams; on a fresh one a right choice would fail each with probability at most 1e-6.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting.events import ExponentialMechanismEvent, RepeatedEvent
from releases.engine.bounds.accuracy import Proof
from releases.engine.bounds.selection_error import (
    exponential_miss,
    noisy_max_miss,
    permute_and_flip_miss,
    share_of_each,
)
from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms.choices import scores_of, statistic_of
from releases.engine.noise.randomness import StreamRandomness
from tests.engine.goodness import law_of, p_value
from tests.engine.noise.test_selection import noisy_max_law, permute_and_flip_law, softmax_law
from tests.engine.telling import FALSE_ALARM, PERSON, RELATIONS, all_neighbours, integers, log_ratios, planned, table

LAWS = {
    "exponential-choice": softmax_law,
    "noisy-max-choice": noisy_max_law,
    "permute-and-flip-choice": permute_and_flip_law,
}
MISSES = {
    "exponential-choice": exponential_miss,
    "noisy-max-choice": lambda *, candidates, rate, gap: noisy_max_miss(
        candidates=candidates, scale=1 / rate, gap=gap, left_out=1e-60
    ),
    "permute-and-flip-choice": permute_and_flip_miss,
}
NAMES = list(LAWS)
TOWN = [{"name": "town", "type": "categorical", "categories": ["a", "b", "c"]}]
FOODS = ["salad", "barbecue", "noodle"]
MENU = [{"name": food, "type": "categorical", "categories": ["no", "yes"], "outside": "no"} for food in FOODS]
FAVOURITE = {"largest_count": [{food: ["yes"]} for food in FOODS]}
in_all_ways = pytest.mark.parametrize("name", NAMES)
both = pytest.mark.parametrize("neighbours", RELATIONS)


def rate_of(plan):
    """The factor of a count in the exponent, or 1 / the scale of the noise."""
    return float(plan.epsilon / (plan.sensitivity if plan.monotone else 2 * plan.sensitivity))


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_counts_move_by_the_sensitivity_at_most_and_one_way_where_that_is_said(neighbours, unit):
    """All neighbours on all cells of three foods and of a column whose values may be dropped."""
    for columns, query in ((MENU, FAVOURITE), (TOWN, {"most_common": "town"})):
        plan = planned(NAMES[0], columns, query, neighbours, unit=unit)
        cells = list(product(*(range(size) for size in plan.schema.universe.shape)))
        pairs = list(all_neighbours(cells, most_rows=2, neighbours=neighbours))
        if unit:  # two rows of one person: two neighbours in a row, both the same way where rows only come or only go
            pairs = [(one + two, other + four) for one, other in pairs[:40] for two, four in pairs[:40]]
        changes = set()
        for one, other in pairs:
            change = scores_of(statistic_of(plan), table(plan, one)) - scores_of(statistic_of(plan), table(plan, other))
            changes.add(int(np.abs(change).max()))
            assert not plan.monotone or (change >= 0).all()
        assert max(changes) == plan.sensitivity


@in_all_ways
@both
@settings(max_examples=60, derandomize=True)
@given(counts=st.lists(st.integers(0, 6), min_size=3, max_size=3), data=st.data())
def test_the_exact_law_keeps_the_claim_for_neighbouring_counts(name, neighbours, counts, data):
    """Largest counts: any number of candidates may move with one row. Noisy max's law is summed to 1e-9 or so."""
    plan = planned(name, MENU, FAVOURITE, neighbours, epsilon="3/2")
    low = 0 if neighbours == "add_remove" else -1
    moved = [count + data.draw(st.integers(low, 1)) for count in counts]
    ratios = log_ratios(LAWS[name](counts, rate_of(plan)), LAWS[name](moved, rate_of(plan)))
    assert np.abs(ratios).max() <= 1.5 + 1e-8
    if name == "exponential-choice":
        assert ratios.max() - ratios.min() <= 1.5 + 1e-8


@in_all_ways
def test_the_noise_for_counts_that_move_one_way_is_too_little_for_replaced_rows(name):
    """Dwork and Roth's Claim 3.9 with scale 1 / epsilon, between tables that replace a row."""
    one_way = rate_of(planned(name, TOWN, {"most_common": "town"}, "add_remove"))
    ratios = log_ratios(LAWS[name]([9, 1, 1], one_way), LAWS[name]([8, 2, 1], one_way))
    assert np.abs(ratios).max() > 1.5
    right = rate_of(planned(name, TOWN, {"most_common": "town"}, "replace"))
    assert np.abs(log_ratios(LAWS[name]([9, 1, 1], right), LAWS[name]([8, 2, 1], right))).max() <= 1


def test_forty_choices_by_the_exponential_mechanism_are_priced_as_bounded_ranges():
    columns = [{"name": "age", "type": "integer", "edges": list(range(60))}]
    budget = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    exponential, other = (
        planned(name, columns, {"top": {"column": "age", "k": 40}}, budget=budget) for name in NAMES[:2]
    )
    event = ExponentialMechanismEvent(epsilon=exponential.epsilon)
    assert exponential.events == (RepeatedEvent(event=event, times=40),)
    # rho is epsilon**2 / 8 of a bounded range and about epsilon**2 / 2 of the others.
    assert float(exponential.epsilon) == pytest.approx(2 * float(other.epsilon), rel=1e-3)


@in_all_ways
def test_nothing_is_chosen_twice_and_places_come_in_order_when_counts_are_far_apart(name):
    plan = planned(name, TOWN, {"top": {"column": "town", "k": 3}}, epsilon=50)
    rows = table(plan, [(2,)] * 90 + [(0,)] * 60 + [(1,)] * 30)
    assert plan.run(rows, rng=StreamRandomness(b"order")).chosen == ("c", "a", "b")


def test_two_choices_have_the_law_of_one_after_the_other():
    plan = planned("exponential-choice", TOWN, {"top": {"column": "town", "k": 2}}, epsilon=2)
    rows, rng = table(plan, [(0,)] * 3 + [(1,)] * 2 + [(2,)]), StreamRandomness(b"peeling")
    pairs = [("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")]
    seen = law_of(lambda: pairs.index(plan.run(rows, rng=rng).chosen), 6, 3000)
    weight = dict(zip("abc", np.exp([3.0, 2.0, 1.0]), strict=True))
    total = sum(weight.values())
    law = np.array([weight[one] / total * weight[two] / (total - weight[one]) for one, two in pairs])
    assert p_value(seen, law) > FALSE_ALARM
    assert p_value(seen, np.ones(6)) < FALSE_ALARM


@in_all_ways
@settings(max_examples=60, derandomize=True)
@given(counts=st.lists(st.integers(0, 12), min_size=2, max_size=4), rate=st.sampled_from([0.4, 1.0, 2.0]))
def test_no_table_is_missed_more_often_than_the_worst_one(name, counts, rate):
    law = LAWS[name](counts, rate)
    gaps = max(counts) - np.array(counts)
    for gap in range(1, 13):
        worst = MISSES[name](candidates=len(counts), rate=rate, gap=gap)
        assert law[gaps >= gap].sum() <= worst + 1e-9


@in_all_ways
@both
def test_the_bound_is_reached_by_one_table_so_it_is_the_least_there_is(name, neighbours):
    for beta in ("1/5", "1/20", "1/1000000"):
        plan = planned(name, TOWN, {"most_common": "town"}, neighbours, beta=beta)
        assert plan.bound.proof is Proof.BEFORE
        alpha = int(plan.bound.alpha)
        assert LAWS[name]([0, 0, alpha + 1], rate_of(plan))[:2].sum() <= float(Fraction(beta))
        assert LAWS[name]([0, 0, alpha], rate_of(plan))[:2].sum() > float(Fraction(beta))


def test_rounds_that_each_may_fail_hold_together():
    assert (1 - share_of_each(0.05, rounds=7)) ** 7 == pytest.approx(0.95)


@in_all_ways
def test_what_cannot_be_chosen_is_refused_in_a_sentence(name):
    alone = [{"name": "town", "type": "categorical", "categories": ["a"]}]
    assert "single candidate" in planned(name, alone, {"most_common": "town"}).infeasible
    huge = integers([100] * 6)
    wide = {"largest_count": [{"c0": {"from": 3}}, {f"c{i}": {"from": 3} for i in range(6)}]}
    assert "1,000,000,000,000 cells" in planned(name, huge, wide).infeasible
    assert "epsilon is so small" in planned(name, TOWN, {"most_common": "town"}, epsilon="1e-17").infeasible
    assert planned(name, TOWN, {"most_common": "town"}, epsilon="1e-15").bound.alpha > 1e14
