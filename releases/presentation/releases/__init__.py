"""Pages of a draft on its way to a release.

In: a draft's plans. Out: `ComparisonPage`. Read ``comparison_page.py`` first.
"""
