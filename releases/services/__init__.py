"""Everything that writes, one function a verb. Views, tasks, commands and the API call these and nothing deeper.

datasets    ingest_dataset, declare_universe, declare_protection, share_dataset
budgets     request_budget, approve_request, deny_request, freeze_budget, unfreeze_budget
releases    draft_release, name_release, set_questions, set_choice, compare, submit_release, cancel_release,
            make_public, make_private, withdraw_release
execution   execute_release, reconcile
sessions    draft_session, ask_session, let_ask, close_session
"""

from releases.services.budgets import (
    approve_request,
    deny_request,
    freeze_budget,
    request_budget,
    restore_ledger,
    unfreeze_budget,
)
from releases.services.datasets import (
    declare_protection,
    declare_universe,
    discard_dataset,
    ingest_dataset,
    share_dataset,
)
from releases.services.execution import execute_release, reconcile
from releases.services.releases import (
    Refusal,
    cancel_release,
    compare,
    draft_release,
    make_private,
    make_public,
    name_release,
    plan_of,
    read_beta,
    set_choice,
    set_questions,
    submit_release,
    withdraw_release,
)
from releases.services.sessions import Answered, ask_session, close_session, draft_session, let_ask

__all__ = [
    "Answered",
    "Refusal",
    "approve_request",
    "ask_session",
    "cancel_release",
    "close_session",
    "compare",
    "declare_protection",
    "declare_universe",
    "deny_request",
    "discard_dataset",
    "draft_release",
    "draft_session",
    "execute_release",
    "freeze_budget",
    "ingest_dataset",
    "let_ask",
    "make_private",
    "make_public",
    "name_release",
    "plan_of",
    "read_beta",
    "reconcile",
    "request_budget",
    "restore_ledger",
    "set_choice",
    "set_questions",
    "share_dataset",
    "submit_release",
    "unfreeze_budget",
    "withdraw_release",
]
