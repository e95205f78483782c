"""Several quantiles drawn from the rows between others, or in slices: exact privacy on small neighbours, and coverage.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.mechanisms import recursive_quantiles
from releases.engine.mechanisms.quantiles import draw_value
from releases.engine.mechanisms.recursive_quantiles import Recursion, RowsPart, in_places
from releases.engine.mechanisms.sliced_quantiles import RankTree, aside
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
    query = {"quantiles": {"column": "x", "at": [str(float(share)) for share in at]}}
    plan = planned(NAME, WIDE, query, steps="powers")
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


DECILES = {"quantiles": {"column": "x", "at": [f"0.{place}" for place in range(1, 10)]}}
NINETEEN = {"quantiles": {"column": "x", "at": [str(place / 20) for place in range(1, 20)]}}
#: How many are cut in slices: where rows are replaced the ranks of nine are nearer around windows.
IN_SLICES = {"add_remove": DECILES, "replace": NINETEEN}


def one_by_one(places, at, lowest, highest):
    """All values of the range that are a quantile."""
    return [
        y
        for y in range(lowest, highest + 1)
        if sum(x < y for x in places) <= at * len(places) <= sum(x <= y for x in places)
    ]


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_slices_with_all_that_is_counted_before_and_after_cost_exactly_the_budget(neighbours, unit):
    for query, levels in ((DECILES, 4), (NINETEEN, 5)) if neighbours == "add_remove" else ((NINETEEN, 5),):
        plan = planned(NAME, WIDE, query, neighbours, unit=unit, epsilon="0.3", steps="slices")
        moved, slices = (2 if unit else 1) * (2 if neighbours == "replace" else 1), plan.slices
        counted = slices.tree.levels / slices.tree.scale + 1 / slices.scale + 1 / plan.noise.scale
        assert moved * counted + levels * slices.cuts.epsilon + slices.draw == Fraction(3, 10)
        price = accountant.price(plan.events, delta=Fraction(0), neighbours=plan.schema.neighbours)
        assert price.pure_epsilon == Fraction(3, 10) * 10**accountant.EPSILON_PLACES


@both
def test_a_run_in_slices_draws_what_was_planned(neighbours):
    """Whatever the rows: as many draws of each law."""
    plan, moved = (
        planned(NAME, WIDE, IN_SLICES[neighbours], neighbours, steps="slices"),
        2 if neighbours == "replace" else 1,
    )
    many, slices, branches, levels = (
        len(plan.slices.shares),
        plan.slices,
        plan.slices.tree.branches,
        plan.slices.tree.levels,
    )
    for rows in ([], [(9,)] * 40, [(x,) for x in range(0, 500_000, 700)]):
        run = record(lambda rng, rows=rows: plan.run(table(plan, rows), rng=rng), seed=b"slices")
        drawn = [(draw.sampler, dict(draw.parameters)) for draw in run.draws]
        noise = [(each["scale"], each["size"]) for sampler, each in drawn if sampler == "discrete_laplace"]
        choices = [each for sampler, each in drawn if sampler == "exponential_mechanism"]
        of_tree = [(slices.tree.scale, branches)] + [(slices.tree.scale, 2 * many * branches)] * (levels - 1)
        assert noise == [*of_tree, (slices.scale, many), (plan.noise.scale, many * 15)]
        assert [each["epsilon"] for each in choices] == [slices.cuts.epsilon] * (many - 1) + [slices.draw] * many
        assert {each["sensitivity"] for each in choices[many - 1 :]} == {Fraction(moved, 2)}


@both
def test_draws_in_two_slices_together_span_their_epsilon_and_no_more(neighbours):
    """Whatever rank is wanted, a row added to either slice or moved from one to the other."""
    worst, rate = 0.0, 1 / (2 if neighbours == "replace" else 1)

    def law(rows, away, ends):
        off = [
            max(sum(x < y for x in rows) - len(rows) / 2 - away, len(rows) / 2 + away - sum(x <= y for x in rows), 0)
            for y in range(ends[0], ends[1] + 1)
        ]
        weights = np.exp(-rate * np.array(off))
        return weights / weights.sum()

    for low, high, aways, (gone, come) in product(
        (0, 3, 40), (0, 3, 40), product((-5, 0, 3), repeat=2), product(range(8), repeat=2)
    ):
        many = [1] * low + [2] * low + [5] * high + [6] * high
        pair = [*many, gone], [*many, come] if neighbours == "replace" else many
        span = 0.0
        for away, ends in zip(aways, ((0, 3), (4, 7)), strict=True):
            inside = [[x for x in rows if ends[0] <= x <= ends[1]] for rows in pair]
            span += np.ptp(log_ratios(*(law(rows, away, ends) for rows in inside)))
        worst = max(worst, span)
    assert worst == pytest.approx(1)


@both
def test_each_level_of_the_tree_moves_by_what_is_paid_for(neighbours):
    moved = 2 if neighbours == "replace" else 1
    tree = planned(NAME, WIDE, IN_SLICES[neighbours], neighbours, steps="slices").slices.tree
    assert tree.branches**tree.levels > 500_000
    for width in (1, 2, 4):
        found = max(
            sum(abs(sum(x // width == part for x in one) - sum(x // width == part for x in other)) for part in range(8))
            for one, other in all_neighbours(range(8), most_rows=3, neighbours=neighbours)
        )
        assert found == moved
    assert tree.levels * moved / tree.scale == Fraction(1, 10)


@pytest.mark.parametrize("at", [Fraction(1, 2), Fraction(1, 10)])
def test_paths_of_a_tree_hold_every_quantile_and_keep_their_ranks_as_often_as_is_said(at):
    """Of tables for which it is hardest: noise of one scale for every level, and every value an end of parts."""
    tree = RankTree(branches=3, levels=3, scale=Fraction(2), beta=0.4)
    column, stream, runs = (
        schema_of([{"name": "x", "type": "integer", "edges": [0, 22]}]).universe,
        StreamRandomness(b"J"),
        400,
    )
    alpha, crossed = tree.off(at, beta=0.4), 0
    for rows in ([], [8] * 3, [9] * 40, [8] * 20 + [9] * 20, list(range(23)) * 9, [0] * 5 + [22] * 5):
        true, there, missed, broken = one_by_one(rows, at, 0, 22), tally(rows), 0, 0
        for _ in range(runs):
            ((low, high),) = tree.located(there, column.attributes[0], [at], stream)
            crossed += low > high
            missed += not low <= true[0] <= true[-1] <= high
            enough = sum(x <= low for x in rows) >= at * len(rows) - alpha
            broken += not (enough and sum(x < high for x in rows) <= at * len(rows) + alpha)
        assert max(missed, broken) <= runs * 0.4 + 5 * sqrt(runs * 0.24)
    assert crossed == 0


def test_a_path_ends_where_counts_without_noise_say():
    """Noise of a scale of a hundredth is none; what it may exceed is a row or so: the ends are next to the quantile."""
    tree = RankTree(branches=4, levels=4, scale=Fraction(1, 100), beta=0.1)
    column = schema_of([{"name": "x", "type": "integer", "edges": [0, 200]}]).universe.attributes[0]
    rows = [x for x in range(201) for _ in range(30)]
    found = tree.located(tally(rows), column, list(SHARES), StreamRandomness(b"ends"))
    for (low, high), at in zip(found, SHARES, strict=True):
        true = one_by_one(rows, at, 0, 200)
        assert true[0] - 1 <= low <= true[0] <= true[-1] <= high <= true[-1] + 1


def test_the_rank_in_a_slice_is_that_in_the_table_less_the_rows_before_it():
    assert [aside(Fraction(place, 4), [10, 20, 30, 40], 1) for place in (1, 2)] == [5, 7]
    assert aside(Fraction(1, 2), [10, -20, 30], 1) == 0


@both
@pytest.mark.parametrize("epsilon", ["1", "20"])
def test_in_slices_every_quantile_is_inside_and_no_rank_is_farther_than_was_stated(neighbours, epsilon):
    """No rows, few, equal ones in which cuts lie, and many that lie close together."""
    runs, stream = 40, StreamRandomness(b"in slices")
    plan = planned(NAME, WIDE, IN_SLICES[neighbours], neighbours, beta="1/5", epsilon=epsilon, steps="slices")
    assert plan.slices is not None
    some = np.random.default_rng(3)
    many = some.lognormal(9, 1, 6000).astype(int).clip(0, 500_000).tolist()
    for rows in ([], [7], [0] * 4000, [3] * 2000 + [4] * 2000, many):
        there, missed, broken, ordered = rows_of(plan.schema.universe, [(x,) for x in rows]), 0, 0, np.array(rows)
        for _ in range(runs):
            result = plan.run(there, rng=stream)
            missed += not every_quantile_is_inside(plan, result, there)
            far = False
            for place, alpha in enumerate(plan.expectation.half_widths):
                (low, high), wanted = result.spans[place][0], float(plan.slices.shares[place]) * len(rows)
                assert low <= result.estimates[place][0] <= high
                far |= (ordered <= low).sum() < wanted - alpha or (ordered < high).sum() > wanted + alpha
            broken += far
        assert max(missed, broken) <= runs / 5 + 5 * sqrt(runs * 4 / 25)


def test_only_five_quantiles_or_more_of_all_rows_of_many_values_are_cut_in_slices():
    team = [{"name": "team", "type": "categorical", "categories": ["a", "b"], "outside": "b"}]
    grade = [{"name": "x", "type": "integer", "edges": [0, 4]}]
    by_team = {"quantiles": {**DECILES["quantiles"], "by": "team"}}
    for columns, query in ((WIDE, QUARTILES), ([*WIDE, *team], by_team), (grade, DECILES)):
        default, powers, slices = (planned(NAME, columns, query, **steps) for steps in CHOICES)
        assert slices.slices is None
        assert (default.events, default.parameters) == (powers.events, powers.parameters)
        assert default.options == {"steps": "chosen"}
    slices, powers = (planned(NAME, WIDE, DECILES, steps=word) for word in ("slices", "powers"))
    assert slices.slices is not None
    assert powers.slices is None
    assert slices.expectation.alpha <= powers.expectation.alpha
    # Where rows are replaced the ranks of nine slices are more, and so the same is planned as by powers.
    default, powers, slices = (planned(NAME, WIDE, DECILES, "replace", **steps) for steps in CHOICES)
    assert slices.slices is None
    assert (slices.events, slices.windows) == (powers.events, powers.windows) == (default.events, default.windows)


CHOICES = ({}, {"steps": "powers"}, {"steps": "slices"})


@both
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_whichever_way_rows_choose_it_costs_the_budget_and_no_more_than_is_charged(neighbours, unit):
    """By every form of the price, each way alone with the number that chooses."""
    plan = planned(NAME, WIDE, IN_SLICES[neighbours], neighbours, unit=unit, epsilon="0.3")
    assert [way.slices is None for way in plan.ways] == [True, False]
    given = {"delta": Fraction(1, 10**6), "neighbours": plan.schema.neighbours}
    charged = accountant.price(plan.events, **given)
    assert charged.pure_epsilon == Fraction(3, 10) * 10**accountant.EPSILON_PLACES
    for way in plan.ways:
        alone = accountant.price(
            (plan.events[0], *way.events), delta=Fraction(1, 10**6), neighbours=plan.schema.neighbours
        )
        assert alone.pure_epsilon == charged.pure_epsilon
        assert alone.rho <= charged.rho
    # A row added, removed or replaced by one without a number moves the number by one, a person by all of theirs.
    assert plan.scale == (2 if unit else 1) * plan.events[0].noise_multiplier


@both
def test_few_rows_are_counted_by_powers_and_many_in_slices(neighbours):
    """The same draws as if that way had been asked for, after that of the number that chose, which is released."""
    plan = planned(NAME, WIDE, IN_SLICES[neighbours], neighbours, epsilon="20")
    assert plan.least == {"add_remove": 453, "replace": 1910}[neighbours]
    for many, wanted in ((plan.least // 2, "powers"), (2 * plan.least, "slices")):
        rows = [(x,) for x in np.linspace(0, 500_000, many).astype(int).tolist()]
        run = record(lambda rng, rows=rows: plan.run(table(plan, rows), rng=rng), seed=b"choice")
        way = plan.ways[wanted == "slices"]
        alone = record(lambda rng, rows=rows, way=way: way.run(table(way, rows), rng=rng), seed=b"choice")
        drawn, others = (
            [(draw.sampler, dict(draw.parameters)) for draw in each.draws if draw.sampler != "random_below"]
            for each in (run, alone)
        )
        assert drawn.pop(0) == ("discrete_laplace", {"scale": plan.scale, "size": 1})
        assert drawn == others
        assert run.result.notes["steps"] == wanted
        assert 0 < abs(run.result.notes["number that chose"] - many) < 40 * plan.scale


def test_the_noisy_number_chooses_and_not_the_true_one():
    """With as many rows as the least, about half of the runs take either way, as their number says."""
    plan, stream = planned(NAME, WIDE, DECILES, epsilon="20"), StreamRandomness(b"half")
    there = rows_of(plan.schema.universe, [(x,) for x in range(plan.least)])
    notes = [plan.run(there, rng=stream).notes for _ in range(60)]
    assert all((note["number that chose"] >= plan.least) == (note["steps"] == "slices") for note in notes)
    assert 10 <= sum(note["steps"] == "slices" for note in notes) <= 56
