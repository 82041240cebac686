"""The press makes the same letters as the reference rendering, with the same bytes every time."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from hypothesis import settings
from msgspec import structs

from digest.editions.compose import MAX_PAPERS, Digest, Section
from digest.errors import SetupMismatch
from digest.letters.headers import WORD_JOINER, list_headers
from digest.letters.line_wrapping import columns
from digest.letters.mime import build_message
from digest.letters.press import press_value
from digest.letters.press.digest_page import heading
from digest.letters.press.load_templates import plain_letter
from digest.letters.templates import Templates
from digest.papers.paper_record import Paper
from digest.site.site_profile import Site
from tests.letters.invented_papers import (
    ATTENTION,
    BARE,
    FLOW,
    NOW,
    PAPERS,
    ROBOTS,
    by_topic,
    copy_for,
    letters_of,
    pressed,
    trending,
)
from tests.letters.ten_papers import letter_of_ten
from tests.letters.varied_digests import varied_digests

# ── as premailer would have it ──────────────────────────────────────────────────────────────────

TOKEN = "key.7-0.abc"
SAVE, LESS = f"https://digest.example.org/s/{TOKEN}", f"https://digest.example.org/l/{TOKEN}"
FILTERS = {1: "flow OR robot*", 2: "a", 3: "title:word OR abstract:script"}


def test_varied_digests_are_what_jinja_premailer_and_quoted_printable_make(
    site: Site, templates: Templates
) -> None:
    """500 digests in `make test-all`: premailer takes long for each."""
    for number, varied in enumerate(varied_digests(settings().max_examples)):
        made = letters_of(varied.press, site, templates)
        digest, copy = varied.digest, varied.copy
        text, html = bodies(made.message(digest, copy))
        whole = plain_letter(templates, made, digest, copy)
        plain = EmailMessage()
        plain.set_content(whole.text, cte="quoted-printable")
        plain.add_alternative(whole.html, subtype="html", cte="quoted-printable")
        assert [text, html] == bodies(plain.as_bytes(policy=policy.SMTP)), number
        assert len(html.encode()) <= 90_000, number


def test_the_contents_name_every_topic_with_its_number_of_papers(site: Site, templates: Templates) -> None:
    topics = ("Flows", "Robots", "Vision", "Speech", "A topic whose name is longer than any line of a phone")
    batch = [replace(FLOW, id=number) for number in range(1, len(topics) + 1)]
    digest = by_topic(*((topic, 1, (number,)) for number, topic in enumerate(topics, start=1)))
    made = pressed(batch)
    copy = copy_for(filters=FILTERS)

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
    parts = re.findall(r'<a [^>]*href="#(top|t\d)"[^>]*>([^<]*)\xa0<span[^>]*>(\d)</span></a>', letter.html)
    assert parts == [
        ("top" if number == 1 else f"t{number}", topic, "1") for number, topic in enumerate(topics, start=1)
    ]
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
    made = pressed()
    copy = copy_for(filters=FILTERS)

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
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
    made = pressed()
    copy = copy_for(filters=FILTERS, paper_token=TOKEN)

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
    for paper in digest.papers:
        for label, start in (("Save", SAVE), ("Less like this", LESS)):
            assert len(re.findall(rf'href="{re.escape(start)}/{paper}"[^>]*>{label}</a>', letter.html)) == 1
            assert start not in letter.text
    assert "#cite" not in letter.html


@pytest.mark.parametrize(
    ("domain", "line"),
    [
        (
            "example.org",
            "Or reply “less 3”: Show fewer papers like number 3. “save 3” and “why 3” work, too.",
        ),
        ("", "To save a paper, open this digest in a browser."),
    ],
    ids=["commands", "no commands"],
)
def test_the_text_of_a_letter_has_one_line_on_saving_papers(
    domain: str, line: str, site: Site, templates: Templates
) -> None:
    of_domain = replace(site, inbound_domain=domain)
    made, copy = pressed(), copy_for(paper_token=TOKEN)

    letter, without_links = (
        letters_of(made, of_domain, templates).letter(trending(11, 12), one) for one in (copy, copy_for())
    )

    assert letter == plain_letter(templates, letters_of(made, of_domain, templates), trending(11, 12), copy)
    assert " ".join(letter.text.split()).count(line) == 1
    assert ("less 3" in letter.html) == bool(domain)
    assert "save" not in without_links.text + without_links.html


def test_a_digest_of_titles_has_the_same_links(site: Site, templates: Templates) -> None:
    digest = structs.replace(trending(11, 12, 13), abstracts="titles")
    made, copy = letters_of(pressed(), site, templates), copy_for(paper_token=TOKEN)

    letter = made.letter(digest, copy)

    assert letter == plain_letter(templates, made, digest, copy)
    assert letter.html.count(SAVE) == 3
    assert SAVE not in letter.text


def test_the_best_paper_is_the_headline_above_several_topics_and_the_counts_stand_above_it(
    site: Site, templates: Templates
) -> None:
    digest = by_topic(("Flows", 1, (11, 13)), ("Robots", 1, (12,)))

    letter = letters_of(pressed(), site, templates).letter(digest, copy_for(filters=FILTERS))

    assert headings(letter.html) == [
        ("h1", FLOW.title), ("h2", "Flows"), ("h3", ATTENTION.title), ("h2", "Robots"), ("h3", ROBOTS.title),
    ]  # fmt: skip
    assert "3 of 412 new papers · 1 minute</p>\n<h1" in letter.html


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
    made = pressed(batch)
    copy = copy_for(edition=edition)

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
    listed = re.findall(r'<li value="(\d+)"[^>]*><a href="([^"]*)"[^>]*>([^<]*)</a></li>', letter.html)
    assert [(number, title) for number, _, title in listed] == [
        (str(paper.id), paper.title) for paper in batch if is_listed
    ]
    of_cards = re.findall(r'<h[13][^>]*><a [^>]*href="([^"]*)"', letter.html)
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
    made = pressed(batch)

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
    assert [int(number) for number in re.findall(r'<li value="(\d+)"', letter.html)] == listed
    below = r"Numbers \d+ to \d+ are below\."
    assert re.findall(below, letter.html) == re.findall(below, letter.text) == more
    assert len(re.findall('<a class="topic"', letter.html)) == (len(topics) if len(topics) > 1 else 0)


def test_a_long_topic_is_wrapped_in_plain_text(site: Site, templates: Templates) -> None:
    topic = "Retrieval-augmented generation for long clinical documents in low-resource languages"
    digest, copy = by_topic((topic, 1, (11, 13)), ("Robots", 2, (12,))), copy_for()
    made = pressed()

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
    wrapped = topic.replace(" low-", "\nlow-")
    assert f"\n{wrapped}\n{'-' * wrapped.index(chr(10))}\n" in letter.text


@pytest.mark.parametrize("length", [40, 54, 55, 60, 69, 72, 73])
@pytest.mark.parametrize("word", ["flow ", "流"])
def test_a_topic_and_its_number_of_matches_fit_a_line_of_plain_text(
    length: int, word: str, site: Site, templates: Templates
) -> None:
    topic = (word * 72)[:length].strip()
    digest = Digest(sections=(Section(topic=topic, filter_id=1, papers=(11, 13), more=1000), Section(topic="Robots", filter_id=2, papers=(12,))), checked=412)  # fmt: skip
    made, copy = pressed(), copy_for()

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
    lines = letter.text.splitlines()
    (end,) = (at for at, line in enumerate(lines) if "(1 of 1,001 matches)" in line)
    heading = lines[lines.index("", end - 3) + 1 : end + 1]
    assert "".join(heading).replace(" ", "") == f"{topic}(1of1,001matches)".replace(" ", "")
    assert max(map(columns, heading)) == len(lines[end + 1]) <= 72


def test_a_digest_of_titles_does_not_list_them_twice(site: Site, templates: Templates) -> None:
    batch, digest = wide(1, 20)
    only_titles = structs.replace(digest, abstracts="titles")

    letter = letters_of(pressed(batch), site, templates).letter(
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
    made, copy = pressed(), copy_for(filters=FILTERS)

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)
    assert [text for level, text in headings(letter.html) if level == "h2"] == [
        "Flows 1 of 11 matches", "Robots", "Trending",
    ]  # fmt: skip
    assert "Flows (1 of 11 matches)\n-----------------------\n" in letter.text
    assert "10 more papers matched" in letter.text
    assert "7 more trending papers" in letter.text


@pytest.mark.parametrize("edition", ["daily-2026-11-20", "weekly-2026-W47", "monthly-2026-11"])
@pytest.mark.parametrize("is_catch_up", [False, True])
@pytest.mark.parametrize("papers", [(11,), (11, 12, 13)], ids=["one paper", "three papers"])
def test_the_subject_and_the_preheader_together_name_the_first_paper(
    edition: str, is_catch_up: bool, papers: tuple[int, ...], site: Site, templates: Templates
) -> None:
    digest = structs.replace(trending(*papers), is_catch_up=is_catch_up, matched=40)

    page = letters_of(pressed(), site, templates).plain_values(digest, copy_for(edition=edition))

    assert f"{page['subject']} {page['preheader']}".count(FLOW.title) == 1


def test_a_digest_of_invented_papers_says_so_and_no_other_does(site: Site, templates: Templates) -> None:
    batch = [replace(FLOW, is_sample=True), ROBOTS]
    of_batch = pressed(batch)
    said = "Sample: these papers are invented."

    with_sample, without = (
        letters_of(of_batch, site, templates).letter(trending(paper.id), copy_for()) for paper in batch
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
    made = pressed(batch)
    for start in range(1, len(batch) - 10, 20):
        digest = by_topic(("Everything", 1, tuple(range(start, start + 10))))
        copy = copy_for(filters={1: "model* OR data OR learn*"})

        assert letters_of(made, site, templates).letter(digest, copy) == plain_letter(
            templates, letters_of(made, site, templates), digest, copy
        )


# ── as `email` would have it ────────────────────────────────────────────────────────────────────


def test_the_message_reads_as_one_that_the_standard_library_builds(site: Site, templates: Templates) -> None:
    made = pressed(p11="+42 votes since yesterday")
    digest = by_topic(("Flows & more", 1, (11, 14)), ("Other things", None, (12, 13)))
    copy = copy_for(filters={1: "flow OR paper"})
    letter = letters_of(made, site, templates).letter(digest, copy)
    built = EmailMessage()
    built.set_content(letter.text, cte="quoted-printable")
    built.add_alternative(letter.html, subtype="html", cte="quoted-printable")

    built = message_from_bytes(built.as_bytes(policy=policy.SMTP), policy=policy.default)
    parsed = message_from_bytes(
        letters_of(made, site, templates).message(digest, copy), policy=policy.default
    )

    assert [part.get_content_type() for part in parsed.walk()] == [
        part.get_content_type() for part in built.walk()
    ]
    assert [part.get_content() for part in parsed.iter_parts()] == [
        part.get_content() for part in built.iter_parts()
    ]
    assert [part.defects for part in parsed.walk()] == [[], [], []]


def test_the_joined_message_decodes_to_the_plainly_built_one(site: Site, templates: Templates) -> None:
    made = pressed([replace(FLOW, title="Müller's 100% sure title %(to)s"), ROBOTS])
    digest, copy = trending(11, 12), copy_for(message_id="<7@example.org>")
    joined = letters_of(made, site, templates).message(digest, copy)
    plain = build_message(
        letters_of(made, site, templates).letter(digest, copy),
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
    made = pressed()
    digest, copy = trending(11, 12, 13, 14), copy_for()

    elsewhere = press_value.from_bytes(press_value.to_bytes(made), name=made.name)

    assert elsewhere == made
    assert letters_of(elsewhere, site, templates).message(digest, copy) == letters_of(
        made, site, templates
    ).message(digest, copy)


def test_the_same_moment_in_another_zone_makes_the_same_bytes(site: Site, templates: Templates) -> None:
    from zoneinfo import ZoneInfo

    made = pressed()
    elsewhere = copy_for(dated_at=NOW.astimezone(ZoneInfo("Asia/Tokyo")))

    assert letters_of(made, site, templates).message(trending(11), elsewhere) == letters_of(
        made, site, templates
    ).message(trending(11), copy_for())


def test_a_press_is_named_by_its_content(site: Site, templates: Templates) -> None:
    made = pressed()

    assert made.name == pressed().name
    assert made.name != replace(made, as_of=datetime(2026, 11, 21, tzinfo=UTC)).name
    assert made.name != replace(made, made_for="another site or other templates").name


def test_a_paper_is_unchanged_by_a_round_trip_through_the_stored_press(
    site: Site, templates: Templates
) -> None:
    back = press_value.from_bytes(press_value.to_bytes(pressed()))

    assert back.papers == PAPERS
    assert dict(back.rank_of_paper) == {FLOW.id: 0, ROBOTS.id: 1, ATTENTION.id: 2, BARE.id: 3}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no press", "damaged"),
        (zlib.compress(b"[1, 2"), "damaged"),
        (zlib.compress(b"[1, 2]"), "damaged"),
        (zlib.compress(b'{"papers":[]}'), "of another release"),
    ],
    ids=["not compressed", "not JSON", "not an object", "half of it missing"],
)
def test_an_unreadable_press_is_reported_in_one_sentence(content: bytes, complaint: str) -> None:
    with pytest.raises(SetupMismatch, match=complaint):
        press_value.from_bytes(content)


def test_a_press_stored_under_another_name_is_refused(site: Site, templates: Templates) -> None:
    with pytest.raises(SetupMismatch, match="is not the one named"):
        press_value.from_bytes(press_value.to_bytes(pressed()), name="0" * 64)


def test_no_letter_marks_the_words_that_matched(site: Site, templates: Templates) -> None:
    digest = by_topic(("Flows", 1, (11, 12, 13)))

    letter = letters_of(pressed(), site, templates).letter(digest, copy_for(filters={1: "flow OR robot*"}))

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


@pytest.mark.parametrize(("topics", "each"), [(1, 10), (5, 10)], ids=str)
def test_every_link_of_a_shortened_digest_is_in_its_text(
    topics: int, each: int, site: Site, templates: Templates
) -> None:
    batch, digest = wide(topics, each)

    letter = letters_of(pressed(batch), site, templates).letter(digest, copy_for())

    assert set(re.findall(r'href="(https?://[^"]+)"', letter.html)) <= set(letter.text.split())


@pytest.mark.parametrize(("topics", "each"), [(1, 10), (1, 50), (5, 10), (50, 1)], ids=str)
def test_any_digest_stays_below_the_size_at_which_gmail_clips(
    topics: int, each: int, site: Site, templates: Templates
) -> None:
    batch, digest = wide(topics, each)
    made, copy = pressed(batch), copy_for(paper_token=TOKEN)

    letter = letters_of(made, site, templates).letter(digest, copy)

    assert len(letter.html.encode()) <= 90_000
    assert copy.unsubscribe_url in letter.html
    assert letter == plain_letter(templates, letters_of(made, site, templates), digest, copy)


def test_a_letter_of_ten_papers_takes_at_most_26_kilobytes(site: Site, templates: Templates) -> None:
    for domain in ("", "example.org"):  # without and with mail commands
        letters, digest, copy = letter_of_ten(replace(site, inbound_domain=domain), templates)

        assert len(letters.message(digest, copy)) <= 26_000, domain
        assert letters.letter(digest, copy) == plain_letter(templates, letters, digest, copy)


@pytest.mark.parametrize("topics", [1, 50])
def test_fifty_papers_fit_any_letter_whatever_their_titles_and_topics_are(
    topics: int, site: Site, templates: Templates
) -> None:
    """Gmail clips at 102 KB; a digest has at most fifty papers, so publishing need not render."""
    for sign in ("a ", "& ", "中", "𝔸", "&"):
        text, name = sign * 300, (sign * 80)[:80]
        batch = [
            replace(
                FLOW, id=number, title=text[:300], abstract=text * 4, categories=(text[:99],),
                urls=(f"https://github.com/{'x' * 180}",), ids={"doi": f"10.5555/{'x' * 170}"},
            )
            for number in range(1, MAX_PAPERS + 1)
        ]  # fmt: skip
        each = MAX_PAPERS // topics
        parts = [tuple(range(start, start + each)) for start in range(1, MAX_PAPERS + 1, each)]
        digest = Digest(
            sections=tuple(Section(name, 1, part, 37) for part in parts), checked=5000, silent=(name,) * 50
        )
        made = letters_of(pressed(batch, p1="40 upvotes since yesterday"), site, templates)
        copy = copy_for(paper_token="x" * 60, browser_url=f"https://example.org/{'x' * 180}", filters=FILTERS)

        html = made.letter(digest, copy).html

        assert len(html.encode()) <= 102_400, sign
        assert copy.unsubscribe_url in html


@pytest.mark.parametrize(("abstracts", "shown"), [("titles", 0), ("short", 30), ("full", 30)])
def test_a_digest_with_whole_abstracts_or_none_stays_below_that_size_too(
    abstracts: str, shown: int, site: Site, templates: Templates
) -> None:
    batch, digest = wide(1, 30)
    batch = [replace(paper, abstract=" ".join([paper.abstract] * 5)) for paper in batch]
    made, copy = pressed(batch), copy_for()

    letter = letters_of(made, site, templates).letter(structs.replace(digest, abstracts=abstracts), copy)

    assert len(letter.html.encode()) <= 90_000
    assert letter.html.count("<h3") == 29  # the first title is the headline
    assert shown <= letter.html.count("We measure number") <= shown * 15
    whole = letter.html.count("Whole abstract</a>")
    assert whole == (27 if abstracts == "full" else 0)  # the first three abstracts are whole
    assert letter == plain_letter(
        templates, letters_of(made, site, templates), structs.replace(digest, abstracts=abstracts), copy
    )


@pytest.mark.parametrize(
    ("matched", "headline"),
    [(212, "While you were away: the top 2 of 212 papers · 1 minute"), (2, "2 of 412 new papers · 1 minute")],
    ids=["more than fit", "all of them"],
)
def test_a_catch_up_says_how_many_matched_only_if_not_all_are_shown(
    matched: int, headline: str, site: Site, templates: Templates
) -> None:
    digest = structs.replace(trending(FLOW.id, ROBOTS.id), is_catch_up=True, matched=matched)

    page = letters_of(pressed(), site, templates).plain_values(digest, copy_for())

    assert (page["headline"], page["counts"]) == (FLOW.title, headline)


def test_a_reader_who_may_have_stopped_reading_is_asked_but_no_group(
    site: Site, templates: Templates
) -> None:
    digest = structs.replace(trending(FLOW.id), asks_still_reading=True)
    made = letters_of(pressed(), site, templates)

    page = made.plain_values(digest, copy_for())

    assert page["asks_still_reading"]
    assert not made.plain_values(trending(FLOW.id), copy_for())["asks_still_reading"]
    assert not made.plain_values(digest, copy_for(is_group=True))["asks_still_reading"]


def test_a_topic_without_a_name_is_named_in_words() -> None:
    named = {
        'diffusion OR "video model*"': "diffusion or video model",
        "like:library-0123456789ab": "papers like those in your library",
        "like:2401.01234 ANDNOT au:lind": "papers like 2401.01234 but not lind",
        "about:robots that ask": "robots that ask",
        "Like “Borrowed Light” and 2 more": "Like “Borrowed Light” and 2 more",
    }
    assert {raw: heading(raw).replace(WORD_JOINER, "") for raw in named} == named
