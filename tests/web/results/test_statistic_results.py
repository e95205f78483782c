"""A statistic's result page and file: a number, a list, what was chosen, a distribution, each as suits it."""

from __future__ import annotations

import pytest

from releases.questions.headline import number_text
from tests.web.conftest import COLUMNS, rows_of
from tests.web.pages import body, inline_code, link, words

pytestmark = pytest.mark.django_db

MANY = [*COLUMNS, {"name": "share", "type": "number", "edges": [0, 0.01], "decimals": 4, "outside": "clamp"}]
#: 150 of 200 people are 40, all shares are 0.005: nothing here is in doubt at epsilon 100.
CONTENT = b"age,sex,share\n" + b"40,male,0.005\n" * 150 + b"20,female,0.005\n" * 50
MEN, WOMEN = {"sex": ["male"]}, {"sex": ["female"]}


@pytest.fixture
def publish(make_declared, make_draft, carry_out):
    """A published release of one statistic at an epsilon that leaves next to no noise."""
    dataset = make_declared(MANY, content=CONTENT, epsilon="100")

    def make(mechanism, question, *, epsilon="30", delta="0", **options):
        choice = {"epsilon": epsilon, "delta": delta, "options": options or None}
        return carry_out(make_draft(dataset, question, mechanism=mechanism, **choice))

    return make


@pytest.fixture
def show(as_, alice):
    def get(release):
        page = as_(alice).get(link("release_detail", release))
        assert page.status_code == 200
        assert inline_code(page) == []
        assert '<select id="question"' not in body(page)
        return page

    return get


def test_a_sum_is_a_number_with_its_interval(publish, show):
    release = publish("laplace-numbers", {"sum": ["age"]})
    page = show(release)
    (row,) = rows_of(release)
    assert abs(float(row["estimate"]) - 7000) < 30
    estimate, lower, upper = (number_text(float(row[name])) for name in ("estimate", "lower", "upper"))
    assert f"<dt>Sum of age</dt><dd>{estimate}</dd>" in body(page)
    assert f"At least {lower}, at most {upper}." in words(page)
    assert "vega" not in body(page)


def test_means_by_group_stand_in_one_table_each_with_its_own_interval(publish, show):
    release = publish("laplace-numbers", {"mean": {"columns": ["age"], "by": ["sex"]}})
    page = show(release)
    rows = rows_of(release)
    assert [(row["query"], row["of"]) for row in rows] == [("mean of age by sex", sex) for sex in ("female", "male")]
    for row in rows:
        estimate, lower, upper = (float(row[name]) for name in ("estimate", "lower", "upper"))
        assert 0 <= lower <= estimate <= upper <= 100
        cells = "".join(f'<td class="number">{number_text(each)}</td>' for each in (estimate, lower, upper))
        assert f'<th scope="row">{row["of"]}</th>{cells}' in body(page)


def test_a_quantile_by_counts_says_between_which_values_the_true_one_lies(publish, show):
    """51 of 200 people would have to be counted wrongly for another median than 40."""
    release = publish("counted-quantile", {"median": "age"})
    (row,) = rows_of(release)
    assert (row["estimate"], row["lower"], row["upper"]) == ("40", "40", "40")
    assert "With probability 95%, the true median of age is 40" in words(show(release))
    noisy = publish("counted-quantile", {"quantile": {"column": "share", "at": "0.75"}}, epsilon="1")
    (row,) = rows_of(noisy)
    lower, upper = (number_text(float(row[name])) for name in ("lower", "upper"))
    assert float(row["lower"]) <= float(row["estimate"]) <= float(row["upper"])
    assert f"At least {lower}, at most {upper}." in words(show(noisy))
    assert len(noisy.result["receipt"]["notes"]["noisy counts"]) > 1


def test_a_stream_says_which_was_first_above_and_a_paid_value_stands_beside_it(publish, show):
    question = {"threshold": {"counts": [WOMEN, MEN, WOMEN], "above": 100}}
    release = publish("above-threshold", question)
    assert "The first count found above 100 rows is “sex: male”." in words(show(release))
    assert [each["answer"] for each in rows_of(release)] == ["below", "above", "not asked"]
    release = publish("numeric-sparse-vector", question)
    rows = rows_of(release)
    assert [each["answer"] for each in rows] == ["below", "above", "not asked"]
    assert (rows[0]["value"], rows[2]["value"]) == ("", "")
    assert abs(int(rows[1]["value"]) - 150) < 30
    assert f'<span class="chip ok">above</span></td><td class="number">{rows[1]["value"]}</td>' in body(show(release))


def test_a_survey_is_a_distribution_with_a_chart_and_a_table(publish, show):
    release = publish("randomized-response", {"survey": "sex"})
    page, rows = body(show(release)), rows_of(release)
    assert 'id="answers-data"' in page
    assert [each["of"] for each in rows] == ["female", "male"]
    for row in rows:
        cells = f'<th scope="row">{row["of"]}</th><td class="number">{number_text(float(row["estimate"]))}</td>'
        assert cells in page


def test_a_refused_proposal_gives_no_answer_and_says_so(publish, show):
    """Half of each: the median can jump from one end of the range to the other."""
    release = publish("propose-test-release", {"median": "age"}, epsilon="0.1", delta="0.0000001")
    assert "no answer" in words(show(release))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (1234567.0, "1,234,567"), (-2.5, "−2.5"), (0.00512, "0.00512"), (1e-9, "0")],
)
def test_numbers_are_written_without_idle_noughts(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("mechanism", "question", "answers", "shown"),
    [
        ("exponential-choice", {"most_common": "sex"}, ["male"], "<dt>Most common sex</dt><dd>male</dd>"),
        ("noisy-max-choice", {"top": {"column": "sex", "k": 2}}, ["male", "female"], "<li>male</li><li>female</li>"),
        ("permute-and-flip-choice", {"largest_count": [WOMEN, MEN]}, ["sex: male"], "<dd>sex: male</dd>"),
        ("exponential-quantile", {"median": "age"}, ["40"], "<dt>Median of age</dt><dd>40</dd>"),
        ("exponential-range", {"range": {"column": "age", "inside": "0.9"}}, ["20", "40"], "<dd>20 to 40</dd>"),
        ("above-threshold", {"threshold": {"counts": [MEN], "above": 100_000}}, ["below"], "None of the counts was"),
    ],
)
def test_what_was_chosen_is_named_alone(publish, show, mechanism, question, answers, shown):
    release = publish(mechanism, question)
    assert [row["answer"] for row in rows_of(release)] == answers
    assert shown in body(show(release))
