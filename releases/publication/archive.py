"""Everything of a release as one archive, written a piece at a time: its files as they were published, byte for byte,
the dictionary, and a text with the sentence on accuracy, the cost, the protection and how to cite it.

The same release at the same address gives the same archive: nothing in it knows when it was asked for. What an attack
found out (`attacked_release.py`) is in it from when one was tried, and the report says it from then on. What an earlier
check of the columns found is in it while that check is public.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyarrow.parquet

from releases.publication import files
from releases.publication.dictionary import DICTIONARY, dictionary_csv
from releases.publication.disclosure import DISCLOSURE_TEST, attack_in_words
from releases.publication.readme import README, name_of, readme_text
from releases.publication.report import latest
from releases.publication.totals import TOTALS
from releases.schema.descriptions import notes_of, table_of

ARCHIVE = "release.zip"
_PIECE = 2**20
#: A plain file that everybody may read, as archives of Unix write it.
_UNIX, _MODE = 3, 0o100644 << 16


def download_names(result: Mapping[str, Any]) -> list[str]:
    """What can be downloaded of a release: what was written when it was published, and what is made of that."""
    return [ARCHIVE, *sorted([*result["files"], DICTIONARY])]


def dictionary_of(folder: Path, result: Mapping[str, Any]) -> str:
    """The dictionary of a release whose files lie in a folder."""
    answers = pyarrow.parquet.read_schema(folder / f"{files.ANSWERS}.parquet").names
    totals = pyarrow.parquet.read_schema(path).names if (path := folder / f"{TOTALS}.parquet").exists() else ()
    return dictionary_csv(result["receipt"], answers=answers, totals=totals, notes=notes_of(result))


def readme_of(
    folder: Path, result: Mapping[str, Any], names: Iterable[str], *, address: str, check: Iterable[str] = ()
) -> str:
    """The text that goes with some files of a release, which all lie in a folder.

    Args:
        check: what a check of the columns says of the rows that are left out, in sentences.
    """
    digest = files.sha256_of(folder / files.RECEIPT)
    receipt, named = result["receipt"], sorted([*names, DICTIONARY])
    attack = attack_in_words(receipt, folder) if DISCLOSURE_TEST in named else ()
    return readme_text(
        receipt, named, digest=digest, address=address, table=table_of(result), attack=attack, check=check
    )


def archive_of(folder: Path, result: Mapping[str, Any], *, address: str, check: Iterable[str] = ()) -> Iterator[bytes]:
    """The archive, piece by piece; a release may have many more rows than memory holds."""
    receipt = result["receipt"]
    day, top = date.fromisoformat(receipt["date"]), name_of(receipt["title"], receipt["release"])
    pieces = _Pieces()
    stored = sorted([*result["files"], *([DISCLOSURE_TEST] if (folder / DISCLOSURE_TEST).is_file() else [])])
    texts = {
        README: readme_of(folder, result, stored, address=address, check=check),
        DICTIONARY: dictionary_of(folder, result),
    }
    with ZipFile(pieces, "w") as archive:

        def entry(name: str) -> ZipInfo:
            info = ZipInfo(f"{top}/{name}", date_time=(day.year, day.month, day.day, 0, 0, 0))
            info.compress_type, info.create_system, info.external_attr = ZIP_DEFLATED, _UNIX, _MODE
            return info

        for name, text in texts.items():
            archive.writestr(entry(name), text)
            yield pieces.taken()
        for name in stored:
            with latest(folder, name).open("rb") as source, archive.open(entry(name), "w", force_zip64=True) as target:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    yield pieces.taken()
    yield pieces.taken()


class _Pieces(io.RawIOBase):
    """A file that is written only, and forgotten as it is taken."""

    def __init__(self) -> None:
        self.held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.held += data
        return len(data)

    def taken(self) -> bytes:
        taken = bytes(self.held)
        self.held.clear()
        return taken
