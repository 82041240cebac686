"""`digest doctor` warns of sign-ups through a proxy that is not in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from digest import app_context, db
from digest.monitoring import setup_checks
from digest.settings import Settings, load_settings
from digest.subscribers import sign_up_queue
from tests.conftest import connected
from tests.support.waiting import current_time


def findings(settings: Settings) -> list[str]:
    with connected(settings.database) as engine:
        db.ensure_schema(engine)
        checks = list(setup_checks.check_proxy_header(settings, engine, current_time()))
    return [f"{found.severity} {found.message}" for check in checks for found in check.problems]


def test_a_proxy_header_without_the_setting_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path))
    assert findings(load_settings()) == []

    ours = app_context.open_context(load_settings())
    with ours.write_session() as session:
        sign_up_queue.note_proxy_header(session, ours.clock())
        session.commit()
    ours.engine.dispose()

    (found,) = findings(load_settings())
    assert found.startswith("warning Sign-ups have a proxy's header, but DIGEST_PROXIES is 0")
    assert findings(load_settings({"proxies": 1})) == []
