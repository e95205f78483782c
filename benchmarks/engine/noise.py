"""What the samplers cost, beside OpenDP's in the same process."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import BenchRow, BenchTable, seconds, shown_seconds
from releases.engine.noise.discrete import discrete_gaussian, discrete_laplace
from releases.engine.noise.randomness import OperatingSystemRandomness, StreamRandomness, uniform_below
from releases.engine.noise.selection import exponential_mechanism, permute_and_flip, report_noisy_max

RNG = OperatingSystemRandomness()
DRAWS = 1_000_000
CANDIDATES = 100_000
#: How many times as fast as OpenDP, by the law and its scale.
TARGETS = {("Laplace", 10): 40, ("Gaussian", 10): 100}


def tables() -> Iterator[BenchTable]:
    yield beside_opendp()
    yield selection_times()
    yield ten_million_cells()


def beside_opendp() -> BenchTable:
    """Noise on a million counts of zero, by both."""
    rows = []
    for law, ours_of, theirs_of in (
        ("Laplace", _our_laplace, _their_laplace),
        ("Gaussian", _our_gaussian, _their_gaussian),
    ):
        for scale in (1, 10, 1000):
            ours = seconds(partial(ours_of, scale), repeats=5)
            rows.append(_row(law, scale, ours, _theirs(theirs_of, scale)))
    peer = "" if find_spec("opendp") else " OpenDP is not installed, so nothing is compared."
    return BenchTable(
        title="Noise",
        says=f"{DRAWS:,} draws. OpenDP's time includes passing lists in and out, under a tenth of it. Targets: 40 "
        f"times as fast for Laplace noise of scale 10, 100 times for Gaussian noise of sigma 10.{peer}",
        heads=("law and scale", "ours", "opendp", "times as fast", "target"),
        rows=rows,
    )


def _row(law: str, scale: int, ours: float, theirs: float | None) -> BenchRow:
    target = TARGETS.get((law, scale))
    ratio = None if theirs is None else theirs / ours
    return BenchRow(
        cells=(
            f"discrete {law}, {scale}",
            shown_seconds(ours),
            "" if theirs is None else shown_seconds(theirs),
            "" if ratio is None else f"{ratio:,.0f}",
            "" if target is None else f"{target}",
        ),
        is_met=None if target is None or ratio is None else ratio >= target,
    )


def _our_laplace(scale: int) -> object:
    return discrete_laplace(scale=Fraction(scale), size=DRAWS, rng=RNG)


def _our_gaussian(sigma: int) -> object:
    return discrete_gaussian(variance=Fraction(sigma) ** 2, size=DRAWS, rng=RNG)


def _theirs(make: Callable[[int], Any], scale: int) -> float | None:
    if find_spec("opendp") is None:
        return None
    peer, zeros = make(scale), [0] * DRAWS
    return seconds(lambda: peer(zeros), repeats=1)


def _their_laplace(scale: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T=int))
    return dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=float(scale))


def _their_gaussian(sigma: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T=int))
    return dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=float(sigma))


def profiles(candidates: int) -> dict[str, NDArray[np.int64]]:
    """Scores that differ in everything a selection's time might tell."""
    spike = np.zeros(candidates, dtype=np.int64)
    spike[candidates // 3] = 1000
    spread = uniform_below(10**6, candidates, StreamRandomness(b"profiles"))
    return {
        "all equal": np.zeros(candidates, dtype=np.int64),
        "one spike": spike,
        "spread out": spread,
        "sorted": np.sort(spread),
        "close together": spread % 100,
    }


def selection_times(*, candidates: int = CANDIDATES, repeats: int = 9) -> BenchTable:
    """Our selections on each profile; they take turns in a shuffled order, so that other load falls on all of them."""
    shapes = list(profiles(candidates).items())
    turns = StreamRandomness(b"turns")
    rows = []
    for choose in (exponential_mechanism, permute_and_flip, report_noisy_max):
        taken: dict[str, list[float]] = {shape: [] for shape, _ in shapes}
        for _ in range(repeats):
            for index in np.argsort(turns.words(len(shapes))).tolist():
                shape, scores = shapes[index]
                start = time.process_time()
                choose(scores, epsilon=Fraction(1, 10), sensitivity=Fraction(1), rng=RNG)
                taken[shape].append(time.process_time() - start)
        medians = [median(times) for times in taken.values()]
        times = tuple(shown_seconds(each) for each in medians)
        rows.append(BenchRow(cells=(choose.__name__, *times, f"{max(medians) / min(medians):.2f}")))
    return BenchTable(
        title="Choices",
        says=f"One choice among {candidates:,}, by what the scores look like. A time that tells the scores is a leak; "
        "in the libraries we know it varies a hundredfold.",
        heads=("mechanism", *(shape for shape, _ in shapes), "slowest / fastest"),
        rows=rows,
    )


def ten_million_cells() -> BenchTable:
    """Time and memory of noise on 10**7 cells."""
    taken = seconds(lambda: discrete_laplace(scale=Fraction(10), size=10**7, rng=RNG), repeats=1)
    tracemalloc.start()
    cells = discrete_laplace(scale=Fraction(10), size=10**7, rng=RNG)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    beside = (peak - cells.nbytes) / 1e6
    return BenchTable(
        title="Noise on 10,000,000 cells",
        says="Memory is what is used at the peak beside the 80 MB returned.",
        heads=("law and scale", "time", "memory beside"),
        rows=[BenchRow(cells=("discrete Laplace, 10", shown_seconds(taken), f"{beside:.1f} MB"), is_met=beside < 10)],
    )
