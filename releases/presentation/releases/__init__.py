"""Pages of a draft on its way to a release.

In: a draft's plans. Out: `ComparisonPage`, `ConfirmPage`, `ReleaseStatus`. Read ``comparison_page.py`` first.
"""
