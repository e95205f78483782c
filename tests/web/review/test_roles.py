"""Roles: what each lets people do, who gives them, and that every change is recorded."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse

from releases import services
from releases.middleware import upload_limit
from releases.models import Audience, AuditEvent, Dataset, HeldRole, Role, Upload, role_rules
from tests.web.conftest import CSV, give, person
from tests.web.pages import words

URL = "/review/people/"


def held(user):
    return sorted(HeldRole.objects.filter(person=user).values_list("role", flat=True))


def changes():
    events = AuditEvent.objects.filter(action__in=("roles", "take role")).order_by("pk")
    return [(str(event.actor or event.who), event.name, event.detail) for event in events]


@pytest.fixture
def press(as_, sofia):
    """Give or take a role on the page, and what the page says then."""

    def pressed(user, by=sofia, **button):
        return as_(by).post(URL, {"person": user.pk, **button}, follow=True)

    return pressed


def test_a_new_account_is_an_analyst_unless_the_site_is_told_otherwise(settings, db):
    dora = User.objects.create_user("dora")
    assert held(dora) == ["analyst"]
    HeldRole.objects.filter(person=dora).delete()
    dora.save()
    assert held(dora) == [], "saving an account again gives nothing back"
    settings.NEW_ACCOUNT_ROLES = []
    assert held(User.objects.create_user("emma")) == []


def test_the_first_superuser_is_an_administrator_and_that_is_recorded(db):
    call_command("createsuperuser", username="root", email="root@example.org", interactive=False, verbosity=0)
    assert held(User.objects.get()) == ["administrator", "analyst"]
    assert changes() == [("the command line", "root", "gave administrator, to a new superuser")]


@pytest.mark.parametrize("role", Role)
def test_each_role_is_good_for_its_own_and_a_closed_account_for_nothing(db, role):
    may = (role_rules.may_ask, role_rules.may_upload, role_rules.may_review, role_rules.may_administer)
    rules = dict(zip((Role.ANALYST, Role.CURATOR, Role.REVIEWER, Role.ADMINISTRATOR), may, strict=True))
    # The admin's flags are no role.
    user = person("dora", is_staff=True, is_superuser=True)
    HeldRole.objects.filter(person=user).delete()
    give(user, role)
    assert [each for each, rule in rules.items() if rule(user)] == [role]
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert not any(rule(User.objects.get(pk=user.pk)) for rule in rules.values())


def test_only_analysts_ask_in_a_session_that_is_open_to_everybody(make_dataset, carry_out, alice, charlie, as_):
    live = services.sessions.draft_session(dataset=make_dataset(epsilon="5"), by=alice, title="", epsilon="1")
    carry_out(live)
    services.sessions.let_ask(session=live.session, audience=Audience.EVERYBODY, by=alice)
    url = reverse("session", args=[live.pk])
    assert as_(charlie).get(url).status_code == 200
    HeldRole.objects.filter(person=charlie).delete()
    assert as_(charlie).get(url).status_code == 404


def test_a_file_that_is_sent_all_the_same_is_never_on_the_disc(as_, charlie, monkeypatch):
    monkeypatch.setattr(upload_limit.IncomingFileUploadHandler, "new_file", lambda *_, **__: pytest.fail("stored"))
    sent = {"title": "Mine", "table": SimpleUploadedFile("t.csv", CSV)}
    refused = as_(charlie).post(reverse("upload"), sent)
    assert refused.status_code == 403
    assert "You do not have the role curator, which is needed for uploading tables." in words(refused)
    assert not Upload.objects.exists()


def test_no_service_takes_a_table_from_somebody_else(alice, charlie, upload_file):
    for service in (services.uploads.receive_upload, services.datasets.ingest_dataset):
        with pytest.raises(role_rules.NotAllowed, match="curator"):
            service(owner=charlie, title="Mine", source=upload_file())
    assert role_rules.may_upload(alice)
    HeldRole.objects.filter(person=alice, role="curator").delete()  # after she was read
    for service in (services.uploads.receive_upload, services.datasets.ingest_dataset):
        with pytest.raises(role_rules.NotAllowed):
            service(owner=alice, title="Mine", source=upload_file())
    assert not Upload.objects.exists()
    assert not Dataset.objects.exists()


def test_the_last_administrator_stays_one(press, sofia):
    press(sofia, take="administrator")
    assert "administrator" in held(sofia)
    tess = person("tess", "administrator", is_active=False)
    press(sofia, take="administrator")
    assert "administrator" in held(sofia), "a closed account is nobody"
    User.objects.filter(pk=tess.pk).update(is_active=True)
    press(sofia, take="administrator")
    assert held(sofia) == ["analyst", "reviewer"]


def test_a_reviewer_gives_no_role_through_the_service_either(alice):
    rita = person("rita", "reviewer")
    for change in (services.roles.give_role, services.roles.take_role):
        with pytest.raises(role_rules.NotAllowed, match="administrator"):
            change(person=alice, role=Role.CURATOR, by=rita)
    assert held(alice) == ["analyst", "curator"]


def run(*arguments):
    said = StringIO()
    call_command("roles", *arguments, stdout=said)
    return said.getvalue().strip()


def test_an_administrator_gives_and_takes_roles_which_hold_at_once_and_every_change_is_recorded(
    press, as_, charlie, sofia
):
    expected = []
    for role, name in (("curator", "upload"), ("reviewer", "review_queue"), ("administrator", "organisation")):
        assert as_(charlie).get(reverse(name)).status_code in (403, 404)
        for _ in range(2):
            press(charlie, give=role)
        assert held(charlie) == sorted(["analyst", role])
        assert as_(charlie).get(reverse(name)).status_code == 200
        for _ in range(2):
            press(charlie, take=role)
        assert as_(charlie).get(reverse(name)).status_code in (403, 404)
        expected += [("sofia", "charlie", f"gave {role}"), ("sofia", "charlie", f"took {role}")]
    assert changes() == expected, "giving twice is one change"


def test_the_command_gives_and_takes_roles_and_does_nothing_of_what_it_cannot_do(charlie, sofia):
    assert run("charlie", "--give", "administrator", "reviewer") == "charlie: analyst, reviewer, administrator"
    assert run("charlie", "--take", "administrator") == "charlie: analyst, reviewer"
    assert {who for who, _, _ in changes()} == {"the command line"}
    with pytest.raises(CommandError, match="No account is called 'nobody'"):
        run("nobody", "--give", "curator")
    with pytest.raises(CommandError, match="sofia is the only administrator"):
        run("sofia", "--give", "curator", "--take", "administrator")
    assert held(sofia) == ["administrator", "analyst", "reviewer"]
