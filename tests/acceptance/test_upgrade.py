"""An upgrade with a migration, while mail is deferred and in doubt: nothing is lost, and nobody is mailed twice."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.faulty_smtp_server import Fault, FaultyServer, faulty_server
from tests.support.product_processes import ROOT, Installation, installation

pytestmark = [pytest.mark.slow, pytest.mark.promise, pytest.mark.whole]

READERS = [f"reader{number}@lab.example" for number in range(12)]
DEFERRED, IN_DOUBT = READERS[:3], READERS[3]
MIGRATION = '''"""Invented: a column and an index on a table that is in use."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("delivery") as table:
        table.add_column(sa.Column("invented", sa.String(), nullable=False, server_default="unknown"))
        table.create_index("invented_index", ["invented", "state"])
    op.execute("UPDATE delivery SET invented = 'old'")
'''


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path, mail_server: FaultyServer) -> Iterator[Installation]:
    """The old version, with twelve readers and a paper for all of them."""
    settings = {"MAIL_URL": f"smtp://127.0.0.1:{mail_server.port}"}
    if request.param == "postgresql":
        settings["DATABASE_URL"] = request.getfixturevalue("empty_postgres_url")
    members = tmp_path / "members.csv"
    members.write_text(
        "\n".join(["email,state,topics", *(f"{email},active,Tides=tide*" for email in READERS)])
    )
    with installation(tmp_path / "data", settings=settings) as ours:
        ours.run("subscribers", "import", str(members), "--consent", "members", "--now", "2026-11-19T07:00Z")
        yield ours


@pytest.fixture
def mail_server() -> Iterator[FaultyServer]:
    """A mail server that defers three readers, and hangs up after a fourth one's letter."""
    with faulty_server() as server:
        server.plan = lambda email: (
            Fault.RCPT_451 if email in DEFERRED else Fault.DOT_DROP if email == IN_DOUBT else None
        )
        yield server


@pytest.fixture
def new(old: Installation, tmp_path: Path) -> Installation:
    """The new version on the same data: the same code with a second migration."""
    code = tmp_path / "new"
    for folder in ("digest", "workers", "templates"):
        shutil.copytree(ROOT / folder, code / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (code / "digest" / "db" / "migrations" / "versions" / "0002_invented.py").write_text(MIGRATION)
    return replace(old, cwd=code, python_path=code, started=[])


def read_paper(version: Installation, folder: Path, day: int) -> None:
    """Read a list with one paper."""
    file = folder / f"list-{day}.jsonl"
    file.write_text(json.dumps({"title": f"Tides of day {day}", "abstract": "We measure a tide."}) + "\n")
    version.run("intake", str(file), "--date", f"2026-11-{day}", "--now", f"2026-11-{day}T07:30Z")


def copies(server: FaultyServer) -> Counter[str]:
    """Return how many letters the server accepted for each reader, also without a reply."""
    with server.lock:
        return Counter(mail.recipient for mail in server.taken)


def test_letters_that_were_retried_during_an_upgrade_arrive_once(
    old: Installation, new: Installation, tmp_path: Path, mail_server: FaultyServer
) -> None:
    read_paper(old, tmp_path, 20)
    before = old.json("run", "--now", "2026-11-20T08:30Z")["delivered"]
    too_early = new.run("run", "--now", "2026-11-20T08:40Z", check=False)
    upgraded = new.json("db", "upgrade")
    too_old = [old.run(*words, check=False) for words in (("run",), ("db", "upgrade"))]
    mail_server.plan = lambda _: None
    during = copies(mail_server)
    after = new.json("run", "--now", "2026-11-20T09:30Z")["delivered"]
    read_paper(new, tmp_path, 21)
    next_day = new.json("run", "--now", "2026-11-21T08:30Z")["delivered"]

    assert (before["sent"], before["deferred"], before["in_doubt"]) == (8, 3, 1)
    assert (too_early.returncode, "Run: digest db upgrade" in too_early.stderr) == (1, True)
    assert (upgraded["from"], upgraded["to"]) == ("0001", "0002")
    assert [ran.returncode for ran in too_old] == [1, 1]
    assert all("newer version" in ran.stderr and "Traceback" not in ran.stderr for ran in too_old)
    assert during == Counter(READERS[3:])
    assert (after["sent"], next_day["sent"]) == (4, 12)
    assert copies(mail_server) == Counter(READERS * 2) + Counter([IN_DOUBT])
    first, second = [mail.content for mail in mail_server.taken if mail.recipient == IN_DOUBT][:2]
    assert first == second
    assert {one["state"] for one in new.lines("deliveries")} == {"sent"}
