"""The site's table of contents, in the order of the work."""

from __future__ import annotations

from django.urls import include, path

from releases.api import api_urls
from releases.views.account import notifications, resubmit, tokens
from releases.views.datasets import (
    budget,
    codebooks,
    column_checks,
    columns,
    databases,
    datasets,
    impossible,
    learning,
    region_maps,
    taking_over,
    upload,
)
from releases.views.public import api_guide, catalogue, documentation, methods, published_tables
from releases.views.releases import collections, compare, confirm, plan_files, releases, workloads
from releases.views.results import certificates, downloads, registry
from releases.views.results import compare as compare_releases
from releases.views.review import backups, connections, ledger, people, queue, settings
from releases.views.review import budgets as board
from releases.views.sessions import sessions
from releases.views.surveys import surveys

#: Sent -> read by a worker -> a dataset, which has the same identifier
upload_urls = [
    path("<uuid:upload_id>/", upload.upload_detail, name="upload_detail"),
    path("<uuid:upload_id>/status/", upload.upload_status, name="upload_status"),
    path("<uuid:upload_id>/discard/", upload.discard_upload, name="discard_upload"),
]

#: Data -> Protection -> Budget
dataset_urls = [
    path("", datasets.dataset_list, name="dataset_list"),
    path("new/", upload.upload, name="upload"),
    path("new/database/", databases.databases, name="databases"),
    path("new/database/<slug:database>/", databases.database_table, name="database_table"),
    path("<uuid:dataset_id>/", datasets.dataset_detail, name="dataset_detail"),
    path("<uuid:dataset_id>/title/", datasets.rename_dataset, name="rename_dataset"),
    path("<uuid:dataset_id>/sharing/", datasets.share_dataset, name="share_dataset"),
    path("<uuid:dataset_id>/delete/", datasets.delete_dataset, name="delete_dataset"),
    path("<uuid:dataset_id>/columns/", columns.columns, name="columns"),
    path("<uuid:dataset_id>/take-over/", taking_over.take_over, name="take_over"),
    path("<uuid:dataset_id>/codebook.json", codebooks.codebook_file, name="codebook_file"),
    path("<uuid:dataset_id>/impossible/", impossible.impossible, name="impossible"),
    path("<uuid:dataset_id>/maps/", region_maps.region_maps, name="region_maps"),
    path("<uuid:dataset_id>/columns/check/", column_checks.check_columns, name="check_columns"),
    path("<uuid:dataset_id>/columns/learn/", learning.learn_range, name="learn_range"),
    path("<uuid:dataset_id>/columns/learn-categories/", learning.learn_categories, name="learn_categories"),
    path("<uuid:dataset_id>/protection/", datasets.protection, name="protection"),
    path("<uuid:dataset_id>/budget/", budget.budget, name="budget"),
    path("<uuid:dataset_id>/budget/take-back/", budget.take_back, name="take_back_budget"),
    path("<uuid:dataset_id>/releases/new/", releases.new_release, name="new_release"),
    path("<uuid:dataset_id>/collections/new/", collections.new_collection, name="new_collection"),
    path("<uuid:dataset_id>/sessions/new/", sessions.new_session, name="new_session"),
]

#: Questions -> Compare -> Confirm -> Result
release_urls = [
    path("", releases.release_list, name="release_list"),
    path("<uuid:release_id>/", releases.release_detail, name="release_detail"),
    path("<uuid:release_id>/questions/", releases.questions, name="questions"),
    path("<uuid:release_id>/compare/", compare.compare, name="compare"),
    path("<uuid:release_id>/confirm/", confirm.confirm, name="confirm"),
    path("<uuid:release_id>/plan.json", plan_files.plan_file, name="plan_file"),
    path("<uuid:release_id>/plan/", plan_files.load_plan, name="load_plan"),
    path("<uuid:release_id>/workload/", workloads.save_workload, name="save_workload"),
    path("<uuid:release_id>/discard/", releases.discard_draft, name="discard_draft"),
    path("<uuid:release_id>/status/", releases.status, name="release_status"),
    path("<uuid:release_id>/cancel/", releases.cancel, name="cancel_release"),
    path("<uuid:release_id>/visibility/", releases.visibility, name="visibility"),
    path("<uuid:release_id>/withdraw/", releases.withdraw, name="withdraw"),
    path("<uuid:release_id>/answers/", downloads.answers, name="answers"),
    path("<uuid:release_id>/receipt/", downloads.receipt, name="receipt"),
    path("<uuid:release_id>/certify/", certificates.certify, name="certify"),
    path("<uuid:release_id>/attack/", releases.attack, name="attack"),
    path("<uuid:release_id>/deployment.yaml", registry.registry, name="registry"),
    path("<uuid:release_id>/beside/", compare_releases.compare_releases, name="compare_releases"),
    path("<uuid:release_id>/files/<str:name>", downloads.download, name="download"),
]

#: Planned on a dataset -> Checked and released together -> Read together
collection_urls = [
    path("<uuid:collection_id>/", collections.collection, name="collection"),
    path("<uuid:collection_id>/report.html", collections.collection_report, name="collection_report"),
    path("<uuid:collection_id>/confirm/", collections.confirm_collection, name="confirm_collection"),
]

#: Saved from a draft -> Read -> Edit -> Use on a dataset
workload_urls = [
    path("", workloads.workload_list, name="workload_list"),
    path("<uuid:workload_id>/", workloads.workload_detail, name="workload"),
    path("<uuid:workload_id>/edit/", workloads.edit_workload, name="edit_workload"),
    path("<uuid:workload_id>/sharing/", workloads.share_workload, name="share_workload"),
    path("<uuid:workload_id>/use/", workloads.use_workload, name="use_workload"),
    path("<uuid:workload_id>/discard/", workloads.discard_workload, name="discard_workload"),
]

#: Open -> Ask -> Close; a session shares its release's identifier
session_urls = [
    path("", sessions.session_list, name="session_list"),
    path("<uuid:release_id>/", sessions.session_detail, name="session"),
    path("<uuid:release_id>/audience/", sessions.session_audience, name="session_audience"),
    path("<uuid:release_id>/close/", sessions.session_close, name="session_close"),
    path("<uuid:release_id>/transcript.csv", sessions.transcript, {"form": "csv"}, name="transcript_csv"),
    path("<uuid:release_id>/transcript.json", sessions.transcript, {"form": "json"}, name="transcript_json"),
]

#: Draft -> Open -> Answer, by anybody who has the link -> Close
survey_urls = [
    path("", surveys.survey_list, name="survey_list"),
    path("new/", surveys.new_survey, name="new_survey"),
    path("<uuid:survey_id>/", surveys.survey_detail, name="survey"),
    path("<uuid:survey_id>/change/", surveys.change_survey, name="change_survey"),
    path("<uuid:survey_id>/open/", surveys.open_survey, name="open_survey"),
    path("<uuid:survey_id>/answer/", surveys.answer, name="survey_answer"),
    path("<uuid:survey_id>/answer/by-hand/", surveys.answer, {"by_hand": True}, name="survey_by_hand"),
    path("<uuid:survey_id>/close/", surveys.close_survey, name="close_survey"),
    path("<uuid:survey_id>/visibility/", surveys.visibility, name="survey_visibility"),
    path("<uuid:survey_id>/reports.csv", surveys.reports_csv, name="survey_csv"),
    path("<uuid:survey_id>/receipt.json", surveys.receipt_json, name="survey_receipt"),
]

review_urls = [
    path("", queue.review_queue, name="review_queue"),
    path("requests/<uuid:request_id>/", queue.budget_request, name="budget_request"),
    path("releases/<uuid:request_id>/", queue.release_request, name="release_request"),
    path("budgets/", board.budget_board, name="budget_board"),
    path("budgets.csv", board.board_csv, name="board_csv"),
    path("budgets/<uuid:budget_id>/", board.budget_detail, name="budget_detail"),
    path("ledger/", ledger.ledger_page, name="ledger"),
    path("ledger.csv", ledger.ledger_csv, name="ledger_csv"),
    path("log/", ledger.audit_log, name="audit_log"),
    path("log.csv", ledger.audit_csv, name="audit_csv"),
    path("backups/", backups.backups, name="backups"),
    path("people/", people.people, name="people"),
    path("connections/", connections.connections, name="connections"),
    path("connections/<uuid:connection_id>/remove/", connections.remove_connection, name="remove_connection"),
    path("organisation/", settings.organisation, name="organisation"),
]

urlpatterns = [
    path("", catalogue.home, name="home"),
    path("catalogue/", catalogue.catalogue, name="catalogue"),
    path("words/", catalogue.words, name="words"),
    path("ways/", methods.four_ways, name="ways"),
    path("published-tables/", published_tables.published_tables, name="published_tables"),
    path("documentation/", documentation.contents, name="documentation"),
    path("documentation/<path:page>/", documentation.page, name="documentation_page"),
    path("notices/", notifications.notices, name="notices"),
    path("notices/read/", notifications.read_notices, name="read_notices"),
    path("notices/mail/", notifications.choose_mail, name="choose_mail"),
    path("unsent/", resubmit.unsent, name="unsent"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", tokens.revoke_token, name="revoke_token"),
    path("api/", api_guide.programs, name="programs"),
    path("api/", api_urls),
    path("uploads/", include(upload_urls)),
    path("datasets/", include(dataset_urls)),
    path("releases/", include(release_urls)),
    path("collections/", include(collection_urls)),
    path("workloads/", include(workload_urls)),
    path("sessions/", include(session_urls)),
    path("surveys/", include(survey_urls)),
    path("review/", include(review_urls)),
]
