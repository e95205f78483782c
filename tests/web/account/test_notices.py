"""Notices: who is told what, once, on their page and by e-mail; never anything that was not public or paid for."""

import smtplib

from django.core import mail
from django.urls import reverse

from releases import services
from releases.models import LedgerEntry, Notice
from releases.notifications import messages as notices
from tests.web.conftest import give, person
from tests.web.pages import words
from tests.web.steps import ask_for, execute, rule, submit


def sent():
    """(to, subject) of the e-mails since the last look."""
    found = [(message.to, message.subject) for message in mail.outbox]
    mail.outbox.clear()
    return found


def test_a_request_is_told_to_everybody_who_may_review_and_to_the_organisation(
    make_dataset, alice, sofia, worker_round, settings
):
    settings.ALERT_ADDRESSES = ["privacy@example.org"]
    rita = person("rita", "reviewer")
    person("gone", "reviewer", is_active=False)
    dataset = make_dataset(epsilon="")
    with worker_round():
        request = ask_for(dataset, alice, reason="secret plans")
    assert reverse("budget_request", args=[request.pk]) in mail.outbox[0].body
    assert "secret plans" not in mail.outbox[0].body
    assert sent() == [
        ([to], "To review: a budget of epsilon 3 for Survey") for to in (sofia.email, rita.email, "privacy@example.org")
    ]


def test_only_the_chosen_group_is_told_and_never_the_person_who_asked(
    make_dataset, group, alice, bob, sofia, worker_round
):
    rule(reviewers=group)
    for member in (alice, bob):
        give(member, "reviewer")
    with worker_round():
        ask_for(make_dataset(epsilon=""), alice)
    assert [to for to, _ in sent()] == [[bob.email]]


def test_what_is_decided_no_longer_asks_the_reviewers(sofia, asked):
    assert Notice.objects.filter(person=sofia, sent_at=None).count() == 1
    services.budgets.deny_request(request=asked, by=sofia, note="No.")
    assert not Notice.objects.for_home(sofia).exists()
    assert not Notice.objects.filter(person=sofia, sent_at=None).exists(), "no e-mail asks for what is decided"


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


def test_what_another_worker_claims_in_between_is_not_sent_twice(sofia, asked, monkeypatch):
    now = notices.timezone.now
    assert Notice.objects.filter(sent_at=None).exists()

    def the_other_is_quicker():
        Notice.objects.filter(sent_at=None).update(sent_at=now())
        return now()

    monkeypatch.setattr(notices.timezone, "now", the_other_is_quicker)
    assert notices.send_waiting() == 0
    assert mail.outbox == []


def test_an_address_that_the_server_refuses_does_not_hold_up_the_others(db, monkeypatch):
    for name in ("gone", "here"):
        notices.tell([person(name)], title=name, text="Something.", path="/")
    send = mail.backends.locmem.EmailBackend.send_messages

    def refuse(backend, messages):
        if messages[0].to == ["gone@example.org"]:
            raise smtplib.SMTPRecipientsRefused({"gone@example.org": (550, b"no such box")})
        return send(backend, messages)

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", refuse)
    assert notices.send_waiting() == 1
    assert sent() == [(["here@example.org"], "here")]
    monkeypatch.undo()
    assert notices.send_waiting() == 0


def test_new_notices_are_on_the_first_page_until_they_are_read_and_are_nobody_else_s(asked, as_, alice, bob, sofia):
    services.budgets.deny_request(request=asked, by=sofia, note="Too much.")
    assert "Denied" not in words(as_(bob).get("/")) + words(as_(bob).get("/notices/"))
    as_(bob).post("/notices/read/")
    client, title = as_(alice), "Denied: a budget of epsilon 3 for Survey"
    assert title in words(client.get("/"))
    assert title not in words(client.post("/notices/read/", follow=True))


def test_e_mail_can_be_turned_off_and_the_page_still_tells(as_, alice):
    as_(alice).post("/notices/mail/", {"wants_mail": "no"})
    notices.tell([alice], title="One", text="Something.", path="/")
    assert notices.send_waiting() == 0
    assert Notice.objects.for_home(alice).count() == 1
