"""`digest subscribers`: add, edit, pause, erase, import and export."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from digest.cli import subscriber_files
from tests.cli.conftest import Digest


def test_a_confirmed_subscriber_is_active_at_once(digest: Digest) -> None:
    added = digest(
        "subscribers", "add", "Ada@Example.org", "--name", "Ada", "--topic", "Vision=image*", "--topic",
        "Sound=audio OR speech", "--cadence", "weekly-fri", "--at", "7:30", "--timezone", "Europe/Oslo",
        "--confirmed", "--consent", "asked in the seminar", "--json",
    )  # fmt: skip

    shown = digest("subscribers", "show", "ada@example.org", "--json").document
    assert added.document == shown
    assert {name: shown[name] for name in ("name", "state", "cadence", "at", "timezone", "topics")} == {
        "name": "Ada",
        "state": "active",
        "cadence": "weekly-fri",
        "at": "07:30",
        "timezone": "Europe/Oslo",
        "topics": {"Vision": "image*", "Sound": "audio OR speech"},
    }


def test_an_unconfirmed_subscriber_gets_one_confirmation_mail(digest: Digest) -> None:
    first = digest("subscribers", "add", "bob@example.org", "--name", "Bob", "--json")
    again = digest("subscribers", "add", "bob@example.org")

    letters = [(line["letter"], line["email"]) for line in digest("deliveries", "--json").lines]
    assert (first.document["state"], first.document["name"]) == ("pending", "Bob")
    assert letters == [("confirm", "bob@example.org")]
    assert again.code == 2
    assert "got a confirmation mail" in again.err


def test_nobody_is_added_twice(digest: Digest, ada: str) -> None:
    for options in ([], ["--confirmed", "--consent", "again"]):
        assert digest("subscribers", "add", ada.upper(), *options).code == 2

    assert len(digest("subscribers", "list", "--json").lines) == 1


def test_a_wrong_filter_is_pointed_at_and_nobody_is_added(digest: Digest) -> None:
    ran = digest(
        "subscribers", "add", "ada@example.org", "--topic", "Vision=(image", "--confirmed", "--consent", "x"
    )

    assert ran.code == 2
    assert "^" in ran.err
    assert digest("subscribers", "list", "--json").out == ""


def test_an_edit_changes_what_is_given_and_keeps_the_rest(digest: Digest, ada: str) -> None:
    edited = digest(
        "subscribers", "edit", ada, "--topic", "Sound=audio", "--topic", "Pictures=painting", "--at", "06:00", "--json"
    ).document  # fmt: skip
    dropped = digest("subscribers", "edit", ada, "--remove-topic", "Sound", "--json").document
    nothing = digest("subscribers", "edit", ada, "--at", "06:00", "--json").document

    assert (edited["changed"], dropped["changed"], nothing["changed"]) == (True, True, False)
    assert edited["topics"] == {"Pictures": "painting", "Sound": "audio"}
    assert dropped["topics"] == {"Pictures": "painting"}
    assert (nothing["at"], nothing["timezone"], nothing["state"]) == ("06:00", "UTC", "active")
    assert digest("subscribers", "edit", ada, "--remove-topic", "Sound").code == 2


def test_the_latest_change_is_undone(digest: Digest, ada: str) -> None:
    before = digest("subscribers", "show", ada, "--json").document["topics"]
    digest("subscribers", "edit", ada, "--topic", "Pictures=painting")

    undone = digest("subscribers", "edit", ada, "--undo")
    again = digest("subscribers", "edit", ada, "--undo", "--json").document

    assert undone.out == "“Pictures” is now diffusion OR image*. Before: painting.\n"
    assert digest("subscribers", "show", ada, "--json").document["topics"] == before
    assert again["undone"] == []


def test_how_much_of_an_abstract_is_shown_is_edited_exported_and_imported(
    digest: Digest, ada: str, tmp_path: Path
) -> None:
    exported = tmp_path / "people.csv"

    before = digest("subscribers", "show", ada, "--json").document["abstracts"]
    edited = digest("subscribers", "edit", ada, "--abstracts", "full", "--json").document
    digest("subscribers", "export", exported)
    digest("subscribers", "edit", ada, "--abstracts", "titles")
    digest("subscribers", "import", exported, "--consent", "the lab's list")

    assert (before, edited["abstracts"], edited["changed"]) == ("short", "full", True)
    assert digest("subscribers", "show", ada, "--json").document["abstracts"] == "full"
    refused = digest("subscribers", "edit", ada, "--abstracts", "half")
    assert (refused.code, "titles, short, full" in refused.err) == (2, True)


def test_a_subscriber_is_paused_and_resumed(digest: Digest, ada: str) -> None:
    now = ("--now", "2026-11-20T09:00:00Z")

    paused = digest("subscribers", "pause", ada, "--until", "2027-01-06", *now, "--json").document
    resumed = digest("subscribers", "resume", ada, "--json").document
    again = digest("subscribers", "resume", ada)

    assert (paused["state"], paused["paused_until"]) == ("paused", "2027-01-06")
    assert (resumed["state"], resumed["paused_until"]) == ("active", None)
    assert (again.code, "not paused" in again.err) == (2, True)
    assert digest("subscribers", "pause", ada, "--until", "2026-01-06", *now).code == 2


def test_the_next_digest_is_named_as_it_will_be_published(digest: Digest, ada: str) -> None:
    def next_due(*command: str) -> object:
        return digest("subscribers", *command, "--now", "2026-11-20T09:00:00Z", "--json").document[
            "next_due_at"
        ]

    assert next_due("show", ada) == "2026-11-20T08:00:00+00:00"  # today's, since it has not been published
    assert next_due("pause", ada, "--until", "2026-11-25") is None
    assert next_due("show", ada) is None
    assert next_due("resume", ada) == "2026-11-20T08:00:00+00:00"


def test_a_removed_subscriber_is_kept_and_an_erased_one_is_not(digest: Digest, ada: str) -> None:
    removed = digest("subscribers", "remove", ada, "--json", "--yes").document
    known = digest("subscribers", "list", "--state", "unsubscribed", "--json").lines
    plan = digest("subscribers", "erase", ada, "--suppress", "--dry-run")
    refused = digest("subscribers", "erase", ada, "--suppress")
    kept = digest("subscribers", "list", "--json").lines
    erased = digest("subscribers", "erase", ada, "--suppress", "--yes")

    assert plan.out.startswith(f"{ada} (unsubscribed, 1 topic, 0 letters) will be erased.")
    assert (refused.code, "--yes" in refused.err, len(kept)) == (2, True, 1)
    assert removed["state"] == "unsubscribed"
    assert [one["email"] for one in known] == [ada]
    assert erased.code == 0
    assert digest("subscribers", "list", "--json").out == ""
    assert [one["reason"] for one in digest("suppressions", "list", "--json").lines] == ["erased"]
    assert digest("subscribers", "add", ada).code == 2


def test_a_suppressed_address_is_refused_until_it_is_lifted(digest: Digest) -> None:
    digest("suppressions", "add", "eve@example.org", "--note", "asked by phone")

    refused = digest("subscribers", "add", "Eve@Example.org", "--confirmed", "--consent", "x")
    listed = digest("suppressions", "list", "--json").lines
    digest("suppressions", "remove", "eve@example.org", "--yes")
    taken = digest("subscribers", "add", "eve@example.org", "--confirmed", "--consent", "x")

    assert (refused.code, "suppressed" in refused.err, taken.code) == (2, True, 0)
    assert [(one["reason"], one["note"]) for one in listed] == [("operator", "asked by phone")]
    assert "eve" not in str(listed)


def test_an_import_takes_good_rows_and_reports_the_line_of_bad_ones(digest: Digest, tmp_path: Path) -> None:
    rows = tmp_path / "people.csv"
    rows.write_text(
        "email,name,cadence,at,timezone,state,topics,packs\n"
        'ada@example.org,Ada,daily,08:00,Europe/Oslo,active,"{""Vision"": ""image*""}",\n'
        "nobody,,,,,,,\n"
        "bob@example.org,Bob,weekly-fri,,,active,,\n"
        'eve@example.org,Eve,,,,active,"{""Open"": ""(image""}",\n'
    )

    tried = digest("subscribers", "import", rows, "--consent", "the lab's list", "--dry-run", "--json")
    nobody_yet = digest("subscribers", "list", "--json").out
    done = digest("subscribers", "import", rows, "--consent", "the lab's list", "--json")
    again = digest("subscribers", "import", rows, "--consent", "the lab's list", "--json").document

    assert nobody_yet == ""
    assert tried.document == done.document
    assert {name: done.document[name] for name in ("added", "updated", "unchanged", "rejected")} == {
        "added": 2, "updated": 0, "unchanged": 0, "rejected": 2,
    }  # fmt: skip
    assert [problem["line"] for problem in done.document["problems"]] == [3, 5]
    assert (done.code, again["added"], again["unchanged"]) == (0, 0, 2)
    assert {one["email"]: one["state"] for one in digest("subscribers", "list", "--json").lines} == {
        "ada@example.org": "active",
        "bob@example.org": "active",
    }


def test_an_export_with_packs_is_imported_as_it_stands(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "lab.pack").write_text("pack: lab\n\nnlp = LLM\n\nrobots = robot*\n")
    digest("topics", "pack", "publish", tmp_path / "lab.pack")
    topics = (
        "--topic",
        "NLP=use:lab/nlp",
        "--topic",
        "lab/robots=use:lab/robots@1",
        "--topic",
        "lab=use:lab",
    )
    digest("subscribers", "add", "ada@example.org", *topics, "--confirmed", "--consent", "x")

    written = digest("subscribers", "export").out
    (tmp_path / "people.csv").write_text(written)
    again = digest("subscribers", "import", tmp_path / "people.csv", "--consent", "x", "--json").document
    digest("subscribers", "erase", "ada@example.org", "--yes")
    digest("subscribers", "import", tmp_path / "people.csv", "--consent", "x")

    assert '"{""NLP"": ""use:lab/nlp""}",lab/robots@1; lab,' in written.splitlines()[1]
    assert (again["unchanged"], again["updated"]) == (1, 0)
    assert digest("subscribers", "export").out == written


def test_an_export_carries_the_words_of_examples_to_another_installation(
    digest: Digest, dump: Path, tmp_path: Path
) -> None:
    digest("intake", dump)
    digest("subscribers", "add", "ada@example.org", "--topic", "A=like:1", "--confirmed", "--consent", "x")

    exported = digest("subscribers", "export", "--json").lines[0]["topics"]["A"]
    elsewhere = exported.replace("like:1{", "like:9999.99999{")
    digest("subscribers", "edit", "ada@example.org", "--topic", f"A={elsewhere}")
    shown = digest("subscribers", "show", "ada@example.org", "--json").document

    assert exported.startswith("like:1{")
    assert shown["topics"] == {"A": "like:9999.99999"}
    assert digest("subscribers", "export", "--json").lines[0]["topics"]["A"] == elsewhere


def test_without_consent_an_import_makes_nobody_active(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("email,state\nada@example.org,active\n")

    digest("subscribers", "import", tmp_path / "people.csv")

    assert [one["state"] for one in digest("subscribers", "list", "--json").lines] == ["pending"]


def test_an_import_of_nothing_but_bad_rows_fails(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("email\nnobody\n")

    assert digest("subscribers", "import", tmp_path / "people.csv").code == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"name\nAda\n", "email", id="no addresses"),
        pytest.param(b"", "email", id="empty"),
        pytest.param(b"email\n\xff\xfe\xfa\n", "UTF-8", id="not UTF-8"),
        pytest.param("email,name\na@uni.edu,Zo\xeb\n".encode("cp1252"), "CSV UTF-8", id="Windows-1252"),
        pytest.param(b"PK\x03\x04rest", "workbook", id="Excel"),
        pytest.param(b'email,name\na@uni.edu,"Ann\nb@uni.edu,Bob\n', "line 2", id="unclosed quote"),
        pytest.param(b"email,mail,name\na@uni.edu,,Ann\n", "'mail' is unknown", id="unknown column"),
        pytest.param(b"email,name,name\na@uni.edu,,Ann\n", "'name' appears 2", id="doubled column"),
        pytest.param("email\na@uni.edu\n".encode("utf-16")[:-1], "UTF-16", id="cut UTF-16"),
    ],
)
def test_a_file_that_is_no_subscriber_list_is_refused_in_one_line(
    digest: Digest, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "people.csv").write_bytes(content)

    ran = digest("subscribers", "import", tmp_path / "people.csv")

    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_an_import_accepts_the_encodings_of_spreadsheets(
    digest: Digest, tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "people.csv").write_text("email\tname\r\nzoe@example.org\tZo\xeb\r\n", encoding=encoding)

    assert digest("subscribers", "import", tmp_path / "people.csv").code == 0
    assert digest("subscribers", "show", "zoe@example.org", "--json").document["name"] == "Zo\xeb"


def test_a_listmonk_import_reports_its_result(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        "uuid,email,name,attributes,status,created_at,updated_at\n"
        'b5a6ad9e,ena@example.org,Ena,"{""city"": ""Oslo""}",enabled,2024-01-02,2024-01-02\n'
        "b5a6ad9f,bo@example.org,Bo,{},blocklisted,2024-01-02,2024-01-02\n"
    )

    tried = digest("subscribers", "import", tmp_path / "people.csv", "--dry-run", "--json").document
    unchanged = digest("suppressions", "list", "--json").lines
    done = digest("subscribers", "import", tmp_path / "people.csv", "--consent", "x")

    assert unchanged == []
    assert (tried["from"], tried["added"], tried["suppressed"]) == ("listmonk", 1, 1)
    assert tried["left_out"] == ["uuid", "attributes", "created_at", "updated_at"]
    assert done.out.startswith("1 added, 0 updated, 0 unchanged, 1 invited, 1 suppressed, 0 rejected.")
    assert "Columns not used: uuid, attributes, created_at, updated_at" in done.err
    assert [one["state"] for one in digest("subscribers", "list", "--json").lines] == ["pending"]


def test_an_export_is_readable_by_its_owner_alone(digest: Digest, tmp_path: Path) -> None:
    digest("subscribers", "export", tmp_path / "people.csv")

    assert (tmp_path / "people.csv").stat().st_mode & 0o777 == 0o600


def test_an_export_is_imported_unchanged_and_has_no_spreadsheet_formulas(
    digest: Digest, tmp_path: Path
) -> None:
    digest(
        "subscribers", "add", "ada@example.org", "--name", "=HYPERLINK(1)", "--topic", "A, B=image*",
        "--confirmed", "--consent", "x",
    )  # fmt: skip
    digest("subscribers", "export", tmp_path / "people.csv")

    cells = next(csv.DictReader((tmp_path / "people.csv").read_text().splitlines()))
    back = digest("subscribers", "import", tmp_path / "people.csv", "--consent", "x", "--json").document
    shown = digest("subscribers", "show", "ada@example.org", "--json").document

    assert cells["name"] == "'=HYPERLINK(1)"
    assert (back["unchanged"], back["updated"], back["added"]) == (1, 0, 0)
    assert (shown["name"], shown["topics"]) == ("=HYPERLINK(1)", {"A, B": "image*"})


def test_a_long_export_is_complete_with_the_topics_of_each_subscriber(digest: Digest, tmp_path: Path) -> None:
    numbers = range(1_200)
    rows = "".join(f'r{number:04}@example.org,"{{""T{number}"": ""word{number}""}}"\n' for number in numbers)
    (tmp_path / "people.csv").write_text(f"email,topics\n{rows}")
    digest("subscribers", "import", tmp_path / "people.csv")

    lines = digest("subscribers", "list", "--json").lines
    shown = digest("subscribers", "list")

    assert [(line["email"], line["topics"]) for line in lines] == [
        (f"r{number:04}@example.org", {f"T{number}": f"word{number}"}) for number in numbers
    ]
    assert len(shown.out.splitlines()) == 21
    assert shown.err == "1,180 more; --limit 1200 shows them all.\n"


@pytest.mark.parametrize(("limit", "reason"), [(2**40, "a line is longer"), (2**20, "longer than 4 GB")])
def test_an_endless_pipe_is_refused_before_it_fills_the_disk(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, limit: int, reason: str
) -> None:
    monkeypatch.setattr(subscriber_files, "MAX_PIPED", limit)

    ran = digest("subscribers", "import", "/dev/zero", "--consent", "x")

    assert ran.code == 2
    assert reason in ran.err


# ── groups ──────────────────────────────────────────────────────────────────────────────────────


def test_a_group_is_added_with_its_owner_who_is_asked_to_confirm(digest: Digest) -> None:
    added = digest(
        "subscribers", "add", "lab@lists.example", "--group", "--owner", "kari@uni.example", "--json"
    )
    listed = digest("subscribers", "list").out

    assert (added.document["email"], added.document["owner"]) == ("lab@lists.example", "kari@uni.example")
    assert [(line["letter"], line["email"]) for line in digest("deliveries", "--json").lines] == [
        ("confirm", "kari@uni.example")
    ]
    assert "lab@lists.example (owner kari@uni.example)" in listed
    assert "kari" not in digest("subscribers", "list", "--columns", "email,state").out


@pytest.mark.parametrize(
    "options", [["--group"], ["--owner", "kari@uni.example"], ["--group", "--owner", "LAB@lists.example"]]
)
def test_a_group_needs_an_owner_who_is_somebody_else(digest: Digest, options: list[str]) -> None:
    ran = digest("subscribers", "add", "lab@lists.example", *options)

    assert ran.code == 2
    assert "owner" in ran.err
    assert digest("subscribers", "list", "--json").out == ""


def test_an_edit_gives_a_group_another_owner(digest: Digest, ada: str) -> None:
    edited = digest("subscribers", "edit", ada, "--owner", "kari@uni.example", "--json").document

    assert (edited["changed"], edited["owner"]) == (True, "kari@uni.example")
    assert digest("subscribers", "show", ada).out.count("kari@uni.example") == 1
    assert digest("subscribers", "erase", "kari@uni.example", "--yes").code != 0


@pytest.mark.parametrize("name", ["people.csv", "people.jsonl"])
def test_an_export_of_a_group_is_imported_again(digest: Digest, ada: str, tmp_path: Path, name: str) -> None:
    file = str(tmp_path / name)
    digest("subscribers", "edit", ada, "--owner", "kari@uni.example")
    digest("subscribers", "export", file)
    before = digest("subscribers", "show", ada, "--json").document

    unchanged = digest("subscribers", "import", file, "--json").document
    digest("subscribers", "erase", ada, "--yes")
    added = digest("subscribers", "import", file, "--json").document

    assert (unchanged["unchanged"], added["added"]) == (1, 1)
    after = digest("subscribers", "show", ada, "--json").document
    assert (after["owner"], after["topics"]) == (before["owner"], before["topics"])


def test_an_import_changes_the_owner_and_refuses_the_groups_own_address(
    digest: Digest, ada: str, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(f"email,owner\n{ada},kari@uni.example\nlab@lists.example,LAB@lists.example\n")

    imported = digest("subscribers", "import", str(file), "--json").document

    assert (imported["updated"], imported["rejected"]) == (1, 1)
    assert imported["problems"][0]["reason"].startswith("owner: ")
    assert digest("subscribers", "show", ada, "--json").document["owner"] == "kari@uni.example"
