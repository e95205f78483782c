"""Replicates beside synthetic rows: the file, the notebook that makes intervals of them, and what is said where not."""

import csv
import html
import json
import zipfile
from collections import Counter
from functools import partial
from io import BytesIO, StringIO

import pytest

from releases.publication import files
from releases.publication.replicates import REPLICATES
from tests.web.conftest import rows_of
from tests.web.pages import body, link

#: 4,000 people: half of the women and fewer of the men are below 35.
MANY = b"person,age,sex\n" + b"".join(
    f"p{i},{18 + (i * 7) % (48 if i % 3 else 40)},{'female' if i % 3 else 'male'}\n".encode() for i in range(4_000)
)
BINS = {"18 to 24": 21, "25 to 34": 29.5, "35 to 44": 39.5, "45 to 54": 49.5, "55 to 65": 60}
#: Of Student's law with 19 degrees of freedom, from a printed table.
QUANTILE = 2.093


@pytest.fixture
def run(publish):
    return partial(publish, content=MANY, mechanism="laplace-histogram")


def bin_of(age):
    return next(label for label in BINS if int(label[:2]) <= int(age) <= int(label[-2:]))


def tables(release):
    """Of the released rows and of each replicate how many rows each cell has."""
    found = [Counter() for _ in range(21)]
    for row in rows_of(release, REPLICATES):
        found[int(row["replicate"])][row["age"], row["sex"]] += int(row["count"])
    return found


def said(page):
    return " ".join(html.unescape(body(page)).split())


def test_replicate_0_is_the_released_rows_and_each_other_one_is_as_good_as_they_are(run):
    release = run()
    released, *others = tables(release)
    rows = rows_of(release, "synthetic.csv")
    assert +released == Counter((bin_of(row["age"]), row["sex"]) for row in rows)
    assert len(others) == 20
    assert len({json.dumps(sorted((*cell, count) for cell, count in each.items())) for each in others}) == 20
    for each in others:
        assert abs(each.total() - released.total()) < 100
        # Of 4,000 rows drawn, a cell's number has a standard deviation of at most 31.
        assert max(abs(each[cell] - released[cell]) for cell in released) < 8 * 31
    assert release.result["receipt"]["replicates"] == {
        "number": 20,
        "statistics": ["share", "mean", "difference", "slope"],
        "confidence": "0.95",
    }
    middles = {row["age"]: float(row["middle of age"]) for row in rows_of(release, REPLICATES)}
    assert middles == BINS


def interval(release, number):
    """As the page puts it: worked out without the code that makes or reads the file."""
    first, *others = map(number, tables(release))
    mean = sum(others) / 20
    between = sum((each - mean) ** 2 for each in others) / 19
    half = QUANTILE * ((1 + 1 / 20) * between + (2 * (mean - first)) ** 2) ** 0.5
    return first - half, first + half


def share_of_men(table):
    return sum(count for (_, sex), count in table.items() if sex == "male") / table.total()


def mean_age(table):
    return sum(BINS[age] * count for (age, _), count in table.items()) / table.total()


def men_by_age(table):
    young, older = (table[age, "male"] / (table[age, "male"] + table[age, "female"]) for age in list(BINS)[:2])
    return young - older


def slope_on_sex(table):
    ages = {
        sex: [(BINS[age], count) for (age, who), count in table.items() if who == sex] for sex in ("female", "male")
    }
    means = {sex: sum(age * count for age, count in of) / sum(count for _, count in of) for sex, of in ages.items()}
    return means["female"] - means["male"]


def test_the_notebook_in_the_archive_makes_the_intervals_that_the_page_describes(run, as_, alice, tmp_path):
    # Importing these takes three seconds, in every process that collects the tests.
    import nbclient
    import nbformat

    release = run()
    response = as_(alice).get(link("download", release, "release.zip"))
    with zipfile.ZipFile(BytesIO(b"".join(response.streaming_content))) as opened:
        opened.extractall(tmp_path)
    (path,) = tmp_path.glob("*/notebook.ipynb")
    notebook = nbformat.read(path, as_version=4)
    shown = nbformat.v4.new_code_cell("print(pd.DataFrame.from_dict(found, orient='index').to_csv())", id="shown")
    notebook.cells.append(shown)
    done = nbclient.NotebookClient(notebook, resources={"metadata": {"path": path.parent}}).execute()
    written = "".join(each["text"] for each in done.cells[-1].outputs)
    found = {row[""]: (float(row["lower"]), float(row["upper"])) for row in csv.DictReader(StringIO(written))}
    asked = {
        "share with sex = male": share_of_men,
        "mean middle of age": mean_age,
        "slope of middle of age on sex = female": slope_on_sex,
        "sex = male: share where age = 18 to 24, less that where age = 25 to 34": men_by_age,
    }
    for title, number in asked.items():
        assert found[title] == pytest.approx(interval(release, number), rel=1e-4, abs=1e-6), title
    text = (path.parent / "README.txt").read_text()
    assert "Intervals from replicates" in text
    assert "Student’s law with 19" in " ".join(text.split())


def test_the_page_says_how_in_a_closed_entry_beside_the_downloads(run, as_, alice):
    release = run()
    page = as_(alice).get(link("release_detail", release))
    assert link("download", release, REPLICATES) in body(page)
    for told in (
        "plus and minus 2.093 times the square root of (1 + 1/20) B + (2 d)²",
        "It includes the error of that sample as well as the noise.",
        "such intervals held the truth at least 95% of the time",
        "For any other statistic they were not tested and are not valid.",
    ):
        assert told in said(page)
    entry = body(page).split("Intervals for numbers from the synthetic rows")[0].rsplit("<details", 1)[1]
    assert "open" not in entry.split(">")[0]


def test_rows_that_are_fitted_have_replicates_that_are_fits(run):
    """Asked about one column or two, a fit measures the table of both."""
    release = run(mechanism="marginal-fit")
    released, *others = tables(release)
    assert +released == Counter((bin_of(row["age"]), row["sex"]) for row in rows_of(release, "synthetic.csv"))
    assert len(others) == 20
    # Of 4,000 rows drawn, a share of a third has a standard deviation of 0.75%, between one of which and three it is.
    shares = [share_of_men(each) for each in others]
    assert 0.004 < (max(shares) - min(shares)) / 4 < 0.015
    low, high = interval(release, share_of_men)
    assert low < 1 / 3 < high


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"mechanism": "mixture-fit"}, "They were not tested for this method."),
        ({"epsilon": "0.05"}, "The table has too few rows for so many cells and so much noise."),
        ({"options": {"rows": 1000}}, "There is not one synthetic row for each row of the table."),
    ],
)
def test_where_they_were_not_shown_to_be_valid_there_are_none_and_the_page_says_why(run, as_, alice, given, reason):
    release = run(**given)
    assert REPLICATES not in release.result["files"]
    assert release.result["receipt"]["replicates"] == {"number": 0, "refused": reason}
    page = said(as_(alice).get(link("release_detail", release)))
    assert f"are not valid for this release, so there are none. {reason}" in page
    assert as_(alice).get(link("download", release, REPLICATES)).status_code == 404
    assert REPLICATES not in (files.folder_of(release) / "notebook.ipynb").read_text()


def test_a_release_without_synthetic_rows_says_nothing_of_them(run, as_, alice):
    release = run({"mean": {"columns": ["age"], "by": ["sex"]}}, mechanism="laplace-numbers")
    assert "replicates" not in release.result["receipt"]
    assert "Intervals for numbers from" not in said(as_(alice).get(link("release_detail", release)))


def test_a_release_is_published_without_replicates_where_none_can_be_made(run, monkeypatch, as_, alice):
    def fails(*_, **__):
        raise MemoryError

    monkeypatch.setattr(files, "replicates_of", fails)
    release = run(title="Without")
    assert release.status.value == "published"
    assert "replicates" not in release.result["receipt"]
    assert as_(alice).get(link("release_detail", release)).status_code == 200
