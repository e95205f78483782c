"""Columns of one value a person: from the form to the released answers, and what readers are told of them."""

import io
import json
import re
import zipfile

import numpy as np
import pytest
from django.urls import reverse
from python_calamine import CalamineWorkbook

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.formula_tree import SIGNATURES, Take
from releases.engine.domain.formulas import formula_of
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger.verification import verify
from releases.models import Dataset, Release
from releases.planning.column_checks import planned_check
from releases.presentation.datasets.formula_help import FORMULA_HELP
from releases.publication import files
from releases.publication.archive import ARCHIVE
from releases.publication.receipt import rules_said
from releases.questions.base import Want, kinds
from releases.questions.together import at_a_glance
from tests.web.datasets.conftest import filled
from tests.web.pages import as_words, body, field_value, words
from tests.web.steps import ROW, ask_for, protect

#: Of each kind of patient how many there are, and the rows of one: ward, cost, day.
PATIENTS = [
    (40, [("surgery", "10", "01.02.2024"), ("emergency", "900", "03.02.2024"), ("surgery", "x", "")]),
    (25, [("ward 1", "20", "05.05.2024")]),
    (10, [("emergency", "5", "2024"), *[("ward 1", "1", "06.06.2024")] * 8]),
]
VISITS = "\n".join(
    [
        "who,ward,cost,day",
        *(
            f"p{kind} {number},{','.join(row)}"
            for kind, (patients, rows) in enumerate(PATIENTS)
            for number in range(patients)
            for row in rows
        ),
        ",emergency,1,01.02.2024",
    ]
).encode()
WARDS = "surgery, emergency, ward 1"
TYPED = [
    {"name": "who"},
    {"name": "ward", "kind": "categorical", "values": WARDS},
    {"name": "cost", "kind": "number", "values": "0, 100, 1000"},
    {"name": "day", "kind": "date", "values": "2024-01-01 to 2024-12-31 by month", "date_format": "DD.MM.YYYY"},
]
MADE = [
    {"name": "visits", "kind": "integer", "values": "1, 2, 5, 20", "formula": "count_per_person()"},
    {"name": "in emergency", "kind": "categorical", "values": "true, false"}
    | {"formula": 'any_per_person(ward = "emergency")'},
    {"name": "total", "kind": "number", "values": "0, 15, 100, 1000", "formula": "sum_per_person(cost, 0, 500)"},
    {"name": "last ward", "kind": "categorical", "values": WARDS, "formula": "last_per_person(ward, day)"},
]
UNIT = PrivacyUnit(kind="person", id_column="who", max_rows=5)


@pytest.fixture
def declared(alice, group, upload_file, as_):
    """Uploaded, with the columns of the table and those of persons, as a curator sends them."""
    dataset = services.datasets.ingest_dataset(owner=alice, title="Visits", source=upload_file(VISITS), group=group)
    sent = filled(*TYPED, *({"made": "1", **each} for each in MADE))
    response = as_(alice).post(reverse("columns", args=[dataset.pk]), sent)
    assert response.status_code == 302, words(response)
    return Dataset.objects.get(pk=dataset.pk)


@pytest.fixture
def visits(declared, make_dataset, as_, alice, sofia):
    """Protected by the person, and with a budget."""
    sent = {"kind": "person", "id_column": "who", "max_rows": "5", "neighbours": "add_remove"}
    response = as_(alice).post(reverse("protection", args=[declared.pk]), sent)
    assert response.status_code == 302, words(response)
    declared.refresh_from_db()
    asked = ask_for(declared, alice, "100", delta="0", policy=Policy.PURE)
    services.budgets.approve_request(request=asked, by=sofia)
    return Dataset.objects.get(pk=declared.pk)


def counts_of(release, *shape):
    return np.array(files.read_answers(files.folder_of(release))["estimate"].to_pylist()).reshape(shape)


def test_each_patient_counts_once_from_the_form_to_what_a_reader_sees(visits, as_, alice, carry_out):
    """Noise of epsilon 40 for one row moves a count by 3 with a chance below 1e-50; of five rows it would not."""
    client = as_(alice)
    draft = services.releases.draft_release(dataset=visits, by=alice, title="Patients")
    asked = {"action": "marginals", "order": "2", "columns": ["visits", "in emergency"]}
    assert client.post(reverse("questions", args=[draft.pk]), asked).status_code == 302
    services.releases.set_choice(release=draft, epsilon="40", mechanism_name="laplace-queries")
    release = carry_out(Release.objects.get(pk=draft.pk))
    assert counts_of(release, 4, 2) == pytest.approx(np.array([[0, 25], [40, 0], [10, 0], [0, 0]]), abs=3)
    receipt, result = release.result["receipt"], body(client.get(reverse("release_detail", args=[release.pk])))
    dataset = words(client.get(reverse("dataset_detail", args=[visits.pk])))
    assert "at most 5 rows each; where a release counts persons, all rows of one count as one)" in dataset
    assert receipt["unit"] == UNIT.to_json()
    each = "Each person counts once, by values made from all rows that the table has of the person."
    made = "visits: one value a person, made from all of the person's rows by the formula count_per_person()."
    assert [receipt["rules_in_words"][place] for place in (0, 1)] == [each, made]
    for said in (each, "one person (column who, all of whose rows count as one)"):
        assert said in result
    assert list(verify(visits.budget)) == []


SAYS_RULES = ("report", "README.txt", "receipt.json")
#: Where texts mean a row of the table, of a file, or a synthetic one.
ROWS_MEANT = re.compile(
    r"Each person counts once, by values made from all rows that the table has of the person|[Ss]ynthetic rows"
    r"|all of whose rows count as one|made from all of the person's rows|A row without who|for all rows of the file"
    r"|the question that the row answers|what the row is of|for a million rows|Show only rows with|Rows with a word"
    r"|of the same rows too|of the rows and this release|not these rows|in whole rows|\"rows\":|How well the rows agree"
    r"|share of rows that are in the right cell|, in the rows|no relation in the rows"
)


def read(text):
    """A text without what may speak of rows."""
    return ROWS_MEANT.sub("", re.sub(r"\s+", " ", text.replace("’", "'")))


def said_by(page):
    """The words of a page, those that are read aloud, and the titles of its charts."""
    page = re.sub(r"<(\w+) popover\b.*?</\1>", "", page, flags=re.DOTALL)
    named = re.findall(r'(?:aria-label|placeholder)="([^"]*)"|"title": "([^"]*)"', page)
    return read(" ".join([as_words(page), *(one or other for one, other in named)]))


def files_in(archive):
    """What the files of a release say to people."""
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        names = [name for name in files.namelist() if not name.endswith(("pdf", "parquet"))]
        (workbook,) = (name for name in names if name.endswith("xlsx"))
        names.remove(workbook)
        about = CalamineWorkbook.from_filelike(io.BytesIO(files.read(workbook))).get_sheet_by_name("About")
        texts = {name.rpartition("/")[2]: files.read(name).decode() for name in names}
    yield "workbook", read(" ".join(str(text) for row in about.to_python() for text in row))
    cells = json.loads(texts.pop("notebook.ipynb"))["cells"]
    yield "notebook", read(" ".join("".join(each["source"]) for each in cells if each["cell_type"] == "markdown"))
    yield "report", said_by(texts.pop("report.html"))
    yield from ((name, read(text)) for name, text in texts.items())


def test_one_release_answers_tables_of_rows_and_of_persons_and_says_which_is_which(visits, as_, alice, carry_out):
    """Noise for five rows and one person at epsilon 99 moves a count by 4 with a chance below 1e-16."""
    client = as_(alice)
    draft = services.releases.draft_release(dataset=visits, by=alice, title="Both")
    for order, columns in (("1", ["ward"]), ("2", ["visits", "in emergency"])):
        asked = {"action": "marginals", "order": order, "columns": columns}
        response = client.post(reverse("questions", args=[draft.pk]), asked)
        assert response.status_code == 302, words(response)
    assert "One release can hold tables of both" in words(client.get(reverse("questions", args=[draft.pk])))
    compared = client.get(reverse("compare", args=[draft.pk])).context["page"]
    assert [each.name for each in compared.can_run] == ["laplace-queries"]
    draft.refresh_from_db()
    token = services.tokens.make_token(user=alice, name="a script")
    chosen = {"title": "Both", "workload": draft.workload, "epsilon": "99", "mechanism": "laplace-queries"}
    told = client.put(
        f"/api/releases/{draft.pk}",
        json.dumps(chosen),
        content_type="application/json",
        headers={"authorization": f"Bearer {token}"},
    ).json()
    whys = {each["mechanism"]: each["why_not"] for each in told["plans"]}
    assert whys.pop("laplace-queries") == ""
    assert "rows and persons have none in common" in whys["marginal-fit"]
    confirmed = words(client.get(reverse("confirm", args=[draft.pk])))
    assert "Each table counts every row or person that fits its columns. Totals may differ." in confirmed
    assert "There are no synthetic rows unless" not in confirmed
    release = carry_out(Release.objects.get(pk=draft.pk))
    of_rows, of_persons = np.split(counts_of(release, 11), [3])
    # Of the nine rows of each of the last patients five count, and the one in emergency is not among them.
    assert of_rows == pytest.approx([80, 40, 25 + 10 * 5], abs=4)
    assert of_persons == pytest.approx([0, 25, 40, 0, 10, 0, 0, 0], abs=4)
    receipt = release.result["receipt"]
    # Five rows in one table, and one person in another.
    assert receipt["mechanism"]["parameters"]["l1 sensitivity"] == "6"
    assert (receipt["counts"], receipt["synthetic_rows"]) == ("row or person", 0)
    assert (
        "and of one person at most 5 count, in tables that count rows; these are the same"
        in receipt["rules_in_words"][0]
    )
    assert receipt["rules_in_words"][1].startswith("Tables of columns that have one value a person count persons, and")
    assert list(verify(visits.budget)) == []
    for number, many, other in ((0, "rows", "persons"), (1, "persons", "rows")):
        page = client.get(reverse("release_detail", args=[release.pk]), {"question": number})
        assert f"all {many}" in page.context["page"].table.details
        assert f"all {other}" not in page.context["page"].table.details
        assert page.context["page"].table.counted == many
    archive = client.get(reverse("download", args=[release.pk, ARCHIVE]))
    said = dict(files_in(b"".join(archive.streaming_content)))
    assert all("in tables that count rows" in said[name] for name in SAYS_RULES)
    of_which = "Counts by visits, in emergency are of persons, the others of rows."
    assert receipt["bound"]["sentence"].endswith(f"all at once. {of_which}")
    assert of_which in confirmed
    assert of_which in said["README.txt"]
    assert client.get(reverse("receipt", args=[release.pk])).status_code == 200


@pytest.mark.parametrize(
    ("query", "mechanism"),
    [
        ({"marginal": ["visits", "in emergency"]}, "marginal-fit"),
        ({"marginal": ["visits", "in emergency"]}, "laplace-histogram"),
        ({"count": {"last ward": ["surgery"]}}, "laplace-queries"),
        ({"median": "visits"}, "counted-quantile"),
        ({"range": {"column": "total", "inside": "0.5"}}, "exponential-range"),
        ({"most_common": "last ward"}, "permute-and-flip-choice"),
        ({"strongest_associations": {"columns": ["visits", "in emergency", "last ward"]}}, "strongest-associations"),
        ({"threshold": {"counts": [{"in emergency": ["true"]}], "above": 3}}, "numeric-sparse-vector"),
        ({"votes": {"columns": ["in emergency"], "category": "true"}}, "laplace-numbers"),
    ],
)
def test_no_text_of_a_release_about_persons_calls_them_rows(visits, as_, alice, carry_out, query, mechanism):
    client, draft = as_(alice), services.releases.draft_release(dataset=visits, by=alice, title="Patients")
    services.releases.set_questions(release=draft, workload={"version": 1, "queries": [query]})
    compared = client.get(reverse("compare", args=[draft.pk])).context
    page = compared["page"]
    shown = [page.unit, page.says_little, page.recommended.within, compared["form"]["population"].label]
    for each in page.can_run:
        shown += [each.margin, each.sentence, each.accuracy, *(note.text for note in each.bound_notes)]
        shown += [f"{name}: {text}" for name, text in each.facts if not re.match("Source|Small|Candidates", name)]
    services.releases.set_choice(release=draft, epsilon="20", mechanism_name=mechanism)
    confirmed = client.get(reverse("confirm", args=[draft.pk]))
    assert "one person (column who, all of whose rows count as one)" in words(confirmed)
    said = {"compare": read(" ".join(shown)), "confirm": said_by(body(confirmed))}
    release = carry_out(Release.objects.get(pk=draft.pk))
    for name in ("release_detail", "receipt"):
        said[name] = said_by(body(client.get(reverse(name, args=[release.pk]))))
    archive = client.get(reverse("download", args=[release.pk, ARCHIVE]))
    said |= dict(files_in(b"".join(archive.streaming_content)))
    found = [f"{name}: {each}" for name, text in said.items() for each in re.findall(r".{,60}\b[Rr]ows?\b", text)]
    assert not found, "\n".join(found)
    assert all("person" in said[name] for name in ("compare", "confirm", "release_detail", "README.txt", "report"))


def test_every_text_of_a_release_about_rows_says_how_many_of_one_person_count(visits, as_, alice, sofia, carry_out):
    """Each of the ten patients of the last kind has nine rows, of which five count: the numbers are no others'."""
    client, draft = as_(alice), services.releases.draft_release(dataset=visits, by=alice, title="Rows")
    services.releases.set_questions(release=draft, workload={"version": 1, "queries": [{"marginal": ["ward"]}]})
    services.releases.set_choice(release=draft, epsilon="99", mechanism_name="laplace-queries")
    # Noise for five rows at epsilon 99 moves a count by 3 with a chance below 1e-25.
    said = {"confirm": words(client.get(reverse("confirm", args=[draft.pk])))}
    release = carry_out(Release.objects.get(pk=draft.pk))
    assert counts_of(release, 3).sum() == pytest.approx(40 * 3 + 25 + 10 * 5, abs=9)
    old = release.result["receipt"]
    assert "A row without who is left out, and of one person at most 5 count." in old["rules_in_words"]
    archive = client.get(reverse("download", args=[release.pk, ARCHIVE]))
    said |= {name: text for name, text in files_in(b"".join(archive.streaming_content)) if name in SAYS_RULES}
    said["release_detail"] = words(client.get(reverse("release_detail", args=[release.pk])))
    assert "The true counts hold at most 5 rows of each person" in said["release_detail"]
    # Receipts of before do not hold the sentence.
    said["an older one"] = " ".join(rules_said({**old, "rules_in_words": []}))
    assert set(said) == {"confirm", "release_detail", "an older one", *SAYS_RULES}
    assert [name for name, text in said.items() if "of one person at most 5 count" not in text] == []


def pages_that_ask(dataset, by, client):
    """The pages on which a question is chosen, by what was chosen so far."""
    draft = reverse("questions", args=[services.releases.draft_release(dataset=dataset, by=by, title="Asked").pk])
    addresses = {"together": reverse("new_collection", args=[dataset.pk]), "first": draft}
    addresses |= {want: f"{draft}?want={want}" for want in Want} | {kind: f"{draft}?kind={kind}" for kind in kinds()}
    return {name: said_by(body(client.get(address))) for name, address in addresses.items()}


def test_no_page_that_asks_about_persons_calls_them_rows(declared, alice, as_):
    """Every column that is counted has one value a person."""
    sent = filled({"name": "who"}, *({"name": each["name"]} for each in TYPED[1:]), *({"made": "1", **MADE[0]},))
    assert as_(alice).post(reverse("columns", args=[declared.pk]), sent).status_code == 302
    declared.refresh_from_db()
    services.datasets.declare_protection(dataset=declared, by=alice, unit=UNIT, neighbours=ROW["neighbours"])
    pages = pages_that_ask(Dataset.objects.get(pk=declared.pk), alice, as_(alice))
    assert "Share of the persons" in pages["quantile"]
    assert "How many persons are at or below each value of" in pages["table"]
    assert "share of the persons: 0.5" in pages["together"]
    assert {name: found for name, page in pages.items() if (found := re.findall(r".{60}\brows?\b.{40}", page))} == {}
    assert not any(re.search(r"\{(one|many)\}", page) for page in pages.values())


def test_rows_and_persons_are_not_asked_about_at_once(visits, as_, alice):
    draft = services.releases.draft_release(dataset=visits, by=alice, title="Both")
    both = {"action": "marginals", "order": "2", "columns": ["ward", "visits"]}
    response = as_(alice).post(reverse("questions", args=[draft.pk]), both)
    assert response.status_code == 400
    assert "'visits' count persons, and the other columns count rows" in words(response)
    assert "such as most_frequent_per_person(ward)" in words(response)
    asked = at_a_glance(visits.universe, may_check=True)
    drafted = services.collections.draft_collection(
        dataset=visits, by=alice, title="Glance", epsilon="1", delta="0", parts=asked, options={}
    )
    parts = [each.release for each in drafted.parts.select_related("release__dataset__budget")]
    of = [{name for query in each.workload["queries"] for name in query.get("marginal", ())} for each in parts]
    assert {"ward", "cost", "day"} in of
    assert {each["name"] for each in MADE} in of
    check = planned_check(visits.schema, visits.budget, rows=1000)
    assert check.schema.universe.names == ("ward", "cost", "day")


def test_columns_of_persons_are_refused_where_a_row_is_protected(declared, alice, as_):
    said = "'visits, in emergency, total, last ward' have one value a person, so a person must be protected"
    response = as_(alice).post(reverse("protection", args=[declared.pk]), {"kind": "row", "neighbours": "add_remove"})
    assert response.status_code == 400
    assert said in words(response)
    columns = declared.declared
    services.datasets.declare_universe(dataset=declared, columns=columns[:3], by=alice)
    protect(declared, alice)
    with pytest.raises(InvalidInput, match="have one value a person"):
        services.datasets.declare_universe(dataset=declared, columns=columns, by=alice)


#: Of each kind of patient how many there are, and the rows of one: arrived, ward, cost.
ARRIVALS = [
    (30, [("2024-01-01 08:30", "surgery", "100"), ("2024-01-11 14:00", "surgery", "300")]),
    (20, [("2024-02-30 09:00", "ward 1", "-9"), ("2024-05-05 23:10:59", "emergency", "50")]),
    (12, [("", "surgery", "")]),
]
READ = [
    {"name": "who"},
    {"name": "arrived", "kind": "datetime", "values": "2024-01-01 to 2024-12-31 by month"}
    | {"date_format": "YYYY-MM-DD"},
    {"name": "ward"},
    {"name": "cost", "kind": "number", "values": "0, 100, 1000", "missing_codes": "-9"},
]
CALCULATED = [
    {"name": "cost a row", "kind": "number", "values": "0, 30, 150, 1000"}
    | {"formula": "sum_per_person(cost, 0, 5000) / count_per_person()"},
    {"name": "first", "kind": "datetime", "values": "2024-01-01 to 2024-12-31 by hour"}
    | {"formula": "min_per_person(arrived)"},
    {"name": "stay", "kind": "integer", "values": "0, 1, 20"}
    | {"formula": "days_between(min_per_person(arrived), max_per_person(arrived))"},
    {"name": "how", "kind": "categorical", "values": "long, short"}
    | {"formula": 'if(count_per_person(ward = "surgery") >= 2, "long", "short")'},
]


def test_what_is_calculated_of_a_persons_rows_is_counted_and_its_formula_published(
    alice, sofia, group, upload_file, as_, carry_out
):
    """Noise of epsilon 40 moves a count by 3 with a chance below 1e-50; the counts are made by hand."""
    rows = [
        f"p{kind} {number},{','.join(row)}"
        for kind, (patients, rows) in enumerate(ARRIVALS)
        for number in range(patients)
        for row in rows
    ]
    content = "\n".join(["who,arrived,ward,cost", *rows]).encode()
    dataset = services.datasets.ingest_dataset(owner=alice, title="Arrivals", source=upload_file(content), group=group)
    client = as_(alice)
    response = client.post(
        reverse("columns", args=[dataset.pk]), filled(*READ, *({"made": "1", **each} for each in CALCULATED))
    )
    assert response.status_code == 302, words(response)
    dataset.refresh_from_db()
    services.datasets.declare_protection(dataset=dataset, by=alice, unit=UNIT, neighbours=ROW["neighbours"])
    asked = ask_for(dataset, alice, "100", delta="0", policy=Policy.PURE)
    services.budgets.approve_request(request=asked, by=sofia)
    expected = {
        ("cost a row", "how"): {(2, 0): 30, (0, 1): 20, (3, 1): 12},
        ("first", "stay"): {(8, 1): 30, (23, 0): 20, (24, 2): 12},
    }
    for names, cells in expected.items():
        draft = services.releases.draft_release(dataset=Dataset.objects.get(pk=dataset.pk), by=alice, title="Counts")
        workload = {"version": 1, "queries": [{"marginal": list(names)}]}
        services.releases.set_questions(release=draft, workload=workload)
        services.releases.set_choice(release=draft, epsilon="40", mechanism_name="laplace-histogram")
        release = carry_out(Release.objects.get(pk=draft.pk))
        universe = dataset.schema.project(names).universe
        counted = np.zeros(universe.shape)
        for cell, number in cells.items():
            counted[cell] = number
        assert counts_of(release, *universe.shape) == pytest.approx(counted, abs=3)
        formulas = [each["formula"] for each in CALCULATED if each["name"] in names]
        archive = client.get(reverse("download", args=[release.pk, ARCHIVE]))
        texts = dict(files_in(b"".join(archive.streaming_content)))
        receipt = words(client.get(reverse("receipt", args=[release.pk])))
        for formula in formulas:
            assert f"made from all of the person's rows by the formula {formula}" in receipt
            assert any(f"by the formula {formula}." in each for each in release.result["receipt"]["rules_in_words"])
            assert formula in texts["dictionary.csv"].replace('""', '"')


WRONG = [
    (
        "cost / count_per_person()",
        "'cost / count_per_person()' (at character 1) has a value in each row, and count_per_person one of each person",
    ),
    (
        "1 + max_per_person(count_per_person())",
        "'count_per_person())' (at character 20 of “1 + max_per_person(count_per_person())”) is within max_per_person",
    ),
    ("max_per_person(arrived)", "'max_per_person(arrived)' gives a date and time; a column of the type number needs a"),
]


@pytest.mark.parametrize(("formula", "said"), WRONG)
def test_what_is_wrong_with_a_formula_of_persons_is_said_with_its_column_formula_and_rule(
    formula, said, ingest, alice, as_
):
    dataset = ingest(b"who,arrived,ward,cost\na,2024-01-01 08:30,x,1\n")
    made = {**CALCULATED[0], "made": "1", "formula": formula}
    response = as_(alice).post(reverse("columns", args=[dataset.pk]), filled(*READ, made))
    assert response.status_code == 400
    # The column is a link to its fields.
    assert f"cost a row : formula: {said}" in words(response)
    assert field_value(response, "form-4-formula") == formula
    dataset.refresh_from_db()
    assert dataset.declared is None


def test_the_help_has_an_example_of_every_function_and_each_can_be_declared(ingest, alice, as_):
    client = as_(alice)
    page = words(client.get(reverse("columns", args=[ingest().pk])))
    examples = [example for _, examples in FORMULA_HELP for example in examples]
    kinds = {"number": "weight height age change cost", "date": "birth admitted discharged"}
    listed = [{"name": name, "type": kind} for kind, names in kinds.items() for name in names.split()]
    used = set()
    for formula, said in examples:
        assert formula in page
        assert said in page
        assert formula_of(formula, listed, {}).text == formula
        used |= set(re.findall(r"(\w+)\(", formula))
    named = {*SIGNATURES, "if", "coalesce", "is_missing", "text", "prefix", "recode"}
    assert used == named | {f"{take}_per_person" for take in Take}
