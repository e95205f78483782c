"""Pages of what was released: the result with its answers.

In: a published release and its files. Out: `ResultPage`, `AnswersTable`. Read ``result_page.py`` first.
"""
