"""NIST's k-marginal score, as SDNist describes it: how near a table's rows come to those of the true table.

1000 (1 - d), with d the mean over all pairs (a, b) of columns of the total variation between the shares of (PUMA, a, b)
in both tables; of (a, b) alone where there is no PUMA. Numbers are in 20 bins between percentiles of the true table. So
a score is made from the true rows: it is a measurement for a benchmark on a public table, and never a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine.nist_columns import AREA, DENSITIES, DENSITY, MOST_POVPIP, NUMBERS

#: A column's values: numbers, missing ones as NaN; or texts.
Columns = Mapping[str, NDArray[Any]]
_BINS = 20
#: People to a square mile: in the score's bins DENSITY is below 150, or one of these ranges.
_DENSITY_EDGES = (0.0, 150.0, *np.logspace(1, np.log10(52864 + 500), 21)[8:].tolist())


@dataclass(frozen=True, kw_only=True)
class Score:
    """How near some rows are.

    Attributes:
        k_marginal: 0 to 1000.
        pairs: mean total variation over all pairs of columns.
    """

    k_marginal: float
    pairs: float


def score(true: Columns, made: Columns, features: Sequence[str]) -> Score:
    """
    Args:
        true, made: rows of the same columns.
        features: that are compared.
    """
    coded = {name: _coded(name, true, made) for name in features}
    others = [name for name in features if name != AREA]
    pairs = fmean(_distance([coded[name] for name in pair]) for pair in combinations(features, 2))
    area = [coded[AREA]] if AREA in coded else []
    k = fmean(_distance([*area, *(coded[name] for name in pair)]) for pair in combinations(others, 2))
    return Score(k_marginal=1000 * (1 - k), pairs=pairs)


@dataclass(frozen=True, kw_only=True)
class _Coded:
    """A column of both tables as whole numbers below `size`."""

    true: NDArray[np.int64]
    made: NDArray[np.int64]
    size: int


def _coded(name: str, true: Columns, made: Columns) -> _Coded:
    if name == DENSITY:
        of_area = {area: int(np.searchsorted(_DENSITY_EDGES, value)) for area, value in DENSITIES.items()}
        values = [np.array([of_area[area] for area in each[AREA]]) for each in (true, made)]
    elif name in NUMBERS:
        values = [*_binned(name, true[name], made[name])]
    else:
        values = [true[name], made[name]]
    held, codes = np.unique(np.concatenate(values), return_inverse=True)
    return _Coded(true=codes[: len(values[0])], made=codes[len(values[0]) :], size=len(held))


def _binned(name: str, true: NDArray[np.float64], made: NDArray[np.float64]) -> tuple[NDArray[np.int64], ...]:
    """Bins by percentiles of the true values; one by themselves for those that are missing, and for `MOST_POVPIP`."""
    missing, most = [np.isnan(each) for each in (true, made)], MOST_POVPIP if name == "POVPIP" else np.inf
    bins = _BINS - bool(missing[0].any()) - (name == "POVPIP")
    usual = true[~missing[0] & (true < most)]
    edges = np.unique(np.percentile(usual, [100 * each / bins for each in range(bins)], method="higher"))
    found = []
    for values, is_missing in zip((true, made), missing, strict=True):
        codes = np.maximum(np.searchsorted(edges, values), 1)
        codes[~is_missing & (values >= most)] = bins + 1
        codes[is_missing] = bins + 2
        found.append(codes)
    return tuple(found)


def _distance(columns: Sequence[_Coded]) -> float:
    """Total variation between the shares of all combinations of these columns' values."""
    shape = [column.size for column in columns]
    cells = int(np.prod(shape))
    true, made = (
        np.bincount(np.ravel_multi_index(codes, shape), minlength=cells) / len(codes[0])
        for codes in ([column.true for column in columns], [column.made for column in columns])
    )
    return float(np.abs(true - made).sum() / 2)
