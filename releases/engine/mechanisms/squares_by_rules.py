"""Answers with noise, some of which count other rows than others: those that count the same rows are made to agree.

The families fall into the groups of `Workload.by_rules`: within one, the same rows count, or the same persons, so its
tables have a common truth, and least squares put them together as in a release of that group alone. Nothing is taken
from one group for another.

Bound. Let group g have k_g of the k answers. Its half widths are such that all its errors are within them with
probability at least 1 - β_g, where 1 - β_g = (1 - β)^(k_g/k): those of least squares where the group is put together,
else those of its own noise. Noise is drawn for each answer by itself, and the errors of a group are made of its own
noise alone, so the events are independent, and all errors are within their half widths with probability at least
Π_g (1 - β)^(k_g/k) = 1 - β. One β is shared, and a group that is left as it is keeps the half widths that it has in a
release where nothing is put together: there the largest of k draws is within m with probability P(|X| <= m)^k, and
P(|X| <= m)^k_g >= (1 - β)^(k_g/k) says the same of m.

Where each of t tables has an equal part of β, a group of t_g tables has β_g = β t_g/t, and the union bound is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.level_squares import LevelSquares
from releases.engine.mechanisms.mixed_squares import MixedSquares
from releases.engine.workload.queries import Workload

FORMULA = (
    r"\alpha_g : \Pr\left[\max_{q \in g} |E_q| \le \alpha_g\right] \ge (1 - \beta)^{k_g / k},\quad"
    r" \prod_g (1 - \beta)^{k_g / k} = 1 - \beta"
)
#: The same where each of t tables has an equal part of beta.
OF_TABLES = {FORMULA: r"\alpha_T : \Pr\left[\max_{q \in T} |E_q| \le \alpha_T\right] \ge 1 - \tfrac{\beta}{t}"}
SOURCE = "Derived: least squares within groups of tables that count the same rows, whose noise is independent"
#: How answers of one group are made to agree.
Squares: TypeAlias = LeastSquares | LevelSquares | MixedSquares
#: A share of beta is worked out in doubles, and rounded down by this.
_ROUNDED_DOWN = 1 - 1e-9


@dataclass(frozen=True, kw_only=True)
class SquaresByRules:
    """How the answers of each group are put together.

    Attributes:
        workload: of families that count different rows.
        groups: of each group of `Workload.by_rules`, in its order; None where it is left as it is.
        measured: what noise is on, in the same groups; None where it is on the answers.
    """

    workload: Workload
    groups: tuple[Squares | None, ...]
    measured: Workload | None = None

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.groups if each is not None)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.groups if each is not None)

    def combined(self, noisy: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
        """The answers of each family, in the order asked."""
        found: dict[int, NDArray[np.float64]] = {}
        drawn_at = places_by_rules(self.measured or self.workload)
        for places, drawn, squares in zip(places_by_rules(self.workload), drawn_at, self.groups, strict=True):
            given = [noisy[place] for place in drawn]
            found |= zip(places, given if squares is None else squares.combined(given), strict=True)
        return tuple(found[place] for place in range(len(found)))


def places_by_rules(workload: Workload) -> list[list[int]]:
    """The places of the families of each group."""
    place_of = {family: place for place, family in enumerate(workload.families)}
    return [[place_of[family] for family in group.families] for group in workload.by_rules]


def share_of_beta(group: Workload, workload: Workload, *, beta: float, of_each_table: bool = False) -> float:
    """β_g, rounded down."""
    if of_each_table:
        return beta * len(group.families) / len(workload.families) * _ROUNDED_DOWN
    return -expm1(group.size / workload.size * log1p(-beta)) * _ROUNDED_DOWN
