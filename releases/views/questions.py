"""The workload builder: questions added and removed one at a time, with or without JavaScript."""

from __future__ import annotations

import json
import re
from math import comb
from typing import Any

from django.http import QueryDict

from releases import planning
from releases.engine.errors import InvalidInput
from releases.engine.universe import Attribute, Universe, plain
from releases.engine.workload import MOST_FAMILIES, WORKLOAD_VERSION, Family, Inquiry, Marginal, Question
from releases.models import Release

#: More columns than this are typed by name rather than ticked.
MOST_TICKED_COLUMNS = 120
#: Bins of a column offered in a form; the rest can be asked for in JSON.
_MOST_OFFERED_BINS = 200
#: Questions listed with a button to remove them.
_MOST_LISTED = 150


def changed_workload(release: Release, posted: QueryDict) -> dict[str, Any] | None:
    """The draft's workload after the button that was pressed; None where no question is left.

    Raises:
        InvalidInput: what was to be added breaks a rule.
    """
    queries = list((release.workload or {}).get("queries", []))
    action = posted.get("action", "")
    if action == "clear":
        return None
    if action.startswith("remove-"):
        removed = action.removeprefix("remove-")
        queries = [query for position, query in enumerate(queries) if str(position) != removed]
        if not queries:
            return None
    elif action == "marginals":
        queries.append(_marginals(posted))
    elif action == "prefix":
        queries.append({"prefix": posted.get("prefix", "")})
    elif action == "count":
        queries.append({"count": _predicate(release, posted)})
    else:
        raise InvalidInput("action", action, "is not known; use the buttons of the page")
    return {"version": WORKLOAD_VERSION, "queries": queries}


def question_context(release: Release, workload: Question | None, posted: QueryDict) -> dict[str, Any]:
    """What the page shows: the questions so far, their size, and the fields to add more."""
    universe = release.dataset.universe
    assert universe is not None
    ticked = len(universe.names) <= MOST_TICKED_COLUMNS
    return {
        "universe": universe,
        "workload": workload,
        "asked": planning.questions_text(workload) if workload else "",
        "groups": _groups(workload) if workload else [],
        "orders": _orders(universe, posted.get("order", "")),
        "chosen_columns": posted.getlist("columns"),
        "typed_columns": posted.get("typed_columns", ""),
        "chosen_prefix": posted.get("prefix", ""),
        "is_ticked": ticked,
        "column_fields": [_column_field(each, posted) for each in universe.attributes] if ticked else [],
        "as_json": json.dumps(release.workload, indent=2, ensure_ascii=False) if release.workload else "",
    }


def _groups(workload: Question) -> list[dict[str, Any]]:
    """The questions by kind, each list cut at what a page can hold."""
    universe = workload.universe
    if isinstance(workload, Inquiry):
        # One statistic, whatever its answer consists of.
        title = planning.questions_text(workload)
        shown = [{"action": "remove-0", "title": title, "answers": workload.size}]
        return [{"title": "One statistic", "number": 1, "answers": workload.size, "shown": shown, "more": 0}]
    found: dict[tuple[int, str], list[tuple[int, Family]]] = {}
    for position, family in enumerate(workload.families):
        order = len(family.attributes)
        if isinstance(family, Marginal):
            kind = (order, f"over {order} column{'' if order == 1 else 's'}")
        elif family.kind == "prefix":
            kind = (10**6, "running totals")
        else:
            kind = (10**6 + 1, "single counts")
        found.setdefault(kind, []).append((position, family))
    groups = []
    for (_, title), families in sorted(found.items()):
        shown = [
            {"action": f"remove-{position}", "title": family.title(universe), "answers": family.cells(universe)}
            for position, family in families[:_MOST_LISTED]
        ]
        groups.append(
            {
                "title": f"Tables of counts {title}" if title.startswith("over") else title.capitalize(),
                "number": len(families),
                "answers": sum(family.cells(universe) for _, family in families),
                "shown": shown,
                "more": len(families) - len(shown),
            }
        )
    return groups


def _orders(universe: Universe, chosen: str) -> list[dict[str, Any]]:
    """All tables of 1, 2 and 3 columns: how many tables, how many answers."""
    # Elementary symmetric sums of the sizes: the answers of all tables of k columns, without listing the tables.
    sums = [1, 0, 0, 0]
    for size in universe.shape:
        for order in (3, 2, 1):
            sums[order] += sums[order - 1] * size
    number = len(universe.names)
    orders = []
    for order in range(1, min(3, number) + 1):
        tables = comb(number, order)
        orders.append(
            {
                "value": str(order),
                "tables": tables,
                "answers": sums[order],
                "is_checked": str(order) == (chosen or str(min(2, number))),
                "too_many": tables > MOST_FAMILIES,
            }
        )
    return orders


def _marginals(posted: QueryDict) -> dict[str, Any]:
    order = posted.get("order", "")
    query: dict[str, Any] = {"marginals": int(order) if re.fullmatch(r"[0-9]{1,4}", order) else order}
    typed = [name.strip() for name in re.split(r"[\n,]", posted.get("typed_columns", "")) if name.strip()]
    if chosen := posted.getlist("columns") or typed:
        query["columns"] = chosen
    return query


def _predicate(release: Release, posted: QueryDict) -> dict[str, Any]:
    """A predicate from the fields `from.<column>`, `to.<column>` and `in.<column>`; empty ones do not restrict."""
    universe = release.dataset.universe
    assert universe is not None
    predicate: dict[str, Any] = {}
    for attribute in universe.attributes:
        name = attribute.name
        if attribute.is_numeric:
            limits = {end: posted.get(f"{end}.{name}", "").strip() for end in ("from", "to")}
            if any(limits.values()):
                predicate[name] = {end: value for end, value in limits.items() if value}
        elif chosen := posted.getlist(f"in.{name}"):
            predicate[name] = chosen
    if not predicate:
        raise InvalidInput("count", "no condition", "must restrict at least one column")
    return predicate


def _column_field(attribute: Attribute, posted: QueryDict) -> dict[str, Any]:
    field: dict[str, Any] = {"name": attribute.name, "is_numeric": attribute.is_numeric, "size": attribute.size}
    if attribute.is_numeric:
        field["edges"] = [plain(edge) for edge in attribute.edges[:_MOST_OFFERED_BINS]]
        field["lowest"], field["highest"] = plain(attribute.edges[0]), plain(attribute.edges[-1])
        field["from"] = posted.get(f"from.{attribute.name}", "")
        field["to"] = posted.get(f"to.{attribute.name}", "")
        field["is_set"] = bool(field["from"] or field["to"])
    else:
        chosen = posted.getlist(f"in.{attribute.name}")
        field["categories"] = [(category, category in chosen) for category in attribute.categories[:_MOST_OFFERED_BINS]]
        field["more"] = max(0, attribute.size - _MOST_OFFERED_BINS)
        field["is_set"] = bool(chosen)
    return field
