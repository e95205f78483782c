"""Events: what is stored about a release, and that it comes back exactly."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting.accountant import forms
from releases.engine.accounting.events import (
    EVENT_KINDS,
    AboveThresholdEvent,
    ApproximateEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GroupedEvent,
    LaplaceEvent,
    ParallelEvent,
    PermuteAndFlipEvent,
    ProjectedDiscreteGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    ReportNoisyMaxEvent,
    SparseVectorEvent,
    SubsampledEvent,
    WeightedDiscreteGaussianEvent,
    WeightedDiscreteLaplaceEvent,
    declared_relations,
    event_from_json,
)
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput, Unpriceable

HALF = Fraction(1, 2)
EXAMPLES: tuple[Event, ...] = (
    LaplaceEvent(noise_multiplier=Fraction(10, 3)),
    DiscreteLaplaceEvent(noise_multiplier=Fraction(7)),
    GaussianEvent(noise_variance=Fraction(5, 2)),
    DiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
    ExponentialMechanismEvent(epsilon=HALF),
    ReportNoisyMaxEvent(epsilon=HALF),
    PermuteAndFlipEvent(epsilon=HALF),
    AboveThresholdEvent(epsilon=HALF),
    SparseVectorEvent(epsilon_threshold=HALF, epsilon_queries=Fraction(1), epsilon_answers=Fraction(1, 4), answers=5),
    RandomizedResponseEvent(epsilon=HALF, categories=7),
    PureEvent(epsilon=HALF),
    ApproximateEvent(epsilon=HALF, delta=Fraction(1, 10**6)),
    RepeatedEvent(event=PureEvent(epsilon=HALF), times=1000),
    ParallelEvent(events=(PureEvent(epsilon=HALF), PureEvent(epsilon=Fraction(1))), neighbours="add_remove"),
    SubsampledEvent(event=PureEvent(epsilon=HALF), rate=Fraction(1, 10), scheme="poisson", neighbours="add_remove"),
    GroupedEvent(event=PureEvent(epsilon=HALF), size=3),
    WeightedDiscreteLaplaceEvent(noise_multiplier=Fraction(7)),
    WeightedDiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
    ProjectedDiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
)

rationals = st.fractions(min_value=Fraction(1, 50), max_value=20, max_denominator=10**6)
leaves = st.one_of(
    st.builds(LaplaceEvent, noise_multiplier=rationals),
    st.builds(DiscreteGaussianEvent, noise_variance=rationals),
    st.builds(PureEvent, epsilon=rationals),
    st.builds(ApproximateEvent, epsilon=rationals, delta=st.fractions(Fraction(1, 10**9), Fraction(1, 2))),
    st.builds(RandomizedResponseEvent, epsilon=rationals, categories=st.integers(2, 9)),
)
relations = st.sampled_from(NeighbouringRelation)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(RepeatedEvent, event=inner, times=st.integers(1, 10**6)),
        st.builds(ParallelEvent, events=st.lists(inner, min_size=1, max_size=4), neighbours=relations),
        st.builds(GroupedEvent, event=inner, size=st.integers(1, 50)),
    ),
    max_leaves=6,
)


@given(trees)
@settings(max_examples=100)
def test_every_event_comes_back_from_json_text_exactly(event):
    again = event_from_json(json.loads(json.dumps(event.to_json())))
    assert again == event
    assert again.to_json() == event.to_json()
    assert hash(again) == hash(event)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.kind)
def test_each_kind_round_trips_has_a_price_and_says_itself_in_one_line(event):
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
    assert forms(event).rho > 0
    assert event.in_words()
    assert "\n" not in event.in_words()
    assert "Fraction" not in event.in_words()


def test_the_examples_cover_every_kind_there_is():
    assert {event.kind for event in EXAMPLES} == set(EVENT_KINDS)


def test_the_stored_form_never_changes():
    # Ledgers hold these texts: a kind or field may be added, none renamed.
    stored = {event.kind: sorted(event.to_json()) for event in EXAMPLES}
    assert stored == {
        "laplace": ["kind", "noise_multiplier"],
        "discrete_laplace": ["kind", "noise_multiplier"],
        "gaussian": ["kind", "noise_variance"],
        "discrete_gaussian": ["kind", "noise_variance"],
        "exponential_mechanism": ["epsilon", "kind"],
        "report_noisy_max": ["epsilon", "kind"],
        "permute_and_flip": ["epsilon", "kind"],
        "above_threshold": ["epsilon", "kind"],
        "sparse_vector": ["answers", "epsilon_answers", "epsilon_queries", "epsilon_threshold", "kind"],
        "randomized_response": ["categories", "epsilon", "kind"],
        "pure": ["epsilon", "kind"],
        "approximate": ["delta", "epsilon", "kind"],
        "repeated": ["event", "kind", "times"],
        "parallel": ["events", "kind", "neighbours"],
        "subsampled": ["event", "kind", "neighbours", "rate", "scheme"],
        "grouped": ["event", "kind", "size"],
        "weighted_discrete_laplace": ["kind", "noise_multiplier"],
        "weighted_discrete_gaussian": ["kind", "noise_variance"],
        "projected_discrete_gaussian": ["kind", "noise_variance"],
    }
    assert LaplaceEvent(noise_multiplier=Fraction(10, 3)).to_json() == {
        "kind": "laplace",
        "noise_multiplier": "10/3",
    }


def test_an_unknown_kind_is_refused_and_never_guessed():
    for value in ({"kind": "magic", "epsilon": "1"}, {"epsilon": "1"}, {"kind": None}, {"kind": ["pure"]}):
        with pytest.raises(Unpriceable, match="no accountant here knows"):
            event_from_json(value)
    inner = {"kind": "repeated", "times": 2, "event": {"kind": "magic"}}
    with pytest.raises(Unpriceable, match=r"event\.event"):
        event_from_json(inner)


@pytest.mark.parametrize("value", [None, 3, "pure", [], [{"kind": "pure"}]])
def test_what_is_no_object_is_refused(value):
    with pytest.raises(InvalidInput, match="must be an object"):
        event_from_json(value)


def test_a_field_too_many_or_too_few_is_refused():
    with pytest.raises(InvalidInput, match="'sigma' is not a field of pure"):
        event_from_json({"kind": "pure", "epsilon": "1", "sigma": "2"})
    with pytest.raises(InvalidInput, match="'delta' is missing: approximate needs it"):
        event_from_json({"kind": "approximate", "epsilon": "1"})


@pytest.mark.parametrize(
    "text", [0.5, 1, True, None, "0.5", "1e-3", "2/4", "+1", " 1", "1/0", "01", "-0", "nan", "1/-2", "9" * 70]
)
def test_a_rational_has_one_text_and_no_other_is_read(text):
    with pytest.raises(InvalidInput):
        event_from_json({"kind": "pure", "epsilon": text})


@pytest.mark.parametrize("value", [0.5, True, "1", None])
def test_a_parameter_that_is_no_exact_rational_is_refused(value):
    with pytest.raises(InvalidInput, match=r"pure\.epsilon.* must be an exact rational"):
        PureEvent(epsilon=value)


def test_numbers_out_of_range_are_refused():
    with pytest.raises(InvalidInput, match="must be above 0"):
        PureEvent(epsilon=Fraction(0))
    with pytest.raises(InvalidInput, match="must be above 0"):
        PureEvent(epsilon=Fraction(-10))
    with pytest.raises(InvalidInput, match="must be at most 100"):
        PureEvent(epsilon=Fraction(101))
    with pytest.raises(InvalidInput, match="must be at least 1/100"):
        LaplaceEvent(noise_multiplier=Fraction(1, 101))
    with pytest.raises(InvalidInput, match="must be at least 1/20000"):
        GaussianEvent(noise_variance=Fraction(1, 20001))
    with pytest.raises(InvalidInput, match="must be below 1"):
        ApproximateEvent(epsilon=HALF, delta=Fraction(1))
    with pytest.raises(InvalidInput, match="must be at most 1"):
        SubsampledEvent(event=PureEvent(epsilon=HALF), rate=Fraction(2), scheme="poisson", neighbours="add_remove")
    with pytest.raises(InvalidInput, match="must have at most 60 digits"):
        PureEvent(epsilon=Fraction(1, 10**61))
    with pytest.raises(InvalidInput, match="must be a whole number"):
        RepeatedEvent(event=PureEvent(epsilon=HALF), times=Fraction(2))
    with pytest.raises(InvalidInput, match="must be between 1 and"):
        RepeatedEvent(event=PureEvent(epsilon=HALF), times=0)
    with pytest.raises(InvalidInput, match="must be between 2 and"):
        RandomizedResponseEvent(epsilon=HALF, categories=1)
    with pytest.raises(InvalidInput, match="must be a whole number"):
        GroupedEvent(event=PureEvent(epsilon=HALF), size=True)


def test_a_whole_number_is_taken_as_a_rational():
    assert PureEvent(epsilon=1) == PureEvent(epsilon=Fraction(1))
    assert isinstance(PureEvent(epsilon=1).epsilon, Fraction)


def test_the_parts_of_a_composite_must_be_events():
    with pytest.raises(InvalidInput, match="must be an event"):
        RepeatedEvent(event={"kind": "pure", "epsilon": "1"}, times=2)
    with pytest.raises(InvalidInput, match="at least one event"):
        ParallelEvent(events=(), neighbours="replace")
    with pytest.raises(InvalidInput, match=r"parallel\.events\[1\]"):
        ParallelEvent(events=(PureEvent(epsilon=HALF), "pure"), neighbours="replace")
    with pytest.raises(InvalidInput, match="must be a list of events"):
        event_from_json({"kind": "parallel", "events": {"kind": "pure"}, "neighbours": "replace"})
    with pytest.raises(InvalidInput, match="must be add_remove or replace"):
        ParallelEvent(events=(PureEvent(epsilon=HALF),), neighbours="swap")


def test_nesting_without_end_is_refused_both_ways():
    event = PureEvent(epsilon=HALF)
    for _ in range(7):
        event = RepeatedEvent(event=event, times=2)
    assert event_from_json(event.to_json()) == event
    with pytest.raises(InvalidInput, match="nested more than 8 deep"):
        RepeatedEvent(event=event, times=2)
    stored = event.to_json()
    for _ in range(5000):
        stored = {"kind": "repeated", "event": stored, "times": 2}
    with pytest.raises(InvalidInput, match="nested more than 8 deep"):
        event_from_json(stored)


def test_a_scheme_is_refused_under_a_relation_it_is_not_proved_for():
    for scheme, neighbours in (("poisson", "replace"), ("without_replacement", "add_remove")):
        with pytest.raises(Unpriceable, match="is proved for neighbours that are"):
            SubsampledEvent(event=PureEvent(epsilon=HALF), rate=Fraction(1, 10), scheme=scheme, neighbours=neighbours)


def test_the_relations_an_event_was_stated_for_are_found_at_any_depth():
    parallel = ParallelEvent(events=(PureEvent(epsilon=HALF),), neighbours="replace")
    assert declared_relations(PureEvent(epsilon=HALF)) == frozenset()
    assert declared_relations(RepeatedEvent(event=GroupedEvent(event=parallel, size=2), times=3)) == {
        NeighbouringRelation.REPLACE
    }


def test_events_cannot_be_changed_after_they_are_made():
    with pytest.raises(AttributeError):
        PureEvent(epsilon=HALF).epsilon = Fraction(1, 100)  # type: ignore[misc]


def test_a_number_without_a_short_decimal_is_shown_as_about():
    assert "10 times" in LaplaceEvent(noise_multiplier=10).in_words()
    assert "about 3.33333 times" in LaplaceEvent(noise_multiplier=Fraction(10, 3)).in_words()
    assert "delta 0.000001" in ApproximateEvent(epsilon=1, delta=Fraction(1, 10**6)).in_words()
