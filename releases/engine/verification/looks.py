"""What is looked at in results, to see how far they tell two neighbouring tables apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.verification.tables import Table, counted_rows
from releases.engine.verification.truths import truths

#: What of a result tells two tables apart: a thing that comes often, or a number that grows from one to the other.
Look: TypeAlias = Callable[[Result], Hashable]
#: Makes the look, from the exact answers on the two tables.
LookAt: TypeAlias = Callable[[Plan, Table, Table], Look]


def chosen(*_: object) -> Look:
    return lambda result: result.chosen


def estimates(*_: object) -> Look:
    return lambda result: tuple(float(value) for each in result.estimates for value in each)


def note(name: str) -> LookAt:
    def look_at(*_: object) -> Look:
        return lambda result: str(result.notes[name])

    return look_at


def counts_at_the_ends(_plan: Plan, one: Table, other: Table) -> Look:
    """Of noisy counts of cells the first and the last, of all rows of the larger table at most."""
    most = max(len(one), len(other))

    def look(result: Result) -> Hashable:
        counts = cast("list[int]", result.notes["noisy counts"])
        return tuple(min(max(counts[place], 0), most) for place in (0, -1))

    return look


def released_total(_plan: Plan, one: Table, other: Table) -> Look:
    """The number of rows as released: all that the noise on it spends is in it."""
    low, high = sorted((float(len(one)), float(len(other))))
    return lambda result: min(max(result.total, low), high)


def first_update(*_: object) -> Look:
    """Of a session over counts that all start at half of the rows: which was the first not answered so."""

    def look(result: Result) -> Hashable:
        off = np.abs(np.concatenate(result.estimates) - result.total / 2)
        return int(np.argmax(off > 1)) if (off > 1).any() else -1

    return look


def corners(_plan: Plan, one: Table, other: Table) -> Look:
    """Of a pair that was chosen how many more rows have the first of both columns than the last, between the two exact
    differences, which are the same for every pair."""
    low, high = sorted(sum((not any(row)) - all(row) for row in table) for table in (one, other))

    def look(result: Result) -> Hashable:
        counts = result.notes["associations"][0]["counts"]
        return min(max(int(counts[0][0] - counts[-1][-1]), low), high)

    return look


def larger_count(*_: object) -> Look:
    """Whether the first of two counts is released as the larger."""
    return lambda result: bool(result.estimates[0][0] > result.estimates[0][1])


def along(plan: Plan, one: Table, other: Table) -> Look:
    """How far each number lies from its exact value on one table to that on the other, all together.

    The likelihood ratio of noise on these numbers grows with it, the more the less noise a number has for its weight.
    Laplace noise tells nothing more beyond the two exact values; Gaussian noise does.
    """
    first, second = (np.concatenate(truths(plan, counted_rows(plan.schema.universe, each))) for each in (one, other))
    moved = first != second
    step = (second - first)[moved]
    ends = (-10.0, 10.0) if plan.delta else (0.0, 1.0)
    tells = _weights(plan)[moved] ** (2 if plan.delta else 1)

    def look(result: Result) -> Hashable:
        values = np.concatenate(result.estimates)[moved]
        return round(float((tells * np.clip((values - first[moved]) / step, *ends)).sum()), 6)

    return look


def along_in_tenths(plan: Plan, one: Table, other: Table) -> Look:
    """The same in tenths of the way, for answers that are no whole numbers: what never comes twice is no event."""
    look, whole = along(plan, one, other), float(_weights(plan).max() ** 2)
    return lambda result: round(10 * cast("float", look(result)) / whole) / 10


def _weights(plan: Plan) -> NDArray[np.float64]:
    """Of each answer the weight that decides its noise."""
    cells = [family.cells(plan.schema.universe) for family in plan.workload.families]
    weights = plan.counts_asked.weights if mechanism(plan.mechanism).uses_weights else (1,) * len(cells)
    return np.repeat(np.array(weights, dtype=np.float64), cells)


def jump(lower: int, width: int) -> LookAt:
    """Of propose, test, release: whether the distance was found above `lower`, and where in the range the answer is."""

    def look_at(*_: object) -> Look:
        def look(result: Result) -> Hashable:
            distance = float(np.clip(result.notes["noisy distance"] - lower, 0, 1))
            return round(distance + float(result.estimates[0][0]) / width, 3)

        return look

    return look_at
