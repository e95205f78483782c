"""Which tables to measure, and with what share of the budget, so that chosen marginals can be fitted best.

Public inputs only: lengths of the attributes and the marginals that are wanted. The rule compares designs by the
noise they leave on the wanted marginals and on those with one attribute less, as total-variation distance of an
unbiased estimate: nothing about the data enters.

Gaussian noise is paid for in rho, which adds up over tables as 1 / (2 variance): many small tables are best, and for
each a share in proportion to the square root of its cells (within 1% of the best shares found by descent).

Laplace noise is paid for in epsilon, and its standard deviation, not its variance, is inversely proportional to its
share: few larger tables are best. They are found by merging attributes into groups, and measuring for each wanted
marginal the union of the groups it touches. For all triples of seven attributes of Adult these are ten tables of three
to five attributes, and the fit to them errs by a quarter less than one to the triples themselves.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.additive_noise import discrete_laplace_variance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from releases.engine.estimation.marginals import Axes

#: Shares of rho for the marginals with one attribute, those between, and the wanted ones. Any first share of 1 to 5%
#: and second of 0 to 20% does as well for the wanted marginals; these also serve the lower orders.
GAUSSIAN_SHARES = (0.02, 0.08, 0.90)

#: Sets of attributes are kept as the bits of one word.
_MAX_AXES = 62

#: Groups are merged among this many of the smallest at a time: larger ones never gain by it.
_MERGED_AMONG = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A table to measure.

    Attributes:
        axes: its attributes, ascending.
        share: of the budget; the shares of a design sum to 1.
    """

    axes: Axes
    share: float


def gaussian_design(shape: Sequence[int], wanted: Sequence[Axes]) -> tuple[Share, ...]:
    """Shares of rho: the wanted marginals and all their subsets, within each class by the square root of cells."""
    largest = _largest(shape, wanted)
    inside = {part for axes in largest for size in range(1, len(axes)) for part in itertools.combinations(axes, size)}
    classes: tuple[list[Axes], ...] = (
        [axes for axes in sorted(inside) if len(axes) == 1],
        [axes for axes in sorted(inside) if len(axes) > 1],
        largest,
    )
    held = sum(share for share, members in zip(GAUSSIAN_SHARES, classes, strict=True) if members)
    design: list[Share] = []
    for share, members in zip(GAUSSIAN_SHARES, classes, strict=True):
        design += _by_root_of_cells(shape, members, share / held)
    return tuple(design)


def laplace_design(
    shape: Sequence[int],
    wanted: Sequence[Axes],
    *,
    epsilon: float,
    most_cells: int = 10**8,
    within: Sequence[Axes] = (),
) -> tuple[Share, ...]:
    """Shares of epsilon: for each wanted marginal the union of the groups it touches, no table above `most_cells`.

    Groups are merged two by two, the best merge first, down to a single one; the best design met is taken.

    Args:
        epsilon: of the whole design, for a sensitivity of 1. Noise of a scale well below 1 is almost always 0, so
            where epsilon is large the whole universe is measured.
        within: sets of attributes; each table lies in one of them, where there are any.
    """
    noise = _Noise(shape, wanted)
    groups: list[Axes] = [(axis,) for axis in sorted({axis for axes in noise.wanted for axis in axes})]
    best = _grouped(shape, noise.wanted, groups)
    least = noise.error(_laplace_tables(best, epsilon))
    while len(groups) > 1:
        groups.sort(key=lambda group: (_cells(shape, group), group))
        merges = []
        for first, second in itertools.combinations(groups[:_MERGED_AMONG], 2):
            merged = [group for group in groups if group not in (first, second)] + [tuple(sorted(first + second))]
            design = _grouped(shape, noise.wanted, merged)
            fits = max(_cells(shape, one.axes) for one in design) <= most_cells
            if fits and all(_lies_within(one.axes, within) for one in design):
                merges.append((noise.error(_laplace_tables(design, epsilon)), merged, design))
        if not merges:
            break
        error, groups, design = min(merges, key=lambda merge: (merge[0], merge[1]))
        if error < least:
            least, best = error, design
    return best


def _lies_within(axes: Axes, sets: Sequence[Axes]) -> bool:
    return not sets or any(set(axes) <= set(other) for other in sets)


def laplace_error(shape: Sequence[int], wanted: Sequence[Axes], design: Iterable[Share], *, epsilon: float) -> float:
    """`design_error` of discrete Laplace noise of scale 1 / (epsilon share) on every table."""
    return design_error(shape, wanted, _laplace_tables(design, epsilon))


def gaussian_error(shape: Sequence[int], wanted: Sequence[Axes], design: Iterable[Share]) -> float:
    """`design_error` of Gaussian noise at rho = 1; inversely proportional to the square root of rho."""
    return design_error(shape, wanted, [(one.axes, 1 / (2 * one.share)) for one in design])


def design_error(shape: Sequence[int], wanted: Sequence[Axes], tables: Sequence[tuple[Axes, float]]) -> float:
    """Noise of the best unbiased estimate, in rows: what total-variation distance times the number of rows would be.

    The geometric mean of two averages: over the wanted marginals, and over their subsets with one attribute less
    (where there are any), for a fit leans on the lower order wherever the higher drowns in noise. Over 22 designs
    with either noise it put them in the order of the error they led to.

    Args:
        shape: lengths of the attributes.
        wanted: marginals.
        tables: what is measured, each with its noise variance in a cell; together they must cover what is wanted.
    """
    return _Noise(shape, wanted).error(tables)


def cell_deviations(
    shape: Sequence[int], wanted: Sequence[Axes], tables: Sequence[tuple[Axes, float]]
) -> dict[Axes, float]:
    """Standard deviation of one cell of each wanted marginal in the best unbiased estimate (none inside another)."""
    noise = _Noise(shape, wanted)
    return dict(zip(noise.wanted, np.sqrt(noise.variances(tables)).tolist(), strict=True))


class _Noise:
    """The centred pieces of the wanted marginals: how large they are and which marginal each belongs to.

    A table over T with variance v shows the piece of A within T with precision |A| / (|T| v); the best unbiased
    estimate of a marginal S is the sum of its pieces, and the noise of all |S| cells together has the variance
    sum over A within S of (product over A of (n_a - 1)) |A| / (|S| q_A).
    """

    def __init__(self, shape: Sequence[int], wanted: Sequence[Axes]) -> None:
        self.shape = shape
        self.wanted = _largest(shape, wanted)
        below = sorted({part for axes in self.wanted for part in itertools.combinations(axes, len(axes) - 1) if part})
        parts = sorted(
            {part for axes in self.wanted for k in range(1, len(axes) + 1) for part in itertools.combinations(axes, k)}
        )
        self.bits = np.array([_bits(axes) for axes in parts], dtype=np.int64)
        self.cells = np.array([_cells(shape, axes) for axes in parts], dtype=np.float64)
        self.degrees = np.array([math.prod(shape[a] - 1 for a in axes) for axes in parts], dtype=np.float64)
        self.members = [
            (self.bits[None, :] & ~np.array([_bits(axes) for axes in sets], dtype=np.int64)[:, None]) == 0
            for sets in (self.wanted, below)
            if sets
        ]

    def variances(self, tables: Sequence[tuple[Axes, float]]) -> NDArray[np.float64]:
        """Of one cell of each wanted marginal: the total's own noise is left out."""
        cells = np.array([_cells(self.shape, axes) for axes in self.wanted])
        each: NDArray[np.float64] = (self.members[0] @ self._spread(tables)) / cells**2.0
        return each

    def error(self, tables: Sequence[tuple[Axes, float]]) -> float:
        # |S| cells of variance v_S leave |S| sqrt(2 v_S / pi) / 2 in expectation: the root of |S| times the sum of v_S
        spread = self._spread(tables)
        means = [math.sqrt(2 / math.pi) / 2 * float(np.mean(np.sqrt(each @ spread))) for each in self.members]
        return math.prod(means) ** (1 / len(means))

    def _spread(self, tables: Sequence[tuple[Axes, float]]) -> NDArray[np.float64]:
        """For each piece A: product over A of (n_a - 1), times |A| / q_A."""
        precision = np.zeros(len(self.bits))
        for axes, variance in tables:
            within = (self.bits & ~_bits(axes)) == 0
            precision += within * self.cells / (_cells(self.shape, axes) * variance)
        if (precision == 0).any():
            raise InvalidInput("tables", [axes for axes, _ in tables], "must cover every wanted marginal")
        spread: NDArray[np.float64] = self.degrees * self.cells / precision
        return spread


def _laplace_tables(design: Iterable[Share], epsilon: float) -> list[tuple[Axes, float]]:
    """Each table with the variance of discrete Laplace noise of scale 1 / (epsilon share)."""
    return [(one.axes, discrete_laplace_variance(1 / (epsilon * one.share))) for one in design]


def _largest(shape: Sequence[int], wanted: Sequence[Axes]) -> list[Axes]:
    """The wanted sets, ascending, without those inside another."""
    sets = {tuple(sorted(axes)) for axes in wanted} - {()}
    if not sets or any(not 0 <= axis < min(len(shape), _MAX_AXES) for axes in sets for axis in axes):
        raise InvalidInput("wanted", list(wanted), "must name attributes of the universe")
    ordered = sorted(sets)
    bits = np.array([_bits(axes) for axes in ordered], dtype=np.int64)
    inside = ((bits[:, None] & ~bits[None, :]) == 0).sum(axis=1)
    return [axes for axes, count in zip(ordered, inside, strict=True) if count == 1]


def _grouped(shape: Sequence[int], wanted: Sequence[Axes], groups: Sequence[Axes]) -> tuple[Share, ...]:
    group_of = {axis: group for group in groups for axis in group}
    unions = {tuple(sorted({a for axis in axes for a in group_of[axis]})) for axes in wanted}
    return tuple(_by_root_of_cells(shape, _largest(shape, list(unions)), 1.0))


def _by_root_of_cells(shape: Sequence[int], sets: Sequence[Axes], share: float) -> list[Share]:
    roots: NDArray[np.float64] = np.sqrt([_cells(shape, axes) for axes in sets])
    return [Share(axes=axes, share=share * float(root / roots.sum())) for axes, root in zip(sets, roots, strict=True)]


def _cells(shape: Sequence[int], axes: Iterable[int]) -> int:
    return math.prod(shape[axis] for axis in axes)


def _bits(axes: Iterable[int]) -> int:
    return sum(1 << axis for axis in axes)
