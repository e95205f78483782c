"""Quantiles by the exponential mechanism, on ranks and on distances: exact privacy on small neighbours, exact bounds.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting import accountant
from releases.engine.accounting.events import ExponentialMechanismEvent, PureEvent
from releases.engine.bounds.accuracy import Proof
from releases.engine.bounds.selection_error import nearness_miss
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.quantiles import pad, rank_sensitivity, ranked, true_quantile
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Tally
from releases.engine.verification.recording import record
from tests.engine.goodness import law_of, p_value
from tests.engine.telling import FALSE_ALARM, PERSON, RELATIONS, all_neighbours, log_ratios, planned, table

GRADE = [{"name": "grade", "type": "integer", "edges": [0, 4]}]
WIDE = [{"name": "income", "type": "number", "edges": [-1000, 100000], "decimals": 2}]
TOWN = [{"name": "town", "type": "categorical", "categories": ["x", "y", "z"]}]
SHARES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 3)]
both = pytest.mark.parametrize("neighbours", RELATIONS)


def attribute(columns=GRADE):
    return Schema.from_json({"version": 1, "columns": columns}).universe.attributes[0]


def tally(rows):
    values, counts = np.unique(np.array(rows, dtype=np.int64), return_counts=True)
    return Tally(values=(values,), counts=counts.astype(np.int64))


def asked(share, column="grade"):
    return {"quantile": {"column": column, "at": str(float(share)) if share.denominator in (2, 10) else "0.333333"}}


def utilities(rows, share, lowest=0, highest=4):
    """u on every value, by its definition: minus the distance from q n to the ranks that the value has."""
    found = []
    for y in range(lowest, highest + 1):
        below, up_to, wanted = sum(x < y for x in rows), sum(x <= y for x in rows), share * len(rows)
        found.append(-max(below - wanted, wanted - up_to, 0))
    return found


def law(rows, share, rate):
    weights = np.exp(rate * np.array([float(u) for u in utilities(rows, share)]))
    return weights / weights.sum()


def rate_of(plan):
    return float(plan.epsilon / (2 * plan.sensitivity))


@settings(max_examples=150, derandomize=True)
@given(st.lists(st.integers(-3, 9), max_size=12), st.sampled_from(SHARES))
def test_pieces_hold_the_utility_of_every_value_of_the_range(rows, share):
    column = attribute([{"name": "x", "type": "integer", "edges": [-3, 9]}])
    pieces = ranked(tally(rows), column, share)
    assert pieces.starts[0] == -3
    assert (pieces.widths >= 1).all()
    assert np.array_equal(np.cumsum(pieces.widths)[:-1] - 3, pieces.starts[1:])
    spread = np.repeat(pieces.scores, pieces.widths)
    assert [Fraction(int(score), share.denominator) for score in spread] == utilities(rows, share, -3, 9)


@both
@pytest.mark.parametrize("share", SHARES)
def test_the_utility_moves_by_its_sensitivity_and_by_no_more(neighbours, share):
    schema = Schema.from_json({"version": 1, "columns": GRADE, "neighbours": neighbours})
    changes = [
        abs(before - after)
        for one, other in all_neighbours(range(5), most_rows=4, neighbours=neighbours)
        for before, after in zip(utilities(one, share), utilities(other, share), strict=True)
    ]
    assert max(changes) == rank_sensitivity(schema, share)
    person = Schema.from_json({"version": 1, "columns": GRADE, "neighbours": neighbours, "unit": PERSON})
    assert rank_sensitivity(person, share) == 2 * rank_sensitivity(schema, share)


@both
@pytest.mark.parametrize("share", SHARES)
def test_the_exact_law_is_a_bounded_range_of_epsilon_and_needs_the_factor_two(neighbours, share):
    schema = Schema.from_json({"version": 1, "columns": GRADE, "neighbours": neighbours})
    rate = 1.0 / float(2 * rank_sensitivity(schema, share))
    pairs = list(all_neighbours(range(5), most_rows=4, neighbours=neighbours))
    for counts in product((0, 1, 9), repeat=3):  # for shares near 1 the range is reached with more rows
        common = [value for value, count in zip((1, 2, 3), counts, strict=True) for _ in range(count)]
        others = [common] if neighbours == "add_remove" else [[*common, 0], [*common, 4]]
        pairs += [([*common, value], other) for value in (0, 4) for other in others]
    ranges = []
    for one, other in pairs:
        ratios = log_ratios(law(one, share, rate), law(other, share, rate))
        ranges.append(ratios.max() - ratios.min())
        assert np.abs(ratios).max() <= 1 + 1e-12
    assert max(ranges) == pytest.approx(1)


@both
def test_a_run_has_the_law_of_its_plan_and_not_that_of_another_epsilon(neighbours):
    plan = planned("exponential-quantile", GRADE, asked(SHARES[1]), neighbours)
    rows, rng = [0, 0, 1, 3, 3, 3, 4], StreamRandomness(b"law of quantiles")
    counts = table(plan, [(x,) for x in rows])
    seen = law_of(lambda: int(plan.run(counts, rng=rng).chosen[0]), 5, 3000)
    assert p_value(seen, law(rows, SHARES[1], rate_of(plan))) > FALSE_ALARM
    for wrong in (0.5, 2):
        assert p_value(seen, law(rows, SHARES[1], wrong * rate_of(plan))) < FALSE_ALARM


def test_between_two_rows_every_value_is_as_likely_as_any_other():
    """A range of 10 million values, of which two occur: nothing in the answer tells which."""
    plan = planned("exponential-quantile", WIDE, {"median": "income"}, epsilon=30)
    counts, rng = table(plan, [(100_00,)] * 3 + [(90_000_00,)] * 3), StreamRandomness(b"uniform")
    drawn = np.array([float(plan.run(counts, rng=rng).chosen[0]) for _ in range(1000)])
    assert drawn.min() >= 100
    assert drawn.max() <= 90_000
    bins = np.histogram(drawn, bins=20, range=(100, 90_000))[0]
    assert p_value(bins, np.ones(20)) > FALSE_ALARM
    assert p_value(bins, np.arange(10, 50, 2)) < FALSE_ALARM
    assert len(set(drawn)) > 950


WIDE_QUESTIONS = {
    "exponential-quantile": {"median": "income"},
    "exponential-range": {"range": {"column": "income", "inside": "0.98"}},
}
in_both_ways = pytest.mark.parametrize("name", WIDE_QUESTIONS)


@both
@in_both_ways
def test_on_a_wide_range_neighbours_ask_for_the_same_random_words(name, neighbours):
    """There the width of the piece that was chosen is drawn from, and is different; the words drawn are as many."""
    plan = planned(name, WIDE, WIDE_QUESTIONS[name], neighbours)
    rows = [(x * 1000,) for x in range(50)]
    runs = [rows, rows[:-1], [*rows[:-1], (7_000_000,)], []]
    made = [record(lambda rng, each=each: plan.run(table(plan, each), rng=rng), seed=b"wide") for each in runs]
    assert all(each.words == made[0].words for each in made)
    assert all(each.draws[0] == made[0].draws[0] for each in made)


@in_both_ways
def test_an_answer_is_a_fixed_point_of_the_declared_range_and_stands_as_text_and_number(name):
    plan = planned(name, WIDE, WIDE_QUESTIONS[name])
    for rows in ([], [(-1000_00,)], [(100_000_00,)] * 50):
        result = plan.run(table(plan, rows), rng=StreamRandomness(b"fixed"))
        for text, value in zip(result.chosen, result.estimates[0], strict=True):
            assert float(text) == value
            assert -1000 <= value <= 100_000
            assert len(text.partition(".")[2]) <= 2


@given(st.lists(st.integers(0, 2000), max_size=40), st.integers(0, 30_000))
@settings(max_examples=100, derandomize=True)
def test_padding_changes_no_utility_and_makes_a_public_number_of_pieces(rows, spread):
    column = attribute([{"name": "x", "type": "integer", "edges": [0, 2000 + spread]}])
    bare = ranked(tally(rows), column, SHARES[0])
    padded = pad(bare)
    assert padded.widths.size == min(2001 + spread, 4096)
    assert np.array_equal(np.repeat(padded.scores, padded.widths), np.repeat(bare.scores, bare.widths))
    assert np.array_equal(padded.starts, np.cumsum(padded.widths) - padded.widths)


def test_many_distinct_values_make_the_next_power_of_two_pieces():
    column = attribute([{"name": "x", "type": "integer", "edges": [0, 10**9]}])
    assert pad(ranked(tally(range(0, 9000, 3)), column, SHARES[0])).widths.size == 8192


@both
@pytest.mark.parametrize("beta", ["1/5", "1/1000"])
def test_the_bound_on_a_median_is_reached_by_rows_with_one_value_in_common(neighbours, beta):
    plan = planned("exponential-quantile", GRADE, {"median": "grade"}, neighbours, beta=beta)
    assert plan.bound.proof is Proof.BEFORE
    alpha = Fraction(plan.bound.alpha)
    for off, fails in ((alpha + Fraction(1, 2), False), (alpha, True)):
        rows = [2] * int(2 * off)
        missed = 1 - law(rows, SHARES[0], rate_of(plan))[2]
        assert (missed > float(Fraction(beta))) == fails


def test_the_bound_on_another_quantile_is_that_of_all_values_but_one_missed_alike():
    plan = planned("exponential-quantile", WIDE, {"quantile": {"column": "income", "at": "0.9"}})
    assert plan.bound.alpha == pytest.approx(2 * 0.9 * log(10_100_000 * 19), abs=0.1)
    tenth = f"at most {ceil(Fraction(plan.bound.alpha) * 10) / 10:,.1f} rows"
    assert plan.bound.says.count(tenth) == 2


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.integers(0, 4), max_size=20), st.sampled_from(SHARES), st.sampled_from(RELATIONS))
def test_no_table_misses_the_rank_more_often_than_the_bound_says(rows, share, neighbours):
    plan = planned("exponential-quantile", GRADE, asked(share), neighbours, beta="1/10")
    at = plan.workload.statistic.at
    off = np.array([-u > Fraction(plan.bound.alpha) for u in utilities(rows, at)])
    assert law(rows, at, rate_of(plan))[off].sum() <= 0.1 + 1e-12


@settings(max_examples=150, derandomize=True)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.sampled_from(SHARES))
def test_the_true_quantile_is_the_least_value_with_so_many_rows_at_or_below_it(rows, share):
    found = true_quantile(tally(rows), attribute(), share)
    assert sum(x <= found for x in rows) >= share * len(rows) > sum(x <= found - 1 for x in rows)
    assert found == sorted(rows)[ceil(share * len(rows)) - 1]


def distance_law(f, steps, scale):
    weights = np.exp(-np.abs(np.arange(steps + 1) - f) / scale)
    return weights / weights.sum()


@both
def test_both_constants_are_offered_and_priced(neighbours):
    columns = [{"name": "age", "type": "integer", "edges": [0, 100]}]
    plans = {
        constant: planned("exponential-metric", columns, {"median": "age"}, neighbours, constant=constant)
        for constant in ("interval", "theorem")
    }
    assert plans["interval"].scale == 100
    assert plans["theorem"].scale == 200
    assert plans["interval"].events == (PureEvent(epsilon=Fraction(1)),)
    assert plans["theorem"].events == (ExponentialMechanismEvent(epsilon=Fraction(1)),)
    assert planned("exponential-metric", columns, {"median": "age"}, neighbours) == plans["interval"]
    assert plans["interval"].bound.alpha <= plans["theorem"].bound.alpha


@pytest.mark.parametrize("constant", ["interval", "theorem"])
def test_a_run_on_distances_has_the_law_of_its_plan(constant):
    columns = [{"name": "x", "type": "number", "edges": [-1, 1], "decimals": 1}]
    plan = planned("exponential-metric", columns, {"median": "x"}, epsilon=6, constant=constant)
    counts, rng = table(plan, [(3,), (4,), (9,)]), StreamRandomness(b"metric")
    seen = law_of(lambda: round(10 * float(plan.run(counts, rng=rng).estimates[0][0])) + 10, 21, 3000)
    right = distance_law(14, 20, float(plan.scale))
    assert p_value(seen, right) > FALSE_ALARM
    for wrong in (0.5, 2):
        assert p_value(seen, distance_law(14, 20, wrong * float(plan.scale))) < FALSE_ALARM


def test_the_worst_true_value_is_at_an_end_or_in_the_middle():
    cases = product((1, 2, 5, 8, 13), (1e-9, 0.1, 0.5, 2.0), range(1, 14))
    for steps, rate, gap in ((steps, rate, gap) for steps, rate, gap in cases if gap <= steps):
        found = max(
            distance_law(f, steps, 1 / rate)[np.abs(np.arange(steps + 1) - f) >= gap].sum() for f in range(steps + 1)
        )
        assert nearness_miss(steps=steps, rate=rate, gap=gap) == pytest.approx(found, rel=1e-6)
    assert nearness_miss(steps=13, rate=0.1, gap=14) == 0


def test_too_many_values_for_distances_are_refused_in_a_sentence():
    assert "10,100,001 values" in planned("exponential-metric", WIDE, {"median": "income"}).infeasible


COUNTED = {"threshold": {"counts": [{"town": ["x"]}, {"town": ["y"]}], "above": 3}}


@pytest.mark.parametrize(
    ("names", "columns", "query"),
    [
        (["exponential-quantile", "exponential-metric"], GRADE, {"median": "grade"}),
        (["exponential-range"], WIDE, WIDE_QUESTIONS["exponential-range"]),
        (["above-threshold", "sparse-vector", "numeric-sparse-vector"], TOWN, COUNTED),
    ],
)
def test_a_large_delta_is_made_use_of(names, columns, query):
    budget = ApproxDP(epsilon=Fraction(1, 10), delta=Fraction(1, 10))
    for name in names:
        plan, pure = (planned(name, columns, query, epsilon="1/10", budget=each) for each in (budget, None))
        spent = accountant.price(plan.events, delta=budget.delta).epsilon
        assert budget.epsilon * Fraction(999, 1000) <= Fraction(spent, 10**12) <= budget.epsilon
        assert plan.bound.alpha <= pure.bound.alpha if columns is GRADE else plan.bound.alpha < pure.bound.alpha
