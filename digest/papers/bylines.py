"""Write the short author line of a paper; names are shortened by the rules of their languages."""

from __future__ import annotations

import re

from digest.papers.display_text import display
from digest.papers.paper_record import Paper, fold

MAX_NAMED = 3

SUFFIXES = frozenset(("jr", "sr", "ii", "iii", "iv", "phd", "md"))
#: Words that begin a family name, however they are capitalised.
PARTICLES = frozenset({
    "abd", "abdel", "abdul", "abu", "al", "bin", "bint", "da", "dal", "dalla", "das", "de", "del",
    "della", "den", "der", "di", "do", "dos", "du", "el", "ibn", "la", "las", "le", "los", "ten",
    "ter", "ul", "van", "vande", "vander", "vom", "von", "zu", "zum", "zur",
})  # fmt: skip
#: Words that occur only in the names of groups.
GROUP_WORDS = frozenset({
    "team", "collaboration", "collaborations", "consortium", "group", "lab", "labs", "laboratory",
    "committee", "network", "project", "initiative", "institute", "university", "center", "centre",
    "foundation", "alliance", "taskforce", "authors",
})  # fmt: skip
#: Common Vietnamese family names, without accents; they precede the given name.
VIETNAMESE_FAMILIES = frozenset({
    "nguyen", "tran", "pham", "huynh", "phan", "bui", "ngo", "truong", "dinh", "trinh",
})  # fmt: skip
#: Common Spanish family names, which a second family name usually follows; `is_spanish_family` adds names in -ez.
SPANISH_FAMILIES = frozenset({
    "garcia", "torres", "diaz", "ruiz", "moreno", "munoz", "romero", "castro", "vargas", "ortega",
    "ortiz", "delgado", "molina", "navarro", "dominguez", "gil", "serrano", "blanco", "medina",
    "castillo", "cortes", "guerrero", "rojas", "reyes", "aguilar", "mendoza", "salazar",
})  # fmt: skip
EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
VIETNAMESE_LETTER = re.compile("[\u1ea0-\u1ef9ăđơưĂĐƠƯ]")
INITIALS = re.compile(r"(?:[^\W\d_]\.?-?){1,3}")


def byline(paper: Paper) -> str:
    """Return the paper's authors and institution, such as "Ito, Okafor + 4 · University of Oslo", or ""."""
    if paper.organization is None:
        return people_line(paper)
    institution = display(paper.organization.name or paper.organization.handle)
    if all(display(author) == institution for author in paper.authors):  # true also if no author is known
        return institution
    return f"{people_line(paper)} · {institution}"


def people_line(paper: Paper) -> str:
    """Return up to three names and the number of other authors, if known, or only the number of all authors."""
    if paper.authors:
        named = [short_name(author) for author in paper.authors[:MAX_NAMED]]
        others = max(paper.n_authors or 0, len(paper.authors)) - len(named)
        rest = f" + {others}" if others > 0 else "" if paper.n_authors else " et al."
        return ", ".join(named) + rest
    if paper.n_authors:
        return "1 author" if paper.n_authors == 1 else f"{paper.n_authors} authors"
    return ""


def short_name(author: str) -> str:
    """Return the family name of `author`, written "Given Family" or "Family, Given".

    Names of groups, names in Chinese, Japanese or Korean script, and Vietnamese names are returned whole,
    because their last word is not a family name.
    """
    name = display(author)
    if is_written_whole(name):
        return name
    if "," in name:
        return name.partition(",")[0].strip()
    words = [word for word in name.split() if word.rstrip(".").casefold() not in SUFFIXES] or [name]
    if len(words) > 1 and is_initials(words[-1]) and not is_initials(words[0]):
        return " ".join(word for word in words if not is_initials(word))  # "Lind P."
    return " ".join(words[family_start(words) :])


def is_written_whole(name: str) -> bool:
    """Return whether `name` cannot be shortened to a family name."""
    words = [fold(word) for word in name.replace(",", " ").split()]
    return bool(
        GROUP_WORDS.intersection(words)
        or (words and words[0] == "the")
        or EAST_ASIAN.search(name)
        or VIETNAMESE_LETTER.search(name)
        or (len(words) > 1 and words[0] in VIETNAMESE_FAMILIES and "," not in name)
    )


def is_initials(word: str) -> bool:
    """Return whether `word` is one to three initials; capitals with a vowel, such as LI, may be a name."""
    if not word.isupper() or not INITIALS.fullmatch(word):
        return False
    return "." in word or len(word) == 1 or not set(fold(word)) & set("aeiouy")


def family_start(words: list[str]) -> int:
    """Return the index of the first word of the family name.

    If there are several words, the first of them counts as a given name.
    """
    last = len(words) - 1
    if fold(words[last]) in VIETNAMESE_FAMILIES:
        return last
    for place, word in enumerate(words[1:-1], start=1):
        if word in ("y", "e", "i"):  # joins two family names, as in "Ramón y Cajal"
            return max(1, place - 1)
        if word.islower() or word.casefold() in PARTICLES:
            return place
    if last >= 2 and is_spanish_family(words[last - 1]):
        return last - 1
    return last


def is_spanish_family(word: str) -> bool:
    """Return whether `word` is a Spanish family name, which a second family name usually follows."""
    plain = fold(word)
    return plain in SPANISH_FAMILIES or (len(plain) > 4 and plain.endswith("ez"))
