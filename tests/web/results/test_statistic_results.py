"""A statistic's result page and file: what was chosen, what was paid for beside it, and weighted numbers."""

import re

import pytest

from releases.publication import files
from tests.web.conftest import rows_of
from tests.web.pages import body, link, words

#: 150 of 200 people are 40: nothing here is in doubt at epsilon 100.
CONTENT = b"age,sex\n" + b"40,male\n" * 150 + b"20,female\n" * 50
TABLE = {"content": CONTENT, "budget": "100"}
MEN, WOMEN = {"sex": ["male"]}, {"sex": ["female"]}


@pytest.fixture
def show(as_, alice):
    def get(release):
        page = as_(alice).get(link("release_detail", release))
        assert page.status_code == 200
        return page

    return get


def test_a_stream_says_which_was_first_above_and_a_paid_value_stands_beside_it(publish, show):
    question = {"threshold": {"counts": [WOMEN, MEN, WOMEN], "above": 100}}
    release = publish(question, mechanism="numeric-sparse-vector", epsilon="30", **TABLE)
    rows = rows_of(release)
    assert [each["answer"] for each in rows] == ["below", "above", "not asked"]
    assert (rows[0]["value"], rows[2]["value"]) == ("", "")
    assert abs(int(rows[1]["value"]) - 150) < 30
    assert f'<span class="chip ok">above</span></td><td class="number">{rows[1]["value"]}</td>' in body(show(release))


def test_a_refused_proposal_gives_no_answer_and_says_so(publish, show):
    """Half of each: the median can jump from one end of the range to the other. The test errs as often as delta."""
    choice = {"mechanism": "propose-test-release", "epsilon": "0.1", "delta": "0.0000000000001"}
    release = publish({"median": "age"}, **choice, **TABLE)
    assert "no answer" in words(show(release))


@pytest.mark.parametrize(
    ("mechanism", "question", "titles", "of_all"),
    [
        (
            "laplace-numbers",
            {"mean": {"columns": ["age", "height"], "by": ["sex"]}},
            ["Mean of age", "Mean of height"],
            [35, 40],
        ),
        (
            "counted-quantile",
            {"quantiles": {"column": "age", "at": ["0.2", "0.5"], "by": "sex"}},
            ["20% quantile of age", "Median of age"],
            [20, 40],
        ),
    ],
)
def test_answers_by_group_are_rows_below_the_title_of_their_question(
    publish, show, mechanism, question, titles, of_all
):
    columns = [
        {"name": "age", "type": "integer", "edges": [0, 30, 60]},
        {"name": "sex", "type": "categorical", "categories": ["female", "male"]},
        {"name": "height", "type": "integer", "edges": [0, 30, 60]},
    ]
    content = b"age,sex,height\n" + b"40,male,50\n" * 150 + b"20,female,10\n" * 50
    release = publish(question, columns=columns, content=content, budget="100", epsilon="60", mechanism=mechanism)
    page = body(show(release))
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    heads = re.findall(r'<th scope="rowgroup" colspan="4">([^<]+)</th>', table)
    assert [each.removesuffix(" by sex") for each in heads] == titles
    names = re.findall(r'<th scope="row">([^<]+)</th>', table)
    assert names == ["female", "male", "all together"] * 2
    shown = [float(each) for each in re.findall(r'</th><td class="number">\s*([\d.]+)', table)]
    of_groups = [each for name, each in zip(names, shown, strict=True) if name != "all together"]
    assert of_groups == [float(each["estimate"]) for each in rows_of(release)]
    # 150 of 40 and 50 of 20; 150 of 50 and 50 of 10.
    assert shown[2::3] == pytest.approx(of_all, abs=0.5)
    assert "by sex" not in re.sub(r"<th scope=.rowgroup.*?</th>", "", table)


# Survey weights


#: 300 rows of weight 20, and 100 of which the cap leaves 50 of 90; 40 without a weight.
LINES = [b"1000,north,20"] * 300 + [b"1400,south,90"] * 100 + [b"2000,south,", b"2000,south,x"] * 20
WEIGHTED = [
    {"name": "income", "type": "integer", "edges": [0, 1000, 2000]},
    {"name": "region", "type": "categorical", "categories": ["north", "south"]},
    {"name": "wgt", "type": "number", "edges": [0, 100], "decimals": 1},
]
WEIGHTS = {"column": "wgt", "cap": 50}


@pytest.fixture
def weighted(publish):
    """A published release of one weighted statistic."""
    content = b"income,region,wgt,age,sex\n" + b"".join(line + b",40,male\n" for line in LINES)
    table = {"columns": WEIGHTED, "content": content, "budget": "100"}
    return lambda query, epsilon="20": publish(query, **table, epsilon=epsilon, mechanism="laplace-numbers")


def test_a_weighted_mean_says_what_its_interval_covers_and_names_no_number_of_rows(weighted, as_, alice):
    # Noise moves the mean by 5 with a chance below 1e-20.
    release = weighted({"mean": {"columns": ["income"], "weighted_by": WEIGHTS}}, epsilon="80")
    (row,) = rows_of(release)
    assert abs(float(row["estimate"]) - (300 * 20 * 1000 + 100 * 50 * 1400) / (300 * 20 + 100 * 50)) < 5
    page = words(as_(alice).get(link("release_detail", release)))
    caution = "not the sampling error of the survey. Weights above 50 were counted as 50, and rows without a weight"
    assert f"The interval covers the noise that was added, {caution} were left out." in page
    # The noisy sum of the weights is no number of rows.
    assert "How many rows counted, and how many were left out, is not known" in page
    for name in ("report.html", "notebook.ipynb"):
        assert caution in (files.folder_of(release) / name).read_text()
    assert "the sampling error of the survey not included" in release.result["receipt"]["bound"]["sentence"]


def test_a_weighted_count_by_group_has_shares_and_none_below_zero(weighted, as_, alice):
    query = {"weighted_count": {"weighted_by": WEIGHTS, "by": ["region"]}}
    release = weighted(query)
    page = body(as_(alice).get(link("release_detail", release)))
    # 6,000 and 5,000 of 11,000, on the page and in the report.
    for shown in (page, (files.folder_of(release) / "report.html").read_text()):
        assert re.search(r"54\.\d% \(5\d\.\d to 5\d\.\d\)", shown)
        assert re.search(r"45\.\d% \(4\d\.\d to 4\d\.\d\)", shown)
    hidden = rows_of(weighted(query, epsilon="0.0001"))
    assert all(float(row[end]) >= 0 for row in hidden for end in ("estimate", "lower", "upper"))
