"""Every letter is complete in HTML and in text, whatever values it is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from digest.errors import SetupMismatch
from digest.letters import letter_template
from digest.letters.cards import make_card
from digest.letters.css_inlining import inline
from digest.letters.letter_rendering import derived_context, render_letter
from digest.letters.line_wrapping import NO_BREAK
from digest.letters.mime import RenderedLetter
from digest.letters.press import load_templates
from digest.letters.reason_lines import ReasonLine
from digest.letters.templates import Templates
from digest.site import links
from digest.site.site_profile import Site
from tests.letters.invented_papers import FLOW, NOW
from tests.support.letter_kinds import REQUIRED_CONTEXT

CONTEXT: Mapping[str, Any] = {
    "examples": [{"spelled": "pause 2 weeks", "does": "Pause for two weeks."}],
    "word": "subscribe",
    "example": "subscribe flows: flow matching",
    "writer": "ada@uni.example",
    "mail_subject": "Who <b> chooses?",
    "lines": ["Hello,", "", "who & what"],
    "until": "4 December 2026",
    "confirm_url": "https://digest.example.org/c/abc",
    "manage_url": "https://digest.example.org/m/abc",
    "unsubscribe_url": "https://digest.example.org/u/abc",
    "undo_url": "https://digest.example.org/u/abc",
    "account_url": "https://digest.example.org/d/abc",
    "new_address_url": "https://digest.example.org/e/abc",
    "moved_to": "m•••@new.example",
    "checked": 412,
    "outcomes": [{"command": "add flows: flow matching", "result": "Added. About 2 papers a day."}],
    "commands": [{"spelled": "pause 2 weeks", "does": "No digests for two weeks."}],
    "address": "lab@lists.example",
    "requested": "a daily digest of papers on diffusion",
    "problem": "",
    "message": "No dump has come for three days",
    "fix": "Look into the dumps folder, or run digest doctor.",
    "period": "7 days, 2026-11-09 to 2026-11-15",
    "rows": [
        {"name": "new papers", "total": "1,542", "before": "1,489 (+4%)", "chart": "▇▆█▇▆··", "most": 344}
    ],
    "summary": "1,231 active subscribers now. 1 letter in doubt: the mail server did not answer every attempt.",
}
LETTERS = Path(__file__).parents[2] / "templates" / "letters"
#: The optional values of letters.
MORE: Mapping[str, Any] = {
    "cards": [
        make_card(FLOW, page="https://digest.example.org/papers/11", why=ReasonLine("Trending")).to_json()
    ],
    "next_due_at": "2026-11-23T07:00:00+00:00",
    "dated_at": NOW,
    "timezone": "Europe/Oslo",
    "topics": [{"name": "Flows <b>", "filter": 'title:"flow matching"'}],
    "until": "6 January",
    "nearest": {
        "title": "Diffusion & cups",
        "href": "https://digest.example.org/papers/3",
        "lacked": "'robot'",
    },
    "since": "Tuesday 08:00",
    "facts": ["3 of 400 deliveries refused"],
    "answered_subject": "subscribe",
    "group": "lab@lists.example",
}


class Outline(HTMLParser):
    """Collect what a screen reader uses: headings, links with their texts, and unclosed tags."""

    VOID = frozenset({"meta", "br", "img", "hr", "link"})

    def __init__(self, html: str):
        super().__init__()
        self.headings: list[int] = []
        self.links: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "a":
            self.links.append((dict(attrs).get("href") or "", ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "a" in self.open:
            href, text = self.links[-1]
            self.links[-1] = (href, text + data)


def is_bare_url(line: str) -> bool:
    return line.startswith("https://") and " " not in line


def made(templates: Templates, site: Site, kind: str, **more: Any) -> RenderedLetter:
    context = {name: CONTEXT[name] for name in REQUIRED_CONTEXT[kind]}
    return render_letter(templates, kind, {"site": site, **context, **more})


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
@pytest.mark.parametrize("more", [{}, MORE], ids=["required context", "full context"])
def test_every_letter_can_be_rendered(
    kind: str, more: Mapping[str, Any], site: Site, templates: Templates
) -> None:
    if kind == "invite":
        more = {**more, "topics": ["Flows"] if more else ()}

    written = made(templates, site, kind, **more)

    assert 10 <= len(written.subject) <= 78
    assert written.html.startswith("<!DOCTYPE html>\n<html lang=")
    assert "None" not in written.text + written.html
    assert not re.search(r"\n{4}", written.text)
    assert all(len(line) <= 78 or is_bare_url(line) for line in written.text.splitlines())


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
def test_the_html_of_a_letter_is_well_nested_and_its_headings_are_in_order(
    kind: str, site: Site, templates: Templates
) -> None:
    outline = Outline(made(templates, site, kind).html)

    assert outline.open == []
    assert outline.headings[0] == 1
    assert all(
        after - before <= 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False)
    )


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
def test_every_link_of_the_html_is_in_the_text(kind: str, site: Site, templates: Templates) -> None:
    written = made(templates, site, kind)

    assert all(href in written.text for href, _ in Outline(written.html).links)
    assert all(text.strip() for _, text in Outline(written.html).links)


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
def test_text_lines_of_a_letter_with_long_values_fit_the_screen(
    kind: str, site: Site, templates: Templates
) -> None:
    long = "a title of many words that goes on and on " * 7
    topics = [long[:79]] if kind == "invite" else [{"name": long[:79], "filter": f"title:({long})"}]
    much: dict[str, Any] = {
        "topics": topics,
        "invited_by": long[:79],
        "nearest": {"title": long, "href": "https://digest.example.org/papers/3", "lacked": long[:60]},
        "news": [{"title": long, "text": long, "href": "https://digest.example.org/papers/4"}],
        "outcomes": [{"command": long, "result": long}],
        "message": long,
        "fix": long,
        "facts": [long],
    }

    text = render_letter(templates, kind, {"site": site, **CONTEXT, **much}).text

    assert [line for line in text.splitlines() if len(line) > 78 and not is_bare_url(line)] == []


@pytest.mark.parametrize("puts_back", [None, 1], ids=["a step on", "a step back"])
def test_news_of_a_pack_reads_well_as_text_and_leads_to_the_topics(
    puts_back: int | None, site: Site, templates: Templates
) -> None:
    pack = {"name": "lab/language-models", "version": 12, "former": 11, "puts_back": puts_back}

    text = made(
        templates, site, "changed", pack=pack, topics=({"name": "LLM", "filter": "llm", "days": 0},)
    ).text

    assert [line for line in text.splitlines() if len(line) > 78 and not is_bare_url(line)] == []
    assert f"See your topics:\n{CONTEXT['manage_url']}\n" in text


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
def test_no_letter_loads_external_resources(kind: str, site: Site, templates: Templates) -> None:
    html = made(templates, site, kind).html

    assert not re.search(r"<(img|script|iframe|form|link|object|video|audio)\b|url\(|@import", html)


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
def test_every_letter_says_who_sent_it(kind: str, site: Site, templates: Templates) -> None:
    written = made(templates, site, kind)

    assert site.name in written.text
    assert site.postal_address in written.text
    assert site.postal_address in written.html


@pytest.mark.parametrize("kind", ["confirm", "reminder"])
def test_a_confirmation_shows_the_topics_hour_and_address(
    kind: str, site: Site, templates: Templates
) -> None:
    asked = {
        "requested": "a daily digest of papers on diffusion, robots",
        "schedule": "Monday to Friday at 08:00, Oslo",
        "email": "ada@uni.edu",
    }

    written = made(templates, site, kind, **asked)

    for said in (" ".join(written.text.split()), written.html):
        assert f"{site.name} " in said
        assert "send ada@uni.edu a daily digest of papers on diffusion, robots." in said
        assert "When: Monday to Friday at 08:00, Oslo." in said.replace(NO_BREAK, " ")


def test_a_confirmation_repeats_nothing_that_was_not_asked_for(site: Site, templates: Templates) -> None:
    quiet = made(templates, site, "confirm")
    named = made(templates, site, "confirm", name="Win money", about="Win", topics=["Win"])

    assert named == quiet


@pytest.mark.parametrize("kind", ["changed", "invite", "reply", "nothing_today"])
def test_no_name_in_a_letter_becomes_a_link(kind: str, site: Site, templates: Templates) -> None:
    name = "www.evil.example or http://evil.example/win or win@evil.example"
    topics = [name] if kind == "invite" else [{"name": name, "filter": name}]

    written = made(
        templates, site, kind, topics=topics, invited_by=name, outcomes=[{"command": name, "result": name}],
        nearest={"title": "A paper", "href": "https://example.org/", "lacked": name, "is_text": True},
    )  # fmt: skip

    for body in (written.text, written.html):
        assert "www." in body
        assert not re.search(r"www\.evil|evil\.example|http://evil|@evil", body)


def test_a_confirmation_states_when_it_was_requested(site: Site, templates: Templates) -> None:
    asked = made(templates, site, "confirm", dated_at=NOW)

    for said in (asked.text, asked.html):
        assert "Requested on 20 November 2026, 07:00 UTC." in said.replace(NO_BREAK, " ")


@pytest.mark.parametrize(
    ("has_news", "is_wanted", "reason"),
    [
        (True, True, "You get this because we sent you these papers."),
        (False, True, "You asked for this email on days without a digest."),
        (False, False, "You get this because we have not written to you for two weeks."),
    ],
)
def test_a_letter_without_a_digest_states_the_reason_that_applies(
    has_news: bool, is_wanted: bool, reason: str, site: Site, templates: Templates
) -> None:
    update = {
        "title": "Cups",
        "href": "https://digest.example.org/papers/1",
        "text": "Withdrawn by its authors",
    }

    letter = made(templates, site, "nothing_today", news=[update] * has_news, is_wanted=is_wanted)

    assert reason in letter.html
    assert reason in letter.text
    assert letter.html.partition("</h1>")[0].endswith("Updates to papers we sent you") == has_news


def test_an_invitation_states_who_added_the_address(site: Site, templates: Templates) -> None:
    named = made(templates, site, "invite", invited_by="Anna at <Example> Lab")
    nameless = made(templates, site, "invite")
    long = made(templates, site, "invite", invited_by="The Department of " + "very " * 9 + "applied research")

    assert named.subject == "Anna at <Example> Lab invites you to a daily paper digest"
    assert "Anna at &lt;Example&gt; Lab put your address on the invitation list" in named.html
    assert f"The people who run {site.name} put your address on their invitation list" in " ".join(
        nameless.text.split()
    )
    assert max(len(nameless.subject), len(long.subject)) <= 60


def test_links_and_hours_follow_from_the_decision(site: Site, templates: Templates) -> None:
    context = {
        "site": site,
        "email": "alice@example.edu",
        "subscriber_id": 7,
        "link_version": 2,
        "key": None,
        "timezone": "Asia/Tokyo",
        "dated_at": NOW,
        "next_due_at": "2026-11-23T00:00:00+00:00",
    }

    written = render_letter(templates, "welcome", context)

    assert written.subject == "You are subscribed. First digest: Monday 09:00, Tokyo"
    assert f"/m/{site.signing_key_id}.7-2." in written.text


def test_a_welcome_with_invented_papers_says_so(site: Site, templates: Templates) -> None:
    cards = [
        make_card(replace(FLOW, is_sample=is_sample), page="https://digest.example.org/papers/11").to_json()
        for is_sample in (True, False)
    ]

    with_sample, without = (made(templates, site, "welcome", cards=[one]) for one in cards)

    assert "Sample: these papers are invented" in with_sample.text
    assert "Sample: these papers are invented" in with_sample.html
    assert "invented" not in without.text + without.html


class PlainTemplates(Templates):
    """Renders each letter with Jinja, and lets premailer inline the whole page."""

    def letter(self, kind: str) -> Any:
        template = self.html.get_template(f"letters/{kind}/body.html")
        return SimpleNamespace(render=lambda values: inline(template.render(values)))


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
def test_a_letter_whose_template_was_inlined_equals_premailers_output(
    kind: str, site: Site, templates: Templates
) -> None:
    hostile: dict[str, Any] = {
        "next_due_at": None,
        "next_due": "Monday 01:00, Ürümqi & <b>1</b> 'x' \"y\"",
        "email": "o'neil+1&co@example.edu",
        "until": "1 January <&>",
        "requested": "a digest on: <b>1</b> & 'more'",
        "schedule": "Every day at 01:00, Ürümqi",
        "manage_url": "https://digest.example.org/m/abc?a=1&b=1",
        "topics": ["Flows <b>"] if kind == "invite" else MORE["topics"],
    }
    plain = PlainTemplates(templates.directory)
    for more in ({}, {**MORE, **hostile}):
        assert made(templates, site, kind, **more) == made(plain, site, kind, **more)


def test_premailer_runs_once_for_all_letters_of_a_kind(
    site: Site, templates: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unused.txt").touch()  # other templates are compiled anew
    own, pages = Templates(templates.directory, tmp_path), list[str]()

    def counted(page: str) -> str:
        pages.append(page)
        return inline(page)

    monkeypatch.setattr(letter_template, "inline", counted)
    urls = [f"https://digest.example.org/c/{n}" for n in range(20)]

    letters = [render_letter(own, "confirm", {"site": site, "confirm_url": url}) for url in urls]

    assert all(url in one.html for url, one in zip(urls, letters, strict=True))
    assert len(pages) == 1


def test_an_own_template_may_change_values_but_its_branches_must_be_whole(
    site: Site, templates: Templates, tmp_path: Path
) -> None:
    body = tmp_path / "letters" / "goodbye" / "body.html"
    body.parent.mkdir(parents=True)
    body.write_text(
        "<html><head></head><body><p>{{ undo_url|upper }} {{ undo_url|truncate(12, true) }}</p></body></html>"
    )
    letter = render_letter(
        Templates(templates.directory, tmp_path), "goodbye", {"site": site, "undo_url": "https://a.example/u"}
    )
    assert "HTTPS://A.EXAMPLE/U" in letter.html

    body.write_text(
        "<html><head></head><body>{% if undo_url %}<p>{% else %}<div>{% endif %}Open</p></body></html>"
    )
    with pytest.raises(
        SetupMismatch, match=r"letters/goodbye/body.html, line 1, cannot be used: the text of each branch"
    ):
        load_templates.compile_and_check(Templates(templates.directory, tmp_path), site)


def test_a_letter_with_a_missing_value_is_not_rendered(site: Site, templates: Templates) -> None:
    with pytest.raises(UndefinedError, match="confirm_url"):
        render_letter(templates, "confirm", {"site": site})


@pytest.mark.parametrize("kind", REQUIRED_CONTEXT)
def test_values_in_letters_are_escaped(kind: str, site: Site, templates: Templates) -> None:
    evil = "<script>alert(1)</script>{{ 7*7 }}"
    topics = [evil] if kind == "invite" else [{"name": evil, "filter": evil}]
    html = made(
        templates, site, kind, until=evil, since=evil, facts=[evil], topics=topics, about=evil,
        nearest={"title": evil, "href": "https://example.org/", "lacked": evil},
    ).html  # fmt: skip

    assert "<script" not in html
    assert "49" not in html


# ── an operator's own templates ─────────────────────────────────────────────────────────────────


def test_an_operator_overrides_one_file_of_a_letter_and_keeps_the_rest(
    site: Site, templates: Templates, tmp_path: Path
) -> None:
    (tmp_path / "letters/confirm").mkdir(parents=True)
    (tmp_path / "letters/confirm/subject.txt").write_text("Bitte bestätigen")

    written = made(Templates(templates.directory, tmp_path), site, "confirm")

    assert written.subject == "Bitte bestätigen"
    assert written.html != made(templates, site, "confirm").html
    assert written.text == made(templates, site, "confirm").text


def test_overriding_a_template_changes_the_fingerprint(templates: Templates, tmp_path: Path) -> None:
    before = Templates(templates.directory, tmp_path).fingerprint
    (tmp_path / "x.txt").write_text("x")

    assert Templates(templates.directory, tmp_path).fingerprint != before


def test_an_operators_template_runs_in_a_sandbox(site: Site, templates: Templates, tmp_path: Path) -> None:
    (tmp_path / "letters/confirm").mkdir(parents=True)
    (tmp_path / "letters/confirm/body.txt").write_text("{{ site.__class__.__mro__[1].__subclasses__() }}")

    with pytest.raises(SecurityError):
        made(Templates(templates.directory, tmp_path), site, "confirm")


def test_a_confirmation_is_linked_by_its_id_with_the_key_it_was_decided_with(site: Site) -> None:
    context = {"site": site, "confirmation_id": 5, "key": site.signing_key_id}

    assert derived_context("confirm", context) == {"confirm_url": links.confirm_url(site, 5)}


def test_the_links_of_account_letters_follow_from_the_time_of_the_request(site: Site) -> None:
    context = {"site": site, "subscriber_id": 7, "link_version": 2, "email": "ada@uni.example", "made_at": 5}

    account, new_address = (derived_context(kind, context) for kind in ("account_link", "new_address"))

    assert account["account_url"] == links.account_url(site, 7, 2, 5)
    assert new_address["new_address_url"] == links.new_address_url(site, 7, 2, "ada@uni.example", 5)
    assert ("new_address_url" in account, "account_url" in new_address) == (False, False)
