"""Mean errors of a certificate: the distance of two tables, how far a unit moves it, its noise, price and bounds."""

from collections import Counter, deque
from fractions import Fraction
from itertools import combinations, product
from math import ceil, exp

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.bounds.distance import ScaledRows, distance, rows_apart
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.engine.mechanisms.error_certificate import Certificate
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.tables import rows_of
from releases.engine.workload.kinds import largest_error
from tests.engine import telling

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
COLUMNS = [
    {"name": name, "type": "categorical", "categories": [f"{name}{n}" for n in range(size)], "outside": f"{name}0"}
    for name, size in SIZES.items()
]
WORKLOAD = {"version": 1, "queries": [{"marginal": ["a", "b"]}, {"count": {"a": ["a0"]}}]}
SHA = "0" * 64
PURE = PureDP(epsilon=Fraction(1, 2))
APPROXIMATE = ApproxDP(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))
ROWS = {"synthetic rows": {"sha256": SHA}}
ALL = ["asked", "pairs", "triples"]


def planned(means, released=ROWS, *, budget=PURE, beta=Fraction(1, 5), rows=1, neighbours="add_remove", columns=None):
    asked = {"workload": WORKLOAD, "released": released, "means": means}
    if set(means) & {"pairs", "triples"}:
        asked["columns"] = list(columns or SIZES)
    given = {"budget": budget, "beta": beta, "unit": telling.unit_of(rows)}
    return telling.planned("measured-error", COLUMNS, {"largest_error": asked}, neighbours, **given)


def drawn(number, seed):
    rng = np.random.default_rng(seed)
    return list(zip(*(rng.integers(0, size, number).tolist() for size in SIZES.values()), strict=True))


def published(plan, rows, stands_for):
    """The plan with synthetic rows, as the site reads them from their file."""
    table = rows_of(plan.schema.universe, rows)
    numbers = [np.rint(each * stands_for / len(rows)) for each in plan.statistic.workload.answer(table.marginal)]
    bins = {name: np.array([row[place] for row in rows]) for place, name in enumerate(SIZES)}
    return plan.with_published("synthetic rows", numbers, ScaledRows(bins=bins, stands_for=stands_for))


# The distance


def steps(start, goal, most):
    """The least number of rows to add, remove or change, by looking for it."""
    seen, waiting = {start}, deque([(start, 0)])
    while waiting:
        table, taken = waiting.popleft()
        if table == goal:
            return taken
        places = range(len(table))
        moves = [{at: 1} for at in places] + [{at: -1} for at in places]
        moves += [{one: 1, other: -1} for one in places for other in places if one != other]
        for move in moves:
            after = tuple(each + move.get(at, 0) for at, each in enumerate(table))
            if after not in seen and min(after) >= 0 and max(after) <= most:
                seen.add(after)
                waiting.append((after, taken + 1))
    raise AssertionError


def test_the_distance_is_the_least_number_of_rows_to_add_remove_or_change():
    for one in [(0, 0, 0), (3, 0, 1), (2, 2, 0)]:
        for other in product(range(4), repeat=3):
            assert rows_apart(np.array(one), np.array(other)) == steps(one, other, 3)
            assert distance(np.array(one, dtype=float), np.array(other, dtype=float)) == steps(one, other, 3)


def test_it_bounds_the_total_variation_of_shares_whatever_the_numbers_of_rows():
    rng = np.random.default_rng(3)
    for _ in range(400):
        made, true = (rng.integers(0, size, 5) * (rng.random(5) < 0.7) for size in rng.integers(2, 30, 2))
        if not made.sum() or not true.sum():
            continue
        shares = [
            Fraction(int(a), int(made.sum())) - Fraction(int(b), int(true.sum()))
            for a, b in zip(made, true, strict=True)
        ]
        most = max(int(made.sum()), int(true.sum()))
        assert sum(map(abs, shares)) / 2 <= Fraction(rows_apart(made, true), most)


RELATIONS = [(relation, g) for relation in ("add_remove", "replace") for g in (1, 2, 3)]


@pytest.mark.parametrize(("relation", "g"), RELATIONS)
def test_one_unit_moves_the_sum_over_all_tables_by_so_many_rows_a_table_and_some_unit_does(relation, g):
    """Every neighbour of small tables by brute force. A value may be left out by the rule of its column, so that the
    row counts in some tables and not in others. The published numbers are any, also negative ones and parts of rows."""
    names = range(3)
    sets = [*combinations(names, 2), *combinations(names, 3)]
    people = list(product((None, 0, 1), (0, 1), (None, 0)))
    units = [*product(people[:: 1 if g == 1 else 5], repeat=g), ()]
    rng = np.random.default_rng(g)
    sizes = {each: list(product(*(((0, 1), (0, 1), (0,))[at] for at in each))) for each in sets}

    def tables(rows):
        found = {}
        for each in sets:
            counted = Counter(tuple(row[at] for at in each) for row in rows if all(row[at] is not None for at in each))
            found[each] = np.array([counted[cell] for cell in sizes[each]])
        return found

    moved = 0
    for _ in range(4):
        rest = [people[at] for at in rng.integers(0, len(people), 5)]
        made = {each: rng.integers(-200, 800, len(sizes[each])) for each in sets}
        made[sets[0]] = 100 * tables(rest)[sets[0]]

        def total(unit, made=made, rest=rest):
            return sum(rows_apart(made[each], 100 * table) for each, table in tables([*rest, *unit]).items())

        sums = {unit: total(unit) for unit in units}
        pairs = [(unit, ()) for unit in units] if relation == "add_remove" else combinations(units, 2)
        moved = max(moved, *(abs(sums[one] - sums[other]) for one, other in pairs))
    declared = planned(["pairs"], rows=g, neighbours=relation).means[0]
    each = Fraction(declared.certificate.noise.l1_sensitivity, declared.tables)
    assert moved <= 100 * each * len(sets)
    assert each == g
    # Nothing less would do: some unit moves some table by all of its rows.
    assert rows_apart(np.array([0, 0]), np.array([g, 0])) == g


# What noise is added to, and how much


def naive(made, true, sets, stands_for):
    """The sum of distances over sets of columns, table by table from the rows themselves, rounded up."""
    total = Fraction(0)
    for each in sets:
        one = Counter(tuple(row[at] for at in each) for row in made)
        other = Counter(tuple(row[at] for at in each) for row in true)
        off = [Fraction(one[cell] * stands_for, len(made)) - other[cell] for cell in one.keys() | other.keys()]
        total += (sum(map(abs, off)) + abs(sum(off))) / 2
    return ceil(total)


@pytest.mark.parametrize("stands_for", [40, 57])
def test_noise_is_added_to_the_sum_of_the_distances_of_every_table_of_its_set(monkeypatch, stands_for):
    plan = planned(ALL)
    made, true = drawn(40, 1), drawn(60, 2)
    seen = []
    monkeypatch.setattr(Certificate, "measured", lambda self, found, rng: seen.append(found) or found)
    result = published(plan, made, stands_for).run(rows_of(plan.schema.universe, true), rng=StreamRandomness(b"x"))
    sets = [[(0, 1)], list(combinations(range(4), 2)), list(combinations(range(4), 3))]
    assert seen[1:] == [naive(made, true, each, stands_for) for each in sets]
    assert [each.tolist() for each in result.estimates[1:]] == [[seen[1]], [seen[2] / 6], [seen[3] / 4]]


def test_of_rows_and_answers_the_worse_table_counts(monkeypatch):
    numbers = {
        "synthetic rows": {"numbers": [[4] * 6, [12]]},
        "released answers": {"numbers": [[4, 4, 4, 4, 4, 11], [12]]},
    }
    seen = []
    monkeypatch.setattr(Certificate, "measured", lambda self, found, rng: seen.append(found) or found)
    plan = planned(["asked"], numbers)
    true = [(a, b, 0, 0) for a in range(2) for b in range(3) for _ in range(5)]
    plan.run(rows_of(plan.schema.universe, true), rng=StreamRandomness(b"x"))
    assert seen[1] == 6  # six rows too few of the one, five too few and six too many of the other


@pytest.mark.parametrize("g", [1, 3])
def test_each_of_k_numbers_has_a_k_th_of_the_budget_and_noise_for_all_of_its_tables(g):
    for budget in (PURE, APPROXIMATE):
        plan = planned(ALL, budget=budget, rows=g)
        price = accountant.price(plan.events, delta=plan.delta)
        assert len(plan.events) == 4
        assert [each.tables for each in plan.means] == [1, 6, 4]
        noises = [plan.certificate.noise, *(each.certificate.noise for each in plan.means)]
        if budget is PURE:
            assert price.pure_epsilon == Fraction(1, 2) * 10**accountant.EPSILON_PLACES
            assert [each.scale for each in noises] == [m * g * 4 / PURE.epsilon for m in (1, 1, 6, 4)]
        else:
            alone = planned([], budget=budget, rows=g).certificate.noise.exact_variance
            assert price.epsilon <= Fraction(1, 2) * 10**accountant.EPSILON_PLACES
            for noise, m in zip(noises, (1, 1, 6, 4), strict=True):
                assert float(noise.exact_variance) == pytest.approx(4 * m**2 * float(alone), rel=1e-9)
        # A mean has the same noise however many tables it is over.
        widths = [ceil(each.certificate.tail) / each.tables for each in plan.means]
        assert max(widths) <= min(widths) + 1


def test_its_bound_fails_no_more_often_than_its_part_of_beta_and_would_with_a_shorter_tail():
    plan = planned(ALL, beta=Fraction(1, 5))
    for mean in plan.means:
        scale, t = float(mean.certificate.noise.scale), mean.certificate.tail
        q = exp(-1 / scale)

        def below(t, q=q):
            return q ** (t + 1) / (1 + q)

        assert below(t) <= 1 / 20 < below(t - 1)


def test_what_is_certified_is_the_sum_with_its_tail_a_table_and_at_most_what_was_said_before(monkeypatch):
    plan = planned(ALL)
    made, true = drawn(40, 1), drawn(60, 2)
    for off in ("below", "above"):
        sign = -1 if off == "below" else 1
        monkeypatch.setattr(Certificate, "measured", lambda self, found, rng: found + sign * int(self.tail))  # noqa: B023
        result = published(plan, made, 57).run(rows_of(plan.schema.universe, true), rng=StreamRandomness(b"x"))
        sets = [[(0, 1)], list(combinations(range(4), 2)), list(combinations(range(4), 3))]
        for place, mean in enumerate(plan.means):
            tables, t = mean.tables, ceil(mean.certificate.tail)
            total = naive(made, true, sets[place], 57)
            said = result.notes["mean errors"][mean.word]
            # Where noise takes away as much as the tail, the truth is still covered; no sum is below 0.
            expected = Fraction(max(0, total + sign * t) + t, tables)
            assert (
                expected
                <= Fraction(said["at most"]) + Fraction(1, 10**9)
                <= expected + Fraction(1, 100) + Fraction(1, 10**8)
            )
            assert said["at most"] * tables >= total - 1e-6
            assert said["at most"] <= total / tables + plan.expectation.half_widths[place + 1] + 1e-9
            share = min(1.0, said["at most"] / 57)
            assert share - 1e-9 <= said["share at most"] <= share + 1e-4
            upper = result.estimates[place + 1][0] + result.bound.half_widths[place + 1]
            assert upper == pytest.approx(said["at most"])


def test_of_answers_no_share_is_said_for_they_can_add_up_to_any_number():
    plan = planned(["asked"], {"released answers": {"numbers": [[4] * 6, [12]]}})
    said = plan.run(rows_of(plan.schema.universe, drawn(30, 4)), rng=StreamRandomness(b"x")).notes["mean errors"]
    assert set(said["asked"]) == {"tables", "at most"}


def test_a_question_without_means_is_what_it_was():
    (asked,) = planned([], {"synthetic rows": {"numbers": [[4] * 6, [12]]}}).workload.to_json()["queries"]
    assert set(asked["largest_error"]) == {"workload", "released"}
    plan = planned(ALL)
    assert plan_from_json(plan.to_json()) == plan


# What is refused


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"means": ["pairs"]}, "largest_error.columns"),
        ({"means": ["all"], "columns": ["a", "b"]}, "must be a list of asked, pairs, triples"),
        ({"means": ["triples", "pairs"], "columns": ["a", "b", "c"]}, "in this order"),
        ({"means": ["asked"], "columns": ["a"]}, "are of pairs and triples alone"),
        ({"means": ["triples"], "columns": ["a", "b"]}, "needs 3 columns, and there are 2"),
        ({"means": ["pairs"], "columns": ["a", "z"]}, "must name a declared column"),
        (
            {"means": ["pairs"], "columns": ["a", "b"], "released": {"released answers": {"sha256": SHA}}},
            "synthetic rows",
        ),
        (
            {"means": ["pairs"], "columns": ["a", "b"], "released": {"synthetic rows": {"numbers": [[1] * 6, [1]]}}},
            "a file",
        ),
        ({"means": ["asked"], "workload": {"version": 1, "queries": [{"count": {"a": ["a0"]}}]}}, "must have a table"),
    ],
)
def test_a_question_that_breaks_a_rule_is_refused_by_field_value_and_rule(asked, said):
    value = {"workload": WORKLOAD, "released": ROWS, **asked}
    with pytest.raises(InvalidInput, match=said):
        telling.planned("measured-error", COLUMNS, {"largest_error": value})


def test_a_set_of_too_many_or_too_large_tables_is_refused_and_none_is_left_out(monkeypatch):
    universe = telling.schema_of(COLUMNS).universe
    names = universe.names
    cells = sum(SIZES[a] * SIZES[b] * SIZES[c] for a, b, c in combinations(SIZES, 3))
    monkeypatch.setattr(largest_error, "MAX_TABLE_CELLS", cells)
    assert not largest_error.too_many_tables(universe, names, "triples")
    monkeypatch.setattr(largest_error, "MAX_TABLE_CELLS", cells - 1)
    assert f"these have {cells}" in largest_error.too_many_tables(universe, names, "triples")
    monkeypatch.setattr(largest_error, "MAX_TABLES", 5)
    assert "have 6" in largest_error.too_many_tables(universe, names, "pairs")
    with pytest.raises(InvalidInput, match="must be at most 5 tables"):
        planned(["pairs"])
    monkeypatch.setattr(largest_error, "MAX_DENSE_CELLS", 110)
    assert "the largest has 12" in largest_error.too_many_tables(universe, names, "triples")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda bins: bins.pop("d"), "must have the columns a, b, c, d"),
        (lambda bins: bins.update(d=np.array([0, 2, 0])), "must hold a declared bin in every row"),
        (lambda bins: bins.update(d=np.array([0, -1, 0])), "must hold a declared bin in every row"),
        (lambda bins: bins.update(d=np.array([0, 1])), "must hold a declared bin in every row"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_the_table_is_looked_at(change, rule):
    plan = planned(["pairs"])
    numbers = [np.zeros(6), np.zeros(1)]
    bins = {name: np.zeros(3, dtype=int) for name in SIZES}
    change(bins)
    with pytest.raises(InvalidInput, match=rule):
        plan.with_published("synthetic rows", numbers, ScaledRows(bins=bins, stands_for=3))
    with pytest.raises(InvalidInput, match="must be given for the means"):
        plan.with_published("synthetic rows", numbers)
    fitting = {name: np.zeros(3, dtype=int) for name in SIZES}
    with pytest.raises(InvalidInput, match="must be 1 to"):
        plan.with_published("synthetic rows", numbers, ScaledRows(bins=fitting, stands_for=0))
