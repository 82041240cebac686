"""Where a provider posts what became of letters (`DIGEST_SNS_TOPICS`): Amazon's SNS, for SES.

It is answered with 200 once its notice is kept, with 403 if it is not believed, and with 503, upon which
it tries again, where Amazon's certificate could not be had.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from digest import __version__, inbox
from digest.house import House
from digest.inbox.notices import NotBelieved, Posted
from digest.sources.fetching import Failed, Fetcher, Resolve, addresses_of
from digest.web import house

log = logging.getLogger(__name__)

MOST_BYTES = 64 * 1024  #: of a certificate, or of the answer to a confirmation
SECONDS = 10.0  #: in which Amazon must answer
MOST_FETCHES = 6  #: a minute: whoever posts nonsense shall not make us ask Amazon for it
MINUTE = timedelta(minutes=1)
MOST_KEPT = 8  #: certificates

Fetch = Callable[[str], bytes]


class Busy(Exception):
    """Amazon could not be asked, or too often was."""


@dataclass(kw_only=True)
class Certificates:
    """Amazon's certificates, each fetched once."""

    fetch: Fetch
    kept: dict[str, bytes] = field(default_factory=dict)
    asked: list[datetime] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def at(self, url: str, now: datetime) -> bytes:
        """Return the certificate at an address that was checked; raise Busy where it cannot be had."""
        with self.lock:
            if url not in self.kept:
                self.asked = [moment for moment in self.asked if now - moment < MINUTE]
                if len(self.asked) >= MOST_FETCHES:
                    raise Busy("too many certificates were asked for")
                self.asked.append(now)
                found = self.fetch(url)
                self.kept = dict([*self.kept.items(), (url, found)][-MOST_KEPT:])
            return self.kept[url]


def fetcher(
    ours: House,
    *,
    trust: ssl.SSLContext | None = None,
    loopback: bool = False,
    resolve: Resolve = addresses_of,
) -> Fetch:
    """Return what gets a document from Amazon: over https, from public addresses, following nobody elsewhere."""
    agent = f"paper-digest/{__version__} (+{ours.site.url}; {ours.site.sender_address})"
    way = Fetcher(agent=agent, trust=trust, loopback=loopback, resolve=resolve)

    def fetch(url: str) -> bytes:
        try:
            with way.response(url, {}, monotonic() + SECONDS) as answer:
                content = b""
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > MOST_BYTES:
                        raise Busy("it has no end")
        except Failed as error:
            raise Busy(str(error)) from error
        if answer.status_code != 200:
            raise Busy(f"it answered {answer.status_code}")
        return content

    return fetch


async def take(request: Request) -> Response:
    """Take in what SNS posts."""
    if not house.of(request).settings.sns_topic_arns:
        raise HTTPException(404)
    return await run_in_threadpool(taken, request, await request.body())


def taken(request: Request, body: bytes) -> Response:
    """Check a message, do what it asks, and answer."""
    ours, certificates = house.of(request), request.app.state.certificates
    now = ours.clock()
    try:
        posted = inbox.notices.checked(
            body,
            topics=ours.settings.sns_topic_arns,
            certificate=lambda url: certificates.at(url, now),
            now=now,
        )
        done(ours, certificates.fetch, posted, now)
    except NotBelieved as error:
        log.warning("a notice was turned away: %s", error)
        return PlainTextResponse(f"{error}\n", 403)
    except Busy as error:
        log.warning("a notice has to wait: Amazon did not answer (%s)", error)
        return PlainTextResponse("try again later\n", 503)
    return PlainTextResponse("ok\n")


def done(ours: House, fetch: Fetch, posted: Posted, now: datetime) -> None:
    """Confirm a subscription, or keep a notice and look at it."""
    match posted.kind:
        case "SubscriptionConfirmation":
            fetch(inbox.notices.confirmation_url(posted))
            log.info("the topic %s is subscribed to", posted.topic)
        case "UnsubscribeConfirmation":
            log.warning(
                "the topic %s will tell us nothing more: somebody has ended the subscription", posted.topic
            )
        case _:
            keep(ours, posted, now)


def keep(ours: House, posted: Posted, now: datetime) -> None:
    """Keep a notice, and only then look at it: what goes wrong with that is seen to by the next tick."""
    with ours.writing() as session:
        numbers = inbox.notices.take_in(session, posted, now=now)
    try:
        with ours.writing() as session:
            for number in numbers:
                inbox.look(session, site=ours.site, number=number, now=now)
    except Exception:
        log.exception("notices %s have to wait", numbers)
