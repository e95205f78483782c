"""What a run gives back: answers with their bound, and a distribution that synthetic rows can be drawn from.

Everything in a result was paid for; it may be stored, shown and drawn from without limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.estimation.junction import Clique
from releases.engine.estimation.mixture import Mixture


@dataclass(frozen=True, kw_only=True)
class Component:
    """The joint distribution of some attributes, independent of the other components.

    Attributes:
        names: in universe order.
        weights: non-negative, one axis an attribute, summing to 1 (or to any positive number).
    """

    names: tuple[str, ...]
    weights: NDArray[np.float64]

    def marginal(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The probabilities over those of its attributes that are named, in that order."""
        others = tuple(i for i, name in enumerate(self.names) if name not in names)
        kept = [name for name in self.names if name in names]
        part: NDArray[np.float64] = self.weights.sum(axis=others) / self.weights.sum()
        return part.transpose([kept.index(name) for name in names])


@dataclass(frozen=True, kw_only=True)
class MixtureComponent:
    """The joint distribution of many attributes as a mixture of products, independent of the other components.

    Attributes:
        names: in universe order.
        mixture: of their bins.
    """

    names: tuple[str, ...]
    mixture: Mixture

    def marginal(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The probabilities over those of its attributes that are named, in that order."""
        return self.mixture.marginal(tuple(self.names.index(name) for name in names))


@dataclass(frozen=True, kw_only=True)
class TreeComponent:
    """The joint distribution of many attributes as tables over the cliques of a junction tree.

    Attributes:
        names: in universe order.
        cliques: each after its parent.
        tables: non-negative, one a clique, all with the same sum; those of neighbours agree on what they share.
    """

    names: tuple[str, ...]
    cliques: tuple[Clique, ...]
    tables: tuple[NDArray[np.float64], ...]

    def marginal(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The probabilities over those of its attributes that are named, in that order.

        From the leaves up each clique is conditioned on what it shares, and summed but for that and what is asked for.
        """
        wanted = {self.names.index(name) for name in names if name in self.names}
        arrived: list[list[tuple[NDArray[np.float64], tuple[int, ...]]]] = [[] for _ in self.cliques]
        table: NDArray[np.float64] = np.ones(())
        kept: tuple[int, ...] = ()
        for place in reversed(range(len(self.cliques))):
            clique, own = self.cliques[place], self.tables[place]
            own = own / own.sum() if clique.parent < 0 else own / _positive(own.sum(axis=clique.summed, keepdims=True))
            factors = [(own, clique.axes), *arrived[place]]
            held = {axis for _, axes in factors for axis in axes}
            kept = tuple(sorted(held & (wanted | set(clique.shared))))
            label = {axis: number for number, axis in enumerate(sorted(held))}
            operands: list[Any] = [each for f, axes in factors for each in (f, [label[axis] for axis in axes])]
            table = np.asarray(np.einsum(*operands, [label[axis] for axis in kept]))
            if clique.parent >= 0 and set(kept) - set(clique.shared):
                arrived[clique.parent].append((table, kept))
        order = [self.names.index(name) for name in names if name in self.names]
        return table.transpose([kept.index(axis) for axis in order])


AnyComponent = Component | MixtureComponent | TreeComponent


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A distribution over some attributes of the universe, as a product of independent components."""

    components: tuple[AnyComponent, ...]

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """The probabilities of the cells of a marginal, one axis a name, in the order named."""
        table: NDArray[np.float64] = np.ones(())
        found: list[str] = []
        for component in self.components:
            kept = [name for name in component.names if name in names]
            if kept:
                table = np.multiply.outer(table, component.marginal(kept))
                found.extend(kept)
        if set(found) != set(names):
            raise InvalidInput("names", ", ".join(names), "must all belong to the distribution")
        return table.transpose([found.index(name) for name in names])


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of one paid run.

    Attributes:
        estimates: for each family of the workload its estimated counts, flat.
        bound: what holds for all of them at once.
        total: how many rows the release says the table has: public, or noisy and paid for.
        distribution: what synthetic rows are drawn from; None where the mechanism makes none.
        chosen: of a choice, what was chosen for each label of each family, in order; empty for measured numbers.
        notes: further paid-for facts for the receipt, such as what an adaptive run chose.
        most_rows: where the bound tells it too, how many rows there can be in all: no count is above that.
        spans: where the truth can lie further from an estimate on one side, the ends of its interval, shape (answers,
            2) for each family; empty where an interval is the estimate plus and minus its half width.
    """

    estimates: tuple[NDArray[np.float64], ...]
    bound: Bound
    total: float
    distribution: Distribution | None = None
    chosen: tuple[str, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)
    most_rows: float | None = None
    spans: tuple[NDArray[np.float64], ...] = ()

    def intervals(
        self, *, lowest: float = 0.0
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
        """For each family: estimate, lower, upper, none below `lowest`, for counts are not negative, nor above
        `most_rows`.

        Cutting there moves an estimate only towards every value it could stand for, so the bound still holds.
        """
        highest = np.inf if self.most_rows is None else self.most_rows
        for position, (estimate, half_width) in enumerate(zip(self.estimates, self.bound.half_widths, strict=True)):
            lower, upper = estimate - (np.inf if self.bound.is_one_sided else half_width), estimate + half_width
            if self.spans:
                lower, upper = self.spans[position].T
            yield (
                np.clip(estimate, lowest, highest),
                np.clip(lower, lowest, highest),
                np.clip(upper, lowest, highest),
            )


def whole_universe(universe: Universe, weights: NDArray[np.float64]) -> Distribution:
    """A distribution given by one weight a cell."""
    return Distribution(components=(Component(names=universe.names, weights=weights.reshape(universe.shape)),))


def _positive(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """To divide by: where it is 0, so is what is divided."""
    return np.where(table > 0, table, 1.0)
