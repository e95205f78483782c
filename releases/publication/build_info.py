"""Which software this is: its version, and the digest of its source, which tells builds of one version apart."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("dpweb", "releases")


def source_digest() -> str:
    """The beginning of the SHA-256 over the program's own Python files.

    What a shell prints beside the two packages:

        find dpweb releases -name '*.py' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16
    """
    root = Path(__file__).resolve().parents[2]
    files = {path.relative_to(root).as_posix(): path for name in PACKAGES for path in (root / name).rglob("*.py")}
    lines = [f"{hashlib.sha256(files[name].read_bytes()).hexdigest()}  {name}\n" for name in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


#: As receipts name it. Read once, when the process starts: the files may be replaced while it runs.
SOFTWARE = {"name": "dpweb", "version": version("dpweb"), "source": source_digest()}
