"""Several quantiles of a numeric column."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.domain.universe import Universe, number
from releases.engine.errors import InvalidInput
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.statistic import Part, Statistic, fields_of, numeric_columns, register

_MOST = 19


@register
@dataclass(frozen=True, kw_only=True)
class Quantiles(Statistic):
    """For each share of `at`, which rise, a value of a numeric column with that share of the rows at or below it."""

    kind: ClassVar[str] = "quantiles"
    place: ClassVar[int] = 7
    at: tuple[Fraction, ...]

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Quantiles:
        fields = fields_of(value, {"column", "at"}, field="quantiles")
        names = numeric_columns([fields.get("column")], universe, field="quantiles.column")
        listed = fields.get("at")
        if not isinstance(listed, list) or not 2 <= len(listed) <= _MOST:
            raise InvalidInput("quantiles.at", listed, f"must be a list of 2 to {_MOST} shares")
        at = tuple(exact(str(number(each, field="quantiles.at")), field="quantiles.at") for each in listed)
        if not all(0 < share < 1 for share in at):
            raise InvalidInput("quantiles.at", listed, "must be above 0 and below 1")
        if not all(low < high for low, high in pairwise(at)):
            raise InvalidInput("quantiles.at", listed, "must rise from each share to the next")
        return cls(attributes=names, at=at)

    @property
    def each(self) -> tuple[Quantile, ...]:
        """The quantiles, one by one."""
        return tuple(Quantile(attributes=self.attributes, at=share) for share in self.at)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return tuple(part for quantile in self.each for part in quantile.parts(universe))

    def to_json(self, universe: Universe) -> dict[str, Any]:
        shares = [decimal_text(share, places=12) for share in self.at]
        return {self.kind: {"column": self.attributes[0], "at": shares}}
