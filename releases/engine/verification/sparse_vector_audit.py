"""What sparse-vector mechanisms lose exactly: ours reach what they claim and no more, published wrong ones exceed it.

The probability of a whole answer, so many counts said to be below the threshold and so many above, is a sum over the
threshold's noise (`mechanisms.thresholds`), and the privacy loss is the logarithm of its ratio between neighbours. The
sum is over whole numbers, as the mechanisms draw them, with a count that one row moves by one. Nothing is simulated:
what is found is right to about ten digits. The worst counts are looked for on a grid far above and below the threshold,
where the loss tends to its least upper bound.

The wrong variants are those that Lyu, Su and Li (2017), Figure 1, collect, each published with a proof: their
Algorithm 3 (Roth's lecture notes, 2011), 4 (Lee and Clifton, 2014), 5 (Stoddard, Chen and Machanavajjhala, 2014) and
6 (Chen, Xiao, Zhang and Xu, 2015); and the half of the noise that is right for counts that move one way, used on
counts that do not. A check that let them pass would be worth nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.mechanisms.thresholds import Comparisons

Floats: TypeAlias = NDArray[np.float64]
#: How the counts said to be below, and those said to be above, differ in the neighbour.
Move: TypeAlias = tuple[int, int]

#: Counts that all move the same way: a row added, a row removed.
ONE_WAY: tuple[Move, ...] = ((0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1))
#: Counts of which each moves as it likes: a row replaced.
ANY_WAY: tuple[Move, ...] = tuple((a, b) for a, b in product((-1, 0, 1), repeat=2) if (a, b) != (0, 0))
#: Where counts are put, in scales of noise from the threshold. From 30 on the loss is at its limit to ten digits.
_FAR = 40
#: Counts said to be below before those said to be above.
_BELOW = 20
#: Relative error of the sums, and how near a claim must come to be called reached.
_ROUNDING = 1e-9
_REACHED = 0.999


@dataclass(frozen=True, kw_only=True, slots=True)
class LossCheck:
    """The loss of one variant.

    Attributes:
        variant: what it is, and with how many answers.
        claimed: the epsilon it was published, or is charged, with.
        exact: the largest loss found; infinite where an answer is possible for one table and not for its neighbour.
        is_private: whether it is proved to keep its claim.
        source: where it is from.
    """

    variant: str
    claimed: float
    exact: float
    is_private: bool
    source: str

    @property
    def is_as_it_should_be(self) -> bool:
        """A private one loses what it claims and no more, a wrong one more than it claims."""
        if self.is_private:
            return _REACHED * self.claimed <= self.exact <= self.claimed * (1 + _ROUNDING)
        return self.exact > self.claimed * (1 + 1e-3)


def loss_checks(*, epsilon: Fraction = Fraction(1)) -> list[LossCheck]:
    """Ours for 1, 2 and 5 answers under both relations, and the published wrong ones; each claims `epsilon`."""
    return [*_ours(epsilon), *_wrong(epsilon)]


def _ours(epsilon: Fraction) -> Iterable[LossCheck]:
    for relation, answers in product(NeighbouringRelation, (1, 2, 5)):
        monotone = relation is NeighbouringRelation.ADD_REMOVE
        noise = Comparisons.within(epsilon, answers=answers, sensitivity=1, monotone=monotone)
        yield LossCheck(
            variant=f"ours, {answers} above, {relation.value}",
            claimed=float(epsilon),
            exact=worst_loss(
                threshold_scale=noise.threshold_scale,
                query_scale=noise.query_scale,
                above=answers,
                moves=ONE_WAY if monotone else ANY_WAY,
            ),
            is_private=True,
            source="Lyu, Su and Li (2017), Algorithm 1",
        )
    noise = Comparisons.within(epsilon * Fraction(3, 4), answers=5, sensitivity=1, monotone=False)
    yield LossCheck(
        variant="ours with values, 5 above, replace",
        claimed=float(epsilon),
        exact=worst_loss(
            threshold_scale=noise.threshold_scale,
            query_scale=noise.query_scale,
            value_scale=5 / (epsilon / 4),
            above=5,
            moves=ANY_WAY,
        ),
        is_private=True,
        source="Lyu, Su and Li (2017), Algorithm 1",
    )


def _wrong(epsilon: Fraction) -> Iterable[LossCheck]:
    def check(variant: str, exact: float, source: str) -> LossCheck:
        return LossCheck(variant=variant, claimed=float(epsilon), exact=exact, is_private=False, source=source)

    half = 2 / epsilon
    for answers in (1, 2, 5):
        one_way = Comparisons.within(epsilon, answers=answers, sensitivity=1, monotone=True)
        exact = worst_loss(
            threshold_scale=one_way.threshold_scale, query_scale=one_way.query_scale, above=answers, moves=ANY_WAY
        )
        yield check(f"noise for counts that move one way on others, {answers} above", exact, "a misuse of Algorithm 1")
    for answers in (1, 2, 5):
        exact = worst_loss(threshold_scale=4 / epsilon, query_scale=4 / (3 * epsilon), above=answers, moves=ANY_WAY)
        yield check(f"noise that does not grow with the answers, {answers} above", exact, "Lee and Clifton (2014)")
    for above in (1, 5, 20):
        exact = worst_loss(threshold_scale=half, query_scale=half, above=above, moves=ANY_WAY)
        yield check(f"no end after so many answers, {above} above", exact, "Chen, Xiao, Zhang and Xu (2015)")
    exact = worst_loss(threshold_scale=half, query_scale=Fraction(0), above=1, moves=ANY_WAY, below=1)
    yield check("no noise on the counts", exact, "Stoddard, Chen and Machanavajjhala (2014)")
    for below in (5, 20):
        exact = worst_loss_of_tested_value(threshold_scale=half, query_scale=half, below=below, moves=ANY_WAY)
        yield check(f"tells the number it compared, after {below} below", exact, "Roth, lecture notes (2011)")


def worst_loss(
    *,
    threshold_scale: Fraction,
    query_scale: Fraction,
    above: int,
    moves: Iterable[Move],
    below: int = _BELOW,
    value_scale: Fraction | None = None,
) -> float:
    """The largest loss of the answer "`below` counts below, then `above` counts above".

    Args:
        threshold_scale, query_scale: of discrete Laplace noise on the threshold and on each count; 0 for none.
        moves: how counts may differ between neighbours.
        value_scale: of fresh noise on the counts said to be above, which are told; such a number may lie on either
            side, so it always adds to the loss.
    """
    grid = _grid(threshold_scale, query_scale)

    def log_probability(low: int, high: int) -> float:
        noise, mass = _threshold_noise(threshold_scale, grid)
        return float(
            logsumexp(
                mass
                + below * _log_up_to(noise - low - 1, query_scale)
                + above * _log_up_to(high - noise, query_scale)  # Pr[x >= z - high], by symmetry
            )
        )

    lost_by_values = Fraction(0) if value_scale is None else above / value_scale
    return _worst(log_probability, grid, moves, lost_by_values=lost_by_values)


def worst_loss_of_tested_value(
    *, threshold_scale: Fraction, query_scale: Fraction, below: int, moves: Iterable[Move]
) -> float:
    """The largest loss of "`below` counts below, then one above, whose noisy value that was compared is v"."""
    grid = _grid(threshold_scale, query_scale)
    rate = 1 / float(query_scale)

    def log_probability(low: int, high: int) -> float:
        # v = grid[0] tells that the threshold's noise was at most that; only the difference v - high matters besides.
        noise, mass = _threshold_noise(threshold_scale, grid)
        told = noise <= grid[0]
        log_sum = logsumexp(mass[told] + below * _log_up_to(noise[told] - low - 1, query_scale))
        return float(log_sum - rate * abs(int(grid[0]) - high))

    return _worst(log_probability, grid, moves)


def _worst(
    log_probability: Callable[[int, int], float],
    grid: NDArray[np.int64],
    moves: Iterable[Move],
    *,
    lost_by_values: Fraction = Fraction(0),
) -> float:
    worst: float = 0.0
    tried = tuple(moves)
    for low, high in product(grid.tolist(), repeat=2):
        one = log_probability(low, high)
        for move_low, move_high in tried:
            other = log_probability(low + move_low, high + move_high)
            if np.isinf(one) and np.isinf(other):
                continue  # impossible for both
            worst = max(worst, float(abs(one - other) + abs(move_high) * float(lost_by_values)))
    return worst


def _grid(threshold_scale: Fraction, query_scale: Fraction) -> NDArray[np.int64]:
    """Distances of counts from the threshold at which losses are compared."""
    reach = int(_FAR * max(threshold_scale, query_scale))
    return np.array([-reach, -1, 0, reach])


def _threshold_noise(scale: Fraction, grid: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The values of the threshold's noise that matter for counts on this grid, and their log probabilities."""
    reach = int(grid[-1] + _FAR * max(float(scale), 1.0))
    noise = np.arange(-reach, reach + 1, dtype=np.float64)
    t = float(scale)
    return noise, -np.abs(noise) / t + np.log(-np.expm1(-1 / t)) - np.log1p(np.exp(-1 / t))


def _log_up_to(x: Floats, scale: Fraction) -> Floats:
    """ln Pr[X <= x] of discrete Laplace noise; of no noise where the scale is 0."""
    if scale == 0:
        with np.errstate(divide="ignore"):
            return np.log((x >= 0).astype(np.float64))
    t = float(scale)
    beyond = np.exp(-(np.maximum(x, 0) + 1) / t) / (1 + np.exp(-1 / t))
    log_up_to: Floats = np.where(x < 0, x / t - np.log1p(np.exp(-1 / t)), np.log1p(-beyond))
    return log_up_to
