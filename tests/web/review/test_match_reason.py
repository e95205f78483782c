"""Whoever grants a budget to people who probably have one says why, and only reviewers without a stake read it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.errors import InvalidInput
from releases.models import AuditEvent, Dataset, LedgerEntry, Notice
from tests.web.conftest import give, person
from tests.web.pages import body
from tests.web.steps import again, rule

pytestmark = pytest.mark.django_db

ROWS = [f"p{i},{18 + (i * 7 % 400) / 10},{'female' if i % 3 else 'male'}\n" for i in range(400)]
HERS = ("person,age,sex\n" + "".join(ROWS)).encode()
#: Half of her people, and as many others.
HIS = ("person,age,sex\n" + "".join(ROWS[:200]) + "".join(f"x{i},{20 + i / 8},male\n" for i in range(200))).encode()
WHY = "The second survey asked half of the panel again."


def asked_by(owner, make_dataset, content):
    dataset = make_dataset(owner=owner, epsilon="", content=content)
    Dataset.objects.filter(pk=dataset.pk).update(group=None)
    return services.budgets.request_budget(
        dataset=dataset, epsilon="3", delta="0.000001", policy=Policy.ZCDP, reason="Mine.", by=owner
    )


@pytest.fixture
def his(make_dataset, charlie):
    """What charlie asks for; alice has a budget for half of the people."""
    make_dataset(content=HERS)
    request = asked_by(charlie, make_dataset, HIS)
    services.fingerprints.take_fingerprints()
    return request


def decide(client, request, **sent):
    given = {"decision": "approve", "epsilon": "3", "delta": "0.000001", "note": ""}
    return client.post(reverse("budget_request", args=[request.pk]), given | sent)


def test_nothing_is_granted_without_a_reason_and_what_was_typed_stays(his, sofia, as_):
    before = LedgerEntry.objects.count()
    refused = decide(as_(sofia), his, epsilon="2.5")
    assert refused.status_code == 400
    assert "match_reason" in refused.context["form"].errors
    assert 'value="2.5"' in body(refused)
    assert (again(his).state, LedgerEntry.objects.count()) == ("waiting", before)
    with pytest.raises(InvalidInput) as error:
        services.budgets.approve_request(request=his, by=sofia, match_reason="  ")
    assert error.value.field == "match_reason"


def test_with_a_reason_it_is_granted_and_nobody_with_a_stake_can_read_why(his, alice, charlie, sofia, as_):
    assert decide(as_(sofia), his, match_reason=WHY).status_code == 302
    his.refresh_from_db()
    assert (his.state, his.match_reason) == ("approved", f"sofia: {WHY}")
    address = reverse("budget_request", args=[his.pk])
    assert WHY in body(as_(sofia).get(address))
    for asking in (alice, charlie):
        give(asking, "reviewer")
        page = as_(asking).get(address)
        assert page.status_code == 200
        assert page.context["page"].decision.match_reason == ""
        assert WHY not in body(page)
    # Nor wherever those read who have a stake: the log of all reviewers, messages, what the curator sees.
    assert not AuditEvent.objects.filter(detail__contains=WHY).exists()
    assert not Notice.objects.filter(text__contains=WHY).exists()
    own = as_(charlie).get(reverse("dataset_detail", args=[his.budget.datasets.get().pk]))
    User.objects.filter(pk=sofia.pk).update(is_superuser=True)
    admin = as_(again(sofia)).get(f"/admin/releases/budgetrequest/{his.pk}/change/")
    for page in (own, admin):
        assert page.status_code == 200
        assert WHY not in body(page)


def test_each_of_two_reviewers_gives_a_reason(his, sofia):
    rule(is_two_person=True)
    rita = person("rita", "reviewer")
    with pytest.raises(InvalidInput):
        services.budgets.approve_request(request=his, by=rita)
    assert again(his).first_by is None
    services.budgets.approve_request(request=again(his), by=rita, match_reason=WHY)
    with pytest.raises(InvalidInput):
        services.budgets.approve_request(request=again(his), by=sofia)
    second = again(his)
    services.budgets.approve_request(request=second, by=sofia, match_reason="I agree.")
    assert second.match_reason == f"rita: {WHY}\nsofia: I agree."


def test_where_the_other_table_has_no_budget_yet_none_is_needed(make_dataset, charlie, alice, sofia):
    asked_by(alice, make_dataset, HERS)
    his = asked_by(charlie, make_dataset, HIS)
    services.fingerprints.take_fingerprints()
    services.budgets.approve_request(request=his, by=sofia)
    assert his.match_reason == ""


def test_to_deny_or_to_ask_back_no_reason_of_this_kind_is_needed(his, sofia, as_):
    assert decide(as_(sofia), his, decision="ask_back", note="Whose panel is it?").status_code == 302
    his.refresh_from_db()
    assert his.state == "asked back"
