"""The press makes the same letters as the reference rendering, with the same bytes every time."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from datetime import UTC, date, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from digest.editions.compose import Digest, Section
from digest.errors import SetupMismatch
from digest.letters import Templates, build_message, figures_in_words, list_headers, press
from digest.letters.cards import CardForm
from digest.letters.line_wrapping import columns
from digest.letters.mime import decode_quoted_printable, encode_quoted_printable
from digest.letters.press import LetterAssembler, card_pieces
from digest.papers import Organization, Paper
from digest.site_profile import Site
from tests.letters.invented_papers import (
    ATTENTION,
    BARE,
    FLOW,
    NOW,
    PAPERS,
    ROBOTS,
    by_topic,
    copy_for,
    pressed,
    trending,
)

# ── as premailer would have it ──────────────────────────────────────────────────────────────────

NASTY = st.sampled_from(
    [
        "<script>alert(1)</script>", "</style><b>", "&lt;b&gt;", "a & b < c > d", "\"quotes\" and 'quotes'",
        "{{ 7*7 }} {% raw %}", "=3D =?utf-8?q?x?=", ".", "..leading dots", "From here", "\u00a0", "\u2028", "\x85",
        "emoji 🦜🧑🏽‍🔬", "中文标题。第二句。", "עברית \u202e reversed", "e\u0301\u0301\u0301\u0301\u0301\u0301", "<cup, on, table>",
        "$\\alpha_{i}^2$ \\'e", "javascript:alert(1)", "trailing ", "\ttab", "\x00\x01", "ﬁ", "word", "Dr. A. B. et al. said so.",
    ]
)  # fmt: skip
TEXTS = st.lists(NASTY | st.text(max_size=40), min_size=1, max_size=8).map(" ".join)
NAMES = TEXTS.map(lambda text: text[:80]).filter(str.strip)
URLS = st.sampled_from(
    [
        "https://github.com/example/flow", "javascript:alert(1)", "https://example.org/a?b=1&c=<d>\"'{e}",
        "http://[broken", "https://exämple.org/päper#ä", "ftp://example.org/x", "https://example.org/x y.pdf", "",
    ]
)  # fmt: skip


@st.composite
def papers(draw: st.DrawFn, number: int) -> Paper:
    return Paper(
        id=number,
        title=draw(TEXTS),
        abstract=draw(TEXTS | st.just("")),
        authors=tuple(draw(st.lists(NAMES, max_size=5))),
        n_authors=draw(st.none() | st.integers(0, 300)),
        organization=draw(st.none() | st.builds(Organization, handle=NAMES, name=NAMES)),
        published=draw(st.none() | st.dates(date(1990, 1, 1), date(2026, 11, 20))),
        categories=tuple(draw(st.lists(NAMES, max_size=2))),
        urls=tuple(draw(st.lists(URLS, max_size=3))),
        ids=draw(st.dictionaries(st.sampled_from(["arxiv", "doi"]), st.just("10.5555/a<b>&c"), max_size=2)),
        first_seen_at=NOW,
        is_sample=draw(st.booleans()),
    )


TOKEN = "key.7-0.abc"
SAVE, LESS = f"https://digest.example.org/s/{TOKEN}", f"https://digest.example.org/l/{TOKEN}"
FILTERS = {1: "flow OR robot*", 2: "a", 3: "title:word OR abstract:script"}


@st.composite
def digests(draw: st.DrawFn) -> tuple[list[Paper], Digest]:
    batch = [draw(papers(number)) for number in range(1, draw(st.integers(1, 6)) + 1)]
    ids = draw(st.permutations([paper.id for paper in batch]))
    cuts = draw(st.integers(1, len(ids)))
    sections = tuple(
        Section(
            topic=draw(NAMES),
            filter_id=draw(st.sampled_from([None, 1, 2, 3])),
            papers=tuple(part),
            more=draw(st.integers(0, 3)),
        )
        for part in (ids[:cuts], ids[cuts:])
        if part
    )
    return batch, Digest(sections=sections, checked=draw(st.integers(0, 5000)))


@given(made=digests())
def test_the_joined_letter_equals_premailers_output_for_the_whole_page(
    made: tuple[list[Paper], Digest], site: Site, templates: Templates
) -> None:
    batch, digest = made
    of_batch = pressed(site, templates, batch, p1="+42 votes <since> yesterday & more")
    links = {"paper_token": TOKEN} if digest.checked % 2 else {}
    copy = copy_for(filters=FILTERS, **links)

    letter = LetterAssembler(of_batch, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, of_batch, site, digest, copy)


def test_the_contents_name_every_topic_with_its_number_of_papers(site: Site, templates: Templates) -> None:
    topics = ("Flows", "Robots", "Vision", "Speech", "A topic whose name is longer than any line of a phone")
    batch = [replace(FLOW, id=number) for number in range(1, len(topics) + 1)]
    digest = by_topic(*((topic, 1, (number,)) for number, topic in enumerate(topics, start=1)))
    made = pressed(site, templates, batch)
    copy = copy_for(filters=FILTERS)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    parts = re.findall(r'<a [^>]*href="#(t\d)"[^>]*>([^<]*)\xa0<span[^>]*>(\d)</span></a>', letter.html)
    assert parts == [(f"t{number}", topic, "1") for number, topic in enumerate(topics, start=1)]
    assert all(f'id="{name}"' in letter.html for name, _, _ in parts)


def headings(html: str) -> list[tuple[str, str]]:
    """Return the headings of a letter in order, as (h1, text)."""
    found = re.findall(r"<(h[123])[^>]*>(.*?)</h", html)
    return [(level, re.sub(r"<[^>]*>", "", text)) for level, text in found]


@pytest.mark.parametrize(
    ("digest", "rest"),
    [
        (trending(11, 12), [("h2", "Also trending"), ("h3", ROBOTS.title)]),
        (by_topic(("Flows", 1, (11, 12))), [("h2", "More: Flows"), ("h3", ROBOTS.title)]),
        (by_topic(("Flows", 1, (11,))), []),
    ],
    ids=["no topic", "one topic", "one paper"],
)
def test_the_headline_of_one_topic_is_the_first_title_which_its_card_does_not_repeat(
    digest: Digest, rest: list[tuple[str, str]], site: Site, templates: Templates
) -> None:
    made = pressed(site, templates)
    copy = copy_for(filters=FILTERS)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    assert headings(letter.html) == [("h1", FLOW.title), *rest]
    assert letter.text.count(FLOW.title) == 1
    assert letter.html.index('href="https://arxiv.org/abs/2611.01234"') < letter.html.index(
        f"{FLOW.title}</a></h1>"
    )


@pytest.mark.parametrize(
    "digest",
    [trending(11, 12, 13), by_topic(("Flows", 1, (11, 13)), ("Robots", 1, (12,)))],
    ids=["led", "counted"],
)
def test_each_card_has_links_to_save_its_paper_and_to_get_fewer_like_it(
    digest: Digest, site: Site, templates: Templates
) -> None:
    made = pressed(site, templates)
    copy = copy_for(filters=FILTERS, paper_token=TOKEN)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    for paper in digest.papers:
        for label, start in (("Save", SAVE), ("Less like this", LESS)):
            assert len(re.findall(rf'href="{re.escape(start)}/{paper}"[^>]*>{label}</a>', letter.html)) == 1
            assert start not in letter.text
    assert "#cite" not in letter.html


@pytest.mark.parametrize(
    ("domain", "line"),
    [
        ("example.org", "Or with a paper’s number: save 1, less 1 (fewer like it), why 1."),
        ("", "The HTML part has links to save a paper or get fewer like it."),
    ],
    ids=["commands", "no commands"],
)
def test_the_text_of_a_letter_has_one_line_on_saving_papers(
    domain: str, line: str, site: Site, templates: Templates
) -> None:
    of_domain = replace(site, inbound_domain=domain)
    made, copy = pressed(of_domain, templates), copy_for(paper_token=TOKEN)

    letter, without_links = (
        LetterAssembler(made, of_domain).letter(trending(11, 12), one) for one in (copy, copy_for())
    )

    assert letter == press.reference_rendering(templates, made, of_domain, trending(11, 12), copy)
    assert letter.text.count(line) == 1
    assert ("save 1, less 1" in letter.html) == bool(domain)
    assert "save" not in without_links.text + without_links.html


def test_a_digest_of_titles_has_no_links_to_save_papers(site: Site, templates: Templates) -> None:
    digest = structs.replace(trending(11, 12, 13), abstracts="titles")
    made, copy = pressed(site, templates), copy_for(paper_token=TOKEN)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    assert SAVE not in letter.html + letter.text


def test_the_headline_above_several_topics_counts_the_papers(site: Site, templates: Templates) -> None:
    digest = by_topic(("Flows", 1, (11,)), ("Robots", 1, (12,)))

    letter = LetterAssembler(pressed(site, templates), site).letter(digest, copy_for(filters=FILTERS))

    assert headings(letter.html) == [
        ("h1", "Friday in 2 papers"), ("h2", "Flows"), ("h3", FLOW.title), ("h2", "Robots"), ("h3", ROBOTS.title),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("edition", "papers", "is_listed"),
    [
        ("weekly-2026-W47", 16, True),
        ("monthly-2026-11", 16, True),
        ("weekly-2026-W47", 15, False),
        ("daily-2026-11-20", 16, False),
    ],
)
def test_a_weekly_or_monthly_digest_of_more_than_fifteen_papers_begins_with_its_titles(
    edition: str, papers: int, is_listed: bool, site: Site, templates: Templates
) -> None:
    batch, digest = wide(1, papers)
    made = pressed(site, templates, batch)
    copy = copy_for(edition=edition)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    listed = re.findall(r'<li value="(\d+)"[^>]*><a [^>]*href="([^"]*)"[^>]*>([^<]*)</a></li>', letter.html)
    assert [(number, title) for number, _, title in listed] == [
        (str(paper.id), paper.title) for paper in batch if is_listed
    ]
    of_cards = re.findall(r'<h3[^>]*><a [^>]*href="([^"]*)"', letter.html)
    assert [href for _, href, _ in listed] == (of_cards if is_listed else [])
    in_text = [line for line in letter.text.splitlines() if re.match(r"\d+\. Paper", line)]
    assert len(in_text) == len(listed)


@pytest.mark.parametrize(
    ("topics", "listed", "more"),
    [
        ((20,), [*range(1, 21)], []),
        ((60,), [*range(1, 21)], ["Numbers 21 to 60 are below."]),
        (
            (35, 25),
            [*range(1, 11), *range(36, 46)],
            ["Numbers 11 to 35 are below.", "Numbers 46 to 60 are below."],
        ),
        ((11, 25), [*range(1, 12), *range(12, 22)], ["Numbers 22 to 36 are below."]),
        ((2,) * 21, [*range(1, 43)], []),
    ],
)
def test_a_long_list_of_titles_names_the_first_of_each_topic_and_the_numbers_of_the_others(
    topics: tuple[int, ...], listed: list[int], more: list[str], site: Site, templates: Templates
) -> None:
    batch, _ = wide(1, sum(topics))
    ids, sections = iter([paper.id for paper in batch]), []
    for place, papers in enumerate(topics):
        shown = tuple(next(ids) for _ in range(papers))
        sections.append(Section(topic=f"Topic {place}", filter_id=1, papers=shown, more=0))
    digest, copy = Digest(sections=tuple(sections), checked=412), copy_for(edition="weekly-2026-W47")
    made = pressed(site, templates, batch)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    assert [int(number) for number in re.findall(r'<li value="(\d+)"', letter.html)] == listed
    below = r"Numbers \d+ to \d+ are below\."
    assert re.findall(below, letter.html) == re.findall(below, letter.text) == more
    assert len(re.findall('<a class="topic"', letter.html)) == (len(topics) if len(topics) > 1 else 0)


def test_a_long_topic_is_wrapped_in_plain_text(site: Site, templates: Templates) -> None:
    topic = "Retrieval-augmented generation for long clinical documents in low-resource languages"
    digest, copy = by_topic((topic, 1, (11,)), ("Robots", 2, (12,))), copy_for()
    made = pressed(site, templates)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    wrapped = topic.replace(" low-", "\nlow-")
    assert f"\n{wrapped}\n{'-' * wrapped.index(chr(10))}\n" in letter.text


@pytest.mark.parametrize("length", [40, 54, 55, 60, 69, 72, 73])
@pytest.mark.parametrize("word", ["flow ", "流"])
def test_a_topic_and_its_number_of_matches_fit_a_line_of_plain_text(
    length: int, word: str, site: Site, templates: Templates
) -> None:
    topic = (word * 72)[:length].strip()
    digest = Digest(sections=(Section(topic=topic, filter_id=1, papers=(11,), more=1000), Section(topic="Robots", filter_id=2, papers=(12,))), checked=412)  # fmt: skip
    made, copy = pressed(site, templates), copy_for()

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    lines = letter.text.splitlines()
    (end,) = (at for at, line in enumerate(lines) if "(1 of 1001 matches)" in line)
    heading = lines[lines.index("", end - 3) + 1 : end + 1]
    assert "".join(heading).replace(" ", "") == f"{topic}(1of1001matches)".replace(" ", "")
    assert max(map(columns, heading)) == len(lines[end + 1]) <= 72


def test_a_digest_of_titles_does_not_list_them_twice(site: Site, templates: Templates) -> None:
    batch, digest = wide(1, 20)
    only_titles = structs.replace(digest, abstracts="titles")

    letter = LetterAssembler(pressed(site, templates, batch), site).letter(
        only_titles, copy_for(edition="weekly-2026-W47")
    )

    assert "<ol" not in letter.html


def test_a_topic_that_was_cut_says_how_many_of_its_matches_are_shown(
    site: Site, templates: Templates
) -> None:
    digest = Digest(
        sections=(
            Section(topic="Flows", filter_id=1, papers=(11, 12), more=10),
            Section(topic="Robots", filter_id=1, papers=(13,)),
            Section(topic="Trending", filter_id=None, papers=(14,), more=7),
        ),
        checked=412,
    )
    made, copy = pressed(site, templates), copy_for(filters=FILTERS)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(templates, made, site, digest, copy)
    assert [text for level, text in headings(letter.html) if level == "h2"] == [
        "Flows 2 of 12 matches", "Robots", "Trending",
    ]  # fmt: skip
    assert "Flows (2 of 12 matches)\n-----------------------\n" in letter.text
    assert "10 more papers matched" in letter.text
    assert "7 more trending papers" in letter.text


@pytest.mark.parametrize("edition", ["daily-2026-11-20", "weekly-2026-W47", "monthly-2026-11"])
@pytest.mark.parametrize("is_catch_up", [False, True])
@pytest.mark.parametrize("papers", [(11,), (11, 12, 13)], ids=["one paper", "three papers"])
def test_the_subject_and_the_preheader_together_name_the_first_paper(
    edition: str, is_catch_up: bool, papers: tuple[int, ...], site: Site, templates: Templates
) -> None:
    digest = structs.replace(trending(*papers), is_catch_up=is_catch_up, matched=40)

    page = LetterAssembler(pressed(site, templates), site).page(digest, copy_for(edition=edition))

    assert f"{page.subject} {page.preheader}".count(FLOW.title) == 1


def test_a_digest_of_invented_papers_says_so_and_no_other_does(site: Site, templates: Templates) -> None:
    batch = [replace(FLOW, is_sample=True), ROBOTS]
    of_batch = pressed(site, templates, batch)
    said = "Sample: these papers are invented."

    with_sample, without = (
        LetterAssembler(of_batch, site).letter(trending(paper.id), copy_for()) for paper in batch
    )

    assert said in with_sample.html
    assert said in with_sample.text
    assert "invented" not in without.html + without.text


def test_a_letter_of_real_dumps_equals_premailers_output(site: Site, templates: Templates, shared) -> None:
    import json

    rows = [
        json.loads(line)
        for path in sorted((shared / "seeds").glob("*.truth.jsonl"))
        for line in path.read_text().splitlines()
    ]
    batch = [
        Paper(
            id=n, title=row["title"], abstract=row["abstract"], n_authors=row["n_authors"], first_seen_at=NOW
        )
        for n, row in enumerate(rows, start=1)
    ]
    made = pressed(site, templates, batch)
    for start in range(1, len(batch) - 10, 20):
        digest = by_topic(("Everything", 1, tuple(range(start, start + 10))))
        copy = copy_for(filters={1: "model* OR data OR learn*"})

        assert LetterAssembler(made, site).letter(digest, copy) == press.reference_rendering(
            templates, made, site, digest, copy
        )


# ── as `email` would have it ────────────────────────────────────────────────────────────────────


def test_the_message_reads_as_one_that_the_standard_library_builds(site: Site, templates: Templates) -> None:
    made = pressed(site, templates, p11="+42 votes since yesterday")
    digest = by_topic(("Flows & more", 1, (11, 14)), ("Other things", None, (12, 13)))
    copy = copy_for(filters={1: "flow OR paper"})
    letter = LetterAssembler(made, site).letter(digest, copy)
    built = EmailMessage()
    built.set_content(letter.text, cte="quoted-printable")
    built.add_alternative(letter.html, subtype="html", cte="quoted-printable")

    built = message_from_bytes(built.as_bytes(policy=policy.SMTP), policy=policy.default)
    parsed = message_from_bytes(LetterAssembler(made, site).message(digest, copy), policy=policy.default)

    assert [part.get_content_type() for part in parsed.walk()] == [
        part.get_content_type() for part in built.walk()
    ]
    assert [part.get_content() for part in parsed.iter_parts()] == [
        part.get_content() for part in built.iter_parts()
    ]
    assert [part.defects for part in parsed.walk()] == [[], [], []]


def test_the_joined_message_decodes_to_the_plainly_built_one(site: Site, templates: Templates) -> None:
    made = pressed(site, templates, [replace(FLOW, title="Müller's 100% sure title %(to)s"), ROBOTS])
    digest, copy = trending(11, 12), copy_for(message_id="<7@example.org>")
    joined = LetterAssembler(made, site).message(digest, copy)
    plain = build_message(
        LetterAssembler(made, site).letter(digest, copy),
        site=site,
        recipient=copy.recipient,
        message_id="<7@example.org>",
        dated_at=copy.dated_at,
        headers=list_headers(
            site, copy.unsubscribe_url, unsubscribe_address=copy.unsubscribe_address, campaign=copy.edition
        ),
    )

    assert joined.partition(b"\r\n\r\n")[0] == plain.partition(b"\r\n\r\n")[0]
    assert bodies(joined) == bodies(plain)


def bodies(raw: bytes) -> list[str]:
    """Return the text and the HTML of a message."""
    parsed = message_from_bytes(raw, policy=policy.default)
    return [part.get_content() for part in parsed.iter_parts()]


# ── the same everywhere ─────────────────────────────────────────────────────────────────────────


def test_another_machine_makes_the_same_bytes_from_the_stored_press(site: Site, templates: Templates) -> None:
    made = pressed(site, templates)
    digest, copy = trending(11, 12, 13, 14), copy_for()

    elsewhere = press.from_bytes(press.to_bytes(made), name=made.name)

    assert elsewhere == made
    assert LetterAssembler(elsewhere, site).message(digest, copy) == LetterAssembler(made, site).message(
        digest, copy
    )


def test_the_same_moment_in_another_zone_makes_the_same_bytes(site: Site, templates: Templates) -> None:
    from zoneinfo import ZoneInfo

    made = pressed(site, templates)
    elsewhere = copy_for(dated_at=NOW.astimezone(ZoneInfo("Asia/Tokyo")))

    assert LetterAssembler(made, site).message(trending(11), elsewhere) == LetterAssembler(
        made, site
    ).message(trending(11), copy_for())


def test_a_press_is_named_by_its_content(site: Site, templates: Templates) -> None:
    made = pressed(site, templates)

    assert made.name == pressed(site, templates).name
    assert made.name != replace(made, as_of=datetime(2026, 11, 21, tzinfo=UTC)).name
    assert made.name != pressed(replace(site, postal_address="Elsewhere"), templates).name


def test_a_paper_is_unchanged_by_a_round_trip_through_the_stored_press(
    site: Site, templates: Templates
) -> None:
    back = press.from_bytes(press.to_bytes(pressed(site, templates)))

    assert back.papers == PAPERS
    assert dict(back.rank_of_paper) == {FLOW.id: 0, ROBOTS.id: 1, ATTENTION.id: 2, BARE.id: 3}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no press", "damaged"),
        (zlib.compress(b"[1, 2"), "damaged"),
        (zlib.compress(b"[1, 2]"), "damaged"),
        (zlib.compress(b'{"layout":0}'), "format 0"),
        (zlib.compress(b'{"layout":1}'), "damaged"),
    ],
    ids=["not compressed", "not JSON", "not an object", "of another release", "half of it missing"],
)
def test_an_unreadable_press_is_reported_in_one_sentence(content: bytes, complaint: str) -> None:
    with pytest.raises(SetupMismatch, match=complaint):
        press.from_bytes(content)


def test_a_press_stored_under_another_name_is_refused(site: Site, templates: Templates) -> None:
    with pytest.raises(SetupMismatch, match="is not the one named"):
        press.from_bytes(press.to_bytes(pressed(site, templates)), name="0" * 64)


def test_only_the_reason_line_of_a_card_depends_on_the_filter(site: Site, templates: Templates) -> None:
    cards = LetterAssembler(pressed(site, templates), site).sections.cards

    found = [
        cards.card(FLOW.id, canonical, CardForm.FULL)
        for canonical in ("flow", "flow OR zebras", "abstract:flow", None)
    ]

    reasons = [card.html[card_pieces.REASON_PIECE] for card in found]
    assert len({card.with_reason(b"", b"") for card in found}) == 1
    assert len({*reasons}) == 3
    assert reasons[0] == reasons[1]


def test_no_letter_marks_the_words_that_matched(site: Site, templates: Templates) -> None:
    digest = by_topic(("Flows", 1, (11, 12, 13)))

    letter = LetterAssembler(pressed(site, templates), site).letter(
        digest, copy_for(filters={1: "flow OR robot*"})
    )

    assert "mark" not in letter.html
    assert "FBE7A6" not in letter.html


# ── a budget of bytes ───────────────────────────────────────────────────────────────────────────


def long_paper(number: int) -> Paper:
    """Return a paper that fills its card, with three sentences of the maximum length."""
    sentence = (
        f"We measure number {number} with great care and find that it is larger than anybody thought it was"
    )
    return replace(
        FLOW,
        id=number,
        title=f"Paper {number}: {'long ' * 12}title",
        abstract=". ".join([sentence] * 3) + ".",
    )


def wide(topics: int, each: int) -> tuple[list[Paper], Digest]:
    """Return a digest of so many topics with so many papers each."""
    batch = [long_paper(number) for number in range(1, topics * each + 1)]
    ids = [tuple(range(1 + topic * each, 1 + (topic + 1) * each)) for topic in range(topics)]
    return batch, by_topic(*((f"Topic number {place}", None, part) for place, part in enumerate(ids)))


@pytest.mark.parametrize(("topics", "each"), [(1, 10), (4, 60)], ids=str)
def test_every_link_of_a_shortened_digest_is_in_its_text(
    topics: int, each: int, site: Site, templates: Templates
) -> None:
    batch, digest = wide(topics, each)

    letter = LetterAssembler(pressed(site, templates, batch), site).letter(digest, copy_for())

    assert set(re.findall(r'href="(https?://[^"]+)"', letter.html)) <= set(letter.text.split())


@pytest.mark.parametrize(("topics", "each"), [(1, 10), (1, 60), (4, 60), (40, 3), (200, 1)], ids=str)
def test_any_digest_stays_below_the_size_at_which_gmail_clips(
    topics: int, each: int, site: Site, templates: Templates
) -> None:
    batch, digest = wide(topics, each)
    made, copy = pressed(site, templates, batch), copy_for(paper_token=TOKEN)

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert len(letter.html.encode()) <= 90_000
    assert copy.unsubscribe_url in letter.html
    assert letter == press.reference_rendering(templates, made, site, digest, copy)


@pytest.mark.parametrize(("abstracts", "shown"), [("titles", 0), ("short", 30), ("full", 30)])
def test_a_digest_with_whole_abstracts_or_none_stays_below_that_size_too(
    abstracts: str, shown: int, site: Site, templates: Templates
) -> None:
    batch, digest = wide(1, 30)
    batch = [replace(paper, abstract=" ".join([paper.abstract] * 5)) for paper in batch]
    made, copy = pressed(site, templates, batch), copy_for()

    letter = LetterAssembler(made, site).letter(structs.replace(digest, abstracts=abstracts), copy)

    assert len(letter.html.encode()) <= 90_000
    assert letter.html.count("<h3") == 29  # the first title is the headline
    assert shown <= letter.html.count("We measure number") <= shown * 15
    assert (batch[0].abstract in letter.html) == (abstracts == "full")
    assert letter == press.reference_rendering(
        templates, made, site, structs.replace(digest, abstracts=abstracts), copy
    )


def test_every_topic_of_a_digest_that_is_too_long_is_shortened_alike(
    site: Site, templates: Templates
) -> None:
    batch, digest = wide(4, 60)

    shown = LetterAssembler(pressed(site, templates, batch), site).page(digest, copy_for())

    shown_of_each = [len(section.cards) for section in shown.sections]
    assert max(shown_of_each) - min(shown_of_each) <= 1
    assert [f"{60 - n} more papers matched" for n in shown_of_each] == [
        section.more for section in shown.sections
    ]


@pytest.mark.parametrize(("topics", "each"), [(1, 10), (1, 60), (4, 60), (40, 3), (200, 1)], ids=str)
def test_a_fitted_digest_keeps_only_the_papers_in_its_letter(
    topics: int, each: int, site: Site, templates: Templates
) -> None:
    batch, digest = wide(topics, each)
    made, copy = pressed(site, templates, batch), copy_for()

    kept = LetterAssembler(made, site).fit(digest, copy.filters, copy.edition)

    shown = LetterAssembler(made, site).page(kept, copy)
    in_sections = sum(len(section.cards) for section in shown.sections)
    assert in_sections + bool(shown.lead) == len(kept.papers) > 0
    assert len(kept.papers) + sum(section.more for section in kept.sections) == topics * each
    assert LetterAssembler(made, site).letter(kept, copy) == LetterAssembler(made, site).letter(digest, copy)


def test_abstracts_are_dropped_before_papers(site: Site, templates: Templates) -> None:
    batch, digest = wide(2, 36)

    cards = [one.card for section in LetterAssembler(pressed(site, templates, batch), site).page(digest, copy_for()).sections
             for one in section.cards]  # fmt: skip

    assert len(cards) == 72
    assert (bool(cards[0].abstract), cards[35].abstract) == (True, "")
    assert all(card.title for card in cards)


# ── an operator's own digest letter ─────────────────────────────────────────────────────────────

LEAD = """{% if lead %}
{% part lead %}
<div class="section lead">
{{ card(lead.card, lead.number) -}}
</div>
{% endpart %}
{% endif %}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{{ headline }}", "Guten Morgen! {{ headline }}"),
        ("{{ preheader }}", "{{ preheader }}"),
        ('<p class="soft byline">{{ checked }}</p>', ""),
        (LEAD, ""),
    ],
    ids=["more said", "as it was", "less said", "no first card before the sections"],
)
def test_an_overridden_digest_template_is_split_and_joined_like_the_original(
    old: str, new: str, site: Site, templates: Templates, tmp_path: Path
) -> None:
    theirs = overridden(templates, tmp_path, old, new)
    made = pressed(site, theirs)

    letter = LetterAssembler(made, site).letter(trending(11, 12), copy_for())

    assert letter == press.reference_rendering(theirs, made, site, trending(11, 12), copy_for())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("{{ headline }}", "{{ headline|upper }}", "cannot be split"),
        ("{{ headline }}", "{{ headlines }}", "headlines"),
        ("{{ headline }}", "{{ headline", r"body\.html, line \d+"),
        ("{{ headline }}", "{% if sections|length > 1 %}Many{% endif %}{{ headline }}", "cannot be split"),
    ],
    ids=["a value changed", "an unknown value", "a mistake", "a choice by content"],
)
def test_a_template_that_cannot_be_split_is_refused_when_the_press_is_made(
    old: str, new: str, complaint: str, site: Site, templates: Templates, tmp_path: Path
) -> None:
    with pytest.raises(SetupMismatch, match=complaint):
        pressed(site, overridden(templates, tmp_path, old, new))


TITLE_LINE = '<h3 dir="auto"><a class="title" href="{{ paper.href }}">{{ paper.title }}</a></h3>'
REASON = "{{ paper.why.before }}{% if paper.why.word %}{% part bold %}<b>{{ paper.why.word }}</b>{% endpart %}{% endif %}{{ paper.why.after }}"
WHY_LINE = f'<p class="why">{REASON}</p>'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{% if paper.links %}", f"{TITLE_LINE}\n{{% if paper.links %}}"),
        (WHY_LINE, f'{WHY_LINE}<p class="soft">100% {REASON}</p>'),
        (WHY_LINE, '<p class="why">Why? As ever.</p>'),
    ],
    ids=["the title at the end", "the reason twice", "no reason"],
)
def test_an_overridden_card_may_have_its_parts_in_any_order(
    old: str, new: str, site: Site, templates: Templates, tmp_path: Path
) -> None:
    card = (templates.directory / "_card.html").read_text()
    without_title = card.replace(TITLE_LINE, "") if TITLE_LINE in new else card
    (tmp_path / "_card.html").write_text(without_title.replace(old, new))
    theirs = Templates(templates.directory, tmp_path)
    made = pressed(site, theirs)
    digest = by_topic(("Flows", 1, (11, 12, 13)), ("Others", None, (14,)))
    copy = copy_for(filters={1: "flow OR robot* OR attention"})

    letter = LetterAssembler(made, site).letter(digest, copy)

    assert letter == press.reference_rendering(theirs, made, site, digest, copy)


def overridden(templates: Templates, folder: Path, old: str, new: str) -> Templates:
    """Return templates with a changed digest body."""
    path = folder / "letters/digest/body.html"
    path.parent.mkdir(parents=True)
    original = (templates.directory / "letters/digest/body.html").read_text()
    path.write_text(original.replace(old, new))
    return Templates(templates.directory, folder)


@pytest.mark.parametrize(
    ("matched", "headline"),
    [(212, "While you were away: the top 2 of 212 papers"), (2, FLOW.title)],
    ids=["more than fit", "all of them"],
)
def test_a_catch_up_says_how_many_matched_only_if_not_all_are_shown(
    matched: int, headline: str, site: Site, templates: Templates
) -> None:
    digest = structs.replace(trending(FLOW.id, ROBOTS.id), is_catch_up=True, matched=matched)

    page = LetterAssembler(pressed(site, templates), site).page(digest, copy_for())

    assert page.headline == headline


def test_a_reader_who_may_have_stopped_reading_is_asked_but_no_group(
    site: Site, templates: Templates
) -> None:
    assembler = LetterAssembler(pressed(site, templates), site)
    digest = structs.replace(trending(FLOW.id), asks_still_reading=True)

    page = assembler.page(digest, copy_for())

    assert page.offer == figures_in_words.still_reading_question()
    assert page.offer_url == copy_for().manage_url
    assert assembler.page(trending(FLOW.id), copy_for()).offer == ""
    assert assembler.page(digest, copy_for(is_group=True)).offer == ""


def test_a_personal_link_may_stand_above_the_reason_line() -> None:
    card = f"{card_pieces.NUMBER} Save {card_pieces.TOKEN}, because {card_pieces.REASON}."

    pieces = b"".join(card_pieces.split_card(card))

    filled = pieces.replace(card_pieces.TOKEN_MARK, encode_quoted_printable("key.7-0.abc"))
    assert decode_quoted_printable(filled) == " Save key.7-0.abc, because ."
