"""What a page says while a person types: the same as it would say to the button, and nothing is stored."""

from __future__ import annotations

import html
import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import AuditEvent, Budget, BudgetRequest, Dataset, LedgerEntry, Notice, Release
from tests.web.conftest import COLUMNS, CSV, WORKLOAD
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def stored():
    """Everything that a submit could write."""

    def everything():
        tables = (AuditEvent, Budget, BudgetRequest, Dataset, LedgerEntry, Notice, Release)
        return {each.__name__: sorted(map(str, each.objects.values_list())) for each in tables}

    return everything


@pytest.fixture
def check(as_, alice, stored):
    """What comes back while alice types into a form of a page, in words; then what the button brings."""

    def send(url, typed, *, method="post"):
        client, before = as_(alice), stored()
        answer = getattr(client, method)(url, typed | ({"check": "1"} if method == "post" else {}), headers=HTMX)
        assert answer.status_code == 200
        assert stored() == before
        return answer, getattr(client, method)(url, typed)

    return send


@pytest.fixture
def pages(make_dataset, alice, upload_file, published):
    """The address of each page, and what is right on it."""
    fresh = services.datasets.ingest_dataset(owner=alice, title="Fresh", source=upload_file(CSV + b"p,20,male\n"))
    services.datasets.declare_universe(dataset=fresh, columns=COLUMNS, by=alice)
    asking = make_dataset(epsilon="", content=CSV + b"q,20,male\n")
    dataset = published.dataset
    draft = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=draft, workload=WORKLOAD)
    services.releases.set_choice(release=draft, epsilon="1")
    chosen = {"epsilon": "1", "delta": "0", "beta": "0.05"}
    return {
        "protection": (reverse("protection", args=[fresh.pk]), {"kind": "row", "neighbours": "add_remove"}),
        "budget": (
            reverse("budget", args=[asking.pk]),
            {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": ""},
        ),
        "questions": (reverse("questions", args=[draft.pk]), {"action": "count", "in.sex": "male"}),
        "compare": (reverse("compare", args=[draft.pk]), {**chosen, "cell-sampling.rows": ""}),
        "new_session": (
            reverse("new_session", args=[dataset.pk]),
            {**chosen, "questions": "50", "population": "200"},
        ),
        "learn_range": (
            reverse("learn_range", args=[dataset.pk]),
            {"column": "age", "lowest": "0", "highest": "120", "inside": "98", "epsilon": "0.1"},
        ),
        "learn_categories": (
            reverse("learn_categories", args=[dataset.pk]),
            {"column": "sex", "other": "other", "epsilon": "0.1", "delta": "0.0000001"},
        ),
        "certify": (reverse("certify", args=[published.pk]), {**chosen, "epsilon": "0.1", "what": "released answers"}),
    }


#: On each page a wrong value, and where and what is said of it.
WRONG = [
    ("protection", {"kind": "person", "id_column": "age"}, "id_id_column", "age"),
    ("budget", {"delta": "0.1"}, "id_delta", "must be at most"),
    ("questions", {"in.sex": "", "from.age": "19"}, "", "19"),
    ("questions", {"action": "marginals", "order": "9"}, "", "9"),
    ("questions", {"workload": "{"}, "id_workload", ""),
    ("compare", {"epsilon": "0,5"}, "id_epsilon", "epsilon: '0,5' must be a decimal number"),
    ("compare", {"population": "many"}, "id_population", "must be a whole number"),
]
WRONG_PLANS = [
    ("new_session", {"epsilon": "0,5"}, "id_epsilon", "epsilon: '0,5' must be a decimal number"),
    ("new_session", {"questions": "0"}, "id_questions", "Questions: must be at least 1."),
    ("learn_range", {"highest": "-1"}, "id_highest", "highest"),
    ("learn_categories", {"delta": "2"}, "id_delta", "delta: '2' must be"),
    ("certify", {"delta": "2"}, "id_delta", "delta: '2' must be"),
]


def said_at(answer, field):
    """What is said beside one field."""
    found = re.search(rf'<div id="{field}_wrong"[^>]*hx-swap-oob="innerHTML"[^>]*>(.*?)</div>', body(answer), re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", found[1])).strip()


@pytest.mark.parametrize(("page", "typed", "field", "message"), WRONG)
def test_a_wrong_value_is_named_beside_its_field_as_the_button_would(pages, check, page, typed, field, message):
    url, right = pages[page]
    answer, sent = check(url, right | typed)
    assert sent.status_code == 400
    assert "<html" not in body(answer)
    said = said_at(answer, field) if field else words(answer)
    assert said
    assert message in words(answer)
    assert said in words(sent)


@pytest.mark.parametrize(
    ("page", "left_out", "field", "message"),
    [
        ("protection", {"kind": "person"}, "id_id_column", "Column: nothing was chosen."),
        ("budget", {"epsilon": ""}, "id_epsilon", "epsilon: nothing was typed"),
    ],
)
def test_what_is_not_filled_in_yet_is_wrong_for_the_button_alone(pages, check, page, left_out, field, message):
    url, right = pages[page]
    answer, sent = check(url, right | left_out)
    assert sent.status_code == 400
    assert message in words(sent)
    assert words(answer) == said_at(answer, field) == ""


@pytest.mark.parametrize(("page", "typed", "field", "message"), WRONG_PLANS)
def test_a_wrong_value_of_a_plan_is_named_and_the_plan_goes(pages, check, page, typed, field, message):
    url, right = pages[page]
    answer, sent = check(url, right | typed, method="get")
    assert sent.status_code == 400
    assert message in words(answer)
    assert said_at(answer, field) in words(sent)
    assert said_at(answer, field)
    assert "The plan" not in words(answer)


@pytest.mark.parametrize("page", ["protection", "budget", "questions", "compare"])
def test_of_right_values_nothing_is_said_but_what_they_would_do(pages, check, page):
    answer, sent = check(*pages[page])
    assert sent.status_code == 302 or "errorlist" not in body(sent)
    would_do = {"questions": "Asked then: 2 tables of counts over 1 column"}.get(page, "")
    assert words(answer).startswith(would_do)
    assert would_do or words(answer) == ""


@pytest.mark.parametrize("page", ["new_session", "learn_range", "learn_categories", "certify"])
def test_right_values_of_a_plan_bring_the_plan(pages, check, page):
    answer, sent = check(*pages[page], method="get")
    assert (answer.status_code, sent.status_code) == (200, 200)
    assert "errorlist" not in body(answer)
    for each in (answer, sent):
        # What is planned is one part of the page, so it can take the place of the one before.
        assert "Charged to the budget" in words(each) or "Charge" in words(each)
        assert body(each).count('id="planned"') == 1
    assert "hx-swap-oob" not in body(sent)


def test_the_comparison_says_for_which_epsilon_it_still_is(pages, check):
    url, right = pages["compare"]
    answer, _ = check(url, right | {"epsilon": "2"})
    assert words(answer) == "The comparison below is still the one for epsilon 1."


def test_nothing_is_planned_while_somebody_types_on_compare(pages, as_, alice, monkeypatch):
    monkeypatch.setattr(services.releases, "compare", lambda **_: pytest.fail("every mechanism was planned"))
    url, right = pages["compare"]
    assert as_(alice).post(url, right | {"check": "1"}, headers=HTMX).status_code == 200


def test_an_option_of_a_mechanism_is_checked_where_it_stands(pages, as_, alice, check):
    url, right = pages["compare"]
    name, place = re.search(
        r'<input id="([^"]+)" name="([^"]+\.[^"]+)" inputmode="numeric"', body(as_(alice).get(url))
    ).group(2, 1)
    answer, sent = check(url, right | {name: "none"})
    assert said_at(answer, place) in words(sent)
    assert said_at(answer, place)


@pytest.mark.parametrize("page", ["protection", "budget", "questions", "compare", "new_session", "learn_range"])
def test_no_two_places_have_one_name(pages, as_, alice, page):
    url, right = pages[page]
    shown = as_(alice).get(url, right if page in ("learn_range",) else {})
    # Fields of the plan that goes on to the confirmation are hidden and repeat those above.
    visible = re.sub(r'<input type="hidden"[^>]*>', "", body(shown))
    names = re.findall(r'\bid="([^"]*)"', visible)
    assert sorted(names) == sorted(set(names))
