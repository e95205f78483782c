"""The encoding of a text file: as declared or by its mark, written again in UTF-8, and checked byte by byte."""

from __future__ import annotations

import codecs
from dataclasses import replace
from pathlib import Path

from releases.engine.tables.facts import ENCODINGS, FileFacts, UnreadableTable
from releases.engine.tables.files.progress import CHECK, FileProgress

_CHUNK = 1 << 20
#: How a text begins that says its encoding.
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def with_encoding(source: Path, facts: FileFacts) -> FileFacts:
    """The encoding as declared, or as the byte order mark says; else UTF-8."""
    with source.open("rb") as file:
        start = file.read(3)
    marked = next((encoding for mark, encoding in _MARKS.items() if start.startswith(mark)), "")
    if marked and facts.encoding and not facts.encoding.startswith(marked):
        raise UnreadableTable(
            f"must be {marked}, as the file's byte order mark says", value=facts.encoding, field="encoding"
        )
    # The codec that is named with an order of bytes takes the mark for a character.
    return replace(facts, encoding=marked or facts.encoding or "utf-8")


def in_utf8(source: Path, facts: FileFacts, folder: Path, *, most: int | None = None) -> Path:
    """A text file in UTF-8: the file itself, or written again; its first `most` bytes only, if given."""
    if facts.encoding == "utf-8":
        return source
    decoder, target, line, read = codecs.getincrementaldecoder(facts.encoding)(), folder / "in-utf-8", 1, 0
    with source.open("rb") as file, target.open("w", encoding="utf-8", newline="") as written:
        while most is None or read < most:
            chunk = file.read(_CHUNK)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(facts.encoding, errors="ignore")
                raise _not_in(facts, line + before.count("\n")) from None
            if not chunk:
                break
            written.write(text)
            line, read = line + text.count("\n"), read + len(chunk)
    return target


def _not_in(facts: FileFacts, line: int) -> UnreadableTable:
    proposed = facts.habits.encoding if facts.habits is not None else ""
    likely = f", for {facts.habits.country} mostly {ENCODINGS[proposed]}" if facts.habits and proposed else ""
    return UnreadableTable(
        f"Line {line} is not {ENCODINGS[facts.encoding]} text. Choose the encoding of the file{likely}, or save it as "
        "UTF-8."
    )


def check_bytes(
    source: Path,
    facts: FileFacts,
    *,
    most: int | None = None,
    decoded: int | None = None,
    report: FileProgress | None = None,
) -> None:
    """Refuse NUL bytes and anything that is not UTF-8, naming the line.

    Args:
        most: only so many bytes are looked at, if given.
        decoded: only so many are looked at for anything but NUL bytes, if given: DuckDB refuses other text too, without
            a right line.
    """
    decoder, read, size = codecs.getincrementaldecoder("utf-8")(), 0, source.stat().st_size
    with source.open("rb") as file:
        while (most is None or read < most) and (chunk := file.read(_CHUNK)):
            nul = chunk.find(b"\0")
            if nul >= 0:
                raise UnreadableTable(
                    f"Line {_line_at(source, read + nul)} holds a NUL byte. The file is not plain text."
                )
            begun = decoder.getstate()[0]
            if decoded is None or read < decoded:
                try:
                    decoder.decode(chunk, final=read + len(chunk) == size)
                except UnicodeDecodeError as error:
                    raise _not_in(facts, _line_at(source, read - len(begun) + error.start)) from None
            read += len(chunk)
            if report is not None:
                report.within(CHECK, min(read / size, 1.0))


def _line_at(source: Path, byte: int) -> int:
    """The number of the line in which a byte is."""
    line = 1
    with source.open("rb") as file:
        while byte > 0 and (chunk := file.read(min(_CHUNK, byte))):
            line, byte = line + chunk.count(b"\n"), byte - len(chunk)
    return line
