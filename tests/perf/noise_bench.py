"""What the samplers cost, beside OpenDP's, measured in one process: run by `manage.py bench`, not by the tests."""

from __future__ import annotations

import time
import tracemalloc
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from releases.engine.noise import OperatingSystemRandomness, discrete_gaussian, discrete_laplace
from releases.engine.selection import exponential_mechanism, permute_and_flip, report_noisy_max

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = OperatingSystemRandomness()


def seconds(call: Callable[[], object], *, repeats: int) -> float:
    """The median time of a call, after one that is not counted where there are several."""
    if repeats > 1:
        call()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return median(taken)


def compare_with_opendp(*, draws: int = 1_000_000, candidates: int = 100_000) -> list[dict[str, Any]]:
    """Noise on `draws` counts of zero, and one selection among `candidates`, by both.

    Each row: name, ours and peer (seconds), ratio (peer / ours). OpenDP's time includes passing lists in and out:
    under a tenth of it for noise, most of it for the quickest selections.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T=int))
    zeros = [0] * draws
    rows = []
    for scale in (1, 10, 1000):
        peer = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=float(scale))
        rows.append(
            _row(
                f"{draws:,} discrete Laplace, scale {scale}",
                seconds(lambda s=scale: discrete_laplace(scale=Fraction(s), size=draws, rng=RNG), repeats=7),
                seconds(lambda p=peer: p(zeros), repeats=1),
            )
        )
    for sigma in (1, 10, 1000):
        peer = dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=float(sigma))
        rows.append(
            _row(
                f"{draws:,} discrete Gaussian, sigma {sigma}",
                seconds(
                    lambda s=sigma: discrete_gaussian(variance=Fraction(s) ** 2, size=draws, rng=RNG),
                    repeats=7,
                ),
                seconds(lambda p=peer: p(zeros), repeats=1),
            )
        )
    space = integers, dp.linf_distance(T=int)
    pure = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=20.0)
    concentrated = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=20.0)
    for shape, scores in profiles(candidates).items():
        as_list = scores.tolist()
        for ours, peer in ((permute_and_flip, pure), (exponential_mechanism, concentrated)):
            rows.append(
                _row(
                    f"{ours.__name__} of {candidates:,}, {shape}",
                    seconds(
                        lambda f=ours, s=scores: f(s, epsilon=Fraction(1, 10), sensitivity=Fraction(1), rng=RNG),
                        repeats=9,
                    ),
                    seconds(lambda p=peer, s=as_list: p(s), repeats=5),
                )
            )
    return rows


def profiles(candidates: int) -> dict[str, np.ndarray]:
    """Scores that differ in everything a selection's time might tell."""
    spike = np.zeros(candidates, dtype=np.int64)
    spike[candidates // 3] = 1000
    spread = np.random.default_rng(1).integers(0, 10**6, candidates)
    return {
        "all equal": np.zeros(candidates, dtype=np.int64),
        "one spike": spike,
        "spread out": spread,
        "sorted": np.sort(spread),
        "close together": spread % 100,
    }


def selection_times(*, candidates: int, repeats: int = 15) -> list[dict[str, Any]]:
    """Our selections on each profile, in seconds, and how much the slowest profile differs from the fastest.

    The profiles take turns in a random order, so that what else the machine does falls on all of them.
    """
    rows = []
    shapes = list(profiles(candidates).items())
    order = np.random.default_rng(2)
    for choose in (exponential_mechanism, permute_and_flip, report_noisy_max):
        taken: dict[str, list[float]] = {shape: [] for shape, _ in shapes}
        for _ in range(repeats):
            for shape, scores in (shapes[index] for index in order.permutation(len(shapes))):
                start = time.perf_counter()
                choose(scores, epsilon=Fraction(1, 10), sensitivity=Fraction(1), rng=RNG)
                taken[shape].append(time.perf_counter() - start)
        medians = {shape: median(times) for shape, times in taken.items()}
        spread = max(medians.values()) / min(medians.values())
        rows.append({"name": choose.__name__, "candidates": candidates, **medians, "slowest / fastest": spread})
    return rows


def ten_million_cells() -> dict[str, Any]:
    """Seconds for 10**7 cells of discrete Laplace noise, and the most memory used beside the 80 MB returned."""
    taken = seconds(lambda: discrete_laplace(scale=Fraction(10), size=10**7, rng=RNG), repeats=1)
    tracemalloc.start()
    cells = discrete_laplace(scale=Fraction(10), size=10**7, rng=RNG)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"seconds": taken, "bytes beside the result": peak - cells.nbytes}


def _row(name: str, ours: float, peer: float) -> dict[str, Any]:
    return {"name": name, "ours": ours, "peer": peer, "ratio": peer / ours}
