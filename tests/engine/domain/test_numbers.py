"""Noise on sums, means, second moments and votes: what is spent, what is drawn, and what the intervals hold."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting import accountant
from releases.engine.accounting.calibration import discrete_gaussian_budget
from releases.engine.bounds.accuracy import Proof, gaussian_max_quantile
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.sums import GaussianLaw, LaplaceLaw
from releases.engine.noise.discrete import LARGEST_SCALE
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows, Tally
from releases.engine.verification.recording import record
from releases.engine.verification.tables import Remembered
from releases.engine.workload.row_means import MeanRead, Means, PairedMeans, pooled
from releases.engine.workload.row_sentences import shown
from releases.engine.workload.row_sums import CentredMoments, CentredSums, NoisySums
from tests.engine import telling
from tests.engine.telling import RELATIONS, unit_of

PURE = PureDP(epsilon=Fraction(1))
APPROX = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
RHO = discrete_gaussian_budget(epsilon=APPROX.epsilon, delta=APPROX.delta).rho
AGE = {"name": "age", "type": "integer", "edges": [0, 18, 65, 100]}
SALARY = {"name": "salary", "type": "number", "edges": [10_000, 100_000], "decimals": 2}
BORN = [{"name": f"born{i}", "type": "integer", "edges": [1900, 2020], "outside": "drop"} for i in range(3)]
BEST = [
    {"name": each, "type": "categorical", "categories": ["yes", "no"], "outside": "no"}
    for each in ("maths", "music", "sport")
]
COLUMNS = [AGE, SALARY, *BORN, *BEST]
QUESTIONS = [
    {"sum": ["salary"]},
    {"sum": ["age", "salary"]},
    {"sum": ["born0", "born1", "born2"]},
    {"mean": ["salary"]},
    {"mean": ["age", "salary", "born0"]},
    {"second_moments": ["age", "salary"]},
    {"second_moments": ["born0", "born1", "age"]},
    {"second_moments": {"columns": ["age", "salary"], "by": "maths"}},
    {"variance": {"columns": ["age", "salary"], "by": ["maths"]}},
    {"mean": {"columns": ["age", "salary"], "by": ["maths", "music"]}},
    {"mean": {"columns": ["age", "salary", "born0"], "by": "maths"}},
    {"sum": {"columns": ["born0", "age"], "by": ["music"]}},
    {"regression": {"outcome": "salary", "columns": ["age", "maths", "born0"]}},
    {"logistic_regression": {"outcome": "music", "values": ["yes"], "columns": ["age", "maths"]}},
    {"votes": {"columns": ["maths", "music", "sport"], "category": "yes", "ballots": 2}},
]
BOTH = [("laplace-numbers", PURE), ("gaussian-numbers", APPROX)]
in_every_way = pytest.mark.parametrize(("name", "neighbours"), [*product(dict(BOTH), RELATIONS)])


def planned(
    name, query, *, neighbours="add_remove", budget=None, beta=Fraction(1, 20), columns=COLUMNS, rows=1, **options
):
    given = {"budget": budget or dict(BOTH)[name], "beta": beta, "unit": unit_of(rows)}
    return telling.planned(name, columns, query, neighbours, **given, **options)


def rows_of(universe, count, seed=1):
    rng = np.random.default_rng(seed)
    ranges = {each.name: (each.lowest, each.highest) if each.is_numeric else (0, 1) for each in universe.attributes}
    return Rows(
        universe=universe, columns={name: rng.integers(low, high + 1, count) for name, (low, high) in ranges.items()}
    )


@in_every_way
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("query", QUESTIONS, ids=str)
def test_the_worst_change_of_one_unit_costs_exactly_the_budget(name, neighbours, rows, query):
    budget = dict(BOTH)[name]
    plan = planned(name, query, neighbours=neighbours, rows=rows)
    moved = plan.noised.measurement.moved.on_lattice(plan.noised.units)
    if name == "laplace-numbers":
        assert moved.l1(scales=plan.noised.spreads) == budget.epsilon
    else:
        assert moved.l2_squared(variances=plan.noised.spreads) == 2 * RHO
    (event,) = plan.events
    price = accountant.forms(event)
    assert price.pure_epsilon == (budget.epsilon if name == "laplace-numbers" else None)


@st.composite
def neighbours_of(draw, schema):
    """Two tables, as lists of rows, that differ in one unit's rows."""
    limits = [(each.lowest, each.highest) if each.is_numeric else (0, 1) for each in schema.universe.attributes]
    # Ends of the ranges are where sums move most.
    row = st.tuples(*(st.sampled_from([low, high]) | st.integers(low, high) for low, high in limits))
    shared, most = draw(st.lists(row, max_size=4)), schema.unit.max_rows
    new = draw(st.lists(row, max_size=most))
    old = draw(st.lists(row, max_size=most)) if schema.neighbours.value == "replace" else []
    return [*shared, *old], [*shared, *new]


def table(universe, rows):
    array = np.array(rows, dtype=np.int64).reshape(-1, len(universe.names))
    return Rows(universe=universe, columns={name: array[:, i].copy() for i, name in enumerate(universe.names)})


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("query", QUESTIONS, ids=str)
def test_what_noise_is_added_to_moves_within_the_noise_between_neighbours(neighbours, rows, query):
    laplace, gaussian = (planned(name, query, neighbours=neighbours, rows=rows) for name, _ in BOTH)
    universe = laplace.schema.universe

    @settings(max_examples=40, database=None, derandomize=True)
    @given(neighbours_of(laplace.schema))
    def compared(pair):
        tables = [table(universe, each) for each in pair]

        def changes(noised):
            one, other = map(noised.exactly, tables)
            return [(abs(a - b), spread) for a, b, spread in zip(one, other, noised.spreads, strict=True)]

        assert sum(change / spread for change, spread in changes(laplace.noised)) <= PURE.epsilon
        assert sum(change * change / (2 * spread) for change, spread in changes(gaussian.noised)) <= RHO

    compared()


@pytest.mark.parametrize(
    ("name", "sampler", "spread"),
    [("laplace-numbers", "discrete_laplace", "scale"), ("gaussian-numbers", "discrete_gaussian", "variance")],
)
@pytest.mark.parametrize("query", QUESTIONS, ids=str)
def test_the_noise_drawn_is_the_noise_declared(name, sampler, spread, query):
    plan = planned(name, query)
    recording = record(lambda rng: plan.run(rows_of(plan.schema.universe, 5), rng=rng), seed=b"drawn")
    drawn = []
    for draw in recording.draws:
        parameters = dict(draw.parameters)
        assert draw.sampler == sampler
        drawn += [parameters[spread]] * parameters["size"]
    assert tuple(drawn) == plan.noised.spreads


@pytest.mark.parametrize(
    ("name", "query", "neighbours", "spreads"),
    [
        # 100,000 in cents, over epsilon 1.
        ("laplace-numbers", {"sum": ["salary"]}, "add_remove", (10_000_000,)),
        ("laplace-numbers", {"sum": ["age", "salary"]}, "add_remove", (200, 20_000_000)),
        ("gaussian-numbers", {"sum": ["age", "salary"]}, "add_remove", (100**2 / RHO, 10_000_000**2 / RHO)),
        # k ballots get noise for k.
        ("laplace-numbers", QUESTIONS[-1], "add_remove", (2,) * 3),
        ("laplace-numbers", QUESTIONS[-1], "replace", (3,) * 3),
        ("gaussian-numbers", QUESTIONS[-1], "add_remove", (1 / RHO,) * 3),
    ],
    ids=str,
)
def test_sums_and_votes_get_the_textbook_scale(name, query, neighbours, spreads):
    assert planned(name, query, neighbours=neighbours).noised.spreads == spreads


class GivenTally:
    """Counts of one column with as many rows as one likes."""

    def __init__(self, universe, values, counts):
        self.universe, self.population = universe, None
        self.values, self.counts = np.array(values, dtype=np.int64), np.array(counts, dtype=np.int64)

    def tally(self, names):
        return Tally(values=(self.values,) * len(names), counts=self.counts)


def test_no_sum_overflows_however_large_the_table():
    wide = [{"name": "x", "type": "integer", "edges": [-(2**53), 2**53]}]
    values, counts = [2**53, 2**53 - 1, -(2**53)], [2**62, 3, 5]
    total = sum(v * c for v, c in zip(values, counts, strict=True))
    squares = sum(v * v * c for v, c in zip(values, counts, strict=True))
    for query, exact in (({"sum": ["x"]}, total), ({"second_moments": ["x"]}, squares)):
        plan = planned("laplace-numbers", query, columns=wide)
        table_ = GivenTally(plan.schema.universe, values, counts)
        assert plan.noised.measurement.totals(table_) == [exact]
        result = plan.run(table_, rng=StreamRandomness(b"large"))
        assert abs(result.estimates[0][0] - exact) <= result.bound.half_widths[0] + abs(exact) * 1e-15


def test_a_sum_that_moves_far_is_rounded_to_a_lattice_that_the_bound_knows():
    plan = planned("laplace-numbers", {"second_moments": ["age", "salary"]})
    universe = plan.schema.universe
    assert plan.noised.units[0] == 1
    assert plan.noised.units[2] == Fraction(10_000_000**2, 2**24)
    assert all(spread <= 3 * 2**24 for spread in plan.noised.spreads)
    rows = rows_of(universe, 50)
    exact = plan.noised.measurement.totals(rows)
    for total, steps, unit in zip(exact, plan.noised.exactly(rows), plan.noised.units, strict=True):
        assert abs(steps * unit - total) <= (unit / 2 if unit > 1 else 0)
    spread, unit = plan.noised.spreads[2], plan.noised.units[2]
    alone = unit * plan.noised.law.largest(spread, count=3, beta=0.05)
    assert plan.noised.reach[2] == alone + unit / 2


def test_too_many_numbers_or_a_budget_too_small_to_draw_noise_for_are_refused_in_one_sentence():
    many = [{"name": f"c{i}", "type": "integer", "edges": [0, 1]} for i in range(100)]
    plan = planned("laplace-numbers", {"second_moments": [each["name"] for each in many]}, columns=many)
    assert plan.infeasible == "It would release 5,050 numbers; the most is 5,000. Ask for fewer columns."
    tiny = planned("laplace-numbers", {"sum": ["salary"]}, budget=PureDP(epsilon=Fraction(1, 10**12)))
    assert "64 bits" in tiny.infeasible
    law = LaplaceLaw(epsilon=Fraction(1))
    assert law.can_draw(Fraction(LARGEST_SCALE))
    assert not law.can_draw(Fraction(LARGEST_SCALE) + 1)
    nothing = ApproxDP(epsilon=Fraction(1, 10**9), delta=Fraction(1, 10**9))
    assert planned("gaussian-numbers", {"sum": ["salary"]}, budget=nothing).infeasible.endswith(".")


@in_every_way
@pytest.mark.parametrize(("query", "form"), [("sum", CentredSums), ("second_moments", CentredMoments)])
def test_columns_far_from_zero_are_summed_about_their_middles(name, neighbours, query, form):
    names = ["born0", "born1", "born2"]
    plan = planned(name, {query: names}, neighbours=neighbours, beta=Fraction(1, 10**9))
    assert isinstance(plan.noised.measurement, form)
    for count in (2_000, 0):
        rows = rows_of(plan.schema.universe, count)
        result = plan.run(rows, rng=StreamRandomness(b"born"))
        columns = [rows.columns[each] for each in names]
        pairs = combinations_with_replacement(columns, 2)
        truths = columns if query == "sum" else [one * other for one, other in pairs]
        for estimate, true, width in zip(result.estimates, truths, result.bound.half_widths, strict=True):
            assert abs(estimate[0] - true.sum()) <= width


def means_of():
    return Means(schema=Schema.from_json({"version": 1, "columns": [AGE]}), names=("age",))


@given(
    st.lists(st.integers(0, 100), max_size=12),
    st.integers(0, 300),
    st.integers(0, 6),
    st.fractions(-1, 1, max_denominator=8),
    st.fractions(-1, 1, max_denominator=8),
)
def test_the_interval_of_a_mean_holds_it_wherever_sum_and_count_lie_within_their_reach(
    ages, reach, miscount, sum_off, count_off
):
    measurement, rows = means_of(), len(ages)
    centred = sum(2 * age - 100 for age in ages)
    measured = NoisySums(
        values=(Fraction(centred) + sum_off * reach, Fraction(rows + round(count_off * miscount))),
        reach=(Fraction(reach), Fraction(miscount)),
    )
    reading = measurement.read(measured)
    mean = Fraction(sum(ages), rows) if rows else Fraction(50)
    low, high = reading.notes["intervals"]["age"]
    assert low - 1e-9 <= mean <= high + 1e-9
    assert abs(reading.estimates[0][0] - float(mean)) <= reading.half_widths[0] + 1e-12
    assert 0 <= low <= high <= 100
    assert 0 <= reading.estimates[0][0] <= 100


def test_the_interval_of_a_mean_is_reached_by_sums_and_counts_within_their_reach():
    measurement = means_of()
    for centred, reach in ((40, 10), (-40, 10), (3, 10), (0, 0)):
        measured = NoisySums(values=(Fraction(centred), Fraction(7)), reach=(Fraction(reach), Fraction(2)))
        ratios = [Fraction(s, m) for s in range(centred - reach, centred + reach + 1) for m in range(5, 10)]
        low, high = measurement.read(measured).notes["intervals"]["age"]
        assert low == float((min(ratios) + 100) / 2)
        assert high == float((max(ratios) + 100) / 2)


def pair_of(ages, off, reach):
    """A pair of ages from 0 to 100, noise of so many rows on each, and r(p) the same everywhere, in rows."""
    measurement = PairedMeans(schema=means_of().schema, names=("age",))
    above, below = sum(ages), sum(100 - age for age in ages)
    values = (above + 100 * off[0], below + 100 * off[1])
    return measurement, NoisySums(values=values, reach=(Fraction(0),) * 2, pair_reach=(float(reach),) * 257)


offs = st.tuples(*(st.fractions(-9, 9, max_denominator=8),) * 2)


@given(st.lists(st.integers(0, 100), max_size=12), offs, st.fractions(0, 3, max_denominator=64))
def test_the_interval_of_a_pair_holds_the_mean_wherever_their_noise_together_is_within_reach(ages, off, more):
    place = Fraction(sum(ages), 100 * len(ages)) if ages else Fraction(1, 2)
    reach = abs((1 - place) * off[0] - place * off[1]) + more
    measurement, measured = pair_of(ages, off, reach)
    reading = measurement.read(measured)
    low, high = reading.notes["intervals"]["age"]
    assert 0 <= low <= 100 * place + Fraction(1, 10**6)
    assert 100 * place - Fraction(1, 10**6) <= high <= 100
    assert abs(reading.estimates[0][0] - float(100 * place)) <= reading.half_widths[0] + 1e-6


def mean_read(rows, place, noise):
    return MeanRead(
        low=Fraction(0),
        high=Fraction(1),
        centred=Fraction(rows) * (Fraction(place) - Fraction(1, 2)),
        rows=Fraction(rows),
        centred_variance=noise,
        rows_variance=noise,
    )


def test_the_means_of_groups_are_drawn_together_as_far_as_noise_hides_them():
    apart = [(4_000, Fraction(1, 4)), (1_000, Fraction(3, 4)), (2_000, Fraction(1, 2)), (3_000, Fraction(1, 3))]
    sharp = pooled([mean_read(*each, 1e-6) for each in apart])
    assert sharp == pytest.approx([0.25, 0.75, 0.5, 1 / 3], abs=1e-6)
    hidden = pooled([mean_read(*each, 1e9) for each in apart])
    assert hidden == pytest.approx([0.375] * 4, abs=1e-6)
    # Three groups do not tell how far groups are apart.
    assert pooled([mean_read(*each, 1e9) for each in apart[:3]]) == pytest.approx([0.25, 0.75, 0.5])


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ({"mean": {"columns": ["age"], "by": "age"}}, "mean.by"),
        ({"mean": {"columns": ["age"], "by": ["maths", "maths"]}}, "mean.by"),
        ({"mean": {"columns": ["age"]}}, "mean.by"),
        ({"mean": {"columns": ["maths"], "by": "music"}}, "mean.columns"),
        ({"sum": {"columns": ["age"], "by": "nowhere"}}, "sum.by"),
        ({"sum": {"columns": ["age"], "by": "maths", "of": 1}}, "not a known field"),
        ({"sum": {"columns": ["age"], "by": ["maths", "music", "sport", "art"]}}, "at most 3"),
    ],
    ids=str,
)
def test_groups_that_cannot_be_are_refused_by_their_field(query, what):
    art = {"name": "art", "type": "categorical", "categories": ["yes", "no"], "outside": "no"}
    with pytest.raises(InvalidInput, match=what):
        planned("laplace-numbers", query, columns=[*COLUMNS, art])


def test_a_mean_under_more_noise_than_rows_is_only_known_to_lie_in_its_range():
    plan = planned("laplace-numbers", {"mean": ["age"]}, budget=PureDP(epsilon=Fraction(1, 1000)))
    result = plan.run(rows_of(plan.schema.universe, 3), rng=StreamRandomness(b"few"))
    assert result.notes["intervals"]["age"] == [0.0, 100.0]


@in_every_way
def test_what_is_foretold_of_a_mean_holds_for_tables_at_least_as_large(name, neighbours):
    """200 runs at beta 0.2; a true bound fails with probability below 1e-6."""
    query = {"mean": ["age", "born0"]}
    plan = planned(name, query, neighbours=neighbours, beta=Fraction(1, 5), expected_rows=400)
    assert plan.bound is None
    assert plan.expectation.proof is Proof.ASSUMED
    assert plan.expectation.says.startswith("if at least 400 rows are counted, the mean of age is within ")
    rows, rng = rows_of(plan.schema.universe, 400), StreamRandomness(b"foretold")
    truths = [rows.columns[each].mean() for each in query["mean"]]
    misses, counts = 0, Remembered(rows)
    for _ in range(200):
        estimates = plan.run(counts, rng=rng).estimates
        off = [abs(each[0] - true) for each, true in zip(estimates, truths, strict=True)]
        misses += any(each > width for each, width in zip(off, plan.expectation.half_widths, strict=True))
    assert misses <= 40 + 5 * sqrt(200 * 0.2 * 0.8)


def test_the_normal_tail_never_promises_more_than_the_discrete_law_keeps():
    law = GaussianLaw(rho=Fraction(1, 2))
    for variance in (Fraction(10**8) + 1, Fraction(3 * 10**8)):
        for beta in (0.2, 0.01, 1e-6):
            exact = gaussian_max_quantile(variance=variance, count=4, beta=beta)
            assert exact <= law.largest(variance, count=4, beta=beta) <= exact + 1
    # Far beyond what can be summed it is the normal quantile, not the sub-Gaussian bound, 39% above it at 95%.
    wide = law.largest(Fraction(10**30), count=1, beta=0.05)
    assert wide / 10**15 == pytest.approx(1.959964, rel=1e-6)


@given(st.fractions(Fraction(1, 10**6), 10**15), st.fractions(-(10**9), 10**9))
def test_numbers_in_sentences_are_rounded_outwards_to_four_digits(width, value):
    said = Fraction(shown(width, up=True).replace(",", ""))
    assert width <= said <= width * (1 + Fraction(1, 999))
    low, high = (Fraction(shown(value, up=up, beside=width).replace(",", "")) for up in (False, True))
    assert low <= value <= high
    assert high - low <= width / 999
