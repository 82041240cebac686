"""The database as everything above sees it: engines, transactions, column types, migrations."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from itertools import repeat
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, cast

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Engine,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Update,
    bindparam,
    create_engine,
    event,
    func,
    literal,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import DateTime, NullType, TypeDecorator, TypeEngine

from digest.errors import Misfit, Unreachable

#: An integer key: 64 bits on PostgreSQL, the rowid on SQLite.
BigKey = BigInteger().with_variant(Integer, "sqlite")


logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of what it raises as well

NOTHING: Mapping[str, Any] = MappingProxyType({})

#: A server that is gone without a word, as after a power cut, is given up within a minute: a system's own
#: settings let us wait for hours, with letters out whose fate nobody has written down.
SILENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
IDLE = 1.0  #: seconds after which a connection is asked whether it is still alive


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: stored in UTC, refused when naive, aware when read back, on SQLite too."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a naive datetime; the database gets UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a stored moment needs an offset, and {value!r} has none")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give back an aware datetime in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """Return what reads a value: of SQLite's texts the usual ones are read once."""
        if dialect.name == "sqlite":
            return moment
        return super().result_processor(dialect, coltype)


@lru_cache(maxsize=8192)
def moment(text: str | None) -> datetime | None:
    """Return the moment that SQLite keeps as this text: a morning's readers share most of theirs."""
    return None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC)


class Base(DeclarativeBase):
    """What every mapped row stands on; constraint names are fixed, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def connect(url: str) -> Engine:
    """Return an engine for `url` (SQLite or PostgreSQL); nothing is opened yet.

    SQLite runs in WAL with `synchronous=FULL`, since with NORMAL a power cut can take back a
    committed acknowledgement and so cause a second mail (sqlite.org/pragma.html#pragma_synchronous).
    """
    parsed = make_url(normalised(url))
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, connect_args={"timeout": 30, "check_same_thread": False})
        event.listen(engine, "connect", set_up_sqlite)
        event.listen(engine, "begin", begin_sqlite)
        return engine
    engine = create_engine(parsed, connect_args={"application_name": "digest", **SILENCE})
    event.listen(engine, "checkin", note_last_use)
    event.listen(engine, "checkout", asking_if_idle(engine.dialect))
    return engine


def note_last_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    """Note when a connection was given back to the pool."""
    record.info["used_at"] = monotonic()


def asking_if_idle(dialect: Dialect) -> Callable[[Any, ConnectionPoolEntry, Any], None]:
    """Return what asks a connection that lay idle whether it is alive; the pool replaces one that is not.

    One that was in use just now is not asked: each window of letters takes two transactions, and the
    questions made a fifth of its round trips.
    """

    def ask(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if monotonic() - record.info.get("used_at", monotonic()) < IDLE:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    return ask


def normalised(url: str) -> str:
    """Return `url` with the driver we ship: hosts hand out `postgres://` and `postgresql://`."""
    for prefix in ("postgres://", "postgresql://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def set_up_sqlite(connection: Any, _record: Any) -> None:
    """Prepare a fresh SQLite connection; transactions are begun by `begin_sqlite`, not by the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000", "secure_delete=ON",
        "cache_size=-16384",  # KiB: with the usual 2,000 a large dump writes each page of an index several times
    ):  # fmt: skip
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def begin_sqlite(connection: Any) -> None:
    """Begin: a writer takes the lock at once, or two readers that turn writers would deadlock."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Open a session that only reads; whatever it changed is rolled back."""
    with answering(engine), Session(engine, autoflush=False) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """Open a session for a story, which commits; what is left uncommitted is rolled back.

    On SQLite every transaction of it begins with the write lock.
    """
    bound = engine.execution_options(writing=True)
    with answering(engine), Session(bound, expire_on_commit=False) as session:
        yield session


def upsert(session: Session, table: type[Base]) -> sqlite.Insert:
    """Return an INSERT that knows ON CONFLICT, in the dialect of the session's database.

    Both dialects spell the clause alike, so the one type stands for the two.
    """
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    return cast("sqlite.Insert", insert(table))


def put_many(
    session: Session,
    mapped: type[Base],
    rows: Sequence[Mapping[str, Any]],
    *,
    same: Mapping[str, Any] = NOTHING,
    key: Sequence[str] = (),
    returning: Sequence[str] = (),
) -> Sequence[Row[Any]]:
    """Insert hundreds of rows whose `key` is not taken, and return these columns of the new ones.

    Without a key, none can be taken. Every row names the same columns, `same` those in which they are alike;
    the first of `returning` is the one that numbers the table. On PostgreSQL parameters of their own for every
    row take 115 µs of our time a row, arrays as text 10. On SQLite the driver's own loop is fastest, and the
    new rows are those above the highest number before: nobody else is writing.
    """
    if not rows:
        return []
    connection, table = session.connection(), cast(Table, mapped.__table__)
    wanted = [table.c[name] for name in returning]
    if connection.dialect.name == "postgresql":
        return insert_arrays(connection, table, rows, same, key=key, returning=returning)
    last = connection.execute(select(func.max(wanted[0]))).scalar() if wanted else None
    names = [*rows[0], *same]
    places = ", ".join("?" * len(names))
    adding = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({places})"  # noqa: S608 - our own names
    unless = f" ON CONFLICT ({', '.join(key)}) DO NOTHING" if key else ""
    connection.exec_driver_sql(adding + unless, tuples(connection.dialect, table, rows[0], rows, same))
    return connection.execute(select(*wanted).where(wanted[0] > (last or 0))).all() if wanted else []


def numbers(session: Session, mapped: type[Base], many: int) -> Sequence[int]:
    """Return keys for so many new rows of a table that uses none again.

    On PostgreSQL nobody else gets them; on SQLite they are the next ones, and nobody else is writing.
    """
    connection, table = session.connection(), cast(Table, mapped.__table__)
    if connection.dialect.name == "postgresql":
        return connection.execute(NUMBERS, {"table": table.name, "many": many}).scalars().all()
    last = connection.execute(LAST_NUMBER, {"table": table.name}).scalar() or 0
    return range(last + 1, last + 1 + many)


NUMBERS = text(
    "SELECT nextval(counter) FROM generate_series(1, :many),"
    " (SELECT CAST(pg_get_serial_sequence(:table, 'id') AS regclass) AS counter OFFSET 0) AS asked_once"
)
LAST_NUMBER = text("SELECT seq FROM sqlite_sequence WHERE name = :table")


@contextmanager
def ahead(session: Session) -> Iterator[None]:
    """Let PostgreSQL work on what is written in this block while we go on; the end of the block waits for it.

    Nothing in it may ask for an answer, a number of rows included. What fails is raised by a later
    statement or at the end. SQLite does each thing when it is told.
    """
    connection = session.connection()
    dialect = connection.dialect
    if dialect.name != "postgresql":
        yield
        return
    try:
        with cast(Any, connection.connection.driver_connection).pipeline():
            yield
    except dialect.loaded_dbapi.Error as error:
        is_gone = dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
        if is_gone:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=is_gone, dialect=dialect
        ) from error


def change_many(session: Session, mapped: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write to hundreds of rows, each by its `id` and with values of its own, in one go.

    Every row names the same columns. On PostgreSQL the values travel as arrays, as in `put_many`.
    """
    if not rows:
        return
    connection, table = session.connection(), cast(Table, mapped.__table__)
    if connection.dialect.name == "postgresql":
        update_arrays(connection, table, rows)
        return
    names = [*(name for name in rows[0] if name != "id"), "id"]
    changing = ", ".join(f"{name} = ?" for name in names[:-1])
    statement = f"UPDATE {table.name} SET {changing} WHERE id = ?"  # noqa: S608 - our own names
    connection.exec_driver_sql(statement, tuples(connection.dialect, table, names, rows))


def tuples(
    dialect: Dialect,
    table: Table,
    names: Iterable[str],
    rows: Sequence[Mapping[str, Any]],
    same: Mapping[str, Any] = NOTHING,
) -> list[tuple[Any, ...]]:
    """Return the rows as SQLite's driver takes them: these columns of each, and then what all share."""
    own = [stored(dialect, table.c[name], [row[name] for row in rows]) for name in names]
    shared = [repeat(stored(dialect, table.c[name], [value])[0]) for name, value in same.items()]
    return list(zip(*own, *shared, strict=False))


def stored(dialect: Dialect, column: Column[Any], values: Sequence[Any]) -> Sequence[Any]:
    """Return the column's values as the database takes them; of equal moments one is looked at for all."""
    process = column.type.dialect_impl(dialect).bind_processor(dialect)
    if process is None:
        return values
    known = {value: process(value) for value in dict.fromkeys(values)}
    return [known[value] for value in values]


class Many(TypeDecorator[Collection[Any]]):
    """Any number of values as one parameter: an array, or JSON on SQLite.

    They travel to PostgreSQL as they are written there, "{1,2}": the driver takes a microsecond for every
    value of a list. They have no type on the way, so that the planner sees an array: what is made of a
    text it compares value by value with every row.
    """

    impl = String
    cache_ok = True

    def __init__(self, of: TypeEngine[Any]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return what carries the values."""
        return NullType() if dialect.name == "postgresql" else dialect.type_descriptor(String())

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> Any:
        """Return the values as they travel."""
        values = value or ()
        if dialect.name != "postgresql":
            return json.dumps(list(values))
        written = map(str, values) if self.are_numbers else map(quoted, values)
        return f"{{{','.join(written)}}}"

    @property
    def are_numbers(self) -> bool:
        """Return whether the values are whole numbers; else they are texts."""
        return isinstance(self.of, Integer)


def quoted(text: str) -> str:
    """Return a text as PostgreSQL writes it in an array."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Among(ColumnElement[bool]):
    """The condition that a column is one of many values."""

    inherit_cache = True
    type = Boolean()
    _traverse_internals = [  # noqa: RUF012 - as SQLAlchemy reads it, to know equal conditions
        ("column", InternalTraversal.dp_clauseelement),
        ("values", InternalTraversal.dp_clauseelement),
        ("are_rows", InternalTraversal.dp_boolean),
    ]

    def __init__(self, column: ColumnElement[Any], values: BindParameter[Any], *, are_rows: bool) -> None:
        self.column = column
        self.values = values
        self.are_rows = are_rows

    def self_group(self, against: Any = None) -> Among:
        """Stand as it is: SQLAlchemy would ask SQLite whether the condition is 1, and no index answers that."""
        return self


@compiles(Among, "postgresql")
def among_array(element: Among, compiler: SQLCompiler, **details: Any) -> str:
    """Compare with an array, or look its values up as rows."""
    column, values = (compiler.process(part, **details) for part in (element.column, element.values))
    kind = "BIGINT" if cast(Many, element.values.type).are_numbers else "TEXT"
    array = f"CAST({values} AS {kind}[])"
    return f"{column} IN (SELECT unnest({array}))" if element.are_rows else f"{column} = ANY ({array})"


@compiles(Among)
def among_json(element: Among, compiler: SQLCompiler, **details: Any) -> str:
    """Compare with the values of a JSON list."""
    values = compiler.process(element.values, **details)
    return f"{compiler.process(element.column, **details)} IN (SELECT value FROM json_each({values}))"  # noqa: S608


def among(
    column: ColumnElement[Any], values: Collection[int] | Collection[str] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the condition that `column` is one of `values`, sent as one parameter.

    An IN of a thousand parameters is written out, parsed and planned anew each time. With `many` for the
    values a statement is put together once, which takes as long as sending it. Texts are looked up one by one.
    """
    given = values if isinstance(values, BindParameter) else literal(values, Many(column.type))
    return Among(column, given, are_rows=not cast(Many, given.type).are_numbers)


def one_by_one(
    column: ColumnElement[Any], values: Collection[int] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the same condition for a table of some thousand rows.

    Of a statement that it has seen often PostgreSQL believes that an array holds ten values: it would read
    such a table whole, and compare each row with hundreds of values.
    """
    given = values if isinstance(values, BindParameter) else literal(values, Many(column.type))
    return Among(column, given, are_rows=True)


def many(name: str, column: ColumnElement[Any]) -> BindParameter[Any]:
    """Return the parameter of that name for any number of a column's values."""
    return bindparam(name, type_=Many(column.type))


class Unindexed(ColumnElement[Any]):
    """A column that SQLite compares without looking for an index on it."""

    inherit_cache = True
    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012 - as in `Among`

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column
        self.type = column.type


@compiles(Unindexed, "sqlite")
def unindexed_sqlite(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Say it as SQLite's manual does (sqlite.org/optoverview.html, "Disqualifying WHERE-Clause Terms")."""
    return f"+{compiler.process(element.column, **details)}"


@compiles(Unindexed)
def unindexed(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Compare as ever: who keeps statistics plans for himself."""
    return compiler.process(element.column, **details)


def commit_unhurried(session: Session) -> None:
    """Let this transaction's commit on PostgreSQL not wait for the disk.

    For work that is done again if it is lost. A later commit that does wait, such as the intent to send,
    takes everything before it to the disk too, so nothing is ever built on what may be lost.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql("SET LOCAL synchronous_commit = off")


@contextmanager
def in_order(session: Session) -> Iterator[None]:
    """Let what is asked in this block be read in the order that it asks for, by an index, until there is enough.

    Without figures PostgreSQL takes it that few rows answer: it would find all of them, however many, and sort
    them for the few that are wanted.
    """
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    session.connection().exec_driver_sql("SET LOCAL enable_sort = off")
    yield
    session.connection().exec_driver_sql("SET LOCAL enable_sort = on")


def insert_arrays(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    same: Mapping[str, Any] = NOTHING,
    *,
    key: Sequence[str],
    returning: Sequence[str],
) -> Sequence[Row[Any]]:
    """Insert the rows whose `key` is not taken, each column as one array; what all share is sent once."""
    many, alike = parted(rows, next(iter(rows[0])))
    alike |= same
    statement = inserting(table, tuple(many), tuple(alike), tuple(key), tuple(returning))
    done = connection.execute(statement, sent(connection.dialect, table, many, alike))
    return done.all() if returning else []


def update_arrays(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write to the rows that these name by their `id`, in the same way."""
    differing, alike = parted(rows, "id")
    given = sent(connection.dialect, table, differing, alike)
    connection.execute(updating(table, tuple(differing), tuple(alike)), {**given, "ids": differing["id"]})


def parted(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return the key and the columns in which rows differ, each with its values, and what rows share."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    many = {
        name: values
        for name, values in columns.items()
        if name == key or values.count(values[0]) < len(values)
    }
    return many, {name: values[0] for name, values in columns.items() if name not in many}


def sent(
    dialect: Dialect, table: Table, many: Mapping[str, Sequence[Any]], alike: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of a statement for those columns."""
    lists = {name: spelled(stored(dialect, table.c[name], values)) for name, values in many.items()}
    return {f"new_{name}": value for name, value in {**alike, **lists}.items()}


def spelled(values: Sequence[Any]) -> str:
    """Return a column's values as one text: the driver takes a microsecond for every value of a list."""
    text = UNIT.join([NONE if value is None else str(value) for value in values])
    if not text or text.count(UNIT) != len(values) - 1:
        raise ValueError(f"a value that cannot be told from its neighbours: {text[:200]!r}")
    return text


UNIT, NONE = "\x1f", "\x1e"  #: what stands between two values, and for one that is missing


@lru_cache(maxsize=64)
def inserting(
    table: Table,
    many: tuple[str, ...],
    alike: tuple[str, ...],
    key: tuple[str, ...],
    returning: tuple[str, ...],
) -> Any:
    """Return the statement of `insert_arrays`, put together once: that takes as long as sending it."""
    new = arrays(table, many, alike)
    adding = postgresql.insert(table).from_select(list(new), select(*new.values()), include_defaults=False)
    if key:
        adding = adding.on_conflict_do_nothing(index_elements=key)
    return adding.returning(*(table.c[name] for name in returning)) if returning else adding


@lru_cache(maxsize=64)
def updating(table: Table, differing: tuple[str, ...], alike: tuple[str, ...]) -> Update:
    """Return the statement of `update_arrays`."""
    new = arrays(table, differing, alike)
    by_id = among(table.c.id, many("ids", table.c.id))  # or a planner without figures reads all
    return update(table).where(table.c.id == new.pop("id"), by_id).values(new)


def arrays(table: Table, many: Iterable[str], alike: Iterable[str]) -> dict[str, ColumnElement[Any]]:
    """Return each column's values, by name: those in which rows differ as columns of arrays laid side by side."""
    laid = func.unnest(*(array(table.c[name]) for name in many)).table_valued(*many, name="new")
    new = laid.render_derived(name="new")
    shared = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in alike}
    return {**shared, **{name: new.c[name] for name in many}}


def array(column: Column[Any]) -> ColumnElement[Any]:
    """Return the values of a column that `spelled` has put into one text."""
    texts = func.string_to_array(
        bindparam(f"new_{column.name}", type_=String()), literal(UNIT, String()), literal(NONE, String())
    )
    return texts if isinstance(column.type, String) else sql_cast(texts, postgresql.ARRAY(column.type))


@contextmanager
def answering(engine: Engine) -> Iterator[None]:
    """Turn a database that does not answer into one clear sentence."""
    try:
        yield
    except OperationalError as error:
        if not (error.connection_invalidated or is_refusal(error)):
            raise
        where = engine.url.render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0]
        raise Unreachable(
            f"The database {where} does not answer ({reason}). Start it, or set DIGEST_DATABASE_URL."
        ) from error


def is_refusal(error: DBAPIError) -> bool:
    """Return whether `error` is about reaching the database, not about what was asked of it."""
    said = str(error.orig).lower()
    return any(
        hint in said for hint in ("connection", "could not translate", "unable to open", "timeout expired")
    )


def migrations(engine: Engine) -> Config:
    """Return Alembic's configuration for our migrations, which travel inside the package."""
    config = Config()
    config.set_main_option("script_location", str(files("digest") / "migrations"))
    config.attributes["engine"] = engine
    return config


def upgrade(engine: Engine) -> None:
    """Create the schema, or bring it to the newest revision; a second call changes nothing."""
    with answering(engine):
        command.upgrade(migrations(engine), "head")


def revision(engine: Engine) -> str | None:
    """Return the revision the database is at; None for an empty one."""
    with answering(engine), engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision(engine: Engine) -> str | None:
    """Return the revision this code was written for."""
    return ScriptDirectory.from_config(migrations(engine)).get_current_head()


def ensure(engine: Engine) -> None:
    """Create the schema in an empty database; raise Misfit where it is another than ours."""
    found, wanted = revision(engine), newest_revision(engine)
    if found is None:
        upgrade(engine)
    elif found != wanted:
        raise Misfit(
            f"The database schema is at {found} and this code needs {wanted}. Run: digest db upgrade"
        )
