"""The typed syntax tree of a formula."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from releases.engine.domain.columns import FileColumn


class Type(StrEnum):
    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"
    DATE = "date"
    MOMENT = "date and time"


#: What each function of fixed arguments takes and gives.
SIGNATURES: dict[str, tuple[tuple[Type, ...], Type]] = {
    **dict.fromkeys(("year", "month", "day", "weekday"), ((Type.DATE,), Type.NUMBER)),
    **dict.fromkeys(("days_between", "years_between"), ((Type.DATE, Type.DATE), Type.NUMBER)),
    **dict.fromkeys(("abs", "floor", "round"), ((Type.NUMBER,), Type.NUMBER)),
    **dict.fromkeys(("min", "max"), ((Type.NUMBER, Type.NUMBER), Type.NUMBER)),
}


#: The date of a date and time: put where a date is wanted, and never written.
DATE_OF = "date of"


class Take(StrEnum):
    """What is taken of the values in all rows of a person; as a function its name ends with ``_per_person``."""

    COUNT = "count"
    SUM = "sum"
    ANY = "any"
    ALL = "all"
    MIN = "min"
    MAX = "max"
    MOST_FREQUENT = "most_frequent"
    FIRST = "first"
    LAST = "last"

    @property
    def is_in_time(self) -> bool:
        return self in (Take.FIRST, Take.LAST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Constant:
    """A value that is written: a number, a text, a truth, or a date as days from 1970-01-01."""

    type: Type
    value: float | str | bool
    depth: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """The value of a column of the table."""

    type: Type
    name: str
    depth: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """An operation.

    Attributes:
        name: a function, a comparison, ``and``, ``or``, ``not``, ``*``, ``/``, or ``+``: the sum of its arguments; or
            `DATE_OF`, which is never written: the date of a date and time.
        minus: of a sum which arguments are taken away; else empty.
    """

    type: Type
    name: str
    arguments: tuple[Node, ...]
    minus: tuple[bool, ...] = ()
    depth: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Recode:
    """A text looked up in a table; what is not in it is `otherwise`, or missing where there is none."""

    of: Node
    table: tuple[tuple[str, str], ...]
    otherwise: str | None
    type: Type = Type.TEXT
    depth: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PerPerson:
    """A value of each person, made from all of their rows. What is around it is worked out of each person's values.

    Rows whose value is missing, or whose date where one is asked for, take no part. Where none is left the person's
    value is missing; a count is 0.

    Attributes:
        type: of the value.
        take: what is taken.
        of: each row's value, which has no such function in it; None where all rows are counted.
        by: of the first and the last: the column of dates.
        lowest, highest: of a sum: the ends that each row's value is clamped to.
    """

    type: Type
    take: Take
    of: Node | None = None
    by: FileColumn | None = None
    lowest: Decimal = Decimal(0)
    highest: Decimal = Decimal(0)
    #: What is within is worked out of each row, in steps of its own.
    depth: int = 0


Node = Constant | Read | Call | Recode | PerPerson


def functions_in(node: Node) -> tuple[PerPerson, ...]:
    """The functions of all rows of a person, each once, in the order in which they are written."""
    if isinstance(node, PerPerson):
        return (node,)
    within = node.arguments if isinstance(node, Call) else (node.of,) if isinstance(node, Recode) else ()
    return tuple(dict.fromkeys(found for each in within for found in functions_in(each)))
