"""The bound of a weighted sum of noise: it holds for the exact law, summed draw by draw, and is nearly the least."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, Combination, combination_quantile

#: Of a draw, values beyond have a probability below 10^-20.
REACH = 80
#: Weights of the draws in quarters.
QUARTERS = [[4], [2], [4, 4, 4], [5, 3, 2, 1], [4, 1, 1, 1, 1, 1, 1, 1], [8, 7]]


def laplace_law(one_of):
    """Pr[Z = z] of scale 1/ln `one_of`: powers of a fraction."""
    q = Fraction(1, one_of)
    return {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-REACH, REACH + 1)}, 2 * q / (1 - q) ** 2


def gaussian_law(variance):
    weights = {z: Fraction(float(np.exp(-z * z / (2 * variance)))) for z in range(-REACH, REACH + 1)}
    total = sum(weights.values())
    return {z: weight / total for z, weight in weights.items()}, variance


def tail_of(law, quarters):
    """From w to Pr[|S| > w] of S = the sum of draws times their weights."""
    sums = {0: 1.0}
    for weight in quarters:
        longer: dict[int, float] = defaultdict(float)
        for place, chance in sums.items():
            for z, own in law.items():
                longer[place + weight * z] += chance * own
        sums = longer
    return lambda w: sum(chance for place, chance in sums.items() if abs(place) > 4 * w)


@pytest.mark.parametrize("quarters", QUARTERS)
@pytest.mark.parametrize(
    ("family", "law"),
    [
        (DISCRETE_LAPLACE, laplace_law(2)),
        (DISCRETE_LAPLACE, laplace_law(50)),
        (DISCRETE_GAUSSIAN, gaussian_law(4)),
        (DISCRETE_GAUSSIAN, gaussian_law(20)),
    ],
)
def test_the_bound_holds_for_the_exact_law_and_hardly_anything_less_does(family, law, quarters):
    chances, variance = law
    weights, numbers = np.unique(quarters, return_counts=True)
    combination = Combination(
        factors=weights / 4.0, variances=np.full(len(weights), float(variance)), numbers=numbers.astype(float)
    )
    tail = tail_of({z: float(chance) for z, chance in chances.items()}, quarters)
    for beta in (0.2, 0.01, 1e-5, 1e-12):
        found = combination_quantile(combination, law=family, beta=beta)
        assert tail(found) <= beta * (1 + 1e-9), beta
        if beta >= 1e-8:
            # No further than the step of the sum's lattice and a fiftieth of the deviation beyond what holds.
            least = found - max(0.25, 0.05 * combination.deviation) - 0.02 * combination.deviation
            assert least < 0 or tail(least) > beta * 0.98, beta


def test_draws_of_different_laws_are_added_up():
    """A draw of scale 1/ln 2 and one of scale 1/ln 50, the second twice as heavy."""
    (first, one), (second, other) = laplace_law(2), laplace_law(50)
    combination = Combination(
        factors=np.array([1.0, 2.0]), variances=np.array([float(one), float(other)]), numbers=np.ones(2)
    )
    found = combination_quantile(combination, law=DISCRETE_LAPLACE, beta=0.01)
    outside = [float(a * b) for x, a in first.items() for y, b in second.items() if abs(x + 2 * y) > found]
    inside = [float(a * b) for x, a in first.items() for y, b in second.items() if abs(x + 2 * y) > found - 1.1]
    assert sum(outside) <= 0.01 < sum(inside)
