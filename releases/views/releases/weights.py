"""How much each question matters, as typed beside it in the list of questions or where one is added."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.queries import Family, Workload, check_weight, unweighted

#: The field of a question that is to be added, and what the names of the fields in the list begin with.
ADDED = "importance"
_LISTED = "importance-"


@dataclass(frozen=True, kw_only=True)
class ImportanceField:
    """A field for an importance.

    Attributes:
        name: in the list it says what the question asks, not where it stands: another window may have changed the list.
        value: as typed, or as stored; empty where it is 1 unless another is typed.
        is_wrong: whether what was typed is no importance.
    """

    name: str
    value: str
    is_wrong: bool

    @staticmethod
    def of(family: Family, universe: Universe, posted: QueryDict) -> ImportanceField:
        name = field_name(family, universe)
        value = posted.get(name, str(family.weight))
        return ImportanceField(name=name, value=value, is_wrong=not _is_weight(_read(value)))

    @staticmethod
    def added(posted: QueryDict) -> ImportanceField:
        """The field of a question that is to be added."""
        value = posted.get(ADDED, "")
        return ImportanceField(name=ADDED, value=value, is_wrong=not _is_weight(_read(value)))


def is_typed(posted: QueryDict) -> bool:
    """Whether the list of questions was sent."""
    return any(name.startswith(_LISTED) for name in posted)


def field_name(family: Family, universe: Universe) -> str:
    asked = json.dumps(unweighted(family).to_json(universe), sort_keys=True)
    return _LISTED + hashlib.sha256(asked.encode()).hexdigest()[:12]


def with_importance(query: dict[str, Any], posted: QueryDict) -> dict[str, Any]:
    """A query that is to be added, with the importance typed for it; without one it has 1, or keeps what it had.

    Raises:
        InvalidInput: what was typed is no whole number from 1 to 1,000.
    """
    typed = posted.get(ADDED, "")
    if not typed.strip():
        return query
    return {**query, "weight": _checked(typed, field="importance")}


def weighed(workload: Workload, posted: QueryDict) -> list[dict[str, Any]]:
    """The questions asked so far, each with the importance typed beside it in the list; 1 where it was left empty.

    Raises:
        InvalidInput: what was typed beside one is no whole number from 1 to 1,000.
    """
    universe = workload.universe
    read = []
    for family, query in zip(workload.families, workload.to_json()["queries"], strict=True):
        typed = posted.get(field_name(family, universe))
        if typed is not None:
            weight = _checked(typed, field=f"importance of {family.title(universe)}")
            query = {name: value for name, value in query.items() if name != "weight"} | {"weight": weight}
        read.append(query)
    return read


def _read(typed: str) -> int | str:
    text = typed.strip() or "1"
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else typed


def _is_weight(weight: int | str) -> bool:
    try:
        check_weight(weight)
    except InvalidInput:
        return False
    return True


def _checked(typed: str, *, field: str) -> int:
    weight = _read(typed)
    try:
        check_weight(weight)
    except InvalidInput as error:
        raise InvalidInput(field, error.value, error.rule) from None
    assert isinstance(weight, int)
    return weight
