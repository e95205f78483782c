"""What is remembered outside the database: how far each budget's ledger had come, and what became of each release.

Restoring an old backup of the database would forget charges, and would run, ask and give back again what has had its
output already. Here it is remembered elsewhere (`MARKS_DIR`, of which backups take nothing):

    installation.json    whose marks these are, so that an emptied folder is noticed
    BUDGET.json          the budget's mark: sequence and hash of its last entry, the sums, what is granted; only rises
    releases/ID.jsonl    one line for each thing that happened to a release, only appended to:
                         claim      a worker took it: its attempt's number, after the claim's commit, before the table
                                    is opened
                         opened     its session was opened    | after the row is changed and before the commit, so that
                         answer     number n was answered     | nobody has seen it before it is remembered; a line whose
                         published  folder, SHA-256 of files  | commit was lost says more than happened, never less
                         cancelled  and given back            |

No line holds anything that depends on rows but the SHA-256 of what is published with it. All is on disc, and written
under a lock of the operating system's, when a function returns.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from releases.engine.accounting.filters import CLOSED, Totals

_INSTALLATION = "installation.json"


class Unreadable(Exception):
    """Something of the marks is missing or broken where it must be there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The last ledger entry of a budget that is known to have been committed, and the sums up to it.

    Attributes:
        granted: the budget's declared and granted values then, by column; None in marks of old.
        name: of the population, by which a reviewer knows it where the database does not; empty in marks of old.
    """

    sequence: int
    hash: str
    totals: Totals
    granted: Mapping[str, Any] | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """Files of a release that may have been seen: their folder below the releases, and the SHA-256 of each by name."""

    folder: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """All that is remembered of a release."""

    claims: int = 0
    answers: int = 0
    is_opened: bool = False
    is_cancelled: bool = False
    published: Published | None = None
    #: Folders of every publication, the last one's too.
    folders: tuple[str, ...] = field(default=())


def read(budget_id: uuid.UUID) -> Mark | None:
    """A budget's mark; None where there is none.

    A sum that the mark does not state is taken for CLOSED: unknown is no room. One that this version does not add up
    bounds nothing here.

    Raises:
        Unreadable: it says nothing that a mark says.
    """
    path = _path(budget_id)
    stored = _stored(path)
    if stored is None:
        return None
    try:
        said = stored["totals"]
        numbers = {column: said.get(column, CLOSED) for column in Totals().amounts()}
        return Mark(
            sequence=int(stored["sequence"]),
            hash=str(stored["hash"]),
            totals=Totals.read({**numbers, "spent_orders": said.get("spent_orders")}),
            granted=stored.get("granted"),
            name=str(stored.get("name", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable(f"{path.name} is no mark") from None


def begin(budget_id: uuid.UUID) -> None:
    """Before a budget's first entry is committed: a mark of nothing, so that from then on a missing mark is a loss."""
    with _locked():
        if not _path(budget_id).exists():
            _write(_path(budget_id), _json_of(Mark(sequence=0, hash="", totals=Totals())))


def raise_to(budget_id: uuid.UUID, mark: Mark) -> None:
    """Record a mark unless a higher one stands.

    Raises:
        Unreadable: none stands, or a broken one. Writing another would hide the loss.
    """
    with _locked():
        standing = read(budget_id)
        if standing is None:
            raise Unreadable(f"{_path(budget_id).name} is missing")
        if standing.sequence < mark.sequence:
            _write(_path(budget_id), _json_of(mark))


def put(budget_id: uuid.UUID, mark: Mark) -> None:
    """Write a mark in place of a lost, broken or foreign one, as a reviewer decided. What stood there is set aside."""
    path = _path(budget_id)
    with _locked():
        if path.exists():
            path.replace(path.with_suffix(f".aside-{uuid.uuid4().hex}"))
        _write(path, _json_of(mark))


def marked() -> set[uuid.UUID]:
    """The budgets that have a mark, readable or not."""
    return set(_named(_folder(), ".json"))


def installation() -> uuid.UUID | None:
    """Whose marks these are; None where nothing says so, or the folder of the releases' records is gone.

    Raises:
        Unreadable: it does not say whose.
    """
    stored = _stored(_folder() / _INSTALLATION)
    if stored is None or not (_folder() / "releases").is_dir():
        return None
    try:
        return uuid.UUID(stored["installation"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable(f"{_INSTALLATION} does not say whose marks these are") from None


def belong_to(key: uuid.UUID) -> None:
    """Say whose marks these are."""
    with _locked():
        (_folder() / "releases").mkdir(exist_ok=True)
        _write(_folder() / _INSTALLATION, {"installation": str(key)})


def story(release_id: uuid.UUID) -> Story:
    """What is remembered of a release.

    Raises:
        Unreadable: a whole line is not one of ours. A last line without its end was never finished, so what it would
            have told was never shown.
    """
    path = _record(release_id)
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return Story()
    except OSError as error:
        raise Unreadable(f"{path.name}: {type(error).__name__}") from None
    claims = answers = 0
    is_opened = is_cancelled = False
    published, folders = None, []
    try:
        for line in lines:
            ((kind, value),) = json.loads(line).items()
            match kind:
                case "claim":
                    claims = max(claims, int(value))
                case "answer":
                    answers = max(answers, int(value))
                case "opened":
                    is_opened = True
                case "cancelled":
                    is_cancelled = True
                case "published":
                    published = Published(folder=str(value["folder"]), files=dict(value["files"]))
                    folders.append(published.folder)
                case _:
                    raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable(f"{path.name} has a line that says nothing of a release") from None
    return Story(
        claims=claims,
        answers=answers,
        is_opened=is_opened,
        is_cancelled=is_cancelled,
        published=published,
        folders=tuple(folders),
    )


def told() -> list[uuid.UUID]:
    """The releases of which something is remembered."""
    return sorted(_named(_folder() / "releases", ".jsonl"))


def note_claim(release_id: uuid.UUID, attempt: int) -> None:
    _append(release_id, {"claim": attempt})


def note_opened(release_id: uuid.UUID) -> None:
    _append(release_id, {"opened": True})


def note_answer(release_id: uuid.UUID, number: int) -> None:
    _append(release_id, {"answer": number})


def note_published(release_id: uuid.UUID, published: Published) -> None:
    _append(release_id, {"published": {"folder": published.folder, "files": dict(published.files)}})


def note_cancelled(release_id: uuid.UUID) -> None:
    _append(release_id, {"cancelled": True})


def set_aside(release_id: uuid.UUID) -> None:
    """Put a broken record away, once a reviewer has seen to its release."""
    path = _record(release_id)
    path.replace(path.with_suffix(f".aside-{uuid.uuid4().hex}"))


def _named(folder: Path, ending: str) -> Iterator[uuid.UUID]:
    """What the files of a folder are about; others lie there too."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(ending):
            with suppress(ValueError):
                yield uuid.UUID(name.removesuffix(ending))


def _append(release_id: uuid.UUID, line: Mapping[str, Any]) -> None:
    """Add a line. Where the folder is gone it is not made anew, for that would hide the loss."""
    path = _record(release_id)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unreadable(f"{path.name}: {type(error).__name__}") from None
    with os.fdopen(descriptor, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = file.read()
        # What a crash has left of a line goes, or it would be one with ours.
        file.seek(before.rfind(b"\n") + 1)
        file.truncate()
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if not before:
        _sync(path.parent)


def _stored(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise Unreadable(f"{path.name} cannot be read") from None


def _json_of(mark: Mark) -> dict[str, Any]:
    return {
        "sequence": mark.sequence,
        "hash": mark.hash,
        "totals": mark.totals.columns(),
        "granted": None if mark.granted is None else dict(mark.granted),
        "name": mark.name,
    }


@contextmanager
def _locked() -> Iterator[None]:
    """One writer of marks at a time: between reading what stands and replacing it nobody else may write."""
    _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (_folder() / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, stored: Mapping[str, Any]) -> None:
    partial = path.with_suffix(f".{uuid.uuid4().hex}")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        json.dump(stored, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _folder() -> Path:
    return Path(settings.MARKS_DIR)


def _path(budget_id: uuid.UUID) -> Path:
    return _folder() / f"{budget_id}.json"


def _record(release_id: uuid.UUID) -> Path:
    return _folder() / "releases" / f"{release_id}.jsonl"
