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
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

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


# --- what a new account is --------------------------------------------------------------------------------------------


def test_a_new_account_is_an_analyst_unless_the_site_is_told_otherwise(settings, db):
    assert as_installed.NEW_ACCOUNT_ROLES == ["analyst"]
    assert held(User.objects.create_user("dora")) == ["analyst"]
    settings.NEW_ACCOUNT_ROLES = ["analyst", "curator"]
    assert held(User.objects.create_user("emma")) == ["analyst", "curator"]
    settings.NEW_ACCOUNT_ROLES = []
    assert held(User.objects.create_user("fred")) == []


def test_the_first_superuser_is_an_administrator_and_that_is_recorded(db):
    call_command("createsuperuser", username="root", email="root@example.org", interactive=False, verbosity=0)
    assert held(User.objects.get()) == ["administrator", "analyst"]
    assert changes() == [("the command line", "root", "gave administrator, to a new superuser")]


def test_saving_an_account_again_gives_nothing_back(alice):
    HeldRole.objects.filter(person=alice).delete()
    alice.save()
    assert held(alice) == []


@pytest.mark.parametrize("role", Role)
def test_each_role_is_good_for_its_own_and_a_closed_account_for_nothing(db, role):
    rules = {
        Role.ANALYST: role_rules.may_ask,
        Role.CURATOR: role_rules.may_upload,
        Role.REVIEWER: role_rules.may_review,
        Role.ADMINISTRATOR: role_rules.may_administer,
    }
    user = person("dora")
    HeldRole.objects.filter(person=user).delete()
    give(user, role)
    assert [each for each, rule in rules.items() if rule(user)] == [role]
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert not any(rule(User.objects.get(pk=user.pk)) for rule in rules.values())


def test_staff_and_superusers_of_the_admin_have_no_role_by_that(as_, db):
    user = person("dora", is_staff=True)
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    for name in ("review_queue", "organisation", "people"):
        assert as_(user).get(reverse(name)).status_code == 404
    assert as_(user).get(reverse("upload")).status_code == 403


# --- analysts ---------------------------------------------------------------------------------------------------------


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


# --- curators ---------------------------------------------------------------------------------------------------------

SENTENCE = "You do not have the role curator, which is needed for uploading tables."


def test_an_analyst_is_told_in_a_sentence_that_uploading_is_not_theirs(as_, charlie):
    page = as_(charlie).get(reverse("upload"))
    assert page.status_code == 403
    assert f"{SENTENCE} An administrator of this site can give it to you." in words(page)


@pytest.mark.parametrize("path", ["/", "/datasets/"])
def test_only_curators_see_the_way_to_it(as_, alice, charlie, path):
    link = f'href="{reverse("upload")}"'
    assert link in body(as_(alice).get(path))
    page = as_(charlie).get(path)
    assert link not in body(page)
    assert "is for curators: an administrator of this site can make you one." in words(page)


def test_a_file_that_is_sent_all_the_same_is_never_on_the_disc(as_, charlie, tmp_path, settings, monkeypatch):
    from releases.middleware import upload_limit

    monkeypatch.setattr(upload_limit.IncomingFileUploadHandler, "new_file", lambda *_, **__: pytest.fail("stored"))
    table = tmp_path / "t.csv"
    table.write_bytes(CSV)
    with table.open("rb") as file:
        refused = as_(charlie).post(reverse("upload"), {"title": "Mine", "table": file})
    assert refused.status_code == 403
    assert SENTENCE in words(refused)
    assert not Upload.objects.exists()


def test_a_program_of_an_analyst_s_is_told_the_rule(client, charlie, tmp_path):
    table = tmp_path / "t.csv"
    table.write_bytes(CSV)
    bearer = {"Authorization": f"Bearer {services.tokens.make_token(user=charlie, name='a script')}"}
    with table.open("rb") as file:
        refused = client.post("/api/datasets", {"title": "Mine", "table": file}, headers=bearer)
    assert refused.status_code == 403
    said = refused.json()
    assert (said["field"], said["value"]) == ("role", "analyst")
    assert said["rule"] == "must include curator for uploading tables"
    assert said["message"].startswith(SENTENCE)
    assert not Upload.objects.exists()


def test_no_service_takes_a_table_from_somebody_else(charlie, upload_file):
    for service in (services.uploads.receive_upload, services.datasets.ingest_dataset):
        with pytest.raises(role_rules.NotAllowed, match="curator"):
            service(owner=charlie, title="Mine", source=upload_file())
    assert not Upload.objects.exists()
    assert not Dataset.objects.exists()


def test_a_role_taken_after_the_person_was_read_is_missed_by_nobody(alice, upload_file):
    assert role_rules.may_upload(alice)
    HeldRole.objects.filter(person=alice, role="curator").delete()
    with pytest.raises(role_rules.NotAllowed):
        services.uploads.receive_upload(owner=alice, title="Mine", source=upload_file())


def test_whoever_is_no_curator_any_more_keeps_working_on_their_datasets(dataset, as_, alice):
    HeldRole.objects.filter(person=alice).delete()
    assert as_(alice).get(reverse("dataset_detail", args=[dataset.pk])).status_code == 200


# --- the page ---------------------------------------------------------------------------------------------------------


def test_an_administrator_gives_and_takes_roles_and_every_change_is_recorded(press, charlie, sofia):
    assert "charlie is curator now." in words(press(charlie, give="curator"))
    assert held(charlie) == ["analyst", "curator"]
    page = press(charlie, take="analyst")
    assert "charlie is no longer analyst." in words(page)
    assert "Recent changes" in words(page)
    assert held(charlie) == ["curator"]
    assert changes() == [("sofia", "charlie", "gave curator"), ("sofia", "charlie", "took analyst")]


def test_what_is_given_holds_at_the_next_request(press, as_, charlie):
    for role, name in (("curator", "upload"), ("reviewer", "review_queue"), ("administrator", "organisation")):
        assert as_(charlie).get(reverse(name)).status_code in (403, 404)
        press(charlie, give=role)
        assert as_(charlie).get(reverse(name)).status_code == 200
        press(charlie, take=role)
        assert as_(charlie).get(reverse(name)).status_code in (403, 404)


def test_giving_twice_changes_and_records_nothing(press, charlie):
    press(charlie, give="curator")
    press(charlie, give="curator")
    press(charlie, take="reviewer")
    assert changes() == [("sofia", "charlie", "gave curator")]


def test_the_last_administrator_stays_one(press, sofia):
    page = press(sofia, take="administrator")
    assert "sofia is the only administrator, and without one nobody could give roles." in words(page)
    assert "administrator" in held(sofia)
    tess = person("tess", "administrator")
    User.objects.filter(pk=tess.pk).update(is_active=False)
    assert "the only administrator" in words(press(sofia, take="administrator")), "a closed account is nobody"
    User.objects.filter(pk=tess.pk).update(is_active=True)
    press(sofia, take="administrator", follow=False)
    assert held(sofia) == ["analyst", "reviewer"]


def test_a_reviewer_gives_no_role_through_the_service_either(alice):
    rita = person("rita", "reviewer")
    for change in (services.roles.give_role, services.roles.take_role):
        with pytest.raises(role_rules.NotAllowed, match="administrator"):
            change(person=alice, role=Role.CURATOR, by=rita)
    assert held(alice) == ["analyst", "curator"]


def test_an_administrator_who_does_not_review_sees_people_and_settings_alone(as_, db):
    ada = person("ada", "administrator")
    page = as_(ada).get(URL)
    assert page.status_code == 200
    shown = body(page)
    assert reverse("organisation") in shown
    assert f'href="{reverse("review_queue")}"' not in shown
    assert "Administration" in words(page)
    assert as_(ada).get(reverse("review_queue")).status_code == 404


@pytest.mark.parametrize("wanted", ["LIE", "charlie@example.org", "Tuna", "curator"])
def test_people_are_found_by_name_address_and_role(as_, sofia, alice, charlie, wanted):
    User.objects.filter(pk=charlie.pk).update(last_name="Tunabrook")
    page = as_(sofia).get(URL, {"q": wanted})
    shown = words(page).partition("Search")[2]
    assert ("charlie@example.org" in shown) == (wanted != "curator")
    assert ("alice@example.org" in shown) == (wanted == "curator")
    assert field_value(page, "q") == wanted


def test_a_search_that_finds_nobody_says_so(as_, sofia):
    assert "fits “<nobody>”" in words(as_(sofia).get(URL, {"q": "<nobody>"})).replace("&lt;", "<").replace("&gt;", ">")


def test_the_list_is_paged_and_a_change_leads_back_to_the_same_page(as_, sofia):
    for number in range(60):
        User.objects.create(username=f"person {number:02}")
    client = as_(sofia)
    assert "person 49" in words(client.get(URL))
    assert "person 50" not in words(client.get(URL))
    last = User.objects.get(username="person 59")
    address = f"{URL}?page=2&q=person"
    assert client.post(address, {"person": last.pk, "give": "curator"}).url == address
    assert "person 59" in words(client.get(address))
    assert held(last) == ["analyst", "curator"]


@pytest.mark.parametrize(
    "sent",
    [{}, {"person": "", "give": "curator"}, {"person": "x", "give": "curator"}, {"person": "9" * 30, "give": "curator"},
     {"person": "-1", "take": "curator"}, {"give": "owner"}, {"give": ""}],
)  # fmt: skip
def test_a_form_that_names_nobody_or_no_role_changes_nothing(as_, sofia, charlie, sent):
    answer = as_(sofia).post(URL, {"person": charlie.pk, **sent} if "person" not in sent and sent else sent)
    assert answer.status_code == 400
    assert "The form names no account, or no role." in words(answer)
    assert changes() == []


# --- without the page -------------------------------------------------------------------------------------------------


def run(*arguments):
    said = StringIO()
    call_command("roles", *arguments, stdout=said)
    return said.getvalue().strip()


def test_whoever_has_a_shell_makes_the_first_administrator(charlie):
    assert run("charlie", "--give", "administrator", "reviewer") == "charlie: analyst, reviewer, administrator"
    assert run("charlie", "--take", "reviewer") == "charlie: analyst, administrator"
    assert run("charlie") == "charlie: analyst, administrator"
    assert [(who, what) for who, _, what in changes()] == [
        ("the command line", "gave administrator"),
        ("the command line", "gave reviewer"),
        ("the command line", "took reviewer"),
    ]


def test_the_command_says_what_it_cannot_do_and_does_nothing_of_it(sofia):
    with pytest.raises(CommandError, match="No account is called 'nobody'"):
        run("nobody", "--give", "curator")
    with pytest.raises(CommandError, match="sofia is the only administrator"):
        run("sofia", "--give", "curator", "--take", "administrator")
    assert held(sofia) == ["administrator", "analyst", "reviewer"]


# --- deciding ---------------------------------------------------------------------------------------------------------


def test_an_administrator_decides_no_request_and_is_told_of_none(asked, as_):
    ada = person("ada", "administrator")
    assert as_(ada).get(reverse("budget_request", args=[asked.pk])).status_code == 404
    assert not Organisation.current().lets_decide(ada)
    assert ada not in Organisation.current().deciders


# --- installations of before ------------------------------------------------------------------------------------------

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
    assert [tuple(each) for each in found if each[1] != "analyst"] == [
        ("alice", "curator"),
        ("both", "administrator"),
        ("both", "reviewer"),
        ("closed", "administrator"),
        ("closed", "reviewer"),
        ("member", "reviewer"),
        ("root", "administrator"),
        ("sent", "curator"),
        ("staff", "administrator"),
        ("staff", "reviewer"),
    ]
    analysts = {name for name, role in found if role == "analyst"}
    assert analysts == {"alice", "sofia", "bob", "sent", "member", "staff", "closed", "root", "both"}
