"""Which kind of file it is, by its first bytes; and the file itself, taken out of an archive.

Unfolding stops where it comes to many times what was read, so that a small file makes no more work than a large one.
"""

from __future__ import annotations

import errno
import gzip
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from releases.engine.tables.facts import FileFacts, UnreadableTable

TEXT, PARQUET, ARROW, WORKBOOK = "text file", "Parquet file", "Arrow file", "workbook"
SPSS, STATA, SAS, XPORT = "SPSS file", "Stata file", "SAS file", "SAS transport file"
_GZIP, _ZIP = "gzip file", "zip archive"
_CHUNK = 1 << 20
#: A file may unfold to this many times its size, or of so many chunks if that is more.
MAX_UNFOLDING = 200
#: Of a workbook that is smaller than the file this would be of: its XML takes longer to read than other formats.
_MOST_OF_A_SMALL_WORKBOOK = 64 * _CHUNK
_MAX_MEMBERS, _MAX_NAMED = 10_000, 20


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


_STARTS = {
    b"PAR1": PARQUET,
    b"ARROW1": ARROW,
    b"FEA1": ARROW,
    b"$FL2": SPSS,
    b"$FL3": SPSS,
    b"<stata_dta>": STATA,
    b"HEADER RECORD*******LIB": XPORT,
    b"\0" * 12 + b"\xc2\xea\x81\x60": SAS,
    b"\x1f\x8b": _GZIP,
    b"PK\x03\x04": _ZIP,
}
#: How files begin that people take for a table, and what to do about each.
_OTHER_FILES = {
    b"\xd0\xcf\x11\xe0": "The file is an Excel workbook that is protected by a password, or of the old kind (.xls). "
    "Open it, save it as .xlsx without a password and choose that file.",
    b"PARE": "The Parquet file is encrypted. Write it without encryption.",
    b"%PDF": "The file is a PDF, not a table. Choose a table in one of the formats that are read here.",
}
#: What tells a workbook from another zip archive.
_WORKBOOK_MEMBERS = ("xl/workbook.xml", "content.xml")


def kind_of(source: Path) -> str:
    """One of the kinds above.

    Raises:
        UnreadableTable: the file is empty, or one that people take for a table.
    """
    with source.open("rb") as file:
        start = file.read(64)
    if not start:
        raise UnreadableTable("The file is empty.")
    for magic, rule in _OTHER_FILES.items():
        if start.startswith(magic):
            raise UnreadableTable(rule)
    kind = next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), TEXT)
    # Of versions 104 to 115 of Stata's format: the version, the order of bytes and the type of the file.
    if len(start) > 3 and 104 <= start[0] <= 115 and start[1] in (1, 2) and start[2:4] == b"\x01\x00":
        return STATA
    if kind == _ZIP:
        with _opened_zip(source) as archive:
            return WORKBOOK if set(_WORKBOOK_MEMBERS) & set(archive.namelist()) else _ZIP
    return kind


def taken_out(
    source: Path, facts: FileFacts, folder: Path, *, most: int, enough: int | None = None
) -> tuple[Path, str, FileFacts]:
    """The file itself, its kind, and the facts with the member of the archive that it was.

    Args:
        most: bytes that are unfolded; what follows is refused.
        enough: where the file is left off without a word, for a look at its start.

    Raises:
        UnreadableTable: the archive is broken, holds too much, or has no such member.
    """
    kind, target = kind_of(source), folder / "taken-out"
    if kind == _GZIP:
        with source.open("rb") as packed, gzip.GzipFile(fileobj=packed) as unfolded:
            _copy(unfolded, target, read=packed.tell, most=most, enough=enough)
    elif kind == _ZIP:
        with _opened_zip(source) as archive:
            member = _chosen(archive, facts.member)
            with archive.open(member) as unfolded:
                _copy(unfolded, target, read=lambda: member.compress_size, most=most, enough=enough)
        facts = replace(facts, member=member.filename)
    else:
        return source, kind, facts
    kind = kind_of(target)
    if kind in (_GZIP, _ZIP):
        raise UnreadableTable(f"The archive holds a {kind} again. Send the file in one archive alone.")
    return target, kind, facts


def repacked(source: Path, target: Path, *, most: int) -> None:
    """Write a workbook again without compression, so that nothing unfolds while it is read.

    Raises:
        UnreadableTable: it unfolds to too much.
    """
    size = source.stat().st_size
    with _opened_zip(source) as archive, zipfile.ZipFile(target, "w") as plain:
        if sum(each.file_size for each in archive.infolist()) > max(MAX_UNFOLDING * size, _MOST_OF_A_SMALL_WORKBOOK):
            raise UnreadableTable(
                f"The workbook unfolds to more than {MAX_UNFOLDING} times its size, or "
                f"{_MOST_OF_A_SMALL_WORKBOOK // _CHUNK} MB if that is more."
            )
        for member in archive.infolist():
            with archive.open(member) as unfolded, plain.open(member.filename, "w", force_zip64=True) as written:
                left = most - plain.fp.tell() if plain.fp is not None else most
                _copy_into(unfolded, written.write, read=lambda: size, most=left)


@contextmanager
def _opened_zip(source: Path) -> Iterator[zipfile.ZipFile]:
    with _readable():
        archive = zipfile.ZipFile(source)
    with archive, _readable():
        members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            raise UnreadableTable(f"The zip archive has more than {_MAX_MEMBERS:,} members.")
        if sum(each.file_size for each in members) > MAX_UNFOLDING * max(source.stat().st_size, _CHUNK):
            raise _unfolds_to_too_much()
        if any(each.flag_bits & 1 for each in members):
            raise UnreadableTable("The archive is protected by a password. Write it without one.")
        if any(each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for each in members):
            raise UnreadableTable("The archive is compressed by another method than deflate. Write it as a plain zip.")
        yield archive


_OF_BROKEN_ZIPS = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(EOFError, NotImplementedError, ValueError, LookupError, ArithmeticError, OSError),
)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except UnreadableTable:
        raise
    except _OF_BROKEN_ZIPS as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # no fault of the file
        raise UnreadableTable("The workbook or zip archive is damaged: it cannot be unfolded.") from None


def _chosen(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    members = {each.filename: each for each in archive.infolist() if not each.is_dir()}
    if not name and len(members) == 1:
        return next(iter(members.values()))
    if name not in members:
        raise UnreadableTable(one_of(members), value=name, field="member")
    return members[name]


def one_of(names: object) -> str:
    """The rule of a choice among names that the file gives."""
    listed = [str(each) for each in names]  # type: ignore[attr-defined]
    more = f" and {len(listed) - _MAX_NAMED:,} more" if len(listed) > _MAX_NAMED else ""
    return f"must be one of {', '.join(listed[:_MAX_NAMED])}{more}" if listed else "cannot be chosen: there is none"


def _copy(unfolded: _Readable, target: Path, *, read: Callable[[], int], most: int, enough: int | None) -> None:
    with target.open("wb") as written:
        try:
            _copy_into(unfolded, written.write, read=read, most=most, enough=enough)
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise UnreadableTable("The file begins like a gzip file but cannot be unfolded.") from None


def _copy_into(
    unfolded: _Readable,
    write: Callable[[bytes], object],
    *,
    read: Callable[[], int],
    most: int,
    enough: int | None = None,
) -> None:
    copied = 0
    while (enough is None or copied < enough) and (chunk := unfolded.read(_CHUNK)):
        copied += len(chunk)
        if copied > most or copied > MAX_UNFOLDING * max(read(), _CHUNK):
            raise _unfolds_to_too_much()
        write(chunk)


def _unfolds_to_too_much() -> UnreadableTable:
    return UnreadableTable(
        f"The file unfolds to more than {MAX_UNFOLDING} times its size, or {MAX_UNFOLDING} MB if that is more."
    )
