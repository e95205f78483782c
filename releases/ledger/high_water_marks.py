"""What is remembered outside the database: how far each budget's ledger had come, and what became of each release.

Restoring an old backup of the database would forget charges, and would run, ask and give back again what has had its
output already. Here it is remembered elsewhere (`MARKS_DIR`, of which backups take nothing):

    BUDGET.json          the budget's mark: sequence and hash of its last entry, the sums, what is granted, whose it is
                         and which tables it is for; only rises
    record.jsonl         (`chain.py`) among others, one line for each thing that happened to a release:
                         claim      a worker took it: its attempt's number, after the claim's commit, before the table
                                    is opened
                         closing    a worker began to publish what a session has answered
                         asked      question n of a session is counted, before the table is opened for it
                         opened     its session was opened    | after the row is changed and before the commit, so that
                         answer     number n was answered     | nobody has seen it before it is remembered; a line whose
                         published  folder, SHA-256 of files  | commit was lost says more than happened, never less
                         cancelled  and given back            |
                         seen       folders on disc that no line explains, once a reviewer has seen to the release
                         and one for each number that a certificate of a release has, before the table is opened

No line holds anything that depends on rows but the SHA-256 of what is published with it, and keyed digests of tables.
All is on disc, and written under a lock of the operating system's, when a function returns.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from releases.engine.accounting.filters import CLOSED, Totals
from releases.ledger import chain, record
from releases.ledger.chain import Unreadable

__all__ = ["Unreadable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The last ledger entry of a budget that is known to have been committed, and the sums up to it.

    Attributes:
        granted: the budget's declared and granted values then, by column; None in marks of old.
        name: of the population, by which a reviewer knows it where the database does not; empty in marks of old.
        owner: whose budget it is, by number and user name; None in marks of old.
        tables: of the population, each with its title and the keyed digests by which its rows are recognised.
    """

    sequence: int
    hash: str
    totals: Totals
    granted: Mapping[str, Any] | None = None
    name: str = ""
    owner: Mapping[str, Any] | None = None
    tables: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """Files of a release that may have been seen: their folder below the releases, and the SHA-256 of each by name."""

    folder: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """All that is remembered of a release."""

    claims: int = 0
    asked: int = 0
    answers: int = 0
    is_opened: bool = False
    is_cancelled: bool = False
    published: Published | None = None
    #: Folders of every publication, the last one's too.
    folders: tuple[str, ...] = field(default=())
    #: What folders below the release's are called that an attempt is known to have made, or a reviewer has seen.
    tokens: frozenset[str] = frozenset()

    @property
    def is_cut_off(self) -> bool:
        """Whether rows may have been read for a question that has no answer, where none is under way."""
        return self.asked > self.answers


def read(budget_id: uuid.UUID) -> Mark | None:
    """A budget's mark; None where there is none.

    A sum that the mark does not state is taken for CLOSED: unknown is no room. One that this version does not add up
    bounds nothing here.

    Raises:
        Unreadable: it says nothing that a mark says.
    """
    path = _path(budget_id)
    stored = chain.stored_at(path)
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
            owner=stored.get("owner"),
            tables=tuple(stored.get("tables", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable(f"{path.name} is no mark") from None


def begin(budget_id: uuid.UUID) -> None:
    """Before a budget's first entry is committed: a mark of nothing, so that from then on a missing mark is a loss."""
    with chain.locked():
        if not _path(budget_id).exists():
            chain.write(_path(budget_id), _json_of(Mark(sequence=0, hash="", totals=Totals())))


def raise_to(budget_id: uuid.UUID, mark: Mark) -> None:
    """Record a mark unless a higher one is there. One that is as high gets the names and tables of today.

    Raises:
        Unreadable: none stands, or a broken one. Writing another would hide the loss.
    """
    with chain.locked():
        standing = read(budget_id)
        if standing is None:
            raise Unreadable(f"{_path(budget_id).name} is missing")
        is_same = (standing.sequence, standing.hash) == (mark.sequence, mark.hash)
        if standing.sequence < mark.sequence or (is_same and _json_of(standing) != _json_of(mark)):
            chain.write(_path(budget_id), _json_of(mark))


def put(budget_id: uuid.UUID, mark: Mark) -> None:
    """Write a mark in place of a lost, broken or foreign one, as a reviewer decided. What stood there is set aside."""
    path = _path(budget_id)
    with chain.locked():
        if path.exists():
            path.replace(path.with_suffix(f".aside-{uuid.uuid4().hex}"))
        chain.write(path, _json_of(mark))


def marked() -> set[uuid.UUID]:
    """The budgets that have a mark, readable or not."""
    return set(chain.named(chain.folder(), ".json"))


def story(release_id: uuid.UUID) -> Story:
    """What is remembered of a release.

    Raises:
        Unreadable: a line is not one of ours.
    """
    lines = chain.read().of_releases.get(release_id, []) if chain.is_begun() else chain.older_lines(release_id)
    # What was put aside counts no more.
    after = max((place for place, line in enumerate(lines, start=1) if "aside" in line), default=0)
    claims = asked = answers = 0
    is_opened = is_cancelled = False
    published, folders, tokens = None, [], set()
    try:
        for line in lines[after:]:
            said = {kind: value for kind, value in line.items() if kind not in ("release", "token")}
            ((kind, value),) = said.items()
            tokens |= {str(line["token"])} if "token" in line else set()
            match kind:
                case "claim":
                    claims = max(claims, int(value))
                case "asked":
                    asked = max(asked, int(value))
                case "answer":
                    answers = max(answers, int(value))
                case "opened":
                    is_opened = True
                case "cancelled":
                    is_cancelled = True
                case "published":
                    published = Published(folder=str(value["folder"]), files=dict(value["files"]))
                    folders.append(published.folder)
                case "closing":
                    pass
                case "seen":
                    tokens |= set(map(str, value))
                case _:
                    raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable(f"the record has a line of {release_id} that says nothing of a release") from None
    return Story(
        claims=claims,
        asked=asked,
        answers=answers,
        is_opened=is_opened,
        is_cancelled=is_cancelled,
        published=published,
        folders=tuple(folders),
        tokens=frozenset(tokens | {Path(each).name for each in folders}),
    )


def told() -> list[uuid.UUID]:
    """The releases of which something is remembered."""
    return sorted(chain.read().of_releases) if chain.is_begun() else chain.older_releases()


def note_claim(release_id: uuid.UUID, attempt: int, token: uuid.UUID | None = None) -> None:
    _note(release_id, {"claim": attempt} | ({"token": str(token)} if token is not None else {}))


def note_closing(release_id: uuid.UUID, token: uuid.UUID) -> None:
    _note(release_id, {"closing": True, "token": str(token)})


def note_opened(release_id: uuid.UUID) -> None:
    _note(release_id, {"opened": True})


def note_asked(release_id: uuid.UUID, number: int) -> None:
    _note(release_id, {"asked": number})


def note_answer(release_id: uuid.UUID, number: int) -> None:
    _note(release_id, {"answer": number})


def note_published(release_id: uuid.UUID, published: Published) -> None:
    _note(release_id, {"published": {"folder": published.folder, "files": dict(published.files)}})


def note_cancelled(release_id: uuid.UUID) -> None:
    _note(release_id, {"cancelled": True})


def note_seen(release_id: uuid.UUID, names: Iterable[str]) -> None:
    """That a reviewer has seen to a release of which these folders are on disc."""
    _note(release_id, {"seen": sorted(names)})


def note_certificate(of: uuid.UUID, number: int) -> None:
    """That a certificate of a release has this number: no other one may have it, also after a restored backup."""
    record.note({"certificate": {"of": str(of), "number": number}})


def certificate_numbers(of: uuid.UUID) -> set[int]:
    """The numbers of the certificates of a release that a worker has begun."""
    said = [each.what["certificate"] for each in chain.read().others if "certificate" in each.what]
    return {int(each["number"]) for each in said if each["of"] == str(of)}


def set_aside(release_id: uuid.UUID) -> None:
    """Let what is remembered of a release, and cannot be read, count no more, once a reviewer has seen to it."""
    chain.put_older_aside(release_id)
    _note(release_id, {"aside": True})


def _note(release_id: uuid.UUID, line: Mapping[str, Any]) -> None:
    record.note({"release": str(release_id), **line})


def _json_of(mark: Mark) -> dict[str, Any]:
    return {
        "sequence": mark.sequence,
        "hash": mark.hash,
        "totals": mark.totals.columns(),
        "granted": None if mark.granted is None else dict(mark.granted),
        "name": mark.name,
        "owner": None if mark.owner is None else dict(mark.owner),
        "tables": [dict(each) for each in mark.tables],
    }


def _path(budget_id: uuid.UUID) -> Path:
    return chain.folder() / f"{budget_id}.json"
