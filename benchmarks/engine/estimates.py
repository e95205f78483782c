"""What a plan of `mixture-fit` says of time and memory, beside what the run takes: each in a process of its own.

Tables of 5 to 60 columns. Up to 20 they are NIST's and Adult's; wider ones are NIST's table, the health survey and
Adult side by side: the columns are real, and which rows of two tables meet says nothing.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.engine import nist
from benchmarks.engine.nist_columns import ALL, DEMOGRAPHIC, SIMPLE, schema
from benchmarks.engine.wide import MAX_MEGABYTES
from benchmarks.tables import BenchRow, BenchTable
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.workload.queries import all_marginals

COLUMNS = (5, 10, 20, 35, 60)
EPSILONS = ("0.1", "1", "10")
DELTA = Fraction(1, 10**9)
FILES = ("nist_national2019.csv", "adult.csv", "health_insurance.csv")
#: How many times as long as stated, or as short, a run may take.
FACTOR = 2
_ROOT = Path(__file__).parents[2]
#: All pairs are asked for, and up to so many columns all triples too.
_MOST_OF_TRIPLES = 20


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What one run took.

    Attributes:
        stated, seconds: of the processor.
        stated_megabytes, megabytes: at the peak; of the whole program, the table included.
    """

    stated: float
    seconds: float
    stated_megabytes: float
    megabytes: float


def tables(
    folder: Path, *, columns: Sequence[int] = COLUMNS, epsilons: Sequence[str] = EPSILONS
) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the files.
        columns: of the tables.
        epsilons: of the releases.
    """
    title = "Time and memory of wide fits, stated and taken"
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        says = f"{folder.name}/ does not hold {' and '.join(missing)}."
        yield BenchTable(title=title, says=says, heads=("columns",), rows=[])
        return
    yield BenchTable(
        title=title,
        says="mixture-fit, one row added or removed, delta 1e-9, all options at their defaults, one release each in a "
        f"process of its own. Asked for: all pairs, and all triples of up to {_MOST_OF_TRIPLES} columns. Up to 20 "
        "columns the rows are the 27,253 of NIST's table; beyond, columns of the health survey and of Adult are put "
        "beside them. Stated is what the plan says beforehand. Seconds are of the processor; memory is the whole "
        f"program's at its peak. Targets: within a factor of {FACTOR}, and at most {MAX_MEGABYTES} MB.",
        heads=("columns", "bins", "epsilon", "stated s", "seconds", "times", "stated MB", "MB"),
        rows=[_row(folder, number, epsilon) for number in columns for epsilon in epsilons],
    )


def _row(folder: Path, number: int, epsilon: str) -> BenchRow:
    command = [sys.executable, "-m", "benchmarks.engine.estimates", str(folder.resolve()), str(number), epsilon]
    # With one thread for products of matrices, as in the site.
    given = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=_ROOT, env=given, capture_output=True, text=True, check=True)  # noqa: S603  ours
    bins, taken = json.loads(done.stdout)
    one = Taken(**taken)
    times = one.seconds / one.stated
    return BenchRow(
        cells=(
            str(number),
            f"{bins:,}",
            epsilon,
            f"{one.stated:.1f}",
            f"{one.seconds:.1f}",
            f"{times:.2f}",
            f"{one.stated_megabytes:.0f}",
            f"{one.megabytes:.0f}",
        ),
        is_met=1 / FACTOR <= times <= FACTOR and one.megabytes <= MAX_MEGABYTES,
    )


def read(folder: Path, number: int) -> Rows:
    """A table of so many columns, as numbers of bins."""
    names = {5: DEMOGRAPHIC[:5], 10: DEMOGRAPHIC, 20: SIMPLE[:20]}.get(number, ALL)
    declared = schema(names)
    attributes = {each.name: each.to_json() for each in declared.universe.attributes}
    columns = nist.bins(nist.read(folder / FILES[0]), declared.universe)
    rows = len(next(iter(columns.values())))
    beside = [("health", FILES[2], 0), ("adult", FILES[1], 0), ("others", FILES[2], 1)]
    for prefix, file, shift in beside:
        with (folder / file).open(newline="") as opened:
            head, *lines = csv.reader(opened)
        place = (np.arange(rows) + shift) % len(lines)
        for name, values in zip(head, zip(*lines, strict=True), strict=True):
            if name == "person_id" or len(columns) == number:
                continue
            categories, codes = np.unique(np.array(values), return_inverse=True)
            own = f"{prefix} {name}"
            columns[own] = codes[place]
            attributes[own] = {"name": own, "type": "categorical", "categories": categories.tolist()}
    universe = Schema.from_json({"version": 1, "columns": list(attributes.values())}).universe
    return nist.BinnedRows(universe=universe, columns=columns)


def taken(folder: Path, number: int, epsilon: Fraction) -> tuple[int, Taken]:
    """How many bins there are together, and what a run takes: to be asked in a fresh process."""
    table = read(folder, number)
    universe = table.universe
    declared = Schema.from_json(
        {"version": 1, "columns": [each.to_json() for each in universe.attributes], "neighbours": "add_remove"}
    )
    plan = mechanism("mixture-fit").plan(
        declared,
        all_marginals(universe, 3 if number <= _MOST_OF_TRIPLES else 2),
        budget=ApproxDP(epsilon=epsilon, delta=DELTA),
        beta=Fraction(1, 20),
        options={},
    )
    start = time.process_time()
    run_release(plan, table, rng=StreamRandomness(b"estimates"))
    seconds = time.process_time() - start
    return sum(universe.shape), Taken(
        stated=plan.work.seconds,
        seconds=seconds,
        stated_megabytes=plan.work.bytes / 1e6,
        megabytes=_peak_megabytes(),
    )


def _peak_megabytes() -> float:
    """Of this program: what `getrusage` says begins with that of the program that started it."""
    (line,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def main() -> None:
    folder, number, epsilon = sys.argv[1:]
    bins, found = taken(Path(folder), int(number), Fraction(epsilon))
    sys.stdout.write(json.dumps([bins, vars(found)]))


if __name__ == "__main__":
    main()
