"""How the odds of an outcome depend on other columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.kinds.regression import OfPredictors, predictors_named
from releases.engine.workload.queries import Count, range_label, read_count
from releases.engine.workload.statistic import Part, columns_named, fields_of, register

#: The noise is that of the counts, however many slopes are read off them; but all intervals hold at once.
MAX_SLOPES = 20
#: Counts that all bins of the predictors and the outcome make: each has its own noise.
MAX_COUNTS = 5_000
#: A ratio above it counts as it, and one below its inverse as that: noise and rows seldom tell how far beyond it lies.
LARGEST_RATIO = 10_000
#: The steps of a number that a ratio is for: the largest power of ten of which its range holds so many.
_STEPS = 4


@register
@dataclass(frozen=True, kw_only=True)
class LogisticRegression(OfPredictors):
    """The coefficients b that make E log p(y | x) greatest, log odds = b₀ + Σ b_j x_j, over the population.

    A number counts as the middle of its bin. Ratios beyond `LARGEST_RATIO` count as that.

    Attributes:
        bins: those of the outcome's column that are the outcome, rising.
    """

    kind: ClassVar[str] = "logistic_regression"
    place: ClassVar[int] = 5
    bins: tuple[int, ...]

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> LogisticRegression:
        fields = fields_of(value, {"outcome", "values", "columns"}, field=word)
        (outcome,) = columns_named([fields.get("outcome")], universe, field=f"{word}.outcome")
        given = fields.get("values")
        try:
            ((bins),) = read_count({outcome: [given] if isinstance(given, str) else given}, universe).bins
        except InvalidInput as error:
            raise InvalidInput(f"{word}.values", error.value, error.rule) from None
        if len(bins) == universe[outcome].size:
            label = ", ".join(universe[outcome].labels[:12])
            raise InvalidInput(f"{word}.values", label, f"must leave out some of what {outcome} can be")
        field = f"{word}.columns"
        names = predictors_named(fields.get("columns"), outcome, universe, field=field, most=MAX_SLOPES)
        for name in names:
            if universe[name].size < 2:
                raise InvalidInput(field, name, "must have two bins or more: a number counts as the middle of its bin")
        counts = 2 * prod(universe[name].size for name in names)
        if counts > MAX_COUNTS:
            rule = f"must make at most {MAX_COUNTS:,} counts: two for each combination of the predictors' bins"
            raise InvalidInput(field, f"{', '.join(names)}, {counts:,} counts", rule)
        return cls(attributes=(outcome, *names), bins=bins)

    def event(self, universe: Universe) -> str:
        """The outcome as a person writes it: ``income = >50K``."""
        return f"{self.outcome} = {range_label(universe[self.outcome], self.bins)}"

    def compared(self, universe: Universe) -> Iterator[str]:
        """What each ratio compares."""
        for term in self.terms(universe):
            attribute = universe[term.column]
            if term.category:
                yield f"where {term.column} is {term.category} rather than {attribute.categories[0]}"
            else:
                yield f"for each {attribute.span(step_of(attribute))} more of {term.column}"

    def base(self, universe: Universe) -> str:
        """The rows that the last odds are of: the middle of each number's range, and the first category."""
        at = []
        for name in self.predictors:
            each = universe[name]
            middle = (
                decimal_text(Fraction(each.lowest + each.highest, 2 * 10**each.decimals)) if each.is_numeric else ""
            )
            at.append(f"{name} = {middle or each.categories[0]}")
        return ", ".join(at)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        """The ratios and the odds they start from, then the logarithms of all of them."""
        event = self.event(universe)
        odds = [f"odds of {event} {each}" for each in self.compared(universe)]
        odds.append(f"odds of {event} themselves where {self.base(universe)}")
        return (
            Part(name=f"logistic regression of {event}", rows=(*odds, *(f"logarithm of the {each}" for each in odds))),
        )

    def to_json(self, universe: Universe) -> dict[str, Any]:
        (values,) = Count(attributes=(self.outcome,), bins=(self.bins,)).to_json(universe)["count"].values()
        return {self.kind: {"outcome": self.outcome, "values": values, "columns": list(self.predictors)}}


def step_of(attribute: Attribute) -> int:
    """How much more of a number a ratio is for, in units of its last place."""
    return int(10 ** max(0, (Decimal(attribute.highest - attribute.lowest) / _STEPS).adjusted()))


def places_of_bins(attribute: Attribute) -> list[Fraction]:
    """The middle of the values of each bin, from -1 to 1 over the declared range."""
    edges = [int(edge.scaleb(attribute.decimals)) for edge in attribute.edges]
    # A bin ends before its upper edge, except the last.
    tops = [*(edge - 1 for edge in edges[1:-1]), edges[-1]]
    low, high = attribute.lowest, attribute.highest
    return [Fraction(first + last - low - high, high - low) for first, last in zip(edges[:-1], tops, strict=True)]
