"""Every page that lists things asks the database as many questions for fifty of them as for five."""

import uuid

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from releases import models, services
from releases.engine.accounting.events import PureEvent
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit, exact
from releases.ledger import audit_log, ledger, reports
from releases.models import AuditAction, Budget, BudgetRequest, Dataset, Release, SavedWorkload
from releases.notifications import messages
from tests.web.pages import body

FEW, MANY = 5, 50
QUESTIONS = {"version": 1, "queries": [{"marginals": 1}]}
COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]
ROW = {"unit": PrivacyUnit(), "neighbours": NeighbouringRelation.ADD_REMOVE}


@pytest.fixture
def grow(alice, sofia, group):
    """So many more of everything that is listed anywhere."""

    def more(count):
        for _ in range(count):
            name, kept = f"Survey {uuid.uuid4().hex[:6]}", {"unit": {"kind": "row"}, "neighbours": "add_remove"}
            budget = Budget.objects.create(name=name, owner=alice, policy="pure", **kept)
            ledger.grant(budget=budget, epsilon="2", delta="0", actor=sofia)
            dataset = Dataset.objects.create(
                title=budget.name, owner=alice, group=group, digest="0" * 64, columns=["a"], location="", budget=budget
            )
            BudgetRequest.objects.create(budget=budget, epsilon="3", requested_by=alice)
            denied = {"state": "denied", "decided_by": sofia, "decided_at": timezone.now()}
            BudgetRequest.objects.create(budget=budget, epsilon="3", requested_by=alice, **denied)
            models.BudgetAlert.objects.create(budget=budget, percent=50, epsilon="2")
            audit_log.record(AuditAction.UPLOAD, actor=alice, on=dataset)
            added = User.objects.create(username=f"person {uuid.uuid4().hex[:6]}")
            models.RegisteredConnection.objects.create(
                name=f"clinic_{added.pk}", address="postgresql://reader@127.0.0.1:1/clinic", registered_by=added
            )
            messages.tell([alice], title="Published: Tables", text="It is there.", path="/releases/")
            queued = make_release(dataset, "queued")
            event = PureEvent(epsilon=exact("1", field="epsilon"))
            charged = {"events": [event], "delta": exact("0", field="delta"), "key": queued.pk, "actor": alice}
            ledger.charge(release=queued, **ROW, **charged)
            waiting = make_release(dataset, "awaiting review")
            models.ReleaseRequest.objects.create(release=waiting, key=waiting.pk, epsilon="1", requested_by=alice)
            shown = {"files": [], "receipt": {"cost": {"pure": {"epsilon": "1"}}}}
            public = make_release(dataset, "published", is_public=True, result=shown, published_at=timezone.now())
            bound = {"alpha": 9.0, "beta": "1/20", "says": "it is at most 9 rows.", "proof": "proved from the release"}
            certified = {**shown, "receipt": {**shown["receipt"], "bound": bound}}
            certificate = {"result": certified, "certifies": public, "kind": models.CERTIFICATE}
            make_release(dataset, "published", is_public=True, published_at=timezone.now(), **certificate)
            workload = SavedWorkload.objects.create(name=budget.name, owner=alice, group=group)
            given = {"questions": QUESTIONS, "columns": COLUMNS}
            asked = models.WorkloadVersion.objects.create(workload=workload, number=1, **given)
            make_release(dataset, "queued", workload_version=asked)
            live = make_release(dataset, "open", kind=models.SESSION)
            models.Session.objects.create(release=live, total=10, total_half_width=1.0, noisy_threshold=1)
            survey = services.surveys.draft_survey(
                owner=alice, title="Canteen", question="Smoker?", answers=["Yes", "No"], epsilon="1", group=group
            )
            services.surveys.open_survey(survey=survey, by=alice)
            services.surveys.accept_report(survey=survey, report="0")

    def make_release(dataset, state, **values):
        given = {"title": "Tables", "mechanism": "laplace-queries", "epsilon": "1", "submitted_by": alice}
        return Release.objects.make(dataset=dataset, state=state, **given, **values)

    return more


LISTS = [
    *(("alice", name) for name in ("home", "dataset_list", "release_list", "workload_list", "session_list")),
    *(("alice", name) for name in ("survey_list", "notices", "catalogue", "databases")),
    *(("bob", name) for name in ("release_list", "workload_list", "survey_list")),
    *(("sofia", name) for name in ("home", "review_queue", "budget_board", "board_csv", "ledger", "ledger_csv")),
    *(("sofia", name) for name in ("audit_log", "audit_csv", "people", "connections", "/api/connections")),
    *((None, name) for name in ("catalogue", "/api/catalogue")),
    *(("alice", name) for name in ("/api/datasets", "/api/releases")),
]


@pytest.mark.slow
def test_a_list_asks_as_many_questions_for_fifty_as_for_five(grow, as_, request):
    def asked():
        found = {}
        reports._worked_out.clear()  # kept by budget, so that few would have nothing left to ask
        for who, name in LISTS:
            client = as_(request.getfixturevalue(who) if who else None)
            with CaptureQueriesContext(connection) as queries:
                response = client.get(name if name.startswith("/") else reverse(name))
                pages[who, name] = body(response)
            assert response.status_code == 200
            found[who, name] = len(queries)
        return found

    pages = {}
    grow(FEW)
    asked()  # what is read once and kept is read here
    few = asked()
    short = dict(pages)
    grow(MANY - FEW)
    assert asked() == few
    assert max(few.values()) <= 12, few
    assert few[None, "/api/catalogue"] <= 3
    for key, page in pages.items():
        assert len(page) > len(short[key]) or key[1] == "home", key
