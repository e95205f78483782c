"""Replicates of synthetic rows as a file beside them, and in words how to make intervals of them.

They are made of the plan and of the released synthetic rows, so they cost nothing and promise nothing new. Where they
were not shown to be valid, no file is made, and the receipt says why.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from releases.engine.domain.attribute import Attribute
from releases.engine.noise.randomness import Randomness
from releases.engine.replicates.combine import CONFIDENCE, SHIFTS
from releases.engine.replicates.draw import NUMBER, draw_replicates
from releases.engine.replicates.validity import (
    LEAST_SHARE,
    TABLES,
    StatisticOfRows,
    refusal,
    rows_to_noise,
    valid_kinds,
)
from releases.engine.run import ReleaseOutput as MadeRelease
from releases.engine.workload.queries import MarginalSource
from releases.publication.receipt import counted_by

REPLICATES = "replicates.csv"
#: The columns that are not the table's.
REPLICATE, COUNT = "replicate", "count"
_LEAST = f"{100 * LEAST_SHARE:g}%"
#: Of a kind, as a sentence lists it.
_KINDS = {
    StatisticOfRows.SHARE: f"a share of at least {_LEAST} of all",
    StatisticOfRows.MEAN: "a mean",
    StatisticOfRows.DIFFERENCE: f"a difference of shares between two groups that have at least {_LEAST} of all each",
    StatisticOfRows.SLOPE: "a slope of the least squares line of a number on all other columns",
}


def replicates_of(
    made: MadeRelease, counts: MarginalSource, guarded: Callable[[str], str], rng: Randomness
) -> tuple[dict[str, Any], str]:
    """What the receipt says of the replicates of a run, and the file; empty where they are not valid.

    Args:
        counts: of the synthetic rows.
        guarded: makes a text one that no spreadsheet takes for a formula.
    """
    assert made.records is not None
    universe, names = made.plan.schema.universe, tuple(made.records.columns)
    if refused := refusal(made.plan, columns=names, rows=made.records.rows):
        return {"number": 0, "refused": refused}, ""
    rows = counts(names)
    ratio = rows_to_noise(made.plan, rows=made.records.rows, cells=rows.size)
    drawn = draw_replicates(made.plan, rows, names, rng=rng)
    said = {
        "number": NUMBER,
        "statistics": [kind.name.lower() for kind in valid_kinds(made.plan.mechanism, ratio)],
        "confidence": str(CONFIDENCE),
    }
    return said, _csv([universe[name] for name in names], np.concatenate([rows[None], drawn]), guarded)


def _csv(columns: list[Attribute], counts: NDArray[np.int64], guarded: Callable[[str], str]) -> str:
    """One line for each replicate and cell; replicate 0 is the released rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    values = [_values(each, guarded) for each in columns]
    writer.writerow([REPLICATE, *(name for each in columns for name in _heads(each)), COUNT])
    for number, table in enumerate(counts):
        for cell, rows in zip(product(*values), table.reshape(-1).tolist(), strict=True):
            writer.writerow([number, *(value for of_column in cell for value in of_column), rows])
    return text.getvalue()


def _heads(attribute: Attribute) -> list[str]:
    name = f"{attribute.name}_column" if attribute.name in (REPLICATE, COUNT) else attribute.name
    return [name, middle_of(name)] if has_middles(attribute) else [name]


def middle_of(name: str) -> str:
    """The column with the middles of a column's bins."""
    return f"middle of {name}"


def has_middles(attribute: Attribute) -> bool:
    """Whether each of its bins has a middle: of numbers, where none may be missing."""
    return attribute.is_numeric and attribute.dates is None and attribute.ranges == attribute.size


def _values(attribute: Attribute, guarded: Callable[[str], str]) -> list[list[str]]:
    labels = [guarded(label) for label in attribute.labels]
    if not has_middles(attribute):
        return [[label] for label in labels]
    return [[label, middle] for label, middle in zip(labels, _middles(attribute), strict=True)]


def _middles(attribute: Attribute) -> list[str]:
    """The mean of the values that a bin can hold."""
    steps = [int(edge.scaleb(attribute.decimals)) for edge in attribute.edges]
    steps[-1] += 1  # the last bin is closed at its upper edge
    return [f"{(low + high - 1) / 2 / 10**attribute.decimals:.12g}" for low, high in pairwise(steps)]


def quantile_of(said: Mapping[str, Any]) -> float:
    """Of Student's law, by which an interval is as wide as its confidence needs."""
    return float(stdtrit(said["number"] - 1, (1 + float(said["confidence"])) / 2))


def kinds_of(said: Mapping[str, Any]) -> list[StatisticOfRows]:
    """The kinds of statistics that a receipt says intervals are valid for."""
    return [StatisticOfRows[name.upper()] for name in said["statistics"]]


def replicates_in_words(receipt: Mapping[str, Any]) -> tuple[str, ...]:
    """How intervals are made of the replicates and for what they hold, or why they do not; nothing of older releases
    and of those without synthetic rows."""
    said = receipt.get("replicates")
    if said is None:
        return ()
    if not said["number"]:
        return (
            "Intervals made from replicates of the synthetic rows are not valid for this release, so there are none. "
            f"{said['refused']} Take numbers and their intervals from the answers.",
        )
    counted = counted_by(receipt).many
    number, kinds = said["number"], "; ".join(_KINDS[kind] for kind in kinds_of(said))
    return (
        f"{REPLICATES} counts the released synthetic rows (replicate 0) and {number} replicates of them. A replicate "
        f"is what could have been released of other {counted}: as many were drawn from the released synthetic rows, "
        "and new noise was added in the same way.",
        f"Work out your number in each. B is the variance of the {number} numbers: their squared distances from their "
        f"mean, added up and divided by {number - 1}. d is their mean less the number in replicate 0. The "
        f"{float(said['confidence']):.0%} interval is the number in replicate 0, plus and minus "
        f"{quantile_of(said):.4g} times the square root of (1 + 1/{number}) B + ({SHIFTS:g} d)². The factor is of "
        f"Student’s law with {number - 1} degrees of freedom. No variance within a replicate is added: B has the error "
        "of sampling in it.",
        f"The interval is for the population, of which the counted {counted} are taken for a random sample. It "
        "includes the error of that sample as well as the noise.",
        f"It is valid for: {kinds}. A number counts as the middle of its bin. In tests on {TABLES} simulated tables of "
        "each of three real ones, such intervals held the truth at least 95% of the time, up to chance. Each holds by "
        "itself, not all at once. For any other statistic they were not tested and are not valid.",
    )
