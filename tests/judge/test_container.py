"""Build deploy/Dockerfile with buildah, run the image, and check its user, size and health.

The base image is made here from Debian's packages, so that no registry of images is needed; it has Debian's
Python instead of the official image's. The container has a network of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.judge import bare_debian
from tests.judge.installed_programs import program
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(2400)

BASE = "python:3.12-slim"  #: the name in the Dockerfile
MAX_MEGABYTES = 250
#: What the official slim images leave out, too.
LEFT_OUT = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/lib/apt/lists", "var/cache/apt",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Buildah:
    """buildah with a storage of its own."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        """Return a command of buildah."""
        places = (f"--root={self.folder / 'storage'}", f"--runroot={self.folder / 'run'}")
        return [program("buildah", package="buildah"), *places, "--storage-driver=vfs", *arguments]

    def __call__(self, *arguments: str) -> str:
        """Run a command, and return its output; raise AssertionError if it fails."""
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=1200, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    def config(self, image: str) -> Any:
        """Return the configuration of an image."""
        return json.loads(self("inspect", "--type=image", image))["Docker"]["config"]

    def megabytes(self, image: str) -> float:
        """Return the size of an image's files."""
        container = self("from", "--pull-never", image).strip()
        files = self("mount", container).strip()
        used = subprocess.run(
            ["du", "--bytes", "--summarize", files], capture_output=True, text=True, check=True
        )
        self("rm", container)
        return int(used.stdout.split()[0]) / 1e6


@pytest.fixture(scope="module")
def buildah(is_full: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """buildah with the image of this checkout."""
    if not is_full:
        pytest.skip("builds an image: run by JUDGE=full make judge")
    folder = tmp_path_factory.mktemp("buildah")
    buildah = Buildah(folder=folder)
    make_base(buildah, folder / "base")
    buildah(
        "build", "--isolation=chroot", "--network=host", "--pull=never", "--format=docker",
        f"--file={ROOT / 'deploy' / 'Dockerfile'}", "--tag=digest", str(ROOT),
    )  # fmt: skip
    yield buildah
    shutil.rmtree(folder, ignore_errors=True)


def make_base(buildah: Buildah, root: Path) -> None:
    """Make the base image: a bare Debian with Python."""
    bare_debian.made_in(root, "ca-certificates,python3,python3-venv")
    (root / "usr" / "bin" / "python").symlink_to("python3")
    for place in LEFT_OUT:
        shutil.rmtree(root / place, ignore_errors=True)
        (root / place).mkdir(parents=True)
    pip = [f"--env={name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]
    container = buildah("from", "scratch").strip()
    buildah("copy", "--quiet", container, str(root), "/")
    buildah("config", *pip, container)
    buildah("commit", "--quiet", container, BASE)
    buildah("rm", container)


def test_the_image_is_small_runs_as_no_root_and_has_a_health_check(buildah: Buildah) -> None:
    size, base = buildah.megabytes("localhost/digest"), buildah.megabytes(BASE)
    config = buildah.config("localhost/digest")

    print(f"The image has {size:.0f} MB, {size - base:.0f} MB of them above its base.")
    assert size < MAX_MEGABYTES
    assert config["User"] == "digest"
    assert "healthz" in str(config["Healthcheck"])


@contextmanager
def running(buildah: Buildah) -> Iterator[tuple[str, ...]]:
    """Run the image; yield the beginning of a command that runs inside the container."""
    container = buildah("from", "--pull-never", "localhost/digest").strip()
    inside = buildah.command("run", "--isolation=chroot", container, "--")
    script = 'ip link set lo up && exec "$@"'
    with (buildah.folder / "log").open("wb") as log:
        started = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", script, "sh", *inside, "digest", "up"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield ("nsenter", f"--target={started.pid}", "--net", *inside)
    finally:
        os.killpg(started.pid, signal.SIGINT)
        started.wait(timeout=60)
        print((buildah.folder / "log").read_text()[-2000:])
        buildah("rm", container)


def test_the_container_is_healthy_and_delivers_the_sample_digest(buildah: Buildah) -> None:
    check = buildah.config("localhost/digest")["Healthcheck"]["Test"]
    with running(buildah) as inside:

        def prints(script: str) -> str:
            return subprocess.run(
                [*inside, "sh", "-c", script], capture_output=True, text=True, check=False
            ).stdout

        wait_until("a healthy container", lambda: "healthy" in prints(f"{check[-1]} && echo healthy"))
        wait_until("the sample digest", lambda: prints("find /var/lib/digest/outbox/new -type f"))
        assert prints("id -un").strip() == "digest"
        assert prints("touch /opt/digest/x || echo refused").strip() == "refused"
