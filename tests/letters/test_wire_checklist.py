"""Check the rows of the wire checklist in the bytes that a real mail server received."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parseaddr
from pathlib import Path

import pytest

from digest.delivery.transports import mail_url
from digest.delivery.transports.open_transport import open_transport
from digest.delivery.transports.transport import Message, Verdict
from digest.letters.dkim_signing import sign_message
from digest.letters.headers import reply_headers
from digest.letters.letter_rendering import render_letter
from digest.letters.mime import build_message
from digest.letters.templates import Templates
from digest.site import links
from digest.site.site_profile import Site
from tests.letters.invented_papers import NOW, by_topic, copy_for, letters_of, pressed, trending
from tests.letters.test_dkim_signing import signer, verifies
from tests.support.mail_sink import Mail, run_mail_sink

NASTY_TITLE = ". leading dot\r\n.\r\nBcc: x@example.com =?utf-8?q?a=0ABcc:_x?= <script>"


def posted(site: Site, content: bytes, recipient: str = "alice@example.edu") -> Mail:
    """Return the mail that a real server received from our transport."""
    sent = Message(delivery_id=1, sender=site.sender_address, recipient=recipient, content=content)
    with run_mail_sink() as sink:
        transport = open_transport(mail_url.parse_mail_url(sink.url), site=site)
        assert [outcome.verdict for outcome in transport.send([sent])] == [Verdict.ACCEPTED]
        transport.close()
        return sink.mails[0]


@pytest.fixture(scope="module")
def templates_here() -> Templates:
    return Templates(Path(__file__).parents[2] / "templates")


@pytest.fixture(scope="module")
def home() -> Site:
    return Site(
        name="Example Digest",
        url="https://digest.example.org",
        sender_name="Example Digest",
        sender_address="digest@example.org",
        postal_address="Example Lab, Oslo",
        keys=(b"key",),
    )


@pytest.fixture(scope="module")
def mail(home: Site, templates_here: Templates) -> Mail:
    """A digest as a server received it, with a hostile first title."""
    from tests.letters.invented_papers import PAPERS

    batch = [
        replace(PAPERS[0], title=NASTY_TITLE, abstract=". dots\n.\n..\nFrom here on. 中文 =3D."),
        *PAPERS[1:],
    ]
    made = pressed(batch)
    digest = by_topic(("Flows", 1, (11, 12)), ("Other", None, (13, 14)))
    return posted(
        home, letters_of(made, home, templates_here).message(digest, copy_for(filters={1: "dots OR robot"}))
    )


@pytest.fixture(scope="module")
def parsed(mail: Mail) -> EmailMessage:
    return message_from_bytes(mail.content, policy=policy.default)


def part(parsed: EmailMessage, kind: str) -> str:
    found = parsed.get_body((kind,))
    assert found is not None
    return str(found.get_content())


def test_1_lines_end_in_crlf_are_short_and_carry_no_nul(mail: Mail) -> None:
    assert b"\0" not in mail.content
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", mail.content)
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    body = mail.content.partition(b"\r\n\r\n")[2]
    assert max(map(len, body.split(b"\r\n"))) <= 76


def test_2_and_3_one_sender_one_recipient(parsed: EmailMessage, mail: Mail) -> None:
    assert parsed.get_all("From") == ["Example Digest <digest@example.org>"]
    assert parsed.get_all("To") == ["alice@example.edu"]
    assert (parsed["Cc"], parsed["Bcc"], mail.recipients) == (None, None, ("alice@example.edu",))


def test_4_the_subject_is_the_sanitised_title(parsed: EmailMessage) -> None:
    assert len(parsed["Subject"]) <= 60
    assert parsed["Subject"].startswith(". leading dot")
    assert len(parsed["Subject"]) <= 60


def test_5_and_6_date_and_message_id_are_those_of_the_copy(parsed: EmailMessage) -> None:
    assert datetime.strptime(parsed["Date"], "%a, %d %b %Y %H:%M:%S %z") == NOW
    assert re.fullmatch(r"<[0-9a-f]{40}@example\.org>", parsed["Message-ID"])


def test_7_to_13_list_headers_are_complete(parsed: EmailMessage) -> None:
    wanted = {
        "List-Id": r"Example Digest <digest\.example\.org>",
        "List-Unsubscribe": r"<https://digest\.example\.org/u/[\w.-]+>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "List-Help": r"<https://digest\.example\.org/>",
        "Auto-Submitted": "auto-generated",
        "Precedence": "bulk",
        "Feedback-ID": r"[^:]+:[^:]+:[^:]+:\w{5,15}",
    }
    for name, pattern in wanted.items():
        assert len(parsed.get_all(name, [])) == 1, name
        assert re.fullmatch(pattern, parsed[name]), (name, parsed[name])
    assert "alice" not in parsed["Feedback-ID"] + parsed["List-Unsubscribe"] + parsed["Message-ID"]


def test_8_and_25_the_unsubscribe_address_is_given_only_if_mail_is_received(
    home: Site, templates_here: Templates, mail: Mail
) -> None:
    site = replace(home, inbound_domain="bounce.example.org")
    address = links.unsubscribe_address(site, 7, 0)
    written = {
        copy.unsubscribe_address: posted(
            site, letters_of(pressed(), site, templates_here).message(trending(11), copy)
        )
        for copy in (copy_for(unsubscribe_address=address), copy_for(unsubscribe_address=""))
    }
    with_door, without = (
        message_from_bytes(written[key].content, policy=policy.default)["List-Unsubscribe"]
        for key in (address, "")
    )

    assert links.verify_address(site, "unsubscribe", address) == "7-0"
    assert re.fullmatch(
        r"<https://digest\.example\.org/u/[\w.-]+>, <mailto:unsubscribe\+7-0\.[0-9a-f]{20}@bounce\.example\.org\?subject=unsubscribe>",
        with_door,
    )
    assert "mailto:" not in without
    assert b"mailto:" not in mail.content
    assert links.unsubscribe_address(home, 7, 0) == ""


def test_14_text_comes_before_html_both_in_quoted_printable(parsed: EmailMessage) -> None:
    assert parsed["MIME-Version"] == "1.0"
    assert [
        (one.get_content_type(), one.get_content_charset(), one["Content-Transfer-Encoding"])
        for one in parsed.walk()
    ] == [
        ("multipart/alternative", None, None),
        ("text/plain", "utf-8", "quoted-printable"),
        ("text/html", "utf-8", "quoted-printable"),
    ]
    assert [one.defects for one in parsed.walk()] == [[], [], []]


def test_15_the_text_has_the_same_papers_and_links_and_no_markup(parsed: EmailMessage) -> None:
    text, html = part(parsed, "plain"), part(parsed, "html")
    hrefs = set(re.findall(r'href="(http[^"]+)"', html))

    assert all(href.replace("&amp;", "&") in text for href in hrefs)
    assert "Robots that ask first" in text
    assert "&amp;" not in text
    assert "\n-- \n" in text.replace("\r\n", "\n")
    assert all(len(line) <= 78 or "https://" in line for line in text.splitlines())


def test_only_a_paper_is_linked_twice_in_a_digest_by_its_title_and_by_read(parsed: EmailMessage) -> None:
    html = part(parsed, "html")
    hrefs = re.findall(r'href="([^"]+)"', html)

    twice = {href for href in hrefs if hrefs.count(href) > 1}
    assert twice == {*re.findall(r'<a href="([^"]+)">(?:Read|Details)<', html)}
    assert all(hrefs.count(href) == 2 for href in twice)


def test_16_the_html_is_a_complete_page(parsed: EmailMessage) -> None:
    html = part(parsed, "html")

    assert html.startswith("<!DOCTYPE html>")
    assert '<html lang="en" dir="ltr">' in html
    for meta in ('charset="utf-8"', 'name="viewport"', 'name="color-scheme"'):
        assert f"<meta {meta}" in html
    assert not re.search(r"<(script|form|iframe|img|link)\b", html)
    assert len(html.encode()) <= 90_000
    assert all(href.startswith(("https://", "#")) for href in re.findall(r'href="([^"]*)"', html))


def test_17_the_hidden_preheader_comes_first_and_differs_from_the_subject(parsed: EmailMessage) -> None:
    html = part(parsed, "html")
    first = re.search(r"<body[^>]*>\s*<div class=\"preheader\" style=\"display:none[^>]*>([^<]*)", html)

    assert first is not None
    preheader = first[1].rstrip("\u034f ")
    assert 40 <= len(preheader) <= 90
    assert preheader not in parsed["Subject"]
    assert len(first[1]) > len(preheader) + 40


def test_18_dark_mode_and_phone_styles_override_inlined_styles(parsed: EmailMessage) -> None:
    html = part(parsed, "html")
    style = html.partition("<style>")[2].partition("</style>")[0]

    assert "@media (prefers-color-scheme:dark)" in style
    assert "@media (max-width:480px)" in style
    declarations = re.findall(r"[a-z-]+:[^;{}]+?(?=[;}\n])", style.partition("@media")[2])
    assert declarations
    assert all("!important" in one for one in declarations if not one.startswith(("max-width", "prefers")))


def test_19_and_21_the_envelope_reveals_no_address_and_the_signature_verifies_on_arrival(
    home: Site, templates_here: Templates
) -> None:
    site = replace(home, inbound_domain="bounce.example.org")
    key = signer("rsa")
    made = letters_of(pressed(), site, templates_here).message(trending(11, 12), copy_for())
    sent = Message(
        delivery_id=7,
        sender=links.envelope_sender(site, 7),
        recipient="alice@example.edu",
        content=sign_message(made, [key], dated_at=NOW),
    )
    with run_mail_sink() as sink:
        transport = open_transport(mail_url.parse_mail_url(sink.url), site=site)
        assert [outcome.verdict for outcome in transport.send([sent])] == [Verdict.ACCEPTED]
        transport.close()
        (arrived,) = sink.mails

    assert re.fullmatch(r"bounce\+7\.[0-9a-f]{20}@bounce\.example\.org", arrived.sender)
    assert verifies(arrived.content, key)
    assert not verifies(
        arrived.content.replace(b"List-Unsubscribe-Post: ", b"List-Unsubscribe-Post: x", 1), key
    )


def test_20_headers_that_relays_add_are_absent(parsed: EmailMessage) -> None:
    assert not {"Return-Path", "Sender", "Received", "X-Mailer", "Bcc", "Reply-To"} & set(parsed.keys())


def test_22_a_confirmation_has_no_list_headers(home: Site, templates_here: Templates) -> None:
    written = render_letter(
        templates_here, "confirm", {"site": home, "confirmation_id": 5, "email": "alice@example.edu"}
    )
    raw = build_message(
        written,
        site=home,
        recipient="alice@example.edu",
        message_id="<5@example.org>",
        dated_at=NOW,
        headers=reply_headers(),
    )

    parsed = message_from_bytes(posted(home, raw).content, policy=policy.default)

    assert parsed["Auto-Submitted"] == "auto-replied"
    assert not {"List-Unsubscribe", "List-Unsubscribe-Post", "Precedence"} & set(parsed.keys())


def test_no_link_contains_the_readers_address(parsed: EmailMessage) -> None:
    """A forwarded copy shows its recipient in the text, but no link contains the address."""
    html = part(parsed, "html")

    assert all("alice" not in href for href in re.findall(r'href="([^"]*)"', html))
    assert parseaddr(parsed["To"])[1] == "alice@example.edu"


def test_a_digest_invites_no_reply_if_no_mail_is_received(parsed: EmailMessage) -> None:
    whole = part(parsed, "html") + part(parsed, "plain") + "".join(parsed.values())

    assert "mailto:" not in whole
    assert not re.search(r"\breply\b", whole, re.IGNORECASE)
