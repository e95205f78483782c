"""Every service that writes leaves an event in the audit log, with who did it; or is listed here with the reason."""

import json
import uuid
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial

import pytest
from django.urls import reverse

from releases import services
from releases.engine.domain.impossible import read_combinations
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.schema import Schema
from releases.engine.tables.catalogue import ReadableTables
from releases.engine.tables.databases import CatalogueColumn
from releases.ledger import chain, decisions, high_water_marks, ledger
from releases.models import ApiToken, Audience, AuditAction, AuditEvent, Budget, BudgetRequest, Release, Role
from releases.questions.together import PartAsked
from releases.services import reapplying
from tests.web.conftest import COLUMNS, CSV, WORKLOAD
from tests.web.pages import words
from tests.web.services_called import functions_called
from tests.web.steps import ask_for, execute, rule, submit

READS = """
alike_by_columns all_connections all_missing all_tables bought_answers certifiable check_upload column_fits
column_sets columns_of_codebook columns_of_session compare connection_named connections declared_schema faults
find_connection forgotten_decisions incoming_folder inputs_of is_behind is_compared is_incomparable left_for_drafts
list_of_session lost_budgets mapped_questions missing_of plan_categories plan_certificate plan_digest plan_of
plan_of_session plan_range possible_means read_beta recognised requests_lately room_of same_rows_as_lost standing
suggested_columns unsettled waits_for_a_reviewer why_it_waits why_not_approve why_not_discarded why_not_saved
why_not_taken_over why_not_together why_protection_is_fixed why_rows_stay workload_named
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
    acknowledge_marks add_impossible approve_release approve_request ask_consent ask_for_test cancel_release choose_mail
    declare_boundaries declare_protection declare_schema_columns declare_universe describe_dataset discard_codebook
    discard_draft discard_workload draft_collection edit_workload execute_release execute_upload give_role
    ingest_dataset join_population join_request learn_categories learn_range let_ask load_plan make_public
    make_survey_public make_token open_survey register_connection register_table remove_boundaries remove_impossible
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
    "answer_or_offer": "the transcript keeps every answer with who asked and when",
    "receive_upload": "a file is nothing yet; the table that it becomes is recorded",
    "discard_upload": "as a file that was received: it never was a table of the site",
    "reconcile_uploads": "what it moves waits again; an upload given up on is no table",
    "remove_deleted_tables": "that they were deleted is recorded when it is decided",
    "reconcile": "what it moves is queued again; a release given up on is recorded by the same function as a worker's",
    "use_token": "notes when a token was last used, on the token",
    "read_notices": "who has read what is nobody's business",
    "tables_of": "notes for which version of a server the self test has passed",
    "execute_test": "what it finds is a file beside the release; who asked for it is recorded",
    "reconcile_tests": "what it moves waits again",
    "enqueue_reports": "tells a worker to look",
    "report_attack": "a worker's; it says again what is on the page of a release",
    "enqueue_fingerprints": "tells a worker to look",
    "take_fingerprint": "a worker's; what it finds is for the reviewer's page alone",
    "notice_restored": "recorded as nobody's, once after a restored backup (test_restored_decisions.py)",
}


class Scenes:
    """What services are called with."""

    def __init__(self, **given):
        vars(self).update(given)

    def by_alice(self, service, **given):
        return partial(service, **given, by=self.alice)

    def by_sofia(self, service, **given):
        return partial(service, **given, by=self.sofia)

    def bare(self, content=CSV):
        return services.datasets.ingest_dataset(owner=self.alice, title="Bare", source=self.upload_file(content))

    def never(self):
        (combination,) = read_combinations(
            [{"age": ["18 to 24"], "sex": ["male"]}], self.make_dataset().universe.attributes
        )
        return combination

    def never_declared(self):
        dataset, combination = self.make_dataset(), self.never()
        datasets.add_impossible(dataset=dataset, combination=combination)
        return {"dataset": dataset, "removed": json.dumps(combination.to_json(), sort_keys=True)}

    def shapes(self):
        square = [[[0, 0], [1, 0], [1, 1], [0, 0]]]
        geometry = {"type": "Polygon", "coordinates": square}
        return {"type": "FeatureCollection", "features": [{"properties": {"is": "male"}, "geometry": geometry}]}

    def mapped(self):
        dataset = self.make_dataset()
        services.boundaries.declare_boundaries(dataset=dataset, column="sex", given=self.shapes())
        return {"dataset": dataset, "column": "sex"}

    def asked(self):
        return ask_for(self.make_dataset(epsilon=""), self.alice)

    def draft(self):
        return self.make_draft(self.make_dataset())

    def reviewed(self):
        rule(review_above="0.5")
        release = self.draft()
        submit(release, self.alice)
        return release.reviews.get()

    def published(self, *, is_public=False):
        release = self.make_queued(self.make_dataset())
        assert execute(release)
        if is_public:
            services.releases.make_public(release=release, by=self.alice)
        return release

    def session(self, *, is_asked=False):
        live = services.sessions.draft_session(dataset=self.make_dataset(), by=self.alice, title="", epsilon="1")
        submit(live, self.alice)
        assert execute(live)
        if is_asked:
            services.sessions.ask_session(session=live.session, query={"sex": ["female"]}, by=self.alice)
        return live.session

    def codebook(self):
        universe = self.make_dataset().universe
        return services.codebooks.save_codebook(name="Core", universe=universe, notes={}, by=self.alice)

    def workload(self):
        return services.workloads.save_workload(release=self.draft(), name="Yearly", by=self.alice)

    def changed_workload(self):
        """And a draft that asks something else."""
        workload = self.workload()
        draft = Release.objects.get(workload_version__workload=workload)
        services.releases.set_questions(release=draft, workload={"version": 1, "queries": [{"prefix": "age"}]})
        return {"workload": workload, "release": draft}

    def collection(self):
        parts = [PartAsked(title="All", workload=WORKLOAD)]
        return services.collections.draft_collection(
            dataset=self.make_dataset(), by=self.alice, title="Yearbook", epsilon="1", parts=parts
        )

    def planned_parts(self):
        draft = self.collection().parts.get().release
        services.releases.set_choice(release=draft, epsilon="1", mechanism_name="laplace-queries")
        return [(draft, services.releases.plan_of(release=draft))]

    def connection(self):
        listed = ReadableTables(names=("ward.patients",), faults=(), version="PostgreSQL of a test")
        self.monkeypatch.setattr(services.reading, "tables_of_server", lambda url, *, checked: listed)
        number = CatalogueColumn(type="integer", comment="", values=())
        self.monkeypatch.setattr(services.reading, "columns_of_server", lambda location, *, is_checked: {"age": number})
        return self.by_sofia(
            services.connections.register_connection, name="clinic", address="postgresql://reader@127.0.0.1:1/clinic"
        )

    def frozen(self):
        budget = self.make_dataset().budget
        services.budgets.freeze_budget(budget=budget, by=self.sofia, reason="Look.")
        return budget

    def mark(self, of=None, **changes):
        """A budget, and the mark of another one or of this one, as it is after a backup was put back."""
        budget = self.make_dataset().budget
        high_water_marks.put(of or budget.pk, replace(high_water_marks.read(budget.pk), **changes))
        return budget

    def token(self):
        return ApiToken.objects.create(user=self.alice, name="a script", digest="of nothing")


LOST = uuid.uuid4()
RANGE = {"lowest": Decimal(0), "highest": Decimal(120), "decimals": 0, "inside": Fraction(9, 10), "epsilon": "0.5"}
PLAN = {"workload": WORKLOAD, "epsilon": "", "delta": "", "beta": "", "mechanism_name": "", "options": {}}
SETTINGS = {"upload_cap_bytes": 2**20, "default_epsilon": "", "review_above": "3", "most_per_person": ""}
SETTINGS |= {"is_two_person": False, "reviewers": None, "alert_addresses": ""}
datasets, budgets, made, reviews = services.datasets, services.budgets, services.releases, services.reviews
surveys, workloads, connections = services.surveys, services.workloads, services.connections

#: For each service, the call that must leave an event. What it is called with is made before.
SCENES = {
    "ingest_dataset": lambda it: it.bare,
    "execute_upload": lambda it: partial(
        services.uploads.execute_upload,
        upload_id=services.uploads.receive_upload(owner=it.alice, title="Sent", source=it.upload_file()).pk,
    ),
    "declare_universe": lambda it: it.by_alice(datasets.declare_universe, dataset=it.bare(), columns=COLUMNS),
    "declare_schema_columns": lambda it: it.by_alice(
        datasets.declare_schema_columns,
        dataset=it.bare(),
        schema=Schema.from_json({"version": 1, "columns": COLUMNS}),
        says_impossible=True,
    ),
    "declare_boundaries": lambda it: it.by_alice(
        services.boundaries.declare_boundaries, dataset=it.make_dataset(), column="sex", given=it.shapes()
    ),
    "remove_boundaries": lambda it: it.by_alice(services.boundaries.remove_boundaries, **it.mapped()),
    "add_impossible": lambda it: it.by_alice(
        datasets.add_impossible, dataset=it.make_dataset(), combination=it.never()
    ),
    "remove_impossible": lambda it: it.by_alice(datasets.remove_impossible, **it.never_declared()),
    "take_over": lambda it: it.by_alice(
        services.taking_over.take_over, dataset=it.bare(), source=it.make_dataset(), is_same_people=False
    ),
    "describe_dataset": lambda it: it.by_alice(
        services.codebooks.describe_dataset, dataset=it.bare(), notes={"age": {"unit": "years"}}
    ),
    "save_codebook": lambda it: it.codebook,
    "discard_codebook": lambda it: it.by_alice(services.codebooks.discard_codebook, codebook=it.codebook()),
    "save_workload": lambda it: it.workload,
    "save_version": lambda it: it.by_alice(workloads.save_version, **it.changed_workload()),
    "edit_workload": lambda it: it.by_alice(workloads.edit_workload, workload=it.workload(), since=1, name="Other"),
    "share_workload": lambda it: it.by_alice(workloads.share_workload, workload=it.workload(), group=it.group),
    "discard_workload": lambda it: it.by_alice(workloads.discard_workload, workload=it.workload()),
    "draft_collection": lambda it: it.collection,
    "submit_collection": lambda it: it.by_alice(
        services.collections.submit_collection, planned=it.planned_parts(), key=uuid.uuid4()
    ),
    "register_connection": lambda it: it.connection(),
    "remove_connection": lambda it: it.by_sofia(connections.remove_connection, connection=it.connection()().registered),
    "register_table": lambda it: partial(
        connections.register_table,
        owner=it.alice,
        title="Patients",
        listed=connections.tables_of(it.connection()()),
        table="ward.patients",
    ),
    "declare_protection": lambda it: it.by_alice(
        datasets.declare_protection, dataset=it.bare(), unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE
    ),
    "join_population": lambda it: it.by_alice(
        datasets.join_population, other=it.make_dataset(), dataset=it.bare(CSV + b"one more,30,male\n")
    ),
    "share_dataset": lambda it: it.by_alice(datasets.share_dataset, dataset=it.bare(), group=it.group),
    "discard_dataset": lambda it: it.by_alice(datasets.discard_dataset, dataset=it.bare()),
    "rename_dataset": lambda it: it.by_alice(datasets.rename_dataset, dataset=it.bare(), title="Better"),
    "delete_rows": lambda it: it.by_alice(datasets.delete_rows, dataset=it.bare()),
    "request_budget": lambda it: it.asked,
    "approve_request": lambda it: it.by_sofia(budgets.approve_request, request=it.asked()),
    "join_request": lambda it: it.by_sofia(budgets.join_request, to=it.make_dataset().budget_id, request=it.asked()),
    "ask_consent": lambda it: it.by_sofia(
        services.recognition.ask_consent, about=it.make_dataset().pk, request=it.asked(), note="One of yours?"
    ),
    "deny_request": lambda it: it.by_sofia(budgets.deny_request, request=it.asked(), note="No."),
    "ask_back_request": lambda it: it.by_sofia(budgets.ask_back_request, request=it.asked(), note="Why?"),
    "take_back_request": lambda it: it.by_alice(budgets.take_back_request, request=it.asked()),
    "freeze_budget": lambda it: it.by_sofia(budgets.freeze_budget, budget=it.make_dataset().budget, reason="Look."),
    "unfreeze_budget": lambda it: it.by_sofia(budgets.unfreeze_budget, budget=it.frozen(), reason="Seen."),
    "restore_ledger": lambda it: it.by_sofia(services.restoring.restore_ledger, budget=it.mark(sequence=3)),
    "acknowledge_marks": lambda it: it.mark(of=LOST, sequence=1) and it.by_sofia(services.restoring.acknowledge_marks),
    "settle_lost_budget": lambda it: (
        it.mark(of=LOST, sequence=1, owner=None)
        and it.by_sofia(services.lost_budgets.settle_lost_budget, lost=LOST, into=None)
    ),
    "discard_draft": lambda it: it.by_alice(made.discard_draft, release=it.draft()),
    "load_plan": lambda it: it.by_alice(made.load_plan, release=it.draft(), **PLAN),
    "submit_release": lambda it: partial(submit, it.draft(), it.alice),
    "cancel_release": lambda it: it.by_alice(made.cancel_release, release=it.make_queued(it.make_dataset())),
    "make_public": lambda it: it.by_alice(made.make_public, release=it.published()),
    "make_private": lambda it: it.by_alice(made.make_private, release=it.published(is_public=True)),
    "ask_for_test": lambda it: it.by_alice(services.disclosure_tests.ask_for_test, release=it.published()),
    "withdraw_release": lambda it: it.by_alice(made.withdraw_release, release=it.published()),
    "approve_release": lambda it: it.by_sofia(reviews.approve_release, request=it.reviewed(), send=False),
    "deny_release": lambda it: it.by_sofia(reviews.deny_release, request=it.reviewed(), note="No."),
    "ask_back_release": lambda it: it.by_sofia(reviews.ask_back_release, request=it.reviewed(), note="Why?"),
    "execute_release": lambda it: partial(execute, it.make_queued(it.make_dataset())),
    "let_ask": lambda it: it.by_alice(services.sessions.let_ask, session=it.session(), audience=Audience.EVERYBODY),
    "close_session": lambda it: it.by_alice(
        services.session_closing.close_session, session=it.session(is_asked=True), send=False
    ),
    "learn_range": lambda it: it.by_alice(
        services.learning.learn_range, dataset=it.make_dataset(), column="age", **RANGE
    ),
    "learn_categories": lambda it: it.by_alice(
        services.learning.learn_categories,
        dataset=it.make_dataset(),
        column="sex",
        other="other",
        epsilon="0.5",
        delta="0.0000001",
    ),
    "open_survey": lambda it: it.by_alice(surveys.open_survey, survey=it.make_survey("draft")),
    "close_survey": lambda it: it.by_alice(surveys.close_survey, survey=it.make_survey("open")),
    "make_survey_public": lambda it: it.by_alice(surveys.make_survey_public, survey=it.make_survey("closed")),
    "make_survey_private": lambda it: it.by_alice(surveys.make_survey_private, survey=it.make_survey("public")),
    "change_settings": lambda it: it.by_sofia(services.organisation.change_settings, **SETTINGS),
    "give_role": lambda it: it.by_sofia(services.roles.give_role, person=it.alice, role=Role.REVIEWER),
    "take_role": lambda it: it.by_sofia(services.roles.take_role, person=it.alice, role=Role.CURATOR),
    "verify_ledgers": lambda it: it.by_sofia(services.organisation.verify_ledgers),
    "make_token": lambda it: partial(services.tokens.make_token, user=it.alice, name="a script"),
    "revoke_token": lambda it: partial(services.tokens.revoke_token, token=it.token()),
    "end_tokens": lambda it: it.token() and it.by_alice(services.tokens.end_tokens, owner=it.alice),
    "choose_mail": lambda it: partial(services.notices.choose_mail, person=it.alice, wants_mail=False),
}


#: Services that take something from somebody, hide, stop or delete: their events are remembered outside the database.
PROTECTING = set(TAKE.split())
#: Services that take nothing, or whose line about the release says it already. A new service belongs into one of both.
NOT_PROTECTING = set(GIVE.split())


@pytest.fixture
def scenes(
    alice, sofia, group, upload_file, make_dataset, make_draft, make_queued, make_survey, monkeypatch, no_worker
):
    monkeypatch.setattr(ledger, "restore", lambda **_: None)
    return Scenes(**locals())


def test_every_service_is_recorded_or_listed_with_the_reason():
    assert set(functions_called()) == set(SCENES) | set(UNRECORDED)
    assert not set(SCENES) & set(UNRECORDED)
    assert set(SCENES) == PROTECTING | NOT_PROTECTING
    assert not PROTECTING & NOT_PROTECTING


@pytest.mark.parametrize("verb", sorted(SCENES))
def test_a_service_leaves_an_event_with_who_did_it(scenes, verb):
    act = SCENES[verb](scenes)
    last = AuditEvent.objects.order_by("pk").values_list("pk", flat=True).last() or 0
    act()
    events = AuditEvent.objects.filter(pk__gt=last)
    assert events
    assert all(event.actor is not None or event.detail == "by a worker" for event in events)
    protects = {each.action for each in events if each.action in decisions.PROTECTS}
    assert bool(protects) == (verb in PROTECTING)
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
    dataset, session = scenes.bare(), scenes.session()
    services.datasets.share_dataset(dataset=dataset, group=group, by=alice)
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY, by=alice)
    services.datasets.share_dataset(dataset=dataset, group=None, by=alice)
    services.sessions.let_ask(session=session, audience=Audience.GROUP, by=alice)
    bob.groups.clear()
    bob.is_active = False
    bob.save()
    narrowed = [("unshare", "Bare"), ("unshare", str(session)), ("leave group", "bob"), ("close account", "bob")]
    assert [(each.action, each.name) for each in decisions.after(0)] == narrowed
    bob.is_active = True
    bob.save()
    bob.groups.add(group)
    services.datasets.share_dataset(dataset=dataset, group=group, by=alice)
    assert [each.action for each in decisions.after(0)] == ["unshare"]


def test_a_draft_that_a_reviewer_asked_about_is_kept_as_cancelled(scenes, alice, sofia, as_):
    request = scenes.reviewed()
    services.reviews.ask_back_release(request=request, by=sofia, note="Why?")
    as_(alice).post(reverse("discard_draft", args=[request.release_id]))
    assert Release.objects.get().state == "cancelled"
    assert "Why?" in words(as_(alice).get(reverse("release_detail", args=[request.release_id])))
    assert Budget.objects.count() == BudgetRequest.objects.count() == 1
