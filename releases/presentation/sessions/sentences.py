"""What a session asks and how accurate it is, in words."""

from __future__ import annotations

from releases.engine.mechanisms.base import Plan
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.models import SESSION, Release
from releases.publication.receipt import percent, rows_text


def session_sentence(plan: OnlinePlan) -> str:
    """The one sentence on a session's accuracy."""
    half_width = max(plan.rules.public_half_width, plan.rules.paid_half_width)
    number, within = plan.rules.questions, rows_text(half_width, plan.schema.counted)
    every = "the answer" if number == 1 else f"every one of up to {number:,} answers"
    return (
        f"With probability {percent(1 - plan.beta)}, {every} is within {within} of the truth"
        f"{'' if number == 1 else ', all at once'}."
    )


def session_words(release: Release, plan: Plan) -> dict[str, str]:
    """What a session asks and how accurate it is, where a page would else speak of a workload; nothing of others."""
    if release.kind is not SESSION or not isinstance(plan, OnlinePlan):
        return {}
    rules = plan.rules
    asked = f"up to {rules.questions:,} counts, one at a time, with {rules.updates:,} paid updates"
    return {"questions": asked, "sentence": session_sentence(plan)}
