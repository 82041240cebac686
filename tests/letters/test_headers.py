"""Untrusted text cannot add a header, reverse a line or stack combining marks."""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta, timezone
from email import message_from_bytes, policy
from email.header import decode_header, make_header

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.letters.headers import (
    HARMLESS_TEXT,
    break_addresses,
    encode_header,
    from_address,
    header_text,
    list_headers,
    reply_headers,
)
from digest.letters.mime import RenderedLetter, build_message
from digest.site.site_profile import Site
from tests.letters.invented_papers import NOW

WORD_OF_EVIL = "=?utf-8?q?a=0ABcc:_x@example.com?="

VECTORS = {
    "line feed": "a\nBcc: x@example.com",
    "carriage return": "a\rBcc: x@example.com",
    "both": "a\r\n\r\n<script>",
    "nul": "a\x00b",
    "vertical tab and form feed": "a\x0b\x0cBcc: x",
    "next line": "a\x85Bcc: x",
    "line and paragraph separators": "a\u2028b\u2029Bcc: x",
    "encoded word": WORD_OF_EVIL,
    "encoded word in pieces": "=\u200b?utf-8?q?a=0ABcc:_x?=",
    "encoded word, base64": "=?utf-8?b?YQpCY2M6IHhAZXhhbXBsZS5jb20=?=",
    "encoded word behind a control": "=\x01?utf-8?q?a=0ABcc:_x?=",
    "lone surrogate": "a\ud800b",
    "bidi override": "invoice \u202egpj.exe",
    "bidi isolates": "\u2066a\u2069 \u200fb",
    "zalgo": "Z" + "\u0300\u0301\u0302\u0303\u0304" * 40 + "algo",
    "very long": "long " * 200_000,
    "long without spaces": "x" * 1_000_000,
    "tab": "a\tb",
    "folded": "a\r\n b",
    "emoji": "🧑🏽‍🔬 papers 🦜",
    "chinese": "中文标题" * 30,
    "hebrew": "שלום עולם",
    "quotes": 'say "hello" \\ <now>, (then)',
}  # fmt: skip


def subject_of(text: str, site: Site) -> str:
    """Return the subject that a mail program decodes from a message with that title."""
    letter = RenderedLetter(subject=text, text="text\n", html="<p>html</p>\n")
    raw = build_message(
        letter, site=site, recipient="alice@example.edu", message_id="<1@example.org>", dated_at=NOW
    )
    parsed = message_from_bytes(raw, policy=policy.compat32)
    head = raw.partition(b"\r\n\r\n")[0]

    assert parsed.keys() == ["From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type"]
    assert head.isascii()
    assert b"\r" not in head.replace(b"\r\n", b"")
    assert all(len(line) <= 78 or b" " not in line.strip() for line in head.split(b"\r\n"))
    return str(make_header(decode_header(parsed["Subject"].replace("\r\n", ""))))


@pytest.mark.parametrize("text", VECTORS.values(), ids=VECTORS)
def test_a_title_cannot_add_headers_through_the_subject(text: str, site: Site) -> None:
    read = subject_of(text, site)

    assert read == header_text(text)
    assert len(read) <= 200
    assert not {unicodedata.category(char) for char in read} & {"Cc", "Cs", "Zl", "Zp"}
    assert "=?" not in read


@given(
    st.text(st.characters(codec=None), max_size=80)
    | st.lists(st.sampled_from(list(VECTORS.values())[:15])).map("".join)
)
def test_whatever_the_title_the_subject_decodes_to_the_harmless_text(text: str) -> None:
    site = Site(keys=(b"k",))

    assert subject_of(text, site) == header_text(text)


def test_harmless_text_stays_unchanged() -> None:
    for text in ("Flow matching in 12 lines", "Über Flüsse – 中文 🦜", "x = y? Yes, if z =1"):
        assert header_text(text) == text


def test_emoji_made_of_several_characters_stay_together() -> None:
    assert header_text("🧑🏽‍🔬 🏳️‍🌈") == "🧑🏽‍🔬 🏳️‍🌈"


def test_stacked_accents_are_limited_and_ordinary_ones_stay() -> None:
    assert len(header_text(VECTORS["zalgo"])) <= len("Zalgo") + 4
    assert header_text("Việt Nam, Erdős, Łukasz") == "Việt Nam, Erdős, Łukasz"


def test_header_text_of_header_text_changes_nothing() -> None:
    for text in VECTORS.values():
        assert header_text(header_text(text)) == header_text(text)


def test_encoded_words_are_short_and_never_cut_inside_a_character() -> None:
    for line in encode_header("中文🦜" * 20, width=66).split("\r\n "):
        assert len(line) <= 75
        assert "\ufffd" not in str(make_header(decode_header(line)))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Digest", "Digest <digest@example.org>"),
        ("Dr. No, Ph.D.", '"Dr. No, Ph.D." <digest@example.org>'),
        ("Grüße", "=?utf-8?b?R3LDvMOfZQ==?= <digest@example.org>"),
        ('The "Digest"', '"The \\"Digest\\"" <digest@example.org>'),
        ("", "digest@example.org"),
        ("x\r\nBcc: y", '"x Bcc: y" <digest@example.org>'),
    ],
)
def test_a_senders_name_is_quoted_where_it_must_be(name: str, shown: str) -> None:
    assert from_address(name, "digest@example.org") == shown


def test_the_date_is_the_moment_and_not_the_zone_it_was_given_in(site: Site) -> None:
    letter = RenderedLetter(subject="s", text="t\n", html="h\n")
    elsewhere = NOW.astimezone(timezone(timedelta(hours=9)))
    both = [
        build_message(
            letter, site=site, recipient="alice@example.edu", message_id="<1@example.org>", dated_at=moment
        )
        for moment in (NOW, elsewhere)
    ]

    assert both[0] == both[1]
    assert b"\r\nDate: Fri, 20 Nov 2026 07:00:00 +0000\r\n" in both[0]


def test_one_click_unsubscribe_needs_an_https_address(site: Site) -> None:
    url = f"{site.url}/u/abc"
    plain = Site(url="http://127.0.0.1:8000", keys=site.keys)

    assert dict(list_headers(site, url))["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert "List-Unsubscribe-Post" not in dict(list_headers(plain, url))


def test_a_reply_has_no_list_or_bulk_headers() -> None:
    assert dict(reply_headers()) == {"Auto-Submitted": "auto-replied"}


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ("<question.1@example.edu>", True),
        ("", False),
        ("<a@b>\r\nBcc: <x@example.com>", False),
        ("<a b@c>", False),
        ("<" + "a" * 300 + "@b>", False),
    ],
    ids=["an id", "none", "a line break", "a blank", "no end"],
)
def test_a_reply_refers_to_the_mail_it_answers_if_its_id_is_valid(answers: str, named: bool) -> None:
    about = dict(reply_headers(answered_id=answers))

    assert (about.get("In-Reply-To"), about.get("References")) == (
        (answers, answers) if named else (None, None)
    )


def test_a_long_unsubscribe_link_is_neither_folded_nor_encoded(site: Site) -> None:
    """Python's own policy writes `=?utf-8?q?=3Chttps` here, and one-click is gone."""
    url = f"{site.url}/u/{'a' * 300}"
    letter = RenderedLetter(subject="s", text="t\n", html="h\n")
    raw = build_message(
        letter, site=site, recipient="alice@example.edu", message_id=f"<{'b' * 100}@example.org>", dated_at=NOW,
        headers=list_headers(site, url),
    )  # fmt: skip

    assert f"\r\nList-Unsubscribe: <{url}>\r\n".encode() in raw
    assert f"\r\nMessage-ID: <{'b' * 100}@example.org>\r\n".encode() in raw


def test_characters_passed_unchanged_are_visible_and_normalized() -> None:
    taken = [sign for sign in map(chr, range(0x11_0000)) if HARMLESS_TEXT.match(sign)]

    assert "…" in taken
    assert all(unicodedata.normalize("NFC", sign) == sign for sign in taken)
    assert {unicodedata.category(sign)[0] for sign in taken} <= set("LNPSZ")
    assert [sign for sign in taken if unicodedata.category(sign)[0] == "Z"] == [" "]


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("www.evil.example", "www.|evil.|example"),
        ("https://evil.example/win", "https|://|evil.|example/win"),
        ("http://192.0.2.7/win", "http|://|192.0.2.7/win"),
        ("win@evil.example", "win@|evil.|example"),
        ("4chan.example", "4chan.|example"),
        ("evil.1st.example", "evil.|1st.|example"),
        ("例え。テスト", "例え。|テスト"),
    ],
)
def test_an_address_in_a_name_is_broken_so_that_no_mail_program_links_it(name: str, broken: str) -> None:
    assert break_addresses(name) == broken.replace("|", "\u2060")


@pytest.mark.parametrize(
    "name", ["Robots, and more", "GPT-4.1 vs 3.5", "A. Lind", "robot* AND (ask OR wait)", "C++"]
)
def test_a_name_without_an_address_is_left_alone(name: str) -> None:
    assert break_addresses(name) == name


@given(st.text())
def test_breaking_addresses_adds_only_word_joiners_and_leaves_no_scheme_or_host(name: str) -> None:
    broken = break_addresses(name)

    assert broken.replace("\u2060", "") == name.replace("\u2060", "")
    assert not re.search(r"[a-z]://|[a-z]\.[a-z]|@[a-z]", broken)
