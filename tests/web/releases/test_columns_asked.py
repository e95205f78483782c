"""A release counts the rows that have a declared value in the columns it asks about; no other column drops a row.

At epsilon 30 noise that is not 0 has a chance below 10^-5 in any of these tests.
"""

from __future__ import annotations

import uuid

import pytest
from django.core.management import call_command
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.pmw.online import ExactCounts
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.workload.queries import read_count
from releases.models import Organisation, Release, ReleaseState, Session
from releases.publication import files
from releases.services.datasets import table_path
from releases.views.sessions.sessions import address_of_session
from tests.web.conftest import COLUMNS, write_json
from tests.web.pages import words

pytestmark = pytest.mark.django_db

#: Three rows have a declared age, three a declared sex, one both.
CONTENT = b"age,sex,town\n20,female,a\n30,,a\n40,unknown,b\n,male,b\nabc,male,a\n"
TOWN = {"name": "town", "type": "categorical", "categories": ["a", "other"], "outside": "other"}
AGES, SEXES = [1, 1, 1, 0, 0], [1, 2]


@pytest.fixture
def dataset(make_dataset):
    return make_dataset(epsilon="100", content=CONTENT)


@pytest.fixture
def publish(dataset, alice):
    """A published release of the questions, so exact that its answers are the counts."""

    def make(*queries, mechanism="laplace-queries", epsilon="30", of=dataset):
        release = services.releases.draft_release(dataset=of, by=alice)
        services.releases.set_questions(release=release, workload={"version": 1, "queries": list(queries)})
        services.releases.set_choice(release=release, epsilon=epsilon, delta="0", mechanism_name=mechanism)
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=release.pk)
        release.refresh_from_db()
        assert release.status is ReleaseState.PUBLISHED
        return release

    return make


def estimates(release):
    return files.read_answers(files.folder_of(release)).column("estimate").to_pylist()


@pytest.mark.parametrize("mechanism", ["laplace-queries", "laplace-histogram", "pmw"])
def test_the_rows_that_have_the_columns_asked_about_are_counted(publish, mechanism):
    by_age = publish({"marginal": ["age"]}, mechanism=mechanism)
    assert estimates(by_age) == pytest.approx(AGES, abs=0.6)
    by_sex = publish({"marginal": ["sex"]}, mechanism=mechanism)
    assert estimates(by_sex) == pytest.approx(SEXES, abs=0.6)


def test_every_mechanism_is_compared_over_the_columns_asked_about(dataset, alice):
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginal": ["sex"]}]})
    services.releases.set_choice(release=release, epsilon="1")
    plans = services.releases.compare(release=release)
    assert len(plans) > 20
    assert {plan.schema.universe.names for plan in plans} == {("sex",)}


def test_a_table_of_two_columns_counts_the_rows_that_have_both(publish):
    both = publish({"marginal": ["age", "sex"]}, {"marginal": ["age"]})
    assert estimates(both) == [1] + [0] * 9 + [1, 0, 0, 0, 0]


def test_synthetic_rows_and_the_universe_are_of_the_columns_asked_about(publish):
    release = publish({"marginal": ["sex"]}, mechanism="laplace-histogram")
    receipt = release.result["receipt"]
    assert (receipt["universe_size"], receipt["synthetic_columns"], receipt["synthetic_rows"]) == (2, ["sex"], 3)
    assert [each["name"] for each in receipt["schema"]["columns"]] == ["sex"]


def test_statistics_of_a_column_are_of_the_rows_that_have_it(publish):
    """A sum over the ages of 20, 30 and 40, two of whose rows have no declared sex."""
    assert estimates(publish({"sum": ["age"]}, mechanism="laplace-numbers")) == pytest.approx([90], abs=20)


def test_pages_and_the_receipt_say_that_other_columns_leave_no_row_out(publish, dataset, alice, as_):
    said = "also for one of a single column; no other column leaves a row out."
    draft = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_choice(release=draft, epsilon="1", mechanism_name="laplace-queries")
    for asked, others in (("age", True), ("age, sex", False)):
        marginal = {"version": 1, "queries": [{"marginal": asked.split(", ")}]}
        services.releases.set_questions(release=draft, workload=marginal)
        shown = words(as_(alice).get(reverse("confirm", args=[draft.pk])))
        assert said in shown
        assert ("A row whose value of sex is not exactly" in shown) is not others
        assert f"about {1 if others else 2} column" in shown
    release = publish({"marginal": ["age"]})
    assert said in words(as_(alice).get(reverse("release_detail", args=[release.pk])))
    assert any(said in each for each in release.result["receipt"]["rules_in_words"])


def test_a_reviewer_reads_which_columns_a_release_is_about(dataset, alice, as_, sofia):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="1")
    draft = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=draft, workload={"version": 1, "queries": [{"marginal": ["sex"]}]})
    services.releases.set_choice(release=draft, epsilon="2", mechanism_name="laplace-queries")
    assert services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False) is None
    shown = words(as_(sofia).get(reverse("release_request", args=[draft.reviews.get().pk])))
    assert "2 answers; about 1 column, a universe of 2 cells" in shown
    assert "Columns of Survey that it is about, as declared" in shown
    assert "A row whose value of sex is not exactly" in shown


def test_confirm_tells_of_a_release_that_answered_the_same_questions(publish, dataset, alice, bob, as_):
    first = publish({"marginal": ["sex"]})
    again = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_choice(release=again, epsilon="1", mechanism_name="laplace-queries")
    said = f"These questions were answered before , by {first.title} on"
    for marginal, is_told in ((["sex"], True), (["age"], False)):
        services.releases.set_questions(release=again, workload={"version": 1, "queries": [{"marginal": marginal}]})
        assert (said in words(as_(bob).get(reverse("confirm", args=[again.pk])))) is is_told
    services.releases.set_questions(release=again, workload={"version": 1, "queries": [{"marginal": ["sex"]}]})
    services.releases.withdraw_release(release=first, by=alice)
    assert said not in words(as_(bob).get(reverse("confirm", args=[again.pk])))


def test_two_releases_are_held_against_each_other_where_they_count_the_same_rows(publish, dataset, alice, as_):
    services.datasets.declare_universe(dataset=dataset, columns=[*COLUMNS, TOWN], by=alice)
    dataset.refresh_from_db()
    by_age, with_town, with_sex = (
        publish({"marginal": ["age"]}, {"marginal": ["age", other]} if other else {"marginal": ["age"]})
        for other in ("", "town", "sex")
    )
    # Any town counts, so age means the same beside it; a sex that is not declared leaves a row out.
    for other, differ in ((with_town, False), (with_sex, True)):
        shown = as_(alice).get(reverse("compare_releases", args=[by_age.pk]), {"other": other.pk})
        assert shown.context["page"].may_count_other_rows is differ
        assert ("They may count different rows." in words(shown)) is differ
        assert ("Truth, by both" in words(shown)) is not differ
        assert ("both bounds hold at once" in words(shown)) is not differ


def test_which_of_a_person_s_rows_count_follows_from_all_columns(make_dataset, publish, alice, as_):
    rows = b"person,age,sex,town\n" + b"".join(b"%d,30,male,a\n" % each for each in range(9))
    unit = PrivacyUnit(kind="person", id_column="person", max_rows=2)
    people = make_dataset(epsilon="100", content=rows, unit=unit)
    services.datasets.declare_universe(dataset=people, columns=[*COLUMNS, TOWN], by=alice)
    people.refresh_from_db()
    first = publish({"marginal": ["age"]}, of=people)
    other = publish({"marginal": ["age"]}, {"marginal": ["town"]}, of=people)
    again = publish({"marginal": ["age"]}, of=people)
    for second, differ in ((other, True), (again, False)):
        shown = as_(alice).get(reverse("compare_releases", args=[first.pk]), {"other": second.pk})
        assert shown.context["page"].may_count_other_rows is differ


def test_a_certificate_measures_against_the_rows_that_the_release_counted(publish, alice):
    release = publish({"marginal": ["age"]})
    certificate = services.certificates.draft_certificate(of=release, by=alice, epsilon="30", what="released answers")
    services.releases.submit_release(release=certificate, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=certificate.pk)
    certificate.refresh_from_db()
    # Counted with the rule of sex, two of the three ages would be wrong by one.
    assert estimates(certificate) == pytest.approx([0], abs=0.5)
    assert [each["name"] for each in certificate.result["receipt"]["schema"]["columns"]] == ["age"]


def test_another_column_declared_since_leaves_a_release_as_certifiable_as_it_was(publish, dataset, alice):
    release = publish({"marginal": ["age"]})
    services.datasets.declare_universe(dataset=dataset, columns=[COLUMNS[0], TOWN], by=alice)
    release.dataset.refresh_from_db()
    assert not services.certificates.plan_certificate(of=Release.objects.get(pk=release.pk), epsilon="1").infeasible
    services.datasets.declare_universe(dataset=dataset, columns=[TOWN], by=alice)
    with pytest.raises(services.release_inputs.Refusal, match="have changed since"):
        services.release_inputs.certifiable(Release.objects.get(pk=release.pk))


def test_the_command_counts_in_the_same_way(tmp_path, upload_file, monkeypatch):
    monkeypatch.setattr("releases.management.commands.release.ensure_database", lambda: None)
    schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": COLUMNS}
    workload = {"version": 1, "queries": [{"marginal": ["sex"]}]}
    call_command(
        "release",
        table=upload_file(CONTENT),
        schema=write_json(tmp_path / "schema.json", schema),
        workload=write_json(tmp_path / "workload.json", workload),
        mechanism="laplace-histogram",
        epsilon="30",
        budget="60",
        out=tmp_path / "out",
    )
    answers = (tmp_path / "out" / "answers.csv").read_text().splitlines()
    assert [float(each.split(",")[2]) for each in answers[1:]] == SEXES


# Sessions


@pytest.fixture
def plan_session(dataset, alice, as_):
    """The page that plans a session, with these columns ticked."""

    def get(*columns, post=False):
        given = {"epsilon": "90", "beta": "0.05", "questions": "5", "population": "5", "columns": list(columns)}
        address = reverse("new_session", args=[dataset.pk])
        return as_(alice).post(address, given) if post else as_(alice).get(address, given)

    return get


def test_a_session_is_planned_over_the_columns_that_can_be_asked_about(plan_session):
    assert plan_session("sex").context["planned"].columns == "sex"
    assert "Columns sex: a universe" in words(plan_session("sex"))
    # In declared order; none ticked are all.
    assert plan_session("sex", "age").context["planned"].columns == "age, sex"
    assert plan_session().context["planned"].columns == "age, sex"


def test_a_column_that_is_not_declared_is_refused_by_name(plan_session):
    refused = plan_session("town")
    assert refused.status_code == 400
    assert "Columns: town is not declared in this dataset." in words(refused)


def test_a_session_counts_the_rows_of_its_columns_and_knows_no_other(plan_session, alice, opens_tables):
    assert plan_session("sex", post=True).status_code == 302
    release = Release.objects.get()
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    session = Session.objects.get()
    services.sessions.ask_session(session=session, query={"sex": ["male"]}, by=alice)
    schema = services.sessions.plan_of_session(session).schema
    assert schema.universe.names == ("sex",)
    truth = ExactCounts(TableCounts(open_table(table_path(release.dataset)), schema))
    assert truth(read_count({"sex": ["male"]}, schema.universe)) == SEXES[1]
    with pytest.raises(InvalidInput, match="age"):
        services.sessions.ask_session(session=session, query={"age": {"to": 35}}, by=alice)


def test_a_kept_session_is_planned_again_with_the_columns_it_had(plan_session, as_, alice):
    plan_session("sex", post=True)
    draft = Release.objects.get()
    again = as_(alice).get(address_of_session(draft))
    assert again.context["form"].cleaned_data["columns"] == ["sex"]
    assert again.context["planned"].columns == "sex"


def test_the_page_of_a_session_says_what_it_is_about_and_which_rows_count(plan_session, as_, alice):
    plan_session("sex", post=True)
    release = Release.objects.get()
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    shown = words(as_(alice).get(reverse("session", args=[release.pk])))
    assert "It can be asked about sex." in shown
    assert "A row whose value of sex is not exactly one of the declared categories is left out" in shown
