"""Notices: who is told what, once, on their page and by e-mail; never anything that was not public or paid for."""

from __future__ import annotations

import smtplib

import pytest
from django.core import mail
from django.urls import reverse

from releases import services, tasks
from releases.engine.accounting.filters import Policy
from releases.models import LedgerEntry, Notice, Release
from releases.notifications import messages as notices
from tests.web.conftest import CSV, give, person
from tests.web.pages import words
from tests.web.steps import execute, rule, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def reviewed(make_dataset, make_draft, alice, sofia):
    """A release of epsilon 2 where more than 1 is reviewed first."""
    rule(review_above="1")
    release = make_draft(make_dataset(epsilon="10", sofia=sofia), epsilon="2")
    submit(release, alice, reason="For the yearbook.")
    return release.reviews.get()


def sent():
    """(to, subject) of the e-mails since the last look."""
    found = [(message.to, message.subject) for message in mail.outbox]
    mail.outbox.clear()
    return found


def ask(dataset, alice):
    return services.budgets.request_budget(
        dataset=dataset, epsilon="3", delta="0.000001", policy=Policy.ZCDP, reason="secret plans", by=alice
    )


# --- to those who review ----------------------------------------------------------------------------------------------


def test_a_request_is_told_to_everybody_who_may_review_and_to_the_organisation(
    make_dataset, alice, sofia, worker_round, settings
):
    settings.ALERT_ADDRESSES = ["privacy@example.org"]
    settings.SITE_ADDRESS = "https://statistics.example.org"
    rita = person("rita", "reviewer")
    person("gone", "reviewer", is_active=False)
    dataset = make_dataset(epsilon="")
    with worker_round():
        request = ask(dataset, alice)
    text = mail.outbox[0].body
    assert sent() == [
        ([to], "To review: a budget of epsilon 3 for Survey") for to in (sofia.email, rita.email, "privacy@example.org")
    ]
    assert f"https://statistics.example.org{reverse('budget_request', args=[request.pk])}" in text
    assert "alice asks for a budget of epsilon 3 for Survey. Nothing is spent." in text
    assert "secret plans" not in text


def test_only_the_chosen_group_is_told_and_never_the_person_who_asked(
    make_dataset, group, alice, bob, sofia, worker_round
):
    rule(reviewers=group)
    for member in (alice, bob):
        give(member, "reviewer")
    with worker_round():
        ask(make_dataset(epsilon=""), alice)
    assert [to for to, _ in sent()] == [[bob.email]]


def test_the_second_of_two_reviewers_is_told_when_the_first_has_approved(make_dataset, alice, sofia, worker_round):
    rita = person("rita", "reviewer")
    rule(is_two_person=True)
    with worker_round():
        request = ask(make_dataset(epsilon=""), alice)
    sent()
    with worker_round():
        services.budgets.approve_request(request=request, by=sofia, epsilon="2")
    assert "sofia approved epsilon 2; a second reviewer has to approve it too." in mail.outbox[0].body
    assert sent() == [([rita.email], "To approve as the second: a budget of epsilon 3 for Survey")]


def test_what_is_decided_or_taken_back_no_longer_asks_the_reviewers(reviewed, make_dataset, alice, sofia):
    asked = ask(make_dataset(epsilon="", content=CSV + b"one more,30,male\n"), alice)
    assert Notice.objects.for_home(sofia).count() == 2
    assert Notice.objects.filter(person=sofia, sent_at=None).count() == 2
    services.releases.cancel_release(release=reviewed.release, by=alice)
    services.budgets.deny_request(request=asked, by=sofia, note="No.")
    assert not Notice.objects.for_home(sofia).exists()
    assert not Notice.objects.filter(person=sofia, sent_at=None).exists(), "no e-mail asks for what is decided"


# --- to who asked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "given", "title", "text"),
    [
        ("approve_request", {}, "Approved", "You asked for epsilon 3; epsilon 3 was granted."),
        ("approve_request", {"epsilon": "2"}, "Approved for less", "You asked for epsilon 3; epsilon 2 was granted."),
        ("deny_request", {"note": "Too much."}, "Denied", "The reviewer wrote: Too much."),
        ("ask_back_request", {"note": "Why?"}, "Asked back", "The reviewer wrote: Why?"),
    ],
)
def test_the_curator_is_told_what_was_decided_and_why(asked, alice, sofia, worker_round, verb, given, title, text):
    with worker_round():
        getattr(services.budgets, verb)(request=asked, by=sofia, **given)
    message = mail.outbox[-1]
    assert (message.to, message.subject) == ([alice.email], f"{title}: a budget of epsilon 3 for Survey")
    assert text in message.body
    assert reverse("dataset_detail", args=[asked.budget.datasets.get().pk]) in message.body


def test_the_curator_is_told_what_became_of_a_release(reviewed, alice, sofia, worker_round):
    with worker_round():
        services.reviews.approve_release(request=reviewed, by=sofia, epsilon="1.5")
    assert "It is a draft again, with that epsilon." in mail.outbox[-1].body
    release = Release.objects.get()
    submit(release, alice)
    with worker_round():
        assert execute(release)
    assert (mail.outbox[-1].to, mail.outbox[-1].subject) == ([alice.email], "Finished: Release 1")
    for message in mail.outbox[-2:]:
        assert reverse("release_detail", args=[release.pk]) in message.body


def test_who_decides_their_own_request_is_told_nothing(make_dataset, sofia, settings):
    settings.SEPARATION_OF_DUTIES = False
    request = ask(make_dataset(epsilon="", owner=sofia), sofia)
    services.budgets.approve_request(request=request, by=sofia)
    assert not Notice.objects.exists()


def test_a_release_that_failed_is_told_once_and_at_the_end_only(queued, alice, worker_round, monkeypatch, settings):
    def broken(*arguments, **options):
        raise RuntimeError("17 rows have age 30")

    Notice.objects.all().delete()
    monkeypatch.setattr("releases.services.execution._run", broken)
    for _ in range(settings.MAX_ATTEMPTS):
        with worker_round():
            assert not execute(queued)
    assert [subject for to, subject in sent() if to == [alice.email]] == ["Failed: Release 1"]
    assert "17" not in Notice.objects.get(title="Failed: Release 1").text


def test_neighbouring_tables_are_told_of_in_the_same_words(make_dataset, make_queued):
    """Two runs whose data and whose noise differ say the same, but for the release's number."""
    said = []
    for content in (CSV, CSV + b"one more,30,male\n"):
        release = make_queued(make_dataset(content=content, epsilon="9"))
        Notice.objects.all().delete()
        assert execute(release)
        said.append([(each.title, each.text, each.path.replace(str(release.pk), "")) for each in Notice.objects.all()])
    assert said[0] == said[1]
    assert len(said[0]) == 1


# --- sent once --------------------------------------------------------------------------------------------------------


def test_a_mail_server_that_is_away_holds_up_nothing_and_gets_it_later(draft, alice, worker_round, monkeypatch):
    def refuse(*arguments):
        raise ConnectionRefusedError

    Notice.objects.all().delete()
    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", refuse)
    with worker_round():
        submit(draft, alice)
    assert LedgerEntry.objects.filter(kind="charge").exists(), "the charge does not depend on the mail server"
    # To the owner and to the reviewer: half of the budget is spent.
    assert Notice.objects.filter(sent_at=None).count() == 2
    monkeypatch.undo()
    assert notices.send_waiting() == 2
    assert notices.send_waiting() == 0
    assert sent()[0] == ([alice.email], "At least 50% of the budget is spent: Survey")


def test_no_page_waits_for_the_mail_server_and_a_worker_s_round_writes_to_it(sofia, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        notices.tell([sofia], title="One", text="Something.", path="/")
    assert mail.outbox == []
    tasks._reconcile()
    assert sent() == [([sofia.email], "One")]


def test_what_another_worker_claims_in_between_is_not_sent_twice(sofia, asked, monkeypatch):
    now = notices.timezone.now
    assert Notice.objects.filter(sent_at=None).exists()

    def the_other_is_quicker():
        Notice.objects.filter(sent_at=None).update(sent_at=now())
        return now()

    monkeypatch.setattr(notices.timezone, "now", the_other_is_quicker)
    assert notices.send_waiting() == 0
    assert mail.outbox == []


@pytest.mark.parametrize(("code", "tried_again"), [(550, False), (450, True)])
def test_an_address_that_the_server_refuses_does_not_hold_up_the_others(
    asked, alice, sofia, monkeypatch, code, tried_again
):
    notices.send_waiting()
    mail.outbox.clear()
    for name in ("gone", "here"):
        notices.tell([person(name)], title=name, text="Something.", path="/")
    send = mail.backends.locmem.EmailBackend.send_messages

    def refuse(backend, messages):
        if messages[0].to == ["gone@example.org"]:
            raise smtplib.SMTPRecipientsRefused({"gone@example.org": (code, b"no such box")})
        return send(backend, messages)

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", refuse)
    assert notices.send_waiting() == 1
    assert sent() == [(["here@example.org"], "here")]
    monkeypatch.undo()
    assert notices.send_waiting() == int(tried_again)


def test_a_title_cannot_add_lines_to_an_e_mail_s_head(queued, worker_round):
    Release.objects.update(title="Tables\nBcc: all@example.org")
    with worker_round():
        assert execute(queued)
    assert mail.outbox[-1].subject == "Finished: Tables Bcc: all@example.org"


# --- the page ---------------------------------------------------------------------------------------------------------


def test_new_notices_stand_on_the_first_page_until_they_are_read_and_are_nobody_else_s(asked, as_, alice, bob, sofia):
    services.budgets.deny_request(request=asked, by=sofia, note="Too <b>much</b>.")
    assert "Denied" not in words(as_(bob).get("/")) + words(as_(bob).get("/notices/"))
    as_(bob).post("/notices/read/")
    client, title = as_(alice), "Denied: a budget of epsilon 3 for Survey"
    page = client.get("/")
    assert title in words(page)
    assert b"Too &lt;b&gt;much" in page.content
    assert title not in words(client.post("/notices/read/", follow=True))
    assert title in words(client.get("/notices/"))


def test_e_mail_can_be_turned_off_and_on_again_and_the_page_still_tells(as_, alice):
    client = as_(alice)
    for wants, title in (("no", "One"), ("", "Two"), ("yes", "Three")):
        client.post("/notices/mail/", {"wants_mail": wants} if wants else {})
        notices.tell([alice], title=title, text="Something.", path="/")
        assert notices.send_waiting() == int(wants == "yes")
    assert Notice.objects.for_home(alice).count() == 3
    assert sent() == [([alice.email], "Three")]
