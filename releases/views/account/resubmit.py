"""What somebody sent when they had been signed out: sent again, or not, once they have signed in."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases.middleware.session_expiry import UNSENT


def unsent(request: HttpRequest) -> HttpResponse:
    kept = request.session.get(UNSENT)
    if kept is not None and kept["whose"] != str(request.user.pk):
        # Somebody else has signed in where it was typed.
        del request.session[UNSENT]
        kept = None
    if kept is None:
        return redirect("home")
    if request.method == "POST":
        del request.session[UNSENT]
        messages.info(request, "It was not sent.")
        return redirect(kept["path"])
    return render(request, "account/unsent.html", {"kept": kept, "typed": [each for each in kept["fields"] if each[1]]})
