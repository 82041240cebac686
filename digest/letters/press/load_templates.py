"""Compile the templates of the digest, and check that the letters are those of the templates as they are.

The check renders digests of several readers with the same cached parts, and compares each letter with the
page that Jinja and premailer make for this reader alone. A template that fails is refused with file and line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import zip_longest
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError

from digest.editions.compose import TRENDING_TOPIC, Digest, FollowUp, Section
from digest.errors import SetupMismatch
from digest.letters.css_inlining import inline
from digest.letters.letter_rendering import FILLER, Personalization
from digest.letters.letter_template import LetterTemplate
from digest.letters.mime import RenderedLetter
from digest.letters.press.digest_letters import DigestLetters, DigestTemplates
from digest.letters.press.press_value import MAX_PRESSES, Press
from digest.letters.templates import Templates
from digest.papers.paper_record import Paper
from digest.process.caches import Caches
from digest.site.site_profile import Site

CHECK_RULE = (
    "prepared for all readers, it renders another text than alone; the text around a value must not depend on "
    "it, and a style must not depend on what stands beside an element"
)
BODIES = {"html": "letters/digest/body.html", "text": "letters/digest/body.txt"}
LINKS = ("unsubscribe_url", "manage_url", "browser_url")
SAMPLE_MOMENT = datetime(2026, 11, 20, 8, tzinfo=UTC)
FULL_PAPER = Paper(
    id=1,
    title="Full & <complete>",
    abstract="Every part of a card is here. It is whole.",
    ids={"arxiv": "2611.00001"},
    authors=("Ito, Aki",),
    published=date(2026, 11, 19),
    categories=("cs.LG",),
    urls=("https://github.com/example/whole",),
    first_seen_at=SAMPLE_MOMENT,
    is_sample=True,
)
MINIMAL_PAPER = Paper(id=2, title="Bare", comment="A & a whole note", first_seen_at=SAMPLE_MOMENT)
SAMPLE_PAPERS = (
    FULL_PAPER,
    MINIMAL_PAPER,
    replace(FULL_PAPER, id=3, is_sample=False),
    replace(MINIMAL_PAPER, id=4),
)
SAMPLE_DIGESTS = (
    Digest(
        sections=(
            Section(topic="First & foremost", filter_id=1, papers=(1, 2), more=3),
            Section(topic="Second", filter_id=None, papers=(3, 4), more=2),
        ),
        checked=400,
        news=(
            FollowUp(5, "withdrawn", "Taken & given", "An error in <Lemma 2>"),
            FollowUp(6, "rewritten", "Anew", ""),
        ),
        asks_still_reading=True,
    ),
    Digest(sections=(Section(topic=TRENDING_TOPIC, filter_id=None, papers=(2,)),), checked=1),
    Digest(sections=(Section(topic="First & foremost", filter_id=1, papers=(1, 2) * 8),), checked=400),
    Digest(sections=(Section(topic="Second", filter_id=1, papers=(3, 4)),), checked=2, abstracts="titles"),
)


def sample_reader(name: str, **changes: Any) -> Personalization:
    """Return an invented reader with own values."""
    usual: dict[str, Any] = {
        "recipient": f"{name}@example.edu",
        "edition": "daily-2026-11-20",
        "day": SAMPLE_MOMENT.date(),
        "dated_at": SAMPLE_MOMENT,
        "next_due_at": SAMPLE_MOMENT,
        "paper_token": f"key.{name}",
        "filters": {1: "whole"},
        **{kind: f"https://digest.example.org/{kind}/{name}" for kind in LINKS},
    }
    return Personalization(**usual | changes)


SAMPLE_READERS = (
    sample_reader("alice"),
    sample_reader("a-longer-name&bob", edition="weekly-2026-W47", next_due_at=None, filters={1: "parts"}),
    sample_reader("group", is_group=True, paper_token="", **dict.fromkeys(LINKS, "")),
)


def letters_of(press: Press, site: Site, templates: Templates, caches: Caches) -> DigestLetters:
    """Return the letters of this press and site, cached if they were used recently."""

    def make_letters() -> DigestLetters:
        compiled = digest_templates(templates, site, caches)
        for template in compiled:
            template.forget_fragments()
        return DigestLetters(press, site, compiled)

    return caches.get_or_make(
        "digest letters",
        (press.name, site, templates.fingerprint),
        make_letters,
        bound=MAX_PRESSES,
    )


def digest_templates(templates: Templates, site: Site, caches: Caches) -> DigestTemplates:
    """Return the compiled templates of the digest, HTML and text.

    They are compiled once per process; workers call this function before their first task. An operator's own
    templates are checked then. The check takes longer than compiling, and tests check the built-in templates.
    For digests, premailer runs only here, never for a single letter. Raises SetupMismatch for templates that
    cannot be used.
    """
    return caches.get_or_make(
        "digest templates",
        (templates.fingerprint, site),
        lambda: compile_and_check(templates, site, checks_letters=templates.has_overrides),
    )


def compile_and_check(templates: Templates, site: Site, *, checks_letters: bool = True) -> DigestTemplates:
    """Compile the templates, and check that they render the same letters as the templates as they are."""
    fixed = {"site": site, "filler": FILLER}
    try:
        made = DigestTemplates(
            LetterTemplate(templates.html, BODIES["html"], fixed, is_encoded=True),
            LetterTemplate(templates.text, BODIES["text"], fixed, is_encoded=True),
        )
        if checks_letters:
            check_letters(templates, made, site)
            for body in templates.directory.glob("letters/[!_]*/body.html"):
                templates.letter(body.parent.name)
    except TemplateSyntaxError as error:
        raise SetupMismatch(
            f"The template {error.name}, line {error.lineno}, cannot be used: {error.message}."
        ) from error
    except (TemplateError, KeyError, TypeError, ValueError) as error:
        raise SetupMismatch(f"The digest letter's templates cannot be used: {error}") from error
    return made


def check_letters(templates: Templates, made: DigestTemplates, site: Site) -> None:
    """Raise TemplateSyntaxError if a compiled letter differs from the one that the plain templates render.

    Each letter is compared twice: the second time, all others have left their cached parts.
    """
    samples = [
        (letters, digest, reader, plain_letter(templates, letters, digest, reader))
        for letters, digest, reader in sample_letters(made, site)
    ]
    for letters, digest, reader, expected in samples * 2:
        written = letters.letter(digest, reader)
        for template, one, other in (
            (made.html, written.html, expected.html),
            (made.text, written.text, expected.text),
        ):
            if one == other:
                continue
            here, there = next(
                pair
                for pair in zip_longest(one.splitlines(), other.splitlines(), fillvalue="")
                if pair[0] != pair[1]
            )
            name, line = template.line_of(here or there)
            raise TemplateSyntaxError(
                f"{CHECK_RULE}: {here.strip()!r} instead of {there.strip()!r}", line, name
            )


def sample_letters(
    made: DigestTemplates, site: Site
) -> Iterator[tuple[DigestLetters, Digest, Personalization]]:
    """Yield digests with all parts and with few, each for several readers, and of two presses."""
    plain = Press(
        as_of=SAMPLE_MOMENT, papers=SAMPLE_PAPERS, scores=(0.0,) * 4, reasons=(("+42 votes",), (), (), ())
    )
    noted = replace(plain, note="A list is incomplete.")
    for press, digests in ((noted, SAMPLE_DIGESTS[:1]), (plain, SAMPLE_DIGESTS[1:])):
        letters = DigestLetters(press, site, made)
        yield from ((letters, digest, reader) for reader in SAMPLE_READERS for digest in digests)


def plain_letter(
    templates: Templates, letters: DigestLetters, digest: Digest, copy: Personalization
) -> RenderedLetter:
    """Render the whole page of one reader with Jinja and premailer, and nothing cached."""
    values = letters.plain_values(digest, copy)
    page = templates.html.get_template(BODIES["html"]).render(values)
    return RenderedLetter(
        subject=values["subject"],
        text=templates.text.get_template(BODIES["text"]).render(values),
        html=inline(page),
    )
