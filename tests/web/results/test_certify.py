"""Certifying a published release: planned, confirmed, charged, measured, shown beside it to those who may see both."""

import json
import re
import uuid
from collections import Counter
from fractions import Fraction
from math import ceil

import pytest
from django.core.management import CommandError, call_command

from releases import services
from releases.engine.accounting import accountant
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.ledger import high_water_marks, verification
from releases.models import Budget, LedgerEntry, Organisation, Release, ReleaseState
from releases.presentation.results.closer import RowsAreCloser
from releases.publication import files
from releases.services import release_inputs
from releases.views.results.certificates import address_of_certificate
from tests.web.conftest import CSV, WORKLOAD, rows_of
from tests.web.pages import body, field_value, link, words
from tests.web.public.test_api import Program

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


def test_the_page_drafts_what_is_confirmed_like_any_release_and_refuses_what_is_wrong(published, as_, alice, unread):
    browser, address = as_(alice), link("certify", published)
    for wrong in ({"epsilon": "much"}, {"what": "the truth"}):
        assert browser.post(address, ASKED | wrong).status_code == 400
    assert not Release.objects.filter(certifies=published).exists()
    drafted = browser.post(address, ASKED)
    draft = Release.objects.get(certifies=published)
    assert drafted.url == link("confirm", draft)
    confirm = browser.get(drafted.url)
    assert draft.entries.count() == 0
    browser.post(drafted.url, {name: field_value(confirm, name) for name in ("key", "plan", "title")})
    draft.refresh_from_db()
    assert draft.status is ReleaseState.QUEUED


# What it costs


def test_it_is_charged_exactly_its_epsilon_on_a_line_of_its_own_and_with_a_delta_no_more(published, certify):
    certificate = certify(published)
    entry = LedgerEntry.objects.get(release=certificate)
    assert entry.sequence == LedgerEntry.objects.get(release=published).sequence + 1
    assert entry.epsilon == EPSILON * 5 // 100
    (event,) = plan_from_json(certificate.plan).events
    assert entry.detail["events"] == [event.to_json()]
    assert not list(verification.verify(Budget.objects.get(pk=published.dataset.budget_id)))
    entry = LedgerEntry.objects.get(release=certify(published, delta="0.0000001"))
    assert entry.detail["events"][0]["kind"] == "discrete_gaussian"
    assert 0 < entry.detail["price"]["epsilon"] <= EPSILON * 5 // 100


def test_a_certificate_that_a_reviewer_approves_for_less_stays_one_and_is_charged_that_much(
    published, draft_of, submit, sofia
):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.01")
    draft = draft_of(published)
    assert submit(draft) is None
    services.reviews.approve_release(request=draft.reviews.get(), by=sofia, send=False, epsilon="0.02")
    draft.refresh_from_db()
    assert (draft.status, draft.certifies, draft.epsilon) == (ReleaseState.DRAFT, published, "0.02")
    assert submit(draft).epsilon == EPSILON * 2 // 100
    assert services.execution.execute_release(release_id=draft.pk)


# Several of them


def test_each_certificate_of_a_release_is_less_likely_to_fail_so_that_all_hold_together(published, certify, as_, alice):
    first = certify(published)
    assert "its noise may add more than if it were the only one: this one has 1 part in 6" in words(
        as_(alice).get(link("certify", published), ASKED)
    )
    second = certify(published)
    plans = [plan_from_json(each.plan) for each in (first, second)]
    assert [each.options["number"] for each in plans] == [1, 2]
    assert [each.certificate.beta for each in plans] == [Fraction(1, 40), Fraction(1, 120)]
    assert [each.result["receipt"]["bound"]["beta"] for each in (first, second)] == ["1/20", "1/20"]
    page = words(as_(alice).get(link("release_detail", published)))
    assert "Certificates of one release hold together" in page
    assert "it holds by itself, not" not in page


def test_two_that_were_planned_as_the_same_one_are_not_both_charged(published, draft_of, submit, carry_out, bob, alice):
    one = draft_of(published)
    other = services.certificates.draft_certificate(of=published, by=bob, **ASKED)
    assert {each.options["measured-error"]["number"] for each in (one, other)} == {1}
    submit(one)
    spent = Budget.objects.get(pk=published.dataset.budget_id).totals
    with pytest.raises(release_inputs.Refusal, match="Plan it again"):
        submit(other)
    assert Budget.objects.get(pk=published.dataset.budget_id).totals == spent
    other.refresh_from_db()
    assert other.status is ReleaseState.DRAFT
    again = services.certificates.draft_certificate(of=published, by=bob, **ASKED)
    assert (again.pk, again.options["measured-error"]["number"]) == (other.pk, 2)
    submit(again)
    # One that was cancelled keeps its number.
    services.releases.cancel_release(release=again, by=alice)
    assert draft_of(published).options["measured-error"]["number"] == 3


def test_a_number_that_a_restored_backup_has_forgotten_is_not_given_again(published, certify, make_draft, carry_out):
    other = carry_out(make_draft(published.dataset, epsilon="0.5"))
    forgotten = certify(published)
    assert forgotten.options["measured-error"]["number"] == 1
    # As in a database from before it was submitted, after a reviewer has looked at it.
    Release.objects.filter(pk=forgotten.pk).update(state="draft")
    asked = {name: value for name, value in ASKED.items() if name != "what"}
    for of, number in ((published, 2), (other, 1)):
        plan = services.certificates.plan_certificate(of=of, **asked)
        assert plan.options["number"] == number
    with pytest.raises(release_inputs.Refusal, match="Plan it again"):
        release_inputs.refuse_taken_number(Release(certifies=published), plan)


def test_one_whose_number_somebody_took_away_is_refused_and_one_of_before_says_that_it_holds_by_itself(
    published, draft_of, certify, submit, as_, alice, monkeypatch
):
    with monkeypatch.context() as before:
        before.setattr(high_water_marks, "note_certificate", lambda *_: None)
        old = certify(published)
    receipt = dict(old.result["receipt"])
    receipt["mechanism"] = {**receipt["mechanism"], "options": {}}
    Release.objects.filter(pk=old.pk).change(result={**old.result, "receipt": receipt}, options={})
    assert "it holds by itself, not together" in words(as_(alice).get(link("release_detail", published)))
    draft = draft_of(published)
    assert draft.options["measured-error"]["number"] == 1
    Release.objects.filter(pk=draft.pk).change(options={"measured-error": {"number": 0}})
    draft.refresh_from_db()
    with pytest.raises(release_inputs.Refusal, match="Plan it again"):
        submit(draft)


# What is measured


def exact_errors(of, rows_asked=0):
    """The largest error of the synthetic rows and of the answers, from the files and the rows, counted apart. Rows in a
    number of one's own count as if they were as many as the released total."""
    people = [(18 + (i * 7) % 48, "female" if i % 3 else "male") for i in range(200)]
    rows = [(int(row["age"]), row["sex"]) for row in rows_of(of, "synthetic.csv")]
    total = of.result["receipt"]["total"]["estimate"]

    def met(age, sex, row):
        label = row["age"]
        low, high = map(int, label.split(" to ")) if label else (18, 65)
        return low <= age <= high and row["sex"] in ("", sex)

    synthetic = answered = 0.0
    for row in rows_of(of):
        true, made = (sum(met(age, sex, row) for age, sex in table) for table in (people, rows))
        made = round(made * total / rows_asked) if rows_asked else made
        synthetic = max(synthetic, abs(true - made))
        answered = max(answered, abs(true - float(row["estimate"])))
    return {"synthetic rows": synthetic, "released answers": answered, "both": max(synthetic, answered)}


@pytest.mark.parametrize(
    ("what", "rows"),
    [*((each, 0) for each in release_inputs.CERTIFIABLE), ("synthetic rows", 20)],
)
def test_what_noise_is_added_to_is_the_largest_error_of_the_published_files(
    dataset, make_draft, carry_out, certify, what, rows, monkeypatch
):
    of = carry_out(make_draft(dataset, epsilon="0.8", **({"options": {"rows": rows}} if rows else {})))
    seen = []
    monkeypatch.setattr(
        "releases.engine.mechanisms.error_certificate.Certificate.measured",
        lambda self, largest, rng: seen.append(largest) or largest,
    )
    certify(of, what=what)
    assert seen == [-(-exact_errors(of, rows)[what] // 1)]
    assert seen[0] > 0


def tables_of(of, names):
    """Of every table over these columns, for the synthetic rows of the file and for the people, the counts by cell."""
    people = [{"age": 18 + (i * 7) % 48, "sex": "female" if i % 3 else "male"} for i in range(200)]
    rows = rows_of(of, "synthetic.csv")
    edges = [18, 25, 35, 45, 55, 65]

    def cell(row):
        place = min(sum(int(row["age"]) >= edge for edge in edges), len(edges) - 1)
        return tuple({"age": place, "sex": row["sex"]}[name] for name in names)

    return Counter(map(cell, rows)), Counter(map(cell, people)), len(rows)


def rows_away(one, other, scale=1):
    """How many rows must be changed, added or removed: half of all differences, and half of what they add up to."""
    off = [one[cell] * scale - other[cell] for cell in {*one, *other}]
    return (sum(map(abs, off)) + abs(sum(off))) / 2


@pytest.mark.parametrize("rows", [0, 20])
def test_mean_errors_are_of_the_published_rows_in_every_table_of_their_columns(
    dataset, make_draft, carry_out, certify, rows, monkeypatch
):
    of = carry_out(make_draft(dataset, epsilon="0.8", **({"options": {"rows": rows}} if rows else {})))
    seen = []
    monkeypatch.setattr(
        "releases.engine.mechanisms.error_certificate.Certificate.measured",
        lambda self, found, rng: seen.append(found) or found,
    )
    certificate = certify(of, epsilon="0.5", means=["asked", "pairs"])
    total = round(of.result["receipt"]["total"]["estimate"])
    found = {}
    for names in (("age",), ("sex",), ("age", "sex")):
        made, true, number = tables_of(of, names)
        found[names] = rows_away(made, true, Fraction(total, number) if rows else 1)
    assert seen[1:] == [ceil(sum(found.values())), ceil(found["age", "sex"])]
    said = certificate.result["receipt"]["notes"]["mean errors"]
    assert [each["tables"] for each in said.values()] == [3, 1]
    assert [row["of"] for row in rows_of(certificate)] == ["largest error", "mean error", "mean error"]
    for row, each in zip(rows_of(certificate)[1:], said.values(), strict=True):
        assert float(row["upper"]) == pytest.approx(each["at most"], abs=0.011)
        assert float(row["upper"]) >= each["at most"]


def test_the_receipt_says_how_far_rows_and_released_counts_are_apart(published):
    apart = []
    for names in (("age",), ("sex",), ("age", "sex")):
        made, _, _ = tables_of(published, names)
        labels = {}
        for row in rows_of(published):
            if {name for name in ("age", "sex") if row[name]} == set(names):
                cell = {"age": int(row["age"].split(" to ")[0]) if row["age"] else None, "sex": row["sex"]}
                place = sum((cell["age"] or 0) >= edge for edge in [18, 25, 35, 45, 55, 65])
                labels[tuple({"age": place, "sex": cell["sex"]}[name] for name in names)] = float(row["estimate"])
        apart.append(rows_away(made, Counter(labels)))
    said = published.result["receipt"]["synthetic_beside"]["mean_distance"]
    assert said <= sum(apart) / 3 <= said + 0.011


def test_mean_errors_are_offered_and_planned_and_those_that_cannot_be_are_refused_with_the_reason(
    published, draft_of, as_, alice, unread
):
    browser, address = as_(alice), link("certify", published)
    shown = words(browser.get(address))
    assert "All pairs of columns" in shown
    assert "All sets of three columns: needs 3 columns, and there are 2." in shown
    planned = words(browser.get(address, ASKED | {"means": ["asked", "pairs"]}))
    assert "the mean error of the synthetic rows over all 3 tables asked about is at most … rows" in planned
    assert "the mean error of the synthetic rows over the one pair of columns is at most … rows" in planned
    for means, rule in ((["triples"], "needs 3 columns"), (["all"], "must be one of asked, pairs, triples")):
        with pytest.raises(InvalidInput, match=rule):
            draft_of(published, means=means)
    with pytest.raises(InvalidInput, match="must be one of asked"):
        draft_of(published, what="released answers", means=["pairs"])
    browser.post(address, ASKED | {"means": ["asked", "pairs"]})
    draft = Release.objects.get(certifies=published)
    assert len(draft.workload["queries"][0]["largest_error"]["means"]) == 2
    again = browser.get(address_of_certificate(draft))
    assert body(again).count("checked") >= 3


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
    of = carry_out(make_draft(dataset, *asked, epsilon="0.5", options={"rows_counted": "same"}))
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
    receipt = json.loads((files.folder_of(certificate) / "receipt.json").read_text())
    ((lower, upper),) = [(row["lower"], row["upper"]) for row in rows_of(certificate)]
    assert (lower, float(upper), receipt["certifies"]) == ("0", receipt["notes"]["at most"], str(published.pk))
    named = receipt["workload"]["queries"][0]["largest_error"]["released"]
    assert named == {"synthetic rows": {"sha256": files.sha256_of(files.folder_of(published) / "synthetic.parquet")}}


# What it refuses


def change(release):
    """Change a file of a release; where it is."""
    path = files.folder_of(release) / "synthetic.parquet"
    path.write_bytes(path.read_bytes() + b"\0")
    return path


def test_a_file_that_was_changed_after_the_charge_stops_it_before_any_data_are_touched(
    published, certify, unread, until_it_ends, caplog, settings
):
    certificate = certify(published, run=False)
    change(published)
    assert until_it_ends(certificate).status is ReleaseState.FAILED
    failures = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert len(failures) == settings.MAX_ATTEMPTS
    assert all("FileChanged" in each for each in failures)  # and not the error of whoever opens the table
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


def test_statistics_sessions_drafts_and_certificates_are_refused_with_the_reason(
    dataset, published, draft, make_dataset, make_draft, carry_out, certify, close, draft_of, alice, as_
):
    certificate = certify(published)
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
    certificate.refresh_from_db()
    assert (certificate.workload, certificate.mechanism) == (held, "measured-error")


# Who sees it


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
    assert program.get(f"/releases/{published.pk}/receipt").json()["synthetic_rows_are_closer"] == ""
    asked = {"epsilon": "0.1", "means": ["pairs", "asked"]}
    again = program.send("post", f"/releases/{published.pk}/certificates", asked).json()
    assert Release.objects.get(pk=again["id"]).workload["queries"][0]["largest_error"]["means"] == ["asked", "pairs"]
    assert "measured-error" not in {each["name"] for each in program.get("/mechanisms").json()}


def test_a_certificate_from_the_command_line(published, tmp_path, capsys):
    call_command("certify", str(published.pk), epsilon="0.1", out=tmp_path / "out")
    assert "the largest error of the synthetic rows over all 17 counts is at most" in capsys.readouterr().out
    written = {"answers.csv", "dictionary.csv", "receipt.json", "README.txt"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == written
    assert Release.objects.get(certifies=published).state == "published"
    with pytest.raises(CommandError, match="what: 'all' must be one of synthetic rows, released answers, both"):
        call_command("certify", str(published.pk), epsilon="0.1", what="all")
    assert Release.objects.filter(certifies=published).count() == 1


# Beside the released counts


def test_where_the_rows_are_proved_to_be_closer_the_page_says_so_and_shows_their_counts_first(
    published, certify, as_, alice, monkeypatch
):
    def is_first(response):
        shown = body(response)
        return re.search(r">\s*Synthetic\s*<", shown).start() < re.search(r">\s*Released count\s*<", shown).start()

    certify(published, means=["asked"])
    page = link("release_detail", published)
    assert not is_first(as_(alice).get(page))
    given = []

    def proved(receipt, certificates):
        given.extend([receipt["release"], *(each["certifies"] for each in certificates)])
        return RowsAreCloser(sentence="So it is.", worst="")

    monkeypatch.setattr("releases.views.results.certificates.rows_are_closer", proved)
    shown = as_(alice).get(page)
    assert given == [str(published.pk)] * 2
    assert is_first(shown)
    assert "The synthetic rows are closer to the truth. So it is." in words(shown)
    synthetic = rows_of(published, "synthetic.csv")
    (first,) = re.findall(r'<td>18 to 24</td>\s*<td class="number not-on-phones">\s*([\d,]+)', body(shown))
    assert int(first) == sum(18 <= int(row["age"]) < 25 for row in synthetic)


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
