"""Commands and their addresses are recognised as people write them, without a database."""

from __future__ import annotations

from email import policy
from email.message import EmailMessage

import pytest

from digest.inbound import find_commands
from digest.inbound.command_arguments import parse_paper
from digest.inbound.mail_commands import (
    AddTopic,
    Command,
    Confirm,
    DropTopic,
    Help,
    MailCommand,
    PauseDigests,
    Subscribe,
    Unsubscribe,
)
from digest.inbound.mail_text import read_mail
from digest.inbound.writer_checks import MailIgnored, address_of_writer
from digest.site import links
from digest.site.site_profile import Site

SITE = Site(
    url="https://digest.example.org",
    sender_address="digest@example.org",
    keys=(b"key",),
    inbound_domain="example.org",
)


def mail(
    body: str = "", *, subject: str = "", sender: str = "Ada Ito <ada@uni.example>", **more: str
) -> bytes:
    """Return a mail as a person writes it."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, SITE.sender_address, subject
    for name, value in more.items():
        message[name.replace("_", "-")] = value
    message.set_content(body)
    return message.as_bytes(policy=policy.SMTP)


def commands_in(content: bytes) -> list[Command]:
    return list(find_commands.read_commands(read_mail(content)).commands)


def verbs(body: str, *, subject: str = "", **more: str) -> list[type[MailCommand]]:
    return [command.kind for command in commands_in(mail(body, subject=subject, **more))]


# ── lines ───────────────────────────────────────────────────────────────────────────────────────


def test_a_topic_may_follow_subscribe_and_a_name() -> None:
    for line, topic in (
        ("subscribe", ""),
        ("subscribe to this list", ""),
        ("subscribe Ada Ito", ""),
        ("subscribe Ada Ito flows: flow matching", "flows: flow matching"),
        ("subscribe to flows: flow matching", "flows: flow matching"),
        ("subscribe robot* OR drone*", "robot* OR drone*"),
        ("subscribe quantum error correction", "quantum error correction"),
        ("join flows: flow matching", "flows: flow matching"),
    ):
        (command,) = commands_in(mail(line))

        assert (command.kind, command.argument) == (Subscribe, topic)


@pytest.mark.parametrize(
    "line", ["subscribe now", "subscribe and save 50 %", "subscribe them to it, or not?"]
)
def test_an_advertisement_or_a_question_is_no_subscription(line: str) -> None:
    assert verbs(line) == []


def test_people_whose_name_is_not_in_the_from_line_may_write_it() -> None:
    (command,) = commands_in(mail("subscribe Grace Hopper", sender="gh@uni.example"))

    assert (command.kind, command.argument) == (Subscribe, "")


def test_polite_words_do_not_change_a_command() -> None:
    for line, verb in (
        ("drop flows", DropTopic),
        ("remove me from this list", Unsubscribe),
        ("please pause 2 weeks", PauseDigests),
        ("pause 2 weeks, thanks", PauseDigests),
        ("help pause", Help),
        ("help", Help),
        ("confirm", Confirm),
    ):
        assert verbs(line) == [verb]


def test_a_question_about_unsubscribing_is_unclear() -> None:
    (command,) = commands_in(mail("unsubscribe me?"))

    assert (command.kind, command.is_clear) == (Unsubscribe, False)


def test_the_text_below_a_command_does_not_make_it_unclear() -> None:
    for below in (
        "\nAda Ito",
        "\nKind regards\nsee you at the workshop in June",
        "\nSent from my phone",
        "\nOn Fri, 20 Nov 2026 at 08:00, Digest\n<digest@example.org> wrote:\n> leave",
    ):
        (command,) = commands_in(mail(f"leave\n{below}"))

        assert (command.kind, command.is_clear) == (Unsubscribe, True)


def test_a_command_may_be_below_the_quoted_letter() -> None:
    for quoted in (
        "On Fri, 20 Nov 2026 at 08:00, Digest wrote:\n> leave",
        "On Fri, 20 Nov 2026 at 08:00, Digest\n<digest@example.org> wrote:\n> leave",
        "> leave",
    ):
        assert verbs(f"{quoted}\n\npause 2 weeks\n") == [PauseDigests]


def test_a_sentence_below_a_command_makes_it_unclear() -> None:
    (command,) = commands_in(mail("leave\n\nThe building closes at six, so meet me at five.\n"))

    assert not command.is_clear


def test_the_subject_of_an_empty_reply_unsubscribes_and_does_nothing_else() -> None:
    answered = {"In_Reply_To": "<letter@example.org>"}

    assert verbs("", subject="Re: unsubscribe", **answered) == [Unsubscribe]
    assert verbs("", subject="Re: pause 2 weeks", **answered) == []


def test_a_paper_is_named_by_its_number_or_its_identifier() -> None:
    for written, paper in (
        ("3", 3),
        ("paper 12?", 12),
        ("#7", 7),
        ("2411.01234", "2411.01234"),
        ("https://arxiv.org/abs/2411.01234.", "https://arxiv.org/abs/2411.01234"),
        ("the third one", 3),
        ("the paper", None),
    ):
        assert parse_paper(written) == paper


# ── addresses ───────────────────────────────────────────────────────────────────────────────────


def test_mail_to_the_sender_a_command_address_or_a_letter_may_contain_commands() -> None:
    for local in ("digest", "Digest-Leave", "digest+leave", "digest-request"):
        assert find_commands.takes_commands_at(SITE, f"{local}@example.org")
    assert find_commands.takes_commands_at(SITE, links.reply_address(SITE, 7, 1, "12"))
    assert find_commands.takes_commands_at(SITE, links.confirm_address(SITE, 5))
    for other in ("ada@example.org", "digest-hello@example.org", "digest-leave@else.example"):
        assert not find_commands.takes_commands_at(SITE, other)


def test_an_address_with_a_command_decides_what_is_read() -> None:
    def found(local: str, body: str) -> list[type[MailCommand]]:
        recipient = f"{local}@example.org"
        return [one.kind for one in find_commands.read_at(SITE, recipient, read_mail(mail(body))).commands]

    assert found("digest-leave", "pause 2 weeks") == [Unsubscribe]
    assert found("digest-subscribe", "add flows: flow matching") == [Subscribe, AddTopic]
    assert found("digest-request", "pause 2 weeks") == [PauseDigests]


def test_a_mail_asks_to_subscribe_if_one_of_its_commands_does() -> None:
    def asks(local: str, content: bytes) -> bool:
        return find_commands.asks_to_subscribe(SITE, f"{local}@example.org", read_mail(content))

    assert asks("digest-subscribe", mail())
    assert asks("digest", mail("subscribe"))
    assert asks("digest", mail("help\nsubscribe robots: robot*"))
    assert not asks("digest", mail("Dear all,\nthe seminar moves to Friday afternoon.\n"))
    assert not asks("ada", mail("subscribe"))


def test_the_writer_is_the_one_address_of_the_from_line() -> None:
    def written_by(sender: str) -> str:
        return address_of_writer(SITE, read_mail(mail(sender=sender)))

    assert written_by("Ada Ito <Ada@Uni.example>") == "Ada@uni.example"
    assert written_by("digest-lovers@example.com") == "digest-lovers@example.com"
    assert written_by("operator@example.org") == "operator@example.org"
    for several in ("ada@uni.example, bob@uni.example", "Ada Ito"):
        with pytest.raises(MailIgnored, match="does not name one address"):
            written_by(several)
    for machine in (
        "no-reply@uni.example",
        "digest@example.org",
        "digest-leave@example.org",
        "digest+x@example.org",
    ):
        with pytest.raises(MailIgnored, match="no person would read a reply"):
            written_by(machine)
    assert not SITE.is_own_address("digestive@example.org")
