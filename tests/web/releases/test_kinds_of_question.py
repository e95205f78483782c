"""Every kind of question through everything the web does with it."""

from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow.parquet
import pytest
from django.template.loader import render_to_string

from releases.display.error_messages import place_in_words
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.tables import rows_of
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from releases.engine.workload.questions import of_columns_asked
from releases.engine.workload.statistic import statistics_by_word
from releases.forms.statistics import StatisticForm
from releases.planning.comparison import bound_unit, compared, questions_text
from releases.planning.curves import bound_points
from releases.presentation.results.statistics import shown_statistic
from releases.publication import files
from releases.publication.headline import headline
from releases.questions.base import AnswerShape, kind_of, kinds, offered_statistics, phrases
from tests.web.releases.conftest import posted
from tests.web.releases.test_statistic_questions import ASKED, COLUMNS

COUNTS = [{"marginals": 1}, {"marginal": ["age", "sex"]}, {"prefix": "age"}, {"count": {"sex": ["male"]}}]
NUMBERS = [[100, 90]]
LARGEST_ERROR = {
    "workload": {"version": 1, "queries": [{"marginal": ["sex"]}]},
    "released": {"synthetic rows": {"numbers": NUMBERS}},
}
#: Of each kind a question. A new kind needs one.
EXAMPLES = {
    "counts": COUNTS,
    **{kind: [question] for kind, _, question in ASKED},
    "largest_error": [{"largest_error": LARGEST_ERROR}],
}


def schema():
    columns = [
        {**column, "outside": column["categories"][0]} if "categories" in column else column for column in COLUMNS
    ]
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove", "unit": {"kind": "row"}})


def question_of(kind):
    return read_question({"version": 1, "queries": EXAMPLES[kind]}, schema().universe)


@cache
def plan_of(kind):
    """The first plan that can be run, on the columns asked about alone."""
    of_columns, question = of_columns_asked(schema(), question_of(kind))
    for delta in ("0", "0.000001"):
        for described in mechanisms().values():
            if described.can_answer(question) and not described.may_refuse:
                budget = privacy_budget(epsilon="5", delta=delta)
                plan = mechanism(described.name).plan(of_columns, question, budget=budget, beta=Fraction(1, 20))
                if not plan.infeasible:
                    return plan
    raise AssertionError(f"no mechanism answers {kind}")


def test_every_kind_of_the_engine_has_its_kind_in_the_web():
    assert set(kinds()) == set(EXAMPLES) == {Workload.kind, *(each.kind for each in statistics_by_word().values())}
    assert set(statistics_by_word()) <= set(phrases())


@pytest.mark.parametrize(("kind", "typed", "question"), ASKED)
def test_a_form_says_the_question_and_the_question_fills_the_form(kind, typed, question):
    form = StatisticForm(offered_statistics()[kind], posted(typed), universe=schema().universe)
    assert form.is_valid(), form.errors
    assert form.statistic.to_json(schema().universe) == question
    again = posted(form.typed_of(form.statistic))
    second = StatisticForm(offered_statistics()[kind], again, universe=schema().universe)
    assert second.is_valid(), second.errors
    assert second.statistic == form.statistic


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_question_is_named_in_words(kind):
    question = question_of(kind)
    assert kind_of(question).name == question.kind == kind
    assert kind_of(question).title
    assert questions_text(question)
    for word in {word for query in EXAMPLES[kind] for word in query}:
        said = place_in_words(f"queries[0].{word}.x")
        assert said.startswith("Question 1, ")
        assert phrases()[word] in said


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_plan_is_compared_in_a_unit(kind):
    plan = plan_of(kind)
    (row,) = compared([plan], None, guess=1000)
    assert row.sentence
    unit = bound_unit(plan)
    of_columns = unit.removeprefix("squared ").removeprefix("units of ").split(", ")[0]
    assert unit in ("rows", "units of the products", "logarithms of odds") or of_columns in plan.schema.universe.names
    assert all(point.alpha > 0 for point in bound_points([plan]))


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind != "counts"])
def test_a_result_is_shown(kind, tmp_path):
    plan = plan_of(kind)
    universe = plan.schema.universe
    drawn = np.random.default_rng(3)
    values = [
        drawn.integers(each.lowest, each.highest, size=200) if each.is_numeric else drawn.integers(0, each.size, 200)
        for each in universe.attributes
    ]
    result = plan.run(rows_of(universe, np.stack(values, axis=1)), rng=StreamRandomness(b"kinds"))
    pyarrow.parquet.write_table(files.answers_table(plan.workload, result), tmp_path / "answers.parquet")
    shown = shown_statistic(plan.workload, tmp_path, receipt={}, notes={}, first="", second="", is_proved=True)
    assert shown.shape in AnswerShape
    page = render_to_string("results/_statistic_answers.html", {"shown": shown})
    for each in shown.answers:
        assert each.chosen in page or each.estimate in page
    receipt = {"answers": len(shown.answers), "bound": {"proof": Proof.BEFORE.value, "beta": "1/20"}}
    assert headline(plan.workload, files.reader(tmp_path), receipt, {}).endswith(".")
