"""Parse the entries of lists in Markdown: items, headings and table rows that name a paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlsplit

from digest.dumps.formats import clean_values, field_parsing, markup
from digest.papers.identifiers import id_in
from digest.papers.paper_record import Record

LINK = re.compile(
    r"(?P<image>!?)\[(?P<label>(?:[^\[\]]|\[[^\[\]]{0,300}\](?:\([^()\s]{0,500}\))?){0,500})\]"
    r"\(\s{0,9}<?(?P<url>[^()\s<>]{1,1000}(?:\([^()\s]{0,200}\)[^()\s<>]{0,500})?)>?(?:\s+\"[^\"]{0,300}\")?\s{0,9}\)"
)
BARE = re.compile(r"<?(https?://[^\s<>()\[\]\"]{4,1000})>?")
TAG = re.compile(r"</?[A-Za-z][^<>]{0,600}>|<!--.{0,600}?-->")
LINE_BREAK = re.compile(r"<br\s*/?>|</?p>|</?summary>|</?details>", re.IGNORECASE)
EMPHASIS = re.compile(r"\*\*|__|~~|`|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
MARKUP = re.compile(r"[\[<*_~`\\]")
LEAD = re.compile(
    r"(?:\[[ xX]\]\s+|\W{0,6}(?:19|20)\d\d(?:[-./]\d{1,2}){0,2}[^\w*(\[\"“]{1,6}|[^\w\s(\[\"“'‘$*_`<]+\s*)+",
    re.ASCII,
)
DAY = re.compile(r"(?<![\d./-])((?:19|20)\d\d)[-./](0?[1-9]|1[0-2])(?:[-./](\d{1,2}))?(?![\d./-]*\d)")
BOLD = re.compile(
    r"\W{0,8}?(\*\*|__)(?P<text>[^*_\n]{8,400})\1|\W{0,8}?[\"“](?P<quoted>[^\"”\n]{8,400})[\"”]"
)
BOLD_WORDS = re.compile(
    r"(?<!\S)(\*\*|__)(?P<text>[^*_\n]{8,400})\1|(?<!\S)[\"“](?P<quoted>[^\"”\n]{8,400})[\"”]"
)
#: The separators between parts of a text: brackets, dashes and the ends of sentences.
#: The full stop after an initial (`Ada P. Okafor`) does not end a sentence.
PART = re.compile(
    r"\n|\s[-–—|·•:]\s|\s{2,}|[()\[\]]|(?<=[.;])(?<!\b[A-ZÀ-ÖØ-Þ]\.)\s+|\*{1,2}|(?<!\w)_|_(?!\w)"
)
#: A line in italics; below a title, such a line is usually a byline.
BYLINE = re.compile(r"\s*(?P<mark>\*|_)(?P<names>[^*\n]{3,3000}?)(?:(?P=mark)\W{0,6}|$)")
LAST_POINT = re.compile(r"(?<=\w\w)\.$")
NAMES_LABEL = re.compile(r"\W{0,6}(?:authors?|by)(?:\W{0,4}:|\s)\W{0,4}(?P<names>\S.*)", re.IGNORECASE)
TEXT_LABEL = re.compile(r"\W{0,6}(?:abstract|summary|tl;?dr)\W{0,4}:\W{0,4}(?P<text>\S.*)", re.IGNORECASE)
VENUE = re.compile(
    r"(?!(?:arXiv|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b)(?:[A-Z][\w&/+-]*\s){0,3}[A-Z][\w&/+-]*"
    r"(?:\s|\s?['’])(?:(?:19|20)\d\d|\d\d)(?:\s(?:oral|spotlight|poster|workshops?|findings|highlight))?",
    re.IGNORECASE,
)
VENUE_LABEL = re.compile(
    r"(?:[A-Z][\w&/+-]*\s){0,2}[A-Z][\w&/+-]*(?:\s|\s?['’])(?:(?:19|20)\d\d|\d\d)"
    r"(?:\s(?i:oral|spotlight|poster|workshops?|findings|highlight))?"
)
#: A venue with its year in brackets before or after a title.
VENUE_BESIDE = re.compile(
    r"\A(?:[(\[](?P<before>(?:[A-Z]|arX)[^()\[\]]{1,40}?(?:\s|\s?['’])(?:20|19)?\d\d)[)\]]\s*(?=\S))?(?P<title>.*?\S)"
    r"(?:\s+[(\[](?P<after>(?:[A-Z]|arX)[^()\[\]]{1,60}\s(?:19|20)\d\d)[)\]])?\Z"
)
#: The name of an emoji on GitHub, such as `:star:`.
EMOJI_NAME = re.compile(r"(?<![\w:/]):[a-z][a-z_\d]{1,30}:(?!\w)")
#: Words that label a link to the paper itself.
PAPER_WORDS = frozenset("paper|pdf|arxiv|abs|abstract|openreview|doi|html|acl|link|paper link|arxiv link|url|full text|preprint|hf|huggingface|hugging face".split("|"))  # noqa: SIM905  # fmt: skip
#: Words that label a link to the paper itself or to related pages, such as its code.
LINK_WORDS = PAPER_WORDS | frozenset(
    (
        "code", "github", "project", "project page", "page", "website", "homepage", "site", "web", "demo",
        "video", "youtube", "slides", "poster", "blog", "blog post", "dataset", "data", "model", "models",
        "weights", "checkpoint", "checkpoints", "colab", "bibtex", "bib", "supp", "supplementary", "appendix",
        "tweet", "twitter", "x", "talk", "star", "stars", "semantic scholar", "kimi", "alphaxiv",
        "papers with code", "pytorch", "tensorflow", "jax", "official code", "official", "repo", "implementation",
        "codes", "project website", "webpage", "here", "note", "notes", "review", "reviews", "unofficial code",
        "benchmark", "translation", "read", "other", "ps", "format",
    )
)  # fmt: skip
OTHER_HOSTS = (
    "github.com", "github.io", "gitlab.com", "youtube.com", "youtu.be", "twitter.com", "x.com", "medium.com", "wikipedia.org",
    "colab.research.google.com", "reddit.com", "discord.gg", "discord.com", "shields.io", "awesome.re", "linkedin.com",
    "t.me", "slack.com", "scholar.google.com", "zhihu.com", "bilibili.com", "substack.com", "kaggle.com",
)  # fmt: skip
PAPER_HOSTS = (
    "openreview.net", "proceedings.mlr.press", "papers.nips.cc", "neurips.cc", "openaccess.thecvf.com", "ieeexplore.ieee.org",
    "dl.acm.org", "link.springer.com", "nature.com", "sciencedirect.com", "semanticscholar.org", "jmlr.org", "ojs.aaai.org",
    "isca-archive.org", "ecva.net", "science.org", "pnas.org", "hal.science", "ssrn.com", "chemrxiv.org",
)  # fmt: skip
ID_WORDS = re.compile(r"(?:arxiv )?[\d ]+(?:v\d+)?")
YEAR_AT_END = re.compile(r"[,\s]+\(?(?:19|20)\d\d$")
MIN_TITLE_WORDS = 3
MIN_ABSTRACT = 100  #: characters
MIN_BYLINE = 3  #: names
MIN_USUAL = 0.6  #: minimum share of the entries in a byline that must look like personal names
LONGEST_NAME = 60
MAX_CAPITALISED = 0.6  #: maximum share of an abstract's words that may begin with a capital letter
WORD = re.compile(r"[^\W\d_]")
LONGEST_TITLE = 350
NEW_PARAGRAPH = re.compile(r"\s*(?:$|[-*+•>|#]|\d{1,4}[.)]\s|\w+:(?!//))")
MIN_WRAPPED, MAX_WRAPPED = 32, 100  #: a line with a length in this range may have been wrapped by a tool
LONGEST_NAMES = 4_000
MAX_LINKS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class ListLink:
    """A link in an entry."""

    label: str
    url: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """Return the label without symbols, in lower case."""
        return " ".join(re.sub(r"[\W_]+", " ", self.label).split()).casefold()

    @property
    def host(self) -> str:
        """Return the host name in the link's address without `www.`, or an empty string."""
        try:
            return (urlsplit(self.url).hostname or "").removeprefix("www.")
        except ValueError:
            return ""

    @property
    def leads_to_paper(self) -> bool:
        """Return whether the address leads to a paper."""
        return (
            bool(id_in(self.url))
            or is_host(self.host, PAPER_HOSTS)
            or self.url.partition("?")[0].endswith(".pdf")
        )

    @property
    def is_paper(self) -> bool:
        """Return whether the address or the label indicates a link to a paper."""
        return self.leads_to_paper or ID_WORDS.fullmatch(self.word) is not None or self.word in PAPER_WORDS

    @property
    def is_titled(self) -> bool:
        """Return whether the label may be a title."""
        return (
            bool(self.word)
            and self.word not in LINK_WORDS
            and not ID_WORDS.fullmatch(self.word)
            and not self.is_venue
        )

    @property
    def is_venue(self) -> bool:
        """Return whether the label names a venue, such as `ICLR 2026 Spotlight`."""
        return VENUE_LABEL.fullmatch(self.label) is not None


def is_host(name: str, hosts: Sequence[str]) -> bool:
    """Return whether a host name is in `hosts` or is a subdomain of one of them."""
    return any(name == host or name.endswith(f".{host}") for host in hosts)


def links_in(text: str) -> list[ListLink]:
    """Return the links to other sites in `text`, without images."""
    if "http" not in text:
        return []
    linked = list(LINK.finditer(text))
    found = [
        ListLink(label=plain_text(link["label"]), url=link["url"], start=link.start(), end=link.end())
        for link in linked
        if not link["image"] and link["url"].startswith("http")
    ]
    covered = [(link.start(), link.end()) for link in linked]
    bare = [
        ListLink(label="", url=one[1].rstrip(".,;:*"), start=one.start(), end=one.end())
        for one in BARE.finditer(text)
        if not any(start <= one.start() < end for start, end in covered)
    ]
    return sorted([*found, *bare], key=lambda link: link.start)[:MAX_LINKS]


def as_markdown(text: str) -> str:
    """Convert the links of `text` to Markdown and its line breaks to newlines; remove other tags."""
    if "<" in text:
        text = TAG.sub(" ", markup.as_markdown(LINE_BREAK.sub("\n", text)))
    elif "](" not in text:
        text = markup.as_markdown(text)
    return text


def plain_text(text: str) -> str:
    """Return `text` without links, images and emphasis."""
    if MARKUP.search(text) is None:
        return " ".join(text.split())
    bare = LINK.sub(lambda link: "" if link["image"] else link["label"], text)
    bare = EMPHASIS.sub("", TAG.sub(" ", bare)).replace("\\|", "|").replace("\\_", "_")
    return " ".join(bare.split())


# ── items and headings ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryTitle:
    """The title of an entry, and where the text that contains the title starts and ends."""

    text: str
    start: int
    end: int


def paper_of(text: str, line: int) -> Record | None:
    """Return the paper that an entry names, or None for a section or a link to something else."""
    text = EMOJI_NAME.sub("", as_markdown(text))
    links = links_in(text)
    title = title_in(text, links)
    if title is None or not names_paper(title, links):
        return None
    around = "\n".join((text[: title.start], text[title.end :]))
    text_below = LINK.sub(lambda link: "" if link["image"] else f"[{link['label']}]", around)
    rest = BARE.sub(" ", text_below)
    authors, is_whole = authors_in(rest)
    beside = VENUE_BESIDE.match(title.text)
    return clean_values.paper(
        title=beside["title"] if beside else title.text,
        abstract=abstract_in(text_below),
        addresses=[link.url for link in own_links(title, links)],
        authors=authors,
        are_all_named=is_whole,
        published=day_in(rest),
        urls=[link.url for link in links if id_in(link.url) is None],
        journal=venue_in(rest) or (beside and (beside["before"] or beside["after"])) or "",
        line=line,
    )


def title_in(text: str, links: Sequence[ListLink]) -> EntryTitle | None:
    """Return the title of an entry: a link's label, or the text before the first link."""
    titled = [link for link in links if link.is_titled]
    best = next((link for link in titled if link.is_paper and is_long(link.label)), None)
    bold = bold_title(text, links)
    other = next(
        (link for link in titled if is_long(link.label) and not is_host(link.host, OTHER_HOSTS)), None
    )
    plain = leading_title(text, links)
    short = next((link for link in titled if link.leads_to_paper), None)
    named = next((link for link in links if link.is_venue and link.leads_to_paper), None)
    for found in (best, bold, other, plain, short, named):
        if isinstance(found, ListLink):
            return EntryTitle(text=clean_title(found.label), start=found.start, end=found.end)
        if found is not None:
            return found
    return None


def is_long(title: str) -> bool:
    """Return whether `title` has enough words for a title and is not too long."""
    return len(title.split()) >= MIN_TITLE_WORDS and len(title) <= LONGEST_TITLE


def clean_title(title: str) -> str:
    """Return a title without the surrounding quotes and symbols."""
    title = title.strip(" \t,;:|-–—📄🔥⭐")
    if title[:1] in '"“' and title[-1:] in '"”.,':
        title = title.strip('"“”.,')
    return title.removesuffix(".") if not title.endswith("..") else title


def bold_title(text: str, links: Sequence[ListLink]) -> EntryTitle | None:
    """Return the bold or quoted text that begins an entry, or follows names, if it is long enough and not a link."""
    lead = LEAD.match(text)
    start = lead.end() if lead else 0
    found = BOLD.match(text, start) or BOLD.match(text)
    if found is None and (inner := BOLD_WORDS.search(text)) is not None:
        found = inner if names_of(text[: inner.start()].rstrip(" ."))[0] else None
    if found is None or any(found.start() < link.end and link.start < found.end() for link in links):
        return None
    title = clean_title(plain_text(found["text"] or found["quoted"]))
    is_short = len(title.split()) > 1 and any(link.leads_to_paper for link in links)
    return (
        EntryTitle(text=title, start=found.start(), end=found.end()) if is_long(title) or is_short else None
    )


def leading_title(text: str, links: Sequence[ListLink]) -> EntryTitle | None:
    """Return the title before the first link; it ends before authors, a bracket or the end of the line."""
    if not links:
        return None
    lead = LEAD.match(text)
    start = lead.end() if lead else 0
    before = text[start : links[0].start].partition("\n")[0]
    cut = re.split(
        r"\s[-–—|]\s|\s*\((?:19|20)\d\d\)\s*[,.:]|\s*\(\d[\d.,]*k? \w+\)|\s*[\[(]{1,2}\W*$|\.\s+(?=[A-Z*_])|[*_]{1,2}\s*[,.(]",
        before.strip(),
        maxsplit=1,
    )[0]
    title = without_names(clean_title(plain_text(cut)))
    place = max(text.find(title, start), start)
    return EntryTitle(text=title, start=start, end=place + len(title)) if is_long(title) else None


def without_names(title: str) -> str:
    """Return a title without the authors and the year at its end, as in `Tidal Sorting, Ada Okafor, 2026`."""
    parts = title.split(", ")
    if len(parts) < 2 or not re.fullmatch(r"(?:19|20)\d\d", parts[-1]):
        return title
    parts.pop()
    while len(parts) > 1 and field_parsing.is_person_name(parts[-1]):
        parts.pop()
    return ", ".join(parts)


def names_paper(title: EntryTitle, links: Sequence[ListLink]) -> bool:
    """Return whether an entry links to a paper, judging by an address, a label or the title."""
    titled = (link for link in links if link.start == title.start)
    return any(link.is_paper for link in links) or any(not is_host(link.host, OTHER_HOSTS) for link in titled)


def own_links(title: EntryTitle, links: Sequence[ListLink]) -> list[ListLink]:
    """Return the links that lead to the paper itself, the title's link first."""
    first = [link for link in links if link.start == title.start]
    return [*first, *(link for link in links if link not in first and not (link.is_titled and first))]


def authors_in(rest: str) -> tuple[tuple[str, ...], bool]:
    """Return the authors in the text below a title, and whether all authors are named."""
    lines = rest.split("\n")
    for line in lines:
        labelled = NAMES_LABEL.fullmatch(line.strip()) if len(line) < LONGEST_NAMES else None
        if labelled and ":" in line and (found := names_of(labelled["names"]))[0]:
            return found
    dotted = [" ".join(block.split()) for block in rest.split("\n\n") if " · " in block]
    for part in (*dotted, *PART.split(rest[:LONGEST_NAMES])):
        if len(part) > 2 and (found := names_of(part.strip(" ,.;").removeprefix("by ")))[0]:
            names, is_whole = found
            if len(names) > 1 or not is_whole:
                return found
    return next(filter(None, map(byline_names, lines)), ()), True


def byline_names(line: str) -> tuple[str, ...]:
    """Return the names on a line in italics, or none if the line is probably not a byline.

    A byline has at least `MIN_BYLINE` names, and at least the share `MIN_USUAL` of them look like personal
    names.
    """
    if not (found := BYLINE.fullmatch(line)):
        return ()
    names = field_parsing.split_names(LAST_POINT.sub("", plain_text(found["names"].rstrip("\\ "))))
    usual = sum(map(field_parsing.is_person_name, names))
    is_list = len(names) >= MIN_BYLINE and MIN_USUAL * len(names) <= usual
    return names if is_list and all(len(name) < LONGEST_NAME for name in names) else ()


def names_of(text: str) -> tuple[tuple[str, ...], bool]:
    """Return the names in a string that consists only of people's names, and whether all authors are named.

    Ignore a year at the end. Return no names if the text contains anything else.
    """
    plain = YEAR_AT_END.sub("", plain_text(text).strip(" ,.;:|-–—()[]*_"))
    bare = clean_values.OTHERS.sub("", plain)
    names = field_parsing.person_names(bare)
    return (names, bare == plain) if names else ((), True)


def day_in(text: str) -> date | None:
    """Return the date in `text`; for a month, return its first day."""
    found = DAY.search(text) or field_parsing.YEAR_LAST.search(text)
    return field_parsing.parse_day(found[0]) if found else None


def venue_in(rest: str) -> str:
    """Return the venue of a paper with the year, such as `ICLR 2026 Oral`, or an empty string."""
    parts = (
        plain_text(part).strip(" ,.;:")
        for part in re.split(r"[\n()\[\],;|]|\*+|\s-\s|`|\.\s", rest[:LONGEST_NAMES])
    )
    return next((part for part in parts if len(part) < 60 and VENUE.fullmatch(part)), "")


def abstract_in(rest: str) -> str:
    """Return the abstract in the text below a title, or an empty string.

    The abstract is the text after a label such as `Abstract:`, or else the longest paragraph if it is prose.
    """
    lines = [line.strip(" \t>*-\\") for line in paragraphs(rest)]
    for line in lines:
        if (labelled := TEXT_LABEL.fullmatch(line)) and len(labelled["text"]) > MIN_ABSTRACT // 2:
            return plain_text(labelled["text"])
    long = (line for line in lines if len(BARE.sub("", line)) > MIN_ABSTRACT)
    longest = max(map(plain_text, long), key=len, default="")
    return longest if len(longest) > MIN_ABSTRACT and is_prose(longest) else ""


def is_prose(text: str) -> bool:
    """Return whether `text` is prose: in a list of names and in a title, most words begin with a capital."""
    words = [word for word in text.split() if WORD.match(word)]
    return sum(word[0].isupper() for word in words) <= MAX_CAPITALISED * len(words)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of `text`; a line that is long enough to be wrapped continues on the next line."""
    whole = ""
    for line in text.split("\n"):
        if whole and NEW_PARAGRAPH.match(line):
            yield whole
            whole = ""
        whole += f" {line.strip()}" if whole else line
        is_full = MIN_WRAPPED <= len(line.rstrip()) <= MAX_WRAPPED
        if not is_full or line.lstrip()[:1] in ("[", "*") or line.endswith("\\"):
            yield whole
            whole = ""
    yield whole
