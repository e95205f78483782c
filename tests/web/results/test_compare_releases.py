"""Two releases beside each other: of one table, and of two."""

from __future__ import annotations

import random
from datetime import date

import pyarrow.compute
import pyarrow.parquet
import pytest

from releases import services
from releases.engine.domain.dates import By, Dates
from releases.models import Release
from releases.presentation.results.release_comparison import Interval, pair_of
from releases.publication import files
from releases.questions.headline import number_text
from tests.web.conftest import COLUMNS, rows_of
from tests.web.pages import inline_code, link, words

pytestmark = pytest.mark.django_db


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


def stored(release, names):
    """The released answers of one question, by their labels."""
    ends = ("estimate", "lower", "upper")
    given = [row for row in rows_of(release) if all(row[name] for name in names)]
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


def ends(estimate, lower, upper):
    return Interval(estimate=estimate, lower=lower, upper=upper)


def test_a_difference_has_a_minus_and_ends_that_say_what_is_certain():
    for first, second, is_count, difference in (
        (1.0, 1234.0, True, "−1,233"),
        (1.0, 1.2, True, "0"),
        (3.0, 1.0, True, "2"),
        (1.0, 1.5, False, "−0.5"),
    ):
        assert paired(around(first), around(second), is_count=is_count).difference == difference
    assert paired(around(-5.0), around(1.0)).columns[0] == ("", "−5", "9")
    assert paired(ends(0.0, 0.0, 4.0), ends(9.0, 3.0, 9.5)).most == "10"
    shown = paired(ends(10.0, 8.3, 12.0), ends(4.0, 2.0, 8.0))
    assert (shown.change, shown.verdict) == ("1 to 10", "larger")
    fewer = paired(ends(1.0, 0.0, 2.4), ends(4.0, 2.9, 8.0))
    assert (fewer.change, fewer.verdict) == ("−8 to −1", "smaller")


DAYS = Dates(written="YYYY-MM-DD", first=date(2024, 1, 1), last=date(2024, 12, 31), by=By.MONTH)


def test_two_dates_are_shown_as_dates_with_the_days_between_them():
    third_of_may = DAYS.number(date(2024, 5, 3))
    one, other = around(third_of_may, by=2), around(third_of_may - 10, by=2)
    shown = pair_of(one, other, named=iter([("of", "a")]), titles=("", ""), is_count=False, dates=DAYS)
    assert shown.columns == (("", "3 May 2024", "2 days"), ("", "23 April 2024", "2 days"))
    assert (shown.difference, shown.change, shown.verdict) == ("10 days", "6 days to 14 days", "later")
    assert (shown.most, shown.truth) == ("4 days", "")
    back = pair_of(
        other, around(third_of_may - 9, by=2), named=iter([("of", "a")]), titles=("", ""), is_count=False, dates=DAYS
    )
    assert (back.difference, back.change, back.verdict) == ("−1 day", "−5 days to 3 days", "")
    assert back.truth == "22 April 2024 to 25 April 2024"


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


def test_only_releases_with_a_question_in_common_are_offered(pair, make_draft, carry_out, as_, alice):
    one, _ = pair
    other = carry_out(make_draft(one.dataset, {"prefix": "age"}, title="Another question"))
    page = words(beside(as_(alice), one))
    assert "Two, " in page
    assert "Another question" not in page
    assert "There is no other finished release" in words(beside(as_(alice), other))
    assert "not compared: they have no question in common" in words(beside(as_(alice), one, other=other.pk))


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


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.fixture
def publish(make_dataset, make_draft, carry_out):
    """A published release of one statistic."""
    dataset = make_dataset(epsilon="50")

    def make(title, question, mechanism, *, epsilon="2"):
        return carry_out(make_draft(dataset, question, epsilon=epsilon, mechanism=mechanism, title=title))

    return make


def test_two_releases_of_the_same_statistic_stand_side_by_side_with_their_digits(publish, as_, alice):
    one = publish("One", {"mean": ["age"]}, "laplace-numbers")
    two = publish("Two", {"mean": ["age"]}, "laplace-numbers", epsilon="5")
    shown = beside(as_(alice), one, other=two.pk)
    (each,) = shown.context["page"].pairs
    for release, (_, estimate, half_width) in zip((one, two), each.columns, strict=True):
        (row,) = rows_of(release)
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


def test_a_median_that_was_measured_is_not_compared_with_one_that_was_chosen(publish, as_, alice):
    chosen = publish("Chosen", {"median": "age"}, "exponential-quantile")
    measured = publish("Measured", {"median": "age"}, "smooth-median-cauchy", epsilon="5")
    for one, other in ((chosen, measured), (measured, chosen)):
        assert beside(as_(alice), one, other=other.pk).context["page"] is None


# --- two tables -------------------------------------------------------------------------------------------------------


@pytest.fixture
def years(make_dataset, make_draft, carry_out, once):
    """This year's table and last year's, which has half of its people, each with a release of the same questions."""
    rows = [f"{20 + each % 50},{'male' if each % 3 else 'female'}" for each in range(4_000)]

    def really():
        for title, number_of_rows in (("This year", 4_000), ("Last year", 2_000)):
            dataset = make_dataset(epsilon="50", content="\n".join(["age,sex", *rows[:number_of_rows]]).encode())
            carry_out(make_draft(dataset, epsilon="40", title=title))

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


def test_a_release_of_another_table_is_offered_to_those_alone_who_may_read_it(years, as_, bob, charlie):
    this, last = years
    services.releases.make_public(release=this)
    assert "There is no other finished release" in words(beside(as_(charlie), this))
    assert beside(as_(charlie), this, other=last.pk).status_code == 404
    assert beside(as_(bob), this, other=last.pk).context["page"].is_of_two_tables
    services.releases.make_public(release=last)
    assert beside(as_(charlie), this, other=last.pk).context["page"].is_of_two_tables
