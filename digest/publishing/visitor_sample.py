"""Compose a sample digest on requested topics for a visitor without a subscription."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from digest.editions.compose import TRENDING_TOPIC, Digest, RequestedTopic, compose
from digest.editions.schedule import Cadence, edition_name
from digest.letters.letter_rendering import Personalization
from digest.letters.mime import RenderedLetter
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.press.press_value import Press, make_press
from digest.papers.public_view import PublicRules
from digest.papers.trending import Ranked
from digest.publishing.match_index import MatchIndex
from digest.publishing.paper_eligibility import FIRST_LOOK, Coverage, start_of_day
from digest.publishing.publication import Publication
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics.filter_parser import Filter

LONGER_LOOK = timedelta(days=7)  #: period from which papers are taken if no paper of the last day matches
READER = "you@example.org"


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleDigest:
    """The digest that a reader with the requested topics would get at this moment."""

    digest: Digest
    filters: Mapping[int, str]  #: the canonical filters, keyed by the filter ids that the sections contain
    is_from_last_day: bool


def sample_digest(
    publication: Publication, requested: ReaderSettings, filters: Mapping[str, Filter]
) -> SampleDigest:
    """Return the digest of the last day, or that of the last week if no paper of the last day matches.

    `filters` are the resolved filters, keyed by topic name. Without filters, the digest shows trending
    papers.
    """
    match_index, now = publication.match_index, publication.now
    wanted = requested_topics(match_index, filters)
    columns = requested.columns
    numbered = {-place: one.canonical for place, one in enumerate(filters.values(), start=1)}

    def digest_of(reach: timedelta) -> Digest:
        eligible = match_index.eligible(Coverage(now - reach, None), start_of_day(now - reach), now)
        sections = compose(wanted, eligible=eligible, ids=match_index.ids, max_papers=columns["max_papers"])
        return Digest(sections=sections, checked=eligible.bit_count(), abstracts=columns["abstracts"])

    last_day = digest_of(FIRST_LOOK)
    return SampleDigest(
        digest=last_day if last_day.sections else digest_of(LONGER_LOOK),
        filters=numbered,
        is_from_last_day=bool(last_day.sections),
    )


def requested_topics(match_index: MatchIndex, filters: Mapping[str, Filter]) -> list[RequestedTopic]:
    """Return the topics with their matches; filters get negative ids, since they are not in the database."""
    if not filters:
        return [RequestedTopic(TRENDING_TOPIC, None, match_index.trending)]
    return [
        RequestedTopic(name, -place, match_index.rank(filter_))
        for place, (name, filter_) in enumerate(filters.items(), start=1)
    ]


def public_sample(press: Press, sample: SampleDigest, rules: PublicRules) -> tuple[Press, SampleDigest]:
    """Return the sample with only those papers, and those parts of papers, that pages may show."""
    ranked = [
        Ranked(paper=copy, score=press.scores[number], reasons=press.reasons[number])
        for number in sorted(press.rank_of_paper[paper] for paper in sample.digest.papers)
        if (copy := rules.public_copy(press.papers[number])) is not None
    ]
    made = make_press(ranked, as_of=press.as_of)
    hidden = [paper for paper in sample.digest.papers if paper not in made.rank_of_paper]
    return made, replace(sample, digest=sample.digest.without(hidden))


def sample_letter(
    letters: DigestLetters, sample: SampleDigest, requested: ReaderSettings, *, now: datetime
) -> RenderedLetter:
    """Return the letter of a sample with papers; its links lead to the front page, since it has no reader."""
    url = letters.site.url
    copy = Personalization(
        recipient=READER,
        edition=edition_name(Cadence(requested.columns["cadence"]), now.date()),
        day=now.date(),
        dated_at=now,
        unsubscribe_url=url,
        manage_url=url,
        filters=sample.filters,
    )
    return letters.letter(sample.digest, copy)
