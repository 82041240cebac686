"""The front page and its sign-up form."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from sqlalchemy import update

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.dumps import DumpRow
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import SubscriberState
from digest.subscribers import pack_updates, sign_up_limits, sign_up_queue
from digest.topics import pack_files
from digest.web import visitor_network
from tests.web.conftest import opened, settings_for


def test_the_front_page_has_the_address_field_and_ten_papers(served, papers):
    page = served.client.get("/").text

    assert page.index('id="email"') < page.index("Today, 20 November") < page.index("Slow Diffusion")
    assert page.count("<h3") == 10
    assert "12 papers checked" in page


def test_invented_papers_are_marked_as_a_sample_and_others_are_not(served, papers):
    assert "invented" not in served.client.get("/").text + served.client.get(f"/papers/{papers[0]}").text

    with served.writing() as session:
        session.execute(update(PaperRow).values(is_sample=True))
        session.execute(update(DumpRow).values(read_at=served.clock.now + timedelta(seconds=1)))
        session.commit()

    assert "These papers are invented samples" in served.client.get("/").text
    assert "Sample: these papers are invented" in served.client.get("/email").text
    assert "This paper is an invented sample" in served.client.get(f"/papers/{papers[0]}").text


def test_an_empty_catalog_page_says_what_to_do(served):
    assert "No papers yet" in served.client.get("/").text


def test_markup_in_a_paper_is_escaped(served, papers):
    page = served.client.get("/").text

    assert "<script>" not in page
    assert "<img" not in page
    assert "javascript:" not in page


def cached_front(served):
    (page,) = served.context.caches.named["front"].values.values()
    return page


def test_the_front_page_is_cached_until_the_catalog_changes(served, papers, now):
    served.client.get("/")
    made = cached_front(served)
    served.client.get("/")
    assert cached_front(served) is made

    with db.write_session(served.context.engine) as session:
        session.add(DumpRow(sha256="1" * 64, path="b", state="loaded", observed_at=now, read_at=now))
        session.commit()
    served.client.get("/")
    assert cached_front(served) is not made


def test_the_sign_up_form_creates_one_pending_row_and_one_letter(served):
    answer = served.sign_up("Bob@uni.edu", filter="robot*")

    assert answer.status_code == 200
    assert "We sent a confirmation link to Bob@uni.edu" in answer.text
    assert served.subscriber("bob@uni.edu").state == SubscriberState.PENDING
    assert served.letters() == [("confirm", "Bob@uni.edu")]


def test_the_response_does_not_reveal_who_is_subscribed(served, alice, now):
    served.sign_up("bob@uni.edu")
    with db.write_session(served.context.engine) as session:
        suppressions.suppress(session, served.site, "carol@uni.edu", SuppressionReason.COMPLAINT, "", now)
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
            re.sub('name="made" value="[^"]+"', "", answer.text.replace(email, "ADDRESS")),
            dict(answer.headers, **{"content-length": ""}),
        )
        for kind, email in known.items()
        if (answer := served.sign_up(email))
    }

    assert len({str(answer) for answer in answers.values()}) == 1


def test_an_empty_address_is_asked_for(served):
    answer = served.sign_up("")

    assert (answer.status_code, "Enter an email address." in answer.text) == (422, True)


@pytest.mark.parametrize("email", ["ada", "ada@uni", "ada@uni.edu\r\nBcc: eve@uni.edu"])
def test_an_invalid_address_is_reported_beside_the_field_and_kept(served, email):
    answer = served.sign_up(email)

    assert answer.status_code == 422
    assert "is not a valid email address" in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert served.letters() == []


def test_a_likely_typing_error_is_questioned(served):
    asked = served.sign_up("ada@gmial.com")
    assert "Use gmail.com" in asked.text
    assert served.letters() == []

    served.sign_up("ada@gmial.com", use="ada@gmail.com")
    served.sign_up("ada@gmial.com", keep="1")
    assert served.letters() == [("confirm", "ada@gmail.com"), ("confirm", "ada@gmial.com")]


def test_an_invalid_filter_is_shown_with_a_caret_and_both_fields_kept(served):
    answer = served.sign_up("ada@uni.edu", filter="robot* AND (arm")

    assert answer.status_code == 422
    assert "^" in answer.text
    assert 'value="ada@uni.edu"' in answer.text
    assert 'value="robot* AND (arm"' in answer.text


@pytest.mark.parametrize("written", ["title:quiet", "like:{}", "use:lab/quiet", "use:lab ANDNOT loud"])
def test_any_filter_can_be_tried_before_signing_up(served, papers, now, written):
    with served.writing() as session:
        pack = pack_files.read("pack: lab\n\nquiet = title:quiet\n")
        pack_updates.publish(session, served.site, pack, effect=lambda *_: {}, now=now)
        session.commit()

    answer = served.sign_up("", filter=written.format(papers[5]), do="try")

    assert answer.status_code == 200
    assert 'About 10 papers a day</strong> <span class="soft">(based on 1 day so far)' in answer.text


@pytest.mark.parametrize(
    ("written", "message"), [("like:99999", "There is no paper"), ("use:lub/x", "There is no pack lub.")]
)
def test_an_error_in_a_tried_filter_is_pointed_at(served, papers, written, message):
    answer = served.sign_up("", filter=written, do="try")

    assert (answer.status_code, message in answer.text, "^" in answer.text) == (422, True, True)


def test_a_robot_that_fills_the_hidden_field_is_ignored_silently(served):
    answer = served.sign_up("bob@uni.edu", website="https://spam.example")

    assert "We sent a confirmation link to bob@uni.edu" in answer.text
    assert served.letters() == []


@pytest.mark.parametrize("waits", [timedelta(0), timedelta(seconds=1), timedelta(days=3)], ids=str)
def test_a_form_sent_too_quickly_or_days_later_must_be_sent_again(served, waits):
    stamp = served.stamp()
    served.clock.now += waits - timedelta(seconds=5)

    answer = served.client.post("/", data={"made": stamp, "email": "bob@uni.edu"})

    assert answer.status_code == 422
    assert 'value="bob@uni.edu"' in answer.text
    assert served.letters() == []


@pytest.mark.parametrize("stamp", ["", "x", "a.1.b", "9" * 300])
def test_a_form_without_a_valid_timestamp_is_refused(served, stamp):
    assert served.client.post("/", data={"made": stamp, "email": "bob@uni.edu"}).status_code == 422
    assert served.letters() == []


def test_a_cross_site_form_is_refused(served):
    data = {"made": served.stamp(), "email": "bob@uni.edu"}

    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert served.client.post("/", data=data, headers=headers).status_code == 403
    for headers in ({"sec-fetch-site": "same-origin", "origin": "null"}, {"origin": "http://127.0.0.1:8000"}):
        assert served.client.post("/", data=data, headers=headers).status_code == 200


def test_sign_up_pages_respect_a_closed_or_restricted_site(sqlite_url, tmp_path, clock):
    for served in opened(settings_for(sqlite_url, tmp_path, signup="uni.edu"), clock):
        assert "This site is for addresses at uni.edu" in served.sign_up("ada@lab.org").text
        assert served.sign_up("ada@uni.edu").status_code == 200
    for served in opened(settings_for(sqlite_url, tmp_path, signup="closed"), clock):
        assert 'id="email"' not in served.client.get("/").text
        assert served.client.post("/", data={"email": "bob@uni.edu"}).status_code == 422


def test_behind_a_proxy_a_network_that_fills_the_queue_blocks_no_other(sqlite_url, tmp_path, clock):
    for served in opened(settings_for(sqlite_url, tmp_path, proxies=1), clock):
        data = {"made": served.stamp()}
        answers = []
        for number in range(sign_up_limits.MAX_WAITING_PER_NETWORK + 1):
            headers = {"x-forwarded-for": f"6.6.6.{number}, 192.0.2.7"}
            answers.append(
                served.client.post("/", data=data | {"email": f"r{number}@uni.edu"}, headers=headers)
            )
        answer = answers[-1]
        assert answer.status_code == 422
        assert "Too many sign-ups from your network are waiting" in answer.text
        assert served.client.post("/", data=data | {"email": "x@uni.edu"}).status_code == 200


def test_the_page_offers_to_sign_up_by_mail_while_few_sign_ups_are_confirmed(sqlite_url, tmp_path, clock):
    mail = {"inbound": "lmtp://127.0.0.1:8024", "sender": "Digest <digest@example.org>"}
    for served in opened(settings_for(sqlite_url, tmp_path, **mail), clock):
        assert "mailto:" not in served.sign_up("first@uni.edu").text
        for number in range(120):
            served.sign_up(f"r{number}@uni.edu")

        answers = [served.sign_up(email).text for email in ("r1@uni.edu", "new@uni.edu")]

        for answer in answers:
            assert 'href="mailto:digest@example.org?subject=subscribe"' in answer
            assert "up to two days" in answer


def test_an_unconfigured_proxy_is_reported_to_doctor(served):
    def is_seen():
        with served.writing() as session:
            return sign_up_queue.proxy_header_seen(session, served.clock.now)

    served.sign_up("ada@uni.edu")
    assert not is_seen()

    data = {"made": served.stamp(), "email": "bob@uni.edu"}
    served.client.post("/", data=data, headers={"x-forwarded-for": "192.0.2.7"})
    assert is_seen()
    served.clock.now += timedelta(days=8)
    assert not is_seen()


@pytest.mark.parametrize(
    ("client", "forwarded", "proxies", "network"),
    [
        ("192.0.2.77", "", 0, "192.0.2.0/24"),
        ("2001:db8:1:2::7", "", 0, "2001:db8:1::/48"),
        ("192.0.2.77", "198.51.100.9", 0, "192.0.2.0/24"),
        ("172.17.0.1", "198.51.100.9", 0, None),
        ("172.17.0.9", "", 0, "172.17.0.0/24"),
        ("::ffff:192.0.2.77", "", 0, "192.0.2.0/24"),
        ("::ffff:127.0.0.1", "", 0, None),
        ("127.0.0.1", "203.0.113.1, 198.51.100.9", 1, "198.51.100.0/24"),
        ("127.0.0.1", "6.6.6.6, 203.0.113.1, 10.0.0.2", 2, "203.0.113.0/24"),
        ("127.0.0.1", "", 0, None),
        ("testclient", "", 0, None),
        (None, "", 0, None),
    ],
)
def test_the_client_network_is_taken_from_trusted_proxies_only(client, forwarded, proxies, network):
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    assert visitor_network.network_of(client, headers, proxies=proxies) == network
