"""Every registered mechanism from the command line, on the sample survey: files, receipt, page and exact charge."""

from __future__ import annotations

import csv
import json
from fractions import Fraction

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from releases.engine.accounting import accountant
from releases.engine.accounting.events import event_from_json
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.mechanisms.base import mechanism, mechanisms, plan_from_json
from releases.engine.workload.kinds.categories import Categories
from releases.engine.workload.kinds.largest_count import LargestCount
from releases.engine.workload.kinds.logistic_regression import LogisticRegression
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.most_common import MostCommon
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.kinds.range import Range
from releases.engine.workload.kinds.regression import Regression
from releases.engine.workload.kinds.second_moments import SecondMoments
from releases.engine.workload.kinds.strongest_associations import StrongestAssociations
from releases.engine.workload.kinds.sum import Sum
from releases.engine.workload.kinds.survey import SurveyStatistic
from releases.engine.workload.kinds.threshold import Threshold
from releases.engine.workload.kinds.variance import Variance
from releases.engine.workload.kinds.votes import Votes
from releases.engine.workload.kinds.weighted_count import WeightedCount
from releases.engine.workload.statistic import Statistic
from releases.management.commands.demo import SAMPLE
from releases.models import EntryKind, LedgerEntry, Release
from releases.publication import files
from releases.questions.headline import number_text
from tests.web.conftest import write_json
from tests.web.pages import words

pytestmark = pytest.mark.django_db

OLD = {"age": {"from": 45, "to": 65}}
#: A question of each kind about the survey; None for counts.
QUESTIONS: dict[type[Statistic] | None, dict] = {
    None: {"marginal": ["gender", "region"]},
    Sum: {"sum": ["age", "family"]},
    Mean: {"mean": ["age"]},
    WeightedCount: {"weighted_count": {"weighted_by": {"column": "family", "cap": 5}, "by": "region"}},
    Regression: {"regression": {"outcome": "age", "columns": ["family", "married"]}},
    LogisticRegression: {"logistic_regression": {"outcome": "health", "values": ["no"], "columns": ["age", "limit"]}},
    Variance: {"variance": {"columns": ["age"], "by": "region"}},
    SecondMoments: {"second_moments": ["age", "family"]},
    Votes: {"votes": {"columns": ["insurance", "married", "selfemp"], "category": "yes", "ballots": 2}},
    MostCommon: {"top": {"column": "education", "k": 2}},
    LargestCount: {"largest_count": [OLD, {"married": ["yes"]}, {"region": ["south"]}]},
    Quantile: {"median": "age"},
    Quantiles: {"quantiles": {"column": "age", "at": ["0.25", "0.75"]}},
    Range: {"range": {"column": "age", "inside": "0.98"}},
    Categories: {"categories": "education"},
    StrongestAssociations: {"strongest_associations": {"columns": ["age", "gender", "married", "health"], "k": 2}},
    Threshold: {"threshold": {"counts": [OLD, {"married": ["yes"]}], "above": 4000}},
    SurveyStatistic: {"survey": "insurance"},
}
#: Columns declared otherwise than in the survey's codebook, by the question about them: here nobody knows the values.
DECLARED = {
    "categories": {"name": "education", "type": "categorical", "categories": ["unknown"], "outside": "unknown"},
}
#: What a mechanism is told beside the question, so that its run is short.
OPTIONS = {"smalldb": ["size=30"], "smalldb-net": ["candidates=64"]}
_EVERY_FORM = ("laplace-numbers", "noisy-max-choice", "counted-quantile")
CASES = [
    pytest.param(name, kind, id=f"{name} {kind.kind if kind else 'counts'}")
    for name, each in mechanisms().items()
    if each.is_offered  # a certificate is bought of a release, by a command of its own
    # The answers of three mechanisms have every form between them; of the others one will do.
    for kind in (each.answers if name in _EVERY_FORM else each.answers[:1] or (None,))
]


@pytest.fixture
def release_it(tmp_path, settings):
    """`manage.py release` of one question by one mechanism; the release it made."""
    settings.DEFAULT_BUDGET_EPSILON = "50"
    # WhiteNoise looks for the folder of collected files, which only an installation has.
    settings.STATIC_ROOT = tmp_path

    def run(name, question):
        workload = write_json(tmp_path / "workload.json", {"version": 1, "queries": [question]})
        schema = json.loads(SAMPLE.with_suffix(".json").read_text())
        other = DECLARED.get(next(iter(question)), {})
        schema["columns"] = [other if each["name"] == other.get("name") else each for each in schema["columns"]]
        call_command(
            "release",
            table=SAMPLE,
            schema=write_json(tmp_path / "schema.json", schema),
            workload=workload,
            mechanism=name,
            epsilon="1",
            delta="0.000001",
            option=OPTIONS.get(name, []),
            out=tmp_path / "out",
        )
        return Release.objects.get()

    return run


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_mechanism_releases_from_the_command_line_under_its_exact_charge(name, kind, release_it, tmp_path, client):
    release = release_it(name, QUESTIONS[kind])
    assert release.state == "published"
    out = tmp_path / "out"
    receipt = json.loads((out / "receipt.json").read_text())
    rows = list(csv.DictReader((out / "answers.csv").open()))
    assert receipt["mechanism"]["name"] == name
    assert receipt["bound"]["formula"]
    assert receipt["bound"]["source"]
    assert len(rows) == receipt["answers"]
    assert (out / "synthetic.csv").exists() == bool(receipt["synthetic_rows"])
    assert {"estimate", "lower", "upper"} < set(rows[0]) or "answer" in rows[0]
    _charged_exactly(release, receipt)
    _shown_on_its_page(release, rows, client)


def _charged_exactly(release, receipt):
    """One charge, of the plan's price, which the receipt's events give again, and nothing beyond it is spent."""
    charge = LedgerEntry.objects.get(kind=EntryKind.CHARGE, release=release)
    plan = plan_from_json(release.plan)
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    assert charge.detail["price"] == price.to_json()
    events = [event_from_json(event) for event in receipt["events"]]
    delta = Fraction(receipt["budget"].get("delta", "0"))
    assert accountant.price(events, delta=delta, neighbours=NeighbouringRelation(receipt["neighbours"])) == price
    assert price.epsilon is not None
    assert price.epsilon <= 10**accountant.EPSILON_PLACES
    assert Fraction(price.delta, 10**accountant.DELTA_PLACES) <= Fraction(1, 10**6)


def _shown_on_its_page(release, rows, client):
    """The page and the receipt say what the file says, in the way that suits the answer."""
    client.force_login(User.objects.get(username="operator"))
    page = client.get(reverse("release_detail", args=[release.pk]))
    assert page.status_code == 200
    first = rows[0]
    is_count = release.result["receipt"]["workload"]["queries"] == [QUESTIONS[None]]
    shown = first.get("answer") or (number_text(float(first["estimate"])) if not is_count else "Released count")
    assert shown in words(page)
    receipt = client.get(reverse("receipt", args=[release.pk]))
    assert "<math" in receipt.content.decode()
    assert files.folder_of(release).is_dir()


def test_every_kind_of_question_has_an_example_and_every_mechanism_a_question():
    asked = {kind for _, kind in (case.values for case in CASES)}
    assert asked == set(QUESTIONS)
    assert {case.values[0] for case in CASES} == {name for name, each in mechanisms().items() if each.is_offered}
    assert all(mechanism(name).title for name in mechanisms())
