"""A quantile with its interval from noisy counts: exact privacy on small neighbours, exact coverage, draws as planned.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting import accountant
from releases.engine.bounds.accuracy import Proof, laplace_combination_quantile, laplace_sum_quantile
from releases.engine.domain.universe import Schema
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.counted_quantiles import counted, edges_between, read_off
from releases.engine.mechanisms.quantiles import draw_value, rank_sensitivity
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.cases import rows_of
from releases.engine.verification.recording import record, with_noise_scaled
from releases.engine.verification.truths import every_quantile_is_inside, the_quantile_is_near
from tests.engine.goodness import law_of, p_value
from tests.engine.mechanisms.test_quantiles import asked, attribute, tally
from tests.engine.telling import FALSE_ALARM, PERSON, RELATIONS, all_neighbours, log_ratios, planned, table

NAME = "counted-quantile"
GRADE = [{"name": "grade", "type": "integer", "edges": [0, 4]}]
WIDE = [{"name": "income", "type": "number", "edges": [-1000, 100000], "decimals": 2}]
SHARES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 3)]
TEAMS = [{"name": "team", "type": "categorical", "categories": ["a", "b"], "outside": "b"}]
QUARTILES = {"quantiles": {"column": "income", "at": ["0.25", "0.5", "0.75"]}}
both = pytest.mark.parametrize("neighbours", RELATIONS)


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
        drawn = sum(2 * each.far + each.near for each in plan.windows)
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
    choices = [told for sampler, told in drawn if sampler == "exponential_mechanism"]
    (noise,) = [told for sampler, told in drawn if sampler == "discrete_laplace"]
    assert [told["epsilon"] for told in choices] == groups * [window.far, window.near, window.far]
    assert {told["sensitivity"] for told in choices} == {window.sensitivity}
    assert noise == {"scale": plan.noise.scale, "size": 19 * groups}


def test_the_noisy_counts_have_the_law_of_the_plan_and_not_that_of_another_scale():
    plan = planned(NAME, GRADE, {"median": "grade"})
    rng, counts = StreamRandomness(b"law of counts"), table(plan, [(x,) for x in (0, 0, 3)])
    seen = law_of(lambda: min(max(plan.run(counts, rng=rng).notes["noisy counts"][0] - 2, -6), 6) + 6, 13, 4000)

    def law(scale):
        whole = laplace_law(scale, 200)
        return np.concatenate([[whole[:195].sum()], whole[195:206], [whole[206:].sum()]])

    assert p_value(seen, law(1.0)) > FALSE_ALARM
    for wrong in (0.8, 1.25):
        assert p_value(seen, law(wrong)) < FALSE_ALARM


def test_a_value_is_drawn_for_the_rank_so_many_rows_away_and_for_no_other():
    rows, rng = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], StreamRandomness(b"away")
    drawn = {"epsilon": Fraction(1), "sensitivity": Fraction(1, 2), "rng": rng}
    seen = law_of(lambda: int(draw_value(tally(rows), attribute(), SHARES[0], away=-3, **drawn)), 5, 4000)
    assert p_value(seen, shifted_law(rows, SHARES[0], 1.0, -3)) > FALSE_ALARM
    for wrong in (-4, 3, 0):
        assert p_value(seen, shifted_law(rows, SHARES[0], 1.0, wrong)) < FALSE_ALARM


@given(st.tuples(*[st.integers(0, 10_000)] * 3))
@settings(max_examples=100, derandomize=True)
def test_edges_go_from_one_value_drawn_to_the_other_and_lie_closer_to_the_one_between(drawn):
    low, middle, high = sorted(drawn)
    column = attribute([{"name": "x", "type": "integer", "edges": [0, 10_000]}])
    edges = edges_between(low, middle, high, column)
    assert all(0 < edge <= 10_000 for edge in edges)
    assert edges == sorted(set(edges))
    assert len(edges) <= 18
    assert not low or edges[0] == low
    assert high == 10_000 or edges[-1] == high + 1
    assert not middle or middle in edges
    assert middle == 10_000 or middle + 1 in edges
    if low and high < 10_000 and min(high - middle, middle - low) > 1000:
        widths = np.diff(edges)
        assert len(widths) == 17
        assert widths[8] == 1
        for side in (widths[:8][::-1], widths[9:]):
            assert np.abs(side - side.sum() * (2 * np.arange(8) + 1) / 64).max() <= 2


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


@both
@pytest.mark.parametrize("columns", [GRADE, WIDE], ids=["few values", "many values"])
def test_with_twice_the_noise_an_interval_misses_too_often(neighbours, columns):
    beta, runs = Fraction(1, 5), 600
    plan = planned(NAME, columns, {"median": columns[0]["name"]}, neighbours, beta=beta)
    lowest, highest = plan.schema.universe.attributes[0].lowest, plan.schema.universe.attributes[0].highest
    # Every value from one pile to the other is a median, so both ends are tried.
    counts, rng = table(plan, [(lowest,), (highest,)] * 200), StreamRandomness(b"another scale")
    most = runs * beta + 5 * sqrt(runs * beta * (1 - beta))

    def missed():
        return sum(not the_quantile_is_near(plan, plan.run(counts, rng=rng), counts._rows) for _ in range(runs))

    assert missed() <= most
    with with_noise_scaled(Fraction(2)):
        assert missed() > most


def test_the_check_of_an_interval_wants_every_quantile_inside():
    """Of 1, 2, 5, 6 every value from 2 to 5 is a median."""
    columns = [{"name": "x", "type": "integer", "edges": [0, 9]}]
    plan = planned(NAME, columns, {"median": "x"})
    counts = table(plan, [(1,), (2,), (5,), (6,)])
    result = plan.run(counts, rng=StreamRandomness(b"check"))

    def holds(low, high, value=4.0, half_width=9.0):
        made = result.to_json()
        made["bound"] = {**made["bound"], "half_widths": [half_width]}
        again = Result.from_json(made)
        spans = (np.array([[low, high]]),)
        shown = Result(estimates=(np.array([value]),), bound=again.bound, total=0.0, spans=spans)
        return the_quantile_is_near(plan, shown, counts._rows)

    assert holds(2.0, 5.0)
    assert not holds(3.0, 5.0)
    assert not holds(2.0, 4.0)
    assert not holds(2.0, 5.0, value=6.0)
    assert not holds(2.0, 5.0, half_width=1.0)


@both
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("columns", [GRADE, WIDE], ids=["few values", "many values"])
def test_the_ranks_stated_before_the_release_hold_for_both_ends_and_the_value(neighbours, share, columns):
    name, runs = columns[0]["name"], 200
    plan = planned(NAME, columns, asked(share, name), neighbours, beta="1/5")
    assert plan.bound is None
    assert plan.expectation.proof is Proof.BEFORE
    at, alpha = plan.workload.statistic.at, Fraction(plan.expectation.alpha)
    column = plan.schema.universe.attributes[0]
    rng, rows = np.random.default_rng(3), []
    for size in (0, 40, 1500):
        rows = np.sort(rng.integers(column.lowest, column.highest + 1, size=size))
        counts, broken = table(plan, [(x,) for x in rows.tolist()]), 0
        stream = StreamRandomness(b"ranks %d" % size)
        for _ in range(runs):
            result = plan.run(counts, rng=stream)
            ((low, high),) = np.rint(result.spans[0] * 10**column.decimals).astype(int).tolist()
            value = round(float(result.estimates[0][0]) * 10**column.decimals)
            assert low <= value <= high
            enough = (rows <= low).sum() >= at * size - alpha
            broken += not (enough and (rows < high).sum() <= at * size + alpha)
        assert broken <= runs / 5 + 5 * sqrt(runs * 4 / 25)


def test_an_interval_can_reach_further_to_one_side_and_survives_json():
    plan = planned(NAME, WIDE, {"median": "income"})
    result = plan.run(table(plan, [(x * x,) for x in range(2000)]), rng=StreamRandomness(b"one side"))
    ((estimate,), (lower,), (upper,)) = next(iter(result.intervals(lowest=-np.inf)))
    assert lower < estimate < upper
    assert upper - estimate != estimate - lower
    assert result.bound.half_widths == (pytest.approx(max(upper - estimate, estimate - lower)),)
    again = Result.from_json(result.to_json())
    assert again.spans[0].tolist() == [[lower, upper]]
    stored = result.to_json()
    del stored["spans"]
    assert Result.from_json(stored).spans == ()


def test_incomes_are_found_to_a_few_rows_within_ten_million_values():
    """Three draws on ranks, two of them far enough away to be sure of their side, would leave 60 rows on each."""
    plan = planned(NAME, WIDE, {"median": "income"})
    counts, rng = table(plan, [(2_000_000 + 1000 * i,) for i in range(4000)]), StreamRandomness(b"incomes")
    widths = [np.diff(plan.run(counts, rng=rng).spans[0]).item() / 10 / 2 for _ in range(30)]
    assert np.median(widths) < 30


@both
@pytest.mark.parametrize(
    "rows", [[], [0, 9_000_000] * 400, list(range(0, 9_000_000, 9_000))], ids=["no", "far", "spread"]
)
def test_all_intervals_of_several_quantiles_hold_at_once_and_with_three_times_the_noise_they_do_not(neighbours, rows):
    beta, runs = Fraction(1, 5), 150
    plan = planned(NAME, WIDE, QUARTILES, neighbours, beta=beta)
    assert len(plan.windows) == 3
    counts, rng = table(plan, [(x,) for x in rows]), StreamRandomness(b"quartiles")
    most = runs * beta + 5 * sqrt(runs * beta * (1 - beta))

    def missed():
        return sum(not every_quantile_is_inside(plan, plan.run(counts, rng=rng), counts._rows) for _ in range(runs))

    assert missed() <= most
    if not rows:
        with with_noise_scaled(Fraction(3)):
            assert missed() > most


def test_the_ranks_stated_before_hold_for_several_quantiles():
    plan = planned(NAME, WIDE, QUARTILES, beta="1/5")
    rows = np.sort(np.random.default_rng(4).integers(0, 5_000_000, size=4_000))
    counts, rng, broken = table(plan, [(x,) for x in rows.tolist()]), StreamRandomness(b"three ranks"), 0
    for _ in range(100):
        result, held = plan.run(counts, rng=rng), True
        for share, span, alpha in zip((0.25, 0.5, 0.75), result.spans, plan.expectation.half_widths, strict=True):
            ((low, high),) = np.rint(span * 100)
            held &= (rows <= low).sum() >= share * 4_000 - alpha and (rows < high).sum() <= share * 4_000 + alpha
        broken += not held
    assert broken <= 20 + 5 * sqrt(16)


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


@both
@pytest.mark.parametrize("columns", [GRADE, WIDE], ids=["few values", "many values"])
def test_all_intervals_of_all_groups_hold_at_once_also_of_a_group_without_rows(neighbours, columns):
    beta, runs, name = Fraction(1, 5), 150, columns[0]["name"]
    plan = planned(NAME, [*columns, *TEAMS], by_team(name, "0.5", "0.9"), neighbours, beta=beta)
    column = plan.schema.universe.attributes[0]
    for rows in ([], [(column.lowest, 0), (column.highest, 0)] * 300, [(column.lowest, 1), (column.highest, 0)] * 300):
        counts, rng = table(plan, rows), StreamRandomness(b"teams")
        missed = sum(not every_quantile_is_inside(plan, plan.run(counts, rng=rng), counts._rows) for _ in range(runs))
        assert missed <= runs * beta + 5 * sqrt(runs * beta * (1 - beta))


def test_each_group_gets_its_own_quantiles():
    plan = planned(NAME, [*WIDE, *TEAMS], by_team("income", "0.25", "0.5"), epsilon=5)
    rows = [(1_000_000 + 10 * x, 0) for x in range(4000)] + [(6_000_000 + 10 * x, 1) for x in range(4000)]
    result = plan.run(table(plan, rows), rng=StreamRandomness(b"own"))
    assert np.abs(result.estimates[0] - [10_100, 60_100]).max() < 50
    assert np.abs(result.estimates[1] - [10_200, 60_200]).max() < 50
    assert [span.shape for span in result.spans] == [(2, 2), (2, 2)]


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


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(3, 2)])
@pytest.mark.parametrize("counts", [((1, 2), (1, 3)), ((1, 4), (9, 1)), ((2, 1), (3, 2))])
@pytest.mark.parametrize("beta", [0.2, 0.05, 0.001])
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
