"""A plan as a file: what is asked, what may be spent, and by which mechanism, without the dataset it was made for.

    {"version": 1,
     "workload": {"version": 1, "queries": [...]},
     "epsilon": "1", "delta": "0", "beta": "0.05",
     "mechanism": "laplace-queries", "options": {"rows": 1000}}

Everything but the version may be left out: a file with a workload alone is a saved workload. Amounts are decimals
written as text, because a floating-point number is not what was typed.
"""

from __future__ import annotations

from typing import Any, TypedDict

from releases.engine.domain.schema import check_version
from releases.engine.errors import InvalidInput

PLAN_FILE_VERSION = 1
_FIELDS = ("version", "workload", "epsilon", "delta", "beta", "mechanism", "options")


class PlanFile(TypedDict):
    """A plan file, checked as far as can be without a dataset. Empty text and None stand for what was left out."""

    workload: dict[str, Any] | None
    epsilon: str
    delta: str
    beta: str
    mechanism: str
    options: dict[str, Any]


def plan_to_file(plan: PlanFile) -> dict[str, Any]:
    """The file of a plan, without what it leaves open."""
    return {"version": PLAN_FILE_VERSION, **{name: value for name, value in plan.items() if value}}


def plan_from_file(value: dict[str, Any]) -> PlanFile:
    """Read a plan file. The workload and the options are checked where they meet a schema and a mechanism.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    check_version(value, PLAN_FILE_VERSION, what="plan")
    unknown = set(value) - set(_FIELDS)
    if unknown:
        raise InvalidInput("plan", ", ".join(sorted(unknown)), f"is not a known field; they are {', '.join(_FIELDS)}")
    if not value.get("workload") and not value.get("epsilon"):
        raise InvalidInput("plan", "neither", "must hold a workload, or an epsilon, or both")
    if value.get("mechanism") and not value.get("epsilon"):
        raise InvalidInput("epsilon", "none", "must be there where a mechanism is chosen")
    return PlanFile(
        workload=_object(value, "workload") or None,
        epsilon=_text(value, "epsilon", ""),
        delta=_text(value, "delta", "0"),
        beta=_text(value, "beta", "0.05"),
        mechanism=_text(value, "mechanism", ""),
        options=_object(value, "options"),
    )


def _text(value: dict[str, Any], field: str, default: str) -> str:
    found = value.get(field, default)
    if isinstance(found, int) and not isinstance(found, bool):
        found = str(found)
    if not isinstance(found, str):
        raise InvalidInput(field, found, 'must be text, such as "0.5"')
    return found


def _object(value: dict[str, Any], field: str) -> dict[str, Any]:
    found = value.get(field, {})
    if not isinstance(found, dict):
        raise InvalidInput(field, found, "must be an object")
    return found
