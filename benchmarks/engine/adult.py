"""Seven attributes of Adult, 48,842 rows over 336,000 cells, where its files are at hand."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.schema import Schema
from releases.engine.estimation.marginals import MarginalTree
from releases.engine.tables.counts import Histogram

NAME = "adult_reduced"


@dataclass(frozen=True, kw_only=True)
class Adult:
    """The table, and the error of others against it.

    Attributes:
        schema: its columns; one row a person, added or removed.
        counts: of every cell.
    """

    schema: Schema
    counts: Histogram

    @staticmethod
    def read(folder: Path) -> Adult | None:
        """The table, or None where the folder does not hold it."""
        table, declared = folder / f"{NAME}.csv", folder / f"{NAME}_schema.json"
        if not (table.exists() and declared.exists()):
            return None
        schema = Schema.from_json(json.loads(declared.read_text()))
        with table.open(newline="") as file:
            head, *rows = csv.reader(file)
        codes = np.array(rows, dtype=np.int64).T[[head.index(name) for name in schema.universe.names]]
        return Adult(schema=schema, counts=Histogram(universe=schema.universe, counts=cells_of(schema, codes)))

    def error(self, cells: NDArray[Any]) -> float:
        """The mean over all three-way marginals of the total-variation distance, each marginal normalised."""
        shape = self.schema.universe.shape
        tree = MarginalTree(shape, list(itertools.combinations(range(len(shape)), 3)))
        mine, true = (tree.answer_vector(each.astype(np.float64)) for each in (cells, self.counts.counts))
        return float(np.abs(mine / cells.sum() - true / self.counts.counts.sum()).sum() / 2 / len(tree.sets))


def cells_of(schema: Schema, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows lie in each cell, from the codes of every column."""
    universe = schema.universe
    flat = np.bincount(np.ravel_multi_index(tuple(codes), universe.shape), minlength=universe.size)
    return flat.astype(np.int64).reshape(universe.shape)
