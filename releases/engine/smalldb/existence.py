"""How well some small database must fit any table, and what follows for the one that is drawn.

Existence. For every table x of n rows there is a database y of m rows with |q(y) / m - q(x) / n| <= alpha_0(m) for all
queries q. Write v_c = m x_c / n for what kind c should get; y rounds v to whole numbers of the same sum m.

    PREFIX      alpha_0 = 1 / (2 m). Round every cumulative sum v_1 + ... + v_c to a nearest whole number, halves up:
                rounding keeps their order, so differences are not negative, and the last sum is m already.
    PARTITION   alpha_0 = (K - 1) / (K m), K kinds. Largest remainders: with fractions f_c of sum k, raise the k kinds
                of largest f_c. If c is raised, k <= (k - 1) + f_c + (K - k) f_c, so it moves by 1 - f_c <= 1 - 1/K; if
                not, k >= (k + 1) f_c, so it moves by f_c <= k / (k + 1) <= 1 - 1/K.
    NESTED      alpha_0 = 1 / m, for queries nested or disjoint. From the whole down: if a set has got the floor or the
                ceiling of its v, its parts can each get theirs, because the sum of floors is at most the floor of the
                sum, and the sum of ceilings at least its ceiling.
    RANGES      alpha_0 = 1 / m, for any ranges of one ordered attribute: ones stand together in every row of their
                matrix, which is totally unimodular, so the box of floors and ceilings around v, not being empty, holds
                a whole point (Hoffman and Kruskal 1956).
    ANY         alpha_0 = min(floor(K/2) ceil(K/2) / (K m), sqrt(ln(2 |Q|) / (2 m))). First: largest remainders again;
                a query is off by at most the sum of all rises, that is of 1 - f_c over raised c, which is at most
                k - k k / K, the k largest fractions having at least their share of k. Second: m rows drawn evenly from
                x miss a given query by more than alpha with probability at most 2 exp(-2 m alpha^2) (Hoeffding), so
                some y is within every alpha above it, and as there are finitely many y, within it. (Blum, Ligett and
                Roth 2013, and Dwork and Roth 2014, Theorem 4.2, have m = ln|Q| / alpha^2, twice as much.)

Bound. The mechanism draws y with probability proportional to exp(-rate L(y)), L in units of 1/m of a count, rate =
epsilon / (2 m g). With |R| candidates in all, and at least |R_min| that share the best counts,

    P(L(y) > t) <= |R| exp(-rate t) / (|R_min| exp(-rate L_best))

(Dwork and Roth 2014, Theorem 3.11). Scaled to W rows instead of n the best y has errors up to W alpha_0 + |W - n|,
since |W q(x) / n - q(x)| <= |W - n|. So with probability 1 - beta every count is off by at most

    alpha = alpha_0 W + |W - n| + (2 g / epsilon) (ln(|R| / |R_min|) + ln(1 / beta)).
"""

from __future__ import annotations

from enum import StrEnum
from math import log

import numpy as np
from numpy.typing import NDArray

#: Relative allowance for rounding, far above what double precision loses.
_SLACK = 1e-9


class Rounding(StrEnum):
    """Which existence argument a workload allows; the words are shown to people."""

    PREFIX = "rounded cumulative counts"
    PARTITION = "largest remainders"
    NESTED = "rounding from the whole to its parts"
    RANGES = "a totally unimodular box"
    ANY = "largest remainders, or sampled rows"


#: alpha_0 as shown in formulas.
IN_LATEX = {
    Rounding.PREFIX: r"\frac{1}{2m}",
    Rounding.PARTITION: r"\frac{K-1}{Km}",
    Rounding.NESTED: r"\frac{1}{m}",
    Rounding.RANGES: r"\frac{1}{m}",
    Rounding.ANY: r"\min\left\{\frac{K}{4m}, \sqrt{\frac{\ln 2|Q|}{2m}}\right\}",
}


def best_fit(rounding: Rounding, *, sizes: NDArray[np.float64], kinds: int, answers: int) -> NDArray[np.float64]:
    """alpha_0 for sizes m, as a share of all rows, for K = `kinds` and |Q| = `answers`."""
    fit: NDArray[np.float64]
    if rounding is Rounding.PREFIX:
        fit = 1 / (2 * sizes)
    elif rounding is Rounding.PARTITION:
        fit = (kinds - 1) / (kinds * sizes)
    elif rounding is Rounding.ANY:
        rises = (kinds // 2) * (kinds - kinds // 2) / kinds
        fit = np.minimum(rises / sizes, np.sqrt(np.log(2 * max(1, answers)) / (2 * sizes)))
    else:
        fit = 1 / sizes
    return fit


def half_width(
    *, fit: float, rows: float, off: float, log_ratio: float, unit: int, epsilon: float, beta: float
) -> float:
    """alpha in counts, rounded up.

    Args:
        fit: alpha_0.
        rows: W.
        off: at least |W - n|.
        log_ratio: ln(|R| / |R_min|).
        unit: g, the rows of a privacy unit.
        epsilon: of the choice.
        beta: what the choice may fail with.
    """
    return (fit * rows + off + 2 * unit / epsilon * (log_ratio - log(beta))) * (1 + _SLACK)


def best_size(
    *, fits: NDArray[np.float64], log_ratios: NDArray[np.float64], rows: int, unit: int, epsilon: float
) -> int:
    """The m >= 1 with the least bound for `rows`, among as many as are given; the smaller one of equals."""
    return 1 + int(np.argmin(fits * rows + 2 * unit / epsilon * log_ratios))
