"""The inbound door: mail for us, taken in over LMTP or SMTP (`DIGEST_INBOUND`).

We say yes only once the mail is in the database. What it says is looked at after that, and whatever
it says changes nothing about the yes.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from digest import inbox, watching
from digest.errors import BadField
from digest.house import House

log = logging.getLogger(__name__)

MOST_BYTES = 2 * 1024 * 1024  #: of one mail; a report quotes a letter of ours at most
MOST_RECIPIENTS = 20
PATIENCE = 60  #: seconds in which somebody connected must say something
TICK = 30  #: seconds between two signs of life


class Handler:
    """What the mail protocol asks of us."""

    def __init__(self, house: House, *, is_lmtp: bool):
        self.house = house
        self.is_lmtp = is_lmtp

    async def handle_RCPT(  # noqa: N802  (aiosmtpd's name)
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take mail for addresses of ours alone: an invented one is refused at once."""
        del server, session, options
        if not inbox.is_for_us(self.house.site, address):
            return "550 5.1.1 nobody of that name"
        if len(envelope.rcpt_tos) >= MOST_RECIPIENTS:
            return "452 4.5.3 too many recipients"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 yes"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Keep the mail, say yes, and only then look at it."""
        del server, session
        recipients = [str(address) for address in envelope.rcpt_tos]
        content = envelope.original_content or b""
        sender = keepable((envelope.mail_from or "").strip("<>"))  # who sends reports gives none: `<>` here
        try:
            reply = await asyncio.to_thread(self.take, sender, recipients, content)
        except Exception:
            log.exception("a mail could not be kept; its sender will try again")
            reply = "451 4.3.0 try again later"
        return "\r\n".join([reply] * (len(recipients) if self.is_lmtp else 1))

    def take(self, sender: str, recipients: list[str], content: bytes) -> str:
        """Keep a mail, then look at it."""
        now = self.house.clock()
        with self.house.writing() as session:
            numbers = inbox.keep(session, sender=sender, recipients=recipients, content=content, now=now)
        try:
            with self.house.writing() as session:
                for number in numbers:
                    inbox.look(
                        session,
                        site=self.house.site,
                        number=number,
                        may_sign_up=self.house.settings.may_sign_up,
                        now=now,
                    )
        except Exception:  # it is kept: the next tick looks again
            log.exception("mails %s have to wait", numbers)
        return "250 2.0.0 kept"


def keepable(sender: str) -> str:
    """Return a sender as every database keeps it: some servers put Latin-1 there, and a few put anything."""
    return sender.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")


class Patient(SMTP):
    """Takes lines as long as they come: a report that is refused for them is lost, and never sent again."""

    line_length_limit = MOST_BYTES


class PatientLocally(Patient, LMTP):
    """The same behind a mail server of ours."""


def protocol(house: House, *, is_lmtp: bool) -> SMTP:
    """Return what speaks with one client."""
    speaker = PatientLocally if is_lmtp else Patient
    return speaker(
        Handler(house, is_lmtp=is_lmtp),
        data_size_limit=MOST_BYTES,
        enable_SMTPUTF8=True,
        hostname=house.site.inbound_domain,
        ident="Digest",
        timeout=PATIENCE,
        loop=asyncio.get_running_loop(),
    )


async def listen(house: House, url: str) -> asyncio.Server:
    """Open one door, or raise BadField."""
    try:
        return await opened(house, url)
    except OSError as error:
        raise BadField("DIGEST_INBOUND", f"no mail can be taken in at {url}: {error.strerror}.") from error


async def opened(house: House, url: str) -> asyncio.Server:
    """Do so; in place of a socket that was left behind, and of nothing else."""
    parts = urlsplit(url)
    speaking: Callable[[], SMTP] = partial(protocol, house, is_lmtp=parts.scheme == "lmtp")
    loop = asyncio.get_running_loop()
    if parts.hostname:
        return await loop.create_server(speaking, parts.hostname, parts.port)
    path = unquote(parts.path)
    server = await loop.create_unix_server(speaking, path)
    Path(path).chmod(0o666)  # the mail server is somebody else; who may come to it, its folder says
    return server


async def tick(house: House) -> None:
    """Leave a sign of life, and look at what a crash has left behind."""
    while True:
        try:
            await asyncio.to_thread(look_around, house, house.clock())
        except Exception:
            log.exception("the inbox has to wait")
        await asyncio.sleep(TICK)


def look_around(house: House, now: datetime) -> None:
    """Do what a tick does."""
    with house.writing() as session:
        watching.beat(session, "inbound", now)
        inbox.look_through(session, site=house.site, may_sign_up=house.settings.may_sign_up, now=now)
        inbox.prune(session, now=now)


async def listen_until(house: House, urls: tuple[str, ...], stop: asyncio.Event) -> None:
    """Take mail in until told to stop."""
    servers = [await listen(house, url) for url in urls]
    if servers:
        log.info("mail for %s is taken in at %s", house.site.inbound_domain, ", ".join(urls))
    else:
        log.warning("DIGEST_INBOUND is not set: no mail is taken in")
    ticking = asyncio.create_task(tick(house)) if servers else None
    await stop.wait()
    for server in servers:
        server.close()
    if ticking is not None:
        ticking.cancel()


async def run_until_told(house: House) -> None:
    """Run until a signal says stop."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await listen_until(house, house.settings.inbound_urls, stop)


def serve(house: House) -> None:
    """Serve the door until told to stop."""
    asyncio.run(run_until_told(house))
