"""Judge the systemd unit with systemd, and the alert rules with Prometheus's promtool."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.judge.installed_programs import program

DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "alerts.yaml"
UNITS = [f"digest@{role}" for role in ("web", "worker", "scheduler", "inbound", "up")] + ["digest-backup"]
MAX_EXPOSURE = 3.0

#: The metrics of a healthy service, and for each alert the metrics that must cause it, as promtool writes series.
HEALTHY = {
    'digest_build_info{version="1"}': "1x200",
    'digest_heartbeat_age_seconds{role="worker",pid="1"}': "30x200",
    'digest_stops{scope="bulk"}': "0x200",
    'digest_waiting_seconds{lane="bulk"}': "60x200",
    'digest_deliveries{state="stuck"}': "0x200",
    "digest_last_dump_age_seconds": "3600x200",
    'digest_bounces_day{kind="hard"}': "3x200",
    'digest_subscribers{state="active"}': "1000x200",
    'digest_disk_free_bytes{folder="/var/lib/digest"}': "9e9x200",
}
FAULTS = {
    "DigestIsDown": {'digest_build_info{version="1"}': "_x200"},
    "DigestProcessStopped": {'digest_heartbeat_age_seconds{role="worker",pid="1"}': "30+60x200"},
    "DigestMailIsStopped": {'digest_stops{scope="bulk"}': "1x200"},
    "DigestMailIsRefused": {"digest_mail_refused_seconds": "60+60x200"},
    "DigestMailIsLate": {'digest_waiting_seconds{lane="bulk"}': "60+60x200"},
    "DigestLettersAreStuck": {'digest_deliveries{state="stuck"}': "2x200"},
    "DigestHasNoNewPapers": {"digest_last_dump_age_seconds": "300000x200"},
    "DigestBouncesRise": {'digest_bounces_day{kind="hard"}': "80x200"},
    "DigestDiskIsFull": {'digest_disk_free_bytes{folder="/var/lib/digest"}': "1e8x200"},
}


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit, with a program that exists here."""
    template = DEPLOY / re.sub("@.*", "@", f"{request.param}")
    text = template.with_name(f"{template.name}.service").read_text(encoding="utf-8")
    path = tmp_path / f"{request.param}.service"
    path.write_text(text.replace("/opt/digest/bin/digest", "/bin/true"))
    return path


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("systemd-analyze", package="systemd"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_systemd_finds_no_error_in_the_unit(unit: Path) -> None:
    answer = analyzed("verify", str(unit))

    assert (answer.returncode, answer.stderr) == (0, "")


def test_systemd_finds_the_unit_well_protected(unit: Path) -> None:
    answer = analyzed("security", "--offline=true", str(unit))

    (exposure,) = re.findall(r"exposure level for \S+: ([\d.]+)", answer.stdout)
    assert float(exposure) < MAX_EXPOSURE
    assert unit.name == "digest-backup.service" or f"rates it {exposure};" in (
        ROOT / "docs" / "deploy.md"
    ).read_text(encoding="utf-8")


def promtool(*arguments: str) -> str:
    """Run promtool, and return its output; raise AssertionError if it finds a mistake."""
    command = [program("promtool", package="prometheus"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_accepts_the_alert_rules() -> None:
    rules = len(re.findall(r"- alert: ", ALERTS.read_text(encoding="utf-8")))

    assert f"SUCCESS: {rules} rules found" in promtool("check", "rules", str(ALERTS))


def test_each_fault_causes_its_alert_and_a_healthy_service_causes_none(tmp_path: Path) -> None:
    names = re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8"))
    assert list(FAULTS) == names
    cases = [promtool_case({}, names, "")] + [
        promtool_case(fault, names, name) for name, fault in FAULTS.items()
    ]
    for number, case in enumerate(cases):
        file = tmp_path / f"case-{number}.json"
        file.write_text(
            json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [case]})
        )
        firing = fired_alerts(file)
        assert firing == str(case["name"]).split()


def promtool_case(fault: dict[str, str], names: list[str], alert: str) -> dict[str, object]:
    """Return promtool's test of one fault, which expects no alert: promtool reports those that fire."""
    series = [{"series": name, "values": values} for name, values in {**HEALTHY, **fault}.items()]
    expected = [{"eval_time": "150m", "alertname": name, "exp_alerts": []} for name in names]
    return {"name": alert, "interval": "1m", "input_series": series, "alert_rule_test": expected}


def fired_alerts(file: Path) -> list[str]:
    """Return the alerts that fire in a test of promtool that expects none."""
    command = [program("promtool", package="prometheus"), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"alertname: ?(\w+)", done.stdout + done.stderr)
    assert (done.returncode == 0) == (found == []), done.stdout + done.stderr
    return found
