"""A transport that speaks SMTP or LMTP: one connection, kept open, with as few waits as the server allows.

Where a server offers PIPELINING (RFC 2920) a message's body and the next message's envelope travel in
one write, so a message costs one round trip instead of four. Only one body is ever on its way without
a reply, hence a break leaves at most that one message in doubt.
"""

from __future__ import annotations

import base64
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from time import monotonic
from urllib.parse import parse_qsl, unquote, urlsplit

from digest.errors import BadField
from digest.transport import Message, Outcome, Verdict

PORTS = {"smtp": 25, "smtps": 465, "lmtp": 24}
OPTIONS = {"starttls", "cafile"}
LONGEST_REPLY = 65_536  #: who says more is not talking SMTP
ABOUT_US = {421, 530, 534, 535, 538}  #: replies to MAIL that are about the connection, not the message
UNSAFE = re.compile(r"[\x00-\x20\x7f<>]")  #: what no envelope address of ours may hold


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How many seconds we wait. One window takes less than the task's time limit of 780 in all.

    After the final dot a server may think for ten minutes (RFC 5321, 4.5.3.2.6), and giving up earlier
    would make copies. Before the dot an early end costs nothing.
    """

    window: float = 30  #: then no further message of the window is begun
    connect: float = 30  #: for the whole greeting, with TLS and login
    command: float = 30
    body: float = 60
    dot: float = 600
    farewell: float = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """Where mail goes, as a mail URL says it."""

    scheme: str  #: smtp, smtps or lmtp
    host: str
    port: int
    path: str = ""  #: of a Unix socket, instead of host and port
    user: str = ""
    password: str = field(default="", repr=False)
    starttls: bool = False
    cafile: str | None = None  #: the authority behind the server's certificate, if it is not a public one

    @classmethod
    def from_url(cls, url: str) -> Server:
        """Return the server of `smtp://user:pass@host:587?starttls=true` or `lmtp:///run/lmtp.sock`.

        STARTTLS is demanded on port 587, and wherever a password would cross a network, unless the URL
        says otherwise.
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        try:
            port = parts.port or PORTS[parts.scheme]
        except ValueError as error:
            raise BadField("DIGEST_MAIL_URL", f"{error}.") from None
        if unknown := options.keys() - OPTIONS:
            raise BadField("DIGEST_MAIL_URL", f"{min(unknown)} is no option; write starttls or cafile.")
        path = unquote(parts.path) if not parts.hostname else ""
        if not parts.hostname and not path:
            raise BadField("DIGEST_MAIL_URL", "it names no host; write smtp://mail.example.org:587.")
        server = cls(
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=port,
            path=path,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            starttls=options.get("starttls", "").lower() in {"true", "yes", "1"},
            cafile=options.get("cafile"),
        )
        crosses = not server.is_local and (port == 587 or bool(server.user))
        return server.demanding_tls() if crosses and "starttls" not in options else server

    def demanding_tls(self) -> Server:
        """Return this server with STARTTLS, unless it speaks TLS from the first byte."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Server(**{**values, "starttls": self.scheme != "smtps"})

    @property
    def is_local(self) -> bool:
        """Return whether mail to it stays on this machine, at first."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def name(self) -> str:
        """Return its address without the password, for people."""
        return f"{self.scheme}://{self.path or f'{self.host}:{self.port}'}"


# ── one connection ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered to one command."""

    code: int
    text: str

    @property
    def is_yes(self) -> bool:
        """Return whether the server agreed."""
        return 200 <= self.code < 400


class Broken(Exception):
    """The conversation cannot go on: the server left, fell silent, sent us away, or talks nonsense."""

    def __init__(self, reason: str, code: int | None = None):
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Connection:
    """A connection to a server, ready for mail once it is made. Every method may raise Broken."""

    def __init__(self, server: Server, *, helo: str, patience: Patience):
        self.server = server
        self.helo = helo
        self.patience = patience
        self.received = b""
        self.written = 0  #: bytes of the last write that the kernel took
        self.offers: dict[str, str] = {}
        self.is_dead = False  #: nothing more can be said on it
        self.is_announced = False  #: the next message's envelope is with the server, unanswered
        self.is_stained = False  #: a transaction was left half done: RSET comes first
        deadline = monotonic() + patience.connect
        self.socket = self.dialled(deadline)
        try:
            self.greet(deadline)
        except BaseException:
            self.socket.close()
            raise

    # ── bytes ───────────────────────────────────────────────────────────────────────────────────

    def dialled(self, deadline: float) -> socket.socket:
        """Return a socket connected to the server."""
        seconds = deadline - monotonic()
        try:
            if self.server.path:
                plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                plain.settimeout(seconds)
                plain.connect(self.server.path)
                return plain
            plain = socket.create_connection((self.server.host, self.server.port), seconds)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise self.broken(error) from error
        return self.secured(plain, deadline) if self.server.scheme == "smtps" else plain

    def secured(self, plain: socket.socket, deadline: float) -> ssl.SSLSocket:
        """Return the socket inside TLS, once the server's certificate has been checked."""
        plain.settimeout(max(deadline - monotonic(), 0.001))
        try:
            context = ssl.create_default_context(cafile=self.server.cafile)
            return context.wrap_socket(plain, server_hostname=self.server.host)
        except OSError as error:
            plain.close()
            raise self.broken(error) from error

    def broken(self, error: OSError) -> Broken:
        """Return a socket's error as a break, in words."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return Broken(f"its certificate is not to be trusted: {error.verify_message}")
        if isinstance(error, TimeoutError):
            return Broken("it fell silent")
        return Broken(error.strerror or str(error))

    def write(self, data: bytes, seconds: float) -> None:
        """Write all of `data` within so many seconds; `written` tells how far we came."""
        self.written, deadline = 0, monotonic() + seconds
        with memoryview(data) as view:
            while self.written < len(data):
                self.socket.settimeout(max(deadline - monotonic(), 0.001))
                try:
                    self.written += self.socket.send(view[self.written :])
                except OSError as error:
                    raise self.broken(error) from error

    def line(self, deadline: float) -> bytes:
        """Return the next line of the server's reply, without its end."""
        while b"\n" not in self.received:
            self.socket.settimeout(max(deadline - monotonic(), 0.001))
            try:
                more = self.socket.recv(LONGEST_REPLY)
            except OSError as error:
                raise self.broken(error) from error
            if not more:
                raise Broken("it hung up")
            self.received += more
            if len(self.received) > LONGEST_REPLY:
                raise Broken("it talks nonsense: a reply without an end")
        line, _, self.received = self.received.partition(b"\n")
        return line.rstrip(b"\r")

    def lines(self, deadline: float) -> tuple[int, list[str]]:
        """Return the code and the lines of the next whole reply."""
        found: list[str] = []
        while len(found) < 100:
            line = self.line(deadline)
            if not re.fullmatch(rb"[2-5]\d\d([ -].*)?", line):
                raise Broken(f"it talks nonsense: {line[:80]!r}")
            found.append(line[4:].decode("utf-8", "replace"))
            if line[3:4] != b"-":
                return int(line[:3]), found
        raise Broken("it talks nonsense: a reply of a hundred lines")

    def reply(self, deadline: float) -> Reply:
        """Return the server's next reply."""
        code, lines = self.lines(deadline)
        return Reply(code, " ".join(lines))

    def ask(self, command: str, deadline: float) -> Reply:
        """Send one command and return the reply."""
        self.write(f"{command}\r\n".encode(), deadline - monotonic())
        return self.reply(deadline)

    def demand(self, command: str, deadline: float, *, what: str) -> None:
        """Send one command and raise Broken unless the server agrees."""
        self.check(self.ask(command, deadline), what)

    def check(self, reply: Reply, what: str) -> None:
        """Raise Broken unless the server agreed."""
        if not reply.is_yes:
            raise Broken(f"{what}: {reply.code} {reply.text}", reply.code)

    # ── the greeting ────────────────────────────────────────────────────────────────────────────

    def greet(self, deadline: float) -> None:
        """Introduce ourselves, and do not go on without the TLS and the login that were asked for."""
        self.check(self.reply(deadline), "it does not want us")
        self.introduce(deadline)
        if self.server.starttls:
            self.start_tls(deadline)
            self.introduce(deadline)
        if self.server.user:
            self.log_in(deadline)

    def introduce(self, deadline: float) -> None:
        """Say EHLO (LHLO to LMTP) and keep what the server offers."""
        verb = "LHLO" if self.server.scheme == "lmtp" else "EHLO"
        self.write(f"{verb} {self.helo}\r\n".encode(), deadline - monotonic())
        code, lines = self.lines(deadline)
        if code >= 500 and verb == "EHLO":
            self.demand(f"HELO {self.helo}", deadline, what="it does not greet us back")
            lines = []
        else:
            self.check(Reply(code, lines[0]), "it does not greet us back")
        offers = (line.upper().partition(" ") for line in lines[1:])
        self.offers = {keyword: rest for keyword, _, rest in offers}

    def start_tls(self, deadline: float) -> None:
        """Turn the connection to TLS; what was said in clear is forgotten."""
        if "STARTTLS" not in self.offers:
            raise Broken("it does not offer STARTTLS, which DIGEST_MAIL_URL demands")
        self.demand("STARTTLS", deadline, what="STARTTLS")
        if self.received:  # whoever sits between us could slip in replies here (CVE-2011-0411)
            raise Broken("it talks nonsense: words in clear after STARTTLS")
        self.socket = self.secured(self.socket, deadline)

    def log_in(self, deadline: float) -> None:
        """Log in with AUTH PLAIN, or LOGIN where that is all there is."""
        if not isinstance(self.socket, ssl.SSLSocket) and not self.server.is_local:
            raise Broken("the password would cross the network in clear; add ?starttls=true")
        user, password = self.server.user, self.server.password
        mechanisms = self.offers.get("AUTH", "").split()
        if "PLAIN" in mechanisms:
            self.demand(
                f"AUTH PLAIN {encoded(f'{chr(0)}{user}{chr(0)}{password}')}", deadline, what="the login"
            )
        elif "LOGIN" in mechanisms:
            self.demand("AUTH LOGIN", deadline, what="the login")
            self.demand(encoded(user), deadline, what="the login")
            self.demand(encoded(password), deadline, what="the login")
        else:
            raise Broken("it offers no login that we know (PLAIN or LOGIN)")

    def leave(self) -> None:
        """Say QUIT and hang up; whatever comes of it no longer matters."""
        try:
            self.ask("QUIT", monotonic() + self.patience.farewell)
        except Broken:
            pass
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """Close the socket: without a final dot the server drops what it was being sent."""
        self.socket.close()

    # ── mail ────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_pipelining(self) -> bool:
        """Return whether the server takes several commands at once."""
        return "PIPELINING" in self.offers

    def converse(self, waiting: deque[Message], until: float) -> Iterator[Outcome]:
        """Hand over the messages in turn, removing each from `waiting` when its outcome is known.

        Raise Broken where the connection ends before the body of the first: nothing of it was sent.
        """
        while waiting and not self.is_dead and (self.is_announced or monotonic() < until):
            message = waiting[0]
            outcome = None if self.is_announced else self.objection(message)
            if outcome is None:
                self.announce(message)
                outcome = self.hearing(message) or self.hand_over(message, self.follower(waiting, until))
            waiting.popleft()
            yield outcome

    def objection(self, message: Message) -> Outcome | None:
        """Return why the server need not even be asked about a message, or None."""
        limit = self.offers.get("SIZE", "")
        reason = ""
        if UNSAFE.search(message.recipient) or not message.recipient:
            reason = "this is not an address"
        elif limit.isdigit() and 0 < int(limit) < len(message.content):
            reason = f"the message has {len(message.content)} bytes and the server takes {limit}"
        elif not postal(message.recipient).isascii() and "SMTPUTF8" not in self.offers:
            reason = "the server does not take addresses outside ASCII (SMTPUTF8)"
        return outcome(message, Verdict.REFUSED, "mail", reason) if reason else None

    def envelope(self, message: Message) -> list[tuple[str, str]]:
        """Return the commands before the body, each with the phase it stands for."""
        options = f" SIZE={len(message.content)}" if "SIZE" in self.offers else ""
        if "8BITMIME" in self.offers and not message.content.isascii():
            options += " BODY=8BITMIME"
        recipient = postal(message.recipient)
        if not recipient.isascii():
            options += " SMTPUTF8"
        commands = [
            ("mail", f"MAIL FROM:<{message.sender}>{options}"),
            ("rcpt", f"RCPT TO:<{recipient}>"),
            ("data", "DATA"),
        ]
        return [("reset", "RSET"), *commands] if self.is_stained else commands

    def announced(self, message: Message) -> bytes:
        """Return the whole envelope as one write."""
        return "".join(f"{command}\r\n" for _, command in self.envelope(message)).encode()

    def announce(self, message: Message) -> None:
        """Send the envelope ahead, if the server allows it and has not got it already."""
        if self.is_pipelining and not self.is_announced:
            self.write(self.announced(message), self.patience.command)

    def follower(self, waiting: deque[Message], until: float) -> Message | None:
        """Return the message whose envelope may travel with the body of the first."""
        if not self.is_pipelining or len(waiting) < 2 or monotonic() >= until:
            return None
        return waiting[1] if self.objection(waiting[1]) is None else None

    def hearing(self, message: Message) -> Outcome | None:
        """Hear what the server says to the envelope; None if it now waits for the body.

        All the answers to a pipelined envelope are on their way, so all of them are heard; the first no
        is the one that counts.
        """
        deadline = monotonic() + self.patience.command
        refused, last = None, 0
        self.is_announced = False
        for phase, command in self.envelope(message):
            if refused is not None and (self.is_dead or not self.is_pipelining):
                break
            reply = self.reply(deadline) if self.is_pipelining else self.ask(command, deadline)
            last = reply.code
            if refused is None and not is_welcome(phase, reply):
                refused = self.judged(message, phase, reply)
        if refused is not None and last == 354:
            self.ask(".", deadline)  # a body that nobody is to receive
        self.is_stained = refused is not None
        return refused

    def hand_over(self, message: Message, follower: Message | None) -> Outcome:
        """Send the body, with the next envelope behind it, and wait for what the server makes of it.

        Never raise: from the first byte on, every end is an outcome. A body whose final dot never left us
        cannot have been accepted; one whose dot has left is in doubt until the reply.
        """
        body = stuffed(message.content)
        try:
            self.write(body + self.announced(follower) if follower else body, self.patience.body)
            reply = self.reply(monotonic() + self.patience.dot)
        except Broken as broken:
            self.is_dead = True
            if self.written < len(body):
                return outcome(message, Verdict.DEFERRED, "data", f"in the middle of it {broken.reason}")
            return outcome(message, Verdict.IN_DOUBT, "dot", broken.reason)
        self.is_announced = follower is not None
        return self.judged(message, "dot", reply)

    def judged(self, message: Message, phase: str, reply: Reply) -> Outcome:
        """Return the outcome that a reply stands for, or raise Broken if it is not about this message."""
        if reply.code == 421:  # it closes the connection (RFC 5321, 3.8)
            self.is_dead = True
        if phase == "reset" or (phase == "mail" and reply.code in ABOUT_US):
            raise Broken(f"it sends us away: {reply.code} {reply.text}", reply.code)
        if reply.code < 400 and phase != "dot":
            raise Broken(f"it talks nonsense: {reply.code} to {phase.upper()}")
        verdict = {2: Verdict.ACCEPTED, 4: Verdict.DEFERRED, 5: Verdict.REFUSED}.get(reply.code // 100)
        return outcome(message, verdict or Verdict.IN_DOUBT, phase, reply.text, reply.code)


def is_welcome(phase: str, reply: Reply) -> bool:
    """Return whether the server said yes in that phase."""
    return reply.code == 354 if phase == "data" else 200 <= reply.code < 300


def stuffed(content: bytes) -> bytes:
    """Return the content as it travels: lines that begin with a dot get another, and a dot ends it."""
    end = b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n"
    first = b"." if content.startswith(b".") else b""
    return first + content.replace(b"\r\n.", b"\r\n..") + end


def postal(address: str) -> str:
    """Return the address as any server reads it: its domain in ASCII, where it has such a form."""
    local, _, domain = address.rpartition("@")
    try:
        return address if address.isascii() else f"{local}@{domain.encode('idna').decode()}"
    except UnicodeError:
        return address


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

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once; after a break go on over a new connection.

        A message that breaks two fresh connections' conversations in a row with another ends the window:
        the server is in trouble. One alone is deferred, or it would stand in the way of all others.
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
                if was_open or len(waiting) < before:
                    continue
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
        return self.connection

    def drop_unless_idle(self) -> None:
        """Hang up where a conversation ended in the middle: the next one needs a clean start."""
        if self.connection and (self.connection.is_dead or self.connection.is_announced):
            self.drop()

    def drop(self) -> None:
        """Hang up without a word."""
        if self.connection:
            self.connection.hang_up()
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
