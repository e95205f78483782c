"""The audit log: who did what, when, to which object; append-only; never anything from a table."""

from __future__ import annotations

import csv
import io
import re
import uuid

import pytest
from django.core import mail
from django.core.cache import cache
from django.db import DatabaseError, connection, transaction
from django.urls import reverse

from releases import services
from releases.ledger import audit_log
from releases.models import AuditAction, AuditEvent, Budget, LedgerEntry
from releases.publication.files import guarded
from tests.web.conftest import CSV, PASSWORD
from tests.web.pages import body, inline_code, words
from tests.web.past_the_guards import lift

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_attempts_yet():
    cache.clear()


def said(**wanted):
    """(who, what, to which, detail) of the events, in order, but for how the people of these tests got their group."""
    events = AuditEvent.objects.filter(**wanted).exclude(action="join group").select_related("actor").order_by("pk")
    return [(str(event.actor or "–"), event.action, event.name, event.detail) for event in events]


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_signing_in_and_out(client, alice):
    client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    client.post("/accounts/logout/")
    assert said() == [("alice", "sign-in", "", ""), ("alice", "sign-out", "", "")]


def test_a_failed_sign_in_names_the_account_and_never_what_was_typed(client, alice):
    client.post("/accounts/login/", {"login": "alice@example.org", "password": "my secret"})
    client.post("/accounts/login/", {"login": "correct horse", "password": "alice"})
    assert said() == [
        ("–", "sign-in failed", "alice", "wrong password, from 127.0.0.1"),
        ("–", "sign-in failed", "", "no such account, from 127.0.0.1"),
    ]


def test_a_new_password_by_form_and_by_e_mail(client, as_, alice):
    new = "an entirely different one"
    as_(alice).post("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    client.logout()
    client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", mail.outbox[-1].body)[1]
    page = client.get(link, follow=True)
    client.post(page.redirect_chain[-1][0], {"password1": PASSWORD, "password2": PASSWORD})
    assert said(action="password") == [
        ("alice", "password", "alice", "new password"),
        ("–", "password", "alice", "new password by a link in an e-mail"),
    ]


def test_the_way_from_upload_to_download(as_, alice, sofia, published):
    client = as_(alice)
    client.post(reverse("visibility", args=[published.pk]), {"public": "yes"})
    client.post(reverse("visibility", args=[published.pk]), {"public": "no"})
    client.get(reverse("download", args=[published.pk, "receipt.json"]))
    client.post(reverse("withdraw", args=[published.pk]))
    assert [(who, what, name) for who, what, name, _ in said().copy() if what != "sign-in"] == [
        ("alice", "upload", "Survey"),
        ("alice", "declare", "Survey"),
        ("alice", "declare", "Survey"),
        ("alice", "request", "epsilon 2 for Survey"),
        ("grantor", "approve", "epsilon 2 for Survey") if not sofia else ("sofia", "approve", "epsilon 2 for Survey"),
        ("alice", "submit", "Release 1"),
        ("–", "publish", "Release 1"),
        ("alice", "make public", "Release 1"),
        ("alice", "make private", "Release 1"),
        ("alice", "download", "Release 1"),
        ("alice", "withdraw", "Release 1"),
    ]


def test_a_download_by_a_visitor_has_no_name(client, public):
    client.get(reverse("download", args=[public.pk, "receipt.json"]))
    assert said(action="download") == [("–", "download", "Release 1", "receipt.json")]


def test_the_page_tells_a_visitor_from_a_worker_and_from_the_command_line(client, public, as_, sofia):
    client.get(reverse("download", args=[public.pk, "receipt.json"]))
    services.organisation.verify_ledgers(by=None)
    text = words(as_(sofia).get("/review/log/"))
    assert "the command line verified the ledger" in text
    assert "not signed in downloaded Release 1 release receipt.json" in text
    assert "a worker finished Release 1 release" in text


def test_a_download_that_is_refused_is_none(as_, charlie, published):
    assert as_(charlie).get(reverse("download", args=[published.pk, "receipt.json"])).status_code == 404
    assert said(action="download") == []


def test_cancelling_freezing_and_exporting(as_, alice, sofia, queued):
    services.releases.cancel_release(release=queued, by=alice)
    services.budgets.freeze_budget(budget=Budget.objects.get(), by=sofia, reason="Look.")
    as_(sofia).get("/review/ledger.csv")
    what = [each[:2] for each in said()]
    assert ("alice", "cancel") in what
    assert ("sofia", "freeze") in what
    assert ("sofia", "export") in what


def test_what_is_rolled_back_leaves_no_event(draft, alice):
    Budget.objects.update(is_frozen=True)
    before = AuditEvent.objects.count()
    with pytest.raises(Exception, match="frozen"):
        services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    assert AuditEvent.objects.count() == before


def test_nothing_of_any_row_is_in_the_log(as_, alice, published):
    everything = " ".join(map(str, AuditEvent.objects.values_list()))
    for line in CSV.decode().splitlines()[1:]:
        assert line.split(",")[0] not in re.findall(r"\bp\d+\b", everything)
    assert "200" not in [detail for *_, detail in said()]


# --- append-only ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["UPDATE releases_auditevent SET detail = ''", "DELETE FROM releases_auditevent"])
def test_the_database_refuses_to_change_or_delete_an_event(alice, verb):
    audit_log.record(AuditAction.SIGN_IN, actor=alice)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(verb)
    assert AuditEvent.objects.filter(action="sign-in", detail="").count() == 1


@pytest.mark.postgres
def test_postgresql_refuses_too(postgres_database, tmp_path):
    from tests.stack import Stack

    stack = Stack(tmp_path, database_url=postgres_database)
    stack.migrate()
    answer = stack.run(
        """
        from django.db import connection, transaction
        from releases.ledger import audit_log
        from releases.models import AuditAction, AuditEvent
        audit_log.record(AuditAction.SIGN_IN, actor=None)
        refused = []
        for verb in ("UPDATE releases_auditevent SET detail = 'x'", "DELETE FROM releases_auditevent",
                     "TRUNCATE releases_auditevent"):
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(verb)
            except Exception as error:
                refused.append("append-only" in str(error))
        answer = [refused, AuditEvent.objects.count()]
        """
    )
    stack.stop()
    assert answer == [[True, True, True], 1]


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_lists_the_newest_first(as_, sofia, published):
    page = as_(sofia).get("/review/log/")
    text = words(page)
    assert text.index("a worker finished Release 1 release") < text.index("charged and queued Release 1")
    assert text.index("charged and queued Release 1") < text.index("uploaded a table Survey dataset")
    assert inline_code(page) == []


@pytest.mark.parametrize(
    ("filters", "actions"),
    [
        ({"action": "upload"}, {"upload"}),
        ({"person": "ali", "thing": "surv"}, {"upload", "declare", "request"}),
        ({"person": "nobody"}, set()),
        ({"until": "2020-01-01"}, set()),
        ({"since": "2020-01-01", "action": "publish"}, {"publish"}),
    ],
)
def test_filters_choose_events_on_the_page_and_in_the_export(as_, sofia, published, filters, actions):
    rows = list(csv.DictReader(io.StringIO(body(as_(sofia).get("/review/log.csv", filters)))))
    assert {row["action"] for row in rows} == actions
    page = words(as_(sofia).get("/review/log/", filters))
    assert ("Nothing fits the filters." in page) == (not actions)


def test_an_object_is_found_by_its_identifier(as_, sofia, published):
    rows = list(csv.DictReader(io.StringIO(body(as_(sofia).get("/review/log.csv", {"thing": str(published.pk)})))))
    assert {row["action"] for row in rows} == {"submit", "publish"}


def test_a_filter_that_breaks_a_rule_says_so(as_, sofia):
    for address in ("/review/log/", "/review/log.csv"):
        response = as_(sofia).get(address, {"action": "steal", "since": "soon"})
        assert response.status_code == 400
        assert "Select a valid choice" in words(response)
        assert "Enter a valid date" in words(response)


def test_pages_keep_the_filters(as_, sofia, alice):
    for _ in range(60):
        audit_log.record(AuditAction.SIGN_IN, actor=alice)
    page = body(as_(sofia).get("/review/log/", {"person": "alice", "action": "sign-in"}))
    assert "Page 1 of 2" in page
    assert "?person=alice&amp;action=sign-in&amp;page=2" in page


STARTS = [
    space + sign + "1+1" for space in ("", "\t", "\r", " ", "\u3000", "\ufeff", " \u200b") for sign in "=+-@＝＋－＠﹦⁺"
]


@pytest.mark.parametrize("text", STARTS)
def test_text_that_a_spreadsheet_may_run_is_marked_whatever_spaces_and_widths_its_sign_has(text):
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", " a", "-1", "+1.5", "-3 to 4", "1", "ж", "−5", "(1)", "'=1"])
def test_other_text_and_numbers_are_written_as_they_are(text):
    assert guarded(text) == text


@pytest.mark.parametrize("start", ["=1+1", "+1+1", "-1-1", "@a", "＝1+1"])
def test_no_text_is_written_so_that_a_spreadsheet_runs_it(as_, sofia, dataset, start):
    services.budgets.freeze_budget(budget=dataset.budget, by=sofia, reason=start)
    rows = list(csv.DictReader(io.StringIO(body(as_(sofia).get("/review/log.csv", {"action": "freeze"})))))
    assert rows[0]["detail"] == f"'{start}"


# --- the ledger's page ------------------------------------------------------------------------------------------------


def test_the_ledger_page_shows_every_entry_and_that_nobody_verified_yet(as_, sofia, queued):
    page = words(as_(sofia).get("/review/ledger/"))
    assert "never verified as a whole" in page
    assert "Survey 2 release charged Release 1 alice" in page
    assert "Survey 1 budget granted" in page


def test_verifying_says_when_by_whom_and_what_came_since(as_, sofia, queued, make_draft, alice):
    as_(sofia).post("/review/ledger/")
    assert "2 entries of 1 budgets: no fault." in words(as_(sofia).get("/review/ledger/"))
    draft = make_draft(queued.dataset, epsilon="0.1")
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    assert "1 entry since." in words(as_(sofia).get("/review/ledger/"))


def test_a_forged_ledger_is_said_to_be_so_until_it_verifies(as_, sofia, queued):
    lift()
    Budget.objects.update(spent_epsilon=5)
    page = words(as_(sofia).post("/review/ledger/", follow=True))
    assert "1 fault. Survey: the spent amounts are not the sums of the entries." in page
    assert "The ledger does not add up." in page


def test_an_entry_that_was_changed_is_marked_on_the_page_at_once(as_, sofia, queued):
    with connection.cursor() as cursor:
        is_sqlite = connection.vendor == "sqlite"
        cursor.execute(
            "DROP TRIGGER ledger_no_update" if is_sqlite else "DROP TRIGGER ledger_append_only ON releases_ledgerentry"
        )
    LedgerEntry.objects.filter(kind="charge").update(epsilon=1)
    page = words(as_(sofia).get("/review/ledger/"))
    assert page.count("✕ does not fit") == 1
    assert page.count("fits its entry:") == 1


def test_the_command_s_verification_stands_on_the_page(as_, sofia, queued):
    from django.core.management import call_command

    call_command("audit", stdout=io.StringIO())
    assert "on the command line: 2 entries of 1 budgets: no fault." in words(as_(sofia).get("/review/ledger/"))
