"""Workloads: questions saved under a name, edited version by version, and asked of one dataset after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import Inquiry, Question, renamed, universe_asked
from releases.ledger import audit_log
from releases.models import AuditAction, Dataset, Release, ReleaseState, SavedWorkload, WorkloadVersion
from releases.schema.descriptions import read_paragraph
from releases.services.datasets import group_facts, read_title
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import Refusal
from releases.services.releases import draft_release, set_questions

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@dataclass(frozen=True, kw_only=True)
class ColumnFit:
    """Whether a column that a workload needs is there.

    Attributes:
        needed: as the workload has it.
        column: the dataset's column that stands for it; empty where there is none.
        reason: the rule that keeps it from fitting; empty where it fits.
        is_declared_alike: whether its bins or categories, and what becomes of other values, are those of the workload.
    """

    needed: Attribute
    column: str
    reason: str = ""
    is_declared_alike: bool = True

    @property
    def is_renamed(self) -> bool:
        return bool(self.column) and self.column != self.needed.name


def why_not_saved(release: Release) -> str:
    """Why the questions of a release cannot be saved as a workload; empty where they can."""
    if release.kind.why_not_saved:
        return release.kind.why_not_saved
    if release.status is not ReleaseState.DRAFT and release.workload_version_id is not None:
        return "It was submitted with a workload already."
    return "" if release.workload else "Add at least one question first, then save the questions."


@planned_atomically()
def save_workload(
    *, release: Release, name: str, by: User, description: str = "", group: Group | None = None
) -> SavedWorkload:
    """Save what a draft or a release asks as a new workload, of which it then is the first release.

    Raises:
        InvalidInput: the name or the description breaks its rule, or the group is not one's own.
        Refusal: there is nothing to save.
    """
    locked, question = _asked(release)
    _check_group(group, by)
    called, about = _read_name(name), read_paragraph(description)
    try:
        with transaction.atomic():
            workload = SavedWorkload.objects.create(name=called, description=about, owner=by, group=group)
    except IntegrityError:
        raise _name_taken(called) from None
    version = _add_version(workload, question, number=1, by=by)
    _link(locked, release, version)
    shared = f", shared with {group.name}" if group is not None else ""
    audit_log.record(AuditAction.SAVE, actor=by, on=workload, detail=f"version 1{shared}")
    return workload


@planned_atomically()
def save_version(*, workload: SavedWorkload, release: Release, by: User) -> WorkloadVersion:
    """Save what a draft or a release asks as the next version of a workload; the newest again, where it asks the same.

    Raises:
        Refusal: there is nothing to save.
    """
    locked, question = _asked(release)
    version = _next_version(workload, question, by=by)
    _link(locked, release, version)
    return version


@planned_atomically()
def edit_workload(
    *,
    workload: SavedWorkload,
    by: User,
    since: int,
    name: str | None = None,
    description: str | None = None,
    questions: Mapping[str, Any] | None = None,
) -> WorkloadVersion:
    """Change what a workload is called, what is said of it, or what it asks. Other questions make the next version; no
    release changes by it.

    Args:
        since: the number of the version that was newest when the person began to edit.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: somebody else has made a newer version meanwhile.
    """
    locked = SavedWorkload.objects.select_for_update().get(pk=workload.pk)
    latest = locked.latest
    if latest.number != since:
        raise Refusal(
            f"Version {latest.number} was made by {latest.made_by} since you began from version {since}. "
            "Read it, and make your change to it."
        )
    locked.name = locked.name if name is None else _read_name(name)
    locked.description = locked.description if description is None else read_paragraph(description)
    if (locked.name, locked.description) != (workload.name, workload.description):
        try:
            with transaction.atomic():
                locked.save(update_fields=["name", "description"])
        except IntegrityError:
            raise _name_taken(locked.name) from None
        audit_log.record(AuditAction.SAVE, actor=by, on=locked, detail="its name or description")
    if questions is None:
        return latest
    return _next_version(locked, _read(questions, latest.question.universe), by=by)


@transaction.atomic
def share_workload(*, workload: SavedWorkload, group: Group | None, by: User) -> None:
    """Let a group use and edit a workload, or nobody but its owner.

    Raises:
        InvalidInput: somebody else's workload, or a group that its owner does not belong to.
    """
    if by.pk != workload.owner_id:
        chosen = group.name if group else "nobody else"
        raise InvalidInput("group", chosen, f"can be chosen by {workload.owner} alone, whose workload it is")
    if group == workload.group:
        return
    _check_group(group, by)
    action = AuditAction.UNSHARE if workload.group is not None else AuditAction.SHARE
    workload.group = group
    workload.save(update_fields=["group"])
    shared = f"with {group.name if group else 'nobody'}"
    audit_log.record(action, actor=by, on=workload, detail=shared, facts=group_facts(group))


@transaction.atomic
def discard_workload(*, workload: SavedWorkload, by: User) -> None:
    """Delete a workload that no submitted release was taken from. Drafts keep their questions.

    Raises:
        InvalidInput: it is somebody else's.
        Refusal: a release was submitted with it.
    """
    if by.pk != workload.owner_id:
        raise InvalidInput("workload", workload.name, f"can be deleted by {workload.owner} alone, whose workload it is")
    taken = Release.objects.filter(workload_version__workload=workload)
    taken.filter(state=ReleaseState.DRAFT).update(workload_version=None)
    if taken.exists():
        raise Refusal("A release was submitted with this workload, so it is kept.")
    audit_log.record(AuditAction.DISCARD, actor=by, on=workload)
    workload.delete()


def suggested_columns(version: WorkloadVersion, universe: Universe) -> dict[str, str]:
    """For each column that a workload needs, that of the same name; else the only other one that is declared alike."""
    needed = version.needed
    free = [each for each in universe.attributes if each.name not in needed.names]
    found = {}
    for each in needed.attributes:
        alike = [other.name for other in free if replace(other, name=each.name) == each]
        rivals = [other for other in needed.attributes if other.name not in universe.names and _alike(other, each)]
        found[each.name] = each.name if each.name in universe.names else ""
        if not found[each.name] and len(alike) == len(rivals) == 1:
            found[each.name] = alike[0]
    return found


def column_fits(version: WorkloadVersion, universe: Universe, columns: Mapping[str, str]) -> list[ColumnFit]:
    """Of each column that a workload needs, whether it fits a dataset's columns, and if not, why.

    Args:
        columns: by the workload's column the dataset's; one that is not named has the same name in both.
    """
    question = replace(version.question, universe=version.needed)
    names = {each: columns.get(each, each) for each in version.needed.names}
    return [_fit(question, each, names, universe) for each in version.needed.attributes]


def mapped_questions(version: WorkloadVersion, universe: Universe, columns: Mapping[str, str]) -> dict[str, Any]:
    """A workload's questions about a dataset's columns, in the workload format.

    Raises:
        InvalidInput: a column does not fit, or none of that name is needed.
    """
    for name in columns:
        if name not in version.needed.names:
            raise InvalidInput("columns", name, "is not a column that the workload needs")
    fits = column_fits(version, universe, columns)
    for each in fits:
        if each.reason:
            raise InvalidInput(f"columns.{each.needed.name}", each.column or each.needed.name, each.reason)
    question = replace(version.question, universe=version.needed)
    return renamed(question, {each.needed.name: each.column for each in fits}).to_json()


@planned_atomically()
def use_workload(
    *, version: WorkloadVersion, dataset: Dataset, by: User, columns: Mapping[str, str] | None = None, title: str = ""
) -> Release:
    """Draft a release of a dataset that asks what a workload asks. The draft has a copy of the questions of its own.

    Args:
        columns: as in `column_fits`.

    Raises:
        InvalidInput: a column does not fit.
        Refusal: the dataset has no declared columns or protection, or no rows any more.
    """
    release = draft_release(dataset=dataset, by=by, title=title or version.workload.name)
    ask_workload(release=release, version=version, columns=columns or {})
    return release


def ask_workload(*, release: Release, version: WorkloadVersion, columns: Mapping[str, str]) -> None:
    """Let a draft ask what a workload asks, instead of what it asked.

    Raises:
        InvalidInput: a column does not fit.
        Refusal: the dataset has no declared columns or protection, or the release is no draft.
    """
    if release.dataset.schema is None:
        raise Refusal("Declare the dataset's columns and its protection first.")
    questions = mapped_questions(version, release.dataset.schema.universe, columns)
    set_questions(release=release, workload=questions, version=version)


def _asked(release: Release) -> tuple[Release, Question]:
    """A release, locked, and what it asks: of a submitted one as it was planned, of a draft as its dataset is now."""
    locked = Release.objects.select_for_update().get(pk=release.pk)
    if why_not := why_not_saved(locked):
        raise Refusal(why_not)
    if locked.plan:
        return locked, _read(locked.plan["workload"], Schema.from_json(locked.plan["schema"]).universe)
    universe = locked.dataset.universe
    assert universe is not None, "a draft asks about declared columns"
    return locked, _read(locked.workload or {}, universe)


def _read(questions: Mapping[str, Any], universe: Universe) -> Question:
    question = read_question(dict(questions), universe)
    if not question.is_offered:
        raise InvalidInput("workload", question.kind, "is asked by certifying a release on its own page")
    return question


def _link(locked: Release, release: Release, version: WorkloadVersion) -> None:
    locked.workload_version = release.workload_version = version
    locked.save(update_fields=["workload_version"])


def _next_version(workload: SavedWorkload, question: Question, *, by: User) -> WorkloadVersion:
    # Locked, so that two people who edit at once make two versions.
    locked = SavedWorkload.objects.select_for_update().get(pk=workload.pk)
    latest = locked.latest
    asked = replace(question, universe=universe_asked(question))
    if latest.questions == asked.to_json() and latest.needed == asked.universe:
        return latest
    version = _add_version(locked, question, number=latest.number + 1, by=by)
    audit_log.record(AuditAction.SAVE, actor=by, on=locked, detail=f"version {version.number}")
    return version


def _add_version(workload: SavedWorkload, question: Question, *, number: int, by: User) -> WorkloadVersion:
    asked = replace(question, universe=universe_asked(question))
    columns = [each.to_json() for each in asked.universe.attributes]
    return WorkloadVersion.objects.create(
        workload=workload, number=number, questions=asked.to_json(), columns=columns, made_by=by
    )


def _check_group(group: Group | None, by: User) -> None:
    if group is not None and not by.groups.filter(pk=group.pk).exists():
        raise InvalidInput("group", group.name, "must be one that you belong to")


def _read_name(name: str) -> str:
    try:
        return read_title(name, what="the workload asks")
    except InvalidInput as error:
        raise InvalidInput("name", error.value, error.rule) from None


def _name_taken(name: str) -> InvalidInput:
    return InvalidInput("name", name, "is the name of another workload of the same owner; choose another name")


def _alike(one: Attribute, other: Attribute) -> bool:
    return replace(one, name=other.name) == other


def _fit(question: Question, needed: Attribute, names: Mapping[str, str], universe: Universe) -> ColumnFit:
    name = names[needed.name]
    if name not in universe.names:
        rule = "must be a declared column of the dataset" if name else "has no column in the dataset to use for it"
        return ColumnFit(needed=needed, column=name, reason=rule)
    if list(names.values()).count(name) > 1:
        return ColumnFit(needed=needed, column=name, reason="must be used for one column of the workload only")
    column = universe[name]
    if column.is_numeric != needed.is_numeric:
        kinds = ("numbers", "categories") if needed.is_numeric else ("categories", "numbers")
        return ColumnFit(needed=needed, column=name, reason=f"must hold {kinds[0]}; it is declared with {kinds[1]}")
    # Read by the one reader, as if this column alone were the dataset's: what it refuses is due to this column.
    standing = replace(column, name=needed.name)
    swapped = Universe(attributes=tuple(standing if each is needed else each for each in question.universe.attributes))
    try:
        read_question(_about(question, needed.name).to_json(), swapped)
    except InvalidInput as error:
        reason = f"must have what the questions name: {error.value} {error.rule}"
        return ColumnFit(needed=needed, column=name, reason=reason)
    return ColumnFit(needed=needed, column=name, is_declared_alike=standing == replace(needed, is_exact=False))


def _about(question: Question, name: str) -> Question:
    """The questions that read one column."""
    if isinstance(question, Inquiry):
        return question
    return replace(question, families=tuple(each for each in question.families if name in each.attributes))


def workload_named(text: str) -> SavedWorkload:
    """The workload of that name; of several, the one of the owner who is named before a slash.

    Raises:
        InvalidInput: there is none, or there are several.
    """
    found = list(_named(text))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput("workload", text, "is neither a file nor the name of a saved workload")
    owners = " or ".join(f"{each.owner}/{each.name}" for each in found)
    raise InvalidInput("workload", text, f"is the name of several workloads; write {owners}")


def _named(text: str) -> Iterator[SavedWorkload]:
    yield from SavedWorkload.objects.filter(name=text).select_related("owner").order_by("owner__username")
    owner, slash, name = text.partition("/")
    if slash:
        yield from SavedWorkload.objects.filter(owner__username=owner, name=name).select_related("owner")
