"""The page for a subscriber's data and address needs a newly mailed link, which is valid for a day."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select
from starlette.routing import Route

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.transports.memory import MemoryTransport
from digest.site import links
from digest.subscribers import account, confirmations, subscriber_rows, subscriber_topics
from digest.web.app import ROUTES
from tests.support.shared_caches import CACHES
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
    assert "Confirm your address" in served.client.get(path).text
    assert served.everything() == before

    for _ in range(2):  # a second click shows the same page
        answer = served.client.post(path)
        assert "Your address was changed." in served.client.get(answer.headers["location"]).text
    moved = served.subscriber("alice@new.example")
    assert (moved.email, moved.link_version) == ("Alice@new.example", 1)
    with served.writing() as session:
        assert [topic.name for topic in subscriber_topics.topics_of(session, moved)] == ["Vision"]
    assert served.client.get(manage_path).status_code == 404  # links in earlier letters are revoked
    assert served.client.get(account_path).status_code == 404


def test_the_page_after_a_change_of_address_leads_to_the_settings(served, account_path):
    served.client.post(account_path, data={"do": "address", "email": "bob@uni.edu"})
    done = served.client.post(mailed_path(served)).headers["location"]
    page = served.client.get(done).text

    (path,) = re.findall(rf'href="{BASE}(/m/[^"]+)">Open my settings', page)
    assert "bob@uni.edu" in served.client.get(path).text


def test_the_new_address_gets_a_settings_link_although_the_old_one_just_did(served, account_path):
    def ask(email: str) -> None:
        with served.writing() as session:
            confirmations.send_link(session, served.site, served.subscriber(email), served.clock())

    for _ in range(2):
        ask("alice@uni.edu")
    served.client.post(account_path, data={"do": "address", "email": "bob@uni.edu"})
    served.client.post(mailed_path(served))
    ask("bob@uni.edu")

    sent = [email for letter, email in served.letters() if letter == "settings_link"]
    assert sent == ["alice@uni.edu", "alice@uni.edu", "bob@uni.edu"]


@pytest.fixture
def moved(served, account_path) -> None:
    """Alice's digests go to another address since a moment ago."""
    served.client.post(account_path, data={"do": "address", "email": "mallory@new.example"})
    served.client.post(mailed_path(served))


def test_the_old_address_is_notified_once_and_can_change_it_back(served, moved):
    assert served.letters()[2:] == [("address_changed", "alice@uni.edu")]
    [(subject, text)] = served.deliver_mail()
    assert subject == "Your email address for digests was changed"
    assert "Your digests now go to m•••@new.example." in " ".join(text.split())
    (path,) = re.findall(rf"{BASE}(/e/\S+)", text)

    answer = served.client.post(path)

    assert "Your address was changed." in served.client.get(answer.headers["location"]).text
    assert served.subscriber("alice@uni.edu").link_version == 2
    [(subject, text)] = served.deliver_mail()  # the other address is notified, too
    assert "Your digests now go to a•••@uni.edu." in " ".join(text.split())


def test_an_address_can_be_changed_back_for_two_days(served, moved):
    path = mailed_path(served)
    served.clock.now += timedelta(hours=48, seconds=1)

    assert served.client.post(path).status_code == 410
    assert served.subscriber("mallory@new.example")


def test_queued_letters_go_to_the_new_address(served, account_path, manage_path):
    served.client.post(account_path, data={"do": "address", "email": "alice@new.example"})
    path = mailed_path(served)
    served.client.post(manage_path, data={"do": "remove", "topic": "Vision"})

    served.client.post(path)

    assert ("changed", "alice@new.example") in served.letters()


def test_a_letter_about_another_address_has_no_reply_address_of_the_reader(served, account_path):
    served.client.post(account_path, data={"do": "address", "email": "bob@uni.edu"})
    memory, site = MemoryTransport(), replace(served.site, inbound_domain=served.site.domain)
    with served.writing() as session:
        delivery_run.deliver(
            session, site=site, templates=served.context.templates, caches=CACHES, transport=memory, clock=served.clock
        )  # fmt: skip

    assert [b"Reply-To: reply+" in one.content for one in memory.messages] == [False]


def test_expired_links_lead_to_the_settings(served, account_path):
    served.client.post(account_path, data={"do": "address", "email": "bob@uni.edu"})
    confirm = mailed_path(served)
    served.clock.now += timedelta(hours=49)

    for path in (account_path, confirm):
        page = served.client.get(path)
        assert (page.status_code, "This link has expired" in page.text) == (410, True)
        assert "we will mail you the link to your settings" in page.text


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
        subscriber_rows.add(session, "bob@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now)
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
        subscriber_rows.add(session, "bob@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now)
        session.commit()

    answer = served.client.post(path)

    assert (answer.status_code, "This address already gets digests." in answer.text) == (422, True)
    assert served.subscriber("alice@uni.edu")


def test_a_reader_may_ask_for_three_new_addresses_a_day_and_the_notice_of_a_change_is_none(
    served, account_path
):
    served.client.post(account_path, data={"do": "address", "email": "x@new.example"})
    served.client.post(mailed_path(served))
    assert [letter for letter, _ in served.letters()[1:]] == ["new_address", "address_changed"]
    served.clock.now += timedelta(hours=2)
    with served.writing() as session:  # a change of address revokes the links in earlier letters
        reader = subscriber_rows.get(session, "x@new.example")
        account.queue_account_link(session, served.site, reader, now=served.clock.now)
        session.commit()
    account_path = mailed_path(served)
    answers = [
        served.client.post(account_path, data={"do": "address", "email": f"x{number}@uni.edu"})
        for number in range(3)
    ]

    assert [answer.status_code for answer in answers] == [303, 303, 422]
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
        "paper": links.feedback_url(served.site, *reader),
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
                "paper": [
                    f"/l/{token}/{papers[0]}",
                    f"/l/{token}/{papers[0]}/more",
                    f"/s/{token}/{papers[0]}",
                ],
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
                    f"/v/{token}/topics",
                    f"/v/{token}/1",
                ],
            }.get(other, [f"/{other}/{token}"])
            for path in paths:
                assert served.client.get(path).status_code in {404, 410}, (place, path)
                assert served.client.post(path).status_code in {404, 405, 410}, (place, path)
    assert served.everything() == before


def test_viewing_a_page_behind_any_link_changes_nothing(served, alice, papers, digest_sent, dora):
    reader, reader_with_digest = (alice.id, alice.link_version), (dora.id, dora.link_version)
    made_at, site = int(served.clock.now.timestamp()), served.site
    served.sign_up("bob@uni.edu")
    start, manage = links.feedback_url(site, *reader), links.manage_url(site, *reader)
    account = links.account_url(site, *reader, made_at)
    view = links.view_url(site, *reader_with_digest, digest_sent.edition or "")
    urls = {
        "/c/{token}": links.confirm_url(site, 1),
        "/u/{token}": links.unsubscribe_url(site, *reader),
        "/m/{token}": f"{manage}?name=x&filter=y&done=saved",
        "/m/{token}/why": f"{manage}/why?paper={papers[0]}",
        "/m/{token}/saved": f"{manage}/saved",
        "/m/{token}/saved.{format:file}": f"{manage}/saved.ris",
        "/t/{token}": links.topic_links_url(site, *reader),
        "/a/{token}": links.archive_url(site, *reader),
        "/f/{token}.{format:feed}": links.feed_url(site, *reader),
        "/l/{token}/{number:id}": links.less_url(start, papers[0]) + "?done=applied",
        "/l/{token}/{number:id}/more": links.more_url(start, papers[0]),
        "/s/{token}/{number:id}": links.save_url(site, *reader, papers[0]) + "?done=saved",
        "/s/{token}.{format:feed}": links.saved_feed_url(site, *reader),
        "/d/{token}": account,
        "/d/{token}/digest-data.json": f"{account}/digest-data.json",
        "/e/{token}": links.new_address_url(site, *reader, "new@uni.edu", made_at),
        "/v/{token}": view,
        "/v/{token}.{format:file}": f"{view}.bib",
        "/v/{token}/topics": f"{view}/topics",
        "/v/{token}/{place:id}": f"{view}/1",
    }  # fmt: skip
    shown = {route.path for route in ROUTES if isinstance(route, Route) and "{token}" in route.path}
    assert urls.keys() == shown
    before = served.everything()

    for url in urls.values():
        assert served.client.get(path_of(url)).status_code == 200, url
        for method in ("HEAD", "OPTIONS"):
            assert served.client.request(method, path_of(url)).status_code in {200, 405}, url

    assert served.everything() == before
