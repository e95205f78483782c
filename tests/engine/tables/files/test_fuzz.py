"""300 mutated files of each format: no crash, no hang, and a table or a refusal that quotes no row."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.engine.tables.files import formats, fuzz
from tests.stack import ROOT


@pytest.mark.parametrize("part", range(3))
def test_mutated_files_of_every_format_are_taken_or_refused(part):
    """In a process of its own, which a library may end."""
    names = list(formats.FORMATS)[part::3]
    command = [sys.executable, "-m", "tests.engine.tables.files.fuzz", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert set(found) == set(names)
    for name, each in found.items():
        assert each["taken"] + each["refused"] == fuzz.FILES, name
        assert each["refused"] > 0, name
        assert each["slowest"] < 2, name
        assert not each["quotes"], name
