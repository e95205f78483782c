"""API tokens: made, used and revoked by their owner. Each has an end, and may be for reading only."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import ApiToken, AuditAction, TokenScope

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Tokens begin with this, so that scanners of source code find one that leaked.
PREFIX = "dpweb_"


#: A token that leaked is of use to others until its end, so none is without one.
MAX_DAYS = 365
DEFAULT_DAYS = 90


@transaction.atomic
def make_token(*, user: User, name: str, days: int = DEFAULT_DAYS, scope: TokenScope = TokenScope.ALL) -> str:
    """A new token, to be shown once: only its hash is kept.

    Raises:
        InvalidInput: the name breaks its rule, or it would not end within a year.
    """
    name = name.strip()
    if not name:
        raise InvalidInput("name", name, "must say which program the token is for")
    if not name.isprintable():
        raise InvalidInput("name", name, "must be printable text on one line")
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput("days", days, f"must be from 1 to {MAX_DAYS}: every token has an end")
    token = PREFIX + secrets.token_urlsafe(32)
    ends_at = timezone.now() + timedelta(days=days)
    ApiToken.objects.create(user=user, name=name, digest=_digest(token), scope=scope, ends_at=ends_at)
    said = f"made the token {name}: {scope.label}, until {timezone.localtime(ends_at):%Y-%m-%d}"
    audit_log.record(AuditAction.ACCOUNT, actor=user, detail=said)
    return token


@transaction.atomic
def revoke_token(*, token: ApiToken) -> None:
    audit_log.record(
        AuditAction.REVOKE_TOKEN, actor=token.user, on=token.user, detail=f"revoked the token {token.name}"
    )
    token.delete()


@transaction.atomic
def end_tokens(*, owner: User, by: User | None) -> int:
    """Revoke all tokens of somebody whose password is new. Whoever knew the old one may have made some.

    Args:
        by: who set the new password; None where that is not known.

    Returns:
        how many there were.
    """
    number, _ = ApiToken.objects.filter(user=owner).delete()
    if number:
        said = f"new password: {number} {'token' if number == 1 else 'tokens'} revoked"
        audit_log.record(AuditAction.REVOKE_TOKEN, actor=by, on=owner, detail=said)
    return number


def use_token(token: str) -> ApiToken | None:
    """The token of that text, with its owner; None where it is nobody's, or of an account that may not sign in.

    One that has ended is returned as well, so that its owner can be told; it is not noted as used.
    """
    found = ApiToken.objects.filter(digest=_digest(token), user__is_active=True).select_related("user").first()
    if found is not None and not found.is_ended:
        ApiToken.objects.filter(pk=found.pk).update(last_used_at=timezone.now())
    return found


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
