"""Lists of subscribers are synchronized, exported completely and imported again, and erased readers leave no data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import FRIDAY, Digest

CONSENT = ("--consent", "they are members")


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def states(digest: Digest) -> dict[str, str]:
    return {one["email"]: one["state"] for one in digest("subscribers", "list", "--json").lines}


def publish_lab(digest: Digest, folder: Path) -> None:
    pack = write(folder / "lab.pack", "pack: lab", "", "nlp = LLM", "", "robots = robot*")
    assert digest("topics", "pack", "publish", pack).code == 0


# ── sync ────────────────────────────────────────────────────────────────────────────────────────


def test_sync_adds_changes_and_removes_what_its_dry_run_shows(digest: Digest, tmp_path: Path) -> None:
    publish_lab(digest, tmp_path)
    file = write(
        tmp_path / "members.csv",
        "email,state,packs",
        "ada@example.org,active,lab/nlp",
        "bob@example.org,active,lab/nlp",
    )
    digest("subscribers", "sync", file, *CONSENT, "--yes")
    digest("subscribers", "edit", "bob@example.org", "--topic", "Own=tide*", "--at", "06:00")
    write(
        file, "email,state,packs,at", "bob@example.org,active,lab/robots,09:00", "cleo@example.org,active,,"
    )

    planned = digest("subscribers", "sync", file, *CONSENT, "--dry-run", "--json").document
    before = states(digest)
    done = digest("subscribers", "sync", file, *CONSENT, "--yes", "--json").document
    bob = digest("subscribers", "show", "bob@example.org", "--json").document

    assert planned == done
    assert before == {"ada@example.org": "active", "bob@example.org": "active"}
    assert (done["added_emails"], done["changed_emails"], done["removed_emails"]) == (
        ["cleo@example.org"], ["bob@example.org"], ["ada@example.org"],
    )  # fmt: skip
    assert states(digest) == {
        "ada@example.org": "unsubscribed", "bob@example.org": "active", "cleo@example.org": "active",
    }  # fmt: skip
    assert bob["topics"] == {"Own": "tide*", "lab/robots": "use:lab/robots"}
    assert bob["at"] == "06:00"


def test_a_change_of_packs_leaves_a_muted_topic_muted(digest: Digest, tmp_path: Path) -> None:
    publish_lab(digest, tmp_path)
    first = write(
        tmp_path / "first.csv",
        "email,state,topics,muted",
        "ada@example.org,active,A=tide*; B=robot*,B",
    )
    digest("subscribers", "import", first, *CONSENT)
    file = write(tmp_path / "members.csv", "email,packs", "ada@example.org,lab/nlp")

    digest("subscribers", "sync", file, "--yes")

    ada = digest("subscribers", "show", "ada@example.org", "--json").document
    assert (list(ada["topics"]), ada["muted"]) == (["A", "B", "lab/nlp"], ["B"])


def test_sync_brings_back_who_it_removed_but_never_who_left(digest: Digest, tmp_path: Path) -> None:
    everybody = [f"{name}@example.org,active" for name in ("ada", "bob", "cleo", "dora")]
    file = write(tmp_path / "members.csv", "email,state", *everybody)
    digest("subscribers", "sync", file, *CONSENT, "--yes")
    digest("subscribers", "remove", "bob@example.org", "--yes")
    digest("suppressions", "add", "cleo@example.org")
    write(file, "email,state", *everybody[1:])
    digest("subscribers", "sync", file, "--yes")
    assert states(digest)["ada@example.org"] == "unsubscribed"
    write(file, "email,state", *everybody)

    back = digest("subscribers", "sync", file, "--yes", "--json").document

    assert (back["updated"], back["kept_out"], back["removed"]) == (1, 2, 0)
    assert states(digest) == {
        "ada@example.org": "active", "bob@example.org": "unsubscribed", "cleo@example.org": "active",
        "dora@example.org": "active",
    }  # fmt: skip


def test_who_leaves_after_a_sync_removed_them_stays_away(digest: Digest, tmp_path: Path) -> None:
    file = write(tmp_path / "members.csv", "email,state", "ada@example.org,active", "bob@example.org,active")
    digest("subscribers", "sync", file, *CONSENT, "--yes")
    write(file, "email", "bob@example.org")
    digest("subscribers", "sync", file, "--yes")
    digest("subscribers", "remove", "ada@example.org", "--yes")
    write(file, "email", "bob@example.org", "ada@example.org")

    digest("subscribers", "sync", file, "--yes")

    assert states(digest)["ada@example.org"] == "unsubscribed"


@pytest.mark.usefixtures("ada")
def test_sync_leaves_subscribers_alone_who_were_never_in_a_list(digest: Digest, tmp_path: Path) -> None:
    file = write(tmp_path / "members.csv", "email", "bob@example.org")

    digest("subscribers", "sync", file, "--yes")

    assert states(digest)["ada@example.org"] == "active"


def test_a_bad_row_removes_nobody(digest: Digest, tmp_path: Path) -> None:
    file = write(tmp_path / "members.csv", "email,state", "ada@example.org,active", "bob@example.org,active")
    digest("subscribers", "sync", file, *CONSENT, "--yes")
    write(file, "email,cadence", "ada@example.org,hourly")
    known = digest("subscribers", "sync", file, "--yes", "--json").document
    write(file, "email", "ada at example.org", "bob@example.org")
    unknown = digest("subscribers", "sync", file, "--yes")

    assert (known["rejected"], known["removed_emails"]) == (1, ["bob@example.org"])
    assert "Nobody is removed, because 1 row has no readable address." in unknown.err
    assert states(digest)["ada@example.org"] == "active"


def test_a_list_cut_short_removes_nobody(digest: Digest, tmp_path: Path) -> None:
    rows = [f"reader{number}@example.org,active" for number in range(30)]
    file = write(tmp_path / "members.csv", "email,state", *rows)
    digest("subscribers", "sync", file, *CONSENT, "--yes")
    write(file, "email,state", *rows[:5])

    refused = digest("subscribers", "sync", file, "--yes")
    kept = states(digest)
    digest("subscribers", "sync", file, "--yes", "--allow-many")

    assert (refused.code, "it may be incomplete" in refused.err) == (2, True)
    assert set(kept.values()) == {"active"}
    assert sum(state == "active" for state in states(digest).values()) == 5


def test_sync_asks_and_without_a_terminal_needs_yes(digest: Digest, tmp_path: Path) -> None:
    file = write(tmp_path / "members.csv", "email", "ada@example.org")

    asked = digest("subscribers", "sync", file)

    assert (asked.code, "add --yes" in asked.err) == (2, True)
    assert "added    ada@example.org" in asked.out
    assert states(digest) == {}


# ── complete in both formats ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["people.csv", "people.jsonl"])
def test_an_export_restores_the_same_service_after_everything_was_erased(
    digest: Digest, tmp_path: Path, name: str
) -> None:
    publish_lab(digest, tmp_path)
    write(
        tmp_path / "start.csv",
        "email,name,cadence,at,timezone,state,topics,packs,muted,abstracts,max_papers,"
        "nothing_today,paused_until,confirmed_at,consent",
        "ada@example.org,Ada,weekly-fri,07:30,Europe/Oslo,active,A=tide*; B=robot*,lab/nlp,b,full,25,yes,"
        ",2025-01-02T03:04:05+00:00,asked in the seminar",
        "bob@example.org,,daily,08:00,UTC,paused,,,,,,,2027-01-06,2025-05-06,by phone",
        "cleo@example.org,,monthly,08:00,UTC,pending,,,,,,,,,",
        "dora@example.org,=1+1,daily,08:00,UTC,unsubscribed,,,,,,,,,",
    )
    assert digest("subscribers", "import", tmp_path / "start.csv", "--json").document["added"] == 4
    digest("subscribers", "export", tmp_path / name)
    before = digest("subscribers", "list", "--json").lines
    for email in states(digest):
        digest("subscribers", "erase", email, "--yes")

    imported = digest("subscribers", "import", tmp_path / name, "--json").document
    again = digest("subscribers", "export", tmp_path / f"again-{name}")

    assert (imported["added"], imported["rejected"], again.code) == (4, 0, 0)
    assert (tmp_path / f"again-{name}").read_text() == (tmp_path / name).read_text()
    for now, then in zip(digest("subscribers", "list", "--json").lines, before, strict=True):
        assert now | {"created_at": ""} == then | {"created_at": ""}
    assert before[0]["muted"] == ["B"]
    assert before[0]["consent"] == "asked in the seminar"
    assert before[1]["paused_until"] == "2027-01-06"


def test_topics_are_read_as_a_list_of_names_and_filters(digest: Digest, tmp_path: Path) -> None:
    file = write(
        tmp_path / "people.csv",
        "email,topics",
        'ada@example.org,"Vision=""image; video"" OR light; Votes=upvotes:>=5"',
        "bob@example.org,diffusion OR video",
        "cleo@example.org,upvotes:>=5",
    )

    done = digest("subscribers", "import", file, "--json").document

    ada = digest("subscribers", "show", "ada@example.org", "--json").document
    assert ada["topics"] == {"Vision": '"image; video" OR light', "Votes": "upvotes:>=5"}
    assert [problem["line"] for problem in done["problems"]] == [3, 4]
    assert "write Name=filter; Name=filter" in done["problems"][0]["reason"]


def test_the_template_can_be_imported(digest: Digest, tmp_path: Path) -> None:
    publish_lab(digest, tmp_path)
    template = digest("subscribers", "import", "--template").out
    (tmp_path / "people.csv").write_text(template)

    done = digest("subscribers", "import", tmp_path / "people.csv", *CONSENT, "--json").document

    assert (done["added"], done["rejected"]) == (2, 0)


# ── bad input ───────────────────────────────────────────────────────────────────────────────────


def test_bad_lines_are_reported_and_good_rows_kept(digest: Digest, tmp_path: Path) -> None:
    huge = "x" * 10_000_000
    file = write(
        tmp_path / "people.csv",
        "email,name",
        "ada@example.org,Ada",
        f"bob@example.org,{huge}",
        "ada@example.org,Ada again",
        "cleo@example.org,Cleo,too many",
        "=cmd()@example,Eve",
        "dora@example.org,Dora",
    )

    done = digest("subscribers", "import", file, "--json").document

    assert [problem["line"] for problem in done["problems"]] == [3, 5, 6]
    assert (done["added"], done["updated"], sorted(states(digest))) == (
        2, 1, ["ada@example.org", "dora@example.org"],
    )  # fmt: skip


def test_bad_json_lines_are_reported_and_good_ones_kept(digest: Digest, tmp_path: Path) -> None:
    file = write(
        tmp_path / "people.jsonl",
        json.dumps({"email": "ada@example.org", "topics": {"T": "tide*"}, "max_papers": 5}),
        "{",
        "",
        json.dumps({"email": "bob@example.org", "nmae": "Bob"}),
        json.dumps(["cleo@example.org"]),
        json.dumps({"email": "dora@example.org", "max_papers": 500}),
        json.dumps({"email": "emil@example.org", "packs": []}),
    )

    done = digest("subscribers", "import", file, "--json").document

    assert [problem["line"] for problem in done["problems"]] == [2, 4, 5, 6]
    assert "Did you mean name?" in done["problems"][1]["reason"]
    assert sorted(states(digest)) == ["ada@example.org", "emil@example.org"]


# ── searching ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("ada")
def test_subscribers_are_found_by_their_fields(digest: Digest, tmp_path: Path) -> None:
    publish_lab(digest, tmp_path)
    digest(
        "subscribers", "add", "bob@lab.example", "--topic", "lab/nlp=use:lab/nlp", "--cadence", "monthly",
        "--name", "Robert 100%", "--confirmed", "--consent", "x",
    )  # fmt: skip

    def found(*arguments: str) -> list[str]:
        return [one["email"] for one in digest("subscribers", *arguments, "--json").lines]

    assert found("list", "--domain", "lab.example") == ["bob@lab.example"]
    assert found("list", "--pack", "lab") == found("list", "--pack", "lab/nlp") == ["bob@lab.example"]
    assert found("list", "--pack", "lab/robots") == found("list", "--pack", "la") == []
    assert found("list", "--topic", "DIFFUSION") == ["ada@example.org"]
    assert found("list", "--cadence", "monthly") == found("list", "robert") == ["bob@lab.example"]
    assert found("list", "0%") == ["bob@lab.example"]
    assert found("list", "100_") == []
    shown = digest("subscribers", "list", "--columns", "email,consent").out
    assert shown.splitlines()[1].split(None, 1) == ["ada@example.org", "asked in the seminar"]
    assert digest("subscribers", "list", "--columns", "adress").code == 2


# ── erased without a trace ──────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["sqlite", "postgresql"])
def on_both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use SQLite in the data directory, then PostgreSQL."""
    if request.param == "postgresql":
        monkeypatch.setenv("DIGEST_DATABASE_URL", request.getfixturevalue("postgres_url"))


@pytest.mark.usefixtures("on_both", "catalog", "ada")
def test_an_erasure_leaves_the_address_nowhere_on_disk(digest: Digest, tmp_path: Path) -> None:
    digest("run", "--now", FRIDAY)
    digest("backup", tmp_path / "data" / "before.backup")  # the rows of either database
    before = files_containing(tmp_path / "data", b"ada@example.org")
    (tmp_path / "data" / "before.backup").unlink()

    erased = digest("subscribers", "erase", "Ada@Example.org", "--yes", "--now", FRIDAY)
    digest("backup", tmp_path / "data" / "after.backup")

    assert {path.parent.name for path in before} >= {"new", "data"}
    assert erased.code == 0
    assert (tmp_path / "data" / "after.backup").exists()
    assert files_containing(tmp_path / "data", b"ada@example.org") == []


def files_containing(folder: Path, text: bytes) -> list[Path]:
    """Return the files that contain a text: databases, logs of changes, letters, anything."""
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes().lower()]
