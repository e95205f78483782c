"""What is stored. Only `services` and `ledger` write it; pages read through the querysets named after them.

Django looks for models here, so this room imports all of its modules, and code outside imports models from it.
In: nothing above the engine. Out: models, querysets, and the choices that their columns hold.
Read ``releases.py`` first, then ``budgets.py`` and ``ledger.py``.
"""

from releases.models.alerts import BudgetAlert
from releases.models.attempts import LOST, Attempt, Ending
from releases.models.audit import AuditAction, AuditEvent
from releases.models.boundaries import RegionBoundaries
from releases.models.budgets import POLICY_MEANING, Budget, counting_branch, share_in, share_of
from releases.models.codebooks import Codebook, KeptColumns
from releases.models.collections import Collection, CollectionPart, ShareRule
from releases.models.connections import RegisteredConnection
from releases.models.datasets import Dataset
from releases.models.disclosure_tests import DisclosureState, DisclosureTest
from releases.models.fingerprints import Fingerprint
from releases.models.ledger import EntryKind, Installation, LedgerEntry
from releases.models.notifications import MailChoice, Notice
from releases.models.organisations import Organisation
from releases.models.release_kinds import CERTIFICATE, CHECK, KINDS, PLAIN, SESSION, ReleaseKind
from releases.models.releases import HELD_BY_A_WORKER, Release, ReleaseQuerySet, ReleaseState
from releases.models.requests import BudgetRequest, ReleaseRequest, Request, RequestState
from releases.models.role_rules import NotAllowed
from releases.models.roles import HeldRole, Person, Role
from releases.models.search import Searchable
from releases.models.sessions import Audience, Session, SessionAnswer, SessionCells
from releases.models.surveys import Survey, SurveyState, SurveyTally
from releases.models.tokens import ApiToken, TokenScope
from releases.models.uploads import Upload, UploadState
from releases.models.workloads import SavedWorkload, WorkloadVersion

__all__ = [
    "CERTIFICATE",
    "CHECK",
    "HELD_BY_A_WORKER",
    "KINDS",
    "LOST",
    "PLAIN",
    "POLICY_MEANING",
    "SESSION",
    "ApiToken",
    "Attempt",
    "Audience",
    "AuditAction",
    "AuditEvent",
    "Budget",
    "BudgetAlert",
    "BudgetRequest",
    "Codebook",
    "Collection",
    "CollectionPart",
    "Dataset",
    "DisclosureState",
    "DisclosureTest",
    "Ending",
    "EntryKind",
    "Fingerprint",
    "HeldRole",
    "Installation",
    "KeptColumns",
    "LedgerEntry",
    "MailChoice",
    "NotAllowed",
    "Notice",
    "Organisation",
    "Person",
    "RegionBoundaries",
    "RegisteredConnection",
    "Release",
    "ReleaseKind",
    "ReleaseQuerySet",
    "ReleaseRequest",
    "ReleaseState",
    "Request",
    "RequestState",
    "Role",
    "SavedWorkload",
    "Searchable",
    "Session",
    "SessionAnswer",
    "SessionCells",
    "ShareRule",
    "Survey",
    "SurveyState",
    "SurveyTally",
    "TokenScope",
    "Upload",
    "UploadState",
    "WorkloadVersion",
    "counting_branch",
    "share_in",
    "share_of",
]
