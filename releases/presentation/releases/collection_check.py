"""The page on which several plans are checked and released together: what each proves and costs, and one button."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.forms import BoundField
from django.urls import reverse

from releases.engine.accounting import filters
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.mechanisms.base import Plan
from releases.forms.collections import ShareForm
from releases.ledger.balances import caps_of, left_share
from releases.models import Budget, Collection, Release, ReleaseState
from releases.planning import recommendation
from releases.planning.comparison import ComparedPlan
from releases.presentation.releases.column_check import ColumnCheck, LeftOut
from releases.publication.receipt import percent, rows_text
from releases.questions.together import MAX_PARTS
from releases.services.releases import WhyItWaits, plan_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class PartPlanned:
    """One part as it was planned for the page; all but the release is None of one that is no draft, or has no plan.

    Attributes:
        problem: why there is no plan.
        waits: why a reviewer has to see it, if it is submitted after the parts before it.
        rules: what becomes of values that were not declared.
        answered_before: a finished release that has answered the very same.
    """

    release: Release
    plan: Plan | None = None
    row: ComparedPlan | None = None
    problem: str = ""
    check: ColumnCheck | None = None
    waits: WhyItWaits | None = None
    rules: Sequence[str] = ()
    answered_before: Release | None = None

    @property
    def is_draft(self) -> bool:
        return self.release.status is ReleaseState.DRAFT

    @property
    def why_barred(self) -> str:
        """Why it cannot be released at all; empty where it can."""
        return self.problem or (self.row.why_not if self.row is not None else "")

    @property
    def why_apart(self) -> str:
        """Why it has to be confirmed on its own page, which asks for a reason; empty where it need not."""
        if self.check is not None and self.check.misread:
            return f"By the check of the columns, {self.check.misread}"
        return f"A reviewer looks at it first: {self.waits.in_words('you')}." if self.waits is not None else ""

    @property
    def is_ready(self) -> bool:
        return self.is_draft and self.plan is not None and not self.why_barred and not self.why_apart


@dataclass(frozen=True, kw_only=True, slots=True)
class PartChecked:
    """One line of the table.

    Attributes:
        address: of the part's own page: the comparison of a draft.
        state: of one that is no draft any more.
        within: how close its answers are, in their unit; empty where it has no plan.
        notes: what else is to be known before it is spent on.
        charge: what is booked, in full; empty of one that has no plan.
        share: the field of its weight; None of one that is no draft.
        why_barred, why_apart: empty where it can be released here; `own_page` then is empty too.
        before_title, before_address: of a finished release that has answered the same; empty where there is none.
    """

    title: str
    address: str
    state: ReleaseState | None
    method: str
    within: str
    notes: tuple[str, ...]
    charge: str
    epsilon: str
    share: BoundField | None
    why_barred: str
    why_apart: str
    own_page: str
    before_title: str
    before_address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionCheck:
    """Plans that are released together.

    Attributes:
        epsilon: of all parts together; `leaves` what is left of the budget after all drafts, empty where they do not
            fit; `cost` what they cost.
        confidence: how sure all bounds are at once.
        check: the latest check of the table; None where it never had one.
        left_out: what becomes of values that were not declared, which differs between parts.
        problem: why it cannot be released, or was not; empty where nothing is wrong.
        plans: the digests of what can be released here.
        wants_budget: a larger budget would allow it.
    """

    title: str
    parts: tuple[PartChecked, ...]
    epsilon: str
    leaves: str
    confidence: str
    check: Release | None
    left_out: tuple[LeftOut, ...]
    problem: str
    button: str
    can_be_released: bool
    wants_budget: bool
    key: str
    plans: tuple[str, ...]


def collection_check(
    collection: Collection,
    planned: Sequence[PartPlanned],
    *,
    form: ShareForm,
    barred: str,
    problem: str,
) -> CollectionCheck:
    """
    Args:
        barred: why the drafts do not fit together; empty where they do.
        problem: why the press on the button was refused; empty where it was not.
    """
    drafts = [part for part in planned if part.is_draft]
    own = [part.release for part in planned if part.release.status is not ReleaseState.CANCELLED]
    ready = [part for part in drafts if part.is_ready]
    is_barred = bool(barred) or any(part.why_barred for part in drafts)
    number = f"all {len(drafts)}" if len(ready) == len(drafts) else f"{len(ready)} of {len(drafts)}"
    checks = [part.check.release for part in drafts if part.check is not None and part.check.release is not None]
    return CollectionCheck(
        title=collection.title,
        parts=tuple(_part(part, form) for part in planned),
        epsilon=decimal_text(sum(map(_epsilon, own), Fraction(0)), places=30),
        leaves="" if is_barred else _leaves(collection.dataset.budget, drafts),
        confidence=confidence(collection, own),
        check=checks[0] if checks else None,
        left_out=_left_out(drafts),
        problem=problem or barred,
        button=f"Spend and release {number}" if len(drafts) > 1 else "Spend and release",
        can_be_released=bool(ready) and not is_barred,
        wants_budget=is_barred,
        key=str(uuid.uuid4()),
        plans=tuple(plan_digest(part.plan) for part in ready if part.plan is not None),
    )


def confidence(collection: Collection, releases: Iterable[Release]) -> str:
    """How sure all bounds of these parts are at once, whatever was changed of one on its own pages."""
    wrong = sum((exact(each.beta, field="beta") for each in releases), Fraction(0))
    return percent(max(Fraction(0), 1 - max(wrong, exact(collection.beta, field="beta"))))


def _left_out(drafts: Sequence[PartPlanned]) -> tuple[LeftOut, ...]:
    """Parts about the same columns have the same rules; a row is left out of the others by other rules."""
    titles: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for part in drafts:
        if part.rules:
            found = part.check.found if part.check is not None else ()
            titles.setdefault((tuple(part.rules), found), []).append(part.release.title)
    return tuple(LeftOut(titles="; ".join(named), rules=rules, found=found) for (rules, found), named in titles.items())


def _epsilon(release: Release) -> Fraction:
    return exact(release.epsilon, field="epsilon") if release.epsilon else Fraction(0)


def _part(part: PartPlanned, form: ShareForm) -> PartChecked:
    release, row, before = part.release, part.row, part.answered_before
    name = form.names.get(release.pk)
    step = "compare" if part.is_draft else "release_detail"
    return PartChecked(
        title=release.title,
        address=reverse(step, args=[release.pk]),
        state=None if part.is_draft else release.shown_state,
        method=row.mechanism.title if row is not None else "",
        within=_within(row) if row is not None and not row.plan.infeasible else "",
        notes=tuple(_notes(row)) if row is not None else (),
        charge=row.charge or row.cost if row is not None else "",
        epsilon=release.epsilon,
        share=form[name] if name else None,
        why_barred=part.why_barred if part.is_draft else "",
        why_apart=part.why_apart,
        own_page=reverse("confirm", args=[release.pk]) if part.why_apart else "",
        before_title=before.title if before is not None else "",
        before_address=reverse("release_detail", args=[before.pk]) if before is not None else "",
    )


def _within(row: ComparedPlan) -> str:
    if row.wants_rows:
        return (
            "How close it is depends on how many rows there are. The release proves it; compare methods to see it now "
            "for a number of rows that you guess."
        )
    return recommendation.within(row)


def _notes(row: ComparedPlan) -> Iterable[str]:
    if row.cost:
        yield f"Takes {row.seconds}, {row.memory}."
    yield from _of_each_table(row)
    if row.synthetic_rows and row.for_synthetic_rows:
        yield f"Synthetic rows: {row.synthetic_rows}."
    if row.rows_counted:
        yield row.rows_counted_in_full
    if row.says_little:
        yield f"This is of little use: {' '.join(filter(None, [row.margin, row.says_little]))}."
    elif row.useful_from:
        yield f"{row.useful_from[:1].upper()}{row.useful_from[1:]}."


def _of_each_table(row: ComparedPlan) -> Iterable[str]:
    """How close each table is, of several that are measured together."""
    families, universe = row.plan.workload.families, row.plan.workload.universe
    if row.bound is not None and row.plan.workload.is_counts and 1 < len(families) <= MAX_PARTS:
        widths = zip(families, row.bound.half_widths, strict=True)
        tables = ", ".join(f"{each.title(universe)} within {rows_text(width, row.counted)}" for each, width in widths)
        yield f"Measured together, in one release: {tables}."


def _leaves(budget: Budget | None, drafts: Sequence[PartPlanned]) -> str:
    prices = [part.row.price for part in drafts if part.row is not None and part.row.price is not None]
    if budget is None or not budget.is_granted:
        return ""
    caps = caps_of(budget)
    spent = budget.totals
    for price in prices:
        spent = spent.plus(filters.amounts(price, policy=caps.policy))
    return f"{left_share(spent, caps):g}%"
