"""Receive mail from the mail server in front of this service (`DIGEST_INBOUND`): LMTP, or SMTP on this machine.

A message is accepted once it is stored in the database. It is processed afterwards, and an error in
processing does not affect the reply to the client. Only a few messages are in memory at a time. The others
wait, or get a temporary error, after which a mail server sends them again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import unquote, urlsplit

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session, syntax

from digest.app_context import AppContext
from digest.errors import BadField
from digest.inbound import classification, mail_text, stored_mail, writer_checks
from digest.inbound.mail_rules import no_lookup, rules_of
from digest.inbound.mail_text import ReceivedMail
from digest.letters.dkim_verification import Lookup
from digest.process.heartbeats import HeartbeatThread

log = logging.getLogger(__name__)

#: Maximum size of a message in bytes, enough for a report that quotes one of our letters.
MAX_BYTES = 2 * 1024 * 1024
#: Maximum number of bytes in a line; a mail server breaks longer lines. The client's unread bytes are limited by it.
MAX_LINE_BYTES = 256 * 1024
MAX_RECIPIENTS = 20
#: Maximum number of clients accepted in one turn of the event loop; asyncio's 100 can use up the open files.
ACCEPTED_AT_ONCE = 16
#: Maximum number of clients that wait to be accepted. Linux leaves a client beyond it without an answer for minutes.
WAITING_CLIENTS = 1024
MAX_CONNECTIONS = 50  #: Postfix opens at most 20 to one destination
#: Maximum number of messages received at a time, and the seconds that a further message waits. While it is received,
#: a message of 2 MB takes up to 90 MB of memory: that is one of blank lines, each of which is an object.
RECEIVED_AT_ONCE, WAIT_SECONDS = 2, 30
#: Maximum time until the next command, and for a message from its first byte to our reply.
TIMEOUT_SECONDS = 180
#: Maximum number of messages stored at a time; each thread retains the memory of its largest message.
STORED_AT_ONCE = 2
#: Maximum number of messages verified at a time; verification waits for the senders' DNS servers.
PROVED_AT_ONCE = 4
#: Maximum number of messages that wait for verification; further mail is processed without verification.
MAX_AWAITING_PROOF = 100
TICK_SECONDS = 30  #: seconds between two runs that process mail left unprocessed
LOG_EVERY = 60.0  #: minimum number of seconds between two log lines about clients
TOO_LARGE = "552 5.3.4 The message is larger than 2 MB. Send your commands in a message without attachments."
BUSY = "452 4.3.1 too busy, try again later"
FULL = b"421 4.3.2 too many connections, try again later\r\n"


class MailReceiver:
    """The state shared by all clients: the app context, the connections, and the messages in memory."""

    def __init__(self, context: AppContext, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.context, self.wait_seconds = context, wait_seconds
        self.clients: set[SmtpClient] = set()
        self.places = asyncio.Semaphore(RECEIVED_AT_ONCE)
        self.threads = ThreadPoolExecutor(STORED_AT_ONCE)
        self.provers = ThreadPoolExecutor(PROVED_AT_ONCE)
        self.awaiting_proof = BoundedSemaphore(MAX_AWAITING_PROOF)
        self.logged_at = float("-inf")

    def make_protocol(self, client: type[SmtpClient]) -> asyncio.Protocol:
        """Return the protocol for a new client; one client too many is refused."""
        if len(self.clients) < MAX_CONNECTIONS:
            return client(
                self,
                data_size_limit=MAX_BYTES,
                enable_SMTPUTF8=True,
                hostname=self.context.site.inbound_domain,
                ident="Digest",
                timeout=TIMEOUT_SECONDS,
                loop=asyncio.get_running_loop(),
            )
        if self.may_log():
            log.warning("clients were refused: %d are connected already", MAX_CONNECTIONS)
        return RefusedClient()

    async def handle_RCPT(  # noqa: N802  (aiosmtpd's name)
        self, _server: Any, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        """Accept a recipient if it is one of our addresses."""
        if not classification.is_accepted_recipient(self.context.site, address):
            return "550 5.1.1 no such address here"
        if len(envelope.rcpt_tos) >= MAX_RECIPIENTS:
            return "452 4.5.3 too many recipients"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 recipient ok"

    async def handle_DATA(self, _server: Any, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Store and process a message, even if the client disconnects, and return the reply."""
        sender = (envelope.mail_from or "").strip("<>")  # "" for the `<>` of reports
        sender = sender.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")
        recipients = [str(address) for address in envelope.rcpt_tos]
        content = envelope.original_content or b""
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self.threads, self.store_and_process, sender, recipients, content
            )
        except stored_mail.InboxFull as error:
            return f"452 4.2.2 {error}, try again later"

    async def handle_exception(self, error: Exception) -> str:
        """Ask the client to try again after an internal error; log such errors at most once a minute."""
        if self.may_log():
            log.error("a command failed; the client will try again", exc_info=error)
        return "451 4.3.0 try again later"

    def may_log(self) -> bool:
        """Return whether the last log line about a client is a minute old, and count this one as the last."""
        now = asyncio.get_running_loop().time()
        is_due = now - self.logged_at >= LOG_EVERY
        self.logged_at = now if is_due else self.logged_at
        return is_due

    def store_and_process(self, sender: str, recipients: list[str], content: bytes) -> str:
        """Parse, store and process a message; raise InboxFull if it cannot be stored."""
        now, mail, site = self.context.clock(), parsed(content), self.context.site
        network = writer_checks.sending_network(mail)
        with self.context.write_session() as session:
            for recipient in recipients:
                stored_mail.check_storage(
                    session,
                    sender=sender,
                    network=network,
                    recipient=recipient,
                    size=len(content),
                    may_be_kept=classification.may_be_kept(site, recipient, mail),
                )
            numbers = stored_mail.store_mail(
                session, sender=sender, recipients=recipients, content=content, network=network, now=now
            )
        try:
            is_proof_due = any(
                mail and classification.awaits_proof(site, one, mail, now) for one in set(recipients)
            )
            if is_proof_due and self.awaiting_proof.acquire(blocking=False):
                self.provers.submit(self.prove_and_process, numbers, mail, now)
            else:
                self.process(numbers, mail, no_lookup, now)
        except Exception:  # the message is stored, so the next run processes it
            log.exception("mails %s were stored but not processed; retrying", numbers)
        return "250 2.0.0 stored"

    def prove_and_process(self, numbers: list[int], mail: ReceivedMail | None, now: datetime) -> None:
        """Process stored messages with a lookup of DKIM keys, which can prove their senders."""
        try:
            self.process(numbers, mail, self.context.lookup, now)
        except Exception:
            log.exception("mails %s were stored but not processed; retrying", numbers)
        finally:
            self.awaiting_proof.release()

    def process(self, numbers: list[int], mail: ReceivedMail | None, lookup: Lookup, now: datetime) -> None:
        """Process a message that was stored once for each recipient."""
        rules = rules_of(self.context, lookup)
        with self.context.write_session() as session:
            for number in numbers:
                classification.process_mail(
                    session, site=self.context.site, number=number, mail=mail, rules=rules, now=now
                )


def parsed(content: bytes) -> ReceivedMail | None:
    """Return a parsed message, or None if it cannot be parsed, so that it is kept for the operator."""
    try:
        return mail_text.read_mail(content)
    except Exception:
        log.exception("a message could not be parsed")
        return None


# ── clients ─────────────────────────────────────────────────────────────────────────────────────


class RefusedClient(asyncio.Protocol):
    """A client that is sent away, to come again later."""

    def connection_made(self, transport: Any) -> None:
        """Send the reason, and close the connection."""
        transport.write(FULL)
        transport.close()


class SmtpClient(SMTP):
    """The connection of a client that sends messages over SMTP."""

    line_length_limit = MAX_LINE_BYTES
    event_handler: MailReceiver
    replies = 1  #: the number of replies to a message

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the client, and greet it."""
        self.event_handler.clients.add(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Make room for another client."""
        self.event_handler.clients.discard(self)
        super().connection_lost(error)

    @syntax("DATA")
    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802  (aiosmtpd's name)
        """Receive and store a message, as one of the few that are in memory at a time."""
        places = self.event_handler.places
        try:
            # Unlike wait_for, this never swallows the cancellation with which a connection ends.
            async with asyncio.timeout(self.event_handler.wait_seconds):
                await places.acquire()
        except TimeoutError:
            await self.push(BUSY)
            return
        try:
            await super().smtp_DATA(arg)
        finally:
            places.release()

    async def push(self, status: Any) -> None:
        """Send a reply, or several to a message over LMTP; a size that is refused is explained to the writer."""
        code = str(status)[:3]
        for _ in range(1 if code == "354" else self.replies):
            await super().push(TOO_LARGE if code == "552" else status)


class LmtpClient(SmtpClient, LMTP):
    """The connection of a client that sends messages over LMTP: each recipient of a message gets a reply."""

    @syntax("DATA")
    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802  (aiosmtpd's name)
        """Receive and store a message, and reply once for each recipient."""
        self.replies = len(self.envelope.rcpt_tos) or 1 if self.envelope else 1
        try:
            await super().smtp_DATA(arg)
        finally:
            self.replies = 1


# ── the server ──────────────────────────────────────────────────────────────────────────────────


async def start_listening(receiver: MailReceiver, url: str) -> asyncio.Server:
    """Listen on a port or a Unix socket; a stale socket is replaced, but no other file.

    Raises BadField if that fails.
    """
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    protocol = partial(receiver.make_protocol, LmtpClient if parts.scheme == "lmtp" else SmtpClient)
    try:
        if parts.hostname:
            server = await loop.create_server(protocol, parts.hostname, parts.port, backlog=ACCEPTED_AT_ONCE)
        else:
            path = Path(unquote(parts.path))
            server = await loop.create_unix_server(protocol, path, backlog=ACCEPTED_AT_ONCE)
            path.chmod(0o666)  # the mail server runs as another user; the folder limits access
        for listening in server.sockets:
            with socket.socket(fileno=os.dup(listening.fileno())) as same:
                same.listen(WAITING_CLIENTS)  # asyncio waits and accepts by one number
    except OSError as error:
        raise BadField("DIGEST_INBOUND", f"cannot listen at {url}: {error.strerror}.") from error
    return server


async def run_ticks(context: AppContext) -> None:
    """Every 30 seconds, process mail that a crash or an error left unprocessed."""
    while True:
        try:
            await asyncio.to_thread(run_tick, context, context.clock())
        except Exception:
            log.exception("stored mail could not be processed; retrying in %d s", TICK_SECONDS)
        await asyncio.sleep(TICK_SECONDS)


def run_tick(context: AppContext, now: datetime) -> None:
    """Process new mail, and delete old mail that was kept for the operator."""
    with context.write_session() as session:
        classification.process_stored_mails(session, site=context.site, rules=rules_of(context), now=now)
        stored_mail.delete_old_mails(session, now=now)


async def serve_until(context: AppContext, urls: tuple[str, ...], stop: asyncio.Event) -> None:
    """Receive mail until `stop` is set; messages that are being stored then still get their reply."""
    if not urls:
        log.warning("DIGEST_INBOUND is not set: no mail is received")
        await stop.wait()
        return
    receiver = MailReceiver(context)
    servers = [await start_listening(receiver, url) for url in urls]
    log.info("receiving mail for %s at %s", context.site.inbound_domain, ", ".join(urls))
    heartbeat = HeartbeatThread(role="inbound", engine=context.engine, clock=context.clock)
    ticking = asyncio.create_task(run_ticks(context))
    heartbeat.start()
    await stop.wait()
    for server in servers:
        server.close()
    ticking.cancel()
    receiver.provers.shutdown(wait=False, cancel_futures=True)
    await asyncio.to_thread(receiver.threads.shutdown)
    await asyncio.to_thread(heartbeat.stop)
    for client in tuple(receiver.clients):
        if client.transport is not None:
            client.transport.close()


async def run_until_signal(context: AppContext) -> None:
    """Receive mail until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve_until(context, context.settings.inbound, stop)


def serve(context: AppContext) -> None:
    """Run the inbound mail server until SIGINT or SIGTERM."""
    # Otherwise aiosmtpd logs every error that a client makes.
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)
    asyncio.run(run_until_signal(context))
