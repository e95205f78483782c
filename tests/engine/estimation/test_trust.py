"""The trust map of synthetic rows: certificates that no table within the intervals exceeds, and states by mechanism."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest

from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.estimation import trust
from releases.engine.estimation.junction import joined
from releases.engine.estimation.mixture import Mixture
from releases.engine.estimation.result import Component, Distribution, MixtureComponent, TreeComponent
from releases.engine.estimation.trust import (
    MAX_PAIRS,
    MAX_TRIPLES,
    ReleasedTable,
    State,
    TrustInputs,
    association,
    linked,
    rows_off,
    share_off,
    trust_map,
)
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Histogram, Rows
from releases.engine.workload.queries import Marginal, Workload


def distance(counts, truth):
    """Half the sum of absolute differences of shares."""
    return np.abs(counts / counts.sum() - truth / truth.sum()).sum() / 2


PURE, APPROX = PureDP(epsilon=Fraction(2)), ApproxDP(epsilon=Fraction(2), delta=Fraction(1, 10**6))


def tables_within(lower, upper):
    yield from map(np.array, product(*(range(low, high + 1) for low, high in zip(lower, upper, strict=True))))


def test_no_table_within_the_intervals_is_further_away_than_certified():
    """All whole tables of three cells within random intervals, which the synthetic counts may lie outside of."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        counts = rng.integers(0, 9, 3) + np.array([1, 0, 0])
        lower = rng.integers(0, 7, 3)
        upper = lower + rng.integers(0, 6, 3)
        every = [each for each in tables_within(lower, upper) if each.sum() > 0]
        if not every:
            continue
        scale = rng.choice([1.0, 0.5, 3.0])
        most_rows = max(np.abs(counts * scale - each).max() for each in every)
        assert rows_off(counts * scale, lower, upper) == pytest.approx(most_rows), seed
        furthest = max(distance(counts, each) for each in every)
        found = share_off(counts.astype(float), lower, upper, least=lower.sum(), most=upper.sum())
        assert found >= furthest - 1e-12, seed
        # A known number of rows makes it tighter, and still a bound for tables of so many rows.
        total = every[len(every) // 2].sum()
        known = share_off(counts.astype(float), lower, upper, least=total, most=total)
        assert known <= found + 1e-12, seed
        assert known >= max(distance(counts, each) for each in every if each.sum() == total) - 1e-12, seed


def test_a_certificate_is_tight_where_the_intervals_are_points_and_nothing_where_there_are_none():
    truth = np.array([10.0, 20.0, 30.0])
    counts = np.array([20.0, 20.0, 20.0])
    assert share_off(counts, truth, truth, least=60, most=60) == pytest.approx(distance(counts, truth))
    assert rows_off(counts, truth, truth) == 10
    assert share_off(counts, np.zeros(3), np.full(3, 1e9), least=0, most=3e9) == 1


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ([[5, 0], [0, 5]], 1.0),
        ([[2, 4], [3, 6]], 0.0),
        ([[5, 0, 0], [0, 5, 0]], 1.0),
        ([[5, 5], [0, 0]], None),
        # chi2 = N (ad - bc)^2 / (r1 r2 c1 c2), and V its root over N
        ([[30, 10], [20, 40]], 1000 / sqrt(40 * 60 * 50 * 50)),
    ],
)
def test_association_is_cramers_v_of_what_occurs(table, value):
    found = association(np.array(table, dtype=float))
    assert found == (None if value is None else pytest.approx(value, abs=1e-9))


def mixture_of(components):
    rng = np.random.default_rng(1)
    stacked = np.concatenate([rng.dirichlet(np.ones(2), components).T for _ in range(2)]).astype(np.float32)
    shares = np.full(components, 1 / components, dtype=np.float32)
    return MixtureComponent(names=("a", "b"), mixture=Mixture(shape=(2, 2), shares=shares, stacked=stacked))


def test_a_mixture_of_one_product_links_nothing():
    assert linked(Distribution(components=(mixture_of(1),))) == [frozenset("a"), frozenset("b")]
    assert linked(Distribution(components=(mixture_of(2),))) == [frozenset("ab")]


def test_cliques_are_linked_by_what_they_share():
    tables = tuple(np.ones((2, 2)) for _ in range(3))
    cliques = joined([((0, 1), -1), ((1, 2), 0), ((3, 4), 0)])
    tree = TreeComponent(names=tuple("abcde"), cliques=cliques, tables=tables)
    alone = Component(names=("f",), weights=np.ones(2))
    assert set(linked(Distribution(components=(tree, alone)))) == {frozenset("abc"), frozenset("de"), frozenset("f")}


def schema_of(*sizes):
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(size + 1))} for i, size in enumerate(sizes)]
    return Schema.from_json({"version": 1, "columns": columns})


def table_of(schema, rows, seed=1):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(schema.universe.size, 0.1))
    counts = rng.multinomial(rows, weights).reshape(schema.universe.shape)
    return Histogram(universe=schema.universe, counts=counts.astype(np.int64))


def made_by(name, schema, table, *queries, budget=PURE):
    workload = Workload.from_json({"version": 1, "queries": list(queries)}, schema.universe)
    options = {"rows_counted": "same"} if name in ("laplace-queries", "gaussian-queries") else {}
    plan = mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(1, 20), options=options)
    return run_release(plan, table, rng=StreamRandomness(b"trust"))


def counts_of(made):
    """Of the synthetic rows: columns here have whole numbers that are their bins."""
    universe = made.plan.schema.universe

    def count(names):
        shape = tuple(universe[name].size for name in names)
        # The last bin is closed at its upper edge.
        bins = [np.minimum(made.records.columns[name], universe[name].size - 1) for name in names]
        cells = np.ravel_multi_index(bins, shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)

    return count


def map_of(made, *, is_proved=True, most_work=trust.MAX_WORK):
    universe = made.plan.schema.universe
    tables = []
    for family, ends in zip(made.plan.workload.families, made.result.intervals(), strict=True):
        if isinstance(family, Marginal):
            shape = universe.project(family.attributes).shape
            estimate, lower, upper = (each.reshape(shape) for each in ends)
            tables.append(ReleasedTable(names=family.attributes, estimate=estimate, lower=lower, upper=upper))
    return trust_map(
        TrustInputs(
            universe=universe.project(made.records.columns),
            distribution=made.result.distribution,
            tables=tables,
            is_proved=is_proved,
            measured=made.plan.measured_tables(made.result),
            counts=counts_of(made),
            rows=made.records.rows,
            rows_of_one=1.0,
            most_work=most_work,
        )
    )


def states(found):
    return {"".join(name[1:] for name in each.names): each.state.value for each in found.entries}


@pytest.mark.parametrize("name", ["gaussian-queries", "pmw", "marginal-fit"])
def test_what_is_asked_is_measured_what_it_links_is_modelled_and_the_rest_is_independent(name):
    schema = schema_of(2, 3, 2, 2)
    table = table_of(schema, 3000)
    asked = [{"marginal": ["c0", "c1"]}, {"marginal": ["c1", "c2"]}, {"marginal": ["c3"]}]
    made = made_by(name, schema, table, *asked, budget=APPROX)
    found = map_of(made)
    expected = dict.fromkeys(["01", "12", "3"], "measured") | dict.fromkeys(["03", "13", "23", "013"], "independent")
    if name != "marginal-fit":
        # Its design may measure both pairs in one table.
        expected |= dict.fromkeys(["02", "012"], "modelled")
    shown = states(found)
    assert {sets: shown[sets] for sets in expected} == expected
    certified = [each for each in found.entries if each.share_off is not None]
    singles = {(name,) for name in schema.universe.names}
    assert {each.names for each in certified} == singles | {("c0", "c1"), ("c1", "c2")}
    for each in certified:
        exact, count = table.marginal(each.names), counts_of(made)(each.names)
        assert distance(count, exact) <= each.share_off
        assert abs(count - exact).max() <= each.rows_off


def test_a_mixture_has_measured_every_pair_and_the_triples_that_it_names_and_no_other():
    schema = schema_of(*[3] * 6)
    rows = np.random.default_rng(5).integers(0, 3, (6, 60_000))
    rows[2] = (rows[0] + rows[1]) % 3
    counts = Rows(universe=schema.universe, columns=dict(zip(schema.universe.names, rows, strict=True)))
    asked = {"marginals": 3, "columns": ["c0", "c1", "c2", "c3"]}
    made = made_by("mixture-fit", schema, counts, asked, {"marginals": 1}, budget=APPROX)
    assert "c0 × c1 × c2" in made.result.notes["triples measured"]
    found = map_of(made)
    assert {each.state for each in found.of_order(2)} == {State.MEASURED}
    by_name = {each.names: each for each in found.entries}
    assert by_name["c0", "c1", "c2"].state is State.MEASURED
    # A pair that no question holds is measured, and no interval of it is released.
    assert by_name["c4", "c5"].share_off is None
    assert by_name["c0", "c1"].share_off is not None
    named = {tuple(text.split(" × ")) for text in made.result.notes["triples measured"]}
    asked_whole = set(combinations(["c0", "c1", "c2", "c3"], 3))
    measured = {each.names for each in found.of_order(3) if each.state is State.MEASURED}
    assert measured == named | asked_whole


def test_the_tightest_of_several_released_tables_counts():
    wide = ReleasedTable(
        names=("c0", "c1"), estimate=np.full((2, 2), 25.0), lower=np.zeros((2, 2)), upper=np.full((2, 2), 60.0)
    )
    close = ReleasedTable(names=("c0",), estimate=np.full(2, 50.0), lower=np.full(2, 48.0), upper=np.full(2, 52.0))
    given = TrustInputs(
        universe=schema_of(2, 2).universe,
        distribution=Distribution(components=(Component(names=("c0", "c1"), weights=np.ones((2, 2))),)),
        tables=(wide, close),
        is_proved=True,
        measured=(),
        counts=lambda names: np.full((2,) * len(names), 50 if len(names) == 1 else 25),
        rows=100,
        rows_of_one=1.0,
    )
    found = {each.names: each for each in trust_map(given).entries}
    assert found["c0",].rows_off == 2
    assert found["c1",].rows_off == 70
    # Of 96 to 104 rows: that c1 is known within 70 does not make it worse than all rows.
    assert found["c0",].share_off == pytest.approx(2 / 100, abs=5e-3)


def test_nothing_is_certified_where_intervals_are_not_proved_or_time_is_up():
    schema = schema_of(2, 3, 2)
    made = made_by("laplace-histogram", schema, table_of(schema, 500), {"marginals": 2})
    unproved = map_of(made, is_proved=False)
    assert all(each.share_off is None and each.rows_off is None for each in unproved.entries)
    assert any(each.estimated is not None for each in unproved.entries)
    late = map_of(made, most_work=0)
    assert states(late) == states(map_of(made))
    assert all((each.share_off, each.estimated, each.association) == (None, None, None) for each in late.entries)


def test_of_too_many_sets_the_measured_ones_are_listed_first(monkeypatch):
    assert MAX_PAIRS >= 200 * 199 / 2
    assert MAX_TRIPLES >= 1000
    monkeypatch.setattr(trust, "MAX_PAIRS", 4)
    monkeypatch.setattr(trust, "MAX_TRIPLES", 2)
    schema = schema_of(2, 2, 2, 2)
    made = made_by("laplace-queries", schema, table_of(schema, 500), {"marginal": ["c1", "c2", "c3"]}, {"marginals": 1})
    found = map_of(made)
    assert found.possible == (4, 6, 4)
    pairs = [each.names for each in found.of_order(2)]
    assert len(pairs) == 4
    assert {("c1", "c2"), ("c1", "c3"), ("c2", "c3")} < set(pairs)
    assert len(found.of_order(3)) == 2
    assert ("c1", "c2", "c3") in {each.names for each in found.of_order(3)}
