"""The disclosure test of a release as a file beside its rows.

It is made after the release, if somebody asks for it, so it is none of the files that were published together: their
digests and the receipt do not know of it. The archive has it from then on. It depends on the plan and on chance alone,
never on the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil, floor
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
#: Of a number in 100 that is rounded up or down: floating point alone is no reason for that.
_SLACK = 1e-9


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


def attack_in_words(receipt: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """What the attack found out of the release whose files lie in a folder; nothing where it was not tested."""
    test = read_test(folder)
    return () if test is None else (found_in_words(test["everybody"]), compared_in_words(test, receipt))


def most_found_column(test: Mapping[str, Any]) -> str:
    """The one whose missing values being in the table helps most to guess."""
    columns = test["columns"]
    return str(max(columns, key=lambda name: columns[name]["difference"]))


def found_in_words(everybody: Mapping[str, Any]) -> str:
    """How often a missing answer is guessed right."""
    known = (
        "In a test with invented people, someone who has the synthetic rows and knows all but one answer of a person "
        "guesses the missing one right"
    )
    inside, outside = (round(100 * everybody[where]) for where in ("inside", "outside"))
    if not leaks(everybody) or inside == outside:
        both = round(50 * (everybody["inside"] + everybody["outside"]))
        return f"{known} in about {both} of 100 tries, whether or not the person is in the table."
    return f"{known} in {inside} of 100 tries if the person is in the table, and in {outside} if not."


def compared_in_words(test: Mapping[str, Any], receipt: Mapping[str, Any]) -> str:
    """How much more often of people in the table, beside a leak and what epsilon allows: of unusual people where that
    is more, else of all, else of a single column."""
    confidence, column = f"{100 * test['confidence']:g}%", most_found_column(test)
    everybody, unusual, alone = test["everybody"], test["unusual"], test["columns"][column]
    being, said, leak = "Being", everybody, test["leak"]
    if leaks(unusual) and unusual["difference"] > everybody["difference"]:
        being, said, leak = "Of unusual people, being", unusual, test["leak_unusual"]
    elif not leaks(everybody) and leaks(alone):
        being, said = f"Where {column} is missing, being", alone
    found = f"{being} in the table adds {range_in_100(said)}"
    if not leaks(said):
        most = _up(said["difference"] + said["margin"])
        found = f"Being in the table was not found to make a difference: it adds at most {most}"
    more = in_100(leak["difference"])
    return (
        f"{found} right guesses in 100, with {confidence} confidence. Handing out every second row would add {more}. "
        f"Other attacks may find more, but none more than the {_up(test['allowed'])} that epsilon "
        f"{receipt['budget']['epsilon']} allows."
    )


def leaks(found: Mapping[str, Any]) -> bool:
    """Whether being in the table was found to help."""
    return bool(found["difference"] > found["margin"])


def range_in_100(found: Mapping[str, Any]) -> str:
    """The ends of a difference, in 100 tries."""
    low, high = found["difference"] - found["margin"], found["difference"] + found["margin"]
    return f"{_down(low)} to {_up(high)}"


def in_100(share: float) -> str:
    return f"{100 * share:.1f}".replace("-", "−")


def _up(share: float) -> str:
    return _tenths(ceil(1000 * min(share, 1.0) - _SLACK))


def _down(share: float) -> str:
    return _tenths(floor(1000 * max(share, -1.0) + _SLACK))


def _tenths(number: int) -> str:
    return f"{number / 10:.1f}".replace("-", "−")
