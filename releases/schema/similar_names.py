"""Columns of two tables whose names differ only in how they are written, as `birth_date` and `Birth date` do."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_BETWEEN_WORDS = re.compile(r"[\s_-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class SimilarNames:
    """Names of one table that another table writes in another way.

    Attributes:
        pairs: by the name there, the one name here that is written so.
        unclear: names there, and the names here, of which more than one are written alike; none of them is paired.
    """

    pairs: Mapping[str, str]
    unclear: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


def similar_names(there: Iterable[str], here: Iterable[str]) -> SimilarNames:
    """Pair names that differ in upper and lower case, in spaces around them, or in the space, `_` or `-` between words.

    Names that both tables have are of no other column.
    """
    there, here = dict.fromkeys(there), dict.fromkeys(here)
    left: dict[str, list[str]] = defaultdict(list)
    for name in here:
        if name not in there:
            left[written_alike(name)].append(name)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in there:
        if name not in here and written_alike(name) in left:
            groups[written_alike(name)].append(name)
    found = [(names, left[alike]) for alike, names in groups.items()]
    return SimilarNames(
        pairs={names[0]: others[0] for names, others in found if len(names) == len(others) == 1},
        unclear=tuple((tuple(names), tuple(others)) for names, others in found if len(names) + len(others) > 2),
    )


def written_alike(name: str) -> str:
    """What is the same of names that differ only in how they are written."""
    words = _BETWEEN_WORDS.split(unicodedata.normalize("NFC", name).casefold())
    # Letters in lower case can have another order of their marks.
    return unicodedata.normalize("NFC", " ".join(filter(None, words)))
