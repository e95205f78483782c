"""Nobody approves what they asked for, whatever it is, unless the site is told that one person does everything."""

import ast
import inspect
import re
import shutil
import uuid
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings as settings_of_django

from dpweb import settings as as_installed
from releases import services
from releases.engine.accounting.filters import Totals
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log, high_water_marks, ledger, record
from releases.models import (
    AuditAction,
    AuditEvent,
    Budget,
    BudgetRequest,
    Dataset,
    LedgerEntry,
    Release,
    ReleaseRequest,
)
from releases.models.stakes import DECISIONS as DECIDES
from releases.models.stakes import HasStake, stake_of
from releases.presentation import review as shown
from releases.views import review
from tests.web.conftest import person
from tests.web.services_called import functions_called
from tests.web.shared.test_access import snapshot
from tests.web.steps import again, ask_for, protect, rule, submit
from tests.web.undoing import undone

OWN = "asked for it; somebody else has to approve it"


@pytest.fixture
def tess(group):
    """A curator of the group who reviews as well."""
    user = person("tess", "curator", "reviewer")
    user.groups.add(group)
    return user


# What is asked: by tess herself, or by bob of her group.


def first_budget(it, by):
    return ask_for(it.make_dataset(epsilon=""), by, "2")


def raised_budget(it, by):
    return ask_for(it.make_dataset(epsilon="2"), by, "9")


def reviewed(draft, by):
    rule(review_above="0")
    submit(draft, by)
    return ReleaseRequest.objects.get(release=draft)


def release(it, by):
    return reviewed(it.make_draft(it.make_dataset(epsilon="9"), epsilon="1"), by)


def session(it, by):
    dataset = it.make_dataset(epsilon="5")
    return reviewed(services.sessions.draft_session(dataset=dataset, by=by, title="", epsilon="1"), by)


EVERYTHING = [first_budget, raised_budget, release, session]


def approve(asked, by):
    if isinstance(asked, BudgetRequest):
        return services.budgets.approve_request(request=asked, by=by)
    return services.reviews.approve_release(request=asked, by=by, send=False)


@pytest.fixture
def it(make_dataset, make_draft, make_queued):
    return SimpleNamespace(make_dataset=make_dataset, make_draft=make_draft, make_queued=make_queued)


def test_under_the_two_person_rule_neither_of_the_two_is_who_asked_even_where_duties_are_not_separated(
    it, tess, settings
):
    settings.SEPARATION_OF_DUTIES = False
    rule(is_two_person=True)
    with pytest.raises(InvalidInput, match="two others"):
        approve(first_budget(it, tess), tess)


def owner(dataset, request, tess):
    dataset.owner = tess
    dataset.save()


def owner_of_another_table_of_the_population(dataset, request, tess):
    Dataset.objects.create(title="Later", digest="later", columns=dataset.columns, budget=dataset.budget, owner=tess)


def asker(dataset, request, tess):
    """In the one budget request there is, whoever wrote the release."""
    BudgetRequest.objects.filter(budget=dataset.budget).update(requested_by=tess)


def editor_of_the_group(dataset, request, tess):
    services.datasets.rename_dataset(dataset=dataset, title="Survey of all", by=tess)


def editor_who_left_the_group(dataset, request, tess):
    protect(dataset, tess, unit=dataset.budget.privacy_unit, neighbours=dataset.budget.relation)
    services.codebooks.describe_dataset(dataset=dataset, description="All people asked.", notes={}, by=tess)
    tess.groups.clear()


def author_of_a_release(dataset, request, tess):
    services.releases.draft_release(dataset=dataset, by=tess)
    tess.groups.clear()


def author_of_this_release(dataset, request, tess):
    if isinstance(request, ReleaseRequest):
        Release.objects.filter(pk=request.release_id).update(submitted_by=tess)
        request.release.refresh_from_db()
    else:
        author_of_a_release(dataset, request, tess)
    tess.groups.clear()


def member_who_may_have_changed_the_draft(dataset, request, tess):
    if not isinstance(request, ReleaseRequest):
        services.datasets.rename_dataset(dataset=dataset, title="Survey of all", by=tess)


STAKES = [
    owner,
    owner_of_another_table_of_the_population,
    asker,
    editor_of_the_group,
    editor_who_left_the_group,
    author_of_a_release,
    author_of_this_release,
    member_who_may_have_changed_the_draft,
]


def budget_of(request):
    return Budget.objects.get(
        pk=request.budget_id if isinstance(request, BudgetRequest) else request.release.dataset.budget_id
    )


def freeze_first(request, sofia):
    services.budgets.freeze_budget(budget=budget_of(request), by=sofia, reason="look")


def put_mark(budget, **given):
    high_water_marks.put(budget, high_water_marks.Mark(hash="0" * 64, totals=Totals(), **given))


def put_the_mark_ahead(request, sofia):
    put_mark(budget_of(request).pk, sequence=9)


def lose_the_marks(request, sofia):
    shutil.rmtree(settings_of_django.MARKS_DIR, ignore_errors=True)
    assert record.look().is_lost


def another_with_these_columns(request, sofia):
    """A table of a stranger's with a budget of its own."""
    own = request.budget
    other = {"owner": person("stranger", "curator")}
    same = {"unit": own.unit, "neighbours": own.neighbours, "policy": own.policy}
    budget = Budget.objects.create(name="Other", **same, **other)
    ledger.grant(budget=budget, epsilon="2", delta="0.000001", actor=sofia)
    Dataset.objects.create(title="Other", digest="other", columns=own.datasets.first().columns, budget=budget, **other)


def the_other():
    return Dataset.objects.get(title="Other")


LOST = uuid.uuid4()


def lose_a_budget(request, sofia):
    """As a restored backup loses one that was granted after it."""
    put_mark(LOST, sequence=1, owner={"id": 0, "name": "somebody who is gone"})


BUDGET, FIRST, RELEASE = [raised_budget], [first_budget], [release]
budgets, reviews, restoring = services.budgets, services.reviews, services.restoring
#: Every decision of a reviewer by the name of its service: what it is about, what has to be there, and the call.
DECISIONS = {
    "approve_request": (BUDGET, None, lambda of, by: budgets.approve_request(request=of, by=by)),
    "deny_request": (BUDGET, None, lambda of, by: budgets.deny_request(request=of, by=by, note="no")),
    "ask_back_request": (BUDGET, None, lambda of, by: budgets.ask_back_request(request=of, by=by, note="why?")),
    "approve_release": (
        [release, session],
        None,
        lambda of, by: reviews.approve_release(request=of, by=by, send=False),
    ),
    "deny_release": (RELEASE, None, lambda of, by: reviews.deny_release(request=of, by=by, note="no")),
    "ask_back_release": (RELEASE, None, lambda of, by: reviews.ask_back_release(request=of, by=by, note="why?")),
    "unfreeze_budget": (
        BUDGET,
        freeze_first,
        lambda of, by: budgets.unfreeze_budget(budget=budget_of(of), by=by, reason="fine"),
    ),
    "restore_ledger": (
        BUDGET,
        put_the_mark_ahead,
        lambda of, by: restoring.restore_ledger(budget=budget_of(of), by=by),
    ),
    "acknowledge_marks": (BUDGET, lose_the_marks, lambda of, by: restoring.acknowledge_marks(by=by)),
    "join_request": (
        FIRST,
        another_with_these_columns,
        lambda of, by: budgets.join_request(request=of, to=the_other().budget_id, by=by),
    ),
    "ask_consent": (
        FIRST,
        another_with_these_columns,
        lambda of, by: services.recognition.ask_consent(request=of, about=the_other().pk, by=by, note="Yours?"),
    ),
    "settle_lost_budget": (
        BUDGET,
        lose_a_budget,
        lambda of, by: services.lost_budgets.settle_lost_budget(lost=LOST, into=budget_of(of), by=by),
    ),
}
#: What the reviewers' pages call beside these, and why it needs nobody without a stake.
NO_DECISIONS = {
    "freeze_budget": "protects; whoever reviews may stop a budget",
    "change_settings": "about the site, by administrators",
    "verify_ledgers": "reads",
    "recognised": "reads",
    "why_it_waits": "reads, for whoever asked",
    "give_role": "about people, by administrators",
    "take_role": "about people, by administrators",
    "register_connection": "about the site, by administrators",
    "remove_connection": "about the site, by administrators",
}


def test_every_service_that_the_reviewers_pages_call_is_a_decision_of_this_file_or_said_to_be_none():
    called = set()
    for path in (each for room in (review, shown) for each in Path(room.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and any(each.arg == "by" for each in node.keywords):
                called |= set(re.findall(r"^services\.\w+\.(\w+)$", ast.unparse(node.func)))
    assert called <= set(DECISIONS) | set(NO_DECISIONS), "say here what these are"
    assert set(NO_DECISIONS) <= called


def test_every_service_that_records_a_decision_is_a_decision_of_this_file():
    """Also those that no page of the reviewers calls. What a service reaches is found by the names in the code."""
    names = defaultdict(set)
    for path in Path(services.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            targets = [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]
            for name in targets or [getattr(node, "name", "")]:
                names[name] |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                names[name] |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    recording = {each.name for each in DECIDES}
    while more := {name for name in names if name not in recording and names[name] & recording}:
        recording |= more
    functions = functions_called()
    deciding = {name for name in recording if "by" in _parameters(functions.get(name))}
    assert deciding == set(DECISIONS)


def _parameters(service):
    return inspect.signature(service).parameters if inspect.isfunction(service) else {}


CASES = [(name, what, {}) for name, (whats, _, _) in DECISIONS.items() for what in whats]
CASES.append(("approve_request", raised_budget, {"is_two_person": True}))


@pytest.mark.parametrize(("decision", "what", "rules"), CASES)
def test_nobody_with_a_stake_decides(it, tess, bob, sofia, decision, what, rules):
    _, before, act = DECISIONS[decision]
    asked = what(it, bob)
    if rules:
        rule(**rules)
    for stake in STAKES:
        with undone():
            request = again(asked)
            stake(Dataset.objects.get(budget=budget_of(request)), request, tess)
            if before is not None:
                before(request, sofia)
            state = snapshot(), AuditEvent.objects.count()
            with pytest.raises(HasStake, match="somebody else has to"):
                act(again(asked), again(tess))
            assert (snapshot(), AuditEvent.objects.count()) == state
            act(again(asked), sofia)
            assert AuditEvent.objects.count() > state[1]


def test_a_decision_that_forgets_to_ask_is_not_recorded(it, bob, tess, alice):
    """As a service would do that somebody adds: what is recorded is checked, and every write is recorded."""
    request = raised_budget(it, bob)
    for action in DECIDES:
        for thing in (request, request.budget, request.budget.datasets.get()):
            with pytest.raises(HasStake):
                audit_log.record(action, actor=alice, on=thing)
        with pytest.raises(TypeError, match="is not known"):
            audit_log.record(action, actor=alice, on=tess)
        with pytest.raises(TypeError, match="is about something"):
            audit_log.record(action, actor=alice)
    assert audit_log.record(AuditAction.FREEZE, actor=alice, on=request.budget)


def test_who_approves_a_budget_that_is_joined_has_no_stake_in_the_other_one_either(make_dataset, tess, sofia, group):
    make_dataset(epsilon="2", owner=tess, sofia=sofia)
    tess.groups.clear()
    other = make_dataset(epsilon="", owner=person("dora", "curator"))
    asked = ask_for(other, other.owner)
    budget = Budget.objects.get(owner=tess)
    with pytest.raises(InvalidInput, match="You have a stake"):
        services.budgets.join_request(request=asked, to=budget.pk, by=tess)
    services.budgets.join_request(request=asked, to=budget.pk, by=sofia)
    other.refresh_from_db()
    assert other.budget == budget
    assert stake_of(sofia, other) is None


def test_a_lost_budget_that_may_be_anybody_s_is_settled_by_nobody_with_a_budget_of_their_own(make_dataset, tess, sofia):
    make_dataset(epsilon="", owner=tess)
    put_mark(LOST, sequence=1, owner=None)
    with pytest.raises(HasStake):
        services.lost_budgets.settle_lost_budget(lost=LOST, into=None, by=tess)
    services.lost_budgets.settle_lost_budget(lost=LOST, into=None, by=sofia)


@pytest.mark.parametrize("what", EVERYTHING)
def test_nobody_approves_what_they_asked_for_unless_one_person_does_everything(it, tess, sofia, settings, what):
    assert as_installed.SEPARATION_OF_DUTIES is True
    asked = what(it, tess)
    before = LedgerEntry.objects.count()
    with pytest.raises(InvalidInput, match=OWN):
        approve(asked, tess)
    asked.refresh_from_db()
    assert asked.state == "waiting"
    assert LedgerEntry.objects.count() == before
    for is_separated, by in ((True, sofia), (False, tess)):
        settings.SEPARATION_OF_DUTIES = is_separated
        with undone():
            approve(again(asked), by)
            asked.refresh_from_db()
            assert asked.state == "approved"
