"""What the size of a universe means for each mechanism, as its own plan says it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from django.urls import reverse

from releases.display.durations import usual_limit
from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, PrivacyUnit, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.mechanisms.histogram import most_bins_summed
from releases.engine.workload.queries import Count, Marginal, Prefix, Workload, all_marginals
from releases.planning import comparison, universe_size
from tests.web.pages import words


def universe_of(*sizes):
    columns = [
        {"name": f"c{position}", "type": "integer", "edges": list(range(size + 1))}
        for position, size in enumerate(sizes)
    ]
    return Schema.from_json({"version": 1, "columns": columns}).universe


def told_of(*sizes):
    return {each.title: each for each in universe_size.fits(universe_of(*sizes))}


def test_the_size_of_a_universe_is_told_for_each_mechanism_by_its_own_plan():
    small, large = (
        {each.title: each for each in universe_size.fits(universe_of(*sizes))} for sizes in ([2, 3], [10] * 9)
    )
    counting = {each.title for each in mechanisms().values() if each.is_offered and not each.answers}
    assert set(small) == set(large) == counting
    assert not any(each.why_not for each in small.values())
    assert all(each.memory and each.time for each in small.values())
    assert "there are 1,000,000,000; the most is 100,000,000" in large["Laplace noise on the histogram"].why_not
    assert "at most 4,000,000" in large["Small database"].why_not
    assert not large["Laplace noise on each answer"].why_not


def test_a_wide_universe_can_be_held_by_a_mechanism_that_looks_at_few_columns_at_a_time():
    wide = told_of(*[10] * 40)["Mixture fitted to pairs and triples"]
    assert not wide.why_not
    assert wide.memory
    assert wide.time
    assert "9,000 bins" in told_of(3000, 3000, 3000)["Mixture fitted to pairs and triples"].why_not


def test_what_it_takes_grows_with_the_universe():
    takes = [told_of(*[10] * columns)["Fit to noisy marginals"] for columns in (2, 6, 7)]
    assert [(each.memory, each.time) for each in takes] == [
        ("67.1 MB", "usually less than 15 s"),
        ("91.1 MB", "usually less than 30 s"),
        ("307 MB", "usually less than 45 s"),
    ]


def test_the_time_of_a_plan_holds_its_counting():
    universe = universe_of(*[4000] * 3)
    apart = [Marginal(attributes=(name,)) for name in universe.names]
    joined = [Marginal(attributes=pair) for pair in (("c0", "c1"), ("c1", "c2"))]
    seconds = []
    for families in (apart[:1], apart, joined):
        workload = Workload(universe=universe, families=tuple(families))
        schema = Schema(universe=universe, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
        plan = mechanism("laplace-queries").plan(
            schema, workload, budget=PureDP(epsilon=Fraction(1)), beta=Fraction(1, 20)
        )
        seconds.append(comparison.run_seconds(plan) - plan.work.seconds)
    # Several are counted in one reading, from the bin numbers of all three columns.
    assert seconds == pytest.approx([5.5, 7.03, 7.02])


def test_wide_tables_are_not_said_to_be_read_once_for_every_pair():
    """Sixty columns of ten bins and all 1,770 pairs: the whole release of 200,000 rows took 36 seconds."""
    universe = universe_of(*[10] * 60)
    schema = Schema(universe=universe, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
    budget = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
    plan = mechanism("mixture-fit").plan(
        schema, all_marginals(universe, 2), budget=budget, beta=Fraction(1, 20), options={"rows": 200_000}
    )
    assert 18 < comparison.run_seconds(plan) < 150


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.1, "5 s"),
        (2.5, "5 s"),
        (2.6, "10 s"),
        (14, "30 s"),
        (44, "90 s"),
        (55, "2 min"),
        (1300, "45 min"),
        (3700, "3 h"),
    ],
)
def test_a_time_is_said_as_a_limit_with_as_much_again(seconds, said):
    assert usual_limit(seconds) == f"usually less than {said}"
    assert usual_limit(3700) == "usually less than 3 h"


def test_a_universe_of_many_digits_is_told_in_few():
    reasons = {each.title: each.why_not for each in universe_size.fits(universe_of(*[5] * 120)) if each.why_not}
    # It counts the columns that the questions connect, and no cells.
    of_columns = reasons.pop("Fit to noisy marginals")
    assert "connect 120 columns, and the most is 62" in of_columns
    assert len(reasons) == 6
    assert all("7.52 × 10^83" in each for each in reasons.values())


def test_what_an_answer_sums_is_told_without_counting_it_out():
    universe = universe_of(4, 3)
    for family in (
        Marginal(attributes=("c0", "c1")),
        Prefix(attributes=("c0",)),
        Count(attributes=("c0", "c1"), bins=((0, 2), (0, 1, 2))),
    ):
        shape = [universe[name].size for name in family.attributes]
        assert most_bins_summed(family, shape) == max(family.answer(np.ones(shape, dtype=np.int64)).ravel())


@pytest.mark.django_db
def test_the_columns_page_says_what_its_size_means(dataset, as_, alice):
    client, path = as_(alice), reverse("columns", args=[dataset.pk])
    said = words(client.get(path))
    assert "Every mechanism can hold it: memory and time" in said
    assert "Laplace noise on the histogram ✓ fit in 240 bytes of memory, usually less than 15 s" in said
    grown = {"form-TOTAL_FORMS": 2, "form-INITIAL_FORMS": 2, "check": "1"}
    for position, name in enumerate(("age", "sex")):
        typed = {"name": name, "kind": "integer", "values": "0 to 20000 by 1"}
        grown |= {f"form-{position}-{field}": value for field, value in typed.items()}
    said = words(client.post(path, grown, headers={"hx-request": "true"}))
    assert "Laplace noise on the histogram ✗ do not fit. It needs every cell of the universe in memory" in said
    assert "Laplace noise on each answer ✓ fit" in said
