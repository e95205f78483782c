"""A published release's answers, read from its files: only the rows that are shown, since files may be large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Family, Marginal
from releases.engine.workload.statistic import Part
from releases.presentation.results.rows import Answer
from releases.publication import files
from releases.publication.readme import description_of
from releases.publication.receipt import rows_of_one
from releases.publication.totals import TOTALS

#: Bars of a chart that is shown with others.
MAX_IN_A_SMALL_CHART = 12
#: More synthetic rows, or a table of more cells, are not counted again for a page.
_MAX_COUNTED_ROWS = 2_000_000
_MAX_COUNTED_CELLS = 2_000_000


def read_answers(
    folder: Path,
    family: Family | Part,
    universe: Universe,
    *,
    first: int,
    start: int,
    stop: int,
    receipt: dict[str, Any],
) -> Iterator[Answer]:
    """The answers number `start` to `stop` of a family whose first answer is number `first` of the release."""
    stored = files.stored_rows(folder / f"{files.ANSWERS}.parquet", first + start, first + stop)
    synthetic = None if isinstance(family, Part) else _synthetic_counts(folder, family, universe, receipt)
    for position, labels in enumerate(islice(family.labels(universe), start, stop)):
        row = {name: values[position] for name, values in stored.items()}
        if "answer" in row:
            yield Answer(labels=labels, chosen=row["answer"])
        else:
            count = None if synthetic is None else float(synthetic[start + position])
            yield Answer(labels=labels, synthetic=count, **row)


def first_table(result: dict[str, Any], folder: Path) -> tuple[str, list[Answer]]:
    """The title and the counts of the first short table of a published release, of one column where it has one; none
    where it has no such table or its file is away."""
    receipt = result["receipt"]
    universe = Schema.from_json(receipt["schema"]).universe
    workload = read_answered(receipt["workload"], universe)
    short = [
        (len(each.attributes), position)
        for position, each in enumerate(workload.families)
        if isinstance(each, Marginal) and 2 <= each.cells(universe) <= MAX_IN_A_SMALL_CHART
    ]
    if not short:
        return "", []
    position = min(short)[1]
    family = workload.families[position]
    first = sum(each.cells(universe) for each in workload.families[:position])
    try:
        stored = files.stored_rows(folder / f"{files.ANSWERS}.parquet", first, first + family.cells(universe))
    except OSError:
        return "", []
    rows = [
        Answer(labels=labels, estimate=estimate, lower=lower, upper=upper)
        for labels, estimate, lower, upper in zip(
            family.labels(universe), stored["estimate"], stored["lower"], stored["upper"], strict=True
        )
    ]
    return family.title(universe), rows


def answers_as_json(folder: Path, receipt: dict[str, Any]) -> Iterator[str]:
    """All answers with what is needed to judge them, written a piece at a time."""
    import pyarrow.parquet

    yield "{\n"
    for name, said in description_of(receipt).items():
        yield f"{json.dumps(name)}: {json.dumps(said, ensure_ascii=False)},\n"
    if (totals := folder / f"{TOTALS}.parquet").is_file():
        rows = pyarrow.parquet.read_table(totals).to_pylist()
        yield f'"totals": {json.dumps(rows, ensure_ascii=False, default=str)},\n'
    yield '"answers": ['
    separator = "\n"
    with pyarrow.parquet.ParquetFile(folder / f"{files.ANSWERS}.parquet") as stored:
        for batch in stored.iter_batches(batch_size=10_000):
            # Dates as the CSV has them.
            yield separator + ",\n".join(json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
            separator = ",\n"
    yield "\n]}\n"


def is_any_above_zero(folder: Path) -> bool:
    """Whether some count of a published release is certainly above 0; read until one is found."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(folder / f"{files.ANSWERS}.parquet") as stored:
        lows = (batch.column(0).to_numpy() for batch in stored.iter_batches(columns=["lower"]))
        return any((low > 0).any() for low in lows)


def _synthetic_counts(
    folder: Path, family: Family, universe: Universe, receipt: dict[str, Any]
) -> NDArray[np.float64] | None:
    """The same question asked of the synthetic rows, scaled to the whole table; None where there are none."""
    import pyarrow.parquet

    rows = receipt["synthetic_rows"]
    shape = tuple(universe[name].size for name in family.attributes)
    path = folder / f"{files.SYNTHETIC}.parquet"
    if not 0 < rows <= _MAX_COUNTED_ROWS or prod(shape) > _MAX_COUNTED_CELLS or not path.exists():
        return None
    if not set(family.attributes) <= set(pyarrow.parquet.read_schema(path).names):
        return None
    counts = files.synthetic_marginals(path, universe)(family.attributes)
    return np.asarray(family.answer(counts) * rows_of_one(receipt), dtype=np.float64)
