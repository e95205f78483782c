"""What is stored of the ledger. Imported through `models`."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Q, When

from releases.engine.accounting.filters import CLOSED, Totals
from releases.engine.accounting.mixture import divergences
from releases.models.append_only import AppendOnly


class EntryKind(models.TextChoices):
    """What a ledger entry records."""

    GRANT = "grant", "budget granted"
    CHARGE = "charge", "release charged"
    RETURN = "return", "charge given back"
    RESTORE = "restore", "restored backup made good"


class LedgerEntryQuerySet(models.QuerySet["LedgerEntry"]):
    def for_ledger_page(self) -> LedgerEntryQuerySet:
        return (
            self.select_related("budget", "release", "actor")
            .defer("release__options")
            .order_by("-made_at", "-sequence")
        )

    def charges_that_stand(self) -> LedgerEntryQuerySet:
        """Charges that were not given back."""
        return self.filter(~Exists(LedgerEntry.objects.returns()), kind=EntryKind.CHARGE)

    def with_amounts(self) -> LedgerEntryQuerySet:
        """Without their details, which are wide, but for the price where an entry has no orders."""
        price = Case(When(orders__isnull=True, then=F("detail__price")), output_field=models.JSONField())
        return self.annotate(recorded_price=price).defer("detail")

    def returns(self) -> LedgerEntryQuerySet:
        """What gave the charge of an outer query back, for a subquery."""
        return self.filter(release=OuterRef("release"), kind=EntryKind.RETURN)


class LedgerEntry(models.Model):
    """One line of the ledger. Triggers refuse to change or delete it; each line holds the hash of the one before.

    Amounts are added to the budget's spent columns; a RETURN has the opposite amounts of the charge it answers.
    """

    id = models.BigAutoField(primary_key=True)
    budget = models.ForeignKey("releases.Budget", on_delete=models.PROTECT, related_name="entries")
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=EntryKind)
    #: The same key twice is the same charge: the second is answered with the first.
    key = models.UUIDField(unique=True)
    release = models.ForeignKey("releases.Release", on_delete=models.PROTECT, null=True, related_name="entries")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    #: What was or will be run, in full, so that it can be priced again: events, delta, neighbours; caps for a grant.
    detail = models.JSONField()
    epsilon = models.BigIntegerField(default=0)
    delta = models.BigIntegerField(default=0)
    rho = models.BigIntegerField(default=0)
    rho_delta = models.BigIntegerField(default=0)
    #: Of a charge or a restoration, the divergence at each order of `engine.accounting.mixture`; null in entries older
    #: than that, which say their price in the detail.
    orders = models.JSONField(null=True)
    made_at = models.DateTimeField()
    previous = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    append_only = AppendOnly(name="ledger", message="ledger entries are append-only")
    objects = LedgerEntryQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["-made_at", "-sequence"], name="entries_by_time"),
            # With what the board adds up, so that it need not read the entries, whose details are wide.
            models.Index(fields=["kind", "release", "actor", "made_at", "epsilon"], name="entries_by_kind"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "sequence"], name="one_entry_a_number"),
            models.UniqueConstraint(fields=["release"], condition=Q(kind="charge"), name="one_charge_a_release"),
            models.UniqueConstraint(fields=["release"], condition=Q(kind="return"), name="one_return_a_release"),
            models.CheckConstraint(
                name="a_charge_adds",
                condition=~Q(kind="charge")
                | Q(epsilon__gte=0, delta__gte=0, rho__gte=0, rho_delta__gte=0) & (Q(epsilon__gt=0) | Q(rho__gt=0)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} no. {self.sequence} of {self.budget}"

    def content(self) -> dict[str, Any]:
        """Everything the hash covers."""
        return {
            "budget": str(self.budget_id),
            "sequence": self.sequence,
            "kind": str(self.kind),
            "key": str(self.key),
            "release": str(self.release_id) if self.release_id else None,
            "actor": self.actor_id,
            "detail": self.detail,
            "amounts": [self.epsilon, self.delta, self.rho, self.rho_delta],
            "made_at": self.made_at.isoformat(),
            "previous": self.previous,
            # Entries made before there were orders have the hash that they had.
            **({} if self.orders is None else {"orders": self.orders}),
        }

    @property
    def amounts(self) -> Totals:
        """What a charge or a restoration added to the sums."""
        is_read = "detail" not in self.get_deferred_fields()
        price = self.detail.get("price") if is_read else getattr(self, "recorded_price", None)
        return amounts_of(self.epsilon, self.delta, self.rho, self.rho_delta, self.orders, price)


def amounts_of(
    epsilon: int, delta: int, rho: int, rho_delta: int, orders: list[int] | None, price: dict[str, Any] | None
) -> Totals:
    """An entry's amounts from its columns, and from the price that it recorded where it has no orders."""
    if orders is None and price is not None:
        orders = list(divergences(pure_epsilon=price["pure_epsilon"], rho=price["rho"], closed=CLOSED))
    return Totals.read(
        {
            "spent_epsilon": epsilon,
            "spent_delta": delta,
            "spent_rho": rho,
            "spent_rho_delta": rho_delta,
            "spent_orders": orders,
        }
    )


class Installation(models.Model):
    """Which marks outside the database are this database's own, and how much of them it knows: one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    key = models.UUIDField(default=uuid.uuid4, editable=False)
    #: Number and hash of the last line of the record outside the database that this database knows.
    number = models.PositiveBigIntegerField(default=0)
    head = models.CharField(max_length=64, default="", blank=True)
    #: When a backup was put back, until a reviewer has seen to it.
    restored_at = models.DateTimeField(null=True, blank=True)
    #: Whether all sign-ins and tokens of before were ended since.
    has_ended_sign_ins = models.BooleanField(default=False)
    #: Budgets that the marks know, and releases whose results lie on disc, that this database does not know and a
    #: reviewer has seen.
    acknowledged = models.JSONField(default=list)
    #: Of these budgets, those of which a reviewer has said whose people they are.
    settled = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(name="one_installation", condition=Q(id=1))]

    def __str__(self) -> str:
        return "installation"

    @classmethod
    def own(cls) -> Installation:
        """The one row."""
        return cls.objects.first() or cls.objects.get_or_create(id=1)[0]
