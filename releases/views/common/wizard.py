"""The wizard's frame: where a person is, which steps can be reached, and the earlier choices in one line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import Question, of_columns_asked
from releases.ledger import reports
from releases.models import Budget, Dataset, Release, ReleaseState, RequestState
from releases.planning import comparison
from releases.presentation.review.said import said_of_release
from releases.publication.receipt import protection_text
from releases.services.release_inputs import NO_ROWS

_NOT_ASKED = "not asked for yet"
#: Of a budget that was not granted yet, what became of the last request.
_UNGRANTED = {
    RequestState.WAITING: "waits for a reviewer",
    RequestState.ASKED_BACK: "returned with a question by a reviewer",
    RequestState.DENIED: "denied by a reviewer",
}
STEPS = ("data", "protection", "budget", "questions", "compare", "confirm", "result")


@dataclass(frozen=True, kw_only=True)
class WizardStep:
    """One step of the wizard. `url` is empty where it cannot be gone to."""

    name: str
    url: str
    is_done: bool
    is_present: bool


def frame(step: str, dataset: Dataset | None = None, release: Release | None = None) -> dict[str, Any]:
    """What every page of the wizard shows around its own form."""
    return {
        "step": step,
        "is_result": step == "result",
        "dataset": dataset,
        "release": release,
        "steps": list(_steps(step, dataset, release)),
        "said_of_release": SimpleLazyObject(lambda: said_of_release(release)),
        "summary": list(_summary(step, dataset, release)) if dataset is not None else [],
    }


def not_ready(request: HttpRequest, dataset: Dataset) -> HttpResponse | None:
    """Where a person goes, with the reason, whose dataset nothing can be planned of; None where something can."""
    if dataset.rows_deleted_at is not None:
        messages.info(request, NO_ROWS)
        return redirect("dataset_detail", dataset_id=dataset.pk)
    if dataset.schema is None:
        messages.info(request, "Declare the columns and the protection first.")
        return redirect("columns", dataset_id=dataset.pk)
    return None


def budget_facts(budget: Budget | None, schema: Schema | None = None) -> dict[str, str]:
    """Both lines of a budget; empty before there is one.

    Args:
        schema: as of `protection_text`.
    """
    if budget is None:
        return {"protection": "", "budget": ""}
    return {"protection": protection_text(budget, schema), "budget": budget_text(budget)}


def budget_text(budget: Budget) -> str:
    """What is spent and reserved of what was granted, and what is left."""
    if not budget.is_granted:
        last = budget.requests.order_by("-requested_at").first()
        return _UNGRANTED.get(RequestState(last.state), _NOT_ASKED) if last is not None else _NOT_ASKED
    frozen = "; frozen by a reviewer" if budget.is_frozen else ""
    frozen += f" (“{budget.frozen_reason}”)" if budget.is_frozen and budget.frozen_reason else ""
    return f"{reports.standings([budget])[0].shares}{frozen}"


def workload_of(release: Release) -> Question | None:
    """The draft's questions; None before there are any.

    Raises:
        InvalidInput: the columns have changed since, and the questions no longer fit them.
    """
    universe = release.dataset.universe
    if not release.workload or universe is None:
        return None
    return read_question(release.workload, universe)


def _steps(step: str, dataset: Dataset | None, release: Release | None) -> list[WizardStep]:
    reached = _reached_of_dataset(dataset) | _reached_of_release(release)
    steps = []
    for name in STEPS:
        can_be_reached, is_done = reached[name]
        owner = release if name in STEPS[3:] else dataset
        url = ""
        if can_be_reached and owner is not None and name != step:
            url = reverse({"data": "columns", "result": "release_detail"}.get(name, name), args=[owner.pk])
        steps.append(WizardStep(name=name.capitalize(), url=url, is_done=is_done, is_present=name == step))
    return steps


def _columns_text(dataset: Dataset, *, has_size: bool) -> str:
    universe = dataset.universe
    if universe is None:
        return ""
    declared = len(universe.names)
    size = f", universe of {comparison.cells_text(universe.largest_population.size)} cells" if has_size else ""
    return f": {declared:,} column{'' if declared == 1 else 's'} declared{size}"


def _reached_of_dataset(dataset: Dataset | None) -> dict[str, tuple[bool, bool]]:
    """Of each step before a release: whether it can be gone to, and whether it is done."""
    if dataset is None:
        return dict.fromkeys(STEPS[:3], (False, False))
    declared = dataset.declared is not None
    budget = dataset.budget if declared else None
    protected, granted = budget is not None, budget is not None and budget.is_granted
    return {"data": (True, declared), "protection": (declared, protected), "budget": (protected, granted)}


def _reached_of_release(release: Release | None) -> dict[str, tuple[bool, bool]]:
    if release is None:
        return dict.fromkeys(STEPS[3:], (False, False))
    if release.status is not ReleaseState.DRAFT:
        return dict.fromkeys(STEPS[3:6], (False, True)) | {"result": (True, False)}
    asked = bool(release.workload)
    chosen = asked and bool(release.mechanism)
    return {
        "questions": (True, asked),
        "compare": (asked, chosen),
        "confirm": (chosen, False),
        "result": (False, False),
    }


def _summary(step: str, dataset: Dataset, release: Release | None) -> list[tuple[str, str]]:
    """The choices made before this step."""
    position = STEPS.index(step)
    asked = _asked(release) if release is not None and position > 3 else None
    # A release has the universe of the columns it asks about.
    lines = [("Data", f"{dataset.title}{_columns_text(dataset, has_size=position <= 3)}")]
    if dataset.budget is not None and position > 1:
        schema = dataset.schema
        if schema is not None and asked is not None:
            schema, _ = of_columns_asked(schema, asked)
        lines.append(("Protection", protection_text(dataset.budget, schema)))
    if dataset.budget is not None and position > 2:
        lines.append(("Budget", budget_text(dataset.budget)))
    if asked is not None:
        lines.append(("Questions", f"{comparison.questions_text(asked)}; {comparison.universe_text(asked)}"))
    return lines


def _asked(release: Release) -> Question | None:
    """None also where the questions no longer fit the columns."""
    try:
        return workload_of(release)
    except InvalidInput:
        return None
