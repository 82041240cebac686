"""Clean the values of records, whatever format they come from: markup, placeholders, lists in text, ids in text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from digest.dumps.formats import field_parsing
from digest.papers.display_text import display
from digest.papers.paper_record import Announcement, Organization, Record

#: Words that programs write for a missing value.
MISSING = frozenset(
    ("nan", "null", "none", "n/a", "na", "-", "--", "–", "[]", "{}", "undefined", "not available")
)
OTHERS = re.compile(r",? ?(?:\band others|\bet\.? ?al\b\.?|\.\.\.|…)$", re.IGNORECASE)
#: the number by which DBLP distinguishes people with the same name
NAME_NUMBER = re.compile(r"(?<=\w) 0\d{3}$")
NUMBER_OF_AUTHORS = re.compile(r"\W*(\d{1,6})\s*(?:authors?)?\W*", re.IGNORECASE)
LIST_ITEM = re.compile(r"\"([^\"]{1,300})\"|(?<![^\s,\[(])'((?:[^']|'(?!\s{0,5}[,\])])){1,300})'")
#: One of these signs or words occurs in the names of a record that needs cleaning.
UNCLEAN_SIGN = re.compile(r"[\[{;|\n&\\\"…]")
UNCLEAN_WORDS = MISSING | {"al", "al.", "et.al", "et.al.", "others"}
BRACED = re.compile(r"\{([^{}]*)\}")
TEX_SIGN = re.compile(r"\{?\\text(less|greater|ampersand|underscore)\}?(?:\{\})?|\{\\([%&_#$])\}")
TEX_SIGNS = {"less": "<", "greater": ">", "ampersand": "&", "underscore": "_"}
DOUBLE_BRACES = re.compile(r"(?:(?<=\s)|^)\{\{([^{}]*)\}\}")
ENTITY = re.compile(r"&(?:#\d{2,6}|#x[0-9a-fA-F]{2,5}|[A-Za-z][A-Za-z0-9]{1,8});")
TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,30})(?:\s[^<>]{0,300})?/?>")
#: Tags within words; other tags separate words.
INLINE_TAGS = frozenset(
    ["i", "b", "em", "strong", "sub", "sup", "u", "sc", "scp", "tt", "span", "font", "a", "math", "italic", "bold", "mml", "mi", "mo", "mn", "mrow", "msub", "msup", "msubsup", "mfrac", "msqrt", "mover", "munder", "mtext", "semantics"]
)  # fmt: skip
#: Elements whose text repeats a formula, or is a heading.
DROPPED = re.compile(
    r"<(?P<name>(?:mml:)?annotation|(?:jats:)?tex-math|style|script)\b[^<>]{0,300}>.{0,5000}?</(?P=name)>"
    r"|<(?P<title>(?:jats:)?title|h\d)\b[^<>]{0,300}>\W*(?:abstract|summary)\W*</(?P=title)>",
    re.IGNORECASE | re.DOTALL,
)
ABSTRACT_LABEL = re.compile(
    r"\s*abstract\s*(?:[:.\n—–-]\s*|\s(?=(?:background|objectives?|purpose|aims?|introduction)\b))",
    re.IGNORECASE,
)
ARXIV_IN_JOURNAL = re.compile(r"(?:arxiv:\s?|\babs/)(\d{4}\.\d{4,5}|[a-z-]{2,16}/\d{7})", re.IGNORECASE)
CODE = re.compile(
    r"(?:https?://)?(?:www\.)?((?:github|gitlab|bitbucket|codeberg)\.(?:com|org)/[\w.-]{1,60}/[\w.-]{1,100})"
)
IN_BRACKETS = re.compile(r"\([^()]*\)")
LIST_SIGNS = str.maketrans(",;|", "\1\2\3")
BACK = str.maketrans("\1\2\3", ",;|")
CATEGORY = re.compile(r"[a-z][a-z-]+(?:\.[A-Za-z-]{2,})?")


def paper(  # noqa: PLR0913  (one argument for each field)
    *,
    line: int,
    title: Any,
    abstract: Any = "",
    ids: Iterable[tuple[str, Any]] = (),
    addresses: Iterable[Any] = (),
    authors: Iterable[str] = (),
    n_authors: int | None = None,
    are_all_named: bool = True,
    organization: Organization | None = None,
    published: Any = None,
    published_inferred: bool = False,
    posted: Any = None,
    categories: Iterable[str] = (),
    urls: Iterable[Any] = (),
    signals: Mapping[str, Any] = MappingProxyType({}),
    announcement: Announcement = Announcement.NEW,
    summary: Any = "",
    summary_by: str = "",
    comment: Any = "",
    journal: Any = "",
) -> Record:
    """Return the record of the values that a reader found, without markup and placeholders.

    Values of a wrong type count as missing. `ids` are (scheme, id), and `addresses` may contain further ids.
    The number of authors is that of the names, unless it is given or some authors are not named. A summary by
    `summary_by` stands in for a missing abstract; beside an abstract it is kept with the comment. A paper whose
    comment or abstract says so is withdrawn.
    """
    abstract = clean_text(field_parsing.as_prose(abstract))
    comment = clean_text(field_parsing.as_text(comment))
    if summary := clean_text(field_parsing.as_prose(summary)):
        comment = f"{comment} AI summary, {summary_by}: {summary}".lstrip() if abstract else comment
    summary_by = summary_by if summary and not abstract else ""
    abstract = abstract or summary
    journal = clean_text(field_parsing.as_text(journal))
    names, number = clean_names(tuple(filter(None, authors)))
    known = field_parsing.ids_in_urls(*addresses) | field_parsing.normalised_ids(ids)
    if journal and "arxiv" not in known and (found := ARXIV_IN_JOURNAL.search(journal)):
        known |= field_parsing.normalised_ids([("arxiv", found[1])])
    if "withdrawn" in comment or "withdrawn" in abstract[:200]:
        is_withdrawn = field_parsing.is_withdrawn(comment, abstract)
        announcement = Announcement.WITHDRAWN if is_withdrawn else announcement
    journal = "" if journal[:8].startswith(("http://", "https://")) else journal
    own = field_parsing.web_urls(*urls) if urls else ()
    return Record(
        title=clean_text(field_parsing.as_text(title)),
        abstract=abstract,
        ids=known,
        authors=names,
        n_authors=n_authors or (number if are_all_named else None),
        organization=organization,
        published=field_parsing.parse_day(published),
        published_inferred=published_inferred,
        posted=field_parsing.parse_day(posted),
        categories=clean_list(tuple(categories)),
        urls=(*own, *code_addresses(abstract, comment, own)),
        signals=field_parsing.known_signals(**signals) if signals else signals,
        announcement=announcement,
        summary_by=summary_by,
        comment=comment,
        journal=journal,
        line=line,
    )


def clean_text(text: str) -> str:
    """Return a text without markup, entities and the TeX that protects signs; "" for a missing value."""
    if not text or (len(text) < 16 and text.strip().casefold() in MISSING):
        return ""
    if "{" in text or "\\text" in text:
        text = TEX_SIGN.sub(lambda sign: sign[2] or TEX_SIGNS[sign[1]], text)
        text = DOUBLE_BRACES.sub(r"\1", text)
    if "&" in text:
        for _ in range(2):  # some programs encode twice
            text = html.unescape(text) if ENTITY.search(text) else text
    if "<" in text and ("</" in text or "/>" in text):
        text = without_tags(text)
    if text[:12].lstrip()[:8].casefold() == "abstract":
        text = ABSTRACT_LABEL.sub("", text, count=1) if ABSTRACT_LABEL.match(text) else text
    return text


def without_tags(text: str) -> str:
    """Return the text of an HTML, JATS or MathML fragment on one line."""
    bare = TAG.sub(
        lambda tag: "" if tag[2].rpartition(":")[2].casefold() in INLINE_TAGS else " ", DROPPED.sub(" ", text)
    )
    return " ".join(html.unescape(bare).split())


def clean_names(names: tuple[str, ...]) -> tuple[tuple[str, ...], int | None]:
    """Return the names of people, and their number; None if some are not named."""
    if not are_unclean(names):
        return names, len(names) or None
    clean: list[str] = []
    number: int | None = None
    is_whole = True
    for text in names:
        if text.strip().casefold() in MISSING:
            continue
        if count := NUMBER_OF_AUTHORS.fullmatch(text):
            number = int(count[1])
            continue
        for one in (" ".join(listed.split()) for listed in listed_names(text)):
            bare = OTHERS.sub("", one).strip(" ,;'\"")
            is_whole = is_whole and bare == one.strip(" ,;'\"") and one != "others"
            clean += [NAME_NUMBER.sub("", name) for name in names_in(bare) if name != "others"]
    if ends_in_full_stop(clean):
        clean[-1] = clean[-1].rstrip(".")
    return tuple(filter(None, clean)), number or (len(clean) or None if is_whole else None)


def are_unclean(names: Sequence[str]) -> bool:
    """Return whether names may need cleaning, by checks that are cheap for names that do not."""
    whole = " ".join(names)
    return (
        UNCLEAN_SIGN.search(whole) is not None
        or whole[:1].isdecimal()
        or " 0" in whole
        or "..." in whole
        or not UNCLEAN_WORDS.isdisjoint(whole.casefold().split())
        or ("," in whole and any(name.count(",") > 1 for name in names))
        or ends_in_full_stop(names)
    )


def ends_in_full_stop(names: Sequence[str]) -> bool:
    """Return whether a full stop ends a list of names, as in `Okafor A, Ito K.`, and not an initial."""
    return len(names) > 1 and names[-1].endswith(".") and not any("." in name for name in names[:-1])


def listed_names(text: str) -> list[str]:
    """Return the names in a text such as `['A', 'B']`, `A; B` or one name a line."""
    if text[:1] in "[(" and (items := LIST_ITEM.findall(text)):
        return [double or single for double, single in items]
    if "{" not in text and "\\" not in text:
        return [part for part in re.split(r"[;|\n]|\s+&\s+(?=\S+$)", text) if part.strip()]
    return [without_braces(text)]


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in `A, B and C`, or the text itself if it is one name, such as `Ito, K.`"""
    if "&" not in text and text.count(",") < 2 and not field_parsing.person_names(text)[1:]:
        return (text,)
    found = field_parsing.split_names(text.replace(" & ", " and "))
    return found if len(found) > 1 and all(map(is_name, found)) else (text,)


def is_name(text: str) -> bool:
    """Return whether a part of a list of names is a whole name."""
    return " " in text and text[:1].isalpha()


def without_braces(text: str) -> str:
    """Return a name or a title with TeX's accents as letters and without braces."""
    shown = display(TEX_SIGN.sub(lambda sign: sign[2] or TEX_SIGNS[sign[1]], text))
    for _ in range(3):
        shown = BRACED.sub(r"\1", shown)
    return shown


def clean_list(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of a list; a single text may be the list: `['a', 'b']`, `a; b`, `a, b (c, d)` or `cs.RO cs.LG`."""
    parts = [" ".join(text.split()) for text in texts if text]
    if len(parts) == 1:
        text = parts[0]
        if text[:1] == "[" and (items := LIST_ITEM.findall(text)):
            parts = [double or single for double, single in items]
        elif " " in text and "." in text and all(map(CATEGORY.fullmatch, text.split())):
            parts = text.split()
        else:  # commas in brackets do not separate
            whole = IN_BRACKETS.sub(lambda part: part[0].translate(LIST_SIGNS), text)
            parts = [part.translate(BACK) for part in re.split("[,;|]", whole)]
        parts = [bare for part in parts if (bare := part.strip()) and bare.casefold() not in MISSING]
    return tuple(dict.fromkeys(parts))


def code_addresses(abstract: str, comment: str, urls: Sequence[str]) -> Iterator[str]:
    """Yield the addresses of code in the abstract and the comment that are not among a paper's URLs."""
    for text in (abstract, comment):
        if "/" in text and (".com/" in text or ".org/" in text):
            known = " ".join(urls)
            for found in dict.fromkeys(one[1].rstrip(".-") for one in CODE.finditer(text)):
                if found not in known:
                    yield f"https://{found.removesuffix('.git')}"
