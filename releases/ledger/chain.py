"""The files of `MARKS_DIR`: whose they are, and a chained record of all that a restored backup must not forget.

    installation.json    the database whose marks these are, and the last line of the record that it is known to know
    record.jsonl         one line for each thing that happened, numbered from 1, each with the SHA-256 of the line
                         before; only appended to. What a line says is in `record.py` and `high_water_marks.py`
    releases/ID.jsonl    the lines of one release again, as older versions wrote and read them. They are taken into
                         the record at its first line, and again where the record is lost

A line cannot be changed, left out or put back to an older state without the chain, or the database that knows its last
line, saying so. All is on disc, and written under a lock of the operating system's, when a function returns.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from django.conf import settings

from releases.storage.private_files import sync

_INSTALLATION, _RECORD, _RELEASES = "installation.json", "record.jsonl", "releases"


class Unreadable(Exception):
    """Something of the marks is missing or broken where it must be there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whose:
    """Whose marks these are, and the last line that their database is known to have known."""

    key: uuid.UUID
    number: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordLine:
    """A line of the record: its number, the SHA-256 of all of it, and what it says."""

    number: int
    hash: str
    what: Mapping[str, Any]


@dataclass(kw_only=True, slots=True)
class Chain:
    """The record as far as it was read."""

    hashes: list[str] = field(default_factory=list)
    #: The highest number that the database knew when a line was written: it was committed up to there.
    known: int = 0
    of_releases: dict[uuid.UUID, list[Mapping[str, Any]]] = field(default_factory=dict)
    #: Every other line.
    others: list[RecordLine] = field(default_factory=list)

    @property
    def number(self) -> int:
        return len(self.hashes)

    @property
    def head(self) -> str:
        return self.hashes[-1] if self.hashes else ""

    def has(self, number: int, hash: str) -> bool:
        """Whether a line is there, and is the one of that hash."""
        return number == 0 or (number <= self.number and self.hashes[number - 1] == hash)

    def _take(self, raw: bytes) -> None:
        line = json.loads(raw)
        if (line["number"], line["previous"]) != (self.number + 1, self.head):
            raise ValueError
        what = line["what"]
        if "release" in what:
            self.of_releases.setdefault(uuid.UUID(what["release"]), []).append(what)
        else:
            self.others.append(RecordLine(number=line["number"], hash="", what=dict(what)))
        self.known = max(self.known, int(line["known"]))
        self.hashes.append(hashlib.sha256(raw).hexdigest())


@dataclass(kw_only=True, slots=True)
class _Reading:
    """How far this process has read a record, and of which file."""

    file: tuple[int, int]
    offset: int
    chain: Chain


_readings: dict[Path, _Reading] = {}
_lock = Lock()


def whose() -> Whose | None:
    """Whose marks these are; None where nothing says so, or the records of what became of releases are gone.

    Raises:
        Unreadable: it does not say whose.
    """
    stored = stored_at(folder() / _INSTALLATION)
    if stored is None:
        return None
    try:
        found = Whose(key=uuid.UUID(stored["installation"]), number=int(stored.get("number", 0)))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable(f"{_INSTALLATION} does not say whose marks these are") from None
    is_there = (folder() / _RECORD).exists() if found.number else (folder() / _RELEASES).is_dir()
    return found if is_there else None


def belong_to(key: uuid.UUID) -> None:
    """Say whose marks these are."""
    with locked():
        (folder() / _RELEASES).mkdir(exist_ok=True)
        standing = stored_at(folder() / _INSTALLATION) or {}
        number = standing.get("number", 0) if standing.get("installation") == str(key) else 0
        write(folder() / _INSTALLATION, {"installation": str(key), "number": number})


def raise_to(number: int) -> None:
    """Note that the database knows the record up to this line, unless it is known to know more."""
    with locked():
        standing = stored_at(folder() / _INSTALLATION)
        if standing is not None and standing.get("number", 0) < number:
            write(folder() / _INSTALLATION, {**standing, "number": number})


def append(what: Mapping[str, Any], *, known: int) -> RecordLine:
    """Add a line.

    Args:
        what: `release`, if it is of one, and else one thing by its name.
        known: the number that the database knows.

    Raises:
        Unreadable: the record is lost, cut or broken. Another one would hide that.
    """
    with locked():
        path = folder() / _RECORD
        if not path.exists():
            found = whose()
            if found is None or found.number:
                raise Unreadable(f"{_RECORD} is missing")
            _begin(path)
        line = _written(path, _read(path), what, known=known)
        _repeat(what)
    return line


def begin_again() -> None:
    """Put a lost, cut or broken record aside and write another from the records of each release, as a reviewer
    decided."""
    with locked():
        path = folder() / _RECORD
        if path.exists():
            path.replace(path.with_suffix(f".aside-{uuid.uuid4().hex}"))
        (folder() / _RELEASES).mkdir(exist_ok=True)
        _begin(path)
        standing = stored_at(folder() / _INSTALLATION)
        write(folder() / _INSTALLATION, {**standing, "number": 0})


def read(*, whole: bool = False) -> Chain:
    """The record, empty where there is none.

    Args:
        whole: read all of it, whatever this process has read of it before.

    Raises:
        Unreadable: a whole line is not the next of the chain. A last line without its end was never finished, so what
            it would have said was never shown.
    """
    path = folder() / _RECORD
    if whole:
        with _lock:
            _readings.pop(path, None)
    return _read(path)


def is_begun() -> bool:
    """Whether there is a record; else what became of releases is in their own files, as older versions wrote it."""
    return (folder() / _RECORD).exists()


def older_lines(release_id: uuid.UUID) -> list[Mapping[str, Any]]:
    """What an older version wrote of a release, as lines of the record; `unreadable` for what says nothing."""
    path = folder() / _RELEASES / f"{release_id}.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        read: list[Mapping[str, Any]] = [{"release": str(release_id), **json.loads(line)} for line in lines]
    except FileNotFoundError:
        return []
    except (OSError, TypeError, ValueError):
        return [{"release": str(release_id), "unreadable": path.name}]
    return read


def older_releases() -> list[uuid.UUID]:
    """The releases of which an older version wrote something."""
    return sorted(named(folder() / _RELEASES, ".jsonl"))


def put_older_aside(release_id: uuid.UUID) -> None:
    """Put a broken file of one release away, once a reviewer has seen to it."""
    path = folder() / _RELEASES / f"{release_id}.jsonl"
    with suppress(FileNotFoundError):
        path.replace(path.with_suffix(f".aside-{uuid.uuid4().hex}"))


def named(place: Path, ending: str) -> Iterator[uuid.UUID]:
    """What the files of a folder are about; others lie there too."""
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(ending):
            with suppress(ValueError):
                yield uuid.UUID(name.removesuffix(ending))


def _begin(path: Path) -> None:
    """The first record of an installation: what older versions have written of each release, in one step."""
    partial = path.with_suffix(f".{uuid.uuid4().hex}")
    chain = Chain()
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        for release_id in older_releases():
            for what in older_lines(release_id):
                raw = _raw(chain, what, known=0)
                chain._take(raw)
                file.write(raw + b"\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync(path.parent)


def _written(path: Path, chain: Chain, what: Mapping[str, Any], *, known: int) -> RecordLine:
    raw = _raw(chain, what, known=known)
    _add(path, raw)
    return RecordLine(number=chain.number + 1, hash=hashlib.sha256(raw).hexdigest(), what=what)


def _raw(chain: Chain, what: Mapping[str, Any], *, known: int) -> bytes:
    line = {"number": chain.number + 1, "previous": chain.head, "known": known, "what": what}
    return json.dumps(line, sort_keys=True, ensure_ascii=False).encode()


def _repeat(what: Mapping[str, Any]) -> None:
    """A line of a release where an older version, installed again, looks for it."""
    if "release" not in what:
        return
    said = {
        kind: value for kind, value in what.items() if kind in ("claim", "answer", "opened", "cancelled", "published")
    }
    if said:
        path = folder() / _RELEASES / f"{what['release']}.jsonl"
        is_new = not path.exists()
        _add(path, json.dumps(said).encode())
        if is_new:
            sync(path.parent)


def _add(path: Path, raw: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unreadable(f"{path.name}: {type(error).__name__}") from None
    with os.fdopen(descriptor, "r+b") as file:
        # What a crash has left of a line goes, or it would be one with ours.
        file.seek(_end_of_lines(file))
        file.truncate()
        file.write(raw + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _end_of_lines(file: Any) -> int:
    """Where the last whole line ends."""
    end: int = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        file.seek(start)
        if (found := file.read(end - start).rfind(b"\n")) >= 0:
            return int(start + found + 1)
        end = start
    return 0


def _read(path: Path) -> Chain:
    with _lock:
        try:
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                before = _readings.get(path)
                is_longer = before is not None and before.file == (found.st_dev, found.st_ino)
                if before is None or not is_longer or found.st_size < before.offset:
                    before = _Reading(file=(found.st_dev, found.st_ino), offset=0, chain=Chain())
                _readings[path] = before
                file.seek(before.offset)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        break
                    before.chain._take(raw[:-1])
                    before.offset += len(raw)
                return before.chain
        except FileNotFoundError:
            _readings.pop(path, None)
            return Chain()
        except (OSError, KeyError, TypeError, ValueError, AttributeError):
            _readings.pop(path, None)
            raise Unreadable(f"{path.name} has a line that is not the next of its chain") from None


def stored_at(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise Unreadable(f"{path.name} cannot be read") from None


@contextmanager
def locked() -> Iterator[None]:
    """One writer of marks at a time: between reading what stands and replacing it nobody else may write."""
    folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder() / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write(path: Path, stored: Mapping[str, Any]) -> None:
    partial = path.with_suffix(f".{uuid.uuid4().hex}")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        json.dump(stored, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync(path.parent)


def folder() -> Path:
    return Path(settings.MARKS_DIR)
