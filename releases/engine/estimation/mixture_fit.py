"""A mixture of products fitted to noisy marginals of up to three attributes.

Minimised over the shares s and the conditionals P (`mixture`) is

    sum over tables S of |n p_S - y_S|^2 / (2 v_S)  +  2 lambda sum_k s_k sum_a KL(P_a(. | k) || p_a)

with y_S the noisy counts, v_S the variance of their noise, n the number of rows and p_a the mixture's own marginal. The
second term is the information that a row's component has about its attributes. It acts like a trace norm on the matrix
of all correlations: what many tables have in common is cheap, what a single one has is dear, so tables lend each other
strength and noise is not fitted.

lambda is c times the level at which the noise alone would begin to be fitted: near a product, a component gains as much
as the largest eigenvalue of the weighted noise in the metric of the one-way marginals (the chi-square metric). That
eigenvalue is simulated from the variances, which are public, and the noisy one-way marginals.

Adam on the logarithms, in single precision. A step costs two products of matrices for all pairs together, and three for
every group of triples that share their two smaller attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.population import one_population
from releases.engine.errors import InvalidInput
from releases.engine.estimation.fit import NoisyMarginal
from releases.engine.estimation.levels import Levels
from releases.engine.estimation.marginals import Axes
from releases.engine.estimation.mixture import Floats, Mixture
from releases.engine.noise.randomness import Randomness

#: Rates of the two moving averages of Adam (Kingma and Ba 2015), the second shorter than usual: few steps are made.
_FIRST, _SECOND = 0.9, 0.99
#: Noise of a smaller variance than this, in rows, is treated as this: nothing is gained by fitting it closer.
_MIN_VARIANCE = 0.02
#: A probability is taken to be at least this where its logarithm is needed.
_LEAST = 1e-12
#: How far the components lie apart at the start, in logarithms.
_APART = 0.5
#: Steps of the power iteration for the largest eigenvalue: it is needed to a few per cent.
_POWERS = 40


def fit_mixture(
    shape: Sequence[int],
    measured: Sequence[NoisyMarginal],
    *,
    rows: float,
    components: int,
    strength: float,
    steps: int,
    rate: float,
    rng: Randomness,
    start: Mixture | None = None,
    levels: Levels | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Mixture:
    """Fit a mixture to noisy marginals.

    Args:
        shape: bins of each attribute; a one-way marginal of each is among the measured ones.
        measured: noisy marginals over one, two or three attributes. The same one may be there more than once.
        levels: what the triples among them count in the place of bins; bins themselves otherwise.
        rows: number of rows, as released.
        components: of the mixture; of `start` where that is given.
        strength: c of the head of this file.
        steps, rate: of the descent; over its second half the rate falls to 0.
        rng: for the start and the simulated noise.
        start: where to begin; components around the product of the one-way marginals otherwise.
        progress: called between steps with the share done; may raise to stop.
    """
    target = _Target.of(tuple(shape), measured, rows, levels or Levels.of_bins(shape))
    descent = _Descent.from_mixture(start) if start else _Descent.around(target, components, rng)
    penalty = strength * target.noise_level(rng)
    for step in range(steps):
        progress(step / steps)
        descent.step(target, penalty, rate * min(1.0, 2 * (1 - step / steps)))
    return descent.mixture()


def fit_operations(*, bins: int, components: int, steps: int, cells: float = 0.0) -> float:
    """Multiplications of numbers that a fit takes: one product of matrices, and two for the gradient, for all pairs and
    for `cells` cells of triples.
    """
    return 6.0 * steps * components * (bins**2 + cells)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Group:
    """Measured triples that share two attributes.

    Attributes:
        first, second: rows of the two attributes among the stacked levels.
        thirds: rows of the third attributes.
        shares: what was measured, one row a cell of the first two, one column a row of `thirds`.
        weights: of each column.
    """

    first: slice
    second: slice
    thirds: NDArray[np.int64]
    shares: Floats
    weights: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class _Target:
    """Everything that was measured, as shares of the rows, each with its weight n^2 / (2 v).

    Attributes:
        shape: of the universe.
        one, one_weights: the one-way marginals, stacked.
        two, two_weights: all pairs as one symmetric matrix; weight 0 where nothing was measured.
        levels: of the triples.
        groups: the triples.
        extra: what the triples add to the weights of pairs of levels, for the level of the noise.
    """

    shape: tuple[int, ...]
    one: Floats
    one_weights: Floats
    two: Floats
    two_weights: Floats
    levels: Levels
    groups: tuple[_Group, ...]
    extra: Floats

    @staticmethod
    def of(shape: tuple[int, ...], measured: Sequence[NoisyMarginal], rows: float, levels: Levels) -> _Target:
        place = _places(shape)
        size = sum(shape)
        one, one_weights = np.zeros(size), np.zeros(size)
        two, two_weights = np.zeros((size, size), np.float32), np.zeros((size, size), np.float32)
        triples: list[tuple[Axes, Floats, float]] = []
        for table in _combined(measured):
            weight, shares = rows * rows / (2 * table.variance), table.table / rows
            at = [place[axis] for axis in table.axes]
            if len(at) == 1:
                one[at[0]], one_weights[at[0]] = shares, weight
            elif len(at) == 2:
                two[at[0], at[1]], two[at[1], at[0]] = shares, shares.T
                two_weights[at[0], at[1]] = two_weights[at[1], at[0]] = weight
            elif len(at) == 3:
                triples.append((table.axes, shares.astype(np.float32), weight))
            else:
                raise InvalidInput("measured", table.axes, "must be over one, two or three attributes")
        if not one_weights.all():
            raise InvalidInput("measured", len(measured), "must hold a marginal of each attribute")
        return _Target(
            shape=shape,
            one=one.astype(np.float32),
            one_weights=one_weights.astype(np.float32),
            two=two,
            two_weights=two_weights,
            levels=levels,
            groups=_grouped(triples, _places(levels.shape), levels.shape),
            extra=_extra(triples, levels.sums(np.maximum(one, 0)), levels.shape),
        )

    def noise_level(self, rng: Randomness) -> float:
        """The largest eigenvalue of D^1/2 (w o noise) D^1/2, D the one-way probabilities: of one draw of the noise.

        The weighted noise of a pair with weight w has standard deviation (w / 2)^1/2.
        """
        size = len(self.one)
        root = np.sqrt(np.maximum(self.one, 1e-6))
        noise = _symmetric_noise(self.two_weights, rng)
        if self.groups:
            noise += self.levels.spread(self.levels.spread(_symmetric_noise(self.extra, rng)).T)
        noise *= root[:, None] * root
        vector, level = normals(size, rng), 0.0
        for _ in range(_POWERS):
            vector = noise @ (noise @ vector)
            level = float(np.linalg.norm(vector))
            if not level > 0:
                return 0.0
            vector /= level
        return sqrt(level)


def _symmetric_noise(weights: Floats, rng: Randomness) -> Floats:
    """Weighted noise of a symmetric matrix: its standard deviation is (w / 2)^1/2."""
    size = len(weights)
    noise = np.triu(normals(size * size, rng).reshape(size, size), 1)
    noise += noise.T
    noise *= np.sqrt(weights / 2)
    return noise


def _places(shape: Sequence[int]) -> list[slice]:
    """The rows of each attribute among the stacked ones."""
    ends = np.cumsum(shape).tolist()
    return [slice(end - length, end) for end, length in zip(ends, shape, strict=True)]


def _extra(triples: Sequence[tuple[Axes, Floats, float]], likely: NDArray[Any], shape: Sequence[int]) -> Floats:
    """See `_Target`: a triple tells of two of its attributes with the weight times the sum of squares of the third."""
    place = _places(shape)
    extra = np.zeros((len(likely), len(likely)), np.float32)
    for axes, _, weight in triples:
        for alone in axes:
            first, second = (place[axis] for axis in axes if axis != alone)
            added = weight * float((likely[place[alone]] ** 2).sum())
            extra[first, second] += added
            extra[second, first] += added
    return extra


def _combined(measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """One table for each set of attributes, axes ascending: the inverse-variance mean of those there are."""
    sums: dict[Axes, tuple[NDArray[np.float64], float]] = {}
    for each in measured:
        order = tuple(int(place) for place in np.argsort(each.axes))
        axes = tuple(each.axes[place] for place in order)
        weight = 1 / max(each.variance, _MIN_VARIANCE)
        table, known = sums.get(axes, (np.zeros(1), 0.0))
        sums[axes] = (table + weight * each.table.transpose(order), known + weight)
    population = one_population(each.population for each in measured)
    return [
        NoisyMarginal(axes=axes, table=table / weight, variance=1 / weight, population=population)
        for axes, (table, weight) in sums.items()
    ]


def _grouped(
    triples: Sequence[tuple[Axes, Floats, float]], place: Sequence[slice], shape: tuple[int, ...]
) -> tuple[_Group, ...]:
    """Triples by their two smaller attributes: so many rows has the matrix that the third ones are multiplied with."""
    members: dict[tuple[int, int], list[tuple[int, Floats, float]]] = {}
    for axes, shares, weight in triples:
        order = sorted(range(3), key=lambda at: (shape[axes[at]], at))
        first, second, third = (axes[at] for at in order)
        members.setdefault((first, second), []).append((third, shares.transpose(order), weight))
    groups = []
    for (first, second), held in members.items():
        lengths = [shape[third] for third, _, _ in held]
        groups.append(
            _Group(
                first=place[first],
                second=place[second],
                thirds=np.concatenate([np.arange(place[third].start, place[third].stop) for third, _, _ in held]),
                shares=np.ascontiguousarray(
                    np.concatenate([each.reshape(-1, each.shape[-1]) for _, each, _ in held], axis=1)
                ),
                weights=np.repeat([weight for _, _, weight in held], lengths).astype(np.float32),
            )
        )
    return tuple(groups)


class _Descent:
    """The mixture on its way: logarithms of the conditionals and of the shares, and Adam's moving averages.

    Args:
        shape: of the universe.
        logs: of the conditionals up to a constant a column and attribute, shape (sum of bins, K).
        share_logs: of the shares up to a constant, shape (K,).
    """

    def __init__(self, shape: tuple[int, ...], logs: Floats, share_logs: Floats) -> None:
        self.shape = shape
        self.blocks = _places(shape)
        self.logs, self.share_logs = logs, share_logs
        self.averages = [np.zeros_like(each) for each in (logs, logs, share_logs, share_logs)]
        self.steps = 0
        self._normalise()

    @staticmethod
    def around(target: _Target, components: int, rng: Randomness) -> _Descent:
        """Components around the product of the one-way marginals, each a little off."""
        around = np.log(np.maximum(target.one, 1e-6))[:, None]
        off = _APART * normals(len(target.one) * components, rng).reshape(-1, components)
        return _Descent(target.shape, around + off, np.zeros(components, np.float32))

    @staticmethod
    def from_mixture(mixture: Mixture) -> _Descent:
        logs, share_logs = (np.log(np.maximum(each, _LEAST)) for each in (mixture.stacked, mixture.shares))
        return _Descent(mixture.shape, logs, share_logs)

    def mixture(self) -> Mixture:
        return Mixture(shape=self.shape, shares=self.shares, stacked=self.stacked)

    def _normalise(self) -> None:
        """The probabilities that belong to the logarithms, which are made to be logarithms of probabilities."""
        self.logs = np.maximum(self.logs, -60)
        self.stacked = np.exp(self.logs)
        for block in self.blocks:
            total = self.stacked[block].sum(axis=0)
            self.stacked[block] /= total
            self.logs[block] -= np.log(total)
        self.share_logs -= self.share_logs.max()
        shares = np.exp(self.share_logs)
        self.shares: Floats = shares / shares.sum()

    def step(self, target: _Target, penalty: float, rate: float) -> None:
        """One step down, in place."""
        by_stacked, by_shares = self._gradient(target, penalty)
        by_logs = self.stacked * by_stacked
        for block in self.blocks:
            by_logs[block] -= self.stacked[block] * by_logs[block].sum(axis=0)
        by_share_logs = self.shares * (by_shares - float(self.shares @ by_shares))
        self.steps += 1
        self._move(self.logs, by_logs, self.averages[0], self.averages[1], rate)
        self._move(self.share_logs, by_share_logs, self.averages[2], self.averages[3], rate)
        self._normalise()

    def _move(self, at: Floats, slope: Floats, first: Floats, second: Floats, rate: float) -> None:
        first *= _FIRST
        first += (1 - _FIRST) * slope
        second *= _SECOND
        second += (1 - _SECOND) * slope * slope
        scale = np.sqrt(second / np.float32(1 - _SECOND**self.steps))
        scale += 1e-12
        at -= np.float32(rate / (1 - _FIRST**self.steps)) * first / scale

    def _gradient(self, target: _Target, penalty: float) -> tuple[Floats, Floats]:
        """Of the objective, by the conditionals and by the shares."""
        stacked, shares = self.stacked, self.shares
        joint = stacked * shares
        one = joint.sum(axis=1)
        off = joint @ stacked.T
        off -= target.two
        off *= target.two_weights
        pulled = off @ stacked
        # Every pair is in the symmetric matrix twice, and in the objective once.
        by_shares = np.einsum("ik,ik->k", stacked, pulled)
        alone = target.one_weights * (one - target.one)
        by_shares += 2 * (alone @ stacked)
        pulled += alone[:, None]
        pulled *= 2
        if penalty:
            apart = self.logs - np.log(np.maximum(one, _LEAST))[:, None]
            apart *= 2 * penalty
            pulled += apart
            by_shares += np.einsum("ik,ik->k", stacked, apart)
        by_stacked = pulled * shares
        if target.groups:
            levels = target.levels.sums(stacked)
            by_levels = np.zeros_like(levels)
            for group in target.groups:
                self._add_triples(group, levels, by_levels, by_shares)
            by_stacked += target.levels.spread(by_levels)
        return by_stacked, by_shares

    def _add_triples(self, group: _Group, levels: Floats, by_levels: Floats, by_shares: Floats) -> None:
        """The triples' part of the gradient, by the levels' probabilities, added in place."""
        first, second, thirds = levels[group.first], levels[group.second], levels[group.thirds]
        joint = first * self.shares
        both = (joint[:, None, :] * second).reshape(-1, len(self.shares))
        off = both @ thirds.T
        off -= group.shares
        off *= 2 * group.weights
        by_levels[group.thirds] += off.T @ both
        by_both = (off @ thirds).reshape(len(first), len(second), -1)
        by_levels[group.second] += np.einsum("abk,ak->bk", by_both, joint)
        by_both *= second
        by_first = by_both.sum(axis=1)
        by_levels[group.first] += by_first * self.shares
        by_shares += np.einsum("ak,ak->k", by_first, first)


def normals(count: int, rng: Randomness) -> Floats:
    """Standard normal numbers for what needs no exact law: starts and simulations of noise. Never noise itself."""
    words = rng.words(-(-count // 2))
    # Two uniform numbers of 32 bits make two normal ones (Box and Muller 1958).
    radius = np.sqrt(-2 * np.log(((words >> np.uint64(32)) + 0.5) / 2.0**32))
    angle = 2 * pi * ((words & np.uint64(0xFFFFFFFF)) / 2.0**32)
    drawn = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
    return drawn.astype(np.float32)
