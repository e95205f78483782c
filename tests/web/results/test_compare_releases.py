"""Two releases beside each other: of one table, and of two."""

from __future__ import annotations

import csv
import random
import re

import pyarrow.compute
import pyarrow.parquet
import pytest
from django.urls import reverse

from releases import services
from releases.models import Release
from releases.presentation.results.release_comparison import Interval, pair_of
from releases.publication import files
from releases.questions.headline import number_text
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
        release.refresh_from_db()
    return made


def beside(client, release, **given):
    return client.get(reverse("compare_releases", args=[release.pk]), given)


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


def stored(release, names):
    """The released answers of one question, by their labels."""
    rows = csv.DictReader((files.folder_of(release) / "answers.csv").open())
    ends = ("estimate", "lower", "upper")
    given = [row for row in rows if all(row[name] for name in names)]
    return {tuple(row[name] for name in names): [float(row[end]) for end in ends] for row in given}


def test_both_estimates_are_shown_with_their_difference_and_what_the_bounds_allow(pair, as_, alice):
    one, two = pair
    shown = beside(as_(alice), one, other=two.pk, question="2")
    assert shown.status_code == 200
    page = shown.context["page"]
    assert page.are_one_number
    assert len(page.pairs) == 10
    released = [stored(each, page.heads) for each in pair]
    for each in page.pairs:
        ours, theirs = (of[tuple(label for _, label in each.named)] for of in released)
        # Shown to the whole row.
        assert number(each.difference) == pytest.approx(ours[0] - theirs[0], abs=0.5)
        assert number(each.most) == pytest.approx(ours[2] - ours[0] + theirs[2] - theirs[0], abs=0.55)
        low, high = map(number, each.truth.split(" to "))
        assert (low, high) == pytest.approx((max(ours[1], theirs[1]), min(ours[2], theirs[2])), abs=0.5)
    assert "With probability 90% or more, both bounds hold at once." in words(shown)
    assert inline_code(shown) == []


def around(value, *, by=9.0):
    return Interval(estimate=value, lower=value - by, upper=value + by)


def paired(first, second, *, is_count=True):
    return pair_of(first, second, named=iter([("of", "a")]), titles=("", ""), is_count=is_count)


def test_a_difference_below_nothing_has_a_minus_and_no_hyphen():
    assert paired(around(1.0), around(1234.0)).difference == "−1,233"
    assert paired(around(1.0), around(1.2)).difference == "0"
    assert paired(around(3.0), around(1.0)).difference == "2"
    assert paired(around(1.0), around(1.5), is_count=False).difference == "−0.5"
    assert paired(around(-5.0), around(1.0)).columns[0] == ("", "−5", "9")


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
        certain = {"larger" if each > 0 else "smaller" if each < 0 else "" for each in differences}
        assert shown.verdict == (certain.pop() if len(certain) == 1 else "")


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


def test_the_smaller_bound_narrows_the_truth_and_none_within_both_is_called_apart(pair, as_, alice):
    narrowed = paired(around(10.0, by=8.0), around(12.0, by=2.0))
    assert narrowed.truth == "10 to 14"
    assert paired(around(10.0, by=1.0), around(20.0, by=1.0)).truth == ""
    folder = files.folder_of(pair[1])
    answers = files.read_answers(folder)
    for name in ("estimate", "lower", "upper"):
        place = answers.column_names.index(name)
        answers = answers.set_column(place, name, pyarrow.compute.add(answers.column(name), 10_000.0))
    pyarrow.parquet.write_table(answers, folder / "answers.parquet")
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
    assert "not compared: they have no question in common" in words(beside(as_(alice), one, other=other.pk))


def test_a_release_of_columns_declared_otherwise_counts_other_rows_and_is_not_offered(pair, make_queued, as_, alice):
    one, _ = pair
    services.datasets.declare_universe(dataset=one.dataset, columns=[COLUMNS[0] | {"outside": "drop"}, COLUMNS[1]])
    one.dataset.refresh_from_db()
    later = make_queued(one.dataset)
    assert services.execution.execute_release(release_id=later.pk)
    assert "There is no other finished release" in words(beside(as_(alice), later))
    shown = beside(as_(alice), later, other=one.pk)
    assert "age is declared differently in the two releases" in words(shown)
    assert shown.context["page"] is None


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
    monkeypatch.setattr("releases.presentation.results.release_comparison.PAGE_LENGTH", 4)
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
    (each,) = shown.context["page"].pairs
    for release, (_, estimate, half_width) in zip((one, two), each.columns, strict=True):
        row = next(csv.DictReader((files.folder_of(release) / "answers.csv").open()))
        released, upper, lower = (float(row[name]) for name in ("estimate", "upper", "lower"))
        assert estimate == number_text(released)
        assert half_width == number_text(max(upper - released, released - lower))
        assert f"{estimate} ± {half_width}" in words(shown)
    assert "mean of age" in words(shown)
    assert inline_code(shown) == []


def test_a_statistic_is_compared_with_the_same_statistic_only(publish, as_, alice):
    mean = publish("The mean", {"mean": ["age"]}, "laplace-numbers")
    total = publish("The sum", {"sum": ["age"]}, "laplace-numbers")
    assert "There is no other finished release" in words(beside(as_(alice), mean))
    assert "they have no question in common" in words(beside(as_(alice), mean, other=total.pk))


def test_what_was_chosen_from_a_list_is_refused_in_words(publish, as_, alice):
    one, two = (publish(title, {"most_common": "sex"}, "exponential-choice") for title in ("One", "Two"))
    assert "This release chose its answer from a list, with no error band." in words(beside(as_(alice), one))
    assert beside(as_(alice), one, other=two.pk).context["page"] is None


def test_an_end_that_was_cut_off_does_not_make_the_half_width_smaller():
    cut = Interval(estimate=0.0, lower=0.0, upper=4.0)
    whole = Interval(estimate=9.0, lower=3.0, upper=9.5)
    assert paired(cut, whole).most == "10"


def test_a_median_that_was_measured_is_not_compared_with_one_that_was_chosen(publish, as_, alice):
    chosen = publish("Chosen", {"median": "age"}, "exponential-quantile")
    measured = publish("Measured", {"median": "age"}, "smooth-median-cauchy", epsilon="5")
    assert beside(as_(alice), chosen, other=measured.pk).context["page"] is None
    assert "the other one chose its answer from a list" in words(beside(as_(alice), measured, other=chosen.pk))


# --- two tables -------------------------------------------------------------------------------------------------------


@pytest.fixture
def years(make_dataset, make_queued):
    """This year's table and last year's, which has half of its people, each with a release of the same questions."""
    rows = [f"{20 + each % 50},{'male' if each % 3 else 'female'}" for each in range(4_000)]
    made = []
    for title, number_of_rows in (("This year", 4_000), ("Last year", 2_000)):
        content = "\n".join(["age,sex", *rows[:number_of_rows]]).encode()
        dataset = make_dataset(epsilon="50", content=content)
        release = make_queued(dataset, epsilon="40")
        assert services.execution.execute_release(release_id=release.pk)
        Release.objects.filter(pk=release.pk).update(title=title)
        made.append(release)
    return made


def test_releases_of_two_tables_are_compared_with_the_range_of_the_true_difference(years, as_, alice):
    this, last = years
    offered = words(beside(as_(alice), this))
    assert "Last year" in offered
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


def test_a_difference_of_whole_counts_has_whole_ends_that_say_what_is_certain():
    shown = paired(Interval(estimate=10.0, lower=8.3, upper=12.0), Interval(estimate=4.0, lower=2.0, upper=8.0))
    assert (shown.change, shown.verdict) == ("1 to 10", "larger")
    fewer = paired(Interval(estimate=1.0, lower=0.0, upper=2.4), Interval(estimate=4.0, lower=2.9, upper=8.0))
    assert (fewer.change, fewer.verdict) == ("−8 to −1", "smaller")


def test_two_of_one_title_are_told_apart(years, as_, alice):
    this, last = years
    Release.objects.update(title="Yearly")
    titles = beside(as_(alice), this, other=last.pk).context["page"].titles
    assert titles[0] != titles[1]


def test_a_release_of_another_table_is_offered_to_those_alone_who_may_read_it(years, as_, bob, charlie):
    this, last = years
    services.releases.make_public(release=this)
    assert "There is no other finished release" in words(beside(as_(charlie), this))
    assert beside(as_(charlie), this, other=last.pk).status_code == 404
    assert beside(as_(bob), this, other=last.pk).context["page"].is_of_two_tables
    services.releases.make_public(release=last)
    assert beside(as_(charlie), this, other=last.pk).context["page"].is_of_two_tables


def test_a_workload_leads_to_each_release_beside_the_one_before(years, as_, alice):
    this, last = years
    workload = services.workloads.save_workload(release=last, name="Yearly", by=alice)
    Release.objects.filter(pk__in=[this.pk, last.pk]).update(workload_version=workload.latest)
    client = as_(alice)
    (address,) = re.findall(r'href="([^"]*other=[^"]*)"', body(client.get(reverse("workload", args=[workload.pk]))))
    assert address == f"{reverse('compare_releases', args=[last.pk])}?other={this.pk}"
    assert client.get(address).context["page"].is_of_two_tables
