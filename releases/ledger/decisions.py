"""Which events of the audit log protect somebody, and are therefore remembered outside the database as charges are.

Every action is in exactly one of three classes; an action that is in none cannot be recorded:

    PROTECTS   takes something from somebody, hides, stops or deletes: an older database must not revive it
    UNDOES     takes such a decision back, so that it is not made again after it
    NEITHER    gives or makes something, or is remembered otherwise; each with the reason

What undoes another names the same subject: the object, or what `facts` say under `of`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from releases.ledger import chain, record
from releases.models import AuditAction, AuditEvent

logger = logging.getLogger(__name__)

PROTECTS = frozenset(
    {
        AuditAction.SIGN_OUT,
        AuditAction.PASSWORD,
        AuditAction.REMOVE_FACTOR,
        AuditAction.REVOKE_TOKEN,
        AuditAction.CLOSE_ACCOUNT,
        AuditAction.LEAVE_GROUP,
        AuditAction.TAKE_ROLE,
        AuditAction.UNSHARE,
        AuditAction.DISCARD_TABLE,
        AuditAction.DELETE_ROWS,
        AuditAction.TAKE_BACK,
        AuditAction.DENY,
        AuditAction.ASK_BACK,
        AuditAction.CLOSE,
        AuditAction.CLOSE_SURVEY,
        AuditAction.MAKE_PRIVATE,
        AuditAction.WITHDRAW,
        AuditAction.FREEZE,
        AuditAction.REMOVE_CONNECTION,
        AuditAction.SETTINGS,
    }
)
UNDOES: Mapping[AuditAction, AuditAction] = {
    AuditAction.OPEN_ACCOUNT: AuditAction.CLOSE_ACCOUNT,
    AuditAction.JOIN_GROUP: AuditAction.LEAVE_GROUP,
    AuditAction.ROLES: AuditAction.TAKE_ROLE,
    AuditAction.SHARE: AuditAction.UNSHARE,
    AuditAction.MAKE_PUBLIC: AuditAction.MAKE_PRIVATE,
    AuditAction.UNFREEZE: AuditAction.FREEZE,
}
NEITHER: Mapping[AuditAction, str] = {
    AuditAction.SIGN_IN: "gives a session; all of them end with a restored backup",
    AuditAction.SIGN_IN_FAILED: "changes nothing",
    AuditAction.ACCOUNT: "makes a token or adds a factor, which an older database lacks",
    AuditAction.UPLOAD: "an older database lacks the table",
    AuditAction.DISCARD: "of a draft, a workload or a codebook, which hold nothing of any rows",
    AuditAction.RENAME: "shows and hides nothing",
    AuditAction.DECLARE: "what a budget protects and has spent is in its mark",
    AuditAction.SAVE: "makes a workload, a codebook, or drafts that were planned together",
    AuditAction.LOAD_PLAN: "changes a draft",
    AuditAction.REQUEST: "an older database lacks the request",
    AuditAction.FIRST_APPROVAL: "an older database wants two approvals again",
    AuditAction.APPROVE: "what was granted is in the budget's mark",
    AuditAction.JOIN: "an older database asks for a budget again; what was spent is in the mark of the joined one",
    AuditAction.ASK_CONSENT: "changes nothing",
    AuditAction.SUBMIT: "what was charged is in the budget's mark",
    AuditAction.CANCEL: "is a line of the release",
    AuditAction.PUBLISH: "is a line of the release",
    AuditAction.OPEN: "is a line of the release",
    AuditAction.FAIL: "what was begun is a line of the release",
    AuditAction.TEST: "changes nothing that was published",
    AuditAction.OPEN_SURVEY: "an older database has a draft, which takes no reports",
    AuditAction.DOWNLOAD: "changes nothing",
    AuditAction.RESTORE: "is a reviewer's act after a restored backup, and is made again after the next",
    AuditAction.VERIFY: "changes nothing",
    AuditAction.EXPORT: "changes nothing",
    AuditAction.REGISTER_CONNECTION: "an older database lacks the connection",
    AuditAction.NOTICES: "turns e-mail on or off",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A decision that the record knows.

    Attributes:
        number: of its line.
        model, object: to what it was done; empty where it was to nothing that is stored.
        of: its subject: what undoes it names the same.
        facts: what else is needed to make it again.
    """

    number: int
    action: AuditAction
    model: str
    object: str
    of: str
    name: str
    at: str
    by: int | None
    detail: str
    facts: Mapping[str, Any]

    @property
    def in_words(self) -> str:
        return f"{self.action.label} {self.name}".rstrip()


def is_remembered(action: AuditAction) -> bool:
    """Whether an event of this action goes into the record.

    Raises:
        KeyError: it is in no class.
    """
    if action in PROTECTS or action in UNDOES:
        return True
    NEITHER[action]
    return False


def remember(event: AuditEvent, *, model: str, facts: Mapping[str, Any]) -> None:
    """Add a decision to the record, in its transaction. One that cannot be remembered is made nevertheless."""
    line = {
        "action": str(event.action),
        "model": model,
        "object": event.object_id,
        "name": event.name,
        "at": event.at.isoformat(),
        "by": event.actor_id,
        "detail": event.detail,
        **facts,
    }
    try:
        record.note({"decision": line})
    except (chain.Unreadable, OSError) as error:
        logger.error("a protective decision is not remembered outside the database (%s)", type(error).__name__)


def after(number: int) -> list[Decision]:
    """The protective decisions of later lines than this one, but for those that were taken back; the last of each
    subject."""
    found: dict[tuple[AuditAction, str], Decision] = {}
    for line in chain.read().others:
        if line.number > number and "decision" in line.what:
            each = _read(line)
            if each.action in UNDOES:
                found.pop((UNDOES[each.action], each.of), None)
            else:
                found.pop((each.action, each.of), None)
                found[each.action, each.of] = each
    return list(found.values())


def _read(line: chain.RecordLine) -> Decision:
    said = line.what["decision"]
    named = {key: said[key] for key in ("model", "object", "name", "at", "by", "detail")}
    facts = {key: value for key, value in said.items() if key not in named and key != "action"}
    of = str(facts.get("of") or f"{said['model']} {said['object']}")
    return Decision(number=line.number, action=AuditAction(said["action"]), of=of, facts=facts, **named)
