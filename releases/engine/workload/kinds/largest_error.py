"""The largest error of counts that were published, as a question of its own: what a certificate is about.

What is certified is public: the workload of a release, and the numbers that the release gives for it, either written
out or named by the SHA-256 of the file that holds them. Only how far they are from the truth is asked of the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.queries import Workload
from releases.engine.workload.statistic import Part, Statistic, register

SYNTHETIC_ROWS, RELEASED_ANSWERS = "synthetic rows", "released answers"
WHAT = (SYNTHETIC_ROWS, RELEASED_ANSWERS)
#: Released answers have two decimals, so errors are compared in hundredths of a row, which are whole.
HUNDREDTHS = 100
#: In hundredths, with a count beside it, this still fits 64 bits.
MAX_ROWS = 10**15

#: Numbers for each family of a workload, flat, in hundredths of a row.
Hundredths = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, kw_only=True)
class Released:
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
        released: what is certified; of several the worst counts.
    """

    kind: ClassVar[str] = "largest_error"
    place: ClassVar[int] = 12
    is_offered: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = False  # it counts as the release did that it is about
    takes_own_rows: ClassVar[bool] = True
    workload: Workload
    released: tuple[Released, ...]

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> LargestError:
        if not isinstance(value, dict) or set(value) != {"workload", "released"}:
            raise InvalidInput("largest_error", value, "must be an object with released, workload")
        workload = Workload.from_json(value["workload"], universe)
        released = value["released"]
        if not isinstance(released, dict) or not released or not set(released) <= set(WHAT):
            raise InvalidInput(
                "largest_error.released", released, f"must be an object with {' or '.join(WHAT)}, or both"
            )
        used = {name for family in workload.families for name in family.attributes}
        return cls(
            attributes=tuple(sorted(used, key=universe.axis)),
            workload=workload,
            released=tuple(_released(what, released[what], workload) for what in WHAT if what in released),
        )

    @property
    def in_words(self) -> str:
        """What is certified, over how many counts."""
        what = " and of ".join(f"the {each.what}" for each in self.released)
        size = self.workload.size
        return f"the largest error of {what} over {'its one count' if size == 1 else f'all {size:,} counts'}"

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return (Part(name=self.in_words.removeprefix("the "), rows=("largest error",)),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        released = {each.what: each.to_json() for each in self.released}
        return {self.kind: {"workload": self.workload.to_json(), "released": released}}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return self.workload.tells_rows_apart

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


def _released(what: str, value: object, workload: Workload) -> Released:
    field = f"largest_error.released.{what}"
    if isinstance(value, dict) and set(value) == {"sha256"}:
        if not re.fullmatch(r"[0-9a-f]{64}", str(value["sha256"])):
            raise InvalidInput(f"{field}.sha256", value["sha256"], "must be a SHA-256 of 64 hexadecimal digits")
        return Released(what=what, sha256=value["sha256"])
    if not isinstance(value, dict) or set(value) != {"numbers"}:
        raise InvalidInput(field, value, "must be an object with sha256 or with numbers")
    sizes = [family.cells(workload.universe) for family in workload.families]
    numbers = value["numbers"]
    if not isinstance(numbers, list) or [len(each) if isinstance(each, list) else -1 for each in numbers] != sizes:
        raise InvalidInput(f"{field}.numbers", numbers, "must have a list for every query, a number for every count")
    for each in (each for family in numbers for each in family):
        if isinstance(each, bool) or not isinstance(each, int) or abs(each) > MAX_ROWS:
            raise InvalidInput(f"{field}.numbers", each, f"must be a whole number up to {MAX_ROWS:,}")
    return Released(what=what, numbers=tuple(tuple(family) for family in numbers))
