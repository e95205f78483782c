"""Learning a column's range or categories from the data: what it costs and how good it is, before anything is read."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.engine.domain.attribute import CLAMP, DROP, Attribute, plain
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.engine.mechanisms.category_discovery import StableHistogramPlan
from releases.engine.workload.kinds.range import Range
from releases.engine.workload.questions import Inquiry
from releases.forms.fields import typed_or_first
from releases.forms.learning import LearnCategoriesForm, LearnForm, LearnLinkForm, LearnRangeForm
from releases.ledger.balances import first_epsilon
from releases.models import Budget, Dataset, Release
from releases.permissions import get_dataset_for, signed_in
from releases.planning import comparison
from releases.planning.epsilon_meaning import epsilon_meaning
from releases.publication.receipt import protection_text, rows_text
from releases.views.common.live_validation import status_of
from releases.views.common.wizard import budget_text

#: What stands in the field of the word for everything else at first.
_OTHER = "other"
#: A delta to look at where no budget has been granted yet.
_DEFAULT_DELTA = "0.000001"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What can be learned of a column.

    Attributes:
        what: in sentences, with its article where it has one.
        rule: what a column must be for it.
        page: the template.
        form: the fields.
        may: whether it can be learned of a column, as that is declared or not.
        first: what a person would try first, beside epsilon.
        plan, learn: the services.
        facts: what the page says of a plan, beside its price.
    """

    what: str
    rule: str
    page: str
    form: type[LearnForm]
    may: Callable[[Attribute | None], bool]
    first: Callable[[Attribute | None, Budget], dict[str, Any]]
    plan: Callable[..., Plan]
    learn: Callable[..., Release]
    facts: Callable[[Plan, Dataset, str], dict[str, Any]]


def learn_range(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Two ends of a numeric column, from public bounds."""
    return _learn(request, get_dataset_for(request, dataset_id), _RANGE)


def learn_categories(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """The values that many rows of a column have."""
    return _learn(request, get_dataset_for(request, dataset_id), _CATEGORIES)


def _learn(request: HttpRequest, dataset: Dataset, kind: _Kind) -> HttpResponse:
    """Plan it from public facts. All of it is in the address, so reload and back and another day work.

    A POST keeps the plan as a draft and goes on to the confirmation. The table is not opened here.
    """
    if (step := first_step(request, dataset, f"{kind.what} can be learned")) is not None:
        return step
    assert dataset.universe is not None
    assert dataset.budget is not None
    declared = {each.name: each for each in dataset.universe.attributes}
    offered = _offered(dataset, dataset.budget, declared, kind)
    named = LearnLinkForm(request.POST if request.method == "POST" else request.GET).given["column"] or ""
    context: dict[str, Any] = {
        "dataset": dataset,
        "offered": offered,
        "protection": protection_text(dataset.budget),
        "budget": budget_text(dataset.budget),
    }
    if named not in offered:
        context |= {"problem": f"column: {named!r} {kind.rule}" if named else "", "wants_column": True}
        return render(request, kind.page, context, status=400 if named else 200)
    return _planned(request, dataset, kind, context | {"column": named, "attribute": declared.get(named)})


def _planned(request: HttpRequest, dataset: Dataset, kind: _Kind, context: dict[str, Any]) -> HttpResponse:
    """The plan for the column that was chosen; or, once it is kept as a draft, the way to the confirmation."""
    assert dataset.budget is not None
    named, attribute = context["column"], context["attribute"]
    # A tenth of what is left: the questions themselves come after it.
    epsilon = first_epsilon(dataset.budget, usual="0.1", share=Fraction(1, 10))
    first = {"column": named, "epsilon": epsilon, **kind.first(attribute, dataset.budget)}
    form = kind.form(
        typed_or_first(request.POST if request.method == "POST" else request.GET, first), attribute=attribute
    )
    plan: Plan | None = None
    if form.is_valid():
        try:
            plan = kind.plan(dataset=dataset, **form.wish)
            if request.method == "POST" and not plan.infeasible:
                release = kind.learn(dataset=dataset, by=signed_in(request), **form.wish)
                return redirect("confirm", release_id=release.pk)
        except InvalidInput as error:
            form.refuse(error)
    context["form"] = form
    if plan is not None:
        assert dataset.universe is not None
        # A plan about numbers has no bin for what is no number, whatever is declared.
        declared = {each.ordered for each in dataset.universe.attributes}
        declares = not {each.ordered for each in plan.schema.universe.attributes} <= declared
        context |= {"declares": declares, **price_facts(plan, dataset), **kind.facts(plan, dataset, named)}
    return render(request, kind.page, context, status=status_of(request, is_wrong=bool(form.errors)))


def first_step(request: HttpRequest, dataset: Dataset, what: str) -> HttpResponse | None:
    """The page that has to come first; None where what is wanted can be planned."""
    if dataset.rows_deleted_at is not None:
        messages.info(request, services.release_inputs.NO_ROWS)
        return redirect("dataset_detail", dataset_id=dataset.pk)
    if dataset.universe is None or dataset.budget is None:
        messages.info(request, f"Declare the columns and the protection first; then {what}.")
        return redirect("columns" if dataset.universe is None else "protection", dataset_id=dataset.pk)
    return None


def _offered(dataset: Dataset, budget: Budget, declared: dict[str, Attribute], kind: _Kind) -> list[str]:
    """The columns that can be learned: an id has no bins, and nothing is to be learned of an id."""
    every = [*dataset.columns, *dataset.made_columns]
    columns = [name for name in every if name != budget.privacy_unit.id_column]
    return [name for name in columns if kind.may(declared.get(name))]


def price_facts(plan: Plan, dataset: Dataset) -> dict[str, Any]:
    """What any plan costs and leaves. Public inputs only."""
    row = comparison.compared([plan], dataset.budget)[0]
    epsilon, delta = decimal_text(plan.budget.epsilon), decimal_text(plan.delta, places=30)
    return {"plan": plan, "row": row, "meaning": epsilon_meaning(epsilon, delta=delta, price=row.price)}


# A range


def _first_range(attribute: Attribute | None, budget: Budget) -> dict[str, Any]:
    """The declared bounds."""
    assert attribute is not None
    return {
        "lowest": plain(attribute.edges[0]),
        "highest": plain(attribute.edges[-1]),
        "decimals": attribute.decimals,
        "inside": "98",
    }


def _range_facts(plan: Plan, dataset: Dataset, column: str) -> dict[str, Any]:
    attribute = plan.schema.universe[column]
    facts: dict[str, Any] = {
        "bounds": f"{plain(attribute.edges[0])} to {plain(attribute.edges[-1])}",
        "clamps": attribute.outside == CLAMP,
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
    return facts


def _rounded_up(rows: int) -> int:
    """To two digits: it is a rule of thumb."""
    unit: int = 10 ** max(0, len(str(rows)) - 2)
    return -(-rows // unit) * unit


_RANGE = _Kind(
    what="a range",
    rule="must be declared as numbers",
    page="datasets/learn_range.html",
    form=LearnRangeForm,
    may=lambda attribute: attribute is not None and attribute.is_numeric,
    first=_first_range,
    plan=services.learning.plan_range,
    learn=services.learning.learn_range,
    facts=_range_facts,
)


# Categories


def _first_categories(attribute: Attribute | None, budget: Budget) -> dict[str, Any]:
    """The catch-all there is, and a thousandth of the budget's delta: all such releases together may have a tenth."""
    is_caught = attribute is not None and attribute.outside != DROP
    return {
        "other": attribute.outside if attribute is not None and is_caught else _OTHER,
        "delta": comparison.first_delta(budget) if budget.is_granted else _DEFAULT_DELTA,
    }


def _categories_facts(plan: Plan, dataset: Dataset, column: str) -> dict[str, Any]:
    attribute = plan.schema.universe[column]
    facts: dict[str, Any] = {"other": attribute.outside, "kept": attribute.size - 1}
    if isinstance(plan, StableHistogramPlan) and plan.bound is not None:
        facts |= {"threshold": plan.threshold, "enough": rows_text(plan.bound.alpha)}
    return facts


_CATEGORIES = _Kind(
    what="categories",
    rule="must be a column of the table that is neither declared as numbers nor tells people apart",
    page="datasets/learn_categories.html",
    form=LearnCategoriesForm,
    may=lambda attribute: attribute is None or not attribute.has_grammar,
    first=_first_categories,
    plan=services.learning.plan_categories,
    learn=services.learning.learn_categories,
    facts=_categories_facts,
)
