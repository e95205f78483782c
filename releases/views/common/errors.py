"""Pages for requests that cannot be served. They say what a person can do, and nothing about what is stored."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, TooManyFieldsSent
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from releases.middleware.api_errors import is_for_programs
from releases.models import Organisation
from releases.publication.files import readable_size


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Status 400; too much data, and too many fields, have words of their own."""
    if is_for_programs(request):
        return JsonResponse({"message": _for_programs(exception)}, status=400)
    if isinstance(exception, RequestDataTooBig):
        cap, form_cap = _caps()
        return render(request, "413.html", {"cap": cap, "form_cap": form_cap}, status=400)
    if isinstance(exception, TooManyFieldsSent):
        return render(request, "400.html", {"reason": _too_many()}, status=400)
    reason = str(exception) if isinstance(exception, BadRequest) else ""
    return render(request, "400.html", {"reason": reason}, status=400)


def _for_programs(exception: Exception) -> str:
    if isinstance(exception, RequestDataTooBig):
        cap, form_cap = _caps()
        return f"A table may be at most {cap}, and the rest of a request at most {form_cap}. Nothing was stored."
    if isinstance(exception, TooManyFieldsSent):
        return _too_many()
    return str(exception) if isinstance(exception, BadRequest) else "The request cannot be read."


def _caps() -> tuple[str, str]:
    """The largest table, and the most that a request may have beside one."""
    table = f"{Organisation.current().upload_cap_bytes / 2**20:,.0f} MB"
    return table, readable_size(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


def _too_many() -> str:
    return f"The form has more than {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,} fields."
