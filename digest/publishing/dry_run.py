"""Render every due digest as a real run would, but store and send nothing.

An operator reads the letters before new templates, topics or weights go live.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Subscriber
from digest.delivery import outbox
from digest.letters import press_store
from digest.letters.dkim_signing import Signer
from digest.letters.press.load_templates import letters_of
from digest.letters.templates import Templates
from digest.process.caches import Caches
from digest.publishing import nothing_today
from digest.publishing.decide_digest import decide_digest, schedule_status_of
from digest.publishing.digest_preview import Preview, preview_of_decision
from digest.publishing.due_readers import READER_COLUMNS, count_due, gather_inputs, is_due, match_index_of
from digest.publishing.reader_values import Reader
from digest.site.site_profile import Site
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
    session: Session,
    *,
    site: Site,
    templates: Templates,
    caches: Caches,
    signers: Sequence[Signer] = (),
    now: datetime,
) -> Iterator[tuple[DryRunResult, Preview]]:
    """Yield the result that a run would have for each reader due at `now`, without changing anything."""
    resuming = {one.id: next_digest.promised_to(one, now) for one in pauses.due_to_resume(session, now)}
    due, earliest = count_due(session, now)
    if not due and not resuming:
        return
    since = press_store.press_start(now, earliest)
    made, _ = press_store.build_press(
        session, site=site, templates=templates, caches=caches, now=now, since=since
    )
    match_index, last_id = match_index_of(session, made, caches), 0
    letters = letters_of(made, site, templates, caches)
    query = (
        select(*READER_COLUMNS).where(or_(is_due(now), Subscriber.id.in_(resuming))).order_by(Subscriber.id)
    )
    while found := session.execute(query.where(Subscriber.id > last_id).limit(BATCH_SUBSCRIBERS)).all():
        readers = [
            one._replace(next_due_at=resuming.get(one.id, one.next_due_at))
            for one in map(Reader._make, found)
        ]
        gathered = gather_inputs(session, match_index, readers, now)
        decided = outbox.decided_editions(session, [reader.id for reader in readers], now)
        for reader in readers:
            edition = schedule_status_of(reader, now, decided.get(reader.id, frozenset())).due
            if edition is None:
                continue
            decision = decide_digest(match_index, gathered, reader, edition, now)
            preview = preview_of_decision(
                session,
                letters,
                templates,
                caches,
                signers,
                session.get_one(Subscriber, reader.id),
                decision,
                now,
            )
            letter = (
                "digest"
                if preview.digest.sections
                else "nothing_today"
                if nothing_today.needs_letter(decision, now)
                else ""
            )
            yield dry_run_result(reader.id, reader.email, letter, preview), preview
        last_id = readers[-1].id
        session.expunge_all()


def dry_run_result(subscriber_id: int, email: str, letter: str, preview: Preview) -> DryRunResult:
    """Return the dry-run result for one subscriber's preview."""
    return DryRunResult(
        email=email,
        edition=preview.edition.name,
        letter=letter,
        papers=len(preview.digest.papers),
        bytes=len(preview.message) if letter else 0,
        subject=preview.letter.subject if letter else "",
        file=str(subscriber_id) if letter else "",
    )
