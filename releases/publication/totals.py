"""The line of all groups together below a table, from what was released: it costs nothing. `totals.csv` has it of each
question, on a line of its own, so that whoever adds up `answers.csv` counts no row twice.

Let x_i be the true numbers of the groups of a table that holds each counted row once, and L_i <= x_i <= U_i for all i
at once, with probability 1 - beta. With the same probability:

*Counts and sums.* Together they come to Σ x_i, which lies between Σ L_i and Σ U_i. Counts are whole and not below 0, so
theirs lies between Σ ceil(max(L_i, 0)) and Σ floor(U_i). A number of rows that is public is that number.

*Means.* The mean of all rows is Σ n_i x_i / Σ n_i over the groups that have rows, so it lies between the least L_i and
the largest U_i; where no group has rows it is, as theirs, by convention the middle of the range. It is read off as
c + Σ S_i / Σ n_i, from the noisy sums S_i about the middle c of the range and the noisy numbers of rows n_i, both of
which are published, and is moved to an end of that interval where it lies outside.

*Quantiles.* Those of a share q among n rows are all values y of the range with #{x < y} <= q n <= #{x <= y}; of no rows
all of the range. An interval that holds its group holds all of the group's. Let y be one of all rows. If y were below
every L_i, it would be below every quantile of every group that has rows, so that #{x <= y} < q n_i in each of them;
added up, #{x <= y} < q n, which is none. So y is at least the least L_i and, the same from above, at most the largest
U_i. Where no group has rows each interval is the range. The quantile is read off the published noisy counts of the
cells of each group, each spread evenly over its cell: where their sum up to an edge passes q of all, drawn as a line
from the edge before the first that reaches it to the edge after the last that does not exceed it. It is moved to an end
of the interval where it lies outside.

*Variances.* With m_i the groups' means and m that of all, n V = Σ n_i x_i + Σ n_i (m_i - m)² (law of total variance).
So V is at least the mean of the x_i with weights n_i, and that at least the least L_i; and a variance of values from a
range of length R is at most (R / 2)². Where no group has rows V is 0, as are the x_i by convention, so that no L_i is
above it. More is known where a release publishes what no noise on a sum exceeds, with the same probability as above. A
group's x_i is read off three sums A_i, B_i, C_i >= 0 (`row_variances`), in units of R², and so is V off Σ A_i, Σ B_i
and Σ C_i. Each of these is within the sum of those bounds of the noisy one, and `variances_within` proves the ends for
such sums. Both hold at once, so V is in what they have in common. The noisy A, B and C follow from three numbers that
are published: Σ p (1 - p) = B / 2, Σ (p - 1/2) = (A - C) / 2 and Σ (2 p - 1)² = A - B + C. The variance is read off
the noisy sums of all groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from releases.engine.domain.attribute import Attribute
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.kinds.variance import Variance
from releases.engine.workload.queries import Family, Marginal
from releases.engine.workload.questions import Inquiry, Question, dates_of
from releases.engine.workload.row_sums import rounded_outwards
from releases.engine.workload.row_variances import variances_within
from releases.engine.workload.statistic import Part
from releases.publication.shares import MOST_CELLS, Whole
from releases.questions.base import statistic_kind

#: What the line is called, and the files that hold it.
TOGETHER, TOTALS = "all together", "totals"
#: What `totals.csv` calls counts. Other statistics are called as a workload asks for them.
_COUNTED = "counts"
_NUMBERS = ("estimate", "lower", "upper")
#: What the means and variances of groups are read off, as their release publishes it: of rows that count alike, and by
#: weights.
_ABOUT_MIDDLE, _NUMBERS_OF_ROWS = "noisy sums about the middle", ("noisy numbers of rows", "noisy sums of the weights")
_SQUARES = "noisy sums of squares about the middle"
_PRODUCTS, _REACH = "noisy sums of the products of the distances to both ends", "noise on each measured sum within"
#: The same of quantiles, by group.
_COUNTS, _CELLS = "noisy counts", "cells begin at"
#: More than the published numbers lose by being rounded to doubles, in their own size.
_ROUNDED = 1e-12


def totals_table(
    question: Question, answers: pa.Table, receipt: Mapping[str, Any], guarded: Callable[[str], str]
) -> pa.Table | None:
    """What all groups of each question are together, a row each; None where nothing can be said of any.

    Args:
        answers: as their file has them.
        guarded: makes a text one that no spreadsheet takes for a formula.
    """
    if question.is_open or not set(_NUMBERS) <= set(answers.column_names):
        return None
    statistic = question.statistic.kind if isinstance(question, Inquiry) else _COUNTED
    numbers, first, found = answers.select(list(_NUMBERS)), 0, []
    for family in question.families:
        cells = family.cells(question.universe)
        every = numbers.slice(first, cells).to_pylist() if 1 < cells <= MOST_CELLS else []
        if (total := of_table(question, family, every, receipt)) is not None:
            found.append({"query": guarded(family.title(question.universe)), "statistic": statistic, **total})
        first += cells
    columns = [pa.field("query", pa.string()), pa.field("statistic", pa.string()), *numbers.schema]
    return pa.Table.from_pylist(found, schema=pa.schema(columns)) if found else None


def of_table(
    question: Question, family: Family | Part, every: Sequence[Mapping[str, Any]], receipt: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What all of a table come to, as on the page; None where that cannot be said.

    Args:
        every: its rows.
    """
    if isinstance(question, Inquiry):
        return (
            of_groups(question, family, every, receipt) if isinstance(family, Part) and not question.is_open else None
        )
    if len(every) < 2 or "estimate" not in every[0] or not isinstance(family, Marginal):
        return None
    whole = Whole.of(*([row[name] for row in every] for name in _NUMBERS), rows=public_rows(receipt))
    return None if whole is None else of_counts(whole)


def public_rows(receipt: Mapping[str, Any]) -> float | None:
    """The number of rows of a release, where it is public."""
    total = receipt["total"]
    return total["estimate"] if total.get("is_exact") else None


def of_counts(whole: Whole) -> dict[str, float]:
    """What the counts of a table come to."""
    if whole.rows is not None:
        return dict.fromkeys(_NUMBERS, float(round(whole.rows)))
    return _within(round(whole.estimate), max(math.ceil(whole.lower), 0), math.floor(whole.upper))


def of_groups(
    inquiry: Inquiry, part: Part, rows: Sequence[Mapping[str, Any]], receipt: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What all groups of one part of a statistic are together, as numbers or, where theirs are, as dates; None where
    nothing can be said.

    Args:
        rows: the released answers of all its groups.
    """
    kind, statistic = statistic_kind(inquiry.statistic), inquiry.statistic
    if len(rows) < 2 or "estimate" not in rows[0]:
        return None
    notes, place = receipt.get("notes", {}), inquiry.families.index(part)
    if isinstance(statistic, Quantiles):
        attribute = inquiry.universe[statistic.attributes[0]]
        return _quantile(rows, notes, attribute, float(statistic.at[place]))
    if dates_of(inquiry) is not None:
        return None
    estimates, lowers, uppers = ([float(row[name]) for row in rows] for name in _NUMBERS)
    if kind.has_shares or kind.is_total:
        # The sums of the decimals that are published, with no more digits than these.
        return _within(*(float(sum(map(Decimal, map(str, each)))) for each in (estimates, lowers, uppers)))
    if not isinstance(statistic, Mean | Variance):
        return None
    name = statistic.of[place]
    low, *_, high = map(float, inquiry.universe[name].edges)
    about = _added(notes, _ABOUT_MIDDLE, name)
    number = next((math.fsum(notes[each]) for each in _NUMBERS_OF_ROWS if each in notes), None)
    if about is None or number is None:
        # An older version did not publish what it is read off.
        return None
    places = max(len(f"{each:.9f}".rstrip("0").partition(".")[2]) for each in estimates)
    if isinstance(statistic, Mean):
        mean = (low + high) / 2 + about / max(1.0, number)
        return _within(round(mean, places), min(lowers), max(uppers))
    squares, products = _added(notes, _SQUARES, name), _added(notes, _PRODUCTS, name)
    if squares is None:
        return None
    of_all = _sums_of_squares(high - low, about, squares, products, number)
    ends = _ends_of_variance(of_all, high - low, min(lowers), reach=_added(notes, _REACH, name))
    return _within(round((high - low) ** 2 * _variance(*of_all), places), *ends)


def _added(notes: Mapping[str, Any], what: str, name: str) -> float | None:
    """What is published of a column for each group, added up; None where it is not published."""
    found = notes.get(what, {}).get(name)
    return None if found is None else math.fsum(found)


def _sums_of_squares(
    size: float, about: float, squares: float, products: float | None, number: float
) -> tuple[float, float, float]:
    """Σ A_i, Σ B_i and Σ C_i, with their noise.

    Args:
        size: R.
        about, squares: the noisy sums about the middle of the values and of their squares.
        products: those of the distances to both ends. An older version did not publish them: then they follow from the
            noisy number of rows, which is read off all columns, and so nearly.
    """
    of_squares = 4 * squares / size**2
    b = (number - of_squares) / 2 if products is None else 2 * products / size**2
    return (of_squares + b) / 2 + about / size, b, (of_squares + b) / 2 - about / size


def _ends_of_variance(
    sums: tuple[float, float, float], size: float, lowest: float, *, reach: float | None
) -> tuple[float, float]:
    """Between what the variance lies.

    Args:
        size: R.
        lowest: the least lower end of a group.
        reach: what each of the sums, times R², is within of its truth; None where it is not known.
    """
    highest = size**2 / 4
    if reach is None:
        return lowest, highest
    off = reach / size**2 + _ROUNDED * sum(map(abs, sums))
    within = variances_within([each - off for each in sums], [each + off for each in sums])
    least, most = rounded_outwards(*(Fraction(each * size**2) for each in within))
    # Where they have nothing in common one of them is wrong, and which is not known.
    is_one = least <= highest and lowest <= most
    return (max(lowest, least), min(highest, most)) if is_one else (lowest, highest)


def _variance(*sums: float) -> float:
    """V of noisy sums Σ A_i, Σ B_i and Σ C_i, in units of R²; it may be more or less than there can be."""
    a, b, c = (max(0.0, each) for each in sums)
    return (4 * a * c - b * b) / (4 * max(1.0, a + b + c) ** 2)


def _quantile(
    rows: Sequence[Mapping[str, Any]], notes: Mapping[str, Any], attribute: Attribute, at: float
) -> dict[str, Any] | None:
    """The quantile of all rows, from those of the groups."""
    lower, upper = min(row["lower"] for row in rows), max(row["upper"] for row in rows)
    if len(notes.get(_CELLS, ())) != len(rows):
        # As above.
        return None
    begin = [[attribute.lowest, *(_number(each, attribute) for each in cells)] for cells in notes[_CELLS]]
    points = sorted({attribute.highest + 1}.union(*begin))
    up_to = np.zeros(len(points))
    for cells, counts in zip(begin, notes[_COUNTS], strict=True):
        up_to += np.interp(points, [*cells, attribute.highest + 1], [0.0, *np.cumsum(counts)])
    heights = up_to - at * up_to[-1]
    first = max(int(np.argmax(heights >= 0)) - 1, 0)
    last = min(len(points) - int(np.argmax(heights[::-1] <= 0)), len(points) - 1)
    start, stop = heights[first], heights[last]
    share = min(max(-start / (stop - start), 0.0), 1.0) if start < stop else 0.5
    value = min(points[first] + math.floor(share * (points[last] - points[first])), attribute.highest)
    if attribute.dates is not None:
        return {"estimate": min(max(attribute.dates.value(value), lower), upper), "lower": lower, "upper": upper}
    return _within(float(Decimal(value).scaleb(-attribute.decimals)), lower, upper)


def _number(text: str, attribute: Attribute) -> int:
    """A value of a column as its notes have it, in units of the last place."""
    if attribute.dates is None:
        return int(Decimal(text).scaleb(attribute.decimals))
    day = datetime.fromisoformat(text) if attribute.dates.has_time else date.fromisoformat(text)
    return attribute.dates.number(day)


def _within(estimate: float, lower: float, upper: float) -> dict[str, float]:
    return {"estimate": float(min(max(estimate, lower), upper)), "lower": float(lower), "upper": float(upper)}
