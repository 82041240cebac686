"""A digest as a value: what one subscriber is shown for one edition, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass

TRENDING = "Trending"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """The papers under one topic, best first. `filter_id` is None where no filter chose them."""

    topic: str
    filter_id: int | None
    papers: tuple[int, ...]  #: paper ids
    more: int = 0  #: further papers that matched, left out by the cap


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """The decision kept with a delivery: which papers, under which topic, in which order."""

    sections: tuple[Section, ...]
    checked: int  #: papers looked at for this edition

    @property
    def papers(self) -> tuple[int, ...]:
        """Return every paper id, in reading order."""
        return tuple(paper for section in self.sections for paper in section.papers)

    def to_json(self) -> str:
        """Return the compact form that the outbox stores."""
        sections = [[s.topic, s.filter_id, s.papers, s.more] for s in self.sections]
        return json.dumps({"sections": sections, "checked": self.checked}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Digest:
        """Return the digest that `to_json` wrote."""
        stored = json.loads(text)
        sections = tuple(
            Section(topic=topic, filter_id=filter_id, papers=tuple(papers), more=more)
            for topic, filter_id, papers, more in stored["sections"]
        )
        return cls(sections=sections, checked=stored["checked"])
