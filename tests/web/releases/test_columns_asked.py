"""A release counts the rows that have a declared value in the columns it asks about; no other column drops a row.

Noise that a test would fail by has a chance below 10^-10 in each.
"""

import re
import uuid

import pytest

from releases import services
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.pmw.online import ExactCounts
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.workload.queries import read_count
from releases.models import Organisation, Release, ReleaseRequest, Session
from releases.publication import files
from releases.publication.dictionary import dictionary_csv
from releases.publication.readme import readme_text
from releases.services.datasets import table_path
from tests.web.conftest import COLUMNS
from tests.web.pages import body, link, words

#: Three rows have a declared age, three a declared sex, one both.
CONTENT = b"age,sex,town\n20,female,a\n30,,a\n40,unknown,b\n,male,b\nabc,male,a\n"
TOWN = {"name": "town", "type": "categorical", "categories": ["a", "other"], "outside": "other"}
AGES, SEXES = [1, 1, 1, 0, 0], [1, 2]


@pytest.fixture
def dataset(make_dataset):
    return make_dataset(epsilon="100", content=CONTENT)


@pytest.fixture
def publish(dataset, make_draft, carry_out, once):
    """A published release of the questions, so exact that its answers are the counts."""

    def make(*queries, mechanism="laplace-queries", of=dataset, epsilon="30", **options):
        asked = {"epsilon": epsilon, "delta": "0", "mechanism": mechanism, "options": options}
        return once(
            repr((queries, asked, of.pk)),
            lambda: carry_out(make_draft(of, *queries, **asked)),
        )

    return make


def estimates(release):
    return files.read_answers(files.folder_of(release)).column("estimate").to_pylist()


@pytest.mark.parametrize("mechanism", ["laplace-queries", "laplace-histogram", "pmw"])
def test_the_rows_that_have_the_columns_asked_about_are_counted(publish, mechanism):
    for column, counts in (("age", AGES), ("sex", SEXES)):
        assert estimates(publish({"marginal": [column]}, mechanism=mechanism)) == pytest.approx(counts, abs=0.6)


BOTH = [{"marginal": ["age", "sex"]}, {"marginal": ["age"]}, {"marginal": ["town"]}]


def test_a_table_of_two_columns_counts_the_rows_that_have_both_and_takes_none_from_others(publish):
    assert estimates(publish(*BOTH[:2], epsilon="60")) == [1] + [0] * 9 + AGES


def test_no_table_loses_a_row_for_the_column_of_another(publish):
    assert estimates(publish({"marginal": ["age"]}, {"marginal": ["sex"]}, epsilon="60")) == AGES + SEXES


def test_a_sum_is_of_the_rows_that_have_its_column(publish):
    """The ages of 20, 30 and 40, two of whose rows have no declared sex."""
    summed = publish({"sum": ["age"]}, mechanism="laplace-numbers", epsilon="90")
    assert estimates(summed) == pytest.approx([90], abs=20)


@pytest.fixture
def own(make_declared, publish):
    """A release of tables that count three sets of rows, and its table."""
    table = make_declared([*COLUMNS, TOWN], epsilon="100", content=CONTENT)
    return publish(*BOTH, of=table), table


def test_a_release_says_of_each_table_which_rows_it_counts_and_that_totals_may_differ(own, alice, as_):
    release, _ = own
    assert estimates(release) == [1] + [0] * 9 + AGES + [3, 2]
    said = {
        0: "all rows but those that the rules of age or sex leave out",
        1: "all rows but those that the rules of age leave out",
        2: "This table counts all rows; other tables here may count fewer.",
    }
    for question, sentence in said.items():
        assert sentence in words(as_(alice).get(link("release_detail", release), {"question": question}))
    receipt = release.result["receipt"]
    assert receipt["schema"]["rows_counted"] == "by own columns"
    assert receipt["total"]["kind"] == "released with noise"
    totals = "so two tables here may count different rows, and their totals may differ."
    dropped = "left out of every count about that column"
    shown = words(as_(alice).get(link("release_detail", release)))
    for text in (shown, " ".join(receipt["rules_in_words"])):
        assert totals in text
        assert dropped in text
    readme = " ".join(readme_text(receipt, [], digest="", address="").split())
    dictionary = dictionary_csv(receipt, answers=[], totals=[], notes={})
    assert totals in readme
    assert receipt["notes"]["noisy numbers of rows in tables"] == [1, 5]
    assert "so totals may differ. About 1 to 5 rows counted in a table. How many were left out is not known." in readme
    assert "left out of every count about that column" in dictionary
    for text in (shown, readme, dictionary, " ".join(receipt["rules_in_words"])):
        assert not re.search(r"out of every count(?! about that column)", text)
    assert "synthetic.csv" not in release.result["files"]


def test_tables_that_are_to_make_rows_count_the_same_rows_and_say_so(make_declared, publish, as_, alice):
    of = make_declared([*COLUMNS, TOWN], epsilon="100", content=CONTENT)
    release = publish(*BOTH, of=of, rows_counted="same")
    assert release.result["receipt"]["synthetic_rows"]
    assert estimates(release) == [1] + [0] * 9 + [1, 0, 0, 0, 0] + [1, 0]
    assert "rows_counted" not in release.result["receipt"]["schema"]
    assert "These rules hold for every count here" in words(as_(alice).get(link("release_detail", release)))


@pytest.fixture
def of_three(make_declared):
    """Two of its columns leave rows out, and one has a category for them."""
    return make_declared([*COLUMNS, TOWN], epsilon="100", content=CONTENT)


OWN_SAID = "Each table counts every row that fits its columns. Totals may differ. There are no synthetic rows unless "
SAME_SAID = "Only rows that fit all columns asked about count."


def test_methods_are_compared_with_the_rows_that_each_counts(of_three, make_draft, as_, alice):
    draft = make_draft(of_three, *BOTH, delta="0.0000001")
    shown = words(as_(alice).get(link("compare", draft)))
    assert "all rows of each table, no synthetic rows" in shown
    assert "every table only of rows that fit all columns asked about" in shown
    alike = make_draft(of_three, {"marginal": ["age", "sex"]}, {"marginal": ["age", "sex", "town"]})
    assert "table only of rows" not in words(as_(alice).get(link("compare", alike)))
    field = 'name="laplace-queries.rows_counted"'
    for each, is_offered in ((draft, True), (make_draft(of_three, *BOTH), True), (alike, False)):
        assert (field in body(as_(alice).get(link("compare", each)))) is is_offered


def test_for_answers_a_method_is_recommended_that_keeps_all_rows_of_each_table_and_for_rows_one_that_makes_some(
    of_three, make_draft, as_, alice
):
    draft = make_draft(of_three, *BOTH, mechanism="", delta="0.0000001")
    found = {}
    for want in ("", "table", "rows"):
        page = as_(alice).get(link("compare", draft), {"want": want})
        found[want] = page.context["page"].recommended
        panel = words(page).partition("Recommended:")[2].partition("Other methods")[0]
        assert (OWN_SAID in panel, SAME_SAID in panel) == (want != "rows", want == "rows")
    plans = {each.mechanism: each for each in services.releases.compare(release=draft)}
    assert plans[found[""].method.name].schema.universe.own_rows
    assert found["table"].method == found[""].method
    assert plans[found["rows"].method.name].makes_synthetic_rows
    assert "methods that lose no rows" in found[""].why


@pytest.mark.parametrize(("want", "own"), [("rows", False), ("table", True), ("", True)])
def test_what_is_chosen_for_synthetic_rows_makes_them_whatever_the_method(of_three, make_draft, as_, alice, want, own):
    draft = make_draft(of_three, *BOTH, mechanism="", epsilon="1")
    shown = as_(alice).get(link("compare", draft), {"want": want})
    assert ("selected>same" in body(shown)) is (want == "rows")
    typed = {"epsilon": "1", "delta": "0", "beta": "0.05", "mechanism": "laplace-queries"}
    sent = as_(alice).post(f"{link('compare', draft)}?want={want}", typed)
    assert sent.url == link("confirm", draft)
    plan = services.releases.plan_of(release=Release.objects.get(pk=draft.pk))
    assert plan.schema.universe.own_rows is own
    assert plan.makes_synthetic_rows is not own
    confirm = words(as_(alice).get(link("confirm", draft)))
    assert (OWN_SAID in confirm) is own
    assert ("is left out of every count." in confirm) is not own


def test_where_all_tables_lose_the_same_rows_no_page_speaks_of_it(of_three, make_draft, as_, alice):
    alike = make_draft(of_three, {"marginal": ["age", "sex"]}, {"marginal": ["age", "sex", "town"]})
    for step in ("compare", "confirm"):
        shown = words(as_(alice).get(link(step, alike)))
        assert OWN_SAID not in shown
        assert SAME_SAID not in shown
    assert services.releases.plan_of(release=alike).makes_synthetic_rows


def test_an_approval_of_a_plan_that_counted_the_same_rows_is_none_of_one_that_counts_others(
    of_three, make_draft, alice, sofia
):
    """A reviewer asked for less, and the draft came back; meanwhile its tables count other rows."""
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.1")
    draft = make_draft(of_three, *BOTH, epsilon="1", options={"rows_counted": "same"})
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    asked = ReleaseRequest.objects.get()
    services.reviews.approve_release(request=asked, by=sofia, note="Less.", epsilon="0.5")
    draft.refresh_from_db()
    plan = services.releases.plan_of(release=draft)
    assert not services.releases.needs_review(release=draft, plan=plan, by=alice)
    services.releases.set_choice(release=draft, epsilon="0.5", mechanism_name="laplace-queries", options={})
    plan = services.releases.plan_of(release=draft)
    assert plan.schema.universe.own_rows
    assert services.releases.needs_review(release=draft, plan=plan, by=alice)


def test_a_table_of_its_own_rows_is_about_the_same_rows_as_a_release_of_its_columns_alone(
    own, make_draft, carry_out, as_, alice
):
    release, table = own
    asked = [(BOTH[1:2], {}, 0, False), (BOTH[2:], {}, 0, False), (BOTH[:1], {}, 0, False)]
    asked.append((BOTH, {"mechanism": "laplace-histogram"}, 1, True))
    for queries, choice, question, differ in asked:
        other = carry_out(make_draft(table, *queries, epsilon="3", delta="0", **choice))
        shown = as_(alice).get(link("compare_releases", release), {"other": other.pk, "question": question})
        assert shown.context["page"].may_count_other_rows is differ, queries


def test_which_of_a_person_s_rows_count_follows_from_all_columns(make_declared, publish, alice, as_):
    rows = b"person,age,sex,town\n" + b"".join(b"%d,30,male,a\n" % each for each in range(9))
    unit = PrivacyUnit(kind="person", id_column="person", max_rows=2)
    people = make_declared([*COLUMNS, TOWN], epsilon="100", content=rows, unit=unit)
    first, other, again = (
        publish({"marginal": ["age"]}, *more, of=people) for more in ((), ({"marginal": ["town"]},), ())
    )
    for second, differ in ((other, True), (again, False)):
        shown = as_(alice).get(link("compare_releases", first), {"other": second.pk})
        assert shown.context["page"].may_count_other_rows is differ


def test_a_certificate_measures_against_the_rows_that_the_release_counted(publish, carry_out, alice):
    release = publish({"marginal": ["age"]})
    asked = {"epsilon": "30", "what": "released answers"}
    certificate = carry_out(services.certificates.draft_certificate(of=release, by=alice, **asked))
    # Counted with the rule of sex, two of the three ages would be wrong by one.
    assert estimates(certificate) == pytest.approx([0], abs=0.5)
    assert [each["name"] for each in certificate.result["receipt"]["schema"]["columns"]] == ["age"]


def test_a_certificate_measures_each_table_against_its_own_rows(own, carry_out, alice):
    """Against the rows that fit all columns, two of the three rows of town a would be missing."""
    asked = {"epsilon": "30", "what": "released answers"}
    certificate = carry_out(services.certificates.draft_certificate(of=own[0], by=alice, **asked))
    assert estimates(certificate) == pytest.approx([0], abs=0.5)


def test_a_session_counts_the_rows_of_its_columns_and_knows_no_other(dataset, carry_out, as_, alice, opens_tables):
    in_order = services.sessions.columns_of_session
    assert (in_order(dataset.universe, ["sex", "age"]), in_order(dataset.universe, [])) == (("age", "sex"),) * 2
    given = {"epsilon": "90", "beta": "0.05", "questions": "5", "population": "5", "columns": ["sex"]}
    assert as_(alice).post(link("new_session", dataset), given | {"columns": ["town"]}).status_code == 400
    as_(alice).post(link("new_session", dataset), given)
    release, session = carry_out(Release.objects.get()), Session.objects.get()
    services.sessions.ask_session(session=session, query={"sex": ["male"]}, by=alice)
    schema = services.sessions.plan_of_session(session).schema
    assert schema.universe.names == ("sex",)
    truth = ExactCounts(TableCounts(open_table(table_path(release.dataset)), schema))
    assert truth(read_count({"sex": ["male"]}, schema.universe)) == SEXES[1]
    with pytest.raises(InvalidInput, match="age"):
        services.sessions.ask_session(session=session, query={"age": {"to": 35}}, by=alice)
