"""SmallDB draws exactly the law it claims, is as private as it says, and its bounds are true.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
What the draw is made of is tested in `test_smalldb_counting`.
"""

import re
from copy import copy
from fractions import Fraction
from math import ceil, comb, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import Infeasible
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.smalldb import largest_error, setting_of
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.smalldb.candidates import Databases
from releases.engine.smalldb.existence import Rounding
from releases.engine.smalldb.strategies import MAX_CELLS, Layered
from releases.engine.tables.counts import Histogram
from releases.engine.verification.recording import record
from releases.engine.workload.queries import Workload
from tests.engine.goodness import FALSE_ALARM, p_value
from tests.engine.small_databases import (
    CASES,
    CASES_AND_DATABASES,
    A,
    Everything,
    columns_of,
    flat,
    kinds_of,
    outcome,
    setting,
    shape_for,
    span,
    tables_of,
)

RELATIONS = ["add_remove", "replace"]
UNITS = [{"kind": "row"}, {"kind": "person", "id": "who", "max_rows": 3}]
in_every_case = pytest.mark.parametrize(("name", "databases"), CASES_AND_DATABASES)


def planned(sizes, queries, neighbours="replace", *, epsilon=1, beta="1/20", unit=UNITS[0], name="smalldb", **options):
    schema = Schema.from_json({"version": 1, "columns": columns_of(sizes), "neighbours": neighbours, "unit": unit})
    workload = Workload.from_json({"version": 1, "queries": list(queries)}, schema.universe)
    budget = PureDP(epsilon=Fraction(epsilon))
    return mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(beta), options=options)


def recorded(plan, cells, seed):
    """A run, and what is shown meanwhile."""
    steps, table = [], histogram(plan, cells)
    run = record(lambda rng: plan.run(table, rng=rng, progress=lambda *step: steps.append(step)), seed=seed)
    return run, steps


def neighbouring_cells(cells, place, other_place, *, neighbours, rows):
    """The same cells with so many rows more in one of them; where rows are replaced, of another instead."""
    one, other = np.array(cells), np.array(cells)
    one[place] += rows
    if neighbours == "replace":
        other[other_place] += rows
    return one, other


class Stopped(Exception):
    pass


def stopping_at(title):
    def stop(step, share):
        if step == title:
            raise Stopped

    return stop


def histogram(plan, cells):
    universe = plan.schema.universe
    return Histogram(universe=universe, counts=np.asarray(cells, dtype=np.int64).reshape(universe.shape))


def uneven(size, rows, seed=1):
    rng = np.random.default_rng(seed)
    return rng.multinomial(rows, rng.dirichlet(np.full(size, 0.5)))


@in_every_case
def test_the_law_is_the_exponential_mechanism_over_all_databases_and_no_other(name, databases):
    """Chi-square of 700 draws against enumeration; and against four laws that a slip would give."""
    case, shape, rows = CASES[name], shape_for(CASES[name], databases), 40
    everything = Everything.of(case, databases)
    tables = tables_of(case.workload, shape, uneven(case.workload.universe.size, rows))
    chosen = setting(case.size, rows=rows, epsilon=Fraction(1, 2))
    kinds, rng = kinds_of(shape, tables), StreamRandomness(f"{name} {databases}".encode())
    if isinstance(shape, Layered):
        layers = shape.layers(shape.counted(kinds, chosen), chosen, lambda: None)
        ends = np.cumsum([part.cells_of_kind.size for part in shape.parts])[:-1]
        drawn = [outcome(shape, np.split(layers.draw(rng), ends)) for _ in range(700)]
    else:
        drawn = [outcome(shape, shape.draw(kinds, chosen, rng, lambda: None)) for _ in range(700)]
    places = {each: index for index, each in enumerate(everything.outcomes)}
    observed = np.bincount([places[each] for each in drawn], minlength=len(places))
    rate = chosen.rate

    def p(weights=everything.weights, *, rows=rows, rate=rate, tables=tables):
        other = copy(everything)
        other.weights = weights
        law = other.law(flat(tables), rows=rows, rate=rate)
        # Likely outcomes first, so that unlikely ones are pooled with each other.
        order = np.argsort(-law)
        return p_value(observed[order], law[order])

    assert p() > FALSE_ALARM
    assert p(rate=2 * rate) < FALSE_ALARM
    assert p(rate=rate / 3) < FALSE_ALARM
    assert p(tables=[np.roll(table, 1) for table in tables]) < FALSE_ALARM
    if max(everything.weights) >= 6 * min(everything.weights):
        assert p([1] * len(everything.weights)) < FALSE_ALARM


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_run_has_the_law_that_its_receipt_states(neighbours):
    """The errors of 300 runs on prefixes against their mean under the law, given the number of rows each released."""
    plan = planned((4,), [A], neighbours, epsilon=2, size=2, measure=0, population=30)
    cells = np.array([9, 1, 14, 6])
    everything = Everything(plan.workload, [("a",)], databases=Databases.MULTISETS, size=2)
    counts, rng, rate, rows_seen = histogram(plan, cells), StreamRandomness(b"runs"), plan.split.choice / 4, set()
    off, off_if_thrice, variance = 0.0, 0.0, 0.0
    for _ in range(300):
        result = plan.run(counts, rng=rng)
        rows = round(result.total)
        drawn = np.diff(np.rint(result.estimates[0] * 2 / rows), prepend=0).astype(int)
        errors = np.array(everything.errors([cells], rows=rows)) / rows
        error = errors[everything.outcomes.index((tuple(drawn.tolist()),))]
        law, thrice = (everything.law([cells], rows=rows, rate=each) for each in (rate, 3 * rate))
        off += error - law @ errors
        off_if_thrice += error - thrice @ errors
        variance += law @ errors**2 - (law @ errors) ** 2
        rows_seen.add(rows)
    assert abs(off) < 5 * sqrt(variance)
    assert abs(off_if_thrice) > 5 * sqrt(variance)
    assert (len(rows_seen) > 1) == (neighbours == "add_remove")


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
def test_no_database_is_likelier_for_a_neighbour_than_epsilon_allows(neighbours, unit):
    """Over all databases, from the plan's own rate, given the number of rows released; and it is used to the full."""
    plan = planned((3,), [A], neighbours, unit=unit, size=3, measure=0)
    rate = setting_of(plan.schema, 3, plan.split, rows=1, off=0).rate
    everything = Everything(plan.workload, [("a",)], databases=Databases.MULTISETS, size=3)
    most, worst = plan.schema.unit.max_rows, 0.0

    @settings(max_examples=60, database=None, derandomize=True)
    @given(
        st.lists(st.integers(0, 12), min_size=3, max_size=3),
        st.lists(st.integers(0, 2), min_size=most, max_size=most),
        st.lists(st.integers(0, 2), max_size=most),
        st.integers(1, 30),
    )
    def compared(common, one, other, rows):
        nonlocal worst
        first = np.array(common) + np.bincount(one, minlength=3)
        if neighbours == "add_remove":
            other = []
        elif unit["kind"] == "row":
            other = (other or [0])[:1]
        second = np.array(common) + np.bincount(np.array(other, dtype=int), minlength=3)
        laws = [everything.law([table], rows=rows, rate=rate) for table in (first, second)]
        worst = max(worst, float(np.abs(np.log(laws[0]) - np.log(laws[1])).max()))

    compared()
    # A little above for the rounding of the laws here. Half of it at least is met: half the noise would be too little.
    assert float(plan.split.choice) / 2 < worst <= float(plan.split.choice) * (1 + 1e-9)


@given(st.integers(1, 10), st.integers(1, 50), st.data())
@settings(max_examples=60)
def test_the_error_that_is_measured_moves_no_further_than_a_unit(unit, rows, data):
    """Given the database and the number of rows released, rounded up to a whole count."""
    size = 3
    cells = np.array(data.draw(st.lists(st.integers(0, 40), min_size=4, max_size=4)))
    change = np.array(data.draw(st.lists(st.integers(0, unit), min_size=4, max_size=4)))
    if change.sum() > unit:
        change[:] = 0
    answers = np.array(data.draw(st.lists(st.integers(0, size), min_size=4, max_size=4)))
    one, other = (
        largest_error([answers], [np.cumsum(table)], size=size, total=rows) for table in (cells, cells + change)
    )
    assert abs(one - other) <= unit
    assert one == ceil(
        max(abs(Fraction(rows * int(a), size) - int(q)) for a, q in zip(answers, np.cumsum(cells), strict=True))
    )


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
@pytest.mark.parametrize("name", ["prefixes", "one marginal", "a sliding window", "all pairs of three"])
def test_neighbours_with_the_same_randomness_get_the_same_noise(name, neighbours, unit):
    """The noise on the total and on the measured error: in scale, number and order. What is shown is the same too."""
    case = CASES[name]
    plan = planned(case.sizes, case.queries, neighbours, unit=unit, size=case.size)
    size, most = plan.schema.universe.size, plan.schema.unit.max_rows
    scales = [most / part for part in (plan.split.total, plan.split.measure) if part]
    assert (plan.split.total > 0) == (not plan.schema.total_is_public)

    @settings(max_examples=6, database=None, derandomize=True)
    @given(st.lists(st.integers(0, 9), min_size=size, max_size=size), st.integers(0, size - 1), st.binary(max_size=3))
    def compared(cells, place, seed):
        seen = []
        for table in neighbouring_cells(cells, place, (place + 1) % size, neighbours=neighbours, rows=most):
            run, steps = recorded(plan, table, seed)
            noise = [dict(draw.parameters) for draw in run.draws if draw.sampler == "discrete_laplace"]
            assert noise == [{"scale": scale, "size": 1} for scale in scales]
            seen.append((set(steps), run.result.bound.proof, set(run.result.notes)))
        assert seen[0] == seen[1]

    compared()


EXISTENCE = [(name, databases) for name, databases in CASES_AND_DATABASES if databases is not Databases.SEQUENCES] + [
    ("two columns apart", Databases.SEQUENCES)
]


@pytest.mark.parametrize(("name", "databases"), EXISTENCE)
def test_some_small_database_fits_every_table_as_well_as_the_theorem_says(name, databases):
    case, shape = CASES[name], shape_for(CASES[name], databases)
    sizes = range(1, case.size + 1)
    every = {size: Everything.of(case, databases, size=size) for size in sizes}
    fits = shape.fits(case.size)

    @settings(max_examples=12, database=None, derandomize=True)
    @given(st.lists(st.integers(0, 6), min_size=case.workload.universe.size, max_size=case.workload.universe.size))
    def fitted(cells):
        rows = sum(cells)
        if not rows:
            return
        tables = flat(tables_of(case.workload, shape, cells))
        for size in sizes:
            best = min(every[size].errors(tables, rows=rows)) / (rows * size)
            assert best <= fits[size - 1] * (1 + 1e-12)

    fitted()


def test_before_the_release_the_theorem_is_stated_for_the_assumed_population_and_says_so():
    plan = planned((50,), [A], size=7, population=3000, measure=0, beta="1/10")
    assert plan.bound is None
    assert plan.expectation.proof is Proof.ASSUMED
    assert "n = 3000" in plan.expectation.formula
    assert plan.parameters["assumed population"] == "3,000"
    expected = 3000 / 14 + 2 * (log(comb(56, 7)) + log(10))
    assert plan.expectation.alpha == pytest.approx(expected, rel=1e-6)
    private = planned((50,), [A], "add_remove", size=7, population=3000, measure=0, beta="1/10")
    # The number of rows costs a twentieth of epsilon, half of beta and the tail of its noise.
    tail = 20 * log(2 / (0.05 * (1 + np.exp(-1 / 20))))
    expected = 3000 / 14 + ceil(tail - 1) + 2 / 0.95 * (log(comb(56, 7)) + log(20))
    assert private.expectation.alpha == pytest.approx(expected, rel=1e-3)


def test_the_size_is_that_of_the_least_bound():
    def alpha(size):
        return 10_000 / (2 * size) + 2 * log(comb(30 + size - 1, size))

    assert planned((30,), [A], population=10_000, measure=0).size == min(range(1, 4000), key=alpha)


def test_what_is_spent_is_the_budget_and_what_fails_is_beta():
    for neighbours, measure in (("replace", 0), ("replace", 10), ("add_remove", 0), ("add_remove", 50)):
        plan = planned((5,), [A], neighbours, epsilon="0.7", measure=measure)
        split = plan.split
        assert split.choice + split.total + split.measure == Fraction(7, 10)
        assert split.beta_choice + split.beta_total + split.beta_measure <= Fraction(1, 20)
        assert min(split.choice, split.beta_choice) > 0
        assert bool(split.total) == bool(split.beta_total) == (neighbours == "add_remove")
        assert bool(split.measure) == bool(split.beta_measure) == (measure > 0)
        assert len(plan.events) == 1 + bool(split.total) + bool(split.measure)


def test_too_large_a_size_is_refused_with_the_largest_there_is():
    queries = [{"marginals": 2}]
    refused = planned((2, 2, 2), queries, size=500)
    most = int(re.search(r"at most ([\d,]+) rows", refused.infeasible)[1].replace(",", ""))
    assert planned((2, 2, 2), queries, size=most + 1).infeasible
    plan = planned((2, 2, 2), queries, size=most)
    assert not plan.infeasible
    assert plan.size == most
    with pytest.raises(Infeasible, match=r"cannot all be weighed"):
        refused.run(histogram(refused, np.zeros(8)), rng=StreamRandomness(b"x"))


def test_crossing_questions_are_refused_with_a_number_of_kinds_that_would_do():
    refused = planned((30, 40), [{"marginals": 1}])
    most = int(re.search(r"1,200 kinds.* for at most ([\d,]+) kinds", refused.infeasible)[1].replace(",", ""))
    # Six questions fewer than asked there, about as many kinds as it says.
    sizes = max(
        ((a, b) for a in range(2, 40) for b in range(2, 40) if a * b <= most and a + b <= 70),
        key=lambda pair: pair[0] * pair[1],
    )
    assert not planned(sizes, [{"marginals": 1}]).infeasible
    assert not planned((30, 40), [{"marginals": 1}], databases="sequences").infeasible


def test_questions_about_too_many_cells_at_once_are_refused_with_the_most_there_may_be():
    refused = planned((200, 200, 200), [{"marginal": ["a", "b", "c"]}])
    assert "8,000,000 cells" in refused.infeasible
    assert f"at most {MAX_CELLS:,}" in refused.infeasible
    # Other columns may be as large as they like: cells that no question tells apart are counted, not listed.
    assert not planned((20, 10_000, 10_000), [{"marginal": ["a"]}]).infeasible
    assert not planned((200, 300, 200), [{"marginals": 1}], databases="sequences").infeasible


def test_a_run_can_be_stopped_while_databases_are_counted():
    plan = planned((50,), [A])
    stop = stopping_at("Weighing all small databases")
    with pytest.raises(Stopped):
        plan.run(histogram(plan, np.full(50, 7)), rng=StreamRandomness(b"x"), progress=stop)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", list(CASES))
def test_empty_and_lopsided_tables_are_answered(name, neighbours):
    case = CASES[name]
    plan = planned(case.sizes, case.queries, neighbours, databases=case.databases[0].value, size=case.size)
    size = plan.schema.universe.size
    for cells in (np.zeros(size), np.eye(size)[0] * 10**9):
        result = plan.run(histogram(plan, cells), rng=StreamRandomness(b"lopsided"))
        assert result.total >= 1
        for answers, family in zip(result.estimates, plan.workload.families, strict=True):
            assert answers.size == family.cells(plan.schema.universe)
            assert ((answers >= 0) & (answers <= result.total)).all()
        assert sum(component.weights.sum() for component in result.distribution.components) > 0


@pytest.mark.parametrize("name", ["prefixes", "a sliding window"])
def test_a_total_further_off_than_its_tail_is_drawn_with_all_the_same(name, monkeypatch):
    """The search for levels begins at what is likely; the likely level is 10^6 times as far here."""
    monkeypatch.setattr("releases.engine.mechanisms.smalldb.released_total", lambda *given: 1)
    case, steps = CASES[name], []
    plan = planned(case.sizes, case.queries, "add_remove", size=case.size)
    counts = histogram(plan, uneven(plan.schema.universe.size, 10**9))
    result = plan.run(counts, rng=StreamRandomness(b"off"), progress=lambda *step: steps.append(step))
    assert result.total == 1
    assert len(steps) < 1000


def test_answers_are_those_of_one_small_database_and_its_distribution():
    plan = planned((3, 4), [{"marginal": ["a", "b"]}, {"marginal": ["b"]}], population=500, size=9)
    result = plan.run(histogram(plan, uneven(12, 500)), rng=StreamRandomness(b"one"))
    joint, coarse = (each * 9 / result.total for each in result.estimates)
    np.testing.assert_allclose(joint, np.rint(joint), atol=1e-9)
    np.testing.assert_allclose(joint.reshape(3, 4).sum(axis=0), coarse)
    np.testing.assert_allclose(result.distribution.marginal(("b",)) * 9, coarse)


def test_ranges_that_a_person_types_are_ranges_here():
    assert planned((9,), [span("a", 1, 6), span("a", 3, 8)]).shape.rounding is Rounding.RANGES
