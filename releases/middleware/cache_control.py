"""Who may keep an answer of this site: nobody but the browser that asked, which asks before it shows it again.

A proxy that kept a page would show it to others; one that kept a public release would show it after it was withdrawn,
and its downloads would not be recorded. A view that says otherwise is left alone, and static files are sent before
any view.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase


class CachingMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.setdefault("Cache-Control", "private, no-cache")
        return response
