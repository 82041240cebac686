"""Find again the papers that an edition could show, for `digest why` and the page of further matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from digest.db.tables.deliveries import Delivery, Shown
from digest.editions.compose import Digest, RequestedTopic, Section
from digest.papers.bitsets import bitset_of
from digest.publishing.decide_digest import coverage_of, requested_topics
from digest.publishing.match_index import NO_MATCHES, MatchIndex
from digest.publishing.paper_eligibility import Coverage, start_of_day
from digest.publishing.publication import Publication, evaluate_filters, gather_inputs


@dataclass(frozen=True, slots=True)
class Candidates:
    """The papers from which one reader's edition is chosen."""

    match_index: MatchIndex
    topics: Sequence[RequestedTopic]
    eligible: int  #: the papers that the edition could show, without those shown before, as a bitset

    def positions(self, paper_id: int) -> dict[str, int]:
        """Return {topic: position}, counted from 1, for the topics under which the paper is eligible."""
        number, found = self.match_index.press.rank_of_paper.get(paper_id), {}
        for requested in self.topics:
            order = requested.matches.eligible_order(self.eligible)
            if number in order:
                found[requested.topic] = order.index(number) + 1
        return found


def candidates(publication: Publication, subscriber_id: int, delivery: Delivery | None = None) -> Candidates:
    """Return the papers that the reader's next edition could show so far, or those of a published edition.

    For a published edition, `publication` has its press and its time.
    """
    match_index, now = publication.match_index, publication.now
    reader = publication.load_reader(subscriber_id)
    gathered = gather_inputs(publication, [reader])
    covered, shown = coverage_of(reader, now), gathered.shown.get(reader.id, set())
    if delivery is not None:
        covered = Coverage(delivery.covers_from or now, delivery.covers_paper_id)
        later = select(Shown.paper_id).where(
            Shown.subscriber_id == reader.id, Shown.delivery_id >= delivery.id
        )
        ranks = match_index.press.rank_of_paper
        shown = shown - {ranks[one] for one in publication.session.scalars(later) if one in ranks}
    eligible = match_index.eligible(covered, start_of_day(reader.created_at), now) & ~bitset_of(shown)
    return Candidates(match_index, requested_topics(gathered, reader), eligible)


def overflow_papers(publication: Publication, delivery: Delivery, section: Section) -> list[int]:
    """Return the ids of papers that matched the section's topic but did not fit the digest, best first."""
    if delivery.subscriber_id is None:
        return []
    match_index = publication.match_index
    eligible = candidates(publication, delivery.subscriber_id, delivery).eligible
    chosen = match_index.trending
    if section.filter_id is not None:
        evaluate_filters(publication.session, match_index, [section.filter_id])
        chosen = match_index.choices.get(section.filter_id, NO_MATCHES)
    papers = Digest.from_json(delivery.decision).papers
    left = eligible & ~bitset_of([publication.press.rank_of_paper[paper] for paper in papers])
    return [match_index.ids[number] for number in chosen.eligible_order(left)]
