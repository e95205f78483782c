"""Values of quantiles in small groups, which lean towards what all groups have in common."""

from fractions import Fraction

import numpy as np

from releases.engine.mechanisms.leaning_counts import leaning
from releases.engine.noise.randomness import StreamRandomness
from tests.engine.telling import planned, table


def test_groups_of_few_rows_lean_towards_all_and_those_of_many_keep_their_own_counts():
    noisy = np.array([[9_000, 1_000, 0], [0, 1_000, 90_000], [6, -5, 1]])
    found = leaning(noisy, scale=Fraction(4))
    assert np.allclose(found[:2], noisy[:2], rtol=0.01, atol=60)
    shape = noisy.sum(axis=0) / noisy.sum()
    apart = np.abs(found[2] - 2 * shape).sum()
    assert apart < 0.5 * np.abs(noisy[2] - 2 * shape).sum()
    assert (found >= 0).all()


def test_values_of_small_groups_are_nearer_when_they_lean_and_stay_in_their_intervals():
    """30 groups of 25 rows of one law, with the quantiles of each group as the truth."""
    towns = [{"name": "team", "type": "categorical", "categories": [f"t{i}" for i in range(30)], "outside": "t0"}]
    age = [{"name": "x", "type": "integer", "edges": [0, 79]}]
    query = {"quantiles": {"column": "x", "at": ["0.25", "0.5", "0.75"], "by": "team"}}
    plan, stream = planned("counted-quantile", [*age, *towns], query), StreamRandomness(b"lean")
    ages = np.sort(np.random.default_rng(6).normal(35, 9, (30, 25)).astype(int).clip(0, 79), axis=1)
    there = table(plan, [(int(x), town) for town in range(30) for x in ages[town]])
    true, off, plain = ages[:, [6, 12, 18]].T, [], []
    for _ in range(10):
        result = plan.run(there, rng=stream)
        for place, share in enumerate((0.25, 0.5, 0.75)):
            low, high = result.spans[place].T
            assert ((low <= result.estimates[place]) & (result.estimates[place] <= high)).all()
            off.append(np.abs(result.estimates[place] - true[place]).mean())
            up_to = np.cumsum(result.notes["noisy counts"], axis=1)
            first = (up_to >= share * up_to[:, -1:]).argmax(axis=1)
            plain.append(np.abs(first - true[place]).mean())
    assert np.mean(off) < 0.6 * np.mean(plain)
