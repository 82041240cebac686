"""Clean the values of records, whatever format they come from: markup, placeholders, lists in text, ids in text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from digest.dumps.formats import field_parsing
from digest.papers import Record, display, normalised_id

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
UNCLEAN_SIGN = re.compile(r"[\[{;|\n&\\\"\d…]|\.\.\.")
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


def with_clean_values(record: Record, *, is_page: bool) -> Record:
    """Return a record with clean values; a page's own texts, which are printed and not encoded, stay raw."""
    changed: dict[str, object] = {}
    if not is_page:
        changed |= {
            name: clean
            for name in ("title", "abstract", "journal", "comment")
            if (clean := clean_text(text := getattr(record, name))) != text
        }
        if (urls := (*record.urls, *code_addresses(record))) != record.urls:
            changed["urls"] = urls
        if (
            record.journal
            and "arxiv" not in record.ids
            and (found := ARXIV_IN_JOURNAL.search(record.journal))
        ):
            changed["ids"] = dict([*record.ids.items(), *filter(None, [normalised_id("arxiv", found[1])])])
    if record.authors and are_unclean(record.authors):
        names, number = clean_names(record.authors)
        changed["authors"] = names
        if record.n_authors in {None, len(record.authors)}:
            changed["n_authors"] = number
    if len(record.categories) == 1 and (parts := clean_list(record.categories[0])) != record.categories:
        changed["categories"] = parts
    return replace(record, **changed) if changed else record  # type: ignore[arg-type]


def clean_text(text: str) -> str:
    """Return a text without markup, entities and the TeX that protects signs; "" for a missing value."""
    if len(text) < 16 and text.strip().casefold() in MISSING:
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


def clean_names(names: Iterable[str]) -> tuple[tuple[str, ...], int | None]:
    """Return the names of people, and their number; None if some are not named."""
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


def clean_list(text: str) -> tuple[str, ...]:
    """Return the parts of a list in one string: `['a', 'b']`, `a; b`, `a, b (c, d)` or `cs.RO cs.LG`."""
    if text[:1] == "[" and (items := LIST_ITEM.findall(text)):
        parts: Iterable[str] = [double or single for double, single in items]
    elif " " in text and all(map(CATEGORY.fullmatch, text.split())) and "." in text:
        parts = text.split()
    else:
        whole = IN_BRACKETS.sub(
            lambda part: part[0].translate(LIST_SIGNS), text
        )  # commas in brackets do not separate
        parts = [part.translate(BACK) for part in re.split("[,;|]", whole)]
    bare = (part.strip() for part in parts)
    return tuple(dict.fromkeys(part for part in bare if part and part.casefold() not in MISSING))


def code_addresses(record: Record) -> Iterator[str]:
    """Yield the addresses of code in the abstract and the comment that are not among the record's URLs."""
    for text in (record.abstract, record.comment):
        if ".com/" in text or ".org/" in text:
            known = " ".join(record.urls)
            for found in dict.fromkeys(one[1].rstrip(".-") for one in CODE.finditer(text)):
                if found not in known:
                    yield f"https://{found.removesuffix('.git')}"
