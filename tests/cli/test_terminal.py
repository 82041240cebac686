"""Output in terminals of any width and for any script."""

from __future__ import annotations

import os
import pty
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from digest.cli import main, terminal
from tests.cli.conftest import FRIDAY, Digest
from tests.support import faulty_smtp_server
from tests.support.faulty_smtp_server import Fault, FaultyServer, faulty_server


def seen(*arguments: str, columns: int) -> list[str]:
    """Return the lines that a command shows in a terminal of this width."""
    master, slave = pty.openpty()
    with (
        pytest.MonkeyPatch.context() as patched,
        os.fdopen(slave, "w", encoding="utf-8") as terminal,
        redirect_stdout(terminal),
        redirect_stderr(terminal),
    ):
        patched.setenv("COLUMNS", str(columns))
        patched.setenv("TERM", "dumb")
        assert main(list(arguments)) == 0
        terminal.flush()
        os.set_blocking(master, False)
        text = b"".join(iter(lambda: read_some(master), b"")).decode()
    os.close(master)
    return text.replace("\r\n", "\n").splitlines()


def read_some(terminal: int) -> bytes:
    """Return what waits to be read from a terminal, or nothing."""
    try:
        return os.read(terminal, 4096)
    except BlockingIOError:
        return b""


@pytest.mark.usefixtures("catalog", "ada")
def test_output_fits_the_width_of_a_terminal() -> None:
    status, doctor = f"status --now {FRIDAY}", f"doctor --now {FRIDAY}"
    for words in ("papers", "papers --order newest", "subscribers list", "dumps list", status, doctor):
        for columns in (80, 120):
            lines = seen(*words.split(), columns=columns)

            assert lines, words
            too_long = [line for line in lines if terminal.display_width(line) > columns]
            assert [line for line in too_long if " " in line.strip()] == [], (words, columns)


@pytest.mark.usefixtures("catalog", "ada")
def test_deliveries_fit_the_screen_and_show_prints_whole_replies(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    email = "somebody.with.a.rather.long.name@department-of-computer-science.university.example"
    digest("subscribers", "add", email, "--topic", "Pictures=diffusion OR image*", "--now", FRIDAY)
    words = "550 5.1.1 The account that you tried to reach does not exist, see https://help.university.example/mail"
    with faulty_server(FaultyServer(plan=lambda _: Fault.RCPT_550)) as server:
        monkeypatch.setitem(faulty_smtp_server.REPLIES, "RCPT_550", words)
        monkeypatch.setenv("DIGEST_MAIL_URL", f"smtp://127.0.0.1:{server.port}")
        digest("deliver", "--now", FRIDAY)
    number = digest("deliveries", "--json", "--email", email).lines[0]["id"]

    for columns in (80, 120):
        for arguments in (["deliveries"], ["bounces", "list"], ["deliveries", "show", str(number)]):
            lines = seen(*arguments, columns=columns)
            assert [line for line in lines if terminal.display_width(line) > columns] == []
        lines = seen("deliveries", "show", str(number), columns=columns)
        assert words.replace(" ", "") in "".join(lines).replace(" ", "")


@pytest.mark.usefixtures("catalog")
def test_a_narrow_terminal_cuts_titles_and_never_figures() -> None:
    head, first, *_ = seen("papers", columns=60)

    assert head.split() == ["id", "title", "authors", "published", "score", "why"]
    assert "…" in first
    assert first.split()[0] == "2"
    assert {"2026-11-19", "2.44"} <= set(first.split())


def test_a_wide_character_counts_for_two(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table(["title", "score#"], [("拡散モデル", 7), ("ab", 12)])

    _, wide, narrow = capsys.readouterr().out.splitlines()
    assert wide == "拡散モデル      7"
    assert narrow == "ab             12"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("turned \u202eround", "turned round"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
    ids=["plain", "lines", "colours", "direction", "Persian"],
)
def test_text_from_outside_cannot_send_commands_to_a_terminal(text: str, shown: str) -> None:
    assert terminal.visible_text(text) == shown


def test_progress_shows_nothing_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal.show_progress("Reading", total=3) as done:
        done.advance(1)
        done.update_to(3)

    assert capsys.readouterr() == ("", "")


def test_a_long_note_is_wrapped_between_words_and_indented() -> None:
    note = f"  line 5: {'is not valid ' * 12}/a/folder/with/a/name/that/is/longer/than/the/line"

    lines = terminal.wrap_line(note, 40).split("\n")

    assert all(len(line) <= 40 for line in lines[:-1])
    assert [line[:4] for line in lines[1:]] == ["    "] * (len(lines) - 1)
    assert " ".join(line.strip() for line in lines) == note.strip()
