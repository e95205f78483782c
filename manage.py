#!/usr/bin/env python3
"""Django's command line. Where its packages are missing it first makes `.venv`, installs them and starts again.

Nothing is installed to show a help text, nor into a `.venv` that is a link: that folder belongs to something else.
"""

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
        "duckdb",
        "sqlglot",
        "allauth",
        "babel",
        "csp",
        "ninja",
        "numba",
        "latex2mathml",
        "markdown_it",
        "mdit_py_plugins",
        "prometheus_client",
        "python_calamine",
        "pyreadstat",
        "tzdata",
        "xlsxwriter",
        "yaml",
    ],
    "test": [
        "pytest",
        "pytest_django",
        "testmon",
        "hypothesis",
        "importlinter",
        "opendp",
        "cyclonedx_py",
        "sphinx",
        "pyspark",
        "grpc_status",
        "pymysql",
        "polars",
        "moto",
        "flask_cors",
    ],
    "bench": ["mbi", "opendp"],
    "docs": ["sphinx", "myst_parser", "furo"],
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpweb.settings")
    if asks_for_help(sys.argv):
        ensure_packages(None, may_install=False)
    else:
        ensure_packages(EXTRAS.get(sys.argv[1]))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


def asks_for_help(arguments: list[str]) -> bool:
    """Whether a command line asks what there is, and for nothing to be done."""
    asked = arguments[1:]
    return not asked or asked[0] in ("help", "version") or bool({"-h", "--help", "--version"} & set(asked))


def ensure_packages(extra: str | None, *, may_install: bool = True) -> None:
    """Go on if what is needed can be imported here; else install it into `.venv` and start again there."""
    if importable([*WANTED["site"], *WANTED.get(extra or "", [])]):
        return
    inside = Path(sys.prefix).resolve() == VENV.resolve()
    if inside and installed(extra):
        sys.exit("The packages in .venv are broken. Delete the folder .venv and start again.")
    if not installed(extra):
        if VENV.is_symlink():
            if inside or not PYTHON.exists():
                sys.exit(why_not_linked(extra))
        elif may_install:
            install(extra)
        else:
            sys.exit("The packages are not installed yet. `python3 manage.py check` installs them into .venv.")
    os.execv(PYTHON, [str(PYTHON), *sys.argv])


def install(extra: str | None) -> None:
    """Install what a command needs into `.venv`, which is made where it is missing."""
    print(f"Setting up in {VENV.name} (a few minutes the first time) ...", file=sys.stderr, flush=True)
    if not PYTHON.exists():
        venv.create(VENV, with_pip=True)
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", wanted(extra)]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit("Installing the packages failed; the lines above say why.")
    marker(extra).write_text(fingerprint())


def wanted(extra: str | None) -> str:
    return f"{ROOT}[{extra}]" if extra else str(ROOT)


def why_not_linked(extra: str | None) -> str:
    return (
        f".venv is a link to {VENV.resolve()}, and packages that this command needs are missing there. Nothing is "
        f"installed through a link. Install them there yourself, with `{PYTHON} -m pip install -e '{wanted(extra)}'`, "
        "or delete the link, and .venv is made here."
    )


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
