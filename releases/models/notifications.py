"""What is stored to tell people: notices, and who wants no e-mail. Imported through `models`."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q


class NoticeQuerySet(models.QuerySet["Notice"]):
    def for_page(self, person: models.Model) -> NoticeQuerySet:
        return self.filter(person=person.pk).order_by("-pk")

    def for_home(self, person: models.Model) -> NoticeQuerySet:
        return self.for_page(person).filter(read_at=None)


class Notice(models.Model):
    """One thing somebody is told: on their page, and by e-mail where they want it. Never anything from a table."""

    #: Nobody where it goes to the organisation's addresses.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="notices"
    )
    addresses = models.TextField(blank=True, help_text="one a line; empty where no e-mail is wanted")
    title = models.CharField(max_length=250)
    text = models.TextField()
    path = models.CharField(max_length=100, help_text="of the page it is about")
    made_at = models.DateTimeField(auto_now_add=True)
    #: When its e-mail was claimed by a sender, or settled without one; null while it waits.
    sent_at = models.DateTimeField(null=True, blank=True)
    #: When the person put it away; null while their first page shows it.
    read_at = models.DateTimeField(null=True, blank=True)

    objects = NoticeQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["person", "read_at"], name="notices_to_read"),
            models.Index(fields=["id"], condition=Q(sent_at=None), name="notices_to_send"),
            models.Index(fields=["path"], name="notices_by_page"),
        ]

    def __str__(self) -> str:
        return self.title


class MailChoice(models.Model):
    """Whether somebody wants their notices by e-mail too; without a row they do."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="mail_choice"
    )
    wants_mail = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"{self.user}: {'e-mail' if self.wants_mail else 'no e-mail'}"
