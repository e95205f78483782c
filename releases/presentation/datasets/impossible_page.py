"""The page on which combinations of bins that cannot occur are declared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from releases.engine.domain.levels import levels_in_words
from releases.engine.domain.universe import Universe
from releases.forms.impossible import MAX_CHOSEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """A combination in words, and as the button that removes it sends it."""

    words: str
    json: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnMenu:
    """A menu to choose a column from.

    Attributes:
        label: of the menu.
        options: every declared column, with whether it is chosen.
    """

    label: str
    options: Sequence[tuple[str, bool]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImpossiblePage:
    """What is declared, and what is chosen so far of one more.

    Attributes:
        levels: which columns are levels of others, a sentence each.
        names: the chosen columns.
        is_short: fewer than two were chosen.
    """

    declared: Sequence[Declared]
    levels: Sequence[str]
    menus: Sequence[ColumnMenu]
    names: Sequence[str]
    is_short: bool

    @property
    def has_columns(self) -> bool:
        return len(self.names) > 1


def impossible_page(universe: Universe, names: Sequence[str], *, is_sent: bool) -> ImpossiblePage:
    """
    Args:
        names: of the chosen columns.
        is_sent: whether some were.
    """
    return ImpossiblePage(
        declared=[
            Declared(words=each.in_words(), json=json.dumps(each.to_json(), sort_keys=True))
            for each in universe.impossible
        ],
        levels=levels_in_words(universe.hierarchies),
        menus=[_menu(universe, place, [*names, *[""] * MAX_CHOSEN][place]) for place in range(MAX_CHOSEN)],
        names=names,
        is_short=is_sent and len(names) < 2,
    )


def _menu(universe: Universe, place: int, chosen: str) -> ColumnMenu:
    more = "" if place < 2 else " (may be left out)"
    return ColumnMenu(label=f"Column {place + 1}{more}", options=[(name, name == chosen) for name in universe.names])
