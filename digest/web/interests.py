"""Interests offered on the first page, and what any filter would have brought lately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType

from sqlalchemy.orm import Session

from digest import catalog, topics
from digest.house import House
from digest.rendering import words
from digest.topics import Backtest, Filter, Index, PerDay
from digest.web import trending

DAYS = 31  #: looked back upon
MOST = 4000  #: papers: about a second to index, once for each dump

#: Ready-made topics by name: what most readers of trending papers ask for.
INTERESTS: Mapping[str, str] = MappingProxyType(
    {
        "Language models": 'ti:"language model*" OR abs:"large language model*" OR LLM OR LLMs',
        "Agents": "ti:agent* OR abs:agentic OR abs:\"tool use\" OR abs:\"LLM agent*\"",
        "Reasoning": 'ti:reason* OR "chain of thought" OR "test-time compute"',
        "Vision": "ti:image* OR ti:vision OR ti:visual* OR abs:\"object detection\" OR abs:segmentation",
        "Video": "ti:video* OR abs:\"video generation\"",
        "Diffusion": '"diffusion model*" OR "flow matching" OR "score-based" OR ti:diffusion',
        "Robots": "ti:robot* OR abs:robotic* OR abs:embodied OR abs:manipulation",
        "Speech and sound": "ti:speech OR ti:audio OR ti:music OR abs:\"text-to-speech\"",
        "Reinforcement learning": '"reinforcement learning" OR RLHF OR "policy gradient"',
        "Health": "medical OR clinical OR biomedical OR protein* OR patient*",
        "Efficiency": "quantization OR quantisation OR pruning OR distillation OR ti:efficient",
        "Safety": "ti:safety OR alignment OR jailbreak* OR interpretab*",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """The papers of the last days, ready to try filters on."""

    index: Index
    days: tuple[date, ...]

    def tried(self, wanted: Filter) -> Backtest:
        """Return what a filter would have brought."""
        return topics.backtest(wanted, self.index, self.days)


def gauge(of: House, session: Session) -> Gauge:
    """Return the gauge, from memory until the catalog changes."""
    now = of.clock()
    return of.memory.once("gauge", (trending.state_of(session), now.date()), lambda: made(session, now))


def made(session: Session, now: datetime) -> Gauge:
    """Make a gauge of the papers first seen in the last days: of whole days only, where there are too many."""
    papers = catalog.papers(session, since=now - timedelta(days=DAYS), until=now, news_only=True)
    dated = sorted((paper.first_seen_at.astimezone(UTC).date(), paper.id, paper) for paper in papers)
    if len(dated) > MOST:
        dated = [one for one in dated if one[0] > dated[-MOST][0]] or dated[-MOST:]
    return Gauge(index=Index([paper for *_, paper in dated]), days=tuple(day for day, *_ in dated))


def offered(gauge: Gauge) -> list[tuple[str, str]]:
    """Return the interests, each with what it brings a day."""
    return [(name, rate(gauge.tried(topics.parse(text)).per_day)) for name, text in INTERESTS.items()]


def rate(per_day: PerDay) -> str:
    """Return `4 a day`; nothing where too little is known."""
    return (
        words.SPEECH.gettext("%s a day") % f"{per_day.median:g}"
        if per_day.median and per_day.days > 1
        else ""
    )


def chosen(names: Iterable[object]) -> dict[str, str]:
    """Return the offered interests among `names`, as topics."""
    wanted = set(names)
    return {name: text for name, text in INTERESTS.items() if name in wanted}


def as_topics(names: Iterable[object], own: str) -> dict[str, str]:
    """Return what was chosen and typed as topics; one's own filter is called by its text."""
    wanted = chosen(names)
    if own:
        taken = {name.casefold() for name in wanted}
        name = words.cut(own, 60)
        wanted[words.SPEECH.gettext("My own") if name.casefold() in taken else name] = own
    return wanted


def in_words(per_day: PerDay) -> str:
    """Return `About 4 a day (busiest 11), from 31 days`."""
    _, ngettext = words.SPEECH.gettext, words.SPEECH.ngettext
    usual = _("about %s a day") % f"{per_day.median:g}" if per_day.median else _("fewer than one a day")
    days = ngettext("from %d day", "from %d days", per_day.days) % per_day.days
    busiest = _("busiest %d") % per_day.max
    return f"{usual.capitalize()} ({busiest}), {days}"
