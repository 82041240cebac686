"""Receive SES delivery notices posted by Amazon SNS (`DIGEST_SNS_TOPICS`).

The response is 200 once a notice is stored and 403 if the notice is not valid. It is 503 if Amazon's
certificate could not be fetched; SNS then sends the notice again.
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

from digest import __version__
from digest.app_context import AppContext
from digest.bounces.ses_notices import SnsMessage, UntrustedNotice, confirmation_url, verify_message
from digest.dumps.sources.http_fetch import Fetcher, FetchFailed, Resolve, addresses_of
from digest.inbound import classification, stored_mail
from digest.web import visits

log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024  #: maximum number of bytes in a certificate, and in the response to a confirmation
TIMEOUT_SECONDS = 10.0  #: time limit in seconds for a request to Amazon
MAX_FETCHES = 6  #: maximum number of fetches per minute, so that forged notices cause few requests to Amazon
MINUTE = timedelta(minutes=1)
MAX_KEPT = 8  #: maximum number of certificates in the cache

Fetch = Callable[[str], bytes]


class CertificateUnavailable(Exception):
    """A document could not be fetched from Amazon, or the limit on fetches per minute was reached."""


@dataclass(kw_only=True)
class CertificateCache:
    """The certificates of Amazon, each fetched only once."""

    fetch: Fetch
    kept: dict[str, bytes] = field(default_factory=dict)
    fetched_at: list[datetime] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def get(self, url: str, now: datetime) -> bytes:
        """Return the certificate at a checked URL.

        Raises CertificateUnavailable if it cannot be fetched, or if too many were fetched in the last minute.
        """
        with self.lock:
            if url not in self.kept:
                self.fetched_at = [moment for moment in self.fetched_at if now - moment < MINUTE]
                if len(self.fetched_at) >= MAX_FETCHES:
                    raise CertificateUnavailable("too many certificates were requested")
                self.fetched_at.append(now)
                found = self.fetch(url)
                self.kept = dict([*self.kept.items(), (url, found)][-MAX_KEPT:])
            return self.kept[url]


def make_fetch(
    context: AppContext,
    *,
    trust: ssl.SSLContext | None = None,
    loopback: bool = False,
    resolve: Resolve = addresses_of,
) -> Fetch:
    """Return a function that fetches a document from Amazon: https only, public addresses only, no redirects."""
    agent = f"paper-digest/{__version__} (+{context.site.url}; {context.site.sender_address})"
    fetcher = Fetcher(agent=agent, trust=trust, loopback=loopback, resolve=resolve)

    def fetch(url: str) -> bytes:
        try:
            with fetcher.response(url, {}, monotonic() + TIMEOUT_SECONDS) as answer:
                content = b""
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > MAX_BYTES:
                        raise CertificateUnavailable("the document is too large")
        except FetchFailed as error:
            raise CertificateUnavailable(str(error)) from error
        if answer.status_code != 200:
            raise CertificateUnavailable(f"the server returned {answer.status_code}")
        return content

    return fetch


async def receive_notice(request: Request) -> Response:
    """Handle a message from SNS; respond with 404 if no topics are configured."""
    if not visits.context_of(request).settings.sns_topics:
        raise HTTPException(404)
    return await run_in_threadpool(handle_notice, request, await request.body())


def handle_notice(request: Request, body: bytes) -> Response:
    """Verify a message, act on it, and return the response."""
    context, certificates = visits.context_of(request), request.app.state.certificates
    now = context.clock()
    try:
        posted = verify_message(
            body,
            topics=context.settings.sns_topics,
            certificate=lambda url: certificates.get(url, now),
            now=now,
        )
        apply_message(context, certificates.fetch, posted, now)
    except UntrustedNotice as error:
        log.warning("a provider notice was refused: %s", error)
        return PlainTextResponse(f"{error}\n", 403)
    except CertificateUnavailable as error:
        log.warning("a provider notice cannot be verified yet: no certificate from Amazon (%s)", error)
        return PlainTextResponse("try again later\n", 503)
    return PlainTextResponse("ok\n")


def apply_message(context: AppContext, fetch: Fetch, message: SnsMessage, now: datetime) -> None:
    """Confirm the subscription to a topic, or store and process a notice."""
    match message.kind:
        case "SubscriptionConfirmation":
            fetch(confirmation_url(message))
            log.info("subscribed to the topic %s", message.topic)
        case "UnsubscribeConfirmation":
            log.warning(
                "the subscription to the topic %s was ended; no more notices will come from it", message.topic
            )
        case _:
            store_and_process(context, message, now)


def store_and_process(context: AppContext, message: SnsMessage, now: datetime) -> None:
    """Store a notice, then process it; if processing fails, the scheduler processes it later."""
    with context.write_session() as session:
        numbers = stored_mail.store_notice(
            session, notice_id=message.id, topic=message.topic, content=message.message, now=now
        )
    try:
        with context.write_session() as session:
            for number in numbers:
                classification.process_mail(session, site=context.site, number=number, now=now)
    except Exception:
        log.exception("notices %s could not be processed; the scheduler tries again", numbers)
