"""Claims about several servers, and about the folder of .eml files."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

from digest import transport
from digest.errors import BadField
from digest.house import opened
from digest.links import Site
from digest.settings import Settings
from digest.transport import Message, Outcome, Verdict
from digest.transport.memory import Memory
from digest.transport.several import REST, Member, Several
from tests.faulty import faulty_server


def message(number: int) -> Message:
    return Message(
        delivery_id=number,
        sender="digest@example.org",
        recipient=f"reader{number}@example.org",
        content=b"Subject: %d\r\n\r\nHello\r\n" % number,
    )


WINDOW = [message(number) for number in range(4)]


class Away:
    """A server that does not answer, from some message on."""

    def __init__(self, after: int = 0):
        self.after = after
        self.asked = 0

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        self.asked += 1
        for place, each in enumerate(window):
            verdict = Verdict.ACCEPTED if place < self.after else Verdict.UNTRIED
            yield Outcome(delivery_id=each.delivery_id, verdict=verdict, phase="connect", reply="away")

    def close(self) -> None: ...


def test_servers_share_the_windows_by_their_weights() -> None:
    one, three = Memory(), Memory()
    both = Several([Member(transport=one, weight=1), Member(transport=three, weight=3)])

    for _window in range(8):
        assert all(outcome.verdict is Verdict.ACCEPTED for outcome in both.send(WINDOW))

    assert (len(one.messages), len(three.messages)) == (8, 24)


def test_what_one_server_never_began_goes_to_the_next_and_nothing_goes_to_two() -> None:
    broken, sound = Away(after=1), Memory()
    both = Several([Member(transport=broken, weight=2), Member(transport=sound)])

    outcomes = list(both.send(WINDOW))

    assert [outcome.verdict for outcome in outcomes] == [Verdict.ACCEPTED] * 4
    assert [each.delivery_id for each in sound.messages] == [1, 2, 3]


def test_a_refusal_is_not_taken_to_another_server() -> None:
    strict = Memory({WINDOW[0].recipient: Outcome(delivery_id=0, verdict=Verdict.REFUSED, code=550)})
    other = Memory()
    both = Several([Member(transport=strict, weight=2), Member(transport=other)])

    outcomes = list(both.send(WINDOW))

    assert [outcome.verdict for outcome in outcomes] == [Verdict.REFUSED, *[Verdict.ACCEPTED] * 3]
    assert other.messages == []


def test_a_server_that_did_not_answer_is_asked_last_for_a_while() -> None:
    seconds = [0.0]
    away, sound = Away(), Memory()
    members = [Member(transport=away, weight=9), Member(transport=sound)]
    both = Several(members, clock=lambda: seconds[0])

    for _window in range(3):
        list(both.send(WINDOW))
    assert away.asked == 1

    seconds[0] = REST + 1
    list(both.send(WINDOW))
    assert away.asked == 2


class Shaky(Memory):
    """A server that is away now and then."""

    is_away = False

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        return Away().send(window) if self.is_away else super().send(window)


def test_a_server_that_is_back_gets_its_share_and_not_all_that_it_has_missed() -> None:
    seconds, shaky, sound = [0.0], Shaky(), Memory()
    both = Several([Member(transport=shaky), Member(transport=sound)], clock=lambda: seconds[0])

    shaky.is_away = True
    for _second in range(300):
        list(both.send(WINDOW))
        seconds[0] += 1
    sound.messages.clear()
    shaky.is_away = False
    seconds[0] += REST
    for _window in range(20):
        list(both.send(WINDOW))

    assert abs(len(shaky.messages) - len(sound.messages)) <= 2 * len(WINDOW)


def two_silent_and_one_sound() -> tuple[Several, Memory]:
    """Three servers; at each of the first two we dial for thirty seconds in vain."""
    seconds, sound = [0.0], Memory()

    class Silent(Away):
        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            seconds[0] += 30
            return super().send(window)

    silent = [Member(transport=Silent(), name=name, weight=2) for name in ("first", "second")]
    return Several([*silent, Member(transport=sound, name="third")], clock=lambda: seconds[0]), sound


def test_no_further_server_is_begun_when_others_have_taken_the_time_and_the_next_window_begins_there() -> (
    None
):
    three, sound = two_silent_and_one_sound()

    assert [outcome.verdict for outcome in three.send(WINDOW)] == [Verdict.UNTRIED] * 4
    assert [outcome.verdict for outcome in three.send(WINDOW)] == [Verdict.ACCEPTED] * 4
    assert [each.delivery_id for each in sound.messages] == [0, 1, 2, 3]


def test_what_was_paid_for_a_server_is_not_begun_there_either_when_the_time_is_over() -> None:
    three, sound = two_silent_and_one_sound()
    dealt = [replace(message(n), server=name) for n, name in enumerate(("first", "second", "third"))]

    outcomes = list(three.send(dealt))

    assert [(each.delivery_id, each.verdict) for each in outcomes] == [(n, Verdict.UNTRIED) for n in range(3)]
    assert outcomes[2].reply == "third: time was up before its turn"
    assert sound.messages == []


def test_a_server_that_did_not_answer_one_run_is_asked_last_in_the_next(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as away, faulty_server() as sound:
        port = away.getsockname()[1]
        url = f"smtp://127.0.0.1:{port}?weight=9,smtp://127.0.0.1:{sound.port}"
        house = opened(Settings(data_dir=tmp_path, mail_url=url))  # type: ignore[arg-type]
        away.settimeout(10)
        hanging_up = Thread(target=hang_up, args=(away,))
        hanging_up.start()
        for _run in range(3):
            with house.transport() as lent:
                assert {outcome.verdict for outcome in lent.send(WINDOW)} == {Verdict.ACCEPTED}
        hanging_up.join()
        house.engine.dispose()

        away.settimeout(0)
        with pytest.raises(BlockingIOError):  # nobody has called again
            away.accept()


def hang_up(listener: socket.socket) -> None:
    """Take one call, and hang up."""
    listener.accept()[0].close()


def test_two_threads_do_not_speak_over_one_connection(tmp_path: Path) -> None:
    house = opened(Settings(data_dir=tmp_path))
    found: list[object] = []

    def lend() -> None:
        with house.transport() as lent:
            found.append(lent)

    thread = Thread(target=lend)
    with house.transport() as ours:
        thread.start()
        thread.join()
    house.engine.dispose()

    assert len(found) == 1
    assert found[0] is not ours


def test_where_no_server_answers_everything_is_untried() -> None:
    both = Several([Member(transport=Away()), Member(transport=Away())])

    outcomes = list(both.send(WINDOW))

    assert [(each.delivery_id, each.verdict) for each in outcomes] == [(n, Verdict.UNTRIED) for n in range(4)]


def test_a_mail_url_may_name_several_servers_with_weights() -> None:
    url = "smtp://127.0.0.1:25?weight=3, lmtp:///run/lmtp.sock"
    opened = transport.open(url, site=Site())

    assert isinstance(opened, Several)
    assert [member.weight for member in opened.members] == [3, 1]
    assert Settings(mail_url=url).mail == url


def test_a_comma_in_a_password_parts_nothing() -> None:
    assert transport.parted("smtp://a:b,c@host,smtps://other") == ["smtp://a:b,c@host", "smtps://other"]


@pytest.mark.parametrize("weight", ["0", "-1", "much", "1000"])
def test_a_weight_is_a_number_that_makes_sense(weight: str) -> None:
    with pytest.raises(BadField, match="weight"):
        transport.open(f"smtp://127.0.0.1?weight={weight}", site=Site())


def test_a_folder_holds_each_message_once_as_an_eml_file(tmp_path: Path) -> None:
    folder = transport.open(f"eml://{tmp_path / 'out'}", site=Site())

    for _attempt in range(2):
        assert all(outcome.verdict is Verdict.ACCEPTED for outcome in folder.send(WINDOW))

    kept = sorted((tmp_path / "out").iterdir())
    assert [path.suffix for path in kept] == [".eml"] * 4
    assert message_from_bytes(kept[2].read_bytes())["Subject"] == "2"
