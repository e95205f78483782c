"""How to cite a release: a published result never changes, so its address and its version name it for good."""

from __future__ import annotations

import hashlib
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from releases import files
from releases.models import Release

#: Digits of the version shown: of two releases' receipts, none will ever share so many by accident.
_VERSION_LENGTH = 16


def citation(request: HttpRequest, release: Release) -> dict[str, Any]:
    """What a person writes below a number taken from a release, and what they check it by."""
    assert release.result is not None
    receipt = release.result["receipt"]
    cost = receipt["cost"]
    spent = (
        f"epsilon {cost['pure']['epsilon']}"
        if "pure" in cost
        else f"epsilon {cost['approximate']['epsilon']}, delta {cost['approximate']['delta']}"
        if "approximate" in cost
        else f"rho {cost['concentrated']['rho']}"
    )
    # As in the file that everybody can download, so that anybody can compute it again.
    digest = hashlib.sha256((files.folder_of(release) / files.RECEIPT).read_bytes()).hexdigest()
    version = digest[:_VERSION_LENGTH]
    address = request.build_absolute_uri(reverse("release_detail", args=[release.pk]))
    text = (
        f"{receipt['title']}. {receipt['dataset']}, released under differential privacy ({spent}; "
        f"{receipt['mechanism']['title']}), {receipt['date']}. Version {version}. {address}"
    )
    return {"text": text, "version": version, "digest": digest}
