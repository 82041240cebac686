"""Follow deploy.md and operations.md on a bare Debian system, from the first command to a digest in a mailbox."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from email import message_from_string, policy
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.judge import bare_debian
from tests.judge.bare_debian import Booted, Debian
from tests.support import certificates
from tests.support.waiting import wait_until
from tests.test_command_blocks import shell_blocks

pytestmark = pytest.mark.timeout(2400)

THIS = "tests/judge/test_deploy_walk.py"
SOURCE = "/usr/local/src/digest"
ROLES = ("web", "worker", "scheduler", "inbound")
UNITS = " ".join(f"digest@{role}" for role in ROLES)
INSTALLS = re.compile(r"^(?:DEBIAN_FRONTEND=\w+ )?apt-get install .*$", re.MULTILINE)
#: What stands outside this system: the reader's mailbox, and the certificate.
WORLD = """
useradd --create-home you
postconf -e 'virtual_alias_maps = inline:{you@example.org=you@localhost}'
"""
ASK = """python3 -c '
import smtplib
mail = "From: you@example.org\\r\\nTo: papers@digest.example.org\\r\\nSubject: help\\r\\n\\r\\nhelp\\r\\n"
with smtplib.SMTP("127.0.0.1", 25) as client:
    client.sendmail("you@example.org", ["papers@digest.example.org"], mail)
'"""
FETCH = """python3 -c '
import ssl, sys, urllib.request
request = urllib.request.Request("https://127.0.0.1/", headers={"Host": "digest.example.org"})
context = ssl._create_unverified_context()
sys.stdout.write(urllib.request.urlopen(request, context=context).read().decode())
'"""


def steps(page: str) -> list[str]:
    """Return the blocks of a page that this test runs."""
    return shell_blocks(ROOT / "docs" / page, THIS)


@pytest.fixture(scope="module")
def debian(is_full: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """A bare system with the source code, on which every package of the page is installed."""
    if not is_full:
        pytest.skip("installs a Debian system: run by JUDGE=full make judge")
    folder = tmp_path_factory.mktemp("debian")
    system = bare_debian.made_in(folder / "root")
    unpack_source(system.root / SOURCE.lstrip("/"))
    began = time.monotonic()
    first, *others = steps("deploy.md")
    downloads = [line for block in others for line in INSTALLS.findall(block)]
    system.install("\n".join(["apt-get update", f"cd {SOURCE}", first, *downloads, WORLD]))
    print(f"Installing took {time.monotonic() - began:.0f} s.")
    certificate(system.root / "etc" / "letsencrypt" / "live" / "digest.example.org", folder)
    yield system
    shutil.rmtree(folder, ignore_errors=True)


def unpack_source(folder: Path) -> None:
    """Unpack the files of this commit."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def certificate(folder: Path, scratch: Path) -> None:
    """Write a self-signed certificate where certbot writes its own."""
    folder.mkdir(parents=True)
    chain, key = certificates.make(scratch, "digest.example.org")
    shutil.copyfile(chain, folder / "fullchain.pem")
    shutil.copyfile(key, folder / "privkey.pem")


def test_every_block_of_the_pages_works_on_a_bare_debian_system(debian: Debian) -> None:
    with debian.booted() as system:
        began = time.monotonic()
        system.run(f"cd {SOURCE}\n" + "\n".join(steps("deploy.md")[1:]))
        print(f"The commands of deploy.md took {time.monotonic() - began:.0f} s.")

        check_running(system)
        assert "Papers" in system.run(FETCH)
        wait_until("the first digest", lambda: "Borrowed Light" in mailbox(system))
        check_headers(system)
        system.run(ASK)
        wait_until(
            "an answer to a mail command", lambda: "Subject: Mail commands for Papers" in mailbox(system)
        )

        began = time.monotonic()
        store, restore = steps("operations.md")[-1], steps("operations.md")[0]
        system.run(f"set -a; . /etc/digest/environment; set +a\ncd {SOURCE}\n{store}\n{restore}")
        print(f"Backup and restore took {time.monotonic() - began:.0f} s.")
        check_running(system)
        listed = system.run(
            "set -a; . /etc/digest/environment; sudo -E -u digest digest subscribers list --json"
        )
        assert "you@example.org" in listed


def check_running(system: Booted) -> None:
    """Check that every role runs, answers and logs no error, with its level in the journal."""
    answer = f"systemctl is-active {UNITS} && {READY} || true"
    wait_until("the web server", lambda: "ok" in system.run(answer).splitlines())
    logged = system.run("journalctl --no-pager --output=json --unit='digest@*'").splitlines()
    entries = [json.loads(line) for line in logged if line.startswith("{")]
    ours = [
        entry for entry in entries if entry.get("_COMM") != "systemd" and '"level"' in str(entry["MESSAGE"])
    ]
    assert {entry["PRIORITY"] for entry in ours} <= {"6", "4"}, [one["MESSAGE"] for one in ours]


READY = """python3 -c '
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8000/healthz").read().decode())
'"""


def mailbox(system: Booted) -> str:
    """Return the reader's mailbox."""
    return system.run("cat /var/mail/you 2>/dev/null || true")


def check_headers(system: Booted) -> None:
    """Check that the digest is signed and can be left with one click."""
    mails = re.split(r"(?m)^From .*$\n", mailbox(system))
    digest = next(
        message_from_string(mail, policy=policy.default) for mail in mails if "Borrowed Light" in mail
    )
    assert "d=digest.example.org" in str(digest["DKIM-Signature"])
    assert "List-Unsubscribe=One-Click" in str(digest["List-Unsubscribe-Post"])
