"""Pages of lists whose rows are wide."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import QueryDict


def chosen_page(paginator: Paginator[Any], address: QueryDict) -> Page[Any]:
    """The page that the address names, else the nearest that there is."""
    page: Page[Any] = paginator.get_page(address.get("page"))
    return page


class PaginatorByKey(Paginator):  # type: ignore[type-arg]  # Django's takes no parameter when it runs
    """Sorts keys alone, then reads the rows of one page: a database reads what is selected of each row before it
    sorts, and a release's result is wide."""

    object_list: QuerySet[Any]

    def page(self, number: int | str) -> Page[Any]:
        page: Page[Any] = super().page(number)
        first = (page.number - 1) * self.per_page
        keys = self.object_list.values_list("pk", flat=True)[first : min(first + self.per_page, self.count)]
        page.object_list = self.object_list.filter(pk__in=keys)
        return page
