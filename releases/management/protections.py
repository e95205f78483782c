"""Whether a charge means what its budget means: tried on budgets of its own, in transactions that are undone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction

from releases.engine.accounting.events import PureEvent
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit, protection_in_words
from releases.ledger import ledger, refusals, verification
from releases.models import Budget, Dataset, Release

Protection: TypeAlias = tuple[PrivacyUnit, NeighbouringRelation]

_UNITS = (
    PrivacyUnit(),
    PrivacyUnit(kind="person", id_column="person", max_rows=1),
    PrivacyUnit(kind="person", id_column="person", max_rows=10),
    PrivacyUnit(kind="person", id_column="household", max_rows=10),
)
PROTECTIONS: tuple[Protection, ...] = tuple(
    (unit, neighbours) for unit in _UNITS for neighbours in NeighbouringRelation
)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What became of plans for each protection under a budget for one.

    Attributes:
        promised: by the budget, in words.
        refused: of the plans for other protections.
        noticed: of the changes of the budget's protection behind the ledger's back, by the database or the audit.
        others: how many other protections were tried.
        is_charged: whether the plan for the same protection was charged.
    """

    promised: str
    refused: int
    noticed: int
    others: int
    is_charged: bool

    @property
    def is_as_it_should_be(self) -> bool:
        return self.is_charged and self.refused == self.noticed == self.others


def protections_seen() -> Iterator[Seen]:
    """Try every protection under every other."""
    for unit, neighbours in PROTECTIONS:
        with transaction.atomic():
            seen = _tried(unit, neighbours)
            transaction.set_rollback(True)
        yield seen


def _tried(unit: PrivacyUnit, neighbours: NeighbouringRelation) -> Seen:
    name = f"verify {uuid.uuid4()}"
    person = User.objects.create(username=name)
    budget = Budget.objects.create(
        name=name, owner=person, unit=unit.to_json(), neighbours=neighbours.value, policy=Policy.PURE.value
    )
    ledger.grant(budget=budget, epsilon=str(len(PROTECTIONS)), delta="0", actor=person)
    dataset = Dataset.objects.create(title=name, owner=person, digest=name, columns=[], location=name, budget=budget)
    others = [each for each in PROTECTIONS if each != (unit, neighbours)]
    is_charged = _is_charged(dataset, (unit, neighbours))
    return Seen(
        promised=protection_in_words(unit=unit, neighbours=neighbours),
        is_charged=is_charged,
        refused=sum(not _is_charged(dataset, each) for each in others),
        noticed=sum(_is_noticed(budget, each) for each in others),
        others=len(others),
    )


def _is_charged(dataset: Dataset, planned: Protection) -> bool:
    release = Release.objects.create(dataset=dataset, title=dataset.title)
    try:
        ledger.charge(
            release=release,
            unit=planned[0],
            neighbours=planned[1],
            events=[PureEvent(epsilon=Fraction(1))],
            delta=Fraction(0),
            key=uuid.uuid4(),
            actor=dataset.owner,
        )
    except refusals.AnotherProtection:
        return False
    return True


def _is_noticed(budget: Budget, changed: Protection) -> bool:
    try:
        with transaction.atomic():
            Budget.objects.filter(pk=budget.pk).update(unit=changed[0].to_json(), neighbours=changed[1].value)
    except DatabaseError:
        # Its own guard refuses that.
        return True
    return any(fault.what.startswith("it protects") for fault in verification.verify(Budget.objects.get(pk=budget.pk)))
