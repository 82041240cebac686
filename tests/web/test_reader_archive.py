"""Digests can be read on the web, and a forwarded letter gives strangers no further access."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from digest.db.tables.subscribers import SubscriberState
from digest.delivery.transports.memory import MemoryTransport
from digest.site import links
from digest.subscribers import subscriber_rows, subscriber_topics
from tests.support.mail_bodies import body_of
from tests.web.conftest import BASE, path_of, publish_and_deliver

DAY = "daily-2026-11-20"


def test_a_digest_can_be_read_in_the_browser(served, view):
    answer = served.client.get(view)

    assert answer.status_code == 200
    assert "Diffusion" in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert {served.client.get(f"/v/{other}").status_code for other in ("x", "x.bib", "x.ris")} == {404}


def test_the_page_of_a_digest_has_no_address_and_no_settings_link(served, view):
    page = served.client.get(view).text

    assert "dora@uni.edu" not in page
    assert "/m/" not in page


def test_a_forwarded_digest_offers_its_topics(served, view):
    page = served.client.get(f"{view}/topics")

    chosen = re.findall(r'name="topic" value="([^"\n]+)\n([^"]+)" checked', page.text)
    assert [name for name, _ in chosen] == ["Diffusion", "Quiet"]
    assert "dora@uni.edu" not in page.text
    assert page.headers["cache-control"] == "no-store"
    assert f'href="{BASE}{view}/topics"' in served.client.get(view).text
    assert served.client.get("/v/x/topics").status_code == 404


def test_a_digest_can_be_exported_for_a_reference_manager(served, view):
    bib, ris = served.client.get(f"{view}.bib"), served.client.get(f"{view}.ris")

    page = served.client.get(view).text
    assert bib.text.count("@") == page.count('class="title"') == ris.text.count("ER  - ") > 1
    assert 'filename="digest.bib"' in bib.headers["content-disposition"]
    assert ris.headers["content-type"].startswith("application/x-research-info-systems")


def test_the_archive_links_to_every_digest_sent(served, dora, view):
    settings = served.client.get(path_of(links.manage_url(served.site, dora.id, dora.link_version))).text
    (archive,) = re.findall(rf'href="{BASE}(/a/[^"]+)"', settings)

    page = served.client.get(archive).text

    assert "20 November 2026" in page
    assert "Slow Diffusion" in page
    assert view in page
    assert served.client.get("/a/x").status_code == 404


def test_the_archive_lists_the_papers_of_each_digest(served, dora, view, papers):
    page = served.client.get(path_of(links.archive_url(served.site, dora.id, dora.link_version))).text

    assert f'<a class="title" href="/papers/{papers[0]}">Slow Diffusion</a>' in page
    assert f'<a class="title" href="/papers/{papers[2]}">Quiet Paper 3</a>' in page


def test_revoked_links_are_refused(served, dora, view):
    with served.writing() as session:
        session.get(type(dora), dora.id).link_version += 1
        session.commit()

    assert served.client.get(view).status_code == 404


# ── a letter is passed on ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def forwarded(served, alice, papers, now):
    """The digest that was sent to Alice, as a friend receives it when forwarded."""
    at = now + timedelta(minutes=1)
    memory = MemoryTransport()
    with served.writing() as session:
        subscriber_topics.replace_topics(session, alice.id, {"Diffusion": "title:diffusion"})
        publish_and_deliver(served, session, memory, at)
    served.clock.now = at
    content = memory.messages[0].content
    return f"{body_of(content, 'plain')}\n{body_of(content, 'html')}"


def test_a_forwarded_digest_has_no_link_to_the_settings(served, alice, forwarded):
    link_kinds = set(re.findall(rf"{BASE}/(\w)/", forwarded))

    # leave (with undo), ask for the link by mail, read; save a paper, or change a topic, which is reported by mail
    assert link_kinds == {"u", "t", "v", "s", "l"}


def test_a_stranger_with_a_forwarded_digest_can_only_have_the_settings_link_mailed_to_its_owner(
    served, alice, forwarded
):
    (ask,) = set(re.findall(rf"{BASE}(/t/[\w.-]+)", forwarded))
    token = ask.removeprefix("/t/")

    page = served.client.get(ask).text
    for _ in range(3):
        served.client.post(ask, data={"do": "mail"})

    assert "alice@uni.edu" not in page
    assert "/m/" not in page
    # twice a day, however often somebody asks
    assert served.letters()[1:] == [("settings_link", "alice@uni.edu")] * 2
    assert {served.client.get(f"/{place}/{token}").status_code for place in "muav"} == {404}


def test_a_pause_from_a_forwarded_digest_can_be_ended_with_one_click(served, alice, forwarded):
    (ask,) = set(re.findall(rf"{BASE}(/t/[\w.-]+)", forwarded))

    served.client.post(ask, data={"do": "pause"})
    assert "Paused until" in served.client.get(ask).text
    served.client.post(ask, data={"do": "resume"})

    assert served.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


def test_get_requests_change_nothing(served, alice, forwarded):
    before = served.everything()

    for path in set(re.findall(rf"{BASE}(/[utv]/[\w.-]+)", forwarded)):
        assert served.client.get(path).status_code == 200

    assert served.everything() == before


# ── papers left out ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("topics", "rest"),
    [
        ({"Diffusion": "title:diffusion", "Quiet": "title:quiet"}, r"on \w+"),
        ({}, "trending papers?"),
    ],
    ids=["topics", "trending"],
)
def test_papers_left_out_of_a_digest_are_listed_behind_its_link(served, papers, now, topics, rest):
    with served.writing() as session:
        emil = subscriber_rows.add(
            session, "emil@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now,
            topics=topics,
        )  # fmt: skip
        emil.max_papers = 3
        session.commit()
        memory = MemoryTransport()
        publish_and_deliver(served, session, memory, now + timedelta(minutes=1))
    (content,) = (one.content for one in memory.messages if one.recipient == emil.email)
    text, html = body_of(content, "plain"), body_of(content, "html")
    ((url, more),) = re.findall(rf'href="{BASE}(/v/[^"]+)"[^>]*>Read the other (\w+) {rest}<', html)
    before = served.everything()

    page = served.client.get(url)

    assert re.search(rf"Read the other {more} {rest}:\s+{re.escape(BASE + url)}", text)
    assert page.status_code == 200
    assert page.text.count("<h3") == (1 if more == "one" else int(more))
    assert ("trending" in page.text) == (not topics)
    assert "emil@uni.edu" not in page.text
    assert served.everything() == before
    assert served.client.get(url.rpartition("/")[0] + "/9").status_code == 404
