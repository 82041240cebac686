"""Check that use cases do not commit: `python -m tests.lint.units_of_work`.

The entry point opens a unit of work (`db.write_session`), which is committed when its block ends without an error. A
function that works in batches commits each, and its name says so. What goes forward step by step, because a step
must not be lost or repeated, is listed here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tests.lint.entry_points import is_session
from tests.lint.sentences import named, tracked

#: The files whose functions commit after each step, and why.
STEPWISE = {
    "digest/db/": "opens the units of work",
    "digest/delivery/worker_loop.py": "an intent is committed before the first byte, a result before the next window",
    "digest/delivery/next_window.py": "a claim is committed before the letters are rendered",
    "digest/dumps/intake/": "each dump is loaded whole or not at all, and its records in batches",
    "digest/dumps/sources/polling.py": "no transaction is open while another server is waited for",
    "digest/inbound/classification.py": "one message must not undo the answer to another",
    "digest/inbound/stored_mail.py": "a message is stored before the server accepts it",
    "digest/publishing/": "each chunk of digests, and each batch of deleted rows",
}


def main() -> int:
    """Print every commit that is not allowed; return 1 if there is any."""
    checked = [path for path in tracked("digest/", "workers/") if path.suffix == ".py"]
    found = [
        f"{named(path)}:{line}: a use case commits; its caller opens the unit of work"
        for path in checked
        if not named(path).startswith(tuple(STEPWISE))
        for line in commits_in(path.read_text())
    ]
    print(*found, sep="\n", end="\n" if found else "")
    print(
        f"Units of work: {len(found) or 'no'} use case{'s' * (len(found) != 1)} that commit{'s' * (len(found) == 1)}."
    )
    return 1 if found else 0


def commits_in(source: str) -> Iterator[int]:
    """Yield the lines of the commits, but those in functions whose names end with `_in_batches`."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    allowed = {id(node) for one in functions if one.name.endswith("_in_batches") for node in ast.walk(one)}
    for node in ast.walk(tree):
        is_commit = isinstance(node, ast.Attribute) and node.attr == "commit" and is_session(node.value)
        if isinstance(node, ast.Attribute) and is_commit and id(node) not in allowed:
            yield node.lineno


if __name__ == "__main__":
    sys.exit(main())
