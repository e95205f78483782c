"""Survey weights: a column that says for how many people of a population each row counts.

A weight counts as the nearest number from 0 to a declared cap C, in whole units of the column's last place, whatever
the column's own rule for numbers outside is. A row without a readable weight counts as one of weight 0: it is dropped.
So a row x of weight w adds w q(x) to a sum over rows to which it would add q(x) without weights.

Sensitivity. What one privacy unit can change is C times what it can change without weights in a table whose rows may
vanish (`Schema.rows_may_vanish`), in every norm ‖·‖:

*   Added or removed, a row changes the sums by w q(x), at most C ‖q(x)‖.
*   Replaced, it changes them by w q(x) - w' q(x'). A norm of that is convex in w and in w', so it is largest where each
    is 0 or C: 0, C ‖q(x)‖, C ‖q(x')‖ or C ‖q(x) - q(x')‖. The second and the third are those of a row that vanishes.
*   A unit of g rows makes at most g such changes; by group (`measurements`) each is in one group, or in two.

It is attained, by rows of weight C and none. A column of weights is one of numbers, and text that writes none drops its
row, so a schema with weights always is one whose rows may vanish.

The convexity is of the exact sums. Rounded to a lattice they may move a step further, so weighted sums are not rounded:
they are whole numbers as they are, in the product of both last places. (Pairs are, to one on which this holds exactly:
`row_means.PairedMeans`.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from releases.engine.domain.attribute import CLAMP, number, places, plain
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyWeight:
    """How much rows count.

    Attributes:
        column: a declared column of numbers.
        cap: above which weights count as this much, in the column's units; public.
    """

    column: str
    cap: Decimal

    @property
    def places(self) -> int:
        """Decimal places of the cap."""
        return places(self.cap)

    @classmethod
    def read(cls, value: object, universe: Universe, *, field: str) -> SurveyWeight:
        """Read a column's name, or an object with the column and the cap, which is the end of its range if not given.

        Raises:
            InvalidInput: naming the field, the value and the rule.
        """
        given = value if isinstance(value, dict) else {"column": value}
        if unknown := set(given) - {"column", "cap"}:
            raise InvalidInput(field, ", ".join(sorted(map(str, unknown))), "is not a known field")
        name = given.get("column")
        if not isinstance(name, str) or name not in universe.names or not universe[name].is_numeric:
            raise InvalidInput(field, name, "must be a numeric column")
        declared = universe[name]
        highest = declared.edges[-1]
        if highest <= 0:
            raise InvalidInput(field, name, "must be declared with a range that ends above 0")
        cap = number(given["cap"], field=f"{field}.cap") if "cap" in given else highest
        if not 0 < cap <= highest:
            rule = f"must be above 0 and at most {plain(highest)}, where the declared range of {name} ends"
            raise InvalidInput(f"{field}.cap", plain(cap), rule)
        if places(cap) > declared.decimals:
            rule = f"must have at most {declared.decimals} decimal places, as {name} has"
            raise InvalidInput(f"{field}.cap", plain(cap), rule)
        return cls(column=name, cap=cap)

    def to_json(self) -> dict[str, Any]:
        cap = int(self.cap) if self.cap == self.cap.to_integral_value() else float(self.cap)
        return {"column": self.column, "cap": cap}

    def as_read(self, universe: Universe) -> Universe:
        """The universe in which weights are numbers from 0 to the cap."""
        declared = universe[self.column]
        within = (edge for edge in declared.edges if 0 < edge < self.cap)
        read = replace(declared, edges=(Decimal(0), *within, self.cap), outside=CLAMP, open_ends=())
        return Universe(attributes=tuple(read if each.name == self.column else each for each in universe.attributes))
