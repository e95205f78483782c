"""Pages that anybody may read: the front page and catalogue, the glossary, methods, the guide to the API.

In: what is public. Out: HTML. Read ``catalogue.py`` first.
"""
