r"""Logistic regression read off noisy counts: which counts, what one row changes in them, intervals for the ratios.

Notation. The C combinations of the predictors' bins are cells. Cell c has x_c = (1, z_1 ... z_k): z of a number is the
middle of its bin, from -1 to 1 over the declared range, and of a category other than the first it is 1 in its rows and
0 in others. n¹(c) rows of the cell have the outcome, n⁰(c) have not. With p_c(b) = 1 / (1 + exp(-x_cᵀ b)),

    U(b) = Σ_c x_c ((1 - p_c(b)) n¹(c) - p_c(b) n⁰(c)),      H(b) = Σ_c p_c (1 - p_c) (n¹(c) + n⁰(c)) x_c x_cᵀ.    (1)

The rows are drawn independently from a population, and b are the coefficients with E U(b) = 0. Where its log odds are
no such line they are those with the greatest likelihood; nothing is assumed of its shape.

Privacy. A row is in one of the 2 C counts. One added changes one count by 1, one replaced changes two, and a unit of g
rows g times as much: a row casts one ballot for 2 C candidates, `sensitivity.vote_changes`. All counts get equal noise.

Estimates. Ũ, with noisy counts in the place of n, is linear in them at each b, so it is off by nothing in the mean:
E Ũ(b) = 0 at the true b. Counts are therefore not clipped at 0, which would bend it. b̃ solves Ũ(b̃) = 0, by Newton's
steps from 0.

Intervals. For coefficient j let v = H̃(b̃)⁻¹ e_j and a_c = vᵀ x_c. On the path b(s) = b̃ + s v / v_j the coefficient is
b̃_j + s, and the others move so that the fit loses least. Those s are accepted where |vᵀ Ũ(b(s))| is at most what noise
and sampling leave at that b; about b̃ it is |s|. The score is taken at every s, rather than its slope at b̃, because the
outcome may be rare: then the interval is longer towards smaller odds, and one with the same width on both sides misses.

1.  Noise: vᵀŨ has noise Σ a_c ((1 - p_c) X¹_c - p_c X⁰_c) of known weights, so its law is known for each b. The
    `_LARGEST` weights count by the law of their noise, the others as normal.
2.  Sampling: it is a sum of n independent terms with second moments Σ a_c² ((1 - p_c)² n¹(c) + p_c² n⁰(c)), in law
    nearly normal, whether or not the log odds are a line. This is estimated by the noisy counts; the quantile of their
    noise in it is added. The rows of one person need not be independent: with g of them it is at most g times as much,
    by Cauchy and Schwarz.
3.  v is that of the noisy H. This changes vᵀŨ by a term like vᵀ N (b̃ - b), N the noise on H, whose variance follows
    from Cov b̃ = H̃⁻¹ Cov Ũ H̃⁻¹. Its quantile is added to what is left to noise and sampling.
4.  All this needs noise that is small beside H. If E ‖H^(-1/2) N H^(-1/2)‖² (Frobenius) is above `_LARGEST_NOISE`², if
    the mean square of the error in the log odds of rows, tr(H Cov b̃) / Σ p (1 - p) n, is above `_LARGEST_ERROR`², if H̃
    is not positive definite or no b̃ is found, nothing is said. Where that is said of nearly all samples, the few
    others are those whose noise makes them look better than they are: these miss more often than one in twenty, though
    all samples together do not.
5.  What is said are ratios up to `LARGEST_RATIO`; where every one beyond the estimate is possible, as for a category
    in which nobody has the outcome, the interval ends there.

Each coefficient has its share of beta, so that all intervals hold at once. These are arguments, not theorems. How often
the intervals hold is counted on real tables in `tests/engine/workload/test_logistic_coverage.py`.

The condition of step 4 on the error fails below √(8 v C) / `_LARGEST_ERROR` rows whatever they hold, v the variance of
the noise: Cov Ũ is at least v/2 Σ x xᵀ, as (1 - p)² + p² >= 1/2, xᵀ H⁻¹ x is at least 1 / H₀₀ for every x with x₀ = 1
by Cauchy and Schwarz, and H₀₀ = Σ p (1 - p) n is at most n / 4.

Source: derived here. That scores which are linear in what is measured with noise have no bias from it: Stefanski and
Carroll (1987), Biometrika 74, 703-716. On errors of a model that does not hold: White (1982), Econometrica 50, 1-25.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, log, sqrt
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.logistic_regression import (
    LARGEST_RATIO,
    LogisticRegression,
    places_of_bins,
    step_of,
)
from releases.engine.workload.row_regression import NOTHING_SAID, Fitted, Floats
from releases.engine.workload.row_sentences import after_clamping, in_one_line, shown
from releases.engine.workload.row_sums import (
    Coordinate,
    NoisySums,
    Reading,
    Tallies,
    Within,
    outwards,
    places_of,
    rounded_outwards,
)
from releases.engine.workload.sensitivity import Changes, Span, vote_changes

#: The noise on H, in the measure of H itself.
_LARGEST_NOISE = 1 / 2
#: The root of the mean square of the error in the log odds of a row.
_LARGEST_ERROR = 1 / 2
#: The probability that what is said of a nuisance is too low.
_NUISANCE = 0.01
#: How many weights of noise count by its law: of as many as there are beside them the sum is next to normal.
_LARGEST = 16
#: Newton's steps at most; how far one moves the log odds at most, and at the last; where they are as good as infinite.
_STEPS, _STEP, _NO_STEP, _FAR = 60, 2.0, 1e-8, 25.0
#: By how much the search for an end goes on, and how near to it, of itself, it stops.
_LONGER, _PRECISE = 1.4, 1e-5
#: How many ratios an example names.
_NAMED = 4
#: The logarithm of the largest ratio.
_END = log(LARGEST_RATIO)


@dataclass(frozen=True, kw_only=True)
class Odds:
    """Estimates and the ends of intervals, shapes (d,) and (d, 2): scaled coefficients, or logarithms of ratios."""

    estimates: Floats
    ends: Floats


@dataclass(frozen=True, kw_only=True)
class CellCounts(Fitted):
    """In each cell the rows with the outcome, then in each the rows without it."""

    form: ClassVar[str] = "how many rows have the outcome and how many have not, for each combination of bins"
    statistic: LogisticRegression

    @cached_property
    def design(self) -> Floats:
        """x_c in row c; the last predictor's bins come first."""
        bins = []
        for name in self.statistic.predictors:
            attribute = self.schema.universe[name]
            bins.append(
                np.array(places_of_bins(attribute), dtype=np.float64)[:, None]
                if attribute.is_numeric
                else np.eye(attribute.size)[:, 1:]
            )
        cells = np.indices([len(each) for each in bins]).reshape(len(bins), -1)
        columns = [each[places] for each, places in zip(bins, cells, strict=True)]
        return np.concatenate([np.ones((cells.shape[1], 1)), *columns], axis=1)

    @cached_property
    def _scales(self) -> Floats:
        """What turns scaled coefficients, the constant last, into logarithms of ratios for the steps that are said."""
        attributes = [self.schema.universe[term.column] for term in self.statistic.terms(self.schema.universe)]
        scales = [2 * step_of(each) / (each.highest - each.lowest) if each.is_numeric else 1.0 for each in attributes]
        return np.array([*scales, 1.0])

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        one = Span(lowest=0, highest=1)
        return tuple(
            Coordinate(label=f"rows {which} the outcome in cell {cell:,}", span=one, places=1)
            for which in ("with", "without")
            for cell in range(1, len(self.design) + 1)
        )

    def described(self) -> tuple[Coordinate, ...]:
        return (Coordinate(label="each count", span=Span(lowest=0, highest=1), places=1),)

    @cached_property
    def moved(self) -> Changes:
        return vote_changes(self.schema, columns=len(self.coordinates), ballots=1)

    def totals(self, counts: Tallies) -> list[int]:
        assert isinstance(counts, Counts), "cells are counted by bins"
        outcome, *predictors = self.statistic.attributes
        table = counts.marginal((outcome, *predictors)).reshape(self.schema.universe[outcome].size, -1)
        having = table[list(self.statistic.bins)].sum(axis=0)
        return [*having.tolist(), *(table.sum(axis=0) - having).tolist()]

    def formula(self, quantile: str, upper: str) -> str:
        return (
            r"\left\{s : \left|v_j^\top \tilde U\left(b_j(s)\right)\right| \le q_j(s) + q'_j\right\},\quad"
            r"\Pr\left[\left|\textstyle\sum_l \omega_{jl}(s) X_l + \sigma_j(s) Z\right| \le q_j(s)\right]"
            r" = 1 - \tfrac{\beta}{k + 1}"
        )

    def odds(self, counts: Floats, variance: float, *, within: Within, beta: float) -> Odds | None:
        """Logarithms of ratios, or None where the counts say nothing.

        Args:
            counts: with the outcome and without it, shape (2, C), with noise.
            variance: of the noise on each.
        """
        # A warning would be a line of a log that depends on the rows.
        with np.errstate(all="ignore"):
            found = self._scaled(counts, variance, within=within, beta=beta)
        if found is None:
            return None
        # The constant, which is the last of what is asked, is the first of the scaled ones.
        estimates, ends = np.roll(found.estimates, -1), np.roll(found.ends, -1, axis=0)
        scales = self._scales
        return Odds(
            estimates=np.clip(scales * estimates, -_END, _END), ends=np.clip(scales[:, None] * ends, -_END, _END)
        )

    def _scaled(self, counts: Floats, variance: float, *, within: Within, beta: float) -> Odds | None:
        """Of the coefficients of `design`."""
        score = _Score(design=self.design, counts=counts, variance=variance, rows_of_unit=self.schema.rows_of_unit)
        fitted = score.root()
        if fitted is None:
            return None
        p = score.probabilities(fitted)
        weight, hessian = p * (1 - p), score.hessian(p)
        inverse = _inverse(hessian)
        if inverse is None:
            return None
        leverage = score.squares(inverse)
        spread = inverse @ score.covariance(p) @ inverse
        noise = 2 * variance * float(((weight * leverage) ** 2).sum())
        error = max(float(np.trace(hessian @ spread)), 0.0) / float(hessian[0, 0])
        if not (noise <= _LARGEST_NOISE**2 and error <= _LARGEST_ERROR**2):
            return None
        # Step 3: of the noise on H, by the error of the log odds in each cell.
        errors = 2 * variance * weight**2 * np.maximum(score.squares(spread), 0.0)
        one = beta / len(fitted)
        ends = np.empty((len(fitted), 2))
        for j, v in enumerate(inverse):
            second = -float(ndtri(one / 2)) * sqrt(float((self.design @ v) ** 2 @ errors))
            farthest = _END / self._scales[j - 1] + abs(fitted[j])
            low, high = score.reach(fitted, v, j, second=second, farthest=farthest, within=within, beta=one)
            ends[j] = fitted[j] - low, fitted[j] + high
        return Odds(estimates=fitted, ends=ends)

    @property
    def _cells(self) -> int:
        return len(self.design)

    def least_rows(self, measured: Sequence[float | Fraction]) -> float:
        return sqrt(8 * float(measured[0]) * self._cells) / _LARGEST_ERROR

    def example(
        self, measured: Sequence[float | Fraction], *, rows: int, within: Within, beta: float
    ) -> tuple[float, str] | None:
        """Of so many rows that are evenly spread over the cells, half of them with the outcome in each."""
        even = np.full((2, self._cells), rows / (2 * self._cells))
        found = self.odds(even, float(measured[0]), within=within, beta=beta)
        if found is None:
            return None
        widths = np.abs(found.ends - found.estimates[:, None]).max(axis=1)
        widest, many = float(widths.max()), self.schema.counted.many
        event = self.statistic.event(self.schema.universe)
        factors = _listed(self.statistic.compared(self.schema.universe), np.exp(widths))
        return widest, (
            f"For example, if {rows:,} {many} are counted, they are evenly spread over all combinations of the "
            f"predictors' bins, and half of each have {event}, an odds ratio is too high or too low by at most a "
            f"factor of {factors}. A rare outcome, bins that few {many} are in, or predictors that go together have "
            "wider intervals, or none."
        )

    def read(self, measured: NoisySums) -> Reading:
        counts = np.array(measured.values, dtype=np.float64).reshape(2, -1)
        assert measured.within is not None
        found = self.odds(counts, measured.variances[0], within=measured.within, beta=measured.beta)
        noted = {
            "answered": found is not None,
            "counts of cells": {
                "columns": list(self.statistic.predictors),
                "with the outcome": counts[0].tolist(),
                "without it": counts[1].tolist(),
            },
        }
        rows = self.counted_as(float(counts.sum()), noted)
        size = len(self._scales)
        if found is None:
            return Reading(
                estimates=(np.zeros(2 * size),),
                half_widths=(inf,),
                chosen=(NOTHING_SAID,) * (2 * size),
                says="any odds ratio is possible: the noise hides how the outcome depends on the predictors.",
                **rows,
            )
        said = _rounded(
            np.concatenate([np.exp(found.estimates), found.estimates]),
            np.concatenate([np.exp(found.ends), found.ends]),
        )
        many, largest = self.schema.counted.many, f"{LARGEST_RATIO:,}"
        return Reading(
            estimates=(said.estimates,),
            half_widths=(outwards(Fraction(float(np.abs(said.ends - said.estimates[:, None]).max()))),),
            spans=(said.ends,),
            says=f"every one of the {size:,} odds ratios of the whole population, from which the {many} were drawn at "
            f"random, lies in its interval{self._after}, all at once; a ratio above {largest} counts as that, and one "
            f"below 1/{largest} likewise. The intervals cover the noise and the sampling.",
            **rows,
        )

    @property
    def _after(self) -> str:
        universe = self.schema.universe
        return after_clamping(tuple(universe[name] for name in self.statistic.predictors if universe[name].is_numeric))


@dataclass(frozen=True, kw_only=True)
class _Score:
    """Ũ of noisy counts. Attributes as in `CellCounts.odds`."""

    design: Floats
    counts: Floats
    variance: float
    rows_of_unit: int

    def probabilities(self, b: Floats) -> Floats:
        p: Floats = expit(self.design @ b)
        return p

    def hessian(self, p: Floats) -> Floats:
        found: Floats = (self.design.T * (p * (1 - p) * self.counts.sum(axis=0))) @ self.design
        return found

    def squares(self, matrix: Floats) -> Floats:
        """xᵀ A x of each cell."""
        found: Floats = ((self.design @ matrix) * self.design).sum(axis=1)
        return found

    def root(self) -> Floats | None:
        """The b with Ũ(b) = 0; None where it lies too far off, or H is not positive definite on the way."""
        b = np.zeros(self.design.shape[1])
        for _ in range(_STEPS):
            p = self.probabilities(b)
            inverse = _inverse(self.hessian(p))
            if inverse is None:
                return None
            step = inverse @ (self.design.T @ ((1 - p) * self.counts[0] - p * self.counts[1]))
            moved = float(np.abs(self.design @ step).max())
            b = b + step * min(1.0, _STEP / moved) if moved else b
            if not np.abs(self.design @ b).max() <= _FAR:
                return None
            if moved < _NO_STEP:
                return b
        return None

    def covariance(self, p: Floats) -> Floats:
        """Of Ũ."""
        having, others = self.variance + self.rows_of_unit * self.counts
        found: Floats = (self.design.T * ((1 - p) ** 2 * having + p**2 * others)) @ self.design
        return found

    def variances(self, squares: Floats, p: Floats) -> tuple[float, float]:
        """Of aᵀŨ, by a² in each cell: of the noise, and of the sampling, which is seldom more."""
        having, others = (1 - p) ** 2, p**2
        noise = self.variance * float(squares @ (having + others))
        doubt = sqrt(self.variance * float(squares**2 @ (having**2 + others**2)))
        rows = float(squares @ (having * self.counts[0] + others * self.counts[1]))
        return noise, self.rows_of_unit * max(rows - float(ndtri(_NUISANCE)) * doubt, 0.0)

    def reach(
        self, fitted: Floats, v: Floats, j: int, *, second: float, farthest: float, within: Within, beta: float
    ) -> tuple[float, float]:
        """How far below and above the estimate the j-th coefficient can be; at most `farthest`."""
        a, line, p = self.design @ v, self.design @ fitted, self.probabilities(fitted)
        squares, path = a**2, a / v[j]
        noise, rows = self.variances(squares, p)
        weights = np.sort(np.abs(np.concatenate([a * (1 - p), a * p])))[::-1] * sqrt(self.variance)
        others = float((weights[_LARGEST:] ** 2).sum())
        # How many deviations the law keeps within hardly changes along the path.
        start = within(weights[:_LARGEST], others + rows, beta)
        deviations = start / sqrt(noise + rows)

        def beyond(s: float) -> float:
            q = expit(line + s * path)
            of_score = abs(float(a @ ((1 - q) * self.counts[0] - q * self.counts[1])))
            return of_score - deviations * sqrt(sum(self.variances(squares, q))) - second

        return -_crossing(beyond, -start, -farthest), _crossing(beyond, start, farthest)


def _inverse(matrix: Floats) -> Floats | None:
    """None where it is not positive definite, or next to singular: which of them it is depends on the rows, so no
    error tells."""
    try:
        root = np.linalg.cholesky(matrix)
        inverse: Floats = cho_solve((root, True), np.eye(len(matrix)))
    except (np.linalg.LinAlgError, ValueError):
        return None
    return inverse if np.isfinite(inverse).all() else None


def _crossing(beyond: Callable[[float], float], start: float, farthest: float) -> float:
    """The first s from 0 on at which it is above 0; the farthest, where there is none."""
    s = start
    while abs(s) < abs(farthest):
        if beyond(s) > 0:
            return float(brentq(beyond, 0.0, s, xtol=_PRECISE * abs(s)))
        s *= _LONGER
    return farthest


def _rounded(estimates: Floats, ends: Floats) -> Odds:
    """With four digits of each interval's width, ends outwards."""
    outer = np.array([rounded_outwards(Fraction(low), Fraction(high)) for low, high in ends.tolist()])
    places = [places_of(high - low) for low, high in ends.tolist()]
    rounded = np.array([round(each, last) for each, last in zip(estimates.tolist(), places, strict=True)])
    return Odds(estimates=np.clip(rounded, outer[:, 0], outer[:, 1]), ends=outer)


def _listed(compared: Iterable[str], factors: Floats) -> str:
    """A few of them one by one, of more the largest."""
    each = [f"{shown(Fraction(factor), up=True)} {what}" for what, factor in zip(compared, factors, strict=False)]
    return in_one_line(each) if len(each) <= _NAMED else f"{shown(Fraction(float(factors[:-1].max())), up=True)}"
