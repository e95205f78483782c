"""Residuals of marginals: the parts that overlapping marginals have in common, each once.

For attributes i of d_i bins let E_i be the mean over attribute i, repeated. Then I = E_i + (I - E_i) in each attribute,
and a marginal over C falls into orthogonal parts, one for each A ⊆ C: over A the *residual* P_A x_A = ⊗_{i in A} (I -
E_i) x_A of the marginal x_A, spread evenly over the others. So an answer that accepts b_i of the d_i bins of each
attribute of C is Σ over A of ⟨⊗ (1_B - b/d), P_A x_A⟩ Π_{i in C, not A} b_i/d_i; a cell has all b_i = 1 (Xiao, He,
Zhang and Kifer, An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions, 2023).

Noise of variance v on each cell of x_A, of which the residual alone is kept, gives that answer the variance
v Π_{i in A} b_i (1 - b_i/d_i) Π_{i in C, not A} (b_i/d_i)².

What a unit moves, in squared length:

1.  A row added or removed moves P_A x_A by P_A e: Π_{i in A} (1 - 1/d_i).
2.  A row replaced, new and old different in the attributes D, moves it by P_A (e - e'), whose squared length is
    2 Π_{i in A} (1 - 1/d_i) - 2 Π_{i in A, not D} (1 - 1/d_i) Π_{i in A and D} (-1/d_i): 0 where A and D do not
    meet. It is the same for all pairs of rows that differ in D, so the greatest over D is the greatest over rows.
3.  A new row that a declared rule drops, or an old one that was, is case 1.
4.  A unit of g rows moves it by a sum of g such changes: g² at most, and that where all change alike.

Attributes of one bin have no residual and are left out of A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations, repeat
from math import prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.queries import Count, Family, Marginal, Prefix

#: Attribute names in universe order.
Names = tuple[str, ...]
#: Moves are rounded up to so many binary places.
_PLACES = 24
#: How many combinations of a residual and a set of changed attributes are looked at; beyond, an upper bound is used.
_MAX_COMBINATIONS = 8_000_000


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """Those of some marginals of a universe.

    Attributes:
        universe: of the attributes.
        sets: the attribute set of each, in universe order; a set's subsets are among them, smaller sets first.
    """

    universe: Universe
    sets: tuple[Names, ...]

    @staticmethod
    def of(universe: Universe, marginals: Sequence[Names]) -> Residuals:
        """The residuals that marginals consist of."""
        found = {part for names in marginals for part in subsets(with_bins(universe, names))}
        ordered = sorted(found, key=lambda names: (len(names), universe.axes(names)))
        return Residuals(universe=universe, sets=tuple(ordered))

    def shape(self, names: Names) -> tuple[int, ...]:
        return tuple(self.universe[name].size for name in names)

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """How many cells the marginal of each has."""
        return tuple(prod(self.shape(names)) for names in self.sets)

    @cached_property
    def places(self) -> dict[Names, int]:
        return {names: place for place, names in enumerate(self.sets)}

    def parts(self, names: Names) -> Iterator[tuple[int, Names]]:
        """The residuals of a marginal: their places and attributes."""
        for part in subsets(with_bins(self.universe, names)):
            yield self.places[part], part

    def moved(self, multipliers: Sequence[int], schema: Schema) -> Fraction:
        """The greatest Σ over A of (multiplier_A)² |P_A d_A|², d the change by one unit: rounded up, or an upper bound.

        Each term is rounded up to 2^-24, in whole numbers.
        """
        removed = sum(self._terms(multipliers, ()))
        most = max(schema.changes_of_a_row(added=removed, replaced=lambda: self._most_replaced(multipliers)))
        return Fraction(most * schema.rows_of_unit**2, 1 << _PLACES)

    def most_moved(self, schema: Schema) -> NDArray[np.float64]:
        """|P_A d_A|² of each residual by itself, at its greatest; for design, not for a price."""
        removed = np.array([prod(1 - 1 / size for size in self.shape(names)) for names in self.sets], dtype=np.float64)
        least = [min(self.shape(names), default=0) for names in self.sets]
        raised = np.array([1 + 1 / (size - 1) if size else 0.0 for size in least])
        cases = schema.changes_of_a_row(added=removed, replaced=lambda: np.asarray(2 * removed * raised))
        return np.asarray(np.max(cases, axis=0))

    def _terms(self, multipliers: Sequence[int], changed: Names | None) -> Iterator[int]:
        """(multiplier)² |P_A d|² 2^24 of each, rounded up: of a row removed, or replaced with others in `changed`.

        None stands for the set of changed attributes that is worst for each residual by itself: the one of fewest bins.
        """
        for names, multiplier in zip(self.sets, multipliers, strict=True):
            sizes = self.shape(names)
            length = prod(size - 1 for size in sizes)
            if changed is None:
                length = 2 * (length + prod(sorted(size - 1 for size in sizes)[1:])) if sizes else 0
            elif changed:
                length = 2 * (length - prod(-1 if n in changed else d - 1 for n, d in zip(names, sizes, strict=True)))
            yield -(-(multiplier**2 * length << _PLACES) // prod(sizes))

    def _most_replaced(self, multipliers: Sequence[int]) -> int:
        used = sorted({name for names in self.sets for name in names})
        if len(self.sets) << len(used) > _MAX_COMBINATIONS:
            return sum(self._terms(multipliers, None))
        return self._most_over_changes(multipliers, used)

    def _most_over_changes(self, multipliers: Sequence[int], used: Sequence[str]) -> int:
        """The greatest sum of `_terms` over all sets of changed attributes, many sets at a time.

        Whole numbers that pass 64 bits are kept as Python's.
        """
        changes = np.arange(1 << len(used))
        totals = np.zeros(changes.size, dtype=object)
        for names, multiplier in zip(self.sets, multipliers, strict=True):
            if not names:
                continue
            sizes = self.shape(names)
            own = _bits(changes, [used.index(name) for name in names])
            # By which of its own attributes changed.
            lengths = [
                2 * (prod(d - 1 for d in sizes) - prod(-1 if which >> i & 1 else d - 1 for i, d in enumerate(sizes)))
                for which in range(1 << len(names))
            ]
            terms = [-(-(multiplier**2 * length << _PLACES) // prod(sizes)) for length in lengths]
            totals += np.array(terms, dtype=object)[own]
        return int(totals.max())


def _bits(numbers: NDArray[np.int64], chosen: Sequence[int]) -> NDArray[np.int64]:
    """The chosen bits of each number, moved together."""
    found = np.zeros_like(numbers)
    for place, bit in enumerate(chosen):
        found |= (numbers >> bit & 1) << place
    return found


def subsets(names: Names) -> Iterator[Names]:
    """All subsets, smaller ones first."""
    return chain.from_iterable(map(combinations, repeat(names), range(len(names) + 1)))


def with_bins(universe: Universe, names: Names) -> Names:
    """Those of two bins or more."""
    return tuple(name for name in names if universe[name].size > 1)


def accepted(family: Family, universe: Universe) -> NDArray[np.int64]:
    """How many bins of each of its attributes an answer accepts: one line for each kind of answer, each column an
    attribute."""
    if isinstance(family, Marginal):
        return np.ones((1, len(family.attributes)), dtype=np.int64)
    if isinstance(family, Count):
        return np.array([[len(bins) for bins in family.bins]], dtype=np.int64)
    assert isinstance(family, Prefix)
    return np.arange(1, family.cells(universe) + 1, dtype=np.int64)[:, None]


def variances_in(
    accepted_bins: NDArray[np.int64], names: Names, part: Names, universe: Universe
) -> NDArray[np.float64]:
    """Of each kind of answer, the variance that noise of variance 1 on the cells of `part` gives it."""
    found = np.ones(len(accepted_bins))
    for name, bins in zip(names, accepted_bins.T, strict=True):
        share = bins / universe[name].size
        found *= bins * (1 - share) if name in part else share * share
    return found


def lengths_in(accepted_bins: NDArray[np.int64], names: Names, part: Names, universe: Universe) -> NDArray[np.float64]:
    """Of each kind of answer, the sum of the absolute factors that it has on the cells of `part`."""
    found = np.ones(len(accepted_bins))
    for name, bins in zip(names, accepted_bins.T, strict=True):
        share = bins / universe[name].size
        found *= 2 * bins * (1 - share) if name in part else share
    return found
