"""The wheel contains the whole product when it is installed outside the checkout.

`-P` keeps the working directory out of the import path: without it the checkout would be tested.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from digest import __version__
from tests.support.product_processes import ROOT, Installation, installation
from tests.support.real_servers import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with what the lock holds and nothing fetched."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Iterator[Installation]:
    """The wheel, installed where nothing else is, run from an empty directory."""
    target, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(wheel)], check=True)
    with installation(
        tmp_path / "home",
        settings={"PORT": str(free_port())},
        command=(sys.executable, "-P", "-m", "digest"),
        cwd=empty,
        python_path=target,
    ) as ours:
        yield ours


def test_the_wheel_holds_the_product_and_nothing_else(wheel: Path) -> None:
    members = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    templates = {name.replace("templates/", "digest/_templates/", 1) for name in tracked("templates")}
    assert members == tracked("digest", "workers") | templates


def tracked(*folders: str) -> set[str]:
    """Return the files of the checkout that are ours: what git knows or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("needs a git checkout: this is an unpacked archive")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_the_installed_wheel_knows_its_version_and_none_of_the_checkout(installed: Installation) -> None:
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import digest, workers; print(digest.__file__, workers.__file__)"],
        env=installed.environment, cwd=installed.cwd, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert installed.run("--version").stdout == f"digest {__version__}\n"
    assert str(ROOT) not in where.stdout


def test_the_installed_wheel_makes_its_schema(installed: Installation) -> None:
    installed.run("db", "upgrade")

    assert (installed.data_dir / "digest.sqlite3").exists()


def test_the_installed_wheel_delivers_the_sample_digest_and_stops_without_a_trace(
    installed: Installation,
) -> None:
    installed.start("up")
    installed.wait_until("the sample digest in the Maildir", lambda: delivered(installed), seconds=60)

    codes = installed.stop()

    assert codes == [0]
    assert installed.processes() == []
    (mail,) = delivered(installed)
    assert b"multipart/alternative" in mail.read_bytes()


def delivered(home: Installation) -> list[Path]:
    """Return the mails in the local Maildir."""
    return [path for part in ("new", "cur") for path in (home.data_dir / "outbox" / part).glob("*")]
