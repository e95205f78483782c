"""Who calls: a program by the token that it shows, or a page's own script by its session.

A call begins with nobody signed in (`releases/middleware/second_factor.py`). One of these signs somebody in, who then
has the second factor that their roles need.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.timezone import localtime
from ninja.errors import HttpError
from ninja.security import HttpBearer
from ninja.security import SessionAuth as CookieAuth

from releases import services
from releases.middleware.api_errors import shows_a_token
from releases.middleware.principal import act_by_token
from releases.middleware.second_factor import lacks_second_factor
from releases.models import Person, TokenScope

#: Methods; every operation that changes something has another.
_READING = ("GET", "HEAD", "OPTIONS")


class TokenAuth(HttpBearer):
    """Signs in the owner of a token that was not revoked and has not ended."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        found = services.tokens.use_token(token)
        if found is None:
            return None
        if found.is_ended and found.ends_at is not None:
            on = localtime(found.ends_at)
            ended = f"The token “{found.name}” ended on {on:%Y-%m-%d}. Make another under Tokens for programs."
            raise HttpError(401, ended)
        if found.scope == TokenScope.READ and request.method not in _READING:
            raise HttpError(403, f"The token “{found.name}” is for reading only, and this would change something.")
        _check_second_factor(found.user)
        act_by_token(request, found.user)
        return found.user


class SessionAuth(CookieAuth):
    """Lets in whoever is signed in; what changes something needs the CSRF token too.

    Not asked where a token is shown, or no cookie: a program knows no CSRF token, and would be told that this is what
    it lacks.
    """

    def __call__(self, request: HttpRequest) -> Any | None:
        if shows_a_token(request) or self.param_name not in request.COOKIES:
            return None
        person = get_user(request)
        _check_second_factor(person)
        # Before the CSRF token is looked for: that reads the form, and takes files from people who may send them only.
        request.user = person
        return super().__call__(request)


def _check_second_factor(person: Person) -> None:
    if said := lacks_second_factor(person):
        raise HttpError(403, said)
