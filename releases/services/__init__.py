"""Everything that writes, one function a verb. Views, tasks, commands and the API call these and nothing deeper.

uploads     receive_upload, execute_upload, discard_upload, reconcile_uploads
datasets    ingest_dataset, declare_universe, declare_protection, join_population, share_dataset, rename_dataset,
            discard_dataset, delete_rows
codebooks   keep_columns, forget_columns, describe_dataset, save_codebook, discard_codebook, columns_of_codebook
budgets     request_budget, take_back_request, approve_request, deny_request, ask_back_request, freeze_budget,
            unfreeze_budget
releases    draft_release, discard_draft, load_plan, name_release, set_questions, set_choice, compare,
            submit_release, cancel_release, make_public, make_private, withdraw_release
learning    plan_range, learn_range, plan_categories, learn_categories
reviews     approve_release, deny_release, ask_back_release
certificates draft_certificate, plan_certificate, certifiable
execution   execute_release, reconcile
sessions    draft_session, change_session, columns_of_session, ask_session, let_ask, standing
closing     close_session
surveys     draft_survey, change_survey, open_survey, accept_report, close_survey, make_survey_public,
            make_survey_private
organisation change_settings, verify_ledgers
tokens      make_token, revoke_token, use_token
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
    take_back_request,
    unfreeze_budget,
    why_no_join,
)
from releases.services.certificates import CERTIFIABLE, certifiable, draft_certificate, plan_certificate
from releases.services.closing import close_session
from releases.services.codebooks import (
    columns_of_codebook,
    describe_dataset,
    discard_codebook,
    forget_columns,
    keep_columns,
    save_codebook,
)
from releases.services.datasets import (
    MOST_CELLS_SAID,
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
from releases.services.decisions import DecidedBefore
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
    why_it_waits,
    withdraw_release,
)
from releases.services.reviews import approve_release, ask_back_release, deny_release
from releases.services.sessions import (
    Answered,
    Standing,
    ask_session,
    change_session,
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
from releases.services.tokens import MOST_DAYS, USUAL_DAYS, make_token, revoke_token, use_token
from releases.services.uploads import discard_upload, execute_upload, receive_upload, reconcile_uploads

__all__ = [
    "CERTIFIABLE",
    "HAVE_A_BUDGET",
    "MOST_CELLS_SAID",
    "MOST_DAYS",
    "NO_FAULT",
    "NO_ROWS",
    "USUAL_DAYS",
    "Answered",
    "DecidedBefore",
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
    "columns_of_codebook",
    "columns_of_session",
    "compare",
    "declare_protection",
    "declare_universe",
    "delete_rows",
    "deny_release",
    "deny_request",
    "describe_dataset",
    "discard_codebook",
    "discard_dataset",
    "discard_draft",
    "discard_upload",
    "draft_certificate",
    "draft_release",
    "draft_session",
    "draft_survey",
    "execute_release",
    "execute_upload",
    "forget_columns",
    "freeze_budget",
    "ingest_dataset",
    "join_population",
    "keep_columns",
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
    "plan_categories",
    "plan_certificate",
    "plan_of",
    "plan_of_session",
    "plan_range",
    "read_beta",
    "read_notices",
    "receive_upload",
    "reconcile",
    "reconcile_uploads",
    "rename_dataset",
    "request_budget",
    "restore_ledger",
    "revoke_token",
    "same_rows",
    "save_codebook",
    "set_choice",
    "set_questions",
    "share_dataset",
    "standing",
    "submit_release",
    "take_back_request",
    "unfreeze_budget",
    "use_token",
    "verify_ledgers",
    "why_it_waits",
    "why_no_join",
    "why_not_discarded",
    "why_rows_stay",
    "withdraw_release",
]
