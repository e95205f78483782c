"""What a run gives back: answers with their bound, and a distribution that synthetic rows can be drawn from.

Everything in a result was paid for; it may be stored, shown and drawn from without limit.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.estimation.junction import Clique, joined
from releases.engine.estimation.mixture import Mixture

RESULT_VERSION = 1
#: How numbers are stored.
_STORED = {"float64": "<f8", "float32": "<f4"}


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

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names), "weights": _packed(self.weights)}


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

    def to_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "bins": list(self.mixture.shape),
            "shares": _packed(self.mixture.shares),
            "conditionals": _packed(self.mixture.stacked),
        }


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

    def to_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "cliques": [
                {"axes": list(clique.axes), "parent": clique.parent, "table": _packed(table)}
                for clique, table in zip(self.cliques, self.tables, strict=True)
            ],
        }


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

    def to_json(self) -> dict[str, Any]:
        return {
            "version": RESULT_VERSION,
            "estimates": [_packed(estimate) for estimate in self.estimates],
            "bound": self.bound.to_json(),
            "total": self.total,
            "distribution": None
            if self.distribution is None
            else [component.to_json() for component in self.distribution.components],
            "chosen": list(self.chosen),
            "notes": self.notes,
            "most_rows": self.most_rows,
            "spans": [_packed(span) for span in self.spans],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Result:
        components = value["distribution"]
        return Result(
            estimates=tuple(_unpacked(each) for each in value["estimates"]),
            bound=Bound.from_json(value["bound"]),
            total=value["total"],
            distribution=None
            if components is None
            else Distribution(components=tuple(_component(each) for each in components)),
            chosen=tuple(value["chosen"]),
            notes=value["notes"],
            most_rows=value.get("most_rows"),
            spans=tuple(_unpacked(each) for each in value.get("spans", [])),
        )


def whole_universe(universe: Universe, weights: NDArray[np.float64]) -> Distribution:
    """A distribution given by one weight a cell."""
    return Distribution(components=(Component(names=universe.names, weights=weights.reshape(universe.shape)),))


def _positive(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """To divide by: where it is 0, so is what is divided."""
    return np.where(table > 0, table, 1.0)


def _component(value: dict[str, Any]) -> AnyComponent:
    names = tuple(value["names"])
    if "cliques" in value:
        return TreeComponent(
            names=names,
            cliques=joined([(tuple(each["axes"]), each["parent"]) for each in value["cliques"]]),
            tables=tuple(_unpacked(each["table"]) for each in value["cliques"]),
        )
    if "weights" in value:
        return Component(names=names, weights=_unpacked(value["weights"]))
    shares, stacked = (_unpacked(value[each]).astype(np.float32) for each in ("shares", "conditionals"))
    return MixtureComponent(names=names, mixture=Mixture(shape=tuple(value["bins"]), shares=shares, stacked=stacked))


def _packed(array: NDArray[np.floating[Any]]) -> dict[str, Any]:
    """An array as JSON: exact, and small where it repeats."""
    kind = "float32" if array.dtype == np.float32 else "float64"
    data = zlib.compress(np.ascontiguousarray(array, dtype=_STORED[kind]).tobytes(), level=1)
    return {"shape": list(array.shape), kind: base64.b64encode(data).decode("ascii")}


def _unpacked(value: dict[str, Any]) -> NDArray[np.float64]:
    kind = next(each for each in _STORED if each in value)
    data = zlib.decompress(base64.b64decode(value[kind]))
    return np.frombuffer(data, dtype=_STORED[kind]).astype(np.float64).reshape(value["shape"])
