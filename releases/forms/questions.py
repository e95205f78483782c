"""What the page of questions sends: a button, with counts to be added, a statistic, or the importance of each."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import QueryDict

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.queries import Family, Workload, check_weight, read_count, unweighted
from releases.engine.workload.questions import Inquiry, Question
from releases.forms.fields import LenientForm, TextsField, TypedTextField
from releases.forms.predicates import ConditionsForm
from releases.forms.statistics import StatisticForm
from releases.questions.base import offered_statistics

#: The field of a question that is to be added, and what the names of the fields in the list begin with.
ADDED = "importance"
_LISTED = "importance-"


class KindLinkForm(LenientForm):
    """What is wanted, or of which kind of question the page is to be."""

    want = TypedTextField()
    kind = TypedTextField()


@dataclass(frozen=True, kw_only=True)
class ImportanceField:
    """A field for an importance.

    Attributes:
        name: in the list it says what the question asks, not where it stands: another window may have changed the list.
        value: as typed, or as stored; empty where it is 1 unless another is typed.
        is_wrong: whether what was typed is no importance.
    """

    name: str
    value: str
    is_wrong: bool

    @staticmethod
    def of(name: str, value: str) -> ImportanceField:
        return ImportanceField(name=name, value=value, is_wrong=not _is_weight(_read(value)))


class QuestionsForm(ConditionsForm, LenientForm):
    """A button of the page, and the fields of the small form that it belongs to."""

    action = TypedTextField()
    kind = TypedTextField()
    title = TypedTextField()
    order = TypedTextField()
    columns = TextsField()
    typed_columns = TypedTextField()
    prefix = TypedTextField()  # type: ignore[assignment]  # Django takes fields out of the class
    in_order = TypedTextField()
    counts = TextsField()

    def __init__(self, posted: QueryDict, *, universe: Universe) -> None:
        super().__init__(posted, universe=universe)
        self.sent = self.given
        self.action_pressed: str = self.sent["action"]

    @property
    def removed(self) -> int | None:
        """The place of the question whose button removes it."""
        return _place(self.action_pressed, "remove-")

    # Questions that are added

    def added(self) -> dict[str, Any]:
        """The question that one of the page's buttons adds, with the importance typed for it; without one it has 1.

        Raises:
            InvalidInput: it breaks a rule.
        """
        query = self._added()
        typed = self.posted.get(ADDED, "")
        return {**query, "weight": _checked(typed, field="importance")} if typed.strip() else query

    def _added(self) -> dict[str, Any]:
        if self.action_pressed == "marginals":
            return self._marginals()
        if self.action_pressed == "rows":
            return self._pairs()
        if self.action_pressed == "prefix":
            return {"prefix": self._prefix()}
        if self.action_pressed != "count":
            raise InvalidInput("action", self.action_pressed, "is not known; use the buttons of the page")
        return {"count": self.predicate()}

    def _marginals(self) -> dict[str, Any]:
        """All tables over so many columns, of those that were chosen; where none was, of all that count rows.

        Raises:
            InvalidInput: fewer columns were chosen than a table has.
        """
        order = self.sent["order"]
        query: dict[str, Any] = {"marginals": int(order) if re.fullmatch(r"[0-9]{1,4}", order) else order}
        chosen = self._chosen_columns
        if not chosen and len(self.universe.populations) > 1:
            chosen = list(self.universe.populations[0].names)
        if chosen:
            query["columns"] = chosen
            if isinstance(query["marginals"], int) and query["marginals"] > len(chosen):
                tables = f"a table of {query['marginals']} columns needs {query['marginals']} of them or more"
                less = "one column" if len(chosen) == 1 else f"{len(chosen)} columns"
                rule = f"is too few: {tables}. Choose more, or tables of {less}"
                raise InvalidInput("columns", ", ".join(chosen), rule)
        return query

    def _pairs(self) -> dict[str, Any]:
        """The tables that synthetic rows are to agree with: over every two of the columns, or over the one there is."""
        chosen = self._chosen_columns or list(self.universe.populations[0].names)
        return {"marginals": min(2, len(chosen)), "columns": chosen}

    @property
    def _chosen_columns(self) -> list[str]:
        """Ticked, or typed where there are very many; none for all."""
        typed = [name.strip() for name in re.split(r"[\n,]", self.sent["typed_columns"]) if name.strip()]
        return self.sent["columns"] or typed

    def _prefix(self) -> str:
        """The column of running totals. "At or below" has a meaning for categories only where they are in order.

        Raises:
            InvalidInput: nobody has said that they are.
        """
        name: str = self.sent["prefix"]
        is_unordered = name in self.universe.names and not self._is_in_order(name)
        if is_unordered and not self.sent["in_order"]:
            rule = "has categories; say that they are declared in order, or ask for a table"
            raise InvalidInput("prefix", name, rule)
        return name

    def _is_in_order(self, name: str) -> bool:
        return self.universe[name].is_numeric or self.universe[name].in_time > 0

    # How much each question matters

    @property
    def is_weighed(self) -> bool:
        """Whether the list of questions was sent."""
        return any(name.startswith(_LISTED) for name in self.posted)

    def weighed(self, workload: Workload) -> list[dict[str, Any]]:
        """The questions asked so far, each with the importance typed beside it in the list; 1 where it was left empty.

        Raises:
            InvalidInput: what was typed beside one is no whole number from 1 to 1,000.
        """
        read = []
        for family, query in zip(workload.families, workload.to_json()["queries"], strict=True):
            typed = self.posted.get(field_name(family, self.universe))
            if typed is not None:
                weight = _checked(typed, field=f"importance of {family.title(self.universe)}")
                query = {name: value for name, value in query.items() if name != "weight"} | {"weight": weight}
            read.append(query)
        return read

    def importance_of(self, family: Family) -> ImportanceField:
        name = field_name(family, self.universe)
        return ImportanceField.of(name, self.posted.get(name, str(family.weight)))

    @property
    def importance_added(self) -> ImportanceField:
        """The field of a question that is to be added."""
        return ImportanceField.of(ADDED, self.posted.get(ADDED, ""))

    # One statistic

    def counts_after(self) -> list[str]:
        """The counts that a statistic is about, after the button that adds one or drops one.

        Raises:
            InvalidInput: the conditions of one to be added break a rule.
        """
        if self.action_pressed == "add-count":
            typed = read_count(self.predicate(), self.universe).to_json(self.universe)["count"]
            return [*self.sent["counts"], json.dumps(typed, ensure_ascii=False)]
        dropped = _place(self.action_pressed, "drop-")
        return [text for position, text in enumerate(self.sent["counts"]) if position != dropped]

    def statistic(self, kind: str, workload: Question | None, counts: list[str]) -> StatisticForm | None:
        """The fields of a statistic: as posted, else as asked so far, else empty; None for counts."""
        if kind == Workload.kind:
            return None
        make = partial(StatisticForm, offered_statistics()[kind], universe=self.universe)
        form = make()
        if self.sent["kind"] != kind:
            if isinstance(workload, Inquiry) and workload.kind == kind:
                form.initial = form.typed_of(workload.statistic)
            return form
        if self.action_pressed in ("ask", "check"):
            return make(self.posted)
        # Another button: what was typed is kept, and not judged before it is asked.
        fields = form.fields.items()
        form.initial = {name: field.widget.value_from_datadict(self.posted, {}, name) for name, field in fields}
        form.initial["counts"] = counts
        return form


def field_name(family: Family, universe: Universe) -> str:
    asked = json.dumps(unweighted(family).to_json(universe), sort_keys=True)
    return _LISTED + hashlib.sha256(asked.encode()).hexdigest()[:12]


def _place(action: str, before: str) -> int | None:
    place = action.removeprefix(before)
    return int(place) if action.startswith(before) and re.fullmatch(r"[0-9]{1,6}", place) else None


def _read(typed: str) -> int | str:
    text = typed.strip() or "1"
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else typed


def _is_weight(weight: int | str) -> bool:
    try:
        check_weight(weight)
    except InvalidInput:
        return False
    return True


def _checked(typed: str, *, field: str) -> int:
    weight = _read(typed)
    try:
        check_weight(weight)
    except InvalidInput as error:
        raise InvalidInput(field, error.value, error.rule) from None
    assert isinstance(weight, int)
    return weight
