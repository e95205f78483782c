"""Four ways of releasing many linear queries, side by side at a person's own numbers. Public inputs only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from releases.engine.bounds.theory import LARGEST_CELLS, Axis, Numbers
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit, decimal_text
from releases.engine.mechanisms.base import Plan
from releases.engine.workload.queries import Workload
from releases.forms.releases import WaysForm
from releases.planning import methods


def four_ways(request: HttpRequest) -> HttpResponse:
    """The comparison; what the address does not say is the sample's."""
    typed = WaysForm(request.GET).typed
    is_private = typed.get("neighbours") == NeighbouringRelation.ADD_REMOVE.value
    relation = NeighbouringRelation.ADD_REMOVE if is_private else NeighbouringRelation.REPLACE
    sample = _typed(methods.sample_numbers(relation))
    # Of so many answers of somebody's own, how they overlap is not the sample's.
    beginning = sample | ({"changed": ""} if "queries" in typed else {})
    form = WaysForm(beginning | typed)
    context: dict[str, Any] = {"form": form, "is_sample": beginning | typed == sample}
    if form.is_valid() and form.numbers is not None:
        numbers = form.numbers
        context |= {
            "meaning": methods.meaning_text(numbers),
            "tables": methods.tables(numbers),
            "axes": [
                {"name": "n", "id": "against-n", "kinds": methods.along(numbers, Axis.ROWS)},
                {"name": "epsilon", "id": "against-epsilon", "kinds": methods.along(numbers, Axis.EPSILON)},
            ],
        }
    return render(request, "public/ways.html", context, status=400 if form.errors else 200)


def numbers_in_address(plan: Plan) -> str:
    """A plan's public numbers for the comparison; n is not among them, for it may be private. Empty but for counts, of
    rows or of persons."""
    workload, universe = plan.workload, plan.schema.universe
    if not isinstance(workload, Workload) or universe.counts_apart or universe.size > LARGEST_CELLS:
        return ""
    # The comparison is about one row, whatever the dataset protects. A person who is counted has one.
    of_a_row = plan.schema if plan.schema.counts_persons else replace(plan.schema, unit=PrivacyUnit())
    return urlencode(
        {
            "neighbours": plan.schema.neighbours.value,
            "cells": universe.size,
            "queries": workload.size,
            # A row that stays may change nothing where a person, who may have fewer rows, does.
            "changed": min(max(1, workload.sensitivity(of_a_row).l1), workload.size),
            "epsilon": decimal_text(plan.budget.epsilon, places=30),
            "delta": decimal_text(plan.delta, places=30),
            "beta": decimal_text(plan.beta, places=30),
        }
    )


def _typed(numbers: Numbers) -> dict[str, str]:
    """Numbers as a person would type them."""
    whole = {name: str(getattr(numbers, name)) for name in ("rows", "cells", "queries", "changed")}
    words = {"neighbours": numbers.neighbours.value}
    return (
        words | whole | {name: decimal_text(getattr(numbers, name), places=30) for name in ("epsilon", "delta", "beta")}
    )
