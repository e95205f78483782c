"""Several quantiles of a column of numbers or of dates, or quantiles by group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from releases.engine.domain.attribute import number
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.statistic import Part, Statistic, fields_of, ranked_column, register

_MOST = 19


@register
@dataclass(frozen=True, kw_only=True)
class Quantiles(Statistic):
    """For each share of `at`, which rise, a value of a column with that share of the rows at or below it.

    Attributes:
        at: the shares.
        by: a column of categories, in each of which every quantile is asked for; empty where it is of all rows.
    """

    kind: ClassVar[str] = "quantiles"
    place: ClassVar[int] = 7
    at: tuple[Fraction, ...]
    by: str = ""

    @property
    def exact(self) -> tuple[str, ...]:
        return self.attributes[:1]

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Quantiles:
        fields = fields_of(value, {"column", "at", "by"}, field="quantiles")
        names = ranked_column(fields.get("column"), universe, field="quantiles.column")
        by = _group_column(fields["by"], universe) if "by" in fields else ""
        if by == names[0]:
            raise InvalidInput("quantiles.by", by, "must be another column than the one with the values")
        listed, fewest = fields.get("at"), 1 if by else 2
        if not isinstance(listed, list) or not fewest <= len(listed) <= _MOST:
            raise InvalidInput("quantiles.at", listed, f"must be a list of {fewest} to {_MOST} shares")
        at = tuple(exact(str(number(each, field="quantiles.at")), field="quantiles.at") for each in listed)
        if not all(0 < share < 1 for share in at):
            raise InvalidInput("quantiles.at", listed, "must be above 0 and below 1")
        if not all(low < high for low, high in pairwise(at)):
            raise InvalidInput("quantiles.at", listed, "must rise from each share to the next")
        return cls(attributes=(*names, by) if by else names, at=at, by=by)

    @property
    def each(self) -> tuple[Quantile, ...]:
        """The quantiles, one by one."""
        return tuple(Quantile(attributes=self.attributes[:1], at=share) for share in self.at)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        parts = tuple(part for quantile in self.each for part in quantile.parts(universe))
        if not self.by:
            return parts
        return tuple(Part(name=f"{part.name} by {self.by}", rows=universe[self.by].labels) for part in parts)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        shares = [decimal_text(share, places=12) for share in self.at]
        return {self.kind: {"column": self.attributes[0], "at": shares} | ({"by": self.by} if self.by else {})}


def _group_column(name: object, universe: Universe) -> str:
    if not isinstance(name, str) or name not in universe.names or universe[name].is_numeric:
        raise InvalidInput("quantiles.by", name, "must name a declared column of categories")
    return name
