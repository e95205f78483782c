"""What curators ask reviewers: for a budget, or for a release that costs much."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from releases.models.wide_columns import WIDE


class RequestState(models.TextChoices):
    WAITING = "waiting", "awaiting review"
    APPROVED = "approved", "approved"
    DENIED = "denied", "denied"
    ASKED_BACK = "asked back", "returned with a question"
    TAKEN_BACK = "taken back", "taken back"


class Request(models.Model):
    """What a curator asks a reviewer, and what was made of it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    epsilon = models.CharField(max_length=40)
    delta = models.CharField(max_length=40, default="0")
    reason = models.TextField(blank=True)
    state = models.CharField(max_length=12, choices=RequestState, default=RequestState.WAITING)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    #: The first of two reviewers, and the amounts that the second may not exceed, where the two-person rule is on.
    first_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    first_at = models.DateTimeField(null=True)
    first_epsilon = models.CharField(max_length=40, blank=True)
    first_delta = models.CharField(max_length=40, blank=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    granted_epsilon = models.CharField(max_length=40, blank=True)
    granted_delta = models.CharField(max_length=40, blank=True)
    note = models.TextField(blank=True)

    class Meta:
        abstract = True

    @property
    def deciders(self) -> str:
        """Who decided it: both, where two approved it."""
        both = self.first_by is not None and self.state == RequestState.APPROVED
        return f"{self.first_by} and {self.decided_by}" if both else str(self.decided_by)


class BudgetRequestQuerySet(models.QuerySet["BudgetRequest"]):
    def for_review(self) -> BudgetRequestQuerySet:
        return (
            self.filter(state=RequestState.WAITING)
            .select_related("budget", "requested_by", "first_by")
            .order_by("requested_at")
        )

    def of_tables(self, seen: models.QuerySet[Any]) -> BudgetRequestQuerySet:
        """What was asked by those who work on some tables of a population. Others may spend from it unseen."""
        theirs = Q(requested_by__in=seen.values("owner"))
        return self.filter(theirs | Q(requested_by__groups__in=seen.values("group"))).distinct()

    def for_history(self) -> BudgetRequestQuerySet:
        """What reviewers decided; nobody decided about what was taken back."""
        return (
            self.filter(decided_at__isnull=False)
            .select_related("budget", "requested_by", "first_by", "decided_by")
            .order_by("-decided_at")
        )


class BudgetRequest(Request):
    """A curator's request for a budget, or for a larger one."""

    budget = models.ForeignKey("releases.Budget", on_delete=models.PROTECT, related_name="requests")
    #: The budget that a reviewer, or the first of two, lets the tables spend from in place of one of their own.
    joins = models.ForeignKey("releases.Budget", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    #: Why a budget was granted although the same people probably have one, a line a reviewer. Only for reviewers
    #: without a stake: nobody else may know that rows were recognised.
    match_reason = models.TextField(blank=True, editable=False)

    objects = BudgetRequestQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["state", "requested_at"], name="budgets_to_decide")]

    def __str__(self) -> str:
        return f"epsilon {self.epsilon} for {self.budget}"

    @property
    def is_denied(self) -> bool:
        return self.state == RequestState.DENIED

    @property
    def amounts(self) -> str:
        """What is asked for."""
        return _amounts(self.epsilon, self.delta)

    @property
    def granted(self) -> str:
        """What was granted; empty where nothing was."""
        return _amounts(self.granted_epsilon, self.granted_delta) if self.granted_epsilon else ""


def _amounts(epsilon: str, delta: str) -> str:
    return f"epsilon {epsilon}" + ("" if delta in ("", "0") else f", delta {delta}")


class ReleaseRequestQuerySet(models.QuerySet["ReleaseRequest"]):
    def for_review(self) -> ReleaseRequestQuerySet:
        return (
            self.filter(state=RequestState.WAITING)
            .select_related("release__dataset", "requested_by", "first_by")
            .defer("asked_plan", *(f"release__{each}" for each in WIDE))
            .order_by("requested_at")
        )

    def for_history(self) -> ReleaseRequestQuerySet:
        """What reviewers decided; nobody decided about what was taken back."""
        return (
            self.filter(decided_at__isnull=False)
            .select_related("release__dataset", "requested_by", "first_by", "decided_by")
            .defer("asked_plan", *(f"release__{each}" for each in WIDE))
            .order_by("-decided_at")
        )


class ReleaseRequest(Request):
    """A release that costs more than the organisation lets pass unseen, and what a reviewer made of it."""

    release = models.ForeignKey("releases.Release", on_delete=models.PROTECT, related_name="reviews")
    #: Of the submission that asked; the charge after the approval has it.
    key = models.UUIDField(unique=True)
    #: The plan as it was when it was asked for: the release's own changes once it is a draft again. None in old rows.
    asked_plan = models.JSONField(null=True)
    #: Digest of the one plan that was approved; any other has to be reviewed again.
    approved_plan = models.CharField(max_length=64, blank=True)

    objects = ReleaseRequestQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["state", "requested_at"], name="releases_to_decide")]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["release"], condition=Q(state="waiting"), name="one_review_at_a_time")
        ]

    def __str__(self) -> str:
        return f"review of {self.release}"
