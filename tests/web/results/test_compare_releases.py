"""Two releases of one dataset beside each other."""

from __future__ import annotations

import csv
import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import Release
from releases.presentation.results.statistics import number_text
from releases.publication import files
from releases.views.results.compare import Interval, Pair
from tests.web.conftest import COLUMNS
from tests.web.pages import body, inline_code, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair(make_dataset, make_queued):
    """Two releases of the same questions at different epsilons."""
    dataset = make_dataset(epsilon="10")
    made = [make_queued(dataset, epsilon=epsilon) for epsilon in ("1", "2")]
    for title, release in zip(("One", "Two"), made, strict=True):
        assert services.execution.execute_release(release_id=release.pk)
        Release.objects.filter(pk=release.pk).update(title=title)
    return made


def beside(client, release, **given):
    return client.get(reverse("compare_releases", args=[release.pk]), given)


def test_both_estimates_stand_side_by_side_with_their_difference_and_its_bound(pair, as_, alice):
    one, two = pair
    client = as_(alice)
    shown = beside(client, one, other=two.pk, question="2")
    assert shown.status_code == 200
    assert len(shown.context["pairs"]) == 10
    detail = {"question": "2"}
    for release, name in ((one, "first"), (two, "second")):
        rows = client.get(reverse("release_detail", args=[release.pk]), detail).context["page"].table.rows
        assert [f"{getattr(each, name).estimate:,g}" for each in shown.context["pairs"]] == [
            row.estimate for row in rows
        ]
        assert [each.labels for each in shown.context["pairs"]] == [row.labels for row in rows]
    for each in shown.context["pairs"]:
        assert each.difference == each.first.estimate - each.second.estimate
        assert each.most == pytest.approx(each.first.upper - each.first.estimate + each.second.half_width)
        assert each.lower == max(each.first.lower, each.second.lower)
        assert each.is_apart is (each.lower > each.upper)
    assert "With probability 90% or more, both bounds hold at once." in words(shown)
    assert inline_code(shown) == []


def test_a_difference_below_nothing_has_a_minus_and_no_hyphen():
    def pair(first, second, *, is_count):
        intervals = [Interval(estimate=each, lower=each - 9, upper=each + 9) for each in (first, second)]
        return Pair(labels=("a",), first=intervals[0], second=intervals[1], is_count=is_count)

    assert pair(1.0, 1234.0, is_count=True).difference_text == "−1,233"
    assert pair(1.0, 1.2, is_count=True).difference_text == "0"
    assert pair(3.0, 1.0, is_count=True).difference_text == "2"
    assert pair(1.0, 1.5, is_count=False).difference_text == "−0.5"
    assert pair(-5.0, 1.0, is_count=True).columns[0] == ("", "−5", "9")


def test_on_a_telephone_every_number_stands_below_its_own_words(pair, as_, alice):
    page = body(beside(as_(alice), pair[0], other=pair[1].pk, question="2"))
    first = re.search(r"<tbody><tr>(.*?)</tr>", page[page.index("What both answer") :], flags=re.DOTALL)[1]
    assert re.findall(r'data-label="([^"]*)"', first) == [
        "age",
        "sex",
        "One",
        "Two",
        "Difference",
        "Bounds allow",
        "Truth, by both",
    ]


def test_the_smaller_bound_narrows_the_truth(pair, as_, alice):
    each = beside(as_(alice), pair[0], other=pair[1].pk, question="2").context["pairs"][0]
    assert each.upper - each.lower <= min(each.first.upper - each.first.lower, each.second.upper - each.second.lower)
    assert each.first.half_width == pytest.approx(2 * each.second.half_width, rel=0.1)


def test_intervals_without_a_common_count_are_called_apart(pair, as_, alice, monkeypatch):
    from releases.views.results import compare

    read = compare.stored_rows

    def moved(path, start, stop):
        rows = read(path, start, stop)
        if str(pair[1].pk) in str(path):
            rows = {name: [value + 10_000 for value in values] for name, values in rows.items()}
        return rows

    monkeypatch.setattr(compare, "stored_rows", moved)
    assert "✕ apart" in words(beside(as_(alice), pair[0], other=pair[1].pk))


def test_only_releases_with_a_question_in_common_are_offered(pair, as_, alice):
    one, _ = pair
    dataset = one.dataset
    other = services.releases.draft_release(dataset=dataset, by=alice, title="Another question")
    services.releases.set_questions(release=other, workload={"version": 1, "queries": [{"prefix": "age"}]})
    services.releases.set_choice(release=other, epsilon="1", mechanism_name="laplace-queries")
    services.releases.submit_release(release=other, key=one.pk, by=alice, send=False)
    assert services.execution.execute_release(release_id=other.pk)
    page = words(beside(as_(alice), one))
    assert "Two, " in page
    assert "Another question" not in page
    assert "There is no other finished release" in words(beside(as_(alice), other))
    assert beside(as_(alice), one, other=other.pk).status_code == 404


def test_a_release_of_columns_declared_otherwise_counts_other_rows_and_is_not_offered(pair, make_queued, as_, alice):
    one, _ = pair
    services.datasets.declare_universe(dataset=one.dataset, columns=[COLUMNS[0] | {"outside": "drop"}, COLUMNS[1]])
    one.dataset.refresh_from_db()
    later = make_queued(one.dataset)
    assert services.execution.execute_release(release_id=later.pk)
    assert "There is no other finished release" in words(beside(as_(alice), later))


def test_strangers_see_public_releases_side_by_side_and_no_others(pair, as_, alice, client, charlie):
    one, two = pair
    services.releases.make_public(release=one)
    client.logout()
    assert "There is no other finished release" in words(beside(client, one))
    assert beside(client, one, other=two.pk).url.startswith("/accounts/login/")
    assert beside(client, two).url.startswith("/accounts/login/")
    services.releases.make_public(release=two)
    assert "What both answer" in words(beside(client, one, other=two.pk))
    assert beside(as_(charlie), one, other=two.pk).status_code == 200


def test_a_question_or_page_that_is_not_there_shows_one_that_is(pair, as_, alice, monkeypatch):
    monkeypatch.setattr("releases.views.results.compare.PAGE_LENGTH", 4)
    client = as_(alice)
    for wrong in ("-1", "99", "x", "٣", "1" * 40):
        assert beside(client, pair[0], other=pair[1].pk, question=wrong, page=wrong).status_code == 200
    assert beside(client, pair[0], other="x").status_code == 404
    first = beside(client, pair[0], other=pair[1].pk, question="2")
    onward = re.search(r'rel="next" href="([^"#]*)', body(first))[1].replace("&amp;", "&")
    assert "Answers 5 to 8 of 10" in words(client.get(reverse("compare_releases", args=[pair[0].pk]) + onward))


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.fixture
def publish(make_dataset, alice, carry_out):
    """A published release of one statistic."""
    dataset = make_dataset(epsilon="50")

    def make(title, question, mechanism, *, epsilon="2"):
        release = services.releases.draft_release(dataset=dataset, by=alice, title=title)
        services.releases.set_questions(release=release, workload={"version": 1, "queries": [question]})
        services.releases.set_choice(release=release, epsilon=epsilon, mechanism_name=mechanism)
        return carry_out(release)

    return make


def test_two_releases_of_the_same_statistic_stand_side_by_side_with_their_digits(publish, as_, alice):
    one = publish("One", {"mean": ["age"]}, "laplace-numbers")
    two = publish("Two", {"mean": ["age"]}, "laplace-numbers", epsilon="5")
    shown = beside(as_(alice), one, other=two.pk)
    (each,) = shown.context["pairs"]
    for release, name in ((one, "first"), (two, "second")):
        row = next(csv.DictReader((files.folder_of(release) / "answers.csv").open()))
        interval = getattr(each, name)
        assert (str(interval.estimate), str(interval.lower)) == (str(float(row["estimate"])), str(float(row["lower"])))
    assert each.most >= abs(each.difference) or each.is_apart
    assert f"{number_text(each.first.estimate)} ± {number_text(each.first.half_width)}" in words(shown)
    assert "mean of age" in words(shown)
    assert inline_code(shown) == []


def test_a_statistic_is_compared_with_the_same_statistic_only(publish, as_, alice):
    mean = publish("The mean", {"mean": ["age"]}, "laplace-numbers")
    total = publish("The sum", {"sum": ["age"]}, "laplace-numbers")
    assert "There is no other finished release" in words(beside(as_(alice), mean))
    assert beside(as_(alice), mean, other=total.pk).status_code == 404


def test_what_was_chosen_from_a_list_is_refused_in_words(publish, as_, alice):
    one, two = (publish(title, {"most_common": "sex"}, "exponential-choice") for title in ("One", "Two"))
    assert "This release chose its answer from a list, with no error band." in words(beside(as_(alice), one))
    assert beside(as_(alice), one, other=two.pk).status_code == 404


def test_an_end_that_was_cut_off_does_not_make_the_half_width_smaller():
    cut = Interval(estimate=0.0, lower=0.0, upper=4.0)
    whole = Interval(estimate=9.0, lower=3.0, upper=9.5)
    assert Pair(labels=(), first=cut, second=whole).most == 4.0 + 6.0


def test_a_median_that_was_measured_is_not_compared_with_one_that_was_chosen(publish, as_, alice):
    chosen = publish("Chosen", {"median": "age"}, "exponential-quantile")
    measured = publish("Measured", {"median": "age"}, "smooth-median-cauchy", epsilon="5")
    assert beside(as_(alice), chosen, other=measured.pk).status_code == 404
    assert beside(as_(alice), measured, other=chosen.pk).status_code == 404
