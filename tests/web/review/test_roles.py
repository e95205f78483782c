"""Roles: what each lets people do, who gives them, and that every change is recorded."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.urls import reverse

from dpweb import settings as as_installed
from releases import services
from releases.models import Audience, AuditEvent, Dataset, HeldRole, Organisation, Role, Upload, role_rules
from tests.stack import Stack
from tests.web.conftest import CSV, give, person
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

URL = "/review/people/"


def held(user):
    return sorted(HeldRole.objects.filter(person=user).values_list("role", flat=True))


def changes():
    events = AuditEvent.objects.filter(action__in=("roles", "take role")).order_by("pk")
    return [(str(event.actor or event.who), event.name, event.detail) for event in events]


@pytest.fixture
def sent_file(tmp_path):
    """What charlie, who is no curator, sends all the same."""
    path = tmp_path / "t.csv"
    path.write_bytes(CSV)
    with path.open("rb") as file:
        yield {"title": "Mine", "table": file}


@pytest.fixture
def press(as_, sofia):
    """Give or take a role on the page, and what the page says then."""

    def pressed(user, by=sofia, **button):
        return as_(by).post(URL, {"person": user.pk, **button}, follow=True)

    return pressed


def test_a_new_account_is_an_analyst_unless_the_site_is_told_otherwise(settings, db):
    assert as_installed.NEW_ACCOUNT_ROLES == ["analyst"]
    dora = User.objects.create_user("dora")
    assert held(dora) == ["analyst"]
    HeldRole.objects.filter(person=dora).delete()
    dora.save()
    assert held(dora) == [], "saving an account again gives nothing back"
    for roles in (["analyst", "curator"], []):
        settings.NEW_ACCOUNT_ROLES = roles
        assert held(User.objects.create_user(f"emma{len(roles)}")) == roles


def test_the_first_superuser_is_an_administrator_and_that_is_recorded(db):
    call_command("createsuperuser", username="root", email="root@example.org", interactive=False, verbosity=0)
    assert held(User.objects.get()) == ["administrator", "analyst"]
    assert changes() == [("the command line", "root", "gave administrator, to a new superuser")]


@pytest.mark.parametrize("role", Role)
def test_each_role_is_good_for_its_own_and_a_closed_account_for_nothing(db, as_, role):
    may = (role_rules.may_ask, role_rules.may_upload, role_rules.may_review, role_rules.may_administer)
    rules = dict(zip((Role.ANALYST, Role.CURATOR, Role.REVIEWER, Role.ADMINISTRATOR), may, strict=True))
    pages = {Role.CURATOR: "upload", Role.REVIEWER: "review_queue", Role.ADMINISTRATOR: "organisation"}
    # The admin's flags are no role.
    user = person("dora", is_staff=True, is_superuser=True)
    HeldRole.objects.filter(person=user).delete()
    give(user, role)
    assert [each for each, rule in rules.items() if rule(user)] == [role]
    seen = [each for each, name in pages.items() if as_(user).get(reverse(name)).status_code == 200]
    assert seen == [each for each in pages if each == role]
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
    HeldRole.objects.filter(person=alice).delete()
    assert as_(alice).get(url).status_code == 200, "the dataset is hers"


SENTENCE = "You do not have the role curator, which is needed for uploading tables."


def test_a_file_that_is_sent_all_the_same_is_never_on_the_disc(as_, charlie, sent_file, monkeypatch):
    from releases.middleware import upload_limit

    monkeypatch.setattr(upload_limit.IncomingFileUploadHandler, "new_file", lambda *_, **__: pytest.fail("stored"))
    refused = as_(charlie).post(reverse("upload"), sent_file)
    assert refused.status_code == 403
    assert SENTENCE in words(refused)
    assert not Upload.objects.exists()


def test_a_program_of_an_analyst_s_is_told_the_rule(client, charlie, sent_file):
    bearer = {"Authorization": f"Bearer {services.tokens.make_token(user=charlie, name='a script')}"}
    refused = client.post("/api/datasets", sent_file, headers=bearer)
    said = refused.json()
    assert (refused.status_code, said["field"], said["value"]) == (403, "role", "analyst")
    assert said["rule"] == "must include curator for uploading tables"
    assert said["message"].startswith(SENTENCE)
    assert not Upload.objects.exists()


def test_no_service_takes_a_table_from_somebody_else(alice, charlie, upload_file):
    for service in (services.uploads.receive_upload, services.datasets.ingest_dataset):
        with pytest.raises(role_rules.NotAllowed, match="curator"):
            service(owner=charlie, title="Mine", source=upload_file())
    assert role_rules.may_upload(alice)
    HeldRole.objects.filter(person=alice, role="curator").delete()  # after she was read
    with pytest.raises(role_rules.NotAllowed):
        services.uploads.receive_upload(owner=alice, title="Mine", source=upload_file())
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


def test_an_administrator_who_does_not_review_sees_people_and_settings_alone(as_, asked):
    ada = person("ada", "administrator")
    shown = body(as_(ada).get(URL))
    assert reverse("organisation") in shown
    assert f'href="{reverse("review_queue")}"' not in shown
    for name, thing in (("review_queue", []), ("budget_request", [asked.pk])):
        assert as_(ada).get(reverse(name, args=thing)).status_code == 404
    assert not Organisation.current().lets_decide(ada)
    assert ada not in Organisation.current().deciders


def test_a_form_that_names_nobody_or_no_role_changes_nothing(as_, sofia, charlie):
    nobody = [{"person": number, "give": "curator"} for number in ("", "x", "9" * 30)]
    nobody.append({"person": "-1", "take": "curator"})
    for sent in ({}, *nobody, *({"person": charlie.pk, "give": role} for role in ("owner", ""))):
        answer = as_(sofia).post(URL, sent)
        assert answer.status_code == 400
        assert "The form names no account, or no role." in words(answer)
        assert changes() == []


def run(*arguments):
    said = StringIO()
    call_command("roles", *arguments, stdout=said)
    return said.getvalue().strip()


BEFORE = """
from django.contrib.auth.models import Group
from releases.models import Organisation, Upload
alice, sofia = people()
budgeted("1", [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}], TABLE)
group = Group.objects.create(name="Deciding")
for name, flags in {"bob": {}, "sent": {}, "member": {}, "staff": {"is_staff": True}, "closed": {"is_staff": True},
                    "root": {"is_superuser": True}, "both": {"is_staff": True, "is_superuser": True}}.items():
    User.objects.create(username=name, is_active=name != "closed", **flags)
User.objects.get(username="member").groups.add(group)
Organisation.objects.create(upload_cap_bytes=2**30, reviewers=group)
Upload.objects.create(title="Refused", owner=User.objects.get(username="sent"), size=1, state="refused")
"""


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_an_upgrade_leaves_everybody_what_they_could_do_but_that_only_curators_upload(database, request, tmp_path):
    url = "" if database == "sqlite" else request.getfixturevalue("postgres_database")
    stack = Stack(tmp_path, database_url=url)
    try:
        stack.migrate()
        table = tmp_path / "t.csv"
        table.write_text("sex\nf\nm\n")
        stack.run(BEFORE.replace("TABLE", repr(str(table))))
        for version in ("0027", "0028"):
            done = stack.manage("migrate", "releases", version)
            assert done.returncode == 0, done.stderr
        found = stack.run("answer = sorted([str(each.person), each.role] for each in HeldRole.objects.all())")
    finally:
        stack.stop()
    assert [f"{name} {role}" for name, role in found if role != "analyst"] == [
        *("alice curator", "both administrator", "both reviewer", "closed administrator", "closed reviewer"),
        *("member reviewer", "root administrator", "sent curator", "staff administrator", "staff reviewer"),
    ]
    analysts = {name for name, role in found if role == "analyst"}
    assert analysts == {"alice", "sofia", "bob", "sent", "member", "staff", "closed", "root", "both"}


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
    assert run("charlie", "--take", "reviewer") == "charlie: analyst, administrator"
    assert [(who, what) for who, _, what in changes()] == [
        ("the command line", "gave administrator"),
        ("the command line", "gave reviewer"),
        ("the command line", "took reviewer"),
    ]
    with pytest.raises(CommandError, match="No account is called 'nobody'"):
        run("nobody", "--give", "curator")
    run("charlie", "--take", "administrator")
    with pytest.raises(CommandError, match="sofia is the only administrator"):
        run("sofia", "--give", "curator", "--take", "administrator")
    assert held(sofia) == ["administrator", "analyst", "reviewer"]
