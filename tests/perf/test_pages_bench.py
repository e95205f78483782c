"""The benchmark of the pages runs: a small one, for it is not the figures that are tested here."""

from __future__ import annotations

import subprocess
import sys

from tests.stack import ROOT


def test_every_page_that_is_measured_is_served_and_none_is_too_heavy():
    command = ["tests/perf/pages_bench.py", "--datasets", "20", "--releases", "5", "--rounds", "1"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("/")]
    assert len(lines) > 20
    for line in lines:
        is_board = line[0].startswith("/review/budgets/")
        assert float(line[-1]) < (500 if is_board else 150), line
