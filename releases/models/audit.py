"""The audit log: who did what, when."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from releases.models.append_only import AppendOnly


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
    ASK_BACK = "ask back", "returned with a question"
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
    TEST = "test", "tested"
    OPEN_SURVEY = "open survey", "opened"
    CLOSE_SURVEY = "close survey", "closed"
    DOWNLOAD = "download", "downloaded"
    FREEZE = "freeze", "froze"
    UNFREEZE = "unfreeze", "unfroze"
    RESTORE = "restore", "booked what was missing"
    VERIFY = "verify", "verified the ledger"
    EXPORT = "export", "exported"
    SETTINGS = "settings", "changed the settings"
    REGISTER_CONNECTION = "register connection", "registered"
    REMOVE_CONNECTION = "remove connection", "removed"
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
