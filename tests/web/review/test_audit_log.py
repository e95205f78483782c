"""The audit log: who did what, when, to which object; append-only; never anything from a table."""

import csv
import io
import re

import pytest
from django.urls import reverse

from releases.models import AuditEvent
from releases.publication.files import guarded
from tests.web.conftest import PASSWORD
from tests.web.pages import body


def said(**wanted):
    """(who, what, to which, detail) of the events, in order, but for how the people of these tests got their group."""
    events = AuditEvent.objects.filter(**wanted).exclude(action="join group").select_related("actor").order_by("pk")
    return [(str(event.actor or "–"), event.action, event.name, event.detail) for event in events]


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


@pytest.mark.parametrize(
    ("filters", "actions"),
    [
        ({"person": "ali", "thing": "surv"}, {"upload", "declare", "request"}),
        ({"until": "2020-01-01"}, set()),
        ({"since": "2020-01-01", "action": "publish"}, {"publish"}),
    ],
)
def test_filters_choose_events_on_the_page_and_in_the_export(as_, sofia, published, filters, actions):
    rows = list(csv.DictReader(io.StringIO(body(as_(sofia).get("/review/log.csv", filters)))))
    assert {row["action"] for row in rows} == actions
    assert {event.action for event in as_(sofia).get("/review/log/", filters).context["page"]} == actions


SIGNS = "=+-@＝＋－＠﹦⁺"
STARTS = [f"{space}{sign}1+1" for space in ("", "\t", "\r", " ", "\u3000", "\ufeff", " \u200b") for sign in SIGNS]
NO_STARTS = ["", "a", " a", "-1", "+1.5", "-3 to 4", "1", "ж", "−5", "(1)", "'=1"]


def test_text_that_a_spreadsheet_may_run_is_marked_whatever_spaces_and_widths_its_sign_has_and_no_other():
    assert [guarded(text) for text in STARTS] == [f"'{text}" for text in STARTS]
    assert [guarded(text) for text in NO_STARTS] == NO_STARTS
