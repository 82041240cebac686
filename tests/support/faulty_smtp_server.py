"""A mail server that fails on demand, at each stage of a conversation and in each known way.

It records every accepted message, even if it sent no reply, so that a test can count copies.
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
from typing import NoReturn


class Fault(StrEnum):
    """A fault, named by its stage and kind."""

    BANNER_421 = "421 instead of a greeting"
    BANNER_554 = "554 instead of a greeting"
    BANNER_DROP = "hangs up instead of greeting"
    BANNER_RESET = "resets instead of greeting"
    BANNER_HANG = "falls silent instead of greeting"
    HELLO_421 = "421 to EHLO"
    HELLO_554 = "554 to EHLO, and to HELO"
    HELLO_DROP = "hangs up at EHLO"
    HELLO_HANG = "falls silent at EHLO"
    TLS_454 = "454 to STARTTLS"
    TLS_DROP = "hangs up during the TLS handshake"
    TLS_RESET = "resets during the TLS handshake"
    TLS_HANG = "falls silent during the TLS handshake"
    TLS_NONSENSE = "answers the TLS handshake in plain text"
    MAIL_421 = "421 to MAIL"
    MAIL_451 = "451 to MAIL"
    MAIL_452 = "452 to MAIL"
    MAIL_530 = "530 to MAIL: log in first"
    MAIL_550 = "550 to MAIL"
    MAIL_552 = "552 to MAIL"
    MAIL_554 = "554 to MAIL"
    MAIL_DROP = "hangs up at MAIL"
    MAIL_RESET = "resets at MAIL"
    MAIL_HANG = "falls silent at MAIL"
    RCPT_421 = "421 to RCPT"
    RCPT_450 = "450 to RCPT"
    RCPT_451 = "451 to RCPT"
    RCPT_452 = "452 to RCPT"
    RCPT_550 = "550 to RCPT"
    RCPT_550_BUT_354 = "550 to RCPT, and yet 354 to DATA"
    RCPT_552 = "552 to RCPT"
    RCPT_554 = "554 to RCPT"
    RCPT_DROP = "hangs up at RCPT"
    RCPT_RESET = "resets at RCPT"
    RCPT_HANG = "falls silent at RCPT"
    DATA_421 = "421 to DATA"
    DATA_451 = "451 to DATA"
    DATA_452 = "452 to DATA"
    DATA_550 = "550 to DATA"
    DATA_552 = "552 to DATA"
    DATA_554 = "554 to DATA"
    DATA_DROP = "hangs up at DATA"
    DATA_RESET = "resets at DATA"
    DATA_HANG = "falls silent at DATA"
    MIDDLE_DROP = "hangs up in the middle of the body"
    DOT_421 = "421 to the final dot"
    DOT_451 = "451 to the final dot"
    DOT_452 = "452 to the final dot"
    DOT_550 = "550 to the final dot"
    DOT_552 = "552 to the final dot"
    DOT_554 = "554 to the final dot"
    DOT_DROP = "accepts, and hangs up instead of saying so"
    DOT_RESET = "accepts, and resets instead of saying so"
    DOT_HANG = "accepts, and falls silent"
    DOT_LOSE = "hangs up after the final dot without having accepted"
    TRICKLE = "replies byte by byte"
    BINARY = "accepts with a reply that contains binary data"
    NONSENSE = "replies with something that is not SMTP"
    QUIT_421 = "421 to QUIT"

    @property
    def stage(self) -> str:
        """Return the stage of the conversation at which the fault happens."""
        return self.name.partition("_")[0]

    @property
    def reply(self) -> str:
        """Return the server's reply, or an empty string if the fault is not a reply."""
        return REPLIES.get(self.name) or REPLIES.get(self.value[:3], "")


#: The replies by code, and one reply whose text matters.
REPLIES = {
    "421": "421 4.3.2 closing down",
    "450": "450 4.2.1 mailbox busy",
    "451": "451 4.3.0 not now",
    "452": "452 4.3.1 no room",
    "454": "454 4.7.0 no TLS today",
    "550": "550 5.1.1 no such user",
    "552": "552 5.3.4 too big",
    "554": "554 5.6.0 never",
    "MAIL_530": "530 5.7.0 log in first",
    "MAIL_550": "550 5.7.1 not from you",
    "RCPT_421": "421 4.7.0 too many",
    "RCPT_451": "451 4.7.1 greylisted",
    "RCPT_452": "452 4.2.2 mailbox full",
    "RCPT_552": "552 5.2.2 mailbox full",
}

#: Faults after which the message is accepted and its sender is in doubt.
SILENT_ACCEPTANCES = {Fault.DOT_DROP, Fault.DOT_RESET, Fault.DOT_HANG}


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """A message that the server accepted."""

    recipient: str
    content: bytes
    is_acknowledged: bool  #: whether the sender got the reply
    at: datetime


Plan = Callable[[str], Fault | None]  #: the fault of the next attempt to this recipient


def connections_to(listener: socket.socket) -> Iterator[socket.socket]:
    """Yield the connections to a listener until it is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        yield connection


@dataclass(kw_only=True)
class FaultyServer:
    """An SMTP or LMTP server in threads; its plans decide how each attempt ends."""

    plan: Plan = lambda _recipient: None
    mail_plan: Callable[[], Fault | None] = lambda: None  #: at MAIL, where the recipient is not known yet
    offers: tuple[str, ...] = ("PIPELINING", "8BITMIME")
    greeting_plan: Callable[[], Fault | None] = lambda: None  #: the fault at the start of the next connection
    tls: ssl.SSLContext | None = None  #: for STARTTLS, or from the first byte with `is_tls_at_once`
    is_tls_at_once: bool = False
    login: tuple[str, str] | None = None
    hang_seconds: float = 30
    thanks: str = "250 2.0.0 taken"  #: the reply to an accepted message
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
        for connection in connections_to(listener):
            self.connections += 1
            threading.Thread(target=self.converse, args=(connection,), daemon=True).start()

    def converse(self, connection: socket.socket) -> None:
        """Run one conversation until either side ends it."""
        conversation = Conversation(self, connection)
        try:
            if self.is_tls_at_once and self.tls:
                conversation.connection = self.tls.wrap_socket(connection, server_side=True)
            conversation.run()
        except (OSError, ConversationEnded):
            pass
        finally:
            conversation.connection.close()


class ConversationEnded(Exception):
    """The end of the conversation."""


class Conversation:
    """The conversation of one connection."""

    def __init__(self, server: FaultyServer, connection: socket.socket):
        self.server = server
        self.connection = connection
        self.received = b""
        self.is_trickling = False
        self.has_sender = False
        self.recipient = ""
        self.fault: Fault | None = None
        self.greeting_fault = server.greeting_plan()

    def run(self) -> None:
        if self.fail_as_planned(self.greeting_fault, "BANNER"):
            raise ConversationEnded
        self.write_reply("220 faulty at your service")
        while True:
            line = self.line()
            self.server.commands.append(line)
            self.handle_command(line)

    def fail_as_planned(self, fault: Fault | None, stage: str) -> bool:
        """Fail if the plan has a fault for this stage, and return whether a reply was sent."""
        if fault is None or fault.stage != stage:
            return False
        match fault.name.rpartition("_")[2]:
            case "DROP":
                raise ConversationEnded
            case "RESET":
                self.reset()
            case "HANG":
                time.sleep(self.server.hang_seconds)
                raise ConversationEnded
            case "421":
                self.end(fault.reply)
        self.write_reply(fault.reply)
        return True

    def handle_command(self, line: str) -> None:  # noqa: PLR0912, PLR0915  (a branch for each command of SMTP)
        verb = line.split(" ", maxsplit=1)[0].split(":", maxsplit=1)[0].upper()
        match verb:
            case "EHLO" | "LHLO" | "HELO" if self.fail_as_planned(self.greeting_fault, "HELLO"):
                pass
            case "EHLO" | "LHLO":
                self.write_reply(
                    "\r\n".join(f"250-{offer}" for offer in ("faulty", *self.server.offers[:-1]))
                )
                self.write_reply(f"250 {self.server.offers[-1] if self.server.offers else 'HELP'}")
            case "HELO" | "NOOP":
                self.write_reply("250 ok")
            case "RSET":
                self.has_sender, self.recipient = False, ""
                self.write_reply("250 ok")
            case "STARTTLS" if self.server.tls:
                self.secure(self.server.tls)
            case "AUTH":
                self.authenticate(line)
            case "MAIL":
                self.write_reply("503 nested MAIL") if self.has_sender else self.mail()
            case "RCPT":
                self.envelope(line)
            case "DATA":
                self.data()
            case "QUIT":
                self.end("421 never" if self.fault is Fault.QUIT_421 else "221 bye")
            case _:
                self.write_reply("500 what?")

    def secure(self, tls: ssl.SSLContext) -> None:
        if self.greeting_fault is Fault.TLS_454:
            self.write_reply(self.greeting_fault.reply)
            return
        self.write_reply("220 go ahead")
        if self.greeting_fault is Fault.TLS_NONSENSE:
            self.connection.recv(100)
            self.end("500 what is this?")
        self.fail_as_planned(self.greeting_fault, "TLS")
        self.connection = tls.wrap_socket(self.connection, server_side=True)

    def mail(self) -> None:
        self.recipient, self.fault = "", None
        if not self.fail_as_planned(self.server.mail_plan(), "MAIL"):
            self.has_sender = True
            self.write_reply("250 ok")

    def envelope(self, line: str) -> None:
        """Answer RCPT, which selects the fault of this message."""
        if not self.has_sender:
            self.write_reply("503 MAIL first")
            return
        self.recipient = line.partition("<")[2].partition(">")[0]
        self.fault = self.server.plan(self.recipient)
        if not self.fail_as_planned(self.fault, "RCPT"):
            self.write_reply("250 ok")

    def data(self) -> None:
        is_refused = self.fault and self.fault.stage == "RCPT" and self.fault is not Fault.RCPT_550_BUT_354
        if is_refused or not self.recipient:
            self.write_reply("503 no recipients")
            return
        if self.fail_as_planned(self.fault, "DATA"):
            return
        self.write_reply("354 go on")
        if self.fault is Fault.MIDDLE_DROP:
            self.connection.recv(100)
            raise ConversationEnded
        content, self.has_sender = self.body(), False
        if self.fault is Fault.RCPT_550_BUT_354:
            self.write_reply("554 5.5.1 nobody wants it")
        elif self.fault is Fault.DOT_LOSE:
            raise ConversationEnded
        elif self.fault and self.fault.stage == "DOT" and self.fault.reply:
            self.fail_as_planned(self.fault, "DOT")
        else:
            self.accept(content, self.fault)

    def accept(self, content: bytes, fault: Fault | None) -> None:
        with self.server.lock:
            is_acknowledged = fault not in SILENT_ACCEPTANCES
            taken = Taken(
                recipient=self.recipient,
                content=content,
                is_acknowledged=is_acknowledged,
                at=datetime.now(UTC),
            )
            self.server.taken.append(taken)
        if not is_acknowledged:
            self.fail_as_planned(fault, "DOT")
        match fault:
            case Fault.NONSENSE:
                self.write_reply("zut alors")
            case Fault.BINARY:
                self.write_reply("250 2.0.0 taken \0\r\x1b[31m as \N{ZERO WIDTH SPACE}1")
            case Fault.TRICKLE:
                self.is_trickling = True
                self.write_reply("250 2.0.0 taken")
                self.is_trickling = False
            case _:
                self.write_reply(self.server.thanks)
        self.recipient = ""

    def authenticate(self, line: str) -> None:
        import base64

        def decoded(text: str) -> str:
            return base64.b64decode(text).decode()

        mechanism, _, first = line.partition(" ")[2].partition(" ")
        if mechanism == "PLAIN":
            given = tuple(decoded(first).split("\0")[1:])
        else:
            self.write_reply("334 VXNlcm5hbWU6")
            user = decoded(self.line())
            self.write_reply("334 UGFzc3dvcmQ6")
            given = (user, decoded(self.line()))
        self.write_reply("235 welcome" if given == self.server.login else "535 5.7.8 wrong password")

    # ── bytes ───────────────────────────────────────────────────────────────────────────────────

    def line(self) -> str:
        while b"\r\n" not in self.received:
            self.more()
        line, _, self.received = self.received.partition(b"\r\n")
        return line.decode()

    def body(self) -> bytes:
        """Return the message with dot-stuffing removed; only CRLF.CRLF ends it."""
        while b"\r\n.\r\n" not in b"\r\n" + self.received:
            self.more()
        raw, _, self.received = (b"\r\n" + self.received).partition(b"\r\n.\r\n")
        return raw.replace(b"\r\n..", b"\r\n.").removeprefix(b"\r\n") + (b"\r\n" if raw else b"")

    def more(self) -> None:
        received = self.connection.recv(1 << 20)
        if not received:
            raise ConversationEnded
        self.server.writes.append(received)
        self.received += received

    def write_reply(self, text: str) -> None:
        if self.is_trickling:
            for char in f"{text}\r\n".encode():
                self.connection.sendall(bytes([char]))
                time.sleep(0.005)
        else:
            self.connection.sendall(f"{text}\r\n".encode())

    def end(self, text: str) -> NoReturn:
        self.write_reply(text)
        raise ConversationEnded

    def reset(self) -> NoReturn:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConversationEnded


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
