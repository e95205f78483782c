"""After a restored backup: protective decisions that the database has forgotten, made again.

What can be taken back on its own page is made again at once, before a reviewer has looked: nobody whose account was
closed signs in, and nothing that was withdrawn is shown. What is final waits for the reviewer, who sees all of them and
may leave some of these out; what is not left out is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allauth.mfa.models import Authenticator
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session as SignIn
from django.db import transaction
from django.db.models import Model
from django.utils import timezone

from releases.ledger import audit_log, decisions, record
from releases.ledger.decisions import Decision
from releases.ledger.refusals import LedgerRefusal
from releases.models import (
    ApiToken,
    AuditAction,
    Budget,
    BudgetRequest,
    Dataset,
    HeldRole,
    Installation,
    Organisation,
    RegisteredConnection,
    Release,
    ReleaseRequest,
    ReleaseState,
    RequestState,
    SavedWorkload,
    Session,
    Survey,
)
from releases.models.surveys import SurveyState
from releases.services import session_closing
from releases.services.datasets import Kept, delete_rows, discard_dataset
from releases.services.release_inputs import Refusal
from releases.services.surveys import close_survey

if TYPE_CHECKING:
    from typing import TypeAlias

#: Makes a decision again; returns whether it was not in force.
Way: TypeAlias = "Callable[[Decision], bool]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """How a decision is made again.

    Attributes:
        at_once: before a reviewer has looked; None where that could not be taken back.
        later: with the reviewer's act.
    """

    at_once: Way | None = None
    later: Way | None = None


def notice_restored() -> bool:
    """Once after a restored backup: end all sign-ins and tokens, and make again what can be taken back. Returns whether
    that was done now."""
    found = record.look()
    if found.own.has_ended_sign_ins or not (found.is_restored or found.own.restored_at is not None):
        return False
    with transaction.atomic():
        own = Installation.objects.select_for_update().get(pk=found.own.pk)
        if own.has_ended_sign_ins:
            return False
        ended = ApiToken.objects.count()
        ApiToken.objects.all().delete()
        SignIn.objects.all().delete()
        said = [f"all sign-ins and {ended:,} tokens ended"]
        forgotten = forgotten_decisions(own) if found.is_restored else []
        said += [each.in_words for each in forgotten if _is_made_at_once(each)]
        own.restored_at, own.has_ended_sign_ins = own.restored_at or timezone.now(), True
        own.save(update_fields=["restored_at", "has_ended_sign_ins"])
        audit_log.record(AuditAction.RESTORE, actor=None, on=own, detail="; ".join(said))
    return True


def forgotten_decisions(own: Installation) -> list[Decision]:
    """The decisions that a restored database does not know."""
    return decisions.after(own.number)


def waits_for_a_reviewer(decision: Decision) -> bool:
    """Whether a decision is only made again with a reviewer's act."""
    return WAYS[decision.action].later is not None


def make_again(chosen: list[Decision]) -> list[str]:
    """Make these decisions again, and say what came of each that could not be. Not in the name of the reviewer who
    lets that happen: it gives nobody a stake."""
    problems = []
    for each in chosen:
        for way in (WAYS[each.action].at_once, WAYS[each.action].later):
            try:
                with transaction.atomic():
                    if way is not None:
                        way(each)
            except (Kept, Refusal, LedgerRefusal) as error:
                problems.append(f"Not {each.in_words}: {error}")
    return problems


def subjects(left_out: list[Decision]) -> list[Model]:
    """What these decisions are about, of what somebody can have a stake in."""
    models = (Budget, BudgetRequest, Dataset, Release, ReleaseRequest, Session)
    return [found for each in left_out if (found := _row(each, *models)) is not None]


def _is_made_at_once(decision: Decision) -> bool:
    way = WAYS[decision.action].at_once
    return way is not None and way(decision)


def _row(decision: Decision, *models: type[Model]) -> Any:
    """To what a decision was made, where the database has it still. A person has the same name too: another may have
    got the number since."""
    model = next((each for each in models if each._meta.label == decision.model), None)
    if model is None or decision.model not in {each._meta.label for each in apps.get_models()}:
        return None
    found = model._default_manager.filter(pk=decision.object).first()
    return found if found is None or model is not User or str(found)[:200] == decision.name else None


def _group(facts: Mapping[str, Any]) -> Group | None:
    return Group.objects.filter(pk=facts["group"], name=facts["group_name"]).first()


def _with_all_sign_ins(_decision: Decision) -> bool:
    return False


def _forget_password(decision: Decision) -> bool:
    if (person := _row(decision, User)) is None:
        return False
    person.set_unusable_password()
    person.save(update_fields=["password"])
    return True


def _remove_factor(decision: Decision) -> bool:
    person = _row(decision, User)
    factors = Authenticator.objects.filter(user=person, type=decision.facts["factor"])
    return person is not None and bool(factors.delete()[0])


def _close_account(decision: Decision) -> bool:
    person = _row(decision, User)
    return person is not None and bool(User.objects.filter(pk=person.pk, is_active=True).update(is_active=False))


def _leave_group(decision: Decision) -> bool:
    person, group = _row(decision, User), _group(decision.facts)
    if person is None or group is None:
        return False
    return bool(User.groups.through.objects.filter(user_id=person.pk, group_id=group.pk).delete()[0])


def _take_role(decision: Decision) -> bool:
    person = _row(decision, User)
    held = HeldRole.objects.filter(person=person, role=decision.facts["role"])
    return person is not None and bool(held.delete()[0])


def _share_with_fewer(decision: Decision) -> bool:
    if (shared := _row(decision, Dataset, SavedWorkload, Session)) is None:
        return False
    if isinstance(shared, Session):
        shared.audience = decision.facts["audience"]
        shared.save(update_fields=["audience"])
    else:
        shared.group = _group(decision.facts)
        shared.save(update_fields=["group"])
    return True


def _hide(decision: Decision) -> bool:
    shown = _row(decision, Release, Survey)
    public = type(shown)._default_manager.filter(pk=shown.pk, is_public=True) if shown is not None else None
    return public is not None and bool(public.update(is_public=False))


def _withdraw(decision: Decision) -> bool:
    if (release := _row(decision, Release)) is None:
        return False
    published = Release.objects.filter(pk=release.pk, state=ReleaseState.PUBLISHED)
    return bool(published.update(state=ReleaseState.WITHDRAWN, is_public=False, withdrawn_at=decision.at))


def _freeze(decision: Decision) -> bool:
    if (budget := _row(decision, Budget)) is None:
        return False
    free = Budget.objects.filter(pk=budget.pk, is_frozen=False)
    return bool(free.update(is_frozen=True, frozen_reason=decision.detail))


def _remove_connection(decision: Decision) -> bool:
    connection = _row(decision, RegisteredConnection)
    return connection is not None and bool(connection.delete()[0])


def _delete_rows(decision: Decision) -> bool:
    dataset = _row(decision, Dataset)
    if dataset is not None and dataset.rows_deleted_at is None:
        delete_rows(dataset=dataset)
    return dataset is not None


def _discard_table(decision: Decision) -> bool:
    if (dataset := _row(decision, Dataset)) is not None:
        discard_dataset(dataset=dataset)
    return dataset is not None


def _take_back(decision: Decision) -> bool:
    release = _row(decision, Release)
    if release is not None:
        asked = release.reviews.filter(state=RequestState.WAITING).update(state=RequestState.TAKEN_BACK)
        back = Release.objects.filter(pk=release.pk, state=ReleaseState.REVIEW)
        return bool(asked) and bool(back.change(state=ReleaseState.DRAFT, plan=None))
    return _end_request(decision, RequestState.TAKEN_BACK, ReleaseState.DRAFT)


def _deny(decision: Decision) -> bool:
    return _end_request(decision, RequestState.DENIED, ReleaseState.CANCELLED)


def _ask_back(decision: Decision) -> bool:
    return _end_request(decision, RequestState.ASKED_BACK, ReleaseState.DRAFT)


def _end_request(decision: Decision, state: RequestState, becomes: ReleaseState) -> bool:
    if (asked := _row(decision, BudgetRequest, ReleaseRequest)) is None:
        return False
    decided = {"decided_by_id": decision.by, "decided_at": decision.at, "note": decision.detail}
    decided = {} if state is RequestState.TAKEN_BACK else decided
    waiting = type(asked)._default_manager.filter(pk=asked.pk, state=RequestState.WAITING)
    if not waiting.update(state=state, **decided):
        return False
    if isinstance(asked, ReleaseRequest):
        kept = {} if becomes is ReleaseState.CANCELLED else {"plan": None}
        Release.objects.filter(pk=asked.release_id, state=ReleaseState.REVIEW).change(state=becomes, **kept)
    return True


def _close_session(decision: Decision) -> bool:
    release = _row(decision, Release)
    if release is None or release.status is not ReleaseState.OPEN:
        return False
    session_closing.close_session(session=release.session)
    return True


def _close_survey(decision: Decision) -> bool:
    survey = _row(decision, Survey)
    if survey is None or survey.status is not SurveyState.OPEN:
        return False
    close_survey(survey=survey, by=None)
    return True


def _set(decision: Decision) -> bool:
    current = Organisation.current()
    name, value = decision.facts["setting"], decision.facts["value"]
    setattr(current, "reviewers_id" if name == "reviewers" else name, value)
    if name == "reviewers" and value is not None and not Group.objects.filter(pk=value).exists():
        return False
    current.save()
    return True


#: How each protective decision is made again (see `decisions.PROTECTS`).
WAYS: Mapping[AuditAction, Again] = {
    AuditAction.SIGN_OUT: Again(at_once=_with_all_sign_ins),
    AuditAction.REVOKE_TOKEN: Again(at_once=_with_all_sign_ins),
    AuditAction.PASSWORD: Again(later=_forget_password),
    AuditAction.REMOVE_FACTOR: Again(at_once=_remove_factor),
    AuditAction.CLOSE_ACCOUNT: Again(at_once=_close_account),
    AuditAction.LEAVE_GROUP: Again(at_once=_leave_group),
    AuditAction.TAKE_ROLE: Again(at_once=_take_role),
    AuditAction.UNSHARE: Again(at_once=_share_with_fewer),
    AuditAction.MAKE_PRIVATE: Again(at_once=_hide),
    AuditAction.WITHDRAW: Again(at_once=_hide, later=_withdraw),
    AuditAction.FREEZE: Again(at_once=_freeze),
    AuditAction.REMOVE_CONNECTION: Again(at_once=_remove_connection),
    AuditAction.DISCARD_TABLE: Again(later=_discard_table),
    AuditAction.DELETE_ROWS: Again(later=_delete_rows),
    AuditAction.TAKE_BACK: Again(later=_take_back),
    AuditAction.DENY: Again(later=_deny),
    AuditAction.ASK_BACK: Again(later=_ask_back),
    AuditAction.CLOSE: Again(later=_close_session),
    AuditAction.CLOSE_SURVEY: Again(later=_close_survey),
    AuditAction.SETTINGS: Again(later=_set),
}
