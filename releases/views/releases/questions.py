"""The questions of a draft: counts added and removed one at a time, or one statistic, with or without JavaScript."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

from django.db.models import Case, When
from django.http import HttpRequest, QueryDict

from releases.display.error_messages import in_words
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanisms
from releases.engine.workload.queries import (
    MAX_FAMILIES,
    WORKLOAD_VERSION,
    Family,
    Workload,
)
from releases.engine.workload.questions import Inquiry, Question
from releases.engine.workload.statistic import asks_statistic
from releases.forms.fields import MAX_TICKED_COLUMNS
from releases.forms.questions import KindLinkForm, QuestionsForm
from releases.forms.releases import WorkloadForm
from releases.forms.statistics import StatisticForm
from releases.models import PLAIN, Release
from releases.planning import comparison
from releases.presentation.releases.wants import kinds_of, wants_shown
from releases.questions.base import Want, calling, kinds, offered_statistics
from releases.views.common.wizard import workload_of

#: The buttons that add counts.
COUNT_ACTIONS = ("marginals", "prefix", "count")
_PLACES = {"name": "draft-title"} | {action: f"add-{action}" for action in COUNT_ACTIONS}
#: The buttons of a statistic's form: ask it, only look whether it can be asked, change the counts it is about.
STATISTIC_ACTIONS = ("ask", "check", "change-counts")
#: Questions listed with a button to remove them.
_MAX_LISTED = 150
#: Earlier drafts and releases whose questions can be taken over.
_MAX_SAVED = 50
#: Questions of one kind that are listed without being asked to.
_MAX_OPEN = 12


def changed_workload(release: Release, form: QuestionsForm) -> dict[str, Any] | None:
    """The draft's workload after the button that was pressed; None where no question is left.

    Raises:
        InvalidInput: what was to be added, or an importance in the list, breaks a rule.
    """
    action = form.action_pressed
    if action == "clear":
        return None
    if action == "rows":
        return {"version": WORKLOAD_VERSION, "queries": [form.added()]}
    queries = _weighed_queries(release, form)
    if action.startswith("remove-"):
        queries = [query for position, query in enumerate(queries) if position != form.removed]
        if not queries:
            return None
    elif action not in ("importance", "next"):
        queries.append(form.added())
    return {"version": WORKLOAD_VERSION, "queries": queries}


def _weighed_queries(release: Release, form: QuestionsForm) -> list[dict[str, Any]]:
    """The counts asked so far, with the importance typed beside them; none where a statistic is, which stands alone.

    Raises:
        InvalidInput: an importance breaks its rule.
    """
    queries = list((release.workload or {}).get("queries", []))
    if asks_statistic(queries):
        return []
    if not form.is_weighed:
        return queries
    workload = workload_of(release)
    return form.weighed(workload) if isinstance(workload, Workload) else []


@dataclass(frozen=True, kw_only=True)
class DraftQuestions:
    """What a draft asks so far, and what the page's fields say beside it.

    Attributes:
        action: the button that was pressed; empty where the page is only looked at.
        want: what the questions are for; None until that is chosen.
        kind: of question the page is about: counts, or a statistic's.
        workload, stale: what is asked so far, or why it no longer fits the columns.
        statistic: the fields of the kind; None for counts.
        form: the button that was pressed, and the fields beside it.
        shown: the fields for conditions, as typed.
        problem: what is wrong with the count to be added.
    """

    action: str
    want: Want | None
    kind: str
    workload: Question | None
    stale: str
    statistic: StatisticForm | None
    form: QuestionsForm
    shown: QuestionsForm
    problem: str = ""

    @staticmethod
    def read(request: HttpRequest, release: Release) -> DraftQuestions:
        universe = release.dataset.universe
        assert universe is not None
        form = shown = QuestionsForm(request.POST, universe=universe)
        try:
            workload, stale = workload_of(release), ""
        except InvalidInput as error:
            workload, stale = None, in_words(error)
        want, kind = _chosen(form, KindLinkForm(request.GET).given, workload)
        action, problem, counts = form.action_pressed, "", form.sent["counts"]
        try:
            counts = form.counts_after()
            if action == "add-count":
                shown = QuestionsForm(QueryDict(), universe=universe)
        except InvalidInput as error:
            problem = in_words(error)
        return DraftQuestions(
            action="change-counts" if action.startswith(("add-", "drop-")) else action,
            want=want,
            kind=kind,
            workload=workload,
            stale=stale,
            statistic=form.statistic(kind, workload, counts),
            form=form,
            shown=shown,
            problem=problem,
        )

    @property
    def is_check(self) -> bool:
        return self.action == "check" and self.statistic is not None

    @property
    def is_refused(self) -> bool:
        return self.action == "ask" and self.statistic is not None and bool(self.statistic.errors)

    @property
    def said(self) -> dict[str, Any]:
        """What would be asked, or what is wrong with it, as the page says while a person types."""
        form = self.statistic
        if form is None or not self.is_check:
            return {}
        if not form.is_valid():
            return {"mistakes": [text for each in form.errors.values() for text in each]}
        assert form.statistic is not None
        inquiry = Inquiry(universe=form.universe, statistic=form.statistic)
        answering = [each.title for each in mechanisms().values() if each.can_answer(inquiry)]
        return {"would_ask": comparison.questions_text(inquiry), "answers": inquiry.size, "answering": answering}


def place_of_work(form: QuestionsForm) -> str:
    """Where on the page that follows a person works, who has pressed a button: the browser moves the focus there."""
    return _PLACES.get(form.action_pressed, "asked-so-far")


def asked_statistic(form: StatisticForm) -> dict[str, Any]:
    """A valid form's statistic as a workload."""
    assert form.statistic is not None
    return {"version": WORKLOAD_VERSION, "queries": [form.statistic.to_json(form.universe)]}


def _chosen(form: QuestionsForm, link: dict[str, str], workload: Question | None) -> tuple[Want | None, str]:
    """What is wanted and the kind of question the page is about: those sent, else those of what is asked so far."""
    asked = "" if workload is None else workload.kind
    if (sent := form.sent["kind"] or link["kind"]) in (Workload.kind, *offered_statistics()):
        return kinds()[sent].want, sent
    if link["want"] in list(Want):
        want = Want(link["want"])
        names = kinds_of(want)
        return want, asked if asked in names else next(iter(names), Workload.kind)
    if form.action_pressed in COUNT_ACTIONS:
        return Want.TABLE, Workload.kind
    return (kinds()[asked].want, asked) if asked else (None, Workload.kind)


def saved_questions(request: HttpRequest, release: Release) -> list[dict[str, Any]]:
    """Releases and drafts that a person may work on and that ask something, those of the same dataset first: their
    questions can be asked again."""
    asking = (
        Release.objects.editable_by(request.user)
        .exclude(pk=release.pk)
        .exclude(stored_questions=None)
        .of_kind(PLAIN)
        .annotate(is_other=Case(When(dataset=release.dataset_id, then=0), default=1))
        .order_by("is_other", "-created_at")
    )
    return [
        {"pk": pk, "title": f"{title} ({dataset})" if is_other else title}
        for pk, title, dataset, is_other in asking.values_list("pk", "title", "dataset__title", "is_other")[:_MAX_SAVED]
    ]


def question_context(release: Release, asked: DraftQuestions) -> dict[str, Any]:
    """What the page shows: the questions so far, their size, and the fields to add more."""
    universe, workload, form = release.dataset.universe, asked.workload, asked.shown
    assert universe is not None
    is_ticked, prefix = len(universe.names) <= MAX_TICKED_COLUMNS, form.sent["prefix"]
    fields = form.column_fields if is_ticked else ()
    return {
        "universe": universe,
        "counts": calling("{many}", universe),
        "of_persons": universe.populations[1].names if len(universe.populations) > 1 else (),
        "workload": workload,
        "stale": asked.stale,
        "kind": asked.kind,
        "statistic": asked.statistic,
        "has_changed_counts": asked.action == "change-counts" and not asked.problem,
        "asked": comparison.questions_text(workload) if workload else "",
        "groups": _groups(workload, form) if workload else [],
        "can_be_weighed": isinstance(workload, Workload) and len(workload.families) > 1,
        "added_importance": {asked.action: form.importance_added},
        "orders": _orders(universe.populations[0], form.sent["order"]),
        "ticked": [(each, each.name in form.sent["columns"]) for each in fields],
        "typed_columns": form.sent["typed_columns"],
        "chosen_prefix": prefix,
        "numbers": [(each.name, each.name == prefix) for each in fields if each.is_in_order],
        "categories": (categories := [(each.name, each.name == prefix) for each in fields if not each.is_in_order]),
        "is_category_chosen": any(is_chosen for _, is_chosen in categories),
        "is_in_order": bool(form.sent["in_order"]),
        "is_ticked": is_ticked,
        "shows_asked": workload is not None or asked.want is Want.TABLE,
        "wants": wants_shown(release, want=asked.want, kind=asked.kind),
        "is_statistic": workload is not None and not workload.is_counts,
        "column_fields": fields,
        "as_json": WorkloadForm.as_text(release.workload) if release.workload else "",
    }


def _group_of(family: Family) -> tuple[int, str]:
    """The place and the title of the group that lists it."""
    order = len(family.attributes)
    if family.kind == "marginal":
        return order, f"over {order} column{'' if order == 1 else 's'}"
    return (10**6, "running totals") if family.kind == "prefix" else (10**6 + 1, "single counts")


def _groups(workload: Question, form: QuestionsForm) -> list[dict[str, Any]]:
    """The questions by kind, each list cut at what a page can hold."""
    universe = workload.universe
    if isinstance(workload, Inquiry):
        # One statistic, whatever its answer consists of.
        title = comparison.questions_text(workload)
        shown = [{"action": "remove-0", "title": title, "answers": workload.size}]
        return [
            {
                "title": "One statistic",
                "number": 1,
                "answers": workload.size,
                "shown": shown,
                "is_open": True,
                "more": 0,
            }
        ]
    found: dict[tuple[int, str], list[tuple[int, Family]]] = {}
    for position, family in enumerate(workload.families):
        found.setdefault(_group_of(family), []).append((position, family))
    groups = []
    for (_, title), families in sorted(found.items()):
        fields = [form.importance_of(family) for _, family in families[:_MAX_LISTED]]
        shown = [
            {
                "action": f"remove-{position}",
                "title": family.title(universe),
                "answers": family.cells(universe),
                "importance": field,
            }
            for (position, family), field in zip(families, fields, strict=False)
        ]
        groups.append(
            {
                "title": f"Tables of counts {title}" if title.startswith("over") else title.capitalize(),
                "number": len(families),
                "answers": sum(family.cells(universe) for _, family in families),
                "shown": shown,
                "is_open": len(families) <= _MAX_OPEN or any(each.value != "1" for each in fields),
                "more": len(families) - len(shown),
            }
        )
    return groups


def _orders(universe: Universe, chosen: str) -> list[dict[str, Any]]:
    """All tables of 1, 2 and 3 columns: how many tables, how many answers."""
    # Elementary symmetric sums of the sizes: the answers of all tables of k columns, without listing the tables.
    sums = [1, 0, 0, 0]
    for size in universe.shape:
        for order in (3, 2, 1):
            sums[order] += sums[order - 1] * size
    number = len(universe.names)
    orders = []
    for order in range(1, min(3, number) + 1):
        tables = comb(number, order)
        orders.append(
            {
                "value": str(order),
                "title": f"{order} column{'' if order == 1 else 's'}",
                "tables": tables,
                "answers": sums[order],
                "is_checked": str(order) == (chosen or str(min(2, number))),
                "too_many": tables > MAX_FAMILIES,
            }
        )
    return orders
