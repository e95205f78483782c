"""Addresses with a null character, which no text has and PostgreSQL refuses to look for: answered with a sentence."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class NullCharactersMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest("The address holds a null character, which no text has.")
        return self.get_response(request)
