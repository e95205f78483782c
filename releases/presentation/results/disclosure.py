"""The way to a disclosure test, on the page of a release that was not tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from releases.models import DisclosureState, DisclosureTest, Release
from releases.publication.disclosure import read_test


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackOffer:
    """What a member of the dataset's team reads of a test that has found nothing yet.

    Attributes:
        sentence: what the test does, or how far it is.
        button: empty while it is under way.
        is_open: whether the sentence is to be seen at once.
    """

    sentence: str
    button: str = ""
    is_open: bool = False


def attack_offer(release: Release, receipt: Mapping[str, Any], folder: Path) -> AttackOffer | None:
    """None where there are no synthetic rows, or the release was tested."""
    if not receipt["synthetic_rows"] or read_test(folder) is not None:
        return None
    test = DisclosureTest.objects.filter(release=release).first()
    if test is None or test.state == DisclosureState.DONE:
        return AttackOffer(
            sentence="A worker runs the method on invented people, and a published attack guesses hidden answers of "
            "theirs from the synthetic rows. It takes some minutes, reads no table and spends no budget.",
            button="Try it",
        )
    if test.state == DisclosureState.FAILED:
        said = f"The attack could not be tried. {test.refusal}".strip()
        return AttackOffer(sentence=said, button="Try it again", is_open=True)
    return AttackOffer(sentence="An attack is being tried on invented people. What it finds will be here.")
