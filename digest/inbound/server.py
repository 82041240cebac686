"""Receive incoming mail over LMTP or SMTP (`DIGEST_INBOUND`).

A message is accepted once it is stored in the database. It is processed afterwards, and an error in
processing does not affect the reply to the client. Clients that are silent, slow or numerous cannot use up all
connections or memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import unquote, urlsplit

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session, syntax

from digest import inbound, mail_parsing
from digest.app_context import AppContext
from digest.errors import BadField
from digest.heartbeats import HeartbeatThread
from digest.inbound.connection_limits import (
    LOG_EVERY,
    MAX_CONNECTIONS,
    Connections,
    MailConnection,
    MemoryBudget,
    Stage,
    network_of,
    sending_network,
)
from digest.inbound.mail_rules import no_lookup, rules_of
from digest.inbound.mail_text import ReceivedMail
from digest.letters.dkim_verification import Lookup

log = logging.getLogger(__name__)

#: Maximum size of a message in bytes, enough for a report that quotes one of our letters.
MAX_BYTES = 2 * 1024 * 1024
MAX_RECIPIENTS = 20
TIMEOUT_SECONDS = 60  #: maximum time in which a client must send its next command
MAIL_SECONDS = 180  #: maximum time in which a client must send a message
SESSION_SECONDS = 300  #: maximum length of a session without a message, whatever commands the client sends
#: Maximum number of connections accepted in one turn of the event loop; asyncio's default of 100 can exhaust
#: the limit on open files.
ACCEPTED_AT_ONCE = 16
#: Maximum number of connections that the kernel keeps waiting; asyncio would set it to `ACCEPTED_AT_ONCE`.
WAITING_CONNECTIONS = 128
CLOSE_SECONDS = 5  #: how long a client may take to read why it is disconnected
TICK_SECONDS = 30  #: seconds between two runs that process mail left unprocessed
PIECE_BYTES = 64 * 1024  #: size in bytes of the pieces in which an arriving message is held in memory
READ_BYTES = 32 * 1024  #: maximum number of bytes read at once; a line may be longer
#: Maximum size in bytes of a small message; only a few larger messages are received at a time.
SMALL_BYTES = 128 * 1024
#: Maximum number of large messages received at a time, and of seconds that another large message waits.
LARGE_AT_ONCE, LARGE_SECONDS = 6, 30
#: Maximum number of bytes of memory for all messages being received or stored.
MAX_MEMORY_BYTES = MAX_CONNECTIONS * SMALL_BYTES + LARGE_AT_ONCE * MAX_BYTES
#: Maximum number of messages stored at a time; it is low because each thread retains the memory of its
#: largest message.
STORED_AT_ONCE = 2
#: Maximum number of messages verified at a time; verification waits for the senders' DNS servers.
PROVED_AT_ONCE = 4
#: Maximum number of messages that wait for verification; further mail is processed without verification.
MAX_AWAITING_PROOF = 100
BUSY = "452 4.3.1 too busy, try again later"


class Content:
    """An arriving message, held in pieces, because many large growing buffers would fragment the memory."""

    def __init__(self) -> None:
        self.pieces, self.last, self.size = list[bytes](), bytearray(), 0
        self.is_large = False

    def add(self, line: bytes) -> None:
        """Add a line."""
        self.last += line
        self.size += len(line)
        if len(self.last) >= PIECE_BYTES:
            self.pieces.append(bytes(self.last))
            self.last.clear()

    def clear(self) -> None:
        """Discard the content."""
        self.pieces.clear()
        self.last.clear()
        self.size, self.is_large = 0, False

    def __bytes__(self) -> bytes:
        return b"".join((*self.pieces, self.last))


class MailReceiver:
    """The state shared by all clients: the app context, the connections and the memory budget."""

    def __init__(self, context: AppContext) -> None:
        self.context = context
        self.connections = Connections(most=max_connections())
        self.memory, self.large = MemoryBudget(MAX_MEMORY_BYTES), asyncio.Semaphore(LARGE_AT_ONCE)
        self.threads = ThreadPoolExecutor(STORED_AT_ONCE)
        self.provers = ThreadPoolExecutor(PROVED_AT_ONCE)
        self.awaiting_proof = BoundedSemaphore(MAX_AWAITING_PROOF)
        self.failed_at = float("-inf")

    async def handle_RCPT(  # noqa: N802  (aiosmtpd's name)
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept a recipient if it is one of our addresses."""
        del server, session, options
        if not inbound.is_accepted_recipient(self.context.site, address):
            return "550 5.1.1 no such address here"
        if len(envelope.rcpt_tos) >= MAX_RECIPIENTS:
            return "452 4.5.3 too many recipients"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 recipient ok"

    async def handle_exception(self, error: Exception) -> str:
        """Ask the client to try again after an internal error; log such errors at most once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self.failed_at >= LOG_EVERY:
            self.failed_at = now
            log.error("a command failed; the client will try again", exc_info=error)
        return "451 4.3.0 try again later"

    async def store(self, client: str, envelope: Envelope, content: Content) -> str:
        """Store and process a client's message, release its memory, and return the reply."""
        sender, recipients = sender_of(envelope), [str(address) for address in envelope.rcpt_tos]
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self.threads, lambda: self.store_and_process(client, sender, recipients, bytes(content))
            )
        except inbound.InboxFull as error:
            return f"452 4.2.2 {error}, try again later"
        except Exception:
            log.exception("a message could not be stored; its sender will try again")
            return "451 4.3.0 try again later"
        finally:
            self.release(content)

    async def admit_large(self, content: Content) -> bool:
        """Wait until another large message may be received; return False after too long a wait."""
        try:
            await asyncio.wait_for(self.large.acquire(), LARGE_SECONDS)
        except TimeoutError:
            return False
        content.is_large = True
        return True

    def release(self, content: Content) -> None:
        """Release the memory of a message; a large message also frees its place among the large ones."""
        self.memory.release(content.size)
        if content.is_large:
            self.large.release()
        content.clear()

    def store_and_process(self, client: str, sender: str, recipients: list[str], content: bytes) -> str:
        """Parse, store and process a message; raise InboxFull if it cannot be stored."""
        now, mail = self.context.clock(), parsed(content)
        network = sending_network(client, received_by(mail))
        with self.context.write_session() as session:
            for recipient in recipients:
                inbound.check_storage(
                    session,
                    sender=sender,
                    network=network,
                    recipient=recipient,
                    size=len(content),
                    may_be_kept=inbound.may_be_kept(self.context.site, recipient, mail),
                )
            numbers = inbound.store_mail(
                session, sender=sender, recipients=recipients, content=content, network=network, now=now
            )
        try:
            site = self.context.site
            is_proof_due = any(mail and inbound.awaits_proof(site, one, mail, now) for one in set(recipients))
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
        with self.context.write_session() as session:
            for number in numbers:
                inbound.process_mail(
                    session,
                    site=self.context.site,
                    number=number,
                    mail=mail,
                    rules=rules_of(self.context, lookup),
                    now=now,
                )

    def report(self) -> None:
        """Log how many clients were rejected, at most once a minute."""
        if line := self.connections.report(asyncio.get_running_loop().time()):
            log.warning("%s", line)


def parsed(content: bytes) -> ReceivedMail | None:
    """Return a parsed message, or None if it cannot be parsed, so that it is kept for the operator."""
    try:
        return inbound.read_mail(content)
    except Exception:
        log.exception("a message could not be parsed")
        return None


def received_by(mail: ReceivedMail | None) -> str:
    """Return the topmost Received header of a message, which the mail server before us added."""
    return next(iter(mail_parsing.raw_headers(mail.message, "Received") if mail else ()), "")


def max_connections() -> int:
    """Return the maximum number of connections: at most half of the process's limit on open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(4, min(MAX_CONNECTIONS, soft // 2))


def sender_of(envelope: Envelope) -> str:
    """Return the envelope sender of a message; "" for the `<>` of reports."""
    return storable_sender((envelope.mail_from or "").strip("<>"))


def storable_sender(sender: str) -> str:
    """Return a sender that every database can store: some servers send Latin-1 or arbitrary bytes."""
    return sender.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")


class AdmissionProtocol(asyncio.Protocol):
    """Admit or reject a new client at little cost, since rejected clients try again."""

    def __init__(self, handler: MailReceiver, *, is_lmtp: bool) -> None:
        self.handler, self.is_lmtp = handler, is_lmtp

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Switch an admitted client to the SMTP protocol, or close the connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (a socket's transport)
        peer, now = transport.get_extra_info("peername"), asyncio.get_running_loop().time()
        client = str(peer[0]) if isinstance(peer, tuple) else ""
        connection = MailConnection(
            client=client,
            network=network_of(client),
            close=partial(reject, transport),
            stage_entered_at=now,
            mailed_at=now,
        )
        if not self.handler.connections.admit(connection, now):
            reject(transport)
            return
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # asyncio otherwise reads 256 KB at a time
        protocol = make_protocol(self.handler, connection, is_lmtp=self.is_lmtp)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def reject(transport: asyncio.Transport) -> None:
    """Send a reply that gives the reason, and close the connection; abort it if the reply is not read."""
    if not transport.is_closing():
        transport.write(b"421 4.7.0 too many connections, or idle for too long; try again later\r\n")
        transport.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, transport.abort)


class LongLineSmtp(SMTP):
    """An SMTP session that accepts long lines, because a refused report would never be sent again."""

    line_length_limit = READ_BYTES
    handler: MailReceiver
    connection: MailConnection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the session in the stage in which the client has sent nothing yet."""
        super().connection_made(transport)
        self.connection.enter(Stage.SILENT, self.loop.time())

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection."""
        self.handler.connections.release(self.connection)
        super().connection_lost(error)

    def _timeout_cb(self) -> None:
        self.connection.close()

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Wait for the next command, but not beyond the maximum length of a session without a message."""
        now = self.loop.time()
        self.connection.enter(Stage.IDLE, now)
        left = self.connection.mailed_at + SESSION_SECONDS - now
        super()._reset_timeout(max(1.0, min(duration or TIMEOUT_SECONDS, left)))

    @syntax("DATA")
    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802  (aiosmtpd's name)
        """Receive a message and store it."""
        if await self.check_helo_needed():
            return
        if arg or self.envelope is None or not self.envelope.rcpt_tos:
            await self.push("501 Syntax: DATA" if arg else "503 Error: need RCPT command")
            return
        await self.push("354 End data with <CR><LF>.<CR><LF>")
        self._reset_timeout(MAIL_SECONDS)
        self.connection.enter(Stage.RECEIVING, self.loop.time())
        reply = await self.received(self.envelope)
        replies = [reply] * (len(self.envelope.rcpt_tos) if isinstance(self, LMTP) else 1)
        self.envelope = self._create_envelope()
        self._reset_timeout()
        await self.push("\r\n".join(replies))

    async def received(self, envelope: Envelope) -> str:
        """Receive a message, store it, and return the reply."""
        content = Content()
        try:
            refusal = await self.read_mail(content)
        except BaseException:
            self.handler.release(content)
            raise
        if refusal:
            return refusal
        self.connection.enter(Stage.STORING, self.loop.time())
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        storing = self.loop.create_task(self.handler.store(self.connection.client, envelope, content))
        reply = await asyncio.shield(storing)  # processing continues even if the client disconnects
        self.connection.mailed_at = self.loop.time()
        return reply

    async def read_mail(self, content: Content) -> str:
        """Read a message up to its final dot; return "", or the reply with which the message is refused."""
        refusal, is_inside, count = "", False, 0
        while (line := await self.read_line()) != b".\r\n" or is_inside:
            text = line[1:] if line.startswith(b".") and not is_inside else line
            is_inside, count = not line.endswith(b"\r\n"), count + len(line)
            if not refusal and (refusal := await self.refusal_of(content, text)):
                self.handler.release(content)
            if not refusal:
                content.add(text)
            if count > 4 * MAX_BYTES:
                raise ConnectionResetError("the mail does not end")
        return refusal

    async def refusal_of(self, content: Content, line: bytes) -> str:
        """Reserve memory for a line; return "", or the reply with which the message is refused."""
        size = content.size + len(line)
        if size > MAX_BYTES:
            return "552 5.3.4 The message is larger than 2 MB. Send your commands in a message without attachments."
        if size > SMALL_BYTES and not content.is_large and not await self.handler.admit_large(content):
            return BUSY
        return "" if self.handler.memory.take(len(line)) else BUSY

    async def read_line(self) -> bytes:
        """Return the next line, or the part of a long line that has arrived."""
        try:
            return await self._reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError as error:
            return await self._reader.read(error.consumed)


class LongLineLmtp(LongLineSmtp, LMTP):
    """An LMTP session that accepts long lines; the client is usually a local mail server."""


def make_protocol(handler: MailReceiver, connection: MailConnection, *, is_lmtp: bool) -> LongLineSmtp:
    """Return the SMTP or LMTP protocol for one client."""
    protocol = (LongLineLmtp if is_lmtp else LongLineSmtp)(
        handler,
        data_size_limit=MAX_BYTES,
        enable_SMTPUTF8=True,
        hostname=handler.context.site.inbound_domain,
        ident="Digest",
        timeout=TIMEOUT_SECONDS,
        loop=asyncio.get_running_loop(),
    )
    protocol.handler, protocol.connection = handler, connection
    return protocol


async def start_listening(handler: MailReceiver, url: str) -> asyncio.Server:
    """Listen on one address; raise BadField if that fails."""
    try:
        return await open_server(handler, url)
    except OSError as error:
        raise BadField("DIGEST_INBOUND", f"cannot listen at {url}: {error.strerror}.") from error


async def open_server(handler: MailReceiver, url: str) -> asyncio.Server:
    """Listen on a port or a Unix socket; a stale socket is replaced, but no other file."""
    parts = urlsplit(url)
    protocol: Callable[[], AdmissionProtocol] = partial(
        AdmissionProtocol, handler, is_lmtp=parts.scheme == "lmtp"
    )
    loop = asyncio.get_running_loop()
    if parts.hostname:
        server = await loop.create_server(protocol, parts.hostname, parts.port, backlog=ACCEPTED_AT_ONCE)
    else:
        path = unquote(parts.path)
        server = await loop.create_unix_server(protocol, path, backlog=ACCEPTED_AT_ONCE)
        Path(path).chmod(0o666)  # the mail server runs as another user; the folder's permissions limit access
    for listener in server.sockets:
        with socket.socket(fileno=os.dup(listener.fileno())) as same:
            same.listen(WAITING_CONNECTIONS)
    return server


async def run_ticks(handler: MailReceiver) -> None:
    """Every 30 seconds, process mail that a crash or an error left unprocessed."""
    context = handler.context
    while True:
        handler.report()
        try:
            await asyncio.to_thread(run_tick, context, context.clock())
        except Exception:
            log.exception("stored mail could not be processed; retrying in %d s", TICK_SECONDS)
        await asyncio.sleep(TICK_SECONDS)


def run_tick(context: AppContext, now: datetime) -> None:
    """Process new mail, and delete old mail that was kept for the operator."""
    with context.write_session() as session:
        inbound.process_stored_mails(
            session,
            site=context.site,
            rules=rules_of(context),
            now=now,
        )
        inbound.delete_old_mails(session, now=now)


async def serve_until(context: AppContext, urls: tuple[str, ...], stop: asyncio.Event) -> None:
    """Receive mail until `stop` is set."""
    handler = MailReceiver(context)
    servers = [await start_listening(handler, url) for url in urls]
    if servers:
        log.info("receiving mail for %s at %s", context.site.inbound_domain, ", ".join(urls))
    else:
        log.warning("DIGEST_INBOUND is not set: no mail is received")
    heartbeat = HeartbeatThread(role="inbound", engine=context.engine, clock=context.clock)
    ticking = asyncio.create_task(run_ticks(handler)) if servers else None
    if servers:
        heartbeat.start()
    await stop.wait()
    for server in servers:
        server.close()
    if ticking is not None:
        ticking.cancel()
    handler.threads.shutdown(wait=False)
    handler.provers.shutdown(wait=False, cancel_futures=True)
    heartbeat.stop()


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
