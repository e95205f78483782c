"""Whom a request acts for, and how that was shown: by the session's cookie, or by a token that was looked up.

What is decided by this is decided by what was authenticated. A header that anybody can send decides nothing.
"""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest

_ATTRIBUTE = "is_dpweb_token"


def act_for_nobody(request: HttpRequest) -> None:
    """Forget who is signed in, until an operation of the API has authenticated somebody itself."""
    request.user = AnonymousUser()


def act_by_token(request: HttpRequest, owner: User) -> None:
    """Act for the owner of a valid token."""
    request.user = owner
    setattr(request, _ATTRIBUTE, True)


def is_by_token(request: HttpRequest) -> bool:
    """Whether a valid token has signed in the person of a request; a header alone does not."""
    return getattr(request, _ATTRIBUTE, False)
