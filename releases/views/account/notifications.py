"""A person's notices, and whether they come by e-mail too."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from releases import services
from releases.display.paging import chosen_page
from releases.forms.buttons import MailForm
from releases.forms.fields import in_one_line
from releases.models import MailChoice, Notice
from releases.permissions import signed_in

PAGE_LENGTH = 50


def notices(request: HttpRequest) -> HttpResponse:
    person = signed_in(request)
    page = chosen_page(Paginator(Notice.objects.for_page(person), PAGE_LENGTH), request.GET)
    wants_mail = not MailChoice.objects.filter(user=person, wants_mail=False).exists()
    return render(request, "account/notices.html", {"page": page, "wants_mail": wants_mail})


@require_POST
def read_notices(request: HttpRequest) -> HttpResponse:
    services.notices.read_notices(person=signed_in(request))
    messages.success(request, "Read. They stay on the page of your notices.")
    return redirect("home")


@require_POST
def choose_mail(request: HttpRequest) -> HttpResponse:
    form = MailForm(request.POST)
    if not form.is_valid():
        messages.error(request, in_one_line(form))
        return redirect("notices")
    wants_mail = form.cleaned_data["wants_mail"] == form.YES
    services.notices.choose_mail(person=signed_in(request), wants_mail=wants_mail)
    said = "From now on your notices come by e-mail too." if wants_mail else "No more notices come by e-mail."
    messages.success(request, said)
    return redirect("notices")
