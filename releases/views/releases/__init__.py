"""Pages of a release in the making and of its state: questions, weights, comparison, confirmation, plan files.

In: an analyst's draft. Out: a submitted release. Read ``releases.py`` first, then ``confirm.py``.
"""
