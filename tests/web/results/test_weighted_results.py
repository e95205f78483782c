"""Survey weights from the form to the files: what is asked, what is said before and after, and the shares of groups."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from django.urls import reverse

from releases import services
from releases.models import Release
from releases.publication import files
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

COLUMNS = [
    {"name": "income", "type": "integer", "edges": [0, 1000, 2000]},
    {"name": "region", "type": "categorical", "categories": ["north", "south"]},
    {"name": "wgt", "type": "number", "edges": [0, 100], "decimals": 1},
]
#: 300 rows of weight 20, and 100 of which the cap leaves 50 of 90; 40 without a weight.
LINES = [b"1000,north,20"] * 300 + [b"1400,south,90"] * 100 + [b"2000,south,", b"2000,south,x"] * 20
CONTENT = b"age,sex,income,region,wgt\n" + b"".join(b"40,male," + line + b"\n" for line in LINES)
MEAN = {"columns": ["income"], "weighted_by": "wgt", "cap": "50", "by": ""}
#: (300 · 20 · 1000 + 100 · 50 · 1400) / (300 · 20 + 100 · 50)
WEIGHTED_MEAN = 13_000_000 / 11_000
CAUTION = (
    "not the sampling error of the survey. Weights above 50 were counted as 50, and rows without a weight were left "
    "out."
)


@pytest.fixture
def dataset(make_dataset):
    made = make_dataset(content=CONTENT, epsilon="100")
    services.datasets.declare_universe(dataset=made, columns=COLUMNS)
    made.refresh_from_db()
    return made


@pytest.fixture
def asked(dataset, as_, alice):
    """A draft whose question was sent by the form, and the client that sent it."""

    def ask(kind, typed):
        draft = services.releases.draft_release(dataset=dataset, by=alice)
        client = as_(alice)
        sent = client.post(reverse("questions", args=[draft.pk]), {"kind": kind, "action": "ask", **typed})
        assert sent.status_code == 302
        return Release.objects.get(pk=draft.pk), client

    return ask


def test_a_weighted_mean_goes_from_the_form_to_its_result_and_says_what_its_interval_covers(asked, alice):
    draft, client = asked("mean", MEAN)
    url = reverse("compare", args=[draft.pk])
    compared = words(client.get(url))
    assert "About what the weights add up to" in compared
    assert "depends on what the weights add up to" in compared
    client.post(url, {"epsilon": "20", "delta": "0", "beta": "0.05", "population": "11000"})
    assert "if the weights of the rows counted add up to at least 11,000" in words(client.get(url))
    services.releases.set_choice(release=draft, epsilon="20", mechanism_name="laplace-numbers")
    assert "weighted mean of income" in words(client.get(reverse("confirm", args=[draft.pk])))
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=draft.pk)
    page = words(client.get(reverse("release_detail", args=[draft.pk])))
    found = re.search(r"The weighted average income is about ([\d,.]+); the true value lies between", page)
    assert abs(float(found[1].replace(",", "")) - WEIGHTED_MEAN) < 5
    assert f"The interval covers the noise that was added, {CAUTION}" in page
    # The noisy sum of the weights is no number of rows.
    assert "How many rows counted, and how many were left out, is not known" in page
    folder = files.folder_of(Release.objects.get(pk=draft.pk))
    for name in ("report.html", "notebook.ipynb"):
        assert CAUTION in (folder / name).read_text()
    assert '"weighted mean of income","income",' in (folder / "answers.csv").read_text()
    receipt = json.loads((folder / "receipt.json").read_text())
    (query,) = receipt["workload"]["queries"]
    assert query["mean"]["weighted_by"] == {"column": "wgt", "cap": 50}
    assert "the sampling error of the survey not included" in receipt["bound"]["sentence"]


def test_a_weighted_count_by_group_has_shares_and_none_below_zero(dataset, make_draft, carry_out, as_, alice):
    query = {"weighted_count": {"weighted_by": {"column": "wgt", "cap": 50}, "by": ["region"]}}
    release = carry_out(make_draft(dataset, query, mechanism="laplace-numbers", epsilon="20"))
    page = as_(alice).get(reverse("release_detail", args=[release.pk]))
    assert "The weighted count is higher for “north”, between 5,9" in words(page)
    assert f"The intervals cover the noise that was added, {CAUTION}" in words(page)
    # 6,000 and 5,000 of 11,000.
    assert re.search(r"54\.\d% \(5\d\.\d to 5\d\.\d\)", body(page))
    assert re.search(r"45\.\d% \(4\d\.\d to 4\d\.\d\)", body(page))
    hidden = carry_out(make_draft(dataset, query, mechanism="laplace-numbers", epsilon="0.0001"))
    lines = (files.folder_of(hidden) / "answers.csv").read_text().splitlines()[1:]
    assert all(float(number) >= 0 for line in lines for number in line.split(",")[-3:])


@pytest.mark.parametrize(
    ("kind", "typed", "said"),
    [
        ("mean", {**MEAN, "cap": "500"}, "Cap of the weights: '500' must be above 0 and at most 100"),
        ("mean", {**MEAN, "weighted_by": ""}, "Weighted by: nothing is given; must be a numeric column"),
        ("sum", {**MEAN, "columns": ["income", "wgt"]}, "Weighted by: 'wgt' must be another column"),
        ("weighted_count", {}, "Weights: nothing was chosen; must be a numeric column"),
    ],
)
def test_a_weight_that_cannot_be_is_said_beside_its_field(dataset, as_, alice, kind, typed, said):
    draft = services.releases.draft_release(dataset=dataset, by=alice)
    page = as_(alice).post(reverse("questions", args=[draft.pk]), {"kind": kind, "action": "ask", **typed})
    assert page.status_code == 400
    assert said in words(page)
