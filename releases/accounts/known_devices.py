"""Browsers in which somebody has signed in before: who guesses elsewhere does not keep them out.

A browser remembers, in a signed cookie, a number of its own and who has signed in there. It is no sign-in: all it
gives is a count of wrong passwords of its own.
"""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.core import signing
from django.db.models import Q
from django.http import HttpRequest, HttpResponse

COOKIE = "known_device"
_SECONDS = 400 * 24 * 3600
#: People who share a browser; beyond, it knows those who came last.
_MAX_PEOPLE = 10


def remember(request: HttpRequest, response: HttpResponse, person: AbstractBaseUser) -> None:
    """Note in the browser that somebody has signed in with it."""
    known = _read(request) or {"device": secrets.token_hex(16), "people": []}
    others = [each for each in known["people"] if each != person.pk]
    value = {"device": known["device"], "people": [*others, person.pk][-_MAX_PEOPLE:]}
    response.set_cookie(
        COOKIE,
        signing.dumps(value, salt=COOKIE),
        max_age=_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def device_of(request: HttpRequest, *, login: str) -> str:
    """The browser's number, where the account of that name or e-mail address has signed in with it; else empty."""
    known = _read(request)
    if known is None:
        return ""
    named = Q(username__iexact=login) | Q(email__iexact=login) | Q(emailaddress__email__iexact=login)
    return known["device"] if User.objects.filter(named, pk__in=known["people"]).exists() else ""


def _read(request: HttpRequest) -> dict[str, Any] | None:
    try:
        read: dict[str, Any] = signing.loads(request.COOKIES.get(COOKIE, ""), salt=COOKIE, max_age=_SECONDS)
    except signing.BadSignature:
        return None
    return read
