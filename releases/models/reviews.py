"""What is stored for reviewers: requests, alerts, the organisation's settings, the audit log.

Imported through `models`.
"""

from __future__ import annotations

import uuid
from fractions import Fraction
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.db import models
from django.db.models import Q

from releases.engine.domain.privacy import exact
from releases.models.append_only import AppendOnly
from releases.models.role_rules import holders, may_review
from releases.models.roles import Role
from releases.models.wide_columns import WIDE


class RequestState(models.TextChoices):
    WAITING = "waiting", "awaiting review"
    APPROVED = "approved", "approved"
    DENIED = "denied", "denied"
    ASKED_BACK = "asked back", "asked back"
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

    objects = BudgetRequestQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["state", "requested_at"], name="budgets_to_decide")]

    def __str__(self) -> str:
        return f"epsilon {self.epsilon} for {self.budget}"


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


class BudgetAlert(models.Model):
    """That so many per cent of a budget are spent, said once for each size the budget had."""

    budget = models.ForeignKey("releases.Budget", on_delete=models.CASCADE, related_name="alerts")
    percent = models.PositiveSmallIntegerField()
    epsilon = models.CharField(max_length=40, help_text="the budget's epsilon at that time")
    raised_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "percent", "epsilon"], name="one_alert_a_threshold")
        ]
        indexes: ClassVar = [models.Index(fields=["-raised_at"], name="alerts_by_time")]

    def __str__(self) -> str:
        return f"{self.percent}% of {self.budget}"


class Organisation(models.Model):
    """What the organisation has decided for its site: one row, or none while the environment's values hold."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    upload_cap_bytes = models.PositiveBigIntegerField()
    #: Of a budget, as the forms and the command line suggest it; empty for their own.
    default_epsilon = models.CharField(max_length=40, blank=True)
    #: A release that costs more needs a review first; empty where none does.
    review_above = models.CharField(max_length=40, blank=True)
    #: Of one budget, in per cent; empty where one person may spend all of it.
    most_per_person = models.CharField(max_length=40, blank=True)
    is_two_person = models.BooleanField(default=False)
    reviewers = models.ForeignKey(Group, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    alert_addresses = models.TextField(blank=True, help_text="one a line")

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(name="one_organisation", condition=Q(id=1))]

    def __str__(self) -> str:
        return "organisation"

    @classmethod
    def current(cls) -> Organisation:
        """The stored row, or what the environment says."""
        return cls.objects.select_related("reviewers").first() or cls(
            upload_cap_bytes=settings.UPLOAD_CAP_BYTES,
            review_above=settings.REVIEW_ABOVE_EPSILON,
            is_two_person=settings.TWO_PERSON_RULE,
            alert_addresses="\n".join(settings.ALERT_ADDRESSES),
        )

    @property
    def most_share_per_person(self) -> Fraction | None:
        """The most of one budget that one person may spend, from 0 to 1; None where there is no limit."""
        return exact(self.most_per_person, field="most_per_person") / 100 if self.most_per_person else None

    @property
    def addresses(self) -> list[str]:
        return self.alert_addresses.split()

    def lets_decide(self, person: AbstractBaseUser | AnonymousUser) -> bool:
        """Whether somebody may decide requests and freeze budgets: reviewers, where a group is chosen those of it."""
        if not may_review(person):
            return False
        return self.reviewers_id is None or Group.objects.filter(pk=self.reviewers_id, user=person.pk).exists()

    @property
    def deciders(self) -> models.QuerySet[User]:
        """Everybody whom `lets_decide` lets decide."""
        people = holders(Role.REVIEWER)
        return people if self.reviewers_id is None else people.filter(groups=self.reviewers_id)


class AuditAction(models.TextChoices):
    """What somebody did."""

    SIGN_IN = "sign-in", "signed in"
    SIGN_OUT = "sign-out", "signed out"
    SIGN_IN_FAILED = "sign-in failed", "failed to sign in"
    ACCOUNT = "account", "changed the account's security"
    PASSWORD = "password", "changed the password of"
    REMOVE_FACTOR = "remove factor", "removed a second factor of"
    REVOKE_TOKEN = "revoke token", "revoked tokens of"
    CLOSE_ACCOUNT = "close account", "closed the account of"
    OPEN_ACCOUNT = "open account", "opened the account of"
    JOIN_GROUP = "join group", "put into a group"
    LEAVE_GROUP = "leave group", "took out of a group"
    UPLOAD = "upload", "uploaded a table"
    DISCARD = "discard", "discarded"
    RENAME = "rename", "renamed"
    DISCARD_TABLE = "discard table", "discarded"
    DELETE_ROWS = "delete rows", "deleted the rows of"
    DECLARE = "declare", "declared columns or protection"
    SAVE = "save", "saved"
    LOAD_PLAN = "load plan", "loaded a plan into"
    SHARE = "share", "shared a dataset"
    UNSHARE = "unshare", "shared with fewer"
    REQUEST = "request", "asked for"
    TAKE_BACK = "take back", "took a request back"
    FIRST_APPROVAL = "first approval", "approved, as the first of two"
    APPROVE = "approve", "approved"
    DENY = "deny", "denied"
    ASK_BACK = "ask back", "asked back"
    JOIN = "join", "joined to another budget"
    ASK_CONSENT = "ask consent", "asked an owner about"
    SUBMIT = "submit", "charged and queued"
    CANCEL = "cancel", "cancelled"
    PUBLISH = "publish", "finished"
    OPEN = "open", "opened the session"
    CLOSE = "close", "closed the session"
    FAIL = "fail", "gave up on"
    MAKE_PUBLIC = "make public", "made public"
    MAKE_PRIVATE = "make private", "made private"
    WITHDRAW = "withdraw", "withdrew"
    OPEN_SURVEY = "open survey", "opened"
    CLOSE_SURVEY = "close survey", "closed"
    DOWNLOAD = "download", "downloaded"
    FREEZE = "freeze", "froze"
    UNFREEZE = "unfreeze", "unfroze"
    RESTORE = "restore", "booked what was missing"
    VERIFY = "verify", "verified the ledger"
    EXPORT = "export", "exported"
    SETTINGS = "settings", "changed the settings"
    ROLES = "roles", "changed the roles of"
    TAKE_ROLE = "take role", "took a role of"
    NOTICES = "notices", "turned e-mail on or off"


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    def for_log_page(self) -> AuditEventQuerySet:
        return self.select_related("actor").order_by("-pk")


class AuditEvent(models.Model):
    """Who did what, when, to which object; never anything from a table. Triggers refuse to change or delete it."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    action = models.CharField(max_length=20, choices=AuditAction, db_index=True)
    #: Nobody: a visitor who has not signed in, the command line, or a worker; `who` says which.
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    kind = models.CharField("object", max_length=20, blank=True)
    object_id = models.CharField(max_length=40, blank=True, db_index=True)
    #: What the object was called then.
    name = models.CharField(max_length=200, blank=True)
    detail = models.TextField(blank=True)

    append_only = AppendOnly(name="audit", message="audit events are append-only")
    objects = AuditEventQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.actor or 'nobody'} {self.get_action_display()} {self.name}".rstrip()

    @property
    def who(self) -> str:
        """Who did it, or what."""
        if self.actor is not None:
            return str(self.actor)
        if self.action in (AuditAction.PUBLISH, AuditAction.OPEN, AuditAction.FAIL):
            return "a worker"
        by_command = self.action in (
            AuditAction.VERIFY,
            AuditAction.ROLES,
            AuditAction.TAKE_ROLE,
            AuditAction.RESTORE,
        )
        return "the command line" if by_command else "not signed in"
