"""Test several servers as one, and the folder of .eml files."""

from __future__ import annotations

import socket
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
from digest.delivery.transports.server_pool import REST_SECONDS, PoolMember, ServerPool
from digest.delivery.transports.transport import Message, Outcome, Verdict
from digest.errors import BadField
from digest.settings import load_settings
from digest.site.site_profile import Site
from tests.support.absent_server import AbsentServer
from tests.support.faulty_smtp_server import faulty_server


def message(number: int) -> Message:
    return Message(
        delivery_id=number,
        sender="digest@example.org",
        recipient=f"reader{number}@example.org",
        content=b"Subject: %d\r\n\r\nHello\r\n" % number,
    )


WINDOW = [message(number) for number in range(4)]


def test_servers_share_the_windows_by_weight() -> None:
    one, three = MemoryTransport(), MemoryTransport()
    both = ServerPool([PoolMember(transport=one, weight=1), PoolMember(transport=three, weight=3)])

    for _window in range(8):
        assert all(outcome.verdict is Verdict.ACCEPTED for outcome in both.send(WINDOW))

    assert (len(one.messages), len(three.messages)) == (8, 24)


def test_unbegun_letters_go_to_the_next_server_and_none_goes_to_two() -> None:
    broken, sound = AbsentServer(after=1), MemoryTransport()
    both = ServerPool([PoolMember(transport=broken, weight=2), PoolMember(transport=sound)])

    outcomes = list(both.send(WINDOW))

    assert [outcome.verdict for outcome in outcomes] == [Verdict.ACCEPTED] * 4
    assert [each.delivery_id for each in sound.messages] == [1, 2, 3]


def test_refused_letter_is_not_sent_through_another_server() -> None:
    strict = MemoryTransport({WINDOW[0].recipient: Outcome(delivery_id=0, verdict=Verdict.REFUSED, code=550)})
    other = MemoryTransport()
    both = ServerPool([PoolMember(transport=strict, weight=2), PoolMember(transport=other)])

    outcomes = list(both.send(WINDOW))

    assert [outcome.verdict for outcome in outcomes] == [Verdict.REFUSED, *[Verdict.ACCEPTED] * 3]
    assert other.messages == []


def test_server_that_did_not_answer_is_tried_last_for_a_while() -> None:
    seconds = [0.0]
    away, sound = AbsentServer(), MemoryTransport()
    members = [PoolMember(transport=away, weight=9), PoolMember(transport=sound)]
    both = ServerPool(members, clock=lambda: seconds[0])

    for _window in range(3):
        list(both.send(WINDOW))
    assert away.windows == 1

    seconds[0] = REST_SECONDS + 1
    list(both.send(WINDOW))
    assert away.windows == 2


class Shaky(MemoryTransport):
    """A server that sometimes does not respond."""

    is_away = False

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        return AbsentServer().send(window) if self.is_away else super().send(window)


def test_returning_server_gets_only_its_share() -> None:
    seconds, shaky, sound = [0.0], Shaky(), MemoryTransport()
    both = ServerPool([PoolMember(transport=shaky), PoolMember(transport=sound)], clock=lambda: seconds[0])

    shaky.is_away = True
    for _second in range(300):
        list(both.send(WINDOW))
        seconds[0] += 1
    sound.messages.clear()
    shaky.is_away = False
    seconds[0] += REST_SECONDS
    for _window in range(20):
        list(both.send(WINDOW))

    assert abs(len(shaky.messages) - len(sound.messages)) <= 2 * len(WINDOW)


def two_silent_and_one_sound() -> tuple[ServerPool, MemoryTransport]:
    """Three servers; connecting to each of the first two fails after thirty seconds."""
    seconds, sound = [0.0], MemoryTransport()

    class Silent(AbsentServer):
        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            seconds[0] += 30
            return super().send(window)

    silent = [PoolMember(transport=Silent(), name=name, weight=2) for name in ("first", "second")]
    return ServerPool([*silent, PoolMember(transport=sound, name="third")], clock=lambda: seconds[0]), sound


def test_no_further_server_is_tried_when_time_is_up_and_the_next_window_begins_there() -> None:
    three, sound = two_silent_and_one_sound()

    assert [outcome.verdict for outcome in three.send(WINDOW)] == [Verdict.UNTRIED] * 4
    assert [outcome.verdict for outcome in three.send(WINDOW)] == [Verdict.ACCEPTED] * 4
    assert [each.delivery_id for each in sound.messages] == [0, 1, 2, 3]


def test_letter_assigned_to_a_server_is_not_begun_when_time_is_up() -> None:
    three, sound = two_silent_and_one_sound()
    dealt = [replace(message(n), server=name) for n, name in enumerate(("first", "second", "third"))]

    outcomes = list(three.send(dealt))

    assert [(each.delivery_id, each.verdict) for each in outcomes] == [(n, Verdict.UNTRIED) for n in range(3)]
    assert outcomes[2].reply == "third: the time limit ended before its turn"
    assert sound.messages == []


def test_server_that_did_not_answer_one_run_is_tried_last_in_the_next(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as away, faulty_server() as sound:
        port = away.getsockname()[1]
        url = f"smtp://127.0.0.1:{port}?weight=9,smtp://127.0.0.1:{sound.port}"
        context = open_context(load_settings({"data_dir": tmp_path, "mail_url": url}))
        away.settimeout(10)
        hanging_up = Thread(target=hang_up, args=(away,))
        hanging_up.start()
        for _run in range(3):
            with context.open_transport() as transport:
                assert {outcome.verdict for outcome in transport.send(WINDOW)} == {Verdict.ACCEPTED}
        hanging_up.join()
        context.engine.dispose()

        away.settimeout(0)
        with pytest.raises(BlockingIOError):  # nobody has connected again
            away.accept()


def hang_up(listener: socket.socket) -> None:
    """Accept one connection, and close it."""
    listener.accept()[0].close()


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


def test_everything_is_untried_if_no_server_answers() -> None:
    both = ServerPool([PoolMember(transport=AbsentServer()), PoolMember(transport=AbsentServer())])

    outcomes = list(both.send(WINDOW))

    assert [(each.delivery_id, each.verdict) for each in outcomes] == [(n, Verdict.UNTRIED) for n in range(4)]


def test_mail_url_may_name_several_servers_with_weights() -> None:
    url = "smtp://127.0.0.1:25?weight=3, lmtp:///run/lmtp.sock"
    opened = open_transport(mail_url.parse_mail_url(url), site=Site())

    assert isinstance(opened, ServerPool)
    assert [member.weight for member in opened.members] == [3, 1]
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
