"""The first page, and what asking there leads to."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from digest import bounces, db, subscriptions
from digest.bounces import Reason
from digest.model import DumpRow, PaperRow, SubscriberState
from digest.topics import packs
from digest.web import limits
from tests.web.conftest import opened, settings_for


def test_the_field_is_on_top_and_ten_cards_below(door, papers):
    page = door.client.get("/").text

    assert page.index('id="email"') < page.index("Today, 20 November") < page.index("Slow Diffusion")
    assert page.count("<h3") == 10
    assert "12 checked" in page


def test_invented_papers_are_marked_as_a_sample_and_others_are_not(door, papers):
    assert "invented" not in door.client.get("/").text + door.client.get(f"/papers/{papers[0]}").text

    with door.writing() as session:
        session.execute(update(PaperRow).values(is_sample=True))
        session.execute(update(DumpRow).values(read_at=door.clock.now + timedelta(seconds=1)))
        session.commit()

    assert "These papers are invented: a sample" in door.client.get("/").text
    assert "These papers are invented: a sample" in door.client.get("/email").text
    assert "This paper is invented: a sample" in door.client.get(f"/papers/{papers[0]}").text


def test_an_empty_house_says_what_to_do(door):
    assert "No papers yet" in door.client.get("/").text


def test_a_papers_text_stays_text(door, papers):
    page = door.client.get("/").text

    assert "<script>" not in page
    assert "<img" not in page
    assert "javascript:" not in page


def test_the_page_is_made_once_until_the_catalog_changes(door, papers, now):
    door.client.get("/")
    made = door.house.memory.kept["front"]
    door.client.get("/")
    assert door.house.memory.kept["front"] is made

    with db.writing(door.house.engine) as session:
        session.add(DumpRow(sha256="1" * 64, path="b", state="loaded", observed_at=now, read_at=now))
        session.commit()
    door.client.get("/")
    assert door.house.memory.kept["front"] is not made


def test_asking_writes_one_pending_row_and_one_letter(door):
    answer = door.ask("Bob@uni.edu", filter="robot*")

    assert answer.status_code == 200
    assert "Check Bob@uni.edu." in answer.text
    assert door.subscriber("bob@uni.edu").state == SubscriberState.PENDING
    assert door.letters() == [("confirm", "Bob@uni.edu")]


def test_the_answer_is_the_same_whoever_is_known_here(door, alice, now):
    door.ask("bob@uni.edu")
    with db.writing(door.house.engine) as session:
        bounces.suppress(session, door.site, "carol@uni.edu", Reason.COMPLAINT, "", now)
        session.commit()

    known = {
        "active": "alice@uni.edu",
        "pending": "bob@uni.edu",
        "suppressed": "carol@uni.edu",
        "new": "dave@uni.edu",
    }
    answers = {
        kind: (
            answer.status_code,
            answer.text.replace(email, "ADDRESS"),
            dict(answer.headers, **{"content-length": ""}),
        )
        for kind, email in known.items()
        if (answer := door.ask(email))
    }

    assert len({str(answer) for answer in answers.values()}) == 1


@pytest.mark.parametrize("email", ["", "ada", "ada@uni", "ada@uni.edu\r\nBcc: eve@uni.edu"])
def test_a_wrong_address_is_told_beside_the_field_and_kept(door, email):
    answer = door.ask(email)

    assert answer.status_code == 422
    assert "is not an address we can write to" in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert door.letters() == []


def test_a_slip_of_the_finger_is_asked_about(door):
    asked = door.ask("ada@gmial.com")
    assert "Use gmail.com" in asked.text
    assert door.letters() == []

    door.ask("ada@gmial.com", use="ada@gmail.com")
    door.ask("ada@gmial.com", keep="1")
    assert door.letters() == [("confirm", "ada@gmail.com"), ("confirm", "ada@gmial.com")]


def test_a_wrong_filter_has_a_caret_under_the_mistake_and_both_fields_kept(door):
    answer = door.ask("ada@uni.edu", filter="robot* AND (arm")

    assert answer.status_code == 422
    assert "^" in answer.text
    assert 'value="ada@uni.edu"' in answer.text
    assert 'value="robot* AND (arm"' in answer.text


@pytest.mark.parametrize("written", ["title:quiet", "like:{}", "use:lab/quiet", "use:lab ANDNOT loud"])
def test_any_filter_can_be_tried_before_it_is_asked_for(door, papers, now, written):
    with door.writing() as session:
        pack = packs.read("pack: lab\n\nquiet = title:quiet\n")
        subscriptions.publish(session, door.site, pack, effect=lambda *_: {}, now=now)
        session.commit()

    answer = door.ask("", filter=written.format(papers[5]), do="try")

    assert answer.status_code == 200
    assert "About 10 a day (busiest 10), from 1 day" in answer.text


@pytest.mark.parametrize(
    ("written", "said"), [("like:99999", "There is no paper"), ("use:lub/x", "There is no pack lub.")]
)
def test_what_cannot_be_tried_is_pointed_at(door, papers, written, said):
    answer = door.ask("", filter=written, do="try")

    assert (answer.status_code, said in answer.text, "^" in answer.text) == (422, True, True)


def test_a_robot_that_fills_every_field_is_thanked_and_ignored(door):
    answer = door.ask("bob@uni.edu", website="https://spam.example")

    assert "Check bob@uni.edu." in answer.text
    assert door.letters() == []


@pytest.mark.parametrize("waits", [timedelta(0), timedelta(seconds=1), timedelta(days=3)], ids=str)
def test_a_form_sent_too_quickly_or_days_later_is_to_be_sent_again(door, waits):
    stamp = door.stamp()
    door.clock.now += waits - timedelta(seconds=5)

    answer = door.client.post("/", data={"made": stamp, "email": "bob@uni.edu"})

    assert answer.status_code == 422
    assert 'value="bob@uni.edu"' in answer.text
    assert door.letters() == []


@pytest.mark.parametrize("stamp", ["", "x", "a.1.b", "9" * 300])
def test_a_form_without_our_stamp_is_not_taken(door, stamp):
    assert door.client.post("/", data={"made": stamp, "email": "bob@uni.edu"}).status_code == 422
    assert door.letters() == []


def test_a_form_of_another_site_is_refused(door):
    data = {"made": door.stamp(), "email": "bob@uni.edu"}

    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert door.client.post("/", data=data, headers=headers).status_code == 403
    for headers in ({"sec-fetch-site": "same-origin", "origin": "null"}, {"origin": "http://127.0.0.1:8000"}):
        assert door.client.post("/", data=data, headers=headers).status_code == 200


def test_a_site_may_be_closed_or_for_some_domains_only(sqlite_url, tmp_path, clock):
    for door in opened(settings_for(sqlite_url, tmp_path, signup="uni.edu"), clock):
        assert "This site is for addresses at uni.edu" in door.ask("ada@lab.org").text
        assert door.ask("ada@uni.edu").status_code == 200
    for door in opened(settings_for(sqlite_url, tmp_path, signup="closed"), clock):
        assert 'id="email"' not in door.client.get("/").text
        assert door.client.post("/", data={"email": "bob@uni.edu"}).status_code == 422


def test_one_network_may_not_ask_without_end(door, monkeypatch):
    for number in range(limits.PER_NETWORK[0][0]):
        assert door.limits.allows("192.0.2.0/24", door.clock.now), number

    assert not door.limits.allows("192.0.2.0/24", door.clock.now)
    assert door.limits.allows("198.51.100.0/24", door.clock.now)
    assert door.limits.allows("192.0.2.0/24", door.clock.now + timedelta(minutes=10))


def test_behind_our_proxy_each_network_has_limits_of_its_own(sqlite_url, tmp_path, clock):
    for door in opened(settings_for(sqlite_url, tmp_path, proxies=1), clock):
        data = {"made": door.stamp()}
        for number in range(11):
            headers = {"x-forwarded-for": f"6.6.6.{number}, 192.0.2.7"}
            answer = door.client.post("/", data=data | {"email": f"r{number}@uni.edu"}, headers=headers)
        assert answer.status_code == 429
        assert "Wait ten minutes" in answer.text
        assert door.client.post("/", data=data | {"email": "x@uni.edu"}).status_code == 200


def test_what_no_limit_looks_at_is_forgotten(door, monkeypatch):
    monkeypatch.setattr(limits, "REMEMBERED", 50)
    for number in range(100):
        door.limits.allows(f"{number}", door.clock.now + timedelta(hours=number))

    assert len(door.limits.uses) < 52


@pytest.mark.parametrize(
    ("client", "forwarded", "proxies", "network"),
    [
        ("192.0.2.77", "", 0, "192.0.2.0/24"),
        ("2001:db8:1:2::7", "", 0, "2001:db8:1::/48"),
        ("192.0.2.77", "198.51.100.9", 0, "192.0.2.0/24"),
        ("::ffff:192.0.2.77", "", 0, "192.0.2.0/24"),
        ("::ffff:127.0.0.1", "", 0, None),
        ("127.0.0.1", "203.0.113.1, 198.51.100.9", 1, "198.51.100.0/24"),
        ("127.0.0.1", "6.6.6.6, 203.0.113.1, 10.0.0.2", 2, "203.0.113.0/24"),
        ("127.0.0.1", "", 0, None),
        ("testclient", "", 0, None),
        (None, "", 0, None),
    ],
)
def test_a_network_is_told_by_what_our_own_proxies_saw(client, forwarded, proxies, network):
    assert limits.network_of(client, {"x-forwarded-for": forwarded}, proxies=proxies) == network
