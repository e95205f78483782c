"""Medians with noise scaled to smooth sensitivity: the three proofs by the numbers, the runs, and the paid bound."""

from fractions import Fraction
from math import exp, sqrt
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from releases.engine.accounting import accountant
from releases.engine.accounting.calibration import laplace_passes
from releases.engine.accounting.events import ApproximateEvent, DiscreteLaplaceEvent, PureEvent
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms import propose_test_release, smooth_median
from releases.engine.mechanisms.propose_test_release import NO_ANSWER, distance_of_trimmed_mean, trimmed_mean
from releases.engine.mechanisms.smooth_median import (
    cauchy_calibration,
    gaussian_calibration,
    laplace_calibration,
    laplace_lower_quantile,
)
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.verification.recording import record
from releases.engine.workload.smooth_sensitivity import smooth_sensitivity
from tests.engine import telling
from tests.engine.workload.test_smooth_sensitivity import (
    RELATIONS,
    column_of,
    neighbours_of,
    small_column,
    small_tables,
    values_of_a_column,
)

NAMES = ["smooth-median-cauchy", "smooth-median-laplace", "smooth-median-gaussian"]
ONE, MILLIONTH = Fraction(1), Fraction(1, 10**6)
BUDGET = ApproxDP(epsilon=ONE, delta=MILLIONTH)
with_every_mechanism = pytest.mark.parametrize("name", NAMES)


def schema_of(highest=100, neighbours="add_remove", max_rows=1, decimals=0):
    unit = {"kind": "row"} if max_rows == 1 else {"kind": "person", "id": "who", "max_rows": max_rows}
    columns = [{"name": "x", "type": "number", "edges": [0, highest], "decimals": decimals}]
    return telling.schema_of(columns, neighbours, unit)


def planned(name, *, schema=None, budget=BUDGET, **options):
    return telling.planned(name, schema or schema_of(), {"median": "x"}, budget=budget, **options)


def rows_of(plan, values):
    return Rows(universe=plan.schema.universe, columns={"x": np.asarray(values, dtype=np.int64)})


def pairs_of_neighbours(smoothness, *, changes=9, shifts=4):
    """(centre, scale) of the second law, the first having 0 and 1: |f - f'| <= min(S, S'), |ln(S / S')| <= s."""
    for change in np.linspace(-smoothness, smoothness, changes):
        for part in np.linspace(0, 1, shifts):
            yield part * min(1.0, exp(change)), exp(change)


@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(4)])
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


def laplace_density(y, centre, scale):
    return np.exp(-np.abs(y - centre) / scale) / (2 * scale)


def normal_density(y, centre, scale):
    return np.exp(-(((y - centre) / scale) ** 2) / 2) / (scale * np.sqrt(2 * np.pi))


def hockey_stick(density, one, other, epsilon):
    """The largest Pr[A] - e^epsilon Pr'[A] of two laws (centre, scale), by integration."""
    y = np.linspace(-40, 40, 60_001) * one[1]
    return integrate.trapezoid(np.maximum(density(y, *one) - exp(epsilon) * density(y, *other), 0), y)


@pytest.mark.parametrize("calibrate", [laplace_calibration, gaussian_calibration])
@pytest.mark.parametrize(("epsilon", "delta"), [(Fraction(3), Fraction(1, 50)), (ONE, MILLIONTH)])
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


def test_the_parts_of_epsilon_are_what_the_events_say():
    plan = planned("smooth-median-cauchy", budget=PureDP(epsilon=Fraction(2)), bound=25)
    assert plan.events == (PureEvent(epsilon=Fraction(3, 2)), DiscreteLaplaceEvent(noise_multiplier=Fraction(2)))
    assert plan.bound is None
    for name in NAMES[1:]:
        assert planned(name, bound=50).events[0] == ApproximateEvent(epsilon=Fraction(1, 2), delta=MILLIONTH)
        assert planned(name, bound=0).events == (ApproximateEvent(epsilon=ONE, delta=MILLIONTH),)


@with_every_mechanism
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("max_rows", [1, 3])
def test_the_noise_has_the_scale_of_the_smooth_sensitivity_of_the_table_and_the_unit(name, neighbours, max_rows):
    plan = planned(name, schema=schema_of(1000, neighbours, max_rows), bound=0)
    values, drawn = np.arange(300, 700, 2), []

    def noted(law, **given):
        drawn.append((law, given))
        return 7

    with patch.object(smooth_median, "rounded_noise", noted):
        result = plan.run(rows_of(plan, values), rng=StreamRandomness(b"x"))
    # The median of 200 values is the lower of two.
    assert result.estimates[0].tolist() == [498 + 7]
    ((law, given),) = drawn
    assert (law, given["multiplier"]) == (plan.calibration.law, plan.calibration.multiplier)
    sensitivity = smooth_sensitivity(
        column_of(values, 0, 1000),
        q=Fraction(1, 2),
        neighbours=plan.schema.neighbours,
        rows_of_unit=max_rows,
        smoothness=plan.calibration.smoothness,
    )
    assert given["scale_at"](60) == sensitivity.interval(60)


@with_every_mechanism
def test_without_a_paid_bound_the_declared_range_is_all_that_is_known(name):
    plan = planned(name, schema=schema_of(50, decimals=1), bound=0)
    assert (plan.bound.half_widths, plan.bound.proof) == ((50.0,), Proof.BEFORE)
    assert plan.run(rows_of(plan, [3, 400]), rng=StreamRandomness(b"x")).bound == plan.bound


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 60), max_size=14),
    st.integers(1, 4),
    st.fractions(Fraction(1, 10), Fraction(2), max_denominator=30),
    st.fractions(Fraction(1, 10), Fraction(1), max_denominator=30),
    st.sampled_from(RELATIONS),
)
def test_a_bound_of_less_smoothness_bounds_the_scale_of_more(values, rows, smoothness, share, neighbours):
    """S_s <= e^((s - s') (g - 1) / g) S_s', on which the paid bound rests."""
    column = column_of(values, 0, 60)
    given = {"q": Fraction(1, 2), "neighbours": neighbours, "rows_of_unit": rows}
    one, other = (smooth_sensitivity(column, **given, smoothness=each) for each in (smoothness, smoothness * share))
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


MEDIAN, MEAN = {"median": "x"}, {"mean": "x"}


def proposed(query=MEDIAN, *, schema=None, budget=BUDGET, **given):
    return telling.planned("propose-test-release", schema or schema_of(), query, budget=budget, **given)


def run(plan, values, rng):
    return plan.run(rows_of(plan, values), rng=rng)


@settings(max_examples=80)
@given(
    values_of_a_column,
    small_tables,
    st.sampled_from(RELATIONS),
    st.integers(1, 3),
    st.integers(0, 2),
    st.fractions(Fraction(1, 2), Fraction(60), max_denominator=4),
)
def test_far_from_instability_no_unit_moves_a_trimmed_mean_by_more_than_proposed(
    values, table, relation, rows, trim, eta
):
    column = small_column(values, table)
    here, mean = distance_of_trimmed_mean(column, trim=trim, bound=eta / rows), trimmed_mean(column, trim=trim)
    for other in neighbours_of(table, relation, rows):
        moved = small_column(values, other)
        assert abs(distance_of_trimmed_mean(moved, trim=trim, bound=eta / rows) // rows - here // rows) <= 1
        if here // rows:
            assert abs(trimmed_mean(moved, trim=trim) - mean) <= eta


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(0, 8))
def test_a_trimmed_mean_is_that_of_the_values_left(values, trim):
    left = sorted(values)[trim : len(values) - trim] if 2 * trim < len(values) else []
    expected = Fraction(sum(left), len(left)) if left else Fraction(15)
    assert trimmed_mean(column_of(values, 0, 30), trim=trim) == expected


def test_sums_beyond_64_bits_are_exact():
    column = column_of([2**53] * 5, -(2**53), 2**53)
    big = type(column)(
        values=column.values, last=np.array([10**9], dtype=np.int64), lowest=column.lowest, highest=column.highest
    )
    assert trimmed_mean(big, trim=7) == 2**53


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(7)])
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 10**12)])
def test_the_threshold_is_the_least_that_an_unstable_table_passes_with_delta(epsilon, delta):
    threshold, r = laplace_passes(scale=1 / epsilon, probability=delta), exp(-float(epsilon))
    assert r**threshold / (1 + r) <= float(delta)
    assert threshold == 1 or r ** (threshold - 1) / (1 + r) > float(delta)


@pytest.mark.parametrize("query", [MEDIAN, {"quantile": {"column": "x", "at": "0.8"}}, MEAN])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_good_proposal_is_answered_within_its_bound(query, neighbours):
    """250 runs at beta 0.2; a true bound fails with probability below 1e-6. It is not loose either."""
    proposal = {"mean": "60", "median": "2000", "quantile": "2500"}[next(iter(query))]
    schema = schema_of(100_000, neighbours)
    plan = proposed(query, schema=schema, beta=Fraction(1, 5), propose=proposal)
    values = np.sort(np.random.default_rng(6).integers(0, 100_000, 4_000))
    rng = StreamRandomness(f"good {query} {neighbours}".encode())
    column, trim = column_of(values, 0, 100_000), plan.proposal.trim
    truth = float(trimmed_mean(column, trim=trim)) if query is MEAN else column.quantile(plan.workload.statistic.at)
    results = [run(plan, values, rng) for _ in range(250)]
    assert all(result.bound == plan.bound and result.bound.proof is Proof.BEFORE for result in results)
    assert sum(result.notes["answered"] for result in results) == 250
    off = sum(abs(result.estimates[0][0] - truth) > plan.bound.alpha + 1e-6 for result in results)
    assert 50 - 5 * sqrt(40) <= off <= 50 + 5 * sqrt(40)
    assert plan.bound.alpha < 5 * float(proposal)


def test_a_refused_proposal_is_an_output_at_the_same_price():
    plan = proposed(MEDIAN, propose="1")
    refused = run(plan, [0, 100] * 60, StreamRandomness(b"refused"))
    assert refused.chosen == (NO_ANSWER,)
    assert refused.notes["answered"] is False
    assert refused.notes["noisy distance"] < refused.notes["threshold"] == plan.proposal.threshold
    assert (refused.estimates[0].tolist(), refused.bound.half_widths) == ([50.0], (50.0,))
    price = accountant.price(plan.events, delta=plan.delta)
    assert (price.epsilon, price.delta) == (10**12, 10**12)


def test_the_same_samplers_and_words_are_drawn_whether_it_answers_or_not():
    plan = proposed(MEDIAN, propose="1")
    tables = [[0, 100] * 60, [50] * 120, []]
    runs = [record(lambda rng, values=values: run(plan, values, rng), seed=b"x") for values in tables]
    assert [each.result.notes["answered"] for each in runs] == [False, True, False]
    assert runs[0].flow == runs[1].flow == runs[2].flow


@settings(max_examples=60, derandomize=True, database=None)
@given(
    st.lists(st.integers(0, 20), max_size=12),
    st.lists(st.integers(0, 20), max_size=2),
    st.lists(st.integers(0, 20), max_size=2),
    st.sampled_from(["add_remove", "replace"]),
    st.sampled_from([MEDIAN, MEAN]),
)
def test_before_noise_neighbours_differ_by_one_in_distance_and_where_answered_by_the_proposal(
    shared, gone, come, neighbours, query
):
    plan = proposed(query, schema=schema_of(20, neighbours, 2), propose="3", trim=1)
    pair = (shared + (gone if neighbours == "replace" else []), shared + come)
    with patch.object(propose_test_release, "discrete_laplace", lambda **kwargs: np.zeros(1, dtype=np.int64)):
        one, other = (run(plan, values, StreamRandomness(b"none")).notes["noisy distance"] for values in pair)
        assert abs(one - other) <= 1
        object.__setattr__(plan.proposal, "threshold", 1)
        answers = [run(plan, values, StreamRandomness(b"none")) for values in pair]
    if all(each.notes["answered"] for each in answers):
        assert abs(answers[0].estimates[0][0] - answers[1].estimates[0][0]) <= 3 + 1e-9


def test_a_proposal_is_a_decimal_number_kept_as_text():
    plan = proposed(MEAN, schema=schema_of(10, decimals=2), propose=" 0.250 ", trim=3)
    assert plan.options == {"propose": "0.25", "trim": 3}
    for wrong in ("0", "nan", True, 0.5):
        with pytest.raises(InvalidInput, match=r"options\.propose"):
            proposed(MEDIAN, propose=wrong)


def test_what_cannot_be_run_says_why():
    many = telling.schema_of(telling.integers((9, 9)))
    for plan, reason in (
        (proposed({"mean": ["c0", "c1"]}, schema=many), "one mean at a time"),
        (proposed(MEDIAN, propose="0.5"), "must be at least 1, the last place"),
        (proposed(MEDIAN, budget=ApproxDP(epsilon=Fraction(1, 10**16), delta=Fraction(1, 2))), "64-bit"),
    ):
        assert reason in plan.infeasible
