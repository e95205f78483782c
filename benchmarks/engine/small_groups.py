"""Means of small groups in synthetic rows, where a number has few wide bins, the last of them open, beside those of the
table.

The bins are ones that one would declare without having seen a row. Beside ours, the same rows with every value of a bin
as likely as another, as they were made before.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import BenchRow, BenchTable
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import OperatingSystemRandomness, uniform_below
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.verification.tables import Remembered
from releases.engine.workload.queries import Workload

RUNS = 20
#: Rows of a group that is small.
_SMALL = (20, 500)


@dataclass(frozen=True, kw_only=True)
class Question:
    """
    Attributes:
        title: what is asked.
        file: which table.
        number: its column of numbers, and what is added to its codes.
        edges: of the bins; the last is open.
        by: the columns that make a group.
    """

    title: str
    file: str
    number: tuple[str, int]
    edges: tuple[int, ...]
    by: tuple[str, ...]


# The file of Adult holds codes: an age counts from 17.
QUESTIONS = (
    Question(
        title="Adult: age by occupation and work class",
        file="adult.csv",
        number=("age", 17),
        edges=(17, 30, 45, 65, 85),
        by=("occupation", "workclass"),
    ),
    Question(
        title="Health survey: age by region, education and gender",
        file="health_insurance.csv",
        number=("age", 0),
        edges=(18, 30, 50, 65),
        by=("region", "education", "gender"),
    ),
    Question(
        title="NIST 2019: age by area and marital status",
        file="nist_national2019.csv",
        number=("AGEP", 0),
        edges=(0, 18, 40, 65, 90),
        by=("PUMA", "MSP"),
    ),
)


def tables(folder: Path, *, runs: int = RUNS) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the files.
        runs: releases of each question.
    """
    title = "Means of small groups in synthetic rows"
    if missing := sorted({each.file for each in QUESTIONS if not (folder / each.file).exists()}):
        says = f"{folder.name}/ does not hold {' and '.join(missing)}."
        yield BenchTable(title=title, says=says, heads=("question",), rows=[])
        return
    yield BenchTable(
        title=title,
        says=f"Groups of {_SMALL[0]} to {_SMALL[1]} rows; {runs} releases of gaussian-histogram over the columns, "
        "epsilon 1, delta 1e-9, a row added or removed. The mean over groups of how far the mean of a group in the "
        "synthetic rows is from that in the table: ours, and the same rows with each value of a bin as likely as "
        "another. Target: no further than these.",
        heads=("question", "groups", "bins", "ours", "evenly", "share", "target"),
        rows=[_row(each, folder, runs) for each in QUESTIONS],
    )


def _row(question: Question, folder: Path, runs: int) -> BenchRow:
    name, plus = question.number
    with (folder / question.file).open(newline="") as file:
        lines = list(csv.DictReader(file))
    described: list[dict[str, Any]] = [
        {"name": name, "type": "integer", "edges": list(question.edges), "open": ["last"]},
        *(
            {"name": by, "type": "categorical", "categories": sorted({line[by] for line in lines})}
            for by in question.by
        ),
    ]
    schema = Schema.from_json({"version": 1, "columns": described})
    columns = {}
    for by in question.by:
        place = {text: code for code, text in enumerate(schema.universe[by].categories)}
        columns[by] = np.array([place[line[by]] for line in lines], dtype=np.int64)
    shape = tuple(schema.universe[by].size for by in question.by)
    numbers = np.array([int(line[name]) + plus for line in lines], dtype=np.int64)
    within = np.clip(numbers, question.edges[0], question.edges[-1])
    codes = np.ravel_multi_index(tuple(columns.values()), shape)
    rows = Rows(universe=schema.universe, columns={name: within, **columns})
    sizes = np.bincount(codes, minlength=prod(shape))
    is_small = (sizes >= _SMALL[0]) & (sizes <= _SMALL[1])
    truth = _means(numbers, codes, is_small)
    plan = mechanism("gaussian-histogram").plan(
        schema,
        Workload.from_json({"version": 1, "queries": [{"marginal": [name, *question.by]}]}, schema.universe),
        budget=ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9)),
        beta=Fraction(1, 20),
        options={},
    )
    ours, evenly = [], []
    for _ in range(runs):
        records = run_release(plan, Remembered(rows), rng=OperatingSystemRandomness()).records
        assert records is not None
        of_group = np.ravel_multi_index(tuple(records.columns[by].astype(np.int64) for by in question.by), shape)
        made = records.columns[name].astype(np.int64)
        ours.append(float(np.nanmean(np.abs(_means(made, of_group, is_small) - truth))))
        evenly.append(float(np.nanmean(np.abs(_means(_evenly(made, question), of_group, is_small) - truth))))
    far, before = float(np.mean(ours)), float(np.mean(evenly))
    cells = (question.title, f"{int(is_small.sum())}", f"{len(question.edges) - 1}", f"{far:.2f}", f"{before:.2f}")
    return BenchRow(cells=(*cells, f"{far / before:.2f}", "1"), is_met=far <= before)


def _means(numbers: NDArray[np.int64], groups: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Of each chosen group; not a number where it has no row."""
    size = len(chosen)
    sums = np.bincount(groups, weights=numbers, minlength=size)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = (sums / np.bincount(groups, minlength=size))[chosen]
    return means


def _evenly(numbers: NDArray[np.int64], question: Question) -> NDArray[np.int64]:
    """Other values of the same bins, each as likely as another."""
    ends = np.array([*question.edges[:-1], question.edges[-1] + 1], dtype=np.int64)
    bins = np.searchsorted(ends, numbers, side="right") - 1
    drawn = np.empty_like(numbers)
    for each in range(len(ends) - 1):
        members = bins == each
        held = int(ends[each + 1] - ends[each])
        drawn[members] = ends[each] + uniform_below(held, int(members.sum()), OperatingSystemRandomness())
    return drawn
