"""What whole tables released by `marginal-fit` and `pmw` reach on seven attributes of Adult, and what a round costs.

For `manage.py bench`: the mechanisms as they are, with the operating system's noise.
"""

from __future__ import annotations

import csv
import gc
import itertools
import json
import math
import resource
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.histogram import Histogram
from releases.engine.marginals import MarginalTree
from releases.engine.mechanisms.base import mechanism
from releases.engine.privacy import privacy_budget
from releases.engine.randomness import OperatingSystemRandomness
from releases.engine.result import Distribution
from releases.engine.run import run_release
from releases.engine.synthetic import Records
from releases.engine.universe import Schema
from releases.engine.workload import Workload

#: Where the benchmark's tables lie beside a checkout.
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

#: The public guess of the number of rows that `pmw` chooses its number of rounds by.
ASSUMED_ROWS = 50_000

#: (mechanism, epsilon, delta, to reach): the mean total-variation distance over all three-way marginals.
TARGETS = (
    ("marginal-fit", "0.1", "1e-9", 0.096),
    ("marginal-fit", "1", "1e-9", 0.0225),
    ("marginal-fit", "10", "1e-9", 0.0060),
    ("pmw", "1", "0", 0.034),
)


def adult_reduced(directory: Path = DATA) -> NDArray[np.int64]:
    """The histogram of adult_reduced.csv, axes in the order of its domain file."""
    domain = json.loads((directory / "adult_reduced_domain.json").read_text())
    with (directory / "adult_reduced.csv").open() as file:
        head, *rows = csv.reader(file)
    columns = np.array(rows, dtype=np.int64).T[[head.index(name) for name in domain]]
    shape = tuple(domain.values())
    return np.bincount(np.ravel_multi_index(tuple(columns), shape), minlength=math.prod(shape)).reshape(shape)


def triples(histogram: NDArray[Any]) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(histogram.ndim), 3))


def marginal_error(table: NDArray[Any], histogram: NDArray[Any]) -> float:
    """Mean over all three-way marginals of the total-variation distance, each marginal normalised."""
    tree = MarginalTree(histogram.shape, triples(histogram))
    mine, true = tree.answer_vector(table.astype(np.float64)), tree.answer_vector(histogram.astype(np.float64))
    return float(np.abs(mine / table.sum() - true / histogram.sum()).sum() / 2 / len(tree.sets))


def declared(histogram: NDArray[np.int64]) -> Schema:
    """A schema whose columns hold the bin's number."""
    columns = [
        {"name": f"c{axis}", "type": "integer", "edges": list(range(length + 1))}
        for axis, length in enumerate(histogram.shape)
    ]
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})


def synthetic_error(histogram: NDArray[np.int64], *, name: str, epsilon: str, delta: str) -> dict[str, Any]:
    """One release of all three-way marginals with as many rows as the table has. Seconds are of plan and run."""
    schema = declared(histogram)
    workload = Workload.from_json({"version": 1, "queries": [{"marginals": 3}]}, schema.universe)
    start = time.perf_counter()
    plan = mechanism(name).plan(
        schema,
        workload,
        budget=privacy_budget(epsilon=epsilon, delta=delta),
        beta=Fraction(1, 20),
        options={"rows": int(histogram.sum()), **({"population": ASSUMED_ROWS} if name == "pmw" else {})},
    )
    made = run_release(plan, Histogram(universe=schema.universe, counts=histogram), rng=OperatingSystemRandomness())
    seconds = time.perf_counter() - start
    assert made.records is not None
    assert made.result.distribution is not None
    return {
        "seconds": seconds,
        "predicted_seconds": plan.work.seconds,
        "fit_error": marginal_error(_weights(made.result.distribution), histogram),
        "rows_error": marginal_error(_table(made.records, histogram.shape), histogram),
        "bound": made.result.bound.alpha,
        "expected": plan.expectation.alpha if plan.expectation else math.nan,
    }


def _weights(distribution: Distribution) -> NDArray[np.float64]:
    (whole,) = distribution.components
    return whole.weights


def _table(records: Records, shape: tuple[int, ...]) -> NDArray[np.int64]:
    bins = [
        np.minimum(values.astype(np.int64), length - 1)  # the last bin is closed
        for values, length in zip(records.columns.values(), shape, strict=True)
    ]
    return np.bincount(np.ravel_multi_index(tuple(bins), shape), minlength=math.prod(shape)).reshape(shape)


def marginal_fit_table(seeds: Sequence[int] = range(5)) -> list[dict[str, Any]]:
    """Accuracy and time on adult_reduced at each target, over as many releases as there are seeds.

    Each row: mechanism, epsilon, delta, target; mean and worst error of the synthetic rows and the mean of the fit
    itself; rows_over_fit; mean and worst seconds (plan, run and rows); bound and expected bound, means; peak megabytes
    of the process.
    """
    histogram = adult_reduced()
    synthetic_error(histogram, name="marginal-fit", epsilon="1", delta="1e-9")  # compiles
    table = []
    for name, epsilon, delta, target in TARGETS:
        runs = [synthetic_error(histogram, name=name, epsilon=epsilon, delta=delta) for _ in seeds]
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        table.append(
            {
                "mechanism": name,
                "epsilon": epsilon,
                "delta": delta,
                "target": target,
                "worst_rows_error": max(run["rows_error"] for run in runs),
                "rows_over_fit": mean["rows_error"] / mean["fit_error"],
                "worst_seconds": max(run["seconds"] for run in runs),
                "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                **mean,
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
