"""The page on which a plan is confirmed: its exact charge, its accuracy, and the one button that spends."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from releases.engine.domain.counted import Counted
from releases.engine.mechanisms.base import Plan
from releases.engine.workload.queries import Marginal
from releases.engine.workload.questions import Question
from releases.ledger.capacity import ReleasesThatFit
from releases.models import Budget, Release
from releases.planning.comparison import ComparedPlan, rows_counted_in_words
from releases.planning.leaves import Leaves, room_after
from releases.presentation.releases.column_check import ColumnCheck, LeftOut
from releases.questions.base import kind_of
from releases.services.releases import plan_digest

#: How synthetic rows are chosen.
_SAME = "“Rows counted” is set to “same” under Details on the page before"
#: A draft's title before anybody typed one.
_UNNAMED = re.compile(r"Release \d+")
_LONGEST_TITLE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfirmPage:
    """A plan before it is charged.

    Attributes:
        sentence: its accuracy; `formula`, `formula_source`: of the bound, if there is one.
        charge: what is booked, to the last digit; empty where `cost` is that already.
        synthetic_rows: how many there will be; empty where none are made.
        rows_counted: which rows its tables count, where not all count the same, and that no synthetic rows are made.
        leaves, leaves_note: what is left of the budget after it; empty where it does not fit.
        useful_from: from how many rows the bound says something; empty where that is known or cannot be told.
        says_little: why the bound is of little use; empty where it is of use.
        fits: how many more releases fit after it.
        charged: what is charged, and when.
        why_it_waits: why a reviewer sees it first; empty where it starts at once.
        check: what the latest check of the table says of the plan's columns.
        left_out: what becomes of values that were not declared; empty where nothing has to.
        reason_label, reason_help: of the field for a reason; empty where none is asked for.
        problem: why it cannot be confirmed, or was not; empty where nothing is wrong.
        wants_budget: a larger budget would allow it.
        key, digest: which press and which plan the form sends.
    """

    sentence: str
    formula: str
    formula_source: str
    mechanism: str
    cost: str
    charge: str
    takes: str
    synthetic_rows: str
    rows_counted: str
    leaves: str
    leaves_note: str
    useful_from: str
    says_little: str
    fits: tuple[ReleasesThatFit, ...]
    charged: str
    why_it_waits: str
    check: ColumnCheck
    left_out: tuple[LeftOut, ...]
    reason_label: str
    reason_help: str
    button: str
    problem: str
    can_be_confirmed: bool
    wants_budget: bool
    key: str
    digest: str


def title_at_first(title: str, question: Question) -> str:
    """What a release is called that nobody has named: what it answers, where that is short."""
    if not _UNNAMED.fullmatch(title):
        return title
    if len(question.families) == 1 and isinstance(question.families[0], Marginal):
        said = f"Counts of {question.families[0].title(question.universe)}"
    else:
        said, _, _ = kind_of(question).in_words(question).partition(";")
    return said[:1].upper() + said[1:] if len(said) <= _LONGEST_TITLE else title


def confirm_page(
    release: Release,
    plan: Plan,
    row: ComparedPlan,
    *,
    barred: str,
    problem: str,
    why_it_waits: str,
    check: ColumnCheck,
    rules: Sequence[str],
    button: str,
) -> ConfirmPage:
    """
    Args:
        row: the plan with its price, as the comparison has it.
        barred: why it cannot be confirmed; empty where it can.
        problem: why the press on the button was refused; empty where it was not.
        check: what the latest check of the table says of the plan's columns.
        rules: what becomes of values that were not declared.
        button: what the button says where no reviewer has to see the plan.
    """
    return ConfirmPage(
        sentence=_sentence(row),
        formula=row.formula,
        formula_source=row.formula_source,
        mechanism=row.mechanism.title,
        cost=row.cost or "–",
        charge=row.charge,
        takes=f"{row.seconds}, {row.memory}",
        synthetic_rows=row.synthetic_rows,
        rows_counted=rows_counted_in_words(plan, same=_SAME) if plan.schema.universe.own_rows else "",
        leaves=row.leaves.share if row.leaves else "",
        leaves_note=_note(row.leaves) if row.leaves else "",
        useful_from=f"{row.margin}: {row.useful_from}." if row.useful_from else "",
        says_little=_says_little(row),
        fits=tuple(_room_after(release.dataset.budget, row)),
        charged=f"{_capital(row.cost or 'the epsilon')} is charged {'once it is approved' if why_it_waits else 'now'}",
        why_it_waits=why_it_waits,
        check=check,
        left_out=(LeftOut(titles="", rules=tuple(rules), found=check.found),) if rules else (),
        reason_label=_reason_label(check, why_it_waits, row.counted),
        reason_help="The reviewer reads this." if why_it_waits else "Reviewers can read this.",
        button="Ask for the review" if why_it_waits else button,
        problem=problem or barred,
        can_be_confirmed=not barred,
        wants_budget=bool(barred) and not plan.infeasible,
        key=str(uuid.uuid4()),
        digest=plan_digest(plan),
    )


def _sentence(row: ComparedPlan) -> str:
    """Its accuracy; the field for a number of rows is on the page before."""
    if row.wants_rows:
        return f"How accurate it is depends on how many {row.counted.many} there are. The release says it."
    return row.sentence


def _reason_label(check: ColumnCheck, why_it_waits: str, counted: Counted) -> str:
    if check.misread:
        return f"Why it is right that these {counted.many} are left out, or cannot be read"
    return "Why this much is needed" if why_it_waits else ""


def _note(leaves: Leaves) -> str:
    return " ".join(part for part in (f"{leaves.more_text}.", leaves.runs_out, leaves.closes) if part)


def _says_little(row: ComparedPlan) -> str:
    if not row.says_little:
        return ""
    if not row.margin:
        return f"{_capital(row.says_little)}."
    half = f"half the {row.counted.many}"
    return f"{row.margin} {row.says_little}. Guessing {half} for every count is as close and costs nothing."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _room_after(budget: Budget | None, row: ComparedPlan) -> Sequence[ReleasesThatFit]:
    return () if budget is None or row.price is None else room_after(budget, row.price)
