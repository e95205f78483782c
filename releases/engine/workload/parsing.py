"""Reading questions from their JSON format (version 1): counts, statistics, the largest error of a release."""

from __future__ import annotations

import re
from typing import Any

from releases.engine.domain.privacy import exact
from releases.engine.domain.universe import Universe, check_version, number
from releases.engine.errors import InvalidInput
from releases.engine.workload.largest_error import MOST_ROWS, WHAT, LargestError, Released
from releases.engine.workload.queries import STATISTIC_WORDS, WORKLOAD_VERSION, Workload, read_count
from releases.engine.workload.questions import Inquiry, Question
from releases.engine.workload.statistics import (
    Categories,
    LargestCount,
    Mean,
    MostCommon,
    Predicates,
    Quantile,
    Range,
    SecondMoments,
    Statistic,
    Sum,
    Survey,
    Threshold,
    Votes,
    columns_used,
)


def read_question(value: object, universe: Universe) -> Question:
    """Read what a release is to answer: counts, or one statistic, in the workload format of version 1.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    queries = value.get("queries") if isinstance(value, dict) else None
    words = (
        [word for query in queries if isinstance(query, dict) for word in query] if isinstance(queries, list) else []
    )
    asked = [word for word in words if word in STATISTIC_WORDS]
    if not asked or not isinstance(value, dict) or not isinstance(queries, list):
        return Workload.from_json(value, universe)
    check_version(value, WORKLOAD_VERSION, what="workload")
    if len(queries) != 1 or len(words) != 1:
        raise InvalidInput(
            "queries", ", ".join(words), "must be counts, or one statistic alone: each has its own noise"
        )
    try:
        statistic = read_statistic(asked[0], queries[0][asked[0]], universe)
    except InvalidInput as error:
        raise InvalidInput(f"queries[0].{error.field}", error.value, error.rule) from None
    return Inquiry(universe=universe, statistic=statistic)


def read_statistic(kind: str, value: object, universe: Universe) -> Statistic:
    """Read one statistic of the workload format.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    return _READERS[kind](value, universe)


def _read_sum(value: object, universe: Universe) -> Statistic:
    return Sum(attributes=_numeric(value, universe, field="sum"))


def _read_mean(value: object, universe: Universe) -> Statistic:
    return Mean(attributes=_numeric(value, universe, field="mean"))


def _read_second_moments(value: object, universe: Universe) -> Statistic:
    return SecondMoments(attributes=_numeric(value, universe, field="second_moments"))


def _read_votes(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"columns", "category", "ballots"}, field="votes")
    names = _names(fields.get("columns"), universe, field="votes.columns")
    category = fields.get("category")
    for name in names:
        if universe[name].is_numeric or category not in universe[name].categories:
            raise InvalidInput("votes.category", category, f"must be a category of every column; {name} has none such")
    ballots = _whole(fields.get("ballots", len(names)), 1, len(names), field="votes.ballots")
    return Votes(attributes=names, category=str(category), ballots=ballots)


def _read_most_common(value: object, universe: Universe) -> Statistic:
    return MostCommon(attributes=_names([value], universe, field="most_common"))


def _read_top(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"column", "k"}, field="top")
    names = _names([fields.get("column")], universe, field="top.column")
    return MostCommon(attributes=names, k=_whole(fields.get("k", 1), 1, universe[names[0]].size, field="top.k"))


def _read_largest_count(value: object, universe: Universe) -> Statistic:
    predicates = _predicates(value, universe, field="largest_count")
    if len(predicates) < 2:
        raise InvalidInput("largest_count", len(predicates), "must hold at least two predicates")
    return LargestCount(attributes=columns_used(predicates, universe), predicates=predicates)


def _read_median(value: object, universe: Universe) -> Statistic:
    return Quantile(attributes=_numeric([value], universe, field="median"))


def _read_quantile(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"column", "at"}, field="quantile")
    names = _numeric([fields.get("column")], universe, field="quantile.column")
    at = exact(str(number(fields.get("at"), field="quantile.at")), field="quantile.at")
    if not 0 < at < 1:
        raise InvalidInput("quantile.at", fields.get("at"), "must be above 0 and below 1")
    return Quantile(attributes=names, at=at)


def _read_range(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"column", "inside"}, field="range")
    names = _numeric([fields.get("column")], universe, field="range.column")
    inside = exact(str(number(fields.get("inside"), field="range.inside")), field="range.inside")
    if not 0 < inside < 1:
        raise InvalidInput("range.inside", fields.get("inside"), "must be above 0 and below 1 (0.98 for 98%)")
    return Range(attributes=names, inside=inside)


def _read_categories(value: object, universe: Universe) -> Statistic:
    names = _names([value], universe, field="categories")
    if universe[names[0]].is_numeric:
        raise InvalidInput("categories", names[0], "must be a categorical column")
    return Categories(attributes=names)


def _read_threshold(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"counts", "above", "answers"}, field="threshold")
    predicates = _predicates(fields.get("counts"), universe, field="threshold.counts")
    return Threshold(
        attributes=columns_used(predicates, universe),
        predicates=predicates,
        above=_whole(fields.get("above"), 0, 10**12, field="threshold.above"),
        answers=_whole(fields.get("answers", 1), 1, len(predicates), field="threshold.answers"),
    )


def _read_survey(value: object, universe: Universe) -> Statistic:
    names = _names([value], universe, field="survey")
    if universe[names[0]].size < 2:
        raise InvalidInput("survey", names[0], "must have at least two bins")
    return Survey(attributes=names)


def _fields(value: object, known: set[str], *, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, f"must be an object with {', '.join(sorted(known))}")
    unknown = set(value) - known
    if unknown:
        raise InvalidInput(field, ", ".join(sorted(map(str, unknown))), "is not a known field")
    return value


def _names(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed:
        raise InvalidInput(field, value, "must name declared columns")
    for name in listed:
        if not isinstance(name, str) or name not in universe.names:
            raise InvalidInput(field, name, "must name a declared column")
        if listed.count(name) > 1:
            raise InvalidInput(field, name, "is named twice")
    return tuple(listed)


def _numeric(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    names = _names(value, universe, field=field)
    for name in names:
        if not universe[name].is_numeric:
            raise InvalidInput(field, name, "must be a numeric column")
    return names


def _whole(value: object, low: int, high: int, *, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(field, value, f"must be a whole number from {low:,} to {high:,}")
    return value


def _predicates(value: object, universe: Universe, *, field: str) -> Predicates:
    if not isinstance(value, list) or not value:
        raise InvalidInput(field, value, "must be a list of predicates")
    counts = [read_count(each, universe) for each in value]
    return tuple((count.attributes, count.bins) for count in counts)


def read_largest_error(value: object, universe: Universe) -> LargestError:
    """Read the question.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    if not isinstance(value, dict) or set(value) != {"workload", "released"}:
        raise InvalidInput("largest_error", value, "must be an object with released, workload")
    workload = Workload.from_json(value["workload"], universe)
    released = value["released"]
    if not isinstance(released, dict) or not released or not set(released) <= set(WHAT):
        raise InvalidInput("largest_error.released", released, f"must be an object with {' or '.join(WHAT)}, or both")
    used = {name for family in workload.families for name in family.attributes}
    return LargestError(
        attributes=tuple(sorted(used, key=universe.axis)),
        workload=workload,
        released=tuple(_released(what, released[what], workload) for what in WHAT if what in released),
    )


def _released(what: str, value: object, workload: Workload) -> Released:
    field = f"largest_error.released.{what}"
    if isinstance(value, dict) and set(value) == {"sha256"}:
        if not re.fullmatch(r"[0-9a-f]{64}", str(value["sha256"])):
            raise InvalidInput(f"{field}.sha256", value["sha256"], "must be a SHA-256 of 64 hexadecimal digits")
        return Released(what=what, sha256=value["sha256"])
    if not isinstance(value, dict) or set(value) != {"numbers"}:
        raise InvalidInput(field, value, "must be an object with sha256 or with numbers")
    sizes = [family.cells(workload.universe) for family in workload.families]
    numbers = value["numbers"]
    if not isinstance(numbers, list) or [len(each) if isinstance(each, list) else -1 for each in numbers] != sizes:
        raise InvalidInput(f"{field}.numbers", numbers, "must have a list for every query, a number for every count")
    for each in (each for family in numbers for each in family):
        if isinstance(each, bool) or not isinstance(each, int) or abs(each) > MOST_ROWS:
            raise InvalidInput(f"{field}.numbers", each, f"must be a whole number up to {MOST_ROWS:,}")
    return Released(what=what, numbers=tuple(tuple(family) for family in numbers))


_READERS = {
    "sum": _read_sum,
    "mean": _read_mean,
    "second_moments": _read_second_moments,
    "votes": _read_votes,
    "most_common": _read_most_common,
    "top": _read_top,
    "largest_count": _read_largest_count,
    "median": _read_median,
    "quantile": _read_quantile,
    "range": _read_range,
    "categories": _read_categories,
    "threshold": _read_threshold,
    "survey": _read_survey,
    "largest_error": read_largest_error,
}
assert tuple(_READERS) == STATISTIC_WORDS
