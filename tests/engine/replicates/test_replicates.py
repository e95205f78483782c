"""Intervals from replicates hold the population's number, and would not if they left out the noise or the sample.

Tables are simulated on fixed streams from a population that is known. Were these not fixed, a test would fail by chance
with probability below 1e-6.
"""

import inspect
from fractions import Fraction
from math import comb, sqrt

import numpy as np
import pytest

from releases.engine.errors import Infeasible, InvalidInput
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.replicates import draw
from releases.engine.replicates.combine import interval_of
from releases.engine.replicates.draw import DrawnCounts, draw_replicates
from releases.engine.run import run_release
from releases.engine.tables.counts import Histogram
from tests.engine import telling

#: Two groups of three ranges.
POPULATION = np.array([[0.30, 0.20, 0.10], [0.08, 0.12, 0.20]])
COLUMNS = [*telling.categories((2,)), *[each | {"name": "c1"} for each in telling.integers((3,))]]
ROWS, TABLES, FEWER = 2_000, 100, 50


def at_least(tries, chance=0.95, miss=telling.FALSE_ALARM):
    """The fewest of so many tries that succeed, but for a probability below `miss`."""
    probability = 0.0
    for number in range(tries + 1):
        probability += comb(tries, number) * chance**number * (1 - chance) ** (tries - number)
        if probability >= miss:
            return number
    raise AssertionError


def numbers(counts):
    """A share, the mean of the ranges' numbers, a difference of shares, and the slope of the ranges on the group."""
    law = counts / counts.sum()
    within = law / law.sum(axis=1, keepdims=True)
    middles = np.arange(3)
    return {
        "share": law[:, 2].sum(),
        "mean": law.sum(axis=0) @ middles,
        "difference": within[0, 2] - within[1, 2],
        "slope": within[1] @ middles - within[0] @ middles,
    }


TRUTH = numbers(POPULATION)


def planned(name="laplace-histogram", epsilon="1/40", **options):
    return telling.planned(name, COLUMNS, {"marginal": ["c0", "c1"]}, epsilon=Fraction(epsilon), **options)


def released(plan, counts, rng):
    """The synthetic rows of a release, counted from their values."""
    made = run_release(plan, Histogram(universe=plan.schema.universe, counts=counts), rng=rng)
    columns = made.records.columns
    # The last range is 2 to 3.
    return np.bincount(3 * columns["c0"] + np.minimum(columns["c1"], 2), minlength=6).reshape(2, 3)


def simulated(plan, number):
    """The numbers in the synthetic rows of each of so many tables, and those in their replicates."""
    sampler = np.random.default_rng(7)
    for table in range(number):
        rng = StreamRandomness(f"table {table}".encode())
        counts = sampler.multinomial(ROWS, POPULATION.reshape(-1)).reshape(2, 3).astype(np.int64)
        rows = released(plan, counts, rng)
        replicates = draw_replicates(plan, rows, ("c0", "c1"), rng=rng)
        yield rows, numbers(rows), [numbers(each) for each in replicates]


@pytest.fixture(scope="module")
def noisy():
    return list(simulated(planned(), TABLES))


def held(tables):
    """Of so many intervals of each number those that hold the truth."""
    found = dict.fromkeys(TRUTH, 0)
    for _, own, others in tables:
        for name, truth in TRUTH.items():
            interval = interval_of(own[name], [each[name] for each in others])
            found[name] += interval.lower <= truth <= interval.upper
    return found


def test_intervals_hold_the_truth_where_noise_is_most_of_the_error(noisy):
    found = held(noisy)
    assert min(found.values()) >= at_least(TABLES), found


def test_intervals_hold_the_truth_where_the_sample_is_most_of_the_error():
    found = held(simulated(planned(epsilon="10"), FEWER))
    assert min(found.values()) >= at_least(FEWER), found


def test_intervals_that_ignore_the_noise_do_not(noisy):
    """The synthetic rows taken for a sample."""
    kept = 0
    for rows, own, _ in noisy:
        kept += abs(own["share"] - TRUTH["share"]) <= 1.96 * sqrt(own["share"] * (1 - own["share"]) / rows.sum())
    assert kept < at_least(TABLES)


def test_intervals_that_ignore_the_sample_do_not(monkeypatch):
    """Noise added to the released rows themselves."""
    monkeypatch.setattr(draw, "_drawn", lambda rows, sample, rng: rows)
    assert max(held(simulated(planned(epsilon="10"), FEWER)).values()) < at_least(FEWER)


def test_an_interval_is_no_wider_than_the_errors_make_it(noisy):
    """A rule that is always right is none: intervals are at most a fifth wider than 2.1 standard deviations."""
    widths, errors = [], []
    for _, own, others in noisy:
        widths.append(interval_of(own["share"], [each["share"] for each in others]).half_width)
        errors.append(own["share"] - TRUTH["share"])
    assert 1.7 < np.mean(widths) / np.std(errors) < 2.1 * 1.2 * 1.15


def test_the_rule_by_hand():
    """Of 1, 2, 3, 6 the mean is 3 and the variance 14/3; the factor of three degrees of freedom is 3.182446."""
    interval = interval_of(2.5, [1, 2, 3, 6])
    assert (interval.estimate, interval.degrees, interval.shift) == (2.5, 3, 0.5)
    assert interval.between == pytest.approx(14 / 3)
    half = 3.182446 * sqrt(1.25 * 14 / 3 + 1)
    assert (interval.lower, interval.upper) == pytest.approx((2.5 - half, 2.5 + half))


def test_one_replicate_makes_no_interval():
    with pytest.raises(InvalidInput):
        interval_of(1, [1])


def test_nothing_but_what_is_released_and_randomness_goes_in():
    given = inspect.signature(draw_replicates).parameters
    assert {name: each.annotation for name, each in given.items()} == {
        "plan": "Plan",
        "rows": "NDArray[np.int64]",
        "names": "Sequence[str]",
        "rng": "Randomness",
        "number": "int",
    }


@pytest.mark.parametrize("name", ["laplace-histogram", "marginal-fit"])
def test_replicates_are_those_of_the_randomness_and_each_is_another(name):
    plan, rows = planned(name, "1/2"), np.array([[300, 200, 100], [80, 120, 200]])
    first, second, other = (
        draw_replicates(plan, rows, ("c0", "c1"), rng=StreamRandomness(seed), number=3) for seed in (b"a", b"a", b"b")
    )
    assert first.shape == (3, 2, 3)
    assert (first == second).all()
    assert (first != other).any()
    assert len({each.tobytes() for each in first}) == 3
    assert abs(first.sum(axis=(1, 2)) - 1000).max() < 200


def test_drawn_rows_are_counted_as_a_table_of_them():
    table = np.arange(6).reshape(2, 3)
    drawn = DrawnCounts(universe=planned().schema.universe, names=("c0", "c1"), table=table)
    assert (drawn.histogram() == table).all()
    assert (drawn.marginal(("c1", "c0")) == table.T).all()
    assert [each.tolist() for each in drawn.marginals([("c0",), ("c1",)])] == [[3, 12], [3, 5, 7]]
    with pytest.raises(InvalidInput):
        drawn.tally(("c0",))
    with pytest.raises(InvalidInput):
        drawn.texts("c0")


def test_rows_are_drawn_with_replacement_and_as_often_as_there_are_of_them():
    """Of 3,000,000 draws a cell with share p has that share but for 6 standard deviations."""
    rows = np.array([[0, 1], [2, 7]])
    drawn = draw._drawn(rows, 3_000_000, StreamRandomness(b"rows"))
    assert drawn.sum() == 3_000_000
    share = rows / 10
    assert (abs(drawn / 3_000_000 - share) <= 6 * np.sqrt(share * (1 - share) / 3_000_000)).all()


def test_no_replicates_of_no_rows():
    with pytest.raises(Infeasible):
        draw_replicates(planned(), np.zeros((2, 3), dtype=np.int64), ("c0", "c1"), rng=StreamRandomness(b"none"))
