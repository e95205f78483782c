"""`mixture-fit`: what each step may spend, what it answers, and universes far beyond memory."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.estimation.mixture import Mixture
from releases.engine.mechanisms import mixture_fit
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.verification.recording import record
from tests.engine import telling

RELATIONS = ["add_remove", "replace"]
PURE = PureDP(epsilon=Fraction(1))
APPROX = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))


def schema_of(*sizes, neighbours="add_remove", unit=None):
    return telling.schema_of(telling.categories(sizes, outside="v0"), neighbours, unit)


def planned(schema, *queries, budget=APPROX, **options):
    return telling.planned("mixture-fit", schema, list(queries), budget=budget, **options)


def table_of(schema, rows):
    """Rows of which neighbouring columns often agree."""
    rng = np.random.default_rng(4)
    columns, before = {}, np.zeros(rows, dtype=np.int64)
    for attribute in schema.universe.attributes:
        fresh = np.minimum(rng.geometric(0.5, rows) - 1, attribute.size - 1)
        before = np.where(rng.random(rows) < 0.6, np.minimum(before, attribute.size - 1), fresh)
        columns[attribute.name] = before
    return Rows(universe=schema.universe, columns=columns)


@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_plan_spends_its_budget_and_no_more(budget, neighbours, order):
    plan = planned(schema_of(4, 3, 5, 2, neighbours=neighbours), {"marginals": order}, budget=budget)
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    spent = price.epsilon / 10**accountant.EPSILON_PLACES
    assert 0.9999 < spent <= 1


@pytest.mark.parametrize(("mechanism", "sizes"), [("mixture-fit", (4, 3)), ("marginal-fit", (9, 8, 7, 6, 5))])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_all_noise_of_a_run_is_paid_by_the_one_event_that_is_charged(epsilon, mechanism, sizes):
    """A row moves each table, the number of rows and the largest error by one."""
    schema = schema_of(*sizes)
    budget = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(1, 10**6))
    plan = telling.planned(mechanism, schema, [{"marginals": 2}], budget=budget)
    (event,) = plan.events
    seen = record(lambda noise: plan.run(table_of(schema, 500), rng=noise), seed=b"all")
    draws = [dict(draw.parameters) for draw in seen.draws if draw.sampler == "discrete_gaussian"]
    assert len(draws) > 3
    spent = sum(1 / Fraction(given["variance"]) for given in draws)
    assert 0.9999 < spent * event.noise_variance <= 1


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("rows", [1, 2])
def test_distances_move_exactly_as_far_as_is_said_for_all_small_neighbours(neighbours, rows):
    """A unit of two rows is two rows at once, the same ones for the worst case."""
    schema = schema_of(2, 2, 2, 2, neighbours=neighbours, unit=telling.PERSON if rows == 2 else None)
    plan = planned(schema, {"marginals": 3})
    # Too few rows in all cells but one, and too many there: leaving it for another is wrong twice.
    fitted = np.zeros((2, 2, 2), dtype=np.int64)
    fitted[1, 1, 1] = 10

    def distances(table):
        counts = np.zeros((2, 2, 2, 2), dtype=np.int64)
        for cell in table:
            counts[cell] += rows
        return np.array([np.abs(counts.sum(axis=axis) - fitted).sum() for axis in range(4)])

    pairs = telling.all_neighbours(np.ndindex(2, 2, 2, 2), most_rows=2, neighbours=neighbours)
    moves = [distances(one) - distances(other) for one, other in pairs]
    spent = plan.split.tables
    # What the noise is calibrated to is told by its variance and by what is spent on it.
    declared = plan.split.on_distances(spent, 4).variance * 2 * float(spent.amount)
    worst = max(int((move**2).sum()) for move in moves)
    assert worst == pytest.approx(declared, rel=1e-9)


def uniform(shape, *measured, **options):
    """In place of a fit, which takes longest."""
    stacked = np.concatenate([np.full((bins, 1), 1 / bins, np.float32) for bins in shape])
    return Mixture(shape=tuple(shape), shares=np.ones(1, np.float32), stacked=stacked)


@pytest.fixture
def unfitted(monkeypatch):
    """A run whose fit is fixed, and whose choice of triples and number of rows too: what is measured then is exact
    numbers plus noise. Gives the noisy distances and tables of each run.
    """
    seen = []

    def fixed(shape, measured, **options):
        seen[-1]["tables"] = [each.table for each in measured]
        return uniform(shape)

    def all_triples(distances, cells, *, rows, **options):
        seen[-1]["distances"] = distances * 2 * rows
        return [(at, 1.0) for at in range(len(distances))]

    def nine(measured, total, variance):
        seen.append({"total": total})
        return 9.0

    monkeypatch.setattr(mixture_fit, "fit_mixture", fixed)
    monkeypatch.setattr(mixture_fit, "triples_to_measure", all_triples)
    monkeypatch.setattr(mixture_fit, "measured_rows", nine)
    # The released number of rows is an input to all that follows it: neighbours are compared for the same one.
    of = mixture_fit._Schedule.of
    monkeypatch.setattr(mixture_fit._Schedule, "of", lambda split, rows: of(split, 9))
    monkeypatch.setattr(mixture_fit, "_MAX_BLUR", 1e9)
    monkeypatch.setattr(mixture_fit, "_LEAST_LEVEL", 0.0)
    return seen


@pytest.mark.parametrize("unit", [None, telling.PERSON], ids=["rows", "persons"])
@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("least", [0.0, 0.2], ids=["bins", "levels"])
def test_neighbours_are_drawn_for_alike_and_their_exact_numbers_cost_at_most_the_budget(
    least, neighbours, budget, unit, unfitted, monkeypatch
):
    """With the same randomness the noise is the same, so what two runs measure differs by what the tables do."""
    monkeypatch.setattr(mixture_fit, "_LEAST_LEVEL", least)
    schema = schema_of(2, 3, 2, 2, neighbours=neighbours, unit=unit)
    plan = planned(schema, {"marginals": 3}, budget=budget)
    moved, rng = 2 if unit else 1, np.random.default_rng(12)
    most = 0.0
    for seed in range(25):
        tables = []
        shared = rng.integers(0, 2, size=(6, 4))
        for side in range(2):
            kept = moved if side == 0 or neighbours == "replace" else 0
            own = np.repeat(rng.integers(0, 2, size=(1, 4)), kept, axis=0)
            rows = np.concatenate([shared, own])
            columns = {f"c{i}": rows[:, i].astype(np.int64) for i in range(4)}
            tables.append(Rows(universe=schema.universe, columns=columns))
        one, other = (
            record(lambda noise, table=table: plan.run(table, rng=noise), seed=b"%d" % seed) for table in tables
        )
        assert one.flow == other.flow
        assert one.draws
        first, second = unfitted[-2], unfitted[-1]
        spent = cost_of(one, first, second, is_pure=budget is PURE)
        allowed = float(plan.split.tables.amount)
        assert spent <= allowed * (1 + 1e-9)
        most = max(most, spent / allowed)
    assert most > (0.4 if least else 0.8)


def cost_of(recording, first, second, *, is_pure):
    """What the noise on tables and distances hides of the difference of two runs: epsilon, or rho."""
    numbers = [*first["tables"], first["distances"]], [*second["tables"], second["distances"]]
    ones, pairs, triples = 4, 6, 4
    tables_in_order = [*numbers[0][: ones + pairs], numbers[0][-1], *numbers[0][ones + pairs : -1]]
    others_in_order = [*numbers[1][: ones + pairs], numbers[1][-1], *numbers[1][ones + pairs : -1]]
    assert len(tables_in_order) == ones + pairs + triples + 1
    drawn = [dict(draw.parameters) for draw in recording.draws]
    # The first noise is on the number of rows where that is private, the last on the largest error.
    drawn = drawn[len(drawn) - 1 - len(tables_in_order) : -1]
    spent = 0.0
    for one, other, given in zip(tables_in_order, others_in_order, drawn, strict=True):
        change = np.rint(np.asarray(one) - np.asarray(other))
        if is_pure:
            spent += float(np.abs(change).sum()) / float(given["scale"])
        else:
            spent += float((change**2).sum()) / (2 * float(given["variance"]))
    return spent


@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
def test_whatever_the_number_of_rows_no_noise_is_larger_than_was_said_before_the_run(budget):
    plan = planned(schema_of(2, 9, 40, 3), {"marginals": 3}, budget=budget)
    ones, pairs = plan.split.at_most(plan.triples)
    for rows in (0, 1, 30, 1_000, 50_000, 10**9):
        steps = plan.split.steps(mixture_fit._Schedule.of(plan.split, rows), plan.triples, rows)
        drawn = zip([*plan.split.on_ones(steps[0]), *plan.split.on_pairs(steps[1])], [*ones, *pairs], strict=True)
        assert all(noise.variance <= (1 + 1e-9) * said.variance for noise, said in drawn)
        assert sum(step.amount for step in steps) <= plan.split.tables.amount


def test_triples_are_looked_at_for_the_pairs_that_are_asked_about():
    schema = schema_of(4, 3, 4, 3)
    chain = planned(schema, *({"marginal": [f"c{i}", f"c{i + 1}"]} for i in range(3)))
    assert chain.triples == ((0, 1, 2), (1, 2, 3))
    assert planned(schema, {"marginal": ["c0", "c2"]}).triples == ()
    # Above 100,000 triples all is left to pairs.
    assert planned(schema_of(*[2] * 90), {"marginals": 3}).triples == ()


@pytest.mark.parametrize("rows", [1_000, 10**7])
@pytest.mark.parametrize("epsilon", ["0.1", "10"])
def test_what_a_fit_multiplies_is_within_the_allowance_whatever_the_table(rows, epsilon, monkeypatch):
    """Counted in the tables that the fit is given, not by a clock. One attribute has 500 levels."""
    seen = []

    def watched(shape, measured, **options):
        seen.append((options["steps"], options["components"], [each.table for each in measured]))
        return uniform(shape)

    monkeypatch.setattr(mixture_fit, "fit_mixture", watched)
    monkeypatch.setattr(mixture_fit, "measured_rows", lambda *given: float(rows))
    of = mixture_fit._Schedule.of
    monkeypatch.setattr(mixture_fit._Schedule, "of", lambda split, total: of(split, rows))
    schema = schema_of(500, 40, 40, 30, 30, 9, 9, 5, 5)
    plan = planned(schema, {"marginals": 3}, budget=ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(1, 10**9)))
    plan.run(table_of(schema, 3_000), rng=StreamRandomness(b"work"))
    steps, components, tables = seen[-1]
    cells = sum(each.size for each in tables if each.ndim == 3)
    assert cells * steps * components <= 5e10
    assert max((max(each.shape) for each in tables if each.ndim == 3), default=0) <= 64


def test_the_number_of_rows_is_exact_where_it_is_public_and_noisy_where_it_is_not(monkeypatch):
    totals, given, combined = {}, [], mixture_fit.measured_rows
    monkeypatch.setattr(
        mixture_fit,
        "measured_rows",
        lambda tables, total, variance: given.append(total) or combined(tables, total, variance),
    )
    for neighbours in RELATIONS:
        schema = schema_of(3, 3, neighbours=neighbours)
        plan = planned(schema, {"marginals": 2}, budget=PureDP(epsilon=Fraction(1, 20)))
        table = table_of(schema, 700)
        totals[neighbours] = [plan.run(table, rng=StreamRandomness(b"%d" % seed)).total for seed in range(6)]
    assert set(totals["replace"]) == {700.0}
    assert len(set(totals["add_remove"])) > 3
    # What decides the split of the budget is noisy by itself, before any table is measured.
    assert len(set(given[: len(given) // 2])) > 3


def test_with_next_to_no_noise_pairs_and_triples_are_nearly_exact():
    schema = schema_of(4, 3, 4, 3)
    plan = planned(schema, {"marginals": 3}, budget=PureDP(epsilon=Fraction(50)))
    table = table_of(schema, 3000)
    result = plan.run(table, rng=StreamRandomness(b"50"))
    exact = plan.workload.answer(table.marginal)
    off = [np.abs(one - other).sum() / 6000 for one, other in zip(result.estimates, exact, strict=True)]
    assert np.mean(off) < 0.01
    assert result.bound.alpha < 60


def test_the_bound_is_that_of_the_answers_handed_out_and_they_are_whole():
    schema = schema_of(4, 3, 4)
    table = table_of(schema, 900)
    plan = planned(schema, {"marginals": 2}, {"prefix": "c0"}, {"count": {"c0": ["v1"], "c2": ["v0", "v2"]}})
    result = plan.run(table, rng=StreamRandomness(b"bound"))
    exact = plan.workload.answer(table.marginal)
    worst = max(np.abs(one - other).max() for one, other in zip(result.estimates, exact, strict=True))
    tail = plan.split.certificate.tail
    assert abs(result.bound.alpha - worst - tail) <= 2 * tail
    assert all((each == np.rint(each)).all() for each in result.estimates)


def test_what_is_too_wide_to_be_fitted_is_refused_in_a_sentence():
    assert "6,000 bins together" in planned(schema_of(3000, 3000), {"marginals": 1}).infeasible
    assert "301 columns" in planned(schema_of(*[2] * 301), {"marginals": 1}).infeasible
    cells = planned(schema_of(*[10] * 9), {"count": {f"c{i}": ["v1"] for i in range(9)}})
    assert "9 columns that have 1,000,000,000 cells together" in cells.infeasible
    assert not planned(schema_of(*[10] * 40), {"marginals": 2}).infeasible
