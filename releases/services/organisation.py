"""The organisation's settings, and the verification that its reviewers ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from releases.engine.domain.privacy import LARGEST_EPSILON, exact
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log, high_water_marks, stale_ledger, verification
from releases.models import AuditAction, Budget, Organisation, Release, Session

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: How the outcome of a verification that found nothing ends.
NO_FAULT = "no fault"
#: What a page may ask people to upload at all.
MIN_CAP_BYTES, MAX_CAP_BYTES = 2**20, 2**40
#: Faults named in the audit log; all of them stand on each budget's page.
_MAX_FAULTS_NAMED = 20


@transaction.atomic
def change_settings(
    *,
    by: User | None,
    upload_cap_bytes: int,
    default_epsilon: str,
    review_above: str,
    most_per_person: str,
    is_two_person: bool,
    reviewers: Group | None,
    alert_addresses: str,
) -> Organisation:
    """Set what the organisation has decided. Each change is an event of the audit log, with old and new.

    Raises:
        InvalidInput: a value breaks its rule; nothing is changed.
    """
    if not MIN_CAP_BYTES <= upload_cap_bytes <= MAX_CAP_BYTES:
        raise InvalidInput("upload_cap", upload_cap_bytes // 2**20, "must be from 1 to 1,048,576 MB")
    _check_epsilon("default_epsilon", default_epsilon)
    _check_epsilon("review_above", review_above, zero_too=True)
    _check_per_cent("most_per_person", most_per_person)
    if reviewers is not None and not _number_of_reviewers(reviewers):
        raise InvalidInput("reviewers", reviewers.name, "must have a member who is a reviewer, or nobody could decide")
    if is_two_person and _number_of_reviewers(reviewers) < 2:
        raise InvalidInput("is_two_person", "on", "needs at least two people who may review")
    addresses = _addresses(alert_addresses)
    current = Organisation.current()
    given: dict[str, Any] = {
        "upload_cap_bytes": upload_cap_bytes,
        "default_epsilon": default_epsilon.strip(),
        "review_above": review_above.strip(),
        "most_per_person": most_per_person.strip(),
        "is_two_person": is_two_person,
        "reviewers": reviewers,
        "alert_addresses": "\n".join(addresses),
    }
    for name, value in given.items():
        if getattr(current, name) != value:
            old, new = _said(name, getattr(current, name)), _said(name, value)
            stored = value.pk if isinstance(value, Group) else value
            facts = {"setting": name, "value": stored, "of": f"setting {name}"}
            said = f"{_NAMES[name]}: {old} to {new}"
            audit_log.record(AuditAction.SETTINGS, actor=by, on=current, detail=said, facts=facts)
        setattr(current, name, value)
    current.save()
    return current


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What a verification of the whole ledger found."""

    budgets: int
    entries: int
    faults: tuple[verification.Fault, ...]

    @property
    def in_words(self) -> str:
        looked_at = f"{self.entries:,} entries of {self.budgets:,} budgets"
        if not self.faults:
            return f"{looked_at}: {NO_FAULT}"
        named = " ".join(
            f"{fault.budget}{f', no. {fault.sequence}' if fault.sequence else ''}: {fault.what}."
            for fault in self.faults[:_MAX_FAULTS_NAMED]
        )
        return f"{looked_at}: {len(self.faults):,} fault{'' if len(self.faults) == 1 else 's'}. {named}"


def verify_ledgers(*, by: User | None) -> Verified:
    """Verify every budget's ledger from its entries alone, and that the database knows all that is remembered outside
    it; note the outcome in the audit log.

    Each budget is locked while it is looked at, and none longer: a charge in between would look like a fault.
    """
    faults = [
        verification.Fault(budget="All budgets", sequence=None, what=what) for what in stale_ledger.installation()
    ]
    faults += _releases_that_had_gone_further()
    budgets = entries = 0
    for budget_id in list(Budget.objects.order_by("created_at").values_list("pk", flat=True)):
        with transaction.atomic():
            budget = Budget.objects.select_for_update().get(pk=budget_id)
            faults += verification.verify(budget)
            entries += budget.entries.count()
        budgets += 1
    verified = Verified(budgets=budgets, entries=entries, faults=tuple(faults))
    audit_log.record(AuditAction.VERIFY, actor=by, detail=verified.in_words)
    return verified


def _releases_that_had_gone_further() -> list[verification.Fault]:
    """Each is looked at again under its lock: what is remembered before its commit would look like a fault."""
    found = []
    names = stale_ledger.with_results()
    unsettled = Release.objects.filter(state__in=stale_ledger.UNSETTLED).values_list("pk", flat=True)
    for release_id in sorted({*high_water_marks.told(), *(pk for pk in unsettled if str(pk) in names)}):
        if not stale_ledger.release(release_id):
            continue
        with transaction.atomic():
            Session.objects.select_for_update().filter(release=release_id).first()
            release = (
                Release.objects.select_for_update(of=("self",)).select_related("dataset__budget").get(pk=release_id)
            )
            if what := stale_ledger.release(release_id):
                name = release.dataset.budget.name if release.dataset.budget is not None else release.dataset.title
                found.append(
                    verification.Fault(budget=name, sequence=None, what=f"the release {release.title}: {what}")
                )
    return found


_NAMES = {
    "upload_cap_bytes": "upload cap",
    "default_epsilon": "epsilon suggested for a budget",
    "review_above": "review of releases above epsilon",
    "most_per_person": "most of one budget that one person may spend",
    "is_two_person": "two-person rule",
    "reviewers": "who may decide",
    "alert_addresses": "alert addresses",
}


def _said(name: str, value: Any) -> str:
    if name == "upload_cap_bytes":
        return f"{value / 2**20:,.0f} MB"
    if name == "most_per_person":
        return f"{value}%" if value else "no limit"
    if name == "is_two_person":
        return "on" if value else "off"
    if name == "reviewers":
        return str(value) if value else "all reviewers"
    return ", ".join(str(value).split()) or "none"


def _check_epsilon(field: str, text: str, *, zero_too: bool = False) -> None:
    """Empty, or an epsilon; a threshold may be 0: everything is reviewed then."""
    if not text.strip():
        return
    value = exact(text, field=field)
    if not 0 <= value <= LARGEST_EPSILON or (value == 0 and not zero_too):
        rule = "at least 0" if zero_too else "above 0"
        raise InvalidInput(field, text, f"must be {rule} and at most {LARGEST_EPSILON}, or empty")


def _check_per_cent(field: str, text: str) -> None:
    """Empty, or a share that lets people spend at all."""
    if text.strip() and not 0 < exact(text, field=field) <= 100:
        raise InvalidInput(field, text, "must be above 0 and at most 100, or empty")


def _number_of_reviewers(reviewers: Group | None) -> int:
    return Organisation(reviewers=reviewers).deciders.count()


def _addresses(text: str) -> list[str]:
    addresses = [part for part in re.split(r"[\s,;]+", text) if part]
    for address in addresses:
        try:
            validate_email(address)
        except ValidationError:
            raise InvalidInput("alert_addresses", address, "must be an e-mail address") from None
    return addresses
