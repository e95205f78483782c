"""A session's plan before anything is spent: what it costs, how close its answers are, and for which tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from releases.engine.mechanisms.base import Plan
from releases.engine.mechanisms.live.listed import ListedRules
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.mechanisms.pmw.session import UpdateRules
from releases.models import Dataset
from releases.planning import comparison, usefulness
from releases.planning.session_plans import least_rows
from releases.planning.usefulness import Prepared
from releases.presentation.sessions.sentences import bought_text, listed_margin, session_sentence
from releases.publication.receipt import percent, rows_text, rules_of


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPlan:
    """A plan in words.

    Attributes:
        infeasible: why it cannot be run at all; the attributes from `formula` on are empty then.
        why_not: why it cannot be confirmed; empty where it can.
        charge: what is booked, to the last digit; empty where `cost` is that already.
        way: how it answers.
        updates: paid updates that are reserved; empty where it has none, as `free_margin` and `paid_margin` are.
        margin: what an answer is within that is neither free nor an update.
        listed: what is answered when it is opened, within `listed_margin`; empty where nothing is.
        bound: what every answer is within, in rows; None where nothing is known of it.
        cells: how many cells the universe of its columns has.
        useful_from, good_from: the number of rows from which the bound is below half the table, and below a tenth.
        little_use: for a table of which size it is of little use; `says_little` why, and what would help.
        prepared: the same questions in one release; None where nothing is known of the bound. `confidence` of both.
    """

    infeasible: str
    why_not: str
    cost: str
    charge: str
    takes: str
    source: str
    formula: str = ""
    sentence: str = ""
    bound: float | None = None
    way: str = ""
    margin: str = ""
    listed: str = ""
    listed_margin: str = ""
    updates: str = ""
    free_margin: str = ""
    paid_margin: str = ""
    columns: str = ""
    cells: str = ""
    population: str = ""
    useful_from: int | None = None
    good_from: int | None = None
    little_use: str = ""
    says_little: str = ""
    prepared: Prepared | None = None
    confidence: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def of_use_from(self) -> str:
        if not self.useful_from:
            return "no size of table, up to 5,000,000,000 rows, at this epsilon."
        tenth = f"; from about {self.good_from:,} rows below a tenth of it" if self.good_from else ""
        return f"about {self.useful_from:,} rows: there the bound falls below half the table{tenth}."


def session_plan(plan: Plan, dataset: Dataset) -> SessionPlan:
    row = comparison.compared([plan], dataset.budget)[0]
    priced = SessionPlan(
        infeasible=plan.infeasible,
        why_not=row.why_not,
        cost=row.cost or "–",
        charge=row.charge,
        takes=f"{row.seconds}, {row.memory}",
        source=row.mechanism.source,
    )
    if not isinstance(plan, OnlinePlan):
        return priced
    counted = plan.schema.counted
    population = f"{plan.options['population']:,}"
    cells = comparison.cells_text(plan.schema.universe.size)
    useful_from = least_rows(plan, share=Fraction(1, 2))
    says_little = _says_little(plan, useful_from)
    return replace(
        priced,
        formula=row.formula,
        sentence=session_sentence(plan),
        bound=plan.expectation.alpha if plan.expectation else None,
        way=row.mechanism.title,
        **_margins(plan),
        columns=", ".join(plan.schema.universe.names),
        cells=f"{cells} cell{'' if cells == '1' else 's'}",
        population=population,
        useful_from=useful_from,
        good_from=least_rows(plan, share=Fraction(1, 10), above=useful_from),
        little_use=f"This is of little use for a table of about {population} {counted.many}." if says_little else "",
        says_little=says_little,
        prepared=usefulness.prepared(plan),
        confidence=percent(1 - plan.beta),
        left_out=tuple(rules_of(plan.schema)),
    )


def _margins(plan: OnlinePlan) -> dict[str, str]:
    rules, counted = plan.rules, plan.schema.counted
    if isinstance(rules, ListedRules):
        return {
            "listed": bought_text(plan),
            "listed_margin": listed_margin(rules, counted),
            "margin": rows_text(rules.paid_half_width, counted),
        }
    if not isinstance(rules, UpdateRules):
        return {"margin": rows_text(rules.half_width, counted)}
    return {
        "updates": f"{rules.updates:,}",
        "free_margin": rows_text(rules.public_half_width, counted),
        "paid_margin": rows_text(rules.paid_half_width, counted),
    }


def _says_little(plan: OnlinePlan, useful_from: int | None) -> str:
    """Why it is of little use for the table it is planned for; empty where it is of use."""
    alpha, counted = plan.expectation.alpha if plan.expectation else 0.0, plan.schema.counted
    why = usefulness.says_little(alpha, plan.options["population"], counted)
    if not why:
        return ""
    many = counted.many
    begins = f" With this epsilon a session begins to be of use at about {useful_from:,} {many}." if useful_from else ""
    return (
        f"± {rows_text(alpha, counted)} {why}. “Half the {many}”, said of every question, is as "
        f"close and costs nothing.{begins} Take a larger epsilon, fewer questions, or a smaller universe."
    )
