"""The ledger and the life of a release as a state machine: any order of any steps keeps every promise."""

import uuid
from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from releases import services
from releases.engine.accounting.filters import Policy, admits, amounts
from releases.engine.errors import Cancelled, InvalidInput
from releases.ledger import ledger, refusals, verification
from releases.models import Budget, Dataset, EntryKind, LedgerEntry, Release, ReleaseState
from releases.services import attempts, execution
from tests.web.undoing import undone

#: Few enough that a release fails for good within the steps of one example.
MAX_ATTEMPTS = 2
OUTCOME = {"receipt": {}, "files": {}}
WORKLOAD = {"version": 1, "queries": [{"marginals": 1}]}
COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]


class Ledger(RuleBasedStateMachine):
    """Curators, reviewers and workers who do everything in every order; workers may die at any point."""

    def __init__(self):
        super().__init__()
        self.undoing = ExitStack()
        self.undoing.enter_context(undone())
        self.tokens = {}
        self.opened = set()
        self.outputs = {}

    def teardown(self):
        self.undoing.close()

    @initialize(policy=st.sampled_from(list(Policy)), epsilon=st.sampled_from(["0.5", "1", "3"]))
    def begin(self, policy, epsilon):
        name = uuid.uuid4().hex
        self.person = User.objects.create(username=name)
        promised = {"unit": {"kind": "row"}, "neighbours": "add_remove", "policy": policy.value}
        budget = Budget.objects.create(name=name, owner=self.person, **promised)
        table = {"digest": name, "columns": ["sex"], "location": "nowhere.parquet", "declared": COLUMNS}
        self.dataset = Dataset.objects.create(title=name, owner=self.person, budget=budget, **table)
        self.delta = "0" if policy is Policy.PURE else "0.000001"
        ledger.grant(budget=budget, epsilon=epsilon, delta=self.delta, actor=self.person)

    def budget(self):
        return Budget.objects.get(pk=self.dataset.budget_id)

    def worker(self, data):
        """Any worker that ever claimed a release, however long it was presumed dead: the release, and its token."""
        release_id = data.draw(st.sampled_from(list(self.tokens)))
        return Release.objects.get(pk=release_id), data.draw(st.sampled_from(self.tokens[release_id]))

    def some(self, data, *states):
        found = list(self.dataset.releases.filter(state__in=states).order_by("created_at"))
        return data.draw(st.sampled_from(found)) if found else None

    @rule(
        epsilon=st.sampled_from(["0.1", "0.3", "0.25", "1"]),
        mechanism=st.sampled_from(["laplace-queries", "gaussian-queries"]),
        twice=st.booleans(),
    )
    def submit(self, epsilon, mechanism, twice):
        release = services.releases.draft_release(dataset=Dataset.objects.get(pk=self.dataset.pk), by=self.person)
        services.releases.set_questions(release=release, workload=WORKLOAD)
        delta = "0" if mechanism == "laplace-queries" or self.delta == "0" else "0.00000001"
        services.releases.set_choice(release=release, epsilon=epsilon, delta=delta, mechanism_name=mechanism)
        before, key = self.budget(), uuid.uuid4()
        try:
            plan = services.releases.plan_of(release=release)
            services.releases.submit_release(release=release, key=key, by=self.person, send=False)
        except services.release_inputs.Refusal:
            assert plan.infeasible
            return
        except refusals.InsufficientBudget as refused:
            requested = refused.requested
            assert not admits(before.totals, requested, before.caps)
            assert self.budget().totals == before.totals
            assert Release.objects.get(pk=release.pk).state == ReleaseState.DRAFT
            return
        except refusals.Frozen:
            assert before.is_frozen
            return
        entry = LedgerEntry.objects.get(key=key)
        price = ledger.accountant.price(plan.events, delta=plan.delta)
        assert self.budget().totals == before.totals.plus(amounts(price, policy=Policy(before.policy)))
        if twice:
            release.refresh_from_db()
            assert services.releases.submit_release(release=release, key=key, by=self.person, send=False) == entry

    @rule(data=st.data())
    def claim(self, data):
        release = self.some(data, *ReleaseState)
        if release is None:
            return
        token = execution._claim(release.pk)
        claimable = release.state == ReleaseState.QUEUED and release.attempts < MAX_ATTEMPTS
        assert (token is not None) == (claimable and not self.budget().is_frozen)
        if token is not None:
            self.tokens.setdefault(release.pk, []).append(token)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def open_the_table(self, data):
        release, token = self.worker(data)
        try:
            attempts.about_to_open(release.pk, token)
        except Cancelled:
            assert release.state != ReleaseState.RUNNING or release.run_token != token
        else:
            assert not release.entries.filter(kind=EntryKind.RETURN).exists(), "what was given back was read"
            self.opened.add(release.pk)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def publish(self, data):
        release, token = self.worker(data)
        expected = release.state == ReleaseState.RUNNING and release.run_token == token
        assert execution._publish(release.pk, token, OUTCOME, folder=f"{release.pk}/{token}") == expected
        if expected:
            self.outputs[release.pk] = self.outputs.get(release.pk, 0) + 1

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def fail(self, data):
        release, token = self.worker(data)
        execution._fail(release.pk, token)

    @rule(data=st.data())
    def lapse_and_reconcile(self, data):
        release = self.some(data, ReleaseState.RUNNING)
        if release is not None:
            Release.objects.filter(pk=release.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        services.execution.reconcile()
        if release is not None:
            release.refresh_from_db()
            is_last = release.attempts >= MAX_ATTEMPTS
            assert release.state == (ReleaseState.FAILED if is_last else ReleaseState.QUEUED)

    @rule(data=st.data())
    def cancel(self, data):
        release = self.some(data, *ReleaseState)
        if release is None:
            return
        before = self.budget().totals
        try:
            services.releases.cancel_release(release=release, by=self.person)
        except services.release_inputs.Refusal:
            assert release.state != ReleaseState.QUEUED or release.pk in self.opened
            assert self.budget().totals == before
        else:
            assert release.pk not in self.opened, "a release whose table a worker opened was given back"

    @rule(epsilon=st.sampled_from(["0.2", "1", "4"]))
    def grant(self, epsilon):
        before = self.budget()
        is_charged = LedgerEntry.objects.filter(budget=before, kind=EntryKind.CHARGE).exists()
        try:
            ledger.grant(budget=before, epsilon=epsilon, delta=self.delta, actor=self.person)
        except InvalidInput:
            assert is_charged
            assert float(epsilon) < float(before.epsilon)
            assert self.budget().epsilon == before.epsilon
        else:
            assert not is_charged or float(epsilon) >= float(before.epsilon)

    @rule(frozen=st.booleans())
    def freeze(self, frozen):
        (services.budgets.freeze_budget if frozen else services.budgets.unfreeze_budget)(budget=self.budget())

    @invariant()
    def nothing_is_overspent(self):
        budget = self.budget()
        assert any(branch.holds(budget.totals) for branch in budget.caps.branches)

    @invariant()
    def the_ledger_adds_up(self):
        assert list(verification.verify(self.budget())) == []

    @invariant()
    def every_output_has_exactly_one_charge_that_stays(self):
        for release in self.dataset.releases.all():
            kinds = list(release.entries.values_list("kind", flat=True))
            assert kinds.count(EntryKind.CHARGE) == (0 if release.state == ReleaseState.DRAFT else 1)
            has_ended = release.state in (ReleaseState.CANCELLED, ReleaseState.FAILED)
            assert kinds.count(EntryKind.RETURN) == (1 if has_ended and release.pk not in self.opened else 0)
            assert self.outputs.get(release.pk, 0) == (1 if release.state == ReleaseState.PUBLISHED else 0)
            assert release.attempts <= MAX_ATTEMPTS


@pytest.mark.django_db
@override_settings(MAX_ATTEMPTS=MAX_ATTEMPTS)
def test_any_order_of_any_steps_spends_at_most_the_budget_and_publishes_once_a_charge():
    run_state_machine_as_test(
        Ledger, settings=settings(max_examples=40, stateful_step_count=30, suppress_health_check=list(HealthCheck))
    )
