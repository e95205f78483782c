"""A person's tokens for programs."""

from __future__ import annotations

from typing import Any

from allauth.account.decorators import reauthentication_required
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.fields import missing
from releases.models import ApiToken, TokenScope
from releases.permissions import signed_in


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=100,
        label="Which program it is for",
        error_messages=missing("Which program it is for: nothing was typed."),
    )
    days = forms.TypedChoiceField(
        choices=[(30, "30 days"), (services.tokens.DEFAULT_DAYS, "90 days"), (services.tokens.MAX_DAYS, "a year")],
        coerce=int,
        initial=services.tokens.DEFAULT_DAYS,
        label="How long it opens",
        help_text="Then make another: a token that somebody copied is of no use to them for ever.",
        error_messages=missing("How long it opens: nothing was chosen."),
    )
    scope = forms.ChoiceField(
        choices=TokenScope.choices,
        initial=TokenScope.ALL,
        widget=forms.RadioSelect,
        label="What the program may do",
        error_messages=missing("What the program may do: nothing was chosen."),
    )


@never_cache
def tokens(request: HttpRequest) -> HttpResponse:
    """The tokens there are; a new one is shown on this answer and never again."""
    form = TokenForm(request.POST if request.method == "POST" else None)
    made = ""
    if request.method == "POST" and form.is_valid():
        try:
            made = _make(request, form.cleaned_data)
            form = TokenForm()
        except InvalidInput as error:
            form.add_error(error.field, in_words(error))
    context = {
        "form": form,
        "made": made,
        "tokens": ApiToken.objects.filter(user=signed_in(request)).order_by("-created_at"),
    }
    return render(request, "account/tokens.html", context, status=400 if form.errors else 200)


@reauthentication_required
def _make(request: HttpRequest, given: dict[str, Any]) -> str:
    """A token outlives the session, so whoever makes one shows again who they are; then it is made as asked."""
    scope = TokenScope(given["scope"])
    return services.tokens.make_token(user=signed_in(request), name=given["name"], days=given["days"], scope=scope)


@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=token_id, user=signed_in(request))
    services.tokens.revoke_token(token=token)
    messages.success(request, f"The token {token.name} was revoked.")
    return redirect("tokens")
