"""The budget board: bars, totals, filters, export, freezing, and alerts said once."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from datetime import timedelta
from fractions import Fraction

import pytest
from django.core import mail
from django.urls import reverse
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from releases import services
from releases.engine.accounting import accountant, filters
from releases.engine.accounting.events import PureEvent
from releases.engine.accounting.filters import CLOSED, Caps, Policy, Totals
from releases.engine.domain.privacy import NeighbouringRelation
from releases.ledger import balances, ledger, reports
from releases.models import AuditEvent, Budget, BudgetAlert, LedgerEntry, Notice, Organisation, share_of
from releases.services.notices import choose_mail
from tests.web.conftest import give, person
from tests.web.pages import body, inline_code, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def spend(make_draft, alice):
    """Charge a release, and publish it if asked."""

    def charge(dataset, epsilon, *, run=False, by=None):
        release = make_draft(dataset, epsilon=epsilon)
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=by or alice, send=False)
        if run:
            assert services.execution.execute_release(release_id=release.pk)
        return release

    return charge


@pytest.fixture
def told(worker_round):
    # What was told when the budget was granted is not looked at here.
    Notice.objects.all().delete()
    return worker_round


# --- the bar ----------------------------------------------------------------------------------------------------------


def test_the_bar_tells_spent_from_reserved(dataset, spend, as_, sofia):
    spend(dataset, "0.5", run=True)
    spend(dataset, "0.75")
    row = reports.standings([Budget.objects.get()])[0]
    assert (row.spent, row.reserved, row.left) == (25.0, 37.5, 37.5)
    page = as_(sofia).get("/review/budgets/")
    said = "25% spent (epsilon 0.5), 37.5% reserved (epsilon 0.75), 37.5% left (epsilon 0.75)"
    assert f'aria-label="{said}"' in body(page)
    assert "epsilon 2 delta 0.000001 25% epsilon 0.5; 37.5% reserved: epsilon 0.75 37.5% epsilon 0.75" in words(page)
    own = words(as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk])))
    assert "Granted epsilon 2, delta 0.000001 Spent 25% epsilon 0.5 Reserved 37.5%" in own
    assert "Left 37.5% epsilon 0.75" in own
    assert inline_code(page) == []


def test_a_charge_given_back_is_used_no_longer(dataset, spend, alice):
    services.releases.cancel_release(release=spend(dataset, "1"), by=alice)
    row = reports.standings([Budget.objects.get()])[0]
    assert (row.used, row.strict) == (0.0, "nothing")
    assert reports.uses(LedgerEntry.objects.charges_that_stand()) == ([], [])


amounts = st.integers(min_value=0, max_value=3 * 10**12) | st.just(CLOSED)


deltas = st.integers(min_value=0, max_value=2 * 10**12) | st.just(CLOSED)


@given(st.sampled_from(list(Policy)), amounts, deltas, amounts, deltas, amounts)
def test_all_is_used_exactly_when_no_branch_admits_a_release_without_a_delta(policy, epsilon, delta, rho, other, more):
    budget = Fraction(0) if policy is Policy.PURE else Fraction(1, 10**6)
    caps = Caps.of(policy, epsilon=Fraction(2), delta=budget)
    spent = Totals(spent_epsilon=epsilon, spent_delta=delta, spent_rho=rho, spent_rho_delta=other)
    share = share_of(spent, caps)
    assert 0 <= share <= 1
    one_unit = Totals(spent_epsilon=1, spent_rho=1)
    assert (share < 1) == any(branch.holds(spent.plus(one_unit)) for branch in caps.branches)
    assert share_of(spent.plus(Totals(spent_epsilon=more, spent_rho=more)), caps) >= share


def test_a_delta_that_is_used_up_leaves_room_for_releases_without_one(make_dataset, make_draft, alice):
    dataset = make_dataset(epsilon="3", delta="0.000001")
    release = make_draft(dataset, epsilon="0.6", delta="0.0000001", mechanism="gaussian-queries")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    row = reports.standings([Budget.objects.get()])[0]
    assert 0 < row.used <= 20.0
    assert float(row.left_text.removeprefix("epsilon ").removesuffix(" in one release")) >= 2.4


@given(
    epsilon=st.integers(0, 3 * 10**12),
    rho=st.integers(0, 10**12),
    policy=st.sampled_from(Policy),
    delta=st.integers(0, 10**12),
)
@example(epsilon=0, rho=482_189_145_460, policy=Policy.ZCDP, delta=100_000_000_001)
def test_what_is_shown_as_left_fits_and_what_is_shown_as_spent_is_no_less_than_it_is(epsilon, rho, policy, delta):
    caps = Caps.of(policy, epsilon=Fraction(2), delta=Fraction(0 if policy is Policy.PURE else "0.000001"))
    spent = Totals(spent_epsilon=epsilon, spent_rho=rho, spent_delta=0 if policy is Policy.PURE else delta)
    if not any(branch.holds(spent) for branch in caps.branches):
        return
    share = share_of(spent, caps)
    assert Fraction(str(balances.per_cent(share))) >= 100 * share
    said = balances.left_text(spent, caps).removesuffix(" in one release")
    assert said.startswith("epsilon ")
    left = Fraction(said.removeprefix("epsilon ").split(",")[0])
    assert (left > 0) or share > Fraction(99, 100)
    if left:
        price = accountant.price(
            [PureEvent(epsilon=left)], delta=Fraction(0), neighbours=NeighbouringRelation.ADD_REMOVE
        )
        assert filters.admits(spent, price, caps)
    if not balances.is_fine(spent, caps):
        # Plain sums: what is spent and what is left come to what was granted.
        assert 0 <= 2 - (Fraction(epsilon, 10**12) + left) < Fraction(1, 10**6)


def test_where_the_finer_sum_counts_the_page_says_that_the_per_cents_decide(make_dataset, spend, as_, sofia):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    for _ in range(8):
        spend(dataset, "0.25", run=True)
    row = reports.standings([Budget.objects.get()])[0]
    assert row.is_fine
    assert (row.spent_text, row.reserved_text) == ("epsilon 2", "")
    assert row.spent < 100 * 2 / 9
    assert row.left_text.endswith(" in one release")
    page = words(as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk])))
    assert "Use the percentage:" in page
    assert f"{row.spent:g}% epsilon 2" in page
    people = page.split("By person")[1]
    assert people.startswith(f" Person Releases Of the budget Epsilon alice 8 {row.spent:g}% 2")


# --- the totals -------------------------------------------------------------------------------------------------------


def test_the_strict_total_stands_beside_the_figure_after_the_fact(make_dataset, spend, as_, sofia):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    for _ in range(8):
        spend(dataset, "0.1")
    row = reports.standings([Budget.objects.get()])[0]
    assert row.strict == "epsilon 0.8"
    assert row.after_the_fact == "epsilon 0.799842, delta 0.000001"
    page = words(as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk]), {"tighter": "1"}))
    assert "Strict total epsilon 0.8 however each release was chosen" in page
    assert page.count("only had every release been fixed before the first; nothing is decided by it") == 1


def test_the_board_s_figure_after_the_fact_stands_on_the_budget_s_page_under_the_same_words(
    make_dataset, spend, as_, sofia
):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    for _ in range(40):
        spend(dataset, "0.1")
    client, url = as_(sofia), reverse("budget_detail", args=[dataset.budget.pk])
    assert "not worked out yet" in words(client.get("/review/budgets/"))
    client.get("/review/budgets/", {"tighter": "1"})
    row = reports.standings([Budget.objects.get()])[0]
    assert row.tighter.stated != row.after_the_fact
    assert f"{row.tighter.stated} {row.tighter.name}" in words(client.get("/review/budgets/"))
    page = words(client.get(url, {"tighter": "1"}, headers={"HX-Request": "true"}))
    assert f"After the fact {row.tighter.name}; {row.tighter.source} {row.tighter.stated}" in page
    assert page.count(f"After the fact {row.tighter.name}") == 1


def test_a_filter_that_is_wrong_filters_nothing_and_says_so(dataset, spend, as_, sofia):
    spend(dataset, "0.1")
    client = as_(sofia)
    for wrong in ({"since": "2026-11-23", "until": "2026-11-20"}, {"since": "soon", "person": "nobody"}):
        page = client.get("/review/budgets/", wrong)
        assert page.status_code == 400
        said = words(page)
        assert "Nothing is filtered: put the filters right first. Below are all budgets." in said
        assert "Without charges that were given back." in said
        assert "under the filters" not in said
        assert f'href="{reverse("board_csv")}"' in body(page), "so that it leads to no error page"
        asked_anyway = client.get(reverse("board_csv"), wrong)
        assert asked_anyway.status_code == 400
        assert "Nothing is filtered" in words(asked_anyway)


def test_the_pages_say_how_shares_are_rounded(dataset, spend, as_, sofia):
    spend(dataset, "0.1")
    for url in ("/review/budgets/", reverse("budget_detail", args=[dataset.budget.pk])):
        assert "What is spent is rounded up and what is left down" in words(as_(sofia).get(url))


def test_the_tighter_figures_come_after_the_page_and_are_never_above_the_strict_one(make_dataset, spend, as_, sofia):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    for _ in range(8):
        spend(dataset, "0.1")
    url = reverse("budget_detail", args=[dataset.budget.pk])
    assert 'hx-get="?tighter=1"' in body(as_(sofia).get(url))
    fragment = as_(sofia).get(url, {"tighter": "1"}, headers={"HX-Request": "true"})
    assert "<html" not in body(fragment)
    figures = reports.tighter(Budget.objects.get())
    found = [float(re.match(r"epsilon ([\d.]+)", each.stated)[1]) for each in figures]
    assert found == sorted(found)
    assert found[0] <= 0.8


def test_the_board_shows_the_tighter_figure_once_it_is_worked_out_and_the_page_itself_composes_nothing(
    make_dataset, spend, as_, sofia, monkeypatch
):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    for _ in range(8):
        spend(dataset, "0.1")
    page = as_(sofia).get("/review/budgets/", {"dataset": "Surv"})
    assert 'hx-get="?dataset=Surv&amp;tighter=1" hx-trigger="load"' in body(page)
    assert "epsilon 0.8 not worked out yet" in words(page)
    part = as_(sofia).get("/review/budgets/", {"dataset": "Surv", "tighter": "1"}, headers={"HX-Request": "true"})
    assert "<html" not in body(part)
    assert "hx-get" not in body(part), "asked once"
    assert "epsilon 0.8 epsilon 0.799827, delta 0.000001 Equal epsilons, composed exactly" in words(part)
    monkeypatch.setattr(
        "releases.engine.accounting.tight_composition.planned", lambda *a, **k: pytest.fail("worked out before")
    )
    page = as_(sofia).get("/review/budgets/")
    assert "epsilon 0.799827" in words(page)
    assert "hx-get" not in body(page)
    monkeypatch.undo()
    spend(dataset, "0.1")
    assert "epsilon 0.799827" not in words(as_(sofia).get("/review/budgets/")), "what was worked out is of the past"


def test_without_javascript_a_link_works_the_tighter_figures_out(make_dataset, spend, as_, sofia):
    spend(make_dataset(epsilon="9", delta="0.000001"), "0.1")
    page = as_(sofia).get("/review/budgets/")
    assert '<a href="?tighter=1">Work out the tighter figures</a>' in body(page)
    page = as_(sofia).get("/review/budgets/", {"tighter": "1"})
    assert "<html" in body(page)
    assert "composed exactly" in words(page)


def test_the_tighter_figures_are_called_by_plain_names(make_dataset, spend, as_, sofia):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    spend(dataset, "0.1")
    page = as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk]), {"tighter": "1"})
    assert "Rényi divergences added up; Mironov 2017" in words(page)
    assert "accountant.price" not in words(page)


def test_nothing_is_composed_where_nothing_was_charged(dataset):
    assert reports.tighter(dataset.budget) == []


# --- over time, by person, by mechanism -------------------------------------------------------------------------------


def test_each_day_with_charges_is_a_step_of_the_chart_and_a_line_of_its_table(dataset, spend, as_, sofia, monkeypatch):
    spend(dataset, "0.25")
    spend(dataset, "0.25")
    tomorrow = timezone.now() + timedelta(days=1)
    monkeypatch.setattr(timezone, "now", lambda: tomorrow)
    spend(dataset, "0.5")
    page = body(as_(sofia).get("/review/budgets/"))
    drawn = json.loads(re.search(r'<script id="spending-data"[^>]*>(.*?)</script>', page)[1])
    assert drawn["layer"][0]["data"]["values"][-1]["used"] == 50.0, "the last step holds until now"
    assert [point["used"] for point in drawn["layer"][1]["data"]["values"]] == [25.0, 50.0]
    assert drawn["layer"][0]["mark"]["interpolate"] == "step-after"
    assert page.count('<td>Survey</td><td class="number">') == 2


def drawn_on(page):
    return json.loads(re.search(r'<script id="spending-data"[^>]*>(.*?)</script>', body(page))[1])


def test_a_line_begins_with_nothing_used_when_the_budget_was_granted(dataset, spend, as_, sofia):
    spend(dataset, "0.5")
    line = drawn_on(as_(sofia).get("/review/budgets/"))["layer"][0]["data"]["values"]
    assert [point["used"] for point in line] == [0.0, 25.0, 25.0]
    granted = dataset.budget.entries.get(kind="grant").made_at
    assert line[0]["at"] == granted.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def test_under_a_date_a_line_begins_with_what_was_used_by_then(dataset, spend):
    spend(dataset, "0.5")
    since = timezone.now()
    spend(dataset, "0.5")
    points = reports.steps([Budget.objects.get()], since=since, until=None)
    assert [(point.used, point.is_start) for point in points] == [(25.0, True), (50.0, False)]
    assert points[0].at == since


def test_a_further_grant_is_a_step_down_and_changes_nothing_that_was(dataset, spend, alice, sofia):
    spend(dataset, "1")
    more = services.budgets.request_budget(
        dataset=dataset, epsilon="4", delta="0.000001", policy=Policy.ZCDP, reason="A second year.", by=alice
    )
    services.budgets.approve_request(request=more, by=sofia)
    spend(dataset, "1")
    points = reports.steps([Budget.objects.get()], since=None, until=None)
    assert [(point.used, point.of) for point in points] == [(0.0, "2"), (50.0, "2"), (25.0, "4"), (50.0, "4")]


def test_beside_a_budget_stand_its_releases_with_what_they_asked_why_and_who_can_read_them(
    dataset, make_queued, make_draft, alice, as_, sofia
):
    public, private, gone, waiting = (make_queued(dataset, epsilon="0.25") for _ in range(4))
    for each in (public, private, gone):
        assert services.execution.execute_release(release_id=each.pk)
    services.releases.make_public(release=public, by=alice)
    services.releases.withdraw_release(release=gone, by=alice)
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.1")
    reviewed = make_draft(dataset, epsilon="0.25")
    services.releases.submit_release(release=reviewed, key=uuid.uuid4(), by=alice, reason="The yearbook.", send=False)
    services.reviews.approve_release(request=reviewed.reviews.get(), by=sofia)
    page = as_(sofia).get(f"/review/budgets/{dataset.budget.pk}/")
    told = {each.id: (each.asked, each.reason, each.readers, each.share) for each in page.context["page"].released}
    asked = "2 tables of counts over 1 column, 1 table of counts over 2 columns; 17 answers"
    assert told == {
        public.pk: (asked, "", "everybody: public", "12.5%"),
        private.pk: (asked, "", "the dataset's people", "12.5%"),
        gone.pk: (asked, "", "nobody any more: withdrawn", "12.5%"),
        waiting.pk: ("", "", "nobody: queued", "12.5%"),
        reviewed.pk: ("", "The yearbook.", "nobody: queued", "12.5%"),
    }
    assert "What was released, for what, and who can read it" in words(page)
    assert f"Of {dataset.title} (alice)." in words(page)


@pytest.mark.parametrize(("zone", "name"), [("UTC", "UTC"), ("Asia/Tokyo", "JST")])
def test_the_time_axis_names_its_dates_and_the_site_s_zone(dataset, spend, as_, sofia, settings, zone, name):
    settings.TIME_ZONE = zone
    spend(dataset, "0.5")
    drawn = drawn_on(as_(sofia).get("/review/budgets/"))
    across = drawn["encoding"]["x"]
    assert across["title"] == f"Time ({name})"
    assert across["scale"]["type"] == "utc"
    assert "%b %Y" in across["axis"]["labelExpr"]
    here = timezone.localtime()
    assert drawn["layer"][1]["data"]["values"][0]["at"].startswith(f"{here:%Y-%m-%dT%H}")
    assert drawn["layer"][1]["data"]["values"][0]["from"].endswith(f" {name}")


def test_a_budget_keeps_its_colour_under_every_filter(two, as_, sofia):
    def colours(**filters):
        scale = drawn_on(as_(sofia).get("/review/budgets/", filters))["encoding"]["color"]["scale"]
        return {name: number % 10 for number, name in enumerate(scale["domain"]) if name in ("Survey", "Census")}

    both = colours()
    assert len(set(both.values())) == 2
    assert colours(dataset="Cens") == {"Census": both["Census"]}
    assert colours(person="ali") == {"Survey": both["Survey"]}


def test_budgets_of_one_name_are_lines_of_their_own(two, as_, sofia):
    Budget.objects.update(name="Survey")
    drawn = drawn_on(as_(sofia).get("/review/budgets/"))
    assert {point["budget"] for point in drawn["layer"][0]["data"]["values"]} == {"Survey", "Survey (2)"}


def test_use_is_told_by_person_and_by_mechanism(dataset, spend, make_draft, alice, bob, as_, sofia):
    spend(dataset, "0.5")
    spend(dataset, "0.25", by=bob)
    histogram = make_draft(dataset, epsilon="0.125", mechanism="laplace-histogram")
    services.releases.submit_release(release=histogram, key=uuid.uuid4(), by=alice, send=False)
    people, mechanisms = reports.uses(LedgerEntry.objects.charges_that_stand())
    assert [(use.name, use.releases, use.epsilon) for use in people] == [
        ("alice", 2, "0.625"),
        ("bob", 1, "0.25"),
    ]
    assert {use.epsilon for use in mechanisms} == {"0.75", "0.125"}
    assert "alice 2 0.625" in words(as_(sofia).get("/review/budgets/"))


# --- filters and export -----------------------------------------------------------------------------------------------


@pytest.fixture
def two(make_dataset, spend, bob):
    """Two budgets; bob spent from the second."""
    first = make_dataset(epsilon="2")
    second = make_dataset(epsilon="4", content=b"person,age,sex\np1,30,male\n")
    Budget.objects.filter(pk=second.budget.pk).update(name="Census")
    spend(first, "1")
    spend(second, "1", by=bob)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["Census", "Survey"]),
        ({"dataset": "cens"}, ["Census"]),
        ({"dataset": "Survey"}, ["Census", "Survey"]),  # the second's table is called so too
        ({"person": "bob"}, ["Census"]),
        ({"person": "ali"}, ["Survey"]),
        ({"person": "nobody"}, []),
        ({"since": "2020-01-01"}, ["Census", "Survey"]),
        ({"until": "2020-01-01"}, []),
        ({"since": "2020-01-01", "until": "2020-01-02"}, []),
    ],
)
def test_filters_choose_by_date_person_and_dataset(two, as_, sofia, filters, names):
    rows = csv.DictReader(io.StringIO(body(as_(sofia).get("/review/budgets.csv", filters))))
    assert [row["budget"] for row in rows] == names
    page = words(as_(sofia).get("/review/budgets/", filters))
    for name in ("Census", "Survey"):
        assert (f"{name} alice" in page) == (name in names)


def test_a_filter_takes_whole_days_of_the_site_s_zone(two, as_, sofia):
    today = timezone.localdate().isoformat()
    rows = list(
        csv.DictReader(io.StringIO(body(as_(sofia).get("/review/budgets.csv", {"since": today, "until": today}))))
    )
    assert len(rows) == 2


@pytest.mark.parametrize("address", ["/review/budgets/", "/review/budgets.csv"])
def test_a_filter_that_is_no_date_says_so_and_keeps_what_was_typed(two, as_, sofia, address):
    response = as_(sofia).get(address, {"since": "yesterday", "person": "bob"})
    assert response.status_code == 400
    assert "Enter a valid date" in words(response)
    assert 'value="yesterday"' in body(response)
    assert 'value="bob"' in body(response)


def test_dates_the_wrong_way_round_are_refused(two, as_, sofia):
    response = as_(sofia).get("/review/budgets/", {"since": "2026-02-02", "until": "2026-01-01"})
    assert "2026-01-01 must not be before 2026-02-02" in words(response)


def test_the_export_holds_the_numbers_of_the_page(two, as_, sofia):
    response = as_(sofia).get("/review/budgets.csv")
    assert response["Content-Disposition"] == 'attachment; filename="budgets.csv"'
    row = list(csv.DictReader(io.StringIO(body(response))))[1]
    assert row == {
        "budget": "Survey",
        "owner": "alice",
        "policy": "zcdp",
        "epsilon": "2",
        "delta": "0.000001",
        "spent_percent": "0.0",
        "reserved_percent": "50.0",
        "left_percent": "50.0",
        "spent_epsilon": "0",
        "spent_delta": "0",
        "spent_rho": "0",
        "reserved_epsilon": "1",
        "reserved_delta": "0",
        "reserved_rho": "0.462117157261",
        "strict_epsilon": "1",
        "strict_delta": "0",
        "strict_rho": "0.462117157261",
        "left_epsilon": "1",
        "left_delta": "",
        "after_the_fact_epsilon": "1",
        "after_the_fact_delta": "0",
        "frozen": "no",
        "frozen_reason": "",
    }
    assert AuditEvent.objects.filter(action="export", detail="budgets.csv").exists()


def test_every_amount_of_the_export_is_a_number_that_a_spreadsheet_adds_up(two, make_dataset, spend, as_, sofia):
    fine = make_dataset(epsilon="9", delta="0.000001", content=b"person,age,sex\np1,30,male\np2,31,male\n")
    for _ in range(8):
        spend(fine, "0.25", run=True)
    services.budgets.freeze_budget(budget=fine.budget, by=sofia, reason="=A complaint.")
    rows = list(csv.DictReader(io.StringIO(body(as_(sofia).get("/review/budgets.csv")))))
    for row in rows:
        for head, value in row.items():
            if head.endswith(("percent", "epsilon", "delta", "rho")) and value:
                assert float(value) >= 0, (head, value)
    (frozen,) = [row for row in rows if row["frozen"] == "yes"]
    assert frozen["frozen_reason"] == "'=A complaint."
    assert sum(float(row["strict_epsilon"]) for row in rows) == 4


def test_the_export_tells_the_same_figure_after_the_fact_whatever_was_worked_out(make_dataset, spend, as_, sofia):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    for _ in range(20):
        spend(dataset, "0.1")
    before, after = (), ()
    for told in ("before", "after"):
        (row,) = csv.DictReader(io.StringIO(body(as_(sofia).get("/review/budgets.csv"))))
        figures = row["after_the_fact_epsilon"], row["after_the_fact_delta"]
        before, after = (figures, after) if told == "before" else (before, figures)
        as_(sofia).get("/review/budgets/", {"tighter": "1"})
    assert before == after
    stated = f"epsilon {before[0]}, delta {before[1]}".removesuffix(", delta 0")
    assert reports.standings([Budget.objects.get()])[0].after_the_fact == stated


# --- what was released ------------------------------------------------------------------------------------------------


def test_a_release_is_said_to_have_cost_what_was_charged(dataset, make_draft, alice, as_, sofia):
    """Its delta is what it was allowed; a pure release spends none of it."""
    release = make_draft(dataset, epsilon="0.4", delta="0.0000001")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert release.delta == "0.0000001"
    page = words(as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk])))
    told = page.split("What was released, for what, and who can read it")[1].split("By person")[0]
    assert "epsilon 0.4 alice" in told
    assert "delta" not in told


def test_a_reason_given_where_none_was_needed_is_kept_and_shown(dataset, spend, make_draft, alice, as_, sofia):
    spend(dataset, "0.25")
    release = make_draft(dataset, epsilon="0.5")
    services.releases.submit_release(
        release=release, key=uuid.uuid4(), by=alice, send=False, reason=" The yearbook; part 2. "
    )
    said = AuditEvent.objects.filter(action="submit").order_by("pk").values_list("detail", flat=True)
    assert list(said) == ["epsilon 0.25", "epsilon 0.5; The yearbook; part 2."]
    page = words(as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk])))
    assert "epsilon 0.5 alice The yearbook; part 2. nobody: queued" in page
    assert "epsilon 0.25 alice – nobody: queued" in page


# --- freezing ---------------------------------------------------------------------------------------------------------


def test_freezing_needs_a_reason_and_keeps_it(dataset, draft, as_, sofia, alice):
    url = reverse("budget_detail", args=[dataset.budget.pk])
    refused = as_(sofia).post(url, {"action": "freeze", "reason": " "})
    assert refused.status_code == 400
    assert "Reason: nothing was typed" in words(refused)
    assert not Budget.objects.get().is_frozen
    as_(sofia).post(url, {"action": "freeze", "reason": "A complaint."})
    assert "Frozen: no release can be charged. “A complaint.” Queued releases wait" in words(as_(sofia).get(url))
    with pytest.raises(ledger.Frozen):
        services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    as_(sofia).post(url, {"action": "unfreeze", "reason": "Settled."})
    assert services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    said = AuditEvent.objects.filter(action__in=["freeze", "unfreeze"]).order_by("pk").values_list("actor", "detail")
    assert list(said) == [(sofia.pk, "A complaint."), (sofia.pk, "Settled.")]


def test_freezing_what_is_frozen_changes_nothing(dataset, sofia):
    services.budgets.freeze_budget(budget=dataset.budget, by=sofia, reason="First.")
    services.budgets.freeze_budget(budget=dataset.budget, by=sofia, reason="Second.")
    assert Budget.objects.get().frozen_reason == "First."
    assert AuditEvent.objects.filter(action="freeze").count() == 1


def test_reviewers_outside_the_deciding_group_cannot_freeze(dataset, group, as_, sofia, bob):
    give(bob, "reviewer")
    Organisation.objects.create(upload_cap_bytes=2**30, reviewers=group)
    url = reverse("budget_detail", args=[dataset.budget.pk])
    assert as_(sofia).post(url, {"action": "freeze", "reason": "No."}).status_code == 403
    assert not Budget.objects.get().is_frozen
    assert as_(bob).post(url, {"action": "freeze", "reason": "Yes."}).status_code == 302
    assert Budget.objects.get().is_frozen


# --- alerts -----------------------------------------------------------------------------------------------------------


def test_alerts_come_at_half_at_four_fifths_and_at_all_once_each(dataset, spend, told, settings):
    settings.ALERT_ADDRESSES = ["privacy@example.org"]
    said = []
    for epsilon in ("0.999999", "0.000001", "0.2", "0.3", "0.1", "0.4"):
        with told():
            spend(dataset, epsilon)
        said.append(len(mail.outbox))
    for reader in ("alice@example.org", "grantor@example.org", "privacy@example.org"):
        assert [message.subject for message in mail.outbox if message.to == [reader]] == [
            "At least 50% of the budget is spent: Survey",
            "At least 80% of the budget is spent: Survey",
            "The budget is spent: Survey",
        ]
    assert said == [0, 3, 3, 3, 6, 9]


def test_one_large_release_sends_one_e_mail(dataset, spend, told):
    with told():
        spend(dataset, "1.7")
    to_alice = [message.subject for message in mail.outbox if message.to == ["alice@example.org"]]
    assert to_alice == ["At least 80% of the budget is spent: Survey"]
    assert sorted(BudgetAlert.objects.values_list("percent", flat=True)) == [50, 80]


def test_a_charge_that_is_refused_raises_no_alert(dataset, spend):
    with pytest.raises(ledger.InsufficientBudget):
        spend(dataset, "2.5")
    assert not BudgetAlert.objects.exists()


def test_alerts_stand_on_the_board_for_the_budget_s_present_size(dataset, spend, alice, sofia, as_):
    spend(dataset, "1.7")
    assert "Largely spent Survey : 80% or more" in words(as_(sofia).get("/review/budgets/"))
    more = services.budgets.request_budget(
        dataset=dataset, epsilon="9", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.approve_request(request=more, by=sofia)
    assert "Largely spent" not in words(as_(sofia).get("/review/budgets/"))


def test_alerts_on_the_board_are_those_of_the_budgets_that_the_filters_choose(two, spend, as_, sofia):
    assert "Largely spent Survey" in words(as_(sofia).get("/review/budgets/", {"person": "ali"}))
    assert "Largely spent" not in words(as_(sofia).get("/review/budgets/", {"person": "bob"}))


def test_a_name_cannot_add_lines_to_an_e_mail_s_head(dataset, spend, told):
    Budget.objects.update(name="Survey\nBcc: all@example.org")
    with told():
        spend(dataset, "1")
    assert mail.outbox[0].subject == "At least 50% of the budget is spent: Survey Bcc: all@example.org"


def test_reviewers_hear_of_a_budget_that_runs_out_on_their_page_and_by_e_mail_if_they_want(dataset, spend, told, as_):
    tess, tom = person("tess", "reviewer"), person("tom", "reviewer")
    choose_mail(person=tom, wants_mail=False)
    with told():
        spend(dataset, "1")
    to = sorted(address for message in mail.outbox for address in message.to)
    assert to == ["alice@example.org", "grantor@example.org", "tess@example.org"]
    for reviewer in (tess, tom):
        page = as_(reviewer).get("/notices/")
        assert "At least 50% of the budget is spent: Survey" in words(page)
        assert reverse("budget_detail", args=[dataset.budget.pk]) in body(page)


def test_only_members_of_the_deciding_group_hear_of_a_budget_that_runs_out(
    dataset, spend, told, group, sofia, alice, bob
):
    give(alice, "reviewer")
    give(bob, "reviewer")
    Organisation.objects.create(upload_cap_bytes=2**30, reviewers=group)
    with told():
        spend(dataset, "1")
    # Alice is a member too, and is told once, as the owner.
    assert sorted(message.to for message in mail.outbox) == [["alice@example.org"], ["bob@example.org"]]
    assert not Notice.objects.filter(person=sofia).exists()
    assert Notice.objects.get(person__username="alice").path == f"/datasets/{dataset.pk}/"


def test_an_address_of_the_organisation_s_that_is_somebody_s_hears_once(dataset, spend, told, settings):
    settings.ALERT_ADDRESSES = ["alice@example.org", "grantor@example.org"]
    with told():
        spend(dataset, "1")
    assert sorted(message.to for message in mail.outbox) == [["alice@example.org"], ["grantor@example.org"]]
