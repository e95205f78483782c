"""Several questions planned, released and read together: one epsilon, one bound, a charge for each."""

from __future__ import annotations

import re
import uuid
from fractions import Fraction

import pytest
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.errors import InvalidInput
from releases.ledger import ledger
from releases.models import (
    AuditEvent,
    Budget,
    Collection,
    CollectionPart,
    Dataset,
    LedgerEntry,
    Organisation,
    Release,
)
from releases.presentation.releases.column_check import NO_CHECK, ColumnCheck
from releases.questions.base import Columns
from releases.questions.together import PartAsked, statistics_apart, statistics_together
from tests.web.conftest import COLUMNS
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

E12 = 10**12
COUNTS = {"version": 1, "queries": [{"marginal": ["sex"]}]}
AVERAGE = {"version": 1, "queries": [{"mean": {"columns": ["age"], "by": ["sex"]}}]}
MEDIAN = {"version": 1, "queries": [{"median": "age"}]}


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch):
    monkeypatch.setattr("releases.services.releases.enqueue", lambda release_id: None)


@pytest.fixture
def collect(alice):
    """A collection of alice's, with the method that each part is charged with."""

    def make(dataset, *, epsilon="1", weights=("1", "1", "1"), mechanisms=(), **more):
        asked = zip((COUNTS, AVERAGE, MEDIAN), ("By sex", "Average age", "Median age"), weights, strict=False)
        parts = [PartAsked(title=title, workload=workload, weight=weight) for workload, title, weight in asked]
        collection = services.collections.draft_collection(
            dataset=dataset, by=alice, title="Yearbook", epsilon=epsilon, parts=parts, **more
        )
        chosen = mechanisms or ("laplace-queries", "laplace-numbers", "exponential-quantile")
        for release, name in zip(releases_of(collection), chosen, strict=False):
            services.releases.set_choice(
                release=release, epsilon=release.epsilon, delta=release.delta, beta=release.beta, mechanism_name=name
            )
        return collection

    return make


def releases_of(collection):
    return [part.release for part in collection.parts.select_related("release__dataset__budget")]


def planned(collection):
    return [(each, services.releases.plan_of(release=each)) for each in releases_of(collection)]


def submit(collection, by, key=None):
    return services.collections.submit_collection(planned=planned(collection), key=key or uuid.uuid4(), by=by)


def charges():
    return LedgerEntry.objects.filter(kind="charge")


def states(collection):
    return [each.state for each in releases_of(collection)]


@pytest.mark.parametrize(
    ("epsilon", "weights", "shares"),
    [
        ("1", ("1", "1", "1"), ["0.333333"] * 3),
        ("1", ("1", "2", "1"), ["0.25", "0.5", "0.25"]),
        ("0.5", ("3", "0.5", "3.5"), ["0.214285", "0.0357142", "0.25"]),
        ("7", ("1", "1", "1"), ["2.33333"] * 3),
        ("0.00001", ("1", "1", "1"), ["0.00000333333"] * 3),
    ],
)
def test_epsilon_is_shared_by_the_weights_and_never_comes_to_more_than_was_typed(
    dataset, collect, epsilon, weights, shares
):
    collection = collect(dataset, epsilon=epsilon, weights=weights)
    found = [each.epsilon for each in releases_of(collection)]
    assert found == shares
    assert sum(map(Fraction, found)) <= Fraction(epsilon)
    assert [part.weight for part in collection.parts.all()] == list(weights)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_bound_has_its_share_of_the_probability_to_be_wrong(dataset, collect, number):
    collection = collect(dataset, weights=("1",) * number)
    betas = [plan.beta for _, plan in planned(collection)]
    assert betas == [{1: Fraction(1, 20), 2: Fraction(1, 40), 3: Fraction(16666, 10**6)}[number]] * number
    assert sum(betas) <= Fraction(1, 20)


def test_delta_is_shared_evenly(dataset, collect):
    collection = collect(dataset, delta="0.000000001")
    deltas = [Fraction(each.delta) for each in releases_of(collection)]
    assert deltas == [Fraction("0.00000000033")] * 3


def test_drafting_spends_nothing_and_is_recorded(dataset, collect, alice):
    collection = collect(dataset)
    assert not charges().exists()
    event = AuditEvent.objects.get(object_id=str(collection.pk))
    assert (event.actor, event.action, event.name) == (alice, "save", "Yearbook")
    assert event.detail == "3 releases, epsilon 1"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "1,5"}, "epsilon"),
        ({"weights": ("1", "0", "1")}, "share: '0' must be above 0 and at most 1,000"),
        ({"weights": ("1", "1001", "1")}, "share: '1001' must be above 0 and at most 1,000"),
        ({"weights": ("1", "much", "1")}, "share: 'much' must be a decimal number"),
        ({"weights": ()}, "parts: 0 must be 1 to 6"),
    ],
)
def test_a_value_that_breaks_its_rule_begins_nothing(dataset, collect, changed, message):
    with pytest.raises(InvalidInput, match=message):
        collect(dataset, **changed)
    assert not Collection.objects.exists()
    assert not Release.objects.exists()


def test_a_question_that_does_not_fit_the_columns_begins_nothing(dataset, alice):
    parts = [
        PartAsked(title="By sex", workload=COUNTS),
        PartAsked(title="Wage", workload={"version": 1, "queries": [{"mean": ["wage"]}]}),
    ]
    with pytest.raises(InvalidInput, match="wage"):
        services.collections.draft_collection(dataset=dataset, by=alice, title="Two", epsilon="1", parts=parts)
    assert not Release.objects.exists()


def test_each_part_is_charged_once_and_queued(dataset, collect, alice):
    collection = collect(dataset)
    done = submit(collection, alice)
    assert (len(done.submitted), done.left, done.error) == (3, (), None)
    assert states(collection) == ["queued"] * 3
    assert charges().count() == 3
    assert Budget.objects.get().spent_epsilon <= E12


def test_the_same_key_again_charges_nothing(dataset, collect, alice):
    collection, key = collect(dataset), uuid.uuid4()
    drafts = planned(collection)
    for _ in range(3):
        done = services.collections.submit_collection(planned=drafts, key=key, by=alice)
        assert done.error is None
    assert charges().count() == 3


def test_another_key_charges_nothing_again_either(dataset, collect, alice):
    collection = collect(dataset)
    drafts = planned(collection)
    for _ in range(2):
        services.collections.submit_collection(planned=drafts, key=uuid.uuid4(), by=alice)
    assert charges().count() == 3


@pytest.mark.parametrize("crash_at", [0, 1, 2])
def test_after_a_crash_between_parts_a_repeat_submits_the_rest_and_charges_nothing_twice(
    dataset, collect, alice, monkeypatch, crash_at
):
    collection, key = collect(dataset), uuid.uuid4()
    drafts, submit_release, calls = planned(collection), services.releases.submit_release, []

    def crash(**given):
        if len(calls) == crash_at:
            raise ConnectionError
        calls.append(given["release"])
        return submit_release(**given)

    with monkeypatch.context() as crashing:
        crashing.setattr("releases.services.collections.submit_release", crash)
        with pytest.raises(ConnectionError):
            services.collections.submit_collection(planned=drafts, key=key, by=alice)
    assert charges().count() == crash_at
    services.collections.submit_collection(planned=drafts, key=key, by=alice)
    assert states(collection) == ["queued"] * 3
    assert charges().count() == 3


def test_of_two_presses_at_once_the_second_finds_what_the_first_has_submitted(dataset, collect, alice, monkeypatch):
    collection = collect(dataset)
    drafts, submit_release = planned(collection), services.releases.submit_release

    def the_other_is_quicker(**given):
        other = Release.objects.get(pk=given["release"].pk)
        submit_release(release=other, key=uuid.uuid4(), by=alice, send=False)
        return submit_release(**given)

    monkeypatch.setattr("releases.services.collections.submit_release", the_other_is_quicker)
    done = services.collections.submit_collection(planned=drafts, key=uuid.uuid4(), by=alice)
    assert (len(done.submitted), done.error) == (3, None)
    assert charges().count() == 3


def test_parts_that_do_not_fit_together_are_refused_as_a_whole_although_each_fits_alone(dataset, collect, alice):
    collection = collect(dataset, epsilon="2.4")
    drafts = planned(collection)
    for draft in drafts:
        assert services.collections.why_not_together(planned=[draft], by=alice) == ""
    with pytest.raises(services.release_inputs.Refusal, match=r"Together they cost epsilon 2\.4, and epsilon 2 is"):
        services.collections.submit_collection(planned=drafts, key=uuid.uuid4(), by=alice)
    assert not charges().exists()
    assert states(collection) == ["draft"] * 3


def test_parts_that_are_too_much_for_one_person_together_are_refused_as_a_whole(dataset, collect, alice):
    Organisation.objects.create(upload_cap_bytes=2**30, most_per_person="30")
    collection = collect(dataset, epsilon="0.9")
    drafts = planned(collection)
    assert services.collections.why_not_together(planned=drafts[:2], by=alice) == ""
    with pytest.raises(services.release_inputs.Refusal, match="one person may spend at most 30%"):
        services.collections.submit_collection(planned=drafts, key=uuid.uuid4(), by=alice)
    assert not charges().exists()


def test_a_charge_that_comes_in_between_ends_it_there_and_the_rest_stay_drafts(
    dataset, collect, alice, make_queued, monkeypatch
):
    collection = collect(dataset)
    submit_release = services.releases.submit_release
    calls = []

    def another_comes_in(**given):
        calls.append(given)
        if len(calls) == 2:
            monkeypatch.setattr("releases.services.collections.submit_release", submit_release)
            make_queued(dataset, epsilon="1.5")
        return submit_release(**given)

    monkeypatch.setattr("releases.services.collections.submit_release", another_comes_in)
    done = submit(collection, alice)
    assert [each.title for each in done.submitted] == ["By sex"]
    assert [each.title for each in done.left] == ["Average age", "Median age"]
    assert isinstance(done.error, ledger.InsufficientBudget)
    assert states(collection) == ["queued", "draft", "draft"]
    assert charges().count() == 2


def test_a_part_that_cannot_be_run_keeps_all_from_being_charged(dataset, collect, alice):
    collection = collect(dataset, mechanisms=("laplace-queries", "gaussian-numbers", "exponential-quantile"))
    with pytest.raises(services.release_inputs.Refusal, match=r"Average age: .*delta.* Nothing was charged\."):
        submit(collection, alice)
    assert not charges().exists()


def test_what_is_not_submitted_yet_is_shared_out_again(dataset, collect, alice):
    collection = collect(dataset)
    first, second, third = releases_of(collection)
    services.releases.submit_release(release=first, key=uuid.uuid4(), by=alice)
    services.collections.share_out(collection=collection, epsilon="0.933333", weights={second.pk: "2", third.pk: "4"})
    assert [each.epsilon for each in releases_of(collection)] == ["0.333333", "0.2", "0.4"]
    assert [each.mechanism for each in releases_of(collection)] == ["laplace-queries", "", ""]
    assert [part.weight for part in collection.parts.all()] == ["1", "2", "4"]
    with pytest.raises(InvalidInput, match=r"epsilon: '0\.3' must be above 0\.333333"):
        services.collections.share_out(collection=collection, epsilon="0.3", weights={})


def test_a_discarded_draft_leaves_the_collection(dataset, collect, alice):
    collection = collect(dataset)
    for number, release in enumerate(releases_of(collection)):
        assert Collection.objects.visible_to(alice).exists()
        services.releases.discard_draft(release=release, by=alice)
        assert CollectionPart.objects.count() == 2 - number
    assert not Collection.objects.visible_to(alice).exists()


def test_who_may_see_a_collection_is_who_may_see_a_part(dataset, collect, alice, bob, charlie, sofia):
    collection = collect(dataset)

    def seen():
        return [Collection.objects.visible_to(each).filter(pk=collection.pk).exists() for each in (alice, bob, charlie)]

    assert seen() == [True, True, False]
    assert not Collection.objects.visible_to(sofia).exists()
    first = releases_of(collection)[0]
    services.releases.submit_release(release=first, key=uuid.uuid4(), by=alice)
    assert services.execution.execute_release(release_id=first.pk)
    services.releases.make_public(release=first)
    assert seen() == [True, True, True]
    assert [Collection.objects.editable_by(each).exists() for each in (alice, bob, charlie)] == [True, True, False]


# The pages

LINES = {"form-TOTAL_FORMS": "6", "form-INITIAL_FORMS": "0", "epsilon": "1", "title": "Yearbook"}
THREE = {
    "form-0-wanted": "mean",
    "form-0-number": "age",
    "form-0-first": "sex",
    "form-1-wanted": "counts",
    "form-1-first": "age",
    "form-1-second": "sex",
    "form-1-share": "2",
    "form-3-wanted": "rows",
}


@pytest.fixture
def plan(dataset, as_, alice):
    """Send the page on which several are planned."""
    return lambda user=alice, **lines: as_(user).post(reverse("new_collection", args=[dataset.pk]), LINES | lines)


@pytest.fixture
def confirm(as_, alice):
    """Press a button of the page that checks, as it is shown; anything given replaces what the page sends."""

    def press(collection, action="release", user=alice, **changed):
        url = reverse("confirm_collection", args=[collection.pk])
        shown = as_(user).get(url).context["page"]
        sent = {"key": shown.key, "plans": list(shown.plans)} if action == "release" else {}
        return as_(user).post(url, {"action": action} | sent | changed)

    return press


def check_page(client, collection):
    return client.get(reverse("confirm_collection", args=[collection.pk]))


def test_the_dataset_s_page_leads_to_it_and_it_asks_for_nothing_yet(dataset, as_, alice):
    address = reverse("new_collection", args=[dataset.pk])
    assert f'href="{address}">Plan several at once</a>' in body(
        as_(alice).get(reverse("dataset_detail", args=[dataset.pk]))
    )
    page = as_(alice).get(address)
    assert page.status_code == 200
    assert field_value(page, "epsilon") == "1"
    assert len(page.context["lines"].forms) == 6
    assert "“Votes”" in words(page)
    assert not Release.objects.exists()


def test_each_line_becomes_a_draft_with_the_recommended_method(plan, as_, alice):
    response = plan(**THREE)
    collection = Collection.objects.get()
    assert response.url == reverse("confirm_collection", args=[collection.pk])
    drafts = releases_of(collection)
    assert [each.title for each in drafts] == [
        "Mean of age by sex",
        "Counts by age, sex",
        "Synthetic rows of all columns",
    ]
    assert [each.epsilon for each in drafts] == ["0.25", "0.5", "0.25"]
    assert [each.workload["queries"] for each in drafts] == [
        [{"mean": {"columns": ["age"], "by": ["sex"]}}],
        [{"marginal": ["age", "sex"]}],
        [{"marginal": ["age", "sex"]}],
    ]
    assert all(each.mechanism for each in drafts)
    assert planned(collection)[2][1].most_synthetic_rows
    assert not charges().exists()


def test_the_page_that_checks_says_methods_bounds_shares_and_what_is_left(plan, as_, alice):
    plan(**THREE)
    page = check_page(as_(alice), Collection.objects.get())
    said = words(page)
    assert "hold at the same time with probability 95%." in said
    assert re.search(r"Leaves \d\d(\.\d)?% \(epsilon 1[^)]*\) of the budget", said)
    assert "within" in said
    assert field_value(page, f"share-{releases_of(Collection.objects.get())[1].pk}") == "2"
    assert "Spend and release all 3" in said
    assert re.search(r"Charges epsilon 0\.5\. Takes [^.]+, at most [\d.]+ [kMG]B", said)
    assert "Exact charge epsilon 0.5; or rho 0.122459331202" in said
    assert re.search(r"Charges epsilon 0\.25, delta 0\.0+\d+", said)
    assert "Nobody has checked whether there are any." in said
    assert "What epsilon 1 means" in said


def test_one_press_releases_all_and_the_last_page_lists_what_was_found(plan, confirm, as_, alice):
    plan(**THREE)
    collection = Collection.objects.get()
    address = reverse("collection", args=[collection.pk])
    assert confirm(collection).url == address
    assert charges().count() == 3
    waiting = as_(alice).get(address)
    assert waiting.context["page"].address == address
    assert "queued" in words(waiting)
    for each in releases_of(collection):
        assert services.execution.execute_release(release_id=each.pk)
    page = as_(alice).get(address)
    for each in releases_of(collection):
        assert each.result["headline"] in words(page)
        assert f'href="{reverse("release_detail", args=[each.pk])}"' in body(page)
        assert reverse("download", args=[each.pk, "release.zip"]) in body(page)
        own = as_(alice).get(reverse("release_detail", args=[each.pk]))
        assert f'href="{address}">Yearbook</a>' in body(own)
    assert reverse("download", args=[releases_of(collection)[2].pk, "synthetic.csv"]) in body(page)
    assert "hold at the same time with probability 95%" in words(page)
    assert page.context["page"].address == ""
    spent = sum(Fraction(entry.epsilon, E12) for entry in charges())
    assert float(re.search(r"Spent together: epsilon ([\d.]+)", words(page))[1]) == pytest.approx(
        float(spent), abs=1e-6
    )


def test_the_same_request_again_charges_nothing(plan, confirm, as_, alice):
    plan(**THREE)
    collection = Collection.objects.get()
    shown = check_page(as_(alice), collection).context["page"]
    sent = {"action": "release", "key": shown.key, "plans": list(shown.plans)}
    for _ in range(2):
        response = as_(alice).post(reverse("confirm_collection", args=[collection.pk]), sent)
        assert response.url == reverse("collection", args=[collection.pk])
    assert charges().count() == 3


def test_the_same_request_after_a_crash_submits_the_rest(plan, as_, alice, monkeypatch):
    plan(**THREE)
    collection = Collection.objects.get()
    shown = check_page(as_(alice), collection).context["page"]
    sent = {"action": "release", "key": shown.key, "plans": list(shown.plans)}
    submit_release, calls = services.releases.submit_release, []

    def crash(**given):
        calls.append(given)
        if len(calls) == 2:
            raise ConnectionError
        return submit_release(**given)

    client = as_(alice)
    with monkeypatch.context() as crashing:
        crashing.setattr("releases.services.collections.submit_release", crash)
        with pytest.raises(ConnectionError):
            client.post(reverse("confirm_collection", args=[collection.pk]), sent)
    assert states(collection) == ["queued", "draft", "draft"]
    assert client.post(reverse("confirm_collection", args=[collection.pk]), sent).status_code == 302
    assert states(collection) == ["queued"] * 3
    assert charges().count() == 3


def test_a_page_that_shows_other_plans_releases_nothing(plan, confirm):
    plan(**THREE)
    collection = Collection.objects.get()
    response = confirm(collection, plans=["x"])
    assert response.status_code == 409
    assert "The draft was changed since this page was shown." in words(response)
    assert not charges().exists()


@pytest.mark.parametrize("key", ["", "nonsense"])
def test_a_form_without_its_key_releases_nothing(plan, confirm, key):
    plan(**THREE)
    response = confirm(Collection.objects.get(), key=key)
    assert response.status_code == 409
    assert "The form is out of date." in words(response)
    assert not charges().exists()


def test_what_does_not_fit_together_has_no_button_and_says_both_numbers(plan, confirm, as_, alice):
    plan(**THREE | {"epsilon": "2.4"})
    collection = Collection.objects.get()
    page = check_page(as_(alice), collection)
    assert "Together they cost epsilon 2.4, and epsilon 2 is left of the dataset’s budget." in words(page)
    assert "Ask for a larger budget" in words(page)
    assert not page.context["page"].can_be_released
    response = confirm(collection)
    assert response.status_code == 409
    assert not charges().exists()


def test_what_is_refused_in_between_is_said_with_what_was_submitted(plan, confirm, dataset, make_queued, monkeypatch):
    plan(**THREE)
    collection = Collection.objects.get()
    submit_release, calls = services.releases.submit_release, []

    def another_comes_in(**given):
        calls.append(given)
        if len(calls) == 2:
            monkeypatch.setattr("releases.services.collections.submit_release", submit_release)
            make_queued(dataset, epsilon="1.5")
        return submit_release(**given)

    monkeypatch.setattr("releases.services.collections.submit_release", another_comes_in)
    response = confirm(collection)
    assert response.status_code == 409
    said = "Submitted: Mean of age by sex. Still drafts: Counts by age, sex, Synthetic rows of all columns."
    assert said in words(response)
    assert states(collection) == ["queued", "draft", "draft"]


def test_shares_are_changed_and_methods_chosen_again(plan, confirm):
    plan(**THREE)
    collection = Collection.objects.get()
    first, second, third = releases_of(collection)
    shares = {f"share-{first.pk}": "2", f"share-{second.pk}": "1", f"share-{third.pk}": "1"}
    response = confirm(collection, "share", epsilon="0.8", **shares)
    assert response.url == reverse("confirm_collection", args=[collection.pk])
    assert [each.epsilon for each in releases_of(collection)] == ["0.4", "0.2", "0.2"]
    assert all(each.mechanism for each in releases_of(collection))


@pytest.mark.parametrize(
    ("typed", "message"),
    [({"epsilon": "1,5"}, "Epsilon: '1,5' must be"), ({"share": "0"}, "Share: '0' must be above 0 and at most 1,000")],
)
def test_a_share_that_breaks_its_rule_changes_nothing_and_stays_typed(plan, confirm, typed, message):
    plan(**THREE)
    collection = Collection.objects.get()
    first = releases_of(collection)[0]
    given = {"epsilon": "1"} | {f"share-{first.pk}" if name == "share" else name: text for name, text in typed.items()}
    response = confirm(collection, "share", **given)
    assert response.status_code == 400
    assert message.lower() in words(response).lower()
    for name, text in given.items():
        assert field_value(response, name) == text
    assert [each.epsilon for each in releases_of(collection)] == ["0.25", "0.5", "0.25"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({}, "What is wanted: nothing was chosen; choose it in at least one line."),
        ({"form-0-first": "sex"}, "What is wanted: nothing was chosen for sex"),
        ({"form-0-wanted": "votes"}, "What is wanted: 'votes' must be one of the list"),
        ({"form-0-wanted": "mean"}, "Column with numbers: nothing is given; must name a column with numbers"),
        (
            {"form-0-wanted": "mean", "form-0-number": "sex"},
            "Column with numbers: 'sex' must be a column of the fitting",
        ),
        ({"form-0-wanted": "counts"}, "Count or group by: nothing is given; must name at least one column"),
        ({"form-0-wanted": "counts", "form-0-first": "wage"}, "'wage' must be a column of the fitting kind"),
        (
            {"form-0-wanted": "counts", "form-0-first": "sex", "form-0-third": "sex"},
            "Count or group by: 'sex' is named twice; name each column once",
        ),
        ({"form-0-wanted": "counts", "form-0-number": "age"}, "Column with numbers: 'age' is of no use here"),
        (
            {"form-0-wanted": "quantile", "form-0-number": "age", "form-0-first": "sex"},
            "Count or group by: 'sex' are of no use here: this has no groups",
        ),
        (
            {"form-0-wanted": "mean", "form-0-number": "age", "form-0-first": "age"},
            "Count or group by: 'age' must",
        ),
        ({"form-0-wanted": "most_common"}, "Count or group by: nothing is given; must be one column"),
        (
            {"form-0-wanted": "counts", "form-0-first": "sex", "form-0-share": "-1"},
            "Share: '-1' must be above 0 and at most 1,000",
        ),
        ({"form-0-wanted": "counts", "form-0-first": "sex", "epsilon": "0"}, "Epsilon: '0' must be"),
        ({"form-0-wanted": "counts", "form-0-first": "sex", "epsilon": ""}, "epsilon: nothing was typed"),
        ({"form-0-wanted": "counts", "form-0-first": "sex", "population": "-3"}, "About how many rows"),
    ],
)
def test_what_breaks_a_rule_names_field_value_and_rule_and_stays_typed(plan, lines, message):
    response = plan(**{"title": "For the yearbook", **lines})
    assert response.status_code == 400
    assert message.lower() in words(response).lower()
    assert field_value(response, "title") == "For the yearbook"
    for name, text in lines.items():
        found = field_value(response, name)
        is_choice = found is None
        assert found == text or (
            is_choice and (f'<option value="{text}" selected' in body(response) or text in message)
        )
    assert not Collection.objects.exists()
    assert not Release.objects.exists()


def test_no_more_lines_than_the_page_has_are_read(plan):
    many = {f"form-{line}-wanted": "counts" for line in range(50)}
    columns = {f"form-{line}-first": "sex" for line in range(50)}
    plan(**{"form-TOTAL_FORMS": "50", **many, **columns})
    assert CollectionPart.objects.count() <= 6


@pytest.mark.parametrize("name", ["form-TOTAL_FORMS", "form-INITIAL_FORMS"])
def test_a_form_without_its_number_of_lines_begins_nothing(plan, name):
    response = plan(**THREE | {name: ""})
    assert response.status_code == 400
    assert not Release.objects.exists()


def test_a_guess_at_the_rows_gives_a_bound_of_an_average_before_the_release(plan, as_, alice):
    plan(**THREE | {"population": "200"})
    page = check_page(as_(alice), Collection.objects.get())
    assert "how accurate it is depends on how many rows there are" not in words(page).lower()


def test_a_part_that_a_reviewer_has_to_see_is_confirmed_on_its_own_page_and_the_others_here(plan, confirm, as_, alice):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.6")
    plan(**THREE)
    collection = Collection.objects.get()
    second = releases_of(collection)[1]
    page = check_page(as_(alice), collection)
    # The first alone would pass, and the second with it would not; the third passes beside the first.
    assert [bool(part.why_apart) for part in page.context["page"].parts] == [False, True, False]
    assert f'href="{reverse("confirm", args=[second.pk])}"' in body(page)
    assert "Spend and release 2 of 3" in words(page)
    assert confirm(collection).status_code == 302
    assert states(collection) == ["queued", "draft", "queued"]
    assert not second.reviews.exists()
    shown = as_(alice).get(reverse("collection", args=[collection.pk]))
    assert reverse("confirm_collection", args=[collection.pk]) in body(shown)


def test_a_part_that_leaves_out_most_rows_is_confirmed_on_its_own_page(plan, confirm, as_, alice, monkeypatch):
    plan(**THREE)
    collection = Collection.objects.get()
    found = ColumnCheck(release=None, misread="age leaves out more than half of the rows.")
    monkeypatch.setattr(
        "releases.views.releases.collections.column_check",
        lambda release, universe: found if "Mean" in release.title else NO_CHECK,
    )
    monkeypatch.setattr("releases.presentation.releases.collection_check.reverse", lambda *given, **named: "/own/")
    page = check_page(as_(alice), collection)
    assert "By the check of the columns, age leaves out more than half of the rows." in words(page)
    confirm(collection)
    assert states(collection) == ["draft", "queued", "queued"]


def test_a_frozen_budget_releases_nothing(plan, confirm, dataset):
    plan(**THREE)
    services.budgets.freeze_budget(budget=dataset.budget)
    response = confirm(Collection.objects.get())
    assert response.status_code == 409
    assert "A reviewer has frozen this budget." in words(response)
    assert not charges().exists()


def test_colleagues_may_release_and_others_find_nothing(plan, confirm, as_, bob, charlie, sofia, dataset):
    assert plan(user=charlie, **THREE).status_code == 404
    plan(user=bob, **THREE)
    collection = Collection.objects.get()
    for other in (charlie, sofia):
        for name in ("collection", "confirm_collection"):
            assert as_(other).get(reverse(name, args=[collection.pk])).status_code == 404
    assert confirm(collection, user=bob).status_code == 302
    assert {entry.actor for entry in charges()} == {bob}


def test_of_a_public_part_others_see_that_part_alone(plan, confirm, as_, alice, charlie, client):
    plan(**THREE)
    collection = Collection.objects.get()
    confirm(collection)
    drafts = releases_of(collection)
    for each in drafts[:2]:
        assert services.execution.execute_release(release_id=each.pk)
    page = words(as_(alice).get(reverse("visibility", args=[drafts[1].pk])))
    assert "that it was planned with others as “Yearbook”" in page
    services.releases.make_public(release=drafts[1])
    for reader in (charlie, None):
        page = as_(reader).get(reverse("collection", args=[collection.pk]))
        assert [part.title for part in page.context["page"].parts] == ["Counts by age, sex"]
        assert "Mean of age" not in words(page)
        assert "Spent together: epsilon 0.5." in words(page)
        assert reverse("dataset_detail", args=[collection.dataset_id]) not in body(page)


def test_a_table_without_rows_or_declaration_is_not_planned_for(dataset, as_, alice, upload_file):
    bare = services.datasets.ingest_dataset(owner=alice, title="Bare", source=upload_file())
    address = reverse("new_collection", args=[bare.pk])
    assert as_(alice).get(address).url == reverse("columns", args=[bare.pk])
    Dataset.objects.filter(pk=dataset.pk).update(rows_deleted_at=timezone.now())
    address = reverse("new_collection", args=[dataset.pk])
    assert as_(alice).get(address).url == reverse("dataset_detail", args=[dataset.pk])


def test_a_discarded_table_takes_its_collections_with_it(plan, dataset, alice):
    plan(**THREE)
    services.datasets.discard_dataset(dataset=dataset, by=alice)
    assert not Dataset.objects.exists()
    assert not Collection.objects.exists()


def test_questions_that_no_longer_fit_the_columns_are_said_at_their_part(plan, confirm, dataset, as_, alice):
    plan(**THREE)
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS[:1], by=alice)
    collection = Collection.objects.get()
    page = check_page(as_(alice), collection)
    assert page.status_code == 200
    assert [bool(part.why_barred) for part in page.context["page"].parts] == [True, True, True]
    assert confirm(collection, "share", epsilon="0.5").status_code == 302
    response = confirm(collection)
    assert response.status_code == 409
    assert not charges().exists()


def test_a_draft_that_was_changed_on_its_own_pages_is_shown_and_charged_as_it_is_now(plan, confirm, as_, alice):
    plan(**THREE)
    collection = Collection.objects.get()
    shown = check_page(as_(alice), collection).context["page"]
    second = releases_of(collection)[1]
    services.releases.set_choice(
        release=second, epsilon="0.7", beta="0.2", mechanism_name="laplace-queries", delta=second.delta
    )
    old = {"action": "release", "key": shown.key, "plans": list(shown.plans)}
    response = as_(alice).post(reverse("confirm_collection", args=[collection.pk]), old)
    assert response.status_code == 409
    assert not charges().exists()
    # Two bounds of 98.3334% each and one of 80% hold at once with 76.6668%.
    assert "hold at the same time with probability 76.6668%." in words(response)
    assert confirm(collection).status_code == 302
    assert LedgerEntry.objects.get(release=second).epsilon == 7 * E12 // 10


@pytest.mark.parametrize("wanted", ["counts", "rows", *statistics_together()])
def test_whatever_a_line_offers_is_planned_with_a_method_or_with_the_reason_why_not(plan, as_, alice, wanted):
    kind = statistics_together().get(wanted)
    is_of_numbers = kind is not None and kind.fields[0].columns is Columns.NUMERIC
    column = {"form-0-number": "age"} if is_of_numbers else {"form-0-first": "sex"}
    assert plan(**{"form-0-wanted": wanted, **column}).status_code == 302
    (part,) = check_page(as_(alice), Collection.objects.get()).context["page"].parts
    assert part.within or part.why_barred
    assert bool(part.why_barred) != bool(part.method)


def test_kinds_that_need_more_than_columns_are_named_with_that():
    assert {kind.title for kind in statistics_apart()} == {
        "Largest of several counts",
        "Which count first passes a threshold",
        "Votes",
    }
