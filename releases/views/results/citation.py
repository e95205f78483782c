"""How to cite a release: a published result never changes, so its address and its version name it for good."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from releases.models import Release
from releases.publication import files
from releases.publication.readme import citation_text, version_of


def citation(request: HttpRequest, release: Release) -> dict[str, Any]:
    """What a person writes below a number taken from a release, and what they check it by."""
    assert release.result is not None
    receipt = release.result["receipt"]
    # As in the file that everybody can download, so that anybody can compute it again.
    digest = files.sha256_of(files.folder_of(release) / files.RECEIPT)
    text = citation_text(receipt, digest=digest, address=address_of(request, release))
    return {"text": text, "version": version_of(digest), "digest": digest}


def address_of(request: HttpRequest, release: Release) -> str:
    """Of the release's page, for good."""
    return request.build_absolute_uri(reverse("release_detail", args=[release.pk]))
