"""The page on which mechanisms are compared before anything is spent: what each proves, costs and leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from releases.engine.domain.counted import Counted
from releases.engine.mechanisms.base import Mechanism
from releases.planning import comparison, recommendation
from releases.planning.comparison import ComparedPlan, OptionField
from releases.planning.error_target import Needed
from releases.questions.base import Want


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A short line below a number.

    Attributes:
        kind: its class in the style sheet.
    """

    text: str
    kind: str = "muted"


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionShown:
    """An option of a mechanism, as a field.

    Attributes:
        choices: of a menu, each with whether it is chosen; empty for a number.
    """

    id: str
    name: str
    label: str
    help: str
    value: str
    problem: str
    choices: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MechanismShown:
    """One mechanism of the comparison.

    Attributes:
        kind: the class of its rows: chosen, or not to be chosen.
        advice: why to look at it first; empty for most.
        reason: why it cannot be run at all; the rest of the row is empty then.
        margin, sentence: the bound as a number, or in words where it is no number; both empty where none is known.
        why_not: why it cannot be chosen; empty where it can.
        is_outlined: its button is none of the first ones.
        is_open: its details show, for something typed there is wrong.
        facts: names and values, for the details.
    """

    name: str
    title: str
    kind: str
    advice: str
    reason: str
    margin: str
    sentence: str
    bound_notes: tuple[Note, ...]
    cost: str
    leaves: str
    leaves_notes: tuple[Note, ...]
    seconds: str
    why_not: str
    is_outlined: bool
    is_open: bool
    summary: str
    accuracy: str
    options: tuple[OptionShown, ...]
    facts: tuple[tuple[str, str], ...]
    formula: str

    @property
    def has_bound(self) -> bool:
        return bool(self.margin or self.sentence)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recommended:
    """The one method that the page recommends.

    Attributes:
        why: the reason, in one sentence.
        within: how close its answers are, in their unit.
        leaves: what it leaves of the budget, and what no longer fits then; empty where it does not fit itself.
        notes: what else is to be known before it is chosen.
        other: where another want has another method, the address of the page that recommends that one.
        other_text: of the link.
    """

    method: MechanismShown
    why: str
    within: str
    leaves: str
    notes: tuple[Note, ...]
    other: str
    other_text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EpsilonShown:
    """The least epsilon with which one mechanism keeps an error.

    Attributes:
        epsilon: empty where there is none; `notes` then say why.
        can_be_compared: it fits into the budget.
    """

    title: str
    unit: str
    epsilon: str
    notes: tuple[Note, ...]
    leaves: str
    leaves_notes: tuple[Note, ...]
    can_be_compared: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonPage:
    """Every mechanism's plan for a draft.

    Attributes:
        recommended: None where no mechanism can be run.
        says_little: how wide the closest bound is, where none says anything; empty otherwise.
        cannot_run: those that cannot be run with these numbers; `opens_cannot_run` where they are to be seen at once.
        others: mechanisms for another kind of question.
        units: what the bounds are measured in; `unit`: that of the recommended one.
        has_importance: some answers are more important than others.
        needed: what a given error takes; empty until an error is given.
        further: those that can be run beside the recommended one.
        opens_further: what is folded away below the recommended one is to be seen at once.
        keeps: what the page's own links keep of its address, before what they add.
        error: the bound of the recommended one as it is typed; empty where it has none.
        no_error: why no largest error can be asked for; empty where one can.
        rows_counted: which rows a method counts that says nothing of it; empty where no rule of a column decides.
    """

    recommended: Recommended | None
    says_little: str
    can_run: tuple[MechanismShown, ...]
    cannot_run: tuple[MechanismShown, ...]
    opens_cannot_run: bool
    others: tuple[Mechanism, ...]
    units: tuple[str, ...]
    unit: str
    counts: str
    has_importance: bool
    needed: tuple[EpsilonShown, ...]
    further: tuple[MechanismShown, ...]
    opens_further: bool
    keeps: str
    error: str
    no_error: str
    rows_counted: str

    @property
    def has_units(self) -> bool:
        """Whether a bound has to say its unit."""
        return len(self.units) > 1


def comparison_page(
    rows: Sequence[ComparedPlan],
    *,
    chosen: str,
    others: Sequence[Mechanism],
    needed: Sequence[Needed] = (),
    want: str = "",
    opens: bool = False,
) -> ComparisonPage:
    """
    Args:
        rows: in the order of the page.
        chosen: the name of the mechanism that the draft has; empty where it has none.
        want: what the address says that the questions are for.
        opens: what is folded away is asked for.
        needed: the least epsilons for an error, if one is given.
    """
    best, counts = comparison.best_choices(rows), (rows[0].counted if rows else Counted.ROWS).many
    shown = {row.mechanism.name: _shown(row, chosen=chosen, best=best) for row in rows}
    can_run = tuple(each for each in shown.values() if not each.reason)
    cannot_run = tuple(each for each in shown.values() if each.reason)
    for_rows = want == Want.ROWS
    no_error = comparison.why_no_largest_error(rows[0].plan) if rows else ""
    first = recommendation.recommended(rows, for_rows=for_rows)
    further = tuple(each for each in can_run if first is None or each.name != first.mechanism.name)
    return ComparisonPage(
        recommended=None if first is None else _recommended(first, rows, shown, for_rows=for_rows),
        says_little=comparison.says_little_at_all(rows),
        can_run=can_run,
        cannot_run=cannot_run,
        opens_cannot_run=not can_run or any(each.is_open for each in cannot_run),
        others=tuple(others),
        units=tuple(dict.fromkeys(row.unit for row in rows)),
        unit=counts if first is None else first.unit,
        counts=counts,
        has_importance=any(row.margins for row in rows),
        needed=tuple(_epsilon(each) for each in needed),
        further=further,
        opens_further=first is None or opens or any(each.is_open for each in (*further, *cannot_run)),
        keeps=f"want={want}&" if want in list(Want) else "",
        error="" if first is None or first.bound is None or no_error else _typed(first.bound.alpha),
        no_error=no_error,
        rows_counted=f"A method that says nothing else makes every table only of {counts} that fit all columns asked "
        "about."
        if any(row.rows_counted for row in rows)
        else "",
    )


def _typed(alpha: float) -> str:
    """A bound as a number that can be typed, rounded up: with a smaller one the epsilon would have to rise."""
    return f"{ceil(alpha)}" if alpha >= 10 else f"{ceil(alpha * 1000) / 1000:g}"


def _recommended(
    row: ComparedPlan, rows: Sequence[ComparedPlan], shown: Mapping[str, MechanismShown], *, for_rows: bool
) -> Recommended:
    other = recommendation.recommended(rows, for_rows=not for_rows)
    is_other = other is not None and other is not row
    method = shown[row.mechanism.name]
    notes = [each for each in (*method.bound_notes, *method.leaves_notes) if each.kind != "muted"]
    if row.rows_counted:
        notes.append(Note(text=row.rows_counted_in_full, kind=""))
    return Recommended(
        method=method,
        notes=tuple(notes),
        why=recommendation.why(row, rows, for_rows=for_rows),
        within=recommendation.within(row),
        leaves=f"Leaves {row.leaves.share} of the budget: {row.leaves.more_text}. {row.leaves.closes}".strip()
        if row.leaves
        else "",
        other=f"?want={Want.TABLE if for_rows else Want.ROWS}" if is_other else "",
        other_text="Recommend one for the answers" if for_rows else "Recommend one for synthetic rows",
    )


def _shown(row: ComparedPlan, *, chosen: str, best: dict[str, str]) -> MechanismShown:
    name, can_run = row.mechanism.name, not row.plan.infeasible
    advice = best.get(name, "") if can_run else ""
    return MechanismShown(
        name=name,
        title=row.mechanism.title,
        kind="off" if not row.can_be_chosen else "chosen" if name == chosen else "",
        advice=advice,
        reason=row.plan.infeasible,
        margin=row.margin if can_run else "",
        sentence=row.sentence if can_run and row.bound is not None and not row.margin else "",
        bound_notes=tuple(_bound_notes(row)) if can_run else (),
        cost=row.cost,
        leaves=row.leaves.share if row.leaves else "" if row.refusal else "–",
        leaves_notes=(Note(text="does not fit", kind="little"),) if row.leaves is None and row.refusal else (),
        seconds=row.seconds if can_run else "",
        why_not=row.why_not,
        is_outlined=bool(best) and not advice,
        is_open=any(option.problem for option in row.options),
        summary=row.mechanism.summary,
        accuracy=row.sentence if can_run else "",
        options=tuple(_option(each) for each in row.options),
        facts=tuple(_facts(row)),
        formula=row.formula,
    )


def _bound_notes(row: ComparedPlan) -> Iterator[Note]:
    if row.bound is None:
        now = f", or now if you enter about how many {row.counted.many} there are" if row.wants_rows else ""
        yield Note(text=f"known with the release{now}")
        return
    if row.margins:
        importance, margin = row.margins[-1]
        yield Note(text=f"{margin} at importance {importance}", kind="")
    if row.is_unproved:
        yield Note(text=row.proof)
    if row.plan.workload.universe.own_rows:
        yield Note(text=f"all {row.counted.many} of each table, no synthetic rows")
    if row.says_little:
        yield Note(text=row.says_little, kind="little")


def _option(field: OptionField) -> OptionShown:
    return OptionShown(
        id=field.id,
        name=field.name,
        label=field.option.label,
        help=field.option.help,
        value=field.value,
        problem=field.problem,
        choices=tuple((each, each == field.value) for each in field.option.choices),
    )


def _facts(row: ComparedPlan) -> Iterator[tuple[str, str]]:
    if row.for_synthetic_rows:
        yield "Synthetic rows", row.for_synthetic_rows
    if row.cost_in_full:
        yield "Cost in full", row.cost_in_full
    if row.leaves is not None:
        full = (f"{row.leaves.text}, {row.leaves.more_text}.", row.leaves.runs_out, row.leaves.closes)
        yield "Left in full", " ".join(each for each in full if each)
    if row.bound is not None:
        yield "Bound known", f"{row.proof}{f'; {row.useful_from}' if row.useful_from else ''}"
    if not row.plan.infeasible:
        yield "Memory", row.memory
    for name, value in row.parameters.items():
        yield name[:1].upper() + name[1:], value
    if row.margins:
        yield "Bound by importance", "; ".join(f"{margin} at importance {each}" for each, margin in row.margins)
    if row.formula_source and row.formula_source != row.mechanism.source:
        yield "Source of the bound", row.formula_source
    yield "Source", row.mechanism.source


def _epsilon(needed: Needed) -> EpsilonShown:
    leaves = needed.leaves
    notes: list[Note] = []
    if leaves is not None:
        no_more = f". {leaves.why_no_more}" if leaves.why_no_more else ""
        notes = [Note(text=f"{leaves.more_text}{no_more}")]
    elif needed.refusal:
        notes = [Note(text=needed.refusal, kind="little")]
    return EpsilonShown(
        title=needed.mechanism.title,
        unit=needed.unit,
        epsilon=needed.epsilon,
        notes=(Note(text=needed.why),) if needed.why else (),
        leaves=leaves.share if leaves is not None else "" if needed.refusal else "–",
        leaves_notes=tuple(notes),
        can_be_compared=not needed.refusal,
    )
