"""Explain the outcome of one subscriber's edition, or why the subscriber got none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta

from sqlalchemy.orm import Session

from digest import plurals
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import Subscriber
from digest.delivery import restore_point
from digest.delivery.limits import emergency_stops
from digest.delivery.limits.emergency_stops import STOPPED_MAIL
from digest.delivery.outbox import attempts, delivery_listing
from digest.editions.compose import Digest
from digest.editions.schedule import Edition, cadence_text, edition_on, local_day, schedule_status
from digest.errors import BadField
from digest.process import heartbeats
from digest.publishing.why.question import WhyAnswer, mail_refused, minute_text
from digest.site.site_profile import Site
from digest.subscribers import next_digest, subscriber_rows

#: The verdict on a digest in each final state.
VERDICTS = {
    DeliveryState.SENT: "The mail server accepted it",
    DeliveryState.FAILED: "It failed permanently",
    DeliveryState.EXPIRED: "It was not sent in time",
    DeliveryState.SUPPRESSED: "It was not sent",
    DeliveryState.STUCK: "It is stuck until you retry it or give it up",
    DeliveryState.EMPTY: "There was nothing to send",
}
ADVICE = {
    DeliveryState.SENT: "if it did not arrive, look in the spam folder, and search the mail server's log for {id}",
    DeliveryState.STUCK: "to send it again: digest deliveries settle {number} --send-again",
    DeliveryState.QUEUED: "to see what is delivered now: digest status",
}


def why_edition(session: Session, *, site: Site, email: str, edition: str | None, now: datetime) -> WhyAnswer:
    """Return the outcome of an edition, identified by its day or by a name such as `daily-2026-11-20`.

    Without `edition`, the answer is about the edition that was due last.
    """
    subscriber = subscriber_rows.get(session, email)
    slot = chosen_edition(subscriber, edition, now)
    row = delivery_listing.find_digest(session, subscriber.id, slot.name if slot else edition or "")
    if row is not None:
        return answer(subscriber, row.edition or "", *explain_delivery(session, row, now))
    if slot is None:
        later = next_digest.edition_status(session, subscriber, now).next
        how = cadence_text(subscriber_rows.schedule_of(subscriber))
        verdict = f"There is no edition {edition}: the cadence is {how}. The next is {edition_text(later)}."
        refused = mail_refused(session, site, subscriber)
        return answer(subscriber, edition or "", *next(refused, ("no edition", verdict)))
    cause, verdict = next(reasons(session, site, subscriber, slot, now))
    return answer(subscriber, slot.name, cause, verdict)


def answer(
    subscriber: Subscriber, edition: str, cause: str, verdict: str, lines: tuple[str, ...] = ()
) -> WhyAnswer:
    """Return the answer as text for the terminal and as JSON."""
    found = {"cause": cause, "verdict": verdict, "email": subscriber.email, "edition": edition}
    return WhyAnswer(verdict=f"{edition}: {verdict}", lines=lines, json={**found, "lines": list(lines)})


# ── the edition ─────────────────────────────────────────────────────────────────────────────────


def chosen_edition(subscriber: Subscriber, text: str | None, now: datetime) -> Edition | None:
    """Return the edition with this name or on this day; by default the one that was due last, or else the next.

    Names are looked up among the editions of the last 400 days, as long as deliveries are kept, and of the
    next month.
    """
    schedule = subscriber_rows.schedule_of(subscriber)
    today = local_day(schedule, now)
    days = (today - timedelta(days=back) for back in range(-31, 400))
    editions = (one for day in days if (one := edition_on(schedule, day)) is not None)
    if text is None:
        past = next((one for one in editions if one.due_at <= now), None)
        return past or schedule_status(schedule, now).upcoming
    day = parse_day(text, today)
    return edition_on(schedule, day) if day else next((one for one in editions if one.name == text), None)


def parse_day(text: str, today: date) -> date | None:
    """Return the day that a text names, or None for the name of a weekly or monthly edition.

    Raises BadField for any other text.
    """
    words = {"today": today, "yesterday": today - timedelta(days=1)}
    if text in words:
        return words[text]
    name = text.removeprefix("daily-")
    try:
        return date.fromisoformat(name)
    except ValueError:
        if text.startswith(("weekly-", "monthly-")):
            return None
    raise BadField(
        "--edition", f"{text!r} is not an edition; write 2026-11-20, today, or weekly-2026-W47."
    ) from None


def edition_text(edition: Edition) -> str:
    """Return the name and due time of an edition."""
    return f"{edition.name}, due {minute_text(edition.due_at)}"


# ── with a delivery ─────────────────────────────────────────────────────────────────────────────


def explain_delivery(session: Session, row: Delivery, now: datetime) -> tuple[str, str, tuple[str, ...]]:
    """Return the cause, the verdict and the findings for a published edition."""
    state = DeliveryState(row.state)
    if row.settled_at is not None and row.reason == restore_point.RESTORED:
        when = minute_text(row.settled_at)
        verdict = f"It may have been sent before the database was restored from a backup ({when})."
        return restore_point.RESTORED, verdict, ()
    if row.settled_at is not None:
        verdict = f"{VERDICTS[state]} ({minute_text(row.settled_at)})"
    else:
        verdict = open_verdict(session, row, state, now)
    return (
        str(state),
        verdict + (f": {row.reason}." if row.reason else "."),
        tuple(findings(session, row, state)),
    )


def open_verdict(session: Session, row: Delivery, state: DeliveryState, now: datetime) -> str:
    """Return the verdict on a digest that is neither sent nor given up."""
    if state is DeliveryState.STUCK:
        return VERDICTS[state]
    if state is DeliveryState.QUEUED and row.due_at > now:
        return f"It waits until {minute_text(row.due_at)} for the next attempt"
    if state is DeliveryState.QUEUED:
        return f"It has been waiting to be sent since {minute_text(max(row.due_at, row.dated_at))}"
    is_dead = row.leased_until is not None and row.leased_until <= now
    if is_dead or (
        row.lease and heartbeats.is_lease_of_dead(row.lease, heartbeats.dead_machines(session, now))
    ):
        doubt = ", and the mail server may have accepted it" if state is DeliveryState.SENDING else ""
        return f"Its worker has died{doubt}; the next worker takes it over"
    return "A worker is about to send it" if state is DeliveryState.CLAIMED else "It is being sent"


def findings(session: Session, row: Delivery, state: DeliveryState) -> Iterator[str]:
    """Yield the facts about a published edition, then what to do next."""
    digest = Digest.from_json(row.decision)
    if digest.sections:
        counts = ", ".join(f"{one.topic} {len(one.papers)}" for one in digest.sections)
        checked = plurals.count(digest.checked, "paper")
        yield f"it has {plurals.count(digest.size, 'paper')} of {checked} checked: {counts}"
    if row.in_doubt:
        yield f"{plurals.count(row.in_doubt, 'attempt')} without a reply: the digest may have arrived more than once"
    for attempt in attempts.list_attempts(session, row.id)[-1:]:
        reply = " ".join(str(part) for part in (attempt.code, attempt.reply) if part)
        yield f"last attempt {minute_text(attempt.began_at)}: {attempt.verdict or 'no result yet'} {reply}".rstrip()
    if state is DeliveryState.QUEUED:
        yield from (
            f"{STOPPED_MAIL[one.scope].lower()} stopped: {one.reason}"
            for one in emergency_stops.active_stops(session)
        )
    if state in ADVICE:
        yield ADVICE[state].format(number=row.id, id=row.provider_id or row.message_id or "its Message-ID")
    if row.attempts:
        yield f"every attempt: digest deliveries show {row.id}"


# ── without a delivery ──────────────────────────────────────────────────────────────────────────


def reasons(
    session: Session, site: Site, subscriber: Subscriber, slot: Edition, now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield the possible causes why an edition was never composed, the most certain first."""
    yield from mail_refused(session, site, subscriber)
    joined_at = subscriber.confirmed_at or subscriber.created_at
    status = next_digest.edition_status(session, subscriber, now)
    if slot == status.due:
        yield (
            "not published",
            (
                f"It has been due since {minute_text(max(slot.due_at, joined_at))} and is not composed yet."
                " Check that the scheduler and a worker run, and that papers arrive: digest status"
            ),
        )
    if slot.due_at > now:
        yield "not due yet", f"It is due on {minute_text(slot.due_at)}."
    if slot in status.missed:
        verdict = f"Nothing was published before it closed on {minute_text(slot.closes_at)}."
        yield "missed", f"{verdict} Its papers are in the next edition."
    if slot.due_at < joined_at:
        yield "before", f"It was due before they subscribed, on {minute_text(joined_at)}."
    restored_at = restore_point.restore_point(session)
    if restored_at is not None and slot.due_at < restored_at:
        yield "restored", f"The database was restored from a backup on {minute_text(restored_at)}."
    if now < slot.closes_at:
        yield (
            "not promised",
            f"It began before their present schedule or pause. Next: {edition_text(status.next)}.",
        )
    if now - slot.due_at > timedelta(days=200):
        yield "too old", "Its record may have been deleted after its retention period (DIGEST_KEEP)."
    yield (
        "unknown",
        (
            "There is no record of it: they were paused or had another schedule then, or nothing was published"
            f" on that day. See: digest subscribers show {subscriber.email} --history"
        ),
    )
