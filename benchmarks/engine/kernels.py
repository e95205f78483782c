"""One round of multiplicative weights over all three-way marginals, against one pass over the same cells."""

from __future__ import annotations

import gc
import itertools
import math
import resource
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import BenchRow, BenchTable, shown_seconds
from releases.engine.estimation.marginals import MarginalTree

#: A round is to take at most so many times a pass.
TARGET = 12.0
SHAPES = ((4,) * 10, (16, 7, 15, 5, 2, 2, 10, 3), (10,) * 7, (9, 16, 7, 6, 5, 2, 2, 10, 8), (10,) * 8)
#: Beyond so many cells the memory counts, not the passes.
_LARGE, _MAX_MEGABYTES = 50_000_000, 4096


def tables(shapes: Sequence[tuple[int, ...]] = SHAPES) -> Iterator[BenchTable]:
    yield BenchTable(
        title="Rounds of multiplicative weights",
        says="Pick the three-way marginal that is answered worst, scale the cells by it, answer all marginals again; "
        "against one pass `w *= f; w.sum()` of numpy over the same array. Targets: at most 12 "
        "passes; 100,000,000 cells within 4 GiB.",
        heads=("universe", "cells", "marginals", "one round", "one pass", "passes a round", "peak memory"),
        rows=[_measured(shape) for shape in shapes],
    )


def _measured(shape: tuple[int, ...]) -> BenchRow:
    sets = list(itertools.combinations(range(len(shape)), 3))
    tree = MarginalTree(shape, sets)
    weights = _uneven(math.prod(shape)).reshape(shape)
    flat = weights.reshape(-1)
    answers = tree.answer_vector(weights)
    truth = answers * (0.8 + 0.2 * _uneven(answers.size))

    def one_pass() -> None:
        np.multiply(flat, 0.9999999, out=flat)
        flat.sum()

    def one_round() -> None:
        nonlocal answers
        worst = int(np.add.reduceat(np.abs(answers - truth), tree.offsets[:-1]).argmax())
        old, new = tree.tables(answers)[worst], tree.tables(truth)[worst]
        answers = tree.scale_by_exp(weights, {worst: 0.01 * np.sign(new - old)}).answers

    one_round()  # compiles
    taken, base = _best(one_round), _best(one_pass)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    gc.collect()
    return BenchRow(
        cells=(
            " x ".join(map(str, shape)),
            f"{weights.size:,}",
            f"{len(sets)}",
            shown_seconds(taken),
            shown_seconds(base),
            f"{taken / base:.1f}",
            f"{peak:,.0f} MB",
        ),
        is_met=taken / base <= TARGET if weights.size <= _LARGE else peak <= _MAX_MEGABYTES,
    )


def _uneven(count: int) -> NDArray[np.float64]:
    """Numbers from 0.1 to 1.1 without a pattern that a kernel could profit from: multiples of the golden ratio."""
    numbers = np.arange(count, dtype=np.float64)
    numbers *= 0.6180339887498949
    np.mod(numbers, 1.0, out=numbers)
    numbers += 0.1
    return numbers


def _best(call: Callable[[], object], repeats: int = 5) -> float:
    """The least of several processor times: as fast as it can be, whatever else the machine does."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)
