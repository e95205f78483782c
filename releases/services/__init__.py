"""Everything that writes, one function a verb. Views, tasks, commands and the API call these and nothing deeper.

uploads     check_upload, room_of, receive_upload, execute_upload, discard_upload, reconcile_uploads
datasets    ingest_dataset, declare_universe, declare_protection, join_population, share_dataset, rename_dataset,
            discard_dataset, delete_rows
codebooks   keep_columns, forget_columns, describe_dataset, save_codebook, discard_codebook, columns_of_codebook
budgets     request_budget, take_back_request, approve_request, join_request, deny_request, ask_back_request,
            freeze_budget, unfreeze_budget, requests_lately
fingerprints enqueue_fingerprints, take_fingerprint, take_fingerprints, is_compared, is_incomparable
recognition recognised, alike_by_columns, why_not_approve, ask_consent
releases    draft_release, discard_draft, load_plan, name_release, set_questions, set_choice, compare,
            submit_release, cancel_release, make_public, make_private, withdraw_release
column_checks draft_check
learning    plan_range, learn_range, plan_categories, learn_categories
reviews     approve_release, deny_release, ask_back_release
certificates draft_certificate, plan_certificate
release_inputs certifiable, read_beta
planned_transactions planned_atomically
execution   execute_release, reconcile, is_behind
stored_tables table_faults
sessions    draft_session, change_session, columns_of_session, ask_session, let_ask, standing
session_closing close_session
surveys     draft_survey, change_survey, open_survey, accept_report, close_survey, make_survey_public,
            make_survey_private
organisation change_settings, verify_ledgers
restoring   restore_ledger, acknowledge_marks, missing_of, all_missing, unsettled
lost_budgets lost_budgets, same_rows_as_lost, settle_lost_budget
reapplying  notice_restored, forgotten_decisions, waits_for_a_reviewer
tokens      make_token, revoke_token, end_tokens, use_token
roles       give_role, take_role
notices     read_notices, choose_mail
workloads   save_workload, save_version, edit_workload, share_workload, discard_workload, use_workload, ask_workload,
            suggested_columns, column_fits, mapped_questions, workload_named, why_not_saved
"""

from releases.services.budgets import (
    REQUESTS_COUNTED_DAYS,
    RowsKnown,
    approve_request,
    ask_back_request,
    deny_request,
    freeze_budget,
    join_request,
    request_budget,
    requests_lately,
    take_back_request,
    unfreeze_budget,
)
from releases.services.certificates import draft_certificate, plan_certificate
from releases.services.codebooks import (
    columns_of_codebook,
    describe_dataset,
    discard_codebook,
    forget_columns,
    keep_columns,
    save_codebook,
)
from releases.services.column_checks import draft_check
from releases.services.datasets import (
    MAX_CELLS_SAID,
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
    why_protection_is_fixed,
    why_rows_stay,
)
from releases.services.execution import execute_release, is_behind, reconcile
from releases.services.fingerprints import (
    enqueue_fingerprints,
    is_compared,
    is_incomparable,
    take_fingerprint,
    take_fingerprints,
)
from releases.services.learning import learn_categories, learn_range, plan_categories, plan_range
from releases.services.lost_budgets import lost_budgets, same_rows_as_lost, settle_lost_budget
from releases.services.notices import choose_mail, read_notices
from releases.services.organisation import NO_FAULT, change_settings, verify_ledgers
from releases.services.planned_transactions import planned_atomically
from releases.services.reapplying import forgotten_decisions, notice_restored, waits_for_a_reviewer
from releases.services.recognition import Match, alike_by_columns, ask_consent, recognised, why_not_approve
from releases.services.release_inputs import CERTIFIABLE, NO_ROWS, Refusal, certifiable, read_beta
from releases.services.releases import (
    TOO_MANY_CHECKS,
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
    set_choice,
    set_questions,
    submit_release,
    why_it_waits,
    withdraw_release,
)
from releases.services.restoring import (
    Missing,
    acknowledge_marks,
    all_missing,
    missing_of,
    restore_ledger,
    unsettled,
)
from releases.services.review_decisions import DecidedBefore
from releases.services.reviews import approve_release, ask_back_release, deny_release
from releases.services.roles import LastAdministrator, give_role, take_role
from releases.services.session_closing import close_session
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
from releases.services.stored_tables import faults as table_faults
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
from releases.services.tokens import DEFAULT_DAYS, MAX_DAYS, end_tokens, make_token, revoke_token, use_token
from releases.services.uploads import (
    FREES_ROOM,
    NoRoom,
    check_upload,
    discard_upload,
    execute_upload,
    receive_upload,
    reconcile_uploads,
    room_of,
)
from releases.services.workloads import (
    ColumnFit,
    ask_workload,
    column_fits,
    discard_workload,
    edit_workload,
    mapped_questions,
    save_version,
    save_workload,
    share_workload,
    suggested_columns,
    use_workload,
    why_not_saved,
    workload_named,
)

__all__ = [
    "CERTIFIABLE",
    "DEFAULT_DAYS",
    "FREES_ROOM",
    "MAX_CELLS_SAID",
    "MAX_DAYS",
    "NO_FAULT",
    "NO_ROWS",
    "REQUESTS_COUNTED_DAYS",
    "TOO_MANY_CHECKS",
    "Answered",
    "ColumnFit",
    "DecidedBefore",
    "Kept",
    "LastAdministrator",
    "Match",
    "Missing",
    "NoRoom",
    "Refusal",
    "RowsKnown",
    "Standing",
    "accept_report",
    "acknowledge_marks",
    "alike_by_columns",
    "all_missing",
    "approve_release",
    "approve_request",
    "ask_back_release",
    "ask_back_request",
    "ask_consent",
    "ask_session",
    "ask_workload",
    "bound_sentence",
    "cancel_release",
    "certifiable",
    "change_session",
    "change_settings",
    "change_survey",
    "check_upload",
    "choose_mail",
    "close_session",
    "close_survey",
    "column_fits",
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
    "discard_workload",
    "draft_certificate",
    "draft_check",
    "draft_release",
    "draft_session",
    "draft_survey",
    "edit_workload",
    "end_tokens",
    "enqueue_fingerprints",
    "execute_release",
    "execute_upload",
    "forget_columns",
    "forgotten_decisions",
    "freeze_budget",
    "give_role",
    "ingest_dataset",
    "is_behind",
    "is_compared",
    "is_incomparable",
    "join_population",
    "join_request",
    "keep_columns",
    "learn_categories",
    "learn_range",
    "let_ask",
    "load_plan",
    "lost_budgets",
    "make_private",
    "make_public",
    "make_survey_private",
    "make_survey_public",
    "make_token",
    "mapped_questions",
    "missing_of",
    "name_release",
    "needs_review",
    "notice_restored",
    "open_survey",
    "plan_categories",
    "plan_certificate",
    "plan_of",
    "plan_of_session",
    "plan_range",
    "planned_atomically",
    "read_beta",
    "read_notices",
    "receive_upload",
    "recognised",
    "reconcile",
    "reconcile_uploads",
    "rename_dataset",
    "request_budget",
    "requests_lately",
    "restore_ledger",
    "revoke_token",
    "room_of",
    "same_rows_as_lost",
    "save_codebook",
    "save_version",
    "save_workload",
    "set_choice",
    "set_questions",
    "settle_lost_budget",
    "share_dataset",
    "share_workload",
    "standing",
    "submit_release",
    "suggested_columns",
    "table_faults",
    "take_back_request",
    "take_fingerprint",
    "take_fingerprints",
    "take_role",
    "unfreeze_budget",
    "unsettled",
    "use_token",
    "use_workload",
    "verify_ledgers",
    "waits_for_a_reviewer",
    "why_it_waits",
    "why_not_approve",
    "why_not_discarded",
    "why_not_saved",
    "why_protection_is_fixed",
    "why_rows_stay",
    "withdraw_release",
    "workload_named",
]
