"""Certifying a published release: planned, confirmed, charged, measured, shown beside it to those who may see both."""

from __future__ import annotations

import json
import uuid

import pytest
from django.core.management import CommandError, call_command

from releases import services
from releases.engine.accounting import accountant
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.engine.workload.parsing import read_question
from releases.ledger import refusals, verification
from releases.models import Budget, LedgerEntry, Organisation, Release, ReleaseState
from releases.planning import comparison
from releases.publication import files
from releases.services import certificates, release_inputs
from releases.worker import runner
from tests.web.conftest import COLUMNS, CSV, WORKLOAD, rows_of, write_json
from tests.web.pages import body, field_value, link, words
from tests.web.public.test_api import Program

pytestmark = pytest.mark.django_db

ASKED = {"epsilon": "0.05", "delta": "0", "beta": "0.05", "what": "synthetic rows"}
EPSILON = 10**accountant.EPSILON_PLACES


@pytest.fixture
def certify(carry_out, draft_of):
    """A certificate of a published release, drafted, submitted and run."""
    return lambda of, *, run=True, **asked: carry_out(draft_of(of, **asked), execute=run)


@pytest.fixture
def draft_of(alice):
    return lambda of, **asked: services.certificates.draft_certificate(of=of, by=alice, **{**ASKED, **asked})


@pytest.fixture
def submit(alice):
    return lambda draft: services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)


@pytest.fixture
def certificate(published, certify, once):
    made = once("certificate", lambda: certify(published))
    made.refresh_from_db()
    return made


@pytest.fixture
def no_data(monkeypatch):
    """Whoever opens a table fails."""

    def touched(*given, **more):
        raise AssertionError("the data were touched")

    monkeypatch.setattr(runner, "run", touched)


# The way


def test_the_way_from_the_result_over_plan_and_confirmation_to_the_certificate(published, as_, alice, no_data):
    browser = as_(alice)
    shown = browser.get(link("release_detail", published))
    assert 'action="' + link("certify", published) in body(shown)
    assert field_value(shown, "epsilon") == "0.65"  # noise within half of the bound of the answers
    assert browser.get(link("certify", published), {"epsilon": "0.1"}).status_code == 200
    assert not Release.objects.filter(certifies=published).exists()
    drafted = browser.post(link("certify", published), {**ASKED, "epsilon": "0.1"})
    draft = Release.objects.get(certifies=published)
    assert drafted.url == link("confirm", draft)
    confirm = browser.get(drafted.url)
    assert draft.entries.count() == 0
    sent = {name: field_value(confirm, name) for name in ("key", "plan", "title")}
    assert browser.post(drafted.url, sent).url == link("release_detail", draft)
    draft.refresh_from_db()
    assert draft.status is ReleaseState.QUEUED
    assert draft.title == "Certified quality of Release 1"


def test_what_was_typed_wrongly_is_named_and_kept(published, as_, alice):
    for send in (as_(alice).get, as_(alice).post):
        page = send(link("certify", published), {**ASKED, "epsilon": "much"})
        assert page.status_code == 400
        assert field_value(page, "epsilon") == "much"
        assert "epsilon: 'much'" in words(page)
    assert as_(alice).post(link("certify", published), {**ASKED, "what": "the truth"}).status_code == 400
    assert not Release.objects.filter(certifies=published).exists()


# What it costs


def test_it_is_charged_exactly_its_epsilon_on_a_line_of_its_own_and_with_a_delta_no_more(
    published, certificate, certify
):
    entry = LedgerEntry.objects.get(release=certificate)
    assert entry.sequence == LedgerEntry.objects.get(release=published).sequence + 1
    assert entry.epsilon == EPSILON * 5 // 100
    (event,) = plan_from_json(certificate.plan).events
    assert entry.detail["events"] == [event.to_json()]
    assert not list(verification.verify(Budget.objects.get(pk=published.dataset.budget_id)))
    entry = LedgerEntry.objects.get(release=certify(published, delta="0.0000001"))
    assert entry.detail["events"][0]["kind"] == "discrete_gaussian"
    assert 0 < entry.detail["price"]["epsilon"] <= EPSILON * 5 // 100


def test_what_the_budget_does_not_allow_is_refused_and_nothing_is_charged(published, draft_of, submit, as_, alice):
    plan = as_(alice).get(link("certify", published), {"epsilon": "1.5"})
    assert '<button disabled aria-describedby="why-not">' in body(plan)
    draft = draft_of(published, epsilon="1.5")
    with pytest.raises(refusals.InsufficientBudget):
        submit(draft)
    assert draft.entries.count() == 0


@pytest.mark.parametrize("approved", ["", "0.02"])
def test_above_the_organisation_s_threshold_a_reviewer_sees_it_first_and_sends_it_back_where_it_is_for_less(
    published, draft_of, submit, sofia, approved
):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.01")
    draft = draft_of(published)
    assert submit(draft) is None
    less = {"epsilon": approved} if approved else {}
    services.reviews.approve_release(request=draft.reviews.get(), by=sofia, send=False, **less)
    draft.refresh_from_db()
    if approved:
        assert (draft.status, draft.certifies, draft.epsilon) == (ReleaseState.DRAFT, published, "0.02")
        assert submit(draft).epsilon == EPSILON * 2 // 100
    assert Release.objects.get(pk=draft.pk).status is ReleaseState.QUEUED
    assert services.execution.execute_release(release_id=draft.pk)


# What is measured


def exact_errors(of):
    """The largest error of the synthetic rows and of the answers, from the files and the rows, counted apart."""
    people = [(18 + (i * 7) % 48, "female" if i % 3 else "male") for i in range(200)]
    rows = [(int(row["age"]), row["sex"]) for row in rows_of(of, "synthetic.csv")]

    def met(age, sex, row):
        label = row["age"]
        low, high = map(int, label.split(" to ")) if label else (18, 65)
        return low <= age <= high and row["sex"] in ("", sex)

    synthetic = answered = 0.0
    for row in rows_of(of):
        true, made = (sum(met(age, sex, row) for age, sex in table) for table in (people, rows))
        synthetic = max(synthetic, abs(true - made))
        answered = max(answered, abs(true - float(row["estimate"])))
    return {"synthetic rows": synthetic, "released answers": answered, "both": max(synthetic, answered)}


@pytest.mark.parametrize("what", release_inputs.CERTIFIABLE)
def test_what_noise_is_added_to_is_the_largest_error_of_the_published_files(published, certify, what, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "releases.engine.mechanisms.error_certificate.Certificate.measured",
        lambda self, largest, rng: seen.append(largest) or largest,
    )
    certify(published, what=what)
    assert seen == [-(-exact_errors(published)[what] // 1)]
    assert seen[0] > 0


def test_rows_made_in_a_number_of_one_s_own_are_scaled_to_the_released_total(
    dataset, make_draft, carry_out, certify, monkeypatch
):
    of = carry_out(make_draft(dataset, options={"rows": 20}, epsilon="0.8"))
    given = {}
    real = certificates._numbers
    monkeypatch.setattr(certificates, "_numbers", lambda *args: given.setdefault("numbers", real(*args)))
    certify(of)
    universe = Schema.from_json(of.result["receipt"]["schema"]).universe
    workload = read_question(of.result["receipt"]["workload"], universe)
    counted = workload.answer(files.synthetic_marginals(files.folder_of(of) / "synthetic.parquet", universe))
    total = of.result["receipt"]["total"]["estimate"]
    assert [each.sum() for each in counted[:2]] == [20, 20]
    for numbers, counts in zip(given["numbers"], counted, strict=True):
        assert numbers.tolist() == [round(count * total / 20) for count in counts]


@pytest.mark.parametrize(
    ("asked", "columns", "refused"),
    [
        # A count of its own makes no synthetic rows; beside a table they have not all the columns asked about.
        ([{"count": {"sex": ["male"]}}], [], "both"),
        ([{"marginal": ["age"]}, {"count": {"sex": ["male"]}}], ["age"], "synthetic rows"),
    ],
)
def test_only_what_a_release_has_is_certified(
    dataset, draft_of, certify, make_draft, carry_out, asked, columns, refused
):
    of = carry_out(make_draft(dataset, *asked, epsilon="0.5"))
    assert of.result["receipt"].get("synthetic_columns", []) == columns
    with pytest.raises(InvalidInput, match=f"what: '{refused}' must be one of released answers"):
        draft_of(of, what=refused)
    assert certify(of, what="").result["receipt"]["bound"]["says"].startswith("the largest error of the released")


def test_its_files_hold_the_one_number_and_nothing_of_the_release_s_files_is_changed(published, certify):
    def held():
        return {path.name: path.read_bytes() for path in files.folder_of(published).iterdir()}

    before = held()
    certificate = certify(published)
    assert held() == before
    assert not any(name.startswith("synthetic") for name in certificate.result["files"])
    (row,) = rows_of(certificate)
    receipt = json.loads((files.folder_of(certificate) / "receipt.json").read_text())
    assert row["lower"] == "0"
    assert float(row["upper"]) == receipt["notes"]["at most"]
    assert receipt["certifies"] == str(published.pk)
    named = receipt["workload"]["queries"][0]["largest_error"]["released"]
    assert named == {"synthetic rows": {"sha256": files.sha256_of(files.folder_of(published) / "synthetic.parquet")}}


# What it refuses


def change(release):
    """Change a file of a release; where it is."""
    path = files.folder_of(release) / "synthetic.parquet"
    path.write_bytes(path.read_bytes() + b"\0")
    return path


def test_a_file_that_was_changed_after_the_charge_stops_it_before_any_data_are_touched(
    published, certify, no_data, caplog, settings
):
    certificate = certify(published, run=False)
    change(published)
    for _ in range(settings.MAX_ATTEMPTS):
        assert not services.execution.execute_release(release_id=certificate.pk)
    failures = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert len(failures) == settings.MAX_ATTEMPTS
    assert all("FileChanged" in each for each in failures)  # and not the error of whoever opens the table
    certificate.refresh_from_db()
    assert certificate.status is ReleaseState.FAILED
    assert [entry.kind for entry in certificate.entries.order_by("sequence")] == ["charge", "return"]


def test_a_file_that_was_changed_before_the_charge_is_refused_without_one(published, draft_of, submit):
    draft = draft_of(published)
    path = change(published)
    with pytest.raises(services.release_inputs.Refusal, match="was changed since"):
        submit(draft)
    path.unlink()
    with pytest.raises(services.release_inputs.Refusal, match=r"synthetic\.parquet of the release is no longer there"):
        services.releases.plan_of(release=draft)
    assert draft.entries.count() == 0


def test_columns_that_were_declared_again_make_it_another_question(published, draft_of, submit):
    draft = draft_of(published)
    columns = [{**COLUMNS[0], "edges": [18, 30, 35, 45, 55, 65]}, COLUMNS[1]]
    services.datasets.declare_universe(dataset=published.dataset, columns=columns)
    with pytest.raises(services.release_inputs.Refusal, match="have changed since"):
        submit(Release.objects.get(pk=draft.pk))


def test_a_release_withdrawn_before_the_confirmation_is_certified_no_more(published, draft_of, alice, as_):
    draft = draft_of(published)
    services.releases.withdraw_release(release=published, by=alice)
    answer = as_(alice).get(link("confirm", draft), follow=True)
    assert answer.redirect_chain[-1][0] == link("release_detail", published)


def test_statistics_sessions_drafts_and_certificates_are_refused_with_the_reason(
    dataset, published, draft, make_dataset, make_draft, carry_out, certificate, close, draft_of, alice, as_
):
    median = make_draft(dataset, {"median": "age"}, epsilon="0.1", mechanism="exponential-quantile")
    other = make_dataset(content=CSV + b"one more,30,male\n")
    live = carry_out(services.sessions.draft_session(dataset=other, by=alice, title="", epsilon="0.4"))
    services.sessions.ask_session(session=live.session, query={"sex": ["female"]}, by=alice)
    close(live.session, by=alice)
    for of, reason in (
        (carry_out(median), "the error of a statistic is no number of rows"),
        (live, "A live session cannot be certified"),
        (certificate, "It is a certificate itself"),
        (draft, "Only a finished release can be certified; this one is draft."),
    ):
        with pytest.raises(services.release_inputs.Refusal, match=reason):
            draft_of(Release.objects.get(pk=of.pk))
        assert as_(alice).get(link("certify", of)).status_code == 302
        assert as_(alice).post(link("certify", of), ASKED).status_code == 302
    assert Release.objects.filter(certifies__isnull=False).count() == 1


def test_the_question_cannot_be_typed_nor_a_certificate_s_be_changed(draft, published, draft_of, alice, as_):
    certificate = draft_of(published)
    with pytest.raises(InvalidInput, match="own page"):
        services.releases.set_questions(release=draft, workload=certificate.workload)
    with pytest.raises(services.release_inputs.Refusal, match="A certificate asks for the error of one release"):
        services.releases.set_questions(release=certificate, workload=WORKLOAD)
    browser = as_(alice)
    held = Release.objects.get(pk=certificate.pk).workload
    browser.post(link("questions", certificate), {"action": "clear"})
    browser.post(link("compare", certificate), {**ASKED, "mechanism": "laplace-queries"})
    browser.post(link("load_plan", certificate), {})
    certificate.refresh_from_db()
    assert (certificate.workload, certificate.mechanism) == (held, "measured-error")


def test_it_stands_in_no_comparison_of_mechanisms(draft):
    plans = services.releases.compare(release=draft)
    assert "measured-error" not in {plan.mechanism for plan in plans}
    assert all(each.name != "measured-error" for each in comparison.other_mechanisms(plans))


# Who sees it


def test_buying_twice_is_allowed_and_every_line_of_the_ledger_is_named(published, certificate, certify, as_, alice):
    assert link("release_detail", certificate) in body(as_(alice).get(link("certify", published)))
    lines = [each.entries.get().sequence for each in (certificate, certify(published))]
    assert lines[1] == lines[0] + 1
    page = words(as_(alice).get(link("release_detail", published)))
    assert all(f"ledger line no. {line}" in page for line in lines)
    for name in ("receipt", "registry", "release_detail"):
        assert as_(alice).get(link(name, certificate)).status_code == 200


def test_a_certificate_is_shown_to_those_who_may_see_it_and_it_and_its_release_are_public_apart(
    public, certify, as_, alice, bob, charlie, sofia
):
    certificate = certify(public)

    def shows():
        return {
            who.username if who else "nobody": "Certified: at 95%"
            in words(as_(who).get(link("release_detail", public)))
            for who in (None, alice, bob, charlie, sofia)
        }

    assert shows() == {"nobody": False, "alice": True, "bob": True, "charlie": False, "sofia": False}
    assert "Certified afterwards" not in words(as_(None).get(link("receipt", public)))
    services.releases.make_public(release=certificate)
    assert all(shows().values())
    assert "Certified afterwards" in words(as_(None).get(link("receipt", public)))
    assert "Certify the quality" not in words(as_(charlie).get(link("release_detail", public)))
    services.releases.make_private(release=public)
    own = as_(None).get(link("release_detail", certificate))
    assert "The release it certifies is not public." in words(own)
    assert str(public.pk) not in body(own)


# Programs


def test_a_program_plans_submits_and_reads_a_certificate(published, client, alice):
    program = Program(client, alice)
    drafted = program.send("post", f"/releases/{published.pk}/certificates", {"epsilon": "0.1"})
    assert drafted.status_code == 201
    said = drafted.json()
    assert (said["certifies"], said["state"]) == (str(published.pk), "draft")
    submitted = program.send("post", f"/releases/{said['id']}/submit", {"key": str(uuid.uuid4())})
    assert submitted.status_code == 202
    assert services.execution.execute_release(release_id=said["id"])
    (listed,) = program.get(f"/releases/{published.pk}/receipt").json()["certificates"]
    assert (listed["release"], listed["epsilon"]) == (said["id"], "0.1")
    assert listed["sentence"].startswith("at 95% confidence the largest error")
    assert "measured-error" not in {each["name"] for each in program.get("/mechanisms").json()}


def test_a_program_is_told_what_is_wrong(published, client, alice):
    program, address = Program(client, alice), f"/releases/{published.pk}/certificates"
    wrong = program.send("post", address, {"epsilon": "0.1", "what": "rows"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "what")
    assert program.send("post", address, {"epsilon": "-1"}).status_code == 400
    services.releases.withdraw_release(release=published)
    gone = program.send("post", address, {"epsilon": "0.1"})
    assert gone.status_code == 409
    assert "withdrawn" in gone.json()["message"]
    assert not Release.objects.filter(certifies__isnull=False).exists()


def test_a_certificate_from_the_command_line(published, tmp_path, capsys):
    call_command("certify", str(published.pk), epsilon="0.1", out=tmp_path / "out")
    assert "the largest error of the synthetic rows over all 17 counts is at most" in capsys.readouterr().out
    written = {"answers.csv", "dictionary.csv", "receipt.json", "README.txt"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == written
    assert Release.objects.get(certifies=published).state == "published"
    with pytest.raises(CommandError, match="what: 'all' must be one of synthetic rows, released answers, both"):
        call_command("certify", str(published.pk), epsilon="0.1", what="all")
    with pytest.raises(CommandError, match="is not here"):
        call_command("certify", str(uuid.uuid4()), epsilon="0.1")
    with pytest.raises(SystemExit):
        call_command("certify", str(published.pk), epsilon="7")
    assert Release.objects.filter(certifies=published).count() == 1


def test_the_command_that_releases_refuses_it_before_anything_is_stored(tmp_path, db):
    described = {"version": 1, "columns": COLUMNS, "neighbours": "add_remove", "unit": {"kind": "row"}}
    schema, workload = write_json(tmp_path / "schema.json", described), write_json(tmp_path / "asked.json", WORKLOAD)
    given = {"table": schema, "schema": schema, "workload": workload, "out": tmp_path / "out"}
    with pytest.raises(CommandError, match=r"certifies a published release; see manage\.py certify"):
        call_command("release", mechanism="measured-error", epsilon="1", **given)
    assert not Release.objects.exists()


# Making it public with its release


def test_certificates_are_made_public_together_with_their_release_as_far_as_ticked_and_nothing_else_is(
    published, certify, make_draft, carry_out, as_, alice
):
    told, kept = certify(published, what="synthetic rows"), certify(published, what="released answers")
    other = carry_out(make_draft(published.dataset, epsilon="0.5"))
    asked = as_(alice).get(link("visibility", published))
    for each in (told, kept):
        assert f'name="certificates" value="{each.pk}" checked' in body(asked)
    ticked = {"public": "yes", "certificates": [str(told.pk), str(other.pk), "nonsense"]}
    as_(alice).post(link("visibility", published), ticked)
    assert set(Release.objects.filter(is_public=True)) == {published, told}
    shown = body(as_(None).get(link("release_detail", published)))
    assert link("release_detail", told) in shown
    assert link("release_detail", kept) not in shown
