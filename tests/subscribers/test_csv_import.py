"""CSV imports add good rows, report bad ones, and change nothing when repeated."""

import csv
import io
import json
from contextlib import contextmanager
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, event, func, select, update

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import (
    Confirmation,
    Consent,
    FilterRow,
    Subscriber,
    SubscriberState,
    Subscription,
)
from digest.editions.schedule import Cadence
from digest.errors import BadField
from digest.subscribers import subscriber_rows, subscriber_topics
from digest.subscribers.csv_import import import_list
from digest.subscribers.csv_import.file_rows import CsvRows
from digest.subscribers.csv_import.import_list import ImportProblem
from tests.conftest import connected

HEADER = "email,name,cadence,at,timezone,state,topics,packs\n"


def load(session, site, now, content, consent="they asked us by mail"):
    rows = CsvRows(io.StringIO(content))
    return import_list.import_in_batches(session, site, rows, consent=consent, now=now)


def counts(imported):
    return imported.added, imported.updated, imported.unchanged, imported.rejected


def test_a_row_becomes_a_subscriber(session, site, now):
    topics = json.dumps({"Vision": "title:image*", "Robots": "robot*"}).replace('"', '""')
    row = f'Dora@Uni.edu,Dora Ito,weekly-fri,7:30,Europe/Oslo,active,"{topics}",\n'

    assert counts(load(session, site, now, HEADER + row)) == (1, 0, 0, 0)

    dora = subscriber_rows.get(session, "dora@uni.edu")
    schedule = subscriber_rows.schedule_of(dora)
    assert (dora.name, dora.state, dora.next_due_at) == ("Dora Ito", SubscriberState.ACTIVE, None)
    assert (schedule.cadence, schedule.weekday, f"{schedule.at:%H:%M}") == (Cadence.WEEKLY, 4, "07:30")
    assert [topic.name for topic in subscriber_topics.topics_of(session, dora)] == ["Vision", "Robots"]
    assert session.scalars(select(Consent.how)).one() == "they asked us by mail"


def test_a_file_needs_only_a_column_with_addresses(session, site, now):
    assert counts(load(session, site, now, "Email\ndora@uni.edu\n\nemil@uni.edu\n")) == (2, 0, 0, 0)


def test_without_consent_active_rows_come_in_pending(session, site, now):
    load(session, site, now, HEADER + "dora@uni.edu,,,,,active,,\n", consent=None)

    assert subscriber_rows.get(session, "dora@uni.edu").state == SubscriberState.PENDING


def test_a_second_import_changes_nothing(session, site, now):
    rows = "".join(
        f'reader{number}@uni.edu,Reader {number},daily,08:00,UTC,active,"{{""T"": ""word{number % 7}""}}",\n'
        for number in range(1203)
    )

    assert counts(load(session, site, now, HEADER + rows)) == (1203, 0, 0, 0)
    assert counts(load(session, site, now + timedelta(days=1), HEADER + rows)) == (0, 0, 1203, 0)
    assert session.scalar(select(func.count(Consent.id))) == 1203


def test_bad_rows_are_reported_with_their_line_and_do_not_stop_good_ones(session, site, now):
    suppressions.suppress(session, site, "charlie@uni.edu", SuppressionReason.COMPLAINT, "", now)
    content = (
        HEADER
        + 'dora@uni.edu,"Dora\nof two lines",,,,,,\n'
        + "not an address,,,,,,,\n"
        + "emil@uni.edu,,hourly,,,,,\n"
        + "emil@uni.edu,,,25:00,,,,\n"
        + "emil@uni.edu,,,,Olso,,,\n"
        + "emil@uni.edu,,,,,asleep,,\n"
        + 'emil@uni.edu,,,,,,"[1]",\n'
        + 'emil@uni.edu,,,,,,"{""T"": ""a AND (""}",\n'
        + "emil@uni.edu,,,,,,,nlp;vision\n"
        + "Charlie@uni.edu,,,,,,,\n"
        + "emil@uni.edu,one,,,,,,,,cells too many\n"
        + "frida@uni.edu,,,,,,,\n"
    )

    imported = load(session, site, now, content)

    assert (imported.added, imported.rejected) == (2, 10)
    assert [problem.line for problem in imported.problems] == [4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    reasons = [problem.reason for problem in imported.problems]
    fields = ["email", "cadence", "at", "timezone", "state", "topics", "topics", "packs", "email", "row"]
    assert [reason.partition(":")[0] for reason in reasons] == fields
    assert "Did you mean Europe/Oslo?" in reasons[3]


def test_an_address_twice_in_a_file_is_one_subscriber_and_the_last_row_wins(session, site, now):
    rows = "dora@uni.edu,Dora,,,,,,\nDORA@uni.edu,Dora Ito,,,,,,\n"

    assert counts(load(session, site, now, HEADER + rows)) == (1, 1, 0, 0)
    assert subscriber_rows.get(session, "dora@uni.edu").name == "Dora Ito"


def test_settings_that_a_file_does_not_give_stay(session, site, now):
    load(
        session, site, now, HEADER + 'dora@uni.edu,Dora,weekly,07:00,Europe/Oslo,active,"{""T"": ""x1""}",\n'
    )

    assert counts(load(session, site, now, "email,at\ndora@uni.edu,09:00\n")) == (0, 1, 0, 0)

    dora = subscriber_rows.get(session, "dora@uni.edu")
    assert (dora.name, dora.cadence, f"{dora.at:%H:%M}", dora.timezone) == (
        "Dora", "weekly", "09:00", "Europe/Oslo",
    )  # fmt: skip
    assert [topic.name for topic in subscriber_topics.topics_of(session, dora)] == ["T"]


@pytest.mark.parametrize(
    ("stands", "row", "then"),
    [
        ("pending", "active", "active"),
        ("active", "paused", "paused"),
        ("active", "unsubscribed", "unsubscribed"),
        ("active", "pending", "active"),
        ("paused", "active", "paused"),
        ("unsubscribed", "active", "unsubscribed"),
        ("unsubscribed", "pending", "unsubscribed"),
    ],
)
def test_an_import_reactivates_no_unsubscribed_or_paused_reader(session, site, now, stands, row, then):
    subscriber_rows.add(session, "dora@uni.edu", state=SubscriberState(stands), consent="yes", now=now)

    load(session, site, now, HEADER + f"dora@uni.edu,,,,,{row},,\n")
    session.expire_all()

    assert subscriber_rows.get(session, "dora@uni.edu").state == then


def test_an_unsubscribed_address_in_a_file_is_reported_as_a_problem(session, site, now):
    load(session, site, now, HEADER + "dora@uni.edu,,,,,unsubscribed,,\n")

    imported = load(session, site, now, HEADER + "dora@uni.edu,,,,,active,,\n")

    assert imported.problems == [
        ImportProblem(line=2, reason="state: dora@uni.edu has unsubscribed; only they can subscribe again.")
    ]


def test_a_cell_with_an_invalid_value_is_a_bad_row(session, site, now):
    content = HEADER + f"dora@uni.edu,{'x' * (csv.field_size_limit() + 1)},,,,,,\nemil@uni.edu,,,,,,,\n"

    imported = load(session, site, now, content)

    assert (imported.added, [problem.line for problem in imported.problems]) == (1, [2])


def test_a_file_without_addresses_is_refused_naming_the_columns(session, site, now):
    with pytest.raises(BadField, match="no column is called email"):
        load(session, site, now, "name,cadence\nDora,daily\n")


def test_a_row_without_a_state_is_pending_even_with_consent(session, site, now):
    load(session, site, now, "email,state\ndora@uni.edu,\nemil@uni.edu,active\n")

    states = session.execute(select(Subscriber.email, Subscriber.state).order_by(Subscriber.email)).all()
    assert states == [("dora@uni.edu", "pending"), ("emil@uni.edu", "active")]
    assert session.scalar(select(func.count(Consent.id))) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("email,nmae\na@uni.edu,A\n", "'nmae' is unknown. Did you mean name", id="misspelled"),
        pytest.param("email,shoe size\na@uni.edu,44\n", "'shoe size' is unknown. Known: email", id="unknown"),
        pytest.param("email,name, Email\na@uni.edu,A,b@uni.edu\n", "'email' appears 2 times", id="twice"),
        pytest.param("email|name\na@uni.edu|A\n", "'email|name'", id="another delimiter"),
        pytest.param('email,"name\na@uni.edu,A\n', "a quote in this row", id="quote in the header"),
    ],
)
def test_an_unknown_or_repeated_column_is_an_error_that_names_it(session, site, now, content, says):
    with pytest.raises(BadField, match=r"^line 1: ") as refused:
        load(session, site, now, content)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param("bob@uni.edu,Bob\ncat@uni.edu,Cat\n", id="to the end"),
        pytest.param('bob@uni.edu,Bob\ncat@uni.edu,"Cat"\n', id="to another quote"),
        pytest.param('bob@uni.edu,Bob\ncat@uni.edu,Cat"\n', id="to a quote that closes it"),
        pytest.param("bob@uni.edu,B\n" * 20_000, id="further than a cell may be long"),
        pytest.param("", id="in the last row"),
    ],
)
def test_an_unclosed_quote_is_an_error_that_names_its_line(session, site, now, rest):
    with pytest.raises(BadField, match=r"^line 3: a quote in this row"):
        load(session, site, now, 'email,name\neve@uni.edu,Eve\nann@uni.edu,"Ann\n' + rest)


def test_a_quote_that_ends_too_early_rejects_only_its_row(session, site, now):
    imported = load(session, site, now, 'email,name\nann@uni.edu,"Ann" Lee\nbob@uni.edu,Bob\n')

    assert (imported.added, [problem.line for problem in imported.problems]) == (1, [2])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_file_may_have_semicolons_or_tabs_between_its_cells(session, site, now, delimiter):
    rows = [("email", "name", "packs", ""), ("dora@uni.edu", "Ito; D., Dr", "", "")]
    content = io.StringIO()
    csv.writer(content, delimiter=delimiter).writerows(rows)

    assert counts(load(session, site, now, content.getvalue())) == (1, 0, 0, 0)
    assert subscriber_rows.get(session, "dora@uni.edu").name == "Ito; D., Dr"


# ── listmonk ────────────────────────────────────────────────────────────────────────────────────

#: As listmonk exports people: its columns, its spelling of moments, attributes as JSON.
LISTMONK = "uuid,email,name,attributes,status,created_at,updated_at\n"
MOMENTS = "2024-01-02 10:04:05.123456 +0000 UTC,2025-03-04 11:00:00 +0100 CET"


def of_listmonk(email, status, attributes='{""city"": ""Oslo"", ""mail"": ""x@y.example""}'):
    return f'b5a6ad9e-5a4e-4d3e-9cf6-7c6f7a8d2f11,{email},Dr. Invented,"{attributes}",{status},{MOMENTS}\n'


def states(session):
    return dict(session.execute(select(Subscriber.email, Subscriber.state)).all())


def test_a_listmonk_export_activates_nobody_and_suppresses_blocklisted_addresses(session, site, now):
    people = {"ena": "enabled", "dis": "disabled", "bo": "blocklisted", "una": "unsubscribed"}
    content = LISTMONK + "".join(of_listmonk(f"{name}@uni.edu", status) for name, status in people.items())

    rows = CsvRows(io.StringIO(content))
    done = import_list.import_in_batches(session, site, rows, consent="they agreed there", now=now)
    again = load(session, site, now, content)

    assert (counts(done), done.suppressed, done.invited) == ((3, 0, 0, 0), 1, 1)
    assert (counts(again), again.suppressed) == ((0, 0, 4, 0), 0)
    assert states(session) == {
        "ena@uni.edu": "pending", "dis@uni.edu": "unsubscribed", "una@uni.edu": "unsubscribed",
    }  # fmt: skip
    assert suppressions.is_suppressed(session, site, "Bo@uni.edu")
    assert [one.reason for one in suppressions.list_suppressions(session)] == [SuppressionReason.OPERATOR]
    assert rows.is_listmonk
    assert rows.ignored_columns == ("uuid", "attributes", "created_at", "updated_at")


def test_a_state_column_beside_listmonks_status_counts_for_enabled_rows(session, site, now):
    people = {"ena": "enabled", "dis": "disabled", "bo": "blocklisted"}
    content = "email,status,state\n" + "".join(
        f"{name}@uni.edu,{status},active\n" for name, status in people.items()
    )

    load(session, site, now, content)

    assert states(session) == {"ena@uni.edu": "active", "dis@uni.edu": "unsubscribed"}
    assert suppressions.is_suppressed(session, site, "bo@uni.edu")


def test_a_listmonk_export_reactivates_no_unsubscribed_or_suppressed_address(session, site, now):
    subscriber_rows.add(session, "lea@uni.edu", state=SubscriberState.UNSUBSCRIBED, now=now)
    suppressions.suppress(session, site, "bo@uni.edu", SuppressionReason.COMPLAINT, "", now)
    content = LISTMONK + of_listmonk("lea@uni.edu", "enabled") + of_listmonk("bo@uni.edu", "enabled")

    done = load(session, site, now, content)

    assert states(session) == {"lea@uni.edu": "unsubscribed"}
    assert (done.invited, [problem.line for problem in done.problems]) == (0, [3])


def test_a_reader_that_listmonk_blocklists_is_suppressed(session, site, now):
    subscriber_rows.add(session, "ann@uni.edu", state=SubscriberState.ACTIVE, consent="yes", now=now)

    assert load(session, site, now, LISTMONK + of_listmonk("Ann@uni.edu", "blocklisted")).suppressed == 1
    assert suppressions.is_suppressed(session, site, "ann@uni.edu")


def test_a_status_that_listmonk_does_not_know_is_a_bad_row(session, site, now):
    done = load(session, site, now, LISTMONK + of_listmonk("ann@uni.edu", "asleep"))

    assert "status 'asleep' is not one of enabled, disabled" in done.problems[0].reason


def test_a_byte_order_mark_is_no_part_of_the_first_column(session, site, now):
    assert counts(load(session, site, now, "\ufeffemail\ndora@uni.edu\n")) == (1, 0, 0, 0)


def test_a_formula_escaped_on_export_is_restored_on_import(session, site, now):
    load(session, site, now, "email,name\ndora@uni.edu,'=cmd\n")

    assert subscriber_rows.get(session, "dora@uni.edu").name == "=cmd"


def test_rows_without_a_file_are_numbered_with_the_header_as_line_one(session, site, now):
    rows = [{"email": "dora@uni.edu"}, {"email": "nobody"}]

    imported = import_list.import_in_batches(session, site, rows, consent="yes", now=now)

    assert [problem.line for problem in imported.problems] == [3]
    assert session.scalar(select(func.count(Subscriber.id))) == 1


# ── long lists ──────────────────────────────────────────────────────────────────────────────────


def cells(*values):
    """A cell of a row, or none at all."""
    return st.sampled_from([None, *values])


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "email": st.sampled_from(
                ["dora@uni.edu", "Dora@Uni.edu", "emil@uni.edu", "charlie@uni.edu", "nobody"]
            ),
            "state": cells(*SubscriberState, "asleep"),
            "name": cells("Dora", "Ito"),
            "at": cells("07:00", "09:00"),
            "topics": cells('{"T": "robot*"}', '{"T": "image*", "U": "robot*"}', "{}"),
        }
    ),
    max_size=12,
)


@given(rows=ROWS, consent=cells("they asked us by mail"))
def test_importing_a_list_equals_importing_its_rows_one_by_one(session, site, now, rows, consent):
    def imported(*files):
        suppressions.suppress(session, site, "charlie@uni.edu", SuppressionReason.COMPLAINT, "", now)
        done = [
            import_list.import_in_batches(session, site, file, consent=consent, now=now) for file in files
        ]
        reasons = [problem.reason for one in done for problem in one.problems]
        invited = sum(one.invited for one in done)
        totals = [sum(column) for column in zip(*map(counts, done), strict=True)]
        outcome = totals, reasons, invited, people(session)
        for table in reversed(Subscriber.metadata.sorted_tables):
            session.execute(delete(table))
        return outcome

    assert imported(rows, []) == imported(*[[row] for row in rows], [])


def people(session):
    """Return all subscribers with every column that an import writes."""
    topics = (
        select(Subscriber.email, Subscription.name, FilterRow.canonical)
        .select_from(Subscription).join(Subscriber).join(FilterRow).order_by(Subscriber.email_key, Subscription.position)
    )  # fmt: skip
    return [
        session.execute(wanted).all()
        for wanted in (
            select(
                Subscriber.email,
                Subscriber.name,
                Subscriber.state,
                Subscriber.at,
                Subscriber.confirmed_at,
                Subscriber.unsubscribed_at,
            ).order_by(Subscriber.email_key),
            topics,
            select(Subscriber.email, Consent.how).join(Consent).order_by(Subscriber.email_key, Consent.id),
            select(Subscriber.email, Confirmation.requested_settings)
            .join(Confirmation)
            .order_by(Subscriber.email_key),
            select(Delivery.email, Delivery.letter).order_by(Delivery.email),
        )
    ]


@pytest.fixture
def statements(engine):
    """Every SQL statement that is sent."""
    sent = []

    def note(connection, cursor, statement, parameters, context, executemany):
        sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)


def readers(count, *, name="Reader", state="active", topic="word"):
    return [
        {
            "email": f"reader{number}@uni.edu",
            "name": f"{name} {number}",
            "state": state,
            "topics": json.dumps({"T": f"{topic}{number}"}),
        }
        for number in range(count)
    ]


LISTS = {
    "new": readers,
    "known": lambda count: readers(count // 2) + readers(count // 2),
    "changed": lambda count: readers(count // 2) + readers(count // 2, name="Dr.", topic="term"),
    "pending": lambda count: readers(count, state="pending"),
    "suppressed": lambda count: readers(count, state="suppressed"),
    "leaving": lambda count: readers(count // 2, state="pending") + readers(count // 2, state="unsubscribed"),
    "twice": lambda count: sorted(readers(count // 2) * 2, key=lambda row: row["email"]),
}


@pytest.mark.parametrize("kind", LISTS)
def test_the_number_of_statements_grows_no_faster_than_the_list(session, site, now, statements, kind):
    took = []
    for count in (1_000, 4_000):
        statements.clear()
        rows = LISTS[kind](count)
        import_list.import_in_batches(session, site, rows, consent="yes", is_dry_run=True, now=now)
        took.append(len(statements))

    assert took[0] < 40
    assert took[1] <= 4 * took[0]


@contextmanager
def meanwhile(engine, beginning, change):
    """Run a concurrent change right before the first statement with this beginning."""
    waiting = [change]
    url = engine.url.render_as_string(hide_password=False)

    def interfere(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith(beginning) and waiting:
            with connected(url) as elsewhere, db.write_session(elsewhere) as other:
                waiting.pop()(other)
                other.commit()

    event.listen(engine, "before_cursor_execute", interfere)
    yield
    event.remove(engine, "before_cursor_execute", interfere)


def test_a_subscriber_added_during_an_import_is_updated_by_it(postgres_engine, site, now):
    def come(other):
        subscriber_rows.add(other, "dora@uni.edu", name="D.", topics={"Owls": "owl"}, now=now)

    with db.write_session(postgres_engine) as session:
        with meanwhile(postgres_engine, "INSERT INTO subscriber", come):
            imported = load(
                session, site, now, "email,name,state\ndora@uni.edu,Dora,active\nemil@uni.edu,Emil,\n"
            )

        assert counts(imported) == (1, 1, 0, 0)
        dora = subscriber_rows.get(session, "dora@uni.edu")
        assert (dora.name, dora.state) == ("Dora", SubscriberState.ACTIVE)
        assert [topic.name for topic in subscriber_topics.topics_of(session, dora)] == ["Owls"]


def test_a_reader_who_unsubscribes_during_an_import_stays_unsubscribed(postgres_engine, site, now):
    gone = {"state": SubscriberState.UNSUBSCRIBED, "unsubscribed_at": now}
    with db.write_session(postgres_engine) as session:
        subscriber_rows.add(session, "dora@uni.edu", state=SubscriberState.ACTIVE, consent="yes", now=now)
        session.commit()

        with meanwhile(
            postgres_engine,
            "UPDATE subscriber",
            lambda other: other.execute(update(Subscriber).values(gone)),
        ):
            load(session, site, now, "email,name\ndora@uni.edu,Dora\n")
        session.expire_all()

        dora = subscriber_rows.get(session, "dora@uni.edu")
        assert (dora.name, dora.state, dora.unsubscribed_at) == ("Dora", SubscriberState.UNSUBSCRIBED, now)


def test_invisible_characters_in_a_filter_are_removed(session, site, now):
    topics = json.dumps({"T": "owl\0 OR\x1fkite\ud800\nOR\train"})

    imported = import_list.import_in_batches(
        session, site, [{"email": "dora@uni.edu", "topics": topics}], consent="yes", now=now
    )

    assert imported.problems == []
    assert session.scalars(select(Subscription.typed)).one() == "owl  OR kite \nOR\train"
