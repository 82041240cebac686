"""Check whether records look like papers: titles are titles, abstracts abstracts and authors people."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from digest import plurals
from digest.dumps.formats.field_parsing import MONTHS, person_names
from digest.dumps.formats.reader_interface import Items, doubt, excerpt
from digest.papers.paper_record import Record, title_key

MAX_EXAMPLES = 3
NEW_ID = re.compile(r"\d{4}\.\d")
MIN_DATED = 5  #: minimum number of papers whose dates and counts are compared with those of their neighbours
SERIES = 12  #: titles with the same first characters are parts of a series
LONGEST_TITLE = 350
SHORTEST_ABSTRACT = 80  #: a shorter text that is no sentence is not an abstract; in characters
BEGINNING = 200  #: abstracts with the same first characters begin alike
MIN_MARKED = 0.5  #: minimum share of a page's papers that must have an id, a date or another sign of a paper

MARKUP = re.compile(
    r"\barXiv:\s?\d{4}\.\d{4}|^[.\\@=|~^]\w|\]\(|\[\[|\]\[|\*\*\w|\w\*\*|(?:^|\s)h[1-6]\.\s|={3,}|</?[a-z][^<>]{0,80}>|^#{1,6}\s|&(?:[a-z]{2,6}|#\d{2,5});|\\textless",
    re.IGNORECASE,
)
#: A text without a sign of markup or of an address; to match it is much faster than to search for each of them.
NO_MARKUP = re.compile(r"[^\[\]*<>=#&\\/@|~^.]*")
ADDRESS = re.compile(r"(?:https?:/|www\.|link:)\S", re.IGNORECASE)
LONGEST_DATE = 32  #: characters, with signs behind it
COUNT_OR_DATE_AT_END = re.compile(
    rf"\b(?:(?=[JFMASOND]){MONTHS} \d{{1,2}}, (?:19|20)\d\d|(?=\d)(?:\d{{1,2}} {MONTHS} (?:19|20)\d\d|(?:19|20)\d\d-\d\d-\d\d"
    r"|\d[\d,.]*k? (?:authors?|comments?|upvotes?|stars|likes)))\W*$",
    re.IGNORECASE,
)
CUT = re.compile(r"[(\[](?:19|20)\d\d[)\]]\s*[,.:]\s*\S.{0,40}$|[(\[{]\s*$")
NO_TITLE = re.compile(
    r"\W*(?:\d{1,4}\W+)?arXiv:\s?\d.*|\W*(?:arXiv\s*)?(?:\d{1,2} \w{3,9} )?(?:(?:19|20)\d\d\W*)?|\W*\d*\W*"
    r"|\W*(?:[A-Z][\w&+-]{1,11}\s?){1,2}['’ -]*(?:19|20)?\d\d\W*(?:oral|spotlight|poster|workshop|findings|highlight)?\W*"
    r"|(?:(?:IEEE|ACM|AAAI|USENIX|IFIP|\d+th|The|Annual|European|International|Joint)[ /]){1,5}(?:Conference|Symposium|Workshop) on .{3,90}"
    r"|\W*(?i:paper|pdf|code|project(?: page)?|arxiv|abs|link|website|home ?page|abstract|authors?|share on .{0,30}|submitted by .*)\W*"
)
#: How a title or an abstract ends that has text of the page at its end; or it has a middle dot.
PAGE_ENDINGS = (
    "comment", "comments", "upvote", "upvotes", "arXiv", "PDF", "Code", "Paper", "Project", "Website", "Video", "Slides",
    "HTML", "BibTeX",
)  # fmt: skip
PAGE_TEXT = re.compile(
    r"\d authors?\s*·|·\s*[A-Z][a-z]{2} \d{1,2}(?:, \d{4})?(?: \d+)?$|\d (?:comments?|upvotes?)$"
    r"|(?:\s(?:arXiv|PDF|Code|Paper|Project|Website|Video|Slides|HTML|BibTeX)){2,}$"
)
TEXT_MARKUP = re.compile(
    r"\]\((?:https?:|/)|</?(?:jats:\w+|mml:\w+|p|div|span|sub|sup|i|b|em)\b[^<>]{0,200}>|&lt;|\\textless"
)
NO_NAME = re.compile(
    r";| and |&|%|\bet\.? al\b|,[^,]*,[^,]*,|\d authors?\b|^\[|\]$|['\"],|^\W*\d*\W*$|^(?:nan|null|none|n/a)$|[<>]|https?:",
    re.IGNORECASE,
)
#: Names without such a sign or word are not searched for the others.
NO_SIGN = re.compile(r"[^;&%,<>\[\]'\":]*")
NO_NAME_WORDS = frozenset(
    ("and", "al", "al.", "et.al", "et.al.", "author", "authors", "nan", "null", "none", "n/a")
)

KeyedRecord = tuple[str, Record]  #: the key of a record's title, and the record


@dataclass(frozen=True, slots=True)
class Law:
    """A sign of a misread record, and how often it occurs in dumps that are read right."""

    what: str
    is_broken: Callable[[Record], bool] = bool
    ordinary: float = 0.1  #: the largest share of records for which this is ordinary
    few: int = 2  #: so many records are ordinary, too, if they are less than half of all


def faults(records: Sequence[Record], *, is_page: bool, may_be_other_text: bool) -> Items:
    """Yield a doubt for each law that more records break than is ordinary.

    On a page (`is_page`) all papers have abstracts or none. Set `may_be_other_text` for a reader that finds
    papers in any text.
    """
    keyed = [(title_key(one.title), one) for one in records]
    broken = [(law, list(filter(law.is_broken, records))) for law in LAWS]
    broken += [
        (Law("have the title of another paper"), list(repeated_titles(keyed))),
        (Law("have the same abstract", ordinary=0.5), repeated_abstracts(keyed)),
        (Law("have the id of a paper with another title"), list(shared_ids(keyed))),
        (Law("have an abstract with the id of the paper below them"), list(with_id_of_next(records))),
        (Law("have a date that fits the arXiv id of the paper before or after them"), shifted(records)),
    ]
    bare = [one for one in records if not one.abstract]
    if is_page and 0 < len(bare) < len(records):
        broken.append((Law("have no abstract, unlike the others"), bare))
    if is_page and lack_at_one_end(records):
        what = "may have the count or the date of the paper before or after them, since one end of the list lacks it"
        broken.append((Law(what), list(records)))
    if may_be_other_text:
        other = Law(
            "have no id, date, number or link to a paper: this may be another text", ordinary=1 - MIN_MARKED
        )
        broken.append((other, [one for one in records if not has_mark(one)]))
    for law, wrong in broken:
        if len(wrong) > law.ordinary * len(records) and (
            len(wrong) > law.few or 2 * len(wrong) >= len(records) > 1
        ):
            share = f"{len(wrong):,} of its {plurals.count(len(records), 'paper')}"
            yield doubt(f"{share} {law.what}, for example {examples(wrong)}", wrong[0].line)


def examples(wrong: Sequence[Record]) -> str:
    """Return the first records as they were read, with their lines."""
    return "; ".join(
        f'line {one.line}: "{excerpt(one.title)}"'
        + (f" by {excerpt(', '.join(one.authors[:3]))}" if one.authors else "")
        for one in wrong[:MAX_EXAMPLES]
    )


def has_markup(paper: Record) -> bool:
    """Return whether a title has markup or an address."""
    title = paper.title
    is_plain = NO_MARKUP.fullmatch(title) and "link:" not in title and "xiv:" not in title.casefold()
    return not is_plain and bool(MARKUP.search(title) or ADDRESS.search(title))


def ends_wrong(paper: Record) -> bool:
    """Return whether a title ends in a date or a count, or within a bracket."""
    title = paper.title
    return bool(
        len(title) > LONGEST_TITLE
        or title.count("[") > title.count("]")
        or title.count("(") > title.count(")")
        or has_page_text(title)
        or (("[" in title or "(" in title or "{" in title) and CUT.search(title))
        or COUNT_OR_DATE_AT_END.search(title, max(0, len(title) - LONGEST_DATE))
    )


def has_page_text(text: str) -> bool:
    """Return whether a text has what a page prints beside titles and abstracts."""
    return ("·" in text or text.endswith(PAGE_ENDINGS)) and PAGE_TEXT.search(text) is not None


def is_no_title(paper: Record) -> bool:
    """Return whether a title is the name of something else: of people, a venue, a day or a button."""
    title = paper.title
    return NO_TITLE.fullmatch(title) is not None or number_of_names(title) > 2


def may_be_two_people(paper: Record) -> bool:
    """Return whether a title could be two names: so could "Bigger Models, Better Results", but not most titles."""
    return number_of_names(paper.title) == 2


def number_of_names(title: str) -> int:
    """Return how many people a title names if it could be a list of names, otherwise 0."""
    return len(person_names(title)) if "," in title else 0


def is_no_abstract(paper: Record) -> bool:
    """Return whether an abstract is shorter than a sentence or repeats the title."""
    text = paper.abstract
    is_short = 0 < len(text) < SHORTEST_ABSTRACT and text[-1] not in ".!?…"
    return is_short or (0 < len(text) <= LONGEST_TITLE and title_key(text) == title_key(paper.title))


def is_marked_abstract(paper: Record) -> bool:
    """Return whether an abstract has markup, or ends in what a page prints beside it."""
    text = paper.abstract
    is_marked = ("<" in text or "&" in text or "]" in text or "\\" in text) and TEXT_MARKUP.search(text)
    return bool(is_marked or (text[-1:] not in ".!?" and has_page_text(text[-60:])))


def has_no_authors(paper: Record) -> bool:
    """Return whether an author is a list, a number or another text, or too many authors are named."""
    if paper.n_authors is not None and len(paper.authors) > paper.n_authors:
        return True
    whole = "\n".join(paper.authors)
    is_plain = (
        NO_SIGN.fullmatch(whole)
        and NO_NAME_WORDS.isdisjoint(whole.casefold().split())
        and all(name[:1].isalpha() for name in paper.authors)
    )
    return not is_plain and any(map(NO_NAME.search, paper.authors))


def repeated_titles(keyed: Sequence[KeyedRecord]) -> Iterator[Record]:
    """Yield the records that have the title of an earlier record, but are other papers."""
    first: dict[str, Record] = {}
    for key, one in keyed:
        known = first.setdefault(key, one)
        if known is not one and (known.ids, known.abstract) != (one.ids, one.abstract):
            yield one


def repeated_abstracts(keyed: Sequence[KeyedRecord]) -> list[Record]:
    """Return the records that have the most frequent abstract, one for each beginning of a title.

    The parts of a series, whose titles begin alike, may have the same abstract.
    """
    titles: dict[str, dict[str, Record]] = defaultdict(dict)
    for key, one in keyed:
        if len(one.abstract) >= SHORTEST_ABSTRACT:
            titles[one.abstract[:BEGINNING]].setdefault(key[:SERIES], one)
    common = list(max(titles.values(), key=len, default={}).values())
    return common if len(common) > 1 else []


def shared_ids(keyed: Sequence[KeyedRecord]) -> Iterator[Record]:
    """Yield the records that have an id, but not the title, of an earlier record."""
    first: dict[tuple[str, str], str] = {}
    for key, one in keyed:
        if any(first.setdefault(known, key) != key for known in one.ids.items()):
            yield one


def with_id_of_next(records: Sequence[Record]) -> Iterator[Record]:
    """Yield the records whose abstracts contain the id of the next record, as if its first line belonged to them."""
    for one, below in pairwise(records):
        if (known := below.ids.get("arxiv")) and known in one.abstract:
            yield one


def shifted(records: Sequence[Record]) -> list[Record]:
    """Return the records if nearly all their dates fit the arXiv ids of their neighbours, and few their own."""
    dated = [
        (12 * one.published.year + one.published.month, month_of_id(one.ids["arxiv"]))
        for one in records
        if one.published and NEW_ID.match(one.ids.get("arxiv", ""))
    ]
    if len(dated) < MIN_DATED:
        return []

    def fitting(shift: int) -> int:
        pairs = zip(dated[max(0, shift) :], dated[max(0, -shift) :], strict=False)
        return sum(abs(month - day) <= 1 for (_, month), (day, _) in pairs)

    is_shifted = 2 * fitting(0) < len(dated) and max(fitting(1), fitting(-1)) >= 0.9 * (len(dated) - 1)
    return list(records) if is_shifted else []


def lack_at_one_end(records: Sequence[Record]) -> bool:
    """Return whether all records but only the first, or only the last, have a date or the same kind of count."""
    for name in sorted({"date", *(name for one in records[:2] for name in one.signals)}):
        known = [one.published is not None if name == "date" else name in one.signals for one in records]
        if len(known) > MIN_DATED and sum(known) == len(known) - 1 and not (known[0] and known[-1]):
            return True
    return False


def month_of_id(arxiv: str) -> int:
    """Return the month of an arXiv id such as `2611.01234`, counted from the year 0."""
    return 12 * (2000 + int(arxiv[:2])) + int(arxiv[2:4])


def has_mark(one: Record) -> bool:
    """Return whether a record has a value that ordinary text does not have, such as an id."""
    return bool(
        one.ids
        or one.published
        or one.signals
        or one.organization
        or (one.n_authors and not one.authors)
        or len(one.authors) > 1
        or one.journal
    ) or any(url.endswith(".pdf") or "openreview.net/forum" in url for url in one.urls)


LAWS = (
    Law("have a title with markup or an address", has_markup, 0.02, 0),
    Law("have a title that ends in a date or a count, or that is cut off", ends_wrong, 0.05, 1),
    Law("have a title that is the name of a person, a venue or a button", is_no_title, 0.05, 1),
    Law("have a title that is the names of two people", may_be_two_people, 0.3),
    Law("have a text that is not an abstract", is_no_abstract),
    Law("have an abstract with markup or parts of the page", is_marked_abstract),
    Law("name authors who are not people, or more than they count", has_no_authors, 0.05, 1),
)
