"""Test the SMTP conversation against a server that fails in every way."""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any

import pytest

from digest.delivery.transports.mail_url import parse_mail_url
from digest.delivery.transports.open_transport import open_transport
from digest.delivery.transports.smtp import MailServer, SmtpTransport, Timeouts, dot_stuffed
from digest.delivery.transports.smtp_socket import connect_first
from digest.delivery.transports.transport import Message, Outcome, Verdict
from digest.errors import BadField, SetupMismatch
from digest.site.site_profile import Site
from tests.support.faulty_smtp_server import Fault, FaultyServer, faulty_server
from tests.support.mail_sink import run_mail_sink
from tests.support.waiting import moment_after

PATIENCE = Timeouts(window=5, connect=2, command=2, body=2, dot=0.5, quit=0.5)
FIRST, SECOND, THIRD = "alice@example.org", "bob@example.org", "charlie@example.org"


def message(recipient: str, number: int = 0, *, content: bytes = b"Subject: hi\r\n\r\nhello\r\n") -> Message:
    return Message(delivery_id=number, sender="digest@example.org", recipient=recipient, content=content)


def messages(*recipients: str) -> list[Message]:
    return [message(recipient, number) for number, recipient in enumerate(recipients, start=1)]


@contextmanager
def client(server: FaultyServer, scheme: str = "smtp", **details: Any) -> Iterator[SmtpTransport]:
    there = MailServer(scheme=scheme, host="127.0.0.1", port=server.port)
    transport = SmtpTransport(replace(there, **details), helo="example.org", timeouts=PATIENCE)
    try:
        yield transport
    finally:
        transport.close()


def failing(fault: Fault, *recipients: str) -> FaultyServer:
    """A server that fails for these recipients."""
    return FaultyServer(plan=lambda recipient: fault if recipient in recipients else None)


def verdicts(outcomes: list[Outcome]) -> list[str]:
    return [outcome.verdict.value for outcome in outcomes]


PIPELINING = pytest.mark.parametrize(
    "offers", [("PIPELINING", "8BITMIME"), ("8BITMIME",)], ids=["pipelining", "step by step"]
)


# ── without failures ──────────────────────────────────────────────────────────────────────────────


@PIPELINING
def test_every_message_arrives_once_and_unchanged(offers: tuple[str, ...]) -> None:
    contents = {
        f"reader{n}@example.org": b"Subject: %d\r\n\r\n.\r\n..\r\n.dot\r\nend\r\n" % n for n in range(60)
    }
    window = [message(who, n, content=what) for n, (who, what) in enumerate(contents.items())]

    with faulty_server(FaultyServer(offers=offers)) as server, client(server) as transport:
        outcomes = list(transport.send(window))

    assert verdicts(outcomes) == ["accepted"] * 60
    assert {taken.recipient: taken.content for taken in server.taken} == contents
    assert server.connections == 1


def test_body_and_next_envelope_go_in_one_write() -> None:
    with faulty_server() as server, client(server) as transport:
        list(transport.send(messages(FIRST, SECOND, THIRD)))

    together = [write for write in server.writes if write.startswith(b"Subject:")]
    assert together[0].endswith(
        b"hello\r\n.\r\nMAIL FROM:<digest@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\n"
    )
    assert together[2].endswith(b"hello\r\n.\r\n")


def test_connection_is_kept_between_windows() -> None:
    with faulty_server() as server, client(server) as transport:
        for _ in range(3):
            assert verdicts(list(transport.send(messages(FIRST, SECOND)))) == ["accepted"] * 2

    assert server.connections == 1


def test_independent_server_accepts_what_we_send() -> None:
    content = b"Subject: dots\r\n\r\n.leading\r\n..two\r\nand an end\r\n"
    with run_mail_sink() as sink, client(FaultyServer(port=int(sink.url.rpartition(":")[2]))) as transport:
        outcomes = list(transport.send([message(FIRST, 1, content=content)] * 3))

    assert verdicts(outcomes) == ["accepted"] * 3
    assert [mail.content for mail in sink.mails] == [content] * 3


def test_lmtp_works_over_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "lmtp.sock")
    with faulty_server(path=path) as server:
        transport = SmtpTransport(
            MailServer.from_url(f"lmtp://{path}"), helo="example.org", timeouts=PATIENCE
        )
        outcomes = list(transport.send(messages(FIRST, SECOND)))
        transport.close()

    assert verdicts(outcomes) == ["accepted"] * 2
    assert server.commands[0] == "LHLO example.org"


# ── replies ─────────────────────────────────────────────────────────────────────

ANSWERS = {
    Fault.RCPT_421: ("deferred", "rcpt", 421),
    Fault.RCPT_450: ("deferred", "rcpt", 450),
    Fault.RCPT_451: ("deferred", "rcpt", 451),
    Fault.RCPT_452: ("deferred", "rcpt", 452),
    Fault.RCPT_550: ("refused", "rcpt", 550),
    Fault.RCPT_550_BUT_354: ("refused", "rcpt", 550),
    Fault.RCPT_552: ("refused", "rcpt", 552),
    Fault.RCPT_554: ("refused", "rcpt", 554),
    Fault.DATA_421: ("deferred", "data", 421),
    Fault.DATA_451: ("deferred", "data", 451),
    Fault.DATA_452: ("deferred", "data", 452),
    Fault.DATA_550: ("refused", "data", 550),
    Fault.DATA_552: ("refused", "data", 552),
    Fault.DATA_554: ("refused", "data", 554),
    Fault.DOT_421: ("deferred", "dot", 421),
    Fault.DOT_451: ("deferred", "dot", 451),
    Fault.DOT_452: ("deferred", "dot", 452),
    Fault.DOT_550: ("refused", "dot", 550),
    Fault.DOT_552: ("refused", "dot", 552),
    Fault.DOT_554: ("refused", "dot", 554),
    Fault.DOT_DROP: ("in doubt", "dot", None),
    Fault.DOT_RESET: ("in doubt", "dot", None),
    Fault.DOT_HANG: ("in doubt", "dot", None),
    Fault.DOT_LOSE: ("in doubt", "dot", None),
    Fault.NONSENSE: ("in doubt", "dot", None),
    Fault.TRICKLE: ("accepted", "dot", 250),
    Fault.BINARY: ("accepted", "dot", 250),
    Fault.QUIT_421: ("accepted", "dot", 250),
}


@PIPELINING
@pytest.mark.parametrize("fault", ANSWERS)
def test_each_reply_concerns_its_own_message_only(fault: Fault, offers: tuple[str, ...]) -> None:
    expected = ANSWERS[fault]
    there = replace(failing(fault, SECOND), offers=offers)

    with faulty_server(there) as server, client(server) as transport:
        first, second, third = transport.send(messages(FIRST, SECOND, THIRD))

    assert (second.verdict.value, second.phase, second.code) == expected
    assert (first.verdict, third.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert [len(server.copies(who)) for who in (FIRST, THIRD)] == [1, 1]


def test_body_without_final_dot_is_not_in_doubt() -> None:
    large = message(SECOND, 2, content=b"Subject: large\r\n\r\n" + b"x" * 70 + b"\r\n" + b"y" * 30_000_000)

    with faulty_server(failing(Fault.MIDDLE_DROP, SECOND)) as server, client(server) as transport:
        outcomes = list(transport.send([message(FIRST, 1), large, message(THIRD, 3)]))

    assert [(each.verdict.value, each.phase) for each in outcomes] == [
        ("accepted", "dot"), ("deferred", "data"), ("accepted", "dot"),
    ]  # fmt: skip


@PIPELINING
@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (Fault.MAIL_451, "deferred"),
        (Fault.MAIL_452, "deferred"),
        (Fault.MAIL_550, "refused"),
        (Fault.MAIL_552, "refused"),
        (Fault.MAIL_554, "refused"),
    ],
)
def test_refused_envelope_leaves_a_clean_start_for_the_next(
    fault: Fault, verdict: str, offers: tuple[str, ...]
) -> None:
    plans = iter([fault])
    there = FaultyServer(offers=offers, mail_plan=lambda: next(plans, None))

    with faulty_server(there) as server, client(server) as transport:
        outcomes = list(transport.send(messages(FIRST, SECOND)))

    assert verdicts(outcomes) == [verdict, "accepted"]
    assert server.connections == 1


# ── failing servers ─────────────────────────────────────────────────────


def test_messages_are_untried_without_a_server() -> None:
    with client(FaultyServer(port=1)) as transport:
        outcomes = list(transport.send(messages(FIRST, SECOND)))

    assert verdicts(outcomes) == ["untried", "untried"]
    assert outcomes[0].reply == "smtp://127.0.0.1:1: Connection refused"


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault.stage in {"BANNER", "HELLO"}])
def test_messages_are_untried_if_the_server_refuses_the_connection(fault: Fault) -> None:
    with faulty_server(FaultyServer(greeting_plan=lambda: fault)) as server, client(server) as transport:
        outcomes = list(transport.send(messages(FIRST, SECOND)))

    assert verdicts(outcomes) == ["untried", "untried"]
    assert server.connections == 1


@pytest.mark.parametrize("fault", [Fault.MAIL_421, Fault.MAIL_530])
def test_server_that_turns_everybody_away_is_tried_once(fault: Fault) -> None:
    with faulty_server(FaultyServer(mail_plan=lambda: fault)) as server, client(server) as transport:
        outcomes = list(transport.send(messages(*(f"reader{n}@example.org" for n in range(20)))))

    assert verdicts(outcomes) == ["untried"] * 20
    assert server.connections == 1


def test_dead_kept_connection_is_replaced() -> None:
    with faulty_server() as server, client(server) as transport:
        list(transport.send(messages(FIRST)))
        assert transport.connection is not None
        transport.connection.wire.socket.shutdown(2)
        outcomes = list(transport.send(messages(SECOND, THIRD)))

    assert verdicts(outcomes) == ["accepted"] * 2
    assert server.connections == 2


def test_no_message_begins_after_the_windows_time() -> None:
    slow = replace(PATIENCE, window=0.3, dot=5)
    with faulty_server(FaultyServer(plan=lambda _: Fault.TRICKLE)) as server:
        transport = SmtpTransport(
            MailServer(scheme="smtp", host="127.0.0.1", port=server.port), helo="x", timeouts=slow
        )
        outcomes = list(transport.send(messages(*(f"reader{n}@example.org" for n in range(20)))))
        transport.close()

    assert {"accepted", "untried"} == set(verdicts(outcomes))
    assert len(server.taken) == verdicts(outcomes).count("accepted")


def test_abandoned_window_gets_a_clean_connection_next_time() -> None:
    with faulty_server() as server, client(server) as transport:
        half = transport.send(messages(FIRST, SECOND, THIRD))
        assert isinstance(half, Generator)
        next(half)
        half.close()
        outcomes = list(transport.send(messages(THIRD)))

    assert verdicts(outcomes) == ["accepted"]
    assert [len(server.copies(who)) for who in (FIRST, SECOND, THIRD)] == [1, 0, 1]


# ── refused before sending ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("recipient", "reason"),
    [
        ("a\r\nRCPT TO:<evil@example.org>", "5.1.3 invalid address"),
        ("a> SIZE=1", "5.1.3 invalid address"),
        ("", "5.1.3 invalid address"),
        ("größe@example.org", "5.6.7 the server does not accept non-ASCII addresses (SMTPUTF8)"),
    ],
)
def test_invalid_address_is_refused_without_the_server(recipient: str, reason: str) -> None:
    with faulty_server() as server, client(server) as transport:
        bad, good = transport.send(messages(recipient, SECOND))

    assert (bad.verdict, bad.reply) == (Verdict.REFUSED, reason)
    assert good.verdict is Verdict.ACCEPTED
    assert [taken.recipient for taken in server.taken] == [SECOND]


def test_non_ascii_address_is_sent_if_the_server_supports_it() -> None:
    with faulty_server(FaultyServer(offers=("SMTPUTF8",))) as server, client(server) as transport:
        outcomes = list(transport.send(messages("größe@exämple.org", "plain@exämple.org")))

    assert verdicts(outcomes) == ["accepted"] * 2
    assert [line for line in server.commands if "FROM" in line] == [
        "MAIL FROM:<digest@example.org> SMTPUTF8",
        "MAIL FROM:<digest@example.org>",
    ]
    assert "RCPT TO:<plain@xn--exmple-cua.org>" in server.commands


def test_non_ascii_domain_is_sent_in_its_dns_form() -> None:
    with faulty_server() as server, client(server) as transport:
        (outcome,) = transport.send([message("plain@straße.example", 1)])

    assert outcome.verdict is Verdict.ACCEPTED
    assert "RCPT TO:<plain@xn--strae-oqa.example>" in server.commands  # strasse.example is another domain


def test_message_larger_than_the_servers_limit_is_not_sent() -> None:
    with faulty_server(FaultyServer(offers=("SIZE 100",))) as server, client(server) as transport:
        large, small = transport.send([message(FIRST, 1, content=b"x" * 101), message(SECOND, 2)])

    assert (large.verdict, large.reply) == (
        Verdict.REFUSED,
        "the message has 101 bytes; the server accepts at most 100",
    )
    assert small.verdict is Verdict.ACCEPTED


# ── connecting ─────────────────────────────────────────────────────────────────────────


@contextmanager
def deaf(address: str) -> Iterator[tuple[str, int]]:
    """An address to which connecting never ends, because the queue is full and nothing accepts connections."""
    with socket.socket() as listener, ExitStack() as callers:
        listener.bind((address, 0))
        listener.listen(0)
        for _ in range(3):
            caller = callers.enter_context(socket.socket())
            caller.setblocking(False)
            with suppress(BlockingIOError):
                caller.connect(listener.getsockname())
        yield listener.getsockname()


def test_server_with_many_addresses_is_reached_within_the_time_for_one() -> None:
    with (
        deaf("127.0.0.2") as first,
        deaf("127.0.0.3") as second,
        socket.create_server(("127.0.0.1", 0)) as third,
    ):
        found = [(socket.AF_INET, 0, 0, "", place) for place in (first, second, third.getsockname())]
        with connect_first(found, moment_after(0.9)) as reached:
            assert reached.getpeername() == third.getsockname()

        with pytest.raises(TimeoutError):
            connect_first(found[:2], moment_after(0.5))


# ── TLS and login ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[SSLContext, str]:
    """A self-signed certificate for `localhost`."""
    from tests.support.certificates import make

    folder = tmp_path_factory.mktemp("tls")
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make(folder, "localhost"))
    return context, str(folder / "certificate.pem")


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_mail_goes_inside_tls_with_a_login(certificate: tuple[SSLContext, str], scheme: str) -> None:
    context, cafile = certificate
    there = FaultyServer(
        offers=("PIPELINING", "STARTTLS", "AUTH PLAIN"),
        tls=context,
        is_tls_at_once=scheme == "smtps",
        login=("user", "pass:wörd"),
    )
    with faulty_server(there) as server:
        url = f"{scheme}://user:pass%3Aw%C3%B6rd@localhost:{server.port}?cafile={cafile}"
        transport = SmtpTransport(
            MailServer.from_url(url if scheme == "smtps" else f"{url}&starttls=true"),
            helo="example.org",
            timeouts=PATIENCE,
        )
        outcomes = list(transport.send(messages(FIRST, SECOND)))
        transport.close()

    assert verdicts(outcomes) == ["accepted"] * 2
    assert not any(b"pass" in write for write in server.writes)


def test_untrusted_certificate_ends_the_connection(certificate: tuple[SSLContext, str]) -> None:
    there = FaultyServer(offers=("STARTTLS",), tls=certificate[0])
    with faulty_server(there) as server, client(server, host="localhost", starttls=True) as transport:
        (outcome,) = transport.send(messages(FIRST))

    assert outcome.verdict is Verdict.UNTRIED
    assert "the server's certificate is not trusted" in outcome.reply


def test_certificate_for_another_name_ends_the_connection(certificate: tuple[SSLContext, str]) -> None:
    context, cafile = certificate
    there = FaultyServer(offers=("STARTTLS",), tls=context)
    with faulty_server(there) as server, client(server, starttls=True, cafile=cafile) as transport:
        (outcome,) = transport.send(messages(FIRST))

    assert outcome.verdict is Verdict.UNTRIED
    assert "the server's certificate is not trusted" in outcome.reply


def test_unreadable_certificates_are_reported_by_file_name() -> None:
    with faulty_server() as server, client(server, "smtps", cafile="/nowhere.pem") as transport:
        (outcome,) = transport.send(messages(FIRST))

    assert outcome.verdict is Verdict.UNTRIED
    assert "the certificates in /nowhere.pem cannot be read: No such file" in outcome.reply


def test_required_tls_that_is_not_offered_ends_the_connection() -> None:
    with faulty_server() as server, client(server, starttls=True) as transport:
        (outcome,) = transport.send(messages(FIRST))

    assert "the server does not offer STARTTLS, which DIGEST_MAIL_URL requires" in outcome.reply
    assert not any(line.startswith("MAIL") for line in server.commands)


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
def test_wrong_password_is_reported_and_uses_up_no_attempt(mechanism: str) -> None:
    there = FaultyServer(offers=(f"AUTH {mechanism}",), login=("user", "right"))
    with faulty_server(there) as server, client(server, user="user", password="left") as transport:
        (outcome,) = transport.send(messages(FIRST))

    assert (outcome.verdict, outcome.code) == (Verdict.UNTRIED, 535)
    assert outcome.reply.endswith("the login: 535 5.7.8 wrong password")


# ── the URL ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "port", "starttls"),
    [
        ("smtp://mail.example.org", 25, False),
        ("smtp://mail.example.org:587", 587, True),
        ("smtp://mail.example.org:587?starttls=false", 587, False),
        ("smtp://user:pass@mail.example.org", 25, True),
        ("smtp://user:pass@127.0.0.1:2525", 2525, False),
        ("smtps://user:pass@mail.example.org", 465, False),
        ("lmtp://127.0.0.1", 24, False),
    ],
)
def test_mail_url_is_parsed(url: str, port: int, starttls: bool) -> None:
    server = MailServer.from_url(url)

    assert (server.port, server.starttls) == (port, starttls)
    assert "pass" not in repr(server)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("smtp://", "it has no host"),
        ("smtp:mail.example.org", "it has no host"),
        ("smtp://host:port", "its host and port cannot be parsed"),
        ("smtp://[::1", "its host and port cannot be parsed"),
        ("smtp://mail..example.org", "mail..example.org is not a host name"),
        ("smtp://host:25/inbox", "there is extra text after the host host"),
        ("smtp://host?tls=1", "tls is not an option"),
        ("smtp://host?cafile=", "cafile has no value"),
        ("smtp://host?profile=sendmail", "sendmail is not a profile"),
        ("lmtp:///run/lmtp.sock?starttls=true", "a socket on this machine and needs no TLS"),
    ],
)
def test_invalid_mail_url_names_its_setting_and_fault(url: str, message: str) -> None:
    with pytest.raises(BadField, match="DIGEST_MAIL_URL") as wrong:
        MailServer.from_url(url)

    assert message in str(wrong.value)


@pytest.mark.parametrize("slip", ["ture", "on!", ""])
def test_mistake_in_starttls_never_means_mail_in_clear_text(slip: str) -> None:
    with pytest.raises(BadField, match="starttls"):
        MailServer.from_url(f"smtp://mail.example.org:587?starttls={slip}")


@pytest.mark.parametrize("password", ["s3cr/et", "12/s3cr", "s3cr#et", "s3cr?et", "12#s3cr"])
def test_unescaped_password_is_not_shown_and_the_escaping_is_explained(password: str) -> None:
    with pytest.raises(BadField, match="In a password write / as %2F") as wrong:
        MailServer.from_url(f"smtp://user:{password}@mail.example.org:587")

    assert "s3cr" not in str(wrong.value)


def test_server_at_an_ipv6_address_has_a_readable_name() -> None:
    assert MailServer.from_url("smtp://[::1]:2525").name == "smtp://[::1]:2525"


@pytest.mark.parametrize(
    "base_url", ["http://127.0.0.1:8000", "https://localhost", "http://digest.example.org"]
)
def test_mail_is_refused_if_its_links_would_not_work(base_url: str) -> None:
    with pytest.raises(SetupMismatch, match="Set DIGEST_BASE_URL to your public https address"):
        open_transport(parse_mail_url("smtp://mail.example.org"), site=Site(url=base_url))

    open_transport(parse_mail_url("smtp://127.0.0.1:2525"), site=Site(url=base_url))


def test_leading_dots_are_stuffed() -> None:
    assert b"".join(dot_stuffed(message("a@x", content=b".a\r\n.\r\nb.\r\n"))) == b"..a\r\n..\r\nb.\r\n.\r\n"
    assert b"".join(dot_stuffed(message("a@x", content=b"no end"))) == b"no end\r\n.\r\n"
