"""The Press as a value, and as the bytes that every worker machine reads."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

from digest import topics
from digest.errors import Misfit
from digest.papers import Announcement, Organization, Paper
from digest.rendering.stencils import Stencil

LAYOUT = 1  #: raised whenever the stored form changes


@dataclass(frozen=True, kw_only=True)
class Press:
    """Papers by rank (0 is the most trending), and the stencils of the letter they are shown in."""

    as_of: datetime  #: the moment that trending was computed for
    papers: tuple[Paper, ...]
    scores: tuple[float, ...]
    reasons: tuple[tuple[str, ...], ...]  #: observed figures, strongest first
    html: Stencil
    text: Stencil
    note: str = ""  #: what every letter of it says beside the papers: that a list came short

    @cached_property
    def number(self) -> Mapping[int, int]:
        """Return the rank of every paper by its id."""
        return MappingProxyType({paper.id: number for number, paper in enumerate(self.papers)})

    @cached_property
    def index(self) -> topics.Index:
        """Return the papers indexed for matching."""
        return topics.Index(self.papers)

    @cached_property
    def pages(self) -> topics.Pages:
        """Return the papers, ready to be explained: by their index, if this process has matched with it."""
        return topics.Pages(self.papers, vars(self).get("index"))

    @cached_property
    def name(self) -> str:
        """Return the hash of the content: two machines that made the same Press call it the same."""
        return hashlib.sha256(stored(self)).hexdigest()


def to_bytes(press: Press) -> bytes:
    """Return the Press in the form that is stored."""
    return zlib.compress(stored(press), 6)


def from_bytes(content: bytes, *, name: str | None = None) -> Press:
    """Return the stored Press, or raise Misfit if it is damaged, another than `name`, or not ours to read."""
    try:
        text = zlib.decompress(content)
        kept = json.loads(text)
    except (zlib.error, ValueError) as error:
        raise Misfit(f"The stored press is damaged ({error}).") from error
    if name is not None and hashlib.sha256(text).hexdigest() != name:
        raise Misfit(f"The stored press is not the one named {name}.")
    layout = kept.get("layout") if isinstance(kept, dict) else None
    if layout is not None and layout != LAYOUT:
        raise Misfit(f"The stored press has layout {layout}, and this release reads {LAYOUT}.")
    try:
        return read_press(kept)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Misfit(f"The stored press is damaged ({error!r}).") from error


def read_press(kept: Any) -> Press:
    """Return the Press that `stored` wrote."""
    return Press(
        as_of=datetime.fromisoformat(kept["as_of"]),
        papers=tuple(read_paper(one) for one in kept["papers"]),
        scores=tuple(kept["scores"]),
        reasons=tuple(tuple(some) for some in kept["reasons"]),
        html=Stencil.from_json(kept["html"]),
        text=Stencil.from_json(kept["text"]),
        note=kept.get("note", ""),
    )


def stored(press: Press) -> bytes:
    """Return the content as JSON, spelled the same way every time."""
    kept = {
        "layout": LAYOUT,
        "as_of": press.as_of.isoformat(),
        "papers": [written_paper(paper) for paper in press.papers],
        "scores": press.scores,
        "reasons": press.reasons,
        "html": press.html.to_json(),
        "text": press.text.to_json(),
    } | ({"note": press.note} if press.note else {})
    return json.dumps(kept, separators=(",", ":"), sort_keys=True).encode()


def written_paper(paper: Paper) -> dict[str, Any]:
    """Return a paper as JSON can hold it; fields at their default are left out."""
    written = {name: getattr(paper, name) for name in FIELDS}
    return {name: plain(value) for name, value in written.items() if value or name == "id"}


def plain(value: Any) -> Any:
    """Return one field of a paper as JSON can hold it."""
    match value:
        case date():
            return value.isoformat()
        case Organization():
            return [value.handle, value.name]
        case Mapping():
            return dict(value)
    return value


def read_paper(written: dict[str, Any]) -> Paper:
    """Return the paper that `written_paper` wrote."""
    return Paper(**{name: READERS.get(name, same)(value) for name, value in written.items()})


def same(value: Any) -> Any:
    """Return `value`."""
    return tuple(value) if isinstance(value, list) else value


def organization(pair: list[str]) -> Organization:
    """Return the organisation that `plain` wrote."""
    return Organization(handle=pair[0], name=pair[1])


FIELDS = tuple(field.name for field in fields(Paper))
READERS: Mapping[str, Callable[[Any], Any]] = {
    "organization": organization,
    "published": date.fromisoformat,
    "first_seen_at": datetime.fromisoformat,
    "announcement": Announcement,
}
