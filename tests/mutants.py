"""A random sample of small mistakes in the source, and how many of them the tests notice.

    python -m tests.mutants record tests/engine tests/web/review   # which test runs which line, and how long it takes
    python -m tests.mutants run build/before.json --number 300     # one mutant after the other
    python -m tests.mutants run build/after.json --number 300 --before build/before.json
    python -m tests.mutants table build/before.json build/after.json

Needs `pip install -e '.[mutants]'`. The operators are those of cosmic-ray. For each mutant a line of `ROOMS` is drawn,
then one of the changes that cosmic-ray knows on that line; type annotations are left alone. Each is made in a copy of
the code. The tests that run its line follow, the fastest first, until one fails; for a line that runs on import, those
that run anything in its file. A recording of some files replaces what was recorded of them before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.mutations import COPIED, ROOT

ROOMS = ("releases/engine", "releases/ledger", "releases/services")
RECORDED = ROOT / "build" / "mutants"
_CPU_SECONDS = 60
#: By the clock: a test that waits for ever uses no processor.
_MOST_SECONDS = 3600
#: The first of them are tried alone: to collect the others takes longer than to run these.
_FIRST = 20
#: Which child of a node of the syntax tree is the type.
_ANNOTATION = {"tfpdef": 2, "annassign": 1}
_durations: Counter[str] = Counter()


def pytest_runtest_logreport(report: Any) -> None:
    _durations[report.nodeid] += report.duration


def pytest_sessionfinish() -> None:
    Path(os.environ["MUTANTS_DURATIONS"]).write_text(json.dumps(_durations))


def copied(folder: str) -> Path:
    copy = Path(folder) / "code"
    for name in (*COPIED, "build"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "mutants"))
        elif (ROOT / name).exists():
            shutil.copy2(ROOT / name, copy / name)
    return copy


def record(paths: list[str]) -> None:
    RECORDED.mkdir(parents=True, exist_ok=True)
    number = len(list(RECORDED.glob("*.coverage")))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(folder)
        settings = copy / "mutants.coveragerc"
        settings.write_text("[run]\nrelative_files = true\n")
        environment = {
            "COVERAGE_FILE": str(RECORDED / f"{number:04}.coverage"),
            "MUTANTS_DURATIONS": str(RECORDED / f"{number:04}.json"),
        }
        covered = [f"--cov={room}" for room in ROOMS]
        options = ["--cov-context=test", "--cov-report=", f"--cov-config={settings}", "-p", "tests.mutants", "-q"]
        command = [sys.executable, "-m", "pytest", *options, *covered, *paths]
        subprocess.run(command, cwd=copy, env=os.environ | environment, check=False)


def recorded() -> tuple[dict[str, dict[int, set[str]]], dict[str, float]]:
    """The tests that run each line of each file, and how many seconds each test took."""
    from coverage import CoverageData

    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    seen: set[str] = set()
    for durations in sorted(RECORDED.glob("*.json"), reverse=True):
        found = {
            test: took
            for test, took in json.loads(durations.read_text()).items()
            if test.split("::")[0] not in seen and (ROOT / test.split("::")[0]).exists()
        }
        seen |= {test.split("::")[0] for test in found}
        seconds |= found
        data = CoverageData(str(durations.with_suffix(".coverage")))
        data.read()
        for file in data.measured_files():
            for line, contexts in data.contexts_by_lineno(file).items():
                lines[file][line] |= {each.rpartition("|")[0] for each in contexts} & found.keys()
    return lines, seconds


def mutants(number: int, seed: int) -> Iterator[dict[str, Any]]:
    """As many as asked for, the same for the same source and seed; a smaller number are the first of a larger."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    operators = [(name, get_operator(name)()) for name in sorted(operator_names()) if "/Variable" not in name]
    texts = {str(path.relative_to(ROOT)): path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    places = [(file, line) for file in sorted(texts) for line in range(1, texts[file].count("\n") + 1)]
    chance = random.Random(seed)
    chance.shuffle(places)
    for file, line in places:
        nodes = list(ast_nodes(get_ast(texts[file])))
        there = [node for node in nodes if node.start_pos[0] <= line <= node.end_pos[0] and not _annotates(node)]
        choices = [
            (name, operator)
            for name, operator in operators
            if any(start[0] == line for node in there for start, _ in operator.mutation_positions(node))
        ]
        if not choices:
            continue
        name, operator = chance.choice(choices)
        positions = [(node, start) for node in nodes for start, _ in operator.mutation_positions(node)]
        at = [place for place, (node, start) in enumerate(positions) if start[0] == line and not _annotates(node)]
        text = mutate_code(texts[file], operator, chance.choice(at))
        try:
            compile(text, file, "exec")
        except SyntaxError:  # `*` among parameters is no product
            continue
        yield {"file": file, "line": line, "operator": name, "text": text}
        if not (number := number - 1):
            return


def _annotates(node: Any) -> bool:
    while (above := node.parent) is not None:
        if node is (above.annotation if above.type == "funcdef" else None):
            return True
        if above.type in ("tfpdef", "annassign") and above.children.index(node) == _ANNOTATION[above.type]:
            return True
        node = above
    return False


def run(out: Path, number: int, seed: int, before: Path | None) -> None:
    lines, seconds = recorded()
    earlier = json.loads(before.read_text()) if before else []
    results: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(folder)
        for place, mutant in enumerate(mutants(number, seed)):
            if place < len(results):
                continue
            text, file = mutant.pop("text"), lines[mutant["file"]]
            tests = file[mutant["line"]] or set().union(*file.values())
            known = earlier[place].get("by") if place < len(earlier) else None
            ordered = sorted(tests, key=lambda test: (test != known, seconds[test], test))
            right = (copy / mutant["file"]).read_text()
            (copy / mutant["file"]).write_text(text)
            try:
                results.append(mutant | {"tests": len(tests)} | _outcome(copy, ordered))
            finally:
                (copy / mutant["file"]).write_text(right)
            out.write_text(json.dumps(results, indent=1))
            sys.stdout.write(f"{place} {results[-1]}\n")
            sys.stdout.flush()


def _outcome(copy: Path, tests: list[str]) -> dict[str, Any]:
    if not tests:
        return {"outcome": "no test"}
    used = 0.0
    for some in filter(None, (tests[:_FIRST], tests[_FIRST:])):
        (copy / "tests.txt").write_text("\n".join(some))
        started, seconds = _cpu(), max(1, int(_CPU_SECONDS - used))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "@tests.txt"],
                cwd=copy,
                capture_output=True,
                text=True,
                check=False,
                timeout=_MOST_SECONDS,
                preexec_fn=lambda seconds=seconds: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
            )
        except subprocess.TimeoutExpired:
            return {"outcome": "out of time"}
        used += _cpu() - started
        if "ERROR: not found" in done.stderr:
            raise RuntimeError(f"Record these files again: {done.stderr[-2000:]}")
        if done.returncode < 0:
            return {"outcome": "out of time"}
        if done.returncode:
            failed = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - |$)", done.stdout, flags=re.MULTILINE)
            return {"outcome": "noticed", "by": failed and failed[1]}
    return {"outcome": "survived"}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(before: Path, after: Path) -> None:
    """One row a room: how many mutants, and how many were noticed, survived, ran out of time or have no test."""
    counts = [Counter[tuple[str, str]](), Counter[tuple[str, str]]()]
    for count, path in zip(counts, (before, after), strict=True):
        for mutant in json.loads(path.read_text()):
            room = "/".join(mutant["file"].split("/")[:3]).removesuffix(".py")
            count.update({(room, mutant["outcome"]): 1, ("all", mutant["outcome"]): 1})
    for room in sorted({room for room, _ in counts[0]}):
        number = sum(count for (each, _), count in counts[0].items() if each == room)
        cells = [f"{c[room, o]}" for o in ("noticed", "survived", "out of time", "no test") for c in counts]
        sys.stdout.write(f"| `{room}` | {number} | " + " | ".join(cells) + " |\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("paths", nargs=argparse.REMAINDER)
    running = commands.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--number", type=int, default=300)
    running.add_argument("--seed", type=int, default=1)
    running.add_argument("--before", type=Path)
    comparing = commands.add_parser("table")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    asked = vars(parser.parse_args())
    {"record": record, "run": run, "table": table}[asked.pop("command")](**asked)


if __name__ == "__main__":
    main()
