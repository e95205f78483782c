"""Four ways of releasing many counts: their bounds against independent arithmetic, simulation and real plans."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import ceil, lgamma, log

import mpmath
import numpy as np
import pytest

from releases.engine.bounds.theory import Numbers, Way, bounds, log_multisets
from releases.engine.domain.privacy import NeighbouringRelation

#: The sample's, and those of the theory's own example.
SAMPLE = Numbers(
    neighbours=NeighbouringRelation.REPLACE,
    rows=8_802,
    cells=290_304,
    queries=733,
    changed=110,
    epsilon=Fraction(1),
    delta=Fraction(1, 10**6),
    beta=Fraction(1, 20),
)
PRIVATE = replace(SAMPLE, neighbours=NeighbouringRelation.ADD_REMOVE, changed=55)
LARGE = replace(SAMPLE, rows=200_000, cells=256, queries=2_000, changed=2_000)


def by_way(numbers, *, is_pure):
    return {each.way: each for each in bounds(numbers) if each.is_pure == is_pure}


@cache
def rho(numbers):
    """The largest rho of (epsilon, delta), from the conversion's own formula in 40 digits."""
    with mpmath.workdps(40):
        epsilon, delta = (mpmath.mpf(each.numerator) / each.denominator for each in (numbers.epsilon, numbers.delta))

        def converted(rho, a):
            return mpmath.exp((a - 1) * (a * rho - epsilon) + (a - 1) * mpmath.log(1 - 1 / a)) / a

        low, high = mpmath.mpf(0), epsilon
        for _ in range(40):
            middle = (low + high) / 2
            orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(step) / 100) for step in range(0, 300, 2)]
            best = min(converted(middle, a) for a in orders)
            low, high = (middle, high) if best <= delta else (low, middle)
        return low


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE])
def test_laplace_on_each_answer_is_the_exact_quantile_below_the_theorem(numbers):
    found = by_way(numbers, is_pure=True)[Way.QUERIES]
    with mpmath.workdps(30):
        scale = mpmath.mpf(numbers.changed)
        tail = lambda m: 2 * mpmath.exp(-(m + 1) / scale) / (1 + mpmath.exp(-1 / scale))  # noqa: E731
        within = lambda m: (1 - tail(m)) ** numbers.queries >= mpmath.mpf("0.95")  # noqa: E731
        assert within(found.alpha)
        assert not within(found.alpha - 1)
        assert found.published == pytest.approx(float(scale * mpmath.log(numbers.queries * 20)))
    assert found.alpha <= ceil(found.published)


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE])
def test_gaussian_on_each_answer_is_the_normal_quantile_and_one(numbers):
    found = by_way(numbers, is_pure=False)[Way.QUERIES]
    with mpmath.workdps(30):
        sigma = mpmath.sqrt(numbers.changed / (2 * rho(numbers)))
        z = (found.alpha - 1) / sigma
        assert float((1 - mpmath.erfc(z / mpmath.sqrt(2))) ** numbers.queries) == pytest.approx(0.95, abs=1e-4)
    assert found.alpha < found.published


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE, replace(SAMPLE, cells=3, queries=10**9)])
def test_the_histogram_s_bound_is_chernoff_s_at_the_best_point_and_below_the_closed_form(numbers):
    found = by_way(numbers, is_pure=True)[Way.HISTOGRAM]
    with mpmath.workdps(30):
        odds = mpmath.log(2 * numbers.queries * 20)
        width = lambda t: 2 * (odds - numbers.cells * mpmath.log(1 - t * t)) / t  # noqa: E731
        start = mpmath.sqrt(odds / (numbers.cells + odds))
        best = min(
            width(start * mpmath.mpf(10) ** (mpmath.mpf(s) / 200))
            for s in range(-60, 20)
            if start * mpmath.mpf(10) ** (mpmath.mpf(s) / 200) < 1
        )
        assert found.alpha == pytest.approx(float(best), rel=1e-3)
    assert found.alpha <= found.published
    gaussian = by_way(numbers, is_pure=False)[Way.HISTOGRAM]
    assert gaussian.alpha == pytest.approx(float(mpmath.sqrt(2 * numbers.cells * odds / rho(numbers))), rel=1e-3)


@pytest.mark.parametrize("is_pure", [True, False])
@pytest.mark.parametrize("numbers", [SAMPLE, LARGE, PRIVATE])
def test_multiplicative_weights_has_the_least_bound_over_rounds_and_shares(numbers, is_pure):
    found = by_way(numbers, is_pure=is_pure)[Way.WEIGHTS]
    n, beta, epsilon, total_rho, off = numbers.rows, 0.05, 1.0, float(rho(numbers)), 0.0
    if numbers is PRIVATE:
        off = numbers.measured(is_pure=is_pure).off
        n, beta, epsilon, total_rho = n + off, 0.045, 0.95, 0.95 * total_rho
    best = np.inf
    for rounds in {*range(1, 64), *(round(64 * 1.04**step) for step in range(120))}:
        for share in np.linspace(0.04, 0.96, 24):
            if is_pure:
                choice, noise = (
                    share * epsilon / rounds,
                    rounds / ((1 - share) * epsilon) * log(2 * rounds / beta) + 0.5,
                )
            else:
                choice = (8 * share * total_rho / rounds) ** 0.5
                sigma = (rounds / (2 * (1 - share) * total_rho)) ** 0.5
                noise = sigma * (2 * log(2 * rounds / beta)) ** 0.5 + 1
            lost = 2 / choice * (log(numbers.queries) + log(2 * rounds / beta))
            best = min(best, (n * n * log(numbers.cells) / (2 * rounds) + (noise + off) ** 2) ** 0.5 + lost + off)
    assert best <= found.alpha * 1.01
    assert found.alpha <= best * 1.01


@pytest.mark.parametrize("numbers", [SAMPLE, LARGE, PRIVATE])
def test_the_small_database_has_the_least_bound_over_its_sizes(numbers):
    found = by_way(numbers, is_pure=True)[Way.SMALL_DATABASE]
    off, beta, epsilon = 0.0, 0.05, 1.0
    if numbers is PRIVATE:
        off, beta, epsilon = numbers.measured(is_pure=True).off, 0.045, 0.95
    by_hand = off + min(
        (numbers.rows + off) * min(numbers.cells / 4 / m, (log(2 * numbers.queries) / (2 * m)) ** 0.5)
        + 2 / epsilon * (lgamma(numbers.cells + m) - lgamma(numbers.cells) - lgamma(m + 1) - log(beta))
        for m in (*range(1, 200), *(round(200 * 1.01**step) for step in range(550)))
    )
    assert found.alpha == pytest.approx(by_hand, rel=0.01)
    if numbers is PRIVATE:
        assert found.published is None
        return
    assert found.alpha <= found.published
    assert found.published == pytest.approx(
        numbers.rows * ((16 * log(numbers.cells) * log(numbers.queries) + 4 * log(20)) / numbers.rows) ** (1 / 3)
    )


def test_the_number_of_small_databases_is_exact_to_many_digits():
    sizes = np.array([1.0, 2.0, 17.0, 5_000.0, 10.0**6])
    for cells in (2, 3, 290_304, 10**15, 10**60):
        with mpmath.workdps(80):
            exact = [
                mpmath.loggamma(cells + m) - mpmath.loggamma(cells) - mpmath.loggamma(m + 1)
                for m in map(mpmath.mpf, sizes)
            ]
        np.testing.assert_allclose(log_multisets(cells, sizes), [float(each) for each in exact], rtol=1e-9)
