"""Columns that are made from others: declared by form and by codebook, and shown wherever the declaration is."""

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import Release
from releases.publication import files
from releases.services.release_inputs import Refusal
from tests.web.datasets.conftest import filled
from tests.web.pages import field_value, words

ADULT = {"name": "adult", "kind": "categorical", "values": "true, false", "made": "1", "formula": "age >= 18"}
READ = [{"name": "person"}, {"name": "age", "kind": "integer", "values": "0, 18, 110"}, {"name": "sex"}]


@pytest.fixture
def send(fresh, as_, alice):
    return lambda *made: as_(alice).post(reverse("columns", args=[fresh.pk]), filled(*READ, *made))


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
    ({"formula": "age >="}, "formula: 'the end' (at character 7) a value is missing"),
    ({"formula": "adult"}, "is itself made by a formula"),
    ({"formula": 'wages = "1"'}, "'wages' is not a column of the table"),
    ({"name": "sex"}, "'sex' is a column of the table; a column with a formula needs another name"),
    ({"missing_codes": "-9"}, "belong to the columns that the formula reads"),
]


def test_what_is_wrong_with_a_formula_is_said_and_nothing_is_declared(send, fresh):
    for made, said in WRONG:
        response = send({**ADULT, **made})
        assert response.status_code == 400
        assert said in words(response)
        fresh.refresh_from_db()
        assert fresh.declared is None


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
