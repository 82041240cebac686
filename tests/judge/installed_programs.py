"""Find the checking programs on this machine, install them if allowed, or skip with a message."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.product_processes import ROOT

OURS = ROOT / ".judge"  #: the folder for npm packages, which git ignores
VERSIONS = {
    "axe-core": "4.14.1", "caniemail": "1.0.5", "mailauth": "4.13.3", "playwright-core": "1.65.1",
    "vnu-jar": "26.9.27",
}  # fmt: skip


def program(name: str, *, package: str) -> str:
    """Return the path of a program from Debian's packages; skip if it is not available."""
    if shutil.which(name) is None:
        install(package)
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: apt-get install {package}")
    return found


def install(package: str) -> None:
    """Install a Debian package, if this process is root on a Debian system."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    quietly: dict[str, Any] = {
        "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        "stdout": subprocess.DEVNULL,
    }
    subprocess.run(["apt-get", "-qq", "update"], check=False, **quietly)
    command = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", package]
    subprocess.run(command, check=False, **quietly)


def npm_package(name: str) -> Path:
    """Return the folder of an npm package, installed below `.judge`; skip if it is not available."""
    folder, wanted = OURS / "node_modules" / name, VERSIONS[name]
    if version_in(folder) != wanted:
        npm = program("npm", package="npm")
        command = [npm, "install", "--prefix", str(OURS), "--no-audit", "--no-fund", "--loglevel=error"]
        OURS.mkdir(exist_ok=True)
        subprocess.run([*command, f"{name}@{wanted}"], check=False, stdout=subprocess.DEVNULL)
    if not folder.is_dir():
        pytest.skip(f"needs the npm package {name}, which npm could not install")
    return folder


def version_in(folder: Path) -> str | None:
    """Return the version of the npm package in a folder; None if there is none."""
    manifest = folder / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else None
