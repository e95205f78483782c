"""Columns that are made from others: declared by form and by codebook, and shown wherever the declaration is."""

import json
import re

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import LEVELS_NOTE, Consistency
from releases.forms.codebooks import codebook_of, schema_from_codebook
from releases.models import Release
from releases.presentation.results.answers import _on_levels
from releases.publication import files
from releases.services.release_inputs import Refusal
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value, words
from tests.web.steps import refuses

ADULT = {"name": "adult", "kind": "categorical", "values": "true, false", "made": "1", "formula": "age >= 18"}
READ = [{"name": "person"}, {"name": "age", "kind": "integer", "values": "0, 18, 110"}, {"name": "sex"}]


@pytest.fixture
def send(fresh, as_, alice):
    def sent(*made, file=None, **more):
        more |= {"levels-file": file} if file is not None else {}
        return as_(alice).post(reverse("columns", args=[fresh.pk]), filled(*READ, *made, **more))

    return sent


def table(*lines):
    return SimpleUploadedFile("regions.csv", "\n".join(lines).encode())


def test_a_column_made_from_others_is_declared_and_stands_on_the_page_again(send, fresh, as_, alice):
    response = send(ADULT, {"made": "1", "name": ""})
    assert response.status_code == 302, words(response)
    fresh.refresh_from_db()
    assert fresh.universe["adult"].formula.text == "age >= 18"
    assert (fresh.columns_read, fresh.made_columns) == (["age"], ["adult"])
    assert field_value(as_(alice).get(reverse("columns", args=[fresh.pk])), "form-3-name") == "adult"


WRONG = [
    ({"formula": "age >="}, "formula: 'the end' (at character 7 of “age >=”) a value is missing"),
    ({"formula": "adult"}, "is itself made by a formula"),
    ({"formula": 'wages = "1"'}, "'wages' is not a column of the table"),
    ({"name": "sex"}, "'sex' is a column of the table; a column with a formula needs another name"),
    (
        {"missing_codes": "-9"},
        "'-9' cannot be declared here: declare missing codes of the columns that the formula reads",
    ),
]


def test_what_is_wrong_with_a_formula_is_said_and_nothing_is_declared(send, fresh):
    refuses(lambda **made: send({**ADULT, **made}), WRONG)


def test_an_uploaded_lookup_table_fills_a_recode(send, fresh):
    made = {**ADULT, "values": "woman, man, other", "formula": 'recode(sex, {}, "other")'}
    uploaded = table("from,to", "f,woman", 'm,"man"', "")
    assert send({**made, "lookup": uploaded}).status_code == 302
    fresh.refresh_from_db()
    assert fresh.universe["adult"].formula.text == 'recode(sex, {"f": "woman", "m": "man"}, "other")'


def test_what_is_wrong_with_a_lookup_table_is_said(send):
    for lines, said in (
        (["from,to", "f"], "'line 2' has 1 cells; each line must have two"),
        (["from,to", "f,a", "f,b"], "'f' is there twice, and differs in line 3"),
        (["from,to", "f,a" * 200_000], "lookup table: must be at most 500,000 bytes"),
    ):
        assert said in words(send({**ADULT, "values": "a", "formula": "recode(sex, {})", "lookup": table(*lines)}))


LEVELS = ["sex,kind,all", "f,woman,people", " m , man ,people", "", '"x, y",man,people']


def test_a_lookup_table_of_several_columns_fills_in_its_levels_and_declares_nothing(send, fresh, as_, alice):
    """What the page then holds is declared as it is."""
    typed = [{**ADULT, "name": "all", "formula": "old"}, {"made": "1", "name": "", "formula": "half a form"}]
    page = send(*typed, {"made": "1", "name": ""}, levels="1", file=table(*LEVELS))
    assert page.status_code == 200
    assert "Filled in for 3 columns: sex, kind, all. Nothing is stored until you declare." in words(page)
    # A browser would else refuse to declare without a second file.
    assert re.search(r"<input[^>]*levels-file[^>]*>", body(page))[0].count("required") == 0
    fresh.refresh_from_db()
    assert fresh.declared is None
    fields = ("name", "kind", "values", "outside", "catch_all", "formula", "made")
    shown = [{each: shown_in(page, f"form-{row}-{each}") for each in fields} for row in (2, 4, 5)]
    rest = {"kind": "categorical", "outside": "category", "catch_all": "other", "made": "1"}
    kinds = 'recode([sex], {"f": "woman", "m": "man", "x, y": "man"}, "other")'
    everybody = 'recode([sex], {"f": "people", "m": "people", "x, y": "people"}, "other")'
    assert shown[0]["kind"] == "categorical"
    assert shown[0]["values"].split("\n") == ["f", "m", "x, y"]
    assert shown[1] == {"name": "kind", "values": "woman\nman\nother", "formula": kinds, **rest}
    assert shown[2] == {"name": "all", "values": "people\nother", "formula": everybody, **rest}
    assert shown_in(page, "form-3-formula") == "half a form"
    sex, *made = shown
    sent = as_(alice).post(reverse("columns", args=[fresh.pk]), filled(READ[0], READ[1], {**sex, "made": ""}, *made))
    assert sent.status_code == 302, words(sent)
    fresh.refresh_from_db()
    (found,) = fresh.universe.hierarchies
    assert found.levels == (("kind", "all"), ("sex", "kind"))
    # The codebook that is written of it says the same.
    written = codebook_of(fresh, fresh.universe, fresh.column_notes)
    assert schema_from_codebook(json.loads(written))[0].universe.hierarchies == fresh.universe.hierarchies


def shown_in(page, name):
    return (chosen if name.endswith(("-kind", "-outside")) else field_value)(page, name) or ""


def test_what_is_wrong_with_a_table_of_levels_is_said_with_its_line_and_nothing_typed_is_lost(send):
    for lines, said in (
        (["sex", "f"], "lookup table: 'line 1' must name a column of the table and, behind it, one level or more"),
        (["town,kind", "f,a"], "lookup table, line 1: 'town' must be a column of the table"),
        (["sex,age", "f,a"], "lookup table, line 1: 'age' is a column of the table; a level needs another name"),
        (["sex,kind,kind", "f,a,b"], "lookup table, line 1: 'kind' is there twice"),
        (["sex,", "f,a"], "lookup table, line 1: nothing is given; must be printable text: the name of a level"),
        (["sex,kind", "f,a", "m"], "lookup table: 'line 3' has 1 cells; each line must have 2, as line 1 has"),
        (["sex,kind", "f,a", "m,"], "line 3: nothing is given; must be printable text: the kind"),
        (["sex,kind", "f,a\0b"], "line 2: 'a\\x00b' must be printable text: the kind"),
        (["sex,kind,all", "f,a,b", "m,a,b", "f,a,c"], "lookup table: 'f' is there twice, and differs in line 4"),
        (["sex,kind"], "lookup table: 'the file' must have a line with names, and lines of cells below it"),
        (["sex,kind", "f,a" * 200_000], "must be at most 500,000 bytes"),
        (["sex,kind", *(f"{each},a" for each in range(20_001))], "'more than 20,000 lines' must be at most 20,000"),
    ):
        page = send({**ADULT, "formula": "half a form"}, levels="1", file=table(*lines))
        assert page.status_code == 400
        assert said in words(page), words(page)[:600]
        assert field_value(page, "form-3-formula") == "half a form"
    assert "lookup table: nothing is given; must be chosen" in words(send(levels="1"))


def test_a_table_in_a_database_is_checked_for_the_columns_that_formulas_read(fresh):
    column = {"name": "adult", "type": "categorical", "categories": ["true"], "formula": "age >= 18"}
    column["reads"] = [{"name": "age", "type": "integer"}]
    services.datasets.declare_universe(dataset=fresh, columns=[column])
    assert fresh.columns_read == ["age"]
    column["reads"] = [{"name": "wage", "type": "integer"}]
    with pytest.raises(InvalidInput, match="'wage' is not a column of the table"):
        services.datasets.declare_universe(dataset=fresh, columns=[{**column, "formula": "wage >= 18"}])


def test_a_release_of_a_made_column_counts_and_says_how_it_was_made(make_dataset, make_draft, carry_out):
    """Noise of epsilon 40 moves a count by 3 with a chance below 1e-50."""
    rows = b"01.02.1990,1010,,\n" * 40 + b"31.12.2010,8010,,\n" * 25 + b"30.02.1990,x,,\n" * 10
    dataset = make_dataset(content=b"born,postcode,age,sex\n" + rows, epsilon="100")
    reads = [{"name": "born", "type": "date", "format": "DD.MM.YYYY"}]
    age = {"name": "years", "type": "integer", "edges": [0, 18, 110], "missing_as": "no number", "reads": reads}
    town = {"name": "town", "type": "categorical", "categories": ["Vienna", "Graz", "other"]}
    town["formula"] = 'recode(prefix(postcode, 2), {"10": "Vienna", "80": "Graz"}, "other")'
    columns = [{**age, "formula": "years_between(born, 2026-01-01)"}, town]
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    asked = {"marginal": ["years", "town"]}
    release = carry_out(make_draft(dataset, asked, epsilon="40", mechanism="laplace-histogram"))
    answers = files.read_answers(files.folder_of(release))
    counts = np.array(answers["estimate"].to_pylist()).reshape(3, 3)
    assert counts == pytest.approx(np.array([[0, 25, 0], [40, 0, 0], [0, 0, 10]]), abs=3)
    receipt = release.result["receipt"]
    assert receipt["schema"]["columns"][0]["formula"] == "years_between(born, 2026-01-01)"
    made = "years: made from born, each row's from that row alone, by the formula years_between(born, 2026-01-01)."
    assert made in receipt["rules_in_words"]
    # The same question after the lookup table has changed is not the same any more.
    town["formula"] = town["formula"].replace("Graz", "Vienna")
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    with pytest.raises(Refusal, match="The columns have changed since this release"):
        services.release_inputs.certifiable(Release.objects.get(pk=release.pk))


def page_of(client, release):
    return client.get(reverse("release_detail", args=[release.pk]))


@pytest.mark.parametrize(
    ("mechanism", "agree", "said"),
    [
        ("laplace-queries", "yes", "and a table over a column to those over its levels, except for rounding"),
        ("laplace-queries", "no", "What a table over a column adds up to can differ from a table over its level."),
        ("residual-queries", "yes", "and a table over a column to those over its levels, except for rounding"),
        ("residual-queries", "no", "What a table over a column adds up to can differ from a table over its level."),
        ("marginal-fit", None, "A table over a column adds up to the one over its level, except for rounding."),
        ("mixture-fit", None, "A table over a column adds up to the one over its level, except for rounding."),
        ("laplace-histogram", None, "All counts are sums of the same noisy cells"),
    ],
)
def test_a_release_says_what_its_levels_are_and_whether_their_tables_add_up(
    mechanism, agree, said, make_dataset, make_draft, carry_out, as_, alice
):
    rows = b"x,,\n" * 40 + b"y,,\n" * 25 + b"z,,\n" * 10
    dataset = make_dataset(content=b"town,age,sex\n" + rows, epsilon="100")
    region = {"name": "region", "type": "categorical", "categories": ["north", "south"]}
    region["formula"] = 'recode(town, {"x": "north", "y": "north", "z": "south"})'
    columns = [{"name": "town", "type": "categorical", "categories": ["x", "y", "z"]}, region]
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    options = {"agree": agree} if agree else {}
    asked = [{"marginal": ["town"]}, {"marginal": ["region"]}]
    release = carry_out(
        make_draft(dataset, *asked, epsilon="10", delta="0.000001", mechanism=mechanism, options=options)
    )
    receipt = release.result["receipt"]
    assert "region is a level of town: each bin of town is within one bin of region." in receipt["rules_in_words"]
    answers = files.read_answers(files.folder_of(release))["estimate"].to_pylist()
    if agree != "no":
        # Each answer is written in hundredths, and those of a fit in whole rows, so it is off by at most half of one.
        half = 0.50001 if mechanism.endswith("-fit") else 0.00501
        assert answers[0] + answers[1] == pytest.approx(answers[3], abs=3 * half)
        assert answers[2] == pytest.approx(answers[4], abs=2 * half)
    page = words(page_of(as_(alice), release))
    assert said in page
    assert page.count("can differ from a table over its level") == (agree == "no")


def test_a_fit_from_before_levels_were_noted_is_said_to_differ_from_them():
    for notes, ends in (({}, "can differ from a table over its level."), ({LEVELS_NOTE: "can differ"}, "its level.")):
        said = _on_levels({"notes": notes}, Consistency.ONE_TABLE, is_of_all_columns=True)
        assert said.startswith("What a table over a column adds up to")
        assert said.endswith(ends)
