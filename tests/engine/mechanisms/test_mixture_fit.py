"""`mixture-fit`: what each step may spend, what it answers, and universes far beyond memory."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.estimation.mixture import Mixture
from releases.engine.mechanisms import mixture_fit
from releases.engine.mechanisms.base import mechanism, plan_from_json
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Histogram, Rows
from releases.engine.verification.privacy_loss import loss_seen
from releases.engine.verification.recording import record
from releases.engine.workload.queries import Workload
from tests.engine.telling import all_neighbours

RELATIONS = ["add_remove", "replace"]
PURE = PureDP(epsilon=Fraction(1))
APPROX = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
PERSON = {"kind": "person", "id": "who", "max_rows": 3}


def schema_of(*sizes, neighbours="add_remove", unit=None):
    columns = [
        {"name": f"c{i}", "type": "categorical", "categories": [str(code) for code in range(size)], "outside": "0"}
        for i, size in enumerate(sizes)
    ]
    return Schema.from_json(
        {"version": 1, "columns": columns, "neighbours": neighbours, "unit": unit or {"kind": "row"}}
    )


def planned(schema, *queries, budget=APPROX, beta=Fraction(1, 20), **options):
    workload = Workload.from_json({"version": 1, "queries": list(queries)}, schema.universe)
    return mechanism("mixture-fit").plan(schema, workload, budget=budget, beta=beta, options=options)


def table_of(schema, rows, seed=4):
    """Rows of which neighbouring columns often agree."""
    rng = np.random.default_rng(seed)
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


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("rows", [1, 2])
def test_distances_move_exactly_as_far_as_is_said_for_all_small_neighbours(neighbours, rows):
    """A unit of two rows is two rows at once, the same ones for the worst case."""
    unit = {"kind": "row"} if rows == 1 else {"kind": "person", "id": "who", "max_rows": rows}
    schema = schema_of(2, 2, 2, 2, neighbours=neighbours, unit=unit)
    plan = planned(schema, {"marginals": 3})
    triples = list(combinations(range(4), 3))
    # Too few rows in all cells but one, and too many there: leaving it for another is wrong twice.
    fitted = np.zeros((2, 2, 2), dtype=np.int64)
    fitted[1, 1, 1] = 10

    def distances(table):
        counts = np.zeros((2, 2, 2, 2), dtype=np.int64)
        for cell in table:
            counts[cell] += rows
        found = []
        for axes in triples:
            (other,) = set(range(4)) - set(axes)
            found.append(np.abs(counts.sum(axis=other) - fitted).sum())
        return np.array(found)

    cells = list(np.ndindex(2, 2, 2, 2))
    moves = [
        distances(one) - distances(other) for one, other in all_neighbours(cells, most_rows=2, neighbours=neighbours)
    ]
    spent = plan.split.tables
    # What the noise is calibrated to is told by its variance and by what is spent on it.
    declared = plan.split.on_distances(spent, len(triples)).variance * 2 * float(spent.amount)
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


@pytest.mark.parametrize("unit", [None, PERSON], ids=["rows", "persons"])
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
    moved, rng = 3 if unit else 1, np.random.default_rng(12)
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


@pytest.mark.parametrize("neighbours", NeighbouringRelation)
def test_it_is_not_seen_to_spend_more_than_it_claims_and_with_less_noise_it_is(neighbours):
    seen = loss_seen("mixture-fit", neighbours, runs=6000, false_alarm=1e-6, rng=StreamRandomness(b"mixture"))
    assert seen.is_as_it_should_be


def test_triples_are_looked_at_where_the_noise_leaves_something_to_be_seen_and_else_pairs_get_all():
    schema = schema_of(4, 4, 4, 4)
    plan = planned(schema, {"marginals": 3}, budget=APPROX)
    spent = {}
    for rows, is_enough in ((50, False), (50_000, True)):
        recorded = record(lambda noise, rows=rows: plan.run(table_of(schema, rows), rng=noise), seed=b"x")
        assert ("triples measured" in recorded.result.notes) == is_enough
        pairs = [dict(draw.parameters) for draw in recorded.draws[5:11]]
        spent[rows] = sum(1 / (2 * float(each["variance"])) for each in pairs) / float(plan.split.tables.amount)
    assert 0.6 <= spent[50] <= 0.98
    assert spent[50_000] < 0.42


@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
def test_whatever_the_number_of_rows_no_noise_is_larger_than_was_said_before_the_run(budget):
    plan = planned(schema_of(2, 9, 40, 3), {"marginals": 3}, budget=budget)
    ones, pairs = plan.split.at_most(plan.triples)
    for rows in (0, 1, 30, 1_000, 50_000, 10**9):
        steps = plan._steps(mixture_fit._Schedule.of(plan.split, rows), rows)
        drawn = zip([*plan.split.on_ones(steps[0]), *plan.split.on_pairs(steps[1])], [*ones, *pairs], strict=True)
        assert all(noise.variance <= (1 + 1e-9) * said.variance for noise, said in drawn)
        assert sum(step.amount for step in steps) <= plan.split.tables.amount


def test_triples_are_looked_at_for_the_pairs_that_are_asked_about():
    """Whoever asks about less gets what somebody who asks about more gets, and so nothing worse."""
    schema = schema_of(4, 3, 4, 3)
    asked = [({"marginals": 2},), ({"marginals": 3},), ({"marginals": 2}, {"marginals": 3})]
    table, results = table_of(schema, 20_000), []
    for queries in asked:
        plan = planned(schema, *queries)
        results.append(plan.run(table, rng=StreamRandomness(b"less")))
    assert results[0].notes["triples measured"]
    first, *others = (each.distribution for each in results)
    for other in others:
        for pair in combinations(schema.universe.names, 2):
            assert np.array_equal(first.marginal(pair), other.marginal(pair))
    chain = planned(schema, *({"marginal": [f"c{i}", f"c{i + 1}"]} for i in range(3)))
    assert chain.triples == ((0, 1, 2), (1, 2, 3))
    assert planned(schema, {"marginal": ["c0", "c2"]}).triples == ()


def test_triples_that_a_question_holds_are_measured_before_those_whose_pairs_alone_are_asked_about(monkeypatch):
    """Two sets of three columns in which the third is the sum of the others; a question holds one of the two."""
    schema = schema_of(3, 3, 3, 3, 3, 3)
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 3, (6, 20_000))
    codes[2], codes[5] = (codes[0] + codes[1]) % 3, (codes[3] + codes[4]) % 3
    table = Rows(universe=schema.universe, columns={f"c{i}": codes[i] for i in range(6)})
    seen, real = [], mixture_fit.triples_to_measure

    def watched(distances, cells, *, worth, **given):
        seen.append(worth)
        return real(distances, cells, worth=worth, **given)

    monkeypatch.setattr(mixture_fit, "triples_to_measure", watched)
    plan = planned(schema, {"marginals": 2}, {"marginal": ["c3", "c4", "c5"]})
    result = plan.run(table, rng=StreamRandomness(b"held"))
    # Both are far from what pairs say, 2/3 in total variation, and the other eighteen are not.
    assert {"c0 × c1 × c2", "c3 × c4 × c5"} <= set(result.notes["triples measured"])
    assert result.notes["triples measured"][0] == "c3 × c4 × c5"
    monkeypatch.setattr(mixture_fit, "fit_mixture", uniform)
    for order in (2, 3):
        planned(schema, {"marginals": order}).run(table, rng=StreamRandomness(b"held"))
    first, pairs, triples = seen
    assert np.ptp(pairs) == 0 < pairs[0]
    assert triples.tolist() == [1.0] * 20
    assert [axes for axes, worth in zip(plan.triples, first, strict=True) if worth == 1] == [(3, 4, 5)]
    assert max(worth for axes, worth in zip(plan.triples, first, strict=True) if axes != (3, 4, 5)) < 0.5


def test_the_penalty_is_stronger_where_many_attributes_are_asked_about():
    at_once = {d: planned(schema_of(*[2] * d), {"marginals": 2}).split for d in (5, 14, 21, 28)}
    # So many rows that the signal asks for the weakest penalty, the same for all.
    strengths = {d: mixture_fit._Schedule.of(split, 10**12).strength for d, split in at_once.items()}
    assert strengths[5] == strengths[14]
    assert strengths[21] == pytest.approx(1.5 * strengths[14])
    assert strengths[28] == pytest.approx(1.6 * strengths[14]), "no further than it was measured"


@pytest.mark.parametrize("rows", [1_000, 50_000, 10**7])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
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


def test_a_pair_that_no_question_asks_about_gets_a_ninth_of_the_share():
    schema = schema_of(3, 3, 3)
    plan = planned(schema, {"marginal": ["c0", "c1"]}, {"marginal": ["c1", "c2"]})
    noises = plan.split.on_pairs(plan.split.tables)
    assert noises[1].variance / noises[0].variance == pytest.approx(9)
    assert noises[2].variance == pytest.approx(noises[0].variance)


def test_questions_about_one_column_at_a_time_cost_no_pairs():
    plan = planned(schema_of(5, 3, 2), {"marginals": 1})
    recorded = record(lambda noise: plan.run(table_of(plan.schema, 2000), rng=noise), seed=b"one")
    assert len(recorded.draws) == 1 + 3 + 1
    result = recorded.result
    assert [len(each) for each in result.estimates] == [5, 3, 2]
    assert max(np.abs(each.sum() - 2000) for each in result.estimates) < 60


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
    plan = planned(schema, {"marginals": 2}, {"prefix": "c0"}, {"count": {"c0": ["1"], "c2": ["0", "2"]}})
    result = plan.run(table, rng=StreamRandomness(b"bound"))
    exact = plan.workload.answer(table.marginal)
    worst = max(np.abs(one - other).max() for one, other in zip(result.estimates, exact, strict=True))
    tail = plan.split.certificate.tail
    assert abs(result.bound.alpha - worst - tail) <= 2 * tail
    assert all((each == np.rint(each)).all() for each in result.estimates)


WIDE = (10,) * 40


def test_forty_columns_are_answered_and_made_into_rows_that_agree_with_the_answers():
    schema = schema_of(*WIDE)
    names = [f"c{i}" for i in range(40)]
    budget = ApproxDP(epsilon=Fraction(5), delta=Fraction(1, 10**9))
    plan = planned(schema, {"marginals": 2}, {"marginal": names[:4]}, budget=budget)
    assert not plan.infeasible
    table = table_of(schema, 5000)
    made = run_release(plan, table, rng=StreamRandomness(b"wide"))
    exact = plan.workload.answer(table.marginal)
    off = [np.abs(one - other).sum() / 1e4 for one, other in zip(made.result.estimates, exact, strict=True)]
    assert np.mean(off[: comb(40, 2)]) < 0.1
    rows = Rows(universe=schema.universe, columns=made.records.columns)
    kept = [
        np.abs(one - other).sum() / 1e4
        for one, other in zip(made.result.estimates, plan.workload.answer(rows.marginal), strict=True)
    ]
    assert np.mean(kept[: comb(40, 2)]) < 0.03
    assert list(made.records.columns) == names


def test_an_answer_of_four_columns_comes_from_the_fit():
    schema = schema_of(3, 3, 3, 3)
    plan = planned(schema, {"marginals": 4})
    result = plan.run(table_of(schema, 4000), rng=StreamRandomness(b"four"))
    (component,) = result.distribution.components
    expected = np.rint(result.total * component.mixture.marginal((0, 1, 2, 3))).reshape(-1)
    assert np.abs(result.estimates[0] - expected).max() <= 1


def test_what_is_too_wide_to_be_fitted_is_refused_in_a_sentence():
    bins = planned(schema_of(3000, 3000), {"marginals": 1})
    assert "6,000 bins together" in bins.infeasible
    assert "301 columns" in planned(schema_of(*[2] * 301), {"marginals": 1}).infeasible
    cells = planned(schema_of(*[10] * 9), {"count": {f"c{i}": ["1"] for i in range(9)}})
    assert "9 columns that have 1,000,000,000 cells together" in cells.infeasible
    assert not planned(schema_of(*WIDE), {"marginals": 2}).infeasible


def test_so_many_triples_that_they_cannot_be_looked_at_leave_all_to_pairs():
    plan = planned(schema_of(*[2] * 90), {"marginals": 3})
    assert comb(90, 3) > 100_000
    assert plan.triples == ()
    assert plan.parameters["triples looked at, where the noise allows"] == "0"


def test_a_bound_is_expected_of_pairs_and_of_larger_tables_nothing_is():
    schema = schema_of(4, 4, 4)
    expected = planned(schema, {"marginals": 2}).expectation
    table = table_of(schema, 3000)
    alphas = [
        planned(schema, {"marginals": 2}).run(table, rng=StreamRandomness(b"%d" % seed)).bound.alpha
        for seed in range(10)
    ]
    assert np.median(alphas) < expected.alpha < 6 * np.median(alphas)
    assert planned(schema, {"marginals": 3}).expectation is None


def test_a_dense_histogram_and_rows_of_the_same_table_give_the_same_release():
    schema = schema_of(3, 4, 2)
    plan = plan_from_json(planned(schema, {"marginals": 2}).to_json())
    rows = table_of(schema, 500)
    dense = Histogram(universe=schema.universe, counts=rows.histogram())
    one, other = (plan.run(each, rng=StreamRandomness(b"same")) for each in (rows, dense))
    assert one.to_json() == other.to_json()
