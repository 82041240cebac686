"""`digest subscribers`: add, show, change, pause and remove subscribers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import completion, subscriber_files, terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, Workspace, command, opened, reading, with_options, writing
from digest.cli.options import CLOCK, DryRun, Limit, Now, Yes, argument, day, option, parse_choice
from digest.cli.results import CommandResult, facts, listing, note, table
from digest.errors import BadField
from digest.subscribers.reader_settings import SETTINGS, ReaderSettings

if TYPE_CHECKING:
    from digest.db import Session
    from digest.db.tables.subscribers import Subscriber

app = group("Manage subscribers.")

OWNER = "The person who gets the settings link, confirmation and reminders of a group address."

Email = Annotated[str, argument("EMAIL", "The subscriber's address.", autocompletion=completion.emails)]
Name = Annotated[str | None, option("--name NAME", "The subscriber's name.", ...)]
Topics = Annotated[
    list[str] | None, option("--topic NAME=FILTER", "A topic; repeat the option for more topics.", ...)
]
Owner = Annotated[str | None, option("--owner EMAIL", OWNER, ...)]


#: An option for each setting of a reader.
SETTINGS_OPTIONS = {
    name: Annotated[(bool if one.is_flag else str) | None, option(one.option, one.help, ...)]
    for name, one in SETTINGS.items()
}


@command(partial(writing, makes_service=True), app)
@with_options("given", SETTINGS_OPTIONS)
def add(
    work: Workspace,
    email: Email,
    given: dict[str, str | bool],
    topic: Topics = None,
    name: Name = None,
    group: bool = option("--group", "The address is a mailing list or a shared mailbox. Needs --owner."),
    owner: Owner = None,
    confirmed: bool = option("--confirmed", "The subscriber has agreed: activate them now. Needs --consent."),
    consent: str | None = option("--consent TEXT", "How the subscriber agreed, in your words."),
    now: Now = CLOCK,
) -> CommandResult:
    """Add a subscriber.

    Without --confirmed, the subscriber gets a confirmation mail and one reminder, and nothing else until they confirm.
    For a group address, these mails and all others except the digests go to the owner.

    Examples:
        digest subscribers add ada@example.org --topic 'Vision=image* OR video'
        digest subscribers add ada@example.org --at 07:30 --timezone Europe/Oslo
        digest subscribers add ada@example.org --confirmed --consent 'asked in class'
    """
    from digest.subscribers import operator_acts

    if confirmed and not consent:
        raise BadField(
            "--consent", "say how they agreed, for example: --consent 'asked at the group meeting'."
        )
    if group != (owner is not None):
        raise BadField("--owner", "a group address needs both: --group --owner EMAIL.")
    chosen = ReaderSettings(topics=parse_topics(topic or []), texts=texts_of(given))
    subscriber = operator_acts.add_by_operator(
        work.session, work.site, email, chosen, name=name or "", owner=owner,
        consent=consent if confirmed else None, operator=work.operator, now=now,
    )  # fmt: skip
    to = f" to {owner}" if owner else ""
    state = "active" if confirmed else f"pending; a confirmation mail{to} is in the outbox"
    return about(work, subscriber, now, f"is {state}.")


def texts_of(given: Mapping[str, str | bool]) -> dict[str, str]:
    """Return the settings as a reader writes them."""
    words = {True: "yes", False: "no"}
    return {name: words[value] if isinstance(value, bool) else value for name, value in given.items()}


def about(
    work: Workspace, subscriber: Subscriber, now: datetime, sentence: str, **more: Any
) -> CommandResult:
    """Return the fields of a subscriber, and a sentence that begins with the address."""
    report = subscriber_files.subscriber_report(work.session, subscriber, now)
    return CommandResult(report | more, f"{report['email']} {sentence}")


DEFAULT_COLUMNS = "email,name,state,cadence,at,timezone,topics"


@command(reading, app, "list")
def show_list(
    work: Workspace,
    text: str = argument("TEXT", "Only those with this in their address, name or topics.", ""),
    state: str | None = option("--state STATE", "pending, active, paused or unsubscribed."),
    cadence: str = option("--cadence CADENCE", "Only this cadence.", ""),
    domain: str = option("--domain DOMAIN", "Only addresses at this domain.", ""),
    topic: str = option("--topic TEXT", "Only those with this in a topic's name or filter.", ""),
    pack: str = option("--pack PACK", "Only users of a pack: lab or lab/nlp.", ""),
    columns: str = option("--columns NAMES", "The columns to show, as named by --json.", DEFAULT_COLUMNS),
    limit: Limit = None,
    now: Now = CLOCK,
) -> CommandResult:
    """List the subscribers by address.

    Examples:
        digest subscribers list
        digest subscribers list diffusion --state pending
        digest subscribers list --pack lab/nlp --columns email,confirmed_at,consent
    """
    from digest.db.tables.subscribers import SubscriberState
    from digest.subscribers.subscriber_rows import Criteria, count_matching

    chosen = parse_choice("--state", state, SubscriberState)
    criteria = Criteria(state=chosen, cadence=cadence, domain=domain, topic=topic, pack=pack, text=text)
    is_narrowed = criteria != Criteria()
    names = chosen_columns(columns)
    shown = {"topics": lambda row: list(row["topics"])}
    if columns == DEFAULT_COLUMNS:
        shown["email"] = lambda row: row["email"] + (f" (owner {row['owner']})" if row["owner"] else "")
    return listing(
        subscriber_files.list_subscribers(work.session, criteria, now=now),
        {name: shown.get(name, name) for name in names},
        shrinks="topics name email consent",
        empty="No subscriber matches."
        if is_narrowed
        else "No subscribers. Add one: digest subscribers add EMAIL",
        limit=limit,
        total=partial(count_matching, work.session, criteria),
    )


def chosen_columns(text: str) -> list[str]:
    """Return the named columns; raise BadField for an unknown column."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    known = (*subscriber_files.BEFORE_SETTINGS, *SETTINGS, *subscriber_files.AFTER_SETTINGS)
    for name in names:
        if name not in known:
            raise BadField("--columns", f"{name!r} is not one of {', '.join(known)}.")
    return names or DEFAULT_COLUMNS.split(",")


@command(reading, app)
def show(
    work: Workspace,
    email: Email,
    history: bool = option("--history", "List consents, letters, bounces and changes, latest first."),
    limit: Limit = None,
    now: Now = CLOCK,
) -> CommandResult:
    """Show one subscriber: state, schedule, topics, next digest; or what happened to them.

    Examples:
        digest subscribers show ada@example.org
        digest subscribers show ada@example.org --history --limit 100
    """
    from digest.subscribers import subscriber_rows

    if history:
        from digest.publishing.reader_history import reader_history

        events = reader_history(work.session, work.site, email)
        return listing(
            [asdict(one) | {"delivery_id": one.delivery_id or None} for one in events],
            {
                "when": "at",
                "event": "event",
                "letter#": lambda row: str(row["delivery_id"] or ""),
                "detail": "detail",
            },
            shrinks="detail",
            limit=limit,
            hint=" One letter: digest deliveries show ID.",
        )
    report = subscriber_files.subscriber_report(work.session, subscriber_rows.get(work.session, email), now)
    fields = ((name.replace("_", " "), value) for name, value in report.items() if name != "topics")
    topics = [{"topic": name, "filter": text} for name, text in report["topics"].items()]
    listed = ("", table(topics, "topic filter", shrinks="filter"))
    return CommandResult(report, (facts(fields), listed if topics else ()))


@command(writing, app)
@with_options("given", SETTINGS_OPTIONS)
def edit(
    work: Workspace,
    email: Email,
    given: dict[str, str | bool],
    topic: Topics = None,
    remove_topic: list[str] | None = option(
        "--remove-topic NAME",
        "Remove this topic; repeat the option to remove more.",
        autocompletion=completion.topics,
    ),
    name: Name = None,
    owner: Owner = None,
    undo: bool = option("--undo", "Undo the latest change of the settings instead."),
    now: Now = CLOCK,
) -> CommandResult:
    """Change a subscriber. Options that are not given change nothing.

    --topic with the name of an existing topic replaces its filter. --owner makes the address a group
    address, or gives the group another owner; links in earlier letters then stop working.
    --undo undoes the latest change for 30 days, unless the subscriber was paused or resumed since. What has changed
    again since is kept, and named.

    Examples:
        digest subscribers edit ada@example.org --cadence weekly-fri --at 07:30
        digest subscribers edit ada@example.org --topic 'Vision=image*' --remove-topic Images
        digest subscribers edit ada@example.org --undo
    """
    from digest.subscribers import operator_acts, subscriber_rows

    subscriber = subscriber_rows.get(work.session, email)
    if undo:
        undone = operator_acts.undo_by_operator(work.session, subscriber, operator=work.operator, now=now)
        report = subscriber_files.subscriber_report(work.session, subscriber, now) | {"undone": undone}
        nothing = f"{report['email']}: there is no change to undo."
        return CommandResult(report, " ".join(undone) or nothing)
    topics = changed_topics(work.session, subscriber, topic or [], remove_topic or [])
    changed = operator_acts.change_by_operator(
        work.session,
        subscriber,
        ReaderSettings(topics=topics, texts=texts_of(given)),
        name=name,
        owner=owner,
        operator=work.operator,
        now=now,
    )
    report = subscriber_files.subscriber_report(work.session, subscriber, now) | {"changed": changed}
    return CommandResult(report, f"{report['email']}: {'changed' if changed else 'nothing to change'}.")


def changed_topics(
    session: Session, subscriber: Subscriber, added: Sequence[str], removed: Sequence[str]
) -> dict[str, str] | None:
    """Return {name: filter} after the given additions and removals, or None if there are none.

    Raises BadField if a topic to remove does not exist, or if an addition is not NAME=FILTER.
    """
    from digest.subscribers import subscriber_topics

    if not added and not removed:
        return None
    topics = {topic.name: topic.typed for topic in subscriber_topics.topics_of(session, subscriber)}
    for name in removed:
        if name not in topics:
            raise BadField(
                "--remove-topic", f"{subscriber.email} has no topic {name!r}: {', '.join(topics)}."
            )
        del topics[name]
    return topics | parse_topics(added)


@command(writing, app)
def pause(
    work: Workspace,
    email: Email,
    until: date | None = option("--until DAY", "Resume on this day.", parser=day),
    now: Now = CLOCK,
) -> CommandResult:
    """Pause a subscriber until a given date, or until you resume them.

    Examples:
        digest subscribers pause ada@example.org
        digest subscribers pause ada@example.org --until 2027-01-06
    """
    from digest.subscribers import operator_acts, subscriber_rows

    subscriber = subscriber_rows.get(work.session, email)
    if not operator_acts.pause_by_operator(work.session, subscriber, until, operator=work.operator, now=now):
        raise BadField(
            "email", f"{subscriber.email} is {subscriber.state}, so there are no digests to pause."
        )
    return about(work, subscriber, now, f"is paused{f' until {until}' if until else ''}.")


@command(writing, app)
def resume(work: Workspace, email: Email, now: Now = CLOCK) -> CommandResult:
    """Resume a paused subscriber. The next digest includes the best papers that the subscriber missed.

    Examples:
        digest subscribers resume ada@example.org
        digest subscribers resume ada@example.org --json
    """
    from digest.subscribers import operator_acts, subscriber_rows

    subscriber = subscriber_rows.get(work.session, email)
    if not operator_acts.resume_by_operator(work.session, subscriber, operator=work.operator, now=now):
        raise BadField("email", f"{subscriber.email} is {subscriber.state}, not paused.")
    return about(work, subscriber, now, "is active again.")


@command(opened, app)
def remove(work: Opened, email: Email, yes: Yes = False, now: Now = CLOCK) -> CommandResult:
    """Unsubscribe a subscriber without notice.

    The record of shown papers is kept, so that no paper is repeated if the subscriber returns.

    Examples:
        digest subscribers remove ada@example.org
        digest subscribers remove ada@example.org --yes
    """
    from digest.subscribers import operator_acts, subscriber_rows

    with work.reading() as session:
        found = subscriber_rows.get(session, email)
    terminal.require_yes(f"{found.email} is {found.state} and will be unsubscribed without notice.", yes=yes)
    with work.writing() as session:
        removed = operator_acts.remove_by_operator(session, email, operator=work.operator, now=now)
        report = subscriber_files.subscriber_report(session, removed, now)
    return CommandResult(report, f"{report['email']} is {report['state']}.")


@command(opened, app)
def erase(
    work: Opened,
    email: Email,
    suppress: bool = option(
        "--suppress", "Also add the address to the suppression list, stored only as a keyed hash."
    ),
    dry_run: DryRun = False,
    yes: Yes = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Erase a subscriber's data. This cannot be undone.

    The address is deleted from every table, together with the mail received from it and the letters stored on
    this machine. Deliveries are kept without personal data.

    Examples:
        digest subscribers erase ada@example.org --dry-run
        digest subscribers erase ada@example.org --suppress
        digest subscribers erase ada@example.org --yes
    """
    from digest.subscribers import account

    mail = work.context.settings.mail
    with work.reading() as session:
        plan = erasure_plan(session, email, suppress=suppress)
    if dry_run:
        return CommandResult({"email": email, "erased": False}, plan)
    terminal.require_yes(plan, yes=yes)
    with work.writing() as session:
        erased = account.erase(session, work.site, email, now=now, suppress=suppress)
    done = account.erase_copies(work.context.engine, erased, mail=mail)
    deleted = note(f"{plurals.count(done.copies, 'letter')} deleted from {mail}.") if done.copies else ()
    in_log = () if done.is_log_empty else note(IN_LOG)
    return CommandResult({"email": email, "erased": True}, (deleted, in_log, f"Erased {email}."))


IN_LOG = "Another process is reading the database, so its log may contain the deleted rows until the daily cleanup."


def erasure_plan(session: Session, email: str, *, suppress: bool) -> str:
    """Return sentences about the data that an erasure will delete."""
    from digest.delivery.outbox import delivery_listing
    from digest.subscribers import subscriber_rows, subscriber_topics

    found = subscriber_rows.get(session, email)
    topics = plurals.count(len(subscriber_topics.topics_of(session, found)), "topic")
    letters = plurals.count(delivery_listing.count_deliveries(session, email=found.email), "letter")
    after = " Mail to it will be suppressed." if suppress else " The address may then subscribe again."
    return f"{found.email} ({found.state}, {topics}, {letters}) will be erased. This cannot be undone.{after}"


def parse_topics(given: Sequence[str]) -> dict[str, str]:
    """Return {name: filter} for `NAME=FILTER` options; raise BadField for an option of another form.

    The filters are parsed when they are stored.
    """
    topics = {}
    for text in given:
        name, equals, filter_text = text.partition("=")
        if not equals or not name.strip() or not filter_text.strip():
            raise BadField(
                "--topic", f"{text!r} is not NAME=FILTER; write one such as 'Vision=title:image*'."
            )
        topics[name.strip()] = filter_text.strip()
    return topics


app.command("import")(subscriber_files.import_file)
app.command("sync")(subscriber_files.sync_file)
app.command("export")(subscriber_files.export_file)
