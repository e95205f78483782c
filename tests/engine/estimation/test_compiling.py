"""Loops are compiled before a release waits for them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from releases.engine.estimation import marginals, warmup

kernels = marginals.compiled_kernels()
pytestmark = pytest.mark.skipif(kernels is None, reason="numba is not installed, so there is nothing to compile")


def test_running_them_once_compiles_every_loop_that_a_release_goes_through():
    warmup.compile_loops()
    for loop in warmup.LOOPS:
        assert getattr(kernels, loop).signatures, loop
    assert warmup.are_compiled()


def test_a_loop_that_was_not_compiled_since_the_code_changed_is_noticed(tmp_path, monkeypatch):
    warmup.compile_loops()
    source = Path(kernels.__file__)
    kept = tmp_path / "__pycache__"
    shutil.copytree(source.parent / "__pycache__", kept, ignore=lambda _, names: [n for n in names if "nb" not in n])
    copied = Path(shutil.copy2(source, tmp_path))

    class Copied:
        __file__ = str(copied)

    monkeypatch.setattr(warmup, "compiled_kernels", lambda: Copied)
    assert warmup.are_compiled()
    os.utime(copied)
    assert not warmup.are_compiled()


def test_without_numba_there_is_nothing_to_compile(monkeypatch):
    monkeypatch.setattr(warmup, "compiled_kernels", lambda: None)
    assert warmup.are_compiled()
