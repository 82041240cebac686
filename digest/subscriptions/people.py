"""One subscriber: found, added, and what they are interested in."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from digest import addresses, bounces, db
from digest.editions import Cadence, Schedule
from digest.errors import BadField, BadFilter, NotFound
from digest.links import Site
from digest.model import Consent, FilterRow, Subscriber, SubscriberState, Subscription

MAX_TOPICS = 50
MAX_NAME = 80  #: the length of a topic's name
MAX_FILTER = 2000  #: the length of a filter in canonical form


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """A named interest of one subscriber."""

    name: str
    filter_id: int
    canonical: str
    typed: str  #: the filter as its owner spelled it


# ── finding ─────────────────────────────────────────────────────────────────────────────────────


def find(session: Session, email: str) -> Subscriber | None:
    """Return the subscriber of that address, however it is spelled, or None."""
    return session.scalars(
        select(Subscriber).where(Subscriber.email_key == addresses.key(email))
    ).one_or_none()


def get(session: Session, email: str) -> Subscriber:
    """Return the subscriber of that address, or raise NotFound with a close one."""
    subscriber = find(session, email)
    if subscriber is not None:
        return subscriber
    close = get_close_matches(addresses.key(email), near(session, email), n=1, cutoff=0.8)
    hint = f" Did you mean {close[0]}?" if close else " See: digest subscribers list"
    raise NotFound(f"Nobody subscribed as {email!r}.{hint}")


def near(session: Session, email: str) -> list[str]:
    """Return a few addresses that begin as this one does."""
    start = addresses.key(email)[:2]
    like = select(Subscriber.email_key).where(Subscriber.email_key.startswith(start, autoescape=True))
    return list(session.scalars(like.limit(500)))


def listing(session: Session, *, state: SubscriberState | None = None) -> Iterator[Subscriber]:
    """Yield the subscribers by address."""
    wanted = select(Subscriber).order_by(Subscriber.email_key)
    if state is not None:
        wanted = wanted.where(Subscriber.state == state)
    yield from session.scalars(wanted.execution_options(yield_per=1000))


# ── adding ──────────────────────────────────────────────────────────────────────────────────────


def add(
    session: Session,
    email: str,
    *,
    name: str = "",
    topics: Mapping[str, str] | None = None,
    schedule: Schedule | None = None,
    state: SubscriberState = SubscriberState.PENDING,
    consent: str | None = None,
    now: datetime,
    site: Site | None = None,
    is_sample: bool = False,
) -> Subscriber:
    """Add a subscriber; raise BadField where the address is wrong, taken or suppressed.

    An active one needs `consent`: the operator's words on how they agreed. Suppressed addresses
    are refused here when `site` is given; the delivery refuses them whatever happened here.
    """
    address = addresses.checked(email)
    if state is SubscriberState.ACTIVE and not consent:
        raise BadField("consent", f"say how {address.email} agreed, or let them confirm by mail.")
    if site is not None and bounces.is_suppressed(session, site, address.email):
        raise BadField("email", f"{address.email} is suppressed. See: digest suppressions list")
    subscriber = Subscriber(
        email=address.email, email_key=address.key, name=one_line(name), state=state,
        created_at=now, is_sample=is_sample, **columns(schedule or Schedule()),
    )  # fmt: skip
    if find(session, address.email) is not None:
        raise BadField("email", f"{address.email} is subscribed already. See: digest subscribers edit")
    session.add(subscriber)
    session.flush()
    put_topics(session, subscriber.id, topics or {})
    if state is SubscriberState.ACTIVE:
        subscriber.confirmed_at = now
        session.add(Consent(subscriber_id=subscriber.id, given_at=now, how=consent or ""))
        session.flush()
    return subscriber


def columns(schedule: Schedule) -> dict[str, object]:
    """Return the schedule as the columns of a subscriber."""
    return {
        "cadence": str(schedule.cadence),
        "at": schedule.at,
        "timezone": schedule.timezone,
        "weekday": schedule.weekday,
        "not_after": schedule.not_after,
    }


def schedule_of(subscriber: Subscriber) -> Schedule:
    """Return when the subscriber wants to be written to."""
    return Schedule(
        cadence=Cadence(subscriber.cadence),
        at=subscriber.at,
        timezone=subscriber.timezone,
        weekday=subscriber.weekday,
        not_after=subscriber.not_after,
    )


def one_line(text: str) -> str:
    """Return a name as one line without control or format characters, at most 200 long."""
    visible = "".join(
        " " if char.isspace() else char
        for char in unicodedata.normalize("NFC", text)
        if char.isspace() or unicodedata.category(char)[0] != "C"
    )
    return " ".join(visible.split())[:200]


# ── their topics ────────────────────────────────────────────────────────────────────────────────


def topics_of(session: Session, subscriber: Subscriber) -> list[Topic]:
    """Return the subscriber's topics in the order of the digest's sections."""
    rows = session.execute(
        select(Subscription.name, Subscription.filter_id, FilterRow.canonical, Subscription.typed)
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .where(Subscription.subscriber_id == subscriber.id)
        .order_by(Subscription.position, Subscription.id)
    )
    return [
        Topic(name=row.name, filter_id=row.filter_id, canonical=row.canonical, typed=row.typed)
        for row in rows
    ]


def put_topics(session: Session, subscriber_id: int, topics: Mapping[str, str]) -> None:
    """Give the subscriber exactly these topics, or raise BadField or BadFilter naming the wrong one."""
    checked = checked_topics(topics, session)
    numbers = filter_ids(session, [canonical for _, canonical, _ in checked])
    session.execute(delete(Subscription).where(Subscription.subscriber_id == subscriber_id))
    session.add_all(
        Subscription(
            subscriber_id=subscriber_id,
            position=position,
            name=name,
            filter_id=numbers[canonical],
            typed=typed,
        )
        for position, (name, canonical, typed) in enumerate(checked)
    )
    session.flush()


def checked_topics(topics: Mapping[str, str], session: Session | None = None) -> list[tuple[str, str, str]]:
    """Return (name, canonical filter, filter as typed) of each topic; with a session, `like:` too."""
    if len(topics) > MAX_TOPICS:
        raise BadField("topics", f"{len(topics)} topics are too many; {MAX_TOPICS} is the most.")
    checked = [
        (one_line(name), canonical(likened(text, session)), text.strip()) for name, text in topics.items()
    ]
    names = [name.casefold() for name, _, _ in checked]
    for name, _, _ in checked:
        if not name or len(name) > MAX_NAME:
            raise BadField("topics", f"a topic's name has 1 to {MAX_NAME} characters, not {len(name)}.")
        if names.count(name.casefold()) > 1:
            raise BadField("topics", f"two topics are called {name!r}.")
    return checked


def likened(text: str, session: Session | None) -> str:
    """Return a filter with every `like:PAPER` in the paper's own words."""
    from digest import catalog, topics

    if session is None or "like:" not in text.lower():
        return text
    return topics.likened(text, lambda reference: catalog.find(session, reference))


@lru_cache(maxsize=10_000)
def canonical(text: str) -> str:
    """Return the canonical form of a filter, or raise BadFilter."""
    from digest import topics

    found = topics.parse(text).canonical
    if len(found) > MAX_FILTER:
        raise BadFilter(f"a filter of more than {MAX_FILTER} characters", text=text, column=MAX_FILTER)
    return found


def filter_id(session: Session, canonical: str) -> int:
    """Return the id of a canonical filter, which is stored if nobody held it before."""
    return filter_ids(session, [canonical])[canonical]


def filter_ids(session: Session, canonicals: Collection[str]) -> dict[str, int]:
    """Return the ids of canonical filters, storing those that nobody held before."""
    if not canonicals:
        return {}
    distinct = sorted(set(canonicals))  # sorted: two that store the same ones wait in the same order
    stored = select(FilterRow.canonical, FilterRow.id).where(FilterRow.canonical.in_(distinct))
    found = {row.canonical: row.id for row in session.execute(stored)}
    missing = [{"canonical": text} for text in distinct if text not in found]
    if missing:
        session.execute(db.upsert(session, FilterRow).on_conflict_do_nothing(), missing)
        found = {row.canonical: row.id for row in session.execute(stored)}
    return found
