"""Who a program is: the owner of the token that it shows."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.timezone import localtime
from ninja.security import HttpBearer

from releases import services
from releases.models import TokenScope

#: Methods; every operation that changes something has another.
_READING = ("GET", "HEAD", "OPTIONS")


class TokenAuth(HttpBearer):
    """Signs in the owner of a token that was not revoked and has not ended."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        found = services.use_token(token)
        if found is None:
            return None
        if found.is_ended and found.ends_at is not None:
            on = localtime(found.ends_at)
            ended = f"The token “{found.name}” ended on {on:%Y-%m-%d}. Make another under Tokens for programs."
            raise TokenRefused(401, ended)
        if found.scope == TokenScope.READ and request.method not in _READING:
            raise TokenRefused(403, f"The token “{found.name}” is for reading only, and this would change something.")
        request.user = found.user
        return found.user


class TokenRefused(Exception):
    """A token that is known and does not open what was asked for. The text is for its owner."""

    def __init__(self, status: int, said: str) -> None:
        self.status = status
        super().__init__(said)
