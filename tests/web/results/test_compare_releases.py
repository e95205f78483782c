"""Two releases beside each other: of one table, and of two."""

import math
import random

import pytest

from releases import services
from releases.models import Dataset, Release
from releases.presentation.results.release_comparison import Interval, pair_of
from tests.web.conftest import COLUMNS, rows_of
from tests.web.pages import link, words
from tests.web.steps import ask_for, protect


@pytest.fixture
def pair(make_dataset, make_draft, carry_out, once):
    """Two releases of the same questions at different epsilons."""
    dataset = make_dataset(epsilon="10")
    for title, epsilon in (("One", "1"), ("Two", "2")):
        once(title, lambda: carry_out(make_draft(dataset, epsilon=epsilon, title=title)))  # noqa: B023  called at once
    return list(Release.objects.order_by("title"))


def beside(client, release, **given):
    return client.get(link("compare_releases", release), given)


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


def around(value, *, by=9.0):
    return Interval(estimate=value, lower=value - by, upper=value + by)


def paired(first, second, *, is_count=True):
    return pair_of(first, second, named=iter([("of", "a")]), titles=("", ""), is_count=is_count)


def ends(estimate, lower, upper):
    return Interval(estimate=estimate, lower=lower, upper=upper)


def test_the_ends_of_a_difference_of_counts_are_whole_and_within_what_is_certain():
    shown = paired(ends(10.0, 8.3, 12.0), ends(4.0, 2.0, 8.0))
    assert (shown.change, shown.verdict) == ("1 to 10", "larger")
    fewer = paired(ends(1.0, 0.0, 2.4), ends(4.0, 2.9, 8.0))
    assert (fewer.change, fewer.verdict) == ("−8 to −1", "smaller")


def test_a_true_difference_is_within_its_range_whatever_the_two_truths_are():
    drawn = random.Random(7)
    for _ in range(300):
        one, two = (around(drawn.uniform(-40, 40), by=drawn.uniform(0, 20)) for _ in range(2))
        shown = paired(one, two, is_count=False)
        truths = [(x, y) for x in (one.lower, one.upper) for y in (two.lower, two.upper)]
        differences = [x - y for x, y in truths]
        assert list(map(number, shown.change.split(" to "))) == pytest.approx(
            [min(differences), max(differences)], rel=1e-2, abs=1e-3
        )
        truth = (max(one.lower, two.lower), min(one.upper, two.upper))
        assert bool(shown.truth) is (truth[0] <= truth[1])
        certain = {"larger" if each > 0 else "smaller" if each < 0 else "" for each in differences}
        assert shown.verdict == (certain.pop() if len(certain) == 1 else "")


def test_a_release_of_columns_declared_otherwise_counts_other_rows_and_is_not_offered(
    pair, make_draft, carry_out, as_, alice
):
    one, _ = pair
    services.datasets.declare_universe(dataset=one.dataset, columns=[COLUMNS[0] | {"outside": "drop"}, COLUMNS[1]])
    one.dataset.refresh_from_db()
    later = carry_out(make_draft(one.dataset))
    assert "There is no other finished release" in words(beside(as_(alice), later))
    shown = beside(as_(alice), later, other=one.pk)
    assert "age is declared differently in the two releases" in words(shown)
    assert shown.context["page"] is None


def test_a_statistic_is_compared_with_the_same_one_only_and_never_with_what_was_chosen(
    make_dataset, make_draft, carry_out, as_, alice
):
    dataset = make_dataset(epsilon="50")

    def publish(question, mechanism, epsilon="2"):
        return carry_out(make_draft(dataset, question, epsilon=epsilon, mechanism=mechanism))

    one, again = (publish({"mean": ["age"]}, "laplace-numbers", epsilon) for epsilon in ("2", "5"))
    total = publish({"sum": ["age"]}, "laplace-numbers")
    chosen = publish({"median": "age"}, "exponential-quantile")
    measured = publish({"median": "age"}, "smooth-median-cauchy", "5")
    for first, other, is_shown in ((one, again, True), (one, total, False), (chosen, measured, False)):
        for pair in ((first, other), (other, first)):
            shown = beside(as_(alice), pair[0], other=pair[1].pk).context["page"]
            assert (shown is not None) is is_shown


def test_releases_of_a_table_whose_rows_come_and_go_are_not_said_to_estimate_one_number(pair, as_, alice):
    one, two = pair
    assert beside(as_(alice), one, other=two.pk).context["page"].are_one_number
    Dataset.objects.filter(pk=one.dataset_id).update(location="clinic://clinic#visits")
    shown = beside(as_(alice), one, other=two.pk)
    assert not shown.context["page"].are_one_number
    assert "Truth, by both" not in words(shown)
    assert "one of the two bounds failed" not in words(shown)
    assert "Its rows may have changed in between." in words(shown)
    # By hand: what both intervals leave possible of the difference between the true answers of two days.
    (first, second) = (rows_of(each)[0] for each in pair)
    least, most = map(number, shown.context["page"].pairs[0].change.split(" to "))
    assert least == math.ceil(float(first["lower"])) - math.floor(float(second["upper"]))
    assert most == math.floor(float(first["upper"])) - math.ceil(float(second["lower"]))


# --- two tables -------------------------------------------------------------------------------------------------------


@pytest.fixture
def years(make_dataset, make_draft, carry_out, once):
    """This year's table and last year's, which has half of its people, each with a release of the same questions."""
    rows = [f"{20 + each % 50},{'male' if each % 3 else 'female'}" for each in range(4_000)]

    def really():
        for title, number_of_rows in (("This year", 4_000), ("Last year", 2_000)):
            dataset = make_dataset(epsilon="50", content="\n".join(["age,sex", *rows[:number_of_rows]]).encode())
            # No bound is broken by chance.
            carry_out(make_draft(dataset, epsilon="40", beta="0.0000000001", title=title))

    once("years", really)
    return list(Release.objects.order_by("-title"))


def test_releases_of_two_tables_are_compared_with_the_range_of_the_true_difference(years, as_, alice):
    this, last = years
    assert "Last year" in words(beside(as_(alice), this))
    page = beside(as_(alice), this, other=last.pk, question="1").context["page"]
    assert page.is_of_two_tables
    assert not page.are_one_number
    shown = {each.named[0][1]: each for each in page.pairs}
    assert shown["male"].verdict == "larger"
    low, high = map(number, shown["male"].change.split(" to "))
    # 2,666 of the 4,000 rows and 1,333 of the 2,000 are male.
    assert 0 < low <= 2_666 - 1_333 <= high
    back = beside(as_(alice), last, other=this.pk, question="1")
    assert {each.named[0][1]: each.verdict for each in back.context["page"].pairs}["male"] == "smaller"
    assert "Truth, by both" not in words(back)


def test_a_column_whose_name_differs_in_capitals_and_spaces_alone_is_compared_with_it(
    upload_file, sofia, make_draft, carry_out, as_, alice, group
):
    """The other release begins with another question, about a column that this one has under another name."""

    def publish(title, male, name, queries):
        rows = ["30,male"] * male + ["30,female"] * (900 - male)
        source = upload_file("\n".join([f"{name},sex", *rows]).encode())
        dataset = services.datasets.ingest_dataset(owner=alice, title=title, source=source, group=group)
        services.datasets.declare_universe(dataset=dataset, columns=[COLUMNS[0] | {"name": name}, COLUMNS[1]])
        protect(dataset, alice)
        services.budgets.approve_request(request=ask_for(dataset, alice, "50"), by=sofia)
        dataset.refresh_from_db()
        return carry_out(make_draft(dataset, *queries, epsilon="40", beta="0.0000000001", title=title))

    this = publish("This year", 600, "age", [{"marginal": ["sex"]}, {"marginal": ["age", "sex"]}])
    again = [{"marginal": ["A Ge"]}, {"marginal": ["sex"]}, {"marginal": ["A Ge", "sex"]}]
    last = publish("Last year", 200, "A Ge", again)
    for one, other, verdict in ((this, last, "larger"), (last, this, "smaller")):
        for question in (0, 1):
            page = beside(as_(alice), one, other=other.pk, question=question).context["page"]
            assert len(page.questions) == 2
            (shown,) = (each for each in page.pairs if {"25 to 34", "male"} >= {label for _, label in each.named[-2:]})
            assert shown.verdict == verdict
            low, high = map(number, shown.change.split(" to "))
            assert low <= (400 if one == this else -400) <= high
            assert high - low < 40


def test_a_release_of_another_table_is_offered_to_those_alone_who_may_read_it(years, as_, bob, charlie):
    this, last = years
    services.releases.make_public(release=this)
    assert "There is no other finished release" in words(beside(as_(charlie), this))
    assert beside(as_(charlie), this, other=last.pk).status_code == 404
    assert beside(as_(bob), this, other=last.pk).context["page"].is_of_two_tables
    services.releases.make_public(release=last)
    assert beside(as_(charlie), this, other=last.pk).context["page"].is_of_two_tables
