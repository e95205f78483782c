"""The largest error of counts that were published, as a question of its own: what a certificate is about.

What is certified is public: the workload of a release, and the numbers that the release gives for it, either written
out or named by the SHA-256 of the file that holds them. Only how far they are from the truth is asked of the table.

Beside the largest error the mean error of many tables can be asked for: of those of the workload, and, of synthetic
rows, of all pairs and of all triples of their columns. No table of such a set is left out; a set that is too large is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.tables.counts import MAX_DENSE_CELLS
from releases.engine.workload.queries import Marginal, Workload
from releases.engine.workload.statistic import Part, Statistic, columns_named, register

SYNTHETIC_ROWS, RELEASED_ANSWERS = "synthetic rows", "released answers"
WHAT = (SYNTHETIC_ROWS, RELEASED_ANSWERS)
#: Released answers have two decimals, so errors are compared in hundredths of a row, which are whole.
HUNDREDTHS = 100
#: In hundredths, with a count beside it, this still fits 64 bits.
MAX_ROWS = 10**15

#: Sets of tables whose mean error can be asked for: those of the workload, and all pairs and triples of columns.
ASKED, PAIRS, TRIPLES = "asked", "pairs", "triples"
MEANS = (ASKED, PAIRS, TRIPLES)
_ORDERS = {PAIRS: 2, TRIPLES: 3}
#: A mean is over so many tables at most, of so many cells together: minutes, for a million rows.
MAX_TABLES, MAX_TABLE_CELLS = 10_000, 2 * 10**8

Names = tuple[str, ...]
#: Numbers for each family of a workload, flat, in hundredths of a row.
Hundredths = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, kw_only=True)
class ReleasedPart:
    """What one part of a release says of the workload.

    Attributes:
        what: the synthetic rows or the released answers.
        sha256: of the published file that holds it, in hexadecimal; empty where the numbers stand here.
        numbers: for each family the whole numbers; none where a file holds them.
    """

    what: str
    sha256: str = ""
    numbers: tuple[tuple[int, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"sha256": self.sha256} if self.sha256 else {"numbers": [list(each) for each in self.numbers]}


@register
@dataclass(frozen=True, kw_only=True)
class LargestError(Statistic):
    """max |r_q - a_q| over all queries q of a workload and all that is certified; a the exact answers, r public.

    Attributes:
        workload: what was asked of the release.
        released: what is certified; of several the worst counts, and the worst table each time.
        means: sets of tables whose mean error is asked for too, in the order of `MEANS`.
        row_columns: the columns whose pairs and triples are meant, in universe order; none where neither is.
    """

    kind: ClassVar[str] = "largest_error"
    place: ClassVar[int] = 12
    is_offered: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = False  # it counts as the release did that it is about
    takes_own_rows: ClassVar[bool] = True
    workload: Workload
    released: tuple[ReleasedPart, ...]
    means: tuple[str, ...] = ()
    row_columns: Names = ()

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> LargestError:
        asked = {"workload", "released"}
        if not isinstance(value, dict) or not asked <= set(value) <= asked | {"means", "columns"}:
            raise InvalidInput("largest_error", value, "must be an object with released, workload")
        workload = Workload.from_json(value["workload"], universe)
        released = value["released"]
        if not isinstance(released, dict) or not released or not set(released) <= set(WHAT):
            raise InvalidInput(
                "largest_error.released", released, f"must be an object with {' or '.join(WHAT)}, or both"
            )
        means, columns = _means(value, universe)
        used = {name for family in workload.families for name in family.attributes} | set(columns)
        found = cls(
            attributes=tuple(sorted(used, key=universe.axis)),
            workload=workload,
            released=tuple(_released(what, released[what], workload) for what in WHAT if what in released),
            means=means,
            row_columns=columns,
        )
        found._check_means()
        return found

    @property
    def in_words(self) -> str:
        """What is certified, over how many counts."""
        what = " and of ".join(f"the {each.what}" for each in self.released)
        size = self.workload.size
        return f"the largest error of {what} over {'its one count' if size == 1 else f'all {size:,} counts'}"

    def mean_in_words(self, word: str) -> str:
        """What a mean is of, over how many tables."""
        what = " and of ".join(f"the {each.what}" for each in self.released)
        if word != ASKED:
            what = f"the {SYNTHETIC_ROWS}"
        number = len(self.tables(word))
        tables = {ASKED: "tables asked about", PAIRS: "pairs of columns", TRIPLES: "sets of three columns"}[word]
        if number == 1:
            tables = {ASKED: "table asked about", PAIRS: "pair of columns", TRIPLES: "set of three columns"}[word]
        return f"the mean error of {what} over {'the one' if number == 1 else f'all {number:,}'} {tables}"

    def tables(self, word: str) -> tuple[Names, ...]:
        """The columns of each table that a mean is over."""
        if word == ASKED:
            return tuple(self.asked_tables)
        return tuple(combinations(self.row_columns, _ORDERS[word]))

    @cached_property
    def asked_tables(self) -> Mapping[Names, int]:
        """The tables among the families of the workload, with their place; running totals and counts are none."""
        places = enumerate(self.workload.families)
        return {each.attributes: place for place, each in places if isinstance(each, Marginal)}

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        means = (Part(name=self.mean_in_words(each).removeprefix("the "), rows=("mean error",)) for each in self.means)
        return (Part(name=self.in_words.removeprefix("the "), rows=("largest error",)), *means)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        released = {each.what: each.to_json() for each in self.released}
        asked: dict[str, Any] = {"workload": self.workload.to_json(), "released": released}
        if self.means:
            asked["means"] = list(self.means)
        if self.row_columns:
            asked["columns"] = list(self.row_columns)
        return {self.kind: asked}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return self.workload.tells_rows_apart or bool(self.row_columns)

    def _check_means(self) -> None:
        if self.row_columns and SYNTHETIC_ROWS not in {each.what for each in self.released}:
            raise InvalidInput("largest_error.means", ", ".join(self.means), "must be asked of synthetic rows")
        if self.row_columns and any(not each.sha256 for each in self.released):
            raise InvalidInput("largest_error.means", ", ".join(self.means), "must be asked of a file of rows")
        for word in self.means:
            if word == ASKED and not self.asked_tables:
                raise InvalidInput("largest_error.means", word, "must have a table among the questions")
            if why := too_many_tables(self.workload.universe, self.row_columns, word):
                raise InvalidInput("largest_error.means", word, why)

    def written_out(self) -> Mapping[str, Hundredths]:
        """The numbers that stand in the question itself."""
        return {
            each.what: tuple(np.array(family, dtype=np.int64) * HUNDREDTHS for family in each.numbers)
            for each in self.released
            if each.numbers
        }

    def in_hundredths(self, numbers: Sequence[NDArray[np.float64]], *, what: str) -> Hundredths:
        """Numbers of rows with at most two decimals, one array a family, in hundredths.

        Raises:
            InvalidInput: they are not those of the workload.
        """
        sizes = [family.cells(self.workload.universe) for family in self.workload.families]
        if [each.shape for each in numbers] != [(size,) for size in sizes]:
            raise InvalidInput(what, f"{len(numbers)} families of numbers", "must have a number for every count asked")
        if not all(np.isfinite(each).all() and np.abs(each).max(initial=0) <= MAX_ROWS for each in numbers):
            raise InvalidInput(what, "a number", f"must be from -{MAX_ROWS:,} to {MAX_ROWS:,}")
        return tuple(np.rint(each * HUNDREDTHS).astype(np.int64) for each in numbers)


def too_many_tables(universe: Universe, columns: Names, word: str) -> str:
    """Why the mean over all pairs or all triples of these columns cannot be asked for, as a rule that it breaks; empty
    where it can. Of public declarations alone."""
    if word not in _ORDERS:
        return ""
    order = _ORDERS[word]
    number = comb(len(columns), order)
    if not number:
        return f"needs {order} columns, and there {'is' if len(columns) == 1 else 'are'} {len(columns)}"
    if number > MAX_TABLES:
        return f"must be at most {MAX_TABLES:,} tables; these {len(columns):,} columns have {number:,}"
    sizes = sorted(universe[name].size for name in columns)
    largest = 1
    for size in sizes[-order:]:
        largest *= size
    if largest > MAX_DENSE_CELLS // 10:
        return f"must be of tables of at most {MAX_DENSE_CELLS // 10:,} cells; the largest has {largest:,}"
    if (cells := _elementary(sizes, order)) > MAX_TABLE_CELLS:
        return f"must be of tables of at most {MAX_TABLE_CELLS:,} cells together; these have {cells:,}"
    return ""


def _elementary(sizes: Sequence[int], order: int) -> int:
    """The sum, over all sets of so many of the numbers, of their product."""
    sums = [1] + [0] * order
    for size in sizes:
        for place in range(order, 0, -1):
            sums[place] += sums[place - 1] * size
    return sums[order]


def _means(value: Mapping[str, Any], universe: Universe) -> tuple[tuple[str, ...], Names]:
    """What follows ``means`` and ``columns``."""
    given = value.get("means", [])
    if not isinstance(given, list) or [each for each in MEANS if each in given] != given:
        raise InvalidInput("largest_error.means", given, f"must be a list of {', '.join(MEANS)}, in this order")
    if not set(given) & set(_ORDERS):
        if "columns" in value:
            raise InvalidInput("largest_error.columns", value["columns"], "are of pairs and triples alone")
        return tuple(given), ()
    columns = columns_named(value.get("columns"), universe, field="largest_error.columns")
    return tuple(given), tuple(sorted(columns, key=universe.axis))


def _released(what: str, value: object, workload: Workload) -> ReleasedPart:
    field = f"largest_error.released.{what}"
    if isinstance(value, dict) and set(value) == {"sha256"}:
        if not re.fullmatch(r"[0-9a-f]{64}", str(value["sha256"])):
            raise InvalidInput(f"{field}.sha256", value["sha256"], "must be a SHA-256 of 64 hexadecimal digits")
        return ReleasedPart(what=what, sha256=value["sha256"])
    if not isinstance(value, dict) or set(value) != {"numbers"}:
        raise InvalidInput(field, value, "must be an object with sha256 or with numbers")
    sizes = [family.cells(workload.universe) for family in workload.families]
    numbers = value["numbers"]
    if not isinstance(numbers, list) or [len(each) if isinstance(each, list) else -1 for each in numbers] != sizes:
        raise InvalidInput(f"{field}.numbers", numbers, "must have a list for every query, a number for every count")
    for each in (each for family in numbers for each in family):
        if isinstance(each, bool) or not isinstance(each, int) or abs(each) > MAX_ROWS:
            raise InvalidInput(f"{field}.numbers", each, f"must be a whole number up to {MAX_ROWS:,}")
    return ReleasedPart(what=what, numbers=tuple(tuple(family) for family in numbers))
