"""Let a package export names without importing their modules before a name is used.

Most commands need only a few names of a large package, and importing all of its modules takes longer than the
command itself. Such a package writes its imports where type checkers read them, and nowhere else:

    if TYPE_CHECKING:
        from digest.topics.filter_parser import Filter, parse
    else:
        __getattr__ = lazy_exports(__name__, __file__)

No exported name may be the name of a module of the package, because importing that module would replace it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_exports(package: str, file: str) -> Callable[[str], Any]:
    """Return a package's `__getattr__` (PEP 562), which imports the module of an exported name on first use."""
    exports = dict(exported_names(Path(file).read_text(encoding="utf-8")))

    def import_name(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = exports[name]
        value = getattr(import_module(module), original)
        setattr(sys.modules[package], name, value)  # from now on Python finds the name there
        return value

    return import_name


def exported_names(source: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield (name, (module, name in that module)) for each import under `if TYPE_CHECKING`."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.If):
            imports = (one for one in statement.body if isinstance(one, ast.ImportFrom))
            yield from (
                (alias.asname or alias.name, (str(one.module), alias.name))
                for one in imports
                for alias in one.names
            )
