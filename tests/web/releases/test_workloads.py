"""Workloads: saved from a draft, edited version by version, shared, and asked of other datasets."""

import json

import pytest
from django.contrib.auth.models import Group

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import AuditEvent, Release, SavedWorkload
from tests.web.conftest import COLUMNS, CSV, give
from tests.web.pages import field_value, link, words
from tests.web.public.test_api import Program
from tests.web.steps import protect

AGE, SEX = COLUMNS
TABLES = {"version": 1, "queries": [{"marginal": ["age", "sex"]}, {"count": {"age": {"from": 25, "to": 45}}}]}
STORED = ("stored_plan__content", "stored_questions__content")
OTHER = {"version": 1, "queries": [{"prefix": "age"}]}


@pytest.fixture
def workload(draft, alice, group):
    """What alice's draft asks, saved and shared with her group."""
    return save(draft, "Yearly tables", alice, TABLES, group=group)


def save(draft, name, by, asked=None, **more):
    """Save what a draft asks, or is made to ask first."""
    if asked:
        services.releases.set_questions(release=draft, workload=asked)
    return services.workloads.save_workload(release=draft, name=name, by=by, **more)


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
        protect(dataset, alice)
        return dataset

    return make


# Saving


def test_a_draft_s_questions_are_saved_under_a_name(draft, as_, alice, group):
    typed = {"name": " Yearly tables ", "description": "For the yearbook.", "group": group.pk}
    as_(alice).post(link("save_workload", draft), typed)
    saved = SavedWorkload.objects.get()
    assert (saved.name, saved.description) == ("Yearly tables", "For the yearbook.")
    assert (saved.owner, saved.group) == (alice, group)
    assert saved.latest.questions == draft.workload
    assert [each["name"] for each in saved.latest.columns] == ["age", "sex"]
    draft.refresh_from_db()
    assert draft.workload_version == saved.latest
    assert AuditEvent.objects.get(action="save").detail == "version 1, shared with Survey team"


def test_nothing_is_saved_for_a_group_of_others_or_from_a_draft_without_questions(dataset, draft, alice):
    with pytest.raises(InvalidInput, match="must be one that you belong to"):
        save(draft, "Mine", alice, group=Group.objects.create(name="Board"))
    empty = services.releases.draft_release(dataset=dataset, by=alice)
    with pytest.raises(services.release_inputs.Refusal, match="Add at least one question"):
        save(empty, "Mine", alice)
    assert not SavedWorkload.objects.exists()


def test_a_name_is_that_of_one_workload_of_a_person_and_the_command_line_finds_it(workload, draft, alice, bob):
    with pytest.raises(InvalidInput, match="Yearly tables"):
        save(draft, "Yearly tables", alice)
    assert services.workloads.workload_named("Yearly tables") == workload
    with pytest.raises(InvalidInput, match="neither a file nor the name"):
        services.workloads.workload_named("Nothing such")
    save(draft, "Yearly tables", bob)
    with pytest.raises(InvalidInput, match="several workloads; write "):
        services.workloads.workload_named("Yearly tables")
    assert services.workloads.workload_named("alice/Yearly tables") == workload


# Versions


def test_editing_the_questions_makes_the_next_version_and_leaves_a_release_as_it_is(
    workload, draft, as_, alice, carry_out
):
    carry_out(draft, execute=False)
    before = Release.objects.values(*STORED, "workload_version").get(pk=draft.pk)
    url = link("edit_workload", workload)
    assert json.loads(field_value(as_(alice).get(url), "workload")) == workload.latest.questions
    as_(alice).post(url, {"name": "Yearly tables", "description": "", "workload": json.dumps(OTHER), "since": "1"})
    first, second = workload.versions.order_by("number")
    assert (first.questions, second.questions) == (before["stored_questions__content"], OTHER)
    assert Release.objects.values(*STORED, "workload_version").get(pk=draft.pk) == before
    assert services.execution.execute_release(release_id=draft.pk)
    draft.refresh_from_db()
    assert draft.result["receipt"]["workload"] == before["stored_questions__content"]


def test_a_submitted_release_stays_with_its_workload(workload, draft, carry_out, alice):
    carry_out(draft, execute=False)
    with pytest.raises(services.release_inputs.Refusal, match="submitted with a workload already"):
        save(draft, "Another", alice)


def test_who_may_not_see_the_workload_of_a_release_plans_another_without_it(
    workload, draft, carry_out, as_, alice, bob
):
    carry_out(draft, execute=False)
    services.workloads.share_workload(workload=workload, group=None, by=alice)
    assert "Yearly tables" not in words(as_(bob).get(link("release_detail", draft)))
    as_(bob).post(link("new_release", draft.dataset), {"like": draft.pk})
    another = Release.objects.latest("created_at")
    assert (another.workload, another.workload_version) == (draft.workload, None)


def test_a_workload_is_deleted_by_its_owner_until_a_release_was_submitted_with_it(
    workload, draft, carry_out, as_, alice, bob
):
    url = link("discard_workload", workload)
    carry_out(draft, execute=False)
    as_(alice).post(url)
    assert SavedWorkload.objects.exists()
    Release.objects.filter(pk=draft.pk).update(state="draft")
    as_(bob).post(url)
    assert SavedWorkload.objects.exists()
    as_(alice).post(url)
    assert not SavedWorkload.objects.exists()
    draft.refresh_from_db()
    assert (draft.workload_version, draft.workload) == (None, TABLES)


# Use on a dataset


def test_columns_of_the_same_names_fit_and_the_draft_asks_the_same(workload, make_other, as_, alice):
    other = make_other(SEX, AGE)
    typed = {"dataset": other.pk, "version": "1", "column.age": "age", "column.sex": "sex", "action": "use"}
    made = as_(alice).post(link("use_workload", workload), typed)
    draft = Release.objects.get(dataset=other)
    assert made.url == link("questions", draft)
    assert (draft.title, draft.workload_version) == ("Yearly tables", workload.latest)
    assert draft.workload["queries"][0] == {"marginal": ["sex", "age"]}, "in the order of this dataset"


def test_names_that_changed_places_are_mapped_at_once(draft, make_other, alice):
    wide = {**AGE, "name": "income", "edges": [0, 5, 9]}
    both = make_other(AGE, wide)
    asked = {"version": 1, "queries": [{"prefix": "age"}, {"count": {"income": {"to": 5}}}]}
    saved = save(services.releases.draft_release(dataset=both, by=alice), "Swapped", alice, asked)
    swapped = make_other({**AGE, "name": "income"}, {**wide, "name": "age"})
    mapped = services.workloads.mapped_questions(saved.latest, swapped.universe, {"age": "income", "income": "age"})
    assert mapped["queries"] == [{"prefix": "income"}, {"count": {"age": {"from": 0, "to": 5}}}]


@pytest.mark.parametrize(
    "asked",
    [
        '{"median": "AGE"}',
        '{"votes": {"columns": ["sex"], "category": "male", "ballots": 1}}',
        '{"largest_count": [{"AGE": {"from": 18, "to": 35}}, {"sex": ["male"], "AGE": {"from": 35, "to": 65}}]}',
    ],
)
def test_every_kind_of_question_is_about_the_column_that_stands_for_it(draft, make_other, alice, asked):
    before, after = (json.loads(asked.replace("AGE", name)) for name in ("age", "years"))
    saved = save(draft, "One", alice, {"version": 1, "queries": [before]})
    other = make_other({**AGE, "name": "years"}, SEX)
    columns = {"age": "years"} if "AGE" in asked else {}
    assert services.workloads.mapped_questions(saved.latest, other.universe, columns)["queries"] == [after]


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


def test_one_column_cannot_stand_for_two(draft, make_other, alice):
    both = make_other(AGE, {**AGE, "name": "years"})
    asked = {"version": 1, "queries": [{"prefix": "age"}, {"prefix": "years"}]}
    saved = save(services.releases.draft_release(dataset=both, by=alice), "Two", alice, asked)
    with pytest.raises(InvalidInput, match="one column of the workload only"):
        services.workloads.mapped_questions(saved.latest, both.universe, {"years": "age"})


def test_a_dataset_of_others_or_without_columns_is_not_asked(workload, as_, alice, charlie, upload_file):
    give(charlie, "curator")
    theirs = services.datasets.ingest_dataset(owner=charlie, title="Theirs", source=upload_file(CSV))
    url = link("use_workload", workload)
    assert as_(alice).get(url, {"dataset": theirs.pk}).status_code == 404
    bare = services.datasets.ingest_dataset(owner=alice, title="Bare", source=upload_file(CSV))
    assert as_(alice).get(url, {"dataset": bare.pk}).url == link("columns", bare)


# Who sees what


def test_an_owner_alone_shares_a_workload(workload, alice, bob):
    with pytest.raises(InvalidInput, match="by alice alone"):
        services.workloads.share_workload(workload=workload, group=None, by=bob)
    services.workloads.share_workload(workload=workload, group=None, by=alice)
    assert not SavedWorkload.objects.visible_to(bob).exists()
    assert AuditEvent.objects.filter(action="unshare").latest("pk").detail == "with nobody"


def test_of_its_releases_everybody_sees_those_they_may_read(workload, draft, carry_out, as_, alice, bob, charlie):
    private = carry_out(draft)
    draft.dataset.group = None
    draft.dataset.save()
    assert draft.title not in words(as_(bob).get(link("workload", workload)))
    assert as_(bob).get(link("workload_list")).context["rows"][0]["releases"] == 0
    services.releases.make_public(release=private, by=alice)
    assert draft.title in words(as_(bob).get(link("workload", workload)))
    public = words(as_(charlie).get(link("release_detail", private)))
    assert "Yearly tables" not in public, "the workload is not charlie's to know of"
    assert "Yearly tables" in words(as_(bob).get(link("release_detail", private)))


# Programs and the command line


@pytest.fixture
def program(client, alice):
    return Program(client, alice)


def test_a_program_saves_reads_edits_and_uses_a_workload(program, draft, make_other):
    saved = program.send(
        "post", "/workloads", {"release": str(draft.pk), "name": "Yearly", "group": "Survey team"}
    ).json()
    path = f"/workloads/{saved['id']}"
    assert (saved["version"], saved["group"]) == (1, "Survey team")
    assert [each["name"] for each in saved["columns"]] == ["age", "sex"]
    edited = program.send("put", path, {"since": 1, "workload": TABLES}).json()
    assert (edited["version"], edited["workload"]) == (2, TABLES)
    assert program.send("put", path, {"since": 1, "workload": OTHER}).status_code == 409
    assert program.send("put", path, {"since": 2, "name": " "}).json()["field"] == "name"
    certified = {"version": 1, "queries": [{"largest_error": {"file": "answers.csv"}}]}
    assert program.send("put", path, {"since": 2, "workload": certified}).status_code == 400
    assert program.told(f"{path}?version=1")["workload"] == saved["workload"]
    other = make_other({**AGE, "name": "years"}, SEX)
    fits = program.told(f"{path}/fit/{other.pk}")
    assert [(each["needs"]["name"], each["fits"], each["suggested"]) for each in fits] == [
        ("age", False, "years"),
        ("sex", True, "sex"),
    ]
    asked = {"dataset": str(other.pk), "epsilon": "1", "mechanism": "laplace-queries", "columns": {"age": "years"}}
    made = program.send("post", f"{path}/releases", asked)
    assert made.status_code == 201
    assert made.json()["saved"] == {"id": saved["id"], "version": 2}
    assert "laplace-queries" in {plan["mechanism"] for plan in made.json()["plans"]}
    refused = program.send("post", f"{path}/releases", {**asked, "columns": {}}).json()
    assert refused["field"] == "columns.age"
    assert program.send("post", f"{path}/releases", {**asked, "columns": {"region": "sex"}}).json()["value"] == "region"
