"""Every button of the settings page changes one setting, reports the change, and can be undone."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from itertools import product
from urllib.parse import urlencode

import pytest

from digest.inbound import command_arguments
from digest.site import links
from digest.subscribers import subscriber_rows, subscriber_topics
from tests.web.conftest import path_of

SCHEDULE = {
    "do": "schedule", "cadence": "daily", "at": "08:00", "timezone": "UTC", "max_papers": "10",
    "abstracts": "short",
}  # fmt: skip


def pressed(served, path: str, **fields: str) -> str:
    """Submit a button as a browser does, and return the words of the page it leads to."""
    answer = served.client.post(path, data=fields)
    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, path)
    return words(served.client.get(answer.headers["location"]).text)


def words(page: str) -> str:
    """Return the visible text of a page on one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def topics_of(served) -> dict[str, str]:
    with served.writing() as session:
        reader = subscriber_rows.get(session, "alice@uni.edu")
        return {topic.name: topic.text for topic in subscriber_topics.topics_of(session, reader)}


def muted(served) -> list[str]:
    with served.writing() as session:
        reader = subscriber_rows.get(session, "alice@uni.edu")
        return [topic.name for topic in subscriber_topics.topics_of(session, reader) if topic.is_muted]


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def test_a_topic_is_a_card_with_its_rate_and_two_example_hits(served, papers, manage_path):
    pressed(served, manage_path, do="add", name="Quiet", filter="title:quiet")

    page = words(served.client.get(manage_path).text)

    assert "Quiet about 10 papers a day Quiet Paper 3 Quiet Paper 4 Rename" in page


def test_a_topic_is_added_and_named_after_its_filter(served, papers, manage_path):
    page = pressed(served, manage_path, do="add", name="", filter="robot* AND arm")

    assert "Saved. Added the topic “robot* AND arm”." in page
    assert topics_of(served) == {"Vision": "title:image*", "robot* AND arm": "robot* AND arm"}


def test_a_topic_is_renamed_and_keeps_its_filter_place_and_muting(served, manage_path):
    pressed(served, manage_path, do="add", name="Robots", filter="robot*")
    pressed(served, manage_path, do="mute", topic="Vision")

    page = pressed(served, manage_path, do="rename", topic="Vision", name="Sight")

    assert "Renamed “Vision” to “Sight”." in page
    assert list(topics_of(served).items()) == [("Sight", "title:image*"), ("Robots", "robot*")]
    assert muted(served) == ["Sight"]


def test_topics_are_moved_up_and_down(served, manage_path):
    for name in ("B", "C"):
        pressed(served, manage_path, do="add", name=name, filter="robot*")

    moved = pressed(served, manage_path, do="up", topic="C")
    assert list(topics_of(served)) == ["Vision", "C", "B"]
    assert "Your topics now have this order: Vision, C, B." in moved

    pressed(served, manage_path, do="down", topic="Vision")
    assert list(topics_of(served)) == ["C", "Vision", "B"]
    assert "Nothing changed." in pressed(served, manage_path, do="up", topic="C")


def test_a_muted_topic_says_so_and_is_unmuted(served, papers, manage_path):
    page = pressed(served, manage_path, do="mute", topic="Vision")
    assert "Muted “Vision”." in page
    assert "All your topics are muted, so you get the day’s trending papers" in page

    page = pressed(served, manage_path, do="unmute", topic="Vision")
    assert "“Vision” is in your digests again." in page
    assert muted(served) == []


def test_a_changed_filter_is_shown_with_its_rate_before_and_after(served, papers, manage_path):
    pressed(served, manage_path, do="add", name="Quiet", filter="title:quiet")

    page = pressed(served, manage_path, do="filter", topic="Quiet", filter="title:quiet OR diffusion")

    assert "“Quiet” is now title:quiet OR diffusion. Before: title:quiet." in page
    assert "“Quiet”: 11 papers a day instead of 10." in page


def test_a_removed_topic_comes_back_by_undo(served, manage_path):
    page = pressed(served, manage_path, do="remove", topic="Vision")
    assert "Removed the topic “Vision” (title:image*)." in page
    assert topics_of(served) == {}

    page = pressed(served, manage_path, do="undo-change")
    assert "Undone. Your settings are as they were before the change." in page
    assert topics_of(served) == {"Vision": "title:image*"}


def test_the_link_of_a_letter_undoes_its_own_change_and_no_later_one(served, manage_path):
    pressed(served, manage_path, **SCHEDULE | {"at": "18:30", "max_papers": "5"})
    served.clock.now += timedelta(minutes=6)
    ((_, letter),) = served.deliver_mail()
    (link,) = re.findall(r"http\S+change=\d+", letter)
    pressed(served, manage_path, **SCHEDULE | {"at": "18:30", "max_papers": "7", "abstracts": "full"})

    page = served.client.get(path_of(link)).text
    assert "This change can be undone. Time of day: 18:30. Before: 08:00." in words(page)
    assert "Maximum papers per digest: changed again since, and kept." in words(page)
    number = re.search(r'name="change" value="(\d+)"', page)
    assert number
    pressed(served, manage_path, do="undo-change", change=number[1])

    reader = served.subscriber("alice@uni.edu")
    assert (f"{reader.at:%H:%M}", reader.max_papers, reader.abstracts) == ("08:00", 7, "full")
    assert "This change cannot be undone any more" in words(served.client.get(path_of(link)).text)


def test_the_latest_change_can_still_be_undone_on_a_later_visit(served, manage_path):
    pressed(served, manage_path, do="remove", topic="Vision")

    page = words(served.client.get(manage_path).text)

    assert "Last change. Removed the topic “Vision” (title:image*). Undo" in page
    assert "Saved." not in page


def test_a_topic_with_a_like_clause_can_be_saved_and_shown(served, papers, manage_path):
    text = f"like:{papers[5]} ANDNOT loud"

    page = pressed(served, manage_path, do="add", name="Like", filter=text)

    assert "Like about 10 papers a day" in page
    assert f">{text}</textarea>" in served.client.get(manage_path).text


def test_a_filter_is_tried_before_it_is_saved(served, papers, manage_path):
    before = served.everything()

    page = served.client.post(manage_path, data={"do": "try", "filter": "title:quiet", "name": "Mine"})

    assert page.status_code == 200
    assert "About 10 papers a day (based on 1 day so far). Nothing is saved yet. Quiet Paper 3" in words(
        page.text
    )
    assert 'value="Mine"' in page.text
    # The browser keeps the fragment of the form's address through the redirect, and so shows the result.
    buttons = re.findall(r'<button[^>]* value="try"[^>]*>', page.text)
    assert buttons
    assert all('formaction="#tried"' in button for button in buttons)
    assert page.text.count('id="tried"') == 1
    assert served.everything() == before


def test_a_trial_notes_an_operator_in_lower_case_and_a_misspelled_word(served, papers, manage_path):
    many = " OR ".join(f"word{number}" for number in range(12))
    typed = f"title:quiet OR (diffusoin not loud) OR {many}"

    page = words(served.client.post(manage_path, data={"do": "try", "filter": typed}).text)

    assert "not in lower case is searched for as a word; the operator is NOT" in page
    assert "diffusoin matches no paper" in page


def test_plain_words_are_a_description_until_the_reader_asks_for_exactly_these(
    served, alice, manage_path, papers
):
    tried = served.client.post(manage_path, data={"do": "try", "filter": "quiet robots"}).text
    exact = served.client.post(manage_path, data={"do": "exact", "filter": "quiet robots"}).text

    assert "have all of these words" in tried
    assert 'value="exact"' in tried
    assert ">quiet AND robots</textarea>" in exact
    assert 'value="exact"' not in exact


def test_a_new_topic_of_plain_words_is_a_description_and_a_kept_filter_stays(served, alice, manage_path):
    with served.writing() as session:
        reader = subscriber_rows.get(session, "alice@uni.edu")
        subscriber_topics.replace_topics(session, reader.id, {"B": "loud robots"})
    for fields in (
        {"do": "add", "name": "A", "filter": "quiet robots"},
        {"do": "filter", "topic": "B", "filter": "loud robots"},
    ):
        served.client.post(manage_path, data=fields)

    with served.writing() as session:
        reader = subscriber_rows.get(session, "alice@uni.edu")
        topics = {topic.name: topic.text for topic in subscriber_topics.topics_of(session, reader)}
    assert topics == {"A": 'about:"quiet robots"', "B": "loud robots"}


@pytest.mark.parametrize("action", ["rename", "filter", "up", "mute", "remove"])
def test_a_form_about_a_topic_that_is_gone_changes_nothing(served, manage_path, action):
    before = served.everything()

    page = pressed(served, manage_path, do=action, topic="Gone", name="New", filter="robot*")

    assert "Your settings have changed since you opened this page, so nothing was saved." in page
    assert served.everything() == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"do": "add", "filter": "title:(image"}, "^"),
        ({"do": "add", "filter": ""}, "A filter needs at least one word"),
        ({"do": "add", "filter": "robot*", "name": "vision"}, "Another topic has this name."),
        ({"do": "add", "filter": "robot*", "name": "x" * 81}, "must have 1 to 80 characters"),
        ({"do": "filter", "topic": "Vision", "filter": "robot* ANDN"}, "ANDN"),
        ({"do": "filter", "topic": "Vision", "filter": ""}, "A filter needs at least one word"),
        ({"do": "try", "filter": "cat:cs.NLP"}, "Did you mean"),
        ({"do": "rename", "topic": "Vision", "name": ""}, "Fill this in."),
        ({"do": "rename", "topic": "Vision", "name": " \0\n"}, "Fill this in."),
    ],
)
def test_an_error_is_shown_beside_the_field_and_the_input_is_kept(
    served, manage_path, alice, fields, message
):
    before = served.everything()

    answer = served.client.post(manage_path, data=fields)

    assert answer.status_code == 422
    assert message in unescape(answer.text)
    assert "Not saved." in answer.text
    typed = fields.get("filter") or fields.get("name", "").strip("\0\n ")
    assert typed[:80] in unescape(answer.text)
    assert served.everything() == before


def test_a_filter_that_is_too_long_is_refused_and_not_cut(served, manage_path):
    text = "x" * 1990 + " OR yyyyyyyyyyyyyyyyyyyy"

    answer = served.client.post(manage_path, data={"do": "add", "filter": text})

    assert (answer.status_code, "characters; this one has 2,014" in answer.text) == (422, True)
    assert f">{text}</textarea>" in answer.text
    assert topics_of(served) == {"Vision": "title:image*"}


def test_an_error_after_a_saved_change_does_not_say_saved(served, manage_path):
    pressed(served, manage_path, do="mute", topic="Vision")

    answer = served.client.post(f"{manage_path}?done=saved", data={"do": "add", "filter": ""})

    assert "Not saved." in answer.text
    assert "Saved." not in answer.text


# ── when and how much ───────────────────────────────────────────────────────────────────────────


def test_schedule_and_length_are_saved_and_shown(served, manage_path, alice):
    changed = {
        "cadence": "weekly-fri", "at": "18:30", "timezone": "Europe/Oslo", "max_papers": "5",
        "abstracts": "full", "nothing_today": "yes",
    }  # fmt: skip

    page = pressed(served, manage_path, **SCHEDULE | changed)

    assert (
        "How often: Every Friday. Before: Every day. Time of day: 18:30. Before: 08:00. Time zone or city: Oslo. "
        "Before: UTC. Maximum papers per digest: at most 5 papers. Before: at most 10 papers. "
        "Abstracts: whole abstracts. Before: short abstracts." in page
    )
    assert "Every Friday at 18:30, Oslo · at most 5 papers · whole abstracts" in page
    reader = served.subscriber("alice@uni.edu")
    assert (reader.cadence, reader.weekday, f"{reader.at:%H:%M}", reader.timezone) == (
        "weekly", 4, "18:30", "Europe/Oslo",
    )  # fmt: skip
    assert (reader.max_papers, reader.abstracts, reader.wants_nothing_today_letters) == (5, "full", True)


def test_a_city_is_accepted_as_a_time_zone(served, manage_path):
    pressed(served, manage_path, **SCHEDULE | {"timezone": "new york"})

    assert served.subscriber("alice@uni.edu").timezone == "America/New_York"


def test_saving_an_unchanged_form_says_so(served, manage_path):
    page = pressed(served, manage_path, **SCHEDULE)

    assert "Nothing changed." in page
    assert "Saved." not in page


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("cadence", "hourly"),
        ("cadence", ""),
        ("at", "8 o'clock"),
        ("at", ""),
        ("timezone", "Olso"),
        ("timezone", ""),
        ("max_papers", ""),
        ("max_papers", "many"),
        ("max_papers", "0"),
        ("max_papers", "²"),
        ("abstracts", "half"),
    ],
)
def test_an_invalid_value_is_reported_beside_its_field(served, manage_path, field, typed):
    before = served.everything()

    answer = served.client.post(manage_path, data=SCHEDULE | {field: typed})

    assert answer.status_code == 422
    assert f'id="{field}-error"' in answer.text
    if typed and field not in {"cadence", "max_papers", "abstracts"}:  # those are lists
        assert f'value="{typed}"' in unescape(answer.text)
    assert served.everything() == before


# ── a break ─────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_until_a_date_ends_on_that_day(served, manage_path):
    page = pressed(served, manage_path, do="pause-until", until="2027-01-06")

    assert "Paused until 6 January 2027." in page
    assert f"{served.subscriber('alice@uni.edu').paused_until}" == "2027-01-06"


@pytest.mark.parametrize("typed", ["", "tomorrow", "2026-11-20", "2020-01-01", "9" * 40])
def test_an_invalid_date_is_reported_beside_its_field(served, manage_path, typed):
    answer = served.client.post(manage_path, data={"do": "pause-until", "until": typed})

    assert (answer.status_code, 'id="until-error"' in answer.text) == (422, True)
    assert served.subscriber("alice@uni.edu").paused_until is None


# ── changes requested by mail ───────────────────────────────────────────────────────────────────


def hidden_fields(page: str) -> list[tuple[str, str]]:
    """Return the fields of the form that saves a change requested by mail."""
    form = page.partition('id="asked"')[2].partition("</form>")[0]
    return [
        (name, unescape(value))
        for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    ]


def test_a_change_requested_by_mail_is_shown_and_saved_by_one_button(served, manage_path):
    before = served.everything()
    asked = (
        "?name=Robots&filter=robot%2A&name=vision&filter=ti%3Avideo&drop=Gone&cadence=weekly-fri&at=09%3A30"
    )

    page = served.client.get(manage_path + asked).text

    shown = words(page)
    assert "You asked for this by mail. Press Save to confirm." in shown
    assert "Change the topic “Vision” from title:image* to ti:video" in shown
    assert "Add the topic “Robots”: robot*" in shown
    assert "How often: Every Friday. Time of day: 09:30." in shown
    assert served.everything() == before

    sent = urlencode([("do", "apply"), *hidden_fields(page)])
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert served.client.post(manage_path, content=sent, headers=form).status_code == 303

    assert topics_of(served) == {"Vision": "ti:video", "Robots": "robot*"}
    reader = served.subscriber("alice@uni.edu")
    assert (reader.cadence, reader.weekday, f"{reader.at:%H:%M}") == ("weekly", 4, "09:30")


def test_a_topic_is_removed_as_requested_by_mail(served, manage_path):
    page = served.client.get(f"{manage_path}?drop=vision").text

    assert "Remove the topic “Vision”." in words(page)
    served.client.post(manage_path, data={"do": "apply", **dict(hidden_fields(page))})
    assert topics_of(served) == {}


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("at=8%3A30", "Time of day: 08:30."),
        ("cadence=weekly-friday", "How often: Every Friday."),
        ("cadence=weekly-mon", "How often: Every Monday."),
        ("timezone=Europe%2FOslo", "Time zone or city: Oslo."),
        ("max_papers=07", "Maximum papers per digest: at most 7 papers."),
        ("abstracts=Titles", "Abstracts: titles only."),
    ],
)
def test_a_schedule_requested_by_mail_is_shown_in_words(served, manage_path, asked, shown):
    assert shown in words(served.client.get(f"{manage_path}?{asked}").text)


def test_an_hour_requested_by_mail_is_saved(served, manage_path):
    asked = command_arguments.parse_schedule("weekly fri at 8:30")
    assert asked

    page = served.client.get(f"{manage_path}?{urlencode(asked)}").text
    saved = pressed(served, manage_path, do="apply", **dict(hidden_fields(page)))

    assert "Saved." in saved
    reader = served.subscriber("alice@uni.edu")
    assert (reader.cadence, reader.weekday, f"{reader.at:%H:%M}") == ("weekly", 4, "08:30")


def test_invalid_query_parameters_change_nothing_on_the_page(served, manage_path):
    plain = served.client.get(manage_path).text.replace("?", "")

    page = served.client.get(f"{manage_path}?at=99%3A99&cadence=hourly&timezone=Mars&max_papers=1000").text

    assert page.replace("?", "") == plain


def test_requesting_the_current_settings_says_that_nothing_would_change(served, manage_path):
    page = served.client.get(f"{manage_path}?at=8%3A00&cadence=daily").text

    assert "Your settings are already as you asked." in page


def test_an_invalid_filter_requested_by_mail_is_reported_when_it_is_saved(served, manage_path):
    before = served.everything()

    answer = served.client.post(manage_path, data={"do": "apply", "name": "Bad", "filter": "ti:("})

    assert (answer.status_code, "Column " in answer.text) == (422, True)
    assert served.everything() == before


def test_query_parameters_are_escaped_and_never_shown_as_saved(served, manage_path):
    asked = "?name=%3Cscript%3E&filter=%3Cscript%3E%00&cadence=%22%3E%3Cb%3E&done=saved&max_papers=x"

    page = served.client.get(manage_path + asked).text

    assert "<script>" not in page
    assert '"><b>' not in page
    assert "Saved." not in page


# ── any input ───────────────────────────────────────────────────────────────────────────────────

ACTIONS = (
    "add", "apply", "down", "filter", "leave", "mute", "pause", "pause-until", "rename", "remove", "resume",
    "schedule", "try", "undo", "undo-change", "unmute", "up", "", "nothing such",
)  # fmt: skip
FIELDS = (
    "topic", "name", "filter", "days", "until", "cadence", "at", "timezone", "max_papers", "abstracts", "drop",
)  # fmt: skip
ODD_VALUES = ("", "\0", "\r\n", "é̀" * 300, "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "(" * 1000, "9" * 2000, "like:" + "x" * 1900)  # fmt: skip


def test_no_value_of_any_field_breaks_the_page(served, manage_path):
    for action, value in product(ACTIONS, ODD_VALUES):
        answer = served.client.post(manage_path, data={"do": action, **dict.fromkeys(FIELDS, value)})

        assert answer.status_code in {303, 422, 200}, (action, value)
        if action == "leave":
            served.client.post(manage_path, data={"do": "undo"})


@pytest.mark.parametrize("ticked", ["", "yes"])
def test_an_error_in_the_schedule_keeps_the_check_box(served, manage_path, ticked):
    answer = served.client.post(manage_path, data=SCHEDULE | {"at": "8 o'clock", "nothing_today": ticked})

    (box,) = re.findall('id="nothing_today"[^>]*', answer.text)
    assert (answer.status_code, "checked" in box) == (422, bool(ticked))


# ── why ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def why_path(served, digest_sent):
    reader = digest_sent.subscriber_id
    return f"{path_of(links.manage_url(served.site, reader, 0))}/why"


def test_the_page_says_why_a_paper_was_sent_or_not(served, papers, why_path):
    def answer(reference: object) -> str:
        return words(served.client.get(f"{why_path}?{urlencode({'paper': reference})}").text)

    assert "Slow Diffusion It was in your digest of 20 November 2026." in answer("Slow Diffusion")
    assert "Diffusion matches: diffusion in the title" in answer("2611.00001")
    assert "None of your topics matches this paper." in answer(papers[1])
    assert "Slow Diffusion It was in your digest" in answer(f"{served.site.url}/papers/{papers[0]}")
    assert "No list that we read contained this paper." in answer("Unheard Of")


def test_a_part_of_a_title_leads_to_the_paper(served, papers, why_path):
    page = served.client.get(f"{why_path}?{urlencode({'paper': 'slow diff'})}").text

    assert "No paper has exactly this title, arXiv id or DOI. Did you mean: Slow Diffusion" in words(page)
    (link,) = re.findall(r'href="(\?paper=[^"]+)"', page)
    assert "It was in your digest of 20 November 2026." in served.client.get(f"{why_path}{link}").text


@pytest.mark.parametrize("reference", ["", "\0", "x" * 5000, "9" * 400, "<script>", "(" * 400])
def test_any_question_about_a_paper_gets_a_page(served, why_path, reference):
    before = served.everything()

    answer = served.client.get(f"{why_path}?{urlencode({'paper': reference})}")

    assert answer.status_code == 200
    assert "<script>" not in answer.text
    assert served.everything() == before
