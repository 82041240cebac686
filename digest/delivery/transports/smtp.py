"""Send mail by SMTP or LMTP over one persistent connection, with as few round trips as possible.

If a server offers PIPELINING (RFC 2920), a message's body and the next message's envelope are sent in one
write, so a message costs one round trip instead of four. At most one body awaits its reply at any time, so a
broken connection leaves at most one message in doubt.
"""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from digest.delivery.transports.mail_url import MailServer
from digest.delivery.transports.provider_profiles import provider_id_in
from digest.delivery.transports.smtp_socket import (
    ConnectionBroken,
    ProtocolDesync,
    SmtpReply,
    SmtpSocket,
    Timeouts,
)
from digest.delivery.transports.transport import Message, Outcome, Verdict, make_outcome
from digest.mail import addresses

__all__ = ["MailServer", "SmtpTransport", "Timeouts"]

#: Codes of replies to MAIL that are about the connection, not about the message.
SENDER_FAULT_CODES = {421, 530, 534, 535, 538}
#: Codes of replies about the session (RFC 5321, 4.2.1), never about a message.
CONNECTION_CODES = range(220, 230)
OUT_OF_ORDER = 503  #: bad sequence of commands: about the order of our commands, never about a message
#: Matches a line that begins with a dot; twice as fast as bytes.replace if there are few such lines.
LINE_WITH_DOT = re.compile(rb"\r\n\.")
#: The usual replies to MAIL, RCPT and DATA, all positive.
ENVELOPE_ACCEPTED = re.compile(rb"(?:2\d\d [^\r\n]*\r\n){2}354 [^\r\n]*\r\n")
BASE64_TEXT = re.compile(r"[A-Za-z0-9+/=]{4,}")
SIZE_PATTERN = re.compile(r"[0-9]{1,20}")  #: a value of SIZE as in RFC 1870; other values are ignored
UNSAFE_IN_ADDRESS = re.compile(r"[\x00-\x20\x7f<>]")  #: characters that no envelope address may contain


class SmtpEnvelope(Struct):
    """The commands that precede a body, each with its phase."""

    message: Message
    commands: tuple[tuple[str, str], ...]
    body: tuple[bytes, ...] = ()  #: the dot-stuffed content, if already prepared

    def as_bytes(self) -> bytes:
        """Return the commands as bytes for one write."""
        return "".join([f"{command}\r\n" for _, command in self.commands]).encode()


RESET = ("reset", "RSET")
DATA = ("data", "DATA")


class SmtpConnection:
    """A connection to a server, greeted and ready for mail.

    Methods that read or write may raise ConnectionBroken, except `send_body`, `abort_body` and `quit`.
    """

    def __init__(self, server: MailServer, *, helo: str, timeouts: Timeouts):
        self.server = server
        self.helo = helo
        self.timeouts = timeouts
        self.extensions: dict[str, str] = {}
        self.is_ending = False  #: no more commands can be sent
        self.is_announced = False  #: the next message's envelope was sent, and its replies are not read yet
        self.has_desynchronised = False  #: a transaction is unfinished, so RSET must be sent first
        deadline = monotonic() + timeouts.connect
        self.wire = SmtpSocket(server, deadline)
        try:
            self.greet(deadline)
        except BaseException:
            self.wire.close()
            raise
        self.is_pipelining = "PIPELINING" in self.extensions
        size = self.extensions.get("SIZE", "")
        self.size_limit = int(size) if SIZE_PATTERN.fullmatch(size) else 0

    def command(self, command: str, deadline: float) -> SmtpReply:
        """Send one command and return the reply."""
        self.wire.write(f"{command}\r\n".encode(), deadline=deadline)
        return self.wire.read_reply(deadline)

    def require(self, command: str, deadline: float, *, what: str) -> None:
        """Send one command and raise ConnectionBroken unless the reply is positive."""
        require_yes(self.command(command, deadline), what)

    # ── the greeting ────────────────────────────────────────────────────────────────────────────

    def greet(self, deadline: float) -> None:
        """Send EHLO, start TLS and log in, as the URL requires.

        Raises ConnectionBroken if any of these steps fails.
        """
        require_yes(self.wire.read_reply(deadline), "the server refused the session")
        self.introduce(deadline)
        if self.server.starttls:
            self.start_tls(deadline)
            self.introduce(deadline)
        if self.server.user:
            try:
                self.log_in(deadline)
            except ConnectionBroken as broken:  # some replies repeat the command with the password, and replies are stored and logged
                raise type(broken)(redact_login(broken.reason, self.server), broken.code) from None

    def introduce(self, deadline: float) -> None:
        """Send EHLO (LHLO for LMTP) and store the extensions that the server offers."""
        verb = "LHLO" if self.server.scheme == "lmtp" else "EHLO"
        reply = self.command(f"{verb} {self.helo}", deadline)
        if reply.code >= 500 and verb == "EHLO":
            self.require(f"HELO {self.helo}", deadline, what="the server refused our greeting")
            return
        require_yes(reply, "the server refused our greeting")
        offers = (line.upper().partition(" ") for line in reply.lines[1:])
        self.extensions = {keyword: rest for keyword, _, rest in offers}

    def start_tls(self, deadline: float) -> None:
        """Switch to TLS and discard the extensions that were offered in clear text."""
        if "STARTTLS" not in self.extensions:
            raise ConnectionBroken("the server does not offer STARTTLS, which DIGEST_MAIL_URL requires")
        self.require("STARTTLS", deadline, what="STARTTLS")
        if self.wire.received:  # a man in the middle could insert replies here (CVE-2011-0411)
            raise ConnectionBroken("the server broke the protocol: clear text after STARTTLS")
        self.extensions = {}
        self.wire.start_tls(deadline)

    def log_in(self, deadline: float) -> None:
        """Log in with AUTH PLAIN, or LOGIN if the server offers nothing else."""
        if not self.wire.is_secure:
            raise ConnectionBroken("the password would cross the network in clear text; add ?starttls=true")
        both, password = credentials(self.server)
        mechanisms = self.extensions.get("AUTH", "").split()
        if "PLAIN" in mechanisms:
            self.require(f"AUTH PLAIN {both}", deadline, what="the login")
        elif "LOGIN" in mechanisms:
            for words in ("AUTH LOGIN", encode_base64(self.server.user)):
                require_yes(self.command(words, deadline), "the login", agreed=334)
            self.require(password, deadline, what="the login")
        else:
            raise ConnectionBroken("the server offers neither AUTH PLAIN nor AUTH LOGIN")

    def quit(self) -> None:
        """Send QUIT and close the connection, ignoring errors."""
        try:
            self.command("QUIT", monotonic() + self.timeouts.quit)
        except ConnectionBroken:
            pass
        finally:
            self.wire.close()

    # ── mail ────────────────────────────────────────────────────────────────────────────────────

    def send_messages(self, waiting: deque[Message], until: float) -> Iterator[Outcome]:
        """Send the messages in turn, removing each from `waiting` when its outcome is known.

        Raises ConnectionBroken if the connection fails before any byte of a message's body was sent; this
        message is then the first in `waiting`.
        """
        announced: SmtpEnvelope | None = None  # the envelope of the first message, if sent
        while waiting and not self.is_ending and (announced or monotonic() < until):
            message, follower = waiting[0], None
            envelope = announced or self.envelope(message)
            if isinstance(envelope, Outcome):
                outcome = envelope
            else:
                if self.is_pipelining and announced is None:
                    self.wire.write(envelope.as_bytes(), deadline=monotonic() + self.timeouts.command)
                refused = self.read_envelope_replies(envelope)
                if refused is None:
                    self.check_no_extra_reply()
                    follower = self.next_envelope(waiting, until)
                outcome = refused or self.send_body(envelope, follower)
            announced = follower
            self.is_announced = follower is not None
            waiting.popleft()
            yield outcome

    def envelope(self, message: Message) -> SmtpEnvelope | Outcome:
        """Return the envelope of a message, or the outcome if this server cannot accept the message."""
        recipient, size, options = ascii_address(message.recipient), len(message.content), ""
        if not recipient or UNSAFE_IN_ADDRESS.search(recipient):
            return make_outcome(message, Verdict.REFUSED, "mail", "5.1.3 invalid address")
        if 0 < self.size_limit < size:
            reason = f"the message has {size} bytes; the server accepts at most {self.size_limit}"
            return make_outcome(message, Verdict.REFUSED, "mail", reason)
        if "SIZE" in self.extensions:
            options = f" SIZE={size}"
        if not recipient.isascii():
            if "SMTPUTF8" not in self.extensions:
                reason = "5.6.7 the server does not accept non-ASCII addresses (SMTPUTF8)"
                return make_outcome(message, Verdict.REFUSED, "mail", reason)
            options += " SMTPUTF8"
        sender = ("mail", f"MAIL FROM:<{message.sender}>{options}")
        commands = (sender, ("rcpt", f"RCPT TO:<{recipient}>"), DATA)
        return SmtpEnvelope(message, (RESET, *commands) if self.has_desynchronised else commands)

    def next_envelope(self, waiting: deque[Message], until: float) -> SmtpEnvelope | None:
        """Return the next envelope if it may be sent together with the first message's body."""
        if not self.is_pipelining or len(waiting) < 2 or monotonic() >= until:
            return None
        envelope = self.envelope(waiting[1])
        return envelope if isinstance(envelope, SmtpEnvelope) else None

    def read_envelope_replies(self, envelope: SmtpEnvelope) -> Outcome | None:
        """Read the replies to the envelope; return None if the server now waits for the body, else the outcome.

        The server replies to every command of a pipelined envelope, so all replies are read; the first
        refusal counts.
        """
        if self.is_pipelining and not self.has_desynchronised and self.wire.take_expected(ENVELOPE_ACCEPTED):
            return None
        deadline = monotonic() + self.timeouts.command
        refused, last = None, 0
        for phase, command in envelope.commands:
            if refused is not None and (self.is_ending or not self.is_pipelining):
                break
            try:
                reply = (
                    self.wire.read_reply(deadline) if self.is_pipelining else self.command(command, deadline)
                )
            except ConnectionBroken:
                if refused is None:
                    raise
                self.is_ending = True
                break
            last = reply.code
            if refused is None and not is_expected_code(phase, last):
                refused = self.outcome_of_reply(envelope.message, phase, reply)
        if refused is not None and last == 354:
            self.abort_body(deadline)
        self.has_desynchronised = refused is not None
        return refused

    def check_no_extra_reply(self) -> None:
        """Raise ProtocolDesync if the server has sent more replies than we sent commands.

        An extra reply would be mistaken for the reply to the next body.
        """
        if self.wire.received:
            raise ProtocolDesync("the server broke the protocol: a reply without a command")

    def abort_body(self, deadline: float) -> None:
        """Send an empty body, because the server asked for one after refusing the envelope."""
        try:
            self.command(".", deadline)
        except ConnectionBroken:
            self.is_ending = True

    def send_body(self, envelope: SmtpEnvelope, follower: SmtpEnvelope | None) -> Outcome:
        """Send the body, followed by the next envelope, and return the outcome.

        Never raises: from the first byte on, every failure is an outcome. If the final dot was not sent, the
        message cannot have been accepted. If the dot was sent, the message is in doubt until the server
        replies.
        """
        message, body = envelope.message, envelope.body or dot_stuffed(envelope.message)
        try:
            after = (follower.as_bytes(),) if follower else ()
            self.wire.write(*body, *after, deadline=monotonic() + self.timeouts.body)
            if follower:  # prepared while the server processes this body
                follower.body = dot_stuffed(follower.message)
            reply = self.wire.read_reply(monotonic() + self.timeouts.dot)
        except ConnectionBroken as broken:
            self.is_ending = True
            if self.wire.written < sum(map(len, body)):
                return make_outcome(message, Verdict.DEFERRED, "data", f"during the message, {broken.reason}")
            return make_outcome(message, Verdict.IN_DOUBT, "dot", broken.reason)
        return self.outcome_of_reply(message, "dot", reply)

    def outcome_of_reply(self, message: Message, phase: str, reply: SmtpReply) -> Outcome:
        """Return the outcome for a reply, or raise ConnectionBroken if the reply is not about this message."""
        if reply.code == 421:  # the server closes the connection (RFC 5321, 3.8)
            self.is_ending = True
        if phase == "reset" or (phase == "mail" and reply.code in SENDER_FAULT_CODES):
            raise ConnectionBroken(f"the server ended the session: {reply.code} {reply.text}", reply.code)
        if (reply.code < 400 or reply.code == OUT_OF_ORDER) and phase != "dot":
            raise ProtocolDesync(
                f"the server broke the protocol: {reply.code} {reply.text} to {phase.upper()}"
            )
        verdict = {2: Verdict.ACCEPTED, 4: Verdict.DEFERRED, 5: Verdict.REFUSED}.get(reply.code // 100)
        if reply.code in CONNECTION_CODES:
            verdict = None
        if verdict is None:
            self.is_ending = True  # the next reply could belong to another command
        result = make_outcome(message, verdict or Verdict.IN_DOUBT, phase, reply.text, reply.code)
        if self.server.profile and verdict is Verdict.ACCEPTED:
            return replace(result, provider_id=provider_id_in(self.server.profile, reply.text))
        return result


def require_yes(reply: SmtpReply, what: str, *, agreed: int | None = None) -> None:
    """Raise ConnectionBroken unless the reply is positive: a 2xx code or the code `agreed`."""
    if not reply.is_yes and reply.code != agreed:
        raise ConnectionBroken(f"{what}: {reply.code} {reply.text}", reply.code)


def redact_login(text: str, server: MailServer) -> str:
    """Return a server's reply without our password, whether plain, encoded for AUTH or partial."""
    secrets = [*credentials(server), server.password]
    shown = text.replace(server.password, "…") if server.password else text
    return BASE64_TEXT.sub(
        lambda found: "…" if any(found[0] in each for each in secrets) else found[0], shown
    )


def credentials(server: MailServer) -> tuple[str, str]:
    """Return user and password encoded for AUTH PLAIN, and the password encoded for AUTH LOGIN."""
    return encode_base64(f"{chr(0)}{server.user}{chr(0)}{server.password}"), encode_base64(server.password)


def is_expected_code(phase: str, code: int) -> bool:
    """Return whether the code is a positive reply to the command of the phase."""
    return code == 354 if phase == "data" else 200 <= code < 300


def dot_stuffed(message: Message) -> tuple[bytes, ...]:
    """Return the content as sent by SMTP: leading dots doubled, and a final dot added."""
    content = message.content
    end = b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n"
    if not message.may_have_dots:  # avoids a search through 40 KB of text
        return content, end
    first = b"." if content.startswith(b".") else b""
    return first, LINE_WITH_DOT.sub(b"\r\n..", content), end


def ascii_address(address: str) -> str:
    """Return the address with its domain in ASCII, if the domain has an ASCII form."""
    if address.isascii():
        return address
    local, _, domain = address.rpartition("@")
    return f"{local}@{addresses.ascii_domain(domain)}"


def encode_base64(text: str) -> str:
    """Return the text in base64, as required by the AUTH commands."""
    return base64.b64encode(text.encode()).decode()


# ── the transport ───────────────────────────────────────────────────────────────────────────────


class SmtpTransport:
    """Sends windows of messages over one connection, which is opened on demand and kept open."""

    def __init__(self, server: MailServer, *, helo: str, timeouts: Timeouts | None = None):
        self.server = server
        self.helo = UNSAFE_IN_ADDRESS.sub("", helo) or "localhost"
        self.timeouts = timeouts or Timeouts()
        self.connection: SmtpConnection | None = None
        self.avoids_pipelining = False  #: whether this server offers PIPELINING but mixes up replies

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:  # noqa: PLR0912, PLR0915  (one conversation, with a branch for each way it ends)
        """Try every message once; after a broken connection, continue over a new one.

        A reply about the connection, such as 421, ends the window. If a message breaks a new connection
        without such a reply, the message is deferred, because it would otherwise block the rest. After two
        such messages in a row the window ends, because the server does not work. If a server cannot follow
        pipelined commands, it gets all later commands one by one.
        """
        waiting, until, strikes = deque(window), monotonic() + self.timeouts.window, 0
        while waiting:
            if monotonic() >= until:
                yield from untried_outcomes(
                    waiting, ConnectionBroken("the time limit ended before its turn"), self.server
                )
                return
            was_open, before = self.connection is not None, len(waiting)
            try:
                connection = self.current_connection()
            except ConnectionBroken as broken:
                yield from untried_outcomes(waiting, broken, self.server)
                return
            try:
                yield from connection.send_messages(waiting, until)
            except ConnectionBroken as broken:
                self.drop_connection()
                if (
                    isinstance(broken, ProtocolDesync)
                    and not self.avoids_pipelining
                    and connection.is_pipelining
                ):
                    self.avoids_pipelining, until = True, max(until, monotonic() + self.timeouts.window / 2)
                    continue
                if was_open or len(waiting) < before:
                    strikes = 0
                    continue
                if broken.code in SENDER_FAULT_CODES:  # the reply is not about this message
                    yield from untried_outcomes(waiting, broken, self.server)
                    return
                yield make_outcome(waiting.popleft(), Verdict.DEFERRED, "mail", broken.reason, broken.code)
                strikes += 1
                if strikes == 2:
                    yield from untried_outcomes(waiting, broken, self.server)
                    return
            finally:
                self.drop_if_busy()

    def current_connection(self) -> SmtpConnection:
        """Return the open connection, or a new one."""
        if self.connection is None:
            self.connection = SmtpConnection(self.server, helo=self.helo, timeouts=self.timeouts)
            self.connection.is_pipelining &= not self.avoids_pipelining
        return self.connection

    def drop_if_busy(self) -> None:
        """Close the connection if it takes no more commands, or if an announced message was not sent.

        The next message then gets a new connection.
        """
        if self.connection and (self.connection.is_ending or self.connection.is_announced):
            self.drop_connection()

    def drop_connection(self) -> None:
        """Close the connection without QUIT."""
        if self.connection:
            self.connection.wire.close()
            self.connection = None

    def close(self) -> None:
        """Send QUIT and close the connection, without raising errors."""
        if self.connection:
            self.connection.quit()
            self.connection = None


def untried_outcomes(
    waiting: Iterable[Message], broken: ConnectionBroken, server: MailServer
) -> Iterator[Outcome]:
    """Yield an untried outcome, with the reason, for each message of which nothing was sent."""
    for message in waiting:
        reply = f"{server.name}: {broken.reason}"
        yield make_outcome(message, Verdict.UNTRIED, "connect", reply, broken.code)
