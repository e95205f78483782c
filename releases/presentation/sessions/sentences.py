"""What a session asks and how accurate it is, in words."""

from __future__ import annotations

from releases.engine.domain.counted import Counted
from releases.engine.mechanisms.base import Plan
from releases.engine.mechanisms.live.listed import ListedRules
from releases.engine.mechanisms.live.noise import NoiseRules
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.workload.queries import Marginal
from releases.models import SESSION, Release
from releases.publication.receipt import percent, rows_text


def session_sentence(plan: OnlinePlan) -> str:
    """The one sentence on a session's accuracy."""
    number, within = plan.rules.questions, rows_text(plan.rules.half_width, plan.schema.counted)
    probably = f"With probability {percent(1 - plan.beta)}, "
    if number is None:
        return (
            f"{probably}every answer is within {within} of the truth, all at once, however many are asked. The fewer "
            f"combinations of values a question adds up, the closer its answer: each says how close it is."
        )
    if isinstance(plan.rules, ListedRules):
        paid = rows_text(plan.rules.paid_half_width, plan.schema.counted)
        if plan.rules.listed_half_width is None:
            return (
                f"{probably}every one of up to {number:,} answers is within {paid} of the truth, all at once, where no "
                f"other error is asked for. Answers that the fit knows as closely have no limit and cost nothing: how "
                f"close it is, is measured when the session opens, and each answer says it."
            )
        listed = listed_margin(plan.rules, plan.schema.counted)
        return (
            f"{probably}every answer bought when the session opens is within {listed} of the truth, and every one of "
            f"up to {number:,} other answers within {paid}, all at once, where no other error is asked for."
        )
    every = "the answer" if number == 1 else f"every one of up to {number:,} answers"
    unless = ", where no other error is asked for" if isinstance(plan.rules, NoiseRules) else ""
    return f"{probably}{every} is within {within} of the truth{'' if number == 1 else ', all at once'}{unless}."


def listed_margin(rules: ListedRules, counted: Counted) -> str:
    """What the answers are within that are bought when a session is opened."""
    if rules.listed_half_width is None:
        return "what is measured when the session opens"
    return rows_text(rules.listed_half_width, counted)


def bought_text(plan: OnlinePlan) -> str:
    """What a session answers when it is opened; empty where that is nothing."""
    if not plan.answers_at_start:
        return ""
    listed = plan.counts_asked
    tables = sum(isinstance(family, Marginal) for family in listed.families)
    counts = len(listed.families) - tables
    kinds = ((tables, "table"), (counts, "count"))
    said = [f"{number:,} {word}{'' if number == 1 else 's'}" for number, word in kinds if number]
    return f"{' and '.join(said)} ({listed.size:,} answers)"


def session_words(release: Release, plan: Plan) -> dict[str, str]:
    """What a session asks and how accurate it is, where a page would else speak of a workload; nothing of others."""
    if release.kind is not SESSION or not isinstance(plan, OnlinePlan):
        return {}
    rules = plan.rules
    if rules.questions is None:
        asked = "counts, one at a time, from a noisy count of every combination of values"
    elif isinstance(rules, ListedRules):
        begun = bought_text(plan)
        asked = (
            f"{begun} from one fit that is made when it opens, where it is close enough, and up to "
            f"{rules.questions:,} other counts, one at a time, each with noise of its own"
            if rules.listed_half_width is None
            else f"{begun} when it opens, what is added up from these, and up to {rules.questions:,} other "
            f"counts, one at a time, each with noise of its own"
        )
    elif isinstance(rules, NoiseRules):
        asked = f"up to {rules.questions:,} counts, one at a time, each with noise of its own"
    else:
        asked = f"up to {rules.questions:,} counts, one at a time, with {rules.updates:,} paid updates"
    return {"questions": asked, "sentence": session_sentence(plan)}
