"""Several questions on one page: which kinds can be asked by columns alone, what such a line asks, and its weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from releases.engine.domain.privacy import exact
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.kinds.strongest_associations import StrongestAssociations, refused
from releases.engine.workload.kinds.weighted_count import WeightedCount
from releases.engine.workload.queries import WORKLOAD_VERSION
from releases.questions.base import Columns, Input, StatisticKind, calling, offered_statistics

#: Questions that are planned on one page.
MAX_PARTS = 6
#: Columns that one of them counts, or groups by.
MAX_COLUMNS = 3
MAX_WEIGHT = 1000
#: Signs of what a part is called.
MAX_TITLE = 200
#: What can be wanted beside the kinds of statistic.
COUNTS, ROWS = "counts", "rows"
#: What every column at a glance is called.
GLANCE = "Everything at a glance"
#: What its part about pairs of columns is called.
ASSOCIATIONS = "Strongest associations"
#: The fields of a kind that name its groups, its weights, and the cap of these.
_GROUPS, _WEIGHTS, _CAP = "by", "weighted_by", "cap"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartAsked:
    """What one part of a collection is to answer.

    Attributes:
        weight: its share of epsilon, beside the weights of the others.
        is_for_rows: synthetic rows are wanted, rather than the answers.
        tables: how many lines it answers: its parts of delta and of the probability that a bound fails.
    """

    title: str
    workload: Mapping[str, Any]
    weight: str = "1"
    is_for_rows: bool = False
    tables: int = 1


def at_a_glance(universe: Universe, *, may_check: bool) -> list[PartAsked]:
    """Every declared column, counted by itself, and the pairs of columns that go together most. Where a column leaves
    out rows without a value, how the values of all columns read is counted as well: that tells how many are missing,
    and needs less. Columns that count rows and those that count persons are parts of their own.

    Args:
        may_check: whether the budget may be charged for another check of how values read.
    """
    asked: list[PartAsked] = []
    for each in universe.populations:
        of = ", of persons" if each.is_of_persons and each is not universe else ""
        asked += _at_a_glance(each, of=of, may_check=may_check and not asked)
    return asked


def _at_a_glance(universe: Universe, *, of: str, may_check: bool) -> Iterator[PartAsked]:
    queries = [{"marginals": 1, "columns": list(universe.names)}]
    yield PartAsked(title=f"{GLANCE}{of}", workload={"version": WORKLOAD_VERSION, "queries": queries}, weight="3")
    if may_check and any(each.drops_missing for each in universe.attributes):
        read = {"version": WORKLOAD_VERSION, "states": True, "queries": queries}
        yield PartAsked(title=f"Missing values{of}", workload=read)
    if not _why_no_pairs(universe):
        pairs = {StrongestAssociations.kind: {"columns": _with_levels(universe)}}
        workload = {"version": WORKLOAD_VERSION, "queries": [pairs]}
        yield PartAsked(title=f"{ASSOCIATIONS}{of}", workload=workload, weight="2")


def why_no_associations(universe: Universe) -> str:
    """What the columns would have to be for their pairs to be compared at a glance; empty where they are."""
    reasons = [_why_no_pairs(each) for each in universe.populations]
    return reasons[0] if all(reasons) else ""


def _why_no_pairs(universe: Universe) -> str:
    return refused(tuple(_with_levels(universe)), universe)


def _with_levels(universe: Universe) -> list[str]:
    """Columns of a single bin go together with none."""
    return [each.name for each in universe.attributes if each.size > 1]


def read_weight(text: str) -> Fraction:
    """A share of the budget, beside the shares of other parts.

    Raises:
        InvalidInput: it is no number above 0 and at most 1,000.
    """
    weight = exact(text, field="share")
    if not 0 < weight <= MAX_WEIGHT:
        raise InvalidInput("share", text, f"must be above 0 and at most {MAX_WEIGHT:,}, such as 1")
    return weight


@cache
def statistics_together() -> dict[str, StatisticKind[Any]]:
    """The kinds of statistic that columns alone ask for; what else they have a field for has a value to begin with."""
    return {name: kind for name, kind in offered_statistics().items() if not _needs_more(kind)}


def statistics_apart() -> tuple[StatisticKind[Any], ...]:
    """The kinds that need more than columns."""
    return tuple(kind for kind in offered_statistics().values() if _needs_more(kind))


def _needs_more(kind: StatisticKind[Any]) -> bool:
    first, *others = kind.fields
    if first.input is Input.COLUMNS and first.columns is Columns.ALL:
        # It compares columns with one another, and a line names a few.
        return True
    return first.input not in (Input.COLUMN, Input.COLUMNS) or not all(
        field.initial or not field.missing for field in others
    )


def assumed(kind: StatisticKind[Any], universe: Universe) -> str:
    """What a line takes for the fields that it does not have: ``share of the rows 0.5``."""
    given = [(calling(field.label, universe), field.initial) for field in kind.fields[1:] if field.initial]
    return ", ".join(f"{label[:1].lower()}{label[1:]}: {initial}" for label, initial in given)


def line_asked(
    wanted: str, *, number: str, columns: Sequence[str], universe: Universe, weighted_by: str = "", cap: str = ""
) -> dict[str, Any]:
    """What a line asks, in the workload format.

    Args:
        number: the column with numbers; empty where none was chosen.
        columns: to count, or to group by.
        weighted_by, cap: the column of survey weights and what they count as at most; empty where rows count alike.

    Raises:
        InvalidInput: a column is missing, named twice, or of no use to what is wanted.
    """
    if repeated := [name for place, name in enumerate(columns) if name in columns[:place]]:
        raise InvalidInput("columns", repeated[0], "is named twice; name each column once")
    weights = {_WEIGHTS: weighted_by, _CAP: cap}
    given = {name: typed for name, typed in weights.items() if typed}
    if given and not _can_be_weighted(wanted):
        field, typed = next(iter(given.items()))
        rule = "is of no use here; averages, variances, sums and counts alone can be weighted"
        raise InvalidInput(field, typed, rule)
    if wanted in (COUNTS, ROWS):
        query = _table(wanted, number=number, columns=columns, universe=universe)
        if given:
            query = statistics_together()[WeightedCount.kind].query({_GROUPS: ", ".join(columns), **weights})
    else:
        query = _statistic(statistics_together()[wanted], number=number, columns=columns, weights=weights)
    return {"version": WORKLOAD_VERSION, "queries": [query]}


def _can_be_weighted(wanted: str) -> bool:
    kind = statistics_together().get(wanted)
    return wanted == COUNTS if kind is None else any(field.name == _WEIGHTS for field in kind.fields)


def _table(wanted: str, *, number: str, columns: Sequence[str], universe: Universe) -> dict[str, Any]:
    if number:
        raise InvalidInput("number", number, "is of no use here; name it among the columns, which count it by its bins")
    if wanted == ROWS:
        named = list(columns or universe.populations[0].names)
        return {"marginals": min(2, len(named)), "columns": named}
    if not columns:
        raise InvalidInput("columns", "", "must name at least one column: a table counts the values of columns")
    return {"marginal": list(columns)}


def _statistic(
    kind: StatisticKind[Any], *, number: str, columns: Sequence[str], weights: Mapping[str, str]
) -> dict[str, Any]:
    first, *others = kind.fields
    if first.name == _WEIGHTS:
        if number:
            raise InvalidInput("number", number, "is of no use here; name the column of weights by itself")
        if not weights[_WEIGHTS]:
            raise InvalidInput(_WEIGHTS, "", "must name a column of survey weights")
        return kind.query({_GROUPS: ", ".join(columns), **weights})
    is_of_numbers = first.columns in (Columns.NUMERIC, Columns.RANKED)
    has_groups = any(field.name == _GROUPS for field in others)
    if is_of_numbers and not number:
        raise InvalidInput("number", "", "must name a column with numbers")
    if not is_of_numbers and number:
        raise InvalidInput("number", number, "is of no use here; name the column among the others")
    if not is_of_numbers and len(columns) != 1:
        raise InvalidInput("columns", ", ".join(columns), "must be one column")
    if is_of_numbers and columns and not has_groups:
        raise InvalidInput("columns", ", ".join(columns), "are of no use here: this has no groups")
    of = number if is_of_numbers else columns[0]
    given: dict[str, Any] = {field.name: field.initial for field in others}
    given[first.name] = of if first.input is Input.COLUMN else [of]
    if has_groups:
        given[_GROUPS] = ", ".join(columns)
    return kind.query(given | {name: typed for name, typed in weights.items() if name in given})
