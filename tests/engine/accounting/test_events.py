"""Events: what is stored about a release, and that it comes back exactly."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from releases.engine.accounting.accountant import forms
from releases.engine.accounting.events import (
    EVENT_KINDS,
    AboveThresholdEvent,
    AdaptiveDiscreteGaussianEvent,
    ApproximateEvent,
    ConcentratedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    FineDiscreteGaussianEvent,
    GaussianEvent,
    GroupedEvent,
    LaplaceEvent,
    ParallelEvent,
    PermuteAndFlipEvent,
    ProjectedDiscreteGaussianEvent,
    PureAndConcentratedEvent,
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
SAMPLED = {"event": PURE, "rate": Fraction(1, 10), **POISSON}
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
    ConcentratedEvent(rho=HALF),
    PureAndConcentratedEvent(epsilon=HALF, rho=Fraction(1, 16)),
    RepeatedEvent(event=PURE, times=1000),
    ParallelEvent(events=(PURE, PureEvent(epsilon=Fraction(1))), neighbours="add_remove"),
    SubsampledEvent(**SAMPLED),
    GroupedEvent(event=PURE, size=3),
    WeightedDiscreteLaplaceEvent(noise_multiplier=Fraction(7)),
    WeightedDiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
    AdaptiveDiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
    ProjectedDiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
    FineDiscreteGaussianEvent(noise_variance=Fraction(1, 3)),
)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.kind)
def test_each_kind_round_trips_has_a_price_and_says_itself_in_one_line(event):
    again = event_from_json(json.loads(json.dumps(event.to_json())))
    assert again == event
    assert hash(again) == hash(event)
    assert forms(event).rho > 0
    assert "\n" not in event.in_words()
    assert "Fraction" not in event.in_words()


#: Ledgers hold these texts: a kind or field may be added, none renamed.
STORED = {
    "noise_multiplier": "laplace discrete_laplace weighted_discrete_laplace",
    "noise_variance": "gaussian discrete_gaussian weighted_discrete_gaussian adaptive_discrete_gaussian "
    "projected_discrete_gaussian fine_discrete_gaussian",
    "epsilon": "exponential_mechanism report_noisy_max permute_and_flip above_threshold pure",
    "answers epsilon_answers epsilon_queries epsilon_threshold": "sparse_vector",
    "categories epsilon": "randomized_response",
    "delta epsilon": "approximate",
    "rho": "concentrated",
    "epsilon rho": "pure_and_concentrated",
    "event times": "repeated",
    "events neighbours": "parallel",
    "event neighbours rate scheme": "subsampled",
    "event size": "grouped",
}


def test_the_stored_form_never_changes():
    expected = {kind: {"kind", *fields.split()} for fields, kinds in STORED.items() for kind in kinds.split()}
    assert set(expected) == set(EVENT_KINDS)
    assert {event.kind: set(event.to_json()) for event in EXAMPLES} == expected
    assert LaplaceEvent(noise_multiplier=Fraction(10, 3)).to_json() == {"kind": "laplace", "noise_multiplier": "10/3"}


@pytest.mark.parametrize(
    "text", [0.5, 1, True, None, "0.5", "1e-3", "2/4", "+1", " 1", "1/0", "01", "-0", "nan", "1/-2", "9" * 70]
)
def test_a_rational_has_one_text_and_no_other_is_read(text):
    with pytest.raises(InvalidInput):
        event_from_json({"kind": "pure", "epsilon": text})


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


def test_the_relations_an_event_was_stated_for_are_found_at_any_depth():
    parallel = ParallelEvent(events=(PURE,), neighbours="replace")
    assert declared_relations(PURE) == frozenset()
    assert declared_relations(RepeatedEvent(event=GroupedEvent(event=parallel, size=2), times=3)) == {
        NeighbouringRelation.REPLACE
    }


@pytest.mark.parametrize(
    ("stored", "error", "rule"),
    [
        ({"kind": "pure", "epsilon": "1", "sigma": "2"}, InvalidInput, "'sigma' is not a field of pure"),
        ({"kind": "approximate", "epsilon": "1"}, InvalidInput, "'delta' is missing: approximate needs it"),
        ({"kind": "parallel", "events": {}, "neighbours": "replace"}, InvalidInput, "must be a list of events"),
        *((value, InvalidInput, "must be an object") for value in (None, 3, "pure", [])),
        ({"kind": "magic", "epsilon": "1"}, Unpriceable, "no accountant here knows"),
        ({"epsilon": "1"}, Unpriceable, "no accountant here knows"),
        ({"kind": ["pure"]}, Unpriceable, "no accountant here knows"),
        ({"kind": "repeated", "times": 2, "event": {"kind": "magic"}}, Unpriceable, r"event\.event"),
    ],
)
def test_what_is_no_event_is_refused_and_never_guessed(stored, error, rule):
    with pytest.raises(error, match=rule):
        event_from_json(stored)


@pytest.mark.parametrize(
    ("kind", "fields", "error", "rule"),
    [
        *((PureEvent, {"epsilon": each}, InvalidInput, "must be an exact rational") for each in (0.5, True, "1", None)),
        (PureEvent, {"epsilon": Fraction(0)}, InvalidInput, "must be above 0"),
        (PureEvent, {"epsilon": Fraction(101)}, InvalidInput, "must be at most 100"),
        (PureEvent, {"epsilon": Fraction(1, 10**61)}, InvalidInput, "must have at most 60 digits"),
        (LaplaceEvent, {"noise_multiplier": Fraction(1, 101)}, InvalidInput, "must be at least 1/100"),
        (GaussianEvent, {"noise_variance": Fraction(1, 20001)}, InvalidInput, "must be at least 1/20000"),
        (ApproximateEvent, {"epsilon": HALF, "delta": Fraction(1)}, InvalidInput, "must be below 1"),
        (SubsampledEvent, {"event": PURE, "rate": Fraction(2), **POISSON}, InvalidInput, "must be at most 1"),
        (SubsampledEvent, {**SAMPLED, "neighbours": "replace"}, Unpriceable, "is proved for neighbours that are"),
        (SubsampledEvent, {**SAMPLED, "scheme": "without_replacement"}, Unpriceable, "is proved for neighbours"),
        (RepeatedEvent, {"event": PURE, "times": Fraction(2)}, InvalidInput, "must be a whole number"),
        (RepeatedEvent, {"event": PURE, "times": 0}, InvalidInput, "must be between 1 and"),
        (RandomizedResponseEvent, {"epsilon": HALF, "categories": 1}, InvalidInput, "must be between 2 and"),
        (GroupedEvent, {"event": PURE, "size": True}, InvalidInput, "must be a whole number"),
        (RepeatedEvent, {"event": {"kind": "pure"}, "times": 2}, InvalidInput, "must be an event"),
        (ParallelEvent, {"events": (), "neighbours": "replace"}, InvalidInput, "at least one event"),
        (ParallelEvent, {"events": (PURE, "pure"), "neighbours": "replace"}, InvalidInput, r"parallel\.events\[1\]"),
        (ParallelEvent, {"events": (PURE,), "neighbours": "swap"}, InvalidInput, "must be add_remove or replace"),
    ],
)
def test_fields_that_break_their_rule_are_refused(kind, fields, error, rule):
    with pytest.raises(error, match=rule):
        kind(**fields)
