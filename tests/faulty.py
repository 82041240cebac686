"""A mail server that fails on demand: at each stage of a conversation, in each way that servers do.

It remembers what it took responsibility for, whether or not it told, so that a test can count copies.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum


class Fault(StrEnum):
    """A way to fail, named by where and how."""

    BANNER_421 = "421 instead of a greeting"
    BANNER_DROP = "hangs up instead of greeting"
    MAIL_421 = "421 to MAIL"
    MAIL_451 = "451 to MAIL"
    MAIL_530 = "530 to MAIL: log in first"
    MAIL_552 = "552 to MAIL"
    RCPT_421 = "421 to RCPT"
    RCPT_450 = "450 to RCPT"
    RCPT_550 = "550 to RCPT"
    RCPT_550_BUT_354 = "550 to RCPT, and yet 354 to DATA"
    DATA_451 = "451 to DATA"
    DATA_554 = "554 to DATA"
    MIDDLE_DROP = "hangs up in the middle of the body"
    DOT_421 = "421 to the final dot"
    DOT_451 = "451 to the final dot"
    DOT_552 = "552 to the final dot"
    DOT_DROP = "accepts, and hangs up instead of saying so"
    DOT_RESET = "accepts, and resets instead of saying so"
    DOT_HANG = "accepts, and falls silent"
    DOT_LOSE = "hangs up after the final dot without having accepted"
    TRICKLE = "replies byte by byte"
    NONSENSE = "replies with what is no SMTP"
    QUIT_421 = "421 to QUIT"


#: These accept a message and leave its sender in doubt.
SILENT_ACCEPTANCES = {Fault.DOT_DROP, Fault.DOT_RESET, Fault.DOT_HANG}


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """A message the server took responsibility for."""

    recipient: str
    content: bytes
    is_told: bool  #: whether the sender was told so
    at: datetime


Plan = Callable[[str], Fault | None]  #: how the next try to write to this recipient fares


@dataclass(kw_only=True)
class FaultyServer:
    """An SMTP or LMTP server in threads; its plans say how each try fares."""

    plan: Plan = lambda _recipient: None
    mail_plan: Callable[[], Fault | None] = lambda: None  #: at MAIL no server knows for whom it is
    offers: tuple[str, ...] = ("PIPELINING", "8BITMIME")
    greeting_fault: Fault | None = None
    tls: ssl.SSLContext | None = None  #: for STARTTLS, or from the first byte with `is_tls_at_once`
    is_tls_at_once: bool = False
    login: tuple[str, str] | None = None
    hang_seconds: float = 30
    taken: list[Taken] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    writes: list[bytes] = field(default_factory=list)
    connections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0

    def copies(self, recipient: str) -> list[bytes]:
        """Return every copy accepted for a recipient."""
        with self.lock:
            return [taken.content for taken in self.taken if taken.recipient == recipient]

    def serve(self, listener: socket.socket) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.converse, args=(connection,), daemon=True).start()

    def converse(self, connection: socket.socket) -> None:
        """Talk until one of us has had enough."""
        conversation = Conversation(self, connection)
        try:
            if self.is_tls_at_once and self.tls:
                conversation.connection = self.tls.wrap_socket(connection, server_side=True)
            conversation.run()
        except (OSError, End):
            pass
        finally:
            conversation.connection.close()


class End(Exception):
    """The conversation is over."""


class Conversation:
    """One connection's talk."""

    def __init__(self, server: FaultyServer, connection: socket.socket):
        self.server = server
        self.connection = connection
        self.received = b""
        self.is_trickling = False
        self.has_sender = False
        self.recipient = ""
        self.fault: Fault | None = None

    def run(self) -> None:
        if self.server.greeting_fault is Fault.BANNER_DROP:
            raise End
        if self.server.greeting_fault is Fault.BANNER_421:
            self.end("421 4.3.2 closing down")
        self.say("220 faulty at your service")
        while True:
            line = self.line()
            self.server.commands.append(line)
            self.obey(line)

    def obey(self, line: str) -> None:
        verb = line.split(" ", maxsplit=1)[0].split(":", maxsplit=1)[0].upper()
        match verb:
            case "EHLO" | "LHLO":
                self.say("\r\n".join(f"250-{offer}" for offer in ("faulty", *self.server.offers[:-1])))
                self.say(f"250 {self.server.offers[-1] if self.server.offers else 'HELP'}")
            case "HELO" | "NOOP":
                self.say("250 ok")
            case "RSET":
                self.has_sender, self.recipient = False, ""
                self.say("250 ok")
            case "STARTTLS" if self.server.tls:
                self.say("220 go ahead")
                self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
            case "AUTH":
                self.authenticate(line)
            case "MAIL":
                self.say("503 nested MAIL") if self.has_sender else self.mail()
            case "RCPT":
                self.envelope(line)
            case "DATA":
                self.data()
            case "QUIT":
                self.end("421 never" if self.fault is Fault.QUIT_421 else "221 bye")
            case _:
                self.say("500 what?")

    def mail(self) -> None:
        match self.server.mail_plan():
            case Fault.MAIL_421:
                self.end("421 4.3.2 closing down")
            case Fault.MAIL_451:
                self.say("451 4.3.0 not now")
            case Fault.MAIL_530:
                self.say("530 5.7.0 log in first")
            case Fault.MAIL_552:
                self.say("552 5.3.4 too big")
            case _:
                self.has_sender = True
                self.say("250 ok")

    def envelope(self, line: str) -> None:
        """Answer RCPT, which decides how this message fares."""
        if not self.has_sender:
            self.say("503 MAIL first")
            return
        self.recipient = line.partition("<")[2].partition(">")[0]
        self.fault = self.server.plan(self.recipient)
        match self.fault:
            case Fault.RCPT_421:
                self.end("421 4.7.0 too many")
            case Fault.RCPT_450:
                self.say("450 4.2.1 mailbox busy")
            case Fault.RCPT_550 | Fault.RCPT_550_BUT_354:
                self.say("550 5.1.1 no such user")
            case _:
                self.say("250 ok")

    def data(self) -> None:
        refusals = {Fault.DATA_451: "451 4.3.0 not now", Fault.DATA_554: "554 5.6.0 never"}
        refusals |= dict.fromkeys((Fault.RCPT_450, Fault.RCPT_550), "503 no recipients")
        refusal = refusals.get(self.fault) if self.recipient and self.fault else None
        if refusal or not self.recipient:
            self.say(refusal or "503 RCPT first")
            return
        self.say("354 go on")
        if self.fault is Fault.MIDDLE_DROP:
            self.connection.recv(100)
            raise End
        content, self.has_sender = self.body(), False
        match self.fault:
            case Fault.RCPT_550_BUT_354:
                self.say("554 5.5.1 nobody wants it")
            case Fault.DOT_421:
                self.end("421 4.3.2 closing down")
            case Fault.DOT_451:
                self.say("451 4.3.0 not now")
            case Fault.DOT_552:
                self.say("552 5.3.4 too big")
            case Fault.DOT_LOSE:
                raise End
            case fault:
                self.accept(content, fault)

    def accept(self, content: bytes, fault: Fault | None) -> None:
        with self.server.lock:
            is_told = fault not in SILENT_ACCEPTANCES
            taken = Taken(recipient=self.recipient, content=content, is_told=is_told, at=datetime.now(UTC))
            self.server.taken.append(taken)
        match fault:
            case Fault.DOT_DROP:
                raise End
            case Fault.DOT_RESET:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raise End
            case Fault.DOT_HANG:
                time.sleep(self.server.hang_seconds)
                raise End
            case Fault.NONSENSE:
                self.say("zut alors")
            case Fault.TRICKLE:
                self.is_trickling = True
                self.say("250 2.0.0 taken")
                self.is_trickling = False
            case _:
                self.say("250 2.0.0 taken")
        self.recipient = ""

    def authenticate(self, line: str) -> None:
        import base64

        def decoded(text: str) -> str:
            return base64.b64decode(text).decode()

        mechanism, _, first = line.partition(" ")[2].partition(" ")
        if mechanism == "PLAIN":
            given = tuple(decoded(first).split("\0")[1:])
        else:
            self.say("334 VXNlcm5hbWU6")
            user = decoded(self.line())
            self.say("334 UGFzc3dvcmQ6")
            given = (user, decoded(self.line()))
        self.say("235 welcome" if given == self.server.login else "535 5.7.8 wrong password")

    # ── bytes ───────────────────────────────────────────────────────────────────────────────────

    def line(self) -> str:
        while b"\r\n" not in self.received:
            self.more()
        line, _, self.received = self.received.partition(b"\r\n")
        return line.decode()

    def body(self) -> bytes:
        """Return the message, its stuffed dots taken away; only CRLF.CRLF ends it."""
        while b"\r\n.\r\n" not in b"\r\n" + self.received:
            self.more()
        raw, _, self.received = (b"\r\n" + self.received).partition(b"\r\n.\r\n")
        return raw.replace(b"\r\n..", b"\r\n.").removeprefix(b"\r\n") + (b"\r\n" if raw else b"")

    def more(self) -> None:
        received = self.connection.recv(1 << 20)
        if not received:
            raise End
        self.server.writes.append(received)
        self.received += received

    def say(self, text: str) -> None:
        if self.is_trickling:
            for char in f"{text}\r\n".encode():
                self.connection.sendall(bytes([char]))
                time.sleep(0.005)
        else:
            self.connection.sendall(f"{text}\r\n".encode())

    def end(self, text: str) -> None:
        self.say(text)
        raise End


@contextmanager
def faulty_server(server: FaultyServer | None = None, *, path: str | None = None) -> Iterator[FaultyServer]:
    """Run a faulty server on the loopback, or on a Unix socket, until the block ends."""
    server = server or FaultyServer()
    listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(path or ("127.0.0.1", 0))
    listener.listen(64)
    server.port = 0 if path else listener.getsockname()[1]
    thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=5)
