"""Next year's table: what another one declares is taken in one step, and what differs is said."""

import re
import uuid
from decimal import Decimal
from itertools import combinations, permutations

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.models import AuditEvent, Dataset
from releases.schema.similar_names import similar_names
from tests.web.conftest import COLUMNS
from tests.web.pages import body, words
from tests.web.steps import ask_for, protect

PERSON = PrivacyUnit(kind="person", id_column="person", max_rows=3)
NEXT = b"person,age,town\np1,30,Graz\np2,40,Wien\n"
DECADE = {"name": "decade", "type": "integer", "edges": [0, 5, 9], "formula": "age / 10"}
DECADE["reads"] = [{"name": "age", "type": "integer"}]


@pytest.fixture
def source(alice, make_dataset):
    """This year's: declared, described, each person with three rows at most, and a budget."""
    dataset = make_dataset(unit=PERSON)
    services.datasets.declare_universe(dataset=dataset, columns=[*COLUMNS, DECADE], by=alice)
    services.codebooks.describe_dataset(
        dataset=dataset,
        notes={"age": {"description": "at the interview", "unit": "years"}, "sex": {"description": "as registered"}},
        description="Who was asked, and when.",
        by=alice,
    )
    return dataset


@pytest.fixture
def following(ingest, group):
    """Next year's: without the sexes, with towns; nothing is declared."""
    return ingest(NEXT, "Next year", group=group)


def page_of(dataset, source=None):
    return reverse("take_over", args=[dataset.pk]) + (f"?source={source.pk}" if source is not None else "")


def send(client, dataset, source, people="other", **more):
    return client.post(page_of(dataset), {"source": getattr(source, "pk", source), "people": people}, **more)


@pytest.fixture
def take(as_, alice):
    """What alice is shown after she has pressed the button."""
    return lambda dataset, source, people="other": send(as_(alice), dataset, source, people, follow=True)


def now(dataset):
    return Dataset.objects.get(pk=dataset.pk)


def fact(response, name):
    """What the page says under a head."""
    found = re.search(rf"<dt>{re.escape(name)}</dt><dd>(.*?)</dd>", body(response), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", found[1])).strip() if found else None


def test_it_takes_columns_protection_and_texts_in_one_step_and_says_what_differs(source, following, take):
    after = take(following, source)
    assert fact(after, "Declared there, not in this table") == "sex"
    taken = now(following)
    assert [each["name"] for each in taken.declared] == ["age", "decade"]
    assert taken.declared[0]["edges"] == [18, 25, 35, 45, 55, 65]
    assert (taken.budget.privacy_unit, taken.budget.relation) == (PERSON, NeighbouringRelation.ADD_REMOVE)
    assert taken.budget != source.budget
    assert not taken.budget.is_granted
    assert taken.description == "Who was asked, and when."
    assert taken.column_notes == {"age": {"description": "at the interview", "unit": "years"}}


def test_tables_about_the_same_people_share_one_budget_and_without_an_answer_nothing_is_taken(
    source, following, as_, alice, take
):
    for people in ("", "some"):
        assert send(as_(alice), following, source, people).status_code == 400
        assert (now(following).declared, now(following).budget) == (None, None)
    after = take(following, source, people="same")
    assert now(following).budget == source.budget
    assert "the same, with one budget for both" in fact(after, "Protection")


def test_where_the_protection_is_declared_after_the_page_was_made_it_is_not_taken_unasked(source, following, alice):
    problem = services.taking_over.take_over(dataset=following, source=source, is_same_people=None, by=alice)
    assert (problem.field, problem.rule) == ("people", "must be said: whether both tables are about the same people")
    assert now(following).budget is None
    assert now(following).declared is not None


def test_where_the_column_that_tells_people_apart_is_missing_the_rest_is_taken_and_that_is_said(source, ingest, take):
    other = ingest(b"age,sex\n30,f\n")
    for people in ("other", "same"):
        after = take(other, source, people)
        assert "The protection was not taken." in words(after)
        assert "'person' is not a column of the table" in words(after)
        assert now(other).budget is None
    assert [each["name"] for each in now(other).declared] == ["age", "sex", "decade"]


def test_what_is_said_here_already_stays_and_what_is_declared_otherwise_is_replaced(source, following, take):
    ages = {"name": "age", "type": "integer", "edges": [0, 99]}
    towns = {"name": "town", "type": "categorical", "categories": ["Graz", "Wien"]}
    services.datasets.declare_universe(dataset=following, columns=[ages, towns])
    notes = {"age": {"unit": "y"}, "town": {"unit": "t"}}
    services.codebooks.describe_dataset(dataset=following, notes=notes, description="Own words.")
    take(following, source)
    taken = now(following)
    assert [each["name"] for each in taken.declared] == ["age", "town", "decade"]
    assert taken.declared[0]["edges"] == [18, 25, 35, 45, 55, 65]
    assert taken.description == "Own words."
    assert taken.column_notes == {"age": {"unit": "y", "description": "at the interview"}, "town": {"unit": "t"}}


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_table_whose_budget_is_not_its_own_to_change_keeps_its_protection(
    source, following, ingest, alice, take, is_shared
):
    protected = ingest(b"age,sex\n1,f\n") if is_shared else following
    protect(protected, alice, neighbours=NeighbouringRelation.REPLACE)
    if is_shared:
        services.datasets.join_population(dataset=following, other=protected, by=alice)
    else:
        ask_for(following, alice)
    assert "The protection was not taken." in words(take(following, source))
    assert now(protected).budget.neighbours == "replace"
    assert now(following).budget == now(protected).budget


def test_a_table_that_was_charged_for_takes_nothing_over(source, published, as_, alice):
    charged = published.dataset
    before = now(charged).declared
    answer = send(as_(alice), charged, source)
    assert answer.status_code == 400
    assert "takes nothing over. Privacy was charged for this table already." in words(answer)
    assert now(charged).declared == before


def test_what_a_release_learned_from_the_other_table_s_rows_is_not_taken_and_that_is_said(
    make_dataset, carry_out, alice, as_, ingest, group, take
):
    rows = b"age,sex,wage\n" + b"".join(f"30,f,{1200 + each}.5\n".encode() for each in range(400))
    wages = make_dataset(content=rows, epsilon="100")
    wage = {"name": "wage", "type": "number", "edges": [0, 100_000], "decimals": 2}
    services.datasets.declare_universe(dataset=wages, columns=[COLUMNS[1], wage])
    given = {"inside": services.release_inputs.read_beta("0.9"), "decimals": 1, "epsilon": "20", "by": alice}
    given |= {"column": "wage", "lowest": Decimal(0), "highest": Decimal(1_000_000)}
    release = carry_out(services.learning.learn_range(dataset=now(wages), **given))
    notes = release.result["receipt"]["notes"]
    wage["edges"] = [float(notes["lowest"]), float(notes["highest"])]
    services.datasets.declare_universe(dataset=now(wages), columns=[COLUMNS[1], wage])
    later = ingest(b"age,sex,wage\n30,f,1200.5\n", group=group)
    said = fact(as_(alice).get(page_of(later, wages)), "Columns that cannot be taken")
    assert said.startswith("wage: learned from the rows of Survey by the release Range of wage.")
    take(later, now(wages))
    assert [each["name"] for each in now(later).declared] == ["sex"]


def test_only_declared_tables_of_the_person_or_of_the_same_group_are_offered(
    source, following, alice, bob, charlie, ingest, as_
):
    other_group = Group.objects.create(name="Other team")
    bob.groups.add(other_group)
    town = {"name": "town", "type": "categorical", "categories": ["Graz", "Wien"]}
    older = ingest(NEXT, "Older", owner=bob)
    services.datasets.declare_universe(dataset=older, columns=[*COLUMNS[:1], town])
    strangers = [
        ingest(NEXT, "Charlie's", owner=charlie),
        ingest(NEXT, "Another team's", owner=charlie, group=other_group),
        ingest(NEXT, "Bob's own", owner=bob),
    ]
    for each in strangers:
        services.datasets.declare_universe(dataset=each, columns=COLUMNS[:1])

    def offered(user):
        menu = re.search(r'<select id="source".*?</select>', body(as_(user).get(page_of(following))), flags=re.DOTALL)
        return [" ".join(each.split()) for each in re.findall(r"<option[^>]*>([^<]*)</option>", menu[0])]

    assert offered(alice) == ["Survey (1 of these columns)"]
    # The one that declares most of these columns comes first, and of equal ones the newest.
    assert offered(bob) == [
        "Older (2 of these columns)",
        "Bob&#x27;s own (1 of these columns)",
        "Survey (1 of these columns)",
    ]
    for each in strangers:
        assert as_(alice).get(page_of(following, each)).status_code == 404
        assert send(as_(alice), following, each).status_code == 404
    assert as_(bob).get(page_of(following, strangers[1])).status_code == 404, "of a group that does not work on both"
    assert as_(alice).get(page_of(following, following)).status_code == 404
    assert as_(alice).get(f"{page_of(following)}?source={uuid.uuid4()}").status_code == 404
    assert send(as_(charlie), following, source).status_code == 404
    assert now(following).declared is None


def test_what_breaks_a_rule_of_this_table_takes_nothing(source, following, alice, monkeypatch):
    """Columns that span more than can be said, as if there were such."""
    monkeypatch.setattr(services.datasets, "MAX_CELLS_SAID", 2)
    with pytest.raises(InvalidInput, match="more cells than can be written down"):
        services.taking_over.take_over(dataset=following, source=source, is_same_people=False, by=alice)
    assert now(following).declared is None
    assert not AuditEvent.objects.filter(name="Next year", action="declare").exists()


# Names that are only written in another way, and fixed dates

BIRTH = {"name": "birth date", "type": "date", "first": "1930-01-01", "last": "2019-12-31", "by": "year"}
VISIT = {"name": "visit", "type": "date", "edges": ["2019-01-01", "2019-07-01", "2019-12-31"], "outside": "drop"}
AGE_THEN = {"name": "age then", "type": "integer", "edges": [0, 50, 100]}
AGE_THEN |= {"formula": "years_between([birth date], 2019-12-31)", "reads": [{"name": "birth date", "type": "date"}]}
LATER = b"Person ID,AGE,SEX,Birth_Date,visit\n1,30,female,1990-01-01,2020-02-02\n"
BY_PERSON = PrivacyUnit(kind="person", id_column="person_id", max_rows=2)


@pytest.fixture
def dated(alice, ingest, make_dataset):
    """This year's, with dates, and people who are told apart by a column that next year's writes in another way."""
    content = b"person_id,age,sex,birth date,visit\n1,30,female,1990-01-01,2019-02-02\n"
    dataset = make_dataset(unit=BY_PERSON, content=content)
    columns = [*COLUMNS, BIRTH, VISIT, AGE_THEN]
    married = [{"age": ["18 to 24"], "sex": ["male"]}]
    services.datasets.declare_universe(dataset=dataset, columns=columns, impossible=married, by=alice)
    notes = {"birth date": {"description": "as registered"}, "age": {"unit": "years"}}
    services.codebooks.describe_dataset(dataset=dataset, notes=notes, description="", by=alice)
    return now(dataset)


@pytest.fixture
def later(ingest, group):
    return ingest(LATER, "Later", group=group)


def sent_by(response, **changed):
    """What the form of the page sends: its ticked pairs, and its ranges of dates."""
    form = response.context["form"]
    given = {each.html_name: each.value() for each in form.of_dates}
    pairs = form["pairs"].value() if "pairs" in form.fields else []
    return {"source": response.context["source"].pk, "people": "other", "pairs": pairs, **given, **changed}


def range_of(response, column):
    return next(each for each in response.context["form"].of_dates if each.label == f"Dates of {column}")


def test_names_written_in_another_way_are_proposed_and_shown_and_what_is_confirmed_is_taken_under_its_name_here(
    dated, later, as_, alice
):
    page = as_(alice).get(page_of(later, dated))
    for said in (
        "AGE is age there",
        "SEX is sex there",
        "Birth_Date is birth date there (read by the formula of age then)",
        "Person ID is person_id there (tells people apart)",
    ):
        assert said in words(page)
    assert fact(page, "Columns to take") == "visit"
    after = as_(alice).post(page_of(later), sent_by(page), follow=True)
    taken = now(later)
    assert taken.universe.names == ("AGE", "SEX", "Birth_Date", "visit", "age then")
    assert taken.universe["age then"].formula.text == "years_between([Birth_Date], 2019-12-31)"
    assert [each.name for each in taken.universe["age then"].reads] == ["Birth_Date"]
    assert taken.universe["AGE"].edges == dated.universe["age"].edges
    assert [dict(each.bins) for each in taken.universe.impossible] == [{"AGE": ("18 to 24",), "SEX": ("male",)}]
    assert taken.budget.privacy_unit == PrivacyUnit(kind="person", id_column="Person ID", max_rows=2)
    assert taken.column_notes == {"Birth_Date": {"description": "as registered"}, "AGE": {"unit": "years"}}
    assert "Everything that can be taken is here." in words(after)
    said = AuditEvent.objects.filter(name="Later", action="declare").values_list("detail", flat=True)
    assert any("AGE as age there" in each for each in said)


def test_what_is_not_confirmed_is_not_taken_nor_what_is_made_of_it(dated, later, as_, alice):
    browser = as_(alice)
    sent = sent_by(browser.get(page_of(later, dated)), pairs=["SEX"])
    assert "The protection was not taken." in words(browser.post(page_of(later), sent, follow=True))
    assert now(later).universe.names == ("SEX", "visit")
    assert now(later).budget is None
    # Who sends no pairs has confirmed none.
    services.datasets.declare_universe(dataset=later, columns=[VISIT])
    browser.post(page_of(later), {name: value for name, value in sent.items() if name != "pairs"})
    assert now(later).universe.names == ("visit",)
    forged = browser.post(page_of(later), sent | {"pairs": ["visit"]})
    assert forged.status_code == 400
    with pytest.raises(InvalidInput, match="pairs: 'visit' cannot be taken for age"):
        services.taking_over.take_over(
            dataset=later, source=dated, is_same_people=False, by=alice, pairs={"age": "visit"}
        )


def test_of_several_columns_of_one_name_none_is_guessed(dated, ingest, group, as_, alice):
    two = ingest(b"Birth_Date,birth-date,sex\n1990-01-01,,female\n", "Two", group=group)
    page = as_(alice).get(page_of(two, dated))
    assert "birth date there, Birth_Date or birth-date here." in fact(page, "Names that are written alike")
    assert "pairs" not in page.context["form"].fields
    assert fact(page, "Columns to take") == "sex"
    as_(alice).post(page_of(two), sent_by(page))
    assert now(two).universe.names == ("sex",)


def test_the_page_says_which_dates_are_fixed_and_takes_others_that_are_typed_there(dated, later, as_, alice):
    browser = as_(alice)
    page = browser.get(page_of(later, dated))
    assert "A fixed range, 2019-01-01 to 2019-12-31. Change it if the dates of this table are others." in words(page)
    assert "A row with a date outside it is left out." in words(page)
    assert fact(page, "Fixed dates to look at").startswith("age then: its formula names 2019-12-31.")
    visit, birth = range_of(page, "visit"), range_of(page, "Birth_Date")
    assert (visit.value(), birth.value()) == ("2019-01-01, 2019-07-01, 2019-12-31", "1930-01-01 to 2019-12-31 by year")
    for typed, rule in (("", "nothing was typed"), ("2020-13-01, 2021-01-01", "must be a date"), ("2020", "range of")):
        wrong = browser.post(page_of(later), sent_by(page, **{visit.html_name: typed}))
        assert wrong.status_code == 400
        assert rule in str(range_of(wrong, "visit").errors)
        assert now(later).declared is None
    typed = {visit.html_name: "2020-01-01 to 2020-12-31 by quarter", birth.html_name: birth.value()}
    after = browser.post(page_of(later), sent_by(page, **typed), follow=True)
    universe = now(later).universe
    assert universe["visit"].labels == ("2020 Q1", "2020 Q2", "2020 Q3", "2020 Q4")
    assert universe["visit"].outside == "drop"
    assert (universe["Birth_Date"].labels[0], universe["Birth_Date"].labels[-1]) == ("1930", "2019")
    # By quarter here and by edges there: that is another declaration, and the dates stay those of this table.
    assert fact(after, "Columns declared in another way here") == "visit: they would be declared as there"
    assert range_of(after, "visit").value() == "2019-01-01, 2019-07-01, 2019-12-31"


def test_a_range_of_dates_that_was_changed_here_is_not_taken_over_again(dated, later, as_, alice):
    here = {**VISIT, "edges": ["2020-01-01", "2020-07-01", "2020-12-31"]}
    services.datasets.declare_universe(dataset=later, columns=[here])
    page = as_(alice).get(page_of(later, dated))
    assert fact(page, "Columns declared alike") == "visit"
    assert "visit: 2020-01-01 to 2020-12-31." in fact(page, "Fixed dates to look at")
    as_(alice).post(page_of(later), sent_by(page))
    assert now(later).universe["visit"].dates.last.year == 2020


# Which names are written alike

#: Names of one column each, in all the ways that are seen to be the same.
SPELLINGS = (
    ("age", "Age", "AGE", " age ", "_age"),
    ("birth date", "Birth_Date", "birth-date", "BIRTH  DATE", "birth_-date", "birth\tdate"),
    ("straße", "STRASSE", "Strasse"),
    ("größe", "GRÖSSE", "gro\u0308ße"),
    ("é id", "e\u0301-ID"),
)
#: All of them are other columns than those above, and than one another.
OTHERS = ("ages", "agé", "birthdate", "date birth", "birth.date", "age2", "a ge", "grosse", "")


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda names: names[0])
def test_every_two_spellings_of_a_name_are_paired_and_no_two_names(spellings):
    for there, here in permutations(spellings, 2):
        found = similar_names([there, "x", *OTHERS], ["y", here, *OTHERS])
        assert (found.pairs, found.unclear) == ({there: here}, ())
    for one, other in combinations([*OTHERS, spellings[0]], 2):
        assert similar_names([one], [other]).pairs == {}


def test_a_name_that_both_tables_have_is_of_no_other_column():
    found = similar_names(["age", "sex"], ["age", "Age", "sex"])
    assert (found.pairs, found.unclear) == ({}, ())
    found = similar_names(["age", "Age"], ["age"])
    assert (found.pairs, found.unclear) == ({}, ())


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (["age"], ["Age", "AGE"]),
        (["age", "Age"], ["AGE"]),
        (["birth date", "birth-date"], ["birth_date", "Birth date"]),
    ],
)
def test_of_several_names_that_are_written_alike_none_is_paired_and_all_are_named(there, here):
    found = similar_names([*there, "sex"], [*here, "Sex"])
    assert found.pairs == {"sex": "Sex"}
    assert found.unclear == ((tuple(there), tuple(here)),)


def test_a_name_twice_is_one_column():
    """A formula reads a column that is declared too."""
    assert similar_names(["age", "age"], ["Age"]).pairs == {"age": "Age"}
