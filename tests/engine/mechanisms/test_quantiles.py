"""Quantiles and ranges, by ranks and by noisy counts: exact privacy on small neighbours, exact bounds and coverage.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import ceil, exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting import accountant
from releases.engine.accounting.events import ExponentialMechanismEvent, PureEvent
from releases.engine.bounds.accuracy import Proof, laplace_combination_quantile, laplace_sum_quantile
from releases.engine.bounds.selection_error import nearness_miss
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.engine.mechanisms.counted_quantiles import layout_of
from releases.engine.mechanisms.quantile_cells import counted, edges_between, read_off
from releases.engine.mechanisms.quantiles import draw_value, pad, rank_says, rank_sensitivity, ranked, true_quantile
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Tally
from releases.engine.verification.recording import record
from releases.engine.verification.tables import rows_of
from releases.engine.verification.truths import both_ends_are_near, every_quantile_is_inside, the_quantile_is_near
from releases.engine.workload.parsing import read_question
from tests.engine.goodness import law_of, p_value
from tests.engine.telling import (
    FALSE_ALARM,
    PERSON,
    RELATIONS,
    all_neighbours,
    integers,
    log_ratios,
    planned,
    schema_of,
    table,
)

GRADE = [{"name": "grade", "type": "integer", "edges": [0, 4]}]
WIDE = [{"name": "income", "type": "number", "edges": [-1000, 100000], "decimals": 2}]
TEAMS = [{"name": "team", "type": "categorical", "categories": ["a", "b"], "outside": "b"}]
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


@given(st.lists(st.integers(0, 2000), max_size=40), st.integers(0, 30_000))
@settings(max_examples=100, derandomize=True)
def test_padding_changes_no_utility_and_makes_a_public_number_of_pieces(rows, spread):
    column = attribute([{"name": "x", "type": "integer", "edges": [0, 2000 + spread]}])
    bare = ranked(tally(rows), column, SHARES[0])
    padded = pad(bare)
    assert padded.widths.size == min(2001 + spread, 4096)
    assert np.array_equal(np.repeat(padded.scores, padded.widths), np.repeat(bare.scores, bare.widths))
    assert np.array_equal(padded.starts, np.cumsum(padded.widths) - padded.widths)


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


@pytest.mark.parametrize("share", SHARES)
def test_as_many_ranks_off_no_more_rows_are_between_the_value_and_any_true_quantile(share):
    for rows in combinations_with_replacement(range(4), 5):
        at, below, upto = share * 5, {}, {}
        for value in range(4):
            below[value], upto[value] = sum(row < value for row in rows), sum(row <= value for row in rows)
        for value, true in product(range(4), repeat=2):
            if below[true] <= at <= upto[true]:
                between = sum(min(value, true) < row < max(value, true) for row in rows)
                assert between <= max(at - upto[value], below[value] - at, 0)
    schema = schema_of(GRADE)
    question = read_question(
        {"version": 1, "queries": [{"quantile": {"column": "grade", "at": "0.9"}}]}, schema.universe
    )
    said = rank_says(question.statistic, Fraction(23, 2), schema.counted)
    assert said == "at most 11.5 rows are between the value given and the true 90% quantile."


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


INSIDE = ["0.02", "0.5", "0.98"]


def range_of(inside="0.5", column="grade"):
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
        plan = planned("exponential-range", GRADE, range_of(inside), neighbours, epsilon=epsilon)
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


def test_the_check_of_a_range_wants_both_ends_near_their_ranks():
    """Of 0 ... 9 the ranks asked for are 2.5 and 7.5, and each may be one row off."""
    plan = planned("exponential-range", integers([9]), range_of("0.5", "c0"))
    counts = table(plan, [(x,) for x in range(10)])
    result = plan.run(counts, rng=StreamRandomness(b"check"))
    bound = replace(result.bound, half_widths=(1.0,))

    def holds(low, high):
        shown = replace(result, estimates=(np.array([low, high], dtype=float),), bound=bound)
        return both_ends_are_near(plan, shown, counts._rows)

    assert holds(1, 8)
    assert not any(holds(*ends) for ends in ((0, 8), (4, 8), (1, 5), (1, 9)))


UNIVERSE = schema_of([*GRADE, *WIDE, *TEAMS]).universe


def read(query):
    return read_question({"version": 1, "queries": [query]}, UNIVERSE)


def test_the_ends_of_a_range_leave_as_much_on_either_side():
    assert read({"range": {"column": "income", "inside": 0.98}}).statistic.ends == (Fraction(1, 100), Fraction(99, 100))


SHARE = "must be above 0 and below 1 (0.98 for 98%)"
LIST = "must be a list of 2 to 19 shares"


@pytest.mark.parametrize(
    ("word", "value", "message"),
    [
        ("range", "income", "range: 'income' must be an object with column, inside"),
        ("range", {"column": "wage", "inside": "0.98"}, "range.column: 'wage' must name a declared column"),
        ("range", {"column": "income"}, "range.inside: None must be a number"),
        ("range", {"column": "income", "inside": "1"}, f"range.inside: '1' {SHARE}"),
        ("range", {"column": "income", "inside": "0.98", "at": 1}, "range: 'at' is not a known field"),
        ("quantiles", {"column": "income", "at": "0.5"}, f"quantiles.at: '0.5' {LIST}"),
        ("quantiles", {"column": "income", "at": ["0.5"], "by": "income"}, "by: 'income' must name a declared"),
        ("quantiles", {"column": "income", "at": ["0.5", "1"]}, "must be above 0 and below 1"),
        ("quantiles", {"column": "income", "at": ["0.5", "0.25"]}, "must rise from each share to the next"),
        ("categories", "city", "categories: 'city' must name a declared column"),
        ("categories", "grade", "categories: 'grade' must be a categorical column"),
    ],
)
def test_what_is_no_question_is_refused_with_field_value_and_rule(word, value, message):
    with pytest.raises(InvalidInput) as refused:
        read({word: value})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "word", "field", "finest"),
    [
        ("exponential-range", "range", "inside", "0.999998"),
        ("exponential-quantile", "quantile", "at", "0.999999"),
        ("counted-quantile", "quantile", "at", "0.999999"),
    ],
)
def test_a_share_of_too_many_decimals_is_refused_in_a_sentence(name, word, field, finest):
    query = {"column": "grade", field: "0.12345678"}
    assert "at most six decimals" in planned(name, GRADE, {word: query}).infeasible
    assert not planned(name, GRADE, {word: {**query, field: finest}}).infeasible


NAME = "counted-quantile"
QUARTILES = {"quantiles": {"column": "income", "at": ["0.25", "0.5", "0.75"]}}


def quantiles_of(rows, share, lowest, highest):
    """Every value of the range that is a quantile, by the definition."""
    wanted = share * len(rows)
    return [y for y in range(lowest, highest + 1) if sum(x < y for x in rows) <= wanted <= sum(x <= y for x in rows)]


def shifted_law(rows, share, rate, away, lowest=0, highest=4):
    """P(y) proportional to exp(-rate times the distance of q n + away from the ranks of y)."""
    wanted, weights = share * len(rows) + away, []
    for y in range(lowest, highest + 1):
        below, up_to = sum(x < y for x in rows), sum(x <= y for x in rows)
        weights.append(exp(-rate * float(max(below - wanted, wanted - up_to, 0))))
    return np.array(weights) / sum(weights)


def laplace_law(scale, reach):
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return weights / weights.sum()


def cells_of(rows, edges):
    """How many rows lie in each cell, row by row."""
    found = [0] * (len(edges) + 1)
    for x in rows:
        found[sum(x >= edge for edge in edges)] += 1
    return found


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_no_unit_moves_the_counts_further_than_is_paid_for_whatever_the_edges(neighbours, unit):
    """Half of the noise would cost too much: the largest move is reached."""
    plan = planned(NAME, GRADE, {"median": "grade"}, neighbours, unit=unit)
    assert plan.windows == ()
    moved = max(
        sum(abs(a - b) for a, b in zip(cells_of(one, edges), cells_of(other, edges), strict=True))
        for one, other in all_neighbours(range(5), most_rows=3, neighbours=neighbours)
        for edges in ([1, 2, 3, 4], [2], [3, 4], [])
    )
    rows = 2 if unit else 1
    assert rows * moved / plan.noise.scale == 1


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_draws_and_noise_together_cost_exactly_the_budget(neighbours, unit):
    by_group = ([*WIDE, *TEAMS], by_team("income", "0.25", "0.5"))
    for columns, query in (by_group, (GRADE, asked(SHARES[1])), (WIDE, QUARTILES), (WIDE, {"median": "income"})):
        plan = planned(NAME, columns, query, neighbours, unit=unit, epsilon="0.3")
        moved = (2 if unit else 1) * (2 if neighbours == "replace" else 1)
        drawn = sum(2 * each.far for each in plan.windows)
        if plan.between:
            drawn += plan.between.epsilon * {1: 1, 2: 2, 3: 2}[len(plan.between.shares)]
        assert drawn + moved / plan.noise.scale == Fraction(3, 10)
        price = accountant.price(plan.events, delta=Fraction(0), neighbours=plan.schema.neighbours)
        assert price.pure_epsilon == Fraction(3, 10) * 10**accountant.EPSILON_PLACES
    assert plan.windows[0].sensitivity == rank_sensitivity(plan.schema, SHARES[0])


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_run_draws_what_was_planned(neighbours, unit, groups):
    columns = [{"name": "x", "type": "integer", "edges": [0, 300]}, *TEAMS]
    query = asked(SHARES[1], "x") if groups == 1 else by_team("x", "0.9")
    plan = planned(NAME, columns, query, neighbours, unit=unit)
    (window,) = plan.windows
    run = record(lambda rng: plan.run(table(plan, [(9, 0), (200, 1)] * 9), rng=rng), seed=b"planned")
    drawn = [(draw.sampler, dict(draw.parameters)) for draw in run.draws]
    choices = [given for sampler, given in drawn if sampler == "exponential_mechanism"]
    (noise,) = [given for sampler, given in drawn if sampler == "discrete_laplace"]
    assert [given["epsilon"] for given in choices] == groups * [plan.between.epsilon, window.far, window.far]
    assert {given["sensitivity"] for given in choices} == {window.sensitivity}
    assert noise == {"scale": plan.noise.scale, "size": 19 * groups}


POWERS, SQUARES = [32, 81, 204, 512, 1280, 3200], [50, 200, 450, 800, 1250, 1800, 2450, 3200]


@pytest.mark.parametrize(
    ("quantiles", "steps", "away"),
    [(1, "squares", SQUARES), (1, "powers", SQUARES), (3, "squares", SQUARES), (3, "powers", POWERS)],
)
def test_edges_are_closer_together_towards_the_value_drawn_for_the_quantile(quantiles, steps, away):
    column = attribute([{"name": "x", "type": "integer", "edges": [0, 20_000]}])
    edges = edges_between(6_800, 10_000, 13_200, layout_of({"steps": steps}, quantiles), column)
    assert edges == [10_000 - far for far in reversed(away)] + [10_000, 10_001] + [10_001 + far for far in away]


@both
def test_a_plan_stored_before_there_were_steps_keeps_its_price_its_noise_and_its_cells(neighbours):
    stored = planned(NAME, WIDE, QUARTILES, neighbours, epsilon=3, steps="squares").to_json()
    assert stored["options"].pop("steps") == "squares"
    new = planned(NAME, WIDE, QUARTILES, neighbours, epsilon=3)
    plans = (plan_from_json(stored), 3 * 18, Fraction(1, 10)), (new, 3 * 14, Fraction(3, 20))
    # Rows are closer together than edges, which so are all different.
    rows = [(x,) for x in range(-100_000, 10_000_000, 5_000)]
    for plan, edges, near in plans:
        assert 2 * plan.between.epsilon == near * 3
        run = record(lambda rng, plan=plan: plan.run(table(plan, rows), rng=rng), seed=b"stored")
        (noise,) = [dict(draw.parameters) for draw in run.draws if draw.sampler == "discrete_laplace"]
        assert noise["size"] == edges + 1
        assert len(run.result.notes["cells begin at"]) == edges


def test_a_value_is_drawn_for_the_rank_so_many_rows_away_and_for_no_other():
    rows, rng = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], StreamRandomness(b"away")
    drawn = {"epsilon": Fraction(1), "sensitivity": Fraction(1, 2), "rng": rng}
    seen = law_of(lambda: int(draw_value(tally(rows), attribute(), SHARES[0], away=-3, **drawn)), 5, 4000)
    assert p_value(seen, shifted_law(rows, SHARES[0], 1.0, -3)) > FALSE_ALARM
    for wrong in (-4, 3, 0):
        assert p_value(seen, shifted_law(rows, SHARES[0], 1.0, wrong)) < FALSE_ALARM


@given(st.lists(st.integers(0, 50), max_size=30), st.sets(st.integers(1, 50), max_size=10))
@settings(max_examples=100, derandomize=True)
def test_every_row_is_counted_in_its_cell(rows, edges):
    assert counted(tally(rows), sorted(edges)).tolist() == cells_of(rows, sorted(edges))


@both
@pytest.mark.parametrize("share", SHARES)
def test_no_small_table_is_missed_more_often_than_beta_and_some_half_as_often(neighbours, share):
    """The exact law of all noise on three counts, for every table of up to three rows: no sampling."""
    columns, reach = [{"name": "x", "type": "integer", "edges": [0, 2]}], 14
    plan = planned(
        NAME, columns, asked(share, "x"), neighbours, beta="1/5", epsilon=2 if neighbours == "replace" else 1
    )
    assert plan.noise.scale == 1
    at = plan.workload.statistic.at
    law = laplace_law(float(plan.noise.scale), reach)
    column, noises = attribute(columns), range(-reach, reach + 1)
    chances = np.einsum("i,j,k->ijk", law, law, law).reshape(-1)
    known = {}

    def ends(noisy):
        if noisy not in known:
            known[noisy] = read_off(np.array(noisy), [1, 2], column, plan.noise, at=at, own=[1, 2])[1:]
        return known[noisy]

    missed = {}
    for size in range(3 if neighbours == "replace" else 4):
        for rows in combinations_with_replacement(range(3), size):
            true, cells = quantiles_of(rows, at, 0, 2), cells_of(rows, [1, 2])
            inside = [
                low <= true[0] and true[-1] <= high
                for low, high in (
                    ends(tuple(a + b for a, b in zip(cells, drawn, strict=True))) for drawn in product(noises, repeat=3)
                )
            ]
            missed[rows] = chances[~np.array(inside)].sum()
    assert max(missed.values()) <= 0.2
    # Of a share of six decimals the quantile of the noise is Chernoff's.
    assert max(missed.values()) > (0.1 if at.denominator <= 10 else 0.02)


def test_the_check_of_an_interval_wants_every_quantile_inside():
    """Of 1, 2, 5, 6 every value from 2 to 5 is a median."""
    plan = planned(NAME, integers([9]), {"median": "c0"})
    counts = table(plan, [(1,), (2,), (5,), (6,)])
    result = plan.run(counts, rng=StreamRandomness(b"check"))

    def holds(low, high, value=4.0, half_width=9.0):
        bound = replace(result.bound, half_widths=(half_width,))
        shown = replace(result, estimates=(np.array([value]),), bound=bound, spans=(np.array([[low, high]]),))
        return the_quantile_is_near(plan, shown, counts._rows)

    assert holds(2.0, 5.0)
    assert not holds(3.0, 5.0)
    assert not holds(2.0, 4.0)
    assert not holds(2.0, 5.0, value=6.0)
    assert not holds(2.0, 5.0, half_width=1.0)


@both
def test_the_ranks_stated_before_the_release_hold_for_both_ends_and_the_value(neighbours):
    runs, size = 200, 1500
    plan = planned(NAME, WIDE, asked(SHARES[1], "income"), neighbours, beta="1/5")
    assert plan.bound is None
    assert plan.expectation.proof is Proof.BEFORE
    at, alpha = plan.workload.statistic.at, Fraction(plan.expectation.alpha)
    rows = np.sort(np.random.default_rng(3).integers(-100_000, 10_000_001, size=size))
    counts, stream, broken = table(plan, [(x,) for x in rows.tolist()]), StreamRandomness(b"ranks"), 0
    for _ in range(runs):
        result = plan.run(counts, rng=stream)
        ((low, high),) = np.rint(result.spans[0] * 100).astype(int).tolist()
        assert low <= round(float(result.estimates[0][0]) * 100) <= high
        enough = (rows <= low).sum() >= at * size - alpha
        broken += not (enough and (rows < high).sum() <= at * size + alpha)
    assert broken <= runs / 5 + 5 * sqrt(runs * 4 / 25)


def by_team(column, *shares):
    return {"quantiles": {"column": column, "at": [str(share) for share in shares], "by": "team"}}


@both
@pytest.mark.parametrize("share", SHARES[:2])
def test_draws_of_two_groups_together_keep_their_epsilon_and_with_the_sensitivity_of_one_do_not(neighbours, share):
    """All small neighbours with two values in two teams, and a row above many; both teams' ranges are added up."""
    columns = [{"name": "x", "type": "integer", "edges": [0, 1000]}, *TEAMS]
    window = planned(NAME, columns, by_team("x", float(share)), neighbours).windows[0]
    pairs = list(all_neighbours(product((0, 2), (0, 1)), most_rows=4, neighbours=neighbours))
    many = [(1, 0)] * 9 + [(1, 1)] * 9
    pairs.append(([*many, (4, 0)], [*many, (4, 1)] if neighbours == "replace" else many))

    def worst(sensitivity):
        rate, losses = 1 / float(2 * sensitivity), []
        for pair in pairs:
            laws = [
                [shifted_law([x for x, own in each if own == team], share, rate, 0) for each in pair] for team in (0, 1)
            ]
            losses.append(sum(np.ptp(log_ratios(*both_laws)) for both_laws in laws))
        return max(losses)

    assert worst(window.sensitivity) == pytest.approx(1)
    if neighbours == "replace" and share == SHARES[1]:
        schema = Schema.from_json({"version": 1, "columns": GRADE, "neighbours": neighbours})
        assert worst(rank_sensitivity(schema, share)) > 1.5


def test_too_many_groups_are_refused_in_a_sentence():
    towns = [{"name": "team", "type": "categorical", "categories": [f"t{i}" for i in range(600)], "outside": "t0"}]
    plan = planned(NAME, [*WIDE, *towns], by_team("income", "0.25", "0.5"))
    assert "It would release 1,200 quantiles; the most is 1,000." in plan.infeasible


def test_an_epsilon_at_which_ranks_or_noise_would_not_fit_is_refused_before_the_run():
    share = {"quantile": {"column": "income", "at": "0.333333"}}
    assert "ranks would not fit 64 bits" in planned(NAME, WIDE, share, epsilon=Fraction(1, 10**11)).infeasible
    plan = planned(NAME, WIDE, share, epsilon=Fraction(1, 10**8))
    assert plan.run(table(plan, [(5,)] * 9), rng=StreamRandomness(b"small")).spans
    assert (
        "noise would not fit 64 bits" in planned(NAME, GRADE, asked(SHARES[0]), epsilon=Fraction(1, 10**17)).infeasible
    )


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3, 2)])
@pytest.mark.parametrize("counts", [((1, 4), (9, 1)), ((2, 1), (3, 2))])
@pytest.mark.parametrize("beta", [0.2, 0.001])
def test_the_quantile_of_a_weighted_sum_is_the_least_that_holds(scale, counts, beta):
    law = np.ones(1)
    for weight, draws in counts:
        single = laplace_law(float(scale), 60)
        spread = np.zeros(120 * weight + 1)
        spread[::weight] = single
        for _ in range(draws):
            law = np.convolve(law, spread)
    middle = law.size // 2
    found = laplace_combination_quantile(scale=scale, counts=counts, beta=beta)

    def outside(within):
        return 1 - law[middle - within : middle + within + 1].sum()

    assert outside(found) <= beta
    assert found == 0 or outside(found - 1) > beta * (1 - 1e-5)


def test_where_the_lattice_is_too_long_or_the_tail_too_rare_the_quantile_is_a_little_wider():
    exact = laplace_sum_quantile(scale=Fraction(2), count=10, beta=1e-7)
    assert exact <= laplace_combination_quantile(scale=Fraction(2), counts=((1, 10),), beta=1e-7) <= 1.5 * exact
    # 500,001 and 499,999 is nearly one and one, of which the law is known.
    even = laplace_combination_quantile(scale=Fraction(2), counts=((1, 5), (1, 5)), beta=0.05)
    uneven = laplace_combination_quantile(scale=Fraction(2), counts=((500_001, 5), (499_999, 5)), beta=0.05)
    assert even <= uneven / 500_000 + 1
    assert uneven / 500_000 <= 1.5 * even


SEEN = {"name": "seen", "type": "datetime", "edges": ["1969-12-31", "1970-01-02", "1970-01-03"]}


@both
@pytest.mark.parametrize("at", ["0.5", "0.9"])
def test_the_interval_of_a_quantile_of_seconds_holds_every_second_that_is_one(neighbours, at):
    plan = planned(NAME, [SEEN], {"quantile": {"column": "seen", "at": at}}, neighbours, epsilon="8")
    seconds = np.random.default_rng(3).integers(-86_400, 3 * 86_400, size=900)
    rows = rows_of(plan.schema.universe, [(int(each),) for each in seconds])
    result = plan.run(rows, rng=StreamRandomness(b"seconds"))
    assert every_quantile_is_inside(plan, result, rows)
    ((low, high),) = result.spans[0].tolist()
    assert (low, high) == (int(low), int(high))
    assert 0 < high - low < 86_400
    said = " and ".join(str(datetime(1970, 1, 1) + timedelta(seconds=end)) for end in (low, high))
    assert f"lies between {said} " in result.bound.says
