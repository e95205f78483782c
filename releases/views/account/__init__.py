"""Pages of a person's own account: API tokens, notices, and forms that were not sent.

In: the signed-in person. Out: tokens and choices. Read ``tokens.py`` first.
"""
