"""The page for a subscriber's data and address needs a newly mailed link, which is valid for a day."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from digest import links, subscribers
from digest.db.tables import Delivery, Subscriber, SubscriberState
from tests.web.conftest import BASE, path_of


def mailed_path(served, letter: int = -1) -> str:
    """Deliver the mail and return the path of the link in the last letter."""
    _subject, text = served.deliver_mail()[letter]
    found = re.search(rf"{BASE}(/[de]/\S+)", text)
    assert found
    return found[1]


@pytest.fixture
def account_path(served, manage_path) -> str:
    served.client.post(manage_path, data={"do": "account"})
    return mailed_path(served)


def test_the_settings_page_mails_the_link_and_does_not_show_it(served, manage_path):
    answer = served.client.post(manage_path, data={"do": "account"})

    page = served.client.get(answer.headers["location"]).text
    assert "We sent you a link. Check your inbox." in page
    assert "/d/" not in page
    assert served.letters() == [("account_link", "alice@uni.edu")]


def test_the_link_is_mailed_at_most_once_an_hour(served, manage_path):
    for _ in range(3):
        served.client.post(manage_path, data={"do": "account"})

    assert served.letters() == [("account_link", "alice@uni.edu")]


def test_everything_stored_can_be_downloaded(served, account_path):
    before = served.everything()

    answer = served.client.get(f"{account_path}/digest-data.json")

    assert "attachment" in answer.headers["content-disposition"]
    found = answer.json()
    assert found["subscriber"]["email"] == "alice@uni.edu"
    assert found["topics"] == [{"name": "Vision", "filter": "title:image*", "muted": False}]
    assert [consent["how"] for consent in found["consents"]] == ["asked"]
    assert [letter["letter"] for letter in found["letters"]] == ["account_link"]
    assert served.everything() == before


def test_the_export_names_every_column_of_the_subscriber(served, account_path):
    found = served.client.get(f"{account_path}/digest-data.json").json()

    assert found["subscriber"].keys() == {column.name for column in Subscriber.__table__.columns}


def test_the_link_expires_after_a_day(served, account_path):
    served.clock.now += timedelta(hours=24, seconds=1)

    assert served.client.get(account_path).status_code == 410
    assert served.client.get(f"{account_path}/digest-data.json").status_code == 410
    assert served.client.post(account_path, data={"do": "erase", "sure": "yes"}).status_code == 410
    assert served.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


def test_data_is_erased_only_with_the_box_ticked(served, account_path):
    asked = served.client.post(account_path, data={"do": "erase"})
    assert (asked.status_code, 'id="erase-error"' in asked.text) == (422, True)
    assert served.subscriber("alice@uni.edu")

    erased = served.client.post(account_path, data={"do": "erase", "sure": "yes"})

    assert "Your data is erased." in erased.text
    assert "alice@uni.edu" not in served.everything()
    assert served.client.get(account_path).status_code == 404


def test_a_new_address_is_used_after_its_owner_confirmed_it(served, account_path, manage_path):
    served.client.post(account_path, data={"do": "address", "email": "Alice@New.example"})
    assert served.letters()[-1] == ("new_address", "Alice@new.example")
    assert served.subscriber("alice@uni.edu")

    path = mailed_path(served)
    before = served.everything()
    assert "Confirm your new address" in served.client.get(path).text
    assert served.everything() == before

    for _ in range(2):  # a second click shows the same page
        answer = served.client.post(path)
        assert "Your address is changed." in served.client.get(answer.headers["location"]).text
    moved = served.subscriber("alice@new.example")
    assert (moved.email, moved.link_version) == ("Alice@new.example", 1)
    with served.writing() as session:
        assert [topic.name for topic in subscribers.topics_of(session, moved)] == ["Vision"]
    assert served.client.get(manage_path).status_code == 404  # links in earlier letters are revoked
    assert served.client.get(account_path).status_code == 404


@pytest.mark.parametrize(
    "typed", ["", "nobody", "alice@uni.edu", "a@b", "x" * 400 + "@uni.edu", "a\0@", "a b@c.de"]
)
def test_an_invalid_new_address_is_reported_beside_its_field(served, account_path, typed):
    before = served.everything()

    answer = served.client.post(account_path, data={"do": "address", "email": typed})

    assert (answer.status_code, 'id="email-error"' in answer.text) == (422, True)
    assert served.everything() == before


def test_nothing_reveals_that_an_address_belongs_to_another_reader(served, account_path, now):
    with served.writing() as session:
        subscribers.add(session, "bob@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now)
        session.commit()

    taken = served.client.post(account_path, data={"do": "address", "email": "bob@uni.edu"})
    free = served.client.post(account_path, data={"do": "address", "email": "carol@uni.edu"})

    assert taken.headers["location"] == free.headers["location"]
    assert served.letters()[1:] == [("new_address", "bob@uni.edu"), ("new_address", "carol@uni.edu")]
    exported = served.client.get(f"{account_path}/digest-data.json").json()["letters"][1:]
    own = {"id", "email", "dedupe_key", "message_id"}
    assert len({str({name: one[name] for name in one.keys() - own}) for one in exported}) == 1


def test_an_address_that_subscribed_meanwhile_is_not_taken_over(served, account_path, now):
    served.client.post(account_path, data={"do": "address", "email": "bob@uni.edu"})
    path = mailed_path(served)
    with served.writing() as session:
        subscribers.add(session, "bob@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now)
        session.commit()

    answer = served.client.post(path)

    assert (answer.status_code, "This address already gets digests." in answer.text) == (422, True)
    assert served.subscriber("alice@uni.edu")


def test_new_addresses_are_mailed_at_most_three_times_a_day(served, account_path):
    answers = [
        served.client.post(account_path, data={"do": "address", "email": f"x{number}@uni.edu"})
        for number in range(4)
    ]

    assert [answer.status_code for answer in answers] == [303, 303, 303, 422]
    assert "Too many requests. Try again tomorrow." in answers[-1].text
    with served.writing() as session:
        sent = session.scalars(select(Delivery).where(Delivery.letter == "new_address")).all()
        assert len(sent) == 3


def test_the_link_to_a_new_address_expires(served, account_path):
    served.client.post(account_path, data={"do": "address", "email": "bob@uni.edu"})
    path = mailed_path(served)
    served.clock.now += timedelta(hours=48, seconds=1)

    assert served.client.get(path).status_code == 410
    assert served.client.post(path).status_code == 410


# ── links ───────────────────────────────────────────────────────────────────────────────────────


def test_no_link_is_valid_for_another_purpose(served, alice, papers, digest_sent):
    reader = alice.id, alice.link_version
    made_at = int(served.clock.now.timestamp())
    urls = {
        "u": links.unsubscribe_url(served.site, *reader),
        "m": links.manage_url(served.site, *reader),
        "t": links.topic_links_url(served.site, *reader),
        "a": links.archive_url(served.site, *reader),
        "f": links.feed_url(served.site, *reader).removesuffix(".atom"),
        "l": links.feedback_url(served.site, *reader),
        "s": links.save_prefix(served.site, *reader),
        "saved": links.saved_feed_url(served.site, *reader).removesuffix(".atom"),
        "d": links.account_url(served.site, *reader, made_at),
        "e": links.new_address_url(served.site, *reader, "new@uni.edu", made_at),
        "c": links.confirm_url(served.site, 1),
        "v": links.view_url(served.site, *reader, "daily-2026-11-20"),
    }
    tokens = {place: path_of(url).split("/")[2] for place, url in urls.items()}
    before = served.everything()

    for place, token in tokens.items():
        for other in tokens.keys() - {place}:
            paths = {
                "f": [f"/f/{token}.atom"],
                "l": [f"/l/{token}/{papers[0]}", f"/l/{token}/{papers[0]}/more"],
                "s": [f"/s/{token}/{papers[0]}"],
                "saved": [f"/s/{token}.atom"],
                "m": [
                    f"/m/{token}",
                    f"/m/{token}/why?paper=1",
                    *(f"/m/{token}/saved{end}" for end in ("", ".bib", ".ris")),
                ],
                "d": [f"/d/{token}", f"/d/{token}/digest-data.json"],
                "v": [
                    f"/v/{token}",
                    f"/v/{token}.bib",
                    f"/v/{token}/narrow",
                    f"/v/{token}/topics",
                    f"/v/{token}/1",
                ],
            }.get(other, [f"/{other}/{token}"])
            for path in paths:
                assert served.client.get(path).status_code in {404, 410}, (place, path)
                assert served.client.post(path).status_code in {404, 405, 410}, (place, path)
    assert served.everything() == before


def test_viewing_a_page_behind_any_link_changes_nothing(served, alice, papers, digest_sent):
    reader = alice.id, alice.link_version
    made_at = int(served.clock.now.timestamp())
    start = links.feedback_url(served.site, *reader)
    urls = [
        links.unsubscribe_url(served.site, *reader),
        links.manage_url(served.site, *reader) + "?name=x&filter=y&done=saved",
        links.manage_url(served.site, *reader) + f"/why?paper={papers[0]}",
        links.topic_links_url(served.site, *reader),
        links.archive_url(served.site, *reader),
        links.feed_url(served.site, *reader),
        links.less_url(start, papers[0]) + "?done=applied",
        links.more_url(start, papers[0]),
        links.save_url(served.site, *reader, papers[0]) + "?done=saved",
        links.saved_feed_url(served.site, *reader),
        links.manage_url(served.site, *reader) + "/saved",
        links.account_url(served.site, *reader, made_at),
        links.account_url(served.site, *reader, made_at) + "/digest-data.json",
        links.new_address_url(served.site, *reader, "new@uni.edu", made_at),
        links.view_url(served.site, digest_sent.subscriber_id or 0, 0, "daily-2026-11-20"),
        links.view_url(served.site, digest_sent.subscriber_id or 0, 0, "daily-2026-11-20") + "/topics",
    ]
    before = served.everything()

    for url in urls:
        for method in ("GET", "HEAD", "OPTIONS"):
            assert served.client.request(method, path_of(url)).status_code in {200, 405}, url

    assert served.everything() == before
