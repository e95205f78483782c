"""A check of the columns: what it costs, that it finds a misread column, and that nothing more is spent by default."""

import re
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from zipfile import ZipFile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.attribute import MISSING, Attribute
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import FileFacts
from releases.models import AuditAction, AuditEvent, Dataset, LedgerEntry, Release
from releases.planning import column_checks as planning
from releases.planning.comparison import at_epsilon
from releases.presentation.releases.column_check import column_check
from releases.presentation.results.answers import Wish
from releases.presentation.results.result_page import result_page
from releases.publication import files
from releases.publication.column_checks import MOST_CHECKS, CheckedColumn, checked_columns, left_out_in_words
from tests.web.conftest import CSV, give
from tests.web.pages import link, words
from tests.web.steps import ask_for, execute, protect, submit
from tests.web.undoing import rolled_back

ROWS = CSV.count(b"\n") - 1
#: Every age is written with a comma, so that none is a number.
MISREAD = re.sub(rb",(\d\d),", rb',"\1,5",', CSV)


@pytest.fixture(autouse=True)
def _surely():
    """Bounds that a run leaves once in a thousand million times, so that no test fails by its noise."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(planning, "_BETA", Fraction(1, 10**9))
        yield


def planned(dataset, rows=ROWS):
    return planning.planned_check(dataset.schema, dataset.budget, rows=rows)


@pytest.fixture
def draft_check(alice):
    return lambda dataset: services.column_checks.draft_check(dataset=dataset, plan=planned(dataset), by=alice)


@pytest.fixture
def checked(make_dataset, draft_check, carry_out, once):
    """A dataset whose columns were checked, and the check."""

    def make(content=CSV):
        dataset = make_dataset(content=content, epsilon="100")
        check = draft_check(dataset)
        once("checked", lambda: carry_out(check))
        check.refresh_from_db()
        return dataset, check

    return make


AGE, SEX = {"marginal": ["age"]}, {"marginal": ["sex"]}


def test_a_column_that_is_misread_is_found_and_no_other(checked):
    dataset, check = checked(MISREAD)
    found = {each.declared.name: each for each in checked_columns(check, dataset.universe)}
    assert {name: each.is_misread for name, each in found.items()} == {"age": True, "sex": False}
    least, most = found["age"].states["unreadable"]
    assert least <= ROWS <= most
    assert (most - least) / 2 <= ROWS / planning.PART_OF_ROWS + 1


def test_a_table_that_reads_as_declared_stops_nothing(checked, make_draft, carry_out):
    dataset, _ = checked()
    draft = make_draft(dataset, AGE, SEX)
    assert column_check(draft, dataset.universe).misread == ""
    assert carry_out(draft, execute=False).state == "queued"


def test_a_release_of_a_misread_column_needs_a_reason_and_another_does_not(checked, make_draft, carry_out, alice):
    """Neither does a session about all columns go without."""
    dataset, _ = checked(MISREAD)
    refused, before = make_draft(dataset, AGE, SEX), LedgerEntry.objects.count()
    session = services.sessions.draft_session(dataset=dataset, by=alice, title="Ask", epsilon="1")
    for release, reason in ((refused, ""), (refused, "  "), (session, "")):
        with pytest.raises(services.release_inputs.Refusal, match="age leaves out more than half"):
            submit(release, alice, reason=reason)
    assert LedgerEntry.objects.count() == before
    assert carry_out(make_draft(dataset, SEX), execute=False).state == "queued"
    reason = "Only ages that were typed as whole numbers are wanted."
    assert submit(refused, alice, reason=reason) is not None
    assert AuditEvent.objects.filter(action=AuditAction.SUBMIT, detail__contains=reason).exists()


def test_a_result_says_what_the_check_found_to_its_own_people_and_to_others_where_it_is_public(
    checked, make_draft, alice
):
    dataset, check = checked(MISREAD)
    draft = make_draft(dataset, AGE, SEX)
    submit(draft, alice, reason="As a test.")
    execute(draft)
    draft.refresh_from_db()
    own, others = (result_page(draft, wish=Wish(), is_own=is_own) for is_own in (True, False))
    assert own.found[0].startswith("age leaves out ")
    assert own.check_address == link("release_detail", check)
    assert own.doubts_columns
    assert (others.found, others.check_address) == ((), "")
    assert "How many were left out is not known." in others.counted
    assert "not known" not in own.counted
    services.releases.make_public(release=check, by=alice)
    others = result_page(draft, wish=Wish(), is_own=False)
    assert (others.found, others.counted) == (own.found, own.counted)


@given(shares=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), min_size=2, max_size=4))
def test_columns_leave_out_together_at_least_the_worst_and_at_most_the_sum(shares):
    """By two tables that both fit a check: the columns leave the same rows out, or each leaves out others."""
    universe = Universe(
        attributes=tuple(
            Attribute.from_json({"name": f"c{place}", "type": "integer", "edges": [0, 9], "outside": "drop"})
            for place in range(len(shares))
        )
    )
    found = [
        CheckedColumn(
            declared=each, states={"as declared": (100 - low - more, 100 - low), "missing": (low, low + more)}
        )
        for each, (low, more) in zip(universe.attributes, shares, strict=True)
    ]
    nobodys = Release(dataset=Dataset())
    sentences = [each for each in left_out_in_words(nobodys, found, universe) if each.startswith("Together")]
    same, apart = max(low for low, _ in shares), sum(low + more for low, more in shares)
    if apart >= 100:
        assert sentences == []
        return
    numbers = [int(each) for each in re.findall(r"[0-9]+", sentences[0])]
    assert min(numbers) <= same
    assert max(numbers) >= apart


def test_the_readme_has_what_a_public_check_found_and_of_another_one_where_it_is(checked, make_draft, alice, as_):
    dataset, check = checked(MISREAD)
    draft = make_draft(dataset, AGE, SEX)
    submit(draft, alice, reason="As a test.")
    execute(draft)

    def readme():
        archive = as_(alice).get(reverse("download", args=[draft.pk, "release.zip"]))
        with ZipFile(BytesIO(b"".join(archive.streaming_content))) as files:
            (name,) = (each for each in files.namelist() if each.endswith("README.txt"))
            return " ".join(files.read(name).decode().split())

    where = f"http://testserver{link('release_detail', check)}"
    assert f"A check of the columns, made before, says more to those who may read it: {where}" in readme()
    assert "age leaves out" not in readme()
    assert "How many were left out is not known." in readme()
    services.releases.make_public(release=check, by=alice)
    assert re.search(
        f"By the check of the columns \\({where}\\): age leaves out [0-9]+% to 100% of the rows.", readme()
    )
    assert "How many were left out is not known." not in readme()
    assert "in a database" not in readme()
    with rolled_back():
        Dataset.objects.filter(pk=dataset.pk).update(location="clinic://clinic#visits")
        assert "The table is in a database, so that is of the rows that were there then." in readme()
    # What is bought later is of no release that was there before.
    Release.objects.filter(pk=check.pk).update(published_at=timezone.now())
    assert "check of the columns" not in readme()


def test_a_column_that_is_declared_again_is_no_longer_held_to_be_misread(checked, make_draft, carry_out):
    dataset, _ = checked(MISREAD)
    columns = [each.to_json() for each in dataset.universe.attributes]
    age = next(each for each in columns if each["name"] == "age")
    age["edges"] = [*age["edges"][:-1], 200]
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    dataset.refresh_from_db()
    draft = make_draft(dataset, AGE)
    shown = column_check(draft, dataset.universe.project(("age",)))
    assert shown.misread == ""
    assert shown.found == ("Declared otherwise since, so not checked: age.",)
    assert carry_out(draft, execute=False).state == "queued"


def test_a_budget_is_charged_for_two_checks_at_most(checked, draft_check, carry_out, alice):
    dataset, _ = checked()
    carry_out(draft_check(dataset))
    before, third = LedgerEntry.objects.count(), draft_check(dataset)
    with pytest.raises(services.release_inputs.Refusal, match="checked 2 times"):
        submit(third, alice)
    assert LedgerEntry.objects.count() == before
    assert MOST_CHECKS == 2


@pytest.mark.parametrize(("policy", "rows"), [(Policy.APPROX, 200), (Policy.ZCDP, 5000), (Policy.ZCDP, 10**6)])
def test_the_epsilon_is_the_least_that_keeps_every_count_within_a_ninth_of_the_rows(make_dataset, policy, rows):
    dataset = make_dataset(policy=policy, epsilon="100", delta="0.000001")
    plan = planned(dataset, rows)
    assert plan.bound.alpha <= rows / 9
    if plan.budget.epsilon != planning.LEAST_EPSILON:
        assert at_epsilon(plan, plan.budget.epsilon * 9 / 10).bound.alpha > rows / 9


def test_states_are_asked_by_a_check_alone(dataset, blank, draft_check):
    other = {"version": 1, "queries": [{"marginals": 1}]}
    for draft, asked in ((blank, planned(dataset).workload.to_json()), (draft_check(dataset), other)):
        with pytest.raises(InvalidInput, match="check of the columns"):
            services.releases.set_questions(release=draft, workload=asked)


@given(
    rows=st.integers(9, 10**6),
    errors=st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    state=st.sampled_from(["outside", "unreadable", "missing"]),
)
def test_whatever_the_noise_within_the_bound_a_column_misread_throughout_is_certain_to_be(rows, errors, state):
    age = Attribute.from_json({"name": "age", "type": "integer", "edges": [0, 9], "outside": "drop"})
    alpha = rows / planning.PART_OF_ROWS
    noisy = {
        each: (rows if each == state else 0) + alpha * error for each, error in zip(age.states, errors, strict=True)
    }
    ends = {each: (max(0.0, count - alpha), max(0.0, count + alpha)) for each, count in noisy.items()}
    assert CheckedColumn(declared=age, states=ends).is_misread
    fine = CheckedColumn(declared=age, states={**ends, state: (0.0, 0.0), "as declared": ends[state]})
    assert not fine.is_misread
    # What has a bin leaves nothing out, and is misread where it cannot be read.
    with_bin = CheckedColumn(declared=replace(age, outside="clamp", missing_as="no number"), states=ends)
    assert not with_bin.is_left_out
    assert with_bin.is_misread is (state == "unreadable")
    assert MISSING in age.states


def test_a_draft_has_the_very_delta_that_was_planned(make_dataset, draft_check):
    """A thousandth of the budget's delta has more digits than are written where nobody asks for more."""
    dataset = make_dataset(epsilon="100", delta="0.0000000001")
    plan = planned(dataset)
    assert plan.mechanism == "gaussian-queries"
    again = services.releases.plan_of(release=draft_check(dataset))
    assert (again.budget, again.beta) == (plan.budget, plan.beta)


GERMAN = "nr;größe\n" + "".join(f"{row};{(120 + row % 100) / 100:.2f}\n".replace(".", ",") for row in range(3000))
HEIGHT = {"name": "größe", "type": "number", "edges": [1.2, 1.7, 2.2], "missing_as": "no number"}


@pytest.fixture
def german(alice, sofia, upload_file):
    """A German file, whose numbers have a comma, read under what was said of it."""

    def make(**said):
        give(alice, "curator")
        source, facts = upload_file(GERMAN.encode()), FileFacts(separator=";", **said)
        dataset = services.datasets.ingest_dataset(owner=alice, title="Leute", source=source, facts=facts)
        services.datasets.declare_universe(dataset=dataset, columns=[HEIGHT], by=alice)
        protect(dataset, alice)
        asked = ask_for(dataset, alice, "100", policy=Policy.PURE, delta="0")
        services.budgets.approve_request(request=asked, by=sofia)
        dataset.refresh_from_db()
        return dataset

    return make


def test_a_german_file_is_refused_until_its_decimal_sign_is_said(as_, alice):
    give(alice, "curator")
    sent = {"title": "Leute", "table": SimpleUploadedFile("leute.csv", GERMAN.encode())}
    refused = as_(alice).post(reverse("upload"), sent)
    assert refused.status_code == 400
    assert "ecimal sign" in words(refused)
    assert not Dataset.objects.exists()


def test_a_german_file_read_with_a_comma_gives_right_counts(german, make_draft, carry_out):
    release = carry_out(
        make_draft(german(decimal=","), {"marginal": ["größe"]}, epsilon="90", mechanism="laplace-queries")
    )
    found = files.read_answers(files.folder_of(release))["estimate"].to_pylist()
    assert [round(each) for each in found] == pytest.approx([1500, 1500, 0], abs=3)


@pytest.mark.parametrize(
    ("missing_as", "said"),
    [("no number", "größe cannot be read as declared in more than half"), ("drop", "größe leaves out more than half")],
)
def test_a_german_file_read_with_a_point_is_charged_for_a_check_and_for_nothing_more(
    german, make_draft, carry_out, alice, as_, missing_as, said
):
    """Also where what cannot be read has a bin, as new columns have it."""
    dataset = german(decimal=".")
    services.datasets.declare_universe(dataset=dataset, columns=[{**HEIGHT, "missing_as": missing_as}])
    dataset.refresh_from_db()
    carry_out(services.column_checks.draft_check(dataset=dataset, plan=planned(dataset, rows=3000), by=alice))
    before, draft = LedgerEntry.objects.count(), make_draft(dataset, {"marginal": ["größe"]})
    with pytest.raises(services.release_inputs.Refusal, match=said):
        submit(draft, alice)
    assert LedgerEntry.objects.count() == before
    confirmed = words(as_(alice).get(reverse("confirm", args=[draft.pk])))
    assert f"{said} of the rows." in confirmed
    assert "A column looks misread." in confirmed
