"""Whom a budget protects, and whom its releases were planned to protect: the same in any order of any steps."""

import copy
import uuid
from contextlib import ExitStack

import pytest
from django.contrib.auth.models import User
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
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import EngineError
from releases.ledger import refusals, verification
from releases.models import Budget, Dataset, EntryKind, HeldRole, LedgerEntry, Release, ReleaseState, RequestState
from tests.web.undoing import undone

COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]
WORKLOAD = {"version": 1, "queries": [{"marginals": 1}]}
PROTECTIONS = [
    (PrivacyUnit(), NeighbouringRelation.ADD_REMOVE),
    (PrivacyUnit(), NeighbouringRelation.REPLACE),
    (PrivacyUnit(kind="person", id_column="person", max_rows=10), NeighbouringRelation.REPLACE),
    (PrivacyUnit(kind="person", id_column="person", max_rows=1), NeighbouringRelation.REPLACE),
]
#: What passes without a review, and what does not.
LITTLE, MUCH = "0.125", "1"

protections = st.sampled_from(PROTECTIONS)
tables = st.integers(0, 1)
which = st.integers(0, 2)


class Protection(RuleBasedStateMachine):
    """A curator of two tables, a reviewer and a worker, who do everything in every order.

    Each acts on the page that was loaded when a release was drafted, a budget asked for, or a review: what happened
    since, it does not say. What is refused is refused; what is not has to mean what its budget means.
    """

    def __init__(self):
        super().__init__()
        self.curator, self.reviewer = User.objects.get(username="curator"), User.objects.get(username="reviewer")
        self.undoing = ExitStack()
        self.undoing.enter_context(undone())

    @initialize(first=protections, second=protections, has_budget=st.sampled_from([True, True, False]))
    def begin(self, first, second, has_budget):
        self.releases, self.requests, self.reviews = [], [], []
        self.look()
        self.declare(table=0, protection=first)
        self.declare(table=1, protection=second)
        if has_budget:
            self.ask(0)
            self.grant(0)

    def teardown(self):
        with self.undoing:
            assert [fault for budget in Budget.objects.all() for fault in verification.verify(budget)] == []

    def tried(self, verb, **given):
        try:
            return verb(**given)
        except (EngineError, services.release_inputs.Refusal, refusals.LedgerRefusal):
            return None

    def look(self):
        self.tables = list(Dataset.objects.select_related("budget").order_by("title"))

    def table(self, number):
        """A page's own: what one verb finds out, another page does not know."""
        return copy.copy(self.tables[number])

    @rule(table=tables, protection=protections)
    def declare(self, table, protection):
        unit, neighbours = protection
        dataset = self.table(table)
        self.tried(
            services.datasets.declare_protection, dataset=dataset, unit=unit, neighbours=neighbours, by=self.curator
        )
        self.look()

    @rule(table=tables)
    def join(self, table):
        dataset, other = self.table(table), self.table(1 - table)
        self.tried(services.datasets.join_population, dataset=dataset, other=other, by=self.curator)
        self.look()

    @rule(
        table=tables,
        epsilon=st.sampled_from([LITTLE, MUCH]),
        meanwhile=st.none() | protections,
        steps=st.sampled_from([3, 3, 0, 1, 2]),
    )
    def draft(self, table, epsilon, meanwhile, steps):
        """Somebody else changes the protection while the page is open, or nobody does; then some of what follows."""
        release = services.releases.draft_release(dataset=self.table(table), by=self.curator)
        services.releases.set_questions(release=release, workload=WORKLOAD)
        services.releases.set_choice(release=release, epsilon=epsilon, mechanism_name="laplace-queries")
        # The page on which it is confirmed, with all that it says of the protection.
        self.releases.insert(0, Release.objects.select_related("dataset__budget").get(pk=release.pk))
        if meanwhile is not None:
            self.declare(table=table, protection=meanwhile)
        if steps > 0:
            self.submit(0)
        if steps > 1 and self.reviews:
            self.approve(0, "")
        if steps > 2:
            self.run()

    @precondition(lambda self: self.releases)
    @rule(number=which)
    def submit(self, number):
        for release in self.releases[number : number + 1]:
            self.tried(services.releases.submit_release, release=release, key=uuid.uuid4(), by=self.curator, send=False)
            self.reviews[:0] = release.reviews.filter(state=RequestState.WAITING)

    @precondition(lambda self: self.releases)
    @rule(number=which)
    def take_release_back(self, number):
        for release in self.releases[number : number + 1]:
            self.tried(services.releases.cancel_release, release=release, by=self.curator)

    @rule(table=tables)
    def ask(self, table):
        given = {"epsilon": "8", "delta": "0.000001", "policy": Policy.ZCDP, "reason": ""}
        request = self.tried(services.budgets.request_budget, dataset=self.table(table), by=self.curator, **given)
        if request is not None:
            self.requests.insert(0, request)

    @precondition(lambda self: self.requests)
    @rule(number=which)
    def take_request_back(self, number):
        for request in self.requests[number : number + 1]:
            self.tried(services.budgets.take_back_request, request=request, by=self.curator)

    @precondition(lambda self: self.requests)
    @rule(number=which)
    def grant(self, number):
        for request in self.requests[number : number + 1]:
            self.tried(services.budgets.approve_request, request=request, by=self.reviewer)

    @precondition(lambda self: self.reviews)
    @rule(number=which, epsilon=st.sampled_from(["", "0.5"]))
    def approve(self, number, epsilon):
        for request in self.reviews[number : number + 1]:
            self.tried(services.reviews.approve_release, request=request, by=self.reviewer, epsilon=epsilon, send=False)

    @rule()
    def run(self):
        for release in Release.objects.filter(state=ReleaseState.QUEUED):
            assert services.execution.execute_release(release_id=release.pk)

    @invariant()
    def every_charge_was_made_for_what_its_budget_protects(self):
        for entry in LedgerEntry.objects.filter(kind=EntryKind.CHARGE).select_related("budget", "release__dataset"):
            promised = (entry.budget.unit, entry.budget.neighbours)
            assert (entry.detail["unit"], entry.detail["neighbours"]) == promised
            assert protects(entry.release.plan["schema"]) == promised
            assert entry.release.dataset.budget_id == entry.budget_id

    @invariant()
    def every_result_protects_what_its_budget_promises(self):
        for release in Release.objects.exclude(stored_result=None).select_related("dataset__budget"):
            promised = (release.dataset.budget.unit, release.dataset.budget.neighbours)
            assert protects(release.plan["schema"]) == protects(release.result["receipt"]["schema"]) == promised

    @invariant()
    def what_waits_was_planned_for_what_its_budget_protects(self):
        for release in Release.objects.filter(state=ReleaseState.REVIEW).select_related("dataset__budget"):
            promised = (release.dataset.budget.unit, release.dataset.budget.neighbours)
            assert protects(release.plan["schema"]) == promised


def protects(schema):
    return schema["unit"], schema["neighbours"]


@pytest.fixture
def _two_tables(db, settings, tmp_path):
    """Of one curator; a release of much waits for the reviewer."""
    settings.REVIEW_ABOVE_EPSILON = "0.5"
    curator = User.objects.create(username="curator")
    reviewer = User.objects.create(username="reviewer")
    HeldRole.objects.create(person=reviewer, role="reviewer")
    HeldRole.objects.create(person=curator, role="curator")
    for number in range(2):
        path = tmp_path / f"{number}.csv"
        path.write_text("person,sex\n" + "".join(f"p{each % 9},{'fm'[each % 2]}\n" for each in range(20 + number)))
        dataset = services.datasets.ingest_dataset(owner=curator, title=f"Table {number}", source=path)
        services.datasets.declare_universe(dataset=dataset, columns=COLUMNS)


@pytest.mark.usefixtures("_two_tables")
def test_any_order_of_any_steps_charges_and_publishes_what_the_budget_promises_to_protect():
    run_state_machine_as_test(
        Protection, settings=settings(max_examples=40, stateful_step_count=20, suppress_health_check=list(HealthCheck))
    )


@pytest.mark.usefixtures("_two_tables")
@pytest.mark.parametrize("epsilon", [LITTLE, MUCH])
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_the_machine_comes_as_far_as_a_result_again_and_again(protection, epsilon):
    for _ in range(2):
        machine = Protection()
        try:
            machine.begin(protection, protection, has_budget=True)
            machine.draft(0, epsilon, None, steps=3)
            assert Release.objects.get().result is not None
            machine.every_result_protects_what_its_budget_promises()
        finally:
            machine.teardown()
