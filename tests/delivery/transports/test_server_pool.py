"""Test several servers as one, and the folder of .eml files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email import message_from_bytes
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

from digest.app_context import open_context
from digest.delivery.transports import mail_url
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.open_transport import open_transport
from digest.delivery.transports.server_pool import ServerPool
from digest.delivery.transports.transport import Message, Outcome, Transport, Verdict
from digest.errors import BadField
from digest.settings import load_settings
from digest.site.site_profile import Site
from tests.support.absent_server import AbsentServer


def message(number: int) -> Message:
    return Message(
        delivery_id=number,
        sender="digest@example.org",
        recipient=f"reader{number}@example.org",
        content=b"Subject: %d\r\n\r\nHello\r\n" % number,
    )


WINDOW = [message(number) for number in range(4)]


def test_letter_goes_through_its_server_only() -> None:
    away, strict = AbsentServer(), MemoryTransport()
    strict.answers = {
        WINDOW[2].recipient: Outcome(delivery_id=0, verdict=Verdict.REFUSED, code=550),
    }
    dealt = [replace(each, server=name) for each, name in zip(WINDOW, "abba", strict=True)]

    outcomes = list(ServerPool({"a": away, "b": strict}).send(dealt))

    assert {each.delivery_id: each.verdict for each in outcomes} == {
        0: Verdict.UNTRIED, 1: Verdict.ACCEPTED, 2: Verdict.REFUSED, 3: Verdict.UNTRIED,
    }  # fmt: skip
    assert [each.delivery_id for each in strict.messages] == [1]


@pytest.mark.parametrize("server", ["", "removed"])
def test_letter_without_a_known_server_goes_through_the_first(server: str) -> None:
    first = MemoryTransport()
    both = ServerPool({"first": first, "second": AbsentServer()})

    outcomes = list(both.send([replace(message(1), server=server)]))

    assert [outcome.verdict for outcome in outcomes] == [Verdict.ACCEPTED]
    assert len(first.messages) == 1


def two_silent_and_one_sound() -> tuple[ServerPool, MemoryTransport]:
    """Three servers; connecting to each of the first two fails after thirty seconds."""
    seconds, sound = [0.0], MemoryTransport()

    class Silent(AbsentServer):
        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            seconds[0] += 30
            return super().send(window)

    servers: dict[str, Transport] = {"first": Silent(), "second": Silent(), "third": sound}
    return ServerPool(servers, clock=lambda: seconds[0]), sound


def test_letter_assigned_to_a_server_is_not_begun_when_time_is_up() -> None:
    three, sound = two_silent_and_one_sound()
    dealt = [replace(message(n), server=name) for n, name in enumerate(("first", "second", "third"))]

    outcomes = list(three.send(dealt))

    assert [(each.delivery_id, each.verdict) for each in outcomes] == [(n, Verdict.UNTRIED) for n in range(3)]
    assert outcomes[2].reply == "third: the time limit ended before its turn"
    assert sound.messages == []


def test_two_threads_do_not_share_a_connection(tmp_path: Path) -> None:
    context = open_context(load_settings({"data_dir": tmp_path}))
    found: list[object] = []

    def lend() -> None:
        with context.open_transport() as transport:
            found.append(transport)

    thread = Thread(target=lend)
    with context.open_transport() as ours:
        thread.start()
        thread.join()
    context.engine.dispose()

    assert len(found) == 1
    assert found[0] is not ours


def test_mail_url_may_name_several_servers_with_weights() -> None:
    url = "smtp://127.0.0.1:25?weight=3, lmtp:///run/lmtp.sock"
    mail = mail_url.parse_mail_url(url)
    opened = open_transport(mail, site=Site())

    assert isinstance(opened, ServerPool)
    assert [(each.name, each.weight) for each in mail.shares] == [
        ("smtp://127.0.0.1:25", 3), ("lmtp:///run/lmtp.sock", 1),
    ]  # fmt: skip
    assert list(opened.members) == [each.name for each in mail.shares]
    assert str(load_settings({"mail_url": url}).mail) == "smtp://127.0.0.1:25, lmtp:///run/lmtp.sock"


def test_comma_in_a_password_separates_no_servers() -> None:
    first, second = mail_url.parse_mail_url("smtp://a:b,c@host,smtps://other").servers

    assert (first.host, first.password, second.host) == ("host", "b,c", "other")


@pytest.mark.parametrize("weight", ["0", "-1", "much", "1000"])
def test_weight_must_be_a_sensible_number(weight: str) -> None:
    with pytest.raises(BadField, match="weight"):
        mail_url.parse_mail_url(f"smtp://127.0.0.1?weight={weight}")


def test_folder_holds_each_message_once_as_an_eml_file(tmp_path: Path) -> None:
    folder = open_transport(mail_url.parse_mail_url(f"eml://{tmp_path / 'out'}"), site=Site())

    for _attempt in range(2):
        assert all(outcome.verdict is Verdict.ACCEPTED for outcome in folder.send(WINDOW))

    kept = sorted((tmp_path / "out").iterdir())
    assert [path.suffix for path in kept] == [".eml"] * 4
    assert message_from_bytes(kept[2].read_bytes())["Subject"] == "2"
