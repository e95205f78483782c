"""One bound for every counting query over a noisy histogram, whichever are asked."""

from fractions import Fraction
from itertools import combinations, product
from math import exp, inf, sqrt

import numpy as np
import pytest

from releases.engine.bounds.accuracy import laplace_chernoff_width, laplace_sum_quantile
from releases.engine.bounds.all_counts import code_length, widest_count, width_of_count
from releases.engine.noise.discrete import discrete_laplace
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.workload.queries import Count
from tests.engine.telling import categories, schema_of

SHAPES = [(2,), (3,), (6,), (3, 4), (5, 3), (2, 3, 1, 4), (2, 2, 2, 2)]


def every_count(universe):
    """Of each set of bins for each attribute, as it would be asked."""

    def sets(size):
        return [bins for length in range(1, size + 1) for bins in combinations(range(size), length)]

    asked = [Count(attributes=universe.names, bins=bins) for bins in product(*map(sets, universe.shape))]
    return [each.simplified(universe) for each in asked]


def universe_of(shape):
    return schema_of(categories(shape)).universe


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_probabilities_given_to_all_counts_add_up_to_at_most_one(shape):
    universe = universe_of(shape)
    counts = every_count(universe)
    assert len(set(counts)) == len(counts)
    total = sum(exp(-code_length(each, universe)) for each in counts)
    # Nor is any of it wasted.
    assert 0.99999 < total <= 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7)])
def test_no_count_is_wider_than_the_widest(shape, scale):
    universe = universe_of(shape)
    widths = [width_of_count(each, universe, scale=scale, beta=0.05) for each in every_count(universe)]
    widest = widest_count(shape, scale=scale, beta=0.05)
    assert max(widths) <= widest <= 1.2 * max(widths) + 2


def noise_over_width(shape, scale, beta, runs):
    """In each run, the most widths that the noise of any count of all is off by."""
    universe = universe_of(shape)
    counts = every_count(universe)
    sums = np.zeros((len(counts), *shape))
    for row, each in zip(sums, counts, strict=True):
        chosen = dict(zip(each.attributes, each.bins, strict=True))
        row[np.ix_(*(chosen.get(name, range(universe[name].size)) for name in universe.names))] = 1
    widths = np.array([width_of_count(each, universe, scale=scale, beta=beta) for each in counts])
    drawn = discrete_laplace(scale=scale, size=(runs, *shape), rng=StreamRandomness(b"all counts"))
    noise = np.abs(drawn.reshape(runs, -1) @ sums.reshape(len(counts), -1).T)
    return (noise / widths).max(axis=1)


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 2, 2)], ids=str)
def test_all_counts_keep_their_widths_at_once(shape):
    """1,000 runs at beta 0.2: a true bound fails this with probability below 1e-6."""
    runs, beta = 1000, 0.2
    off = noise_over_width(shape, Fraction(5), beta, runs)
    assert (off > 1).sum() <= runs * beta + 5 * sqrt(runs * beta * (1 - beta))
    # Widths of half the noise would not.
    assert (off > 0.5).sum() > runs * beta + 5 * sqrt(runs * beta * (1 - beta))


def test_probabilities_that_no_float_holds_have_a_width():
    universe = universe_of((5000,))
    alternating = Count(attributes=("c0",), bins=(tuple(range(0, 5000, 2)),))
    assert code_length(alternating, universe) > 3000
    width = width_of_count(alternating, universe, scale=Fraction(1), beta=0.05)
    assert 0 < width < inf
    assert width <= widest_count((5000,), scale=Fraction(1), beta=0.05)


@pytest.mark.parametrize("count", [2, 30, 1000])
def test_chernoff_s_width_is_at_least_the_quantile(count):
    quantile = laplace_sum_quantile(scale=Fraction(3), count=count, beta=1e-6)
    assert quantile <= laplace_chernoff_width(scale=Fraction(3), count=count, log_beta=float(np.log(1e-6)))
