"""Choose the papers of a welcome letter with the code that publishes digests."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from digest.db.tables.subscribers import Subscriber
from digest.delivery import press_store
from digest.editions import time_zones
from digest.editions.compose import Digest
from digest.editions.schedule import Edition
from digest.letters.cards import CardForm
from digest.letters.press.digest_page import card_of_paper
from digest.papers.catalog import queries
from digest.publishing.decide_digest import decide_digest
from digest.publishing.paper_eligibility import FIRST_LOOK
from digest.publishing.publication import Publication, gather_inputs
from digest.publishing.reader_values import GatheredInputs, Reader
from digest.subscribers.welcome_letters import ChoosePapers, WelcomePapers

MAX_PAPERS = 3
LONGER_LOOK = timedelta(days=7)  #: period from which papers are taken if the last day does not have enough


def choose_welcome_papers(publication: Publication, subscriber: Subscriber) -> WelcomePapers:
    """Return the best new papers on the reader's topics, or trending papers if none matches."""
    press, site, reader = publication.press, publication.site, publication.load_reader(subscriber.id)
    gathered = gather_inputs(publication, [reader])
    digest = recent_digest(gathered, reader)
    if gathered.topics and not digest.sections:
        digest = recent_digest(replace(gathered, topics={}), reader)
    filters, zone = publication.match_index.canonicals, time_zones.zone_of(reader.timezone)
    papers = [press.papers[press.rank_of_paper[paper]] for paper in digest.papers]
    days = {paper.first_seen_at.astimezone(zone).date() for paper in papers}
    return WelcomePapers(
        cards={
            paper: card_of_paper(press, site, paper, filters.get(section.filter_id or 0), CardForm.FULL)
            for section in digest.sections
            for paper in section.papers
        },
        is_on_topics=any(section.filter_id is not None for section in digest.sections),
        is_from_today=days <= {publication.now.astimezone(zone).date()},
    )


def welcome_chooser(publication: Publication) -> ChoosePapers:
    """Return a function that chooses the papers of a welcome letter among recent papers.

    The papers are ranked now, because they must not be ranked while the database is locked for a confirmation.
    """
    recent = of_recent_papers(publication)
    return lambda session, subscriber: choose_welcome_papers(replace(recent, session=session), subscriber)


def of_recent_papers(publication: Publication) -> Publication:
    """Return the publication of the papers from which welcome letters choose.

    They are cached until the catalog or the day changes.
    """
    press = publication.caches.get_or_make(
        "welcome press",
        (queries.state(publication.session), publication.now.date()),
        lambda: press_store.build_press(
            publication.session,
            site=publication.site,
            templates=publication.templates,
            caches=publication.caches,
            now=publication.now,
            since=press_store.press_start(publication.now, None),
        )[0],
    )
    return replace(publication, fixed_press=press)


def recent_digest(gathered: GatheredInputs, reader: Reader) -> Digest:
    """Return the digest of the last day, or of the last week if the last day has too few papers."""
    now = gathered.now
    edition = Edition(name="welcome", day=now.date(), due_at=now, closes_at=now)
    new_reader = reader._replace(max_papers=MAX_PAPERS, is_resumed=False, considered_paper_id=None)
    digest = Digest(sections=(), checked=0)
    for reach in (FIRST_LOOK, LONGER_LOOK):
        if digest.size < MAX_PAPERS:
            digest = decide_digest(
                gathered, new_reader._replace(considered_until=now - reach), edition
            ).digest
    return digest
