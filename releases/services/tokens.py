"""API tokens: made, used and revoked by their owner."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from django.contrib.auth.models import User as UserModel
from django.db import transaction
from django.utils import timezone

from releases import audit_log
from releases.engine.errors import InvalidInput
from releases.models import ApiToken, AuditAction

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Tokens begin with this, so that scanners of source code find one that leaked.
PREFIX = "dpweb_"


@transaction.atomic
def make_token(*, user: User, name: str) -> str:
    """A new token, to be shown once: only its hash is kept.

    Raises:
        InvalidInput: the name is empty.
    """
    if not name.strip():
        raise InvalidInput("name", name, "must say which program the token is for")
    token = PREFIX + secrets.token_urlsafe(32)
    ApiToken.objects.create(user=user, name=name.strip(), digest=_digest(token))
    audit_log.record(AuditAction.ACCOUNT, actor=user, detail=f"made the token {name.strip()}")
    return token


@transaction.atomic
def revoke_token(*, token: ApiToken) -> None:
    audit_log.record(AuditAction.ACCOUNT, actor=token.user, detail=f"revoked the token {token.name}")
    token.delete()


def owner_of_token(token: str) -> User | None:
    """Whose token it is; None where it is nobody's, or of an account that may not sign in."""
    found = ApiToken.objects.filter(digest=_digest(token), user__is_active=True).select_related("user").first()
    if found is None:
        return None
    ApiToken.objects.filter(pk=found.pk).update(last_used_at=timezone.now())
    assert isinstance(found.user, UserModel)
    return found.user


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
