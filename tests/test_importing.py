"""Subscribers from CSV files: good rows go on, bad ones are told, and a second import changes nothing."""

import csv
import io
import json
from contextlib import contextmanager
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, func, select, update

from digest import bounces, db, subscriptions
from digest.bounces import Reason
from digest.editions import Cadence
from digest.errors import BadField
from digest.model import Confirmation, Consent, Delivery, FilterRow, Subscriber, SubscriberState, Subscription
from digest.subscriptions import Problem
from tests.conftest import connected

HEADER = "email,name,cadence,at,timezone,state,topics,packs\n"


def load(session, site, now, content, consent="they asked us by mail"):
    rows = subscriptions.rows_in(io.StringIO(content))
    return subscriptions.import_rows(session, site, rows, consent=consent, now=now)


def counts(imported):
    return imported.added, imported.updated, imported.unchanged, imported.rejected


def test_a_row_becomes_a_subscriber(session, site, now):
    topics = json.dumps({"Vision": "title:image*", "Robots": "robot*"}).replace('"', '""')
    row = f'Dora@Uni.edu,Dora Ito,weekly-fri,7:30,Europe/Oslo,active,"{topics}",\n'

    assert counts(load(session, site, now, HEADER + row)) == (1, 0, 0, 0)

    dora = subscriptions.get(session, "dora@uni.edu")
    schedule = subscriptions.schedule_of(dora)
    assert (dora.name, dora.state, dora.next_due_at) == ("Dora Ito", SubscriberState.ACTIVE, None)
    assert (schedule.cadence, schedule.weekday, f"{schedule.at:%H:%M}") == (Cadence.WEEKLY, 4, "07:30")
    assert [topic.name for topic in subscriptions.topics_of(session, dora)] == ["Vision", "Robots"]
    assert session.scalars(select(Consent.how)).one() == "they asked us by mail"


def test_only_the_address_is_needed(session, site, now):
    assert counts(load(session, site, now, "Email\ndora@uni.edu\n\nemil@uni.edu\n")) == (2, 0, 0, 0)


def test_without_consent_active_rows_come_in_pending(session, site, now):
    load(session, site, now, HEADER + "dora@uni.edu,,,,,active,,\n", consent=None)

    assert subscriptions.get(session, "dora@uni.edu").state == SubscriberState.PENDING


def test_a_second_import_changes_nothing(session, site, now):
    rows = "".join(
        f'reader{number}@uni.edu,Reader {number},daily,08:00,UTC,active,"{{""T"": ""word{number % 7}""}}",\n'
        for number in range(1203)
    )

    assert counts(load(session, site, now, HEADER + rows)) == (1203, 0, 0, 0)
    assert counts(load(session, site, now + timedelta(days=1), HEADER + rows)) == (0, 0, 1203, 0)
    assert session.scalar(select(func.count(Consent.id))) == 1203


def test_bad_rows_are_told_with_their_line_and_do_not_stop_good_ones(session, site, now):
    bounces.suppress(session, site, "charlie@uni.edu", Reason.COMPLAINT, "", now)
    content = (
        HEADER
        + 'dora@uni.edu,"Dora\nof two lines",,,,,,\n'
        + "not an address,,,,,,,\n"
        + "emil@uni.edu,,hourly,,,,,\n"
        + "emil@uni.edu,,,25:00,,,,\n"
        + "emil@uni.edu,,,,Oslo,,,\n"
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
    told = [problem.reason for problem in imported.problems]
    fields = ["email", "cadence", "at", "timezone", "state", "topics", "topics", "packs", "email", "row"]
    assert [reason.partition(":")[0] for reason in told] == fields
    assert "Did you mean Europe/Oslo?" in told[3]


def test_an_address_twice_in_a_file_is_one_subscriber_and_the_last_row_stands(session, site, now):
    rows = "dora@uni.edu,Dora,,,,,,\nDORA@uni.edu,Dora Ito,,,,,,\n"

    assert counts(load(session, site, now, HEADER + rows)) == (1, 1, 0, 0)
    assert subscriptions.get(session, "dora@uni.edu").name == "Dora Ito"


def test_what_a_file_does_not_say_stays(session, site, now):
    load(
        session, site, now, HEADER + 'dora@uni.edu,Dora,weekly,07:00,Europe/Oslo,active,"{""T"": ""x1""}",\n'
    )

    assert counts(load(session, site, now, "email,at\ndora@uni.edu,09:00\n")) == (0, 1, 0, 0)

    dora = subscriptions.get(session, "dora@uni.edu")
    assert (dora.name, dora.cadence, f"{dora.at:%H:%M}", dora.timezone) == (
        "Dora", "weekly", "09:00", "Europe/Oslo",
    )  # fmt: skip
    assert [topic.name for topic in subscriptions.topics_of(session, dora)] == ["T"]


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
def test_a_file_never_brings_back_who_has_left_or_wakes_who_sleeps(session, site, now, stands, row, then):
    subscriptions.add(session, "dora@uni.edu", state=SubscriberState(stands), consent="yes", now=now)

    load(session, site, now, HEADER + f"dora@uni.edu,,,,,{row},,\n")
    session.expire_all()

    assert subscriptions.get(session, "dora@uni.edu").state == then


def test_who_has_left_is_told_as_a_problem(session, site, now):
    load(session, site, now, HEADER + "dora@uni.edu,,,,,unsubscribed,,\n")

    imported = load(session, site, now, HEADER + "dora@uni.edu,,,,,active,,\n")

    assert imported.problems == [
        Problem(line=2, reason="state: dora@uni.edu has left; only they can come back.")
    ]


def test_a_cell_no_reader_can_take_is_a_bad_row(session, site, now):
    content = HEADER + f"dora@uni.edu,{'x' * (csv.field_size_limit() + 1)},,,,,,\nemil@uni.edu,,,,,,,\n"

    imported = load(session, site, now, content)

    assert (imported.added, [problem.line for problem in imported.problems]) == (1, [2])


def test_a_file_without_addresses_is_refused_naming_the_columns(session, site, now):
    with pytest.raises(BadField, match="no column is called email"):
        load(session, site, now, "name,cadence\nDora,daily\n")


def test_a_byte_order_mark_is_no_part_of_the_first_column(session, site, now):
    assert counts(load(session, site, now, "\ufeffemail\ndora@uni.edu\n")) == (1, 0, 0, 0)


def test_a_formula_that_was_defused_on_export_is_read_back(session, site, now):
    load(session, site, now, "email,name\ndora@uni.edu,'=cmd\n")

    assert subscriptions.get(session, "dora@uni.edu").name == "=cmd"


def test_rows_from_anywhere_are_counted_with_the_header_as_line_one(session, site, now):
    rows = [{"email": "dora@uni.edu"}, {"email": "nobody"}]

    imported = subscriptions.import_rows(session, site, rows, consent="yes", now=now)

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


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, consent=cells("they asked us by mail"))
def test_a_list_comes_to_the_same_as_its_rows_one_by_one(session, site, now, rows, consent):
    def imported(*files):
        with session.begin_nested() as tried:
            bounces.suppress(session, site, "charlie@uni.edu", Reason.COMPLAINT, "", now)
            done = [
                subscriptions.import_rows(session, site, file, consent=consent, now=now) for file in files
            ]
            told = [problem.reason for one in done for problem in one.problems]
            invited = sum(one.invited for one in done)
            outcome = (
                [sum(column) for column in zip(*map(counts, done), strict=True)],
                told,
                invited,
                people(session),
            )
            tried.rollback()
        return outcome

    assert imported(rows, []) == imported(*[[row] for row in rows], [])


def people(session):
    """Everybody with all that an import writes about them."""
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
                Subscriber.left_at,
            ).order_by(Subscriber.email_key),
            topics,
            select(Subscriber.email, Consent.how).join(Consent).order_by(Subscriber.email_key, Consent.id),
            select(Subscriber.email, Confirmation.wishes).join(Confirmation).order_by(Subscriber.email_key),
            select(Delivery.email, Delivery.letter).order_by(Delivery.email),
        )
    ]


@pytest.fixture
def statements(engine):
    """Every statement that is sent."""
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
    "leaving": lambda count: readers(count // 2, state="pending") + readers(count // 2, state="unsubscribed"),
    "twice": lambda count: sorted(readers(count // 2) * 2, key=lambda row: row["email"]),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_four_times_as_long_takes_no_more_than_four_times_the_statements(
    session, site, now, statements, kind
):
    took = []
    for count in (1_000, 4_000):
        statements.clear()
        with session.begin_nested() as tried:
            subscriptions.import_rows(session, site, LISTS[kind](count), consent="yes", now=now)
            took.append(len(statements))
            tried.rollback()

    assert took[0] < 40
    assert took[1] <= 4 * took[0]


@contextmanager
def meanwhile(engine, beginning, change):
    """Somebody else does something right before the first statement that begins so."""
    waiting = [change]
    url = engine.url.render_as_string(hide_password=False)

    def interfere(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith(beginning) and waiting:
            with connected(url) as elsewhere, db.writing(elsewhere) as other:
                waiting.pop()(other)
                other.commit()

    event.listen(engine, "before_cursor_execute", interfere)
    yield
    event.remove(engine, "before_cursor_execute", interfere)


def test_who_subscribes_while_a_list_is_imported_is_brought_to_what_it_says(postgres_engine, site, now):
    def come(other):
        subscriptions.add(other, "dora@uni.edu", name="D.", topics={"Owls": "owl"}, now=now)

    with db.writing(postgres_engine) as session:
        with meanwhile(postgres_engine, "INSERT INTO subscriber", come):
            imported = load(session, site, now, "email,name\ndora@uni.edu,Dora\nemil@uni.edu,Emil\n")

        assert counts(imported) == (1, 1, 0, 0)
        dora = subscriptions.get(session, "dora@uni.edu")
        assert (dora.name, dora.state) == ("Dora", SubscriberState.ACTIVE)
        assert [topic.name for topic in subscriptions.topics_of(session, dora)] == ["Owls"]


def test_who_leaves_while_a_list_renames_them_has_left(postgres_engine, site, now):
    gone = {"state": SubscriberState.UNSUBSCRIBED, "left_at": now}
    with db.writing(postgres_engine) as session:
        subscriptions.add(session, "dora@uni.edu", state=SubscriberState.ACTIVE, consent="yes", now=now)
        session.commit()

        with meanwhile(
            postgres_engine, "UPDATE subscriber", lambda other: other.execute(update(Subscriber).values(gone))
        ):
            load(session, site, now, "email,name\ndora@uni.edu,Dora\n")
        session.expire_all()

        dora = subscriptions.get(session, "dora@uni.edu")
        assert (dora.name, dora.state, dora.left_at) == ("Dora", SubscriberState.UNSUBSCRIBED, now)


def test_with_new_topics_full_digests_are_counted_anew(session, site, now):
    load(session, site, now, HEADER + 'dora@uni.edu,,,,,active,"{""T"": ""x1""}",\n')
    session.execute(update(Subscriber).values(full_in_a_row="3"))

    load(session, site, now, HEADER + 'dora@uni.edu,Dora,,,,active,"{""T"": ""x1""}",\n')
    kept = session.scalar(select(Subscriber.full_in_a_row))
    load(session, site, now, HEADER + 'dora@uni.edu,Dora,,,,active,"{""T"": ""x2""}",\n')

    assert (kept, session.scalar(select(Subscriber.full_in_a_row))) == ("3", None)


def test_a_filter_with_characters_that_nobody_sees_is_kept_without_them(session, site, now):
    topics = json.dumps({"T": "owl\0 OR\x1fkite\ud800\nOR\train"})

    imported = subscriptions.import_rows(
        session, site, [{"email": "dora@uni.edu", "topics": topics}], consent="yes", now=now
    )

    assert imported.problems == []
    assert session.scalars(select(Subscription.typed)).one() == "owl  OR kite \nOR\train"
