"""Follow one dump, one reader and one digest through the code: `make trace`.

The code that a newcomer reads is every function once, in the order of the first calls. A return is a function in a
file that the reading had already left. Prints the files in that order, and counts functions, files and returns.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
DAY = "2026-11-20"


def main() -> None:
    reading = list(read_functions())
    passages = [reading[0]] + [
        after for before, after in itertools.pairwise(reading) if after[0] != before[0]
    ]
    seen: set[str] = set()
    returns = 0
    for file, function in passages:
        returns += file in seen
        print(f"{'again ' if file in seen else '':6}{file}: {function}")
        seen.add(file)
    print(f"{len(reading)} functions in {len(seen)} files, {returns} returns to a file already left")


def read_functions() -> Iterator[tuple[str, str]]:
    """Yield (file, name) of each function of the product, as it is called for the first time."""
    called: dict[CodeType, None] = {}

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.setdefault(frame.f_code)

    with tempfile.TemporaryDirectory(prefix="digest-trace-") as name:
        run_day(Path(name), record)
    for code in called:
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT / "digest") and not code.co_name.startswith("<"):
            yield str(path.relative_to(ROOT)), code.co_qualname


def run_day(folder: Path, record: Any) -> None:
    """Load a list, subscribe a reader, and run the service once under a profile function."""
    from digest import cli

    def digest(*words: str) -> None:
        code = cli.main(["--data-dir", str(folder / "data"), *words])
        if code:
            raise SystemExit(f"digest {' '.join(words)} ended with {code}")

    dumps = folder / "data" / "dumps"
    digest("db", "upgrade")
    digest(
        "subscribers", "add", "ada@example.org", "--confirmed", "--consent", "asked",
        "--topic", "Papers=about:\"language models\"", "--now", f"{DAY}T05:00:00+00:00",
    )  # fmt: skip
    dumps.mkdir(exist_ok=True)
    (dumps / "today.txt").write_bytes((ROOT / "docs" / "examples" / "today.txt").read_bytes())
    sys.setprofile(record)
    try:
        digest("run", "--now", f"{DAY}T09:00:00+00:00")
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    main()
