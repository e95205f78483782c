"""What a release counts, as sentences and axes call it."""

from __future__ import annotations

from enum import Enum


class Counted(Enum):
    """Rows of the table; or persons, each by one value of every column; or rows in some tables and persons in
    others."""

    ROWS = "row"
    PERSONS = "person"
    BOTH = "row or person"

    @property
    def one(self) -> str:
        return self.value

    @property
    def many(self) -> str:
        return "rows or persons" if self is Counted.BOTH else f"{self.value}s"

    def text(self, number: int | str) -> str:
        """Such as ``1 row`` and ``1,200 persons``.

        Args:
            number: as it is written, where it is no whole number.
        """
        written = number if isinstance(number, str) else f"{number:,}"
        return f"{written} {self.one if written == '1' else self.many}"
