"""A transport that speaks SMTP or LMTP: one connection, kept open, with as few waits as the server allows.

Where a server offers PIPELINING (RFC 2920) a message's body and the next message's envelope travel in
one write, so a message costs one round trip instead of four. Only one body is ever on its way without
a reply, hence a break leaves at most that one message in doubt.
"""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from digest import addresses
from digest.transport import Message, Outcome, Verdict
from digest.transport.servers import NAMES, Patience, Server
from digest.transport.wire import Broken, OutOfStep, Reply, Wire

__all__ = ["Patience", "Server", "Smtp"]

ABOUT_US = {421, 530, 534, 535, 538}  #: replies to MAIL that are about the connection, not the message
ABOUT_THE_LINE = range(220, 230)  #: hello and goodbye (RFC 5321, 4.2.1): no word about a text
OUT_OF_ORDER = (
    503  #: a reply that is never about a message: the server counts our commands otherwise than we do
)
LINE_WITH_DOT = re.compile(rb"\r\n\.")  #: twice as fast as bytes.replace where there are few
AGREED = re.compile(
    rb"(?:2\d\d [^\r\n]*\r\n){2}354 [^\r\n]*\r\n"
)  #: to MAIL, RCPT and DATA, as it usually comes
ENCODED = re.compile(r"[A-Za-z0-9+/=]{4,}")
SIZE = re.compile(r"[0-9]{1,20}")  #: as RFC 1870 has it; what is no such number is no limit
UNSAFE = re.compile(r"[\x00-\x20\x7f<>]")  #: what no envelope address of ours may hold


class Envelope(Struct):
    """What is said before a body: each command with the phase it stands for."""

    message: Message
    commands: tuple[tuple[str, str], ...]
    body: tuple[bytes, ...] = ()  #: as it travels, once somebody had time to make it so

    def as_bytes(self) -> bytes:
        """Return it as one write."""
        return "".join([f"{command}\r\n" for _, command in self.commands]).encode()


RESET = ("reset", "RSET")
DATA = ("data", "DATA")


class Connection:
    """A connection to a server, ready for mail once it is made. Every method may raise Broken."""

    def __init__(self, server: Server, *, helo: str, patience: Patience):
        self.server = server
        self.helo = helo
        self.patience = patience
        self.offers: dict[str, str] = {}
        self.is_dead = False  #: nothing more can be said on it
        self.is_announced = False  #: the next message's envelope is with the server, unanswered
        self.is_stained = False  #: a transaction was left half done: RSET comes first
        deadline = monotonic() + patience.connect
        self.wire = Wire(server, deadline)
        try:
            self.greet(deadline)
        except BaseException:
            self.wire.close()
            raise
        self.is_pipelining = "PIPELINING" in self.offers
        size = self.offers.get("SIZE", "")
        self.size_limit = int(size) if SIZE.fullmatch(size) else 0

    def ask(self, command: str, deadline: float) -> Reply:
        """Send one command and return the reply."""
        self.wire.write(f"{command}\r\n".encode(), deadline=deadline)
        return self.wire.reply(deadline)

    def demand(self, command: str, deadline: float, *, what: str) -> None:
        """Send one command and raise Broken unless the server agrees."""
        check(self.ask(command, deadline), what)

    # ── the greeting ────────────────────────────────────────────────────────────────────────────

    def greet(self, deadline: float) -> None:
        """Introduce ourselves, and do not go on without the TLS and the login that were asked for."""
        check(self.wire.reply(deadline), "it does not want us")
        self.introduce(deadline)
        if self.server.starttls:
            self.start_tls(deadline)
            self.introduce(deadline)
        if self.server.user:
            try:
                self.log_in(deadline)
            except Broken as broken:  # some repeat what they did not understand, and it is kept and logged
                raise type(broken)(without_login(broken.reason, self.server), broken.code) from None

    def introduce(self, deadline: float) -> None:
        """Say EHLO (LHLO to LMTP) and keep what the server offers."""
        verb = "LHLO" if self.server.scheme == "lmtp" else "EHLO"
        reply = self.ask(f"{verb} {self.helo}", deadline)
        if reply.code >= 500 and verb == "EHLO":
            self.demand(f"HELO {self.helo}", deadline, what="it does not greet us back")
            return
        check(reply, "it does not greet us back")
        offers = (line.upper().partition(" ") for line in reply.lines[1:])
        self.offers = {keyword: rest for keyword, _, rest in offers}

    def start_tls(self, deadline: float) -> None:
        """Turn the connection to TLS; what was said in clear is forgotten."""
        if "STARTTLS" not in self.offers:
            raise Broken("it does not offer STARTTLS, which DIGEST_MAIL_URL demands")
        self.demand("STARTTLS", deadline, what="STARTTLS")
        if self.wire.received:  # whoever sits between us could slip in replies here (CVE-2011-0411)
            raise Broken("it talks nonsense: words in clear after STARTTLS")
        self.offers = {}
        self.wire.secure(deadline)

    def log_in(self, deadline: float) -> None:
        """Log in with AUTH PLAIN, or LOGIN where that is all there is."""
        if not self.wire.is_secure:
            raise Broken("the password would cross the network in clear; add ?starttls=true")
        both, password = credentials(self.server)
        mechanisms = self.offers.get("AUTH", "").split()
        if "PLAIN" in mechanisms:
            self.demand(f"AUTH PLAIN {both}", deadline, what="the login")
        elif "LOGIN" in mechanisms:
            for words in ("AUTH LOGIN", encoded(self.server.user)):
                check(self.ask(words, deadline), "the login", agreed=334)
            self.demand(password, deadline, what="the login")
        else:
            raise Broken("it offers no login that we know (PLAIN or LOGIN)")

    def leave(self) -> None:
        """Say QUIT and hang up; whatever comes of it no longer matters."""
        try:
            self.ask("QUIT", monotonic() + self.patience.farewell)
        except Broken:
            pass
        finally:
            self.wire.close()

    # ── mail ────────────────────────────────────────────────────────────────────────────────────

    def converse(self, waiting: deque[Message], until: float) -> Iterator[Outcome]:
        """Hand over the messages in turn, removing each from `waiting` when its outcome is known.

        Raise Broken where the connection ends before the body of the first: nothing of it was sent.
        """
        announced: Envelope | None = None  # the first message's, once it is with the server
        while waiting and not self.is_dead and (announced or monotonic() < until):
            message, follower = waiting[0], None
            envelope = announced or self.envelope(message)
            if isinstance(envelope, Outcome):
                outcome = envelope
            else:
                if self.is_pipelining and announced is None:
                    self.wire.write(envelope.as_bytes(), deadline=monotonic() + self.patience.command)
                refused = self.hearing(envelope)
                if refused is None:
                    self.check_silence()
                    follower = self.following(waiting, until)
                outcome = refused or self.hand_over(envelope, follower)
            announced = follower
            self.is_announced = follower is not None
            waiting.popleft()
            yield outcome

    def envelope(self, message: Message) -> Envelope | Outcome:
        """Return what to say before the body, or the outcome where the server need not even be asked."""
        recipient, size, options = postal(message.recipient), len(message.content), ""
        if not recipient or UNSAFE.search(recipient):
            return outcome(message, Verdict.REFUSED, "mail", "5.1.3 this is not an address")
        if 0 < self.size_limit < size:
            reason = f"the message has {size} bytes and the server takes {self.size_limit}"
            return outcome(message, Verdict.REFUSED, "mail", reason)
        if "SIZE" in self.offers:
            options = f" SIZE={size}"
        if "8BITMIME" in self.offers and not message.content.isascii():
            options += " BODY=8BITMIME"
        if not recipient.isascii():
            if "SMTPUTF8" not in self.offers:
                reason = "5.6.7 the server does not take addresses outside ASCII (SMTPUTF8)"
                return outcome(message, Verdict.REFUSED, "mail", reason)
            options += " SMTPUTF8"
        sender = ("mail", f"MAIL FROM:<{message.sender}>{options}")
        commands = (sender, ("rcpt", f"RCPT TO:<{recipient}>"), DATA)
        return Envelope(message, (RESET, *commands) if self.is_stained else commands)

    def following(self, waiting: deque[Message], until: float) -> Envelope | None:
        """Return the envelope that may travel with the body of the first message."""
        if not self.is_pipelining or len(waiting) < 2 or monotonic() >= until:
            return None
        envelope = self.envelope(waiting[1])
        return envelope if isinstance(envelope, Envelope) else None

    def hearing(self, envelope: Envelope) -> Outcome | None:
        """Hear what the server says to the envelope; None if it now waits for the body.

        All answers to a pipelined envelope are on their way, so all are heard; the first no counts.
        """
        if self.is_pipelining and not self.is_stained and self.wire.hears(AGREED):
            return None
        deadline = monotonic() + self.patience.command
        refused, last = None, 0
        for phase, command in envelope.commands:
            if refused is not None and (self.is_dead or not self.is_pipelining):
                break
            try:
                reply = self.wire.reply(deadline) if self.is_pipelining else self.ask(command, deadline)
            except Broken:
                if refused is None:
                    raise
                self.is_dead = True
                break
            last = reply.code
            if refused is None and not is_welcome(phase, last):
                refused = self.judged(envelope.message, phase, reply)
        if refused is not None and last == 354:
            self.abandon(deadline)
        self.is_stained = refused is not None
        return refused

    def check_silence(self) -> None:
        """Raise OutOfStep if the server has said more than it was asked.

        What it said too much would be taken for its answer to the body that we are about to send.
        """
        if self.wire.received:
            raise OutOfStep("it talks nonsense: it answers what nobody has asked")

    def abandon(self, deadline: float) -> None:
        """End a body that nobody is to receive, where the server asked for one all the same."""
        try:
            self.ask(".", deadline)
        except Broken:
            self.is_dead = True

    def hand_over(self, envelope: Envelope, follower: Envelope | None) -> Outcome:
        """Send the body, with the next envelope behind it, and wait for what the server makes of it.

        Never raise: from the first byte on, every end is an outcome. A body whose final dot never left us
        cannot have been accepted; one whose dot has left is in doubt until the reply.
        """
        message, body = envelope.message, envelope.body or stuffed(envelope.message)
        try:
            after = (follower.as_bytes(),) if follower else ()
            self.wire.write(*body, *after, deadline=monotonic() + self.patience.body)
            if follower:  # while the server is busy with this one
                follower.body = stuffed(follower.message)
            reply = self.wire.reply(monotonic() + self.patience.dot)
        except Broken as broken:
            self.is_dead = True
            if self.wire.written < sum(map(len, body)):
                return outcome(message, Verdict.DEFERRED, "data", f"in the middle of it {broken.reason}")
            return outcome(message, Verdict.IN_DOUBT, "dot", broken.reason)
        return self.judged(message, "dot", reply)

    def judged(self, message: Message, phase: str, reply: Reply) -> Outcome:
        """Return the outcome that a reply stands for, or raise Broken if it is not about this message."""
        if reply.code == 421:  # it closes the connection (RFC 5321, 3.8)
            self.is_dead = True
        if phase == "reset" or (phase == "mail" and reply.code in ABOUT_US):
            raise Broken(f"it sends us away: {reply.code} {reply.text}", reply.code)
        if (reply.code < 400 or reply.code == OUT_OF_ORDER) and phase != "dot":
            raise OutOfStep(f"it talks nonsense: {reply.code} {reply.text} to {phase.upper()}")
        verdict = {2: Verdict.ACCEPTED, 4: Verdict.DEFERRED, 5: Verdict.REFUSED}.get(reply.code // 100)
        if reply.code in ABOUT_THE_LINE:
            verdict = None
        if verdict is None:
            self.is_dead = True  # whatever comes next would be taken for an answer to something else
        judgement = outcome(message, verdict or Verdict.IN_DOUBT, phase, reply.text, reply.code)
        if self.server.profile and verdict is Verdict.ACCEPTED:
            return replace(judgement, provider_id=renamed(self.server.profile, reply.text))
        return judgement


def check(reply: Reply, what: str, *, agreed: int | None = None) -> None:
    """Raise Broken unless the server agreed, where only one code says so with that one."""
    if not reply.is_yes and reply.code != agreed:
        raise Broken(f"{what}: {reply.code} {reply.text}", reply.code)


def without_login(said: str, server: Server) -> str:
    """Return a server's words without our password, plain or as the AUTH commands have it, whole or in part."""
    secrets = [*credentials(server), server.password]
    shown = said.replace(server.password, "…") if server.password else said
    return ENCODED.sub(lambda found: "…" if any(found[0] in each for each in secrets) else found[0], shown)


def credentials(server: Server) -> tuple[str, str]:
    """Return user and password as AUTH PLAIN wants them, and the password as AUTH LOGIN does."""
    return encoded(f"{chr(0)}{server.user}{chr(0)}{server.password}"), encoded(server.password)


def renamed(profile: str, reply: str) -> str:
    """Return what the provider calls a letter it has taken, or nothing if it does not say."""
    named = NAMES[profile].search(reply)
    return named[1] if named else ""


def is_welcome(phase: str, code: int) -> bool:
    """Return whether the server said yes in that phase."""
    return code == 354 if phase == "data" else 200 <= code < 300


def stuffed(message: Message) -> tuple[bytes, ...]:
    """Return the content as it travels: lines that begin with a dot get another, and a dot ends it."""
    content = message.content
    end = b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n"
    if not message.may_have_dots:  # 40 KB are not looked through
        return content, end
    first = b"." if content.startswith(b".") else b""
    return first, LINE_WITH_DOT.sub(b"\r\n..", content), end


def postal(address: str) -> str:
    """Return the address as any server reads it: its domain in ASCII, where it has such a form."""
    if address.isascii():
        return address
    local, _, domain = address.rpartition("@")
    return f"{local}@{addresses.ascii_domain(domain)}"


def encoded(text: str) -> str:
    """Return the text as the AUTH commands want it."""
    return base64.b64encode(text.encode()).decode()


def outcome(message: Message, verdict: Verdict, phase: str, reply: str, code: int | None = None) -> Outcome:
    """Return how one message fared."""
    return Outcome(
        delivery_id=message.delivery_id, verdict=verdict, phase=phase, code=code, reply=reply[:500]
    )


# ── the transport ───────────────────────────────────────────────────────────────────────────────


class Smtp:
    """Sends windows of messages over one connection, which it opens when needed and keeps."""

    def __init__(self, server: Server, *, helo: str, patience: Patience | None = None):
        self.server = server
        self.helo = UNSAFE.sub("", helo) or "localhost"
        self.patience = patience or Patience()
        self.connection: Connection | None = None
        self.is_wary = False  #: one step at a time: this server offers PIPELINING and loses count of it

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once; after a break go on over a new connection.

        A message that breaks two fresh connections' conversations in a row with another ends the window:
        the server is in trouble. So does one that it breaks off with a word about itself, as 421. Any other
        that does so alone is deferred, or it would stand in the way of the rest. A server that cannot follow
        a pipelined conversation is spoken with step by step from then on.
        """
        waiting, until, strikes = deque(window), monotonic() + self.patience.window, 0
        while waiting:
            if monotonic() >= until:
                yield from untried(waiting, Broken("time was up before its turn"), self.server)
                return
            was_open, before = self.connection is not None, len(waiting)
            try:
                connection = self.connected()
            except Broken as broken:
                yield from untried(waiting, broken, self.server)
                return
            try:
                yield from connection.converse(waiting, until)
            except Broken as broken:
                self.drop()
                if isinstance(broken, OutOfStep) and not self.is_wary and connection.is_pipelining:
                    self.is_wary, until = True, max(until, monotonic() + self.patience.window / 2)
                    continue
                if was_open or len(waiting) < before:
                    strikes = 0
                    continue
                if broken.code in ABOUT_US:  # by its own word it is not this message
                    yield from untried(waiting, broken, self.server)
                    return
                yield outcome(waiting.popleft(), Verdict.DEFERRED, "mail", broken.reason, broken.code)
                strikes += 1
                if strikes == 2:
                    yield from untried(waiting, broken, self.server)
                    return
            finally:
                self.drop_unless_idle()

    def connected(self) -> Connection:
        """Return the connection we have, or a new one."""
        if self.connection is None:
            self.connection = Connection(self.server, helo=self.helo, patience=self.patience)
            self.connection.is_pipelining &= not self.is_wary
        return self.connection

    def drop_unless_idle(self) -> None:
        """Hang up where a conversation ended in the middle: the next one needs a clean start."""
        if self.connection and (self.connection.is_dead or self.connection.is_announced):
            self.drop()

    def drop(self) -> None:
        """Hang up without a word."""
        if self.connection:
            self.connection.wire.close()
            self.connection = None

    def close(self) -> None:
        """Say goodbye; whatever comes of it, nothing is raised."""
        if self.connection:
            self.connection.leave()
            self.connection = None


def untried(waiting: Iterable[Message], broken: Broken, server: Server) -> Iterator[Outcome]:
    """Yield that nothing of these messages was sent, and why."""
    for message in waiting:
        reply = f"{server.name}: {broken.reason}"
        yield outcome(message, Verdict.UNTRIED, "connect", reply, broken.code)
