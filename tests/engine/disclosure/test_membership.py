"""What synthetic rows give away of people: leaks are found, none is found where there is none, and no data are near.

Statistical tests have fixed streams. Were these not fixed, a test without a probability of its own would fail by chance
with that of the intervals, 1/60.
"""

import inspect
from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest

from releases.engine.disclosure import invented, membership
from releases.engine.disclosure.membership import difference_of, disclosure_test, most_allowed, tables_of
from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.errors import Infeasible
from releases.engine.mechanisms.base import Work, mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Counts
from releases.engine.tables.possible import is_impossible, named_bins
from tests.engine import telling
from tests.engine.mechanisms.test_mechanisms import COLUMNS, NAMES, QUERIES

SOME = telling.categories((6, 7, 6, 5))
EVERY_PAIR = [{"marginals": 2}]
ROWS = [name for name in NAMES if any(option.name == "rows" for option in mechanisms()[name].options)]


def seeded(seed=b"membership"):
    return StreamRandomness(seed)


@pytest.fixture
def few(monkeypatch):
    """Few people in one table: for what is not about how much is found."""
    monkeypatch.setattr(membership, "PEOPLE", 200)
    monkeypatch.setattr(membership, "MOST_TABLES", 1)


def attacked(name, epsilon, neighbours="add_remove", columns=SOME, delta="0"):
    budget = privacy_budget(epsilon=epsilon, delta=delta)
    plan = telling.planned(name, columns, EVERY_PAIR, neighbours, budget=budget)
    return disclosure_test(plan, rng=seeded())


def test_nothing_but_the_plan_and_randomness_goes_in(few):
    """There is no argument for rows, counts or a result of a table of people."""
    given = inspect.signature(disclosure_test).parameters
    assert {name: each.annotation for name, each in given.items()} == {
        "plan": "Plan",
        "rng": "Randomness",
        "progress": "Progress | None",
    }
    first, second = (attacked("laplace-histogram", "1") for _ in range(2))
    assert first == second
    assert first != disclosure_test(
        telling.planned("laplace-histogram", SOME, EVERY_PAIR, budget=privacy_budget(epsilon="1")), rng=seeded(b"b")
    )


@pytest.mark.parametrize("neighbours", telling.RELATIONS)
def test_a_release_with_hardly_any_noise_is_found_to_leak(neighbours):
    """Its rows are those of the table."""
    found = attacked("laplace-histogram", "100", neighbours)
    for each in (found.everybody, found.unusual, *found.columns.values()):
        assert each.difference - each.margin > 0
        assert each.inside - each.outside == pytest.approx(each.difference, abs=0.002)
    assert found.unusual.difference > found.everybody.difference
    assert found.unusual.difference > 5 * found.unusual.margin


@pytest.mark.parametrize("neighbours", telling.RELATIONS)
def test_a_release_of_noise_alone_is_not_found_to_leak_but_a_copy_of_its_table_is(neighbours):
    """By epsilon at most 0.05 in 100 can be found. Of six intervals none leaves that but with probability 1/20."""
    found = attacked("laplace-histogram", "0.001", neighbours)
    for each in (found.everybody, found.unusual, *found.columns.values()):
        assert abs(each.difference) <= each.margin + 0.0005
    assert found.leak.difference > 3 * found.leak.margin
    assert found.leak_unusual.difference > 3 * found.leak_unusual.margin
    assert found.allowed == pytest.approx(0.0005, abs=1e-6)


def test_a_model_of_pairs_guesses_better_than_the_most_frequent_value_though_it_leaks_little():
    found = attacked("mixture-fit", "1", delta="0.000001")
    assert found.everybody.outside > found.most_frequent + 0.1
    assert found.everybody.difference - found.everybody.margin <= found.allowed
    assert found.everybody.difference < found.leak.difference


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("neighbours", telling.RELATIONS)
def test_every_mechanism_that_makes_rows_can_be_attacked(few, name, neighbours):
    budgets = [privacy_budget(epsilon="2", delta=delta) for delta in ("0", "0.000001")]
    for budget in budgets:
        same = {"rows_counted": "same"} if name in ("laplace-queries", "gaussian-queries") else {}
        plan = telling.planned(name, COLUMNS, QUERIES, neighbours, budget=budget, **same)
        if plan.makes_synthetic_rows:
            found = disclosure_test(plan, rng=seeded())
            assert (found.tables, found.people, set(found.columns)) == (1, 200, {"age", "sex", "town"})
            assert found.everybody.people == 200
            assert 0 < found.rows <= membership.MOST_ROWS
            return
    raise AssertionError(f"{name} makes no rows")


def test_what_is_stated_can_be_written_down(few):
    found = attacked("laplace-histogram", "1")
    written = found.to_json()
    assert written["everybody"]["inside"] == found.everybody.inside
    assert set(written["columns"]) == {"c0", "c1", "c2", "c3"}
    assert written["confidence"] == 0.95


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "0"), ("1", "0"), ("1", "0.1"), ("5", "0.01"), ("0.01", "0.3")])
def test_no_more_is_allowed_than_what_the_guarantee_allows_and_no_less(epsilon, delta):
    """All pairs of chances on a grid that (epsilon, delta) does not rule out in either direction."""
    grid = np.linspace(0, 1, 2001)
    inside, outside = np.meshgrid(grid, grid)
    ratio, slack = exp(float(epsilon)), float(delta)
    kept = np.ones(inside.shape, dtype=bool)
    for one, two in ((inside, outside), (outside, inside), (1 - inside, 1 - outside), (1 - outside, 1 - inside)):
        kept &= one <= ratio * two + slack + 1e-12
    allowed = most_allowed(privacy_budget(epsilon=epsilon, delta=delta))
    assert (inside - outside)[kept].max() == pytest.approx(allowed, abs=1e-3)
    assert (inside - outside)[kept].max() <= allowed + 1e-9


def test_the_difference_and_its_margin_are_those_of_a_table_worked_out_by_hand():
    inside = np.array([True, True, False, False])
    found = difference_of(np.array([1.0, 1, 0, 0]), inside, is_paired=False, miss=0.1)
    assert (found.inside, found.outside, found.difference, found.people) == (1, 0, 1, 4)
    # Each coin moves the difference from one half of 1/2 to minus that.
    assert found.margin == pytest.approx(sqrt(4 * 0.5**2 * log(20) / 2))
    pairs = np.array([True, False, False, True])
    found = difference_of(np.array([1.0, 0, 0.5, 0.5]), pairs, is_paired=True, miss=0.1)
    assert (found.inside, found.outside, found.difference) == (0.75, 0.25, 0.5)
    assert found.margin == pytest.approx(sqrt(1 * log(20) / 2))


@pytest.mark.parametrize("is_paired", [False, True])
def test_coins_that_nothing_depends_on_leave_the_interval_no_more_often_than_stated(is_paired):
    """Of 4,000 tries at 1/50 more than 130 are outside with probability below 1e-7. Tries of many people, all alike or
    not, some of them with very different shares."""
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(4000):
        right = rng.choice([0.0, 0.25, 1.0], 60) * rng.random()
        inside = rng.random(60) < 0.5
        if is_paired:
            inside[1::2] = ~inside[0::2]
        found = difference_of(right, inside, is_paired=is_paired, miss=1 / 50)
        missed += abs(found.difference) > found.margin
    assert missed <= 130


def test_rows_that_tell_of_a_coin_are_outside_of_the_interval():
    """60 people of whom 9 in 10 are guessed right if they are inside, else 1 in 10: found but with probability 1e-9."""
    rng = np.random.default_rng(6)
    inside = rng.random(60) < 0.5
    right = (rng.random(60) < np.where(inside, 0.95, 0.05)).astype(float)
    found = difference_of(right, inside, is_paired=False, miss=0.01)
    assert found.difference > found.margin


def test_of_nobody_nothing_is_stated():
    found = difference_of(np.empty(0), np.empty(0, dtype=bool), is_paired=False, miss=0.01)
    assert (found.inside, found.difference, found.margin, found.people) == (0, 0, 0, 0)


def test_tables_are_as_many_as_the_allowance_has_room_for():
    plan = telling.planned("laplace-histogram", SOME, EVERY_PAIR)
    assert tables_of(plan) == 8
    slow = replace(plan, work=Work(cells=1, seconds=250.0, bytes=1))
    assert tables_of(slow) == 2
    with pytest.raises(Infeasible, match=r"takes about 1,00\d seconds; the test allows 600"):
        tables_of(replace(plan, work=Work(cells=1, seconds=1000.0, bytes=1)))


def test_a_plan_without_rows_and_a_single_column_are_refused_in_words(few):
    with pytest.raises(Infeasible, match="makes no synthetic rows"):
        disclosure_test(replace(telling.planned("laplace-histogram", SOME, EVERY_PAIR), options={}), rng=seeded())
    alone = telling.planned("laplace-histogram", telling.categories((4,)), [{"marginals": 1}])
    with pytest.raises(Infeasible, match="needs two columns"):
        disclosure_test(alone, rng=seeded())


def schema(impossible=()):
    columns = telling.categories((4, 3, 5))
    given = {"version": 1, "columns": columns, "neighbours": "add_remove", "unit": {"kind": "row"}}
    return Schema.from_json(given | ({"impossible": list(impossible)} if impossible else {})).universe


def test_invented_people_are_alike_in_kinds_and_one_pair_in_ten_follows_no_pattern():
    """Of 20,000 people: shares of unusual ones are off by 0.02, and of their bins by 0.05, with probability below
    1e-9."""
    people = invented.invent_people(schema(), 20_000, seeded())
    assert (people.is_unusual[0::2] == people.is_unusual[1::2]).all()
    assert abs(people.is_unusual.mean() - 0.1) < 0.02
    for some, is_even in ((people.is_unusual, True), (~people.is_unusual, False)):
        table = np.zeros((4, 3))
        np.add.at(table, (people.bins[some, 0], people.bins[some, 1]), 1 / some.sum())
        off = np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum()
        assert (off < 0.05 * 2) == is_even
        assert (np.abs(table - 1 / 12).max() < 0.05) == is_even


def test_no_invented_person_is_impossible():
    universe = schema([{"c0": ["v0", "v1"], "c1": ["v0", "v2"]}])
    people = invented.invent_people(universe, 2000, seeded())
    named = named_bins(universe.impossible, universe.attributes)
    assert not is_impossible(named, dict(zip(universe.names, people.bins.T, strict=True)), 2000).any()


def test_invented_counts_are_counts_of_bins():
    universe = schema()
    people = invented.invent_people(universe, 100, seeded())
    counts = invented.InventedCounts(universe=universe, bins=people.bins)
    assert isinstance(counts, Counts)
    table = counts.histogram()
    assert table.sum() == 100
    for cell in np.ndindex(table.shape):
        assert table[cell] == (people.bins == cell).all(axis=1).sum()
    assert (counts.marginal(("c2", "c0")) == table.sum(axis=1).T).all()


def test_half_of_the_people_are_inside_and_of_each_pair_one_where_a_person_is_replaced(few):
    for neighbours, is_paired in (("add_remove", False), ("replace", True)):
        plan = telling.planned("laplace-histogram", SOME, EVERY_PAIR, neighbours, budget=privacy_budget(epsilon="1"))
        inside = membership._Game.played(plan, seeded()).is_inside
        assert (inside[0::2] != inside[1::2]).all() == is_paired
        assert 60 < inside.sum() < 140
