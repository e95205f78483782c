"""What the fit reaches on seven attributes of Adult, and what a round over all marginals costs: for `manage.py bench`.

Noise here comes from numpy, seeded: these are measurements of accuracy and time, not releases.
"""

from __future__ import annotations

import csv
import gc
import itertools
import json
import math
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from releases.engine.fit import Measurement, fit_marginals
from releases.engine.marginal_design import gaussian_design, gaussian_error, laplace_design, laplace_error
from releases.engine.marginals import MarginalTree
from releases.engine.randomness import StreamRandomness
from releases.engine.rounding import controlled_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

DATA = Path("/work/shared/data")

#: (name, epsilon, delta, to reach): the issue's targets; with delta 0, that of `pmw`.
TARGETS = (
    ("0.1", 0.1, 1e-9, 0.096),
    ("1", 1.0, 1e-9, 0.0225),
    ("10", 10.0, 1e-9, 0.0060),
    ("1, pure", 1.0, 0.0, 0.034),
)


def adult_reduced(directory: Path = DATA) -> NDArray[np.int64]:
    """The histogram of adult_reduced.csv, axes in the order of its domain file."""
    domain = json.loads((directory / "adult_reduced_domain.json").read_text())
    with (directory / "adult_reduced.csv").open() as file:
        head, *rows = csv.reader(file)
    columns = np.array(rows, dtype=np.int64).T[[head.index(name) for name in domain]]
    shape = tuple(domain.values())
    return np.bincount(np.ravel_multi_index(tuple(columns), shape), minlength=math.prod(shape)).reshape(shape)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho with epsilon(rho, delta) <= epsilon: Canonne, Kamath and Steinke 2020, Corollary 13."""

    def spent(rho: float) -> float:
        alphas = 1 + np.exp(np.linspace(-6, 14, 20_001))
        return float(np.min(alphas * rho + np.log1p(-1 / alphas) - np.log(alphas * delta) / (alphas - 1)))

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if spent(middle) > epsilon else (middle, high)
    return low


def triples(histogram: NDArray[Any]) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(histogram.ndim), 3))


def marginal_error(table: NDArray[Any], histogram: NDArray[Any]) -> float:
    """Mean over all three-way marginals of the total-variation distance, each marginal normalised."""
    tree = MarginalTree(histogram.shape, triples(histogram))
    mine, true = tree.answer_vector(table.astype(np.float64)), tree.answer_vector(histogram.astype(np.float64))
    return float(np.abs(mine / table.sum() - true / histogram.sum()).sum() / 2 / len(tree.sets))


def measure(histogram: NDArray[Any], *, epsilon: float, delta: float, seed: int) -> tuple[list[Measurement], str]:
    """The recipe: with delta, the noise of the smaller predicted error; without, Laplace noise. All data-free."""
    shape, wanted = histogram.shape, triples(histogram)
    rng = np.random.default_rng(seed)
    rho = zcdp_rho(epsilon, delta) if delta else 0.0
    laplace, gaussian = laplace_design(shape, wanted), gaussian_design(shape, wanted)
    use_laplace = not rho or laplace_error(shape, wanted, laplace) / epsilon < gaussian_error(
        shape, wanted, gaussian
    ) / math.sqrt(rho)
    taken = []
    for one in laplace if use_laplace else gaussian:
        exact = histogram.sum(axis=tuple(a for a in range(histogram.ndim) if a not in one.axes))
        if use_laplace:
            scale = 1 / (epsilon * one.share)
            noise, variance = rng.laplace(scale=scale, size=exact.shape), 2 * scale**2
        else:
            variance = 1 / (2 * rho * one.share)
            noise = rng.normal(scale=math.sqrt(variance), size=exact.shape)
        taken.append(Measurement(axes=one.axes, table=exact + noise, variance=variance))
    return taken, "Laplace" if use_laplace else "Gaussian"


def synthetic_error(histogram: NDArray[Any], *, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    """One run: measure, fit, and as many rows as the table has. Seconds are of all three."""
    start = time.perf_counter()
    tables, noise = measure(histogram, epsilon=epsilon, delta=delta, seed=seed)
    fitted = fit_marginals(histogram.shape, tables)
    fit_seconds = time.perf_counter() - start
    rows = controlled_counts(fitted.weights, int(histogram.sum()), StreamRandomness(seed.to_bytes(8, "little")))
    return {
        "seconds": time.perf_counter() - start,
        "fit_seconds": fit_seconds,
        "fit_error": marginal_error(fitted.weights, histogram),
        "rows_error": marginal_error(rows, histogram),
        "passes": fitted.passes,
        "tables": len(tables),
        "noise": noise,
    }


def marginal_fit_table(seeds: Sequence[int] = range(5)) -> list[dict[str, Any]]:
    """Accuracy and time on adult_reduced at each target, over seeds.

    Each row: epsilon, delta, target, noise, tables measured; mean and worst error of the synthetic rows and the mean of
    the fit itself; rows_over_fit; mean and worst seconds (measure, fit and rows); peak megabytes of the process.
    """
    histogram = adult_reduced()
    synthetic_error(histogram, epsilon=1.0, delta=1e-9, seed=0)  # compiles
    table = []
    for name, epsilon, delta, target in TARGETS:
        runs = [synthetic_error(histogram, epsilon=epsilon, delta=delta, seed=seed) for seed in seeds]
        rows, fits = ([run[key] for run in runs] for key in ("rows_error", "fit_error"))
        table.append(
            {
                "epsilon": name,
                "delta": delta,
                "target": target,
                "noise": runs[0]["noise"],
                "tables": runs[0]["tables"],
                "rows_error": float(np.mean(rows)),
                "worst_rows_error": max(rows),
                "fit_error": float(np.mean(fits)),
                "rows_over_fit": float(np.mean(rows) / np.mean(fits)),
                "seconds": float(np.mean([run["seconds"] for run in runs])),
                "worst_seconds": max(run["seconds"] for run in runs),
                "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    return table


# --- kernels ------------------------------------------------------------------------------------------------------


def _best(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def pmw_round_table(
    shapes: Sequence[tuple[int, ...]] = (
        (4,) * 10,
        (16, 7, 15, 5, 2, 2, 10, 3),
        (10,) * 7,
        (9, 16, 7, 6, 5, 2, 2, 10, 8),
    ),
    *,
    repeats: int = 7,
) -> list[dict[str, Any]]:
    """One round of multiplicative weights (pick the worst three-way marginal, scale by it, answer all anew).

    Each row: shape, cells, marginals; seconds of a round and of one numpy pass `w *= f; w.sum()`; their ratio (to be
    at most 12); peak megabytes of the process.
    """
    table = []
    for shape in shapes:
        sets = list(itertools.combinations(range(len(shape)), 3))
        tree = MarginalTree(shape, sets)
        rng = np.random.default_rng(0)
        weights = rng.random(shape)
        weights += 0.1
        flat = weights.reshape(-1)
        answers = tree.answer_vector(weights)
        truth = answers * rng.uniform(0.9, 1.1, size=answers.size)

        def numpy_pass(flat: NDArray[np.float64] = flat) -> None:
            np.multiply(flat, 0.9999999, out=flat)
            flat.sum()

        def one_round(tree: Any = tree, weights: Any = weights, truth: Any = truth) -> None:
            nonlocal answers
            worst = int(np.add.reduceat(np.abs(answers - truth), tree.offsets[:-1]).argmax())
            old, new = tree.tables(answers)[worst], tree.tables(truth)[worst]
            answers = tree.scale_by_exp(weights, {worst: 0.01 * np.sign(new - old)}).answers

        one_round()
        seconds, base = _best(one_round, repeats), _best(numpy_pass, repeats)
        table.append(
            {
                "shape": shape,
                "cells": weights.size,
                "marginals": len(sets),
                "round_seconds": seconds,
                "pass_seconds": base,
                "ratio": seconds / base,
                "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
        del weights, flat
        gc.collect()
    return table
