"""Find the papers in JSON objects that are not papers themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from digest.dumps.formats import field_parsing

TITLE_KEYS = ("title", "papertitle")
DETAIL_KEYS = ("abstract", "summary", "authors", "author", "creators")
#: Keys of lists of other works: works that cite the paper, that it cites, or that are related to it.
REFERENCES = re.compile(
    r"(?:cit(?:ed|ing|ations?)|references?|related|similar)[_ -]?(?:by|works?|papers?|articles?)?",
    re.IGNORECASE,
)
MAX_DEPTH = 4  #: number of levels of nested objects that are searched for papers


def is_attachment(found: Any) -> bool:
    """Return whether an object is a file or a note that Zotero attached to a paper."""
    fields = found.get("data", found) if isinstance(found, dict) else None
    return isinstance(fields, dict) and fields.get("itemType") in ("attachment", "note", "annotation")


def papers_in(found: Any) -> list[Any]:
    """Return the papers in an object that is not a paper, up to `MAX_DEPTH` levels deep.

    The works that a paper refers to are returned only if the object contains no other papers.
    """
    return collect_papers(found, 0) or collect_papers(found, 0, with_references=True)


def collect_papers(found: Any, depth: int, *, with_references: bool = False) -> list[Any]:
    """Return the papers nested in an object, or an empty list if the object itself is a paper."""
    if not isinstance(found, dict) or depth > MAX_DEPTH or "titles" in found:
        return []
    if has_title(found):
        return listed_papers(found)
    papers = [
        paper
        for key, value in found.items()
        if with_references or not is_reference_list(key, value)
        for paper in papers_of(value, depth, with_references=with_references)
    ]
    if len(papers) == 1 and any(one is papers[0] for one in objects_with_title(found.values())):
        return []  # a single nested object with a title, such as a journal, is a property of this object
    return papers


def papers_of(value: Any, depth: int, *, with_references: bool) -> list[Any]:
    """Return the papers in a value of an object: the value itself, or the papers nested in it.

    The elements of a list that contains a paper are returned whether or not they have a title.
    """
    if isinstance(value, dict):
        below = collect_papers(value, depth + 1, with_references=with_references)
        return below or ([without_wrapper(value)] if holds_title(value) else [])
    if not isinstance(value, list):
        return []
    is_list = any(map(holds_title, only_objects(value)))
    return [
        paper
        for one in (value if is_list else only_objects(value))
        for paper in collect_papers(one, depth + 1, with_references=with_references)
        or ([without_wrapper(one)] if is_list else [])
    ]


def without_wrapper(found: Any) -> Any:
    """Return the paper in an object that has nothing else, such as `{"node": {...}}`, or the value itself."""
    is_wrapper = isinstance(found, dict) and len(found) == 1
    return next(iter(objects_with_title(found.values())), found) if is_wrapper else found


def listed_papers(found: Mapping[str, Any]) -> list[Any]:
    """Return the papers listed in a section: an object with a title, but without abstract and authors."""
    if has_details(found):
        return []
    lists = (
        value for key, value in found.items() if isinstance(value, list) and not is_reference_list(key, value)
    )
    return [
        one
        for value in lists
        if any(has_title(one) and has_details(one) for one in only_objects(value))
        for one in value
    ]


def is_reference_list(key: str, value: Any) -> bool:
    """Return whether a value is a list of works that a paper refers to, judging by the value's key."""
    return isinstance(value, list) and REFERENCES.fullmatch(key) is not None


def holds_title(found: Mapping[str, Any]) -> bool:
    """Return whether an object, or an object in it, has a title."""
    return has_title(found) or bool(objects_with_title(found.values()))


def has_details(found: Mapping[str, Any]) -> bool:
    """Return whether an object has an abstract or authors."""
    return any(field_parsing.folded_name(key) in DETAIL_KEYS for key in found)


def objects_with_title(values: Iterable[Any]) -> list[Any]:
    """Return the values that are objects with a title."""
    return [one for one in only_objects(values) if has_title(one)]


def only_objects(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield those of the values that are objects."""
    return (one for one in values if isinstance(one, dict))


def has_title(found: Mapping[str, Any]) -> bool:
    """Return whether an object has a title."""
    return any(
        field_parsing.folded_name(key) in TITLE_KEYS and isinstance(unwrapped(value), str)
        for key, value in found.items()
    )


def unwrapped(value: Any) -> Any:
    """Return the value in `{"value": ...}`, as in OpenReview's fields, or in a list of one, or the value itself."""
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    return value["value"] if isinstance(value, dict) and "value" in value else value
