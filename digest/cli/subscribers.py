"""`digest subscribers`: who reads, what, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import csvfiles, people, rooms, screen
from digest.cli.options import AsJson, Limit, Now, clock, day
from digest.errors import BadField

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.model import Subscriber

app = typer.Typer(help="Who reads, what, and when.", no_args_is_help=True)

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="Their address.")]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="What to call them.", show_default=False)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="NAME=FILTER", help="An interest; give it once for each.", show_default=False
    ),
]
Cadence = Annotated[
    str | None,
    typer.Option(
        "--cadence",
        metavar="CADENCE",
        help="daily, weekdays, weekly, weekly-fri, monthly.",
        show_default=False,
    ),
]
At = Annotated[
    str | None, typer.Option("--at", metavar="HH:MM", help="Their local hour.", show_default=False)
]
Timezone = Annotated[
    str | None, typer.Option("--timezone", metavar="ZONE", help="Such as Europe/Oslo.", show_default=False)
]
Consent = Annotated[
    str | None,
    typer.Option(
        "--consent", metavar="TEXT", help="How they agreed, in your words: the proof.", show_default=False
    ),
]
MaxPapers = Annotated[
    int | None,
    typer.Option("--max-papers", metavar="N", help="Papers in a digest at most.", show_default=False),
]

QuietLetters = Annotated[
    bool | None,
    typer.Option(
        "--quiet-letters/--no-quiet-letters",
        help="A word on days on which nothing matched; else only after 14 silent days.",
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
    confirmed: Annotated[
        bool, typer.Option("--confirmed", help="They agreed already: start at once. Needs --consent.")
    ] = False,
    consent: Consent = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Add a subscriber.

    Without --confirmed they get one mail that asks them, and nothing more before they say yes.
    """
    from digest import editions, subscriptions
    from digest.model import SubscriberState

    if confirmed and not consent:
        raise BadField(
            "--consent", "say how they agreed, for example: --consent 'asked at the group meeting'."
        )
    schedule = editions.schedule_in(cadence=cadence or "", at=at or "", timezone=timezone or "")
    topics = topics_in(topic or [])
    with rooms.opened() as house, rooms.writing(house) as session:
        if confirmed:
            subscriber = subscriptions.add(
                session,
                email,
                name=name or "",
                topics=topics,
                schedule=schedule,
                state=SubscriberState.ACTIVE,
                consent=consent,
                now=clock(now),
                site=house.site,
            )
        else:
            refuse_known(session, email)
            asked = subscriptions.ask(
                session, house.site, email, topics=topics, schedule=schedule, now=clock(now)
            )
            refuse_silence(asked.answer, email)
            subscriber = subscriptions.get(session, email)
            subscriptions.edit(session, subscriber, name=name, now=clock(now))
        report = people.report(session, subscriber)
        session.commit()
    if as_json:
        screen.document(report)
    elif confirmed:
        screen.tell(f"{report['email']} is active.")
    else:
        screen.tell(f"{report['email']} is pending; a mail that asks them to confirm is in the outbox.")


def refuse_known(session: Session, email: str) -> None:
    """Refuse to ask somebody who gets digests already."""
    from digest import subscriptions
    from digest.model import SubscriberState

    known = subscriptions.find(session, email)
    if known is not None and known.state in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
        raise BadField("email", f"{known.email} is {known.state} already. See: digest subscribers edit")


def refuse_silence(answer: str, email: str) -> None:
    """Say aloud what the web form keeps to itself."""
    from digest.subscriptions import Answer

    if answer == Answer.SUPPRESSED:
        raise BadField("email", f"{email} is suppressed. See: digest suppressions list")
    if answer == Answer.CAPPED:
        raise BadField(
            "email", f"{email} was asked to confirm lately; wait until tomorrow, or use --confirmed."
        )


@app.command("list")
def show_list(
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="STATE", help="pending, active, paused or unsubscribed.", show_default=False
        ),
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List the subscribers by address."""
    wanted = None if state is None else state_in(state)
    with rooms.opened() as house, house.reading() as session:
        found = people.listed(session, state=wanted)
        if as_json:
            screen.lines(islice(found, limit))
            return
        shown = list(islice(found, limit or screen.LIMIT))
        is_more = next(found, None) is not None
    names = ("email", "name", "state", "cadence", "at", "timezone")
    screen.table(
        (*names, "topics"),
        ([*(one[name] for name in names), list(one["topics"])] for one in shown),
        give=["topics", "name", "email"],
        empty="No subscribers. Add one: digest subscribers add EMAIL",
    )
    if is_more:
        screen.say("There are more: --limit N shows N of them, --json all.")


def state_in(text: str) -> Any:
    """Return the state of that name, or raise BadField."""
    from digest.model import SubscriberState

    if text not in set(SubscriberState):
        raise BadField("--state", f"{text!r} is none of {', '.join(SubscriberState)}.")
    return SubscriberState(text)


@app.command()
def show(email: Email, as_json: AsJson = False) -> None:
    """Show one subscriber: schedule, topics, what is due when."""
    from digest import subscriptions

    with rooms.opened() as house, house.reading() as session:
        report = people.report(session, subscriptions.get(session, email))
    if as_json:
        screen.document(report)
        return
    topics = report.pop("topics")
    screen.facts((name.replace("_", " "), value) for name, value in report.items())
    if topics:
        screen.tell()
        screen.table(("topic", "filter"), topics.items(), give=["filter"])


@app.command()
def edit(
    email: Email,
    topic: Topics = None,
    drop_topic: Annotated[
        list[str] | None,
        typer.Option("--drop-topic", metavar="NAME", help="Drop this interest.", show_default=False),
    ] = None,
    name: Name = None,
    cadence: Cadence = None,
    at: At = None,
    timezone: Timezone = None,
    max_papers: MaxPapers = None,
    quiet_letters: QuietLetters = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Change a subscriber; what is not given stays.

    A --topic of a known name replaces its filter.
    """
    from digest import subscriptions

    with rooms.opened() as house, rooms.writing(house) as session:
        subscriber = subscriptions.get(session, email)
        changed = subscriptions.edit(
            session,
            subscriber,
            now=clock(now),
            name=name,
            schedule=subscriptions.schedule_with(subscriber, cadence=cadence, at=at, timezone=timezone),
            topics=changed_topics(session, subscriber, topic or [], drop_topic or []),
            max_papers=max_papers,
            wants_quiet_letters=quiet_letters,
        )
        report = people.report(session, subscriber) | {"changed": changed}
        session.commit()
    if as_json:
        screen.document(report)
    else:
        screen.tell(f"{report['email']}: {'changed' if changed else 'nothing to change'}.")


def changed_topics(
    session: Session, subscriber: Subscriber, given: Sequence[str], dropped: Sequence[str]
) -> dict[str, str] | None:
    """Return the topics after a change, or None where none was asked for."""
    from digest import subscriptions

    if not given and not dropped:
        return None
    topics = {topic.name: topic.typed for topic in subscriptions.topics_of(session, subscriber)}
    for name in dropped:
        if name not in topics:
            raise BadField("--drop-topic", f"{subscriber.email} has no topic {name!r}: {', '.join(topics)}.")
        del topics[name]
    return topics | topics_in(given)


@app.command()
def pause(
    email: Email,
    until: Annotated[
        date | None,
        typer.Option("--until", parser=day, metavar="DAY", help="Back on that day.", show_default=False),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Send a subscriber on leave, until a day or their return."""
    from digest import subscriptions

    with rooms.opened() as house, rooms.writing(house) as session:
        subscriber = subscriptions.get(session, email)
        paused = subscriptions.pause(session, subscriber, until, clock(now))
        report = people.report(session, subscriber)
        session.commit()
    if not paused:
        raise BadField("email", f"{report['email']} is {report['state']}; only who is active can pause.")
    shown = f" until {until}" if until else ""
    finish(report, f"{report['email']} is paused{shown}.", as_json)


@app.command()
def resume(email: Email, as_json: AsJson = False) -> None:
    """End a leave. What was missed comes as one catch-up."""
    from digest import subscriptions

    with rooms.opened() as house, rooms.writing(house) as session:
        subscriber = subscriptions.get(session, email)
        resumed = subscriptions.resume(session, subscriber)
        report = people.report(session, subscriber)
        session.commit()
    if not resumed:
        raise BadField("email", f"{report['email']} is {report['state']}, not paused.")
    finish(report, f"{report['email']} is active again.", as_json)


@app.command()
def remove(email: Email, now: Now = None, as_json: AsJson = False) -> None:
    """Take a subscriber off, without a letter.

    What they were shown is remembered, should they return.
    """
    from digest import subscriptions

    with rooms.opened() as house, rooms.writing(house) as session:
        report = people.report(session, subscriptions.remove(session, email, now=clock(now)))
        session.commit()
    finish(report, f"{report['email']} is {report['state']}.", as_json)


@app.command()
def erase(
    email: Email,
    keep_out: Annotated[
        bool,
        typer.Option("--keep-out", help="Keep a keyed hash, so that nothing ever writes to them again."),
    ] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Forget a person.

    Their address leaves every table; deliveries keep only that they happened.
    """
    from digest import subscriptions

    with rooms.opened() as house, rooms.writing(house) as session:
        subscriptions.erase(session, house.site, email, now=clock(now), keep_out=keep_out)
        session.commit()
    finish({"email": email, "erased": True}, f"{email} is forgotten.", as_json)


def finish(report: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Report what was done."""
    if as_json:
        screen.document(report)
    else:
        screen.tell(sentence)


def topics_in(given: Sequence[str]) -> dict[str, str]:
    """Return the topics of `NAME=FILTER` options; their filters are read where they are stored."""
    topics = {}
    for text in given:
        name, equals, wanted = text.partition("=")
        if not equals or not name.strip() or not wanted.strip():
            raise BadField(
                "--topic", f"{text!r} is not NAME=FILTER; write one such as 'Vision=title:image*'."
            )
        topics[name.strip()] = wanted.strip()
    return topics


app.command("import")(csvfiles.read)
app.command("export")(csvfiles.write)
