"""Many quantiles at once and by group, on real tables, beside exponential mechanisms on ranks.

Both ways beside ours draw a value y with a probability in proportion to exp(-epsilon d(y) / (2 Delta)), where d(y) is
how far q n is from the ranks of y, in rows, and Delta = max(q, 1 - q) is what a row added or removed moves it by.

*One by one*: each of m quantiles has epsilon / m.
*Recursive* (Kaplan, Schnapp and Stemmer 2022, arXiv 2110.05429): the middle quantile first, the others below and above
it from the rows and the values there. A row is in one part of each level, so each of the ceil(log2(m + 1)) levels has
an equal part of epsilon. It is made for values that differ, so equal ones are first moved apart by less than a unit.

Neither says how far off its values are; ours comes with intervals. By group each row is in one group, so each group has
all of epsilon, in all three ways.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, log2
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.tables import BenchRow, BenchTable
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.mechanisms.counted_quantiles import POWERS, SLICES
from releases.engine.mechanisms.sliced_quantiles import FEWEST
from releases.engine.noise.randomness import OperatingSystemRandomness, Randomness, random_below, uniform_below
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.verification.tables import Remembered
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.parsing import read_question

RUNS = 500
BETA = Fraction(1, 20)
_EPSILON = Fraction(1)
#: The ways beside ours take longer, and have no intervals to be counted: they are run once in so many times.
_EVERY = 10
#: A true bound is called broken with this probability.
_FALSE_ALARM = 1e-6
_DECILES = tuple(Fraction(place, 10) for place in range(1, 10))
_NINETEEN = tuple(Fraction(place, 20) for place in range(1, 20))
_QUARTILES = tuple(Fraction(place, 4) for place in range(1, 4))
#: How many rows powers and slices are compared on, where a column has so many values that its rows are cut in slices.
_SOME_ROWS, _MANY_VALUES = (1_000, 2_000, 5_000, 10_000, 20_000), 10_000
#: Of 100 releases a mean error is a few per cent off.
_NO_FARTHER = 1.15
#: Equal values are moved apart to so many places.
_APART = 1 << 10
Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class QuantilesComparison:
    """One comparison.

    Attributes:
        title: for people.
        file: of the table, with a head line.
        number: what a line says; None where it says nothing.
        edges: the declared range.
        at: the shares.
        by: the column that makes the groups; empty where there are none.
    """

    title: str
    file: str
    number: Callable[[Mapping[str, str]], int | None]
    edges: tuple[int, int]
    at: tuple[Fraction, ...]
    by: str = ""


def _income(line: Mapping[str, str]) -> int | None:
    return None if line["PINCP"] == "N" else int(float(line["PINCP"]))


def _age_of_adult(line: Mapping[str, str]) -> int:
    """The files of Adult hold codes: an age counts from 17, hours from 1."""
    return int(line["age"]) + 17


def _hours(line: Mapping[str, str]) -> int:
    return int(line["hours-per-week"]) + 1


def _age(line: Mapping[str, str]) -> int:
    return int(line["age"])


def _of(
    file: str, number: Callable[[Mapping[str, str]], int | None], *edges: int
) -> Callable[..., QuantilesComparison]:
    def question(title: str, at: tuple[Fraction, ...], by: str = "") -> QuantilesComparison:
        return QuantilesComparison(title=title, file=file, number=number, edges=(edges[0], edges[1]), at=at, by=by)

    return question


QUESTIONS = (
    _of("adult.csv", _age_of_adult, 17, 90)("Adult: 19 of age", _NINETEEN),
    _of("adult.csv", _hours, 1, 99)("Adult: 9 of weekly hours by occupation", _DECILES, "occupation"),
    _of("adult.csv", _age_of_adult, 17, 90)("Adult: 3 of age by native country", _QUARTILES, "native-country"),
    _of("health_insurance.csv", _age, 18, 64)("Health survey: 9 of age", _DECILES),
    _of("health_insurance.csv", _age, 18, 64)("Health survey: 3 of age by education", _QUARTILES, "education"),
    _of("nist_national2019.csv", _income, 0, 500_000)("NIST: 9 of income", _DECILES),
    _of("nist_national2019.csv", _income, 0, 500_000)("NIST: 3 of income by PUMA", _QUARTILES, "PUMA"),
)


def tables(folder: Path, *, runs: int = RUNS) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the files; of those that are not there nothing is asked.
        runs: releases of each question.
    """
    title = "Many quantiles"
    there = [each for each in QUESTIONS if (folder / each.file).exists()]
    if not there:
        files = " or ".join(sorted({each.file for each in QUESTIONS}))
        yield BenchTable(title=title, says=f"{folder.name}/ does not hold {files}.", heads=("question",), rows=[])
        return
    yield BenchTable(
        title=title,
        says=f"{runs:,} releases of counted-quantile, epsilon 1, a row added or removed, all options at their "
        "defaults, beside exponential mechanisms on ranks that share epsilon: recursive (Kaplan, Schnapp and Stemmer "
        f"2022) and one by one; these are run once in {_EVERY} times, and give no intervals. Errors are means over all "
        "quantiles and groups that have rows: in rows, how far the rank is from that asked for, and in the column's "
        "unit, how far the value is from the nearest true quantile. Width: of an interval, in the unit. Covered: of "
        "the releases those in which every true quantile was in its interval. Targets: an error in the unit no larger "
        "than that of the better of both, and no fewer covered than a bound at 95% has with probability "
        f"{_FALSE_ALARM:g}.",
        heads=(
            "question", "groups", "rows off: ours", "recursive", "one by one", "unit off: ours", "recursive",
            "one by one", "width", "covered",
        ),
        rows=[_row(QuantilesQuestion.read(each, folder), runs) for each in there],
    )  # fmt: skip
    for each in there:
        if len(each.at) >= FEWEST and each.edges[1] >= _MANY_VALUES:
            yield _steps_compared(QuantilesQuestion.read(each, folder), runs)


def _steps_compared(asked: QuantilesQuestion, runs: int) -> BenchTable:
    return BenchTable(
        title=f"Quantiles by powers and in slices ({asked.question.title})",
        says=f"{runs:,} releases of counted-quantile by each of its ways (the option “steps”), epsilon 1, a row added "
        "or removed, of so many rows drawn from the table. Off: how far a value is from the nearest true quantile, in "
        "the column's unit, the mean over all quantiles; then the mean width of an interval. The default chooses by a "
        "noisy number of rows, for which it pays; in slices: how many of its releases. Target: with the default no "
        f"farther off than {_NO_FARTHER:g} times the better of both.",
        heads=("rows", "off: powers", "slices", "default", "width: powers", "slices", "default", "in slices"),
        rows=[_compared(asked.some(rows), runs) for rows in _SOME_ROWS if rows <= asked.groups[0].size],
    )


def _compared(asked: QuantilesQuestion, runs: int) -> BenchRow:
    (ordered,), rng, sliced = asked.groups, OperatingSystemRandomness(), 0
    off, width = list[float](), list[float]()
    for options in ({"steps": POWERS}, {"steps": SLICES}, {}):
        plan, errors, widths = asked.plan(options), _Errors(asked=asked), list[float]()
        for _ in range(runs):
            result = run_release(plan, asked.counts, rng=rng).result
            for place, share in enumerate(asked.question.at):
                errors.add("ours", ordered, share, float(result.estimates[place][0]))
                low, high = result.spans[place][0]
                widths.append(float(high - low))
            sliced += result.notes.get("steps") == SLICES
        off.append(float(np.mean(errors.units["ours"])))
        width.append(float(np.mean(widths)))
    shown = [*(f"{each:,.1f}" for each in off), *(f"{each:,.0f}" for each in width)]
    return BenchRow(cells=(f"{ordered.size:,}", *shown, f"{sliced:,}"), is_met=off[2] <= _NO_FARTHER * min(off[:2]))


@dataclass(frozen=True, kw_only=True)
class QuantilesQuestion:
    """A question about its table.

    Attributes:
        counts: the table, read once.
        groups: the values of each group, in order.
    """

    question: QuantilesComparison
    schema: Schema
    counts: Remembered
    groups: tuple[Numbers, ...]

    @staticmethod
    def read(question: QuantilesComparison, folder: Path) -> QuantilesQuestion:
        with (folder / question.file).open(newline="") as file:
            said = [(question.number(line), line.get(question.by, "")) for line in csv.DictReader(file)]
        lines = [(number, text) for number, text in said if number is not None]
        values = np.clip(np.array([number for number, _ in lines], dtype=np.int64), *question.edges)
        columns: list[dict[str, Any]] = [{"name": "x", "type": "integer", "edges": list(question.edges)}]
        categories = sorted({text for _, text in lines})
        codes = np.array([categories.index(text) for _, text in lines], dtype=np.int64)
        table = {"x": values}
        if question.by:
            columns.append({"name": "by", "type": "categorical", "categories": categories, "outside": categories[0]})
            table["by"] = codes
        schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})
        groups = tuple(np.sort(values[codes == code]) for code in range(len(categories)))
        counts = Remembered(Rows(universe=schema.universe, columns=table))
        return QuantilesQuestion(question=question, schema=schema, counts=counts, groups=groups)

    def some(self, rows: int) -> QuantilesQuestion:
        """So many of its rows, without groups."""
        (ordered,) = self.groups
        drawn = sorted(random.Random(rows).sample(range(ordered.size), rows))  # noqa: S311  the same ones each time
        counts = Remembered(Rows(universe=self.schema.universe, columns={"x": ordered[drawn]}))
        return replace(self, counts=counts, groups=(ordered[drawn],))

    def plan(self, options: Mapping[str, str] | None = None) -> Plan:
        at = [str(float(share)) for share in self.question.at]
        query = {Quantiles.kind: {"column": "x", "at": at} | ({"by": "by"} if self.question.by else {})}
        question = read_question({"version": 1, "queries": [query]}, self.schema.universe)
        budget = PureDP(epsilon=_EPSILON)
        return mechanism("counted-quantile").plan(
            self.schema, question, budget=budget, beta=BETA, options=options or {}
        )

    def quantiles(self, ordered: Numbers, share: Fraction) -> tuple[int, int]:
        """From the lowest to the highest true one."""
        wanted = share * ordered.size
        low, high = self.question.edges
        fewest, most = ceil(wanted), floor(wanted)
        return int(ordered[fewest - 1]) if fewest else low, int(ordered[most]) if most < ordered.size else high


@dataclass(kw_only=True)
class _Errors:
    """Errors in rows and in the column's unit, of all values given."""

    asked: QuantilesQuestion
    rows: dict[str, list[float]] = field(default_factory=dict)
    units: dict[str, list[float]] = field(default_factory=dict)

    def add(self, way: str, ordered: Numbers, share: Fraction, value: float) -> None:
        wanted, (low, high) = float(share * ordered.size), self.asked.quantiles(ordered, share)
        below, up_to = (int(np.searchsorted(ordered, value, side=side)) for side in ("left", "right"))
        self.rows.setdefault(way, []).append(max(0.0, below - wanted, wanted - up_to))
        self.units.setdefault(way, []).append(max(0.0, low - value, value - high))

    def mean(self, errors: Mapping[str, list[float]]) -> list[float]:
        return [float(np.mean(errors[way])) for way in ("ours", "recursive", "one by one")]


def _row(asked: QuantilesQuestion, runs: int) -> BenchRow:
    plan, rng, errors, at = asked.plan(), OperatingSystemRandomness(), _Errors(asked=asked), asked.question.at
    kept, widths = 0, []
    for run in range(runs):
        result, inside = run_release(plan, asked.counts, rng=rng).result, True
        for group, ordered in enumerate(asked.groups):
            for place, share in enumerate(at):
                errors.add("ours", ordered, share, float(result.estimates[place][group]))
                low, high = result.spans[place][group]
                least, most = asked.quantiles(ordered, share)
                inside &= bool(low <= least and most <= high)
                widths.append(float(high - low))
            for way, drawn in _BESIDE if run % _EVERY == 0 else ():
                for share, value in zip(at, drawn(ordered, asked.question, rng), strict=True):
                    errors.add(way, ordered, share, value)
        kept += inside
    rows, units = errors.mean(errors.rows), errors.mean(errors.units)
    fewest = int(binom.ppf(_FALSE_ALARM, runs, float(1 - BETA)))
    return BenchRow(
        cells=(
            asked.question.title,
            f"{len(asked.groups)}",
            *(f"{each:,.1f}" for each in rows),
            *(f"{each:,.3f}" for each in units),
            f"{np.mean(widths):,.2f}",
            f"{kept:,}",
        ),
        is_met=units[0] <= min(units[1:]) and kept >= fewest,
    )


def _one_by_one(ordered: Numbers, question: QuantilesComparison, rng: Randomness) -> list[int]:
    each = _EPSILON / len(question.at)
    return [_drawn(ordered, question.edges, share, epsilon=each, rng=rng) for share in question.at]


def _recursive(ordered: Numbers, question: QuantilesComparison, rng: Randomness) -> list[int]:
    each = _EPSILON / ceil(log2(len(question.at) + 1))

    def between(rows: Numbers, edges: tuple[int, int], at: tuple[Fraction, ...]) -> list[int]:
        if not at:
            return []
        half = len(at) // 2
        share, (low, high) = at[half], edges
        value = _drawn(rows, edges, share, epsilon=each, rng=rng)
        cut = np.searchsorted(rows, value)
        before = tuple(other / share for other in at[:half])
        after = tuple((other - share) / (1 - share) for other in at[half + 1 :])
        first, second = between(rows[:cut], (low, value), before), between(rows[cut:], (value, high), after)
        return [*first, value, *second]

    (low, high), apart = question.edges, uniform_below(_APART, ordered.size, rng)
    found = between(np.sort(ordered * _APART + apart), (low * _APART, (high + 1) * _APART - 1), question.at)
    return [value // _APART for value in found]


_BESIDE = (("recursive", _recursive), ("one by one", _one_by_one))


def _drawn(rows: Numbers, edges: tuple[int, int], share: Fraction, *, epsilon: Fraction, rng: Randomness) -> int:
    """One value of the range by the exponential mechanism on its rank: of equally good ones all are equally likely."""
    values, counts = np.unique(rows, return_counts=True)
    up_to = np.concatenate([[0], np.cumsum(counts)])
    # Gaps between values, at 0, 2, ...; values at 1, 3, ...
    ends = np.concatenate([[edges[0] - 1], values, [edges[1] + 1]])
    starts, sizes = np.empty(2 * values.size + 1, dtype=np.int64), np.ones(2 * values.size + 1, dtype=np.int64)
    starts[1::2], starts[::2], sizes[::2] = values, ends[:-1] + 1, ends[1:] - ends[:-1] - 1
    below, reached = np.repeat(up_to, 2)[:-1], np.repeat(up_to, 2)[1:]
    a, b = share.numerator, share.denominator
    wanted = a * rows.size
    off = np.maximum(0, np.maximum(b * below - wanted, wanted - b * reached))
    there = sizes > 0
    chosen = exponential_mechanism(
        -off[there],
        epsilon=epsilon,
        sensitivity=max(share, 1 - share),
        denominator=b,
        weights=sizes[there],
        rng=rng,
    )
    return int(starts[there][chosen]) + random_below(int(sizes[there][chosen]), rng)
