"""Budgets: what may be spent on one population, and how much of it is spent."""

from __future__ import annotations

import uuid
from fractions import Fraction
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from releases.engine.accounting.filters import Branch, Caps, Policy, Totals
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit, exact
from releases.models.requests import RequestState

#: What each policy means for a person; the rules themselves stand in ``engine/accounting/filters.py``.
POLICY_MEANING = {
    Policy.PURE: "Epsilons add up; only mechanisms without a delta are allowed. The strictest promise.",
    Policy.APPROX: "Epsilons add up and deltas add up. Simple, but costly for many Gaussian releases.",
    Policy.ZCDP: "Releases with Gaussian noise, and many small releases of any kind, add up to less than the sum of "
    "their epsilons. So more of them fit.",
}


class Budget(models.Model):
    """What may be spent on one population, however many tables, versions and copies describe it.

    Amounts are whole numbers of 10^-12 (epsilon, rho) or 10^-18 (delta). Caps are those of the policy's branches, set
    by a grant in the ledger; the spent columns are a copy of the ledger's sums, kept so that a charge is decided on
    this row alone, while it is locked.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField("population", max_length=200)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="budgets")
    unit = models.JSONField()
    neighbours = models.CharField(
        max_length=20, choices=[(each.value, each.value.replace("_", " ")) for each in NeighbouringRelation]
    )
    policy = models.CharField(max_length=10, choices=[(each.value, each.value) for each in Policy])
    epsilon = models.CharField(max_length=40, blank=True, help_text="granted, as a decimal; empty before a grant")
    delta = models.CharField(max_length=40, blank=True)
    cap_epsilon = models.BigIntegerField(default=0)
    cap_delta = models.BigIntegerField(default=0)
    cap_rho = models.BigIntegerField(default=0)
    cap_rho_delta = models.BigIntegerField(default=0)
    spent_epsilon = models.BigIntegerField(default=0)
    spent_delta = models.BigIntegerField(default=0)
    spent_rho = models.BigIntegerField(default=0)
    spent_rho_delta = models.BigIntegerField(default=0)
    #: Sums at each order of `engine.accounting.mixture`.
    spent_orders = models.JSONField(default=list, blank=True)
    #: Whether it was granted under the rule of before (`accounting.filters`) and no later grant could replace that.
    keeps_rule_of_before = models.BooleanField(default=False)
    #: Number and hash of the last ledger entry of this budget.
    sequence = models.PositiveIntegerField(default=0)
    head = models.CharField(max_length=64, default="", blank=True)
    is_frozen = models.BooleanField(default=False)
    frozen_reason = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="spent_is_not_negative",
                condition=Q(spent_epsilon__gte=0, spent_delta__gte=0, spent_rho__gte=0, spent_rho_delta__gte=0),
            ),
            models.CheckConstraint(
                name="spent_is_within_the_caps",
                condition=(
                    Q(spent_epsilon__lte=F("cap_epsilon"), spent_delta__lte=F("cap_delta"))
                    | Q(policy="zcdp", spent_rho__lte=F("cap_rho"), spent_rho_delta__lte=F("cap_rho_delta"))
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_granted(self) -> bool:
        return bool(self.epsilon)

    @property
    def amounts(self) -> str:
        """What is granted; only of a granted one."""
        return f"epsilon {self.epsilon}" + (f", delta {self.delta}" if self.delta not in ("", "0") else "")

    @property
    def adds_up_by_rho(self) -> bool:
        """Whether epsilons do not simply add up, since amounts of rho do."""
        return self.policy == Policy.ZCDP

    @property
    def is_settled(self) -> bool:
        """Whether protection and rule stand: a reviewer has them to decide on, or has decided."""
        return self.is_granted or self.requests.exclude(state=RequestState.TAKEN_BACK).exists()

    @property
    def privacy_unit(self) -> PrivacyUnit:
        return PrivacyUnit.from_json(self.unit)

    @property
    def relation(self) -> NeighbouringRelation:
        return NeighbouringRelation(self.neighbours)

    @property
    def caps(self) -> Caps:
        """The granted budget in the ledger's units. Only of a granted budget."""
        return Caps.of(
            Policy(self.policy),
            epsilon=exact(self.epsilon, field="epsilon"),
            delta=exact(self.delta or "0", field="delta"),
            is_before=self.keeps_rule_of_before,
        )

    @property
    def totals(self) -> Totals:
        return Totals.read({column: getattr(self, column) for column in Totals().columns()})

    @property
    def share_used(self) -> Fraction:
        """How much of the budget is used, from 0 to 1."""
        return share_of(self.totals, self.caps) if self.is_granted else Fraction(0)


def share_of(spent: Totals, caps: Caps) -> Fraction:
    """How much of the caps these sums use up, from 0 to 1, in the branch that has most left.

    A branch's epsilon or rho is what runs down. Its delta is a condition: once passed, the branch is shut; a release
    that needs no delta still fits where it is just used up.
    """
    branch = counting_branch(spent, caps)
    return share_in(branch, spent) if branch.holds(spent) else Fraction(1)


def counting_branch(spent: Totals, caps: Caps) -> Branch:
    """The branch that has most left; of plain sums and finer ones that have as much, the plain."""
    return min(
        reversed(caps.branches),
        key=lambda branch: share_in(branch, spent) if branch.holds(spent) else Fraction(1),
    )


def share_in(branch: Branch, amounts: Totals) -> Fraction:
    """What some amounts are of what one branch allows."""
    return branch.share(amounts)
