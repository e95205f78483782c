r"""Four ways of releasing k linear queries, as functions of n, |X|, k, epsilon, delta and beta: bounds in finite form.

The queries have values in [0, 1] on a row. Where neighbours replace one of n rows, n is public: the setting in which
all four are stated. Where they add or remove a row, n is private, and the last two measure it first (see below).
Errors are in counts (divide by n for shares), hold for all k answers at once with probability 1 - beta, and come from
public numbers alone. Each is proved with the constants written here; the rates are what remains of it when constants
are dropped.

    noise on each answer      Δ1 <= s and Δ2² <= s, where one row changes at most s of the answers (s = k at worst)
        Laplace, scale b = s/ε: the exact quantile of the largest of k (`laplace_max_quantile`); Dwork and Roth (2014),
        Theorem 3.8, has b ln(k/β)
        Gaussian, σ² = s/(2ρ): σ z + 1, z the two-sided normal quantile at 1 - (1 - β)^(1/k). The discrete tail
        Pr[Z >= m] is at most the continuous Pr[N >= m - 1] (Canonne, Kamath and Steinke 2020, Proposition 25)
    noise on the histogram    Δ1 = Δ2² = h, with h = 2 cells changed by replacing a row and 1 by adding one; an answer
        sums up to |X| draws, each weighed by at most 1
        Laplace, b = h/ε: min over 0 < t < 1 of (b/t) (ln(2k/β) - |X| ln(1 - t²)), Chernoff's bound; the transform of
        the discrete law is at most 1/(1 - t²), that of the continuous one, as sinh(x)/x grows, and 1/(1 - f²t²) at a
        weight f in [0, 1]. Chan, Shi and Song (2011), Corollary 2.9, is 2√2 b max{√(|X| ln(2k/β)), ln(2k/β)}
        Gaussian, σ² = h/(2ρ): √(2 |X| σ² ln(2k/β)); the discrete law is as sub-Gaussian as the continuous one
    multiplicative weights    T rounds of a choice with ε' and a measurement, below
    a small database          the exponential mechanism over all multisets of m rows, ``smalldb/existence.py``

Multiplicative weights, offline: Hardt, Ligett and McSherry (2012), Figure 1, with the average of the iterates. In round
i the exponential mechanism picks a query that the present distribution p_i answers worst, its score |f(D) - n f(p_i)|
having sensitivity 1, and f(D) is measured with noise v. A step p_i exp(η f), η = 4 times the measured difference as a
share, lowers KL(D/n || p_i) by at least η d - η²/8 = 2 d² - 2 (v/n)², where d is the true difference as a share
(Hoeffding's lemma for f in [0, 1]). The divergence starts at ln|X| at most and stays above 0, so the mean of d² is at
most ln|X|/(2T) + (V/n)² where V bounds every |v|. The choice loses at most E = (2/ε')(ln k + ln(T/β')) of the worst
query's error in every round (Theorem 3.11 of Dwork and Roth), and the average of the iterates errs by no more than the
average of their errors:

    α = √(n² ln|X| / (2T) + V²) + E

Pure: V = b ln(T/β'') + 1/2 with b = T/ε'', and T ε' + ε''= ε in all, ε'' being T times that of one measurement.
Concentrated: T (ε'²/8 + 1/(2σ²)) = ρ, by bounded range (Cesar and Rogers 2021), and V = σ √(2 ln(T/β'')) + 1.
T and the shares are chosen for the least bound. Their own Theorem 2.2, 2 n √(ln|X|/T) + 10 T ln k/ε with probability
1 - 2T/k, has about eight times the first term's square.

**Where n is private,** a twentieth of the budget measures it and a tenth of beta is what that may fail with: N = n + e,
|e| <= o. The histogram and the answers need no n. In weights, answers are N f(p), the score |f(D) - N f(p_i)| still has
sensitivity 1, and η = 4 ((f(D) + v)/N - f(p_i)), which is off by at most (V + o)/N from 4 (f(D)/n - f(p_i)), for
f(D) <= n. So the mean of d² is at most ln|X|/(2T) + ((V + o)/N)²; a score differs from N |d| by o at most; and

    α = √((n + o)² ln|X| / (2T) + (V + o)²) + E + o.

A small database is scaled to N rows: its fit counts n + o times, and o is added once.

**Approximate.** δ buys Gaussian noise and the concentrated form of weights, by the largest ρ that converts to (ε, δ)
(Canonne, Kamath and Steinke 2020, Corollary 13). To a single choice it gives nothing: ρ = ε'²/8 allows ε' = √(8ρ),
which is below ε unless ε is large, so the small database keeps the better of the two.

No data, and no decision about privacy, is here; floating point is used, and the figures are for comparison before a
plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise
from math import exp, floor, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, erfcinv

from releases.engine.accounting.calibration import zcdp_budget
from releases.engine.bounds.accuracy import check_beta, laplace_max_quantile
from releases.engine.domain.privacy import NeighbouringRelation, privacy_budget
from releases.engine.errors import InvalidInput
from releases.engine.smalldb import existence

#: No table, universe or list of questions is larger; beyond, a double has no room for the squares.
LARGEST_ROWS = 10**12
LARGEST_CELLS = 10**100
LARGEST_QUERIES = 10**12
#: Rounds and rows of a small database that are tried: every small number, then steps of a twentieth.
_TRIED = np.unique(np.floor(np.concatenate([np.arange(1, 65), 64 * 1.05 ** np.arange(1, 420)])))
#: Shares of the budget tried for the choices; the rest measures.
_SHARES = np.linspace(0.05, 0.95, 19)
#: Of the budget and of beta, for the number of rows where it is private: its error counts little beside the others'.
TOTAL_SHARE, TOTAL_BETA = Fraction(1, 20), Fraction(1, 10)
#: Points of a curve, and digits to which a crossing is found.
_POINTS = 43
_CROSSING_STEPS = 60


class Way(StrEnum):
    """The four ways, by the words shown to people."""

    QUERIES = "Noise on each answer"
    HISTOGRAM = "Noise on the histogram"
    WEIGHTS = "Multiplicative weights"
    SMALL_DATABASE = "Small database"


class Axis(StrEnum):
    """What a curve runs over."""

    ROWS = "n"
    EPSILON = "epsilon"


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """The public numbers that the bounds are functions of.

    Attributes:
        neighbours: what one row more or less means; n is public where it is replaced, and else a guess.
        rows: n.
        cells: |X|.
        queries: k.
        changed: s, how many of the k answers one row can change, by at most 1 each; k at worst.
        epsilon, delta: of the release; delta 0 leaves the pure forms alone.
        beta: with which probability any bound fails.
    """

    neighbours: NeighbouringRelation
    rows: int
    cells: int
    queries: int
    changed: int
    epsilon: Fraction
    delta: Fraction
    beta: Fraction

    def __post_init__(self) -> None:
        for name, most in (
            ("rows", LARGEST_ROWS),
            ("cells", LARGEST_CELLS),
            ("queries", LARGEST_QUERIES),
            ("changed", self.queries),
        ):
            value = getattr(self, name)
            least = 2 if name == "cells" else 1
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                shown = f"{most:,}" if most < 10**15 else "10^100"
                raise InvalidInput(name, value, f"must be a whole number from {least} to {shown}")
        privacy_budget(epsilon=self.epsilon, delta=self.delta)
        check_beta(self.beta)

    @property
    def rho(self) -> float:
        """The largest rho that is (epsilon, delta)-DP."""
        return float(_rho(self.epsilon, self.delta))

    @property
    def cells_changed(self) -> int:
        """h above."""
        return 2 if self.neighbours is NeighbouringRelation.REPLACE else 1

    def measured(self, *, is_pure: bool) -> MeasuredRows:
        """What is left for the answers once n is known."""
        if self.neighbours is NeighbouringRelation.REPLACE:
            return MeasuredRows(share=1.0, beta=float(self.beta), off=0.0)
        if is_pure:
            scale = 1 / (TOTAL_SHARE * self.epsilon)
            off = float(laplace_max_quantile(scale=scale, count=1, beta=float(self.beta * TOTAL_BETA)))
        else:
            sigma = sqrt(1 / (2 * float(TOTAL_SHARE) * self.rho))
            off = _gaussian_quantile(sigma, count=1, beta=float(self.beta * TOTAL_BETA))
        return MeasuredRows(share=float(1 - TOTAL_SHARE), beta=float(self.beta * (1 - TOTAL_BETA)), off=off)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRows:
    """What is left of a budget once the number of rows is known.

    Attributes:
        share: of epsilon or rho.
        beta: what the answers may fail with.
        off: o, how far off the number is at most with the rest of beta; 0 where it is public.
    """

    share: float
    beta: float
    off: float


@dataclass(frozen=True, kw_only=True, slots=True)
class WayBound:
    """What one way promises.

    Attributes:
        is_pure: whether it is epsilon-DP; else (epsilon, delta)-DP.
        alpha: every answer is within so many counts of the truth.
        published: the same as a published theorem states it; None where there is none for these numbers.
        chosen: what the mechanism's parameters come to.
    """

    way: Way
    is_pure: bool
    alpha: float
    published: float | None
    chosen: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """Where one way overtakes another: before `at` `before` has the smaller bound, after it `after` has."""

    axis: Axis
    is_pure: bool
    at: float
    before: Way
    after: Way
    alpha: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A way's bound in general, for people.

    Attributes:
        formula: the finite form, in LaTeX.
        rate: its asymptotic rate, in LaTeX, constants and the dependence on beta dropped.
        source: of the mechanism and of the bound.
    """

    formula: str
    rate: str
    source: str


def bounds(numbers: Numbers) -> list[WayBound]:
    """All bounds for the given numbers: four pure ones, and four approximate ones where delta is above 0."""
    kinds = (True,) if numbers.delta == 0 else (True, False)
    return [_bound(way, numbers, is_pure) for is_pure in kinds for way in Way]


def alpha(way: Way, numbers: Numbers, *, is_pure: bool) -> float:
    """One bound, in counts."""
    return _bound(way, numbers, is_pure).alpha


def axis_values(axis: Axis, numbers: Numbers) -> list[Fraction]:
    """Where curves are drawn: from a hundredth of the given number to a hundred times it, evenly in its logarithm."""
    middle, least, most = (
        (float(numbers.epsilon), 1e-6, 100.0) if axis is Axis.EPSILON else (float(numbers.rows), 1.0, LARGEST_ROWS)
    )
    low, high = max(middle / 100, least), min(middle * 100, most)
    return [_rounded(axis, low * (high / low) ** (step / (_POINTS - 1))) for step in range(_POINTS)]


def at(numbers: Numbers, axis: Axis, value: Fraction) -> Numbers:
    """The same numbers but for the one on the axis."""
    return replace(numbers, rows=int(value)) if axis is Axis.ROWS else replace(numbers, epsilon=value)


def curve(way: Way, numbers: Numbers, axis: Axis, *, is_pure: bool) -> list[tuple[float, float]]:
    """A bound along an axis."""
    values = dict.fromkeys(axis_values(axis, numbers))
    return [(float(value), alpha(way, at(numbers, axis, value), is_pure=is_pure)) for value in values]


def crossings(numbers: Numbers, axis: Axis, *, is_pure: bool) -> list[Crossing]:
    """Every place within the drawn range where one way overtakes another, in rising order."""
    values = list(dict.fromkeys(axis_values(axis, numbers)))
    curves = {way: [alpha for _, alpha in curve(way, numbers, axis, is_pure=is_pure)] for way in Way}
    found = []
    for one, other in combinations(Way, 2):
        ahead = [mine <= theirs for mine, theirs in zip(curves[one], curves[other], strict=True)]
        for (low, high), (before, after) in zip(pairwise(values), pairwise(ahead), strict=True):
            if before != after:
                found.append(_crossing(one, other, numbers, axis, is_pure, low, high))
    return sorted(found, key=lambda each: each.at)


def best(numbers: Numbers, *, is_pure: bool) -> WayBound:
    """The way with the least bound."""
    return min((_bound(way, numbers, is_pure) for way in Way), key=lambda each: each.alpha)


def describe(way: Way, *, is_pure: bool, neighbours: NeighbouringRelation) -> Described:
    """Formula, rate and source."""
    described = _DESCRIBED[way, is_pure]
    if neighbours is NeighbouringRelation.REPLACE:
        return described
    return replace(described, formula=_PRIVATE_FORMULAS.get((way, is_pure), described.formula))


@lru_cache(maxsize=20_000)
def _bound(way: Way, numbers: Numbers, is_pure: bool) -> WayBound:
    form = {
        Way.QUERIES: _queries,
        Way.HISTOGRAM: _histogram,
        Way.WEIGHTS: _weights,
        Way.SMALL_DATABASE: _small_database,
    }[way]
    return form(numbers, is_pure)


@lru_cache(maxsize=1_000)
def _rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    return zcdp_budget(epsilon=epsilon, delta=delta).rho


def _queries(numbers: Numbers, is_pure: bool) -> WayBound:
    k, beta = numbers.queries, float(numbers.beta)
    if is_pure:
        scale = numbers.changed / numbers.epsilon
        return WayBound(
            way=Way.QUERIES,
            is_pure=True,
            alpha=float(laplace_max_quantile(scale=scale, count=k, beta=beta)),
            published=float(scale) * log(k / beta),
            chosen=f"Laplace noise of scale {float(scale):,.4g}",
        )
    sigma = sqrt(numbers.changed / (2 * numbers.rho))
    return WayBound(
        way=Way.QUERIES,
        is_pure=False,
        alpha=_gaussian_quantile(sigma, count=k, beta=beta),
        published=sigma * sqrt(2 * log(k / beta)) + 1,
        chosen=f"Gaussian noise of deviation {sigma:,.4g}",
    )


def _gaussian_quantile(sigma: float, *, count: int, beta: float) -> float:
    """Pr[|N| > z] = erfc(z / √2) for each of `count` independent draws, and 1 for the discrete law."""
    each = -np.expm1(np.log1p(-beta) / count)
    return sigma * sqrt(2) * float(erfcinv(each)) + 1


def _histogram(numbers: Numbers, is_pure: bool) -> WayBound:
    odds = log(2 * numbers.queries / float(numbers.beta))
    if is_pure:
        scale = numbers.cells_changed / float(numbers.epsilon)
        root = sqrt(float(numbers.cells) * odds)
        return WayBound(
            way=Way.HISTOGRAM,
            is_pure=True,
            alpha=scale * _chernoff(float(numbers.cells), odds),
            published=2 * sqrt(2) * scale * max(root, odds),
            chosen=f"Laplace noise of scale {scale:,.4g} on each cell",
        )
    sigma = sqrt(numbers.cells_changed / (2 * numbers.rho))
    return WayBound(
        way=Way.HISTOGRAM,
        is_pure=False,
        alpha=sigma * sqrt(2 * float(numbers.cells) * odds),
        published=sigma * sqrt(2 * float(numbers.cells) * odds),
        chosen=f"Gaussian noise of deviation {sigma:,.4g} on each cell",
    )


def _chernoff(cells: float, odds: float) -> float:
    """min over 0 < t < 1 of (odds - cells ln(1 - t²)) / t; any t is a bound, and a golden section finds a good one."""

    def width(log_t: float) -> float:
        t = exp(log_t)
        return (odds - cells * log1p(-t * t)) / t

    # The minimum lies between half and twice t0 = √(odds / (cells + odds)), where both terms are of one size.
    middle = 0.5 * log(odds / (cells + odds))
    low, high = middle - log(4), min(middle + log(4), -1e-9)
    golden = (sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if width(left) <= width(right) else (left, high)
    return width((low + high) / 2)


def _weights(numbers: Numbers, is_pure: bool) -> WayBound:
    """Half of beta for the choices, half for the measurements."""
    measured = numbers.measured(is_pure=is_pure)
    n, log_cells, log_k = numbers.rows + measured.off, log(numbers.cells), log(numbers.queries)
    rounds, share = _TRIED[:, None], _SHARES[None, :]
    odds = np.log(2 * rounds / measured.beta)
    if is_pure:
        epsilon = measured.share * float(numbers.epsilon)
        choice = share * epsilon / rounds
        scale = rounds / ((1 - share) * epsilon)
        noise = scale * odds + 0.5
    else:
        rho = measured.share * numbers.rho
        choice = np.sqrt(8 * share * rho / rounds)
        scale = np.sqrt(rounds / (2 * (1 - share) * rho))
        noise = scale * np.sqrt(2 * odds) + 1
    lost = 2 / choice * (log_k + odds) + measured.off
    widths = np.sqrt(n * n * log_cells / (2 * rounds) + (noise + measured.off) ** 2) + lost
    least = np.unravel_index(int(np.argmin(widths)), widths.shape)
    return WayBound(
        way=Way.WEIGHTS,
        is_pure=is_pure,
        alpha=float(widths[least]),
        published=theorem_of_weights(numbers) if is_pure else None,
        chosen=f"{int(rounds[least[0], 0]):,} rounds, {share[0, least[1]]:.0%} of the budget for the choices",
    )


def theorem_of_weights(numbers: Numbers) -> float | None:
    """Theorem 2.2 of Hardt, Ligett and McSherry (2012), at the best T whose failure 2T/k is at most beta.

    It is for a public n.
    """
    most = floor(float(numbers.beta) * numbers.queries / 2)
    if most < 1 or numbers.neighbours is not NeighbouringRelation.REPLACE:
        return None
    rounds = np.append(_TRIED[np.less_equal(_TRIED, most)], float(most))
    log_k = log(numbers.queries)
    widths = 2 * numbers.rows * np.sqrt(log(numbers.cells) / rounds) + 10 * rounds * log_k / float(numbers.epsilon)
    return float(widths.min())


def _small_database(numbers: Numbers, is_pure: bool) -> WayBound:
    """One choice; where delta is above 0, the better of its pure and its concentrated form."""
    pure = numbers.measured(is_pure=True)
    epsilon, widths = _databases(numbers, pure, epsilon=pure.share * float(numbers.epsilon))
    if not is_pure:
        concentrated = numbers.measured(is_pure=False)
        other = _databases(numbers, concentrated, epsilon=sqrt(8 * concentrated.share * numbers.rho))
        epsilon, widths = min((epsilon, widths), other, key=lambda each: float(each[1].min()))
    least = int(np.argmin(widths))
    return WayBound(
        way=Way.SMALL_DATABASE,
        is_pure=is_pure,
        alpha=float(widths[least]),
        published=_published_small_database(numbers, epsilon),
        chosen=f"{int(_TRIED[least]):,} rows",
    )


def _databases(numbers: Numbers, measured: MeasuredRows, *, epsilon: float) -> tuple[float, NDArray[np.float64]]:
    """Epsilon of the choice, and the bound for each size that is tried."""
    fits = existence.best_fit(existence.Rounding.ANY, sizes=_TRIED, kinds=numbers.cells, answers=numbers.queries)
    log_ratios = log_multisets(numbers.cells, _TRIED)
    n = numbers.rows + measured.off
    return epsilon, fits * n + measured.off + 2 / epsilon * (log_ratios - log(measured.beta))


def _published_small_database(numbers: Numbers, epsilon: float) -> float | None:
    """Dwork and Roth (2014), Theorem 4.5, in counts; it is for more than two queries and a public n."""
    if numbers.queries <= 2 or numbers.neighbours is not NeighbouringRelation.REPLACE:
        return None
    top = 16 * log(numbers.cells) * log(numbers.queries) + 4 * log(1 / float(numbers.beta))
    return float((top / (epsilon * numbers.rows)) ** (1 / 3) * numbers.rows)


def log_multisets(cells: int, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln C(|X| + m - 1, m), how many databases of m rows there are."""
    # C(a + m - 1, m) = 1 / (m B(a, m)), and the logarithm of the beta function keeps its digits where a is huge.
    found: NDArray[np.float64] = -np.log(sizes) - betaln(float(cells), sizes)
    return found


def _rounded(axis: Axis, value: float) -> Fraction:
    """A number a person can read: a whole number of rows, or epsilon to four digits."""
    if axis is Axis.ROWS:
        return Fraction(max(1, round(value)))
    digits = 3 - floor(log(value, 10))
    return Fraction(round(value * 10**digits), 10**digits) if digits >= 0 else Fraction(round(value))


def _ahead(one: Way, other: Way, numbers: Numbers, axis: Axis, is_pure: bool, value: Fraction) -> bool:
    there = at(numbers, axis, value)
    return alpha(one, there, is_pure=is_pure) <= alpha(other, there, is_pure=is_pure)


def _crossing(
    one: Way, other: Way, numbers: Numbers, axis: Axis, is_pure: bool, low: Fraction, high: Fraction
) -> Crossing:
    """The place between two values where the order changes, by bisection: to one row, or to four digits of epsilon."""
    first = _ahead(one, other, numbers, axis, is_pure, low)
    for _ in range(_CROSSING_STEPS):
        middle = _rounded(axis, sqrt(float(low) * float(high)))
        if not low < middle < high:
            break
        if _ahead(one, other, numbers, axis, is_pure, middle) == first:
            low = middle
        else:
            high = middle
    before, after = (one, other) if first else (other, one)
    return Crossing(
        axis=axis,
        is_pure=is_pure,
        at=float(high),
        before=before,
        after=after,
        alpha=alpha(after, at(numbers, axis, high), is_pure=is_pure),
    )


def stretches(numbers: Numbers, axis: Axis, *, is_pure: bool) -> Iterator[tuple[Way, float, float]]:
    """Which way is best from where to where along the drawn range."""
    values = axis_values(axis, numbers)
    start, leader = values[0], best(at(numbers, axis, values[0]), is_pure=is_pure).way
    while True:
        changes = [
            each for each in crossings(numbers, axis, is_pure=is_pure) if each.before is leader and each.at > start
        ]
        # The leader loses its place where the one that overtakes it is best of all there.
        ends = [
            each
            for each in changes
            if best(at(numbers, axis, _rounded(axis, each.at)), is_pure=is_pure).way is each.after
        ]
        if not ends:
            yield leader, float(start), float(values[-1])
            return
        yield leader, float(start), ends[0].at
        start, leader = _rounded(axis, ends[0].at), ends[0].after


_WEIGHTS_SOURCE = (
    "Hardt, Ligett and McSherry (2012), Figure 1 and Theorem 2.2; the constants are derived, from Hoeffding's lemma"
)
_SMALL_SOURCE = "Blum, Ligett and Roth (2013); Dwork and Roth (2014), Algorithm 4 and Theorem 4.5; half their rows"
_SMALL_FORMULA = (
    r"\min_m\; n\min\left\{\frac{|X|}{4m}, \sqrt{\frac{\ln 2k}{2m}}\right\} + \frac{2}{\varepsilon}"
    r"\left(\ln\binom{|X|+m-1}{m} + \ln\frac{1}{\beta}\right)"
)
_WEIGHTS_FORMULA = r"\min_T\; \sqrt{\frac{n^2 \ln|X|}{2T} + V^2} + \frac{2}{\varepsilon'}\ln\frac{2Tk}{\beta},\quad "
_DESCRIBED = {
    (Way.QUERIES, True): Described(
        formula=r"\min\left\{m : \Pr[|L| \le m]^k \ge 1 - \beta\right\}"
        r" \le \frac{s}{\varepsilon}\ln\frac{k}{\beta} + 1",
        rate=r"\frac{k \ln k}{\varepsilon}",
        source="Dwork and Roth (2014), Theorems 3.6 and 3.8, with the exact quantile",
    ),
    (Way.QUERIES, False): Described(
        formula=r"\sqrt{\frac{s}{2\rho}}\, z + 1,\quad \Pr[|N| \le z]^k = 1 - \beta",
        rate=r"\frac{\sqrt{k \ln k \ln(1/\delta)}}{\varepsilon}",
        source="Canonne, Kamath and Steinke (2020), Theorem 4, Corollary 13 and Proposition 25",
    ),
    (Way.HISTOGRAM, True): Described(
        formula=r"\min_{0<t<1} \frac{2}{\varepsilon t}\left(\ln\frac{2k}{\beta} - |X| \ln(1 - t^2)\right)",
        rate=r"\frac{\sqrt{|X| \ln k}}{\varepsilon}",
        source="Dwork and Roth (2014), Theorem 3.6; Chan, Shi and Song (2011), Corollary 2.9, minimised",
    ),
    (Way.HISTOGRAM, False): Described(
        formula=r"\sqrt{\frac{2 |X|}{\rho} \ln\frac{2k}{\beta}}",
        rate=r"\frac{\sqrt{|X| \ln k \ln(1/\delta)}}{\varepsilon}",
        source="Canonne, Kamath and Steinke (2020), Theorem 4, Corollaries 13 and 22",
    ),
    (Way.WEIGHTS, True): Described(
        formula=_WEIGHTS_FORMULA
        + r"V = \frac{T}{\varepsilon''}\ln\frac{2T}{\beta} + \tfrac12,\ T\varepsilon' + \varepsilon'' = \varepsilon",
        rate=r"n^{2/3}\left(\frac{\ln|X| \ln k}{\varepsilon}\right)^{1/3}",
        source=_WEIGHTS_SOURCE,
    ),
    (Way.WEIGHTS, False): Described(
        formula=_WEIGHTS_FORMULA + r"V = \sigma\sqrt{2\ln\frac{2T}{\beta}} + 1,\ "
        r"T\left(\frac{\varepsilon'^2}{8} + \frac{1}{2\sigma^2}\right) = \rho",
        rate=r"\frac{\sqrt{n \ln k}\,\left(\ln|X| \ln(1/\delta)\right)^{1/4}}{\sqrt{\varepsilon}}",
        source=_WEIGHTS_SOURCE + "; Cesar and Rogers (2021) for the choices",
    ),
    (Way.SMALL_DATABASE, True): Described(
        formula=_SMALL_FORMULA,
        rate=r"n^{2/3}\left(\frac{\ln|X| \ln k}{\varepsilon}\right)^{1/3}",
        source=_SMALL_SOURCE,
    ),
    (Way.SMALL_DATABASE, False): Described(
        formula=_SMALL_FORMULA,
        rate=r"n^{2/3}\left(\frac{\ln|X| \ln k}{\varepsilon}\right)^{1/3}",
        source=_SMALL_SOURCE + "; delta buys it nothing",
    ),
}
_PRIVATE_WEIGHTS = (
    r"\min_T\; \sqrt{\frac{(n + o)^2 \ln|X|}{2T} + (V + o)^2} + \frac{2}{\varepsilon'}\ln\frac{2Tk}{\beta'} + o,\quad "
)
_PRIVATE_SMALL = (
    r"\min_m\; (n + o)\min\left\{\frac{|X|}{4m}, \sqrt{\frac{\ln 2k}{2m}}\right\} + o + \frac{2}{\varepsilon'}"
    r"\left(\ln\binom{|X|+m-1}{m} + \ln\frac{1}{\beta'}\right)"
)
_OFF = r",\quad \Pr[|e| > o] \le \tfrac{\beta}{10},\ \beta' = \tfrac{9\beta}{10}"
#: Where n is private and a twentieth of the budget measures it with an error e.
_PRIVATE_FORMULAS = {
    (Way.HISTOGRAM, True): r"\min_{0<t<1} \frac{1}{\varepsilon t}\left(\ln\frac{2k}{\beta} - |X| \ln(1 - t^2)\right)",
    (Way.HISTOGRAM, False): r"\sqrt{\frac{|X|}{\rho} \ln\frac{2k}{\beta}}",
    (Way.WEIGHTS, True): _PRIVATE_WEIGHTS
    + r"V = \frac{T}{\varepsilon''}\ln\frac{2T}{\beta'} + \tfrac12,\ T\varepsilon' + \varepsilon'' ="
    r" \tfrac{19}{20}\varepsilon" + _OFF,
    (Way.WEIGHTS, False): _PRIVATE_WEIGHTS
    + r"V = \sigma\sqrt{2\ln\frac{2T}{\beta'}} + 1,\ T\left(\frac{\varepsilon'^2}{8} + \frac{1}{2\sigma^2}\right) ="
    r" \tfrac{19}{20}\rho" + _OFF,
    (Way.SMALL_DATABASE, True): _PRIVATE_SMALL + r",\ \varepsilon' = \tfrac{19}{20}\varepsilon" + _OFF,
    (Way.SMALL_DATABASE, False): _PRIVATE_SMALL + r",\ \varepsilon' = \tfrac{19}{20}\varepsilon" + _OFF,
}
