"""`digest status`: how the house is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from digest.cli import rooms, screen
from digest.cli.options import AsJson, Now, clock

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.settings import Settings

DUMPS_SHOWN = 5


def status(now: Now = None, as_json: AsJson = False) -> None:
    """Say how it is: people, papers, mail, signs of life."""
    moment = clock(now)
    with rooms.opened() as house, house.reading() as session:
        report = {
            "now": moment,
            "subscribers": people(session),
            "catalog": catalog(session),
            "dumps": last_dumps(session),
            "late": late_lists(session, moment),
            "outbox": outbox(session),
            "troubles": troubles(session, moment),
            "stops": stops(session),
            "not_understood": not_understood(session),
            "paused": paused(session, moment),
            "next_due_at": next_due(session),
            "due_now": due_now(session, moment),
            "heartbeats": heartbeats(session, moment),
            "settings": known(house.settings),
        }
    if as_json:
        screen.document(report)
    else:
        show(report)


# ── what there is to know ───────────────────────────────────────────────────────────────────────


def people(session: Session) -> dict[str, int]:
    """Return how many subscribers are in each state."""
    from sqlalchemy import func, select

    from digest.model import Subscriber, SubscriberState

    rows = session.execute(select(Subscriber.state, func.count().label("number")).group_by(Subscriber.state))
    found = {row.state: row.number for row in rows}
    return {state.value: found.get(state, 0) for state in SubscriberState}


def catalog(session: Session) -> dict[str, Any]:
    """Return how much the catalog holds."""
    from sqlalchemy import func, select

    from digest.model import DumpRow, PaperRow

    here = PaperRow.merged_into.is_(None)
    return {
        "papers": session.scalar(select(func.count()).where(here)),
        "dumps": session.scalar(select(func.count()).select_from(DumpRow)),
        "last_seen_at": session.scalar(select(func.max(PaperRow.first_seen_at)).where(here)),
    }


def last_dumps(session: Session) -> list[dict[str, Any]]:
    """Return the dumps read last."""
    from sqlalchemy import select

    from digest.model import DumpRow

    names = ("id", "path", "date", "state", "reason", "papers", "new", "rejected", "read_at")
    rows = session.scalars(select(DumpRow).order_by(DumpRow.id.desc()).limit(DUMPS_SHOWN))
    return [{name: getattr(row, name) for name in names} for row in rows]


def late_lists(session: Session, now: datetime) -> list[dict[str, Any]]:
    """Return the lists that have not come and usually have by this hour of this weekday."""
    from dataclasses import asdict

    from digest import catalog, expectations

    found = expectations.late(catalog.arrivals(session, until=now), now=now)
    return [asdict(one) | {"says": str(one)} for one in found]


def outbox(session: Session) -> dict[str, int]:
    """Return how many deliveries are in each state."""
    from sqlalchemy import func, select

    from digest.model import Delivery, DeliveryState

    rows = session.execute(select(Delivery.state, func.count().label("number")).group_by(Delivery.state))
    found = {row.state: row.number for row in rows}
    return {state.value: found.get(state, 0) for state in DeliveryState}


def stops(session: Session) -> list[dict[str, Any]]:
    """Return why mail is stopped, if it is."""
    from digest import rates

    return [{"covers": row.covers, "since": row.since, "said": row.said} for row in rates.stopped(session)]


def troubles(session: Session, now: datetime) -> list[dict[str, Any]]:
    """Return what is wrong, as far as the database tells: what the operator is written to about."""
    from dataclasses import asdict

    from digest import watching

    return [asdict(trouble) for trouble in watching.troubles(session, now=now)]


def not_understood(session: Session) -> int:
    """Return how much mail for us waits for a person to look at it."""
    from sqlalchemy import func, select

    from digest.model import MailIn, MailState

    return session.scalar(select(func.count()).where(MailIn.state == MailState.SHUNTED)) or 0


def paused(session: Session, now: datetime) -> dict[str, datetime]:
    """Return the domains and servers that asked us to wait, and until when."""
    from digest import rates

    return rates.standing(session, now=now)


def next_due(session: Session) -> datetime | None:
    """Return when the next digest falls due; None where nobody has been looked at yet."""
    from sqlalchemy import func, select

    from digest.model import Subscriber, SubscriberState

    return session.scalar(
        select(func.min(Subscriber.next_due_at)).where(Subscriber.state == SubscriberState.ACTIVE)
    )


def due_now(session: Session, now: datetime) -> int:
    """Return how many active subscribers are to be looked at by the next publication."""
    from sqlalchemy import func, select

    from digest.model import Subscriber, SubscriberState

    due = Subscriber.next_due_at.is_(None) | (Subscriber.next_due_at <= now)
    return session.scalar(select(func.count()).where(Subscriber.state == SubscriberState.ACTIVE, due)) or 0


def heartbeats(session: Session, now: datetime) -> list[dict[str, Any]]:
    """Return when each role last showed a sign of life."""
    from sqlalchemy import select

    from digest.model import Heartbeat

    return [
        {"role": row.role, "at": row.at, "seconds_ago": max(0, round((now - row.at).total_seconds()))}
        for row in session.scalars(select(Heartbeat).order_by(Heartbeat.role))
    ]


def known(settings: Settings) -> dict[str, Any]:
    """Return every setting in use, with nothing in it that is secret."""
    from digest import transport

    return settings.model_dump(mode="json", exclude={"secret_key", "pepper"}) | {
        "data_dir": str(settings.data_dir.absolute()),
        "dumps_dir": str(settings.dumps.absolute()),
        "database_url": masked(settings.database),
        "broker_url": masked(settings.broker),
        "mail_url": ", ".join(map(masked, transport.parted(settings.mail))),
        "secret_key": "set" if settings.secret_key else "kept in the data directory",
        "pepper": "set" if settings.pepper else "kept in the data directory",
    }


def masked(url: str) -> str:
    """Return a URL without its password, and without what a query might hold."""
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    user = f"{parts.username or ''}:***@" if parts.password is not None else ""
    if parts.username and parts.password is None:
        user = f"{parts.username}@"
    return urlunsplit((parts.scheme, user + address, parts.path, "", "")) if parts.netloc else url


# ── shown ───────────────────────────────────────────────────────────────────────────────────────


def show(report: dict[str, Any]) -> None:
    """Show a report to a person."""
    catalog, settings = report["catalog"], report["settings"]
    screen.facts(
        [
            ("Subscribers", named(report["subscribers"])),
            (
                "Catalog",
                f"{screen.count(catalog['papers'], 'paper')} from {screen.count(catalog['dumps'], 'dump')}",
            ),
            *([("Late", [one["says"] for one in report["late"]])] if report["late"] else []),
            ("Outbox", named(report["outbox"])),
            *[("Stopped", in_words(stop)) for stop in report["stops"]],
            *wrong([trouble for trouble in report["troubles"] if not is_told(trouble)]),
            *[
                ("Waits", f"{name} until {until:%Y-%m-%d %H:%M} UTC")
                for name, until in report["paused"].items()
            ],
            *shunted(report["not_understood"]),
            ("Due now", screen.count(report["due_now"], "subscriber")),
            ("Next due", report["next_due_at"]),
            ("Roles", [alive(beat) for beat in report["heartbeats"]] or "none has shown a sign of life"),
            ("Page", settings["base_url"]),
            ("Database", settings["database_url"]),
            ("Broker", settings["broker_url"]),
            ("Mail", settings["mail_url"]),
            ("Dumps", settings["dumps_dir"]),
        ]
    )
    if report["dumps"]:
        screen.tell()
        screen.table(
            ("dump#", "read", "file", "state", "papers#", "new#", "rejected#"),
            (
                (
                    d["id"],
                    d["read_at"],
                    Path(d["path"]).name,
                    d["state"],
                    d["papers"],
                    d["new"],
                    d["rejected"],
                )
                for d in report["dumps"]
            ),
            give=["file"],
        )


def named(figures: dict[str, int]) -> str:
    """Return `3 active, 1 pending`."""
    return ", ".join(f"{number:,} {name}" for name, number in figures.items() if number) or "none"


def shunted(number: int) -> list[tuple[str, str]]:
    """Return a line about mail that was not understood, if there is any."""
    kept = screen.count(number, "mail was", "mails were")
    return [("Inbox", f"{kept} not understood; see digest inbox list")] if number else []


def in_words(stop: dict[str, Any]) -> str:
    """Return what is stopped since when, why, and how it goes on."""
    what = "all mail" if stop["covers"] == "all" else "digests"
    return f"{what} since {stop['since']:%Y-%m-%d %H:%M} UTC: {stop['said']}; go on with: digest deliveries resume"


def is_told(trouble: dict[str, Any]) -> bool:
    """Return whether a trouble has a line of its own: stops and late lists do."""
    return bool(trouble["cause"].startswith(("stop-", "late-lists")))


def wrong(troubles: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return a line for each trouble, and one that says where to read how it is mended."""
    told = [
        (
            "Wrong",
            trouble["wrong"] + (f" since {trouble['since']:%Y-%m-%d %H:%M} UTC" if trouble["since"] else ""),
        )
        for trouble in troubles
    ]
    return [*told, ("", "How to mend it: digest doctor")] if told else []


def alive(beat: dict[str, Any]) -> str:
    """Return how long ago a role showed a sign of life."""
    return f"{beat['role']} {ago(beat['seconds_ago'])} ago"


def ago(seconds: int) -> str:
    """Return a time span in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
