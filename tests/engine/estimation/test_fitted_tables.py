"""`pmw` and `marginal-fit`: what each step may spend, what the certificate proves, and how parts fall apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation import components as parts_module
from releases.engine.estimation.components import answers, connected_parts, distribution, exact_answers
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.budget_split import Allowance
from releases.engine.mechanisms.error_certificate import Certificate
from releases.engine.mechanisms.marginal_fit.common import without_excess
from releases.engine.mechanisms.marginal_fit.mechanism import MarginalFitPlan
from releases.engine.mechanisms.pmw.offline import KnownPart, PMWPlan
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload

PURE = PureDP(epsilon=Fraction(1))
APPROX = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
UNITS = [{"kind": "row"}, {"kind": "person", "id": "who", "max_rows": 3}]


def schema_of(*sizes, neighbours="add_remove", unit=None):
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(size + 1))} for i, size in enumerate(sizes)]
    return Schema.from_json(
        {"version": 1, "columns": columns, "neighbours": neighbours, "unit": unit or {"kind": "row"}}
    )


def workload_of(schema, *queries):
    return Workload.from_json({"version": 1, "queries": list(queries)}, schema.universe)


def planned(name, schema, *queries, budget=PURE, **options):
    workload = workload_of(schema, *queries)
    return mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(1, 20), options=options)


def skewed(schema, rows, seed=1):
    weights = np.random.default_rng(seed).dirichlet(np.full(schema.universe.size, 0.1))
    counts = np.random.default_rng(seed).multinomial(rows, weights).reshape(schema.universe.shape)
    return Histogram(universe=schema.universe, counts=counts.astype(np.int64))


@given(st.fractions(Fraction(1, 1000), 20), st.lists(st.floats(0.001, 1.0), min_size=1, max_size=20), st.booleans())
def test_shares_add_up_to_no_more_than_the_whole(amount, parts, is_pure):
    allowance = Allowance(amount=amount, is_pure=is_pure)
    shares = allowance.shares(parts)
    assert sum(each.amount for each in shares) <= amount
    assert sum(each.amount for each in shares) > amount - Fraction(len(parts), 10**24) - amount / 10**9


@given(st.fractions(Fraction(1, 10**6), 50))
def test_the_epsilon_of_a_choice_costs_at_most_the_rho_it_has(rho):
    epsilon = Allowance(amount=rho, is_pure=False).epsilon_of_choice
    assert epsilon**2 / 8 <= rho
    assert (epsilon + Fraction(2, 10**24)) ** 2 / 8 > rho


def test_scores_and_tables_of_pmw_are_as_sensitive_as_a_unit_s_rows_make_them():
    for unit, rows in zip(UNITS, (1, 3), strict=True):
        for neighbours, moved in (("add_remove", 1), ("replace", 2)):
            plan = planned("pmw", schema_of(3, 4, neighbours=neighbours, unit=unit), {"marginals": 2})
            assert isinstance(plan, PMWPlan)
            assert plan.rounds.score == moved * rows
            assert plan.rounds.table.l1_sensitivity == moved * rows
            assert plan.certificate.noise.l1_sensitivity == rows


def test_a_certificate_speaks_of_the_largest_error_of_all_families():
    allowance = Allowance(amount=Fraction(1000), is_pure=True)
    certificate = Certificate.of(allowance, schema=schema_of(3), beta=Fraction(1, 20))
    exact = [np.array([0, 0]), np.array([10])]
    bound = certificate.bound([np.array([0, -3]), np.array([17])], exact, StreamRandomness(b"x"))
    assert bound.half_widths == (7.0, 7.0)
    assert bound.proof is Proof.AFTER


def test_questions_that_never_meet_fall_into_parts():
    schema = schema_of(2, 3, 4, 5)
    workload = workload_of(schema, {"marginal": ["c0", "c2"]}, {"prefix": "c3"}, {"marginal": ["c2"]})
    parts = connected_parts(workload)
    assert [part.universe.names for part in parts] == [("c0", "c2"), ("c3",)]
    assert [part.largest for part in parts] == [((0, 1),), ((0,),)]
    counts = skewed(schema, 200)
    tables = [part.histogram(counts) for part in parts]
    for mine, direct in zip(answers(workload, parts, tables), workload.answer(counts.marginal), strict=True):
        np.testing.assert_array_equal(mine, direct)
    universes = [part.universe for part in parts]
    described = distribution(universes, [table.astype(float) for table in tables])
    with pytest.raises(InvalidInput, match="must all belong"):
        described.marginal(("c1",))
    np.testing.assert_allclose(described.marginal(("c0", "c2")) * 200, counts.marginal(("c0", "c2")))


def test_a_part_too_large_to_be_counted_whole_is_counted_marginal_by_marginal(monkeypatch):
    monkeypatch.setattr(parts_module, "_MAX_COUNTED_CELLS", 20)
    schema = schema_of(2, 3, 4)
    workload, held = workload_of(schema, {"marginals": 2}), skewed(schema, 200)
    for mine, direct in zip(exact_answers(workload, held), workload.answer(held.marginal), strict=True):
        np.testing.assert_array_equal(mine, direct)


def test_pmw_measures_what_is_worst_first():
    """All rows in one cell of c0 × c1 while c2 is even: at a large epsilon the first table must have c0 and c1."""
    schema = schema_of(4, 4, 4)
    cells = np.zeros(schema.universe.shape, dtype=np.int64)
    cells[1, 2, :] = 500
    counts = Histogram(universe=schema.universe, counts=cells)
    plan = planned("pmw", schema, {"marginals": 2}, rounds=1, budget=PureDP(epsilon=Fraction(20)))
    for seed in range(20):
        result = plan.run(counts, rng=StreamRandomness(bytes([seed])))
        assert result.notes["tables chosen, in order"] == ["c0 × c1"]


def test_no_table_is_measured_twice_and_there_are_no_more_rounds_than_tables():
    schema = schema_of(3, 4, 2)
    plan = planned("pmw", schema, {"marginals": 2}, rounds=50, budget=PureDP(epsilon=Fraction(1, 10)))
    result = plan.run(skewed(schema, 300), rng=StreamRandomness(b"every table"))
    assert sorted(result.notes["tables chosen, in order"]) == ["c0 × c1", "c0 × c2", "c1 × c2"]


def test_updates_bring_what_is_known_nearer_to_each_noisy_table():
    schema = schema_of(4, 5)
    (part,) = connected_parts(workload_of(schema, {"marginal": ["c0", "c1"]}, {"marginals": 1}))
    known = KnownPart(part, 100, spread=1e-6)
    noisy = np.random.default_rng(0).integers(1, 20, size=(4, 5))
    noisy = noisy * 100 // noisy.sum() + 1
    known.rows = int(noisy.sum())
    known.learn(0, noisy)
    np.testing.assert_allclose(known.answer(0), noisy, atol=1)
    assert known.weights.sum() == pytest.approx(noisy.sum())


def test_marginal_fit_takes_the_noise_that_leaves_less():
    schema = schema_of(*(4,) * 8)
    many = planned("marginal-fit", schema, {"marginals": 3}, budget=APPROX)
    few = planned("marginal-fit", schema, {"marginals": 1, "columns": ["c0"]}, budget=APPROX)
    assert isinstance(many, MarginalFitPlan)
    assert many.parameters["noise"] == "discrete Gaussian"
    assert few.parameters["noise"] == "discrete Laplace"


def test_rows_that_noise_has_added_are_taken_from_the_unlikeliest_cells_that_hold_one():
    random = np.random.default_rng(5)
    # Every attribute says nearly the same, so a cell off the diagonal is unlikely.
    likely = np.full((8, 8, 8), 1e-5)
    likely[np.arange(8), np.arange(8), np.arange(8)] = 1
    likely += 0.01 * np.minimum.outer(np.minimum.outer(np.arange(8), np.arange(8)), np.arange(8))
    true = random.multinomial(4_000, likely.ravel() / likely.sum()).reshape(likely.shape).astype(float)
    spurious = random.choice(np.flatnonzero(true == 0), size=20, replace=False)
    noisy = true.copy()
    noisy.flat[spurious] = 1.0
    left = without_excess(noisy, 4_000)
    assert left.sum() == 4_000
    emptied = np.flatnonzero(left != noisy)
    assert (noisy.flat[emptied] == 1).all()
    assert (left.flat[emptied] == 0).all()
    assert np.isin(np.flatnonzero(noisy == 1), spurious).mean() < 0.5
    assert np.isin(emptied, spurious).mean() > 0.8


def test_nothing_is_expected_of_all_answers_where_a_table_is_not_measured():
    schema = schema_of(6, 5, 4)
    for rounds in (1, 2):
        assert planned("pmw", schema, {"marginals": 2}, rounds=rounds).expectation is None
    assert planned("pmw", schema, {"marginals": 2}, rounds=3).expectation is not None
