"""What is promised, to whom, and in which currency: privacy units, neighbours, and costs as exact numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

from releases.engine.errors import InvalidInput

#: Nothing above this is a promise worth writing down, and exp() of it still fits a double.
LARGEST_EPSILON = 100
#: A number that people type is shorter; it is kept as it was typed, where there is room for so many.
_MAX_CHARACTERS = 40


def exact(value: str | int | Decimal | Fraction, *, field: str) -> Fraction:
    """Return `value` as a rational number, exactly as written. A float is refused: it is not what was typed.

    Raises:
        InvalidInput: `value` is not a plain finite decimal number ("1,5", "nan", "1e400" are not).
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, Decimal, Fraction)):
        raise InvalidInput(field, value, "must be a decimal number written as text, such as 0.5")
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and len(value.strip()) > _MAX_CHARACTERS:
        raise InvalidInput(field, f"{value.strip()[:10]}…", f"must have at most {_MAX_CHARACTERS} characters")
    try:
        number = Decimal(value.strip() if isinstance(value, str) else value)
    except InvalidOperation:
        raise InvalidInput(field, value, "must be a decimal number with a point, such as 0.5") from None
    if not number.is_finite():
        raise InvalidInput(field, value, "must be a finite decimal number, such as 0.5")
    if abs(number.adjusted()) > 30:
        raise InvalidInput(field, value, "must be a decimal number of ordinary size")
    return Fraction(number)


def decimal_text(value: Fraction, *, places: int = 12) -> str:
    """Write a rational as a decimal: exactly where it has one, else rounded up at `places` digits."""
    scale = 10**places
    scaled = -((-value.numerator * scale) // value.denominator)
    sign, scaled = ("-", -scaled) if scaled < 0 else ("", scaled)
    whole, part = divmod(scaled, scale)
    digits = f"{part:0{places}d}".rstrip("0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


class NeighbouringRelation(StrEnum):
    """Which pairs of tables must look alike.

    ADD_REMOVE: one has one unit more than the other; the number of units is private.
    REPLACE: they differ in the value of one unit; the number of units is public.
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyUnit:
    """Whose presence is protected: one row, or one person with at most `max_rows` rows.

    The bound on a person's rows is enforced while counting, so it holds for every table.
    """

    kind: str = "row"
    id_column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("row", "person"):
            raise InvalidInput("unit.kind", self.kind, 'must be "row" or "person"')
        if self.kind == "row" and (self.id_column is not None or self.max_rows != 1):
            raise InvalidInput("unit", self.kind, "takes neither an id column nor max_rows: a row is one row")
        if self.kind == "person" and not self.id_column:
            raise InvalidInput("unit.id", self.id_column, "must name the column that tells people apart")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int):
            raise InvalidInput("unit.max_rows", self.max_rows, "must be a whole number")
        if not 1 <= self.max_rows <= 10_000:
            raise InvalidInput("unit.max_rows", self.max_rows, "must be between 1 and 10000")

    def of_columns(self, names: Mapping[str, str]) -> PrivacyUnit:
        """The same in a table that calls its columns otherwise, by their names here."""
        if self.id_column is None:
            return self
        return replace(self, id_column=names.get(self.id_column, self.id_column))

    def to_json(self) -> dict[str, Any]:
        if self.kind == "row":
            return {"kind": "row"}
        return {"kind": "person", "id": self.id_column, "max_rows": self.max_rows}

    @staticmethod
    def from_json(value: object) -> PrivacyUnit:
        if not isinstance(value, dict):
            raise InvalidInput("unit", value, 'must be an object such as {"kind": "row"}')
        unknown = set(value) - {"kind", "id", "max_rows"}
        if unknown:
            raise InvalidInput("unit", ", ".join(sorted(map(str, unknown))), "is not a known field")
        return PrivacyUnit(kind=value.get("kind", "row"), id_column=value.get("id"), max_rows=value.get("max_rows", 1))

    def in_words(self) -> str:
        if self.kind == "row":
            return "one row"
        rows = "1 row" if self.max_rows == 1 else f"at most {self.max_rows} rows"
        return f"one person (column {self.id_column}, {rows} each)"


def protection_in_words(*, unit: PrivacyUnit, neighbours: NeighbouringRelation) -> str:
    """What is protected: ``one row with add/remove neighbours``."""
    return f"{unit.in_words()} with {neighbours.value.replace('_', '/')} neighbours"


@dataclass(frozen=True, kw_only=True, slots=True)
class PureDP:
    """epsilon-differential privacy: no output is more than exp(epsilon) times likelier for a neighbour."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    @property
    def delta(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy (Dwork and Roth 2014, Definition 2.4), with delta > 0."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        if not isinstance(self.delta, Fraction):
            raise InvalidInput("delta", self.delta, "must be an exact rational")
        if not 0 < self.delta < 1:
            raise InvalidInput("delta", decimal_text(self.delta), "must be above 0 and below 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class ZCDP:
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016, Definition 1.1)."""

    rho: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.rho, Fraction):
            raise InvalidInput("rho", self.rho, "must be an exact rational")
        if not 0 < self.rho <= LARGEST_EPSILON**2:
            raise InvalidInput("rho", decimal_text(self.rho), "must be above 0")


#: What a plan may spend. Within it a mechanism may account in rho; what it was allowed is said as people say it.
PrivacyBudget: TypeAlias = PureDP | ApproxDP


def privacy_budget(
    *,
    epsilon: str | int | Decimal | Fraction,
    delta: str | int | Decimal | Fraction = 0,
) -> PureDP | ApproxDP:
    """Read a budget as a person types it: epsilon alone is pure, with a delta above 0 approximate."""
    epsilon, delta = exact(epsilon, field="epsilon"), exact(delta, field="delta")
    if delta == 0:
        return PureDP(epsilon=epsilon)
    return ApproxDP(epsilon=epsilon, delta=delta)


def _check_epsilon(epsilon: Fraction) -> None:
    if not isinstance(epsilon, Fraction):
        raise InvalidInput("epsilon", epsilon, "must be an exact rational")
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise InvalidInput("epsilon", decimal_text(epsilon), f"must be above 0 and at most {LARGEST_EPSILON}")
