"""Compiles the inner loops before anybody waits for them.

numba compiles a loop when it is first called: a dozen seconds that no plan can foretell. A worker has it done before it
takes anything. What is compiled is kept beside the code or, where nothing can be written there, in the process that did
it and in those it forks.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np

from releases.engine.estimation.fit import NoisyMarginal, fit_marginals
from releases.engine.estimation.marginals import compiled_kernels, marginal_tree
from releases.engine.estimation.rounding import controlled_counts
from releases.engine.noise.randomness import OperatingSystemRandomness

#: Loops that every release of a whole table goes through, in the order in which they are first met here.
LOOPS = (
    "reduce_steps",
    "spread_steps",
    "product_blocks",
    "tangent_blocks",
    "anneal_rows",
    "scale_blocks",
    "add_blocks",
)
#: And that which every upload goes through.
HASHES = "add_hashes"
#: A table of some two hundred cells, with no data in it.
_SHAPE, _ROWS = (3, 2, 3, 2, 3, 2), 60
_SETS = tuple(combinations(range(len(_SHAPE)), 3))


def are_compiled() -> bool:
    """Whether an earlier process has left the loops compiled, or there is nothing to compile."""
    kernels = compiled_kernels()
    if kernels is None:
        return True
    from releases.engine.tables.files import md5

    return all(_is_kept(kernels, loop) for loop in LOOPS) and _is_kept(md5, HASHES)


def _is_kept(kernels: ModuleType, loop: str) -> bool:
    source = Path(str(kernels.__file__))
    changed = source.stat().st_mtime
    kept = source.parent / "__pycache__"
    return any(each.stat().st_mtime >= changed for each in kept.glob(f"{source.stem}.{loop}-*.nbi"))


def compile_loops() -> None:
    """Run every loop once."""
    tables = [np.full([_SHAPE[axis] for axis in axes], _ROWS / 8.0) for axes in _SETS]
    tables[0][0, 0, 0] += 1.0  # of tables that are all even nothing would be fitted
    measured = [
        NoisyMarginal(axes=axes, table=table, variance=1.0, population=None)
        for axes, table in zip(_SETS, tables, strict=True)
    ]
    weights = fit_marginals(_SHAPE, measured, total=float(_ROWS)).weights
    controlled_counts(weights, _ROWS, OperatingSystemRandomness())
    tree = marginal_tree(_SHAPE, _SETS)
    tree.scale_by_exp(weights, {0: np.log(tables[0] / 7.0)})
    tree.adjoint(tree.answer_vector(weights))
    tree.answer_vector(np.zeros(_SHAPE, dtype=np.int64))
    if compiled_kernels() is not None:
        from releases.engine.tables.files.md5 import add_hashes

        # With the same kinds of arrays as `digest.py`: what was read cannot be written to.
        add_hashes(np.frombuffer(bytes(16), np.int64), np.frombuffer(b"", np.uint8), np.zeros(4, np.uint64))
