"""The least squares line of one numeric column on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.statistic import Part, Statistic, columns_named, fields_of, numeric_columns, register

#: With more coefficients the noise on so many products leaves nothing to be said of tables of usual size.
MAX_SLOPES = 8


@dataclass(frozen=True, kw_only=True)
class Term:
    """What one slope belongs to.

    Attributes:
        column: a predictor.
        category: its category that is set against the first declared one; empty of a number.
    """

    column: str
    category: str = ""


@dataclass(frozen=True, kw_only=True)
class OfPredictors(Statistic):
    """How an outcome depends on other columns.

    A predictor of categories has a slope for each category but the first, that of 1 for the rows that have it.

    Attributes:
        attributes: the outcome y, then the predictors.
    """

    @property
    def outcome(self) -> str:
        return self.attributes[0]

    @property
    def predictors(self) -> tuple[str, ...]:
        return self.attributes[1:]

    def terms(self, universe: Universe) -> tuple[Term, ...]:
        """One for each slope."""
        return tuple(term for name in self.predictors for term in _terms(universe[name]))


@register
@dataclass(frozen=True, kw_only=True)
class Regression(OfPredictors):
    """The coefficients b that make E (y - b₀ - Σ b_j x_j)² least, over the population that the rows are drawn from."""

    kind: ClassVar[str] = "regression"
    place: ClassVar[int] = 4

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Regression:
        fields = fields_of(value, {"outcome", "columns"}, field=word)
        (outcome,) = numeric_columns([fields.get("outcome")], universe, field=f"{word}.outcome")
        names = predictors_named(fields.get("columns"), outcome, universe, field=f"{word}.columns", most=MAX_SLOPES)
        return cls(attributes=(outcome, *names))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        first = {name: universe[name].categories[0] if universe[name].categories else "0" for name in self.predictors}
        names = [
            f"difference in {self.outcome} between {term.column} = {term.category} and {first[term.column]}"
            if term.category
            else f"change in {self.outcome} for each 1 more of {term.column}"
            for term in self.terms(universe)
        ]
        at = ", ".join(f"{name} = {value}" for name, value in first.items())
        names.append(f"value of {self.outcome} on the line where {at}")
        return (Part(name=f"linear regression of {self.outcome}", rows=tuple(names)),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: {"outcome": self.outcome, "columns": list(self.predictors)}}


def predictors_named(value: object, outcome: str, universe: Universe, *, field: str, most: int) -> tuple[str, ...]:
    """Declared columns that an outcome can depend on, which make so many slopes at most."""
    names = columns_named(value, universe, field=field)
    for name in names:
        if universe[name].dates is not None:
            raise InvalidInput(field, name, "must be a column of numbers or of listed categories")
        if name == outcome:
            raise InvalidInput(field, name, "must be another column than the outcome")
        if not _terms(universe[name]):
            raise InvalidInput(field, name, "must have two categories or more")
    slopes = sum(len(_terms(universe[name])) for name in names)
    if slopes > most:
        rule = f"must make at most {most} slopes: one for each number, and for each category but the first"
        raise InvalidInput(field, f"{', '.join(names)}, {slopes:,} slopes", rule)
    return names


def _terms(attribute: Attribute) -> tuple[Term, ...]:
    if attribute.is_numeric:
        return (Term(column=attribute.name),)
    return tuple(Term(column=attribute.name, category=each) for each in attribute.categories[1:])
