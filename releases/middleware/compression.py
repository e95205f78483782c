"""What is sent is sent compressed: static files as `collectstatic` left them, pages and JSON as they are made."""

from __future__ import annotations

from typing import Any

from django.contrib.staticfiles.storage import ManifestFilesMixin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class CollectedStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Compressed copies under names that follow from the contents, which browsers may keep for years.

    Before `collectstatic` was run, as in tests, files have their plain names and are sent as they stand in the source.
    """

    # Scripts stay as published: some name a source map that did not come with them.
    patterns = tuple(each for each in ManifestFilesMixin.patterns if each[0] != "*.js")

    def stored_name(self, name: str) -> str:
        return str(super().stored_name(name)) if self.hashed_files else name


class CompressionMiddleware(GZipMiddleware):
    """Compresses pages and JSON, and leaves what is streamed or kept as a file its length.

    A compressed page's length could tell which of two guesses, put into its address, is a secret on it (BREACH).
    Django's middleware answers this with a random number of bytes, and forms' tokens are masked again on every page.
    """

    def process_response(self, request: HttpRequest, response: Any) -> HttpResponseBase:
        if response.streaming or response.has_header("Content-Disposition"):
            return response  # type: ignore[no-any-return]
        return super().process_response(request, response)
