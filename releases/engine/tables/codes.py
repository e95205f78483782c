"""The rows of a table as bin numbers: written once to a file without a name, read as often as something is counted.

The file lies in the process's temporary folder. It is readable by its owner alone and has no name, so the system
removes it when it is closed or the process ends, however that comes about. Memory holds one block of rows.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import IO

_THREADS = max(1, min(8, os.cpu_count() or 1))


class CodedRows:
    """Bin numbers of all rows that count.

    Args:
        shape: bins of each column.
        blocks: of rows, each of shape (columns, rows). The number of a column's bins says that a row has none there,
            and counts in no marginal over that column.
        folder: where they are kept; None for the system's.
    """

    def __init__(self, shape: Sequence[int], blocks: Iterable[NDArray[np.int32]], *, folder: Path | None) -> None:
        self._columns = len(shape)
        self._type = np.min_scalar_type(max(shape))
        self._lengths: list[int] = []
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed with this object
        try:
            for block in blocks:
                self._file.write(block.astype(self._type).tobytes())
                self._lengths.append(block.shape[1])
            self._file.flush()
        except BaseException:
            self._file.close()
            raise

    def count_into(self, tables: Sequence[NDArray[np.int64]], axes: Sequence[tuple[int, ...]]) -> None:
        """Add the rows to marginals, given by their columns: all of them in one reading."""
        from releases.engine.tables.kernels import count_cells

        columns = [np.array(each, dtype=np.int64) for each in axes]
        sizes = [np.array(each.shape, dtype=np.int64) for each in tables]
        strides = [np.array([prod(each.shape[place + 1 :]) for place in range(each.ndim)]) for each in tables]
        cells = [each.reshape(-1) for each in tables]
        with ThreadPoolExecutor(_THREADS) as pool:
            for block in self._blocks():
                # No two threads add to the same marginal.
                deque(pool.map(partial(count_cells, block), columns, sizes, strides, cells), maxlen=0)

    def _blocks(self) -> Iterator[NDArray[np.int32]]:
        self._file.seek(0)
        for length in self._lengths:
            read = np.fromfile(self._file, dtype=self._type, count=self._columns * length)
            yield read.reshape(self._columns, length).astype(np.int32)
