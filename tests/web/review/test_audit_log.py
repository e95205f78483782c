"""The audit log: who did what, when, to which object; append-only; never anything from a table."""

from __future__ import annotations

import csv
import io
import re
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from releases import services
from releases.models import AuditEvent, Budget, LedgerEntry
from releases.publication.files import guarded
from tests.web.conftest import PASSWORD
from tests.web.pages import body, words
from tests.web.past_the_guards import lift
from tests.web.steps import submit, without_triggers

pytestmark = pytest.mark.django_db


def said(**wanted):
    """(who, what, to which, detail) of the events, in order, but for how the people of these tests got their group."""
    events = AuditEvent.objects.filter(**wanted).exclude(action="join group").select_related("actor").order_by("pk")
    return [(str(event.actor or "–"), event.action, event.name, event.detail) for event in events]


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_signing_in_and_out(client, alice):
    client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    client.post("/accounts/logout/")
    assert said() == [("alice", "sign-in", "", ""), ("alice", "sign-out", "", "")]


def test_the_way_from_upload_to_download(as_, alice, sofia, published):
    receipt = reverse("download", args=[published.pk, "receipt.json"])
    as_(alice).post(reverse("visibility", args=[published.pk]), {"public": "yes"})
    as_(None).get(receipt)
    as_(alice).post(reverse("visibility", args=[published.pk]), {"public": "no"})
    as_(alice).get(receipt)
    as_(alice).post(reverse("withdraw", args=[published.pk]))
    assert [(who, what, name) for who, what, name, _ in said() if what not in ("sign-in", "sign-out")] == [
        ("alice", "upload", "Survey"),
        ("alice", "declare", "Survey"),
        ("alice", "declare", "Survey"),
        ("alice", "request", "epsilon 2 for Survey"),
        ("sofia", "approve", "epsilon 2 for Survey"),
        ("alice", "submit", "Release 1"),
        ("–", "publish", "Release 1"),
        ("alice", "make public", "Release 1"),
        ("–", "download", "Release 1"),
        ("alice", "make private", "Release 1"),
        ("alice", "download", "Release 1"),
        ("alice", "withdraw", "Release 1"),
    ]
    everything = " ".join(map(str, AuditEvent.objects.values_list()))
    assert not re.findall(r"\bp\d+\b", everything), "nothing of any row"
    services.organisation.verify_ledgers(by=None)
    text = words(as_(sofia).get("/review/log/"))
    # The newest first, and whoever has no name is told apart.
    told = ["the command line verified the ledger", "not signed in downloaded Release 1", "a worker finished Release 1"]
    assert sorted(told, key=text.index) == told


def test_a_download_that_is_refused_is_none(as_, charlie, published):
    assert as_(charlie).get(reverse("download", args=[published.pk, "receipt.json"])).status_code == 404
    assert said(action="download") == []


def test_what_is_rolled_back_leaves_no_event(draft, alice):
    Budget.objects.update(is_frozen=True)
    before = AuditEvent.objects.count()
    with pytest.raises(Exception, match="frozen"):
        submit(draft, alice)
    assert AuditEvent.objects.count() == before


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "actions"),
    [
        ({"action": "upload"}, {"upload"}),
        ({"person": "ali", "thing": "surv"}, {"upload", "declare", "request"}),
        ({"thing": "the release's number"}, {"submit", "publish"}),
        ({"person": "nobody"}, set()),
        ({"until": "2020-01-01"}, set()),
        ({"since": "2020-01-01", "action": "publish"}, {"publish"}),
    ],
)
def test_filters_choose_events_on_the_page_and_in_the_export(as_, sofia, published, filters, actions):
    filters = {name: value.replace("the release's number", str(published.pk)) for name, value in filters.items()}
    rows = list(csv.DictReader(io.StringIO(body(as_(sofia).get("/review/log.csv", filters)))))
    assert {row["action"] for row in rows} == actions
    page = as_(sofia).get("/review/log/", filters)
    assert {event.action for event in page.context["page"]} == actions
    assert page.context["filters"] == urlencode(filters)


def test_a_filter_that_breaks_a_rule_says_so(as_, sofia):
    for address in ("/review/log/", "/review/log.csv"):
        response = as_(sofia).get(address, {"action": "steal", "since": "soon"})
        assert response.status_code == 400
        assert set(response.context["form"].errors) == {"action", "since"}


SIGNS = "=+-@＝＋－＠﹦⁺"
STARTS = [f"{space}{sign}1+1" for space in ("", "\t", "\r", " ", "\u3000", "\ufeff", " \u200b") for sign in SIGNS]
NO_STARTS = ["", "a", " a", "-1", "+1.5", "-3 to 4", "1", "ж", "−5", "(1)", "'=1"]


def test_text_that_a_spreadsheet_may_run_is_marked_whatever_spaces_and_widths_its_sign_has_and_no_other():
    assert [guarded(text) for text in STARTS] == [f"'{text}" for text in STARTS]
    assert [guarded(text) for text in NO_STARTS] == NO_STARTS


def test_a_forged_ledger_is_said_to_be_so_until_it_verifies_and_a_changed_entry_at_once(as_, sofia, queued):
    lift()
    Budget.objects.update(spent_epsilon=5)
    verified = as_(sofia).post("/review/ledger/", follow=True).context["verified"]
    assert not verified.is_sound
    assert "Survey: the spent amounts are not the sums of the entries" in verified.found
    without_triggers()
    LedgerEntry.objects.filter(kind="charge").update(epsilon=1)
    page = as_(sofia).get("/review/ledger/")
    assert [(row.number, row.is_whole) for row in page.context["rows"]] == [(2, False), (1, True)]
    assert words(page).count("✕ does not fit") == 1
