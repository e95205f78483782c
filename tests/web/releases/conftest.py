"""Drafts, and what they ask."""

import pytest
from django.http import QueryDict

from releases import services
from releases.models import LedgerEntry, Release
from tests.web.conftest import WORKLOAD


@pytest.fixture
def blank(dataset, alice):
    """A draft that asks nothing yet."""
    return services.releases.draft_release(dataset=dataset, by=alice)


@pytest.fixture
def asked(blank):
    """A draft of every table of one or two columns, with nothing chosen yet."""
    services.releases.set_questions(release=blank, workload=WORKLOAD)
    return blank


def queries(release):
    """What a draft asks, as it is stored."""
    workload = Release.objects.get(pk=release.pk).workload
    return workload and workload["queries"]


def posted(typed):
    """What a browser sends of what was typed or chosen."""
    sent = QueryDict(mutable=True)
    for name, value in typed.items():
        sent.setlist(name, value if isinstance(value, list) else [value])
    return sent


def charges():
    return LedgerEntry.objects.filter(kind="charge")
