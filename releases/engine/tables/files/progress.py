"""How far the reading of a file is: by its bytes where we read them, by the time that a step was measured to take where
DuckDB does, and by nothing else: not by its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import exp
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

_Found = TypeVar("_Found")

#: Called with the name of a step and the share done of the whole; may raise `Cancelled`.
Progress = Callable[[str, float], None]

CHECK, READ, STORE, FINGERPRINT = (
    "Checking the text",
    "Reading the table",
    "Storing it",
    "Taking its fingerprint",
)
#: Seconds per byte of each step, measured with tables of ten columns on two cores of a small server. Text is stored as
#: it is read.
CSV_SECONDS = {CHECK: 0.03e-8, READ: 2.3e-8, FINGERPRINT: 0.7e-8}
PARQUET_SECONDS = {READ: 1.5e-8, STORE: 14e-8, FINGERPRINT: 4e-8}
#: Between two reports of one statement of the database.
_TICK_SECONDS = 0.5
#: From this share of a step on, a statement that takes longer than foretold only comes nearer to its end.
_SURE_BY_TIME = 0.85


def seconds_foretold(size: int, *, is_parquet: bool = False) -> float:
    """How long a file of so many bytes takes, by what was measured."""
    return size * sum((PARQUET_SECONDS if is_parquet else CSV_SECONDS).values())


def _share_after(times_foretold: float) -> float:
    """How much of a step is said to be done after so many times the seconds it was foretold to take."""
    if times_foretold < _SURE_BY_TIME:
        return times_foretold
    return 1 - (1 - _SURE_BY_TIME) * exp(_SURE_BY_TIME - times_foretold)


class FileProgress:
    """Tells how far it is: by bytes where we read them, by the time a step was measured to take where DuckDB does."""

    def __init__(self, progress: Progress | None, *, size: int, seconds: Mapping[str, float]) -> None:
        self.progress = progress
        self.size = size
        self.seconds = seconds
        self.whole = sum(seconds.values())
        self.begun = monotonic()

    def within(self, step: str, share: float) -> None:
        """So much of a step is done."""
        if self.progress is not None:
            self.progress(step, (self._before(step) + share * self.seconds[step]) / self.whole)

    def _before(self, step: str) -> float:
        names = list(self.seconds)
        return sum(self.seconds[name] for name in names[: names.index(step)])

    def _foretold(self, step: str) -> float:
        """How long a step will take: longer on a machine that was slow, or busy, in those before."""
        slower = (monotonic() - self.begun) / max(self.size * self._before(step), _TICK_SECONDS)
        return max(self.size * self.seconds[step] * max(slower, 1.0), _TICK_SECONDS)

    def run(self, step: str, connection: duckdb.DuckDBPyConnection, statement: Callable[[], _Found]) -> _Found:
        """Run a statement of the connection. It is stopped where the report raises."""
        self.within(step, 0.0)
        if self.progress is None:
            return statement()
        begun, foretold = monotonic(), self._foretold(step)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(statement)
            try:
                while True:
                    try:
                        return running.result(timeout=_TICK_SECONDS)
                    except TimeoutError:
                        self.within(step, _share_after((monotonic() - begun) / foretold))
            except BaseException:
                connection.interrupt()
                raise
