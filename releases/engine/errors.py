"""The errors the engine raises. Each carries what a person needs to put the matter right."""

from __future__ import annotations


class EngineError(Exception):
    """Any refusal by the engine. Its text never depends on the rows of a table."""


class InvalidInput(EngineError, ValueError):
    """A public input breaks a rule. The text names the field, the value and the rule.

    Attributes:
        field: where the value stands, as the person who wrote it would say it (``columns[2].edges``).
        value: what was given.
        rule: what is expected there, as a sentence without its first word (``must be ...``).
    """

    def __init__(self, field: str, value: object, rule: str) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        shown = repr(value) if isinstance(value, str) else str(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(f"{field}: {shown} {rule}")


class Infeasible(EngineError):
    """A plan that cannot be run was run. The text is the plan's reason."""


class Unpriceable(EngineError):
    """An accountant was asked for a price it cannot prove, so it refuses."""


class Cancelled(EngineError):
    """The run was asked to stop between two steps."""
