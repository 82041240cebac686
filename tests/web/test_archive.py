"""Digests on the web, and what a letter that is passed on lets a stranger do."""

from __future__ import annotations

import email
import re
from datetime import timedelta

import pytest
from msgspec.structs import replace

from digest import delivery, links, publishing, subscriptions, transport
from digest.composition import Digest, Offer
from digest.model import SubscriberState
from digest.subscriptions import people
from tests.web.conftest import BASE, path_of

DAY = "daily-2026-11-20"


@pytest.fixture
def dora(door, digest_sent):
    return door.subscriber("dora@uni.edu")


@pytest.fixture
def view(door, dora):
    return path_of(links.view_url(door.site, dora.id, dora.epoch, DAY))


def test_a_digest_can_be_read_in_the_browser(door, view):
    answer = door.client.get(view)

    assert answer.status_code == 200
    assert "Diffusion" in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert {door.client.get(f"/v/{other}").status_code for other in ("x", "x.bib", "x.ris")} == {404}


def test_the_page_of_a_digest_names_no_address_and_opens_no_settings(door, view):
    page = door.client.get(view).text

    assert "dora@uni.edu" not in page
    assert "/m/" not in page


def test_a_digest_can_be_taken_into_a_reference_manager(door, view):
    bib, ris = door.client.get(f"{view}.bib"), door.client.get(f"{view}.ris")

    page = door.client.get(view).text
    assert bib.text.count("@") == page.count("<h3") == ris.text.count("ER  - ") > 1
    assert 'filename="digest.bib"' in bib.headers["content-disposition"]
    assert ris.headers["content-type"].startswith("application/x-research-info-systems")


def test_the_archive_lists_what_was_sent_and_leads_to_it(door, dora, view):
    settings = door.client.get(path_of(links.manage_url(door.site, dora.id, dora.epoch))).text
    (archive,) = re.findall(rf'href="{BASE}(/a/[^"]+)"', settings)

    page = door.client.get(archive).text

    assert "20 November 2026" in page
    assert "Slow Diffusion" in page
    assert view in page
    assert door.client.get("/a/x").status_code == 404


def test_links_of_before_a_revocation_open_nothing(door, dora, view):
    with door.writing() as session:
        session.get(type(dora), dora.id).epoch += 1
        session.commit()

    assert door.client.get(view).status_code == 404


# ── a letter is passed on ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def forwarded(door, alice, papers, now):
    """What a friend gets: the digest as it was sent to alice, every word of it."""
    at = now + timedelta(minutes=1)
    memory = transport.open("memory:", site=door.site)
    with door.writing() as session:
        people.put_topics(session, alice.id, {"Diffusion": "title:diffusion"})
        publishing.publish(session, site=door.site, templates=door.house.templates, now=at)
        delivery.deliver(
            session, site=door.site, templates=door.house.templates, transport=memory, clock=lambda: at
        )
    door.clock.now = at
    message = email.message_from_bytes(memory.messages[0].content)
    return "\n".join(part.get_payload(decode=True).decode() for part in message.get_payload())


def test_a_forwarded_digest_has_only_links_that_do_nothing_lasting(door, alice, forwarded):
    places = set(re.findall(rf"{BASE}/(\w)/", forwarded))

    assert places == {"u", "t", "v"}  # leave (with undo), ask for the link by mail, read


def test_a_stranger_with_a_forwarded_digest_can_have_the_way_mailed_to_its_owner_only(door, alice, forwarded):
    (ask,) = set(re.findall(rf"{BASE}(/t/[\w.-]+)", forwarded))
    token = ask.removeprefix("/t/")

    page = door.client.get(ask).text
    for _ in range(3):
        door.client.post(ask, data={"do": "mail"})

    assert "alice@uni.edu" not in page
    assert "/m/" not in page
    assert door.letters()[1:] == [("manage", "alice@uni.edu")]  # once an hour, however often somebody asks
    assert {door.client.get(f"/{place}/{token}").status_code for place in "muav"} == {404}


def test_a_strangers_pause_ends_with_one_press(door, alice, forwarded):
    (ask,) = set(re.findall(rf"{BASE}(/t/[\w.-]+)", forwarded))

    door.client.post(ask, data={"do": "pause"})
    assert "Paused until" in door.client.get(ask).text
    door.client.post(ask, data={"do": "resume"})

    assert door.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


def test_looking_at_all_of_it_changes_nothing(door, alice, forwarded):
    before = door.everything()

    for path in set(re.findall(rf"{BASE}(/[utv]/[\w.-]+)", forwarded)):
        assert door.client.get(path).status_code == 200

    assert door.everything() == before


# ── what had no room ────────────────────────────────────────────────────────────────────────────


def test_what_a_digest_had_no_room_for_is_listed_behind_its_link(door, papers, now):
    with door.writing() as session:
        emil = subscriptions.add(
            session, "emil@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now,
            topics={"Diffusion": "title:diffusion", "Quiet": "title:quiet"},
        )  # fmt: skip
        emil.max_papers = 3
        session.commit()
        at = now + timedelta(minutes=1)
        publishing.publish(session, site=door.site, templates=door.house.templates, now=at)
        memory = transport.open("memory:", site=door.site)
        delivery.deliver(
            session, site=door.site, templates=door.house.templates, transport=memory, clock=lambda: at
        )
    messages = [
        email.message_from_bytes(one.content) for one in memory.messages if one.recipient == emil.email
    ]
    text, html = (part.get_payload(decode=True).decode() for part in messages[0].get_payload())
    ((url, more),) = re.findall(rf'href="{BASE}(/v/[^"]+)"[^>]*>\+(\d+) more matched<', html)
    before = door.everything()

    page = door.client.get(url)

    assert f"+{more} more matched: {BASE}{url}" in text.replace("\r\n", "\n")
    assert page.status_code == 200
    assert page.text.count("<h3") == int(more) > 0
    assert "emil@uni.edu" not in page.text
    assert door.everything() == before
    assert door.client.get(url.rpartition("/")[0] + "/9").status_code == 404


# ── a narrower topic ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def offer(door, digest_sent, dora):
    """The page of an offer in dora's digest."""
    with door.writing() as session:
        delivery = session.get(type(digest_sent), digest_sent.id)
        topic = subscriptions.topics_of(session, dora)[0]
        made = Offer(topic.name, topic.filter_id, "slow*", 31.0, 3.0)
        delivery.decision = replace(Digest.from_json(delivery.decision), offer=made).to_json()
        session.commit()
    return path_of(links.view_url(door.site, dora.id, dora.epoch, DAY)) + "/narrow"


def filters(door) -> list[str]:
    with door.writing() as session:
        dora = subscriptions.get(session, "dora@uni.edu")
        return [topic.typed for topic in subscriptions.topics_of(session, dora)]


def test_what_was_offered_is_done_by_a_press_and_undone_by_another(door, offer):
    before = filters(door)

    page = door.client.get(offer)
    assert "slow*: 3 a day instead of 31" in page.text
    assert "dora@uni.edu" not in page.text
    assert filters(door) == before

    door.client.post(offer, data={"do": "narrow"})
    door.client.post(offer, data={"do": "narrow"})
    assert filters(door) == ["(title:diffusion) AND slow*", "title:quiet"]

    assert "Make it wide again" in door.client.get(offer).text
    door.client.post(offer, data={"do": "undo"})
    assert filters(door) == before


def test_a_topic_that_was_changed_since_is_left_alone(door, offer, dora):
    with door.writing() as session:
        changed = {"Diffusion": "title:flow"}
        subscriptions.edit(
            session, subscriptions.get(session, "dora@uni.edu"), topics=changed, now=door.clock.now
        )
        session.commit()

    assert "has changed since" in door.client.get(offer).text
    door.client.post(offer, data={"do": "narrow"})
    assert filters(door) == ["title:flow"]


def test_a_digest_that_offered_nothing_has_no_such_page(door, view):
    assert door.client.get(f"{view}/narrow").status_code == 404
