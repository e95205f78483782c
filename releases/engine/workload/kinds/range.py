"""Two values with most of the rows between them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from releases.engine.domain.attribute import number
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.statistic import Part, Statistic, fields_of, numeric_columns, register


@register
@dataclass(frozen=True, kw_only=True)
class Range(Statistic):
    """Two values of a numeric column with a share `inside` of the rows from one to the other, and as many of the rest
    below the lower as above the upper: the quantiles at (1 - inside) / 2 and (1 + inside) / 2.
    """

    kind: ClassVar[str] = "range"
    place: ClassVar[int] = 8
    is_choice: ClassVar[bool] = True
    inside: Fraction = Fraction(98, 100)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The shares of the rows at or below either end."""
        return (1 - self.inside) / 2, (1 + self.inside) / 2

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Range:
        fields = fields_of(value, {"column", "inside"}, field="range")
        names = numeric_columns([fields.get("column")], universe, field="range.column")
        inside = exact(str(number(fields.get("inside"), field="range.inside")), field="range.inside")
        if not 0 < inside < 1:
            raise InvalidInput("range.inside", fields.get("inside"), "must be above 0 and below 1 (0.98 for 98%)")
        return cls(attributes=names, inside=inside)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        share = decimal_text(self.inside * 100, places=6)
        return (Part(name=f"range that holds {share}% of {name}", rows=("lowest", "highest")),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: {"column": self.attributes[0], "inside": decimal_text(self.inside, places=12)}}
