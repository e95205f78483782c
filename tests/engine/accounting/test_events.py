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
PURE, POISSON = PureEvent(epsilon=HALF), {"scheme": "poisson", "neighbours": "add_remove"}
EXAMPLES: tuple[Event, ...] = (
    LaplaceEvent(noise_multiplier=Fraction(10, 3)),
    DiscreteLaplaceEvent(noise_multiplier=Fraction(7)),
    GaussianEvent(noise_variance=Fraction(5, 2)),
    DiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
    *(kind(epsilon=HALF) for kind in (ExponentialMechanismEvent, ReportNoisyMaxEvent)),
    *(kind(epsilon=HALF) for kind in (PermuteAndFlipEvent, AboveThresholdEvent)),
    SparseVectorEvent(epsilon_threshold=HALF, epsilon_queries=Fraction(1), epsilon_answers=Fraction(1, 4), answers=5),
    RandomizedResponseEvent(epsilon=HALF, categories=7),
    PURE,
    ApproximateEvent(epsilon=HALF, delta=Fraction(1, 10**6)),
    RepeatedEvent(event=PURE, times=1000),
    ParallelEvent(events=(PURE, PureEvent(epsilon=Fraction(1))), neighbours="add_remove"),
    SubsampledEvent(event=PURE, rate=Fraction(1, 10), scheme="poisson", neighbours="add_remove"),
    GroupedEvent(event=PURE, size=3),
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


#: Ledgers hold these texts: a kind or field may be added, none renamed.
STORED = {
    "noise_multiplier": "laplace discrete_laplace weighted_discrete_laplace",
    "noise_variance": "gaussian discrete_gaussian weighted_discrete_gaussian projected_discrete_gaussian",
    "epsilon": "exponential_mechanism report_noisy_max permute_and_flip above_threshold pure",
    "answers epsilon_answers epsilon_queries epsilon_threshold": "sparse_vector",
    "categories epsilon": "randomized_response",
    "delta epsilon": "approximate",
    "event times": "repeated",
    "events neighbours": "parallel",
    "event neighbours rate scheme": "subsampled",
    "event size": "grouped",
}


def test_the_stored_form_never_changes():
    expected = {kind: {"kind", *fields.split()} for fields, kinds in STORED.items() for kind in kinds.split()}
    assert {event.kind: set(event.to_json()) for event in EXAMPLES} == expected
    assert LaplaceEvent(noise_multiplier=Fraction(10, 3)).to_json() == {"kind": "laplace", "noise_multiplier": "10/3"}


def test_an_unknown_kind_is_refused_and_never_guessed():
    for value in ({"kind": "magic", "epsilon": "1"}, {"epsilon": "1"}, {"kind": None}, {"kind": ["pure"]}):
        with pytest.raises(Unpriceable, match="no accountant here knows"):
            event_from_json(value)
    inner = {"kind": "repeated", "times": 2, "event": {"kind": "magic"}}
    with pytest.raises(Unpriceable, match=r"event\.event"):
        event_from_json(inner)


@pytest.mark.parametrize(
    ("stored", "rule"),
    [
        ({"kind": "pure", "epsilon": "1", "sigma": "2"}, "'sigma' is not a field of pure"),
        ({"kind": "approximate", "epsilon": "1"}, "'delta' is missing: approximate needs it"),
        ({"kind": "parallel", "events": {"kind": "pure"}, "neighbours": "replace"}, "must be a list of events"),
        *((value, "must be an object") for value in (None, 3, "pure", [], [{"kind": "pure"}])),
    ],
)
def test_what_is_no_event_is_refused(stored, rule):
    with pytest.raises(InvalidInput, match=rule):
        event_from_json(stored)


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


@pytest.mark.parametrize(
    ("kind", "fields", "rule"),
    [
        (PureEvent, {"epsilon": Fraction(0)}, "must be above 0"),
        (PureEvent, {"epsilon": Fraction(-10)}, "must be above 0"),
        (PureEvent, {"epsilon": Fraction(101)}, "must be at most 100"),
        (PureEvent, {"epsilon": Fraction(1, 10**61)}, "must have at most 60 digits"),
        (LaplaceEvent, {"noise_multiplier": Fraction(1, 101)}, "must be at least 1/100"),
        (GaussianEvent, {"noise_variance": Fraction(1, 20001)}, "must be at least 1/20000"),
        (ApproximateEvent, {"epsilon": HALF, "delta": Fraction(1)}, "must be below 1"),
        (SubsampledEvent, {"event": PURE, "rate": Fraction(2), **POISSON}, "must be at most 1"),
        (RepeatedEvent, {"event": PURE, "times": Fraction(2)}, "must be a whole number"),
        (RepeatedEvent, {"event": PURE, "times": 0}, "must be between 1 and"),
        (RandomizedResponseEvent, {"epsilon": HALF, "categories": 1}, "must be between 2 and"),
        (GroupedEvent, {"event": PURE, "size": True}, "must be a whole number"),
        (RepeatedEvent, {"event": {"kind": "pure", "epsilon": "1"}, "times": 2}, "must be an event"),
        (ParallelEvent, {"events": (), "neighbours": "replace"}, "at least one event"),
        (ParallelEvent, {"events": (PURE, "pure"), "neighbours": "replace"}, r"parallel\.events\[1\]"),
        (ParallelEvent, {"events": (PURE,), "neighbours": "swap"}, "must be add_remove or replace"),
    ],
)
def test_fields_that_break_their_rule_are_refused(kind, fields, rule):
    with pytest.raises(InvalidInput, match=rule):
        kind(**fields)


def test_a_whole_number_is_taken_as_a_rational():
    assert PureEvent(epsilon=1) == PureEvent(epsilon=Fraction(1))
    assert isinstance(PureEvent(epsilon=1).epsilon, Fraction)


def test_nesting_without_end_is_refused_both_ways():
    event = PURE
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
            SubsampledEvent(event=PURE, rate=Fraction(1, 10), scheme=scheme, neighbours=neighbours)


def test_the_relations_an_event_was_stated_for_are_found_at_any_depth():
    parallel = ParallelEvent(events=(PURE,), neighbours="replace")
    assert declared_relations(PURE) == frozenset()
    assert declared_relations(RepeatedEvent(event=GroupedEvent(event=parallel, size=2), times=3)) == {
        NeighbouringRelation.REPLACE
    }


def test_events_cannot_be_changed_after_they_are_made():
    with pytest.raises(AttributeError):
        PURE.epsilon = Fraction(1, 100)  # type: ignore[misc]


def test_a_number_without_a_short_decimal_is_shown_as_about():
    assert "10 times" in LaplaceEvent(noise_multiplier=10).in_words()
    assert "about 3.33333 times" in LaplaceEvent(noise_multiplier=Fraction(10, 3)).in_words()
    assert "delta 0.000001" in ApproximateEvent(epsilon=1, delta=Fraction(1, 10**6)).in_words()
