"""What the size of a universe means for each mechanism: whether it can hold it, and what that takes.

Read off plans of one count over all of the columns together, so that there is no limit here that is not a plan's own;
for a mechanism that never joins all columns, of a count over every two that are neighbours.
The declaration decides it; no row does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from releases.display.durations import usual_limit
from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, PrivacyUnit
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import EngineError
from releases.engine.mechanisms.base import Plan, mechanism, mechanisms
from releases.engine.workload.queries import Count, Workload
from releases.planning import comparison
from releases.publication.files import readable_size

#: An ordinary release: neither memory nor time depends much on it.
_BUDGET, _BETA = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)), Fraction(1, 20)
#: Digits of a number that a reason writes in full.
_LONGEST_NUMBER = 12


@dataclass(frozen=True, kw_only=True)
class MechanismSize:
    """What a universe means for one mechanism.

    Attributes:
        title: of the mechanism.
        why_not: why it cannot hold the universe; empty where it can.
        memory, time: what it takes where it can.
    """

    title: str
    why_not: str
    memory: str = ""
    time: str = ""


@lru_cache(maxsize=32)
def fits(universe: Universe) -> Sequence[MechanismSize]:
    """Every mechanism that answers counts, those that can hold the universe first; of one of rows and of persons, which
    are counted apart, the larger part."""
    universe = universe.largest_population
    # A space is the name of no column.
    unit = PrivacyUnit(kind="person", id_column=" ") if universe.is_of_persons else PrivacyUnit()
    schema = Schema(universe=universe, unit=unit, neighbours=NeighbouringRelation.ADD_REMOVE)
    # In every column one bin: a single number, about all of them at once, or about two at a time.
    together, by_twos = (_counts_of_first_bins(universe, sets) for sets in ([universe.names], _twos(universe)))
    found = []
    for each in mechanisms().values():
        workload = together if each.joins_all_columns else by_twos
        if not each.is_offered or not each.can_answer(workload):
            continue
        try:
            plan = each.plan(schema, workload, budget=_BUDGET, beta=_BETA)
        except EngineError as error:
            found.append(MechanismSize(title=each.title, why_not=str(error)))
        else:
            found.append(_fits(plan))
    return tuple(sorted(found, key=lambda each: bool(each.why_not)))


def _twos(universe: Universe) -> list[tuple[str, ...]]:
    return list(pairwise(universe.names)) or [universe.names]


def _counts_of_first_bins(universe: Universe, sets: Sequence[tuple[str, ...]]) -> Workload:
    return Workload(
        universe=universe,
        families=tuple(Count(attributes=names, bins=((0,),) * len(names)) for names in sets),
    )


def _fits(plan: Plan) -> MechanismSize:
    title = mechanism(plan.mechanism).title
    if plan.infeasible:
        return MechanismSize(title=title, why_not=re.sub(r"\d{1,3}(?:,\d{3})+", _shorter, plan.infeasible))
    # How many synthetic rows are made is chosen later, and is no matter of the universe's size.
    memory = readable_size(plan.work.bytes - plan.bytes_of_rows)
    return MechanismSize(title=title, why_not="", memory=memory, time=usual_limit(comparison.run_seconds(plan)))


def _shorter(found: re.Match[str]) -> str:
    """A number of cells as pages write it: a universe may have hundreds of digits."""
    digits = found[0].replace(",", "")
    return found[0] if len(digits) <= _LONGEST_NUMBER else comparison.cells_text(int(digits))
