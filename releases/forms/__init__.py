"""Forms: what people type, read and checked, with errors that name field, value and rule.

In: what was posted. Out: clean values for services. ``fields.py`` has what all forms share; read it first.
"""
