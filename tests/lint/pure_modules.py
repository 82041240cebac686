"""Find the files of the pure modules, which the import contracts list."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRACT = "Values are pure"


def pure_files() -> list[str]:
    """Return patterns of the files of the pure modules; of a package, all files below it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (modules,) = (one["source_modules"] for one in contracts if one["name"].startswith(CONTRACT))
    paths = (ROOT.joinpath(*module.split(".")) for module in modules)
    return [
        f"{path.relative_to(ROOT)}/*" if path.is_dir() else f"{path.relative_to(ROOT)}.py" for path in paths
    ]


if __name__ == "__main__":
    print(",".join(pure_files()))
