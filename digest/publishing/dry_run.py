"""Render every due digest as a real run would, but store and send nothing.

A dry run is compared with another dry run or with the last digests sent. The comparison shows who would
gain or lose mail before new templates, topics or weights go live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from digest import subscribers
from digest.caches import Caches
from digest.db.tables import Delivery, DeliveryState, FilterRow, Subscriber
from digest.delivery import outbox
from digest.editions.compose import Digest
from digest.errors import NotFound
from digest.letters import Templates, personalization, press, press_store
from digest.letters.dkim_signing import Signer
from digest.publishing import nothing_today
from digest.publishing.decide_digest import decide_digest, may_wait, schedule_status_of
from digest.publishing.digest_preview import Preview, preview_of_decision
from digest.publishing.due_readers import READER_COLUMNS, count_due, gather_inputs, is_due, match_index_of
from digest.publishing.reader_values import Reader
from digest.site_profile import Site

BATCH_SUBSCRIBERS = 500  #: number of subscribers whose digests are decided in one batch


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunResult:
    """What one subscriber would get; `letter` is empty if nothing would be sent."""

    email: str
    edition: str
    letter: str
    papers: int
    bytes: int | None  #: size of the whole message in bytes; None if the message can no longer be rendered
    subject: str | None
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
    resuming = [subscriber.id for subscriber in subscribers.due_to_resume(session, now)]
    due, earliest = count_due(session, now)
    if not due and not resuming:
        return
    since = press_store.press_start(now, earliest)
    made, _ = press_store.build_press(
        session, site=site, templates=templates, caches=caches, now=now, since=since
    )
    match_index, last_id = match_index_of(session, made, caches), 0
    assembler = press.assembler_of(made, site, caches)
    query = (
        select(*READER_COLUMNS).where(or_(is_due(now), Subscriber.id.in_(resuming))).order_by(Subscriber.id)
    )
    while found := session.execute(query.where(Subscriber.id > last_id).limit(BATCH_SUBSCRIBERS)).all():
        readers = [
            one._replace(next_due_at=None) if one.id in resuming else one for one in map(Reader._make, found)
        ]
        gathered = gather_inputs(session, match_index, readers, now)
        decided = outbox.decided_editions(session, [reader.id for reader in readers], now)
        for reader in readers:
            edition = schedule_status_of(reader, now, decided.get(reader.id, frozenset())).due
            if edition is None:
                continue
            decision = decide_digest(match_index, gathered, reader, edition, now, assembler=assembler)
            if may_wait(decision):
                continue
            preview = preview_of_decision(
                session,
                assembler,
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


def last_published(session: Session, *, site: Site, caches: Caches) -> Iterator[DryRunResult]:
    """Yield each subscriber's latest digest, rendered again if its press (the stored papers) still exists."""
    latest = (
        select(func.max(Delivery.id))
        .where(Delivery.edition.is_not(None), Delivery.state != DeliveryState.EXPIRED)
        .group_by(Delivery.subscriber_id)
    )
    found = select(Delivery, Subscriber).join(Subscriber, Subscriber.id == Delivery.subscriber_id)
    for delivery, subscriber in session.execute(found.where(Delivery.id.in_(latest))):
        digest = Digest.from_json(delivery.decision)
        size, subject = (
            render_again(session, site, caches, delivery, subscriber, digest) if digest.sections else (0, "")
        )
        yield DryRunResult(
            email=subscriber.email,
            edition=delivery.edition or "",
            letter="digest" if digest.sections else "",
            papers=len(digest.papers),
            bytes=size,
            subject=subject,
        )


def render_again(
    session: Session, site: Site, caches: Caches, delivery: Delivery, subscriber: Subscriber, digest: Digest
) -> tuple[int | None, str | None]:
    """Return the size and subject of an earlier digest, or (None, None) if the press was deleted."""
    try:
        made = press_store.load_press(session, delivery.press or "", caches)
    except NotFound:
        return None, None
    chosen_by = {section.filter_id for section in digest.sections} - {None}
    filters = session.execute(select(FilterRow.id, FilterRow.canonical).where(FilterRow.id.in_(chosen_by)))
    copy = personalization.personalize(
        site,
        delivery_id=delivery.id,
        subscriber_id=subscriber.id,
        link_version=subscriber.link_version,
        email=subscriber.email,
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=subscribers.schedule_of(subscriber),
        key_id=delivery.key_id,
        filters={row[0]: row[1] for row in filters},
        is_group=subscriber.is_group,
    )
    assembler = press.assembler_of(made, site, caches)
    return len(assembler.message(digest, copy)), assembler.letter(digest, copy).subject


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunDifference:
    """The differences in mail between two dry runs, or between the last digests and a dry run."""

    gains: tuple[str, ...]  #: addresses that get mail only in the second run
    loses: tuple[str, ...]  #: addresses that get mail only in the first run
    changed: tuple[dict[str, Any], ...]  #: {email, papers, bytes, subject}, as [before, after]
    same: int
    mails: tuple[int, int]  #: number of letters in the first and in the second run
    papers: tuple[int, int]
    bytes: tuple[int, int]


def compare_runs(before: Iterable[DryRunResult], after: Iterable[DryRunResult]) -> DryRunDifference:
    """Return who gains mail, who loses mail, and what changes for subscribers with mail in both runs."""
    old, new = results_with_letter(before), results_with_letter(after)
    both = sorted(old.keys() & new.keys())
    changed = tuple(one for email in both if (one := change_between(old[email], new[email])) is not None)
    return DryRunDifference(
        gains=tuple(sorted(new.keys() - old.keys())),
        loses=tuple(sorted(old.keys() - new.keys())),
        changed=changed,
        same=len(both) - len(changed),
        mails=(len(old), len(new)),
        papers=(sum(one.papers for one in old.values()), sum(one.papers for one in new.values())),
        bytes=(sum(one.bytes or 0 for one in old.values()), sum(one.bytes or 0 for one in new.values())),
    )


def results_with_letter(results: Iterable[DryRunResult]) -> Mapping[str, DryRunResult]:
    """Return those results that have a letter, keyed by address."""
    return {one.email: one for one in results if one.letter}


def change_between(old: DryRunResult, new: DryRunResult) -> dict[str, Any] | None:
    """Return what changes for one subscriber, or None if nothing does."""
    named = {name: [getattr(old, name), getattr(new, name)] for name in ("papers", "bytes", "subject")}
    found = {name: pair for name, pair in named.items() if None not in pair and pair[0] != pair[1]}
    return {"email": new.email, **found} if found else None
