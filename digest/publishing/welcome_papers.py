"""Choose the papers of a welcome letter with the code that publishes digests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Subscriber
from digest.editions import time_zones
from digest.editions.compose import Digest
from digest.editions.schedule import Edition
from digest.letters import press_store
from digest.letters.cards import CardForm
from digest.letters.press.digest_page import card_of_paper
from digest.letters.press.press_value import Press
from digest.letters.templates import Templates
from digest.papers.catalog import queries
from digest.process.caches import Caches
from digest.publishing.decide_digest import decide_digest
from digest.publishing.due_readers import gather_inputs, load_reader, match_index_of
from digest.publishing.match_index import MatchIndex
from digest.publishing.paper_eligibility import FIRST_LOOK
from digest.publishing.reader_values import GatheredInputs, Reader
from digest.site.site_profile import Site
from digest.subscribers.welcome_letters import ChoosePapers, WelcomePapers

MAX_PAPERS = 3
LONGER_LOOK = timedelta(days=7)  #: period from which papers are taken if the last day does not have enough


def choose_welcome_papers(
    session: Session, subscriber: Subscriber, *, press: Press, site: Site, caches: Caches, now: datetime
) -> WelcomePapers:
    """Return the best new papers on the reader's topics, or trending papers if none matches."""
    match_index = match_index_of(session, press, caches)
    reader = load_reader(session, subscriber.id)
    gathered = gather_inputs(session, match_index, [reader], now)
    digest = recent_digest(match_index, gathered, reader, now)
    if gathered.topics and not digest.sections:
        digest = recent_digest(match_index, replace(gathered, topics={}), reader, now)
    filters = match_index.canonicals
    return WelcomePapers(
        cards={
            paper: card_of_paper(press, site, paper, filters.get(section.filter_id or 0), CardForm.FULL)
            for section in digest.sections
            for paper in section.papers
        },
        is_on_topics=any(section.filter_id is not None for section in digest.sections),
        is_from_today=are_from_today(press, digest.papers, reader.timezone, now),
    )


def welcome_chooser(
    session: Session, *, site: Site, templates: Templates, caches: Caches, now: datetime
) -> ChoosePapers:
    """Return a function that chooses the papers of a welcome letter among recent papers."""
    press = welcome_press(session, site=site, templates=templates, caches=caches, now=now)
    return partial(choose_welcome_papers, press=press, site=site, caches=caches, now=now)


def welcome_press(
    session: Session, *, site: Site, templates: Templates, caches: Caches, now: datetime
) -> Press:
    """Return the papers from which welcome letters choose, cached until the catalog or the day changes."""
    since = press_store.press_start(now, None)
    return caches.get_or_make(
        "welcome press",
        (queries.state(session), now.date()),
        lambda: press_store.build_press(
            session, site=site, templates=templates, caches=caches, now=now, since=since
        )[0],
    )


def recent_digest(match_index: MatchIndex, gathered: GatheredInputs, reader: Reader, now: datetime) -> Digest:
    """Return the digest of the last day, or of the last week if the last day has too few papers."""
    edition = Edition(name="welcome", day=now.date(), due_at=now, closes_at=now)
    last_day, last_week = (new_reader(reader, now - reach) for reach in (FIRST_LOOK, LONGER_LOOK))
    digest = decide_digest(match_index, gathered, last_day, edition, now).digest
    if digest.size == MAX_PAPERS:
        return digest
    return decide_digest(match_index, gathered, last_week, edition, now).digest


def new_reader(reader: Reader, since: datetime) -> Reader:
    """Return a copy of the reader's row that allows at most three papers, all first seen after `since`."""
    return reader._replace(
        max_papers=MAX_PAPERS, is_resumed=False,
        considered_until=since, considered_paper_id=None,
    )  # fmt: skip


def are_from_today(press: Press, papers: Collection[int], timezone: str, now: datetime) -> bool:
    """Return whether all these papers were first seen today, in the reader's time zone."""
    zone = time_zones.zone_of(timezone)
    days = {
        press.papers[press.rank_of_paper[paper]].first_seen_at.astimezone(zone).date() for paper in papers
    }
    return days <= {now.astimezone(zone).date()}
