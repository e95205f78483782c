"""Checking the columns: a small release that counts how values read as declared, and the stop where most do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releases.engine.domain.privacy import decimal_text
from releases.engine.mechanisms.base import Plan
from releases.models import CHECK, Dataset, Release, ReleaseState
from releases.services.planned_transactions import planned_atomically
from releases.services.releases import draft_release, set_choice, set_questions

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@planned_atomically()
def draft_check(*, dataset: Dataset, plan: Plan, by: User) -> Release:
    """The draft of a planned check, ready to be confirmed. One that the same person has is changed instead of making
    another.

    Raises:
        InvalidInput: the columns have changed since it was planned.
        Refusal: the rows were deleted.
    """
    draft = dataset.releases.of_kind(CHECK).filter(state=ReleaseState.DRAFT, submitted_by=by).first()
    if draft is None:
        draft = draft_release(dataset=dataset, by=by, title="Check of the columns", kind=CHECK)
    set_questions(release=draft, workload=plan.workload.to_json())
    set_choice(
        release=draft,
        epsilon=decimal_text(plan.budget.epsilon),
        delta=decimal_text(plan.delta, places=30),
        beta=decimal_text(plan.beta),
        mechanism_name=plan.mechanism,
    )
    return draft
