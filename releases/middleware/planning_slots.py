"""Every request that plans takes one of its person's planning slots, or is asked to come again.

No view says that it plans: the engine asks before it reads questions or plans (`releases/engine/metering.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from releases.engine.metering import before_planning
from releases.middleware.api_errors import is_for_programs
from releases.planning.slots import NoSlot, PlanningSlot


class PlanningSlotsMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        slot: PlanningSlot | None = None

        def take() -> None:
            nonlocal slot
            if slot is None:
                # Whoever calls the API is known only once it has looked at the token.
                slot = PlanningSlot(str(request.user.pk) if request.user.is_authenticated else "nobody")
            slot.take()

        token = before_planning.set(take)
        try:
            return self.get_response(request)
        finally:
            before_planning.reset(token)
            if slot is not None:
                slot.free()

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        if not isinstance(exception, NoSlot):
            return None
        answer: HttpResponse
        if is_for_programs(request):
            answer = JsonResponse({"message": str(exception)}, status=429)
        else:
            answer = render(request, "planning_busy.html", {"says": str(exception), **_typed(request)}, status=429)
        answer["Retry-After"] = str(settings.PLANNING_RETRY_SECONDS)
        return answer


def _typed(request: HttpRequest) -> dict[str, object]:
    """What a form held, to be sent again with one press."""
    fields = [(name, value) for name, values in request.POST.lists() for value in values]
    return {
        "again": request.get_full_path(),
        "is_form": request.method == "POST",
        "fields": [field for field in fields if field[0] != "csrfmiddlewaretoken"],
        "had_file": bool(request.FILES),
    }
