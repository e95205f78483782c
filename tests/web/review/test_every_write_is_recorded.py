"""Every service that writes leaves an event in the audit log, with who did it; or is listed here with the reason."""

from __future__ import annotations

import uuid
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.tables.catalogue import Column, Tables
from releases.ledger import chain, decisions, high_water_marks, ledger
from releases.models import (
    ApiToken,
    Audience,
    AuditAction,
    AuditEvent,
    Budget,
    BudgetRequest,
    Organisation,
    Release,
    Role,
)
from releases.questions.together import PartAsked
from releases.services import reapplying
from tests.web.conftest import COLUMNS, CSV, WORKLOAD
from tests.web.pages import body, words
from tests.web.services_called import functions_called

pytestmark = pytest.mark.django_db

READS = """
    alike_by_columns all_connections all_missing certifiable check_upload column_fits columns_of_codebook
    columns_of_session compare connections faults find_connection forgotten_decisions incoming_folder is_behind
    is_compared is_incomparable known_in_session left_for_drafts lost_budgets mapped_questions missing_of
    plan_categories plan_certificate plan_digest plan_of plan_of_session plan_range read_beta recognised
    requests_lately room_of same_rows_as_lost standing suggested_columns unsettled upload_limits
    waits_for_a_reviewer why_it_waits why_not_approve why_not_discarded why_not_saved why_not_taken_over
    why_not_together why_protection_is_fixed why_rows_stay workload_named
"""
DRAFTS = """
    change_session draft_certificate draft_check draft_session name_release set_choice set_questions share_out
    use_workload
"""
TAKE = """
    ask_back_release ask_back_request change_settings close_session close_survey delete_rows deny_release deny_request
    discard_dataset end_tokens freeze_budget make_private make_survey_private remove_connection revoke_token
    take_back_request take_role withdraw_release
"""
GIVE = """
    acknowledge_marks approve_release approve_request ask_consent cancel_release choose_mail declare_protection
    declare_universe describe_dataset discard_codebook discard_draft discard_workload draft_collection edit_workload
    execute_release execute_upload give_role ingest_dataset join_population join_request learn_categories learn_range
    let_ask load_plan make_public make_survey_public make_token open_survey register_connection register_table
    rename_dataset request_budget restore_ledger save_codebook save_version save_workload settle_lost_budget
    share_dataset share_workload submit_collection submit_release take_over unfreeze_budget verify_ledgers
"""
#: Services without an event of their own, and why.
UNRECORDED = {
    **dict.fromkeys(READS.split(), "reads only"),
    **dict.fromkeys(DRAFTS.split(), "as a draft of a release"),
    "keep_columns": "what is typed and not declared is nothing yet; declaring it is recorded",
    "forget_columns": "as what is typed and not declared",
    "planned_atomically": "a transaction, in which others write",
    "draft_release": "a draft is nothing yet; what becomes of it is recorded",
    "draft_survey": "a draft is nothing yet; its opening is recorded",
    "change_survey": "as a draft of a survey",
    "accept_report": "who answered a survey must not be known",
    "ask_session": "the transcript keeps every answer with who asked and when",
    "receive_upload": "a file is nothing yet; the table that it becomes is recorded",
    "discard_upload": "as a file that was received: it never was a table of the site",
    "reconcile_uploads": "what it moves waits again; an upload given up on is no table",
    "reconcile": "what it moves is queued again; a release given up on is recorded by the same function as a worker's",
    "use_token": "notes when a token was last used, on the token",
    "read_notices": "who has read what is nobody's business",
    "tables_of": "notes for which version of a server the self test has passed",
    "run_plan": "of a benchmark, on rows that it has made up",
    "upload": "of a benchmark, on rows that it has made up",
    "enqueue_fingerprints": "tells a worker to look",
    "take_fingerprint": "a worker's; what it finds is for the reviewer's page alone",
    "notice_restored": "recorded as nobody's, once after a restored backup (test_restored_decisions.py)",
}


class Scenes:
    """For each service, what has to be there, and then the call that must leave an event."""

    def __init__(self, alice, sofia, group, upload_file, make_dataset, make_draft, make_queued, monkeypatch, settings):
        self.alice, self.sofia, self.group = alice, sofia, group
        self.upload_file, self.make_dataset = upload_file, make_dataset
        self.make_draft, self.make_queued = make_draft, make_queued
        self.monkeypatch, self.settings = monkeypatch, settings

    def _bare(self, content=CSV):
        return services.datasets.ingest_dataset(owner=self.alice, title="Bare", source=self.upload_file(content))

    def _asked(self):
        return services.budgets.request_budget(
            dataset=self.make_dataset(epsilon=""),
            epsilon="3",
            delta="0.000001",
            policy=Policy.ZCDP,
            reason="",
            by=self.alice,
        )

    def _reviewed(self):
        Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
        release = self.make_draft(self.make_dataset())
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=self.alice)
        return release.reviews.get()

    def _published(self):
        release = self.make_queued(self.make_dataset())
        assert services.execution.execute_release(release_id=release.pk)
        return release

    def _session(self):
        live = services.sessions.draft_session(dataset=self.make_dataset(), by=self.alice, title="", epsilon="1")
        services.releases.submit_release(release=live, key=uuid.uuid4(), by=self.alice, send=False)
        assert services.execution.execute_release(release_id=live.pk)
        live.refresh_from_db()
        return live.session

    def ingest_dataset(self):
        return self._bare

    def execute_upload(self):
        upload = services.uploads.receive_upload(owner=self.alice, title="Sent", source=self.upload_file())
        return lambda: services.uploads.execute_upload(upload_id=upload.pk)

    def declare_universe(self):
        dataset = self._bare()
        return lambda: services.datasets.declare_universe(dataset=dataset, columns=COLUMNS, by=self.alice)

    def take_over(self):
        dataset, source = self._bare(), self.make_dataset()
        return lambda: services.taking_over.take_over(
            dataset=dataset, source=source, is_same_people=False, by=self.alice
        )

    def describe_dataset(self):
        dataset = self._bare()
        return lambda: services.codebooks.describe_dataset(
            dataset=dataset, notes={"age": {"unit": "years"}}, by=self.alice
        )

    def _codebook(self):
        universe = self.make_dataset().universe
        return services.codebooks.save_codebook(name="Core", universe=universe, notes={}, by=self.alice)

    def save_codebook(self):
        return self._codebook

    def discard_codebook(self):
        codebook = self._codebook()
        return lambda: services.codebooks.discard_codebook(codebook=codebook, by=self.alice)

    def _workload(self):
        return services.workloads.save_workload(
            release=self.make_draft(self.make_dataset()), name="Yearly", by=self.alice
        )

    def save_workload(self):
        return self._workload

    def _collection(self):
        parts = [PartAsked(title="All", workload=WORKLOAD)]
        return services.collections.draft_collection(
            dataset=self.make_dataset(), by=self.alice, title="Yearbook", epsilon="1", parts=parts
        )

    def draft_collection(self):
        return self._collection

    def submit_collection(self):
        draft = self._collection().parts.get().release
        services.releases.set_choice(release=draft, epsilon="1", mechanism_name="laplace-queries")
        planned = [(draft, services.releases.plan_of(release=draft))]
        self.monkeypatch.setattr("releases.services.releases.enqueue", lambda release_id: None)
        return lambda: services.collections.submit_collection(planned=planned, key=uuid.uuid4(), by=self.alice)

    def save_version(self):
        workload = self._workload()
        draft = Release.objects.get(workload_version__workload=workload)
        services.releases.set_questions(release=draft, workload={"version": 1, "queries": [{"prefix": "age"}]})
        return lambda: services.workloads.save_version(workload=workload, release=draft, by=self.alice)

    def edit_workload(self):
        workload = self._workload()
        return lambda: services.workloads.edit_workload(workload=workload, since=1, name="Other", by=self.alice)

    def share_workload(self):
        workload = self._workload()
        return lambda: services.workloads.share_workload(workload=workload, group=self.group, by=self.alice)

    def discard_workload(self):
        workload = self._workload()
        return lambda: services.workloads.discard_workload(workload=workload, by=self.alice)

    def register_connection(self):
        listed = Tables(names=("ward.patients",), faults=(), version="PostgreSQL of a test")
        self.monkeypatch.setattr(services.reading, "tables_of_server", lambda url, *, checked: listed)
        return lambda: services.connections.register_connection(
            name="clinic", address="postgresql://reader@127.0.0.1:1/clinic", by=self.sofia
        )

    def remove_connection(self):
        registered = self.register_connection()().registered
        return lambda: services.connections.remove_connection(connection=registered, by=self.sofia)

    def register_table(self):
        number = Column(type="integer", comment="", values=())
        self.monkeypatch.setattr(services.reading, "columns_of_server", lambda location, *, is_checked: {"age": number})
        listed = services.connections.tables_of(self.register_connection()())
        return lambda: services.connections.register_table(
            owner=self.alice, title="Patients", listed=listed, table="ward.patients"
        )

    def declare_protection(self):
        dataset = self._bare()
        return lambda: services.datasets.declare_protection(
            dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE, by=self.alice
        )

    def join_population(self):
        other, dataset = self.make_dataset(), self._bare(CSV + b"one more,30,male\n")
        return lambda: services.datasets.join_population(dataset=dataset, other=other, by=self.alice)

    def share_dataset(self):
        dataset = self._bare()
        return lambda: services.datasets.share_dataset(dataset=dataset, group=self.group, by=self.alice)

    def discard_dataset(self):
        dataset = self._bare()
        return lambda: services.datasets.discard_dataset(dataset=dataset, by=self.alice)

    def rename_dataset(self):
        dataset = self._bare()
        return lambda: services.datasets.rename_dataset(dataset=dataset, title="Better", by=self.alice)

    def delete_rows(self):
        dataset = self._bare()
        return lambda: services.datasets.delete_rows(dataset=dataset, by=self.alice)

    def request_budget(self):
        return self._asked

    def approve_request(self):
        asked = self._asked()
        return lambda: services.budgets.approve_request(request=asked, by=self.sofia)

    def join_request(self):
        other, asked = self.make_dataset(), self._asked()
        return lambda: services.budgets.join_request(request=asked, to=other.budget_id, by=self.sofia)

    def ask_consent(self):
        other, asked = self.make_dataset(), self._asked()
        return lambda: services.recognition.ask_consent(
            request=asked, about=other.pk, by=self.sofia, note="One of yours?"
        )

    def deny_request(self):
        asked = self._asked()
        return lambda: services.budgets.deny_request(request=asked, by=self.sofia, note="No.")

    def ask_back_request(self):
        asked = self._asked()
        return lambda: services.budgets.ask_back_request(request=asked, by=self.sofia, note="Why?")

    def take_back_request(self):
        asked = self._asked()
        return lambda: services.budgets.take_back_request(request=asked, by=self.alice)

    def freeze_budget(self):
        budget = self.make_dataset().budget
        return lambda: services.budgets.freeze_budget(budget=budget, by=self.sofia, reason="Look.")

    def unfreeze_budget(self):
        budget = self.make_dataset().budget
        services.budgets.freeze_budget(budget=budget, by=self.sofia, reason="Look.")
        return lambda: services.budgets.unfreeze_budget(budget=budget, by=self.sofia, reason="Seen.")

    def restore_ledger(self):
        budget = self.make_dataset().budget
        mark = high_water_marks.read(budget.pk)
        high_water_marks.put(budget.pk, replace(mark, sequence=budget.sequence + 1))
        return lambda: services.restoring.restore_ledger(budget=budget, by=self.sofia)

    def acknowledge_marks(self):
        budget = self.make_dataset().budget
        high_water_marks.put(uuid.uuid4(), replace(high_water_marks.read(budget.pk), sequence=1))
        return lambda: services.restoring.acknowledge_marks(by=self.sofia)

    def settle_lost_budget(self):
        budget, lost = self.make_dataset().budget, uuid.uuid4()
        mark = replace(high_water_marks.read(budget.pk), sequence=1, owner=None)
        high_water_marks.put(lost, mark)
        return lambda: services.lost_budgets.settle_lost_budget(lost=lost, into=None, by=self.sofia)

    def discard_draft(self):
        release = self.make_draft(self.make_dataset())
        return lambda: services.releases.discard_draft(release=release, by=self.alice)

    def load_plan(self):
        release = self.make_draft(self.make_dataset())
        return lambda: services.releases.load_plan(
            release=release,
            by=self.alice,
            workload=WORKLOAD,
            epsilon="",
            delta="",
            beta="",
            mechanism_name="",
            options={},
        )

    def submit_release(self):
        release = self.make_draft(self.make_dataset())
        return lambda: services.releases.submit_release(release=release, key=uuid.uuid4(), by=self.alice, send=False)

    def cancel_release(self):
        release = self.make_queued(self.make_dataset())
        return lambda: services.releases.cancel_release(release=release, by=self.alice)

    def make_public(self):
        release = self._published()
        return lambda: services.releases.make_public(release=release, by=self.alice)

    def make_private(self):
        release = self._published()
        services.releases.make_public(release=release, by=self.alice)
        return lambda: services.releases.make_private(release=release, by=self.alice)

    def withdraw_release(self):
        release = self._published()
        return lambda: services.releases.withdraw_release(release=release, by=self.alice)

    def approve_release(self):
        request = self._reviewed()
        return lambda: services.reviews.approve_release(request=request, by=self.sofia, send=False)

    def deny_release(self):
        request = self._reviewed()
        return lambda: services.reviews.deny_release(request=request, by=self.sofia, note="No.")

    def ask_back_release(self):
        request = self._reviewed()
        return lambda: services.reviews.ask_back_release(request=request, by=self.sofia, note="Why?")

    def execute_release(self):
        release = self.make_queued(self.make_dataset())
        return lambda: services.execution.execute_release(release_id=release.pk)

    def let_ask(self):
        session = self._session()
        return lambda: services.sessions.let_ask(session=session, audience=Audience.EVERYBODY, by=self.alice)

    def close_session(self):
        session = self._session()
        services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=self.alice)
        return lambda: services.session_closing.close_session(session=session, by=self.alice, send=False)

    def learn_range(self):
        dataset = self.make_dataset()
        return lambda: services.learning.learn_range(
            dataset=dataset,
            column="age",
            lowest=Decimal(0),
            highest=Decimal(120),
            decimals=0,
            inside=Fraction(9, 10),
            epsilon="0.5",
            by=self.alice,
        )

    def learn_categories(self):
        dataset = self.make_dataset()
        return lambda: services.learning.learn_categories(
            dataset=dataset, column="sex", other="other", epsilon="0.5", delta="0.0000001", by=self.alice
        )

    def _survey(self):
        return services.surveys.draft_survey(
            owner=self.alice, title="Tea", question="Tea?", answers=["yes", "no"], epsilon="1"
        )

    def open_survey(self):
        survey = self._survey()
        return lambda: services.surveys.open_survey(survey=survey, by=self.alice)

    def close_survey(self):
        survey = self._survey()
        services.surveys.open_survey(survey=survey, by=self.alice)
        return lambda: services.surveys.close_survey(survey=survey, by=self.alice)

    def _closed_survey(self):
        survey = self._survey()
        services.surveys.open_survey(survey=survey, by=self.alice)
        services.surveys.close_survey(survey=survey, by=self.alice)
        return survey

    def make_survey_public(self):
        survey = self._closed_survey()
        return lambda: services.surveys.make_survey_public(survey=survey, by=self.alice)

    def make_survey_private(self):
        survey = self._closed_survey()
        services.surveys.make_survey_public(survey=survey, by=self.alice)
        return lambda: services.surveys.make_survey_private(survey=survey, by=self.alice)

    def change_settings(self):
        return lambda: services.organisation.change_settings(
            by=self.sofia,
            upload_cap_bytes=2**20,
            default_epsilon="",
            review_above="3",
            most_per_person="",
            is_two_person=False,
            reviewers=None,
            alert_addresses="",
        )

    def give_role(self):
        return lambda: services.roles.give_role(person=self.alice, role=Role.REVIEWER, by=self.sofia)

    def take_role(self):
        return lambda: services.roles.take_role(person=self.alice, role=Role.CURATOR, by=self.sofia)

    def verify_ledgers(self):
        return lambda: services.organisation.verify_ledgers(by=self.sofia)

    def make_token(self):
        return lambda: services.tokens.make_token(user=self.alice, name="a script")

    def revoke_token(self):
        token = ApiToken.objects.create(user=self.alice, name="a script", digest="of nothing")
        return lambda: services.tokens.revoke_token(token=token)

    def end_tokens(self):
        ApiToken.objects.create(user=self.alice, name="a script", digest="of nothing")
        return lambda: services.tokens.end_tokens(owner=self.alice, by=self.alice)

    def choose_mail(self):
        return lambda: services.notices.choose_mail(person=self.alice, wants_mail=False)


#: Services that take something from somebody, hide, stop or delete: their events are remembered outside the database.
PROTECTING = set(TAKE.split())
#: Services that take nothing, or whose line about the release says it already. A new service belongs into one of both.
NOT_PROTECTING = set(GIVE.split())
RECORDED = sorted(name for name, value in vars(Scenes).items() if callable(value) and not name.startswith("_"))


@pytest.fixture
def scenes(alice, sofia, group, upload_file, make_dataset, make_draft, make_queued, monkeypatch, settings):
    monkeypatch.setattr(ledger, "restore", lambda **_: None)
    return Scenes(alice, sofia, group, upload_file, make_dataset, make_draft, make_queued, monkeypatch, settings)


def test_every_service_is_recorded_or_listed_with_the_reason():
    assert set(functions_called()) == set(RECORDED) | set(UNRECORDED)
    assert not set(RECORDED) & set(UNRECORDED)
    assert set(RECORDED) == PROTECTING | NOT_PROTECTING
    assert not PROTECTING & NOT_PROTECTING


@pytest.mark.parametrize("verb", RECORDED)
def test_a_service_leaves_an_event_with_who_did_it(scenes, verb):
    act = getattr(scenes, verb)()
    last = AuditEvent.objects.order_by("pk").values_list("pk", flat=True).last() or 0
    act()
    events = AuditEvent.objects.filter(pk__gt=last)
    assert events, verb
    for event in events:
        assert event.actor is not None or event.detail == "by a worker"
    protects = {each.action for each in events if each.action in decisions.PROTECTS}
    assert bool(protects) == (verb in PROTECTING), verb
    remembered = [line.what["decision"]["action"] for line in chain.read().others if "decision" in line.what]
    assert protects <= set(remembered)


def test_every_action_of_the_log_is_in_one_class_and_what_protects_can_be_made_again():
    """An action that is new fails here by its name, and could not be recorded."""
    classes = [set(decisions.PROTECTS), set(decisions.UNDOES), set(decisions.NEITHER)]
    assert set(AuditAction) == set.union(*classes)
    assert sum(map(len, classes)) == len(AuditAction)
    assert set(reapplying.WAYS) == decisions.PROTECTS == set(decisions.PROTECTS) | set(decisions.UNDOES.values())
    with pytest.raises(KeyError):
        decisions.is_remembered("a new action")


def test_what_is_narrowed_is_remembered_and_what_is_taken_back_is_not_made_again(scenes, alice, bob, group):
    dataset, session = scenes._bare(), scenes._session()
    services.datasets.share_dataset(dataset=dataset, group=group, by=alice)
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY, by=alice)
    services.datasets.share_dataset(dataset=dataset, group=None, by=alice)
    services.sessions.let_ask(session=session, audience=Audience.GROUP, by=alice)
    bob.groups.clear()
    bob.is_active = False
    bob.save()
    found = [(each.action, each.name) for each in decisions.after(0)]
    assert found == [
        ("unshare", "Bare"),
        ("unshare", str(session)),
        ("leave group", "bob"),
        ("close account", "bob"),
    ]
    bob.is_active = True
    bob.save()
    bob.groups.add(group)
    services.datasets.share_dataset(dataset=dataset, group=group, by=alice)
    assert [each.action for each in decisions.after(0)] == ["unshare"]


def test_an_opened_session_is_recorded(scenes):
    session = scenes._session()
    event = AuditEvent.objects.get(action="open")
    assert (event.object_id, event.detail) == (str(session.pk), "by a worker")


def test_declaring_says_what_was_declared_and_declaring_the_same_again_says_nothing(scenes, alice, as_):
    dataset = scenes._bare()
    client = as_(alice)
    codebook = '{"version": 1, "columns": [{"name": "sex", "type": "categorical", "categories": ["female", "male"]}]}'
    for _ in range(2):
        client.post(reverse("columns", args=[dataset.pk]), {"codebook": codebook})
        client.post(
            reverse("protection", args=[dataset.pk]), {"kind": "row", "neighbours": "add_remove", "max_rows": "1"}
        )
    events = AuditEvent.objects.filter(action="declare").order_by("pk")
    assert [(str(event.actor), event.detail) for event in events] == [
        ("alice", "the columns sex"),
        ("alice", "protects one row, add/remove neighbours"),
    ]


@pytest.mark.parametrize(("name", "said"), [("answers", "answers.json"), ("registry", "deployment.yaml")])
def test_what_is_made_for_a_reader_is_a_download_too(scenes, alice, as_, name, said):
    release = scenes._published()
    assert as_(alice).get(reverse(name, args=[release.pk])).status_code == 200
    event = AuditEvent.objects.get(action="download")
    assert (event.actor, event.detail) == (alice, said)


def test_a_draft_can_be_discarded_from_its_pages(scenes, alice, as_):
    release = scenes.make_draft(scenes.make_dataset())
    url, client = reverse("discard_draft", args=[release.pk]), as_(alice)
    for step in ("questions", "confirm"):
        assert url in body(client.get(reverse(step, args=[release.pk])))
    client.post(url)
    assert not Release.objects.exists()
    assert AuditEvent.objects.get(action="discard").name == "Release 1"
    submitted = scenes.make_queued(scenes.make_dataset())
    client.post(reverse("discard_draft", args=[submitted.pk]))
    assert Release.objects.filter(pk=submitted.pk).exists()
    assert AuditEvent.objects.filter(action="discard").count() == 1


def test_a_draft_that_a_reviewer_asked_about_is_kept_as_cancelled(scenes, alice, sofia, as_):
    request = scenes._reviewed()
    services.reviews.ask_back_release(request=request, by=sofia, note="Why?")
    as_(alice).post(reverse("discard_draft", args=[request.release_id]))
    assert Release.objects.get().state == "cancelled"
    assert "Why?" in words(as_(alice).get(reverse("release_detail", args=[request.release_id])))
    assert Budget.objects.count() == BudgetRequest.objects.count() == 1
