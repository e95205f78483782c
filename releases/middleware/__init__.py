"""What every request passes through, and what the API's errors look like.

In: requests and responses. Out: the same, limited, compressed, with headers and errors in one form.
The order stands in ``dpweb/settings.py``, as do the upload handlers of ``upload_limit.py``.
Read ``api_errors.py`` first.
"""
