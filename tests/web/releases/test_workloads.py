"""Workloads: saved from a draft, edited version by version, shared, and asked of other datasets."""

from __future__ import annotations

import json
import uuid
from importlib import import_module

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.universe import Attribute
from releases.engine.errors import InvalidInput
from releases.models import AuditEvent, Release, Workload, WorkloadVersion
from releases.views.releases.workloads import column_text
from tests.web.conftest import COLUMNS, CSV, give, write_json
from tests.web.pages import body, chosen, field_value, words

pytestmark = pytest.mark.django_db

AGE, SEX = COLUMNS
TABLES = {"version": 1, "queries": [{"marginal": ["age", "sex"]}, {"count": {"age": {"from": 25, "to": 45}}}]}
OTHER = {"version": 1, "queries": [{"prefix": "age"}]}


@pytest.fixture
def workload(draft, alice, group):
    """What alice's draft asks, saved and shared with her group."""
    services.releases.set_questions(release=draft, workload=TABLES)
    return services.workloads.save_workload(release=draft, name="Yearly tables", by=alice, group=group)


@pytest.fixture
def make_other(alice, group, upload_file):
    """Another dataset of alice's, with columns of other names or kinds."""

    def make(*columns):
        header = ",".join(each["name"] for each in columns).encode()
        rows = {"age": b"31", "sex": b"male"}
        values = b",".join(rows["sex" if "categories" in each else "age"] for each in columns)
        dataset = services.datasets.ingest_dataset(
            owner=alice, title="Next year", source=upload_file(header + b"\n" + values + b"\n"), group=group
        )
        services.datasets.declare_universe(dataset=dataset, columns=list(columns), by=alice)
        services.datasets.declare_protection(
            dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE, by=alice
        )
        return dataset

    return make


def page(name, *arguments):
    return reverse(name, args=[getattr(each, "pk", each) for each in arguments])


# Saving


def test_a_draft_s_questions_are_saved_under_a_name(draft, as_, alice, group):
    client = as_(alice)
    assert reverse("save_workload", args=[draft.pk]) in body(client.get(page("questions", draft)))
    assert client.get(page("save_workload", draft)).status_code == 200
    typed = {"name": " Yearly tables ", "description": "For the yearbook.", "group": group.pk}
    shown = client.post(page("save_workload", draft), typed, follow=True)
    saved = Workload.objects.get()
    assert (saved.name, saved.description, saved.owner, saved.group) == (
        "Yearly tables",
        "For the yearbook.",
        alice,
        group,
    )
    assert saved.latest.questions == draft.workload
    assert [each["name"] for each in saved.latest.columns] == ["age", "sex"]
    assert "For the yearbook." in words(shown)
    assert "18 to 65 in 5 bins" in words(shown)
    draft.refresh_from_db()
    assert draft.workload_version == saved.latest
    assert AuditEvent.objects.get(action="save").detail == "version 1, shared with Survey team"


def test_only_the_columns_that_the_questions_read_are_saved(draft, alice):
    services.releases.set_questions(release=draft, workload=OTHER)
    saved = services.workloads.save_workload(release=draft, name="Ages", by=alice)
    assert [each["name"] for each in saved.latest.columns] == ["age"]


@pytest.mark.parametrize(
    ("name", "said"), [("", "nothing was typed"), ("x" * 201, "at most 200"), ("a\nb", "one line")]
)
def test_a_name_that_cannot_be_is_refused_and_nothing_typed_is_lost(draft, as_, alice, name, said):
    refused = as_(alice).post(page("save_workload", draft), {"name": name, "description": "Kept."})
    assert refused.status_code == 400
    assert said in words(refused)
    assert field_value(refused, "description") == "Kept."
    assert not Workload.objects.exists()


def test_one_person_has_one_workload_of_a_name_and_another_person_may_have_it_too(workload, draft, as_, alice, bob):
    refused = as_(alice).post(page("save_workload", draft), {"name": "Yearly tables"})
    assert refused.status_code == 400
    assert "is the name of another workload" in words(refused)
    services.workloads.save_workload(release=draft, name="Yearly tables", by=bob)
    assert Workload.objects.count() == 2


def test_a_group_of_others_is_refused(draft, as_, alice):
    board = Group.objects.create(name="Board")
    refused = as_(alice).post(page("save_workload", draft), {"name": "Mine", "group": board.pk})
    assert refused.status_code == 400
    assert not Workload.objects.exists()
    with pytest.raises(InvalidInput, match="must be one that you belong to"):
        services.workloads.save_workload(release=draft, name="Mine", by=alice, group=board)


def test_a_draft_without_questions_has_none_to_save(dataset, as_, alice):
    empty = services.releases.draft_release(dataset=dataset, by=alice)
    with pytest.raises(services.release_inputs.Refusal, match="Add at least one question"):
        services.workloads.save_workload(release=empty, name="Mine", by=alice)
    assert as_(alice).get(page("save_workload", empty)).status_code == 302


def test_a_finished_release_s_questions_are_saved_as_they_were_planned(published, dataset, alice):
    services.datasets.declare_universe(dataset=dataset, columns=[{**AGE, "edges": [18, 65]}], by=alice)
    saved = services.workloads.save_workload(release=Release.objects.get(pk=published.pk), name="As it was", by=alice)
    assert saved.latest.columns[0]["edges"] == AGE["edges"]


# Versions


def test_editing_the_questions_makes_the_next_version_and_leaves_a_release_as_it_is(workload, draft, as_, alice):
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    before = Release.objects.values("plan", "workload", "workload_version").get(pk=draft.pk)
    url = page("edit_workload", workload)
    form = as_(alice).get(url)
    assert json.loads(field_value(form, "workload")) == workload.latest.questions
    typed = {"name": "Yearly tables", "description": "", "workload": json.dumps(OTHER), "since": "1"}
    shown = as_(alice).post(url, typed, follow=True)
    assert "Saved as version 2." in words(shown)
    first, second = workload.versions.order_by("number")
    assert (first.questions, second.questions) == (before["workload"], OTHER)
    assert Release.objects.values("plan", "workload", "workload_version").get(pk=draft.pk) == before
    assert services.execution.execute_release(release_id=draft.pk)
    draft.refresh_from_db()
    assert draft.result["receipt"]["workload"] == before["workload"]
    assert as_(alice).get(page("workload", workload), {"version": "1"}).context["version"] == first
    assert as_(alice).get(page("workload", workload), {"version": "3"}).status_code == 404


def test_other_words_make_no_version(workload, as_, alice):
    typed = {"name": "Tables", "description": "Why.", "workload": json.dumps(TABLES), "since": "1"}
    as_(alice).post(page("edit_workload", workload), typed)
    workload.refresh_from_db()
    assert (workload.name, workload.description, workload.latest.number) == ("Tables", "Why.", 1)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ('{"version": 1, "queries": [{"prefix": "region"}]}', "must name a declared column"),
        ('{"version": 1, "queries": []}', "at least one query"),
        ("nothing", "is not JSON"),
        ('{"version": 1, "queries": [{"largest_error": {"file": "answers.csv"}}]}', "largest_error"),
    ],
)
def test_questions_that_break_a_rule_are_refused_and_kept_in_the_form(workload, as_, alice, typed, said):
    form = {"name": "Yearly tables", "workload": typed, "since": "1"}
    refused = as_(alice).post(page("edit_workload", workload), form)
    assert refused.status_code == 400
    assert said in words(refused)
    assert field_value(refused, "workload") == typed
    assert workload.versions.count() == 1


def test_who_edits_what_somebody_else_has_changed_meanwhile_is_told(workload, as_, alice, bob):
    services.workloads.edit_workload(workload=workload, by=bob, since=1, questions=OTHER)
    typed = {"name": "Mine", "workload": json.dumps(TABLES), "since": "1"}
    refused = as_(alice).post(page("edit_workload", workload), typed)
    assert refused.status_code == 400
    assert "Version 2 was made by bob" in words(refused)
    assert workload.versions.count() == 2


def test_the_database_refuses_to_change_a_version(workload):
    with pytest.raises(DatabaseError, match="never changes"), transaction.atomic():
        WorkloadVersion.objects.update(questions=OTHER)


def test_a_changed_draft_is_saved_as_the_next_version(workload, draft, as_, alice):
    services.releases.set_questions(release=draft, workload=OTHER)
    assert Release.objects.get(pk=draft.pk).workload_version is None, "it asks something else now"
    shown = as_(alice).post(page("save_workload", draft), {"workload": workload.pk}, follow=True)
    assert "version 2 asks what this draft asks" in words(shown)
    assert workload.latest.questions == OTHER
    again = services.workloads.save_version(workload=workload, release=draft, by=alice)
    assert again.number == 2


def test_a_draft_keeps_its_workload_while_it_asks_the_same(workload, draft, alice):
    services.releases.set_questions(release=draft, workload=TABLES)
    services.releases.set_choice(release=draft, epsilon="0.5", mechanism_name="laplace-queries")
    draft.refresh_from_db()
    assert draft.workload_version == workload.latest
    services.releases.set_questions(release=draft, workload=None)
    draft.refresh_from_db()
    assert draft.workload_version is None


def test_a_submitted_release_stays_with_its_workload(workload, draft, alice):
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    with pytest.raises(services.release_inputs.Refusal, match="submitted with a workload already"):
        services.workloads.save_workload(release=draft, name="Another", by=alice)


def test_another_release_like_it_is_of_the_same_workload(workload, draft, as_, alice):
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    as_(alice).post(page("new_release", draft.dataset), {"like": draft.pk})
    assert Release.objects.latest("created_at").workload_version == workload.latest


def test_who_may_not_see_the_workload_of_a_release_plans_another_without_it(workload, draft, as_, alice, bob):
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    services.workloads.share_workload(workload=workload, group=None, by=alice)
    assert "Yearly tables" not in words(as_(bob).get(page("release_detail", draft)))
    as_(bob).post(page("new_release", draft.dataset), {"like": draft.pk})
    another = Release.objects.latest("created_at")
    assert (another.workload, another.workload_version) == (draft.workload, None)


def test_a_workload_is_deleted_by_its_owner_until_a_release_was_submitted_with_it(workload, draft, as_, alice, bob):
    url = page("discard_workload", workload)
    assert "deleted by alice alone" in words(as_(bob).post(url, follow=True))
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    assert "so it is kept" in words(as_(alice).post(url, follow=True))
    Release.objects.filter(pk=draft.pk).update(state="draft")
    as_(alice).post(url)
    assert not Workload.objects.exists()
    draft.refresh_from_db()
    assert (draft.workload_version, draft.workload) == (None, TABLES)


# Use on a dataset


def test_columns_of_the_same_names_fit_and_the_draft_asks_the_same(workload, make_other, as_, alice):
    other = make_other(SEX, AGE)
    shown = as_(alice).get(page("use_workload", workload), {"dataset": other.pk})
    assert "Every column that the workload needs is there." in words(shown)
    typed = {"dataset": other.pk, "version": "1", "column.age": "age", "column.sex": "sex", "action": "use"}
    made = as_(alice).post(page("use_workload", workload), typed)
    draft = Release.objects.get(dataset=other)
    assert made.url == page("questions", draft)
    assert (draft.title, draft.workload_version) == ("Yearly tables", workload.latest)
    assert draft.workload["queries"][0] == {"marginal": ["sex", "age"]}, "in the order of this dataset"


def test_a_renamed_column_is_suggested_and_the_questions_name_it(workload, make_other, as_, alice):
    other = make_other({**AGE, "name": "years"}, SEX, {**AGE, "name": "income", "edges": [0, 10]})
    shown = as_(alice).get(page("use_workload", workload), {"dataset": other.pk})
    assert (chosen(shown, "column.age"), chosen(shown, "column.sex")) == ("years", "sex")
    assert "under another name" in words(shown)
    assert services.workloads.suggested_columns(workload.latest, other.universe) == {"age": "years", "sex": "sex"}
    draft = services.workloads.use_workload(version=workload.latest, dataset=other, by=alice, columns={"age": "years"})
    assert draft.workload["queries"] == [
        {"marginal": ["years", "sex"]},
        {"count": {"years": {"from": 25, "to": 45}}},
    ]


def test_names_that_changed_places_are_mapped_at_once(draft, make_other, alice):
    wide = {**AGE, "name": "income", "edges": [0, 5, 9]}
    both = make_other(AGE, wide)
    asked = services.releases.draft_release(dataset=both, by=alice)
    services.releases.set_questions(
        release=asked, workload={"version": 1, "queries": [{"prefix": "age"}, {"count": {"income": {"to": 5}}}]}
    )
    saved = services.workloads.save_workload(release=asked, name="Swapped", by=alice)
    swapped = make_other({**AGE, "name": "income"}, {**wide, "name": "age"})
    mapped = services.workloads.mapped_questions(saved.latest, swapped.universe, {"age": "income", "income": "age"})
    assert mapped["queries"] == [{"prefix": "income"}, {"count": {"age": {"from": 0, "to": 5}}}]


@pytest.mark.parametrize(
    ("asked", "renamed"),
    [
        ({"median": "age"}, {"median": "years"}),
        ({"mean": ["age"]}, {"mean": ["years"]}),
        ({"votes": {"columns": ["sex"], "category": "male", "ballots": 1}}, None),
        (
            {"largest_count": [{"age": {"from": 18, "to": 35}}, {"sex": ["male"], "age": {"from": 35, "to": 65}}]},
            {"largest_count": [{"years": {"from": 18, "to": 35}}, {"years": {"from": 35, "to": 65}, "sex": ["male"]}]},
        ),
        (
            {"threshold": {"counts": [{"age": {"from": 18, "to": 35}}], "above": 9, "answers": 1}},
            {"threshold": {"counts": [{"years": {"from": 18, "to": 35}}], "above": 9, "answers": 1}},
        ),
    ],
)
def test_every_kind_of_question_is_about_the_column_that_stands_for_it(draft, make_other, alice, asked, renamed):
    services.releases.set_questions(release=draft, workload={"version": 1, "queries": [asked]})
    saved = services.workloads.save_workload(release=draft, name="One", by=alice)
    other = make_other({**AGE, "name": "years"}, SEX)
    columns = {} if renamed is None else {"age": "years"}
    assert services.workloads.mapped_questions(saved.latest, other.universe, columns)["queries"] == [renamed or asked]


@pytest.mark.parametrize(
    ("age", "reason"),
    [
        ({**AGE, "name": "years"}, "must be a declared column of the dataset"),
        ({"name": "age", "type": "categorical", "categories": ["31"]}, "must hold numbers"),
        ({**AGE, "edges": [18, 30, 65]}, "25 must be a declared edge"),
    ],
)
def test_what_does_not_fit_is_said_with_the_reason_and_nothing_is_drafted(workload, make_other, alice, age, reason):
    other = make_other(age, SEX)
    fits = {each.needed.name: each for each in services.workloads.column_fits(workload.latest, other.universe, {})}
    assert reason in fits["age"].reason
    assert not fits["sex"].reason
    with pytest.raises(InvalidInput) as refused:
        services.workloads.use_workload(version=workload.latest, dataset=other, by=alice)
    assert refused.value.field == "columns.age"
    assert not other.releases.exists()


def test_the_page_says_which_columns_do_not_fit_and_keeps_what_was_chosen(workload, make_other, as_, alice):
    other = make_other({**AGE, "name": "years", "edges": [18, 30, 65]}, SEX)
    typed = {"dataset": other.pk, "column.age": "years", "column.sex": "", "action": "use"}
    refused = as_(alice).post(page("use_workload", workload), typed)
    assert refused.status_code == 400
    said = words(refused)
    assert "2 of the 2 columns that the workload needs do not fit yet" in said
    assert "25 must be a declared edge" in said
    assert "Column age:" in said
    assert "has no column in the dataset to use for it" in said
    assert (chosen(refused, "column.age"), chosen(refused, "column.sex")) == ("years", "")
    assert not other.releases.exists()


def test_one_column_cannot_stand_for_two(draft, make_other, alice):
    both = make_other(AGE, {**AGE, "name": "years"})
    asked = services.releases.draft_release(dataset=both, by=alice)
    services.releases.set_questions(
        release=asked, workload={"version": 1, "queries": [{"prefix": "age"}, {"prefix": "years"}]}
    )
    saved = services.workloads.save_workload(release=asked, name="Two", by=alice)
    with pytest.raises(InvalidInput, match="one column of the workload only"):
        services.workloads.mapped_questions(saved.latest, both.universe, {"years": "age"})
    assert services.workloads.suggested_columns(saved.latest, make_other({**AGE, "name": "only"}).universe) == {
        "age": "",
        "years": "",
    }, "it could stand for either"


def test_of_many_columns_a_name_is_typed(workload, make_other, as_, alice, monkeypatch):
    monkeypatch.setattr("releases.views.releases.workloads.MAX_CHOICES", 3)
    other = make_other({**AGE, "name": "years"}, SEX)
    shown = as_(alice).get(page("use_workload", workload), {"dataset": other.pk})
    assert (field_value(shown, "column.age"), field_value(shown, "column.sex")) == ("years", "sex")


def test_other_bins_fit_where_no_question_names_one_and_that_is_said(draft, make_other, as_, alice):
    services.releases.set_questions(release=draft, workload=OTHER)
    saved = services.workloads.save_workload(release=draft, name="Ages", by=alice)
    other = make_other({**AGE, "edges": [0, 50, 100]})
    shown = as_(alice).get(page("use_workload", saved), {"dataset": other.pk})
    assert "Declared differently here" in words(shown)
    assert services.workloads.mapped_questions(saved.latest, other.universe, {}) == OTHER


def test_a_dataset_of_others_or_without_columns_is_not_asked(workload, as_, alice, charlie, upload_file):
    give(charlie, "curator")
    theirs = services.datasets.ingest_dataset(owner=charlie, title="Theirs", source=upload_file(CSV))
    url = page("use_workload", workload)
    assert as_(alice).get(url, {"dataset": theirs.pk}).status_code == 404
    assert as_(alice).get(url, {"dataset": "no"}).status_code == 404
    bare = services.datasets.ingest_dataset(owner=alice, title="Bare", source=upload_file(CSV))
    assert as_(alice).get(url, {"dataset": bare.pk}).url == page("columns", bare)
    assert as_(alice).get(url).url == page("workload", workload)


# Who sees what


def test_an_owner_shares_it_and_who_shares_it_uses_and_edits_it(workload, as_, alice, bob, charlie, group):
    url = page("share_workload", workload)
    assert "everybody in Survey team can read it, edit it and use it" in words(as_(bob).get(url))
    assert as_(bob).post(url, {"group": ""}).status_code == 400
    assert as_(bob).get(page("edit_workload", workload)).status_code == 200
    assert as_(charlie).get(page("workload", workload)).status_code == 404
    assert "Yearly tables" not in words(as_(charlie).get(page("workload_list")))
    as_(alice).post(url, {"group": ""})
    assert as_(bob).get(page("workload", workload)).status_code == 404
    assert AuditEvent.objects.filter(action="unshare").latest("pk").detail == "with nobody"


def test_its_releases_stand_side_by_side_with_their_errors(workload, draft, carry_out, as_, alice):
    first = carry_out(draft)
    second = services.workloads.use_workload(
        version=workload.latest, dataset=draft.dataset, by=alice, title="The second"
    )
    services.releases.set_choice(release=second, epsilon="0.5", mechanism_name="laplace-queries")
    waiting = carry_out(second, execute=False)
    shown = as_(alice).get(page("workload", workload))
    errors = {each["release"].pk: each["bound"] for each in shown.context["releases"]}
    assert errors[waiting.pk] is None
    assert errors[first.pk].margin.removeprefix("± ") in words(shown)
    assert first.result["receipt"]["bound"]["alpha"] > 0
    services.releases.withdraw_release(release=first, by=alice)
    shown = as_(alice).get(page("workload", workload))
    assert {each["release"].pk: each["bound"] for each in shown.context["releases"]}[first.pk] is None


def test_of_its_releases_everybody_sees_those_they_may_read(workload, draft, carry_out, as_, alice, bob, charlie):
    private = carry_out(draft)
    draft.dataset.group = None
    draft.dataset.save()
    assert draft.title not in words(as_(bob).get(page("workload", workload)))
    assert as_(bob).get(page("workload_list")).context["rows"][0]["releases"] == 0
    services.releases.make_public(release=private, by=alice)
    assert draft.title in words(as_(bob).get(page("workload", workload)))
    public = words(as_(charlie).get(page("release_detail", private)))
    assert "Yearly tables" not in public, "the workload is not charlie's to know of"
    assert "Yearly tables" in words(as_(bob).get(page("release_detail", private)))


def test_its_page_reads_no_plan_and_asks_as_much_for_many_releases(workload, draft, carry_out, as_, alice):
    release, client, url = carry_out(draft), as_(alice), page("workload", workload)
    client.get(url)
    with CaptureQueriesContext(connection) as few:
        client.get(url)
    for _ in range(9):
        release.pk = uuid.uuid4()
        release._state.adding = True
        release.save()
    with CaptureQueriesContext(connection) as many:
        assert len(client.get(url).context["releases"]) == 10
    assert len(many) == len(few)
    assert '"releases_release"."plan"' not in " ".join(query["sql"] for query in many)


# Programs and the command line


@pytest.fixture
def program(client, alice):
    headers = {"authorization": f"Bearer {services.tokens.make_token(user=alice, name='all')}"}

    def send(method, path, sent=None):
        body = {} if sent is None else {"data": json.dumps(sent), "content_type": "application/json"}
        return getattr(client, method)(f"/api{path}", headers=headers, **body)

    return send


def test_a_program_saves_reads_edits_and_uses_a_workload(program, draft, make_other):
    saved = program("post", "/workloads", {"release": str(draft.pk), "name": "Yearly", "group": "Survey team"}).json()
    path = f"/workloads/{saved['id']}"
    assert (saved["version"], saved["group"]) == (1, "Survey team")
    assert [each["name"] for each in saved["columns"]] == ["age", "sex"]
    edited = program("put", path, {"since": 1, "workload": TABLES}).json()
    assert (edited["version"], edited["workload"]) == (2, TABLES)
    assert program("put", path, {"since": 1, "workload": OTHER}).status_code == 409
    assert program("put", path, {"since": 2, "name": " "}).json()["field"] == "name"
    assert program("get", f"{path}?version=1").json()["workload"] == saved["workload"]
    assert program("get", f"{path}?version=9").json()["rule"] == "must be from 1 to 2"
    other = make_other({**AGE, "name": "years"}, SEX)
    fits = program("get", f"{path}/fit/{other.pk}").json()
    assert [(each["needs"]["name"], each["fits"], each["suggested"]) for each in fits] == [
        ("age", False, "years"),
        ("sex", True, "sex"),
    ]
    asked = {"dataset": str(other.pk), "epsilon": "1", "mechanism": "laplace-queries", "columns": {"age": "years"}}
    made = program("post", f"{path}/releases", asked)
    assert made.status_code == 201
    assert made.json()["saved"] == {"id": saved["id"], "version": 2}
    assert "laplace-queries" in {plan["mechanism"] for plan in made.json()["plans"]}
    refused = program("post", f"{path}/releases", {**asked, "columns": {}}).json()
    assert refused["field"] == "columns.age"
    assert program("post", f"{path}/releases", {**asked, "columns": {"region": "sex"}}).json()["value"] == "region"


def test_a_program_reads_the_errors_of_its_releases(program, workload, draft, carry_out):
    release = carry_out(draft)
    (told,) = program("get", f"/workloads/{workload.pk}/releases").json()
    assert (told["id"], told["state"], told["version"]) == (str(release.pk), "published", 1)
    assert told["bound"]["alpha"] == release.result["receipt"]["bound"]["alpha"]


@pytest.fixture
def table(tmp_path):
    """A table with the ages under another name, and its schema."""
    file = tmp_path / "next.csv"
    file.write_bytes(CSV.replace(b"person,age,sex", b"person,years,sex"))
    schema = {"version": 1, "neighbours": "add_remove", "columns": [{**AGE, "name": "years"}, SEX]}
    return file, write_json(tmp_path / "schema.json", schema), tmp_path / "out"


def release_command(table, workload, **options):
    file, schema, out = table
    call_command(
        "release",
        table=file,
        schema=schema,
        workload=workload,
        mechanism="laplace-queries",
        epsilon="0.5",
        budget="2",
        out=out,
        **options,
    )
    return Release.objects.latest("created_at")


def test_the_command_line_takes_a_workload_by_its_name(workload, table):
    release = release_command(table, "Yearly tables", column=["age=years"])
    assert release.state == "published"
    assert release.workload_version == workload.latest
    assert release.result["receipt"]["workload"]["queries"][0] == {"marginal": ["years", "sex"]}


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("Yearly tables", [], "columns.age: 'age' must be a declared column"),
        ("Yearly tables", ["age"], "must be NEEDED=NAME"),
        ("Nothing such", [], "neither a file nor the name of a saved workload"),
    ],
)
def test_the_command_line_says_what_is_wrong_with_a_name_and_releases_nothing(workload, table, name, column, said):
    from django.core.management.base import CommandError

    before = Release.objects.count()
    with pytest.raises(CommandError, match=said):
        release_command(table, name, column=column)
    assert Release.objects.count() == before


def test_a_name_that_two_people_use_is_told_apart_by_the_owner(workload, draft, bob):
    services.workloads.save_workload(release=draft, name="Yearly tables", by=bob)
    with pytest.raises(InvalidInput, match="write alice/Yearly tables or bob/Yearly tables"):
        services.workloads.workload_named("Yearly tables")
    assert services.workloads.workload_named("alice/Yearly tables") == workload


# Releases of before


def gather():
    """As on an installation of then, whose releases said in a column of their own whether they were sessions."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE releases_release ADD COLUMN is_session boolean NOT NULL DEFAULT FALSE")
    before = MigrationLoader(connection).project_state(("releases", "0034_file_facts")).apps
    import_module("releases.migrations.0029_workloads").gather_releases(before, None)


def test_the_migration_gives_alike_releases_one_workload_and_changes_nothing_else(
    make_dataset, make_draft, carry_out, alice, group
):
    dataset = make_dataset(epsilon="10")
    elsewhere = make_dataset(epsilon="10", content=CSV + b"one more,30,male\n")
    alike = [carry_out(make_draft(each), execute=False) for each in (dataset, elsewhere)]
    alone = carry_out(_asks(make_draft(dataset), OTHER), execute=False)
    unsent = make_draft(dataset)
    kept = list(Release.objects.order_by("pk").values("pk", "plan", "workload", "state", "title"))
    gather()
    made = Workload.objects.get()
    assert (made.name, made.owner, made.group) == ("Questions of Survey", alice, group)
    assert {each.pk for each in Release.objects.filter(workload_version=made.latest)} == {each.pk for each in alike}
    assert (made.latest.number, made.latest.questions) == (1, alike[0].workload)
    assert made.latest.needed.names == ("age", "sex")
    assert Release.objects.filter(pk__in=[alone.pk, unsent.pk], workload_version=None).count() == 2
    assert list(Release.objects.order_by("pk").values("pk", "plan", "workload", "state", "title")) == kept


def test_the_migration_keeps_owners_and_groups_apart_and_numbers_names(make_dataset, make_draft, carry_out, bob):
    hers, his = make_dataset(epsilon="10"), make_dataset(epsilon="10", owner=bob, content=CSV + b"x,30,male\n")
    for dataset in (hers, his, hers, his):
        carry_out(make_draft(dataset), execute=False)
    for _ in range(2):
        carry_out(_asks(make_draft(hers), OTHER), execute=False)
    gather()
    found = {(str(each.owner), each.name) for each in Workload.objects.all()}
    assert found == {
        ("alice", "Questions of Survey"),
        ("alice", "Questions of Survey (2)"),
        ("bob", "Questions of Survey"),
    }


def _asks(draft, workload):
    services.releases.set_questions(release=draft, workload=workload)
    return draft


def test_a_column_of_a_workload_is_said_with_what_is_missing_there():
    age = {"name": "age", "type": "integer", "edges": [0, 18, 120], "missing": ["-9"]}
    sex = {"name": "sex", "type": "categorical", "categories": ["f", "m"], "missing": ["NA", "x"], "missing_as": "m"}
    said = [column_text(Attribute.from_json(each)) for each in (age, sex)]
    assert said == [
        "whole numbers from 0 to 120 in 2 bins; -9 means that a value is missing",
        "categories: f, m; NA, x mean that a value is missing; a row without a value of sex counts as m",
    ]
