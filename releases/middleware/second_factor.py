"""Roles whose holders need a second factor: until they have one, they can do nothing but set one up.

Asked of the person that was authenticated, and of no header. On pages that is the session's. An operation of the API
begins with nobody signed in, and asks the same of whom it authenticates, by session or by token.
"""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from releases.middleware.principal import act_for_nobody
from releases.models import Person, Role
from releases.models.role_rules import roles_of

#: Recovery codes are for who has lost one of these.
_FACTORS = [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
#: Pages on which a person sees to their own account: allauth's views, by the beginnings of their names.
_ACCOUNT_PAGES = ("account_", "mfa_")
#: What a view of the API has: it authenticates whom it answers, and asks for the second factor itself.
AUTHENTICATES = "authenticates_by_itself"


def lacks_second_factor(person: Person) -> str:
    """In one sentence, which role of a person wants a second factor that they do not have; empty where none does."""
    wanting = [role for role in Role if role in settings.REQUIRE_SECOND_FACTOR]
    if not wanting or not person.is_authenticated:
        return ""
    held = [role for role in wanting if role in _roles_to_guard(person)]
    if not held or is_mfa_enabled(person, types=_FACTORS):
        return ""
    return f"Your role ({' and '.join(role.label for role in held)}) needs a second factor. Set one up first."


def _roles_to_guard(person: Person) -> frozenset[Role]:
    """The roles that somebody holds; in Django's admin passwords are set, so whoever may enter counts as one more."""
    may_enter = getattr(person, "is_staff", False)
    return roles_of(person) | {Role.ADMINISTRATOR} if may_enter else roles_of(person)


class SecondFactorMiddleware(MiddlewareMixin):
    """Leads whoever needs a second factor, and has none, to the page where it is set up."""

    def process_view(
        self, request: HttpRequest, view_func: Any, view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if getattr(view_func, AUTHENTICATES, False):
            act_for_nobody(request)
            return None
        match = request.resolver_match
        is_allauth = view_func.__module__.startswith("allauth.")
        if is_allauth and match is not None and (match.url_name or "").startswith(_ACCOUNT_PAGES):
            return None
        said = lacks_second_factor(request.user)
        if not said:
            return None
        messages.warning(request, said)
        if request.headers.get("HX-Request"):
            return HttpResponse(headers={"HX-Redirect": reverse("mfa_index")})
        return redirect("mfa_index")
