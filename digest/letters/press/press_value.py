"""Define the press and its stored form, which every worker machine reads."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import MappingProxyType

import msgspec

from digest.errors import SetupMismatch
from digest.papers.paper_record import Paper
from digest.papers.trending import Ranked
from digest.topics.explanation import Explainer
from digest.topics.paper_index import PaperIndex

MAX_PRESSES = 4  #: maximum number of cached presses: today's press, the previous one, and two for retries


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
    def index(self) -> PaperIndex:
        """Return the papers indexed for matching."""
        return PaperIndex(self.papers)

    @cached_property
    def explainer(self) -> Explainer:
        """Return the explainer that states why a filter matches a paper of this press."""
        return Explainer(self.index)

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

    Raises SetupMismatch if the press is damaged, has another name, or was stored by another release.
    """
    try:
        text = zlib.decompress(content)
        found = msgspec.json.decode(text, type=Press)
    except (zlib.error, ValueError) as error:
        raise SetupMismatch(f"The stored press is damaged or of another release ({error}).") from error
    if name is not None and hashlib.sha256(text).hexdigest() != name:
        raise SetupMismatch(f"The stored press is not the one named {name}.")
    return found


def serialize(press: Press) -> bytes:
    """Return the content of a press as JSON; equal presses give the same bytes."""
    return msgspec.json.encode(press, enc_hook=dict, order="deterministic")
