"""The files in `deploy/` match the roles, settings and metrics of the product."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from digest.settings import NAMES, PREFIX
from tests.cli.conftest import every_command
from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
ALERTS = (DEPLOY / "alerts.yaml").read_text(encoding="utf-8")
METRICS = (ROOT / "digest" / "web" / "metrics.py").read_text(encoding="utf-8")


def settings_in(text: str) -> set[str]:
    return set(re.findall(rf"\b{PREFIX}([A-Z_]+)\b", text))


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml"])
def test_containers_use_settings_that_exist(name: str) -> None:
    used = settings_in((DEPLOY / name).read_text(encoding="utf-8"))

    assert used
    assert used <= {field.upper() for field in NAMES}


def test_containers_and_units_run_commands_that_exist() -> None:
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    roles = set(re.findall(r"^    command: (\w+)$", compose, flags=re.MULTILINE))

    assert roles == {"web", "worker", "scheduler", "inbound"}
    assert roles | {"up"} <= every_command().keys()


def test_alerts_use_metrics_that_exist() -> None:
    used = set(re.findall(r"\bdigest_\w+", ALERTS))

    assert used
    assert {name for name in used if f'"{name}"' not in METRICS and f"# HELP {name} " not in METRICS} == set()


def test_every_alert_is_explained() -> None:
    alerts = re.findall(r"- alert: (\w+)", ALERTS)
    explained = re.findall(r"^\| `(Digest\w+)` \|", OPERATIONS, flags=re.MULTILINE)

    assert explained == alerts


def test_operations_names_only_commands_that_exist() -> None:
    commands = every_command()

    for text in (*re.findall(r"`(digest [^`]+)`", OPERATIONS), *re.findall(r'fix: "(.*)"', ALERTS)):
        for first, second in re.findall(r"\bdigest ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", text):
            called = f"{first} {second}".strip()
            assert any(f"{name} ".startswith(f"{called} ") or name == first for name in commands), called


@pytest.mark.parametrize("section", re.split(r"^## ", OPERATIONS, flags=re.MULTILINE)[1:-1])
def test_a_section_of_operations_fits_on_a_screen(section: str) -> None:
    assert len(section.strip().splitlines()) <= 20


#: What Debian's package writes if "Local only" is chosen in its dialog.
LOCAL_ONLY = """
compatibility_level = 3.6
default_transport = error
relay_transport = error
inet_interfaces = loopback-only
mydestination = $myhostname, debian, localhost.localdomain, localhost
mynetworks = 127.0.0.0/8 [::ffff:127.0.0.0]/104 [::1]/128
"""


def test_the_pasted_postfix_block_lets_mail_in_and_out_after_local_only(tmp_path: Path) -> None:
    postconf = shutil.which("postconf", path=f"{os.environ['PATH']}:/usr/sbin")
    if postconf is None:
        pytest.skip("Postfix is not installed")
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(DEBIAN_FRONTEND.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"^postconf -e (?:.*\\\n)*.*", block, re.MULTILINE)
    (tmp_path / "main.cf").write_text(LOCAL_ONLY)
    (tmp_path / "master.cf").touch()

    pasted = f'alias postconf="{postconf} -c {tmp_path}"\n{command}'
    subprocess.run(["sh", "-c", pasted], check=True)
    found = subprocess.run([postconf, "-c", tmp_path, "-n"], check=True, capture_output=True, text=True)

    assert found.stderr == ""  # no setting is misspelled
    settings = dict(line.split(" = ", 1) for line in found.stdout.splitlines())
    assert (settings["default_transport"], settings["relay_transport"]) == ("smtp", "relay")
    assert (settings["inet_interfaces"], settings["virtual_transport"]) == ("all", "lmtp:inet:127.0.0.1:8024")
