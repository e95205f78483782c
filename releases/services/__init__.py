"""Everything that writes, one function a verb. Views, tasks, commands and the API call these and nothing deeper.

datasets    ingest_dataset, declare_universe, declare_protection, join_population, share_dataset, rename_dataset,
            discard_dataset, delete_rows
budgets     request_budget, approve_request, deny_request, ask_back_request, freeze_budget, unfreeze_budget
releases    draft_release, discard_draft, load_plan, name_release, set_questions, set_choice, compare,
            submit_release, cancel_release, make_public, make_private, withdraw_release
learning    plan_range, learn_range, plan_categories, learn_categories
reviews     approve_release, deny_release, ask_back_release
certificates draft_certificate, plan_certificate, certifiable
execution   execute_release, reconcile
sessions    draft_session, change_session, columns_of_session, ask_session, let_ask, close_session, standing
surveys     draft_survey, change_survey, open_survey, accept_report, close_survey, make_survey_public,
            make_survey_private
organisation change_settings, verify_ledgers
tokens      make_token, revoke_token, owner_of_token
notices     read_notices, choose_mail
"""

from releases.services.budgets import (
    HAVE_A_BUDGET,
    approve_request,
    ask_back_request,
    deny_request,
    freeze_budget,
    request_budget,
    restore_ledger,
    same_rows,
    unfreeze_budget,
    why_no_join,
)
from releases.services.certificates import CERTIFIABLE, certifiable, draft_certificate, plan_certificate
from releases.services.datasets import (
    Kept,
    declare_protection,
    declare_universe,
    delete_rows,
    discard_dataset,
    ingest_dataset,
    join_population,
    rename_dataset,
    share_dataset,
    why_not_discarded,
    why_rows_stay,
)
from releases.services.execution import execute_release, reconcile
from releases.services.learning import learn_categories, learn_range, plan_categories, plan_range
from releases.services.notices import choose_mail, read_notices
from releases.services.organisation import NO_FAULT, change_settings, verify_ledgers
from releases.services.releases import (
    NO_ROWS,
    Refusal,
    cancel_release,
    compare,
    discard_draft,
    draft_release,
    load_plan,
    make_private,
    make_public,
    name_release,
    needs_review,
    plan_of,
    read_beta,
    set_choice,
    set_questions,
    submit_release,
    withdraw_release,
)
from releases.services.reviews import approve_release, ask_back_release, deny_release
from releases.services.sessions import (
    Answered,
    Standing,
    ask_session,
    change_session,
    close_session,
    columns_of_session,
    draft_session,
    let_ask,
    plan_of_session,
    standing,
)
from releases.services.surveys import (
    accept_report,
    bound_sentence,
    change_survey,
    close_survey,
    draft_survey,
    make_survey_private,
    make_survey_public,
    open_survey,
)
from releases.services.tokens import make_token, owner_of_token, revoke_token

__all__ = [
    "CERTIFIABLE",
    "HAVE_A_BUDGET",
    "NO_FAULT",
    "NO_ROWS",
    "Answered",
    "Kept",
    "Refusal",
    "Standing",
    "accept_report",
    "approve_release",
    "approve_request",
    "ask_back_release",
    "ask_back_request",
    "ask_session",
    "bound_sentence",
    "cancel_release",
    "certifiable",
    "change_session",
    "change_settings",
    "change_survey",
    "choose_mail",
    "close_session",
    "close_survey",
    "columns_of_session",
    "compare",
    "declare_protection",
    "declare_universe",
    "delete_rows",
    "deny_release",
    "deny_request",
    "discard_dataset",
    "discard_draft",
    "draft_certificate",
    "draft_release",
    "draft_session",
    "draft_survey",
    "execute_release",
    "freeze_budget",
    "ingest_dataset",
    "join_population",
    "learn_categories",
    "learn_range",
    "let_ask",
    "load_plan",
    "make_private",
    "make_public",
    "make_survey_private",
    "make_survey_public",
    "make_token",
    "name_release",
    "needs_review",
    "open_survey",
    "owner_of_token",
    "plan_categories",
    "plan_certificate",
    "plan_of",
    "plan_of_session",
    "plan_range",
    "read_beta",
    "read_notices",
    "reconcile",
    "rename_dataset",
    "request_budget",
    "restore_ledger",
    "revoke_token",
    "same_rows",
    "set_choice",
    "set_questions",
    "share_dataset",
    "standing",
    "submit_release",
    "unfreeze_budget",
    "verify_ledgers",
    "why_no_join",
    "why_not_discarded",
    "why_rows_stay",
    "withdraw_release",
]
