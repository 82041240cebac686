"""Reading dumps and listing papers."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.conftest import FRIDAY, Digest
from tests.conftest import ROOT

TITLES = [
    "Borrowed Light: Relighting Indoor Scenes From a Single Photograph of the Window",
    "The Cheapest Second Opinion: When Should a Language Model Ask Itself Again?",
    "Tide Tables for Gradient Descent",
]


def test_intake_reports_the_result_of_each_dump(digest: Digest, dump: Path) -> None:
    first = digest("intake", dump, "--date", "2026-11-20", "--json")
    second = digest("intake", dump, "--json")

    loaded = {"id": 1, "path": str(dump), "format": "page", "date": "2026-11-20", "state": "loaded"}
    figures = {"papers": 3, "rejected": 0, "problems": [], "reason": ""}
    document = first.document
    assert document.pop("note").startswith("The papers count as first seen on 2026-11-20 at 00:00 UTC")
    assert document == {"dumps": [loaded | figures | {"new": 3, "updated": 0, "unchanged": 0}]}
    assert second.document == {"dumps": [loaded | figures | {"new": 0, "updated": 0, "unchanged": 3}]}
    assert (first.err, second.code) == ("", 0)


def test_a_large_file_shows_how_far_it_is_and_how_fast(tmp_path: Path) -> None:
    large = tmp_path / "many.jsonl"
    large.write_text(
        "".join(f'{{"title": "Kites, Part {n}", "abstract": "They fly."}}\n' for n in range(6000))
    )
    here, there = pty.openpty()
    termios.tcsetwinsize(there, (24, 120))

    command = [sys.executable, "-m", "digest", "intake", str(large), "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=there) as reading:
        os.close(there)
        shown = b"".join(iter(lambda: seen(here), b"")).decode()
        assert json.loads(reading.communicate()[0])["dumps"][0]["papers"] == 6000
    os.close(here)

    assert reading.returncode == 0
    assert re.search(r"many\.jsonl.*/6000.* [\d,]+ papers/s", shown)


def seen(terminal: int) -> bytes:
    """Return what was written to a terminal, nothing once it is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_intake_leaves_the_file_where_it_is(digest: Digest, dump: Path) -> None:
    before = dump.read_bytes()

    digest("intake", dump)

    assert dump.read_bytes() == before


def test_one_good_dump_among_bad_ones_is_enough(digest: Digest, dump: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()

    mixed = digest("intake", tmp_path / "empty.txt", tmp_path / "absent.txt", dump, "--json")
    none = digest("intake", tmp_path / "empty.txt", tmp_path, "--json")

    states = [[loaded["state"] for loaded in ran.document["dumps"]] for ran in (mixed, none)]
    assert states == [["rejected", "rejected", "loaded"], ["rejected", "rejected"]]
    assert (mixed.code, none.code) == (0, 1)
    assert all(loaded["problems"] for loaded in none.document["dumps"])


def test_a_dry_run_keeps_nothing(digest: Digest, dump: Path) -> None:
    tried = digest("intake", dump, "--dry-run", "--json")

    assert tried.document["dumps"][0]["new"] == 3
    assert digest("papers", "--json").out == ""
    assert digest("dumps", "list", "--json").out == ""


def test_the_first_papers_are_shown_as_they_are_stored(digest: Digest, dump: Path) -> None:
    shown = digest("intake", dump, "--dry-run", "--show", "2").out
    (listed,) = digest("intake", dump, "--dry-run", "--show", "2", "--json").document["dumps"]

    lines = shown.splitlines()
    assert [
        line for line in lines if "Borrowed" in line or "Second Opinion" in line or "Tide Tables" in line
    ] == [
        f"  1. {TITLES[0]}",
        f"  2. {TITLES[1]}",
    ]
    assert lines[3:7] == [
        "     authors    5 authors",
        "     published  2026-11-19",
        "     signals    7 comments",
        "     ids        –",
    ]
    assert lines[7].startswith("     abstract   Relighting a room")
    assert re.search(r"\.\.\. \([\d,]+ characters\)$", lines[7])
    assert [paper["title"] for paper in listed["shown"]] == TITLES[:2]
    assert {name: listed["shown"][0][name] for name in ("published", "signals", "line", "n_authors")} == {
        "published": "2026-11-19",
        "signals": {"comments": 7},
        "line": 11,
        "n_authors": 5,
    }


def test_the_papers_of_a_dump_that_is_known_held_or_unreadable_are_shown_if_there_are_any(
    digest: Digest, dump: Path, tmp_path: Path
) -> None:
    record = {
        "title": "Kites",
        "abstract": "They fly.",
        "authors": ["Ada Okafor", *"BCDEFGH"],
        "published_inferred": True,
    }
    record |= {
        "organization": "Kite Works",
        "published": "2026-11-16",
        "arxiv": "2611.00001",
        "upvotes": 1204,
    }
    (tmp_path / "cut.jsonl").write_text(json.dumps(record) + '\n{"title": "Ow')
    (tmp_path / "empty.txt").touch()
    digest("intake", dump)

    known = digest("intake", dump, "--show", "1")
    cut = digest("intake", tmp_path / "cut.jsonl", "--show", "9")
    none = digest("intake", tmp_path / "empty.txt", tmp_path / "absent.txt", "--show", "9", "--json")

    assert TITLES[0] in known.out
    assert "not loaded. The dump is incomplete" in cut.err
    assert "  1. Kites\n     authors    Ada Okafor, B, C, D, E, 3 others · Kite Works\n" in cut.out
    assert (
        "     published  2026-11-16 (year inferred)\n     signals    1,204 upvotes\n     ids        arxiv 2611.00001\n"
        in cut.out
    )
    assert cut.out.endswith("     abstract   They fly.\n")
    assert [one["shown"] for one in none.document["dumps"]] == [[], []]


@pytest.mark.usefixtures("catalog")
def test_papers_json_has_every_documented_field(digest: Digest) -> None:
    papers = digest("papers", "--dump", "1", "--order", "position", "--json").lines

    assert [paper["title"] for paper in papers] == TITLES
    assert list(papers[0]) == [
        "id", "ids", "title", "abstract", "summary_by", "display_title", "display_abstract", "authors", "n_authors",
        "organization", "published", "published_inferred", "categories", "journal", "comment", "announcement",
        "urls", "signals", "first_seen_at", "score",
    ]  # fmt: skip
    assert {
        name: papers[0][name] for name in ("n_authors", "published", "urls", "signals", "first_seen_at")
    } == {
        "n_authors": 5,
        "published": "2026-11-19",
        "urls": ["https://code.example.org/borrowed-light"],
        "signals": {"comments": 7},
        "first_seen_at": "2026-11-20T00:00:00+00:00",
    }
    assert papers[2]["signals"] == {}


def test_no_match_and_an_empty_catalog_give_different_notes(digest: Digest, dump: Path) -> None:
    assert "Read a dump" in digest("papers").err

    digest("intake", dump)

    assert "digest topics check" in digest("papers", "zymurgy").err


def test_papers_json_is_read_by_the_intake_of_another_service(
    digest: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {
        "title": "Tidal Sorting", "abstract": "We sort.", "arxiv": "2611.00001", "doi": "10.1234/tides",
        "authors": ["Ada Okafor"], "n_authors": 3, "organization": "Institute of Gravel", "published": "2026-11-16",
        "categories": ["cs.LG"], "journal": "Letters on Gravel", "comment": "16 pages", "announcement": "cross",
        "url": "https://gravel.example/tides", "upvotes": 7, "downloads": 310,
    }  # fmt: skip
    (tmp_path / "first.jsonl").write_text(json.dumps(record))
    assert digest("intake", tmp_path / "first.jsonl", "--now", FRIDAY).code == 0
    exported = digest("papers", "--json", "--now", FRIDAY)

    (tmp_path / "second.jsonl").write_text(exported.out)
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path / "elsewhere"))
    assert digest("intake", tmp_path / "second.jsonl", "--now", FRIDAY).code == 0

    (paper,) = digest("papers", "--json", "--now", FRIDAY).lines
    assert [paper] == exported.lines
    assert (paper["journal"], paper["comment"], paper["announcement"]) == (
        "Letters on Gravel", "16 pages", "cross",
    )  # fmt: skip
    assert paper["signals"] == {"upvotes": 7, "downloads": 310}


@pytest.mark.usefixtures("catalog")
def test_papers_come_in_the_order_asked_for(digest: Digest, tmp_path: Path) -> None:
    newer = tmp_path / "newer.txt"
    newer.write_text(
        "Get trending papers in your email inbox once a day!\nGet trending papers in your email inbox!\n"
        "SubscribeOn the Gradient of Old Maps\nWe study how contour lines were drawn before anybody had measured them.\n"
        "A Second Paper Nobody Asked For\nIt has an abstract, though, and the abstract is long enough to be one.\n"
    )
    assert digest("intake", newer, "--date", "2026-11-21").code == 0

    def ids(*options: str) -> list[int]:
        return [paper["id"] for paper in digest("papers", *options, "--json").lines]

    scores = [paper["score"] for paper in digest("papers", "--json").lines]
    assert scores == sorted(scores, reverse=True)
    assert ids("--order", "newest") == [5, 4, 3, 2, 1]
    assert ids("--order", "position") == [4, 5, 1, 2, 3]
    assert ids("--dump", "1") == [1, 2, 3]
    assert ids("--order", "newest", "--limit", "2") == [5, 4]
    assert set(ids("gradient")) == {3, 4}
    assert ids("gradient", "--order", "relevance")[0] in {3, 4}
    assert set(ids("--now", FRIDAY)) == {1, 2, 3}


@pytest.mark.usefixtures("catalog")
def test_a_table_for_people_says_how_much_more_there_is(digest: Digest) -> None:
    shown = digest("papers", "--limit", "1")

    assert "Cheapest Second Opinion" in shown.out
    assert shown.err == "2 more; --limit 3 shows them all.\n"


@pytest.mark.usefixtures("catalog")
def test_trending_gives_reasons(digest: Digest) -> None:
    first = digest("papers", "--json").lines[0]

    assert first["title"] == TITLES[1]
    assert "12 comments" in first["reasons"]


def test_the_papers_that_only_a_wrong_dump_lists_are_hidden_and_shown_again(
    digest: Digest, dump: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.jsonl"
    rows = [
        {"title": title, "abstract": "We measure how gravel sorts itself."} for title in (TITLES[2], "Gravel")
    ]
    wrong.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (digest("intake", dump).code, digest("intake", wrong).code) == (0, 0)

    hidden = digest("hide", "--dump", "2", "--json").document
    again = digest("hide", "--dump", "2", "--json").document
    shown = digest("hide", "--dump", "2", "--undo", "--json").document

    assert hidden == {"dump": 2, "changed": 1, "hidden": True}
    assert (again["changed"], shown["changed"]) == (0, 1)
    assert "is not hidden" in digest("hide", "Gravel", "--undo").out


@pytest.mark.parametrize("arguments", [(), ("Gravel", "--dump", "1")])
def test_hide_takes_either_a_paper_or_a_dump(digest: Digest, arguments: tuple[str, ...]) -> None:
    assert digest("hide", *arguments).code == 2
    assert "There is no dump 7" in digest("hide", "--dump", "7").err


def test_bad_records_are_shown(digest: Digest, dump: Path) -> None:
    text = dump.read_text()
    dump.write_text(
        text + "\n" + "T" * 2_000 + "\n\nAn abstract under a title that is far too long to be one.\n"
    )

    digest("intake", dump)

    shown = digest("dumps", "show", "1", "--json").document
    listed = digest("dumps", "list", "--json").lines[0]
    assert (shown["papers"], shown["rejected"], listed["rejected"]) == (3, 1, 1)
    assert shown["problems"][0]["reason"] == "an abstract with no title above it"
    assert shown["problems"][0]["line"] > 30


def test_a_title_cannot_send_commands_to_a_terminal(digest: Digest, tmp_path: Path) -> None:
    path = tmp_path / "sly.txt"
    path.write_text(
        "Get trending papers in your email inbox once a day!\nGet trending papers in your email inbox!\n"
        "SubscribeRed \x1b[31mAlert\u202e\x9b2J: a Title\nAn abstract of some length, so that it is taken for one.\n"
    )

    digest("intake", path)

    shown = (
        digest("papers").out + digest("papers", "--order", "newest").out + digest("dumps", "show", "1").out
    )
    assert "Alert" in shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)


def test_a_filter_is_echoed_in_its_canonical_form(digest: Digest) -> None:
    checked = digest("topics", "check", "title:diffusion (video|image)")
    parsed = digest("topics", "check", "title:diffusion AND (video OR image)", "--json").document

    assert checked.code == 0 or "^" in checked.err
    assert (
        digest("topics", "check", parsed["canonical"], "--json").document["canonical"] == parsed["canonical"]
    )


@pytest.mark.usefixtures("catalog")
def test_a_filter_is_tried_on_the_whole_catalog(digest: Digest) -> None:
    tried = digest("topics", "test", "gradient OR diffusion", "--json").document

    assert list(tried) == ["canonical", "found", "matches", "per_day", "clauses", "last", "warnings"]
    assert {match["title"] for match in tried["matches"]} == {TITLES[0], TITLES[2]}
    assert [list(match) for match in tried["matches"]] == [
        ["id", "title", "display_title", "score", "why"]
    ] * 2
    assert all(match["why"] for match in tried["matches"])
    scores = [match["score"] for match in tried["matches"]]
    assert scores == sorted(scores, reverse=True)
    assert tried["per_day"]["days"] >= 1
    assert tried["per_day"]["max"] == 2


@pytest.mark.usefixtures("catalog")
def test_json_keeps_letters_as_they_are(digest: Digest, tmp_path: Path) -> None:
    path = tmp_path / "umlaut.txt"
    path.write_text(
        "Get trending papers in your email inbox once a day!\nGet trending papers in your email inbox!\n"
        "SubscribeÜber die Łukasiewicz-Logik\nEine Zusammenfassung, die lang genug ist, um eine zu sein: τ und π.\n",
        encoding="utf-8",
    )
    digest("intake", path)

    line = digest("papers", "--order", "newest", "--limit", "1", "--json").out

    assert "Über die Łukasiewicz-Logik" in line
    assert json.loads(line)["display_abstract"].endswith("τ und π.")


@pytest.mark.usefixtures("catalog")
def test_a_like_clause_is_resolved_from_the_catalog(digest: Digest) -> None:
    assert digest("topics", "check", "like:1").out == "like:1\n"
    assert "There is no paper" in digest("topics", "test", "like:2401.99999").err
