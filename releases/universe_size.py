"""What the size of a universe means for each mechanism: whether it can hold it, and what that takes.

Read off plans of one count over all of the columns together, so that there is no limit here that is not a plan's own.
The declaration decides it; no row does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from releases import planning
from releases.durations import duration
from releases.engine.errors import EngineError
from releases.engine.mechanisms.base import Plan, mechanism, mechanisms
from releases.engine.privacy import ApproxDP, NeighbouringRelation, PrivacyUnit
from releases.engine.universe import Schema, Universe
from releases.engine.workload import Count, Workload
from releases.files import readable_size

#: An ordinary release: neither memory nor time depends much on it.
_BUDGET, _BETA = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)), Fraction(1, 20)
#: Digits of a number that a reason writes in full.
_LONGEST_NUMBER = 12


@dataclass(frozen=True, kw_only=True)
class Fits:
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
def fits(universe: Universe) -> Sequence[Fits]:
    """Every mechanism that answers counts, those that can hold the universe first."""
    schema = Schema(universe=universe, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
    # In every column one bin: a single number, about all of them at once.
    count = Count(attributes=universe.names, bins=((0,),) * len(universe.names))
    workload = Workload(universe=universe, families=(count,))
    found = []
    for each in mechanisms().values():
        if not each.is_offered or not each.can_answer(workload):
            continue
        try:
            plan = each.plan(schema, workload, budget=_BUDGET, beta=_BETA)
        except EngineError as error:
            found.append(Fits(title=each.title, why_not=str(error)))
        else:
            found.append(_fits(plan))
    return tuple(sorted(found, key=lambda each: bool(each.why_not)))


def _fits(plan: Plan) -> Fits:
    title = mechanism(plan.mechanism).title
    if plan.infeasible:
        return Fits(title=title, why_not=re.sub(r"\d{1,3}(?:,\d{3})+", _shorter, plan.infeasible))
    time = duration(plan.work.seconds)
    return Fits(title=title, why_not="", memory=readable_size(plan.work.bytes), time=time)


def _shorter(found: re.Match[str]) -> str:
    """A number of cells as pages write it: a universe may have hundreds of digits."""
    digits = found[0].replace(",", "")
    return found[0] if len(digits) <= _LONGEST_NUMBER else planning.cells_text(int(digits))
