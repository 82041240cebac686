"""`digest sources` and `digest dumps retry`: turned on by hand, and only by hand."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import FRIDAY, Digest

CUT = '[{"title": "Kites That Steer Themselves", "abstract": "They do."}, {"title": "What Ow'


def test_no_source_is_on_until_somebody_adds_it(digest: Digest) -> None:
    assert digest("sources", "list", "--json").lines == []
    assert digest("sources", "poll", "--now", FRIDAY).err == "No source is due.\n"


def test_a_source_is_added_listed_and_removed(digest: Digest) -> None:
    added = digest("sources", "add", "arxiv:cs.CL+cs.LG", "--back-fill", "0", "--every", "2", "--now", FRIDAY)
    (listed,) = digest("sources", "list", "--json").lines
    table = digest("sources", "list").out
    removed = digest("sources", "remove", "arxiv:cs.CL+cs.LG")

    assert (added.code, added.out) == (
        0,
        "arxiv:cs.CL+cs.LG is on: asked every 2 h, first at the scheduler's next look.\n",
    )
    assert (listed["name"], listed["kind"], listed["every"]) == ("arxiv:cs.CL+cs.LG", "arxiv", 7200)
    assert "arxiv:cs.CL+cs.LG" in table
    assert removed.code == 0
    assert digest("sources", "list", "--json").lines == []


def test_what_is_no_source_says_what_there_is(digest: Digest) -> None:
    for name in ("arxiv", "http://papers.example.org/", "twitter"):
        ran = digest("sources", "add", name)

        assert ran.code == 2
        assert "Traceback" not in ran.err
    assert "there are hf-daily, arxiv:cs.CL+cs.LG" in ran.err
    assert digest("sources", "remove", "biorxiv").code == 1


def test_this_machine_is_never_asked(digest: Digest) -> None:
    digest("sources", "add", "https://127.0.0.1/papers.json", "--now", FRIDAY)

    polled = digest("sources", "poll", "--json", "--now", FRIDAY)

    (one,) = polled.lines
    assert (polled.code, one["state"], one["papers"]) == (1, "failed", 0)
    assert one["result"] == "127.0.0.1 leads to 127.0.0.1, an address that is not on the open internet."
    assert one["next_poll_at"] == "2026-11-20T08:35:00+00:00"


def test_a_run_leaves_a_source_alone_that_is_not_due(digest: Digest) -> None:
    digest("sources", "add", "hf-daily", "--back-fill", "0", "--now", FRIDAY)

    ran = digest("run", "--json", "--now", "2026-11-19T08:00:00Z")

    assert (ran.code, ran.document["dumps"], ran.err) == (0, [], "")


def test_a_held_dump_is_loaded_when_the_operator_says_so(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text(CUT)
    held = digest("intake", tmp_path / "cut.json", "--json", "--now", FRIDAY)
    number = str(held.document["dumps"][0]["id"])

    still = digest("dumps", "retry", number, "--now", FRIDAY)
    loaded = digest("dumps", "retry", number, "--incomplete-ok", "--json", "--now", FRIDAY)

    assert (held.code, still.code, loaded.code) == (1, 1, 0)
    assert "It is incomplete" in still.err
    assert (loaded.document["state"], loaded.document["papers"]) == ("loaded", 1)
    assert digest("dumps", "show", number, "--json").document["missing"] == 0
    assert digest("dumps", "retry", "99").code == 1


def test_short_dumps_are_loaded_where_the_setting_says_so(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "digest.toml").write_text('short_dumps = "send"\n')
    (tmp_path / "cut.json").write_text(CUT)

    loaded = digest("intake", tmp_path / "cut.json", "--json", "--now", FRIDAY)

    assert (loaded.code, loaded.document["dumps"][0]["papers"]) == (0, 1)
