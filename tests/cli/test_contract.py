"""Rules for every command: exit codes, streams, help, and no traceback for a user's mistake."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from digest import __version__
from digest.cli import checked_out_commit, completion
from tests.cli.conftest import Digest, build_command, every_command
from tests.conftest import ROOT

MISTAKES = [
    pytest.param(["frobnicate"], 2, "No such command 'frobnicate'", id="an unknown command"),
    pytest.param(["papers", "--frobnicate"], 2, "No such option", id="an unknown option"),
    pytest.param(["papers", "--now", "2026-11-20T08:00"], 2, "has no offset", id="a naive moment"),
    pytest.param(["papers", "--now", "soon"], 2, "'soon' is not a time", id="no time"),
    pytest.param(["papers", "--dump", "7"], 1, "no dump 7", id="a dump that is not there"),
    pytest.param(["papers", "--order", "relevance"], 2, "needs a FILTER", id="relevant to nothing"),
    pytest.param(["papers", "--limit", "0"], 2, "--limit", id="a limit of none"),
    pytest.param(["intake", "--date", "20 Nov", "x"], 2, "'20 Nov' is not a day", id="no day"),
    pytest.param(["intake", "absent.txt"], 1, "absent.txt: not loaded", id="a file that is not there"),
    pytest.param(["dumps", "show", "7"], 1, "no dump 7", id="showing a dump that is not there"),
    pytest.param(["subscribers", "add", "ada"], 2, "'ada' is not a valid email address", id="no address"),
    pytest.param(["subscribers", "add", "a@example.org", "--at", "25:00"], 2, "at:", id="no time of day"),
    pytest.param(
        ["subscribers", "add", "a@example.org", "--timezone", "Olso"], 2, "Europe/Oslo", id="no city"
    ),
    pytest.param(["subscribers", "add", "a@example.org", "--cadence", "dayly"], 2, "daily", id="a cadence"),
    pytest.param(
        ["subscribers", "add", "a@example.org", "--topic", "Vision"], 2, "NAME=FILTER", id="no filter"
    ),
    pytest.param(["subscribers", "add", "a@example.org", "--confirmed"], 2, "--consent", id="no consent"),
    pytest.param(["subscribers", "show", "a@example.org"], 1, "no subscriber", id="nobody"),
    pytest.param(["subscribers", "list", "--state", "asleep"], 2, "'asleep' is not one of", id="no state"),
    pytest.param(["subscribers", "import", "absent.csv"], 2, "No such file", id="no file of rows"),
    pytest.param(["suppressions", "remove", "a@example.org"], 1, "not suppressed", id="not suppressed"),
    pytest.param(["deliveries", "--state", "lost"], 2, "'lost' is not one of", id="no such state"),
    pytest.param(["preview", "a@example.org", "--out", "x"], 1, "no subscriber", id="nobody's preview"),
    pytest.param(["topics", "check", "(diffusion"], 2, "^", id="an open parenthesis"),
    pytest.param(["dkim", "keygen", "--selector", "../mail"], 2, "for the DNS", id="no name for a key"),
    pytest.param(["deliveries", "show", f"{10**20}"], 1, "no delivery 1", id="an id no table can have"),
    pytest.param(["deliveries", "show", "9" * 5_000], 1, "no delivery 9", id="an id too long to be read"),
    pytest.param(["deliveries", "show", "²"], 1, "no delivery ²", id="a digit that is no number"),
    pytest.param(["deliveries", "--limit", f"{10**20}"], 2, "--limit", id="more rows than a table can have"),
    pytest.param(["dumps", "show", f"{10**20}"], 2, "ID", id="a dump no table can have"),
    pytest.param(["inbox", "show", f"{10**20}"], 2, "ID", id="a mail no table can have"),
    pytest.param(
        ["bounces", "forgive", "--domain", "x", "--since", "2026-13-45"], 2, "is not a day", id="no day"
    ),
]


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES)
def test_a_mistake_gives_one_line_on_stderr_and_an_exit_code(
    digest: Digest, arguments: list[str], code: int, message: str
) -> None:
    ran = digest(*arguments)

    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_the_memory_transport_is_refused(digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIGEST_MAIL_URL", "memory:")

    ran = digest("status")

    assert ran.code == 2
    assert "DIGEST_MAIL_URL: memory:" in ran.err


def test_an_invalid_setting_is_named(digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIGEST_LISTEN", "eighty")

    ran = digest("status")

    assert ran.code == 2
    assert ran.err.startswith("digest: DIGEST_LISTEN: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DIGEST_SIGNUP", "opne"),
        ("DIGEST_SENDER", "nobody"),
        ("DIGEST_BASE_URL", "digest.example.org"),
        ("DIGEST_MAIL_URL", "pigeon://loft"),
        ("DIGEST_LOG_FORMAT", "xml"),
    ],
)
def test_a_wrong_setting_is_reported_before_anything_happens(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    ran = digest("status")

    assert ran.code == 2
    assert ran.err.startswith(f"digest: {name}: ")
    assert len(ran.err.splitlines()) == 1


def test_a_database_that_does_not_answer_is_named_without_its_password(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATABASE_URL", "postgresql://digest:hidden@127.0.0.1:1/digest")

    ran = digest("papers")

    assert (ran.code, ran.out) == (1, "")
    assert "127.0.0.1:1" in ran.err
    assert "DIGEST_DATABASE_URL" in ran.err
    assert "hidden" not in ran.err


def test_a_file_that_is_no_database_is_reported(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "digest.sqlite3").write_bytes(b"this is no database, whatever its name says" * 50)

    ran = digest("papers")

    assert ran.code == 1
    assert "not a database" in ran.err
    assert "Traceback" not in ran.err


def test_a_data_directory_that_cannot_be_created_is_reported(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path / "file" / "data"))

    ran = digest("papers")

    assert ran.code == 2
    assert ran.err.startswith("digest: DIGEST_DATA_DIR: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["papers", "--json"],
        ["dumps", "list", "--json"],
        ["subscribers", "list", "--json"],
        ["suppressions", "list", "--json"],
        ["deliveries", "--json"],
    ],
    ids=lambda arguments: " ".join(arguments[:-1]),
)
def test_an_empty_list_prints_nothing(digest: Digest, arguments: list[str]) -> None:
    ran = digest(*arguments)

    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_the_first_command_initialises_an_empty_data_directory(digest: Digest, tmp_path: Path) -> None:
    ran = digest("status")

    made = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
    assert ran.code == 0
    assert {"digest.sqlite3", "secret_key", "pepper"} <= made.keys()
    assert (made["secret_key"], made["pepper"]) == (0o600, 0o600)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_the_data_directory_can_be_named_before_the_command(
    digest: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATA_DIR", "put back afterwards")

    ran = digest("--data-dir", tmp_path / "elsewhere", "status", "--json")

    assert ran.document["settings"]["data_dir"] == str(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "digest.sqlite3").exists()


def test_version_option_prints_the_version_and_the_commit_of_a_checkout(digest: Digest) -> None:
    in_checkout = (ROOT / ".git").exists()
    commit = f" (commit {checked_out_commit(ROOT)})" if in_checkout else ""

    assert digest("--version").out == f"digest {__version__}{commit}\n"


def test_the_commit_of_a_checkout_is_that_of_git(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert checked_out_commit(tmp_path) == ""

    git("init")
    git("commit", "--allow-empty", "--message", "Begin")

    assert checked_out_commit(tmp_path) == git("rev-parse", "--short", "HEAD")
    assert len(checked_out_commit(tmp_path)) >= 7


def test_help_is_fast() -> None:
    command = [sys.executable, "-m", "digest", "--help"]

    helped = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", *command[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "subscribers" in helped.stdout
    modules = {line.rsplit("|", 1)[-1].strip() for line in loaded.stderr.splitlines()}
    assert not {"sqlalchemy", "celery", "pydantic.main", "jinja2", "lxml", "cryptography"} & modules
    assert len(modules) < 600  # 403 with Python 3.11


#: what a command that only reads or writes a few rows need not import
HEAVY = {
    "alembic", "apscheduler", "bibtexparser", "celery", "cryptography", "dkim", "httpx2", "jinja2", "kombu", "lxml",
    "numpy", "premailer", "psycopg", "pydantic_settings", "redis", "sqlalchemy.dialects.postgresql", "starlette", "uvicorn", "wordfreq",
}  # fmt: skip
#: parts of the service that send, load, publish or receive
OTHER_PARTS = {
    "digest.delivery.worker_loop", "digest.delivery.transports.smtp",
    "digest.dumps.formats.recognition", "digest.inbound.server", "digest.letters.templates",
    "digest.publishing.chunk_of_digests", "digest.web",
}  # fmt: skip


#: Commands that only read or write a few rows; they run one after another in one process.
SMALL_COMMANDS = (
    "topics check a", "subscribers list", "suppressions list", "deliveries", "bounces list", "dumps list", "keys retire",
)  # fmt: skip


def test_a_command_imports_only_what_it_needs(digest: Digest) -> None:
    digest("status")  # creates the database, which needs Alembic
    program = (
        "import sys; from digest.cli import main; codes = [main(words.split()) for words in sys.argv[1:]];"
        " print(*sys.modules, file=sys.stderr); sys.exit(any(codes))"
    )

    command = [sys.executable, "-c", program, *SMALL_COMMANDS]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    modules = set(ran.stderr.split())
    assert "digest.cli" in modules
    assert not (HEAVY | OTHER_PARTS) & modules


def test_only_the_named_command_is_built() -> None:
    for arguments, names in (
        (["status"], {"status"}),
        (["--quiet", "--data-dir", "papers", "status", "--json"], {"status"}),
        (["--data-dir=papers", "subscribers", "show", "ada@example.org"], {"subscribers"}),
        (["deliveries", "stop"], {"deliveries"}),
    ):
        every = build_command()
        parse(every, arguments)
        assert set(every.commands) == names, arguments


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("logs", "journalctl"),
        ("help", "--help"),
        ("subscribers rm ada@example.org", "digest subscribers remove EMAIL"),
        ("subscribers delete ada@example.org", "digest subscribers erase EMAIL"),
        ("stauts", "Did you mean 'status'?"),
        ("subscribers shwo", "Did you mean 'show'?"),
    ],
)
def test_a_word_that_is_no_command_gets_a_hint(digest: Digest, words: str, hint: str) -> None:
    ran = digest(*words.split())

    assert (ran.code, ran.out) == (2, "")
    assert hint in ran.err


def examples_of(known: Any) -> list[str]:
    """Return the examples in the help of a command."""
    return [line.removeprefix("$ ") for line in (known.epilog or "").splitlines() if line.startswith("$ ")]


def test_the_help_of_every_command_has_two_or_three_examples_and_no_type_that_explains_nothing(
    digest: Digest,
) -> None:
    for words, known in every_command().items():
        shown, examples = digest(*words.split(), "--help").out, examples_of(known)

        assert 2 <= len(examples) <= 3, words
        assert "Examples:" in shown, words
        assert all(f"digest {words}" in example for example in examples[:1]), words
        without_meaning = ("<bool>", "<str>", "<int>", "x<=", "9223372036854775807")
        assert not [word for word in without_meaning if word in shown], words


def test_every_command_that_prints_results_can_print_json() -> None:
    without = {
        words
        for words, known in every_command().items()
        if not any("--json" in parameter.opts for parameter in known.params)
    }

    assert without == {"up", "web", "worker", "scheduler", "inbound"}  # processes, which write logs


def test_every_example_is_a_valid_command_line() -> None:
    every, wrong = build_command(), {}
    for example in chain.from_iterable(map(examples_of, every_command().values())):
        try:
            parse(every, shlex.split(example.partition(" < ")[0])[1:])
        except Exception as error:  # noqa: BLE001  (Click's exceptions have no common class)
            wrong[example] = error

    assert wrong == {}


def parse(command: Any, words: list[str]) -> None:
    """Parse a command line as far as its last command; raise what is wrong with it."""
    context = None
    while True:
        context = command.make_context(command.name, words, parent=context)
        words = [*context._protected_args, *context.args]
        if not words:
            return
        _, command, words = command.resolve_command(context, words)


def test_a_closed_pipe_or_stream_causes_no_traceback(digest: Digest, dump: Path) -> None:
    assert digest("intake", dump).code == 0

    piped = subprocess.run(
        ["sh", "-c", '"$0" -m digest papers --json | head -c 10', sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert piped.stdout == '{"id": 2, '
    assert piped.stderr == ""

    for closed in (">&-", "<&-", "2>&-", "<&- >&- 2>&-"):
        line = f'"$0" -m digest status {closed}'
        ran = subprocess.run(
            ["sh", "-c", line, sys.executable], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, ""), closed


@pytest.mark.usefixtures("catalog", "ada")
def test_addresses_topics_and_dumps_are_completed(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "lab.pack").write_text("pack: lab\n\nnlp = LLM\n")
    digest("topics", "pack", "publish", tmp_path / "lab.pack")

    assert completion.emails("ad") == ["ada@example.org"]
    assert completion.emails("x") == []
    assert completion.topics("pic") == ["Pictures"]
    assert completion.packs("l") == ["lab"]
    assert completion.dumps("") == ["1"]


def test_completion_creates_no_database(tmp_path: Path) -> None:
    assert completion.emails("a") == []
    assert not (tmp_path / "data").exists()


def test_a_shell_gets_completed_addresses(digest: Digest, ada: str) -> None:
    asked = {
        "_DIGEST_COMPLETE": "complete_bash",
        "COMP_WORDS": "digest subscribers show a",
        "COMP_CWORD": "3",
    }

    ran = subprocess.run(
        [sys.executable, "-c", "from digest.cli import app; app(prog_name='digest')"],
        cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.stdout.split() == [ada]


def test_quiet_prints_results_without_notes(
    digest: Digest, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_CLI_QUIET", "put back afterwards")
    monkeypatch.delenv("DIGEST_CLI_QUIET")
    loud = digest("subscribers", "list")
    quiet = digest("--quiet", "subscribers", "list")
    wrong = digest("--quiet", "subscribers", "show", "nobody@example.org")

    assert "No subscribers." in loud.err
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert "no subscriber" in wrong.err
