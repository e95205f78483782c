"""Databases and folders that an administrator has registered on the site, beside those of the settings."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models


class RegisteredConnection(models.Model):
    """A database or a folder whose tables may become datasets. Its password is in the environment, never here."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=40, unique=True)
    #: With the role, and without a password.
    address = models.CharField(max_length=500)
    registered_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    registered_at = models.DateTimeField(auto_now_add=True)
    #: For which versions of the server and of this software the server has counted the rows of the self test right;
    #: empty of a folder, whose files this program counts itself.
    server_version = models.TextField(blank=True)
    software = models.CharField(max_length=200)
    #: Who registered it has said that whoever signs in can only read: the server cannot be asked.
    reads_only = models.BooleanField(default=False)

    class Meta:
        verbose_name = "connection"

    def __str__(self) -> str:
        return self.name
