"""The disclosure test of a release as files beside its rows: what was found, and the report again, with it.

It is made after the release, if somebody asks for it, so it is none of the files that were published together: their
digests and the receipt do not know of it. The archive has it from then on. It depends on the plan and on chance alone,
never on the rows.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from django.conf import settings

from releases.engine.disclosure.membership import disclosure_test
from releases.engine.errors import Infeasible
from releases.engine.mechanisms.base import Progress, plan_from_json
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.models import Release, ReleaseState
from releases.publication.disclosure import DISCLOSURE_TEST
from releases.publication.files import folder_of, report_files
from releases.publication.report import HTML, rewritten, rewritten_name
from releases.storage.private_files import FILE, sync

_logger = logging.getLogger(__name__)


def attack_release(release: Release, *, progress: Progress | None = None) -> dict[str, Any]:
    """Attack invented tables that the plan of a published release was run on, and store what was found.

    Raises:
        Infeasible: the release is not published, has no plan, or its plan cannot be tested.
        EngineError: its plan cannot be made again.
    """
    if release.status is not ReleaseState.PUBLISHED or release.result is None:
        raise Infeasible("The release is not published, so there is no page to say it on.")
    if release.plan is None:
        raise Infeasible("The release has no plan: it was made in a session.")
    found = disclosure_test(plan_from_json(release.plan), rng=OperatingSystemRandomness(), progress=progress)
    written = {"release": str(release.pk), **found.to_json()}
    folder = folder_of(release)
    for path in rewritten(folder).values():
        path.unlink()
    _store(folder / DISCLOSURE_TEST, (json.dumps(written, indent=2, ensure_ascii=False) + "\n").encode())
    report_again(release)
    return written


def lack_report() -> list[str]:
    """Releases that were attacked, and whose report does not say so: by their folders, of which some may be old."""
    found = Path(settings.RELEASES_DIR).glob(f"*/*/{DISCLOSURE_TEST}")
    return sorted({path.parent.parent.name for path in found if not rewritten(path.parent)})


def report_again(release: Release) -> None:
    """Write the report of an attacked release again, with what was found, unless it was or there is none."""
    if release.status is not ReleaseState.PUBLISHED or release.result is None:
        return
    folder = folder_of(release)
    is_due = (folder / DISCLOSURE_TEST).is_file() and not rewritten(folder)
    if is_due and HTML in release.result["files"]:
        try:
            for name, content in report_files(folder, release.result).items():
                _store(folder / rewritten_name(name), content)
        except SubprocessError:
            _logger.exception("the report was not drawn again; its page alone says what the attack found out")


def _store(path: Path, content: bytes) -> None:
    """Wholly or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(content)
    partial.chmod(FILE)
    sync(partial)
    partial.replace(path)
    sync(path.parent)
