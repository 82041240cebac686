"""Serve metrics in Prometheus's text format: counts and ages, never addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from digest import __version__
from digest.db.tables.deliveries import Lane
from digest.delivery.limits import decisions
from digest.monitoring.figures import Figures
from digest.monitoring.probes import Disk
from digest.process.heartbeats import ProcessRecord
from digest.web import health
from digest.web.visitor_network import is_forwarded, is_host_local
from digest.web.visits import Visit

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Samples = Mapping[str, float]


def show_metrics(visit: Visit) -> PlainTextResponse:
    """Return the metrics to clients on this machine or a private network.

    Requests from other networks, or through a proxy, are answered with 404.
    """
    if not is_from_private_network(visit.request):
        raise HTTPException(404)
    report = health.latest_report(visit.context)
    if report.figures is None:
        raise HTTPException(503)
    lines = [*exposition(report.figures, report.now), *disk_space(report.disks)]
    return PlainTextResponse("".join(f"{line}\n" for line in lines), media_type=CONTENT_TYPE)


def is_from_private_network(request: Request) -> bool:
    """Return whether a request came from a private address, or from this machine by its name, and passed no proxy."""
    if is_forwarded(request.headers):
        return False
    try:
        client = ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    # a socket that accepts both IPv4 and IPv6 reports an IPv4 client as ::ffff:9.9.9.9
    client = getattr(client, "ipv4_mapped", None) or client
    if client.is_loopback:
        return is_host_local(request.headers.getlist("host"))
    return client.is_private


def exposition(figures: Figures, now: datetime) -> Iterator[str]:
    """Yield the figures as lines of Prometheus's text format."""
    yield from gauge_lines("digest_build_info", "The version.", "version", {__version__: 1})
    yield from gauge_lines("digest_deliveries", "Deliveries, by state.", "state", figures.deliveries)
    yield from gauge_lines(
        "digest_in_doubt", "Deliveries with an attempt whose outcome is unknown.", "", {"": figures.in_doubt}
    )
    yield from gauge_lines("digest_subscribers", "Subscribers, by state.", "state", figures.subscribers)
    work = {each.kind: each for each in figures.work}
    counts = {lane.value: work[lane].count if lane in work else 0 for lane in Lane}
    yield from gauge_lines("digest_waiting", "Deliveries that are due now, by lane.", "lane", counts)
    waiting = {lane.value: seconds_since(now, work[lane].since) if lane in work else 0.0 for lane in Lane}
    yield from gauge_lines(
        "digest_waiting_seconds", "How long the oldest due delivery has been overdue.", "lane", waiting
    )
    refused = {"": seconds_since(now, figures.silence.since) if figures.silence else 0.0}
    yield from gauge_lines(
        "digest_mail_refused_seconds", "How long no mail server has taken the waiting letters.", "", refused
    )
    yield from gauge_lines(
        "digest_bounces_day", "Bounces and complaints in the last 24 hours, by kind.", "kind", figures.bounces
    )
    yield from gauge_lines(
        "digest_suppressions", "Suppressed addresses, by reason.", "reason", figures.suppressions
    )
    stopped = [stop.scope for stop in figures.stops]
    stops = {scope: stopped.count(scope) for scope in (decisions.ALL, decisions.BULK)}
    yield from gauge_lines("digest_stops", "Emergency stops in force, by scope.", "scope", stops)
    yield from gauge_lines("digest_mail_in", "Stored incoming mail, by state.", "state", figures.mail_in)
    yield from gauge_lines("digest_papers", "Papers in the catalog.", "", {"": figures.papers})
    yield from heartbeat_ages(figures.processes, now)
    if figures.last_dump_at:
        aged = {"": seconds_since(now, figures.last_dump_at)}
        yield from gauge_lines("digest_last_dump_age_seconds", "Seconds since a dump was read.", "", aged)


def heartbeat_ages(processes: Iterable[ProcessRecord], now: datetime) -> Iterator[str]:
    """Yield the time since each process's last heartbeat."""
    yield "# HELP digest_heartbeat_age_seconds Seconds since the last heartbeat, by process."
    yield "# TYPE digest_heartbeat_age_seconds gauge"
    for one in processes:
        labels = f'role="{escape_label(one.role)}",host="{escape_label(one.host)}",pid="{one.pid}"'
        yield f"digest_heartbeat_age_seconds{{{labels}}} {seconds_since(now, one.at):g}"


def disk_space(disks: Sequence[Disk]) -> Iterator[str]:
    """Yield the free space and the size of every disk to which the service writes."""
    free = {str(disk.folder): disk.free for disk in disks}
    sizes = {str(disk.folder): disk.size for disk in disks}
    yield from gauge_lines("digest_disk_free_bytes", "Free disk space, by folder.", "folder", free)
    yield from gauge_lines("digest_disk_size_bytes", "Disk size, by folder.", "folder", sizes)


def gauge_lines(name: str, help_text: str, label: str, samples: Samples) -> Iterator[str]:
    """Yield the lines of one gauge: its help text, type and samples."""
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} gauge"
    for value, number in samples.items():
        labels = f'{{{label}="{escape_label(value)}"}}' if label else ""
        yield f"{name}{labels} {number:g}" if number != int(number) else f"{name}{labels} {int(number)}"


def escape_label(value: str) -> str:
    """Return the value of a label, escaped for the text format."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def seconds_since(now: datetime, moment: datetime) -> float:
    """Return the seconds from `moment` to `now`, or 0 if `moment` is later."""
    return max(0.0, round((now - moment).total_seconds(), 1))
