"""The site's table of contents, in the order of the work."""

from __future__ import annotations

from django.urls import include, path

from releases.views import budgets, catalogue, datasets, releases, review

#: Data -> Protection -> Budget
dataset_urls = [
    path("", datasets.dataset_list, name="dataset_list"),
    path("new/", datasets.upload, name="upload"),
    path("<uuid:dataset_id>/", datasets.dataset_detail, name="dataset_detail"),
    path("<uuid:dataset_id>/columns/", datasets.columns, name="columns"),
    path("<uuid:dataset_id>/protection/", datasets.protection, name="protection"),
    path("<uuid:dataset_id>/budget/", budgets.budget, name="budget"),
    path("<uuid:dataset_id>/releases/new/", releases.new_release, name="new_release"),
]

#: Questions -> Compare -> Confirm -> Result
release_urls = [
    path("", releases.release_list, name="release_list"),
    path("<uuid:release_id>/", releases.release_detail, name="release_detail"),
    path("<uuid:release_id>/questions/", releases.questions, name="questions"),
    path("<uuid:release_id>/compare/", releases.compare, name="compare"),
    path("<uuid:release_id>/confirm/", releases.confirm, name="confirm"),
    path("<uuid:release_id>/status/", releases.status, name="release_status"),
    path("<uuid:release_id>/cancel/", releases.cancel, name="cancel_release"),
    path("<uuid:release_id>/visibility/", releases.visibility, name="visibility"),
    path("<uuid:release_id>/withdraw/", releases.withdraw, name="withdraw"),
    path("<uuid:release_id>/answers/", releases.answers, name="answers"),
    path("<uuid:release_id>/receipt/", releases.receipt, name="receipt"),
    path("<uuid:release_id>/files/<str:name>", releases.download, name="download"),
]

review_urls = [
    path("", review.review_queue, name="review_queue"),
    path("requests/<uuid:request_id>/", review.budget_request, name="budget_request"),
    path("budgets/", review.budget_board, name="budget_board"),
    path("budgets/<uuid:budget_id>/", review.budget_detail, name="budget_detail"),
    path("ledger.csv", review.ledger_csv, name="ledger_csv"),
]

urlpatterns = [
    path("", catalogue.home, name="home"),
    path("catalogue/", catalogue.catalogue, name="catalogue"),
    path("datasets/", include(dataset_urls)),
    path("releases/", include(release_urls)),
    path("review/", include(review_urls)),
]
