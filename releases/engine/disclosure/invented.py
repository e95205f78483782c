"""Invented people over declared columns: drawn from a distribution that is made up of the declaration and of chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.errors import Infeasible, InvalidInput
from releases.engine.noise.randomness import Randomness, uniform_below
from releases.engine.tables.counts import Tally, Texts, count_codes, empty_tables
from releases.engine.tables.possible import is_impossible, named_bins

#: Kinds of people: those of one kind are alike in most columns, so that known answers tell of hidden ones.
_KINDS = 10
#: In each column a person has the value of their kind with this probability; and so many people are of no kind.
_TYPICAL, _UNUSUAL = 0.7, 0.1
#: Times that people with an impossible combination are drawn again.
_MOST_DRAWS = 200


@dataclass(frozen=True, kw_only=True)
class People:
    """Invented people, independent of one another given the distribution.

    Attributes:
        bins: shape (people, columns): the number of each one's bin, columns in the order of the universe.
        is_unusual: shape (people,): those whose values follow no pattern.
    """

    bins: NDArray[np.int64]
    is_unusual: NDArray[np.bool_]


def invent_people(universe: Universe, number: int, rng: Randomness) -> People:
    """Draw a distribution over the declared columns, and people of it.

    A person is of one of ten kinds, all as likely. In each column a kind has a value of its own, drawn evenly from the
    bins; a person has it with probability 0.7, else a value by the column's own law, whose probabilities are in
    proportion to 1, 1/2, 1/3, ... over the bins in random order. So columns depend on each other. One pair of people in
    ten is of no kind: each of their values is any bin, whatever the others are. People with an impossible combination
    are drawn again.

    Args:
        number: of people, even: those at 2k and 2k + 1 have the same law.

    Raises:
        Infeasible: nearly all combinations are declared impossible.
    """
    sizes = universe.shape
    typical = np.stack([uniform_below(size, _KINDS, rng) for size in sizes], axis=1)
    laws = []
    for size in sizes:
        law = 1.0 / (1.0 + np.argsort(rng.words(size)))
        laws.append(np.cumsum(law / law.sum()))
    is_unusual = np.repeat(uniforms(number // 2, rng) < _UNUSUAL, 2)
    bins = np.empty((number, len(sizes)), dtype=np.int64)
    named = named_bins(universe.impossible, universe.attributes)
    left = np.arange(number)
    for _ in range(_MOST_DRAWS):
        bins[left] = _drawn(typical, laws, is_unusual[left], rng)
        columns = dict(zip(universe.names, bins[left].T, strict=True))
        left = left[is_impossible(named, columns, len(left))]
        if not len(left):
            return People(bins=bins, is_unusual=is_unusual)
    raise Infeasible("The combinations that are declared impossible leave too few others to invent people.")


def _drawn(
    typical: NDArray[np.int64], laws: Sequence[NDArray[np.float64]], is_unusual: NDArray[np.bool_], rng: Randomness
) -> NDArray[np.int64]:
    number = len(is_unusual)
    kinds = uniform_below(len(typical), number, rng)
    bins = typical[kinds]
    for column, law in enumerate(laws):
        own = np.minimum(np.searchsorted(law, uniforms(number, rng), side="right"), len(law) - 1)
        bins[:, column] = np.where(uniforms(number, rng) < _TYPICAL, bins[:, column], own)
        bins[:, column] = np.where(is_unusual, uniform_below(len(law), number, rng), bins[:, column])
    return bins


def uniforms(number: int, rng: Randomness) -> NDArray[np.float64]:
    """Numbers in [0, 1), for people that are invented: no noise is made of them."""
    return np.asarray((rng.words(number) >> np.uint64(11)) * 2.0**-53)


@dataclass(frozen=True, kw_only=True)
class InventedCounts:
    """The `Counts` of invented people, given by their bins.

    Attributes:
        bins: shape (people, columns), as of `People`.
    """

    universe: Universe
    bins: NDArray[np.int64]
    population: ClassVar[None] = None

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        (table,) = self.marginals([names])
        return table

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        tables = empty_tables(self.universe, sets)
        count_codes(dict(zip(self.universe.names, self.bins.T, strict=True)), sets, tables)
        return tables

    def histogram(self) -> NDArray[np.int64]:
        return self.marginal(self.universe.names)

    def tally(self, names: tuple[str, ...]) -> Tally:
        raise InvalidInput("counts", ", ".join(names), "are of invented people, who have bins and no values")

    def texts(self, name: str) -> Texts:
        raise InvalidInput("counts", name, "are of invented people, who have bins and no values")
