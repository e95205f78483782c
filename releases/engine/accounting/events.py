"""What was run, in words an accountant can price: one frozen class for each kind of mechanism.

An event never says what it costs, so the past can be re-priced when a better theorem is proved. Its
parameters are exact rationals or whole numbers and already relative to the sensitivity under the dataset's
own neighbouring relation. A kind and the meaning of its fields never change once stored; a new mechanism is a
new class, entered in the registry by `_event`, and priced by one entry in `accountant`.

Stored form: ``{"kind": "laplace", "noise_multiplier": "10/3"}``, rationals as text in lowest terms, nested
events as objects. One event has one text, and anything else is refused.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_type_hints,
)

from releases.engine.accounting.conversions import SamplingScheme, check_sampling
from releases.engine.domain.privacy import LARGEST_EPSILON, NeighbouringRelation, decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable

#: Events inside events: a plan needs three levels, and a text from outside must not exhaust the stack.
_DEEPEST_NESTING = 8
#: Digits a stored rational may have above and below its line.
_LONGEST_RATIONAL = 60
_RATIONAL = re.compile(r"-?[0-9]+(/[1-9][0-9]*)?")

#: Every known kind, by the word it is stored with.
EVENT_KINDS: dict[str, type[Event]] = {}

_E = TypeVar("_E", bound="Event")
_T = TypeVar("_T")
#: What json writes.
Json: TypeAlias = Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that was run on a table."""

    kind: ClassVar[str] = ""
    _words: ClassVar[str] = ""
    _forms: ClassVar[dict[str, _Form[Any]]] = {}

    def __post_init__(self) -> None:
        for name, form in self._forms.items():
            object.__setattr__(self, name, form.check(f"{self.kind}.{name}", getattr(self, name)))
        self._check_together()

    def _check_together(self) -> None:
        """Rules that concern more than one field."""

    def to_json(self) -> dict[str, Any]:
        """The stored form; `event_from_json` returns an equal event."""
        fields = {name: form.encode(getattr(self, name)) for name, form in self._forms.items()}
        return {"kind": self.kind, **fields}

    def inner(self) -> tuple[Event, ...]:
        """The events this one is made of."""
        return ()

    def in_words(self) -> str:
        """One line for a receipt."""
        return self._words.format(**{name: _shown(getattr(self, name)) for name in self._forms})


def event_from_json(value: object) -> Event:
    """Read a stored event.

    Raises:
        InvalidInput: a field is missing, unknown or not what its kind needs.
        Unpriceable: the kind is not known here; it is refused, never guessed.
    """
    return _read(value, _Place(path="event"))


def declared_relations(event: Event) -> frozenset[NeighbouringRelation]:
    """The neighbouring relations the event, or one inside it, was stated for, where that matters to its
    price.
    """
    declared = getattr(event, "neighbours", None)
    own = frozenset() if declared is None else frozenset({declared})
    return own.union(*(declared_relations(part) for part in event.inner()))


def _read(value: object, place: _Place) -> Event:
    if place.depth > _DEEPEST_NESTING:
        raise InvalidInput(place.path, place.depth, f"is nested more than {_DEEPEST_NESTING} deep")
    if not isinstance(value, dict):
        raise InvalidInput(place.path, value, 'must be an object such as {"kind": "pure", "epsilon": "1/2"}')
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in EVENT_KINDS:
        raise Unpriceable(f"{place.path}: no accountant here knows events of kind {kind!r}.")
    forms = EVENT_KINDS[kind]._forms
    unknown, missing = set(value) - set(forms) - {"kind"}, set(forms) - set(value)
    if unknown:
        raise InvalidInput(place.path, ", ".join(sorted(map(str, unknown))), f"is not a field of {kind}")
    if missing:
        raise InvalidInput(place.path, ", ".join(sorted(missing)), f"is missing: {kind} needs it")
    return EVENT_KINDS[kind](**{name: form.decode(value[name], place.of(f".{name}")) for name, form in forms.items()})


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _event(kind: str, words: str = "") -> Callable[[type[_E]], type[_E]]:
    """Enter a class under the word it is stored with. Each field is annotated with its form; `words`, with fields in
    braces, are for people.
    """

    def register(cls: type[_E]) -> type[_E]:
        cls = dataclass(frozen=True, kw_only=True, slots=True)(cls)
        hints = get_type_hints(cls, include_extras=True)
        cls.kind, cls._words = kind, words
        cls._forms = {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(cls)}
        EVENT_KINDS[kind] = cls
        return cls

    return register


# The forms a field may have: how it is checked, written and read


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where in a stored event a value stands, for the message of a refusal."""

    path: str
    depth: int = 0

    def of(self, part: str, *, deeper: int = 0) -> _Place:
        return _Place(path=self.path + part, depth=self.depth + deeper)


class _Form(Generic[_T]):
    def check(self, where: str, value: object) -> _T:
        """The value as the event keeps it, or a refusal."""
        raise NotImplementedError

    def encode(self, value: _T) -> Json:
        """The value as JSON."""
        return value

    def decode(self, value: object, place: _Place) -> _T:
        """The value from JSON."""
        return self.check(place.path, value)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rational(_Form[Fraction]):
    """A rational between two bounds, each meant exclusively where so named.

    A whole number is taken as one; a float is refused: it is not what was typed.
    """

    above: Fraction | int | None = None
    at_least: Fraction | int | None = None
    at_most: Fraction | int | None = None
    below: Fraction | int | None = None

    def check(self, where: str, value: object) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
            raise InvalidInput(where, value, "must be an exact rational")
        number = Fraction(value)
        if max(abs(number.numerator), number.denominator) >= 10**_LONGEST_RATIONAL:
            raise InvalidInput(where, "a number", f"must have at most {_LONGEST_RATIONAL} digits")
        if self.above is not None and not number > self.above:
            raise InvalidInput(where, number, f"must be above {self.above}")
        if self.at_least is not None and not number >= self.at_least:
            raise InvalidInput(where, number, f"must be at least {self.at_least}")
        if self.at_most is not None and not number <= self.at_most:
            raise InvalidInput(where, number, f"must be at most {self.at_most}")
        if self.below is not None and not number < self.below:
            raise InvalidInput(where, number, f"must be below {self.below}")
        return number

    def encode(self, value: Fraction) -> str:
        return str(value)

    def decode(self, value: object, place: _Place) -> Fraction:
        rule = 'must be a rational as text in lowest terms, such as "3/7"'
        if not isinstance(value, str) or len(value) > 2 * _LONGEST_RATIONAL + 2:
            raise InvalidInput(place.path, value, rule)
        if not _RATIONAL.fullmatch(value) or str(Fraction(value)) != value:
            raise InvalidInput(place.path, value, rule)
        return self.check(place.path, Fraction(value))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Whole(_Form[int]):
    at_least: int
    at_most: int

    def check(self, where: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(where, value, "must be a whole number")
        if not self.at_least <= value <= self.at_most:
            raise InvalidInput(where, value, f"must be between {self.at_least} and {self.at_most}")
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class _Word(_Form[StrEnum]):
    words: type[StrEnum]

    def check(self, where: str, value: object) -> StrEnum:
        if isinstance(value, str) and value in set(self.words):
            return self.words(value)
        raise InvalidInput(where, value, "must be " + " or ".join(self.words))

    def encode(self, value: StrEnum) -> str:
        return value.value


class _Inner(_Form["Event"]):
    def check(self, where: str, value: object) -> Event:
        if not isinstance(value, Event):
            raise InvalidInput(where, value, "must be an event")
        if _depth(value) >= _DEEPEST_NESTING:
            raise InvalidInput(where, value.kind, f"is nested more than {_DEEPEST_NESTING} deep")
        return value

    def encode(self, value: Event) -> dict[str, Any]:
        return value.to_json()

    def decode(self, value: object, place: _Place) -> Event:
        return _read(value, place.of("", deeper=1))


class _Parts(_Form["tuple[Event, ...]"]):
    def check(self, where: str, value: object) -> tuple[Event, ...]:
        if not isinstance(value, (tuple, list)) or not value:
            raise InvalidInput(where, value, "must be a list of at least one event")
        one = _Inner()
        return tuple(one.check(f"{where}[{index}]", event) for index, event in enumerate(value))

    def encode(self, value: tuple[Event, ...]) -> list[dict[str, Any]]:
        return [event.to_json() for event in value]

    def decode(self, value: object, place: _Place) -> tuple[Event, ...]:
        if not isinstance(value, list):
            raise InvalidInput(place.path, value, "must be a list of events")
        return tuple(_read(part, place.of(f"[{index}]", deeper=1)) for index, part in enumerate(value))


def _depth(event: Event) -> int:
    return 1 + max(map(_depth, event.inner()), default=0)


#: Noise below these bounds would by itself cost more than the largest epsilon that is offered.
Multiplier: TypeAlias = Annotated[Fraction, _Rational(at_least=Fraction(1, LARGEST_EPSILON))]
Variance: TypeAlias = Annotated[Fraction, _Rational(at_least=Fraction(1, 2 * LARGEST_EPSILON**2))]
Epsilon: TypeAlias = Annotated[Fraction, _Rational(above=0, at_most=LARGEST_EPSILON)]
#: That of the least Gaussian noise that is offered is the largest.
Rho: TypeAlias = Annotated[Fraction, _Rational(above=0, at_most=LARGEST_EPSILON**2)]
EpsilonOrNone: TypeAlias = Annotated[Fraction, _Rational(at_least=0, at_most=LARGEST_EPSILON)]
Delta: TypeAlias = Annotated[Fraction, _Rational(above=0, below=1)]
Rate: TypeAlias = Annotated[Fraction, _Rational(above=0, at_most=1)]
Times: TypeAlias = Annotated[int, _Whole(at_least=1, at_most=10**9)]
Categories: TypeAlias = Annotated[int, _Whole(at_least=2, at_most=10**9)]
GroupSize: TypeAlias = Annotated[int, _Whole(at_least=1, at_most=10_000)]
Inner: TypeAlias = Annotated[Event, _Inner()]
Parts: TypeAlias = Annotated[tuple[Event, ...], _Parts()]
Scheme: TypeAlias = Annotated[SamplingScheme, _Word(words=SamplingScheme)]
Neighbours: TypeAlias = Annotated[NeighbouringRelation, _Word(words=NeighbouringRelation)]


def _shown(value: Fraction | int) -> str:
    """A number for people: exactly where it has at most twelve decimals, else to six digits and marked so."""
    decimal = decimal_text(Fraction(value))
    return decimal if Fraction(decimal) == value else f"about {float(value):.6g}"


# Additive noise


@_event("laplace", "Laplace noise of scale {noise_multiplier} times the l1 sensitivity")
class LaplaceEvent(Event):
    """Continuous Laplace noise on a vector; noise_multiplier = scale / l1 sensitivity (Dwork and Roth 2014,
    3.3).
    """

    noise_multiplier: Multiplier


@_event("discrete_laplace", "discrete Laplace noise of scale {noise_multiplier} times the l1 sensitivity")
class DiscreteLaplaceEvent(Event):
    """Integer noise with P(x) proportional to e^(-|x|/scale) on a vector of integers.

    noise_multiplier = scale / l1 sensitivity, both on the integer lattice.
    """

    noise_multiplier: Multiplier


@_event("gaussian", "Gaussian noise of variance {noise_variance} times the squared l2 sensitivity")
class GaussianEvent(Event):
    """Continuous spherical Gaussian noise on a vector; noise_variance = sigma**2 / (l2 sensitivity)**2."""

    noise_variance: Variance


@_event("discrete_gaussian", "discrete Gaussian noise of variance {noise_variance} times the squared l2 sensitivity")
class DiscreteGaussianEvent(Event):
    """Integer noise with P(x) proportional to e^(-x**2/(2 sigma**2)), independent in each coordinate of
    integers.

    noise_variance = sigma**2 / (l2 sensitivity)**2 (Canonne, Kamath and Steinke 2020).
    """

    noise_variance: Variance


@_event(
    "weighted_discrete_laplace",
    "discrete Laplace noise of scale {noise_multiplier} times the weighted l1 sensitivity, divided by each "
    "answer's weight",
)
class WeightedDiscreteLaplaceEvent(Event):
    """Independent discrete Laplace noise on integers x_i of weights w_i, of scale s / w_i on the i-th.

    noise_multiplier = s / (l1 sensitivity of the vector of the w_i x_i).
    """

    noise_multiplier: Multiplier


@_event(
    "weighted_discrete_gaussian",
    "discrete Gaussian noise of variance {noise_variance} times the squared weighted l2 sensitivity, divided "
    "by the square of each answer's weight",
)
class WeightedDiscreteGaussianEvent(Event):
    """Independent discrete Gaussian noise on integers x_i of weights w_i, of variance (sigma / w_i)**2 on the i-th.

    noise_variance = sigma**2 / (l2 sensitivity of the vector of the w_i x_i)**2 (Canonne, Kamath and Steinke
    2020, Theorem 14, which lets each coordinate have its own sigma).
    """

    noise_variance: Variance


@_event(
    "adaptive_discrete_gaussian",
    "discrete Gaussian noise step by step, together as of variance {noise_variance} times the squared l2 sensitivity",
)
class AdaptiveDiscreteGaussianEvent(Event):
    """Independent discrete Gaussian noise on integers, vector after vector, each chosen by the outcomes before it.

    noise_variance = 1/S, where S bounds, for any outcomes and any two neighbours, the sum over all vectors and their
    coordinates of (the coordinate's change / its sigma)**2. S is fixed beforehand; the changes are whole numbers.
    """

    noise_variance: Variance


@_event(
    "projected_discrete_gaussian",
    "discrete Gaussian noise of variance {noise_variance} times the squared l2 sensitivity of the part released",
)
class ProjectedDiscreteGaussianEvent(Event):
    """Independent discrete Gaussian noise on a vector of integers, of which a public linear map alone is released.

    What the map does not show costs nothing. noise_variance = 1 / (the greatest squared length that one unit moves the
    vector, orthogonally to what the map takes to 0, each coordinate divided by its sigma). The lattice of integer
    vectors that the map takes to 0 is fine beside the noise: eta, as in `conversions.rho_of_projected_gaussian`, is at
    most 2**-102.
    """

    noise_variance: Variance


@_event(
    "fine_discrete_gaussian",
    "discrete Gaussian noise on a fine grid, of variance {noise_variance} times the squared l2 sensitivity",
)
class FineDiscreteGaussianEvent(Event):
    """A `ProjectedDiscreteGaussianEvent`, or the same where all is released, on a grid that is fine beside the noise.

    noise_variance is as there, and so is the bound on eta. A 2**-20 of each coordinate's variance is so large that
    theta, as in `calibration.fine_gaussian_delta`, is at most 2**-102.
    """

    noise_variance: Variance


# Choosing


@_event("exponential_mechanism", "one choice by the exponential mechanism with epsilon {epsilon}")
class ExponentialMechanismEvent(Event):
    """A choice with probability proportional to e^(epsilon score / (2 sensitivity)), or with Gumbel noise.

    Its log ratio lies in an interval of length epsilon (a bounded range), which is more than epsilon-DP.
    """

    epsilon: Epsilon


@_event("report_noisy_max", "one choice by report-noisy-max with epsilon {epsilon}")
class ReportNoisyMaxEvent(Event):
    """The index of the largest score after Laplace noise; epsilon-DP and no bounded range of epsilon."""

    epsilon: Epsilon


@_event("permute_and_flip", "one choice by permute-and-flip with epsilon {epsilon}")
class PermuteAndFlipEvent(Event):
    """A choice by permute-and-flip, the same as noisy max with exponential noise (Ding et al. 2021);
    epsilon-DP.
    """

    epsilon: Epsilon


@_event("above_threshold", "queries until one is above a noisy threshold, epsilon {epsilon} in all")
class AboveThresholdEvent(Event):
    """Any number of queries against one noisy threshold until the first is above (Dwork and Roth 2014, Alg.
    1).
    """

    epsilon: Epsilon


@_event("sparse_vector")
class SparseVectorEvent(Event):
    """Any number of queries against a noisy threshold until `answers` of them were above.

    Lyu, Su and Li 2017, Algorithm 1: threshold noise for epsilon_threshold, query noise for epsilon_queries
    over all answers together, and numeric answers with fresh noise for epsilon_answers over all together (0:
    none given).
    """

    epsilon_threshold: Epsilon
    epsilon_queries: Epsilon
    epsilon_answers: EpsilonOrNone
    answers: Times

    def in_words(self) -> str:
        total = self.epsilon_threshold + self.epsilon_queries + self.epsilon_answers
        with_numbers = ", with their values" if self.epsilon_answers else ""
        what = f"up to {self.answers} answers above a threshold{with_numbers}"
        return f"sparse vector: {what}, epsilon {_shown(total)}"


# Stated by its guarantee


@_event("randomized_response", "randomized response over {categories} categories with epsilon {epsilon}")
class RandomizedResponseEvent(Event):
    """A category told truly with odds e^epsilon : 1 against each of the others."""

    epsilon: Epsilon
    categories: Categories


@_event("pure", "a mechanism with epsilon {epsilon}")
class PureEvent(Event):
    """Any epsilon-DP mechanism."""

    epsilon: Epsilon


@_event("pure_and_concentrated", "a mechanism with epsilon {epsilon} and rho {rho}")
class PureAndConcentratedEvent(Event):
    """Any mechanism that is epsilon-DP and rho-zCDP, one of several too that an earlier outcome chooses."""

    epsilon: Epsilon
    rho: Rho


@_event("approximate", "a mechanism with epsilon {epsilon} and delta {delta}")
class ApproximateEvent(Event):
    """Any (epsilon, delta)-DP mechanism."""

    epsilon: Epsilon
    delta: Delta


@_event("concentrated", "a mechanism with rho {rho}")
class ConcentratedEvent(Event):
    """Any rho-zCDP mechanism, an adaptive sequence too whose rhos never add up to more."""

    rho: Rho


# Made of others


@_event("repeated")
class RepeatedEvent(Event):
    """The same event `times` times on the same rows; what is asked may depend on earlier answers."""

    event: Inner
    times: Times

    def inner(self) -> tuple[Event, ...]:
        return (self.event,)

    def in_words(self) -> str:
        return f"{self.times} times: {self.event.in_words()}"


@_event("parallel")
class ParallelEvent(Event):
    """One event on each part of a partition of the units that was fixed beforehand by a public rule.

    Under ADD_REMOVE a unit is in one part. Under REPLACE it may leave one part and enter another, so two
    parts change; then each part's event must be stated for the worse of a unit joining or leaving the part
    and a unit replaced within it. Parts that are chosen or changed after seeing answers are not parallel:
    state them in sequence.
    """

    events: Parts
    neighbours: Neighbours

    def inner(self) -> tuple[Event, ...]:
        return self.events

    def in_words(self) -> str:
        kinds: dict[str, int] = {}
        for event in self.events:
            words = event.in_words()
            kinds[words] = kinds.get(words, 0) + 1
        listed = "; ".join(f"{words} on {count}" for words, count in kinds.items())
        return f"on each of {len(self.events)} separate parts of the rows: {listed}"


@_event("subsampled")
class SubsampledEvent(Event):
    """An event on a random sample of the rows, the sample being drawn afresh and kept secret.

    The event inside is stated for the sample under the same neighbouring relation.
    """

    event: Inner
    rate: Rate
    scheme: Scheme
    neighbours: Neighbours

    def _check_together(self) -> None:
        check_sampling(scheme=self.scheme, neighbours=self.neighbours)

    def inner(self) -> tuple[Event, ...]:
        return (self.event,)

    def in_words(self) -> str:
        without = self.scheme is SamplingScheme.WITHOUT_REPLACEMENT
        how = "drawn without replacement" if without else "drawn row by row"
        return f"on a random sample ({_shown(self.rate)} of the rows, {how}): {self.event.in_words()}"


@_event("grouped")
class GroupedEvent(Event):
    """An event whose parameters are stated for one unit, where the promise is to groups of `size` units."""

    event: Inner
    size: GroupSize

    def inner(self) -> tuple[Event, ...]:
        return (self.event,)

    def in_words(self) -> str:
        return f"{self.event.in_words()}; promised to groups of {self.size}"
