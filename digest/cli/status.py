"""`digest status`: counts, processes, servers, disks and problems."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from digest.cli import command_context, terminal
from digest.cli.common_options import AsJson, Now, current_time
from digest.errors import DigestError, SetupMismatch

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.monitoring.problems import Problem
    from digest.settings import Settings

DUMPS_SHOWN = 5
FACTS = 3  #: shown of each problem; the alarm letter has them all


def status(now: Now = None, as_json: AsJson = False) -> None:
    """Show service status: subscribers, papers, mail, processes, servers, disks.

    Exits with 1 if a process or a server is down, mail is stopped or stuck, or a disk is full.
    """
    from digest.monitoring import problems

    moment, settings = current_time(now), command_context.read_settings()
    figures, found = figures_and_problems(settings, moment)
    report = {"now": moment, "is_well": not any(map(problems.stops_work, found)), **figures}
    report |= {
        "problems": [asdict(problem) for problem in found],
        "disks": space(settings),
        "settings": settings_report(settings),
    }
    if as_json:
        terminal.print_json(report)
    else:
        show(report)
    if not report["is_well"]:
        raise typer.Exit(1)


def figures_and_problems(settings: Settings, now: datetime) -> tuple[dict[str, Any], list[Problem]]:
    """Return the figures and the problems; no figures if the database cannot be used."""
    from digest.monitoring import problems, readiness

    outside = [*readiness.check_servers(settings), *readiness.check_disks(settings)]
    try:
        with command_context.open_context() as context, context.read_session() as session:
            return database_figures(session, now), [*problems.find_problems(session, now=now), *outside]
    except SetupMismatch as error:
        return {}, [readiness.schema_problem(str(error)), *outside]
    except (DigestError, OSError) as error:
        return {}, [readiness.database_problem(error), *outside]


# ── figures ─────────────────────────────────────────────────────────────────────────────────────


def database_figures(session: Session, now: datetime) -> dict[str, Any]:
    """Return all figures that come from the database."""
    return {
        "subscribers": subscriber_counts(session),
        "catalog": catalog_figures(session),
        "dumps": last_dumps(session),
        "late": late_lists(session, now),
        "outbox": delivery_counts(session),
        "stops": active_stops_report(session),
        "unprocessed_mail": count_unprocessed_mail(session),
        "paused": paused_destinations(session, now),
        "next_due_at": next_due(session),
        "due_now": due_now(session, now),
        "heartbeats": heartbeats(session, now),
    }


def subscriber_counts(session: Session) -> dict[str, int]:
    """Return how many subscribers are in each state."""
    from sqlalchemy import func, select

    from digest.db.tables import Subscriber, SubscriberState

    rows = session.execute(select(Subscriber.state, func.count().label("number")).group_by(Subscriber.state))
    found = {row.state: row.number for row in rows}
    return {state.value: found.get(state, 0) for state in SubscriberState}


def catalog_figures(session: Session) -> dict[str, Any]:
    """Return the size of the catalog."""
    from sqlalchemy import func, select

    from digest.db.tables import DumpRow, PaperRow

    is_current = PaperRow.merged_into.is_(None)
    return {
        "papers": session.scalar(select(func.count()).where(is_current)),
        "dumps": session.scalar(select(func.count()).select_from(DumpRow)),
        "last_seen_at": session.scalar(select(func.max(PaperRow.first_seen_at)).where(is_current)),
    }


def last_dumps(session: Session) -> list[dict[str, Any]]:
    """Return the last dumps."""
    from sqlalchemy import select

    from digest.db.tables import DumpRow

    names = ("id", "path", "date", "state", "reason", "papers", "new", "rejected", "read_at")
    rows = session.scalars(select(DumpRow).order_by(DumpRow.id.desc()).limit(DUMPS_SHOWN))
    return [{name: getattr(row, name) for name in names} for row in rows]


def late_lists(session: Session, now: datetime) -> list[dict[str, Any]]:
    """Return the dumps that are late: on this weekday they have usually come by this hour."""
    from digest.papers import catalog, expected_arrivals

    found = expected_arrivals.late_lists(catalog.arrivals(session, until=now), now=now)
    return [asdict(one) | {"message": str(one)} for one in found]


def delivery_counts(session: Session) -> dict[str, int]:
    """Return how many deliveries are in each state."""
    from sqlalchemy import func, select

    from digest.db.tables import Delivery, DeliveryState

    rows = session.execute(select(Delivery.state, func.count().label("number")).group_by(Delivery.state))
    found = {row.state: row.number for row in rows}
    return {state.value: found.get(state, 0) for state in DeliveryState}


def active_stops_report(session: Session) -> list[dict[str, Any]]:
    """Return the active stops of mail."""
    from digest.delivery import limits

    return [
        {"scope": row.scope, "since": row.since, "reason": row.reason} for row in limits.active_stops(session)
    ]


def count_unprocessed_mail(session: Session) -> int:
    """Return how many incoming messages need a person."""
    from sqlalchemy import func, select

    from digest.db.tables import InboundMail, MailState

    return session.scalar(select(func.count()).where(InboundMail.state == MailState.SHUNTED)) or 0


def paused_destinations(session: Session, now: datetime) -> dict[str, datetime]:
    """Return the domains and servers that asked us to slow down, and until when sending is paused."""
    from digest.delivery import limits

    return limits.active_pauses(session, now=now)


def next_due(session: Session) -> datetime | None:
    """Return when the next digest is due; None before the first publication."""
    from sqlalchemy import func, select

    from digest.db.tables import Subscriber, SubscriberState

    return session.scalar(
        select(func.min(Subscriber.next_due_at)).where(Subscriber.state == SubscriberState.ACTIVE)
    )


def due_now(session: Session, now: datetime) -> int:
    """Return how many active subscribers are due at the next publication."""
    from sqlalchemy import func, select

    from digest.db.tables import Subscriber, SubscriberState

    due = Subscriber.next_due_at.is_(None) | (Subscriber.next_due_at <= now)
    return session.scalar(select(func.count()).where(Subscriber.state == SubscriberState.ACTIVE, due)) or 0


def heartbeats(session: Session, now: datetime) -> list[dict[str, Any]]:
    """Return the last heartbeat of each process."""
    from digest import heartbeats

    return [
        {
            "role": one.role,
            "host": one.host,
            "pid": one.pid,
            "at": one.at,
            "seconds_ago": max(0, round((now - one.at).total_seconds())),
            "is_alive": not one.is_silent(now),
        }
        for one in heartbeats.list_processes(session)
    ]


def space(settings: Settings) -> list[dict[str, Any]]:
    """Return the free space on the disks that are written to."""
    from digest.monitoring import readiness

    return [
        {
            "folder": str(disk.folder),
            "free": disk.free,
            "size": disk.size,
            "is_low": disk.is_low,
            "message": str(disk),
        }
        for disk in readiness.writable_disks(settings)
    ]


def settings_report(settings: Settings) -> dict[str, Any]:
    """Return every setting without secrets."""
    from digest.delivery import transports

    return settings.model_dump(mode="json", exclude={"secret_key", "pepper"}) | {
        "data_dir": str(settings.data_dir.absolute()),
        "dumps_dir": str(settings.dumps.absolute()),
        "database_url": mask_url(settings.database),
        "broker_url": mask_url(settings.broker),
        "mail_url": ", ".join(map(mask_url, transports.split_urls(settings.mail))),
        "secret_key": "set" if settings.secret_key else "kept in the data directory",
        "pepper": "set" if settings.pepper else "kept in the data directory",
    }


def mask_url(url: str) -> str:
    """Return a URL without its password and its query."""
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    user = f"{parts.username or ''}:***@" if parts.password is not None else ""
    if parts.username and parts.password is None:
        user = f"{parts.username}@"
    return urlunsplit((parts.scheme, user + address, parts.path, "", "")) if parts.netloc else url


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def show(report: dict[str, Any]) -> None:
    """Print a report; without the database only the lines that need none."""
    settings = report["settings"]
    terminal.print_facts(
        [
            *(counts(report) if "catalog" in report else []),
            *problem_lines([problem for problem in report["problems"] if not has_own_line(problem)]),
            *(work(report) if "catalog" in report else []),
            *[("Disk", disk["message"]) for disk in report["disks"]],
            ("Web", settings["base_url"]),
            ("Database", settings["database_url"]),
            ("Broker", settings["broker_url"]),
            ("Mail", settings["mail_url"]),
            ("Dumps", settings["dumps_dir"]),
        ]
    )
    if report.get("dumps"):
        show_dumps(report["dumps"])


def counts(report: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the lines about subscribers, papers and mail."""
    catalog = report["catalog"]
    papers, dumps = terminal.count(catalog["papers"], "paper"), terminal.count(catalog["dumps"], "dump")
    return [
        ("Subscribers", counts_in_words(report["subscribers"])),
        ("Catalog", f"{papers} from {dumps}"),
        *([("Late", [one["message"] for one in report["late"]])] if report["late"] else []),
        ("Outbox", counts_in_words(report["outbox"])),
        *[("Stopped", stop_in_words(stop)) for stop in report["stops"]],
    ]


def work(report: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the lines about pauses, the inbox, what is due and the processes."""
    return [
        *[("Paused", f"{name} until {until:%Y-%m-%d %H:%M} UTC") for name, until in report["paused"].items()],
        *inbox_line(report["unprocessed_mail"]),
        ("Due now", terminal.count(report["due_now"], "subscriber")),
        ("Next due", report["next_due_at"]),
        ("Processes", [heartbeat_in_words(beat) for beat in report["heartbeats"]] or "none is running"),
    ]


def show_dumps(dumps: list[dict[str, Any]]) -> None:
    """Print the last dumps."""
    names = ("state", "papers", "new", "rejected")
    rows = ((d["id"], d["read_at"], Path(d["path"]).name, *(d[name] for name in names)) for d in dumps)
    terminal.print_line()
    terminal.print_table(
        ("dump#", "read", "file", "state", "papers#", "new#", "rejected#"), rows, shrinkable=["file"]
    )


def counts_in_words(figures: dict[str, int]) -> str:
    """Return `3 active, 1 pending`."""
    return ", ".join(f"{number:,} {name}" for name, number in figures.items() if number) or "none"


def inbox_line(number: int) -> list[tuple[str, str]]:
    """Return a line about incoming mail that needs a person, if there is any."""
    messages = terminal.count(number, "message was", "messages were")
    return [("Inbox", f"{messages} not understood; see digest inbox list")] if number else []


def stop_in_words(stop: dict[str, Any]) -> str:
    """Return what is stopped, since when, why, and how to resume."""
    what = "all mail" if stop["scope"] == "all" else "digests"
    return f"{what} since {stop['since']:%Y-%m-%d %H:%M} UTC: {stop['reason']}; to resume: digest deliveries resume"


def has_own_line(problem: dict[str, Any]) -> bool:
    """Return whether a problem has its own line: stops and late dumps do."""
    return bool(problem["cause"].startswith(("stop-", "late-lists")))


def problem_lines(problems: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return a line for each problem, and one that says how to fix them."""
    lines = [("Warning" if one["is_warning"] else "Problem", problem_in_words(one)) for one in problems]
    return [*lines, ("", "To fix: run digest doctor")] if lines else []


def problem_in_words(problem: dict[str, Any]) -> str:
    """Return what is wrong, since when, and the first facts."""
    since = f" since {problem['since']:%Y-%m-%d %H:%M} UTC" if problem["since"] else ""
    facts = "; ".join(problem["facts"][:FACTS])
    return f"{problem['message']}{since}" + (f" ({facts})" if facts else "")


def heartbeat_in_words(heartbeat: dict[str, Any]) -> str:
    """Return a process and the age of its last heartbeat."""
    return f"{heartbeat['role']} {heartbeat['pid']} on {heartbeat['host']} {format_age(heartbeat['seconds_ago'])} ago"


def format_age(seconds: int) -> str:
    """Return a time span in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
