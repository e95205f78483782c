"""People and roles: one page for administrators, every change in the audit log."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.display.paging import chosen_page
from releases.engine.errors import InvalidInput
from releases.forms.buttons import SearchForm
from releases.forms.review import RoleForm
from releases.models import AuditAction, AuditEvent, Role
from releases.permissions import administrators_only, signed_in
from releases.views.common.refused import refusals_shown

PAGE_LENGTH = 50
#: Changes listed below the people; the log has all of them.
CHANGES_LENGTH = 10


@administrators_only
def people(request: HttpRequest) -> HttpResponse:
    """Everybody with an account, and the roles that each holds; a button gives or takes one."""
    if request.method == "POST":
        _change(request)
        return redirect(request.get_full_path())
    wanted = SearchForm(request.GET).wanted
    page = chosen_page(Paginator(_found(wanted), PAGE_LENGTH), request.GET)
    context = {
        "page": page,
        "rows": [_row(person) for person in page],
        "roles": Role,
        "wanted": wanted,
        "changes": AuditEvent.objects.for_log_page().filter(action__in=(AuditAction.ROLES, AuditAction.TAKE_ROLE))[
            :CHANGES_LENGTH
        ],
    }
    return render(request, "review/people.html", context)


def _found(wanted: str) -> QuerySet[User]:
    """Those whose name or address holds what is searched for, and those who hold a role of that name."""
    people = User.objects.prefetch_related("held_roles").order_by("username")
    if not wanted:
        return people
    named = Q(username__icontains=wanted) | Q(email__icontains=wanted)
    named |= Q(first_name__icontains=wanted) | Q(last_name__icontains=wanted)
    return people.filter(named | Q(pk__in=User.objects.filter(held_roles__role=wanted.lower()).values("pk")))


def _row(person: User) -> dict[str, object]:
    held = {each.role for each in person.held_roles.all()}
    return {"person": person, "roles": [(role, role in held) for role in Role]}


def _change(request: HttpRequest) -> None:
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise BadRequest("The form names no account, or no role.")
    person, given = form.cleaned_data["person"], form.cleaned_data["give"]
    role = Role(given or form.cleaned_data["take"])
    with refusals_shown(request, InvalidInput):
        if given:
            services.roles.give_role(person=person, role=role, by=signed_in(request))
            messages.success(request, f"{person} is {role.label} now.")
        else:
            services.roles.take_role(person=person, role=role, by=signed_in(request))
            messages.success(request, f"{person} is no longer {role.label}.")
