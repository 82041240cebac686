"""The sign-up form: topics from four places, a schedule, previews, and what goes wrong with them."""

from __future__ import annotations

import gzip
import json
import re
from datetime import timedelta
from html import unescape
from itertools import product

import pytest
from sqlalchemy import select, update

from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Confirmation
from digest.site import links
from digest.subscribers import subscriber_rows
from digest.topics.starter_filters import STARTER_TOPICS
from digest.web import forms, library_upload, sign_up_form, topic_preview
from tests.web.conftest import opened, path_of, settings_for
from tests.web.test_every_form import BAD_VALUES, multipart

LIBRARY = "\n".join(
    f"@article{{key{number}, title = {{Slow Diffusion of {word}}}, author = {{Ito, Ada}}, year = {{2025}}}}"
    for number, word in enumerate(("Salt", "Heat", "Ink"))
)


CSL_ITEM = {
    "id": "ito2025", "type": "article-journal", "title": "Slow Diffusion of Salt",
    "author": [{"family": "Ito", "given": "Ada"}],
}  # fmt: skip


def requested(served):
    """Return the settings that the newest confirmation asks for."""
    with served.writing() as session:
        query = select(Confirmation.requested_settings).order_by(Confirmation.id.desc())
        return json.loads(session.scalars(query.limit(1)).one())


def fields_of(page):
    """Return the values of the text fields and the chosen options of a page."""
    found = dict(re.findall(r'<input [^>]*name="(\w+)"[^>]*value="([^"]*)"', page))
    for name, options in re.findall(r'<select [^>]*name="(\w+)".*?>(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        found[name] = (chosen[1] or chosen[2]) if chosen else ""
    return {name: unescape(value) for name, value in found.items()}


def checked(page):
    """Return the values of the checked boxes."""
    return [
        unescape(value)
        for value in re.findall(r'type="checkbox" name="\w+" value="([^"]*)"[^>]* checked', page, re.DOTALL)
    ]


CHOICES = {
    "interest": ["Robots", "Vision"],
    "filter": "slow* AND (",
    "cadence": "weekly-fri",
    "at": "07:15",
    "timezone": "Europe/Oslo",
    "max_papers": "15",
    "abstracts": "full",
}


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def test_a_chip_and_a_button_subscribe(served, papers):
    assert "Check your inbox." in served.sign_up("bob@uni.edu", interest="Robots").text

    assert requested(served)["topics"] == {"Robots": STARTER_TOPICS["Robots"]}


def test_chips_show_how_many_papers_a_day_match(served, papers):
    page = served.client.get("/").text

    assert '<span>Diffusion <span class="count">1</span></span>' in page
    assert '<span>Robots <span class="count">0</span></span>' in page


def test_papers_that_a_visitor_likes_become_a_named_topic(served, papers):
    liked = [str(number) for number in papers[2:5]]

    shown = served.sign_up("", like=liked, do="try")
    served.sign_up("bob@uni.edu", like=liked)

    [(name, text)] = requested(served)["topics"].items()
    assert name.startswith("Like “")
    assert name.endswith("” and 2 more")
    assert text == f"like:{','.join(liked)}"
    assert "From 3 papers you like:" in shown.text
    assert f"<b>{name}</b>" in shown.text
    assert checked(shown.text) == liked


@pytest.mark.parametrize("liked", ["0", "x", "-1", str(2**63), "9" * 400, "①", ""])
def test_a_liked_paper_that_does_not_exist_is_ignored(served, papers, liked):
    assert served.sign_up("bob@uni.edu", like=liked).status_code == 200
    assert "topics" not in requested(served)


def test_a_library_becomes_topics_that_the_next_page_offers(served, papers):
    answer = upload(served, LIBRARY.encode(), do="try")

    [value] = checked(answer.text)
    name, _, text = value.partition("\n")
    assert "diffusion" in (name + text).lower()
    assert answer.status_code == 200

    served.sign_up("bob@uni.edu", offered=value, topic=value)
    assert requested(served)["topics"] == {name: text}


def test_a_library_can_be_sent_with_the_address(served, papers):
    assert upload(served, LIBRARY.encode(), email="bob@uni.edu").status_code == 200
    served.send_confirmations()

    assert len(requested(served)["topics"]) == 1


def test_an_offered_topic_that_is_not_chosen_is_shown_again_but_not_subscribed(served, papers):
    offered = "Slow things\nslow*"

    page = served.sign_up("", offered=offered, do="try").text
    served.sign_up("bob@uni.edu", offered=offered)

    assert 'value="Slow things\nslow*"' in page
    assert checked(page) == []
    assert "topics" not in requested(served)


def test_topics_of_one_name_are_numbered(served, papers):
    mine = "Robots\nquiet*"

    served.sign_up("bob@uni.edu", interest="Robots", offered=mine, topic=mine)

    assert list(requested(served)["topics"]) == ["Robots", "Robots 2"]


def test_plain_words_are_a_description_until_the_visitor_asks_for_exactly_these(served, papers):
    shown = served.client.post("/preview", data={"filter": "quiet robots"}).text
    served.sign_up("bob@uni.edu", filter="quiet robots")
    described = requested(served)["topics"]
    exact = served.sign_up("", filter="quiet robots", do="exact")

    assert "have all of these words" in shown
    assert 'value="exact"' in shown
    assert described == {"quiet robots": 'about:"quiet robots"'}
    assert 'value="quiet AND robots"' in exact.text
    assert "have all of these words" not in exact.text


# ── the schedule ────────────────────────────────────────────────────────────────────────────────


def test_the_requested_schedule_and_length_are_those_of_the_sentence(served, papers):
    served.sign_up("bob@uni.edu", **CHOICES | {"filter": "", "interest": []})

    assert requested(served)["texts"] == {
        "cadence": "weekly-fri", "at": "07:15", "timezone": "Europe/Oslo", "max_papers": "15", "abstracts": "full",
    }  # fmt: skip


def test_a_city_is_a_time_zone(served, papers):
    served.sign_up("bob@uni.edu", timezone="new york")

    assert requested(served)["texts"]["timezone"] == "America/New_York"


def test_an_unknown_zone_keeps_the_other_choices_in_preview_and_sample(served, papers):
    choices = {
        "filter": "quiet OR diffusion",
        "max_papers": "2",
        "abstracts": "titles",
        "timezone": "Nowhere",
    }
    page = served.client.post("/preview", data=choices).text
    sample = served.sign_up("", do="sample", **choices).text

    assert "you get the best 2<" in page
    assert "2 of 12 new papers" in sample
    assert served.sign_up("", do="sample", **choices | {"timezone": "UTC"}).text == sample


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("timezone", "Oslp", "Did you mean"),
        ("timezone", "", "Fill this in."),
        ("at", "25:00", "is not a time of day"),
        ("cadence", "hourly", "is not a cadence"),
        ("max_papers", "0", "is not a number from 1 to 50"),
        ("max_papers", "ten", "is not a number"),
        ("abstracts", "all", "is not one of"),
    ],
)
def test_a_wrong_field_is_named_below_the_sentence_and_the_rest_is_kept(
    served, papers, field, value, sentence
):
    answer = served.sign_up("ada@uni.edu", **CHOICES | {"filter": "slow*", field: value})

    assert answer.status_code == 422
    assert sentence in unescape(answer.text)
    assert f'aria-describedby="{field}-error"' in answer.text
    assert f'id="{field}-error"' in answer.text
    kept = {name: one for name, one in CHOICES.items() if name not in (field, "interest", "filter")}
    assert fields_of(answer.text).items() >= (kept | {"email": "ada@uni.edu", "filter": "slow*"}).items()
    assert checked(answer.text) == ["Vision", "Robots"]
    assert served.letters() == []


# ── what goes wrong keeps every choice ──────────────────────────────────────────────────────────


def test_an_error_keeps_every_choice(served, papers):
    liked = [str(papers[0])]

    answer = served.sign_up(
        "ada@gmial.com", **CHOICES, like=liked, offered="Mine\nslow*", topic="Mine\nslow*"
    )

    kept = {name: value for name, value in CHOICES.items() if name != "interest"}
    assert answer.status_code == 422
    assert "Use gmail.com" in answer.text
    assert "Column" in answer.text
    assert fields_of(answer.text).items() >= (kept | {"email": "ada@gmial.com"}).items()
    assert checked(answer.text) == ["Vision", "Robots", "Mine\nslow*", *liked]


def test_changing_a_wrong_address_keeps_every_choice(served, papers):
    chosen = CHOICES | {"filter": "slow*"}
    sent = served.sign_up("ada@uni.edu", **chosen, like=str(papers[0]), offered="M\nslow*", topic="M\nslow*")
    assert "Change it" in sent.text
    hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', sent.text, re.DOTALL)
    again: dict[str, list[str]] = {}
    for name, value in hidden:
        again.setdefault(name, []).append(unescape(value))

    page = served.client.post("/", data=again | {"do": "change"}).text

    kept = {name: value for name, value in chosen.items() if name != "interest"}
    assert fields_of(page).items() >= (kept | {"email": "ada@uni.edu"}).items()
    assert checked(page) == ["Vision", "Robots", "M\nslow*", str(papers[0])]


#: Fields that the form takes, but that the empty form does not show (tests/web/test_every_form.py has the others).
HIDDEN_FIELDS = ("use", "interest", "like", "offered", "topic", "made", "do", "website")


def test_no_hidden_field_makes_the_form_fail_whatever_it_holds(served, papers):
    stamp = served.stamp().encode()
    for path, kind, name in product(("/", "/preview"), BAD_VALUES, HIDDEN_FIELDS):
        answer = served.client.post(
            path,
            content=multipart({"email": b"ada@uni.edu", "made": stamp, name: BAD_VALUES[kind]}),
            headers={"content-type": "multipart/form-data; boundary=x"},
        )

        assert answer.status_code in {200, 422}, (path, kind, name)
        assert "<script>alert" not in answer.text
        assert len(answer.content) < 60_000


def test_the_time_of_a_response_to_an_address_is_a_multiple_of_a_step(served, alice, monkeypatch):
    stamp = served.stamp()
    for path, email in product(("/", "/link"), ("alice@uni.edu", "new@uni.edu", "nonsense")):
        moments = iter([70.0, 70.33])  # when the request arrives, and when its page is ready
        monkeypatch.setattr(forms, "perf_counter", lambda moments=moments: next(moments))

        served.client.post(path, data={"made": stamp, "email": email})

    assert served.waits == [pytest.approx(0.07)] * 6  # each of them responds after 0.4 s


# ── libraries ───────────────────────────────────────────────────────────────────────────────────


def test_after_an_error_the_button_works_at_once(served):
    stamp = served.stamp()
    wrong = {"made": stamp, "website": "", "email": "ada@uni.edu", "filter": "robot* AND ("}
    again = fields_of(served.client.post("/", data=wrong).text)
    assert (
        "Check your inbox."
        in served.client.post("/", data=wrong | {"made": again["made"], "filter": ""}).text
    )

    served.clock.now += forms.MAX_FORM_AGE + timedelta(hours=1)  # the tab was left open
    late = served.client.post("/", data={"made": stamp, "email": "bob@uni.edu"}).text
    assert "Please press the button again." in late
    sent = {"made": fields_of(late)["made"], "email": "bob@uni.edu"}
    assert "Check your inbox." in served.client.post("/", data=sent).text


def test_topics_that_the_page_hides_are_neither_previewed_nor_saved(served, papers):
    hidden = {"on": "all", "filter": "title:quiet", "interest": "Robots", "offered": "A\nb", "topic": "A\nb"}
    assert "trending papers" in served.client.post("/preview", data=hidden).text
    assert "We read" not in upload(served, LIBRARY, email="bob@uni.edu", on="all").text

    served.sign_up("ada@uni.edu", **hidden)

    assert "topics" not in requested(served)
    page = served.client.get("/").text
    assert 'name="on" value="all" checked' in page
    assert (
        served.sign_up("", do="try", filter="title:quiet").text.count('name="on" value="topics" checked') == 1
    )


def upload(served, content, *, path="/", **fields):
    data = {"made": served.stamp(), "website": "", **fields}
    return served.client.post(path, data=data, files={"library": ("library.bib", content)})


@pytest.mark.parametrize(
    "content",
    [
        LIBRARY.encode(),
        b"\xef\xbb\xbf" + LIBRARY.encode(),
        LIBRARY.replace("Ada", "Éda").encode("latin-1"),
        LIBRARY.encode("utf-16"),
        b"TY  - JOUR\nTI  - Slow Diffusion of Salt\nER  - \n",
        json.dumps([CSL_ITEM]).encode(),
    ],
    ids=["BibTeX", "BOM", "latin-1", "UTF-16", "RIS", "CSL-JSON"],
)
def test_libraries_of_three_formats_and_any_charset_are_read(served, papers, content):
    page = upload(served, content, do="try").text
    [offered] = checked(page)

    assert re.search(r"We read (1 reference|3 references)\.", page)
    assert re.search("diffusion|salt", offered.lower())


def test_one_library_is_read_at_a_time(served, papers, monkeypatch):
    monkeypatch.setattr(library_upload, "WAIT_SECONDS", 0.01)
    with library_upload.turn(served.client.app.state.context.caches):
        answer = upload(served, LIBRARY.encode())
    assert (answer.status_code, "Other libraries are being read." in answer.text) == (422, True)

    assert "We read 3 references." in upload(served, LIBRARY.encode(), do="try").text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"%" + b" " * 1024 * 1024, "larger than 1 MB"),
        (b"  \n", "This file is empty."),
        (b"%PDF-1.7 \0\0", "found no papers in this file"),
        (b"Dear diary,\n", "found no papers in this file"),
        (gzip.compress(LIBRARY.encode()), "found no papers in this file"),
        (b"{" * 500_000, "found no papers in this file"),
        (b"@article{" * 100_000, "found no papers in this file"),
        (b"@article{k, title = {" + b"{" * 200_000, "found no papers in this file"),
        (bytes(range(256)) * 100, "found no papers in this file"),
    ],
    ids=["large", "empty", "PDF", "prose", "compressed", "braces", "entries", "nested", "bytes"],
)
def test_a_file_that_is_no_library_gets_a_sentence_and_the_choices_are_kept(
    served, papers, content, sentence
):
    answer = upload(served, content, email="ada@uni.edu", interest="Robots")

    assert answer.status_code == 422
    assert sentence in answer.text
    assert 'id="library-error"' in answer.text
    assert checked(answer.text) == ["Robots"]
    assert 'value="ada@uni.edu"' in answer.text
    assert served.letters() == []


# ── previews ────────────────────────────────────────────────────────────────────────────────────


def test_a_preview_shows_figures_titles_and_what_each_clause_does(served, papers):
    page = served.client.post("/preview", data={"filter": "quiet OR diffusion OR absent*"}).text

    assert "<strong>About 11 papers a day; you get the best 10</strong>" in page
    assert '<span class="soft">(based on 1 day so far)</span>' in page
    assert "You would get these now:" in page
    assert page.count("<li dir=") == 5
    assert "OR quiet adds 10 papers a day." in page
    assert "<html" not in page


def test_a_preview_notes_an_operator_in_lower_case_and_a_misspelled_word(served, papers):
    page = served.client.post("/preview", data={"filter": "quiet OR diffusoin or loud"}).text

    assert "or in lower case is searched for as a word; the operator is OR." in page
    assert "diffusoin matches no paper." in page


def test_a_preview_agrees_with_the_digest_that_is_sent(served, papers, digest_sent):
    titles = re.findall(
        r'rel="noreferrer">([^<]*)<',
        served.client.post(
            "/preview", data={"offered": "Q\ntitle:quiet", "topic": "Q\ntitle:quiet", "max_papers": "3"}
        ).text,
    )

    assert titles == ["Quiet Paper 3", "Quiet Paper 4", "Quiet Paper 5"]


def test_without_topics_the_preview_is_the_trending_list(served, papers):
    page = served.client.post("/preview", data={"max_papers": "5"}).text

    assert "The 5 most trending papers of the day" in page
    assert "Slow Diffusion" in page


def test_an_old_paper_carries_its_year(served, papers, now):
    with served.writing() as session:
        session.execute(update(PaperRow).values(published=now.date() - timedelta(days=400)))
        session.commit()
    served.context.caches.clear()

    page = served.client.post("/preview", data={"filter": "title:diffusion"}).text

    assert 'Slow Diffusion</a> <span class="soft">2025</span>' in page
    assert "16\xa0Oct\xa02025" in served.client.get("/").text


def test_an_unfinished_filter_is_pointed_at_while_typing(served, papers):
    answer = served.client.post("/preview", data={"filter": "robot* AND"})

    assert answer.status_code == 200
    assert "Column" in answer.text
    assert "^" in answer.text


def test_previews_are_cached_and_limited(served, papers):
    first = served.client.post("/preview", data={"filter": "quiet"}).text
    entries = served.context.caches.sizes()["topic previews"]

    answers = [
        served.client.post("/preview", data={"filter": "quiet"})
        for _ in range(topic_preview.PER_MINUTE_UNKNOWN)
    ]

    assert served.context.caches.sizes()["topic previews"] == entries
    assert answers[0].text == first
    assert [answers[-2].status_code, answers[-1].status_code] == [200, 429]
    assert "Too many requests. Try again in a minute." in answers[-1].text
    refused = served.sign_up("", do="try", filter="quiet")
    assert (refused.status_code, fields_of(refused.text)["filter"]) == (429, "quiet")
    assert "Too many requests" in refused.text


@pytest.mark.parametrize(("do", "status"), [("change", 200), ("", 422)])
def test_pages_that_show_the_form_again_count_as_previews(served, papers, monkeypatch, do, status):
    monkeypatch.setattr(topic_preview, "PER_MINUTE_UNKNOWN", 2)

    pages = [served.client.post("/", data={"do": do, "filter": "quiet"}) for _ in range(3)]

    assert [page.status_code for page in pages] == [status] * 3
    assert ["Quiet Paper 5</a>" in page.text.split('id="preview"')[1].split("</form>")[0] for page in pages] == [
        True, True, False,
    ]  # fmt: skip
    assert fields_of(pages[2].text)["filter"] == "quiet"


def test_a_preview_shows_a_filter_as_its_own_visitor_wrote_it(served, papers):
    start = "quiet AND " + "title:quiet AND " * 4
    writings = [f"{start}paper", f"{start}(paper)"]

    pages = [served.client.post("/preview", data={"filter": text}).text for text in writings]

    assert [text in page for text, page in zip(writings, pages, strict=True)] == [True, True]


def test_the_limit_of_previews_is_for_each_network(served, now):
    caches = served.context.caches
    own = [topic_preview.is_allowed(caches, "192.0.2.0/24", now) for _ in range(topic_preview.PER_MINUTE + 1)]

    assert own == [True] * topic_preview.PER_MINUTE + [False]
    assert topic_preview.is_allowed(caches, "198.51.100.0/24", now)
    assert topic_preview.is_allowed(caches, "192.0.2.0/24", now + timedelta(minutes=1))
    assert not topic_preview.is_allowed(caches, "203.0.113.0/24", now, cost=topic_preview.PER_MINUTE + 1)


def test_a_sample_of_the_topics_can_be_seen_as_an_email(served, papers):
    answer = served.sign_up("", interest="Diffusion", do="sample")

    assert answer.status_code == 200
    assert "Slow Diffusion" in answer.text
    assert "Quiet Paper" not in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "you@example.org" in answer.text


def test_previews_and_samples_show_only_what_a_source_lets_pages_show(
    served, papers, sqlite_url, tmp_path, clock
):
    with served.writing() as session:
        session.execute(update(PaperRow).where(PaperRow.id == papers[2]).values(hidden_at=clock.now))
        session.commit()
    filters = {"filter": "diffusion OR quiet"}
    settings = settings_for(sqlite_url, tmp_path, base_url="https://digest.example.org")
    sites = opened(settings, clock)
    public = next(sites)
    sample = public.sign_up("", **filters, do="sample").text
    preview = public.client.post("/preview", data=filters).text
    liked = public.client.post("/preview", data={"like": str(papers[2])}).text
    assert next(sites, None) is None  # closes its database

    assert "Diffusion models wait." in sample  # of arXiv, whose abstracts are open
    assert "Quiet Paper 4" in sample
    assert "Nothing happens." not in sample
    assert "Quiet Paper 3" not in sample + preview
    assert "Quiet Paper 4" in preview
    assert "papers you like" not in liked


def test_a_sample_without_papers_says_so_and_keeps_the_choices(served, papers):
    answer = served.sign_up("ada@uni.edu", interest="Robots", do="sample")

    assert "Nothing from the past week matches" in answer.text
    assert checked(answer.text) == ["Robots"]


# ── confirming ──────────────────────────────────────────────────────────────────────────────────


def confirm_path(served, number=1):
    return path_of(links.confirm_url(served.site, number))


def test_the_confirm_page_shows_what_was_asked_and_three_papers_on_it(served, papers):
    served.sign_up(
        "ada@uni.edu",
        offered="Silence\ntitle:quiet",
        topic="Silence\ntitle:quiet",
        timezone="Europe/Oslo",
        at="07:30",
    )

    page = served.client.get(confirm_path(served)).text

    assert "your address, ada@uni.edu) asked for a daily digest of papers on “Silence”." in page
    assert "Every day at 07:30, Oslo · at most 10 papers · short abstracts." in page
    assert "<strong>Silence</strong>: <code>title:quiet</code>" in page
    assert "On these topics now" in page
    assert re.findall(r'class="title"[^>]*>([^<]*)', page) == [
        "Quiet Paper 3",
        "Quiet Paper 4",
        "Quiet Paper 5",
    ]


def test_a_stranger_cannot_advertise_in_the_confirm_letter(served, papers):
    name = "Win at https://evil.example/now or +1 555 0100 " + "again " * 20

    served.sign_up("ada@uni.edu", offered=f"{name}\nrobot*", topic=f"{name}\nrobot*")

    [(subject, text)] = served.deliver_mail()
    assert subject == "Confirm your subscription"
    assert "evil.example" not in text
    assert "0100" not in text
    assert text.count("again") < 20


def test_the_welcome_page_shows_the_papers_of_the_welcome_letter(served, papers):
    served.sign_up("ada@uni.edu", offered="Silence\ntitle:quiet", topic="Silence\ntitle:quiet")

    first = served.client.post(confirm_path(served), follow_redirects=True).text

    assert "To ada@uni.edu, on: Silence." in first
    assert "Until then, you can read three papers from today on your topics." in first
    assert first.count("<h3") == 3
    assert served.client.get(confirm_path(served)).text == first


def test_a_new_link_for_an_expired_one_keeps_what_was_asked(served, papers):
    served.sign_up("ada@uni.edu", interest="Robots", at="07:30", timezone="Europe/Oslo", max_papers="5")
    before = requested(served)
    served.clock.now += timedelta(hours=50)

    page = served.client.get(confirm_path(served))
    assert page.status_code == 410
    assert "<h1>This link has expired</h1>" in page.text
    stamp = re.search(r'name="made" value="([^"]+)"', page.text)
    assert stamp
    served.clock.now += timedelta(seconds=5)
    sent = served.client.post("/link", data={"made": stamp[1], "email": "ada@uni.edu"})
    assert "Check your inbox." in sent.text
    served.send_confirmations()

    assert requested(served) == before
    served.client.post(confirm_path(served, 2))
    ada = served.subscriber("ada@uni.edu")
    assert (ada.max_papers, subscriber_rows.schedule_of(ada).timezone) == (5, "Europe/Oslo")


def test_an_international_address_is_shown_as_it_is_written(served, papers):
    sent = served.sign_up("ada@bücher.example")

    assert "ada@bücher.example" in sent.text
    assert "xn--" not in sent.text
    assert "ada@bücher.example" in served.client.get(confirm_path(served)).text
    served.client.post(confirm_path(served))
    ada = served.subscriber("ada@bücher.example")
    manage = served.client.get(path_of(links.manage_url(served.site, ada.id, ada.link_version)))
    assert "ada@bücher.example" in manage.text


def test_the_page_behind_a_forwarded_link_has_a_heading_for_each_choice(served, alice):
    page = served.client.get(path_of(links.topic_links_url(served.site, alice.id, alice.link_version))).text

    assert re.findall(r"<h([12])[^>]*>([^<]*)", page) == [
        ("1", "Your digest"), ("2", "Topics"), ("2", "When and how much"), ("2", "A break"), ("2", "Yours"), ("2", "Leave"),
    ]  # fmt: skip


def test_the_form_has_bounds_for_what_it_takes():
    assert sign_up_form.paper_ids(map(str, range(1, 99))) == list(range(1, sign_up_form.MAX_LIKED + 1))
    assert len(sign_up_form.offered_topics(f"T{n}\nx" for n in range(99))) == sign_up_form.MAX_OFFERED
