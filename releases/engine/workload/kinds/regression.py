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


@register
@dataclass(frozen=True, kw_only=True)
class Regression(Statistic):
    """The coefficients b that make E (y - b₀ - Σ b_j x_j)² least, over the population that the rows are drawn from.

    A predictor of categories has a slope for each category but the first, that of 1 for the rows that have it.

    Attributes:
        attributes: the outcome y, then the predictors.
    """

    kind: ClassVar[str] = "regression"
    place: ClassVar[int] = 4

    @property
    def outcome(self) -> str:
        return self.attributes[0]

    @property
    def predictors(self) -> tuple[str, ...]:
        return self.attributes[1:]

    def terms(self, universe: Universe) -> tuple[Term, ...]:
        """One for each slope."""
        return tuple(term for name in self.predictors for term in _terms(universe[name]))

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Regression:
        fields = fields_of(value, {"outcome", "columns"}, field=word)
        (outcome,) = numeric_columns([fields.get("outcome")], universe, field=f"{word}.outcome")
        names = columns_named(fields.get("columns"), universe, field=f"{word}.columns")
        for name in names:
            if universe[name].dates is not None:
                raise InvalidInput(f"{word}.columns", name, "must be a column of numbers or of listed categories")
            if name == outcome:
                raise InvalidInput(f"{word}.columns", name, "must be another column than the outcome")
            if not _terms(universe[name]):
                raise InvalidInput(f"{word}.columns", name, "must have two categories or more")
        read = cls(attributes=(outcome, *names))
        slopes = len(read.terms(universe))
        if slopes > MAX_SLOPES:
            rule = f"must make at most {MAX_SLOPES} slopes: one for each number, and for each category but the first"
            raise InvalidInput(f"{word}.columns", f"{', '.join(names)}, {slopes:,} slopes", rule)
        return read

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


def _terms(attribute: Attribute) -> tuple[Term, ...]:
    if attribute.is_numeric:
        return (Term(column=attribute.name),)
    return tuple(Term(column=attribute.name, category=each) for each in attribute.categories[1:])
