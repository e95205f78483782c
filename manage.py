#!/usr/bin/env python3
"""Django's command line. Where its packages are missing it first makes `.venv`, installs them and starts again."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
#: Commands that need more than what the site runs on, and the extra that holds it.
EXTRAS = {"test": "test", "bench": "bench", "docs": "docs"}
#: Modules whose absence shows that a set of packages is not installed.
WANTED = {
    "site": [
        "django",
        "celery",
        "ibis",
        "duckdb",
        "allauth",
        "csp",
        "ninja",
        "numba",
        "latex2mathml",
        "prometheus_client",
    ],
    "test": ["pytest", "pytest_django", "hypothesis", "importlinter", "opendp", "cyclonedx_py", "sphinx"],
    "bench": ["mbi", "opendp"],
    "docs": ["sphinx", "myst_parser", "furo"],
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpweb.settings")
    ensure_packages(EXTRAS.get(sys.argv[1] if len(sys.argv) > 1 else ""))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


def ensure_packages(extra: str | None) -> None:
    """Go on if what is needed can be imported here; else install it into `.venv` and start again there."""
    if importable([*WANTED["site"], *WANTED.get(extra or "", [])]):
        return
    inside = Path(sys.prefix).resolve() == VENV.resolve()
    if inside and installed(extra):
        sys.exit("The packages in .venv are broken. Delete the folder .venv and start again.")
    if not installed(extra):
        print(f"Setting up in {VENV.name} (a few minutes the first time) ...", file=sys.stderr, flush=True)
        if not PYTHON.exists():
            venv.create(VENV, with_pip=True)
        target = f"{ROOT}[{extra}]" if extra else str(ROOT)
        command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", target]
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit("Installing the packages failed; the lines above say why.")
        marker(extra).write_text(fingerprint())
    os.execv(PYTHON, [str(PYTHON), *sys.argv])


def importable(names: list[str]) -> bool:
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in names)


def marker(extra: str | None) -> Path:
    return VENV / f".installed-{extra or 'site'}"


def installed(extra: str | None) -> bool:
    """Whether `.venv` was filled for the present pyproject.toml."""
    return PYTHON.exists() and marker(extra).exists() and marker(extra).read_text() == fingerprint()


def fingerprint() -> str:
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
