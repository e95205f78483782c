"""The disclosure test of a release as a file beside its rows.

It is made after the release, if somebody asks for it, so it is none of the files that were published together: their
digests, the receipt and the archive do not know of it. It depends on the plan and on chance alone, never on the rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from releases.engine.disclosure.membership import disclosure_test
from releases.engine.errors import Infeasible
from releases.engine.mechanisms.base import Progress, plan_from_json
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.models import Release, ReleaseState
from releases.publication.files import folder_of
from releases.storage.private_files import FILE, sync

DISCLOSURE_TEST = "disclosure_test.json"


def attack_release(release: Release, *, progress: Progress | None = None) -> dict[str, Any]:
    """Attack invented tables that the plan of a published release was run on, and store what was found.

    Raises:
        Infeasible: the release is not published, has no plan, or its plan cannot be tested.
        EngineError: its plan cannot be made again.
    """
    if release.status is not ReleaseState.PUBLISHED:
        raise Infeasible("The release is not published, so there is no page to say it on.")
    if release.plan is None:
        raise Infeasible("The release has no plan: it was made in a session.")
    found = disclosure_test(plan_from_json(release.plan), rng=OperatingSystemRandomness(), progress=progress)
    written = {"release": str(release.pk), **found.to_json()}
    path = folder_of(release) / DISCLOSURE_TEST
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n")
    partial.chmod(FILE)
    sync(partial)
    partial.replace(path)
    sync(path.parent)
    return written


def read_test(folder: Path) -> dict[str, Any] | None:
    """What was found of the release whose files lie in a folder; None where it was not tested."""
    path = folder / DISCLOSURE_TEST
    return json.loads(path.read_text()) if path.is_file() else None
