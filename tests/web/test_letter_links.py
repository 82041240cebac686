"""Pages behind the links in letters: GET changes nothing, and each button works once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import time, timedelta

import pytest
from sqlalchemy import select
from starlette.routing import Route

from digest.db.tables.deliveries import Delivery, DeliveryState, Shown
from digest.db.tables.subscribers import SubscriberState
from digest.site import links
from digest.subscribers import sign_up_limits, subscriber_rows
from digest.web.app import ROUTES
from tests.web.conftest import opened, path_of, settings_for


@pytest.fixture
def confirm_path(served):
    served.sign_up("bob@uni.edu", filter="robot*")
    return path_of(links.confirm_url(served.site, 1))


#: The pages without a token; test_account_page views those behind links.
PUBLIC_PATHS = [route.path for route in ROUTES if isinstance(route, Route) and "{token}" not in route.path]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_viewing_any_page_changes_nothing(served, papers, confirm_path, now, method):
    values = {
        "{number:id}": papers[0],
        "{day}": now.date(),
        "{topic}": "vision",
        "{format:feed}": "atom",
        "{format:file}": "ris",
    }
    paths = [
        re.sub(r"\{[^}]+\}", lambda found: str(values.get(found[0], "x")), path) for path in PUBLIC_PATHS
    ]
    before = served.everything()

    statuses = {path: served.client.request(method, path).status_code for path in [*paths, confirm_path]}

    assert {*statuses.values()} <= {200, 301, 303, 404, 405}
    if method == "GET":
        assert {path for path, status in statuses.items() if status == 200} >= {
            "/", "/days", f"/days/{now.date()}", "/topics/vision", "/topics/vision.atom", "/sitemap.xml", "/robots.txt",
            f"/papers/{papers[0]}.ris", "/feed.atom", "/privacy", "/healthz", "/readyz", "/outbox/", confirm_path,
        }  # fmt: skip
    assert served.everything() == before


# ── confirming ──────────────────────────────────────────────────────────────────────────────────


def test_the_first_confirm_click_activates_and_a_second_shows_the_same_page(served, confirm_path):
    assert "Confirm your subscription" in served.client.get(confirm_path).text

    first, second = (served.client.post(confirm_path, follow_redirects=True) for _ in range(2))

    assert "First digest:" in first.text
    assert "Saturday 08:00, UTC" in first.text
    assert first.text == second.text == served.client.get(confirm_path).text
    assert served.subscriber("bob@uni.edu").state == SubscriberState.ACTIVE
    assert served.letters() == [("confirm", "bob@uni.edu"), ("welcome", "bob@uni.edu")]


def welcome_of(served):
    """Return the content of the welcome letter, and the papers that it counts as shown."""
    with served.writing() as session:
        letter = session.scalars(select(Delivery).where(Delivery.letter == "welcome")).one()
        shown = session.scalars(select(Shown.paper_id).where(Shown.delivery_id == letter.id)).all()
    return json.loads(letter.decision), sorted(shown)


def test_the_welcome_letter_has_papers_on_the_readers_topics_that_are_not_sent_again(served, papers):
    served.sign_up("bob@uni.edu", filter="diffusion OR quiet")
    served.client.post(path_of(links.confirm_url(served.site, 1)))

    welcome, shown = welcome_of(served)
    assert welcome["until_then"] == "Until then, you can read three papers from today on your topics."
    assert len(shown) == 3
    assert papers[1] not in shown


def test_the_welcome_letter_has_trending_papers_if_none_is_on_the_readers_topics(
    served, papers, confirm_path
):
    served.client.post(confirm_path)

    welcome, shown = welcome_of(served)
    assert (welcome["is_on_topics"], welcome["has_topics"]) == (False, True)
    assert welcome["until_then"] == "Until then, you can read three papers from today’s trending list."
    assert shown == sorted(papers[:3])


@pytest.fixture
def far_site(sqlite_url, tmp_path, clock):
    """The site behind one trusted proxy."""
    yield from opened(settings_for(sqlite_url, tmp_path, proxies=1), clock)


def test_a_click_seconds_after_the_letter_from_elsewhere_does_not_confirm(far_site):
    home, scanner = {"x-forwarded-for": "192.0.2.7"}, {"x-forwarded-for": "203.0.113.9"}
    form = {"made": far_site.stamp(), "email": "bob@uni.edu"}
    far_site.client.post("/", data=form, headers=home)
    far_site.send_confirmations()
    path = path_of(links.confirm_url(far_site.site, 1))

    def pressed(headers):
        return far_site.client.post(path, headers=headers, follow_redirects=True).text

    assert "press the button again in a minute" in pressed(scanner)  # while the letter is handed over
    far_site.deliver_mail()
    far_site.clock.now += timedelta(seconds=59)
    assert "<button" in pressed(scanner)
    assert far_site.subscriber("bob@uni.edu").state == SubscriberState.PENDING

    assert "First digest:" in pressed(home)
    assert far_site.subscriber("bob@uni.edu").state == SubscriberState.ACTIVE
    assert "First digest:" in pressed(scanner)  # a used link shows the same to everybody


def test_a_click_a_minute_after_the_letter_confirms_from_anywhere(far_site):
    form = {"made": far_site.stamp(), "email": "bob@uni.edu"}
    far_site.client.post("/", data=form, headers={"x-forwarded-for": "192.0.2.7"})
    far_site.send_confirmations()
    far_site.deliver_mail()
    far_site.clock.now += timedelta(seconds=60)

    path = path_of(links.confirm_url(far_site.site, 1))
    elsewhere = {"x-forwarded-for": "203.0.113.9"}
    assert "First digest:" in far_site.client.post(path, headers=elsewhere, follow_redirects=True).text


def test_an_expired_link_says_so(served, confirm_path):
    served.clock.now += timedelta(hours=48)

    for answer in (served.client.get(confirm_path), served.client.post(confirm_path)):
        assert answer.status_code == 410
        assert "This link has expired" in answer.text


# ── links of a key that was retired ─────────────────────────────────────────────────────────────


@pytest.fixture
def old_site(served):
    """The site with a signing key that was retired since."""
    return replace(served.site, keys=(b"the key that leaked",))


def new_link(served, path, email):
    """Open an old link, and send its form after five seconds."""
    page = served.client.get(path).text
    (made,) = re.findall(r'name="made" value="([^"]+)"', page)
    served.clock.now += timedelta(seconds=5)
    answer = served.client.post("/link", data={"made": made, "website": "", "email": email})
    served.send_confirmations()
    return answer


def without_stamp(page):
    """Return a page without the stamp that makes each form unlike any other."""
    return re.sub(r'name="made" value="[^"]+"', "", page)


def test_a_subscriber_is_mailed_at_most_two_new_links_a_day(served, old_site, manage_path):
    path = path_of(links.manage_url(old_site, 1, 0))
    links_sent = []
    for hours in (0, 1, 1, 20, 24):
        served.clock.now += timedelta(hours=hours)
        new_link(served, path, "Alice@uni.edu")
        links_sent.append(served.letters().count(("settings_link", "alice@uni.edu")))

    assert links_sent == [1, 2, 2, 3, 4]  # the fourth and the fifth are on new days


def test_the_stamp_of_a_form_for_a_new_link_is_used_once(served, old_site, manage_path):
    page = served.client.get(path_of(links.manage_url(old_site, 1, 0))).text
    (made,) = re.findall(r'name="made" value="([^"]+)"', page)
    served.clock.now += timedelta(seconds=5)
    asked = {"made": made, "website": "", "email": "alice@uni.edu"}

    first, second = (served.client.post("/link", data=asked) for _ in range(2))

    assert first.status_code == 200
    assert (second.status_code, "Please press the button again." in second.text) == (410, True)
    assert len(served.letters()) == 1


def test_a_network_may_request_a_limited_number_of_links_a_day(served, old_site, manage_path, monkeypatch):
    monkeypatch.setattr(sign_up_limits, "LINKS_A_DAY_UNKNOWN", 3)
    path = path_of(links.manage_url(old_site, 1, 0))

    answers = [new_link(served, path, f"r{number}@uni.edu") for number in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 410]
    assert "Too many requests. Try again tomorrow." in answers[-1].text
    served.clock.now += timedelta(days=1)
    assert new_link(served, path, "r9@uni.edu").status_code == 200


def test_a_link_of_a_retired_key_says_so_and_offers_a_new_one_by_mail(served, old_site, manage_path):
    alice = served.subscriber("alice@uni.edu").id
    for path in (
        path_of(links.manage_url(old_site, alice, 0)),
        path_of(links.unsubscribe_url(old_site, alice, 0)),
        path_of(links.topic_links_url(old_site, alice, 0)),
        path_of(links.archive_url(old_site, alice, 0)),
        path_of(links.feed_url(old_site, alice, 0)),
        path_of(links.view_url(old_site, alice, 0, "daily-2026-11-20")),
        path_of(links.confirm_url(old_site, 1)),
    ):
        answer = served.client.get(path)
        assert (answer.status_code, "This link no longer works" in answer.text) == (410, True)
    assert served.client.post(path_of(links.unsubscribe_url(old_site, alice, 0))).status_code == 410
    assert served.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE

    answer = new_link(served, path_of(links.manage_url(old_site, alice, 0)), "Alice@uni.edu")

    assert "We sent a confirmation link to Alice@uni.edu" in answer.text
    assert served.letters() == [("settings_link", "alice@uni.edu")]
    assert manage_path in served.deliver_mail()[0][1]


def test_requesting_a_new_link_does_not_reveal_who_is_subscribed(served, old_site, manage_path):
    path = path_of(links.manage_url(old_site, 1, 0))

    known, unknown = (new_link(served, path, email) for email in ("alice@uni.edu", "other@uni.edu"))

    assert without_stamp(known.text.replace("alice", "other")) == without_stamp(unknown.text)
    assert served.letters() == [("settings_link", "alice@uni.edu"), ("confirm", "other@uni.edu")]


def test_an_invalid_address_or_a_hasty_click_is_reported_on_the_page(served, old_site, manage_path):
    path = path_of(links.manage_url(old_site, 1, 0))

    wrong = new_link(served, path, "not an address")
    hasty = served.client.post(
        "/link",
        data={"made": links.sign_token(old_site, "form", "1"), "website": "", "email": "alice@uni.edu"},
    )

    assert (wrong.status_code, 'id="email-error"' in wrong.text) == (410, True)
    assert "Please press the button again." in hasty.text
    assert served.letters() == []


def test_a_damaged_link_of_a_current_key_gives_404(served, manage_path):
    assert served.client.get(manage_path[:-1]).status_code == 404


# ── leaving ─────────────────────────────────────────────────────────────────────────────────────


ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.mark.parametrize(
    "form",
    [{"data": ONE_CLICK}, {"files": {"List-Unsubscribe": (None, "One-Click")}}],
    ids=["urlencoded", "form-data"],
)
def test_one_click_unsubscribe_needs_no_redirect_or_cookie(served, unsubscribe_path, form):
    answer = served.client.post(unsubscribe_path, headers={"origin": "https://mail.example"}, **form)
    again = served.client.post(unsubscribe_path, headers={"sec-fetch-site": "cross-site"}, **form)

    assert (answer.status_code, again.status_code) == (200, 200)
    assert "set-cookie" not in answer.headers
    assert answer.text == "Unsubscribed.\n"
    assert served.subscriber("alice@uni.edu").state == SubscriberState.UNSUBSCRIBED
    assert served.letters() == [("goodbye", "alice@uni.edu")]


def pressed(served, path: str, **fields: str) -> str:
    """Submit a button as a browser does, and return the page it leads to."""
    answer = served.client.post(path, data=fields)
    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, path)
    return str(served.client.get(answer.headers["location"]).text)


def buttons(page: str) -> list[str]:
    """Return the labels of the buttons on a page."""
    return re.findall(r"<button[^>]*>([^<]+)</button>", page)


def test_undo_of_an_unsubscribe_shows_success_and_no_unsubscribe_button(served, unsubscribe_path):
    asked = served.client.get(unsubscribe_path).text
    assert "a•••@uni.edu" in asked
    assert buttons(asked) == ["Unsubscribe"]

    left = pressed(served, unsubscribe_path)
    assert "You are unsubscribed." in left
    assert buttons(left) == ["Undo and subscribe again", "Send"]
    assert left == served.client.get(unsubscribe_path).text

    back = pressed(served, unsubscribe_path, do="undo")
    assert "You are subscribed again." in back
    assert "Next digest: today, if there are new papers." in back
    assert buttons(back) == []
    assert served.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({"reason": "too-many", "words": ""}, "Too many papers or mails"),
        ({"reason": "other", "words": " I <b>retire</b>\0\r\n. "}, "Something else: I <b>retire</b> ."),
        ({"reason": "made-up", "words": "x" * 150}, "x" * 150),
        ({"reason": "made-up", "words": ""}, ""),
    ],
)
def test_unsubscribing_may_give_a_reason_which_an_undo_deletes(served, unsubscribe_path, fields, stored):
    pressed(served, unsubscribe_path)

    page = pressed(served, unsubscribe_path, do="reason", **fields)

    assert ("Thank you." in page) == bool(stored)
    reader = served.subscriber("alice@uni.edu")
    assert (reader.state, reader.leaving_reason) == (SubscriberState.UNSUBSCRIBED, stored)
    pressed(served, unsubscribe_path, do="undo")
    assert served.subscriber("alice@uni.edu").leaving_reason == ""


@pytest.mark.parametrize("path", ["unsubscribe_path", "manage_path"])
def test_a_reason_that_is_too_long_is_not_cut_but_shown_again(served, unsubscribe_path, path, request):
    pressed(served, unsubscribe_path)
    before = served.everything()

    page = served.client.post(
        request.getfixturevalue(path), data={"do": "reason", "reason": "other", "words": "x" * 151}
    )

    assert (page.status_code, "Shorten this to 150 characters." in page.text) == (422, True)
    assert f'value="{"x" * 151}"' in page.text
    assert re.search(r'value="other"\s+checked', page.text)
    assert served.everything() == before


def test_a_reason_unsubscribes_nobody(served, unsubscribe_path):
    before = served.everything()

    pressed(served, unsubscribe_path, do="reason", reason="too-many")

    assert served.everything() == before


def test_a_bookmarked_undo_page_shows_the_current_state(served, unsubscribe_path):
    pressed(served, unsubscribe_path)
    pressed(served, unsubscribe_path, do="undo")
    pressed(served, unsubscribe_path)

    assert buttons(served.client.get(f"{unsubscribe_path}?done=back").text) == [
        "Undo and subscribe again",
        "Send",
    ]


def test_after_30_days_undo_is_replaced_by_a_sign_up_link(served, unsubscribe_path):
    served.client.post(unsubscribe_path)
    served.clock.now += timedelta(days=30)

    left = served.client.get(unsubscribe_path).text
    assert buttons(left) == []
    assert "Subscribe again" in left
    served.client.post(unsubscribe_path, data={"do": "undo"})
    assert served.subscriber("alice@uni.edu").state == SubscriberState.UNSUBSCRIBED


@pytest.mark.parametrize("door_letter", ["u", "m"])
def test_every_forged_link_gets_the_same_response(served, alice, door_letter):
    other = {"u": "manage", "m": "unsubscribe"}[door_letter]
    tokens = [
        "x", "a.1-0.b", "%00", "é", "9" * 500,
        links.sign_token(served.site, other, f"{alice.id}-0"),
        links.sign_token(served.site, {"u": "unsubscribe", "m": "manage"}[door_letter], f"{alice.id}-1"),
        links.sign_token(served.site, {"u": "unsubscribe", "m": "manage"}[door_letter], "999-0"),
    ]  # fmt: skip

    answers = {without_stamp(served.client.get(f"/{door_letter}/{token}").text) for token in tokens}
    statuses = {served.client.post(f"/{door_letter}/{token}", data=ONE_CLICK).status_code for token in tokens}

    assert len(answers) == 1
    assert statuses == {404}
    assert served.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


# ── pause and unsubscribe on the settings page ──────────────────────────────────────────────────


def test_a_pause_has_an_end_and_can_be_resumed_early(served, manage_path):
    served.client.post(manage_path, data={"do": "pause", "days": "14"})
    assert "Paused until 4 December 2026" in served.client.get(manage_path).text

    page = pressed(served, manage_path, do="resume")
    assert served.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE
    assert "Welcome back. Your next digest will include the best papers you missed." in page


@pytest.mark.parametrize(
    ("at", "was_decided", "when"),
    [
        ("13:00", False, "Friday 13:00, UTC"),
        ("08:00", False, "today, if there are new papers"),
        ("08:00", True, "Saturday 08:00, UTC"),
    ],
)
def test_the_page_after_a_pause_names_the_day_of_the_next_digest(
    served, alice, manage_path, at, was_decided, when
):
    now = served.clock.now
    with served.writing() as session:
        reader = subscriber_rows.get(session, alice.email)
        reader.at = time.fromisoformat(at)
        if was_decided:  # fewer papers matched than the reader's minimum
            session.add(
                Delivery(
                    subscriber_id=reader.id, email=reader.email, letter="digest", lane="bulk", edition=f"daily-{now.date()}",
                    state=DeliveryState.EMPTY, dated_at=now, due_at=now, expires_at=now, settled_at=now,
                )
            )  # fmt: skip
        session.commit()
    short = path_of(links.topic_links_url(served.site, alice.id, alice.link_version))

    for path in (manage_path, short):
        served.client.post(path, data={"do": "pause", "days": "7"})
        assert f"Next digest: {when}." in pressed(served, path, do="resume")


def test_a_pause_withdraws_the_offer_to_undo_an_earlier_change(served, manage_path):
    assert "Undo" in pressed(served, manage_path, do="mute", topic="Vision")

    assert "Undo" not in pressed(served, manage_path, do="pause", days="7")
    assert "Undo" not in pressed(served, manage_path, do="resume")


def test_the_settings_of_an_unsubscribed_reader_show_one_button_to_resubscribe(served, manage_path):
    left = pressed(served, manage_path, do="leave")
    assert "You are unsubscribed." in left
    assert buttons(left) == ["Undo and subscribe again", "Send"]

    back = pressed(served, manage_path, do="undo")
    assert "You are subscribed again." in back
    assert "Save filter" in buttons(back)
    assert served.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


def test_a_form_saved_after_an_unsubscribe_in_another_window_changes_nothing(served, manage_path):
    pressed(served, manage_path, do="leave")
    before = served.everything()

    assert "You are unsubscribed." in pressed(served, manage_path, do="remove", topic="Vision")
    assert served.everything() == before


@pytest.mark.parametrize("word", ["resumed", "back"])
def test_a_bookmarked_page_does_not_show_an_outdated_state(served, manage_path, word):
    served.client.post(manage_path, data={"do": "pause", "days": "14"})

    page = served.client.get(f"{manage_path}?done={word}").text

    assert "Paused until 4 December 2026" in page
    assert "Welcome back" not in page
    assert "subscribed again" not in page


@pytest.fixture
def digest_path(served, alice) -> str:
    """The link to the settings that every digest contains."""
    return path_of(links.topic_links_url(served.site, alice.id, alice.link_version))


def test_a_digest_opens_topics_hour_length_and_pause_and_nothing_private(
    served, alice, digest_path, manage_path, unsubscribe_path
):
    private = [
        url(served.site, alice.id, alice.link_version)
        for url in (links.manage_url, links.archive_url, links.feed_url, links.saved_feed_url)
    ]
    page = served.client.get(digest_path).text

    assert {"Add topic", "Save filter", "Save", "1 week", "Unsubscribe"} <= set(buttons(page))
    assert "a•••@uni.edu" in page
    assert [text for text in (*map(path_of, private), "alice@uni.edu") if text in page] == []
    assert "video" in pressed(served, digest_path, do="add", name="Moving", filter="video")
    assert "Paused until 27 November 2026." in pressed(served, digest_path, do="pause", days="7")
    assert "Paused until 27 November 2026." in served.client.get(unsubscribe_path).text
    assert "Welcome back." in pressed(served, digest_path, do="resume")
    assert "We sent you a link." in pressed(served, digest_path, do="mail")
    assert "alice@uni.edu" in served.client.get(manage_path).text
    pressed(served, unsubscribe_path)
    left = served.client.get(f"{digest_path}?done=resumed").text
    assert "You are unsubscribed." in left
    assert buttons(left) == ["Undo and subscribe again", "Send"]


# ── confirmation by mail ──────────────────────────────────────────────────────────────────


def test_a_pause_is_confirmed_by_a_letter_with_a_resume_link(served, alice, manage_path):
    for days in ("7", "0"):
        served.client.post(manage_path, data={"do": "pause", "days": days})
    assert served.deliver_mail() == []
    served.clock.now += timedelta(minutes=5)

    ((subject, text),) = served.deliver_mail()

    assert subject == "Your digests are paused"
    assert f"Resume now:\n{served.site.url}{manage_path}" in text


@pytest.mark.parametrize(
    ("act", "undo"), [("pause", "resume"), ("", "undo")], ids=["pause and resume", "unsubscribe and undo"]
)
def test_an_act_that_is_undone_at_once_sends_no_letter_then_or_later(
    served, alice, manage_path, unsubscribe_path, act, undo
):
    path = manage_path if act else unsubscribe_path
    for _ in range(2):
        pressed(served, path, do=act)
        pressed(served, path, do=undo)
    served.clock.now += timedelta(hours=1)
    assert served.deliver_mail() == []

    pressed(served, path, do=act)  # and this one is not undone
    served.clock.now += timedelta(minutes=5)

    assert len(served.deliver_mail()) == 1


def test_the_page_says_no_more_mail_only_after_the_goodbye(served, unsubscribe_path):
    confirmed_by = "One letter to a•••@uni.edu confirms this. After it, you will get no more mail from us."
    assert confirmed_by in pressed(served, unsubscribe_path)
    served.clock.now += timedelta(minutes=5)
    assert len(served.deliver_mail()) == 1

    assert "a•••@uni.edu will get no more mail from us." in served.client.get(unsubscribe_path).text


def test_topic_changes_are_confirmed_by_one_letter_with_the_last_state(served, alice, manage_path):
    for wanted in ("title:image*", "title:image* OR video", "title:image* OR video"):
        served.client.post(manage_path, data={"do": "filter", "topic": "Vision", "filter": wanted})
        served.clock.now += timedelta(minutes=1)
    assert served.deliver_mail() == []
    served.clock.now += timedelta(minutes=5)

    ((subject, text),) = served.deliver_mail()

    assert subject == "Your settings have changed"
    assert "* Vision\n  title:image* OR video\n" in text


def test_a_changed_hour_is_confirmed_by_a_letter_from_which_it_is_undone(served, alice, digest_path):
    fields = {"cadence": "daily", "timezone": "UTC", "max_papers": "10", "abstracts": "short"}
    pressed(served, digest_path, do="schedule", at="09:30", **fields)
    served.clock.now += timedelta(minutes=5)

    ((_, text),) = served.deliver_mail()
    assert "Every day at 09:30, UTC · at most 10 papers · short abstracts" in " ".join(text.split())
    (link,) = re.findall(r"Undo this, or change your settings:\n+(\S+)", text)
    (number,) = re.findall(r"change=(\d+)", link)
    pressed(served, path_of(link).partition("?")[0], do="undo-change", change=number)
    assert f"{served.subscriber('alice@uni.edu').at:%H:%M}" == "08:00"
