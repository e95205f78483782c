"""After a restored backup, or a loss of marks: what is missing, and what a reviewer's word makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.urls import reverse

from releases import checks, services
from releases.ledger import record, stale_ledger
from releases.ledger.decisions import Decision
from releases.models import Budget, Dataset
from releases.services.lost_budgets import Lost
from releases.services.restoring import MissingOfBudget


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsettled:
    """A release whose attempt, questions or publication may be missing."""

    title: str
    address: str
    state: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The whole installation waits.

    Attributes:
        faults: why, each a sentence.
        can_go_on: a reviewer's word lets it; not where the marks are those of another database.
        is_lost: a folder or a part of a record is gone, so what was done since the backup is not known.
        made: decisions in force again; `final` those that are made again unless they are unticked.
        unsettled: `unsettled_says` what becomes of them.
    """

    faults: tuple[str, ...]
    can_go_on: bool
    is_lost: bool
    made: tuple[Decision, ...]
    final: tuple[Decision, ...]
    unsettled: tuple[Unsettled, ...]
    unsettled_says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LostBudget:
    """A budget that only its mark knows.

    Attributes:
        says: what is known of it.
        here: tables with the very same rows; empty where there are none, or for who cannot decide.
    """

    key: str
    title: str
    says: str
    here: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupsPage:
    """What is remembered outside the database and not known to it.

    Attributes:
        inside: that the marks are kept in the folder of the data; empty where they are not.
        waiting: None where the installation goes on.
        peoples: of budgets that are there, the number, and whose people they are, for a menu.
        nothing: all that is remembered is known.
    """

    may_decide: bool
    inside: str
    waiting: Waiting | None
    lost: tuple[LostBudget, ...]
    peoples: tuple[tuple[str, str], ...]
    missing: tuple[MissingOfBudget, ...]
    is_nothing: bool


def backups_page(*, by: User, may_decide: bool) -> BackupsPage:
    found, missing = record.look(), services.restoring.all_missing()
    waiting = _waiting(found)
    lost = (
        ()
        if found.is_another
        else tuple(_lost(each, by if may_decide else None) for each in services.lost_budgets.lost_budgets())
    )
    budgets = Budget.objects.exclude(epsilon="").select_related("owner").order_by("name") if lost and may_decide else []
    return BackupsPage(
        may_decide=may_decide,
        inside=checks.marks_inside_the_data(),
        waiting=waiting,
        lost=lost,
        peoples=tuple((str(each.pk), f"the people of {each} of {each.owner}") for each in budgets),
        missing=tuple(missing),
        is_nothing=waiting is None and not missing,
    )


def _waiting(found: record.Found) -> Waiting | None:
    faults = tuple(f"{each[:1].upper()}{each[1:]}." for each in stale_ledger.installation(found))
    if not faults:
        return None
    forgotten = services.reapplying.forgotten_decisions(found.own) if found.is_restored else []
    unsettled = services.restoring.unsettled() if found.fault and not found.is_another else []
    return Waiting(
        faults=faults,
        can_go_on=not found.is_another,
        is_lost=found.is_lost,
        made=tuple(each for each in forgotten if not services.reapplying.waits_for_a_reviewer(each)),
        final=tuple(each for each in forgotten if services.reapplying.waits_for_a_reviewer(each)),
        unsettled=tuple(
            Unsettled(title=each.title, address=reverse("release_detail", args=[each.pk]), state=each.status.label)
            for each in unsettled
        ),
        unsettled_says=_ENDS if found.is_lost else _WAITS,
    )


_ENDS = (
    "Nobody knows what of these was begun, asked or published after the backup was made. They end when you go on, and "
    "their charges stay:"
)
_WAITS = "These wait, and go on when you do, except where more is remembered of them below:"


def _lost(lost: Lost, viewer: User | None) -> LostBudget:
    says = "Its mark cannot be read, so everything counts as spent."
    if lost.mark:
        says = f"Granted epsilon {lost.granted or 'unknown'}, spent epsilon {lost.spent}."
        says += f" Its tables: {lost.tables}." if lost.tables else ""
    if not lost.owner:
        says += " Nobody knows whose it was, so it counts for everybody."
    here = services.lost_budgets.same_rows_as_lost(lost, viewer=viewer) if viewer is not None else []
    return LostBudget(
        key=str(lost.key),
        title=f"{lost.name} of {lost.owner}" if lost.owner else lost.name,
        says=says,
        here="; ".join(map(_table, here)),
    )


def _table(dataset: Dataset) -> str:
    budget = f", budget {dataset.budget}" if dataset.budget else ""
    return f"{dataset.title} of {dataset.owner}{budget}"
