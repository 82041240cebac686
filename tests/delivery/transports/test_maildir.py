"""A Maildir contains every message once and complete, in a form that any mail program can read."""

from __future__ import annotations

import mailbox
import resource
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from digest.delivery.transports.mail_url import parse_mail_url
from digest.delivery.transports.maildir import MaildirTransport
from digest.delivery.transports.open_transport import open_transport
from digest.delivery.transports.transport import Message, Verdict
from digest.site.site_profile import Site

ALICE = Message(
    delivery_id=1,
    sender="digest@example.org",
    recipient="alice@example.org",
    content=b"Subject: a\r\n\r\nb\r\n",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mail box"


def test_mail_program_finds_what_was_sent(path: Path) -> None:
    (outcome,) = MaildirTransport(path).send([ALICE])

    (found,) = mailbox.Maildir(path, create=False)
    assert outcome.verdict is Verdict.ACCEPTED
    assert found["Subject"] == "a"
    assert [file.read_bytes() for file in (path / "new").iterdir()] == [ALICE.content]
    assert not list((path / "tmp").iterdir())


def test_second_attempt_after_a_crash_keeps_one_copy(path: Path) -> None:
    for _ in range(2):
        (outcome,) = MaildirTransport(path).send([ALICE])
        assert outcome.verdict is Verdict.ACCEPTED

    assert len(list((path / "new").iterdir())) == 1


def test_a_message_that_was_read_is_not_stored_again(path: Path) -> None:
    list(MaildirTransport(path).send([ALICE]))
    (file,) = (path / "new").iterdir()
    file.rename(path / "cur" / f"{file.name}:2,S")

    (outcome,) = MaildirTransport(path).send([ALICE])

    assert outcome.verdict is Verdict.ACCEPTED
    assert not list((path / "new").iterdir())


def test_message_read_between_two_runs_of_one_worker_does_not_come_again(path: Path) -> None:
    transport = MaildirTransport(path)
    list(transport.send([ALICE]))
    transport.close()
    (file,) = (path / "new").iterdir()
    file.rename(path / "cur" / f"{file.name}:2,S")

    list(transport.send([ALICE]))

    assert not list((path / "new").iterdir())


def test_two_installations_can_share_a_maildir(path: Path) -> None:
    list(MaildirTransport(path).send([ALICE, replace(ALICE, content=b"Subject: c\r\n\r\nd\r\n")]))

    assert len(list((path / "new").iterdir())) == 2


def test_unwritable_maildir_leaves_messages_untried(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    (outcome,) = MaildirTransport(tmp_path / "file").send([ALICE])

    assert (outcome.verdict, outcome.reply) == (
        Verdict.UNTRIED,
        f"{tmp_path / 'file'}: Not a directory",
    )


@pytest.mark.parametrize("scheme", ["maildir", "eml"])
def test_full_disk_accepts_only_what_was_stored_before(path: Path, scheme: str) -> None:
    window = [
        replace(ALICE, delivery_id=n, content=b"Subject: x\r\n\r\n" + b"y" * n) for n in (10, 9_000, 20)
    ]
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        outcomes = list(open_transport(parse_mail_url(f"{scheme}://{path}"), site=Site()).send(window))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)

    assert [each.verdict for each in outcomes] == [Verdict.ACCEPTED, Verdict.UNTRIED, Verdict.UNTRIED]
    assert outcomes[1].reply == f"{path}: File too large"
    (left,) = (entry for entry in path.rglob("*") if entry.is_file())
    assert left.read_bytes() == window[0].content


def test_stored_messages_are_readable_only_by_us(path: Path) -> None:
    list(MaildirTransport(path).send([ALICE]))

    modes = {entry: entry.stat().st_mode & 0o777 for entry in path.rglob("*")}
    assert {mode for entry, mode in modes.items() if entry.is_dir()} == {0o700}
    assert {mode for entry, mode in modes.items() if entry.is_file()} == {0o600}


def test_path_is_not_unescaped(tmp_path: Path, site: object) -> None:
    odd = tmp_path / "a b%20c#d?e"

    opened = open_transport(parse_mail_url(f"maildir://{odd}"), site=site)  # type: ignore[arg-type]

    assert isinstance(opened, MaildirTransport)
    assert opened.path == odd
