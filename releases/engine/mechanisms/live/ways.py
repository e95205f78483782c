"""The ways in which a session can answer, and which of them has the closest bound. Public inputs only."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import inf
from typing import Any

from releases.engine.domain.privacy import PrivacyBudget
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Option, Plan, mechanism
from releases.engine.mechanisms.pmw.online import OnlinePlan, one_count, queries_of
from releases.engine.workload.queries import Workload

#: By the names of their mechanisms.
WAYS = ("noise-online", "histogram-online", "pmw-online")
#: What begins with a list of questions, and what may take its place where its answers to them are closer. How close a
#: fit to them is, is known only once it was bought, so it is taken where it is chosen.
LISTED, FITTED, ALL_CELLS = "listed-online", "fitted-online", "histogram-online"
#: Those that need a list.
BEGUN = (LISTED, FITTED)


def read_way(name: str) -> str:
    """A way by its name; empty for the closest.

    Raises:
        InvalidInput: there is none of that name.
    """
    if name and name not in (*WAYS, *BEGUN):
        raise InvalidInput("way", name, f"must be one of {', '.join((*WAYS, *BEGUN))}, or empty for the closest bound")
    return name


def own_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a session's options that one of its ways has.

    Raises:
        InvalidInput: an option breaks its rule, or no way has one of that name.
    """
    known: dict[str, Option] = {option.name: option for way in (*WAYS, *BEGUN) for option in mechanism(way).options}
    if unknown := set(options) - set(known):
        raise InvalidInput("options", ", ".join(sorted(unknown)), "is not an option of a session")
    for option, value in options.items():
        known[option].read(value)
    own = {option.name for option in mechanism(name).options}
    return {option: value for option, value in options.items() if option in own}


def plan_of_way(
    name: str,
    schema: Schema,
    *,
    budget: PrivacyBudget,
    beta: Fraction,
    options: Mapping[str, Any],
    listed: Workload | None = None,
) -> Plan:
    """A session's plan. Without a list its questions are not known, so it is planned with one count, which names the
    columns.

    Args:
        name: of the way; empty for the one with the closest bound, or, where paid updates are chosen, that which has
            them; with a list, for the one whose answers to it are the closest.
        listed: questions to be answered at the start.

    Raises:
        InvalidInput: the way, or an option, breaks its rule; or a way and a list do not go together.
    """
    has_updates = options.get("updates") not in (None, "")
    ways = [read_way(name)] if name else ["pmw-online"] if has_updates else list(WAYS)
    if listed is not None:
        ways = [read_way(name) or LISTED, *([] if name else [ALL_CELLS])]
        if ways[0] not in (*BEGUN, ALL_CELLS):
            raise InvalidInput("way", name, f"must be {LISTED}, {FITTED} or empty where questions are listed")
    elif name in BEGUN:
        raise InvalidInput("workload", "no questions", "must be chosen: this way begins with their answers")
    plans = [
        mechanism(way).plan(
            schema,
            listed or one_count(schema.universe),
            budget=budget,
            beta=beta,
            options=own_options(way, options),
        )
        for way in ways
    ]
    return min(plans, key=_bound if listed is None else _bound_of_list)


def _bound(plan: Plan) -> float:
    return inf if plan.expectation is None else plan.expectation.alpha


def _bound_of_list(plan: Plan) -> float:
    """The largest half width of an answer of the list. All cells of a table have the same."""
    if not isinstance(plan, OnlinePlan):
        return inf
    listed = plan.counts_asked
    return max(plan.half_width_of(next(queries_of(family, listed))) for family in listed.families)
