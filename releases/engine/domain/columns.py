"""Columns of a table as they are read: what their values mean, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from releases.engine.domain.dates import DATE_FORMATS, check_zone_of_dates
from releases.engine.errors import InvalidInput

MAX_MISSING_CODES = 30


class AttributeKind(StrEnum):
    """What values of a column mean. CATEGORICAL: exact text. INTEGER and NUMBER: bins between edges. DATE and DATETIME:
    bins of days, of dates that are written without and with a time of day."""

    CATEGORICAL = "categorical"
    INTEGER = "integer"
    NUMBER = "number"
    DATE = "date"
    DATETIME = "datetime"

    @property
    def is_of_dates(self) -> bool:
        return self in (AttributeKind.DATE, AttributeKind.DATETIME)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileColumn:
    """A column of the table, and all that has to be declared to read its values: not which of them count.

    Attributes:
        name: as the table has it.
        kind: categorical (text), or the grammar that text has to follow.
        missing: texts that mean that a value is missing.
        written: of dates, one of `DATE_FORMATS`; else empty.
        zone: by whose clocks times with an offset are read; empty where they are read as they are written.
    """

    name: str
    kind: AttributeKind = AttributeKind.CATEGORICAL
    missing: tuple[str, ...] = ()
    written: str = ""
    zone: str = ""

    def __post_init__(self) -> None:
        if not is_plain(self.name):
            raise InvalidInput("name", self.name, "must be printable text without spaces around it")
        check_missing_codes(self.missing)
        if self.kind.is_of_dates != (self.written in DATE_FORMATS):
            raise InvalidInput("format", self.written, f"must be one of {', '.join(DATE_FORMATS)}, of dates alone")
        check_zone_of_dates(self.zone, written=self.written, has_time=self.has_time)

    @property
    def is_numeric(self) -> bool:
        return self.kind in (AttributeKind.INTEGER, AttributeKind.NUMBER)

    @property
    def has_time(self) -> bool:
        return self.kind is AttributeKind.DATETIME

    def to_json(self) -> dict[str, Any]:
        described: dict[str, Any] = {"name": self.name, "type": self.kind.value}
        if self.written:
            described["format"] = self.written
        if self.zone:
            described["zone"] = self.zone
        if self.missing:
            described["missing"] = list(self.missing)
        return described

    @staticmethod
    def from_json(value: object) -> FileColumn:
        """Read what `to_json` writes.

        Raises:
            InvalidInput: naming the field, the value and the rule.
        """
        if not isinstance(value, dict) or set(value) - {"name", "type", "format", "zone", "missing"}:
            raise InvalidInput("reads", value, "must be objects with name, type, and perhaps format, zone and missing")
        name, kind, missing = value.get("name"), value.get("type", "categorical"), value.get("missing", [])
        if not isinstance(name, str):
            raise InvalidInput("reads", name, "must have a name that is text")
        if kind not in list(AttributeKind):
            raise InvalidInput("reads", kind, f"must be of a type: {', '.join(AttributeKind)}")
        if not isinstance(missing, list) or not all(isinstance(each, str) for each in missing):
            raise InvalidInput("reads", missing, "must have a list of missing codes, each text")
        written = value.get("format", DATE_FORMATS[0] if AttributeKind(kind).is_of_dates else "")
        if not isinstance(written, str):
            raise InvalidInput("reads", written, "must have a format of dates that is text")
        return FileColumn(
            name=name, kind=AttributeKind(kind), missing=tuple(missing), written=written, zone=value.get("zone", "")
        )


def check_missing_codes(missing: tuple[str, ...]) -> None:
    """Raises:
    InvalidInput: there are too many, or one of them is none that a declaration can hold.
    """
    if len(missing) > MAX_MISSING_CODES:
        raise InvalidInput("missing", len(missing), f"must be at most {MAX_MISSING_CODES} codes")
    for position, code in enumerate(missing):
        if not is_plain(code):
            raise InvalidInput("missing", code, "must be printable text without spaces around it")
        if any(mark in code for mark in ",;|"):
            raise InvalidInput("missing", code, "must be one code, without a comma, semicolon or bar")
        if code in missing[:position]:
            raise InvalidInput("missing", code, "is named twice")


def is_plain(text: str) -> bool:
    return bool(text) and text == text.strip() and text.isprintable()
