"""Commands explain from the database what happened to an edition, a letter, a filter or in a week."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from digest.cli import command_context
from digest.monitoring.activity import chart
from digest.web import metrics
from tests.cli.conftest import FRIDAY, Digest

LATER = "2026-11-20T09:00:00+00:00"


def change(statement: str) -> None:
    """Change the database as a failure would."""
    with command_context.open_context() as context, context.write_session() as session:
        session.execute(text(statement))
        session.commit()


# ── why --edition ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("catalog", "ada")
def test_why_edition_says_what_became_of_a_digest(digest: Digest) -> None:
    digest("run", "--now", FRIDAY)

    by_day = digest("why", "ada@example.org", "--edition", "2026-11-20", "--now", LATER)
    by_name = digest("why", "ada@example.org", "--edition", "daily-2026-11-20", "--now", LATER)
    latest = digest("why", "ada@example.org", "--now", LATER, "--json").document

    assert by_day.out.startswith("daily-2026-11-20: The mail server accepted it (2026-11-20 08:30 UTC).")
    assert "digest deliveries show 1" in by_day.out
    assert by_name.out == by_day.out
    assert (latest["cause"], latest["edition"]) == ("sent", "daily-2026-11-20")


@pytest.mark.usefixtures("catalog", "ada")
def test_why_edition_says_why_no_digest_came(digest: Digest) -> None:
    def cause(edition: str, now: str = LATER) -> str:
        document = digest("why", "ada@example.org", "--edition", edition, "--now", now, "--json").document
        return str(document["cause"])

    assert cause("2026-11-19") == "before"
    assert cause("2026-11-21") == "not due yet"
    assert cause("2026-11-20") == "not published"
    assert cause("weekly-2026-W47") == "no edition"
    digest("subscribers", "pause", "ada@example.org", "--now", LATER)
    assert cause("2026-11-20") == "paused"
    digest("suppressions", "add", "ada@example.org", "--note", "asked by phone", "--now", LATER)
    assert cause("2026-11-20") == "suppressed"


@pytest.mark.usefixtures("ada")
def test_why_needs_a_paper_or_an_edition_that_can_be_read(digest: Digest) -> None:
    both = digest("why", "ada@example.org", "7", "--edition", "today")
    neither = digest("why", "ada@example.org", "--edition", "Friday")

    assert [ran.code for ran in (both, neither)] == [2, 2]
    assert "not both" in both.err
    assert "write 2026-11-20" in neither.err


# ── history ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("catalog", "ada")
def test_history_lists_consent_letters_and_states_latest_first(digest: Digest) -> None:
    digest("run", "--now", FRIDAY)
    digest("subscribers", "remove", "ada@example.org", "--yes", "--now", LATER)

    events = digest("subscribers", "show", "ada@example.org", "--history", "--json").lines
    shown = digest("subscribers", "show", "ada@example.org", "--history").out

    acts = [one for one in events if one["event"].startswith("operator ")]
    others = [one for one in events if one not in acts]
    assert [one["event"] for one in others] == [
        "unsubscribed", "daily-2026-11-20: sent", "consent", "added",
    ]  # fmt: skip
    assert (others[1]["delivery_id"], "paper" in others[1]["detail"]) == (1, True)
    assert others[2]["detail"] == "asked in the seminar"
    assert [one["at"] for one in acts] == [others[0]["at"], others[2]["at"]]
    assert "asked in the seminar" in shown


# ── topics stats ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("catalog", "ada")
def test_topic_stats_put_broken_and_silent_filters_first(digest: Digest) -> None:
    digest(
        "subscribers", "add", "bob@example.org", "--topic", "Nothing=zebra", "--topic", "Light=light",
        "--confirmed", "--consent", "x", "--now", FRIDAY,
    )  # fmt: skip
    change("UPDATE filter SET canonical = 'light AND (' WHERE canonical = 'light'")

    found = digest("topics", "stats", "--now", FRIDAY, "--json").lines
    silent = digest("topics", "stats", "--health", "silent", "--now", FRIDAY, "--json").lines
    shown = digest("topics", "stats", "--now", FRIDAY).out

    assert [(one["health"], one["example"]) for one in found] == [
        ("broken", "Light"), ("silent", "Nothing"), ("fine", "Pictures"),
    ]  # fmt: skip
    assert found[2]["matches"] == len(digest("papers", "diffusion OR image*", "--json").lines)
    assert [one["canonical"] for one in silent] == ["zebra"]
    assert shown.startswith("Filters: 1 broken, 1 silent, 1 fine. Measured on 3 papers of the last 14 days.")


# ── report ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("catalog", "ada")
def test_report_counts_the_week_and_the_week_before(digest: Digest) -> None:
    digest("run", "--now", FRIDAY)

    found = digest("status", "--since", "7d", "--now", LATER, "--json").document
    later = digest("status", "--since", "1w", "--now", "2026-11-28T09:00Z", "--json").document
    shown = digest("status", "--since", "2w", "--now", LATER).out

    assert found["days"][-1] == "2026-11-20"
    assert (len(found["days"]), found["active"], found["in_doubt"]) == (7, 1, 0)
    assert found["digests_sent"] == {"total": 1, "before": 0, "per_day": [0, 0, 0, 0, 0, 0, 1]}
    assert (found["new_papers"]["total"], found["dumps_loaded"]["total"]) == (3, 1)
    assert (later["digests_sent"]["total"], later["digests_sent"]["before"]) == (0, 1)
    assert "digests sent" in shown
    assert "·············█" in shown
    assert digest("status", "--since", "soon").code == 2


def test_a_chart_shows_each_day_relative_to_the_highest() -> None:
    assert chart([0, 1, 4, 8]) == "·▁▄█"
    assert chart([0, 0]) == "··"
    assert len(chart([1] * 366)) <= 31


# ── stuck letters and doubts ────────────────────────────────────────────────────────────────────

STUCK = "UPDATE delivery SET state = 'stuck', in_doubt = 3, reason = 'in doubt 3 times', settled_at = due_at"


@pytest.mark.usefixtures("catalog", "ada")
def test_a_stuck_letter_is_sent_once_more_if_the_operator_says_so(digest: Digest) -> None:
    digest("publish", "--now", FRIDAY)
    change(STUCK)

    dry = digest("deliveries", "settle", "1", "--send-again", "--dry-run", "--now", LATER)
    unchanged = digest("deliveries", "--json").lines[0]["state"]
    retried = digest("deliveries", "settle", "--all", "--send-again", "--now", LATER, "--json").document
    sent = digest("deliver", "--now", LATER, "--json").document
    again = digest("deliveries", "settle", "1", "--send-again", "--now", LATER)

    assert (dry.out, unchanged) == ("Dry run: 1 letter is due again.\n", "stuck")
    assert (retried, sent["sent"]) == ({"letters": [1]}, 1)
    assert (again.code, "letter 1 is sent, not stuck" in again.err) == (2, True)


@pytest.mark.usefixtures("catalog", "ada")
def test_a_stuck_letter_that_is_given_up_stays_shown(digest: Digest) -> None:
    digest("publish", "--now", FRIDAY)
    change(STUCK)

    given_up = digest("deliveries", "settle", "1", "--give-up", "--now", LATER)
    unnamed, undecided = digest("deliveries", "settle", "--give-up"), digest("deliveries", "settle", "1")

    row = digest("deliveries", "--json").lines[0]
    assert given_up.out == "1 letter is given up.\n"
    assert (row["state"], row["reason"]) == (
        "failed",
        "given up by the operator: the letter may have arrived",
    )
    assert (unnamed.code, undecided.code) == (2, 2)
    with command_context.open_context() as context, context.read_session() as session:
        assert session.scalar(text("SELECT count(*) FROM shown")) > 0


@pytest.mark.usefixtures("catalog", "ada")
def test_status_and_metrics_count_letters_in_doubt(digest: Digest) -> None:
    from digest.monitoring import figures

    digest("run", "--now", FRIDAY)
    before = digest("status", "--json", "--now", LATER).document["in_doubt"]
    change("UPDATE delivery SET in_doubt = 1")

    now = datetime(2026, 11, 20, 9, tzinfo=UTC)
    with command_context.open_context() as context, context.read_session() as session:
        lines = list(metrics.exposition(figures.count_figures(session, now=now), now))
    assert (before, digest("status", "--json", "--now", LATER).document["in_doubt"]) == (0, 1)
    assert "In doubt" in digest("status", "--now", LATER).out
    assert "digest_in_doubt 1" in lines
