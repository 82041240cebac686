"""`digest topics pack`: from a file to its subscribers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Digest

LAB = "pack: lab\ndescription: Ours.\n\nlight = descent OR light\n\nother = ti:survey\n"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    path = tmp_path / "lab.pack"
    path.write_text(LAB)
    return path


def subscribed(digest: Digest, *topics: str) -> None:
    given = [word for topic in topics for word in ("--topic", topic)]
    assert digest("subscribers", "add", "ada@example.org", *given, "--confirmed", "--consent", "x").code == 0


def test_a_dry_run_checks_a_pack_and_publishes_nothing(digest: Digest, lab: Path) -> None:
    fine = digest("topics", "pack", "publish", lab, "--dry-run", "--json").document
    lab.write_text(LAB.replace("descent", "descent AND (cat:cs.NLP"))
    wrong = digest("topics", "pack", "publish", lab, "--dry-run")

    assert (fine["name"], fine["version"]) == ("lab", 1)
    assert {one["name"]: one["after_filter"] for one in fine["filters"]} == {
        "light": "descent OR light", "other": "ti:survey",
    }  # fmt: skip
    assert wrong.code == 2
    assert wrong.err.splitlines() == [
        'digest: Line 4, column 26: arXiv has no category "cs.NLP". Did you mean cat:cs.CL?',
        "  light = descent AND (cat:cs.NLP OR light",
        "                           ^^^^^^",
    ]
    assert digest("topics", "pack", "list", "--json").lines == []


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"\xff\xfe", "is not UTF-8"), (b"", "pack is empty"), (b"\0" * 60_000, "at most 50,000")],
)  # fmt: skip
def test_an_invalid_pack_is_refused_in_one_line(
    digest: Digest, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "x.pack"
    if content is not None:
        path.write_bytes(content)

    for options in ((), ("--dry-run",)):
        ran = digest("topics", "pack", "publish", path, *options)
        assert ran.code == 2
        assert message in ran.err
        assert "Traceback" not in ran.err


def test_a_dry_run_names_gained_and_lost_papers_and_counts_subscribers(
    digest: Digest, lab: Path, catalog: None
) -> None:
    digest("topics", "pack", "publish", lab)
    subscribed(digest, "Light=use:lab/light", "Pinned=use:lab/light@1")
    lab.write_text(LAB.replace("descent OR light", "descent"))

    report = digest("topics", "pack", "publish", lab, "--dry-run", "--json").document
    shown = digest("topics", "pack", "publish", lab, "--dry-run").out
    before = digest("topics", "pack", "list", "--json").lines

    light, other = report["filters"]
    assert (report["name"], report["version"], report["before"], report["subscribers"]) == ("lab", 2, 1, 1)
    assert (light["change"], light["before_filter"], light["after_filter"], other["change"]) == (
        "changed", "descent OR light", "descent", "same",
    )  # fmt: skip
    lost = digest("papers", "light ANDNOT descent", "--json").lines
    assert lost
    assert [one["id"] for one in light["lost"]] == [one["id"] for one in lost]
    assert light["gained"] == []
    assert f"  - 2026-11-20  {light['lost'][0]['title']}" in shown
    assert "Would get the new version and a letter about it: 1 subscriber." in shown
    assert [(one["version"], one["subscribers"]) for one in before] == [(1, 1)]


def test_publish_updates_followers_and_an_earlier_version_reverts_them(
    digest: Digest, lab: Path, catalog: None
) -> None:
    digest("topics", "pack", "publish", lab)
    subscribed(digest, "Light=use:lab/light")
    lab.write_text(LAB.replace("descent OR light", "descent"))

    refused = digest("topics", "pack", "publish", lab)
    published = digest("topics", "pack", "publish", lab, "--json", "--yes").document
    twice = digest("topics", "pack", "publish", lab)
    would_undo = digest("topics", "pack", "publish", "lab", "--version", "1", "--dry-run")
    undone = digest("topics", "pack", "publish", "lab", "--version", "1", "--yes")
    letters = digest("deliveries", "--json").lines

    assert refused.code == 2
    assert "1 subscriber gets version 2 of lab, and a letter about it." in refused.err
    assert would_undo.out.startswith("lab version 3 would be the same as version 1.")
    assert (published["version"], published["subscribers"]) == (2, 1)
    assert (twice.code, twice.err) == (2, "digest: lab is unchanged since version 2.\n")
    assert undone.out.startswith("lab version 3 is the same as version 1.")
    assert digest("topics", "pack", "show", "lab").out.splitlines()[3] == "light = descent OR light"
    assert digest("topics", "pack", "show", "lab", "--version", "2").out.splitlines()[3] == "light = descent"
    assert [one["letter"] for one in letters] == ["changed", "changed"]


def test_check_and_test_show_what_a_pack_resolves_to(digest: Digest, lab: Path, catalog: None) -> None:
    digest("topics", "pack", "publish", lab)

    checked = digest("topics", "check", "use:lab/light x", "--json").document
    tried = digest("topics", "test", "use:lab/light ANDNOT zebra", "--json").document
    plain = digest("topics", "test", "(descent OR light) ANDNOT zebra", "--json").document

    assert checked == {
        "canonical": "use:lab/light AND x",
        "warnings": [],
        "resolved": "(descent OR light) AND x",
        "packs": {"use:lab/light@1": "descent OR light"},
    }
    assert tried["matches"] == plain["matches"]
    assert tried["canonical"] == "use:lab/light ANDNOT zebra"
    assert (
        digest("papers", "use:lab/light", "--json").lines
        == digest("papers", "descent OR light", "--json").lines
    )


def test_an_unknown_pack_filter_is_pointed_at(digest: Digest, lab: Path) -> None:
    digest("topics", "pack", "publish", lab)

    ran = digest("topics", "check", "x OR use:lab/lihgt")

    assert ran.code == 2
    assert ran.err.splitlines() == [
        "digest: Column 10: The pack lab has no filter lihgt; it has light, other. Did you mean use:lab/light?",
        "  x OR use:lab/lihgt",
        "           ^^^^^^^^^",
    ]
    assert digest("topics", "pack", "show", "lub").err == "digest: There is no pack lub. Did you mean lab?\n"
    assert digest("topics", "pack", "publish", "lab", "--version", "1").code == 2  # the newest
    assert digest("topics", "pack", "publish", "lab", "--version", "7").code == 1


def test_a_pack_has_no_topics_by_example(digest: Digest, lab: Path, catalog: None) -> None:
    lab.write_text("pack: lab\n\nlike = like:1\n")

    assert "like: needs the catalog" in digest("topics", "pack", "publish", lab).err
    assert digest("papers", "like:1", "--json").lines[0]["id"]
