"""`digest preview`, `publish`, `deliver`, `run`: from what is due to what is sent."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen, sources, status
from digest.cli.options import AsJson, Limit, Now, OutDir, clock

if TYPE_CHECKING:
    from digest.house import House

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="A subscriber's address.")]


def preview(email: Email, out: OutDir, now: Now = None, as_json: AsJson = False) -> None:
    """Write the digest a subscriber would get.

    digest.html, digest.txt, digest.eml and digest.json are exactly what would be sent. Nothing is sent,
    nothing is remembered.
    """
    from digest import publishing

    with rooms.opened() as house, house.reading() as session:
        made = publishing.preview(
            session,
            site=house.site,
            templates=house.templates,
            signers=house.signers,
            email=email,
            now=clock(now),
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / "digest.html").write_text(made.letter.html, encoding="utf-8")
    (out / "digest.txt").write_text(made.letter.text, encoding="utf-8")
    (out / "digest.eml").write_bytes(made.message)
    told = json.dumps(made.json, ensure_ascii=False, indent=2, default=screen.plain)
    (out / "digest.json").write_text(told + "\n", encoding="utf-8")
    if as_json:
        screen.document(made.json)
        return
    screen.tell(f"{made.letter.subject}")
    screen.tell(f"Look at it: {out / 'digest.html'}")


def publish(now: Now = None, as_json: AsJson = False) -> None:
    """Compose every due digest into the outbox; send nothing yet."""
    with rooms.opened() as house:
        report = published(house, clock(now))
    show(report, as_json)


def deliver(now: Now = None, limit: Limit = None, as_json: AsJson = False) -> None:
    """Deliver what is in the outbox, in this process."""
    with rooms.opened() as house:
        report = delivered(house, now, limit)
    show(report, as_json)


def run(now: Now = None, as_json: AsJson = False) -> None:
    """Do one round of everything, in this process.

    Asks the sources that are due, reads the dumps folder, publishes, delivers: for cron, and for the impatient.
    """
    with rooms.opened() as house:
        loads = [*fetched(house, clock(now)), *collected(house, clock(now))]
        made = published(house, clock(now))
        sent = delivered(house, now, None)
    if as_json:
        screen.document({"dumps": loads, "published": made, "delivered": sent})
        return
    for loaded in loads:
        counted = screen.count(loaded["papers"], "paper")
        screen.tell(f"read       {loaded['path']}: {counted}, {loaded['new']} new")
    screen.tell(f"published  {in_words(made)}")
    screen.tell(f"delivered  {in_words(sent)}")


def fetched(house: House, now: datetime) -> list[dict[str, Any]]:
    """Read what the sources that are due have to offer; one that fails is asked again another time."""
    found = sources.polled(house, now)
    for one in found:
        if not one.is_fine:
            screen.say(f"{one.source}: {screen.visible(one.result)}")
    return [loaded.to_json() for one in found for loaded in one.dumps]


def collected(house: House, now: datetime) -> list[dict[str, Any]]:
    """Read what lies in the dumps folder."""
    from digest import intake

    with rooms.writing(house) as session:
        loads = intake.collect(
            session,
            house.settings.dumps,
            now=now,
            incomplete_ok=house.settings.sends_short_dumps,
        )
    return [loaded.to_json() for loaded in loads]


def published(house: House, now: datetime) -> dict[str, int]:
    """Publish, and return the figures."""
    from digest import publishing, subscriptions

    with house.reading() as session:
        due = status.due_now(session, now)
    with rooms.writing(house, renders=True) as session, screen.progress("Publishing", total=due) as done:
        subscriptions.remind_unanswered(session, house.site, now)
        session.commit()
        report = publishing.publish(
            session, site=house.site, templates=house.templates, now=now, progress=done.by
        )
    return asdict(report)


def delivered(house: House, now: datetime | None, limit: int | None) -> dict[str, int]:
    """Deliver, and return the figures. Without --now the clock goes on while we do."""
    from digest import db, delivery

    with house.reading() as session:
        waiting = status.outbox(session)["queued"]
    with (
        rooms.writing(house, renders=True) as session,
        house.transport() as transport,
        screen.progress("Delivering", total=min(waiting, limit or waiting)) as done,
        unhurried() as is_stopping,
    ):
        report = delivery.deliver(
            session,
            site=house.site,
            templates=house.templates,
            transport=transport,
            clock=(lambda: now) if now else db.common_clock(session, house.clock),
            signers=house.signers,
            limits=house.settings.limits,
            window=house.settings.window,
            limit=limit,
            is_stopping=is_stopping,
            progress=done.to,
        )
    return asdict(report)


@contextmanager
def unhurried() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end a delivery behind the mails it is at, so that none is left in doubt; a second one ends it now."""
    told: list[int] = []

    def tell(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(told)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show(report: dict[str, int], as_json: bool) -> None:
    """Show the figures of a story."""
    if as_json:
        screen.document(report)
    else:
        screen.tell(in_words(report))


def in_words(report: dict[str, int]) -> str:
    """Return `3 due, 2 queued`: what is nought goes unsaid, except the first."""
    first = next(iter(report))
    return ", ".join(
        f"{number:,} {name.replace('_', ' ')}" for name, number in report.items() if number or name == first
    )
