"""The question in a digest leads to one button; opening the page is no activity."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from digest.db.tables.subscribers import StillReadingStep
from digest.delivery.transports.memory import MemoryTransport
from digest.site import links
from digest.subscribers import still_reading, subscriber_rows, undo_changes
from digest.subscribers.reader_settings import ReaderSettings
from tests.support.mail_bodies import body_of
from tests.web.conftest import path_of, publish_and_deliver

QUESTION = "Still reading? We have not heard from you for a long time."


@pytest.fixture
def silent(served, alice, now):
    """Alice, who was inactive for three years."""
    with served.writing() as session:
        reader = subscriber_rows.get(session, alice.email)
        reader.confirmed_at = reader.created_at = now - timedelta(days=1095)
        session.commit()
        still_reading.take_steps(session, served.site, after=timedelta(days=730), now=now)
        return reader


def test_the_digest_of_a_silent_reader_asks_in_both_parts(served, papers, silent, now):
    with served.writing() as session:
        given = ReaderSettings(topics={})
        undo_changes.edit(session, subscriber_rows.get(session, silent.email), given, now=now)
        session.commit()
        memory = MemoryTransport()
        publish_and_deliver(served, session, memory, now + timedelta(minutes=1))

    [message] = memory.messages
    path = links.topic_links_url(served.site, silent.id, 0)
    text, html = (re.sub(r"\s+", " ", body_of(message.content, part)) for part in ("plain", "html"))
    assert f"{QUESTION} Keep my digests: {path}" in text
    assert f'href="{path}"' in html
    assert QUESTION in html
    assert ">Keep my digests</a>" in html


def test_one_button_answers_and_opening_the_page_does_not(served, silent):
    path = path_of(links.topic_links_url(served.site, silent.id, 0))
    before = served.everything()

    assert "Keep my digests" in served.client.get(path).text
    assert served.everything() == before

    answer = served.client.post(path, data={"do": "keep"})
    page = served.client.get(answer.headers["location"]).text
    assert "Thank you. You will keep getting your digests." in page
    assert "Keep my digests" not in page
    reader = served.subscriber(silent.email)
    assert (reader.still_reading_step, reader.last_active_at) == (StillReadingStep.NONE, served.clock.now)


def test_saving_settings_is_activity(served, silent, manage_path):
    served.client.post(manage_path, data={"do": "mute", "topic": "Vision"})

    assert served.subscriber(silent.email).still_reading_step == StillReadingStep.NONE
