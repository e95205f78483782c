"""Rows coded once: counts from bin numbers against those that a database groups, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from releases.engine.tables import query
from releases.engine.tables.codes import CodedRows


def test_rows_are_coded_once_and_read_a_block_at_a_time():
    shape, drawn = (300, 2, 70_000), np.random.default_rng(3)
    blocks = [np.stack([drawn.integers(0, bins, rows) for bins in shape]).astype(np.int32) for rows in (5000, 1, 0, 77)]
    rows = CodedRows(shape, iter(blocks), folder=None)
    every = np.concatenate(blocks, axis=1)
    for axes in [(0,), (2, 1), (1, 0)]:
        for _ in range(2):
            table = np.zeros([shape[axis] for axis in axes], dtype=np.int64)
            rows.count_into([table], [axes])
            expected = np.zeros_like(table)
            np.add.at(expected, tuple(every[axis] for axis in axes), 1)
            np.testing.assert_array_equal(table, expected)


def test_the_file_has_no_name_and_is_the_owners_alone(tmp_path):
    rows = CodedRows((2,), iter([np.ones((1, 9), dtype=np.int32)]), folder=tmp_path)
    assert os.fstat(rows._file.fileno()).st_mode & 0o777 == 0o600
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_after_a_failure(tmp_path, monkeypatch):
    made = []

    def kept(**given):
        made.append(ordinary(**given))
        return made[-1]

    ordinary = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", kept)

    def broken():
        yield np.ones((1, 9), dtype=np.int32)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        CodedRows((2,), broken(), folder=tmp_path)
    assert made[0].closed
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_after_a_kill(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; import numpy as np;"
        "from releases.engine.tables.codes import CodedRows;"
        "rows = CodedRows((2,), iter([np.ones((1, 9), dtype=np.int32)]), folder=Path(sys.argv[1]));"
        f"os.kill(os.getpid(), {int(signal.SIGKILL)})"
    )
    root = Path(query.__file__).parents[3]
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())
