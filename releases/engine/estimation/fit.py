"""The distribution over a universe that explains noisy marginals: a log-linear model with a prior, fitted whole.

Given noisy tables y_S of marginals S of an unknown table of n rows, with noise variance v_S in each cell, find

    p[x] proportional to exp(sum over A of t_A[x_A]),     A running over every subset of a measured S,

that minimises   sum_S |n p_S - y_S|^2 / (2 v_S)  +  sum_A sum_c h(z_A[c]),     t_A = s_|A| (x L_a) z_A.

The first term is the (Gaussian) log-likelihood of the noise. The second is a prior that says: effects of one
attribute are large, of two moderate, of three small (scales s_1, s_2, s_3), a few may be much larger (h is quadratic
near 0 and linear far out), and categories that behave alike in one table behave alike in others (the factors L_a).
So cells drowned in noise fall back on what lower orders say, and cells far above it are followed. How strongly the
prior pulls follows from the noise variances; its scales and factors are corrected by what the fit itself shows.
Everything here is post-processing of noisy tables: no privacy is spent, and no data are seen.

Method: Gauss-Newton steps, each solved by conjugate gradients. The Jacobian of the marginals in the potentials is
n times their covariance under p, so a product with it is one pass over the universe, without the universe ever being
stored (`marginals.Gibbs`). The problem is not convex; it is approached from noise a thousand times inflated, where
only the strongest effects show, down to the true noise, which finds better minima in fewer steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.population import Population, one_population
from releases.engine.errors import InvalidInput
from releases.engine.estimation.junction import Clique, CliqueGibbs, CliqueTree
from releases.engine.estimation.marginals import Axes, Gibbs, MarginalTree, TableRotation, marginal_tree
from releases.engine.estimation.ways import WayAxes, WayGibbs, WayTree

Floats = NDArray[np.float64]
Progress = Callable[[float], None]
#: How a distribution is summed: over the whole universe, clique by clique, or over what levels leave of either.
Tree = MarginalTree | CliqueTree | WayTree

#: Prior scale of the effects of one, two, three attributes (in the logarithm of the probability), and the factor
#: from each order to the next above three. They start the search; `_widen` and `_tune` correct them.
SCALES = (2.0, 0.5, 0.15)
_NEXT_ORDER = 0.3

#: How much the prior "categories are unlike one another" weighs against what the pair tables show, when learned.
_UNLIKE = 4.0

#: (inflation of the noise variance, Gauss-Newton steps at most, conjugate-gradient steps at most in each)
_STAGES = ((1000.0, 3, 10), (100.0, 2, 10), (10.0, 3, 20), (1.0, 4, 30))
_WIDER = (1.0, 3, 20)
_TUNED = (1.0, 2, 20)
_LAST = (1.0, 12, 30)

#: The scales are widened and tuned at most this often, by at most this factor a time.
_WIDENINGS = 3
_TUNINGS = 2
_MAX_WIDER = 2.0
_MAX_TUNED = 4.0

#: Multiples of squares by an irrational number are spread like random ones: signs without a generator.
_GOLDEN = 0.6180339887498949

#: Pseudo-effects at ratio 1, so that a scale does not move on the evidence of a handful.
_TUNE_WEIGHT = 10.0

#: Conjugate-gradient steps in which the number of decided effects must be known for a scale to be tuned.
_PROBE_STEPS = 80

#: Passes that a fit usually takes, for the share done.
_DEFAULT_PASSES = 1200

#: A stage ends when two steps in a row lower the objective by less than this share of it.
_TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class NoisyMarginal:
    """A noisy marginal.

    Attributes:
        axes: the attributes, as positions in the universe's shape.
        table: noisy counts, with axes in that order.
        variance: of the noise in each cell, independent between cells, above 0.
        population: what was counted; None of a table from elsewhere.
    """

    axes: Axes
    table: Floats
    variance: float
    population: Population | None

    def __post_init__(self) -> None:
        if not self.variance > 0 or not math.isfinite(self.variance):
            raise InvalidInput("measurements.variance", self.variance, "must be above 0 and finite")
        if not np.isfinite(self.table).all():
            raise InvalidInput("measurements.table", self.axes, "must hold finite numbers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """A fitted distribution.

    Attributes:
        weights: expected counts over the universe, float64 of its shape, non-negative, with sum `total`.
        total: rows.
        passes: over the universe, taken.
        loss: sum of squared residuals over noise variance, halved: about half of `degrees` when noise is what is left.
        degrees: of freedom, how many independent numbers were measured.
    """

    weights: Floats
    total: float
    passes: int
    loss: float
    degrees: int


def fit_marginals(
    shape: Sequence[int],
    measurements: Sequence[NoisyMarginal],
    *,
    total: float | None = None,
    order: int = 3,
    passes: int = 1500,
    progress: Progress | None = None,
    ways: WayAxes | None = None,
) -> Fit:
    """Fit a distribution over the universe of `shape` to noisy marginals.

    Args:
        shape: lengths of the attributes.
        measurements: at least one; the same axes may be measured more than once.
        total: the number of rows, where it is known; else the tables' sums decide.
        order: interactions of at most this many attributes are fitted; of larger tables, so much is used.
        passes: over the universe at most; 300 to 1,000 are usual, each about the time of writing the universe once.
        progress: called between steps with the share done so far; may raise to stop.
        ways: of the hierarchies of the universe; only cells that they allow get weight.

    Raises:
        InvalidInput: no table; or tables of several populations, as in all fits.
    """
    if not any(one.axes for one in measurements):
        raise InvalidInput("measurements", len(measurements), "must hold at least one table over an attribute")
    rows = measured_rows(measurements, total, None)
    effects = fitted_effects([one.axes for one in measurements], order)
    tree = WayTree(ways, effects) if ways else marginal_tree(tuple(shape), effects)
    solver = _Solver(tree, measurements, rows, passes, progress)
    solver.run()
    weights = tree.density(solver.prior.potentials(solver.at.z))
    weights *= rows
    return Fit(
        weights=weights,
        total=rows,
        passes=solver.passes,
        loss=solver.at.loss,
        degrees=solver.evidence.degrees,
    )


def fit_cliques(
    shape: Sequence[int],
    cliques: tuple[Clique, ...],
    measurements: Sequence[NoisyMarginal],
    *,
    total: float,
    order: int = 3,
    passes: int = 1500,
    progress: Progress | None = None,
    ways: WayAxes | None = None,
) -> tuple[Floats, ...]:
    """The same fit where every table lies within a clique of a junction tree: expected counts over each clique.

    The objective, its steps and when they end are those of `fit_marginals`; only the sums over the universe are made
    clique by clique.
    """
    one_population(one.population for one in measurements)
    effects = fitted_effects([one.axes for one in measurements], order)
    tree = WayTree(ways, effects, ways.collapsed(cliques)) if ways else CliqueTree(tuple(shape), cliques, effects)
    solver = _Solver(tree, measurements, total, passes, progress)
    solver.run()
    return tuple(total * table for table in tree.densities(solver.prior.potentials(solver.at.z)))


def measured_rows(measurements: Sequence[NoisyMarginal], total: float | None, variance: float | None) -> float:
    """The number of rows: inverse-variance mean of the tables' sums and `total`, at least 1.

    Raises:
        InvalidInput: the tables are of several populations, which have no number of rows in common.
    """
    one_population(one.population for one in measurements)
    if total is not None and variance is None:
        return max(float(total), 1.0)
    known = [(float(one.table.sum()), one.variance * one.table.size) for one in measurements]
    if total is not None and variance is not None:
        known.append((float(total), variance))
    weight = sum(1 / spread for _, spread in known)
    return max(sum(value / spread for value, spread in known) / weight, 1.0)


# --- the model ----------------------------------------------------------------------------------------------------


def _effects(measured: Sequence[Axes], order: int) -> tuple[Axes, ...]:
    """The subsets of measured sets of 1 to `order` attributes, ascending, smaller sets first."""
    found = {
        effect
        for axes in measured
        for size in range(1, min(order, len(axes)) + 1)
        for effect in itertools.combinations(axes, size)
    }
    return tuple(sorted(found, key=lambda axes: (len(axes), axes)))


def fitted_effects(measured: Sequence[Axes], order: int) -> tuple[Axes, ...]:
    """The sets of attributes whose effects are fitted to tables over those measured."""
    return _effects([tuple(sorted(axes)) for axes in measured], order)


def _scale(order: int) -> float:
    return SCALES[order - 1] if order <= len(SCALES) else SCALES[-1] * _NEXT_ORDER ** (order - len(SCALES))


class _Prior:
    """Potentials t = s (x L_a) z of standard coordinates z, and the penalty on z."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.each = np.repeat([_scale(len(axes)) for axes in tree.sets], np.diff(tree.offsets))
        self.factors: TableRotation | None = None
        self.squares: TableRotation | None = None

    def potentials(self, z: Floats) -> Floats:
        turned = z if self.factors is None else self.factors(z)
        return self.each * turned

    def pull(self, gradient: Floats) -> Floats:
        """The gradient in z of a function whose gradient in the potentials is given (the factors are symmetric)."""
        scaled = self.each * gradient
        return scaled if self.factors is None else self.factors(scaled)

    def stretch(self, ratios: Floats) -> None:
        """Multiply the scale of each effect."""
        self.each = self.each * ratios

    def learn(self, z: Floats) -> Floats:
        """Set the factors from the potentials at z, and return the coordinates of the same potentials under them.

        What the pair tables of attribute a show of its categories, the sum of Z Z' over them, is mixed with the
        identity by their mean energy for a category against `_UNLIKE`. L_a is the fourth root: the covariance of a
        pair's effects is then (C_a x C_b)^(1/2), for each table has the likeness from both its sides.
        """
        potentials = self.potentials(z)
        shown = [np.zeros((length, length)) for length in self.tree.shape]
        for axes, table in zip(self.tree.sets, self.tree.tables(potentials / self.each), strict=True):
            if len(axes) == 2:
                shown[axes[0]] += np.einsum("ik,jk->ij", table, table)
                shown[axes[1]] += np.einsum("ki,kj->ij", table, table)
        factors, inverses = [], []
        for seen in shown:
            values, vectors = np.linalg.eigh(_UNLIKE * np.eye(len(seen)) + seen)
            roots = np.sqrt(values)
            roots = np.sqrt(roots * len(seen) / roots.sum())
            factors.append((vectors * roots) @ vectors.T)
            inverses.append((vectors / roots) @ vectors.T)
        self.factors = TableRotation(self.tree, factors, least=2)
        self.squares = TableRotation(self.tree, [factor**2 for factor in factors], least=2)
        return TableRotation(self.tree, inverses, least=2)(potentials / self.each)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    """Where the search stands.

    Attributes:
        z: coordinates.
        gibbs: the distribution.
        residual: centred marginals of n p less those measured.
        loss: of the data, at the true noise.
        value: the objective at the inflated noise.
        slack: sqrt(1 + z^2): the penalty is h = slack - 1, its gradient z / slack.
    """

    z: Floats
    gibbs: Gibbs | CliqueGibbs | WayGibbs
    residual: Floats
    loss: float
    value: float
    slack: Floats


class _Evidence:
    """What the tables say, as independent pieces: for each effect set A its marginal, centred along every axis.

    A table over T with variance v in each cell, summed to A and centred, has noise of covariance (v |T| / |A|) P_A,
    independent between different A: nothing about effects within T is lost, whatever the size of T. Repeated pieces
    are averaged by precision.

    Attributes:
        target: the centred marginals, one vector.
        precision: one over the variance of each piece, a number for each set.
        weights: numbers w_S with sum_A q_A |P_A t_A|^2 = sum_S w_S |t_S|^2 + a multiple of the squared total, for
            marginals t of one table: so no centring is needed inside the solver.
        degrees: how many independent numbers were measured.
    """

    def __init__(self, tree: Tree, measurements: Sequence[NoisyMarginal]) -> None:
        self.centre = TableRotation(tree, [np.eye(length) - 1 / length for length in tree.shape])
        self.sizes = np.diff(tree.offsets)
        at = {axes: index for index, axes in enumerate(tree.sets)}
        precision, target = np.zeros(len(at)), np.zeros(tree.cells)
        tables = tree.tables(target)
        for one in measurements:
            axes = tuple(sorted(one.axes))
            table = np.ascontiguousarray(np.transpose(one.table, [one.axes.index(a) for a in axes]), dtype=np.float64)
            if table.shape != tuple(tree.shape[a] for a in axes):
                raise InvalidInput("measurements.table", one.table.shape, f"must have the shape of axes {one.axes}")
            inside = [each for each in tree.sets if set(each) <= set(axes)]
            local = tuple(tuple(axes.index(a) for a in each) for each in inside)
            for each, marginal in zip(inside, marginal_tree(table.shape, local).answer(table), strict=True):
                gain = marginal.size / (table.size * one.variance)
                precision[at[each]] += gain
                tables[at[each]] += gain * marginal
        self.precision = precision
        self.target = self.centre(target / np.repeat(precision, self.sizes))
        self.weights = self._uncentred(tree)
        self.degrees = sum(math.prod(tree.shape[a] - 1 for a in axes) for axes in tree.sets)

    def _uncentred(self, tree: Tree) -> Floats:
        """Moebius inversion from the largest sets down: q_A = sum over S containing A of w_S |A| / |S|."""
        weights = np.zeros(len(tree.sets))
        for i in sorted(range(len(tree.sets)), key=lambda i: -len(tree.sets[i])):
            above = [k for k, other in enumerate(tree.sets) if k != i and set(tree.sets[i]) < set(other)]
            weights[i] = self.precision[i] - sum(weights[k] * self.sizes[i] / self.sizes[k] for k in above)
        return weights


class _Solver:
    def __init__(
        self,
        tree: Tree,
        measurements: Sequence[NoisyMarginal],
        rows: float,
        passes: int,
        progress: Progress | None,
    ) -> None:
        self.tree = tree
        self.rows, self.limit, self.progress = rows, passes, progress
        self.passes = 0
        self.prior = _Prior(self.tree)
        self.evidence = _Evidence(self.tree, measurements)
        self.precision = np.repeat(self.evidence.precision, self.evidence.sizes)
        self.weights = np.repeat(self.evidence.weights, self.evidence.sizes)
        self.orders = np.repeat([len(axes) for axes in self.tree.sets], self.evidence.sizes)
        self.supersets = [
            [
                (i, tuple(k for k, a in enumerate(other) if a not in axes))
                for i, other in enumerate(self.tree.sets)
                if set(axes) <= set(other)
            ]
            for axes in self.tree.sets
        ]
        self.inflation = 1.0
        self.at = self._evaluate(self._start())

    def _start(self) -> Floats:
        """Coordinates of the product of the attributes' own marginals, as the evidence shows them."""
        potentials = np.zeros(self.tree.cells)
        pieces = zip(
            self.tree.sets,
            self.tree.tables(potentials),
            self.tree.tables(self.evidence.target),
            self.evidence.precision,
            strict=True,
        )
        for axes, table, target, precision in pieces:
            if len(axes) == 1:
                mean = self.rows / target.size + target
                root = np.hypot(mean, 2 / np.sqrt(precision))
                # About the noise where hidden: (mean + root) / 2, which would cancel to 0 far below 0.
                table[...] = np.log(np.where(mean > 0, (root + mean) / 2, 2 / precision / (root - np.minimum(mean, 0))))
                table -= table.mean()
        scaled: NDArray[np.float64] = potentials / self.prior.each
        return scaled

    # --- the search ---

    def run(self) -> None:
        """The whole search."""
        for inflation, steps, inner in _STAGES:
            self._stage(inflation, steps, inner)
        widened = tuned = 0
        while widened < _WIDENINGS and self._widen():
            widened += 1
            self._stage(*_WIDER)
        while widened == 0 and tuned < _TUNINGS and self._tune():
            tuned += 1
            self._stage(*_TUNED)
        self.at = self._evaluate(self.prior.learn(self.at.z))
        if tuned:
            self._stage(*_TUNED)
            self._tune()
        self._stage(*_LAST)

    def _stage(self, inflation: float, steps: int, inner: int) -> None:
        """At most `steps` Gauss-Newton steps at inflated noise, until they come to rest."""
        self.inflation = inflation
        self.at = self._revalued(self.at)
        idle = 0
        for _ in range(steps):
            if self.passes >= self.limit:
                return
            before = self.at.value
            self._improve(inner)
            if self.progress:
                self.progress(min(0.99, self.passes / min(self.limit, _DEFAULT_PASSES)))
            idle = idle + 1 if before - self.at.value < _TOLERANCE * before else 0
            if idle == 2:
                return

    def _improve(self, inner: int) -> None:
        """One Gauss-Newton step along the solution of its quadratic model, halved until it descends."""
        gradient = self._gradient(self.at)
        direction, _ = self._solve(-gradient, inner, 0.01)
        slope = float((gradient * direction).sum())
        step = 1.0
        while step > 1e-3:
            there = self._evaluate(self.at.z + step * direction)
            if there.value <= self.at.value + 1e-4 * step * slope:
                self.at = there
                return
            step /= 2

    def _evaluate(self, z: Floats) -> _Point:
        gibbs = self.tree.gibbs(self.prior.potentials(z))
        self.passes += 1
        residual = self.evidence.centre(self.rows * gibbs.marginals) - self.evidence.target
        loss = 0.5 * float((self.precision * residual**2).sum())
        slack = np.sqrt(1 + z**2)
        value = loss / self.inflation + float((slack - 1).sum())
        return _Point(z=z, gibbs=gibbs, residual=residual, loss=loss, value=value, slack=slack)

    def _revalued(self, point: _Point) -> _Point:
        value = point.loss / self.inflation + float((point.slack - 1).sum())
        return _Point(
            z=point.z, gibbs=point.gibbs, residual=point.residual, loss=point.loss, value=value, slack=point.slack
        )

    def _jacobian(self, gibbs: Gibbs | CliqueGibbs | WayGibbs, potentials: Floats) -> Floats:
        """The change of n p_S along a change of the potentials; its own transpose."""
        self.passes += 1
        return self.rows * gibbs.covariance(potentials)

    def _gradient(self, point: _Point) -> Floats:
        weighted = self.precision * point.residual / self.inflation
        return self.prior.pull(self._jacobian(point.gibbs, weighted)) + point.z / point.slack

    def _curvature(self, point: _Point, along: Floats) -> Floats:
        change = self._jacobian(point.gibbs, self.prior.potentials(along))
        change *= self.weights
        change /= self.inflation
        return self.prior.pull(self._jacobian(point.gibbs, change)) + along / point.slack

    def _solve(self, right: Floats, inner: int, accuracy: float) -> tuple[Floats, bool]:
        """Preconditioned conjugate gradients for curvature x = right.

        Returns x and whether the squared residual came down to `accuracy` of what it was, within `inner` steps.
        """
        scale = self._diagonal(self.at)
        solution = np.zeros_like(right)
        left = right.copy()
        pre = scale * left
        along = pre.copy()
        energy = first = float((left * pre).sum())
        for _ in range(inner):
            if energy <= 0:
                return solution, True
            bent = self._curvature(self.at, along)
            length = energy / float((along * bent).sum())
            solution += length * along
            left -= length * bent
            pre = scale * left
            previous, energy = energy, float((left * pre).sum())
            if energy < accuracy * first:
                return solution, True
            if self.passes >= self.limit:
                break
            along *= energy / previous
            along += pre
        return solution, False

    def _widen(self) -> bool:
        """Widen the prior where it holds the fit further from the tables than their noise explains.

        With the right scales, twice the loss is about the number of measured cells less the number of effects the
        data decide, and that number is about the sum of z h'(z) (the discrepancy principle, less degrees of freedom).
        """
        shown = float((self.at.z**2 / self.at.slack).sum())
        excess = 2 * self.at.loss + shown - self.evidence.degrees
        if shown == 0 or excess < 3 * math.sqrt(2 * self.evidence.degrees):
            return False
        wider = min(1 + excess / (2 * shown), _MAX_WIDER)
        self._restart(np.where(self.orders >= 2, wider, 1.0))
        return True

    def _tune(self) -> bool:
        """Move the prior's scales to what the fit shows (MacKay's fixed point); False where they cannot be known.

        At the best scale of an order, the sum of z h'(z) over its effects equals the number of them that the data
        decide: the trace of (1 - prior curvature / whole curvature), here estimated with one vector of signs. Under
        little noise that trace takes too many passes, and the scales matter little: they are left alone.
        """
        signs = np.where(np.arange(self.tree.cells, dtype=np.float64) ** 2 * _GOLDEN % 1.0 < 0.5, 1.0, -1.0)
        solution, known = self._solve(signs, _PROBE_STEPS, 1e-3)
        if not known:
            return False
        decided = 1.0 - signs * solution / self.at.slack
        shown = self.at.z**2 / self.at.slack
        ratios = np.ones_like(shown)
        for order in range(2, int(self.orders.max(initial=0)) + 1):
            mine = self.orders == order
            have, want = float(shown[mine].sum()), max(float(decided[mine].sum()), 0.0)
            change = math.sqrt((have + _TUNE_WEIGHT) / (want + _TUNE_WEIGHT))
            ratios[mine] = min(max(change, 1 / _MAX_TUNED), _MAX_TUNED)
        self._restart(ratios)
        return True

    def _restart(self, ratios: Floats) -> None:
        """Stay at the same potentials under scales multiplied by `ratios`."""
        self.prior.stretch(ratios)
        self.at = self._evaluate(self.at.z / ratios)

    def _diagonal(self, point: _Point) -> Floats:
        """One over the approximate diagonal of the curvature.

        An effect A moves every measured table: those over a superset of A by their own cells, the others as if
        independent of it.
        """
        marginals = point.gibbs.marginals
        squares = (self.rows * marginals) ** 2 * self.weights / self.inflation
        tables, sums = self.tree.tables(squares), np.add.reduceat(squares, self.tree.offsets[:-1])
        result = np.empty_like(squares)
        owns, heres = self.tree.tables(marginals), self.tree.tables(result)
        for own, here, above in zip(owns, heres, self.supersets, strict=True):
            others = float(sums.sum()) - sum(float(sums[i]) for i, _ in above)
            here[...] = 0.3 * max(others, 0.0) * own**2
            for i, away in above:
                here += tables[i].sum(axis=away)
        np.maximum(result, 0.0, out=result)
        if self.prior.squares is not None:
            result = self.prior.squares(result)
        result *= self.prior.each**2
        result += 1.0
        return 1 / result
