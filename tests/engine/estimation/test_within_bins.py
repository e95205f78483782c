"""Values within the bins of synthetic rows: each lies in its bin, as often as the counts around it say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.estimation.result import Component, Distribution
from releases.engine.estimation.synthetic import slants_of, synthetic_records, values_of
from releases.engine.noise.randomness import StreamRandomness

RNG = StreamRandomness(b"within bins")


def column(**described):
    return Attribute.from_json({"name": "x", **described})


def law_of(one, other, values):
    """How often each value of a bin is drawn whose density goes in a line from `one` at the lower end to `other`."""
    at = np.linspace(0, 1, values + 1)
    below = one * at + (other - one) * at**2 / 2
    return np.diff(below) / below[-1]


@pytest.mark.parametrize(
    ("counts", "bin_", "ends"),
    [
        # Between equally wide bins the rise of an inner one is the harmonic mean of those on both sides.
        ([1000, 2000, 3000], 1, (1500, 2500)),
        ([1000, 4000, 5000], 1, (4000 - 750, 4000 + 750)),
        # The density falls to the outer end as it falls before, and at most to nothing.
        ([4000, 3000], 1, (3500, 2500)),
        ([9000, 1000], 1, (1, 0)),
        ([3000, 4000], 0, (2500, 3500)),
        # It does not rise to an outer end, nor at a summit.
        ([3000, 4000], 1, (1, 1)),
        ([4000, 3000], 0, (1, 1)),
        ([1000, 9000, 1000], 1, (1, 1)),
        ([5000], 0, (1, 1)),
    ],
)
def test_values_of_a_bin_are_as_frequent_as_a_line_between_its_neighbours_says(counts, bin_, ends):
    """False alarm 1e-6 for each case, and any even law where the line slants is rejected."""
    many = 10
    drawn = values_of(
        column(type="integer", edges=[many * place for place in range(len(counts))] + [many * len(counts) - 1]),
        np.repeat(np.arange(len(counts)), np.array(counts) * 10),
        RNG,
    )
    seen = np.bincount(drawn[drawn // many == bin_] - bin_ * many, minlength=many)
    assert seen.sum() == counts[bin_] * 10
    law = law_of(*ends, many)
    assert stats.chisquare(seen, law * seen.sum()).pvalue > 1e-6
    if ends[0] != ends[1]:
        assert stats.chisquare(seen, np.full(many, seen.sum() / many)).pvalue < 1e-6


DECLARED = [
    column(type="integer", edges=[-3, 0, 1, 9, 95], open=["first", "last"], missing_as="no number"),
    column(type="number", edges=[0, 0.5, 18.5, 80], decimals=1),
    column(type="number", edges=[-(2.0**43), 0, 2.0**43], decimals=2),
    column(type="integer", edges=[0, 9]),
    column(type="date", first="2023-11-02", last="2024-03-05", by="month", missing_as="no date"),
    column(type="datetime", first="2023-01-01", last="2024-12-31", by="quarter"),
]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from(DECLARED))
def test_every_value_lies_in_the_bin_that_it_is_drawn_for(data, attribute):
    counts = data.draw(st.lists(st.integers(0, 60), min_size=attribute.size, max_size=attribute.size))
    bins = np.repeat(np.arange(attribute.size), counts)
    drawn = values_of(attribute, bins, RNG, beside=np.arange(len(bins)) % 3)
    held = attribute.ordered.size
    kept, values = bins[bins < held], np.asarray(drawn, dtype=np.float64)[bins < held]
    if attribute.dates is not None:
        starts = np.array([attribute.dates.within(place)[0] for place in range(held)] + [attribute.dates.days[-1]])
        day = values // 86_400 if attribute.dates.has_time else values
        assert np.all(starts[kept] <= day)
        assert np.all(day < starts[kept + 1])
        return
    edges = np.array([float(edge) for edge in attribute.edges])
    assert np.all(edges[kept] <= values)
    assert np.all((values < edges[kept + 1]) | ((kept == held - 1) & (values == edges[-1])))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 400)), min_size=1, max_size=9))
def test_a_line_slants_only_from_what_is_less_dense_to_what_is_more_and_never_below_nothing(bins):
    counts, values = (np.array(each, dtype=np.int64) for each in zip(*bins, strict=True))
    slants = slants_of(counts, values)
    assert np.all(np.abs(slants) <= 1)
    density = counts / values
    for place, slant in enumerate(slants):
        if slant:
            beside = [density[each] for each in (place - 1, place + 1) if 0 <= each < len(density)]
            assert len(beside) == 2 or (slant > 0) == (place == 0)
            lower, upper = (density[place], beside[0]) if place == 0 else (beside[0], density[place])
            assert (slant > 0) == (lower < upper)


def test_a_group_follows_its_own_counts_and_not_those_of_all():
    """In one ward most are from 5 to 17, 11 years in the mean; in all wards the bins around rise."""
    ward = {"name": "ward", "type": "categorical", "categories": ["children", "others"]}
    month = {"name": "month", "type": "categorical", "categories": ["odd", "even"]}
    age = {"name": "age", "type": "integer", "edges": [0, 5, 18, 40, 95], "open": ["last"]}
    universe = Schema.from_json({"version": 1, "columns": [month, age, ward]}).universe
    weights = np.zeros((2, 4, 2))
    weights[:, :, 0] = [500, 2000, 2, 0]
    weights[:, :, 1] = [10, 900, 9000, 20000]
    distribution = Distribution(components=(Component(names=universe.names, weights=weights),))
    made = synthetic_records(universe, distribution, rows=int(weights.sum()), rng=RNG)
    of_all, is_child = made.columns["age"], made.columns["ward"] == 0
    within = (of_all >= 5) & (of_all < 18)
    assert abs(of_all[within & is_child].mean() - 11) < 0.3
    alone = values_of(universe["age"], np.repeat(np.arange(4), weights.sum(axis=(0, 2)).astype(int)), RNG)
    assert alone[(alone >= 5) & (alone < 18)].mean() > 11.5


def test_weekdays_have_no_neighbours_and_each_of_their_dates_is_as_likely_as_another():
    """False alarm 1e-6."""
    attribute = column(type="date", first="2024-01-01", last="2024-03-31", by="weekday", outside="drop")
    drawn = values_of(attribute, np.repeat(np.arange(7), [100, 90_000, 100, 1, 0, 0, 0]), RNG)
    _, seen = np.unique(drawn[100:90_100], return_counts=True)
    assert len(seen) == 13
    assert stats.chisquare(seen).pvalue > 1e-6


def test_no_rows_have_no_values():
    schema = Schema.from_json(
        {"version": 1, "columns": [{"name": name, "type": "integer", "edges": [0, 10, 20]} for name in ("a", "b")]}
    )
    component = Component(names=("a", "b"), weights=np.full((2, 2), 0.25))
    made = synthetic_records(schema.universe, Distribution(components=(component,)), rows=0, rng=RNG)
    assert {name: len(values) for name, values in made.columns.items()} == {"a": 0, "b": 0}
