"""A table of measurements: as text for a terminal, and as Markdown for a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """One measurement.

    Attributes:
        cells: what the heads say.
        is_met: whether its target is; None where it has none.
    """

    cells: tuple[str, ...]
    is_met: bool | None = None


@dataclass(frozen=True, kw_only=True)
class BenchTable:
    """Measurements of one kind.

    Attributes:
        title: of the table.
        says: what was measured, and what the targets are.
        heads: of the columns; all but the first are numbers and aligned to the right.
        rows: in order.
    """

    title: str
    says: str
    heads: tuple[str, ...]
    rows: Sequence[BenchRow]

    @property
    def is_met(self) -> bool:
        """Whether no target is missed."""
        return all(row.is_met is not False for row in self.rows)

    def text(self) -> str:
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = [
            "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(cells))
            for cells in (zip(line, widths, strict=True) for line in lines)
        ]
        return "\n".join([self.title, self.says, *(line.rstrip() for line in shown)])

    def markdown(self) -> str:
        head, *rows = (f"| {' | '.join(line)} |" for line in self._lines())
        rule = "|---" + "|--:" * len(self.heads) + "|"
        return "\n".join([f"## {self.title}", "", self.says, "", head, rule, *rows])

    def _lines(self) -> list[tuple[str, ...]]:
        verdicts = {None: "", True: "yes", False: "NO"}
        return [(*self.heads, "met"), *((*row.cells, verdicts[row.is_met]) for row in self.rows)]


def not_there(title: str, name: str) -> BenchTable:
    """In the place of measurements of a mechanism that this installation does not have."""
    return BenchTable(title=title, says=f"`{name}` is not there.", heads=("mechanism",), rows=[])


def seconds(call: Callable[[], object], *, repeats: int) -> float:
    """The median processor time of a call, after one that is not counted where there are several.

    What else the machine does takes none of it, so two times can be compared though one was measured under load.
    """
    if repeats > 1:
        call()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return median(taken)


def shown_seconds(value: float) -> str:
    return f"{value * 1e3:,.1f} ms" if value < 1 else f"{value:,.1f} s"
