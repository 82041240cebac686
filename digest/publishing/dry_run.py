"""Render every due digest as a real run would, but store and send nothing.

An operator reads the letters before new templates, topics or weights go live.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import or_, select

from digest.db.tables.subscribers import Subscriber
from digest.delivery.outbox import enqueue
from digest.letters.dkim_signing import Signer
from digest.publishing import nothing_today
from digest.publishing.decide_digest import decide_digest, schedule_status_of
from digest.publishing.digest_preview import Preview, preview_of_decision
from digest.publishing.due_readers import READER_COLUMNS, is_due
from digest.publishing.publication import Publication, gather_inputs
from digest.publishing.reader_values import Reader
from digest.subscribers import next_digest, pauses

BATCH_SUBSCRIBERS = 500  #: number of subscribers whose digests are decided in one batch


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunResult:
    """What one subscriber would get; `letter` is empty if nothing would be sent."""

    email: str
    edition: str
    letter: str
    papers: int
    bytes: int  #: size of the whole message
    subject: str
    file: str = ""  #: name of the letter's files without the extension


def dry_run(
    publication: Publication, signers: Sequence[Signer] = ()
) -> Iterator[tuple[DryRunResult, Preview]]:
    """Yield the result that a run would have for each reader due at this moment, without changing anything."""
    session, now, last_id = publication.session, publication.now, 0
    resuming = {one.id: next_digest.promised_to(one, now) for one in pauses.due_to_resume(session, now)}
    due = or_(is_due(now), Subscriber.id.in_(resuming))
    query = select(*READER_COLUMNS).where(due).order_by(Subscriber.id).limit(BATCH_SUBSCRIBERS)
    while found := session.execute(query.where(Subscriber.id > last_id)).all():
        readers = [
            one._replace(next_due_at=resuming.get(one.id, one.next_due_at))
            for one in map(Reader._make, found)
        ]
        gathered = gather_inputs(publication, readers)
        decided = enqueue.decided_editions(session, [reader.id for reader in readers], now)
        for reader in readers:
            edition = schedule_status_of(reader, now, decided.get(reader.id, frozenset())).due
            if edition is None:
                continue
            decision = decide_digest(gathered, reader, edition)
            subscriber = session.get_one(Subscriber, reader.id)
            preview = preview_of_decision(publication, signers, subscriber, decision)
            letter = "digest" if preview.digest.sections else ""
            if nothing_today.needs_letter(decision, now):
                letter = "nothing_today"
            yield dry_run_result(reader, letter, preview), preview
        last_id = readers[-1].id
        session.expunge_all()


def dry_run_result(reader: Reader, letter: str, preview: Preview) -> DryRunResult:
    """Return the dry-run result for one subscriber's preview."""
    return DryRunResult(
        email=reader.email,
        edition=preview.edition.name,
        letter=letter,
        papers=len(preview.digest.papers),
        bytes=len(preview.message) if letter else 0,
        subject=preview.letter.subject if letter else "",
        file=str(reader.id) if letter else "",
    )
