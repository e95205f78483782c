"""Several questions planned, released and read together: one epsilon, one bound, a charge for each."""

import re
import uuid
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from releases import services
from releases.engine.domain.privacy import PureDP
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanism
from releases.ledger import refusals
from releases.models import AuditEvent, Budget, Collection, Organisation, Release
from releases.publication.files import folder_of, read_answers
from releases.questions.base import Columns
from releases.questions.together import PartAsked, statistics_together
from tests.web.pages import body, field_value, link, words
from tests.web.releases.conftest import charges
from tests.web.steps import refuses

pytestmark = pytest.mark.usefixtures("no_worker")

E12 = 10**12
COUNTS = {"version": 1, "queries": [{"marginal": ["sex"]}]}
AVERAGE = {"version": 1, "queries": [{"mean": {"columns": ["age"], "by": ["sex"]}}]}
MEDIAN = {"version": 1, "queries": [{"median": "age"}]}
ASKED = (("By sex", COUNTS), ("Average age", AVERAGE), ("Median age", MEDIAN))
METHODS = ("laplace-queries", "laplace-numbers", "exponential-quantile")


@pytest.fixture
def collect(alice, once):
    """A collection of alice's, with the method that each part is charged with."""

    def make(dataset, *, epsilon="1", weights=("1", "1", "1"), asked=ASKED, methods=METHODS, **more):
        parts = [
            PartAsked(title=title, workload=workload, weight=weight)
            for (title, workload), weight in zip(asked, weights, strict=False)
        ]

        def really():
            collection = services.collections.draft_collection(
                dataset=dataset, by=alice, title="Yearbook", epsilon=epsilon, parts=parts, **more
            )
            for each, name in zip(releases_of(collection), methods, strict=False):
                services.releases.set_choice(
                    release=each, epsilon=each.epsilon, delta=each.delta, beta=each.beta, mechanism_name=name
                )
            return collection

        return once(repr((dataset.pk, epsilon, weights, asked, methods, more)), really)

    return make


def releases_of(collection):
    return [part.release for part in collection.parts.select_related("release__dataset__budget")]


def planned(collection):
    return [(each, services.releases.plan_of(release=each)) for each in releases_of(collection)]


def submit(drafts, by, key=None):
    return services.collections.submit_collection(planned=drafts, key=key or uuid.uuid4(), by=by)


def states(collection):
    return [each.state for each in releases_of(collection)]


def epsilons(collection):
    return [each.epsilon for each in releases_of(collection)]


def weights_of(collection):
    return [part.weight for part in collection.parts.all()]


@pytest.mark.parametrize(
    ("epsilon", "weights", "shares"),
    [
        ("0.5", ("3", "0.5", "3.5"), ["0.214285", "0.0357142", "0.25"]),
        ("0.00001", ("1", "1", "1"), ["0.00000333333"] * 3),
    ],
)
def test_epsilon_is_shared_by_the_weights_and_never_comes_to_more_than_was_typed(
    dataset, collect, epsilon, weights, shares
):
    collection = collect(dataset, epsilon=epsilon, weights=weights)
    assert epsilons(collection) == shares
    assert sum(map(Fraction, epsilons(collection))) <= Fraction(epsilon)
    assert weights_of(collection) == list(weights)


def test_each_has_its_share_of_delta_and_of_the_probability_that_its_bound_is_wrong(dataset, collect):
    collection = collect(dataset, delta="0.000000001")
    assert [plan.beta for _, plan in planned(collection)] == [Fraction("0.016666")] * 3
    assert [Fraction(each.delta) for each in releases_of(collection)] == [Fraction("0.00000000033")] * 3


def test_each_part_is_charged_once_and_queued_whatever_key_comes_again(dataset, collect, alice):
    collection, key = collect(dataset), uuid.uuid4()
    drafts = planned(collection)
    for sent, given in ((3, key), (0, key), (0, uuid.uuid4())):
        done = submit(drafts, alice, given)
        assert (len(done.submitted), done.left, done.error) == (sent, (), None)
    assert states(collection) == ["queued"] * 3
    assert charges().count() == 3
    assert Budget.objects.get().spent_epsilon <= E12


def test_after_a_crash_between_parts_a_repeat_submits_the_rest_and_charges_nothing_twice(
    dataset, collect, alice, monkeypatch
):
    collection, key = collect(dataset), uuid.uuid4()
    drafts, submit_release, calls = planned(collection), services.releases.submit_release, []

    def crash(**given):
        if len(calls) == 1:
            raise ConnectionError
        calls.append(given["release"])
        return submit_release(**given)

    with monkeypatch.context() as crashing:
        crashing.setattr("releases.services.collections.submit_release", crash)
        with pytest.raises(ConnectionError):
            submit(drafts, alice, key)
    assert charges().count() == 1
    submit(drafts, alice, key)
    assert states(collection) == ["queued"] * 3
    assert charges().count() == 3


def test_of_two_presses_at_once_the_second_finds_what_the_first_has_submitted(dataset, collect, alice, monkeypatch):
    drafts, submit_release = planned(collect(dataset)), services.releases.submit_release

    def the_other_is_quicker(**given):
        other = Release.objects.get(pk=given["release"].pk)
        submit_release(release=other, key=uuid.uuid4(), by=alice, send=False)
        return submit_release(**given)

    monkeypatch.setattr("releases.services.collections.submit_release", the_other_is_quicker)
    done = submit(drafts, alice)
    assert (len(done.submitted), done.error) == (3, None)
    assert charges().count() == 3


@pytest.mark.parametrize(
    ("given", "fit", "reason"),
    [
        ({"epsilon": "2.4"}, [[0], [1], [2]], "With all of them, 120% of the budget would be spent, and 100% is left"),
        ({"epsilon": "0.9"}, [[0, 1]], "one person may spend at most 30%"),
        (
            {"methods": ("laplace-queries", "gaussian-numbers", "exponential-quantile"), "epsilon": "0.5"},
            [[0], [2], [0, 2]],
            r"Average age: .*delta.* Nothing was charged\.",
        ),
    ],
    ids=["the budget", "one person", "one cannot be run"],
)
def test_parts_that_must_not_be_charged_together_are_refused_as_a_whole_although_some_would_do(
    dataset, collect, alice, given, fit, reason
):
    if "person" in reason:
        Organisation.objects.create(upload_cap_bytes=2**30, most_per_person="30")
    collection = collect(dataset, **given)
    drafts = planned(collection)
    for some in fit:
        assert services.collections.why_not_together(planned=[drafts[place] for place in some], by=alice) == ""
    with pytest.raises(services.release_inputs.Refusal, match=reason):
        submit(drafts, alice)
    assert not charges().exists()
    assert states(collection) == ["draft"] * 3


def test_a_charge_that_comes_in_between_ends_it_there_and_the_rest_stay_drafts(
    dataset, collect, alice, make_queued, monkeypatch
):
    collection, submit_release, calls = collect(dataset), services.releases.submit_release, []

    def another_comes_in(**given):
        calls.append(given)
        if len(calls) == 2:
            monkeypatch.setattr("releases.services.collections.submit_release", submit_release)
            make_queued(dataset, epsilon="1.5")
        return submit_release(**given)

    monkeypatch.setattr("releases.services.collections.submit_release", another_comes_in)
    done = submit(planned(collection), alice)
    assert [each.title for each in done.submitted] == ["By sex"]
    assert [each.title for each in done.left] == ["Average age", "Median age"]
    assert isinstance(done.error, refusals.InsufficientBudget)
    assert states(collection) == ["queued", "draft", "draft"]
    assert charges().count() == 2


def test_what_is_not_submitted_yet_is_shared_out_again(dataset, collect, alice):
    collection = collect(dataset)
    first, second, third = releases_of(collection)
    services.releases.submit_release(release=first, key=uuid.uuid4(), by=alice)
    services.collections.share_out(collection=collection, epsilon="0.933333", weights={second.pk: "2", third.pk: "4"})
    assert epsilons(collection) == ["0.333333", "0.2", "0.4"]
    assert [each.mechanism for each in releases_of(collection)] == ["laplace-queries", "", ""]
    assert weights_of(collection) == ["1", "2", "4"]
    with pytest.raises(InvalidInput, match=r"epsilon: '0\.3' must be above 0\.333333"):
        services.collections.share_out(collection=collection, epsilon="0.3", weights={})


def test_no_collection_is_of_no_part_or_of_more_than_six(dataset, collect):
    for number in (0, 7):
        with pytest.raises(InvalidInput, match=f"parts: {number} must be 1 to 6"):
            collect(dataset, weights=("1",) * number, asked=(ASKED[0],) * number)


# The pages

LINES = {"form-TOTAL_FORMS": "6", "form-INITIAL_FORMS": "0", "epsilon": "1", "title": "Yearbook"}
THREE = {"form-0-wanted": "mean", "form-0-number": "age", "form-0-first": "sex", "form-3-wanted": "rows"}
THREE |= {"form-1-wanted": "counts", "form-1-first": "age", "form-1-second": "sex", "form-1-share": "2"}


@pytest.fixture
def plan(dataset, as_, alice):
    """Send the page on which several are planned."""
    return lambda **lines: as_(alice).post(link("new_collection", dataset), LINES | lines)


@pytest.fixture
def confirm(as_, alice):
    """Press a button of the page that checks, as it is shown; anything given replaces what the page sends."""

    def press(collection, action="release", **changed):
        url = link("confirm_collection", collection)
        shown = as_(alice).get(url).context["page"]
        sent = {"key": shown.key, "plans": list(shown.plans)} if action == "release" else {}
        return as_(alice).post(url, {"action": action} | sent | changed)

    return press


@pytest.fixture
def share(confirm):
    """Share epsilon out by these shares of the parts."""

    def press(collection, *weights, epsilon="1", **typed):
        shares = {f"share-{each.pk}": weight for each, weight in zip(releases_of(collection), weights, strict=True)}
        return confirm(collection, "share", epsilon=epsilon, **shares, **typed)

    return press


@pytest.fixture
def check_page(as_, alice):
    return lambda collection: as_(alice).get(link("confirm_collection", collection))


def test_each_line_becomes_a_draft_with_a_method_and_one_press_releases_all_and_leads_to_what_was_found(
    plan, confirm, as_, alice
):
    response = plan(**THREE)
    collection = Collection.objects.get()
    assert response.url == link("confirm_collection", collection)
    assert epsilons(collection) == ["0.25", "0.5", "0.25"]
    table = [{"marginal": ["age", "sex"]}]
    asked = [each.workload["queries"] for each in releases_of(collection)]
    assert asked == [[{"mean": {"columns": ["age"], "by": ["sex"]}}], table, table]
    assert all(each.mechanism for each in releases_of(collection))
    assert not charges().exists()
    address = link("collection", collection)
    assert confirm(collection).url == address
    assert charges().count() == 3
    for each in releases_of(collection):
        assert services.execution.execute_release(release_id=each.pk)
    page = as_(alice).get(address)
    for each in releases_of(collection):
        assert each.result["headline"] in words(page)
        assert "with 98.3% confidence" in each.result["headline"]
        assert link("download", each, "totals.csv") in body(page)
    spent = sum(Fraction(entry.epsilon, E12) for entry in charges())
    said = re.search(r"Spent together: epsilon ([\d.]+)", words(page))[1]
    assert float(said) == pytest.approx(float(spent), abs=1e-6)


def _errors(collection):
    """What the page of each part's methods says its answers are within."""
    return [float((plan.bound or plan.expectation).alpha) for _, plan in planned(collection)]


def test_epsilons_or_errors_of_counts_get_the_ratio_of_their_shares_with_methods_chosen_again(dataset, collect, share):
    both = {"version": 1, "queries": [{"marginal": ["sex", "age"]}]}
    collection = collect(dataset, asked=(("Sex", COUNTS), ("Both", both)), methods=())
    share(collection, "1", "1")
    for weights, ratio in ((("1", "3"), 3), (("8", "2"), 1 / 4)):
        assert share(collection, *weights, share_rule="error").status_code == 302
        first, second = _errors(collection)
        assert first / second == pytest.approx(ratio, rel=0.05)
        assert Fraction("0.999") < sum(map(Fraction, epsilons(collection))) <= 1
        collection.refresh_from_db()
        assert (collection.share_rule, weights_of(collection)) == ("error", list(weights))
    share(collection, "3", "1", epsilon="0.8", share_rule="epsilon")
    assert epsilons(collection) == ["0.6", "0.2"]
    assert all(each.mechanism for each in releases_of(collection))


#: Errors in other units cannot be compared where nobody knows how many rows there are.
UNITS = (("1", "2", "1"), {"share_rule": "error"}, "about how many rows there are")


TABLES = {"form-0-wanted": "counts", "form-0-first": "band", "form-0-second": "sex", "form-0-share": "1.5"}
TABLES |= {"form-1-wanted": "mean", "form-1-number": "age", "form-2-wanted": "counts", "form-2-first": "sex"}
BANDS = {"name": "band", "type": "categorical", "categories": ["a", "b", "c", "d"], "outside": "d"}
SEXES = {"name": "sex", "type": "categorical", "categories": ["female", "male"], "outside": "male"}


@pytest.fixture
def whole(make_declared):
    """A dataset of which no table of categories leaves out a row."""
    rows = "".join(f"{'abcd'[place % 4]},{('female', 'male')[place % 3 > 0]},30\n" for place in range(600))
    ages = {"name": "age", "type": "integer", "edges": [18, 40, 65]}
    return make_declared([BANDS, SEXES, ages], content=f"band,sex,age\n{rows}".encode(), epsilon="10")


@pytest.fixture
def plan_of_whole(whole, as_, alice):
    as_(alice).post(link("new_collection", whole), LINES | TABLES)
    return Collection.objects.get()


def test_tables_of_one_population_are_one_release_that_agrees_with_narrower_intervals_at_no_higher_price(
    plan_of_whole, confirm, check_page, collect, whole
):
    collection = plan_of_whole
    together, mean = releases_of(collection)
    assert [each.workload["queries"] for each in (together, mean)] == [
        [{"marginal": ["band", "sex"], "weight": 3}, {"marginal": ["sex"], "weight": 2}],
        [{"mean": ["age"]}],
    ]
    assert together.title == "Counts by band, sex; counts by sex"
    assert [Fraction(each.epsilon) for each in (together, mean)] == [Fraction("0.714285"), Fraction("0.285714")]
    assert [Fraction(each.beta) for each in (together, mean)] == [Fraction("0.033333"), Fraction("0.016666")]
    # As they were before: each table a release of its own.
    both = {"version": 1, "queries": [{"marginal": ["band", "sex"]}]}
    asked = (("Both", both), ("Mean", AVERAGE), ("Sex", COUNTS))
    apart = collect(whole, asked=asked, weights=("1.5", "1", "1"), methods=())
    alone = []
    for each in (releases_of(apart)[0], releases_of(apart)[2]):
        plans = [plan for plan in services.releases.compare(release=each) if not plan.infeasible and plan.bound]
        alone.append(min(plan.bound.alpha for plan in plans if plan.bound.proof.is_unconditional))
    (_, planned_together), _ = planned(collection)
    widths = planned_together.bound.half_widths
    assert all(one <= other for one, other in zip(widths, alone, strict=True)), (widths, alone)
    assert sum(widths) < sum(alone)
    said = words(check_page(collection))
    assert re.search(r"Measured together, in one release: band × sex within [\d.]+ rows, sex within [\d.]+ rows", said)
    confirm(collection)
    charged = charges().get(release=together)
    assert Fraction(charged.epsilon, E12) <= Fraction(together.epsilon)
    assert services.execution.execute_release(release_id=together.pk)
    together.refresh_from_db()
    assert together.result["receipt"]["bound"]["half_widths"] == list(widths)
    stored = read_answers(folder_of(together)).to_pylist()
    table = {}
    for row in stored:
        if row["query"] == "band × sex":
            table[row["sex"]] = table.get(row["sex"], 0) + row["estimate"]
    of_sex = {row["sex"]: row["estimate"] for row in stored if row["query"] == "sex"}
    # Numbers are rounded to cents. A cell below 0 would be shown as 0: of 50 rows and more none is.
    assert table == pytest.approx(of_sex, abs=0.1)


def test_another_share_of_tables_that_are_measured_together_keeps_them_within_what_they_have_alone(
    plan_of_whole, share
):
    collection = plan_of_whole
    for weights in (("5", "1"), ("1", "5")):
        assert share(collection, *weights).status_code == 302
        (release, plan_now), _ = planned(collection)
        narrow = [plan_now.bound.half_widths]
        epsilon = Fraction(release.epsilon)
        for family, weight in zip(plan_now.workload.families, (3, 2), strict=True):
            own = mechanism("laplace-queries").plan(
                plan_now.schema,
                replace(plan_now.workload, families=(replace(family, weight=1),)),
                budget=PureDP(epsilon=epsilon * weight / 5),
                beta=Fraction(release.beta) / 2,
            )
            narrow.append(own.bound.alpha)
        assert all(one <= other for one, other in zip(narrow[0], narrow[1:], strict=True))


@pytest.mark.parametrize(
    "lines",
    [
        # Twice the same table, a table for rows, and tables in such a ratio that no importance says it.
        {"form-1-wanted": "counts", "form-1-first": "sex", "form-2-wanted": "counts", "form-2-first": "sex"},
        {"form-1-wanted": "counts", "form-1-first": "sex", "form-2-wanted": "rows", "form-2-first": "sex"},
        {
            "form-1-wanted": "counts",
            "form-1-first": "sex",
            "form-1-share": "0.0001",
            "form-2-wanted": "counts",
            "form-2-first": "age",
            "form-2-share": "999",
        },
    ],
)
def test_what_cannot_be_measured_together_stays_apart(whole, as_, alice, lines):
    as_(alice).post(link("new_collection", whole), LINES | lines)
    assert len(releases_of(Collection.objects.get())) == 2


def test_tables_that_leave_out_rows_by_different_rules_stay_apart(plan):
    """A row with no valid age is in the table of sex, and not in that of both."""
    plan(
        **{"form-0-wanted": "counts", "form-0-first": "age", "form-0-second": "sex"},
        **{"form-1-wanted": "counts", "form-1-first": "sex"},
    )
    assert len(releases_of(Collection.objects.get())) == 2


@pytest.mark.parametrize(
    ("weights", "typed", "message"), [UNITS, (("0", "1", "1"), {}, "share: '0' must be above 0 and at most 1,000")]
)
def test_shares_that_break_a_rule_or_cannot_be_compared_change_nothing_and_stay_typed(
    collect, dataset, share, weights, typed, message
):
    collection = collect(dataset)
    response = share(collection, *weights, **typed)
    assert response.status_code == 400
    assert message in words(response).lower()
    assert [field_value(response, f"share-{each.pk}") for each in releases_of(collection)] == list(weights)
    assert epsilons(collection) == ["0.333333"] * 3
    assert weights_of(collection) == ["1", "1", "1"]
    collection.refresh_from_db()
    assert collection.share_rule == "epsilon"


BROKEN_LINES = [
    ({}, "What is wanted: nothing was chosen; choose it in at least one line."),
    ({"wanted": "mean", "number": "sex"}, "Column with numbers or dates: 'sex' must be a column of the fitting"),
    ({"wanted": "counts", "first": "sex", "third": "sex"}, "Count or group by: 'sex' is named twice"),
    ({"wanted": "quantile", "number": "age", "first": "sex"}, "Count or group by: 'sex' are of no use here"),
    ({"wanted": "most_common"}, "Count or group by: nothing is given; must be one column"),
    ({"wanted": "counts", "first": "sex", "epsilon": "0"}, "Epsilon: '0' must be"),
    ({"wanted": "mean", "number": "age", "weighted_by": "age"}, "Weighted by: 'age' must be another column"),
    ({"wanted": "counts", "first": "sex", "weighted_by": "age", "cap": "70"}, "Cap of the weights: '70' must be above"),
    ({"wanted": "counts", "first": "sex", "cap": "5"}, "Weighted by: nothing is given; must be a numeric column"),
    ({"wanted": "rows", "weighted_by": "age"}, "Weighted by: 'age' is of no use here"),
    ({"wanted": "weighted_count", "first": "sex"}, "Weighted by: nothing is given; must name a column"),
    ({"weighted_by": "age", "cap": "5"}, "What is wanted: nothing was chosen for age, 5"),
]


def test_what_breaks_a_rule_names_field_value_and_rule_and_stays_typed(plan):
    wrong = [
        ({name if name == "epsilon" else f"form-0-{name}": text for name, text in lines.items()}, message)
        for lines, message in BROKEN_LINES
    ]
    refuses(partial(plan, title="For the yearbook"), wrong, title="For the yearbook", **{"form-0-cap": ""})


def test_averages_sums_and_counts_can_be_weighted_by_a_column_with_a_cap(plan):
    weights = {"weighted_by": "age", "cap": "50"}
    counts = {"wanted": "counts", "first": "sex", **weights}
    lines = (counts, {"wanted": "weighted_count", **weights})
    assert plan(**{f"form-{n}-{name}": text for n, line in enumerate(lines) for name, text in line.items()}).url
    by_sex, in_all = releases_of(Collection.objects.get())
    capped = {"column": "age", "cap": 50}
    assert by_sex.workload["queries"] == [{"weighted_count": {"by": ["sex"], "weighted_by": capped}}]
    assert in_all.workload["queries"] == [{"weighted_count": {"weighted_by": capped}}]
    assert by_sex.title == "Sum of the weights age by sex"
    assert by_sex.mechanism
    assert in_all.mechanism


def test_a_part_that_a_reviewer_has_to_see_is_confirmed_on_its_own_page_and_the_others_here(
    collect, dataset, confirm, check_page
):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.6")
    collection = collect(dataset, weights=("1", "2", "1"))
    page = check_page(collection)
    # The first alone would pass, and the second with it would not; the third passes beside the first.
    assert [bool(part.why_apart) for part in page.context["page"].parts] == [False, True, False]
    assert confirm(collection).status_code == 302
    assert states(collection) == ["queued", "draft", "queued"]
    assert not releases_of(collection)[1].reviews.exists()


def test_of_a_public_part_others_see_that_part_alone(collect, dataset, alice, as_, charlie):
    collection = collect(dataset, weights=("1", "2", "1"))
    submit(planned(collection), alice)
    drafts = releases_of(collection)
    for each in drafts[:2]:
        assert services.execution.execute_release(release_id=each.pk)
    services.releases.make_public(release=drafts[1])
    for reader in (charlie, None):
        page = as_(reader).get(link("collection", collection))
        assert [part.title for part in page.context["page"].parts] == ["Average age"]
        assert "By sex" not in words(page)
        assert "Spent together: epsilon 0.5." in words(page)
        assert link("dataset_detail", dataset) not in body(page)


@pytest.mark.parametrize("wanted", ["counts", "rows", *statistics_together()])
def test_whatever_a_line_offers_is_planned_with_a_method_or_with_the_reason_why_not(plan, check_page, wanted):
    kind = statistics_together().get(wanted)
    is_of_numbers = kind is not None and kind.fields[0].columns in (Columns.NUMERIC, Columns.RANKED)
    column = {"form-0-number": "age"} if is_of_numbers else {"form-0-first": "sex"}
    if wanted == "weighted_count":
        column = {"form-0-weighted_by": "age"}
    assert plan(**{"form-0-wanted": wanted, **column}).status_code == 302
    (part,) = check_page(Collection.objects.get()).context["page"].parts
    assert part.within or part.why_barred
    assert bool(part.why_barred) != bool(part.method)


@pytest.mark.parametrize("changed", [{"plans": ["x"]}, {"key": "nonsense"}, {}])
def test_the_page_refuses_what_it_must_and_charges_nothing(collect, confirm, dataset, changed):
    collection = collect(dataset)
    if not changed:
        services.budgets.freeze_budget(budget=dataset.budget)
    response = confirm(collection, **changed)
    assert response.status_code == 409
    assert response.context["page"].can_be_released is bool(changed)
    assert not charges().exists()


def test_one_report_is_offered_of_two_results_and_more_once_nothing_is_computed_and_says_how_many(
    collect, dataset, alice, as_
):
    collection = collect(dataset)
    submit(planned(collection), alice)

    def offered():
        return re.findall(r"One report of \w+ ?\d* results", words(as_(alice).get(link("collection", collection))))

    first, second, third = releases_of(collection)
    for each in (first, second):
        assert services.execution.execute_release(release_id=each.pk)
        assert offered() == []
    services.releases.cancel_release(release=third, by=alice)
    assert offered() == ["One report of the 2 results"]
    Release.objects.filter(pk=second.pk).update(state="withdrawn")
    assert offered() == []


def test_the_report_of_all_results_is_called_so(collect, dataset, alice, as_):
    collection = collect(dataset)
    submit(planned(collection), alice)
    for each in releases_of(collection):
        assert services.execution.execute_release(release_id=each.pk)
    assert "One report of all results" in words(as_(alice).get(link("collection", collection)))


def test_one_report_holds_what_the_reader_may_see_and_each_part_s_download_is_recorded(
    collect, dataset, alice, as_, charlie
):
    collection = collect(dataset)
    submit(planned(collection), alice)
    parts = releases_of(collection)
    address = link("collection_report", collection)
    assert as_(alice).get(address).status_code == 404
    for each in parts[:2]:
        assert services.execution.execute_release(release_id=each.pk)
    services.releases.make_public(release=parts[1])
    parts = releases_of(collection)
    for reader, held, others in ((alice, parts[:2], parts[2:]), (charlie, parts[1:2], [parts[0], parts[2]])):
        downloads = AuditEvent.objects.filter(action="download").order_by("pk")
        before = downloads.count()
        page = body(as_(reader).get(address))
        for each in held:
            # All of its numbers and pictures, as they were published.
            alone = re.search(r"<body>(.*)</body>", (folder_of(each) / "report.html").read_text(), re.DOTALL)[1]
            assert re.sub(r"h[1-6]>|\s", "", alone) in re.sub(r"h[1-6]>|\s", "", page)
        assert not any(each.title in page for each in others)
        recorded = downloads.values_list("object_id", "actor", "detail")[before:]
        assert set(recorded) == {(str(each.pk), reader.pk, "report.html of a collection") for each in held}
