"""The whole service in one process: its commands, its pages and its mail, at any simulated moment."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine
from starlette.testclient import TestClient

from digest import app_context, db
from digest.app_context import AppContext, open_context
from digest.cli import main
from digest.db import make_engine
from digest.inbound.server import MailReceiver
from digest.process.caches import Caches
from digest.settings import load_settings
from digest.site import links
from digest.web.app import create_app
from tests.pilot.diary import Answer, Diary, Letter, LoadedPaper, Stated, Status
from tests.support.mail_bodies import body_of

SITE = "http://127.0.0.1:8000"


@dataclass
class Service:
    """One data directory with its database, and the moment that it takes for now."""

    folder: Path
    diary: Diary
    databases: Iterator[str]  #: URLs of empty databases; a restore takes the next one
    now: datetime
    settings: dict[str, str] = field(default_factory=dict)
    caches: Caches = field(default_factory=Caches)
    engines: dict[str, Engine] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)  #: names of the letters that were taken from the outbox

    def open(self) -> None:
        """Use the next empty database."""
        self.caches.clear()
        self.settings = {
            "DIGEST_DATA_DIR": str(self.folder / "data"),
            "DIGEST_DATABASE_URL": next(self.databases),
            "DIGEST_INBOUND": "lmtp://127.0.0.1:8024",
            "DIGEST_SENDER": "Digest <digest@example.org>",
            "DIGEST_MAIL_URL": f"maildir://{self.folder / 'outbox'}",
            "DIGEST_PROXIES": "1",
        }

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def run(self, *arguments: str, may_fail: bool = False, clock: bool = True) -> str:
        """Run a command at this moment, and return what it prints."""
        now = ["--now", self.now.isoformat()] if clock else []
        written = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with self.one_process(), redirect_stdout(written), redirect_stderr(written):
            code = main([*arguments, *now])
        text = written.buffer.getvalue().decode()
        if code and not may_fail:
            raise AssertionError(f"digest {' '.join(arguments)} at {self.now}: {code}\n{text}")
        return text

    @contextmanager
    def one_process(self) -> Iterator[None]:
        """Let commands and pages keep between them what a long-running process keeps."""
        with (
            self.environment(),
            patch.object(app_context, "AppContext", partial(AppContext, caches=self.caches)),
            patch.object(
                db,
                "make_engine",
                lambda url: self.engines.get(url) or self.engines.setdefault(url, make_engine(url)),
            ),
        ):
            yield

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Set the environment of this service, and nothing of the caller's."""
        before = dict(os.environ)
        for name in [name for name in before if name.startswith("DIGEST_")]:
            del os.environ[name]
        os.environ.update(self.settings)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def work(self, kind: str) -> None:
        """Do all due work, or the part of the roles that run; then take the letters from the outbox."""
        self.run({"no worker": "publish", "no scheduler": "deliver"}.get(kind, "run"))
        if kind != "no scheduler":
            self.diary.composed.append(self.now)
        if kind != "no worker":
            self.diary.runs.append(self.now)
        for path in sorted((self.folder / "outbox").glob("new/*")):
            if path.name not in self.read:
                self.read.add(path.name)
                self.diary.letters.append(self.letter(path.read_bytes()))

    def letter(self, content: bytes) -> Letter:
        """Read a letter from a mailbox."""
        message = message_from_bytes(content, policy=policy.default)
        campaign = str(message["Feedback-ID"] or "")
        subject = str(message["Subject"])
        kind = next((kind for words, kind in SUBJECTS.items() if subject.startswith(words)), "reply")
        return Letter(
            at=self.now, dated=parsedate_to_datetime(str(message["Date"])), to=str(message["To"]), kind="digest" if EDITION.match(campaign) else kind,
            edition=campaign.partition(":")[0],
            text=body_of(message, "plain").replace("\r\n", "\n"), content=content,
        )  # fmt: skip

    def load(self, path: Path, papers: list[tuple[str, frozenset[str]]], *options: str) -> bool:
        """Load a list, note its new papers, and return whether the service accepted it."""
        known = {paper.title for paper in self.diary.papers}
        dumps = json.loads(self.run("intake", str(path), *options, "--json", may_fail=True))["dumps"]
        if not dumps[0]["papers"]:
            return False
        for title, words in papers:
            if title not in known:
                self.diary.papers.append(LoadedPaper(title=title, words=words, loaded_at=self.now))
        return True

    def ask_why(self, email: str, title: str = "", edition: str = "") -> None:
        """Ask about a paper or an edition, and note the answer."""
        about = ["--edition", edition] if edition else [title]
        text = self.run("why", email, *about)
        self.diary.answers.append(Answer(at=self.now, email=email, title=title, edition=edition, text=text))

    def ask_next(self, email: str) -> None:
        """Look at a reader's next due time, and note it."""
        found = json.loads(self.run("subscribers", "show", email, "--json"))
        self.diary.promises.append(Stated(at=self.now, email=email, due=moment(found["next_due_at"])))

    def look(self) -> None:
        """Look at the status, and note it."""
        text = self.run("status", "--json", may_fail=True)
        found = json.loads(text[text.index("{") :])
        heard = [one["at"] for one in found["heartbeats"]] + [
            found["last_run_at"],
            found["catalog"]["last_seen_at"],
        ]
        since = [one.get("since") for one in [*found["problems"], *found["stops"]]]
        since += [one["expected_by"] for one in found["late"]] + heard
        self.diary.statuses.append(
            Status(
                at=self.now, due_now=found["due_now"], next_due=moment(found["next_due_at"]),
                since=tuple(filter(None, map(moment, since))),
                until=tuple(filter(None, map(moment, found["paused"].values()))),
            )
        )  # fmt: skip

    # ── pages and mail ──────────────────────────────────────────────────────────────────────────

    @contextmanager
    def context(self) -> Iterator[AppContext]:
        """Open what an entry point opens, with this moment as its time."""
        with self.one_process():
            yield open_context(load_settings(), clock=lambda: self.now, caches=self.caches)

    @contextmanager
    def browser(self) -> Iterator[TestClient]:
        """Yield a browser that opens the pages at this moment."""
        with self.context() as context:
            app = create_app(context, sleep=no_wait)
            yield TestClient(app, base_url=SITE, follow_redirects=True)

    def press(self, path: str, fields: Mapping[str, Any], network: str = "192.0.2.1") -> str:
        """Submit a form, and return the page that answers it."""
        with self.browser() as browser:
            answer = browser.post(path, data=dict(fields), headers={"x-forwarded-for": network})
        assert answer.status_code == 200, (self.now, path, fields, answer.status_code, answer.text[-2000:])
        return answer.text

    def page(self, path: str) -> str:
        """Open a page."""
        with self.browser() as browser:
            answer = browser.get(path)
        assert answer.status_code == 200, (self.now, path, answer.status_code)
        return answer.text

    def sign_up(self, fields: Mapping[str, Any], network: str) -> str:
        """Fill in the form on the front page."""
        [stamp] = re.findall(r'name="made" value="([^"]+)"', self.page("/"))
        self.now += timedelta(seconds=20)
        return self.press("/", {"made": stamp, "on": "topics", **fields}, network)

    def receive(self, sender: str, to: str, content: bytes) -> None:
        """Receive a message as `digest inbound` does."""
        with self.context() as context:
            receiver = MailReceiver(context)
            receiver.store_and_process(sender, [to], content)
            receiver.provers.shutdown()

    def write(self, sender: str, text: str) -> None:
        """Send a message of a reader."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = sender, "digest@example.org", text
        mail["Message-ID"] = f"<{self.now.timestamp()}.{sender.replace('@', '.')}@mailbox.example>"
        mail.set_content("")
        self.receive(sender, "digest@example.org", mail.as_bytes())

    def bounce(self, letter: Letter) -> None:
        """Return a letter as a server does that does not know the recipient."""
        listed = map(
            json.loads, self.run("deliveries", "--email", letter.to, "--json", clock=False).splitlines()
        )
        numbers = {row["edition"] or row["letter"]: row["id"] for row in listed}
        with self.context() as context:
            address = links.bounce_address(context.site, numbers[letter.edition or letter.kind])
        self.receive(
            "", address, NO_SUCH_USER.format(to=letter.to, us=address).replace("\n", "\r\n").encode()
        )


def moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


async def no_wait(_seconds: float) -> None:
    """Answer a form at once."""


#: How the Feedback-ID of a digest begins; and how the subjects of other letters begin.
EDITION = re.compile(r"(daily|weekly|monthly)-\d")
SUBJECTS = {
    "A link to your data": "account_link", "Your settings have changed": "changed",
    "Confirm your subscription": "confirm", "You are unsubscribed": "goodbye", "Mail commands": "help",
    "Confirm your new address": "new_address", "Your email address for digests": "address_changed",
    "Updates to papers": "nothing_today", "Nothing on your topics": "nothing_today", "Nothing new": "nothing_today",
    "Paused until": "paused", "Your digests are paused": "paused", "One click left": "reminder",
    "You are already subscribed": "settings", "Your settings link": "settings_link",
    "You are subscribed": "welcome",
}  # fmt: skip
NO_SUCH_USER = """From: MAILER-DAEMON@mailbox.example
To: {us}
Subject: Undelivered Mail Returned to Sender
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="=x"

--=x
Content-Type: text/plain

The mail system: unknown user.

--=x
Content-Type: message/delivery-status

Reporting-MTA: dns; mailbox.example

Final-Recipient: rfc822; {to}
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 unknown user

--=x--
"""
