"""Pages of surveys with randomized response: plan one, answer it, read its result.

In: answers that were randomized before they were sent. Out: estimates. Read ``surveys.py`` first.
"""
