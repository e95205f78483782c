"""All marginals of a dense array at once, and the transposed map, in a few passes over memory.

Summing a 10^6-cell array again for each of a hundred marginals reads it a hundred times. Here it is read once, summed
over each of a few blocks of axes, and all the rest is done on those much smaller parts (`elimination.py`). Run
backwards, the same plan is the adjoint: potentials on the marginals added up over the universe.

    answer:  t_S[x_S] = sum of w[x'] over all x' with x'_S = x_S
    adjoint: a[x] = sum over S of t_S[x_S],    so that  sum_S <answer(w)_S, t_S> = <w, adjoint(t)>

Nothing here draws noise or decides on privacy.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from releases.engine.errors import InvalidInput
from releases.engine.estimation.elimination import Axes as Axes
from releases.engine.estimation.elimination import Planner

Array = NDArray[Any]
Floats = NDArray[np.float64]

#: Set in the environment (to anything) to run without numba.
NUMPY_ONLY = "DPWEB_NUMPY_ONLY"

#: exp() of a spread of potentials wider than this may vanish in one factor and not in the product, so beyond it
#: the product is taken in logarithms (a double reaches down to exp(-745)).
_WIDEST_SPREAD = 600.0

_NOTHING = np.empty(0)


@functools.cache
def compiled_kernels() -> ModuleType | None:
    """The compiled inner loops; None where numba is missing or unwanted."""
    if os.environ.get(NUMPY_ONLY):
        return None
    try:
        from releases.engine.estimation import kernels
    except ImportError:
        return None
    return kernels


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaledArray:
    """What `MarginalTree.scale_by_exp` leaves: the array it was given times exp(-log_shift) is the true product.

    Attributes:
        answers: the marginals of the array as it stands, one vector (see `MarginalTree.tables`).
        total: its sum.
        log_shift: the largest exponent met, taken out so that no cell overflows.
    """

    answers: Floats
    total: float
    log_shift: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Gibbs:
    """The distribution p[x] proportional to exp(sum over S of t_S[x_S]), known by its marginals.

    Attributes:
        marginals: of p, one vector.
    """

    marginals: Floats
    _tree: MarginalTree
    _factors: list[Floats] | None
    _weights: Floats | None
    _total: float

    def covariance(self, vector: Floats) -> Floats:
        """Covariances under p of a[x] = sum of v_S[x_S] with every cell's indicator.

        This is the derivative of `marginals` along the potentials `vector`, and its own transpose.
        """
        first = self._tree._tangent(self, vector)
        return first - self.marginals * float((self.marginals * vector).sum())


class MarginalTree:
    """Every marginal of `sets` of an array of `shape`, and the adjoint, by one plan of shared partial sums.

    Marginals travel as a list of tables, one for each set with its axes in the order asked, or as one flat
    *vector* of `cells` numbers (the tables with axes ascending, end to end); `tables` and `vector` convert.
    Arrays are float64 or int64, in C order, of exactly `shape`.

    Args:
        shape: lengths of the axes.
        sets: tuples of distinct axes; no two name the same axes.
        compiled: False to use numpy alone; by default numba where it is installed.
    """

    def __init__(self, shape: Sequence[int], sets: Sequence[Sequence[int]], *, compiled: bool = True) -> None:
        self.shape: Axes = tuple(int(length) for length in shape)
        self.sets: tuple[Axes, ...] = tuple(tuple(int(a) for a in axes) for axes in sets)
        self._check()
        self.size = math.prod(self.shape)
        self._plan = Planner(self.shape, self.sets).plan()
        self.offsets = self._plan.offsets
        self.cells = self.offsets[-1]
        self._kernels = compiled_kernels() if compiled else None
        self._lengths = [tuple(self.shape[a] for a in sorted(axes)) for axes in self.sets]
        self._orders = [tuple(sorted(axes).index(a) for a in axes) for axes in self.sets]
        self._slot_ends = [(0, 0)] * 4
        for child in self._plan.children:
            self._slot_ends[child.slot - 1] = child.offset, child.offset + child.size

    def _check(self) -> None:
        if any(length < 1 for length in self.shape):
            raise InvalidInput("shape", self.shape, "must have lengths of at least 1")
        for axes in self.sets:
            if len(set(axes)) != len(axes) or not set(axes) <= set(range(len(self.shape))):
                raise InvalidInput("sets", axes, f"must name distinct axes from 0 to {len(self.shape) - 1}")
        if len({frozenset(axes) for axes in self.sets}) != len(self.sets):
            raise InvalidInput("sets", self.sets, "must not name the same axes twice")

    # --- tables and vectors ---

    def tables(self, vector: Array) -> list[Array]:
        """The tables of a vector, as views of it."""
        ends = zip(self.offsets, self.offsets[1:], self._lengths, self._orders, strict=False)
        return [vector[start:stop].reshape(lengths).transpose(order) for start, stop, lengths, order in ends]

    def vector(self, tables: Sequence[Array]) -> Array:
        """The vector of a list of tables, copied."""
        if len(tables) != len(self.sets):
            raise InvalidInput("tables", len(tables), f"must be {len(self.sets)} tables, one for each set")
        result = np.empty(self.cells, dtype=np.result_type(np.int64, *tables) if tables else np.float64)
        for mine, given in zip(self.tables(result), tables, strict=True):
            if mine.shape != given.shape:
                raise InvalidInput("tables", given.shape, f"must have the marginal's shape {mine.shape}")
            mine[...] = given
        return result

    # --- sums ---

    def answer_vector(self, array: Array) -> Array:
        """Every marginal of `array`, as one vector of its dtype."""
        array = self._checked(array)
        space = np.empty(self._plan.space, dtype=array.dtype)
        self._sum_root(array.reshape(-1), space)
        return self._finish(array, space)

    def answer(self, array: Array) -> list[Array]:
        """Every marginal of `array` as tables."""
        return self.tables(self.answer_vector(array))

    def adjoint(self, tables: Sequence[Array] | Array) -> Array:
        """The array a[x] = sum over S of tables[S][x_S]; `tables` may be a vector."""
        vector = self._as_vector(tables)
        return self.add_adjoint(vector, np.zeros(self.shape, dtype=vector.dtype))

    def add_adjoint(self, tables: Sequence[Array] | Array, out: Array) -> Array:
        """Add the adjoint to `out` in place, and return it."""
        out = self._checked(out)
        space = self._spread(self._as_vector(tables))
        flat = out.reshape(-1)
        parts = [space[child.offset : child.offset + child.size] for child in self._plan.children]
        if self._kernels and self._plan.fused:
            self._kernels.add_blocks(flat, *self._plan.dims, *self._slotted(parts))
        else:
            for child, part in zip(self._plan.children, parts, strict=True):
                flat.reshape(child.pre, child.mid, child.post)[...] += part.reshape(child.pre, 1, child.post)
        for index, root in enumerate(self._plan.root_of):
            if root < 0:
                flat += space[self.offsets[index] : self.offsets[index + 1]]
        return out

    # --- products ---

    def scale_by_exp(self, weights: Floats, tables: Mapping[int, Floats] | Sequence[Floats] | Floats) -> ScaledArray:
        """Multiply `weights` in place by exp(sum of tables - log_shift), and answer every marginal of the result.

        `tables` is a list or a vector of all tables, or a mapping from positions in `sets` to some of them. No
        exponential is taken over the universe: each part of the tree has its own factor. One pass.
        """
        weights = self._checked(weights)
        logs, whole = self._part_logs(tables)
        shift, factors = self._factors(logs)
        flat = weights.reshape(-1)
        if factors is None or not self._plan.fused:
            return self._scale_densely(weights, logs, whole)
        if whole is not None:
            top = float(whole.max())
            shift += top
            flat *= np.exp(whole - top)
        space = np.empty(self._plan.space)
        parts = [space[child.offset : child.offset + child.size] for child in self._plan.children]
        if self._kernels:
            self._kernels.scale_blocks(flat, *self._plan.dims, *self._slotted(factors), *self._slotted(parts))
        else:
            for child, factor in zip(self._plan.children, factors, strict=True):
                if factor.size:
                    flat.reshape(child.pre, child.mid, child.post)[...] *= factor.reshape(child.pre, 1, child.post)
            self._sum_root(flat, space)
        total = float(parts[0].sum() if parts else flat.sum())
        return ScaledArray(answers=self._finish(weights, space), total=total, log_shift=shift)

    def gibbs(self, potentials: Sequence[Floats] | Floats) -> Gibbs:
        """The distribution proportional to exp(adjoint(potentials)): its marginals and their derivative.

        The distribution itself is not stored where every set has at most three axes and numba is there.
        """
        vector = self._as_vector(potentials).astype(np.float64, copy=False)
        logs, whole = self._part_logs(vector)
        factors = self._factors(logs)[1]
        if not factors or whole is not None or not (self._kernels and self._plan.fused):
            weights = np.ones(self.shape)
            scaled = self.scale_by_exp(weights, vector)
            return Gibbs(
                marginals=scaled.answers / scaled.total,
                _tree=self,
                _factors=None,
                _weights=weights,
                _total=scaled.total,
            )
        space = np.empty(self._plan.space)
        parts = [space[child.offset : child.offset + child.size] for child in self._plan.children]
        slotted = self._slotted(factors)
        self._kernels.product_blocks(*self._plan.dims, *slotted, *self._slots(space))
        total = float(parts[0].sum())
        self._kernels.reduce_steps(space, self._plan.steps)
        return Gibbs(
            marginals=space[: self.cells] / total,
            _tree=self,
            _factors=slotted,
            _weights=None,
            _total=total,
        )

    def _tangent(self, gibbs: Gibbs, vector: Floats) -> Floats:
        if gibbs._factors is None:
            slope = self.adjoint(vector)
            slope *= gibbs._weights
            return self.answer_vector(slope) / gibbs._total
        assert self._kernels is not None
        logs = self._spread(self._as_vector(vector).astype(np.float64, copy=False))
        space = np.empty(self._plan.space)
        self._kernels.tangent_blocks(*self._plan.dims, *gibbs._factors, *self._slots(logs), *self._slots(space))
        self._kernels.reduce_steps(space, self._plan.steps)
        return space[: self.cells] / gibbs._total

    def density(self, potentials: Sequence[Floats] | Floats) -> Floats:
        """The distribution over the universe proportional to exp(adjoint(potentials)), summing to 1."""
        weights = np.ones(self.shape)
        scaled = self.scale_by_exp(weights, self._as_vector(potentials))
        weights /= scaled.total
        return weights

    # --- steps ---

    def _checked(self, array: Array) -> Array:
        if array.shape != self.shape:
            raise InvalidInput("array", array.shape, f"must have the universe's shape {self.shape}")
        if array.dtype not in (np.float64, np.int64) or not array.flags.c_contiguous:
            raise InvalidInput("array", array.dtype, "must be float64 or int64 in C order")
        return array

    def _as_vector(self, tables: Sequence[Array] | Array) -> Array:
        if not isinstance(tables, np.ndarray):
            return self.vector(tables)
        if tables.shape != (self.cells,):
            raise InvalidInput("tables", tables.shape, f"must be a vector of {self.cells} cells")
        return tables

    def _slotted(self, parts: Sequence[Array]) -> list[Array]:
        """Parts of the children in the order of the kernels' four slots, nothing where there is no child."""
        four: list[Array] = [parts[0][:0] if parts else _NOTHING] * 4
        for child, part in zip(self._plan.children, parts, strict=True):
            four[child.slot - 1] = part
        return four

    def _slots(self, space: Array) -> list[Array]:
        """The parts of a work space that the children of the root have, in the same order."""
        return [space[start:end] for start, end in self._slot_ends]

    def _sum_root(self, flat: Array, space: Array) -> None:
        parts = [space[child.offset : child.offset + child.size] for child in self._plan.children]
        if self._kernels and self._plan.fused:
            if parts:
                self._kernels.sum_blocks(flat, *self._plan.dims, *self._slotted(parts))
            return
        for child, part in zip(self._plan.children, parts, strict=True):
            if self._kernels:
                self._kernels.sum_axis(flat, part, child.pre, child.mid, child.post)
            else:
                flat.reshape(child.pre, child.mid, child.post).sum(axis=1, out=part.reshape(child.pre, child.post))

    def _finish(self, array: Array, space: Array) -> Array:
        """Run the steps below the root, and return the asked marginals alone."""
        for index, root in enumerate(self._plan.root_of):
            if root < 0:
                space[self.offsets[index] : self.offsets[index + 1]] = array.reshape(-1)
        if self._kernels:
            self._kernels.reduce_steps(space, self._plan.steps)
        else:
            for source, target, pre, mid, post in self._plan.steps.tolist():
                block = space[source : source + pre * mid * post].reshape(pre, mid, post)
                block.sum(axis=1, out=space[target : target + pre * post].reshape(pre, post))
        return space[: self.cells].copy()

    def _spread(self, vector: Array) -> Array:
        """The work space with every child of the root holding the sum of the tables below it."""
        space = np.zeros(self._plan.space, dtype=vector.dtype)
        space[: self.cells] = vector
        if self._kernels:
            self._kernels.spread_steps(space, self._plan.steps)
        else:
            for source, target, pre, mid, post in self._plan.steps[::-1].tolist():
                block = space[source : source + pre * mid * post].reshape(pre, mid, post)
                block += space[target : target + pre * post].reshape(pre, 1, post)
        return space

    def _part_logs(
        self, tables: Mapping[int, Floats] | Sequence[Floats] | Floats
    ) -> tuple[list[Floats], Floats | None]:
        """The exponents on each child of the root (length 0 where none), and those on the array itself."""
        if not isinstance(tables, Mapping):
            space = self._spread(self._as_vector(tables).astype(np.float64, copy=False))
            logs = [space[child.offset : child.offset + child.size] for child in self._plan.children]
            whole = [
                space[self.offsets[i] : self.offsets[i + 1]] for i, root in enumerate(self._plan.root_of) if root < 0
            ]
            return logs, whole[0] if whole else None
        logs, everywhere = [_NOTHING] * len(self._plan.children), None
        for index, table in tables.items():
            ascending = np.transpose(table, np.argsort(self._orders[index]))
            root = self._plan.root_of[index]
            if root < 0:
                everywhere = ascending.reshape(-1).astype(np.float64)
                continue
            child = self._plan.children[root]
            if not logs[root].size:
                logs[root] = np.zeros(child.size)
            lengths = tuple(self.shape[a] for a in child.axes)
            spaced = tuple(self.shape[a] if a in self.sets[index] else 1 for a in child.axes)
            view = logs[root].reshape(lengths)
            view += ascending.reshape(spaced)
        return logs, everywhere

    @staticmethod
    def _factors(logs: Sequence[Floats]) -> tuple[float, list[Floats] | None]:
        """exp(log - its maximum) for each part, and the sum of the maxima; None where that could vanish wrongly."""
        tops = [float(log.max()) if log.size else 0.0 for log in logs]
        spread = sum(top - float(log.min()) for top, log in zip(tops, logs, strict=True) if log.size)
        if not spread < _WIDEST_SPREAD:
            return 0.0, None
        return sum(tops), [np.exp(log - top) if log.size else _NOTHING for top, log in zip(tops, logs, strict=True)]

    def _scale_densely(self, weights: Floats, logs: Sequence[Floats], whole: Floats | None) -> ScaledArray:
        """The product by one array of exponents over the universe."""
        exponents = np.zeros(self.size) if whole is None else whole.copy()
        for child, log in zip(self._plan.children, logs, strict=True):
            if log.size:
                exponents.reshape(child.pre, child.mid, child.post)[...] += log.reshape(child.pre, 1, child.post)
        shift = float(exponents.max())
        exponents -= shift
        np.exp(exponents, out=exponents)
        flat = weights.reshape(-1)
        flat *= exponents
        del exponents
        answers = self.answer_vector(weights)
        return ScaledArray(answers=answers, total=float(flat.sum()), log_shift=shift)


@functools.lru_cache(maxsize=256)
def marginal_tree(shape: Axes, sets: tuple[Axes, ...]) -> MarginalTree:
    """The tree of a shape and its sets, kept for the next time."""
    return MarginalTree(shape, sets)


class TableLayout(Protocol):
    """What lays tables out as one vector."""

    shape: Axes
    sets: tuple[Axes, ...]
    offsets: tuple[int, ...]
    _kernels: ModuleType | None


class TableRotation:
    """Multiplies every table of a vector along each of its axes a by a symmetric matrix L_a.

    Args:
        tree: whose vectors they are.
        factors: L_a for each axis of the universe.
        least: tables over fewer axes than this are left as they are.
    """

    def __init__(self, tree: TableLayout, factors: Sequence[Floats], *, least: int = 1) -> None:
        self._factors = list(factors)
        self._flat = np.concatenate([factor.reshape(-1) for factor in factors])
        at = np.concatenate([[0], np.cumsum([factor.size for factor in factors])]).tolist()
        rows = []
        for axes, start, stop in zip(tree.sets, tree.offsets, tree.offsets[1:], strict=False):
            pre, post = 1, stop - start
            for axis in sorted(axes) if len(axes) >= least else ():
                length = tree.shape[axis]
                post //= length
                rows.append((start, pre, length, post, at[axis], axis))
                pre *= length
        self._plan = np.array(rows, dtype=np.int64).reshape(-1, 6)
        self._spare = np.empty(int((self._plan[:, 2] * self._plan[:, 3]).max(initial=0)))
        self._kernels = tree._kernels

    def __call__(self, vector: Floats) -> Floats:
        """The rotated vector, a new one."""
        result = vector.copy()
        if self._kernels:
            self._kernels.rotate_tables(result, self._plan, self._flat, self._spare)
            return result
        for start, pre, length, post, _, axis in self._plan.tolist():
            block = result[start : start + pre * length * post].reshape(pre, length, post)
            block[...] = np.matmul(self._factors[axis], block)
        return result
