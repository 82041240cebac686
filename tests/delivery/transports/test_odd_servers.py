"""Each letter has one correct outcome even with servers that violate SMTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from digest.delivery.transports.smtp import MailServer, SmtpTransport, Timeouts
from digest.delivery.transports.transport import Message, Outcome
from tests.support.faulty_smtp_server import connections_to

PATIENCE = Timeouts(window=5, connect=1, command=0.5, body=1, dot=0.5, quit=0.2)
CRLF = b"\r\n"
Answer = Callable[["Talk"], bytes]


@dataclass(kw_only=True)
class Odd:
    """A server that violates SMTP, with its replies by command."""

    greeting: bytes = b"220 here"
    hello: bytes = b"250-odd\r\n250-PIPELINING\r\n250 AUTH PLAIN"
    login: bytes = b"235 welcome"
    mail: bytes = b"250 ok"
    rcpt: Answer = lambda _talk: b"250 ok"
    data: bytes = b"354 go on"
    dot: bytes = b"250 taken"
    reset: bytes = b"250 ok"
    forgets: str = ""  #: what it drops of pipelined input: a `command`, or a `body`
    taken: list[bytes] = field(default_factory=list)  #: recipients of the letters it accepted
    connections: int = 0
    port: int = 0

    def serve(self, listener: socket.socket) -> None:
        for connection in connections_to(listener):
            self.connections += 1
            threading.Thread(target=Talk(self, connection).run, daemon=True).start()


@dataclass
class Talk:
    """One conversation of an odd server."""

    odd: Odd
    connection: socket.socket
    received: bytes = b""
    recipient: bytes = b""

    def run(self) -> None:
        with self.connection:
            try:
                self.say(self.odd.greeting)
                while True:
                    self.obey(self.until(CRLF, "command"))
            except OSError:
                return

    def obey(self, line: bytes) -> None:
        odd = self.odd
        match line[:4].upper():
            case b"DATA":
                self.take()
            case b"RCPT":
                self.recipient = line
                self.say(odd.rcpt(self))
            case b"QUIT":
                raise ConnectionError
            case verb:
                self.say({b"MAIL": odd.mail, b"RSET": odd.reset, b"AUTH": odd.login}.get(verb, odd.hello))

    def take(self) -> None:
        self.say(self.odd.data)
        if self.odd.data.startswith(b"354"):
            self.until(b"\r\n.\r\n", "body")
            if self.odd.dot.startswith(b"250"):
                self.odd.taken.append(self.recipient)
            self.say(self.odd.dot)

    def until(self, end: bytes, what: str) -> bytes:
        while end not in self.received:
            more = self.connection.recv(65_536)
            if not more:
                raise ConnectionError
            self.received += more
        found, _, rest = self.received.partition(end)
        self.received = b"" if self.odd.forgets == what else rest
        return found

    def say(self, words: bytes) -> None:
        if words:
            self.connection.sendall(words + CRLF)
        if words.startswith(b"421"):
            raise ConnectionError


@contextmanager
def talking(odd: Odd, **details: Any) -> Iterator[SmtpTransport]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        odd.port = listener.getsockname()[1]
        threading.Thread(target=odd.serve, args=(listener,), daemon=True).start()
        there = replace(MailServer(scheme="smtp", host="127.0.0.1", port=odd.port), **details)
        transport = SmtpTransport(there, helo="example.org", timeouts=PATIENCE)
        yield transport
        transport.close()
        listener.shutdown(socket.SHUT_RDWR)


def fates(odd: Odd, *, letters: int = 4, **details: Any) -> list[str]:
    """Return the outcomes of some letters: exactly one for each, in their order."""
    window = [
        Message(delivery_id=n, sender="d@example.org", recipient=f"r{n}@example.org", content=b"Subject: x\r\n\r\n.\r\n")
        for n in range(letters)
    ]  # fmt: skip
    with talking(odd, **details) as transport:
        found: list[Outcome] = list(transport.send(window))
    assert [outcome.delivery_id for outcome in found] == list(range(letters))
    return [outcome.verdict.value for outcome in found]


STEP_BY_STEP = b"250 odd"
EITHER_WAY = pytest.mark.parametrize("hello", [Odd.hello, STEP_BY_STEP], ids=["pipelining", "step by step"])


# ── odd but harmless ───────────────────────────────────────────────────────────────────────────


@EITHER_WAY
@pytest.mark.parametrize(
    "odd",
    [
        Odd(greeting=b"220-hello\r\n220-and welcome\r\n220 to all"),
        Odd(greeting=b"220-" + b"x" * 60_000 + b"\r\n220 here"),
        Odd(greeting="220 gr\xfc\xdf dich \xff\xfe\0\x1b[31m".encode("latin-1")),
        Odd(greeting=b"220"),
        Odd(mail=b"250-ok\r\n250-quite\r\n250 ok", dot=b"250-taken\r\n250-with thanks\r\n250 bye"),
        Odd(rcpt=lambda _talk: b"251 I know where they have gone"),
        Odd(dot=b"250"),
        Odd(dot=b"250 " + b"y" * 5_000),
        Odd(dot="250 genommen, gr\xfc\xdfe \x85".encode("latin-1")),
    ],
    ids=[
        "many lines", "a very long line", "eight bits", "no words", "replies of many lines", "251",
        "no thanks", "long thanks", "thanks in eight bits",
    ],
)  # fmt: skip
def test_server_with_odd_texts_and_valid_codes_gets_every_letter(odd: Odd, hello: bytes) -> None:
    odd = replace(odd, hello=hello, taken=[], connections=0)

    assert fates(odd) == ["accepted"] * 4
    assert (len(odd.taken), odd.connections) == (4, 1)


@pytest.mark.parametrize("size", ["²", "-1", "much", "9" * 5_000], ids=["squared", "less", "much", "no end"])
def test_size_that_is_not_a_number_is_ignored(size: str) -> None:
    assert fates(Odd(hello=f"250-odd\r\n250-PIPELINING\r\n250 SIZE {size}".encode())) == ["accepted"] * 4


@pytest.mark.parametrize("forgets", ["command", "body"])
def test_server_that_loses_pipelined_commands_gets_them_one_by_one(forgets: str) -> None:
    odd = Odd(forgets=forgets)

    assert fates(odd) == ["accepted"] * 4
    assert (len(odd.taken), odd.connections) == (4, 2)


@EITHER_WAY
def test_refused_reset_costs_a_connection_and_no_letter(hello: bytes) -> None:
    nobody = lambda talk: b"550 5.1.1 nobody" if b"r1@" in talk.recipient else b"250 ok"  # noqa: E731
    odd = Odd(hello=hello, rcpt=nobody, reset=b"502 we have none of that", data=b"354 go on")

    assert fates(odd) == ["accepted", "refused", "accepted", "accepted"]
    assert odd.connections == 2


@EITHER_WAY
def test_goodbye_after_an_accepted_letter_does_not_concern_the_next(hello: bytes) -> None:
    odd = Odd(hello=hello, dot=b"250 taken\r\n421 4.3.2 closing down")

    assert fates(odd) == ["accepted"] * 4
    assert len(odd.taken) == 4


# ── nothing is sent ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("odd", "details"),
    [
        (Odd(greeting=b"354 go on"), {}),
        (Odd(hello=b"334 who?"), {}),
        (Odd(greeting=b"220-x\r\n" * 150 + b"220 here"), {}),
        (Odd(login=b"334 and now?"), {"user": "me", "password": "secret"}),
    ],
    ids=["354 to a greeting", "334 to EHLO", "a greeting without end", "334 to a whole login"],
)
def test_server_with_an_unclear_greeting_gets_no_letter(odd: Odd, details: dict[str, Any]) -> None:
    assert fates(odd, **details) == ["untried"] * 4
    assert odd.connections == 1


# ── in doubt ────────────────────────────────────────────────────────────────────


@EITHER_WAY
@pytest.mark.parametrize(
    "odd",
    [
        Odd(data=b"354 go on\r\n250 taken already", dot=b"554 no, I have not"),
        Odd(data=b"354 go on\r\n354 go on, I say"),
        Odd(mail=b"250 ok\r\n250 indeed"),
        Odd(data=b"250 ok"),
        Odd(mail=b"503 5.5.1 say hello first"),
        Odd(rcpt=lambda _talk: b"354 go on"),
        Odd(rcpt=lambda _talk: b"503 5.5.1 log in first"),
        Odd(rcpt=lambda _talk: b""),
    ],
    ids=[
        "thanks before the text", "354 twice", "two replies to MAIL", "250 to DATA", "503 to MAIL", "354 to RCPT",
        "503 to RCPT", "silence at RCPT",
    ],
)  # fmt: skip
def test_server_with_replies_out_of_order_gets_no_text_and_no_letter_is_refused(
    odd: Odd, hello: bytes
) -> None:
    odd = replace(odd, hello=hello, taken=[])

    assert set(fates(odd)) == {"deferred", "untried"}
    assert odd.taken == []


@EITHER_WAY
@pytest.mark.parametrize(
    "dot", [b"354 go on", b"220 hello", b"221 bye", b"25", b"250-" + b"y" * 90_000, b"taken"]
)
def test_unclear_reply_to_a_text_leaves_only_that_letter_in_doubt(dot: bytes, hello: bytes) -> None:
    odd = Odd(hello=hello, dot=dot)

    assert fates(odd, letters=3) == ["in doubt"] * 3
    assert odd.connections == 3


# ── passwords in replies ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "reply",
    [
        b'500 5.5.1 unrecognized: "AUTH PLAIN AHVzZXIAY29ycmVjdCBob3JzZQ=="',
        b'500 5.5.1 unrecognized: "Y29ycmVjdCBob3JzZQ=="',
        b"500 5.5.1 AUTH PLAIN AHVzZXIAY29ycmVjd...",
        b"535 5.7.8 'correct horse' is not the password",
        b"AUTH PLAIN AHVzZXIAY29ycmVjdCBob3JzZQ==",
    ],
    ids=["its command", "as LOGIN has it", "cut short", "plain", "and no code"],
)
def test_reply_that_repeats_our_password_is_reported_without_it(reply: bytes) -> None:
    odd = Odd(login=reply)

    with talking(odd, user="user", password="correct horse") as transport:
        (outcome,) = transport.send(
            [Message(delivery_id=1, sender="d@x.org", recipient="r@x.org", content=b"\r\n")]
        )

    assert outcome.verdict.value == "untried"
    assert "…" in outcome.reply
    assert not any(part in outcome.reply for part in ("horse", "AHVz", "Y29y"))
