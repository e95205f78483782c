"""What is recognised of rows, and who is shown it: reviewers without a stake in either table, and nobody else.

Whoever uploads guesses would otherwise be answered which of them is true. So nothing follows from a match by itself: no
page, answer or time of anybody else differs, and no budget is joined or booked. A reviewer who is shown a match may let
the tables join the other budget (`budgets.join_request`), or ask the owner of the other table (`ask_consent`); only
then does that owner hear of it. Both are in the audit log.

A reviewer with a granted budget at stake is not shown the matches with its tables. So they do not approve budgets at
all, whether there is a match or not: a second budget for the same rows could not be noticed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q, QuerySet

from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import AuditAction, Budget, BudgetRequest, Dataset, Fingerprint, RequestState
from releases.models.stakes import budgets_at_stake, refuse_stake
from releases.notifications import messages

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SAME, ALL, HALF, FEW, COLUMNS = "same", "all", "half", "few", "columns"
_IN_WORDS = {
    SAME: "has the very same rows",
    ALL: "has about all of the rows in common with these tables",
    HALF: "has half of the rows or more in common with these tables",
    FEW: "has some of the rows in common with these tables",
    COLUMNS: "has the same columns",
}
_HEADINGS = {SAME: "The very same rows:", COLUMNS: "Are these the same people?"}
#: Shown of each kind.
_MOST = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """A table of another population that may be about the same people.

    Attributes:
        kind: how it was recognised: by all rows, by some of them, or by its columns alone, which are no secret here.
        why_no_join: why the tables of this population cannot spend from its budget; empty where they can.
    """

    dataset: Dataset
    budget: Budget
    kind: str
    why_no_join: str

    @property
    def heading(self) -> str:
        if self.kind == SAME and self.dataset.is_in_database:
            return "The very same table:"
        return _HEADINGS.get(self.kind, "Probably the same people:")

    @property
    def in_words(self) -> str:
        if self.kind == SAME and self.dataset.is_in_database:
            return "is the very same table"
        return _IN_WORDS[self.kind]

    @property
    def has_budget_of_same_rows(self) -> bool:
        return self.kind == SAME and self.budget.is_granted


def why_no_join(left: Budget, joined: Budget) -> str:
    """Why the tables of one population cannot spend from the budget of another; empty where they can."""
    if not joined.is_granted:
        return "No budget is granted for it yet"
    if left.is_granted:
        return "Both have a budget already, and neither can be made larger"
    if left.is_frozen:
        return "This one is frozen, and would not be any more"
    if (left.unit, left.neighbours) != (joined.unit, joined.neighbours):
        return (
            f"It protects {joined.privacy_unit.in_words()} with {joined.get_neighbours_display()} neighbours, which "
            f"does not add up with this one"
        )
    return ""


def why_not_approve(person: User, budget: Budget) -> str:
    """Why somebody cannot grant a budget, whatever was recognised; empty where they can."""
    at_stake = budgets_at_stake(person)
    if at_stake.filter(pk=budget.pk).exists():
        return "You have a stake in these tables, so somebody else has to decide this"
    if at_stake.exclude(epsilon="").exists():
        return (
            "You have a stake in tables with a budget of their own. You are not shown whether other tables hold the "
            "same rows, so a reviewer without such a stake has to grant this; you can return it with a question, or "
            "deny it"
        )
    return ""


def counted_alike(budget: Budget) -> QuerySet[Dataset]:
    """The tables whose rows are those of one of this population, in the file or as they are counted."""
    own = budget.datasets.all()
    telling = own.filter(fingerprint__is_telling=True).values("digest")
    digests = Fingerprint.objects.filter(dataset__in=own).exclude(digest=None).exclude(digest="").values("digest")
    return Dataset.objects.filter(Q(digest__in=telling) | Q(fingerprint__digest__in=digests))


def recognised(budget: Budget, *, by: User, only_the_same: bool = False) -> list[Match]:
    """Tables of other populations with rows of this one, the nearest first, as far as a reviewer may know of them.

    Args:
        only_the_same: leave out those with some of the rows, for which sketches are compared.
    """
    at_stake = set(budgets_at_stake(by).values_list("pk", flat=True))
    if budget.pk in at_stake:
        return []
    others = _others(budget).exclude(budget__in=at_stake)
    same = set(counted_alike(budget).values_list("pk", flat=True))
    kinds = dict.fromkeys(others.filter(pk__in=same).values_list("pk", flat=True)[:_MOST], SAME)
    if only_the_same:
        return _matches(budget, kinds)
    near = dict(_near(budget, others.exclude(pk__in=same)))
    for kind in (ALL, HALF, FEW):
        kinds |= dict(list({pk: kind for pk, each in near.items() if each == kind}.items())[: 2 * _MOST - len(kinds)])
    return _matches(budget, kinds)


def granted_matches(budget: Budget, *, by: User) -> list[Match]:
    """Those of the recognised tables that spend from a budget: of the same people there would be two then."""
    return [each for each in recognised(budget, by=by) if each.budget.is_granted]


def alike_by_columns(budget: Budget, *, besides: list[Match]) -> list[Match]:
    """Tables with the columns of these that spend from another budget: perhaps of the same people."""
    named = Q(pk__in=())
    for columns in budget.datasets.values_list("columns", flat=True):
        named |= Q(columns=columns)
    found = _others(budget).filter(named).exclude(pk__in=[each.dataset.pk for each in besides])
    return _matches(budget, dict.fromkeys(found.values_list("pk", flat=True)[:_MOST], COLUMNS))


@transaction.atomic
def ask_consent(*, request: BudgetRequest, about: uuid.UUID, by: User, note: str) -> None:
    """Ask the owner of a table that a reviewer is shown what they say to one budget for both.

    Raises:
        HasStake: somebody else has to decide on the request.
        InvalidInput: the request was decided, nothing is asked, or no such table is shown to this reviewer.
    """
    refuse_stake(by, request)
    if not note.strip():
        raise InvalidInput("note", note, "must say what you want to know of the owner")
    shown = recognised(request.budget, by=by)
    shown += alike_by_columns(request.budget, besides=shown)
    match = next((each for each in shown if each.dataset.pk == about), None)
    if match is None or request.state != RequestState.WAITING:
        raise InvalidInput("consent", str(about), "must be about a table that is shown with a waiting request")
    audit_log.record(AuditAction.ASK_CONSENT, actor=by, on=match.dataset, detail=f"for {request}; {note}")
    messages.consent_asked(match.dataset, request=request, by=by, note=note.strip())


def _others(budget: Budget) -> QuerySet[Dataset]:
    return Dataset.objects.filter(budget__isnull=False).exclude(budget=budget).order_by("created_at")


def _near(budget: Budget, others: QuerySet[Dataset]) -> Iterator[tuple[uuid.UUID, str]]:
    """The tables with some rows in common, and how many, coarsely."""
    from releases.engine.tables import fingerprint

    sketches = Fingerprint.objects.exclude(sketch=None).values_list("dataset", "sketch")
    own = [bytes(sketch or b"") for _, sketch in sketches.filter(dataset__in=budget.datasets.all())]
    if not own:
        return
    for pk, sketch in sketches.filter(dataset__in=others.order_by()).iterator(chunk_size=50):
        share = max(fingerprint.share_in_common(bytes(sketch or b""), each) for each in own)
        if share:
            yield pk, ALL if share >= fingerprint.ALL else HALF if share >= fingerprint.HALF else FEW


def _matches(budget: Budget, kinds: dict[uuid.UUID, str]) -> list[Match]:
    found = Dataset.objects.filter(pk__in=kinds).select_related("owner", "budget").defer("declared", "columns")
    shown = [
        Match(
            dataset=each,
            budget=each.budget,
            kind=kinds[each.pk],
            why_no_join=why_no_join(budget, each.budget),
        )
        for each in found.order_by("created_at")
        if each.budget is not None
    ]
    return sorted(shown, key=lambda each: list(_IN_WORDS).index(each.kind))
