"""A form that was sent after its session had ended: what was typed is kept until the person has signed in again.

It is kept for whoever was signed in last in that browser, and is gone when somebody else signs in. Only forms of the
site's own pages get here: the CSRF check comes first, so no other site can have something kept.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from releases.middleware.principal import is_by_token
from releases.permissions import NotVisible

#: Where a session keeps it.
UNSENT = "unsent"
#: Characters that are kept at most: a long codebook, and no more, for nobody has signed in yet.
_MAX_KEPT = 200_000
#: A signed cookie that outlives the session: the number of the person who was signed in last.
WHOSE = "whose"
_WHOSE_SECONDS = 30 * 24 * 3600
#: One spends: it is read again before it is sent, so it is not kept to be sent from elsewhere. Into the other somebody
#: may paste an address with its password.
_NOT_KEPT = ("confirm", "connections")
#: Marks what a script sends because somebody pressed a form's button, beside what it asks while they type.
PRESSED = "X-Pressed"


class SignedOutMiddleware(LoginRequiredMiddleware):
    """Asks for a sign-in as Django does, and loses nothing that was typed."""

    def process_view(
        self, request: HttpRequest, view_func: Any, view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if request.method == "POST" and request.user.is_authenticated:
            _forget_what_is_sent(request)
        return super().process_view(request, view_func, view_args, view_kwargs)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        """A page that public objects share asks for a sign-in too, before it says that there is no such object."""
        match = request.resolver_match
        if not isinstance(exception, NotVisible) or request.user.is_authenticated or match is None:
            return None
        return self.handle_no_permission(request, match.func)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        person = getattr(request, "user", None)
        if is_by_token(request) or person is None:
            return response
        if person.is_authenticated and whose(request) != str(person.pk):
            response.set_signed_cookie(
                WHOSE,
                str(person.pk),
                max_age=_WHOSE_SECONDS,
                httponly=True,
                samesite="Lax",
                secure=settings.SESSION_COOKIE_SECURE,
            )
        return response

    def handle_no_permission(  # type: ignore[override]  # Django's is typed as always redirecting
        self, request: HttpRequest, view_func: Any
    ) -> HttpResponseBase:
        if request.headers.get("HX-Request") and not request.headers.get(PRESSED):
            return _answer_a_script(request)
        if request.method != "POST":
            return super().handle_no_permission(request, view_func)
        page = _page_it_came_from(request)
        if _can_be_kept(request, page):
            fields = [[name, value] for name, values in request.POST.lists() for value in values]
            kept = [field for field in fields if field[0] != "csrfmiddlewaretoken"]
            request.session[UNSENT] = {
                "path": page,
                "fields": kept,
                "had_file": bool(request.FILES),
                "whose": whose(request),
            }
            messages.info(request, "You were signed out, so it was not sent. What you typed is kept until you sign in.")
            return _to_login(request, reverse("unsent"))
        messages.info(request, "You were signed out, so nothing was done. Sign in to come back to the page.")
        return _to_login(request, page)


def _to_login(request: HttpRequest, following: str) -> HttpResponse:
    """Ask for the sign-in; a form that a script has sent must leave its page for that."""
    answer = redirect_to_login(following)
    return HttpResponse(headers={"HX-Redirect": answer.url}) if request.headers.get("HX-Request") else answer


def whose(request: HttpRequest) -> str:
    """Who was signed in last in this browser; empty where nobody knows."""
    return request.get_signed_cookie(WHOSE, default="", max_age=_WHOSE_SECONDS) or ""


def _forget_what_is_sent(request: HttpRequest) -> None:
    kept = request.session.get(UNSENT)
    if kept is not None and kept["path"] == request.get_full_path():
        del request.session[UNSENT]


def _answer_a_script(request: HttpRequest) -> HttpResponse:
    """What is checked while somebody types goes unanswered, so that it stays; a page that only looks on signs in."""
    if request.method == "POST":
        return HttpResponse(status=204)
    shown = urlsplit(request.headers.get("HX-Current-URL", ""))
    response = HttpResponse()
    response["HX-Redirect"] = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': shown.path or '/'})}"
    return response


def _page_it_came_from(request: HttpRequest) -> str:
    """The page with the form, where the browser says so: an address that only takes forms cannot be come back to."""
    referrer = request.headers.get("Referer", "")
    if url_has_allowed_host_and_scheme(referrer, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        parts = urlsplit(referrer)
        return f"{parts.path}?{parts.query}" if parts.query else parts.path
    return reverse("home")


def _can_be_kept(request: HttpRequest, page: str) -> bool:
    """Whether it is a page's own form with something typed, and of a page of ours: passwords are never kept."""
    match = request.resolver_match
    if (
        not whose(request)
        or match is None
        or match.url_name in _NOT_KEPT
        or not match.func.__module__.startswith("releases.")
    ):
        return False
    size = sum(len(name) + len(value) for name, values in request.POST.lists() for value in values)
    return page == request.get_full_path() and size <= _MAX_KEPT
