"""Which functions of services the rest of the product calls, found in its code."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import releases
from releases import services


def functions_called() -> dict[str, FunctionType]:
    """By their names."""
    # A module that nothing has imported yet is no attribute of its room.
    for module in pkgutil.iter_modules(services.__path__, prefix=f"{services.__name__}."):
        importlib.import_module(module.name)
    product = Path(releases.__file__).parent
    outside = [path for path in product.rglob("*.py") if path.relative_to(product).parts[0] != "services"]
    named = [(name, getattr(getattr(services, room, None), name, None)) for path in outside for room, name in _in(path)]
    return {name: found for name, found in named if inspect.isfunction(found)}


def _in(path: Path) -> Iterator[tuple[str, str]]:
    """The module and the name of `services.budgets.request_budget`, or of what is imported from a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("releases.services"):
            module = node.module.removeprefix("releases.services").lstrip(".")
            assert module, f"{path} imports a module of services by itself; call it by `services`"
            yield from ((module, each.name) for each in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value).startswith("services."):
            yield ast.unparse(node.value).removeprefix("services."), node.attr
