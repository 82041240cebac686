"""`digest subscribers`: add, show, change, pause and remove subscribers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, completion, subscriber_files, subscriber_listing, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Limit, Now, current_time, day, parse_choice
from digest.cli.confirmation_prompt import DryRun, Yes, require_yes
from digest.errors import BadField

if TYPE_CHECKING:
    from digest.db import Session
    from digest.db.tables import Subscriber
    from digest.delivery.transports import MailUrl
    from digest.subscribers import Erasure
    from digest.subscribers.subscriber_search import Criteria

app = group("Manage subscribers.")

Email = Annotated[
    str, typer.Argument(metavar="EMAIL", help="The subscriber's address.", autocompletion=completion.emails)
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The subscriber's name.", show_default=False)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME=FILTER",
        help="A topic; repeat the option for more topics.",
        show_default=False,
    ),
]
Cadence = Annotated[
    str | None,
    typer.Option(
        "--cadence",
        metavar="CADENCE",
        help="How often: daily, weekdays, weekly, weekly-fri, monthly.",
        show_default=False,
    ),
]
At = Annotated[
    str | None, typer.Option("--at", metavar="HH:MM", help="Local time of the digests.", show_default=False)
]
Timezone = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="ZONE",
        help="A time zone: Europe/Oslo, a large city, or UTC+2.",
        show_default=False,
    ),
]
Consent = Annotated[
    str | None,
    typer.Option(
        "--consent", metavar="TEXT", help="How the subscriber agreed, in your words.", show_default=False
    ),
]
MaxPapers = Annotated[
    int | None,
    typer.Option(
        "--max-papers",
        metavar="N",
        help="Maximum number of papers in a digest, 1 to 100. Default: 10.",
        show_default=False,
    ),
]

Abstracts = Annotated[
    str | None,
    typer.Option(
        "--abstracts",
        metavar="LENGTH",
        help="Length of abstracts: titles, short (one or two sentences), full. Default: short.",
        show_default=False,
    ),
]

Owner = Annotated[
    str | None,
    typer.Option(
        "--owner",
        metavar="EMAIL",
        help="The person who gets the settings link, confirmation and reminders of a group address.",
        show_default=False,
    ),
]

NothingToday = Annotated[
    bool | None,
    typer.Option(
        "--nothing-today/--no-nothing-today",
        help="Send a short letter on every day without a match; otherwise only after 14 days without mail.",
        show_default=False,
    ),
]


@app.command()
def add(
    email: Email,
    topic: Topics = None,
    name: Name = None,
    cadence: Cadence = "daily",
    at: At = "08:00",
    timezone: Timezone = "UTC",
    max_papers: MaxPapers = None,
    group: Annotated[
        bool,
        typer.Option("--group", help="The address is a mailing list or a shared mailbox. Needs --owner."),
    ] = False,
    owner: Owner = None,
    confirmed: Annotated[
        bool,
        typer.Option("--confirmed", help="The subscriber has agreed: activate them now. Needs --consent."),
    ] = False,
    consent: Consent = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Add a subscriber.

    Without --confirmed, the subscriber gets a confirmation mail and one reminder, and nothing else until they confirm.
    For a group address, these mails and all others except the digests go to the owner.

    Examples:
        digest subscribers add ada@example.org --topic 'Vision=image* OR video'
        digest subscribers add ada@example.org --at 07:30 --timezone Europe/Oslo
        digest subscribers add ada@example.org --confirmed --consent 'asked in class'
    """
    from digest.editions import schedule as edition_schedule
    from digest.subscribers import use_cases

    if confirmed and not consent:
        raise BadField(
            "--consent", "say how they agreed, for example: --consent 'asked at the group meeting'."
        )
    if group != (owner is not None):
        raise BadField("--owner", "a group address needs both: --group --owner EMAIL.")
    schedule = edition_schedule.parse_schedule(cadence=cadence or "", at=at or "", timezone=timezone or "")
    topics = parse_topics(topic or [])
    given: dict[str, Any] = {
        "name": name, "topics": topics, "schedule": schedule, "max_papers": max_papers, "owner": owner,
        "operator": command_context.operator_name(), "now": current_time(now),
    }  # fmt: skip
    with (
        command_context.open_context(makes_service=True) as context,
        command_context.open_write_session(context) as session,
    ):
        if confirmed:
            subscriber = use_cases.add_confirmed(session, context.site, email, consent=consent, **given)
        else:
            subscriber = use_cases.add_unconfirmed(session, context.site, email, **given)
        report = subscriber_listing.subscriber_report(session, subscriber)
    to = f" to {owner}" if owner else ""
    state = "active" if confirmed else f"pending; a confirmation mail{to} is in the outbox"
    terminal.print_result(report, f"{report['email']} is {state}.", as_json=as_json)


State = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="STATE", help="pending, active, paused or unsubscribed.", show_default=False
    ),
]
DEFAULT_COLUMNS = "email,name,state,cadence,at,timezone,topics"
Columns = Annotated[
    str,
    typer.Option(
        "--columns", metavar="NAMES", help="The columns to show, as named by --json.", show_default=False
    ),
]


@app.command("list")
def show_list(
    state: State = None,
    cadence: Annotated[
        str, typer.Option("--cadence", metavar="CADENCE", help="Only this cadence.", show_default=False)
    ] = "",
    domain: Annotated[
        str,
        typer.Option("--domain", metavar="DOMAIN", help="Only addresses at this domain.", show_default=False),
    ] = "",
    topic: Annotated[
        str,
        typer.Option(
            "--topic",
            metavar="TEXT",
            help="Only subscribers with this text in a topic's name or filter.",
            show_default=False,
        ),
    ] = "",
    pack: Annotated[
        str,
        typer.Option(
            "--pack", metavar="PACK", help="Only users of a pack: lab or lab/nlp.", show_default=False
        ),
    ] = "",
    columns: Columns = DEFAULT_COLUMNS,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List the subscribers by address.

    Examples:
        digest subscribers list
        digest subscribers list --state pending --limit 100
        digest subscribers list --pack lab/nlp --columns email,confirmed_at,consent
    """
    from digest.db.tables import SubscriberState
    from digest.subscribers.subscriber_search import Criteria

    chosen = parse_choice("--state", state, SubscriberState)
    criteria = Criteria(state=chosen, cadence=cadence, domain=domain, topic=topic, pack=pack)
    empty = (
        "No subscriber matches."
        if criteria != Criteria()
        else "No subscribers. Add one: digest subscribers add EMAIL"
    )
    show_subscribers(criteria, columns, limit, as_json, empty=empty)


@app.command()
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Part of an address, a name, or a topic.")],
    columns: Columns = DEFAULT_COLUMNS,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Find subscribers by a part of their address, name or topics.

    Examples:
        digest subscribers search ada
        digest subscribers search diffusion --json
    """
    from digest.subscribers.subscriber_search import Criteria

    show_subscribers(Criteria(text=text), columns, limit, as_json, empty=f"No subscriber matches {text!r}.")


@app.command()
def stats(as_json: AsJson = False) -> None:
    """Count the subscribers by state, cadence, time zone, domain and number of topics.

    Examples:
        digest subscribers stats
        digest subscribers stats --json
    """
    from digest.subscribers.subscriber_search import subscriber_stats

    with command_context.open_context() as context, context.read_session() as session:
        found = subscriber_stats(session)
    if as_json:
        terminal.print_json({name.replace(" ", "_"): counts for name, counts in found.items()})
        return
    found["topics"] = {
        plurals.count(int(value), "topic"): number for value, number in found["topics"].items()
    }
    terminal.print_facts(
        (
            name.capitalize(),
            ", ".join(
                f"{number:,} with {value}" if name == "topics" else f"{number:,} {value}"
                for value, number in counts.items()
            )
            or "none",
        )
        for name, counts in found.items()
    )


def show_subscribers(
    criteria: Criteria, columns: str, limit: int | None, as_json: bool, *, empty: str
) -> None:
    """Print the matching subscribers."""
    with command_context.open_context() as context, context.read_session() as session:
        found = subscriber_listing.list_subscribers(session, criteria)
        if as_json:
            terminal.lines(islice(found, limit))
            return
        shown = list(islice(found, limit or terminal.LIMIT))
        is_more = next(found, None) is not None
    names = chosen_columns(columns)
    if columns == DEFAULT_COLUMNS and any(one["owner"] for one in shown):
        names.insert(1, "owner")
    terminal.print_table(
        names,
        ([list(one[name]) if name == "topics" else one[name] for name in names] for one in shown),
        shrinkable=[name for name in ("topics", "name", "email", "consent") if name in names],
        empty=empty,
    )
    if is_more:
        terminal.print_note("There are more. --limit N shows N subscribers, --json shows all.")


def chosen_columns(text: str) -> list[str]:
    """Return the named columns; raise BadField for an unknown column."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in subscriber_listing.FIELDS:
            raise BadField("--columns", f"{name!r} is not one of {', '.join(subscriber_listing.FIELDS)}.")
    return names or DEFAULT_COLUMNS.split(",")


@app.command()
def show(email: Email, as_json: AsJson = False) -> None:
    """Show one subscriber: state, schedule, topics, next digest.

    Examples:
        digest subscribers show ada@example.org
        digest subscribers show ada@example.org --json
    """
    from digest import subscribers

    with command_context.open_context() as context, context.read_session() as session:
        report = subscriber_listing.subscriber_report(session, subscribers.get(session, email))
    if as_json:
        terminal.print_json(report)
        return
    topics = report.pop("topics")
    terminal.print_facts((name.replace("_", " "), value) for name, value in report.items())
    if topics:
        terminal.print_line()
        terminal.print_table(("topic", "filter"), topics.items(), shrinkable=["filter"])


@app.command()
def edit(
    email: Email,
    topic: Topics = None,
    remove_topic: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-topic",
            metavar="NAME",
            help="Remove this topic; repeat the option to remove more.",
            show_default=False,
            autocompletion=completion.topics,
        ),
    ] = None,
    name: Name = None,
    cadence: Cadence = None,
    at: At = None,
    timezone: Timezone = None,
    max_papers: MaxPapers = None,
    abstracts: Abstracts = None,
    nothing_today: NothingToday = None,
    owner: Owner = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Change a subscriber. Options that are not given change nothing.

    --topic with the name of an existing topic replaces its filter. --owner makes the address a group
    address, or gives the group another owner; links in earlier letters then stop working.

    Examples:
        digest subscribers edit ada@example.org --cadence weekly-fri --at 07:30
        digest subscribers edit ada@example.org --topic 'Vision=image*'
        digest subscribers edit ada@example.org --remove-topic Vision
    """
    from digest import subscribers
    from digest.subscribers import use_cases

    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        subscriber = subscribers.get(session, email)
        changed = use_cases.change_by_operator(
            session,
            subscriber,
            operator=command_context.operator_name(),
            now=current_time(now),
            name=name,
            schedule=subscribers.changed_schedule(subscriber, cadence=cadence, at=at, timezone=timezone),
            topics=changed_topics(session, subscriber, topic or [], remove_topic or []),
            max_papers=max_papers,
            abstracts=abstracts,
            wants_nothing_today_letters=nothing_today,
            owner=owner,
        )
        report = subscriber_listing.subscriber_report(session, subscriber) | {"changed": changed}
    sentence = f"{report['email']}: {'changed' if changed else 'nothing to change'}."
    terminal.print_result(report, sentence, as_json=as_json)


def changed_topics(
    session: Session, subscriber: Subscriber, added: Sequence[str], removed: Sequence[str]
) -> dict[str, str] | None:
    """Return {name: filter} after the given additions and removals, or None if there are none.

    Raises BadField if a topic to remove does not exist, or if an addition is not NAME=FILTER.
    """
    from digest import subscribers

    if not added and not removed:
        return None
    topics = {topic.name: topic.typed for topic in subscribers.topics_of(session, subscriber)}
    for name in removed:
        if name not in topics:
            raise BadField(
                "--remove-topic", f"{subscriber.email} has no topic {name!r}: {', '.join(topics)}."
            )
        del topics[name]
    return topics | parse_topics(added)


@app.command()
def undo(email: Email, now: Now = None, as_json: AsJson = False) -> None:
    """Undo the latest change of a subscriber's settings.

    The change can be undone for 30 days, until the settings change again or the subscriber is paused or resumed.

    Examples:
        digest subscribers undo ada@example.org
        digest subscribers undo ada@example.org --json
    """
    from digest import subscribers
    from digest.subscribers import use_cases

    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        subscriber = subscribers.get(session, email)
        undone = use_cases.undo_by_operator(
            session, subscriber, operator=command_context.operator_name(), now=current_time(now)
        )
        report = subscriber_listing.subscriber_report(session, subscriber) | {"undone": undone}
    sentence = " ".join(undone) if undone else f"{report['email']}: there is no change to undo."
    terminal.print_result(report, sentence, as_json=as_json)


@app.command()
def pause(
    email: Email,
    until: Annotated[
        date | None,
        typer.Option("--until", parser=day, metavar="DAY", help="Resume on this day.", show_default=False),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Pause a subscriber until a given date, or until you resume them.

    Examples:
        digest subscribers pause ada@example.org
        digest subscribers pause ada@example.org --until 2027-01-06
    """
    from digest import subscribers
    from digest.subscribers import use_cases

    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        subscriber = subscribers.get(session, email)
        paused = use_cases.pause_by_operator(
            session, subscriber, until, operator=command_context.operator_name(), now=current_time(now)
        )
        report = subscriber_listing.subscriber_report(session, subscriber)
    if not paused:
        raise BadField("email", f"{report['email']} is {report['state']}, so there are no digests to pause.")
    shown = f" until {until}" if until else ""
    terminal.print_result(report, f"{report['email']} is paused{shown}.", as_json=as_json)


@app.command()
def resume(email: Email, as_json: AsJson = False) -> None:
    """Resume a paused subscriber. The next digest includes the best papers that the subscriber missed.

    Examples:
        digest subscribers resume ada@example.org
        digest subscribers resume ada@example.org --json
    """
    from digest import subscribers
    from digest.subscribers import use_cases

    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        subscriber = subscribers.get(session, email)
        resumed = use_cases.resume_by_operator(
            session, subscriber, operator=command_context.operator_name(), now=context.clock()
        )
        report = subscriber_listing.subscriber_report(session, subscriber)
    if not resumed:
        raise BadField("email", f"{report['email']} is {report['state']}, not paused.")
    terminal.print_result(report, f"{report['email']} is active again.", as_json=as_json)


@app.command()
def remove(email: Email, yes: Yes = False, now: Now = None, as_json: AsJson = False) -> None:
    """Unsubscribe a subscriber without notice.

    The record of shown papers is kept, so that no paper is repeated if the subscriber returns.

    Examples:
        digest subscribers remove ada@example.org
        digest subscribers remove ada@example.org --yes
    """
    from digest import subscribers
    from digest.subscribers import use_cases

    with command_context.open_context() as context:
        with context.read_session() as session:
            found = subscribers.get(session, email)
            plan = f"{found.email} is {found.state} and will be unsubscribed without notice."
        require_yes(plan, yes=yes)
        with command_context.open_write_session(context) as session:
            report = subscriber_listing.subscriber_report(
                session,
                use_cases.remove_by_operator(
                    session, email, operator=command_context.operator_name(), now=current_time(now)
                ),
            )
    terminal.print_result(report, f"{report['email']} is {report['state']}.", as_json=as_json)


@app.command()
def erase(
    email: Email,
    suppress: Annotated[
        bool,
        typer.Option(
            "--suppress", help="Also add the address to the suppression list, stored only as a keyed hash."
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Erase a subscriber's data. This cannot be undone.

    The address is deleted from every table, together with the mail received from it and the letters stored on
    this machine. Deliveries are kept without personal data.

    Examples:
        digest subscribers erase ada@example.org --dry-run
        digest subscribers erase ada@example.org --suppress
        digest subscribers erase ada@example.org --yes
    """
    from digest import subscribers

    with command_context.open_context() as context:
        with context.read_session() as session:
            plan = erasure_plan(session, email, suppress=suppress)
        if not dry_run:
            require_yes(plan, yes=yes)
            with command_context.open_write_session(context) as session:
                done = subscribers.erase(
                    session,
                    context.site,
                    email,
                    mail=context.settings.mail,
                    now=current_time(now),
                    suppress=suppress,
                )
            note_traces(done, context.settings.mail)
    report = {"email": email, "erased": not dry_run}
    terminal.print_result(report, plan if dry_run else f"Erased {email}.", as_json=as_json)


def note_traces(done: Erasure, mail: MailUrl) -> None:
    """Print how many stored letters were deleted, and whether the database's log may contain deleted rows."""
    if done.copies:
        terminal.print_note(f"{plurals.count(done.copies, 'letter')} deleted from {mail}.")
    if not done.is_log_empty:
        terminal.print_note(
            "Another process is reading the database, so its log may contain the deleted rows until the daily cleanup."
        )


def erasure_plan(session: Session, email: str, *, suppress: bool) -> str:
    """Return sentences about the data that an erasure will delete."""
    from digest import subscribers
    from digest.delivery import outbox

    found = subscribers.get(session, email)
    topics = plurals.count(len(subscribers.topics_of(session, found)), "topic")
    letters = plurals.count(outbox.count_deliveries(session, email=found.email), "letter")
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
