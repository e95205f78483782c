"""Values of the pages about surveys, for its people and for respondents.

In: surveys and their laws. Out: frozen dataclasses. Read ``survey_page.py``.
"""
