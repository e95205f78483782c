"""Several quantiles drawn from the rows between those drawn before: exact privacy on small neighbours, and coverage.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest

from releases.engine.mechanisms import recursive_quantiles
from releases.engine.mechanisms.quantiles import draw_value
from releases.engine.mechanisms.recursive_quantiles import Recursion, RowsPart, in_places
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Tally
from releases.engine.verification.recording import record
from releases.engine.verification.tables import rows_of
from releases.engine.verification.truths import every_quantile_is_inside
from tests.engine.goodness import p_value
from tests.engine.telling import FALSE_ALARM, PERSON, RELATIONS, all_neighbours, log_ratios, planned, schema_of, table

BITS = [{"name": "x", "type": "integer", "edges": [0, 1]}]
WIDE = [{"name": "x", "type": "integer", "edges": [0, 500_000]}]
SHARES = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
QUARTILES = {"quantiles": {"column": "x", "at": ["0.25", "0.5", "0.75"]}}
NAME = "counted-quantile"
both = pytest.mark.parametrize("neighbours", RELATIONS)


def tally(rows):
    values, counts = np.unique(np.array(rows, dtype=np.int64), return_counts=True)
    return Tally(values=(values,), counts=counts.astype(np.int64))


def places(rows, bits):
    """One entry a row."""
    found = in_places(tally(rows), 0, bits)
    return sorted(np.repeat(found.values[0], found.counts).tolist())


def without(rows, others):
    left = list(rows)
    for each in others:
        if each in left:
            left.remove(each)
    return left


@both
@pytest.mark.parametrize("bits", [0, 1, 2])
def test_tables_of_places_of_neighbours_differ_in_one_row(neighbours, bits):
    """Equal rows in places of their own: a row more or fewer moves no other row, and stays with its value."""
    for one, other in all_neighbours(range(2), most_rows=9, neighbours=neighbours):
        mine, others = places(one, bits), places(other, bits)
        assert [place >> bits for place in mine] == sorted(one)
        gone, come = without(mine, others), without(others, mine)
        assert (len(gone), len(come)) == (len(without(one, other)), len(without(other, one)))


def test_equal_rows_are_spread_evenly_over_their_places():
    for rows in range(1, 40):
        used = np.bincount(places([0] * rows, 3), minlength=8)
        assert used.max() - used.min() <= 1
        halves = used[:4].sum() - used[4:].sum()
        assert abs(halves) <= 1


def one_law(rows, share, rate, ends):
    """P(y) proportional to exp(-rate times the distance of q n from the ranks of y), for all y in the range."""
    wanted, weights = share * len(rows), []
    for y in range(ends[0], ends[1] + 1):
        below, up_to = sum(x < y for x in rows), sum(x <= y for x in rows)
        weights.append(np.exp(-rate * float(max(below - wanted, wanted - up_to, 0))))
    return dict(zip(range(ends[0], ends[1] + 1), np.array(weights) / sum(weights), strict=True))


#: Of 0.1, 0.5 and 0.9: the middle one of all rows, and the others of the halves below and above it.
OWN = {"first": Fraction(1, 5), "middle": Fraction(1, 2), "last": Fraction(4, 5)}


def joint_law(rows, recursion, last=3):
    """The probability of every three draws, from rows in places 0 ... `last`."""
    whole = RowsPart.whole(recursion.shares)
    parts = dict(zip(("first", "last"), whole.cut(), strict=True)) | {"middle": whole}
    rates = {name: float(recursion.epsilon / (2 * recursion.sensitivity(part))) for name, part in parts.items()}
    law = np.zeros((last + 1,) * 3)
    for cut, chance in one_law(rows, OWN["middle"], rates["middle"], (0, last)).items():
        low, high = [x for x in rows if x < cut], [x for x in rows if x >= cut]
        first = one_law(low, OWN["first"], rates["first"], (0, last))
        second = one_law(high, OWN["last"], rates["last"], (0, last))
        for (one, p), (other, q) in product(first.items(), second.items()):
            law[min(one, cut), cut, max(other, cut)] += chance * p * q
    return law


def recursion_of(neighbours, unit=None):
    return Recursion(shares=SHARES, epsilon=Fraction(1), schema=schema_of(BITS, neighbours, unit))


@both
def test_all_draws_together_keep_the_claim_for_neighbouring_tables_and_less_is_not_claimed(neighbours):
    """All small neighbours with two values in two places each, and some with many equal rows."""
    recursion = recursion_of(neighbours)
    pairs = list(all_neighbours(range(2), most_rows=4, neighbours=neighbours))
    for low, high in product((0, 1, 2, 4, 9, 20), repeat=2):
        many = [0] * low + [1] * high
        pairs += [([*many, 0], [*many, 1] if neighbours == "replace" else many)]
        if neighbours == "add_remove":
            pairs += [([*many, 1], many)]
    worst = 0.0
    for one, other in pairs:
        mine, others = (joint_law(places(rows, 1), recursion) for rows in (one, other))
        there = mine > 0
        assert (there == (others > 0)).all()
        worst = max(worst, np.abs(log_ratios(mine[there], others[there])).max())
    assert worst <= recursion.levels
    # One level alone would be too little to account for.
    assert worst > 1


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_the_draws_of_a_level_together_span_its_epsilon_and_no_more(neighbours, unit):
    """Whatever was drawn before. Reached at four values in two places each, so that a rate any higher is too much."""
    recursion = recursion_of(neighbours, unit)
    parts, rows_of_unit = RowsPart.whole(SHARES).cut(), 2 if unit else 1
    rates = [float(recursion.epsilon / (2 * recursion.sensitivity(part))) for part in parts]
    worst = 0.0
    for cut, low, high, (gone, come) in product(range(1, 8), (0, 9, 40), (0, 9, 40), product(range(4), repeat=2)):
        many = [1] * low + [2] * high
        pair = [*many, *[gone] * rows_of_unit], [*many, *[come] * rows_of_unit] if neighbours == "replace" else many
        span = 0.0
        for share, rate, (first, last) in zip(
            (OWN["first"], OWN["last"]), rates, ((0, cut - 1), (cut, 7)), strict=True
        ):
            laws = [
                list(one_law([x for x in places(rows, 1) if first <= x <= last], share, rate, (0, 7)).values())
                for rows in pair
            ]
            span += np.ptp(log_ratios(*laws))
        worst = max(worst, span)
    assert worst == pytest.approx(1)


def test_the_draws_follow_the_law_and_not_that_of_another_table(monkeypatch):
    monkeypatch.setattr(recursive_quantiles, "_MOST_BITS", 1)
    recursion, stream = recursion_of("add_remove"), StreamRandomness(b"law")
    attribute = recursion.schema.universe.attributes[0]

    def by_value(rows):
        law = joint_law(places(rows, 1), recursion)
        return np.array([law[2 * i : 2 * i + 2, 2 * j : 2 * j + 2, 2 * k : 2 * k + 2].sum() for i, j, k in ORDERED])

    rows, seen = [0] * 4 + [1] * 2, dict.fromkeys(ORDERED, 0)
    for _ in range(3000):
        seen[tuple(recursion.draw(tally(rows), attribute, stream))] += 1
    assert p_value(np.array(list(seen.values())), by_value(rows)) > FALSE_ALARM
    assert p_value(np.array(list(seen.values())), by_value([0] * 3 + [1] * 3)) < FALSE_ALARM


#: Of two values every three that do not fall.
ORDERED = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]


@both
@pytest.mark.parametrize("groups", [1, 2])
def test_a_run_has_a_draw_for_each_quantile_at_its_level_s_epsilon(neighbours, groups):
    """Its sensitivity is what a part's own share makes of the rows that a row replaced moves, one or two."""
    team = [{"name": "team", "type": "categorical", "categories": ["a", "b"], "outside": "b"}]
    query = {"quantiles": {"column": "x", "at": ["0.1", "0.5", "0.9"], **({"by": "team"} if groups == 2 else {})}}
    plan = planned(NAME, [*WIDE, *team], query, neighbours)
    run = record(lambda rng: plan.run(table(plan, [(9, 0), (200, 1)] * 9), rng=rng), seed=b"planned")
    told = [dict(draw.parameters) for draw in run.draws if draw.sampler == "exponential_mechanism"]
    near, epsilon = [each for each in told if each["epsilon"] != plan.windows[0].far], plan.between.epsilon
    moved = 2 if neighbours == "replace" else 1
    alone = Fraction(1) if neighbours == "replace" else Fraction(1, 2)
    assert sorted((each["epsilon"], each["sensitivity"]) for each in near) == sorted(
        [(epsilon, alone), (epsilon, moved * Fraction(4, 5)), (epsilon, moved * Fraction(4, 5))] * groups
    )


@both
def test_every_quantile_is_inside_as_often_as_is_said_whatever_the_rows(neighbours):
    """No rows, few, equal ones, and many that lie close together; also where the values drawn are far off."""
    runs, stream = 60, StreamRandomness(b"inside")
    plan = planned(NAME, WIDE, QUARTILES, neighbours, beta="1/5")
    some = np.random.default_rng(3)
    many = some.lognormal(9, 1, 900).astype(int).clip(0, 500_000).tolist()
    tables = ([], [7], [0] * 400, [3] * 200 + [4] * 200, many)
    for rows in tables:
        there, broken = rows_of(plan.schema.universe, [(x,) for x in rows]), 0
        for _ in range(runs):
            broken += not every_quantile_is_inside(plan, plan.run(there, rng=stream), there)
        assert broken <= runs / 5 + 5 * sqrt(runs * 4 / 25)


def test_nine_draws_are_less_far_off_than_nine_from_the_whole_table():
    """Also in a pile of equal rows, in which the first three lie and a fourth of which has its own place."""
    at = [Fraction(place, 10) for place in range(1, 10)]
    plan = planned(NAME, WIDE, {"quantiles": {"column": "x", "at": [str(float(share)) for share in at]}})
    column, stream = plan.schema.universe.attributes[0], StreamRandomness(b"errors")
    rows = np.sort(np.concatenate([np.full(7_000, 900), np.arange(13_000) * 30 + 1_000]))
    counts = tally(rows)

    def off(drawn):
        below, up_to = (np.searchsorted(rows, drawn, side=side) for side in ("left", "right"))
        wanted = np.array([float(share * rows.size) for share in at])
        return np.maximum(0, np.maximum(below - wanted, wanted - up_to)).mean()

    apart = {"epsilon": plan.between.epsilon * plan.between.levels / 9, "rng": stream}
    ours = np.mean([off(plan.between.draw(counts, column, stream)) for _ in range(40)])
    one_by_one = np.mean(
        [off([int(draw_value(counts, column, q, sensitivity=max(q, 1 - q), **apart)) for q in at]) for _ in range(40)]
    )
    assert ours < 0.8 * one_by_one
