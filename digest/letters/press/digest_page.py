"""The words and values that the templates of a digest print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from digest.editions.compose import TRENDING_TOPIC, Digest, FollowUp
from digest.letters import figures_in_words, line_wrapping, subject_lines
from digest.letters.cards import MAX_TITLE_LENGTH, Card, CardForm, make_card, printed_text
from digest.letters.headers import break_addresses, one_line
from digest.letters.press.size_budget import SectionPlan
from digest.letters.reason_lines import PrintedText, ReasonLine, topic_reason, trending_reason
from digest.site import links
from digest.site.site_profile import Site
from digest.topics.filter_tree import Leaf

if TYPE_CHECKING:
    from digest.letters.press.press_value import Press


LONG_CADENCES = frozenset({"weekly", "monthly"})
SHARE_PATH = "/topics"  #: path of the page with a digest's topics, below the URL of the digest on the web
MAX_UNLISTED = 15  #: a weekly or monthly digest with more papers begins with a list of titles
#: Maximum number of titles in that list, which otherwise fills many screens of a phone; each topic has at least one.
MAX_LISTED = 20
MAX_ANCHORS = 12  #: a list of more topics would be longer than what it leads to

RAW_FILTER = re.compile(
    r'\b(?:AND|ANDNOT|OR|NOT)\b|"|\w\*|\b(?:ti|title|abs|abstract|au|author|cat|category|about|like|use):'
)
FILTER_SIGNS = re.compile(r'["*()]|\b(?:ti|title|abs|abstract|au|author|cat|category|about|like|use):')
LIBRARY = re.compile(r"like:library-[^\s()]*")
OPERATORS = re.compile(r"\b(?:ANDNOT|AND|OR|NOT)\b")
OPERATOR_WORDS = {"AND": "and", "OR": "or", "ANDNOT": "but not", "NOT": "not"}

# The values below are keys of `cached` parts, so they are compared by their content.


class NumberedTitle(NamedTuple):
    """A title in the list at the top of a long digest, with the number of its card."""

    number: int
    title: str
    href: str  #: the URL of the paper, because links within a letter do nothing in many mail programs


class TitleGroup(NamedTuple):
    """The titles of one topic in the list at the top of a long digest."""

    name: str  #: the name of the section's anchor
    topic: str  #: empty if there is only one topic
    papers: int
    titles: tuple[NumberedTitle, ...]
    more: str  #: the numbers of the papers that only follow below, in words; empty if all titles are listed


class PageSection(NamedTuple):
    """What stands around the cards of one topic."""

    name: str
    topic: str
    share: str  #: the numbers of shown papers and of matches, in words; empty if all are shown
    heading_width: int  #: maximum width in columns of the topic's lines in the text part
    underline: str
    more: str  #: the number of papers left out, in words; empty if a page lists them
    rest: str  #: the label of the link to the page that lists the papers left out
    rest_url: str


class PrintedPaper(NamedTuple):
    """A paper as the letter prints it, and the reason why it is there."""

    number: int  #: for replies; 0 if the site takes no mail commands
    paper: Card
    why: ReasonLine
    is_first: bool  #: whether it is the first below its heading


def is_listed(plan: Sequence[SectionPlan], digest: Digest, cadence: str) -> bool:
    """Return whether the digest begins with a list of its titles, as a long weekly or monthly one does."""
    papers = sum(len(section.papers) for section in plan)
    return cadence in LONG_CADENCES and papers > MAX_UNLISTED and digest.abstracts != "titles"


def titles_per_topic(papers: Sequence[int]) -> list[int]:
    """Return how many titles of each topic are listed, given its papers: all, or an equal share of the list."""
    if sum(papers) <= MAX_LISTED:
        return list(papers)
    share = max(MAX_LISTED // len(papers), 1)
    return [count if count <= share + 1 else share for count in papers]  # never "and 1 more"


def counts_line(digest: Digest, papers: int, words: int) -> str:
    """Return the numbers above the headline: "10 of 43 new papers · 3 minutes", or the matches of a catch-up."""
    if digest.is_catch_up and digest.matched > papers:
        has_trending = any(section.topic == TRENDING_TOPIC for section in digest.sections)
        counted = subject_lines.catch_up_counts(digest.matched, papers, is_on_topics=not has_trending)
    else:
        counted = figures_in_words.new_papers(papers, digest.checked)
    return f"{counted} · {figures_in_words.minutes_to_read(words)}"


def followup_items(news: Sequence[FollowUp], site: Site) -> tuple[tuple[str, str, str], ...]:
    """Return the updates to papers of earlier digests, each as (URL, title, text)."""
    return tuple(
        (
            links.paper_url(site, one.paper),
            figures_in_words.cut_at_word(one_line(one.title), MAX_TITLE_LENGTH),
            figures_in_words.followup_text(one.kind, one_line(one.detail)),
        )
        for one in news
    )


@lru_cache(maxsize=16_384)  # readers share topics and numbers of papers
def page_section(  # noqa: PLR0917 - the cache key
    place: int,
    topic: str,
    papers: int,
    matches: int,
    more: int,
    is_only: bool,  # noqa: FBT001
    page: str,
) -> PageSection:
    """Return what stands around the cards of the section at this place."""
    shown = figures_in_words.more_on_topic(heading(topic)) if is_only else heading(topic)
    share = figures_in_words.share_of_matches(papers, matches) if 0 < papers < matches else ""
    is_linked = bool(more and page)
    return PageSection(
        name=anchor_name(place),
        topic=shown,
        share=share,
        heading_width=heading_width(share),
        underline=underline(shown, share),
        more=figures_in_words.more_papers(more, topic) if more and not page else "",
        rest=figures_in_words.see_more(more, heading(topic)) if is_linked else "",
        rest_url=f"{page}/{place}" if is_linked else "",
    )


def anchor_name(place: int, papers: int = 2) -> str:
    """Return the name of a section's anchor; the only paper of the first section stands at the top."""
    return "top" if place == 1 and papers == 1 else f"t{place}"


def heading_width(share: str) -> int:
    """Return the maximum width of a topic's lines in plain text: `share` in brackets fits after the last one."""
    return line_wrapping.LINE_WIDTH - (len(f" ({share})") if share else 0)


def underline(topic: str, share: str) -> str:
    """Return the line of hyphens under a topic's heading in plain text, as wide as the heading's widest line."""
    lines = line_wrapping.wrap(topic, measure=heading_width(share)).split("\n")
    lines[-1] += f" ({share})" if share else ""
    return "-" * min(max(map(line_wrapping.columns, lines)), line_wrapping.LINE_WIDTH)


def card_of_paper(press: Press, site: Site, paper_id: int, canonical: str | None, form: CardForm) -> Card:
    """Return the card of one paper, with the reason why the filter `canonical` chose the paper."""
    number = press.rank_of_paper[paper_id]
    paper = press.papers[number]
    clauses = matched_clauses(press, (number,), canonical).get(number, ())
    why = reason_of(press, number, clauses, printed_text(paper, form))
    page = links.paper_url(site, paper_id)
    return make_card(paper, page=page, why=why, form=form)


def matched_clauses(
    press: Press, numbers: Sequence[int], canonical: str | None
) -> Mapping[int, tuple[Leaf, ...]]:
    """Return {paper number: clauses by which the filter matches}; empty without a filter."""
    return press.explainer.matched_clauses(canonical, numbers) if canonical else {}


def reason_of(press: Press, number: int, clauses: Sequence[Leaf], printed: PrintedText) -> ReasonLine:
    """Return the reason line of a paper: the words that these clauses matched, and the strongest figure."""
    figure = press.reasons[number][:1]
    if not clauses:
        return trending_reason(figure)
    return topic_reason(press.papers[number], press.explainer.finding(clauses, number), figure, printed)


@lru_cache(maxsize=4096)  # readers share many topics, and a letter names each topic three times
def heading(topic: str) -> str:
    """Return a topic's name on one line, in a form that mail programs cannot turn into a link.

    A filter that was given no name is put into words.
    """
    name = one_line(topic)
    return break_addresses(filter_in_words(name) if RAW_FILTER.search(name) else name)


def filter_in_words(text: str) -> str:
    """Return a filter in words: "diffusion or video", "papers like those in your library"."""
    liked = LIBRARY.sub("papers like those in your library", text).replace("like:", "papers like ")
    plain = " ".join(FILTER_SIGNS.sub(" ", liked).split())
    return OPERATORS.sub(lambda found: OPERATOR_WORDS[found[0]], plain)


@lru_cache(maxsize=4096)  # many readers have the same topics
def anchors(topics: tuple[tuple[str, int], ...]) -> tuple[tuple[str, str, int], ...]:
    """Return the links to the sections, each as (name, topic, number of papers); none for a single section."""
    if not 2 <= len(topics) <= MAX_ANCHORS:
        return ()
    return tuple(
        [
            (anchor_name(place, papers), heading(topic), papers)
            for place, (topic, papers) in enumerate(topics, start=1)
        ]
    )


@lru_cache(maxsize=4096)  # many readers have the same topics
def topics_line(topics: tuple[str, ...], silent: tuple[str, ...]) -> str:
    """Return the line with all topics: "Your topics: Flows; Robots (nothing today)"; "" if there are none."""
    named = [heading(topic) for topic in topics if topic != TRENDING_TOPIC]
    quiet = [heading(topic) for topic in silent if topic != TRENDING_TOPIC]
    return figures_in_words.topics_line(named, quiet) if named or quiet else ""
