"""The audit log: who did what, when, to which object. Written here only, in the transaction of what it records.

It never holds anything from a table, nor what somebody typed as a password or a name at a failed sign-in: people type
their password into the wrong field.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from allauth.account.adapter import get_adapter
from allauth.account.signals import password_changed, password_reset
from allauth.mfa.signals import authentication_failed, authenticator_added, authenticator_removed
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q

from releases.ledger import decisions
from releases.models import AuditAction, AuditEvent
from releases.models.stakes import DECISIONS, refuse_stake

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import HttpRequest

logger = logging.getLogger(__name__)

#: Longer notes of people are cut: the whole text stands on the object itself.
_MAX_DETAIL = 1000
BY_A_WORKER = "by a worker"
#: Between words of ours and the reason that somebody gave.
BEFORE_A_REASON = "; "


def record(
    action: AuditAction,
    *,
    actor: User | None,
    on: Model | None = None,
    detail: str = "",
    facts: Mapping[str, Any] | None = None,
    has_a_shell: bool = False,
) -> AuditEvent:
    """Add an event. A decision of somebody with a stake in it is not recorded, so that it is not made either. What
    protects somebody is remembered outside the database too (`decisions.py`).

    Args:
        actor: who did it; None for a visitor without an account, a command or a worker.
        on: the object it was done to.
        detail: in words of ours, or the reason somebody gave.
        facts: of a protective decision, what is needed to make it again after a restored backup.
        has_a_shell: it is done on the command line of the site's own machine, where one person may ask and approve.

    Raises:
        HasStake: it is a decision, and the actor has a stake in its object.
        TypeError: it is a decision about an object of which nobody has said who has a stake in it.
    """
    if action in DECISIONS and actor is not None and not has_a_shell:
        if on is None:
            raise TypeError("A decision is about something.")
        refuse_stake(actor, on)
    is_remembered = decisions.is_remembered(action)
    event = AuditEvent.objects.create(
        action=action,
        actor=actor,
        kind=str(on._meta.verbose_name) if on is not None else "",
        object_id=str(on.pk) if on is not None else "",
        name=str(on)[:200] if on is not None else "",
        detail=detail.strip()[:_MAX_DETAIL],
    )
    if is_remembered:
        decisions.remember(event, model=on._meta.label if on is not None else "", facts=facts or {})
    return event


def listen() -> None:
    """Hear of sign-ins from Django and allauth, which tell them in no other way."""
    user_logged_in.connect(_signed_in, dispatch_uid="audit sign-in")
    user_logged_out.connect(_signed_out, dispatch_uid="audit sign-out")
    user_login_failed.connect(_failed, dispatch_uid="audit failed sign-in")
    authentication_failed.connect(_wrong_factor, dispatch_uid="audit wrong second factor")
    password_changed.connect(_password_changed, dispatch_uid="audit password change")
    password_reset.connect(_password_reset, dispatch_uid="audit password reset")
    authenticator_added.connect(_factor_added, dispatch_uid="audit factor added")
    authenticator_removed.connect(_factor_removed, dispatch_uid="audit factor removed")


def _signed_in(*, user: User, **_: Any) -> None:
    record(AuditAction.SIGN_IN, actor=user)


def _signed_out(*, user: User | None, **_: Any) -> None:
    if user is not None:
        record(AuditAction.SIGN_OUT, actor=user, facts={"of": f"sessions of {user.pk}"})


def _failed(*, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """Whose account was tried, where there is such an account, and from where; never what was typed."""
    typed = str(credentials.get("username") or credentials.get("email") or "")
    account = get_user_model().objects.filter(Q(username__iexact=typed) | Q(email__iexact=typed)).first()
    if typed and account is not None:
        _record_failure(request, "wrong password", on=account)
    else:
        _record_failure(request, "no such account", on=None)


def _wrong_factor(*, user: User, request: HttpRequest | None = None, **_: Any) -> None:
    _record_failure(request, "wrong second factor", on=user)


def _record_failure(request: HttpRequest | None, what: str, *, on: User | None) -> None:
    source = address_of(request)
    # In this form, with the address at its end, for programs that shut addresses out.
    logger.warning("sign-in failed (%s) from %s", what, source)
    record(AuditAction.SIGN_IN_FAILED, actor=None, on=on, detail=f"{what}, from {source}")


def held_back(request: HttpRequest) -> None:
    """Log that somebody who has guessed too often is not even heard. No event: there is no end to them."""
    logger.warning("sign-in held back from %s", address_of(request))


def address_of(request: HttpRequest | None) -> str:
    """The address that a request comes from, past the proxies that are trusted."""
    try:
        return str(ipaddress.ip_address(get_adapter().get_client_ip(request)))
    except (PermissionDenied, ValueError, AttributeError):
        return "an unknown address"


def _password_changed(*, user: User, **_: Any) -> None:
    record(AuditAction.PASSWORD, actor=user, on=user, detail="new password")


def _password_reset(*, user: User, **_: Any) -> None:
    record(AuditAction.PASSWORD, actor=None, on=user, detail="new password by a link in an e-mail")


def _factor_added(*, user: User, authenticator: Any, **_: Any) -> None:
    record(AuditAction.ACCOUNT, actor=user, on=user, detail=f"second factor added: {authenticator.get_type_display()}")


def _factor_removed(*, user: User, authenticator: Any, **_: Any) -> None:
    # Deleted already, so it has no number any more; an older one of its kind is what must not come back.
    facts = {"factor": authenticator.type, "of": f"factor {authenticator.type} of {user.pk}"}
    said = f"second factor removed: {authenticator.get_type_display()}"
    record(AuditAction.REMOVE_FACTOR, actor=user, on=user, detail=said, facts=facts)
