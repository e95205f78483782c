"""Tokens with which programs use the API."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class TokenScope(models.TextChoices):
    """What a program may do with a token."""

    READ = "read", "read only"
    ALL = "all", "all that you may do"


class ApiToken(models.Model):
    """A program's way in, in its owner's name. Only a hash of the token is kept; it is shown once, when it is made."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=10, choices=TokenScope, default=TokenScope.ALL)
    created_at = models.DateTimeField(auto_now_add=True)
    #: From then on it opens nothing. None of a token that was made before tokens had an end.
    ends_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name

    @property
    def is_ended(self) -> bool:
        return self.ends_at is not None and self.ends_at <= timezone.now()
