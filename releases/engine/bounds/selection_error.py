"""How far off a choice can be, over the worst table: exact probabilities of selections and of comparisons.

A theorem such as Dwork and Roth (2014), Corollary 3.12, sums over candidates. Here the worst table is found instead,
and the probability computed for it, so that a bound is the least that can be proved before the release: no smaller
alpha holds for every table. Whole numbers are meant throughout; rates and scales are floats, because no privacy
decision is made here, and `least_alpha` rounds outwards.

Discrete Laplace noise of scale t has P(x) = (1 - r) / (1 + r) r**|x| with r = exp(-1/t). Where a sum over its values
would be long, runs of neighbouring values are put together and the worse end of each run stands for all of it: the
probability of a failure is then somewhat above the exact one, never below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

#: Relative allowance for rounding, far above what double precision loses below.
_SLACK = 1e-9
#: Values of noise that are put together are at most so small a part of its scale: alpha grows by about as much.
_RUNS_IN_A_SCALE = 256
#: Below this a probability is computed by its first terms, where the closed form would cancel.
_SMALL = 1e-6


def least_alpha(miss: Callable[[int], float], *, beta: float) -> int:
    """The least whole alpha, at least 0, with miss(alpha) <= beta, where miss(alpha) falls to 0 as alpha grows."""
    allowed = beta * (1 - _SLACK)
    if miss(0) <= allowed:
        return 0
    low, high = 0, 1
    while miss(high) > allowed:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if miss(middle) <= allowed else (middle, high)
    return high


def share_of_each(beta: float, *, rounds: int) -> float:
    """1 - (1 - beta)^(1/k): what each of k rounds may fail with, whatever came before, if all are to hold together."""
    return float(-np.expm1(np.log1p(-beta) / rounds))


# Selections: Pr[the score of the chosen one is below the best by `gap` or more], gap >= 1


def exponential_miss(*, candidates: int, rate: float, gap: int) -> float:
    """With probabilities proportional to exp(rate * score), over the worst scores.

    Let B be the weight of those `gap` or more below the best, in units of the best's, G >= 1 that of the others:
    B / (B + G) grows with B <= (candidates - 1) exp(-rate gap) and falls with G. Both are reached at once, when one is
    best and all others are exactly `gap` below.
    """
    odds = (candidates - 1) * np.exp(-rate * gap)
    return float(odds / (1 + odds))


def permute_and_flip_miss(*, candidates: int, rate: float, gap: int) -> float:
    """By permute-and-flip with coins exp(rate * (score - best)), over the worst scores.

    Of the candidates whose coin comes up one is chosen evenly. More coins of bad candidates, and fewer of good ones,
    make a bad choice likelier, so again all but one best are exactly `gap` below. Let K of those m - 1 coins come up,
    each with q = exp(-rate gap): E[K / (K + 1)] = 1 - (1 - (1 - q)^m) / (m q).
    """
    q = float(np.exp(-rate * gap))
    if candidates * q < _SMALL:
        return (candidates - 1) * q / 2  # K / (K + 1) <= K / 2
    return float(1 + np.expm1(candidates * np.log1p(-q)) / (candidates * q)) if q < 1 else 1 - 1 / candidates


def noisy_max_miss(*, candidates: int, scale: float, gap: int, left_out: float) -> float:
    """By the largest score after discrete Laplace noise, ties broken evenly, over the worst scores.

    With everybody's noise fixed, raising a bad candidate's score, or lowering a good one's that is not the best, can
    only turn a good choice into a bad one; so all but one best are exactly `gap` below. Given its noise x, let F be the
    distribution function of theirs: with y = x + gap and m candidates the best wins with probability
    (F(y)^m - F(y - 1)^m) / (m P(y)), ties included, which grows with x.

    Args:
        left_out: noise of the best beyond what has this probability is counted as a bad choice.
    """
    first, _, mass = _runs(scale, left_out=left_out)
    y = first + gap
    above, at = np.exp(_log_above(y, scale)), np.exp(_log_at(y, scale))
    with np.errstate(divide="ignore", invalid="ignore"):
        wins = np.exp(candidates * _log_up_to(y, scale)) - np.exp(candidates * _log_up_to(y - 1, scale))
        loses = 1 - wins / (candidates * at)
    few = (candidates - 1) * (above + at / 2)  # the sum over the others, each winning a tie half the time
    loses = np.where(candidates * (above + at) < _SMALL, few, np.clip(loses, 0, 1))
    return float((mass * loses).sum() + left_out)


# Comparisons with a noisy threshold


def comparisons_miss(
    *, threshold_scale: float, query_scale: float, questions: int, answers: int, alpha: int, left_out: float
) -> float:
    """Pr[a count is said to be above and is below T - alpha, or is said to be below and is above T + alpha].

    Whole counts q, threshold T, discrete Laplace noise z on T, drawn once, and x on each count: a count is said to be
    above when q + x >= T + z, and after `answers` of these nothing more is asked. A count at T - alpha - 1 ("low")
    is said to be above when x > z + alpha, one at T + alpha + 1 ("high") below when x < z - alpha - 1; further from T
    either is rarer, and counts between cannot fail. Until the first failure every high one asked is said to be above,
    so at most h = min(answers, questions) of them are asked; first all low ones and then h high ones is the worst
    order. Given z failures are independent, so with F the distribution function of x

        Pr[none] = E[F(alpha + z)^(k - h) F(alpha + 1 - z)^h],

    which is log-convex in h (Hölder), so its least value over h = 0 ... min(answers, questions) is found by bisection.
    """
    first, last, mass = _runs(threshold_scale, left_out=left_out)
    low, high = _log_up_to(first + alpha, query_scale), _log_up_to(alpha + 1 - last, query_scale)

    def fails(highs: int) -> float:
        return float(-(mass * np.expm1((questions - highs) * low + highs * high)).sum() + left_out)

    start, end = 0, min(answers, questions)
    while start < end:
        middle = (start + end) // 2
        start, end = (middle + 1, end) if fails(middle + 1) > fails(middle) else (start, middle)
    return fails(start)


# A value drawn near the true one


def nearness_miss(*, steps: int, rate: float, gap: int) -> float:
    """Pr[the value is `gap` or more from f], drawn from 0 ... steps proportionally to exp(-rate |value - f|).

    Over the worst f. Moving f by one from s towards the nearer end takes the distance s from the sum and adds the
    distance steps - s + 1, with less weight. While s >= gap that takes the same from bad and from all, so the
    probability falls; once s < gap it takes from the good ones alone and it rises: the worst f is in the middle or at
    an end.
    """
    if gap > steps:
        return 0.0

    def weight(low: int, high: int) -> float:
        """The sum of exp(-rate d) over d = low ... high, in units of 1 / (1 - exp(-rate))."""
        return float(-np.exp(-rate * low) * np.expm1(-rate * (high - low + 1))) if low <= high else 0.0

    near = steps // 2
    far = steps - near
    middle = (weight(gap, near) + weight(gap, far)) / (weight(0, near) + weight(1, far))
    return max(middle, weight(gap, steps) / weight(0, steps))


# The law of discrete Laplace noise, in logarithms


def _runs(scale: float, *, left_out: float) -> tuple[Floats, Floats, Floats]:
    """Runs of neighbouring values: the first and the last of each, and the probability of the run.

    They cover all values but the largest in size, which together have probability at most `left_out`.
    """
    width = max(1, int(scale / _RUNS_IN_A_SCALE))
    count = int(-scale * np.log(left_out) / width) + 2
    start = np.arange(count, dtype=np.float64) * width
    end = start + width - 1
    mass = -np.exp(-start / scale) * np.expm1(-width / scale) / (1 + np.exp(-1 / scale))
    # The values start ... end, and -1 - end ... -1 - start, each of which is rarer by one step.
    first, last = np.concatenate([start, -1 - end]), np.concatenate([end, -1 - start])
    return first, last, np.concatenate([mass, mass * np.exp(-1 / scale)])


def _log_at(x: Floats, scale: float) -> Floats:
    """ln Pr[X = x]."""
    log_at: Floats = -np.abs(x) / scale + np.log(-np.expm1(-1 / scale)) - np.log1p(np.exp(-1 / scale))
    return log_at


def _log_up_to(x: Floats, scale: float) -> Floats:
    """ln Pr[X <= x]: for x < 0 the sum of the tail, for x >= 0 one less that of the other side."""
    beyond = np.exp(-(np.maximum(x, 0) + 1) / scale) / (1 + np.exp(-1 / scale))
    log_up_to: Floats = np.where(x < 0, x / scale - np.log1p(np.exp(-1 / scale)), np.log1p(-beyond))
    return log_up_to


def _log_above(x: Floats, scale: float) -> Floats:
    """ln Pr[X > x], by symmetry that of X < -x."""
    return _log_up_to(-x - 1, scale)
