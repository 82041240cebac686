"""The pages of a group's digest are read by all its members, so they change nothing for the group."""

from __future__ import annotations

from datetime import timedelta

import pytest

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber
from digest.site import links
from digest.subscribers import confirmations, subscriber_rows
from digest.subscribers.reader_settings import ReaderSettings
from tests.web.conftest import path_of

OWNER = "kari@uni.edu"


@pytest.fixture
def group(served, digest_sent: Delivery) -> Subscriber:
    """Dora's address is a group's."""
    with served.writing() as session:
        reader = subscriber_rows.get(session, "dora@uni.edu")
        reader.owner_email = OWNER
        session.commit()
        return reader


@pytest.fixture
def view(served, group: Subscriber) -> str:
    return path_of(links.view_url(served.site, group.id, group.link_version, "daily-2026-11-20"))


def test_the_page_of_a_groups_digest_has_no_link_of_one_reader(served, view):
    page = served.client.get(view).text

    assert OWNER not in page
    for place in ("m", "t", "u", "s", "l"):
        assert f'href="{served.site.url}/{place}/' not in page
    assert "Get your own copy" in page


def test_members_are_offered_the_topics_on_the_sign_up_page(served, view):
    assert 'value="Diffusion\n' in served.client.get(f"{view}/topics").text


def test_a_lost_settings_link_is_mailed_to_the_owner(served, group: Subscriber):
    served.client.post("/link", data={"email": group.email, "made": served.stamp(), "website": ""})

    assert ("settings_link", OWNER) in served.letters()
    assert ("settings_link", group.email) not in served.letters()


def test_whoever_confirms_for_a_group_gets_no_settings_link(served, now):
    with served.writing() as session:
        found = confirmations.request_subscription(
            session, served.site, "lab@uni.edu", owner=OWNER, requested=ReaderSettings(topics={"Vision": "image*"}),
            now=now - timedelta(hours=1),
        )  # fmt: skip
        session.commit()
    path = path_of(links.confirm_url(served.site, found.confirmation_id or 0))

    served.deliver_mail()
    served.clock.now += timedelta(minutes=2)  # mail scanners press buttons within the first minute

    asked = served.client.get(path).text
    answer = served.client.post(path, follow_redirects=True)

    assert "kari@uni.edu asked for a daily digest of papers on “Vision” for the group lab@uni.edu." in asked
    assert "The group is subscribed." in answer.text
    assert "/m/" not in answer.text
    assert "kari@uni.edu manages these digests" in answer.text


def test_the_owner_of_a_group_cannot_erase_themselves_first(
    served, group: Subscriber, alice: Subscriber, now
):
    with served.writing() as session:
        subscriber_rows.get(session, "dora@uni.edu").owner_email = alice.email
        session.commit()
    path = path_of(links.account_url(served.site, alice.id, alice.link_version, int(now.timestamp())))

    answer = served.client.post(path, data={"do": "erase", "sure": "yes"})

    assert "manages the digests of dora@uni.edu" in answer.text
    assert served.subscriber("alice@uni.edu").email == alice.email
