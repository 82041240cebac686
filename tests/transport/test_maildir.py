"""The Maildir: every message once, whole, and readable by any mail program."""

from __future__ import annotations

import mailbox
import resource
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from digest.links import Site
from digest.transport import Message, Verdict
from digest.transport import open as open_transport
from digest.transport.maildir import Maildir

ALICE = Message(
    delivery_id=1,
    sender="digest@example.org",
    recipient="alice@example.org",
    content=b"Subject: a\r\n\r\nb\r\n",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mail box"


def test_a_mail_program_finds_what_was_sent(path: Path) -> None:
    (outcome,) = Maildir(path).send([ALICE])

    (found,) = mailbox.Maildir(path, create=False)
    assert outcome.verdict is Verdict.ACCEPTED
    assert found["Subject"] == "a"
    assert [file.read_bytes() for file in (path / "new").iterdir()] == [ALICE.content]
    assert not list((path / "tmp").iterdir())


def test_a_second_attempt_after_a_crash_keeps_one_copy(path: Path) -> None:
    for _ in range(2):
        (outcome,) = Maildir(path).send([ALICE])

    assert outcome.verdict is Verdict.ACCEPTED
    assert len(list((path / "new").iterdir())) == 1


def test_a_message_that_was_read_meanwhile_does_not_come_again(path: Path) -> None:
    list(Maildir(path).send([ALICE]))
    (file,) = (path / "new").iterdir()
    file.rename(path / "cur" / f"{file.name}:2,S")

    (outcome,) = Maildir(path).send([ALICE])

    assert outcome.verdict is Verdict.ACCEPTED
    assert not list((path / "new").iterdir())


def test_what_was_read_between_two_runs_of_one_worker_does_not_come_again(path: Path) -> None:
    transport = Maildir(path)
    list(transport.send([ALICE]))
    transport.close()
    (file,) = (path / "new").iterdir()
    file.rename(path / "cur" / f"{file.name}:2,S")

    list(transport.send([ALICE]))

    assert not list((path / "new").iterdir())


def test_another_house_may_use_the_same_maildir(path: Path) -> None:
    list(Maildir(path).send([ALICE, replace(ALICE, content=b"Subject: c\r\n\r\nd\r\n")]))

    assert len(list((path / "new").iterdir())) == 2


def test_a_maildir_that_cannot_be_written_has_tried_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    (outcome,) = Maildir(tmp_path / "file").send([ALICE])

    assert (outcome.verdict, outcome.reply) == (
        Verdict.UNTRIED,
        f"{tmp_path / 'file'}: Not a directory",
    )


@pytest.mark.parametrize("scheme", ["maildir", "eml"])
def test_what_was_kept_before_the_disk_was_full_was_sent_and_nothing_else_was(
    path: Path, scheme: str
) -> None:
    window = [
        replace(ALICE, delivery_id=n, content=b"Subject: x\r\n\r\n" + b"y" * n) for n in (10, 9_000, 20)
    ]
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        outcomes = list(open_transport(f"{scheme}://{path}", site=Site()).send(window))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)

    assert [each.verdict for each in outcomes] == [Verdict.ACCEPTED, Verdict.UNTRIED, Verdict.UNTRIED]
    assert outcomes[1].reply == f"{path}: File too large"
    (left,) = (entry for entry in path.rglob("*") if entry.is_file())
    assert left.read_bytes() == window[0].content


def test_what_was_sent_is_for_us_alone(path: Path) -> None:
    list(Maildir(path).send([ALICE]))

    modes = {entry: entry.stat().st_mode & 0o777 for entry in path.rglob("*")}
    assert {mode for entry, mode in modes.items() if entry.is_dir()} == {0o700}
    assert {mode for entry, mode in modes.items() if entry.is_file()} == {0o600}


def test_a_path_is_taken_as_it_is_written(tmp_path: Path, site: object) -> None:
    odd = tmp_path / "a b%20c#d?e"

    opened = open_transport(f"maildir://{odd}", site=site)  # type: ignore[arg-type]

    assert isinstance(opened, Maildir)
    assert opened.path == odd
