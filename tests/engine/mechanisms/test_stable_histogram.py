"""Values above a threshold: the threshold against its definition, exact privacy of small neighbours, what is said."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp

import numpy as np
import pytest
from mpmath import mp

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms import category_discovery
from releases.engine.mechanisms.category_discovery import threshold_of
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram, Texts
from releases.engine.verification.recording import record
from tests.engine.telling import RELATIONS, planned, table

TOWN = [{"name": "town", "type": "categorical", "categories": ["other"], "outside": "other"}]
ASKED = {"categories": "town"}
both = pytest.mark.parametrize("neighbours", RELATIONS)


def plan_of(neighbours="add_remove", *, epsilon="1", delta="1/1000000", rows=1, columns=TOWN, **more):
    budget = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(delta))
    unit = {"kind": "person", "id": "who", "max_rows": rows} if rows > 1 else None
    return planned("stable-histogram", columns, ASKED, neighbours, budget=budget, unit=unit, **more)


class Held:
    """Counts of one column of texts."""

    def __init__(self, plan, **held):
        self.universe, self.population = plan.schema.universe, plan.schema.population
        self._texts = Texts(
            texts=np.array(list(held), dtype=object), counts=np.array(list(held.values()), dtype=np.int64)
        )

    def texts(self, name):
        assert name == "town"
        return self._texts


def passes(count, *, threshold, scale):
    """Pr[count + Z >= threshold], by the definition of the law; nothing is drawn for a value that nobody has."""
    if count == 0:
        return 0.0
    away, r = threshold - count, exp(-1 / scale)
    return r**away / (1 + r) if away >= 1 else 1 - r ** (1 - away) / (1 + r)


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(20)])
@pytest.mark.parametrize("delta", [Fraction(2, 5), Fraction(1, 10**15)])
def test_the_threshold_is_the_least_at_which_what_one_unit_alone_has_is_named_as_seldom_as_claimed(
    rows, epsilon, delta
):

    def named(threshold, t):
        """Of a unit's rows on as many new values, and of all of them on one."""
        one, all_of_them = (mp.exp(-(threshold - count) / t) / (1 + mp.exp(-1 / t)) for count in (1, rows))
        return max(rows * one, all_of_them)

    for scale in (rows / epsilon, 2 * rows / epsilon):
        found = threshold_of(rows=rows, scale=scale, delta=delta)
        assert found > rows
        with mp.workdps(50):
            t = mp.mpf(scale.numerator) / scale.denominator
            allowed = min(mp.mpf(delta.numerator) / delta.denominator, 1 / (t + 1))
            assert named(found, t) <= allowed
            assert found == rows + 1 or named(found - 1, t) > allowed


VALUES = 3


def law(counts, *, threshold, scale):
    """The probability of every set of values given out."""
    chances = [passes(count, threshold=threshold, scale=scale) for count in counts]
    return np.array(
        [
            np.prod([chance if is_in else 1 - chance for chance, is_in in zip(chances, which, strict=True)])
            for which in product((False, True), repeat=VALUES)
        ]
    )


def units(rows):
    """What one unit may have: up to so many rows on the values."""
    for size in range(rows + 1):
        for values in combinations_with_replacement(range(VALUES), size):
            yield np.bincount(values, minlength=VALUES)


def worst_delta(neighbours, *, rows, epsilon, threshold, scale, fewest=0):
    """The largest Pr[M(D') in E] - e^epsilon Pr[M(D) in E] over all neighbours of up to three values, whatever E is.

    Each value has at least so many rows that are not the unit's.
    """
    worst = 0.0
    for others in combinations_with_replacement(range(fewest, threshold + 2), VALUES):
        laws = [law(np.array(others) + unit, threshold=threshold, scale=scale) for unit in units(rows)]
        for position, (one, other) in enumerate(product(laws, laws)):
            if neighbours == "replace" or 0 in divmod(position, len(laws)):
                worst = max(worst, np.maximum(other - exp(epsilon) * one, 0).sum())
    return worst


#: Epsilon, delta and the rows of a unit; where one row less of a threshold breaks the claim under either relation.
CLAIMS = [("1", "1/10", 1, True), ("1", "9/100", 2, False), ("3", "1/20", 2, True), ("1/2", "2/5", 1, False)]


@both
@pytest.mark.parametrize(("epsilon", "delta", "rows", "is_tight"), CLAIMS)
def test_the_exact_law_keeps_the_claim_for_all_neighbours_and_less_does_not(neighbours, epsilon, delta, rows, is_tight):
    plan = plan_of(neighbours, epsilon=epsilon, delta=delta, rows=rows)
    claimed = {"rows": rows, "epsilon": float(Fraction(epsilon))}
    threshold, scale, delta = plan.threshold, float(plan.scale), float(plan.budget.delta)
    assert worst_delta(neighbours, **claimed, threshold=threshold, scale=scale) <= delta * (1 + 1e-9)
    if is_tight:
        assert worst_delta(neighbours, **claimed, threshold=threshold - 1, scale=scale) > delta
    # Of values that others have too the noise alone takes care, and nine tenths of it would not.
    assert worst_delta(neighbours, **claimed, threshold=threshold, scale=scale, fewest=1) < 1e-12
    assert worst_delta(neighbours, **claimed, threshold=threshold, scale=0.9 * scale, fewest=1) > 1e-3


def test_new_values_of_one_unit_are_counted_together():
    """Two rows on two new values: the threshold for one of them alone would be too low."""
    plan = plan_of(epsilon="1", delta="9/100", rows=2)
    scale = float(plan.scale)
    one = passes(1, threshold=plan.threshold, scale=scale)
    assert 1 - (1 - one) ** 2 <= 0.09
    too_low = threshold_of(rows=1, scale=plan.scale, delta=Fraction(9, 100)) + 1
    assert too_low == plan.threshold - 1
    assert 1 - (1 - passes(1, threshold=too_low, scale=scale)) ** 2 > 0.09


def test_neighbours_get_the_same_draws_and_values_are_given_out_in_order_whatever_that_of_the_table():
    plan = plan_of()
    held = {"Oban": 60, "Ayr": 70, "Wick": 80, "Perth": 1}
    first = record(lambda rng: plan.run(Held(plan, **held), rng=rng), seed=b"same")
    for other in (dict(reversed(held.items())), {**held, "Perth": 2}, {**held, "new": 1}, {}):
        again = record(lambda rng, other=other: plan.run(Held(plan, **other), rng=rng), seed=b"same")
        assert again.flow == first.flow
        assert again.result.chosen == (("Ayr", "Oban", "Wick") if other else ())


def test_what_is_declared_or_cannot_be_is_left_out():
    columns = [{"name": "town", "type": "categorical", "categories": ["Oban", "other"], "outside": "other"}]
    plan = plan_of(columns=columns, epsilon="10")
    names = {"Oban": 500, "other": 500, "Ayr": 500, "x" * 200: 500, "x" * 201: 500, "a\nb": 500, "\u00a0Ayr": 500}
    assert plan.run(Held(plan, **names), rng=StreamRandomness(b"x")).chosen == ("Ayr", "x" * 200)


def test_of_very_many_values_the_first_in_order_are_kept(monkeypatch):
    monkeypatch.setattr(category_discovery, "MAX_VALUES", 3)
    plan = plan_of(epsilon="10")
    held = Held(plan, **dict.fromkeys("gfedcba", 500))
    assert plan.run(held, rng=StreamRandomness(b"x")).chosen == ("a", "b", "c")


@pytest.mark.parametrize("beta", ["1/5", "1/1000"])
def test_the_bound_is_the_least_number_of_rows_that_is_found_as_often_as_it_says(beta):
    plan = plan_of(epsilon="1/3", beta=beta)
    enough, missed = int(plan.bound.alpha), float(Fraction(beta))
    assert plan.bound.proof is Proof.BEFORE
    chances = [passes(count, threshold=plan.threshold, scale=float(plan.scale)) for count in (enough, enough - 1)]
    assert chances[0] >= 1 - missed > chances[1]


def test_a_histogram_knows_categories_and_rows_what_was_written():
    columns = [{"name": "town", "type": "categorical", "categories": ["Ayr", "other"], "outside": "other"}]
    plan = plan_of(columns=columns)
    found = Histogram(universe=plan.schema.universe, counts=np.array([2, 0])).texts("town")
    assert (found.texts.tolist(), found.counts.tolist()) == (["Ayr"], [2])
    written = table(plan, [(0,), (1,), (2,), (2,), (3,)]).texts("town")
    assert written.texts.tolist() == ["Ayr", "other", "text 2", "text 3"]
    assert written.counts.tolist() == [1, 1, 2, 1]
