"""What is wrong with a form while a person types: said by the code that would store it, and nothing is stored.

A form with `_live.html` in it is sent with `check` while somebody types. A plan that is all in the address needs no
such word: its page comes again, and the part of it that is planned takes the place of the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import transaction
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from releases.forms.buttons import CheckForm


def is_check(request: HttpRequest) -> bool:
    """Whether a form was sent only to hear what is wrong with it."""
    return bool(CheckForm(request.POST).given["check"])


@contextmanager
def undone_if_check(request: HttpRequest) -> Iterator[None]:
    """What is stored inside is taken back where the form was sent only to be checked."""
    with transaction.atomic():
        yield
        if is_check(request):
            transaction.set_rollback(True)


def checked(
    request: HttpRequest, form: BaseForm, *, problem: str = "", says: str = "", options: Sequence[dict[str, str]] = ()
) -> HttpResponse:
    """What is wrong, beside each field and of the form as a whole; else what it would do.

    A field that nobody has come to yet is not wrong; the button says it of one that was left out.

    Args:
        says: what it would do, or what the page still shows.
        options: fields beside those of the form, each with its `id` and, as `text`, what is wrong with it.
    """
    for name, found in form.errors.as_data().items():
        if all(each.code == "required" for each in found):
            del form.errors[name]
    problems = [each for each in options if each["text"]]
    context = {"form": form, "problem": problem, "says": says, "options": options, "problems": problems}
    return render(request, "shared/_checked.html", context)


def status_of(request: HttpRequest, *, is_wrong: bool) -> int:
    """Of a page: 400 where what was sent is wrong; htmx would not show such an answer, so not to htmx."""
    return 400 if is_wrong and not request.headers.get("HX-Request") else 200
