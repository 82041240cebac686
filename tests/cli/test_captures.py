"""Pages passed on standard input and addresses given to `digest intake` are loaded."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.cli.conftest import FRIDAY, Digest
from tests.conftest import ROOT
from tests.support.paper_pages import invented_papers, page
from tests.support.waiting import HANG_SECONDS

PAGE = page("results", invented_papers(10))


@pytest.fixture
def handed(digest: Digest, monkeypatch: pytest.MonkeyPatch) -> Digest:
    """Run `digest intake -` with content on standard input: the first argument."""

    def run(content: str | Path, *arguments: str | Path):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(str(content).encode())))
        return digest("intake", "-", *arguments, "--now", FRIDAY)

    return run


def kept(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_page_on_standard_input_is_loaded_and_kept(handed: Digest, digest: Digest, tmp_path: Path) -> None:
    loaded = handed(PAGE, "--json").document["dumps"][0]

    assert {name: loaded[name] for name in ("format", "papers", "state")} == {
        "format": "html", "papers": 10, "state": "loaded",
    }  # fmt: skip
    assert kept(tmp_path / "data" / "dumps") == ["done/capture-20261120T083000Z.html"]
    assert len(digest("papers", "--json").lines) == 10
    again = handed(PAGE)
    assert "10 unchanged" in again.out
    assert kept(tmp_path / "data" / "dumps") == ["done/capture-20261120T083000Z.html"]


def test_a_mail_that_contains_the_page_is_read(handed: Digest) -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "ada@example.org", "Papers of today"
    mail.set_content("See the page.")
    mail.add_alternative(PAGE, subtype="html")

    assert handed(mail.as_string(), "--json").document["dumps"][0]["papers"] == 10


def test_links_are_relative_to_the_address_given(handed: Digest) -> None:
    content = PAGE.replace("https://huggingface.co/", "/")

    shown = handed(content, "--url", "https://huggingface.co/papers", "--dry-run", "--show", "1", "--json")

    assert shown.document["dumps"][0]["shown"][0]["ids"] == {"arxiv": invented_papers(1)[0].arxiv}


def test_a_dry_run_keeps_no_file(handed: Digest, tmp_path: Path) -> None:
    assert "would load 10 papers" in handed(PAGE, "--dry-run").out
    assert kept(tmp_path / "data" / "dumps") == []


def test_a_page_that_cannot_be_read_is_kept_with_the_reason(handed: Digest, tmp_path: Path) -> None:
    refused = handed("Dear all,\n\nlunch is at noon.\n")

    assert (refused.code, "not loaded. The format is not recognised" in refused.err) == (1, True)
    assert kept(tmp_path / "data" / "dumps") == [
        "rejected/capture-20261120T083000Z.txt",
        "rejected/capture-20261120T083000Z.txt.reason.txt",
    ]


@pytest.mark.parametrize(
    ("content", "reason"), [(" \n", "Standard input is empty"), ("x" * (64 * 2**20 + 1), "more than 64 MiB")]
)
def test_an_empty_or_too_large_page_is_a_usage_error(handed: Digest, content: str, reason: str) -> None:
    refused = handed(content)

    assert (refused.code, reason in refused.err) == (2, True)


def test_a_program_can_hand_over_a_page_through_a_pipe() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "digest", "intake", "-", "--json"],
        input=PAGE.encode(), cwd=ROOT, capture_output=True, check=True, timeout=HANG_SECONDS,
    )  # fmt: skip

    assert json.loads(ran.stdout)["dumps"][0]["papers"] == 10


def test_an_address_in_a_private_network_is_not_fetched(digest: Digest, dump: Path) -> None:
    refused = digest("intake", "https://127.0.0.1/papers?token=secret", "--json")
    mixed = digest("intake", "https://127.0.0.1/papers", dump)

    (one,) = refused.document["dumps"]
    assert (one["state"], one["path"], one["url"]) == ("rejected", None, "https://127.0.0.1/papers?token=***")
    assert "not on the open internet" in one["reason"]
    assert (refused.code, mixed.code) == (1, 0)
    assert mixed.err.startswith("https://127.0.0.1/papers: not loaded. 127.0.0.1 leads to 127.0.0.1")


def test_intake_reads_standard_input_and_a_late_list_is_news(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = (
        '<?xml version="1.0"?><rss version="2.0"><channel><pubDate>Thu, 19 Nov 2026 00:00:00 +0000</pubDate>'
        "<item><title>On Kites</title><link>https://arxiv.org/abs/2611.01234</link><description>We fly.</description></item></channel></rss>"
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(feed.encode())))
    loaded = digest("intake", "-", "--now", "2026-11-20T10:00Z")

    assert loaded.code == 0
    assert [paper["first_seen_at"][:16] for paper in digest("papers", "--json").lines] == ["2026-11-20T10:00"]
