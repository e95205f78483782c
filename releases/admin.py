"""The admin shows accounts and groups. Budgets, ledger and releases are changed through services only."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from releases.models import Budget, BudgetRequest, Dataset, LedgerEntry, Release


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Nothing here may be added, changed or deleted: every such write has a service that checks and records it."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Budget)
class BudgetAdmin(ReadOnlyAdmin):
    list_display = ("name", "owner", "policy", "epsilon", "is_frozen")


@admin.register(BudgetRequest)
class BudgetRequestAdmin(ReadOnlyAdmin):
    list_display = ("budget", "epsilon", "state", "requested_by", "decided_by")


@admin.register(Dataset)
class DatasetAdmin(ReadOnlyAdmin):
    list_display = ("title", "owner", "group", "created_at")


@admin.register(Release)
class ReleaseAdmin(ReadOnlyAdmin):
    list_display = ("title", "dataset", "state", "submitted_by", "published_at")


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    list_display = ("budget", "sequence", "kind", "release", "actor", "made_at")
