"""A release counts the rows that have a declared value in the columns it asks about; no other column drops a row.

Noise that a test would fail by has a chance below 10^-10 in each.
"""

import pytest

from releases import services
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.pmw.online import ExactCounts
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.workload.queries import read_count
from releases.models import Release, Session
from releases.publication import files
from releases.services.datasets import table_path
from tests.web.conftest import COLUMNS
from tests.web.pages import link

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

    def make(*queries, mechanism="laplace-queries", of=dataset, epsilon="30"):
        return once(
            repr((queries, mechanism, of.pk, epsilon)),
            lambda: carry_out(make_draft(of, *queries, epsilon=epsilon, delta="0", mechanism=mechanism)),
        )

    return make


def estimates(release):
    return files.read_answers(files.folder_of(release)).column("estimate").to_pylist()


@pytest.mark.parametrize("mechanism", ["laplace-queries", "laplace-histogram", "pmw"])
def test_the_rows_that_have_the_columns_asked_about_are_counted(publish, mechanism):
    for column, counts in (("age", AGES), ("sex", SEXES)):
        assert estimates(publish({"marginal": [column]}, mechanism=mechanism)) == pytest.approx(counts, abs=0.6)


def test_a_table_of_two_columns_counts_the_rows_that_have_both(publish):
    both = publish({"marginal": ["age", "sex"]}, {"marginal": ["age"]}, epsilon="60")
    assert estimates(both) == [1] + [0] * 9 + [1, 0, 0, 0, 0]


def test_a_sum_is_of_the_rows_that_have_its_column(publish):
    """The ages of 20, 30 and 40, two of whose rows have no declared sex."""
    summed = publish({"sum": ["age"]}, mechanism="laplace-numbers", epsilon="90")
    assert estimates(summed) == pytest.approx([90], abs=20)


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
