""" "Less like this" and "more like this" change topics by examples, show the effect, and can be undone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from html import unescape
from typing import Any

import pytest
from sqlalchemy import update

from digest.db.tables.dumps import DumpRow
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import SubscriberState
from digest.delivery import delivery_run
from digest.delivery.transports.memory import MemoryTransport
from digest.inbound import classification, mail_rules, stored_mail
from digest.papers.catalog import hidden_papers, match_or_add_records, queries
from digest.papers.paper_record import Record
from digest.publishing import publish_due
from digest.publishing.publication import Publication
from digest.site import links
from digest.subscribers import subscriber_rows, subscriber_topics, undo_changes
from digest.subscribers.reader_settings import ReaderSettings
from tests.inbound.signed_replies import ADA, lookup, signed_reply
from tests.support.mail_bodies import body_of
from tests.support.shared_caches import CACHES
from tests.web.conftest import BASE, path_of, publish_and_deliver


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


@pytest.fixture
def knees(served, papers, now) -> int:
    """Twenty papers on pictures, four of them on knees; returns the first."""
    records = [
        *(Record(title=f"Image tomography of knees {n}", abstract="We scan.") for n in range(1, 5)),
        *(Record(title=f"Image drawing {n}", abstract="We paint.") for n in range(5, 21)),
    ]  # fmt: skip
    with served.writing() as session:
        dump = session.query(DumpRow).one()
        match_or_add_records.add(session, records, dump=dump)
        session.commit()
        return queries.find(session, records[0].title).id


@pytest.fixture
def less_path(served, alice, knees) -> str:
    start = links.feedback_url(served.site, alice.id, alice.link_version)
    return path_of(links.less_url(start, knees))


def topics_of(served, email: str = "alice@uni.edu") -> dict[str, str]:
    with served.writing() as session:
        reader = subscriber_rows.get(session, email)
        return {topic.name: topic.text for topic in subscriber_topics.topics_of(session, reader)}


def test_less_shows_what_it_would_have_left_out_and_changes_nothing(served, less_path):
    before = served.everything()

    page = served.client.get(less_path)

    assert page.status_code == 200
    assert "Vision Drops 4 of 20 papers of the last day: Image tomography of knees 1" in words(page.text)
    assert served.everything() == before


def test_less_is_applied_on_one_press_reported_and_undone(served, less_path, knees):
    applied = served.client.post(less_path, data={"do": "apply"})
    page = words(served.client.get(applied.headers["location"]).text)

    narrowed = f"title:image* ANDNOT like:{knees}"
    assert topics_of(served) == {"Vision": narrowed}
    assert f"Saved. “Vision” is now {narrowed}. Before: title:image*. Undo" in page
    assert served.letters() == [("changed", "alice@uni.edu")]

    undone = served.client.post(less_path, data={"do": "undo"})
    assert "Undone. Your topic is as it was before." in served.client.get(undone.headers["location"]).text
    assert topics_of(served) == {"Vision": "title:image*"}


def test_more_makes_a_topic_by_example_and_then_adds_examples_to_it(served, alice, knees):
    start = links.feedback_url(served.site, alice.id, alice.link_version)
    first, second = (path_of(links.more_url(start, number)) for number in (knees, knees + 1))

    page = words(served.client.get(first).text)
    served.client.post(first, data={"do": "apply"})
    made = topics_of(served)
    served.client.post(second, data={"do": "apply"})

    name = "Like “Image tomography of knees 1”"
    assert f"{name} Adds 4 papers to the 0 of the last day" in page
    assert made == {"Vision": "title:image*", name: f"like:{knees}"}
    assert topics_of(served)[name] == f"like:{knees},{knees + 1}"
    served.client.post(second, data={"do": "undo"})
    assert topics_of(served) == made


def test_a_topic_by_example_stays_the_same_when_its_paper_is_removed(served, alice, knees):
    start = links.feedback_url(served.site, alice.id, alice.link_version)
    served.client.post(path_of(links.more_url(start, knees)), data={"do": "apply"})
    with served.writing() as session:
        before = subscriber_topics.topics_of(session, subscriber_rows.get(session, "alice@uni.edu"))[1]
        session.execute(update(PaperRow).where(PaperRow.id == knees).values(title="Soups", abstract=""))
        session.commit()

    kept = {**topics_of(served), "Soups": "soup"}
    with served.writing() as session:
        reader = subscriber_rows.get(session, "alice@uni.edu")
        undo_changes.edit(session, reader, ReaderSettings(topics=kept), now=served.clock.now)
        after = subscriber_topics.topics_of(session, reader)[1]

    assert "tomography^" in before.canonical
    assert after == before


def test_a_change_made_in_the_settings_cannot_be_undone_here(served, alice, manage_path, less_path):
    served.client.post(manage_path, data={"do": "remove", "topic": "Vision"})
    before = served.everything()

    served.client.post(less_path, data={"do": "undo"})

    assert served.everything() == before


def test_a_reader_without_topics_is_offered_topics(served, alice, manage_path, less_path):
    served.client.post(manage_path, data={"do": "remove", "topic": "Vision"})

    page = words(served.client.get(less_path).text)

    assert "You get the day’s trending papers on any subject." in page
    assert "Choose topics" in page


def test_a_topic_that_does_not_match_the_paper_is_not_narrowed(served, alice, papers, knees):
    start = links.feedback_url(served.site, alice.id, alice.link_version)
    path = path_of(links.less_url(start, papers[0]))

    assert "None of your topics matches this paper." in served.client.get(path).text
    answer = served.client.post(path, data={"do": "apply"})
    assert "so nothing was saved." in served.client.get(answer.headers["location"]).text
    assert topics_of(served) == {"Vision": "title:image*"}


def test_an_unsubscribed_reader_sees_only_that(served, alice, unsubscribe_path, less_path):
    served.client.post(unsubscribe_path)

    assert "You are unsubscribed." in served.client.get(less_path).text
    assert served.client.post(less_path, data={"do": "apply"}).status_code == 303
    assert served.subscriber("alice@uni.edu").state == SubscriberState.UNSUBSCRIBED


@pytest.mark.parametrize("number", ["0", "99999", str(2**63), str(2**200)])
def test_an_unknown_paper_gives_404(served, less_path, number):
    assert served.client.get(f"{less_path.rpartition('/')[0]}/{number}").status_code == 404


def test_a_hidden_paper_is_gone_from_the_page(served, less_path, knees, now):
    with served.writing() as session:
        hidden_papers.hide(session, str(knees), now=now)
        session.commit()

    for path in (less_path, f"{less_path}/more"):
        page = served.client.get(path)
        assert (page.status_code, "knees" in page.text) == (410, False)
        assert "This paper was removed" in page.text
        assert "mail you a new one" not in page.text
        assert served.client.post(path, data={"choice": "Vision\tANDNOT knees"}).status_code == 410
    assert topics_of(served) == {"Vision": "title:image*"}


@pytest.fixture
def common(served) -> dict[str, Any]:
    """A site that receives replies, with what it takes to write letters."""
    site = replace(served.site, inbound_domain=served.site.domain)
    return {"site": site, "templates": served.context.templates, "caches": CACHES}


@pytest.fixture
def digest_of_ada(served, knees, common, now) -> EmailMessage:
    """The digest of a reader who signs her mail."""
    with served.writing() as session:
        subscriber_rows.add(
            session, ADA, state=SubscriberState.ACTIVE, consent="asked", now=now, topics={"Vision": "title:image*"}
        )  # fmt: skip
        session.commit()
        publish_due.publish(Publication(session, **common, now=now + timedelta(minutes=1)))
    served.clock.now = now + timedelta(minutes=2)
    return deliver_one(served, common)


def test_less_by_mail_and_on_the_page_change_the_same(served, common, digest_of_ada):
    number, path = numbered_paper(served, digest_of_ada)
    shown = words(served.client.get(path).text)

    applied = answer_to(served, common, digest_of_ada, f"less {number}\n")

    said = " ".join(body_of(applied.as_bytes(), "plain").split())
    assert "Drops 4 of 20 papers of the last day:" in said
    assert "Drops 4 of 20 papers of the last day:" in shown
    changed = topics_of(served, ADA)
    assert changed["Vision"].startswith("title:image* ANDNOT like:")
    answer_to(served, common, applied, "undo\n")
    assert topics_of(served, ADA) == {"Vision": "title:image*"}
    served.client.post(path, data={"do": "apply"})
    assert topics_of(served, ADA) == changed


def numbered_paper(served, digest: EmailMessage) -> tuple[str, str]:
    """Return the number of a paper on knees in a digest, and the path of its page."""
    text = body_of(digest.as_bytes(), "plain").replace("\r", "")
    cards = re.findall(r"^(.+)\n(\d+) ·", text, re.MULTILINE)
    title, number = next((title, one) for title, one in cards if "knees" in title)
    ada = served.subscriber(ADA)
    with served.writing() as session:
        paper = queries.find(session, title).id
    return number, path_of(links.less_url(links.feedback_url(served.site, ada.id, ada.link_version), paper))


def deliver_one(served, common) -> EmailMessage:
    """Deliver what is due, and return the only letter to Ada."""
    memory = MemoryTransport()
    with served.writing() as session:
        delivery_run.deliver(session, **common, transport=memory, clock=served.clock)
    parsed = [message_from_bytes(one.content, policy=policy.default) for one in memory.messages]
    (letter,) = [one for one in parsed if ADA in str(one["To"])]
    return letter


def answer_to(served, common, letter: EmailMessage, body: str) -> EmailMessage:
    """Let Ada reply to a letter with a signed mail, and return our answer."""
    to = str(letter["Reply-To"])
    with served.writing() as session:
        (number,) = stored_mail.store_mail(
            session, sender=ADA, recipients=[to], content=signed_reply(to, body), now=served.clock.now
        )
        rules = mail_rules.MailRules(lookup=lookup, templates=common["templates"], caches=CACHES)
        classification.process_mail(
            session, site=common["site"], number=number, rules=rules, now=served.clock.now
        )
    return deliver_one(served, common)


def test_the_link_in_a_delivered_digest_opens_the_page_of_its_paper(served, alice, knees, now):
    with served.writing() as session:
        memory = MemoryTransport()
        publish_and_deliver(served, session, memory, now + timedelta(minutes=1))

    [message] = memory.messages
    paths = re.findall(rf'href="{BASE}(/l/[^/"]+/\d+)"', body_of(message.content, "html"))
    assert paths
    for path in paths:
        page = served.client.get(path)
        assert (page.status_code, "Image " in page.text) == (200, True)
