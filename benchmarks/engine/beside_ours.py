"""What graphical-model estimation (mbi, McKenna and others) reaches on the same table, measured in the same run.

The package has the estimation alone, so the two mechanisms around it are written out here as their authors describe
them: all three-way marginals measured with Gaussian noise, and MWEM+PGM, which chooses the marginal that is answered
worst, measures it, and estimates again (McKenna, Sheldon and Miklau 2019). Both in float32, as mbi comes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine.adult import Adult
from benchmarks.tables import BenchRow
from releases.engine.accounting.conversions import largest_rho
from releases.engine.noise.discrete import discrete_gaussian, discrete_laplace
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.noise.selection import exponential_mechanism

#: Steps of the estimation from all marginals, and after each round of MWEM: as many as the package takes by default.
STEPS = 1000
#: At which all marginals are measured; MWEM is for a small pure one.
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(10))
ROUNDS = 7
DELTA = Fraction(1, 10**9)


def rows(adult: Adult) -> Iterator[BenchRow]:
    """One row for each mechanism and epsilon; a row that says so where mbi is not installed."""
    if find_spec("mbi") is None:
        yield BenchRow(cells=("mbi is not installed", *[""] * 9))
        return
    for epsilon in EPSILONS:
        yield _row(adult, f"mbi, all marginals, {STEPS:,} steps", epsilon, DELTA, all_marginals)
    yield _row(adult, f"mbi, MWEM+PGM, {ROUNDS} rounds of {STEPS:,} steps", Fraction(1), Fraction(0), mwem)


def _row(adult: Adult, name: str, epsilon: Fraction, delta: Fraction, make: Any) -> BenchRow:
    start = time.process_time()
    cells = make(adult, epsilon)
    taken = time.process_time() - start
    error = f"{adult.error(cells):.4f}"
    return BenchRow(cells=(name, f"{float(epsilon):g}", f"{float(delta):g}", "", "", error, "", "", f"{taken:.1f}", ""))


def all_marginals(adult: Adult, epsilon: Fraction) -> NDArray[np.float64]:
    """Gaussian noise on all three-way marginals, an even share of rho each."""
    sets = _triples(adult)
    variance = len(sets) / (2 * largest_rho(epsilon=epsilon, delta=DELTA))
    rng = StreamRandomness(f"mbi {epsilon}".encode())
    tables = {axes: _exact(adult, axes) for axes in sets}
    noisy = {
        axes: table + discrete_gaussian(variance=variance, size=table.shape, rng=rng) for axes, table in tables.items()
    }
    return _estimated(adult, noisy, deviation=float(variance) ** 0.5, steps=STEPS)


def mwem(adult: Adult, epsilon: Fraction) -> NDArray[np.float64]:
    """Half of epsilon for choices, half for Laplace noise on what was chosen."""
    each, rng = epsilon / (2 * ROUNDS), StreamRandomness(b"mwem")
    sets, noisy = _triples(adult), dict[tuple[int, ...], NDArray[Any]]()
    total = int(adult.counts.counts.sum())
    cells = np.full(adult.schema.universe.shape, total / adult.schema.universe.size)
    for _ in range(ROUNDS):
        left = [axes for axes in sets if axes not in noisy]
        # An L1 error moves by 1 with a row; its expected noise is taken off, as in the authors' code.
        scores = [
            round(float(np.abs(_marginal(cells, axes) - _exact(adult, axes)).sum()) - _exact(adult, axes).size)
            for axes in left
        ]
        best = left[exponential_mechanism(scores, epsilon=each, sensitivity=Fraction(1), rng=rng)]
        table = _exact(adult, best)
        noisy[best] = table + discrete_laplace(scale=1 / each, size=table.shape, rng=rng)
        cells = _estimated(adult, noisy, deviation=float(1 / each) * 2**0.5, steps=STEPS)
    return cells


def _estimated(
    adult: Adult, noisy: dict[tuple[int, ...], NDArray[Any]], *, deviation: float, steps: int
) -> NDArray[np.float64]:
    import mbi

    names = [f"a{axis}" for axis in range(len(adult.schema.universe.shape))]
    domain = mbi.Domain(names, adult.schema.universe.shape)
    measured = [
        mbi.LinearMeasurement(table.reshape(-1).astype(np.float32), tuple(names[axis] for axis in axes), deviation)
        for axes, table in noisy.items()
    ]
    estimator = mbi.estimation.MirrorDescent()
    model = estimator.estimate(domain, measured, known_total=float(adult.counts.counts.sum()), iters=steps)
    return np.asarray(model.project(tuple(names)).datavector(flatten=False), dtype=np.float64)


def _triples(adult: Adult) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(len(adult.schema.universe.shape)), 3))


def _exact(adult: Adult, axes: tuple[int, ...]) -> NDArray[Any]:
    return _marginal(adult.counts.counts, axes)


def _marginal(cells: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
    table: NDArray[Any] = cells.sum(axis=tuple(axis for axis in range(cells.ndim) if axis not in axes))
    return table
