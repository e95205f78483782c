"""The trust map beside synthetic rows: what is known of every column, pair and three columns, as a file and a summary.

It is made of the plan, the released answers and the synthetic rows alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from releases.engine.estimation.trust import MAX_WORK, ReleasedTable, State, Trust, TrustInputs, TrustMap, trust_map
from releases.engine.run import ReleaseOutput as MadeRelease
from releases.engine.workload.queries import Marginal, MarginalSource, Workload

TRUST_MAP = "trust_map.csv"
#: Sizes of sets by their names in the receipt.
ORDERS = {"columns": 1, "pairs": 2, "threes": 3}
_NAMES = ("column_1", "column_2", "column_3")
_NUMBERS = {"rows_off_at_most": 2, "share_off_at_most": 4, "share_off_estimated": 4, "association": 4}
#: In units of the last place: so little is the error of floating point, and no reason to round up.
_SLACK = 1e-9


def trust_of(
    made: MadeRelease, answers: pa.Table, counts: MarginalSource, *, rows_of_one: float, is_counted: bool
) -> TrustMap | None:
    """The trust map of a run's synthetic rows; None where there are none.

    Args:
        answers: as they are published, intervals rounded outwards.
        counts: of the synthetic rows.
        is_counted: whether they are few enough to be compared with the answers.
    """
    result, records = made.result, made.records
    if records is None or result.distribution is None or not records.rows or not records.columns:
        return None
    bound = result.bound
    return trust_map(
        TrustInputs(
            universe=made.plan.counts_asked.universe.project(records.columns),
            distribution=result.distribution,
            tables=tuple(_released(made.plan.counts_asked, answers)),
            is_proved=bound.proof.is_unconditional,
            measured=made.plan.measured_tables(result),
            counts=counts,
            rows=records.rows,
            rows_of_one=rows_of_one,
            most_work=MAX_WORK if is_counted else 0.0,
        )
    )


def _released(workload: Workload, answers: pa.Table) -> Iterator[ReleasedTable]:
    numbers = {name: answers.column(name).to_numpy() for name in ("estimate", "lower", "upper")}
    first = 0
    for family in workload.families:
        last = first + family.cells(workload.universe)
        if isinstance(family, Marginal):
            shape = workload.universe.project(family.attributes).shape
            cut = {name: np.asarray(values[first:last]).reshape(shape) for name, values in numbers.items()}
            yield ReleasedTable(names=family.attributes, **cut)
        first = last


def trust_csv(trust: TrustMap, guarded: Callable[[str], str]) -> str:
    """One line a set of columns. Numbers that are bounds are rounded up; what is not known is empty.

    Args:
        guarded: makes a name one that no spreadsheet takes for a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_NAMES, "state", *_NUMBERS])
    for each in trust.entries:
        names = [*map(guarded, each.names), "", ""][: len(_NAMES)]
        numbers = (
            _rounded_up(each.rows_off, _NUMBERS["rows_off_at_most"]),
            _rounded_up(each.share_off, _NUMBERS["share_off_at_most"]),
            each.estimated,
            each.association,
        )
        written = (
            "" if number is None else f"{number:.{places}f}"
            for number, places in zip(numbers, _NUMBERS.values(), strict=True)
        )
        writer.writerow([*names, each.state.value, *written])
    return text.getvalue()


def read_trust(path: Path, *, most: int) -> list[Trust]:
    """The columns and pairs of a file that `trust_csv` wrote, of columns among the first `most`."""
    found: list[Trust] = []
    columns: set[str] = set()
    with path.open(newline="") as source:
        for row in csv.DictReader(source):
            names = tuple(row[name] for name in _NAMES if row[name])
            if len(names) > 2:
                break
            if len(names) == 1 and len(columns) < most:
                columns.add(names[0])
            if columns.issuperset(names):
                numbers = {name: float(row[name]) if row[name] else None for name in _NUMBERS}
                found.append(
                    Trust(
                        names=names,
                        state=State(row["state"]),
                        rows_off=numbers["rows_off_at_most"],
                        share_off=numbers["share_off_at_most"],
                        estimated=numbers["share_off_estimated"],
                        association=numbers["association"],
                    )
                )
    return found


def quality_of(trust: TrustMap) -> dict[str, Any]:
    """What the receipt says of the whole map: for columns, pairs and threes how many there are in each state, and the
    mean and the largest of what is certified and of what is estimated."""
    return {
        **{said: _summary(trust.of_order(order), trust.possible[order - 1]) for said, order in ORDERS.items()},
        "bins": {"present": trust.present, "declared": trust.declared},
    }


def _summary(entries: Sequence[Trust], possible: int) -> dict[str, Any]:
    known = [each for each in entries if each.share_off is not None]
    return {
        "possible": possible,
        "listed": len(entries),
        **{state.value: sum(each.state is state for each in entries) for state in State},
        "certified": _figure({each.names: _rounded_up(each.share_off, 4) for each in known}),
        "most_rows_off": max((_rounded_up(each.rows_off, 2) or 0.0 for each in known), default=None),
        "estimated": _figure({each.names: each.estimated for each in entries}),
    }


def _figure(shares: Mapping[tuple[str, ...], float | None]) -> dict[str, Any] | None:
    """How many are known, their mean, the largest and whose it is; None where none is known."""
    known = {names: share for names, share in shares.items() if share is not None}
    if not known:
        return None
    largest = max(known, key=known.__getitem__)
    return {
        "number": len(known),
        "average": _rounded_up(sum(known.values()) / len(known), 6),
        "largest": _rounded_up(known[largest], 6),
        "largest_of": list(largest),
    }


def _rounded_up(number: float | None, places: int) -> float | None:
    return None if number is None else ceil(number * 10**places - _SLACK) / 10**places
