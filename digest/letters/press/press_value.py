"""Define the press and its stored form, which every worker machine reads."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

from digest import topics
from digest.errors import SetupMismatch
from digest.papers import Announcement, Organization, Paper
from digest.papers.trending import Ranked

MAX_PRESSES = 4  #: maximum number of cached presses: today's press, the previous one, and two for retries
FORMAT_VERSION = 1  #: incremented when the stored form changes


@dataclass(frozen=True, kw_only=True)
class Press:
    """The papers by rank (0 is the most trending), and what the letters of all readers share."""

    as_of: datetime  #: the time for which the trending scores were computed
    papers: tuple[Paper, ...]
    scores: tuple[float, ...]
    reasons: tuple[tuple[str, ...], ...]  #: for each paper, observed figures in words, strongest first
    #: The hash of the templates and the site with which the papers were first published.
    made_for: str = ""
    note: str = ""  #: a note that every letter shows, for example that a list is incomplete

    @cached_property
    def rank_of_paper(self) -> Mapping[int, int]:
        """Return the rank of every paper, keyed by the paper's id."""
        return MappingProxyType({paper.id: number for number, paper in enumerate(self.papers)})

    @cached_property
    def index(self) -> topics.PaperIndex:
        """Return the papers indexed for matching."""
        return topics.PaperIndex(self.papers)

    @cached_property
    def explainer(self) -> topics.Explainer:
        """Return the explainer that states why a filter matches a paper of this press."""
        return topics.Explainer(self.index)

    @cached_property
    def name(self) -> str:
        """Return the name of the press, which is the hash of its content and the same on every machine."""
        return hashlib.sha256(serialize(self)).hexdigest()


def make_press(ranked: Sequence[Ranked], *, as_of: datetime, made_for: str = "", note: str = "") -> Press:
    """Make the press of these papers, which are sorted by rank."""
    return Press(
        as_of=as_of,
        papers=tuple(one.paper for one in ranked),
        scores=tuple(one.score for one in ranked),
        reasons=tuple(tuple(one.reasons) for one in ranked),
        made_for=made_for,
        note=note,
    )


def to_bytes(press: Press) -> bytes:
    """Return the press in its stored form."""
    return zlib.compress(serialize(press), 6)


def from_bytes(content: bytes, *, name: str | None = None) -> Press:
    """Return the press from its stored form.

    Raises SetupMismatch if the press is damaged, or if its name or its format version is wrong.
    """
    try:
        text = zlib.decompress(content)
        kept = json.loads(text)
    except (zlib.error, ValueError) as error:
        raise SetupMismatch(f"The stored press is damaged ({error}).") from error
    if name is not None and hashlib.sha256(text).hexdigest() != name:
        raise SetupMismatch(f"The stored press is not the one named {name}.")
    layout = kept.get("layout") if isinstance(kept, dict) else None
    if layout is not None and layout != FORMAT_VERSION:
        raise SetupMismatch(f"The stored press has format {layout}; this release reads {FORMAT_VERSION}.")
    try:
        return read_press(kept)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise SetupMismatch(f"The stored press is damaged ({error!r}).") from error


def read_press(kept: Any) -> Press:
    """Return the press from the JSON object that `serialize` wrote."""
    return Press(
        as_of=datetime.fromisoformat(kept["as_of"]),
        papers=tuple(read_paper(one) for one in kept["papers"]),
        scores=tuple(kept["scores"]),
        reasons=tuple(tuple(some) for some in kept["reasons"]),
        made_for=kept["made_for"],
        note=kept.get("note", ""),
    )


def serialize(press: Press) -> bytes:
    """Return the content of a press as JSON; equal presses give the same bytes."""
    kept = {
        "layout": FORMAT_VERSION,
        "as_of": press.as_of.isoformat(),
        "papers": [written_paper(paper) for paper in press.papers],
        "scores": press.scores,
        "reasons": press.reasons,
        "made_for": press.made_for,
    } | ({"note": press.note} if press.note else {})
    return json.dumps(kept, separators=(",", ":"), sort_keys=True).encode()


def written_paper(paper: Paper) -> dict[str, Any]:
    """Return a paper as a JSON object (a dict) without its empty fields."""
    written = {name: getattr(paper, name) for name in FIELDS}
    return {name: to_json_value(value) for name, value in written.items() if value or name == "id"}


def to_json_value(value: Any) -> Any:
    """Return one field of a paper as a JSON value."""
    match value:
        case date():
            return value.isoformat()
        case Organization():
            return [value.handle, value.name]
        case Mapping():
            return dict(value)
    return value


def read_paper(written: dict[str, Any]) -> Paper:
    """Return the paper from a JSON object that `written_paper` returned."""
    return Paper(**{name: READERS.get(name, lists_as_tuples)(value) for name, value in written.items()})


def lists_as_tuples(value: Any) -> Any:
    """Return `value`, converted to a tuple if it is a list."""
    return tuple(value) if isinstance(value, list) else value


FIELDS = tuple(field.name for field in fields(Paper))
READERS: Mapping[str, Callable[[Any], Any]] = {
    "organization": lambda pair: Organization(handle=pair[0], name=pair[1]),
    "published": date.fromisoformat,
    "first_seen_at": datetime.fromisoformat,
    "announcement": Announcement,
}
