"""Figures for Prometheus, in its text format: counts and moments, never an address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from digest import __version__, db, watching
from digest.house import House
from digest.watching import Figures
from digest.web import house

TYPE = "text/plain; version=0.0.4; charset=utf-8"
REMEMBERED = 15  #: seconds for which the same figures are told: counting a large outbox is not free

Samples = Mapping[str, float]


def show(request: Request) -> PlainTextResponse:
    """Tell the figures to who asks from this machine or a private network, past every proxy."""
    if not is_neighbour(request):
        raise HTTPException(404)
    ours = house.of(request)
    now = ours.clock()
    found = ours.memory.once("figures", int(now.timestamp()) // REMEMBERED, lambda: counted(ours, now))
    return PlainTextResponse("".join(f"{line}\n" for line in exposition(found, now)), media_type=TYPE)


def is_neighbour(request: Request) -> bool:
    """Return whether a request came straight from a private address. What came through a proxy did not."""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    try:
        asking = ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    asking = (
        getattr(asking, "ipv4_mapped", None) or asking
    )  # ::ffff:9.9.9.9, where one socket listens to both
    return asking.is_loopback or asking.is_private


def counted(ours: House, now: datetime) -> Figures:
    """Count."""
    with db.reading(ours.engine) as session:
        return watching.figures(session, now=now)


def exposition(figures: Figures, now: datetime) -> Iterator[str]:
    """Yield the lines of the text format."""
    yield from gauge("digest_build_info", "Which version this is.", "version", {__version__: 1})
    yield from gauge("digest_deliveries", "Letters, by state.", "state", figures.deliveries)
    yield from gauge("digest_subscribers", "Subscribers, by state.", "state", figures.subscribers)
    yield from gauge("digest_waiting", "Letters that are due now, by lane.", "lane", figures.waiting)
    late = {lane: age(now, since) for lane, since in figures.waiting_since.items()}
    waiting = {lane: late.get(lane, 0.0) for lane in figures.waiting}
    yield from gauge("digest_waiting_seconds", "How long the oldest of them is overdue.", "lane", waiting)
    yield from gauge(
        "digest_bounces_day", "What came back in the last 24 hours, by kind.", "kind", figures.bounces
    )
    yield from gauge(
        "digest_suppressions", "Addresses not written to, by reason.", "reason", figures.suppressions
    )
    yield from gauge(
        "digest_stops", "Stops of the mail that stand, by what they cover.", "covers", figures.stops
    )
    yield from gauge("digest_mail_in", "Mail for us that is kept, by state.", "state", figures.mail_in)
    yield from gauge("digest_papers", "Papers in the catalog.", "", {"": figures.papers})
    beats = {role: age(now, at) for role, at in figures.heartbeats.items()}
    yield from gauge("digest_heartbeat_age_seconds", "Since the last sign of life, by role.", "role", beats)
    if figures.last_dump_at:
        aged = {"": age(now, figures.last_dump_at)}
        yield from gauge("digest_last_dump_age_seconds", "Since a dump was read.", "", aged)


def gauge(name: str, says: str, label: str, samples: Samples) -> Iterator[str]:
    """Yield one family of samples."""
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} gauge"
    for value, number in samples.items():
        labels = f'{{{label}="{escaped(value)}"}}' if label else ""
        yield f"{name}{labels} {number:g}" if number != int(number) else f"{name}{labels} {int(number)}"


def escaped(value: str) -> str:
    """Return a label's value as the format wants it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def age(now: datetime, moment: datetime) -> float:
    """Return how many seconds ago that was."""
    return max(0.0, round((now - moment).total_seconds(), 1))
