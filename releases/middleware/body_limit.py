"""A request may have a megabyte, but for an address that takes a table. Said before any of it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.response import HttpResponseBase

#: What a view has that takes a table, which has a limit of its own (`upload_limit.py`).
TAKES_A_TABLE = "takes_a_table"
View = TypeVar("View", bound=Callable[..., Any])


def takes_a_table(view: View) -> View:
    """Let an address have bodies as large as tables."""
    setattr(view, TAKES_A_TABLE, True)
    return view


class BodyLimitMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view_func: Any, view_args: Any, view_kwargs: Any) -> None:
        """Before everything that looks into the form, such as for its CSRF token."""
        if getattr(view_func, TAKES_A_TABLE, False):
            return
        sent = request.META.get("CONTENT_LENGTH") or "0"
        if int(sent) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig("The body is larger than a request here may be.")
