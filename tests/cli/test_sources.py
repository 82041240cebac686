"""`digest sources` and `digest dumps retry`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FRIDAY, Digest

CUT = '[{"title": "Kites That Steer Themselves", "abstract": "They do."}, {"title": "What Ow'


def test_no_source_is_on_until_somebody_adds_it(digest: Digest) -> None:
    assert digest("sources", "list", "--json").lines == []
    assert digest("sources", "poll", "--now", FRIDAY).err == "No source is due.\n"


def test_a_source_is_added_listed_and_removed(digest: Digest) -> None:
    added = digest("sources", "add", "arxiv:cs.CL+cs.LG", "--backfill", "0", "--every", "2", "--now", FRIDAY)
    (listed,) = digest("sources", "list", "--json").lines
    table = digest("sources", "list").out
    removed = digest("sources", "remove", "arxiv:cs.CL+cs.LG")

    assert (added.code, added.out) == (
        0,
        "Added arxiv:cs.CL+cs.LG: polled every 2 h while the scheduler runs.\n",
    )
    assert (listed["name"], listed["kind"], listed["interval_seconds"]) == (
        "arxiv:cs.CL+cs.LG",
        "arxiv",
        7200,
    )
    assert "arxiv:cs.CL+cs.LG" in table
    assert removed.code == 0
    assert digest("sources", "list", "--json").lines == []


def test_an_unknown_source_is_an_error_that_lists_the_presets(digest: Digest) -> None:
    presets = "use hf-daily, arxiv:cs.CL+cs.LG"
    reasons = {"arxiv": presets, "http://papers.example.org/": "is not an https URL", "twitter": presets}
    for name, reason in reasons.items():
        ran = digest("sources", "add", name)

        assert ran.code == 2
        assert "Traceback" not in ran.err
        assert reason in ran.err
    assert digest("sources", "remove", "biorxiv").code == 1


@pytest.mark.parametrize(
    "address", ["https://ann:geheim@papers.example.org/x", "http://ann:geheim@papers.example.org/x"]
)
def test_an_address_with_a_password_is_refused_without_printing_it(digest: Digest, address: str) -> None:
    ran = digest("sources", "add", address)
    gone = digest("sources", "remove", address)

    assert (ran.code, gone.code, digest("sources", "list", "--json").lines) == (2, 1, [])
    assert "contains a user name or a password" in ran.err
    assert "geheim" not in ran.out + ran.err + gone.out + gone.err


def test_no_list_or_log_shows_a_key_in_the_address_of_a_source(
    digest: Digest, caplog: pytest.LogCaptureFixture
) -> None:
    address = "https://127.0.0.1/papers.json?author=Ito&api_key=geheim&page=1"

    ran = [
        digest("sources", "add", address, "--now", FRIDAY),
        digest("sources", "add", address, "--now", FRIDAY, "--json"),
        digest("sources", "list"),
        digest("sources", "list", "--json"),
        digest("sources", "poll", "--now", FRIDAY),
        digest("sources", "poll", address, "--now", FRIDAY, "--json"),
        digest("status", "--json"),
        digest("doctor", "--json"),
        digest("sources", "remove", address),
    ]

    assert "geheim" not in "".join(one.out + one.err for one in ran) + caplog.text
    assert ran[3].lines[0]["url"] == "https://127.0.0.1/papers.json?author=Ito&api_key=***&page=1"
    assert ran[-1].code == 0


def test_a_source_on_this_machine_is_refused(digest: Digest) -> None:
    digest("sources", "add", "https://127.0.0.1/papers.json", "--now", FRIDAY)

    polled = digest("sources", "poll", "--json", "--now", FRIDAY)

    (one,) = polled.lines
    assert (polled.code, one["state"], one["papers"]) == (1, "failed", 0)
    assert one["result"] == "127.0.0.1 leads to 127.0.0.1, an address that is not on the open internet."
    assert one["next_poll_at"] == "2026-11-20T08:35:00+00:00"


def test_run_does_not_poll_a_source_that_is_not_due(digest: Digest) -> None:
    digest("sources", "add", "hf-daily", "--backfill", "0", "--now", FRIDAY)

    ran = digest("run", "--json", "--now", "2026-11-19T08:00:00Z")

    assert (ran.code, ran.document["dumps"], ran.err) == (0, [], "")


def test_a_held_dump_is_loaded_at_the_operators_request(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text(CUT)
    held = digest("intake", tmp_path / "cut.json", "--json", "--now", FRIDAY)
    number = str(held.document["dumps"][0]["id"])

    still = digest("dumps", "retry", number, "--now", FRIDAY)
    loaded = digest("dumps", "retry", number, "--incomplete-ok", "--json", "--now", FRIDAY)

    assert (held.code, still.code, loaded.code) == (1, 1, 0)
    assert "The dump is incomplete" in still.err
    assert (loaded.document["state"], loaded.document["papers"]) == ("loaded", 1)
    assert digest("dumps", "show", number, "--json").document["missing_papers"] == 0
    assert digest("dumps", "retry", "99").code == 1


def test_a_dry_run_of_a_retry_reports_and_stores_and_moves_nothing(digest: Digest, tmp_path: Path) -> None:
    dumps = tmp_path / "data" / "dumps"
    dumps.mkdir(parents=True)
    (dumps / "cut.json").write_text(CUT)
    digest("run", "--now", "2026-11-20T08:00:00Z")
    digest("run", "--now", FRIDAY)
    (before,) = digest("dumps", "list", "--json").lines
    number = str(before["id"])

    held = digest("dumps", "retry", number, "--dry-run", "--now", FRIDAY)
    planned = digest("dumps", "retry", number, "--dry-run", "--incomplete-ok", "--now", FRIDAY)
    report = digest("dumps", "retry", number, "--dry-run", "--incomplete-ok", "--json", "--now", FRIDAY)
    after = digest("dumps", "list", "--json").lines
    papers = digest("papers", "--json").lines
    loaded = digest("dumps", "retry", number, "--incomplete-ok", "--json", "--now", FRIDAY).document

    assert (before["state"], Path(before["path"]).parent.name) == ("held", "rejected")
    assert (held.code, planned.code, "would load 1 paper" in planned.out) == (1, 0, True)
    assert (after, papers) == ([before], [])
    assert report.document == loaded | {"path": before["path"]}
    assert (loaded["papers"], [one["state"] for one in digest("dumps", "list", "--json").lines]) == (
        1,
        ["loaded"],
    )


def test_a_dry_run_of_a_poll_lists_the_sources_and_fetches_nothing(digest: Digest) -> None:
    digest("sources", "add", "https://127.0.0.1/papers.json", "--backfill", "0", "--now", FRIDAY)
    digest("sources", "add", "hf-daily", "--backfill", "0", "--now", FRIDAY)
    before = digest("sources", "list", "--json").lines

    due = digest("sources", "poll", "--dry-run", "--now", FRIDAY, "--json").lines
    named = digest("sources", "poll", "hf-daily", "--dry-run", "--now", "2026-11-20T08:31Z")
    none = digest("sources", "poll", "--dry-run", "--now", "2026-11-19T08:00Z")
    unknown = digest("sources", "poll", "medrxiv", "--dry-run", "--now", FRIDAY)

    assert sorted(one["name"] for one in due) == sorted(one["name"] for one in before)
    assert (named.code, named.out) == (0, "Dry run: hf-daily would be polled.\n")
    assert (none.code, none.err) == (0, "No source is due.\n")
    assert (unknown.code, "There is no source medrxiv" in unknown.err) == (1, True)
    assert digest("sources", "list", "--json").lines == before


def test_short_dumps_are_loaded_if_the_setting_allows_it(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "digest.toml").write_text('short_dumps = "send"\n')
    (tmp_path / "cut.json").write_text(CUT)

    loaded = digest("intake", tmp_path / "cut.json", "--json", "--now", FRIDAY)

    assert (loaded.code, loaded.document["dumps"][0]["papers"]) == (0, 1)


def test_a_long_address_is_known_by_a_shorter_name(digest: Digest) -> None:
    address = f"https://papers.example.org/lists?{'topic=kites&' * 20}format=json"

    added = digest("sources", "add", address, "--now", FRIDAY)
    again = digest("sources", "add", address, "--every", "12", "--now", FRIDAY)
    (listed,) = digest("sources", "list", "--json").lines

    assert (added.code, again.code) == (0, 0)
    assert added.out.startswith(f"Added {listed['name']}:")
    assert listed["name"].startswith("papers.example.org-")
    assert (listed["url"], listed["interval_seconds"]) == (address, 43_200)
    removed = digest("sources", "remove", address, "--json").document
    assert (removed["name"], removed["is_on"]) == (listed["name"], False)
    assert digest("sources", "list", "--json").lines == []


def test_a_source_name_that_is_too_long_is_refused_with_a_fix(digest: Digest) -> None:
    endless = digest("sources", "add", f"https://papers.example.org/{'x' * 2000}")
    archives = digest("sources", "add", "arxiv:" + "+".join(["cs.CL"] * 20))

    assert (endless.code, archives.code) == (2, 2)
    assert "the URL has 2,027 characters; at most 2,000 are allowed" in endless.err
    assert "add two sources" in archives.err


def test_a_dump_loaded_late_is_new_unless_it_is_history(digest: Digest, tmp_path: Path) -> None:
    numbers = []
    for name in ("kites", "owls"):
        (tmp_path / f"{name}.json").write_text(CUT.replace("Kites", name.title()))
        held = digest("intake", tmp_path / f"{name}.json", "--json", "--date", "2026-11-20", "--now", FRIDAY)
        numbers.append(str(held.document["dumps"][0]["id"]))

    late = ("--incomplete-ok", "--now", "2026-11-24T09:00:00Z")
    news = digest("dumps", "retry", numbers[0], *late)
    history = digest("dumps", "retry", numbers[1], *late, "--as-history")

    seen = {paper["title"]: paper["first_seen_at"] for paper in digest("papers", "--json").lines}
    assert (news.code, history.code) == (0, 0)
    assert seen["Kites That Steer Themselves"] == "2026-11-24T09:00:00+00:00"
    assert seen["Owls That Steer Themselves"] == "2026-11-20T00:00:00+00:00"
    assert digest("dumps", "show", numbers[1], "--json").document["is_history"] is True


def test_a_late_list_is_reported_by_every_status_command(digest: Digest, tmp_path: Path) -> None:
    for week in ("10-30", "11-06", "11-13"):
        (tmp_path / f"{week}.json").write_text(CUT.replace("Kites", week) + '"}]')
        assert digest("intake", tmp_path / f"{week}.json", "--now", f"2026-{week}T06:00:00Z").code == 0
    now = ("--now", "2026-11-20T09:00:00Z")
    message = "folder: Friday's list has not arrived; it usually arrives at 06:00 UTC"

    *dumps, late = digest("dumps", "list", "--json", *now).lines

    assert (late["id"], late["state"], late["source"], late["reason"]) == (None, "late", "folder", message)
    assert [dump["state"] for dump in dumps] == ["loaded"] * 3
    assert f"Late: {message}." in digest("dumps", "list", *now).err
    assert message in digest("status", *now).out
    assert [one["message"] for one in digest("status", "--json", *now).document["late"]] == [message]
    assert message in digest("doctor", *now).out
    assert len(digest("dumps", "list", "--json", "--now", FRIDAY.replace("08:30", "07:59")).lines) == 3
