"""What the size of a universe means for each mechanism, as its own plan says it."""

import numpy as np

from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanisms
from releases.engine.mechanisms.histogram import most_bins_summed
from releases.engine.workload.queries import Count, Marginal, Prefix
from releases.planning import universe_size


def universe_of(*sizes):
    columns = [{"name": f"c{at}", "type": "integer", "edges": [*range(size + 1)]} for at, size in enumerate(sizes)]
    return Schema.from_json({"version": 1, "columns": columns}).universe


def told_of(*sizes):
    return {each.title: each for each in universe_size.fits(universe_of(*sizes))}


def test_the_size_of_a_universe_is_told_for_each_mechanism_by_its_own_plan():
    small, large = told_of(2, 3), told_of(*[10] * 9)
    counting = {each.title for each in mechanisms().values() if each.is_offered and not each.answers}
    assert set(small) == set(large) == counting
    assert not any(each.why_not for each in small.values())
    assert all(each.memory and each.time for each in small.values())
    assert "there are 1,000,000,000; the most is 100,000,000" in large["Laplace noise on the histogram"].why_not
    assert "at most 4,000,000" in large["Small database"].why_not
    assert not large["Laplace noise on each answer"].why_not


def test_what_an_answer_sums_is_told_without_counting_it_out():
    universe = universe_of(4, 3)
    for family in (
        Marginal(attributes=("c0", "c1")),
        Prefix(attributes=("c0",)),
        Count(attributes=("c0", "c1"), bins=((0, 2), (0, 1, 2))),
    ):
        shape = [universe[name].size for name in family.attributes]
        assert most_bins_summed(family, shape) == max(family.answer(np.ones(shape, dtype=np.int64)).ravel())
