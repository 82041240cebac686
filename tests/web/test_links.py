"""What the links in letters open. Looking changes nothing; pressing does, once."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from sqlalchemy import select

from digest import links, subscriptions
from digest.model import Delivery, Shown, SubscriberState
from tests.web.conftest import path_of


@pytest.fixture
def confirm_path(door):
    door.ask("bob@uni.edu", filter="robot*")
    return path_of(links.confirm_url(door.site, 1))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_looking_at_any_page_changes_nothing(
    door, papers, confirm_path, unsubscribe_path, manage_path, method
):
    before = door.everything()

    for path in (
        "/",
        confirm_path,
        unsubscribe_path,
        manage_path,
        f"/papers/{papers[0]}",
        "/privacy",
        "/outbox/",
    ):
        assert door.client.request(method, path).status_code in {200, 405}

    assert door.everything() == before


# ── confirming ──────────────────────────────────────────────────────────────────────────────────


def test_one_press_begins_and_a_second_shows_the_same(door, confirm_path):
    assert "Start my digest" in door.client.get(confirm_path).text

    first, second = door.client.post(confirm_path), door.client.post(confirm_path)

    assert "First digest:" in first.text
    assert "Saturday 08:00, UTC" in first.text
    assert first.text == second.text == door.client.get(confirm_path).text
    assert door.subscriber("bob@uni.edu").state == SubscriberState.ACTIVE
    assert door.letters() == [("confirm", "bob@uni.edu"), ("welcome", "bob@uni.edu")]


def test_the_welcome_letter_brings_todays_three_which_never_come_again(door, papers, confirm_path):
    door.client.post(confirm_path)

    with door.writing() as session:
        letter = session.scalars(select(Delivery).where(Delivery.letter == "welcome")).one()
        shown = session.scalars(select(Shown.paper_id).where(Shown.delivery_id == letter.id)).all()
    titles = [card["title"][0]["text"] for card in json.loads(letter.decision)["cards"]]
    assert titles[0] == "Slow Diffusion"
    assert len(titles) == 3
    assert sorted(shown) == sorted(papers[:3])


def test_an_expired_link_says_so(door, confirm_path):
    door.clock.now += timedelta(hours=48)

    for answer in (door.client.get(confirm_path), door.client.post(confirm_path)):
        assert answer.status_code == 410
        assert "This link has expired" in answer.text


# ── leaving ─────────────────────────────────────────────────────────────────────────────────────


ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.mark.parametrize(
    "form",
    [{"data": ONE_CLICK}, {"files": {"List-Unsubscribe": (None, "One-Click")}}],
    ids=["urlencoded", "form-data"],
)
def test_one_click_stops_at_once_without_redirect_or_cookie(door, unsubscribe_path, form):
    answer = door.client.post(unsubscribe_path, headers={"origin": "https://mail.example"}, **form)
    again = door.client.post(unsubscribe_path, headers={"sec-fetch-site": "cross-site"}, **form)

    assert (answer.status_code, again.status_code) == (200, 200)
    assert "set-cookie" not in answer.headers
    assert answer.text == "Unsubscribed.\n"
    assert door.subscriber("alice@uni.edu").state == SubscriberState.UNSUBSCRIBED
    assert door.letters() == [("goodbye", "alice@uni.edu")]


def test_the_button_stops_and_the_next_one_takes_it_back(door, unsubscribe_path):
    assert "a•••@uni.edu" in door.client.get(unsubscribe_path).text

    assert "Undo" in door.client.post(unsubscribe_path).text
    assert "Undo" in door.client.get(unsubscribe_path).text

    door.client.post(unsubscribe_path, data={"undo": "1"})
    assert door.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


def test_after_30_days_there_is_no_undo_but_a_way_in(door, unsubscribe_path):
    door.client.post(unsubscribe_path)
    door.clock.now += timedelta(days=30)

    assert "enter your address" in door.client.get(unsubscribe_path).text
    door.client.post(unsubscribe_path, data={"undo": "1"})
    assert door.subscriber("alice@uni.edu").state == SubscriberState.UNSUBSCRIBED


@pytest.mark.parametrize("door_letter", ["u", "m"])
def test_a_link_that_is_not_ours_opens_nothing_and_all_such_answers_are_alike(door, alice, door_letter):
    other = {"u": "manage", "m": "unsubscribe"}[door_letter]
    tokens = [
        "x", "a.1-0.b", "%00", "é", "9" * 500,
        links.seal(door.site, other, f"{alice.id}-0"),
        links.seal(door.site, {"u": "unsubscribe", "m": "manage"}[door_letter], f"{alice.id}-1"),
        links.seal(door.site, {"u": "unsubscribe", "m": "manage"}[door_letter], "999-0"),
    ]  # fmt: skip

    answers = {door.client.get(f"/{door_letter}/{token}").text for token in tokens}
    statuses = {door.client.post(f"/{door_letter}/{token}", data=ONE_CLICK).status_code for token in tokens}

    assert len(answers) == 1
    assert statuses == {404}
    assert door.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


# ── settings ────────────────────────────────────────────────────────────────────────────────────


def form(**changed):
    return {"do": "save", "cadence": "daily", "at": "08:00", "timezone": "UTC", "max_papers": "10"} | changed


def test_settings_are_saved_and_shown(door, manage_path, alice):
    saved = door.client.post(
        manage_path,
        data=form(cadence="weekly-fri", at="18:30", timezone="Europe/Oslo", max_papers="5")
        | {"name": ["Vision", "", ""], "filter": ["title:image*", "robot* AND arm", ""]},
    )

    assert (saved.status_code, saved.headers["location"]) == (303, f"{manage_path}?done=saved")
    page = door.client.get(saved.headers["location"]).text
    assert "Saved." in page
    assert 'value="robot* AND arm"' in page
    reader = door.subscriber("alice@uni.edu")
    assert (reader.cadence, reader.weekday, f"{reader.at:%H:%M}", reader.timezone, reader.max_papers) == (
        "weekly", 4, "18:30", "Europe/Oslo", 5,
    )  # fmt: skip
    with door.writing() as session:
        assert [topic.name for topic in subscriptions.topics_of(session, reader)] == [
            "Vision",
            "robot* AND arm",
        ]


def test_each_topic_says_what_it_would_have_brought(door, papers, manage_path):
    door.client.post(manage_path, data=form() | {"name": ["Quiet"], "filter": ["title:quiet"]})

    assert "About 10 a day (busiest 10), from 1 day" in door.client.get(manage_path).text


def test_a_topic_like_a_paper_can_be_saved_and_looked_at_again(door, papers, manage_path):
    wanted = {"name": ["Like"], "filter": [f"like:{papers[5]} ANDNOT loud"]}

    saved = door.client.post(manage_path, data=form() | wanted)

    page = door.client.get(saved.headers["location"]).text
    assert f'value="like:{papers[5]} ANDNOT loud"' in page
    assert "About 10 a day (busiest 10), from 1 day" in page


def test_what_was_asked_for_by_mail_is_filled_in_and_not_saved(door, manage_path):
    before = door.everything()
    asked = (
        "?name=Robots&filter=robot%2A&name=vision&filter=ti%3Avideo&drop=Gone&cadence=weekly-fri&at=09%3A30"
    )

    page = door.client.get(manage_path + asked).text

    assert "Filled in as you asked. Look it over and save it." in page
    assert 'value="robot*"' in page
    assert 'value="ti:video"' in page
    assert 'value="title:image*"' not in page  # the topic of that name looks for something else now
    assert '<option value="weekly-fri" selected>' in page
    assert 'value="09:30"' in page
    assert 'value="Vision"' not in door.client.get(f"{manage_path}?drop=vision").text
    assert door.everything() == before


def test_nothing_that_stands_in_an_address_becomes_markup_or_is_called_saved(door, manage_path):
    asked = "?name=%3Cscript%3E&filter=%3Cscript%3E%00&cadence=%22%3E%3Cb%3E&done=saved&max_papers=x"

    page = door.client.get(manage_path + asked).text

    assert "<script>" not in page
    assert '"><b>' not in page
    assert "Saved." not in page


def test_mistakes_stand_beside_their_fields_what_was_typed_stays_and_nothing_is_saved(
    door, manage_path, alice
):
    before = door.everything()

    answer = door.client.post(
        manage_path,
        data=form(timezone="Oslo") | {"name": ["Vision", "Vision"], "filter": ["title:(image", "robot*"]},
    )

    assert answer.status_code == 422
    assert "Did you mean Europe/Oslo?" in answer.text
    assert "^" in answer.text
    assert "Another topic has this name." in answer.text
    assert 'value="title:(image"' in answer.text
    assert 'value="Oslo"' in answer.text
    assert door.everything() == before


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("cadence", "hourly"),
        ("at", "8 o'clock"),
        ("max_papers", "many"),
        ("max_papers", "0"),
        ("max_papers", "²"),
    ],
)
def test_a_wrong_value_is_told(door, manage_path, field, typed):
    answer = door.client.post(manage_path, data=form(**{field: typed}))

    assert answer.status_code == 422
    assert f'id="{field.removesuffix("_papers")}-error"' in answer.text


def test_a_pause_has_an_end_and_can_be_ended(door, manage_path):
    door.client.post(manage_path, data={"do": "pause", "days": "14"})
    assert "Paused until 4 December 2026" in door.client.get(manage_path).text

    door.client.post(manage_path, data={"do": "resume"})
    assert door.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


def test_settings_lead_out_and_back(door, manage_path):
    assert door.client.post(manage_path, data={"do": "leave"}).status_code == 303
    assert "You have left" in door.client.get(manage_path).text

    door.client.post(manage_path, data={"do": "undo"})
    assert door.subscriber("alice@uni.edu").state == SubscriberState.ACTIVE


# ── what is told of it by mail ──────────────────────────────────────────────────────────────────


def test_who_pauses_or_is_paused_is_told_with_the_way_back(door, alice, manage_path):
    door.client.post(path_of(links.ask_url(door.site, alice.id, 0)), data={"do": "pause"})
    door.client.post(manage_path, data={"do": "resume"})
    door.client.post(manage_path, data={"do": "pause", "days": "0"})

    written = door.mailed()

    assert [subject for subject, _ in written] == ["Paused until 27 November 2026", "Your digests are paused"]
    assert all(f"Resume now:\n{door.site.url}{manage_path}" in text for _, text in written)


def test_who_changes_topics_is_told_of_the_last_change_once_it_rests(door, alice, manage_path):
    for wanted in ("title:image*", "title:image* OR video", "title:image* OR video"):
        door.client.post(manage_path, data=form() | {"name": ["Vision"], "filter": [wanted]})
        door.clock.now += timedelta(minutes=1)
    assert door.mailed() == []
    door.clock.now += timedelta(minutes=5)

    ((subject, text),) = door.mailed()

    assert subject == "Your topics have changed"
    assert "* Vision\n  title:image* OR video\n" in text


def test_another_hour_for_the_same_topics_is_no_news(door, alice, manage_path):
    door.client.post(manage_path, data=form() | {"name": ["Vision"], "filter": ["image*"]})
    door.clock.now += timedelta(minutes=10)
    door.mailed()

    door.client.post(manage_path, data=form(at="09:30") | {"name": ["Vision"], "filter": ["image*"]})
    door.clock.now += timedelta(minutes=10)

    assert door.mailed() == []
