"""Mail digests as a good programmer would with maintained libraries and measurements.

A task (`rival_tasks.py`) has a chunk of readers and one query. Filters are matched once with SQLite's FTS5 in
memory. Letters are rendered with Jinja, css-inline and `EmailMessage`, sent over one SMTP connection, and
committed fifty at a time. This implementation shares only the pure decisions with the product, and its
letters must be the same.
"""

from __future__ import annotations

import smtplib
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import css_inline
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, Shown
from digest.db.tables.subscribers import FilterRow, Subscriber, Subscription
from digest.editions.compose import Digest, RankedMatches, RequestedTopic
from digest.letters.letter_rendering import Personalization
from digest.papers import bitsets
from digest.papers.paper_record import fold
from digest.topics import filter_parser, filter_tree
from tests.bench.naive_rival import Morning, decide_digest, personalization_of, rendered, row_of, showings_of
from tests.support.ranked_matches import rank_matches

CHUNK = 250  #: readers in a task
COMMIT = 50  #: letters in a commit

Topics = list[tuple[str, int, str]]  #: the names, ids and canonical filters of one reader's topics


@dataclass(kw_only=True)
class WorkerState:
    """The state of a worker: the papers in FTS5, the matches of each filter, the inliner, the connection."""

    morning: Morning
    papers: sqlite3.Connection
    choices: dict[int, RankedMatches] = field(default_factory=dict)
    inliner: css_inline.CSSInliner
    server: smtplib.SMTP


def make_state(morning: Morning) -> WorkerState:
    """Prepare the state that a worker keeps for the day."""
    papers = sqlite3.connect(":memory:")
    papers.execute("CREATE VIRTUAL TABLE paper USING fts5(title, abstract)")
    papers.executemany(
        "INSERT INTO paper(rowid, title, abstract) VALUES (?, ?, ?)",
        ((number, fold(one.title), fold(one.abstract)) for number, one in enumerate(morning.press.papers)),
    )
    return WorkerState(
        morning=morning,
        papers=papers,
        inliner=css_inline.CSSInliner(keep_at_rules=True, load_remote_stylesheets=False),
        server=smtplib.SMTP("127.0.0.1", morning.port),
    )


def send_chunk(session: Session, state: WorkerState, ids: Sequence[int]) -> None:
    """Compose, send and record the digests of these readers."""
    readers = session.execute(select(*Subscriber.__table__.c).where(Subscriber.id.in_(ids))).all()
    held = topics_of(session, ids)
    for start in range(0, len(readers), COMMIT):
        sent = []
        for reader in readers[start : start + COMMIT]:
            digest, copy = compose_digest(state, reader, held[reader.id])
            if digest.sections:
                sender, message = state.morning.site.sender_address, write_message(state, digest, copy)
                state.server.sendmail(sender, [reader.email], message.as_bytes(policy=SMTP))
            sent.append((reader, digest))
        record_sent(session, state.morning, sent)


def topics_of(session: Session, ids: Sequence[int]) -> dict[int, Topics]:
    """Return the topics of these readers."""
    found: dict[int, Topics] = defaultdict(list)
    wanted = (
        select(Subscription.subscriber_id, Subscription.name, FilterRow.id, FilterRow.canonical)
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .where(Subscription.subscriber_id.in_(ids))
        .order_by(Subscription.subscriber_id, Subscription.position)
    )
    for reader, name, number, canonical in session.execute(wanted):
        found[reader].append((name, number, canonical))
    return found


def compose_digest(state: WorkerState, reader: Any, held: Topics) -> tuple[Digest, Personalization]:
    """Return one reader's digest and copy."""
    wishes = [
        RequestedTopic(name, number, matching_papers(state, number, canonical))
        for name, number, canonical in held
    ]
    filters = {number: canonical for _, number, canonical in held}
    return decide_digest(state.morning, wishes), personalization_of(state.morning, reader, filters)


def matching_papers(state: WorkerState, number: int, canonical: str) -> RankedMatches:
    """Return the matches of a filter, evaluated once and then cached."""
    if number not in state.choices:
        asked = filter_parser.parse(canonical)
        query = fts5_query(asked.tree)
        rows = state.papers.execute("SELECT rowid FROM paper WHERE paper MATCH ?", (query,))
        matches = bitsets.bitset_of([row[0] for row in rows])
        press, index = state.morning.press, state.morning.index
        relevance = index.relevance(asked, matches) if matches else {}
        state.choices[number] = rank_matches(matches, press.scores, relevance)
    return state.choices[number]


def write_message(state: WorkerState, digest: Digest, copy: Personalization) -> EmailMessage:
    """Return the message, in base64, which `email` encodes fastest."""
    text, html, message = rendered(state.morning, digest, copy)
    message.set_content(text, cte="base64")
    message.add_alternative(state.inliner.inline(html), subtype="html", cte="base64")
    return message


def record_sent(session: Session, morning: Morning, sent: Iterable[tuple[Any, Digest]]) -> None:
    """Record fifty letters at once, and commit."""
    digests = {reader.id: digest for reader, digest in sent}
    rows = [row_of(morning, reader, digest) for reader, digest in sent]
    new = session.execute(insert(Delivery).returning(Delivery.id, Delivery.subscriber_id), rows)
    showings = [
        row
        for delivery, reader in new
        if reader is not None
        for row in showings_of(morning, reader, delivery, digests[reader])
    ]
    if showings:
        session.execute(insert(Shown), showings)
    session.commit()


def fts5_query(node: filter_tree.Node) -> str:
    """Return a filter of words in the language of FTS5."""
    if isinstance(node, filter_tree.Or):
        return f"({' OR '.join(map(fts5_query, node.children))})"
    if isinstance(node, filter_tree.And):
        wanted = " AND ".join(fts5_query(c) for c in node.children if not isinstance(c, filter_tree.Not))
        for child in node.children:
            if isinstance(child, filter_tree.Not):
                wanted = f"({wanted}) NOT {fts5_query(child.child)}"
        return f"({wanted})"
    assert isinstance(node, filter_tree.TextClause)
    column = {"ti": "title", "abs": "abstract", "tiab": "{title abstract}"}[node.field]
    words = " ".join(token.rstrip("*") for token in node.tokens)
    return f'({column} : "{words}"{" *" if node.tokens[-1].endswith("*") else ""})'
