"""Medians with noise scaled to smooth sensitivity: the three proofs by the numbers, the runs, and the paid bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from math import exp
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latex2mathml.converter import convert
from scipy import integrate

from releases.engine.accounting.events import ApproximateEvent, DiscreteLaplaceEvent, PureEvent
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.errors import Infeasible
from releases.engine.mechanisms import smooth_median
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.smooth_median import (
    cauchy_calibration,
    cauchy_multiplier,
    dilation_delta,
    gaussian_calibration,
    laplace_calibration,
    laplace_delta,
    laplace_lower_quantile,
)
from releases.engine.noise.lattice import Law, rounded_noise
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.verification.recording import record
from releases.engine.workload.parsing import read_question
from releases.engine.workload.smooth_sensitivity import SmoothBound, smooth_sensitivity
from tests.engine.bounds.test_scaled_noise import rounded_law
from tests.engine.goodness import FALSE_ALARM, counts_around_zero, p_value
from tests.engine.workload.test_smooth_sensitivity import column_of

NAMES = ["smooth-median-cauchy", "smooth-median-laplace", "smooth-median-gaussian"]
ONE, MILLIONTH = Fraction(1), Fraction(1, 10**6)
BUDGET = ApproxDP(epsilon=ONE, delta=MILLIONTH)
with_every_mechanism = pytest.mark.parametrize("name", NAMES)


def schema_of(highest=100, neighbours="add_remove", max_rows=1, decimals=0):
    unit = {"kind": "row"} if max_rows == 1 else {"kind": "person", "id": "who", "max_rows": max_rows}
    columns = [{"name": "x", "type": "number", "edges": [0, highest], "decimals": decimals}]
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours, "unit": unit})


def planned(name, *, schema=None, query=None, budget=BUDGET, beta=Fraction(1, 20), **options):
    schema = schema or schema_of()
    question = read_question({"version": 1, "queries": [query or {"median": "x"}]}, schema.universe)
    return mechanism(name).plan(schema, question, budget=budget, beta=beta, options=options)


def rows_of(plan, values):
    return Rows(universe=plan.schema.universe, columns={"x": np.asarray(values, dtype=np.int64)})


@contextmanager
def tables_taken_once() -> Iterator[None]:
    """Thousands of runs on few tables: order statistics and tails of the noise are computed once for each."""
    columns = {}
    of, sensitivity = (
        smooth_median.SortedColumn.of,
        lru_cache(64)(lambda key, **kw: smooth_sensitivity(columns[key], **kw)),
    )

    def remembered(tally, attribute):
        column = of(tally, attribute)
        key = (column.values.tobytes(), column.last.tobytes(), column.highest)
        return columns.setdefault(key, column)

    def looked_up(column, **kwargs):
        return sensitivity((column.values.tobytes(), column.last.tobytes(), column.highest), **kwargs)

    tails = {each: lru_cache(1 << 14)(each.tail) for each in Law.__subclasses__()}
    with (
        patch.object(smooth_median.SortedColumn, "of", remembered),
        patch.object(smooth_median, "smooth_sensitivity", looked_up),
    ):
        with_tails = [patch.object(each, "tail", tail) for each, tail in tails.items()]
        for each in with_tails:
            each.start()
        try:
            yield
        finally:
            for each in with_tails:
                each.stop()


def pairs_of_neighbours(smoothness, *, changes=9, shifts=4):
    """(centre, scale) of the second law, the first having 0 and 1: |f - f'| <= min(S, S'), |ln(S / S')| <= s."""
    for change in np.linspace(-smoothness, smoothness, changes):
        for part in np.linspace(0, 1, shifts):
            yield part * min(1.0, exp(change)), exp(change)


@pytest.mark.parametrize("epsilon", [Fraction(1, 20), ONE, Fraction(4)])
def test_cauchy_noise_is_private_at_every_change_of_scale_and_with_nothing_less(epsilon):
    calibration = cauchy_calibration(epsilon)
    c, s = float(calibration.multiplier), float(calibration.smoothness)
    y = np.concatenate([np.linspace(-30, 30, 20_001), -np.geomspace(30, 1e6, 500), np.geomspace(30, 1e6, 500)]) * c

    def largest_loss(c):
        losses = []
        for shift, scale in pairs_of_neighbours(s, changes=21):
            ratio = (c**2 * scale**2 + (y - shift) ** 2) / (scale * (c**2 + y**2))
            losses.append(np.abs(np.log(ratio)).max())
        return max(losses)

    assert largest_loss(c) <= float(epsilon) * (1 + 1e-12)
    assert largest_loss(c) >= float(epsilon) * (1 - 1e-3)
    assert largest_loss(c * 0.98) > float(epsilon) * (1 + 1e-3)


def test_the_cauchy_multiplier_covers_shift_and_scale_together():
    # At a smoothness near epsilon the change of scale decides; at a small one the shift, 1 / (2 sinh(epsilon / 2)).
    assert float(cauchy_multiplier(epsilon=ONE, smoothness=Fraction(1, 10**6))) == pytest.approx(0.95951737566747)
    near = float(cauchy_multiplier(epsilon=ONE, smoothness=Fraction(99, 100)))
    assert near == pytest.approx(1 / np.sqrt(2 * exp(0.99) * (np.cosh(1) - np.cosh(0.99))))
    assert near > 2
    # Nissim, Raskhodnikova and Smith's 6 / epsilon at epsilon / 6 is private too, six times as wide.
    assert float(cauchy_multiplier(epsilon=ONE, smoothness=Fraction(1, 6))) < 6 / 6.2
    for epsilon in (Fraction(1, 10**20), Fraction(100)):
        assert cauchy_multiplier(epsilon=epsilon, smoothness=epsilon * 7 / 10) > 0


def laplace_density(y, centre, scale):
    return np.exp(-np.abs(y - centre) / scale) / (2 * scale)


def normal_density(y, centre, scale):
    return np.exp(-(((y - centre) / scale) ** 2) / 2) / (scale * np.sqrt(2 * np.pi))


def hockey_stick(density, one, other, epsilon):
    """The largest Pr[A] - e^epsilon Pr'[A] of two laws (centre, scale), by integration."""
    y = np.linspace(-40, 40, 60_001) * one[1]
    return integrate.trapezoid(np.maximum(density(y, *one) - exp(epsilon) * density(y, *other), 0), y)


@pytest.mark.parametrize("calibrate", [laplace_calibration, gaussian_calibration])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(ONE, Fraction(1, 1000)), (Fraction(3), Fraction(1, 50)), (ONE, MILLIONTH)]
)
def test_laplace_and_gaussian_noise_keep_their_delta_at_every_change_of_scale(calibrate, epsilon, delta):
    calibration = calibrate(epsilon=epsilon, delta=delta)
    c, s = float(calibration.multiplier), float(calibration.smoothness)
    is_laplace = calibrate is laplace_calibration
    density = laplace_density if is_laplace else normal_density

    def largest(c, s):
        return max(
            hockey_stick(density, (0, c), (shift, c * scale), float(epsilon)) for shift, scale in pairs_of_neighbours(s)
        )

    assert largest(c, s) <= float(delta) * (1 + 1e-3) + 1e-12
    # The Laplace form is exact; the Gaussian one composes two exact deltas, so it may lose something.
    assert largest(c, s) >= float(delta) * (0.98 if is_laplace else 0.05)
    assert largest(c, 1.2 * s) > float(delta) * (1.05 if is_laplace else 0.05)
    assert largest(c / 2, s) > float(delta)


def test_the_delta_of_a_change_of_scale_is_that_of_integration_and_grows_with_it():
    for smoothness in (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)):
        wide = exp(float(smoothness))
        laplace = hockey_stick(laplace_density, (0.5, wide), (0, 1), 1.0)
        gaussian = hockey_stick(normal_density, (0, wide), (0, 1), 0.5)
        assert float(laplace_delta(epsilon=ONE, smoothness=smoothness)) == pytest.approx(laplace, rel=1e-4)
        found = float(dilation_delta(epsilon=ONE, smoothness=smoothness))
        assert found == pytest.approx(exp(0.5) * gaussian, rel=1e-4)
    grid = [Fraction(j, 40) for j in range(1, 21)]
    for delta_of in (laplace_delta, dilation_delta):
        deltas = [delta_of(epsilon=ONE, smoothness=each) for each in grid]
        assert deltas == sorted(deltas)


@with_every_mechanism
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_answers_have_the_rounded_law_of_their_own_table_and_not_that_of_another_scale(name, neighbours):
    """Acceptance fails with probability 1e-6; noise a quarter too narrow is seen."""
    plan = planned(name, schema=schema_of(1000, neighbours), bound=0)
    values = np.arange(300, 700, 2)
    column = column_of(values, 0, 1000)
    sensitivity = smooth_sensitivity(
        column,
        q=Fraction(1, 2),
        neighbours=plan.schema.neighbours,
        rows_of_unit=1,
        smoothness=plan.calibration.smoothness,
    )
    sigma = float(plan.calibration.multiplier) * sensitivity.interval(40)[0] / 2**40
    rng, rows = StreamRandomness(name.encode()), rows_of(plan, values)
    with tables_taken_once():
        drawn = np.array([plan.run(rows, rng=rng).estimates[0][0] for _ in range(2000)]).astype(int) - 498
    # The median of 200 values, the lower of two.
    assert column.quantile(Fraction(1, 2)) == 498
    counts = counts_around_zero(drawn, 300)
    assert p_value(counts, rounded_law(plan.calibration.law, sigma, 300)) > FALSE_ALARM
    assert p_value(counts, rounded_law(plan.calibration.law, 0.75 * sigma, 300)) < FALSE_ALARM


@with_every_mechanism
def test_a_median_that_no_few_rows_can_move_comes_out_exactly_and_its_bound_says_so(name):
    plan = planned(name, schema=schema_of(10**6, decimals=2))
    values = np.concatenate([np.full(2000, 1_234_56), np.arange(0, 900), 10**8 - np.arange(0, 900)])
    results = [plan.run(rows_of(plan, values), rng=StreamRandomness(b"%d" % seed)) for seed in range(30)]
    assert {result.estimates[0][0] for result in results} == {1234.56}
    assert min(result.bound.alpha for result in results) == 0
    assert sum(result.bound.alpha > 0.5 for result in results) <= 6


@with_every_mechanism
def test_answers_stay_in_the_declared_range_of_an_empty_table_too(name):
    plan = planned(name, schema=schema_of(7))
    answers = [plan.run(rows_of(plan, []), rng=StreamRandomness(b"%d" % seed)).estimates[0][0] for seed in range(40)]
    assert set(answers) <= set(range(8))
    assert len(set(answers)) > 1


@st.composite
def neighbouring_values(draw, relation, rows):
    """Two columns that differ by one unit of at most so many rows, and their common ones."""
    value = st.integers(0, 20)
    shared = draw(st.lists(value, max_size=12))
    gone, come = draw(st.lists(value, max_size=rows)), draw(st.lists(value, max_size=rows))
    return (shared + gone, shared + come) if relation == "replace" else (shared, shared + come)


@with_every_mechanism
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("max_rows", [1, 3])
def test_neighbours_draw_alike_and_differ_by_no_more_than_the_scales_allow(name, neighbours, max_rows):
    """Same randomness: the same samplers, laws and words; medians within both scales, these within e^s."""
    schema = schema_of(20, neighbours, max_rows)
    plan = planned(name, schema=schema)
    scales = []

    def noted(law, *, scale_at, **kwargs):
        scales.append(scale_at.__self__)
        return rounded_noise(law, scale_at=scale_at, **kwargs)

    @settings(max_examples=40, derandomize=True, database=None)
    @given(neighbouring_values(neighbours, max_rows), st.binary(min_size=1, max_size=3))
    def compared(pair, seed):
        tables = [rows_of(plan, values) for values in pair]
        one, other = (record(lambda rng, rows=rows: plan.run(rows, rng=rng), seed=seed) for rows in tables)
        assert [draw.sampler for draw in one.draws] == ["rounded_noise", "discrete_laplace"]
        assert one.flow == other.flow
        scales.clear()
        with patch.object(smooth_median, "rounded_noise", noted):
            for rows in tables:
                plan.run(rows, rng=StreamRandomness(seed))
        here, there = scales
        for bound, another in ((here, there), (there, here)):
            # e^s S' is the same window counted as one unit, so max_rows rows, nearer.
            assert not bound.exceeds(SmoothBound(gap=another.gap, rate=another.rate, steps=another.steps - max_rows))
        medians = [column_of(values, 0, 20).quantile(Fraction(1, 2)) for values in pair]
        if change := abs(medians[0] - medians[1]):
            moved = SmoothBound(gap=change, rate=here.rate, steps=0)
            assert not moved.exceeds(here)
            assert not moved.exceeds(there)

    compared()


def test_the_parts_of_epsilon_are_what_the_events_say():
    plan = planned("smooth-median-cauchy", budget=PureDP(epsilon=Fraction(2)), bound=25)
    assert plan.events == (PureEvent(epsilon=Fraction(3, 2)), DiscreteLaplaceEvent(noise_multiplier=Fraction(2)))
    assert plan.bound is None
    for name in NAMES[1:]:
        assert planned(name, bound=50).events[0] == ApproximateEvent(epsilon=Fraction(1, 2), delta=MILLIONTH)
        assert planned(name, bound=0).events == (ApproximateEvent(epsilon=ONE, delta=MILLIONTH),)


@with_every_mechanism
def test_without_a_paid_bound_the_declared_range_is_all_that_is_known(name):
    plan = planned(name, schema=schema_of(50, decimals=1), bound=0)
    assert plan.bound.half_widths == (50.0,)
    assert plan.bound.proof is Proof.BEFORE
    assert "from 0 to 50" in plan.bound.says
    result = plan.run(rows_of(plan, [3, 400]), rng=StreamRandomness(b"x"))
    assert result.bound == plan.bound
    convert(result.bound.formula)


@with_every_mechanism
def test_a_paid_bound_covers_and_is_far_below_the_range(name):
    """200 runs at beta 0.2; a true bound fails with probability below 1e-6. Here at most half may be used up."""
    plan = planned(
        name, schema=schema_of(10**6), budget=ApproxDP(epsilon=Fraction(2), delta=MILLIONTH), beta=Fraction(1, 5)
    )
    values = np.sort(np.random.default_rng(2).integers(0, 10**6, 4000))
    truth, rng = values[1999], StreamRandomness(name.encode())
    rows = rows_of(plan, values)
    with tables_taken_once():
        results = [plan.run(rows, rng=rng) for _ in range(200)]
    assert all(result.bound.proof is Proof.AFTER for result in results)
    left = sum(abs(result.estimates[0][0] - truth) > result.bound.alpha for result in results)
    assert left <= 40 + 5 * np.sqrt(200 * 0.16)
    assert np.median([result.bound.alpha for result in results]) < 2 * 10**5
    convert(results[0].bound.formula)
    assert f"within {results[0].bound.alpha:g} of the median of x of the table." in results[0].bound.says


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 60), max_size=14),
    st.integers(1, 4),
    st.fractions(Fraction(1, 10), Fraction(2), max_denominator=30),
    st.fractions(Fraction(1, 10), Fraction(1), max_denominator=30),
    st.sampled_from(["add_remove", "replace"]),
)
def test_a_bound_of_less_smoothness_bounds_the_scale_of_more(values, rows, smoothness, share, neighbours):
    """S_s <= e^((s - s') (g - 1) / g) S_s', on which the paid bound rests."""
    one, other = (
        smooth_sensitivity(
            column_of(values, 0, 60),
            q=Fraction(1, 2),
            neighbours=schema_of(60, neighbours).neighbours,
            rows_of_unit=rows,
            smoothness=each,
        )
        for each in (smoothness, smoothness * share)
    )
    excess = float((1 - share) * smoothness * (rows - 1) / rows)
    larger, smaller = (float(each.gap) * exp(-float(each.rate * each.steps)) for each in (one, other))
    assert larger <= exp(excess) * smaller * (1 + 1e-9)


def test_the_lower_quantile_of_discrete_laplace_noise_is_the_least():
    for scale in (Fraction(1, 3), Fraction(5), Fraction(160)):
        r = exp(-1 / float(scale))
        for beta in (0.4, 0.025, 1e-6):
            least = laplace_lower_quantile(scale=scale, beta=beta)
            assert r ** (least + 1) / (1 + r) <= beta
            assert least == 0 or r**least / (1 + r) > beta * (1 - 1e-6)


def test_budgets_that_a_law_cannot_use_are_refused_in_a_sentence():
    for name in NAMES[1:]:
        plan = planned(name, budget=PureDP(epsilon=ONE))
        assert "delta above 0" in plan.infeasible
        with pytest.raises(Infeasible):
            plan.run(rows_of(plan, [1]), rng=StreamRandomness(b"x"))
    tiny = planned(NAMES[0], budget=PureDP(epsilon=Fraction(1, 10**15)))
    assert tiny.infeasible.endswith(".")
    assert not planned(NAMES[0], budget=PureDP(epsilon=Fraction(1, 10**15)), bound=0).infeasible


@with_every_mechanism
def test_other_quantiles_and_units_of_several_rows_are_answered_near_the_truth(name):
    schema = schema_of(10_000, "replace", 3)
    plan = planned(name, schema=schema, query={"quantile": {"column": "x", "at": "0.9"}})
    values = np.arange(10_000)
    result = plan.run(rows_of(plan, values), rng=StreamRandomness(b"q"))
    assert abs(result.estimates[0][0] - 8999) <= result.bound.alpha < 10_000
    assert "90%" in plan.parameters["answer"]
