"""Learning a column's range from the data: what it costs and how far off it may be, before anything is read."""

from __future__ import annotations

import uuid
from math import ceil
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import planning, services
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.engine.privacy import decimal_text, exact
from releases.engine.statistic import Range
from releases.engine.universe import CLAMP, Attribute, plain
from releases.engine.workload import Inquiry
from releases.models import Budget, Dataset
from releases.range_forms import LearnRangeForm
from releases.receipt import rows_text
from releases.views.access import get_dataset_for, signed_in
from releases.views.wizard import budget_text, protection_text


def learn_range(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Plan it from public bounds. All of it is in the address, so reload and back and another day work.

    A POST keeps the plan as a draft and goes on to the confirmation. The table is not opened here.
    """
    dataset = get_dataset_for(request, dataset_id)
    if dataset.universe is None or dataset.budget is None:
        messages.info(request, "Declare the columns and the protection first; then a range can be learned.")
        return redirect("columns" if dataset.universe is None else "protection", dataset_id=dataset.pk)
    given = request.POST if request.method == "POST" else request.GET
    numeric = [each.name for each in dataset.universe.attributes if each.is_numeric]
    named = given.get("column", "")
    context: dict[str, Any] = {
        "dataset": dataset,
        "numeric": numeric,
        "protection": protection_text(dataset.budget),
        "budget": budget_text(dataset.budget),
    }
    if named not in numeric:
        context["problem"] = f"column: {named!r} must be declared as numbers" if named else ""
        return render(request, "releases/learn_range.html", context, status=400 if named else 200)
    attribute = dataset.universe[named]
    form = LearnRangeForm(given if "epsilon" in given else _first(attribute, dataset.budget), attribute=attribute)
    plan: Plan | None = None
    if form.is_valid():
        try:
            plan = services.plan_range(dataset=dataset, **form.wish)
            if request.method == "POST" and not plan.infeasible:
                release = services.learn_range(dataset=dataset, by=signed_in(request), **form.wish)
                return redirect("confirm", release_id=release.pk)
        except InvalidInput as error:
            form.refuse(error)
    context |= {"column": named, "form": form, "attribute": attribute, "clamps": attribute.outside == CLAMP}
    if plan is not None:
        context |= _facts(plan, dataset, named)
    return render(request, "releases/learn_range.html", context, status=400 if form.errors else 200)


def _first(attribute: Attribute, budget: Budget) -> dict[str, Any]:
    """What a person would try first: the declared range, and a tenth of the budget."""
    tenth = exact(budget.epsilon, field="epsilon") / 10 if budget.is_granted else exact("0.1", field="epsilon")
    return {
        "column": attribute.name,
        "lowest": plain(attribute.edges[0]),
        "highest": plain(attribute.edges[-1]),
        "decimals": attribute.decimals,
        "inside": "98",
        "epsilon": decimal_text(tenth),
    }


def _facts(plan: Plan, dataset: Dataset, column: str) -> dict[str, Any]:
    """What the page says of the plan. Public inputs only."""
    edges = plan.schema.universe[column].edges
    bounds = f"{plain(edges[0])} to {plain(edges[-1])}"
    row = planning.compared([plan], dataset.budget)[0]
    facts: dict[str, Any] = {
        "plan": plan,
        "row": row,
        "bounds": bounds if plan.schema.universe != dataset.universe else "",
        "beliefs": planning.belief_table(plan.budget.epsilon),
        "is_large": plan.budget.epsilon >= planning.LARGE_EPSILON,
    }
    if plan.bound is not None:
        assert isinstance(plan.workload, Inquiry)
        assert isinstance(plan.workload.statistic, Range)
        share, _ = plan.workload.statistic.ends
        facts |= {
            "off_by": rows_text(plan.bound.alpha),
            "share": f"{decimal_text(share * 100, places=6)}%",
            # From so many rows on there are more of them outside at either end than the ranks may be off by.
            "useful_from": _rounded_up(ceil(exact(str(plan.bound.alpha), field="alpha") / share)),
        }
    if row.price is not None and dataset.budget is not None and not row.refusal:
        facts["left"] = planning.left_after(dataset.budget, row.price)
    return facts


def _rounded_up(rows: int) -> int:
    """To two digits: it is a rule of thumb."""
    unit: int = 10 ** max(0, len(str(rows)) - 2)
    return -(-rows // unit) * unit
