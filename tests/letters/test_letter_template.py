"""Compiled templates print each reader's own letter, and refuse what they could not print for all readers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings

from digest.errors import SetupMismatch
from digest.letters import letter_template
from digest.letters.css_inlining import inline
from digest.letters.letter_template import PERSONAL_NAMES
from digest.letters.press import load_templates
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.press.load_templates import compile_and_check, plain_letter
from digest.letters.templates import Templates
from digest.monitoring import setup_checks
from digest.monitoring.check_results import Check
from digest.process.caches import Caches
from digest.settings import load_settings, templates_dir
from digest.site.site_profile import Site
from tests.letters.invented_papers import by_topic, copy_for, letters_of, pressed, trending
from tests.letters.varied_digests import VariedDigest, varied_digest

CARD, BODY, FOOTER = "_card.html", "letters/digest/body.html", "letters/_base/footer_links.html"
TITLE = '<h3 dir="auto"><a class="title" href="{{ paper.href }}">{{ paper.title }}</a></h3>\n'
PAIRS = (
    settings().max_examples // 4
)  #: for each operator; 30 pairs of readers in `make test`, 625 in `make test-all`
QUIET = '<p class="quiet" dir="auto">{{ paper.meta|whole }}</p>\n'


def changed(templates: Templates, folder: Path, file: str, old: str, new: str) -> Templates:
    """Return the templates of an operator who changed one file."""
    original = (templates.directory / file).read_text()
    assert old in original, (file, old)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(original.replace(old, new, 1))
    return Templates(templates.directory, folder)


#: What an operator may do: file, what it replaces, and with what.
ALLOWED = {
    "a greeting": (BODY, "{{ headline }}", "Guten Morgen! {{ headline }}"),
    "a value in capitals": (BODY, "{{ headline }}", "{{ headline|upper }}"),
    "a choice by content": (BODY, "{{ headline }}", "{% if sections|length > 1 %}Many: {% endif %}{{ headline }}"),
    "a number twice": (CARD, "{{ paper.meta|whole }}", "{{ paper.meta|whole }} {{ paper.title|length }}"),
    "the date above the title": (CARD, TITLE, f"{QUIET}{TITLE}"),
    "the title below the abstract": (CARD, "{% if paper.links %}", f"{TITLE}{{% if paper.links %}}"),
    "the reason twice": (CARD, '<p class="quiet reason"', '<p>{{ why.line }}</p><p class="quiet reason"'),
    "a link in each card": (
        CARD, "{% if paper.links %}", '<p><a href="https://x.example/?q={{ paper.title|urlencode }}">Find</a></p>{% if paper.links %}',
    ),
    "a link in the footer": (FOOTER, "<p>", '<p><a href="{{ site.url }}/about">{{ site.name }}</a></p><p>'),
    "the address in the footer": (FOOTER, "<p>", "<p>{% if recipient %}For {{ recipient }}{% endif %}</p><p>"),
    "an own loop": (BODY, "{{ headline }}", "{% for part, rows in sections %}{{ loop.index }}. {{ part.topic }} {% endfor %}{{ headline }}"),
    "an own variable": (BODY, "{{ headline }}", "{% set many = sections|length %}{{ many }} {{ headline }}"),
    "no reason": (CARD, "{% if why.line %}", "{% if false %}"),
}  # fmt: skip


@pytest.mark.parametrize("file_old_new", ALLOWED.values(), ids=ALLOWED)
def test_an_operators_change_is_in_the_letter_of_every_reader(
    file_old_new: tuple[str, str, str], site: Site, templates: Templates, tmp_path: Path
) -> None:
    theirs = changed(templates, tmp_path, *file_old_new)
    made = DigestLetters(pressed(p11="42 upvotes"), site, compile_and_check(theirs, site))
    digest = by_topic(("Flows", 1, (11, 12, 13)), ("Others", None, (14,)))
    copy = copy_for(filters={1: "flow OR robot* OR attention"}, paper_token="key.7-0.abc")

    assert made.letter(digest, copy) == plain_letter(theirs, made, digest, copy)


#: What is refused: file, what it replaces, with what, and the message.
REFUSED = {
    "a mistake": (BODY, "{{ headline }}", "{{ headline", r"letters/digest/body\.html, line \d+"),
    "an unknown value": (BODY, "{{ headline }}", "{{ headlines }}", "headlines"),
    "a name that is not cached": (
        CARD, "{{ paper.meta|whole }}", "{{ paper.meta|whole }} {{ number }}", r"_card\.html, line \d+, .*no other names: number",
    ),
    "a value of one reader in a cached part": (
        BODY, '<h2 class="heading"', '{{ recipient }}<h2 class="heading"', r"body\.html, line \d+, .*no other names: recipient",
    ),
    "a value of one reader as a name of a cached part": (
        BODY, "{% cached news %}", "{% cached news, browser_url %}{{ browser_url }}", r"line \d+, .*: browser_url",
    ),
    "the page of one reader in every card": (
        CARD, "{{ paper.meta|whole }}", "{{ manage_url }}", r"_card\.html, line \d+, .*: manage_url",
    ),
    "a changed value of one reader": (BODY, "{{ headline }}", "{{ recipient|upper }}", r"line 6, .*put in last.*: recipient"),
    "a choice by a value of one reader": (
        BODY, "{{ headline }}", '{% if recipient == "a@b.example" %}Boss{% endif %}', r"line 6, .*: recipient",
    ),
    "an attribute after `cached`": (CARD, "{% cached number %}", "{% cached paper.title %}", r"line \d+, .*only names"),
    "a tag that cannot be prepared": (BODY, "{{ headline }}", "{% filter upper %}x{% endfilter %}", r"line 6, .*filterblock"),
    "an element that one branch opens": (
        BODY, '{% if is_sample %}<br>', '{% if is_sample %}<b>{% else %}<i>', r"body\.html, line \d+, .*each branch",
    ),
    "a style that depends on a value": (BODY, '<h1 class="first"', '<h1 class="{{ day }}"', None),
    "a class that depends on a value": (
        BODY, '<p class="soft kicker">', '<p class="{% if note %}soft{% else %}why{% endif %}">', r"line \d+, .*another text",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_a_template_that_cannot_be_prepared_is_refused_with_file_line_and_rule(
    change: tuple[str, str, str, str | None], site: Site, templates: Templates, tmp_path: Path
) -> None:
    *file_old_new, message = change
    theirs = changed(templates, tmp_path, *file_old_new)
    if message is None:  # no style sheet names this class, so nothing depends on it
        compile_and_check(theirs, site)
        return
    with pytest.raises(SetupMismatch, match=message):
        compile_and_check(theirs, site)


def test_the_card_in_the_docs_is_accepted(site: Site, templates: Templates, tmp_path: Path) -> None:
    docs = (templates.directory.parent / "docs/letters.md").read_text()
    (tmp_path / CARD).write_text(docs.partition("```jinja\n")[2].partition("```")[0])
    theirs = Templates(templates.directory, tmp_path)

    letter = letters_of(pressed(), site, theirs).letter(trending(11, 12), copy_for())

    assert letter.html.count("Our library</a>") == 2


def test_the_built_in_letters_are_compiled_at_load_and_an_operators_letters_are_checked_too(
    site: Site, templates: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    of_its_own = replace(site, name="A site whose templates no other test compiled")

    def inline_and_count(page: str) -> str:
        pages.append(page)
        return inline(page)

    for module in (letter_template, load_templates):
        monkeypatch.setattr(module, "inline", inline_and_count)
    load_templates.digest_templates(Templates(templates.directory, tmp_path / "none"), of_its_own, Caches())
    assert len(pages) == 1  # the static text; the check needs a page for each letter

    theirs = changed(templates, tmp_path, *REFUSED["a class that depends on a value"][:3])
    with pytest.raises(SetupMismatch, match="another text"):
        load_templates.digest_templates(theirs, site, Caches())
    compile_and_check(templates, site)


def test_doctor_refuses_a_template_with_file_line_and_rule_and_accepts_it_once_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path))
    own = load_settings()
    own.template_overrides.mkdir()
    card = (templates_dir() / CARD).read_text()
    outcomes: list[Check] = []
    for change in ("{{ number }}", ""):
        (own.template_overrides / CARD).write_text(
            card.replace("{{ paper.meta|whole }}", f"{{{{ paper.meta }}}}{change}")
        )
        outcomes += setup_checks.check_templates(own)

    refused, accepted = outcomes
    (problem,) = refused.problems
    assert "_card.html, line 10" in problem.message
    assert "no other names: number" in problem.message
    assert "docs/letters.md" in problem.fix
    assert not accepted.problems


def test_no_reader_gets_a_word_of_another(site: Site, templates: Templates, tmp_path: Path) -> None:
    """Pairs of readers share the cached parts of templates as they are, and as operators changed them."""
    random = Random(42)
    operators = [templates]
    for number, change in enumerate(random.sample(sorted(ALLOWED), 4)):
        operators.append(changed(templates, tmp_path / str(number), *ALLOWED[change]))
    for theirs in operators:
        compiled = compile_and_check(theirs, site, checks_letters=False)
        for _ in range(PAIRS):
            varied = varied_digest(random)
            letters = DigestLetters(varied.press, site, compiled)
            pair = varied, varied.for_another_reader(random.randrange(10, 1000))
            written = [letters.letter(one.digest, one.copy) for one in pair]
            for one, letter in zip(pair, written, strict=True):
                assert letter == plain_letter(theirs, letters, one.digest, one.copy)
            for one, letter in zip(reversed(pair), written, strict=True):
                assert not personal_values(one) & set(re.findall(r"[^\s<>\"]+", letter.html + letter.text))


def personal_values(varied: VariedDigest) -> set[str]:
    """Return what only this reader may read."""
    named = PERSONAL_NAMES - {"share_url", "offer_url"}
    return {value for name in named if (value := getattr(varied.copy, name))}
