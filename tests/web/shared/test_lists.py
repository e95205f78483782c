"""Pages that list things ask the database the same few questions, however long the list is."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.models import Release
from tests.web.pages import body

pytestmark = pytest.mark.django_db


@pytest.fixture
def grow(make_dataset, published, alice, upload_file):
    """Three more of everything: datasets, budgets with requests, drafts and public releases."""
    number = iter(range(1000))

    def more():
        for _ in range(3):
            # As many rows as no other table has: other people.
            content = b"person,age,sex\n" + b"p,30,male\n" * (2 + next(number))
            dataset = make_dataset(content=content)
            again = services.budgets.request_budget(
                dataset=dataset, epsilon="5", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
            )
            if next(number) % 2:
                services.budgets.deny_request(
                    request=again, by=dataset.budget.requests.exclude(decided_by=None).get().decided_by, note="No."
                )
            services.releases.draft_release(dataset=published.dataset, by=alice)
            Release.objects.create(
                dataset=dataset,
                title="More",
                state="published",
                is_public=True,
                result=published.result,
                published_at=published.published_at,
                submitted_by=alice,
            )

    return more


@pytest.mark.parametrize(
    ("person", "name"),
    [
        ("alice", "home"),
        ("sofia", "home"),
        ("alice", "dataset_list"),
        ("alice", "release_list"),
        ("alice", "catalogue"),
        (None, "catalogue"),
        ("alice", "dataset_detail"),
        ("sofia", "review_queue"),
        ("sofia", "budget_board"),
        ("sofia", "budget_detail"),
        ("sofia", "ledger_csv"),
    ],
)
def test_a_list_takes_as_many_queries_for_many_rows_as_for_few(
    django_assert_num_queries, grow, published, request, as_, person, name
):
    arguments = {"dataset_detail": [published.dataset.pk], "budget_detail": [published.dataset.budget.pk]}.get(name, [])
    url = reverse(name, args=arguments)
    client = as_(request.getfixturevalue(person) if person else None)
    grow()
    client.get(url)
    with CaptureQueriesContext(connection) as few:
        before = body(client.get(url))
    grow()
    with django_assert_num_queries(len(few)):
        after = body(client.get(url))
    assert len(few) <= (21 if name == "budget_detail" else 12)
    if name not in ("budget_detail", "home"):
        assert len(after) > len(before)


@pytest.mark.parametrize("name", ["dataset_list", "release_list", "catalogue", "dataset_detail", "home"])
def test_a_list_reads_no_plan_and_no_result(grow, published, as_, alice, name):
    """They may be megabytes each."""
    url = reverse(name, args=[published.dataset.pk] if name == "dataset_detail" else [])
    with CaptureQueriesContext(connection) as queries:
        as_(alice).get(url)
    text = " ".join(query["sql"] for query in queries)
    assert '"releases_release"."result"' not in text
    assert '"releases_release"."plan"' not in text


def test_long_lists_are_cut_into_pages(dataset, as_, alice):
    for number in range(60):
        Release.objects.create(dataset=dataset, title=f"Draft {number}", submitted_by=alice)
    page = body(as_(alice).get("/releases/"))
    assert "Page 1 of 2" in page
    assert "Page 2 of 2" in body(as_(alice).get("/releases/", {"page": "2"}))
