"""What MST reaches on NIST's table, with the estimation of mbi, measured in the same run.

MST as its authors describe it (McKenna, Miklau and Sheldon 2021): a third of rho each for one-way marginals, for
choosing a tree of pairs that one-way marginals miss most, and for measuring these; values with fewer rows than three
standard deviations of the noise are merged. The package has the estimation alone; it runs in float32, as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.conversions import largest_rho
from releases.engine.noise.discrete import discrete_gaussian
from releases.engine.noise.randomness import Randomness, uniform_below
from releases.engine.noise.selection import exponential_mechanism

STEPS = 1000
Codes = Mapping[str, NDArray[np.int64]]


def is_there() -> bool:
    """Whether mbi is installed."""
    return find_spec("mbi") is not None


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A column whose rare values are one: the last code, where there are any.

    Attributes:
        code: of each value.
        values: of each code.
    """

    code: NDArray[np.int64]
    values: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of(counts: NDArray[np.float64], least: float) -> Merged:
        kept = np.flatnonzero(counts >= least)
        rare = np.flatnonzero(counts < least)
        code = np.full(len(counts), len(kept), dtype=np.int64)
        code[kept] = np.arange(len(kept))
        return Merged(code=code, values=(*kept[:, None], *([rare] if len(rare) else [])))


def rows(
    codes: Codes, shape: Mapping[str, int], *, epsilon: Fraction, delta: Fraction, rng: Randomness
) -> tuple[Codes, float]:
    """Synthetic rows, as codes of the same columns, and the seconds of the processor that they took.

    Args:
        codes: of each row in each column.
        shape: how many codes each column has.
    """
    start = time.process_time()
    names = list(codes)
    rho = largest_rho(epsilon=epsilon, delta=delta) / 3
    ones, variance = dict[str, NDArray[np.float64]](), Fraction(len(names)) / (2 * rho)
    for name in names:
        exact = np.bincount(codes[name], minlength=shape[name])
        ones[name] = (exact + discrete_gaussian(variance=variance, size=exact.shape, rng=rng)).astype(np.float64)
    merged = {name: Merged.of(ones[name], 3 * sqrt(variance)) for name in names}
    total = float(np.mean([each.sum() for each in ones.values()]))
    sums = {name: np.array([ones[name][each].sum() for each in merged[name].values]) for name in names}
    held = {name: merged[name].code[codes[name]] for name in names}
    pairs = _tree(held, sums, total=total, rho=rho, rng=rng)
    each = Fraction(len(pairs)) / (2 * rho)
    tables = {pair: _count(held, sums, pair) for pair in pairs}
    measured = [((name,), sums[name], [sqrt(variance * len(v)) for v in merged[name].values]) for name in names]
    noisy = [
        (pair, table + discrete_gaussian(variance=each, size=table.shape, rng=rng), sqrt(each))
        for pair, table in tables.items()
    ]
    made = _estimated({name: len(each) for name, each in sums.items()}, measured, noisy, total)
    spread = {name: _spread(merged[name], made[name], rng) for name in names}
    return spread, time.process_time() - start


def _count(held: Codes, sums: Mapping[str, NDArray[Any]], pair: Sequence[str]) -> NDArray[np.int64]:
    one, other = pair
    flat = np.bincount(held[one] * len(sums[other]) + held[other], minlength=len(sums[one]) * len(sums[other]))
    return flat.astype(np.int64)


def _tree(
    held: Codes, sums: Mapping[str, NDArray[np.float64]], *, total: float, rho: Fraction, rng: Randomness
) -> list[tuple[str, str]]:
    """A spanning tree, edge by edge: each is chosen by how far its table is from the product of its columns."""
    names = list(held)
    epsilon = Fraction(int(sqrt(8 * rho / (len(names) - 1)) * 10**6), 10**6)
    scores = {}
    for pair in combinations(names, 2):
        likely = np.outer(*(np.maximum(sums[name], 0) / np.maximum(sums[name], 0).sum() for name in pair)).ravel()
        scores[pair] = round(float(np.abs(_count(held, sums, pair) - total * likely).sum()))
    part, chosen = {name: name for name in names}, list[tuple[str, str]]()
    while len(chosen) < len(names) - 1:
        left = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        best = exponential_mechanism([scores[pair] for pair in left], epsilon=epsilon, sensitivity=Fraction(1), rng=rng)
        one, other = (part[name] for name in left[best])
        part = {name: one if each == other else each for name, each in part.items()}
        chosen.append(left[best])
    return chosen


def _estimated(
    shape: Mapping[str, int],
    ones: Sequence[tuple[tuple[str, ...], NDArray[Any], Sequence[float]]],
    pairs: Sequence[tuple[tuple[str, ...], NDArray[Any], float]],
    total: float,
) -> Codes:
    import mbi

    measured = [
        mbi.LinearMeasurement(table.astype(np.float32), names, float(np.mean(deviations)))
        for names, table, deviations in ones
    ]
    measured += [mbi.LinearMeasurement(table.astype(np.float32), names, deviation) for names, table, deviation in pairs]
    domain = mbi.Domain(list(shape), list(shape.values()))
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=total, iters=STEPS)
    made = model.synthetic_data(rows=round(total)).to_dict()
    return {name: np.asarray(made[name]).astype(np.int64) for name in shape}


def _spread(merged: Merged, codes: NDArray[np.int64], rng: Randomness) -> NDArray[np.int64]:
    """Values of these codes, each rare value as likely as another."""
    found = np.empty(len(codes), dtype=np.int64)
    for code, values in enumerate(merged.values):
        members = codes == code
        found[members] = values[uniform_below(len(values), int(members.sum()), rng)]
    return found
