"""Sorting and filtering the table of answers by the address alone, so that it works without JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from releases.presentation.results.rows import Answer
from releases.publication.shares import MOST_CELLS

#: Larger tables are shown as they were asked; nobody sorts what they cannot read, and all of it would be read to do so.
MAX_ARRANGED = MOST_CELLS
NUMBERS = ("estimate", "lower", "upper", "synthetic")
#: Falls and rises with the estimate, so nothing is sorted by it.
SHARE = "share"
#: Classes of numbers that phones show in the first cell.
_WIDE = "number not-on-phones"


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The heading of a column of the table.

    Attributes:
        href: the address that sorts by it; empty where nothing can be sorted.
        sorted: `ascending` or `descending` where the table is sorted by it, for `aria-sort`.
        css: classes of its cells.
    """

    title: str
    href: str
    sorted: str
    css: str = ""


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """How a person wants the answers: by which column, falling or rising, and only rows with some word.

    Attributes:
        question: the question shown, which every address keeps.
        column: `estimate`, `lower`, `upper`, `synthetic`, `label0`, `label1`, ...; empty for the order asked.
    """

    question: str
    column: str
    is_falling: bool
    only: str

    @staticmethod
    def read(question: str, sort: str, only: str, *, labels: int) -> Arrangement:
        """From the address; a column that is not there is no column."""
        column = sort.removeprefix("-")
        known = {*NUMBERS, *(f"label{position}" for position in range(labels))}
        return Arrangement(
            question=question,
            column=column if column in known else "",
            is_falling=sort.startswith("-") and column in known,
            only=only,
        )

    def __bool__(self) -> bool:
        return bool(self.column or self.only)

    def apply(self, rows: Sequence[Answer]) -> list[Answer]:
        """The wanted rows in the wanted order; equal ones stay as they were asked."""
        wanted = self.only.casefold()
        kept = [row for row in rows if any(wanted in label.casefold() for label in row.labels)]
        if self.column.startswith("label"):
            position = int(self.column.removeprefix("label"))
            # As declared: 5 comes before 10, and Monday before Tuesday.
            order = {label: at for at, label in reversed(list(enumerate(row.labels[position] for row in rows)))}
            return sorted(kept, key=lambda row: order[row.labels[position]], reverse=self.is_falling)
        if self.column and all(getattr(row, self.column) is not None for row in kept):
            return sorted(kept, key=lambda row: float(getattr(row, self.column)), reverse=self.is_falling)
        return kept

    def heads(
        self,
        attributes: Sequence[str],
        *,
        of_counts: bool,
        is_choice: bool,
        has_shares: bool,
        has_synthetic: bool,
        are_links: bool,
    ) -> tuple[Head, ...]:
        """The headings in order, as links where the table can be sorted. Numbers fall first, labels rise first."""
        named = [(f"label{position}", title, "") for position, title in enumerate(attributes)]
        if is_choice:
            named.append(("chosen", "Released answer", ""))
        else:
            named.append(("estimate", "Released count" if of_counts else "Released", "number"))
            named += [("lower", "At least", _WIDE), ("upper", "At most", _WIDE)]
        if has_shares:
            named.append((SHARE, "Share", _WIDE))
        if has_synthetic:
            named.append(("synthetic", "Synthetic", _WIDE))
        return tuple(self._head(column, title, css, is_link=are_links) for column, title, css in named)

    def _head(self, column: str, title: str, css: str, *, is_link: bool) -> Head:
        if not is_link or column == SHARE:
            return Head(title=title, href="", sorted="", css=css)
        is_here = column == self.column
        falls = not self.is_falling if is_here else column in NUMBERS
        said = ("descending" if self.is_falling else "ascending") if is_here else ""
        return Head(title=title, href=self._address(f"-{column}" if falls else column), sorted=said, css=css)

    def _address(self, sort: str) -> str:
        return f"?{urlencode(self._kept(sort))}#answers"

    def _kept(self, sort: str) -> dict[str, str]:
        kept = {"question": self.question, "sort": sort, "only": self.only}
        return {name: value for name, value in kept.items() if value}

    @property
    def sort(self) -> str:
        return f"-{self.column}" if self.is_falling else self.column

    def address_of(self, page: int) -> str:
        """Of another page of the same arrangement."""
        return f"?{urlencode(self._kept(self.sort) | {'page': str(page)})}#answers"
