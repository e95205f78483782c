"""Mutated files of some formats, in one process that says of each format how many were refused.

python -m tests.engine.tables.files.fuzz csv xlsx
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

from releases.engine.tables import connection
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.files.ingest import ingest
from tests.engine.tables.files import formats

FILES = 300


@dataclass
class Found:
    taken: int = 0
    refused: int = 0
    slowest: float = 0.0
    quotes: bool = False


def mutated(content, drawn):
    """Cut short, with other bytes, with bytes left out or put in, or with a part of itself once more."""
    made = bytearray(content)
    kind = drawn.randrange(4)
    if kind == 0:
        return bytes(made[: drawn.randrange(1, len(made))])
    for _ in range(drawn.randrange(1, 8)):
        place = drawn.randrange(len(made))
        if kind == 1:
            made[place] = drawn.randrange(256)
        elif kind == 2:
            made[place : place + drawn.randrange(1, 9)] = drawn.randbytes(4)
        else:
            made[place:place] = made[max(0, place - 20) : place]
    return bytes(made)


def main():
    connection.this_process_is_confined()
    resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))
    found, files = {}, formats.every_format()
    with tempfile.TemporaryDirectory() as folder:
        # What is compiled once is no part of how long a file takes.
        (Path(folder) / "sent").write_bytes(files["csv"])
        ingest(Path(folder) / "sent", Path(folder) / "stored.parquet", digest_key=b"k")
    for name in sys.argv[1:]:
        content = files[name]
        # Which format a crash is of.
        sys.stderr.write(f"{name}\n")
        drawn, found[name] = random.Random(name), Found()
        for _ in range(FILES):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "sent"
                path.write_bytes(mutated(content, drawn))
                begun = time.process_time()
                try:
                    ingest(path, Path(folder) / "stored.parquet", digest_key=b"k")
                    found[name].taken += 1
                except (MemoryError, duckdb.OutOfMemoryException):
                    found[name].refused += 1
                except UnreadableTable as error:
                    found[name].refused += 1
                    found[name].quotes |= "Köln" in str(error)
                found[name].slowest = max(found[name].slowest, time.process_time() - begun)
    sys.stdout.write(json.dumps({name: vars(each) for name, each in found.items()}))


if __name__ == "__main__":
    main()
