"""Steps of web tests: to protect, ask, charge, submit, carry out, audit, and to read a row again."""

import uuid
from fractions import Fraction

from django.apps import apps
from django.db import connection

from releases import services
from releases.engine.accounting.events import PureEvent
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.ledger import ledger, verification
from releases.models import AuditEvent, Budget, Dataset, Organisation
from tests.web.pages import field_value, words
from tests.web.past_the_guards import lift

#: What the datasets of the web tests protect.
ROW = {"unit": PrivacyUnit(), "neighbours": NeighbouringRelation.ADD_REMOVE}


def protect(dataset, by=None, **otherwise):
    services.datasets.declare_protection(dataset=dataset, by=by, **(ROW | otherwise))


def ask_for(dataset, by, epsilon="3", **more):
    """A request for a budget."""
    given = {"epsilon": epsilon, "delta": "0.000001", "policy": Policy.ZCDP, "reason": ""} | more
    return services.budgets.request_budget(dataset=dataset, by=by, **given)


def charge(of, cost, by, *, delta=Fraction(0), key=None):
    """Charge a release, or a new draft of a dataset, an epsilon or an event: the ledger's part of submitting it."""
    release = services.releases.draft_release(dataset=of, by=by) if isinstance(of, Dataset) else of
    event = PureEvent(epsilon=Fraction(cost)) if isinstance(cost, (str, int, Fraction)) else cost
    return ledger.charge(release=release, **ROW, events=[event], delta=delta, key=key or uuid.uuid4(), actor=by)


def submit(release, by, *, key=None, **given):
    return services.releases.submit_release(release=release, key=key or uuid.uuid4(), by=by, send=False, **given)


def execute(release):
    """What a worker does of it: whether it was published, or opened."""
    return services.execution.execute_release(release_id=release.pk)


def faults(budget=None):
    """What the audit finds in a ledger, or in the only one."""
    return [fault.what for fault in verification.verify(budget or Budget.objects.get())]


def rule(**values):
    """Set what the organisation decides."""
    Organisation.objects.update_or_create(pk=1, defaults={"upload_cap_bytes": 2**30} | values)


def again(thing):
    """A row as it is stored now."""
    return type(thing).objects.get(pk=thing.pk)


def broken(*_, **__):
    """What a table or a disc may say when it fails."""
    raise RuntimeError("a row says: Mrs Smith, 43")


def stored():
    """Everything that a form could write: all rows but those that say who signed in."""
    models = apps.get_app_config("releases").get_models()
    found = {each.__name__: [str(row) for row in each.objects.order_by("pk").values_list()] for each in models}
    return found | {"AuditEvent": [str(row) for row in AuditEvent.objects.exclude(action="sign-in").values_list()]}


def refuses(send, wrong, **kept):
    """Each wrong value is named, what was typed in these fields stays typed, and nothing is stored.

    A field is beside what is sent in it; beside None, it is looked at only where something wrong is typed there.
    """
    before = stored()
    for typed, said in wrong:
        response = send(**typed)
        assert response.status_code == 400, typed
        assert said.lower() in words(response).lower(), typed
        for name, sent in kept.items():
            if sent is not None or name in typed:
                assert field_value(response, name) == typed.get(name, sent), typed
        assert stored() == before, typed


def without_triggers():
    """Let entries of the ledger be changed, as somebody with the database's file could."""
    if connection.vendor == "sqlite":
        lift("ledger_no_update")
    else:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE releases_ledgerentry DISABLE TRIGGER ALL")
