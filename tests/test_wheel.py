"""The source archive and the wheel made from it contain the whole product when installed outside the checkout.

`-P` keeps the working directory out of the import path: without it the checkout would be tested.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from digest import __version__
from tests.support.product_processes import ROOT, Installation, installation
from tests.support.real_servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.whole]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source archive of this checkout, and the wheel made from that archive."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Iterator[Installation]:
    """The wheel, installed where nothing else is, run from an empty directory."""
    target, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(wheel)], check=True)
    with installation(
        tmp_path / "home",
        settings={"LISTEN": f"127.0.0.1:{free_port()}"},
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


def test_the_source_archive_holds_every_file_of_the_checkout(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}

    kept = {name for name in tracked(".") if not name.startswith(".git")}
    assert kept - members == set()


@pytest.mark.timeout(600)
def test_pip_installs_the_wheel_into_a_new_environment_and_up_delivers_the_sample_digest(
    wheel: Path, tmp_path: Path
) -> None:
    empty, python = tmp_path / "empty", tmp_path / "venv" / "bin" / "python"
    empty.mkdir()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(pins(tmp_path)), str(wheel)]
    done = subprocess.run(pip, cwd=empty, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    settings = {"LISTEN": f"127.0.0.1:{free_port()}"}
    with installation(
        tmp_path / "home", settings=settings, command=(str(python.with_name("digest")),), cwd=empty
    ) as ours:
        deliver_the_sample(ours)


def pins(folder: Path) -> Path:
    """Write the versions of the lock without its hashes, which pip would also require of the wheel."""
    lock = (ROOT / "requirements" / "base.txt").read_text()
    constraints = folder / "constraints.txt"
    lines = (line.removesuffix("\\").strip() for line in lock.splitlines() if re.match(r"[a-z0-9]", line))
    constraints.write_text("".join(re.sub(r"\[[a-z,]+\]", "", line) + "\n" for line in lines))
    return constraints


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
    deliver_the_sample(installed)


def deliver_the_sample(installed: Installation) -> None:
    """Start the service, wait for the sample digest, and stop it."""
    installed.start("up")
    installed.wait_until("the sample digest in the Maildir", lambda: delivered(installed))

    codes = installed.stop()

    assert codes == [0]
    assert installed.processes() == []
    (mail,) = delivered(installed)
    assert b"multipart/alternative" in mail.read_bytes()


def delivered(home: Installation) -> list[Path]:
    """Return the mails in the local Maildir."""
    return [path for part in ("new", "cur") for path in (home.data_dir / "outbox" / part).glob("*")]
