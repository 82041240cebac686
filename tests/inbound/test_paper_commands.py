"""A reply to a digest names its papers by number: why, less, more, save; and yes, undo, test, export."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from email.message import EmailMessage

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.subscribers import Subscriber
from digest.inbound import classification, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.letters.templates import Templates
from digest.papers.catalog import hidden_papers
from digest.site.site_profile import Site
from digest.subscribers import saved_papers, subscriber_rows, subscriber_topics
from tests.inbound.signed_replies import ADA, lookup, reply, signed_reply
from tests.inbound.test_mail_commands import text_of
from tests.support.delivered_mail import deliver_due
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

NOW = at("20T09:00")


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """Ada's topic matches three papers of today, one of them about medicine."""
    world = PublishingWorld(engine=sqlite_engine, site=site, templates=templates)
    world.subscribe(ADA, {"Flows": '"flow matching"'}, now="19T00:00")
    world.dump(
        "20T06:00",
        [
            "Flow matching on meshes",
            "Flow matching for medical images",
            "Flow matching in twelve lines",
            "Robots that ask",
        ],
    )
    world.publish("20T08:00")
    return world


@pytest.fixture
def session(world: PublishingWorld) -> Iterator[Session]:
    with db.write_session(world.engine) as session:
        yield session


Deliver = Callable[[], EmailMessage]


@pytest.fixture
def deliver(session: Session, site: Site, templates: Templates) -> Deliver:
    """Return a function that delivers what is due and returns the only message."""

    def delivered() -> EmailMessage:
        (message,) = deliver_due(session, site=site, templates=templates, now=NOW)
        return message

    return delivered


Answer = Callable[..., EmailMessage]


@pytest.fixture
def answer(session: Session, site: Site, templates: Templates, deliver: Deliver) -> Answer:
    """Return a function that lets Ada reply to a letter, and returns our answer."""

    CACHES.clear("recent papers")  # other tests have other papers with the same numbers

    def arrived(letter: EmailMessage, body: str, *, is_signed: bool = True) -> EmailMessage:
        to = str(letter["Reply-To"])
        content = signed_reply(to, body) if is_signed else reply(to, body)
        (number,) = stored_mail.store_mail(session, sender=ADA, recipients=[to], content=content, now=NOW)
        rules = MailRules(lookup=lookup, templates=templates, caches=CACHES)
        classification.process_mail(session, site=site, number=number, rules=rules, now=NOW)
        return deliver()

    return arrived


def said_in(mail: EmailMessage) -> str:
    return " ".join(text_of(mail).split())


def ada(session: Session) -> Subscriber:
    return subscriber_rows.get(session, ADA)


def filters(session: Session) -> list[str]:
    return [topic.text for topic in subscriber_topics.topics_of(session, ada(session))]


def number_of(letter: EmailMessage, title: str) -> int:
    """Return the number of a paper in a digest: it precedes the title, or follows the title that is the headline."""
    lines = [line for line in text_of(letter).splitlines() if line.strip()]
    last = max(place for place, line in enumerate(lines) if line == title)
    numbered = [line for line in (lines[last - 1], lines[last + 1]) if re.match(r"\d+ · ", line)]
    return int(numbered[0].partition(" ")[0])


def test_why_explains_the_paper_of_that_number(answer: Answer, deliver: Deliver) -> None:
    letter = deliver()
    number = number_of(letter, "Flow matching for medical images")

    said = said_in(answer(letter, f"why {number}\n"))

    assert f"> why {number} Flow matching for medical images: It matches Flows (" in said
    assert "in the title" in said


@pytest.mark.parametrize("verb", ["why", "less", "more", "save"])
def test_a_paper_that_was_hidden_later_is_not_described(
    answer: Answer, deliver: Deliver, session: Session, verb: str
) -> None:
    letter = deliver()
    number = number_of(letter, "Flow matching for medical images")
    hidden_papers.hide(session, "Flow matching for medical images", now=NOW)

    said = said_in(answer(letter, f"{verb} {number}\n"))

    assert f"> {verb} {number} This paper was removed." in said


def test_less_takes_effect_at_once_and_is_undone(answer: Answer, deliver: Deliver, session: Session) -> None:
    letter = deliver()
    number = number_of(letter, "Flow matching for medical images")

    applied = answer(letter, f"less {number}\n")

    said = said_in(applied)
    (changed,) = filters(session)
    assert changed.startswith('"flow matching" ANDNOT like:')
    assert "You get fewer papers like this. Flows: Drops " in said
    assert "of 3 papers of the last day: Flow matching" in said
    undone = answer(applied, "undo\n")
    assert filters(session) == ['"flow matching"']
    assert '> undo “Flows” is now "flow matching".' in said_in(undone)


def test_more_makes_the_paper_an_example(answer: Answer, deliver: Deliver, session: Session) -> None:
    said = said_in(answer(deliver(), "more 1 and 2\n"))

    assert said.count("You get more papers like this. Like “") == 2
    assert filters(session)[1].startswith("like:")


def test_less_without_a_signature_waits_for_a_press(
    answer: Answer, deliver: Deliver, session: Session
) -> None:
    letter = deliver()
    number = number_of(letter, "Flow matching for medical images")

    said = said_in(answer(letter, f"less {number}\n", is_signed=False))

    assert filters(session) == ['"flow matching"']
    assert "Less like this: Flow matching for medical images: https://digest.example.org/l/" in said


def test_save_puts_the_paper_on_the_list_of_a_proven_reader(
    answer: Answer, deliver: Deliver, session: Session
) -> None:
    letter = deliver()
    number = number_of(letter, "Flow matching on meshes")

    assert (
        "meshes: Open the link below to save it. Save: Flow matching on meshes: https://digest.example.org/s/"
        in said_in(answer(letter, f"save {number}\n", is_signed=False))
    )
    assert saved_papers.list_saved(session, ada(session).id) == []
    assert "Saved: Flow matching on meshes." in said_in(answer(letter, f"save {number}\n"))
    assert "You had saved it before" in said_in(answer(letter, f"save {number}\n"))
    ((paper, _),) = saved_papers.list_saved(session, ada(session).id)
    assert paper.title == "Flow matching on meshes"


def test_the_answer_to_a_digest_keeps_the_numbers_of_the_digest(answer: Answer, deliver: Deliver) -> None:
    letter = deliver()
    number = number_of(letter, "Flow matching in twelve lines")

    second = answer(answer(letter, "list\n"), f"save {number}\n")

    assert "Saved: Flow matching in twelve lines." in said_in(second)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("why 9", "The digest has no paper 9; its last paper is number 3."),
        ("why 2411.01234", "2411.01234"),
        ("yes", "There is nothing to confirm."),
        ("undo", "There is nothing to undo."),
        ("test robot*", "It matches 1 of the last 4 papers; the latest: Robots that ask."),
        ("test (robot OR", "Add a word after OR."),
        ("test unicorn", "None of the last 4 papers matches. Try fewer or more general words"),
        (
            "add Horses: unicorn",
            "> add Horses: unicorn None of the last 4 papers matches. Try fewer or more general words, or OR between words. Added: Horses.",
        ),
    ],
)
def test_an_answer_explains_what_cannot_be_done(
    body: str, says: str, answer: Answer, deliver: Deliver
) -> None:
    assert says in said_in(answer(deliver(), f"{body}\n"))


def test_a_number_without_a_digest_is_explained(answer: Answer, deliver: Deliver) -> None:
    settings = answer(deliver(), "pause 2 weeks\n")
    settings.replace_header("Reply-To", "digest@example.org")

    assert "Write this as a reply to a digest" in said_in(answer(settings, "why 1\n"))


@pytest.mark.parametrize("body", ["export", "export my data", "forget me", "Please erase all my data."])
def test_export_and_erasure_go_through_a_fresh_link(
    body: str, answer: Answer, deliver: Deliver, session: Session
) -> None:
    letter = answer(deliver(), f"{body}\n")

    assert letter["To"] == ADA
    assert "/d/" in text_of(letter)
    assert ada(session).email == ADA


@pytest.mark.parametrize(
    "body",
    [
        "Why is table 2 empty?",
        "More of this, please!",
        "Save the date",
        "Forget it",
        "Yes, lovely papers",
        "less is more",
    ],
)
def test_sentences_about_papers_are_no_commands(body: str, answer: Answer, deliver: Deliver) -> None:
    assert re.search("Examples of what|A program reads this address", said_in(answer(deliver(), f"{body}\n")))
