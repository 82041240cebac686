"""One subscriber: found, added, and what they are interested in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session, aliased

from digest import addresses, bounces
from digest.editions import Cadence, Schedule
from digest.errors import BadField, NotFound
from digest.links import Site
from digest.model import Consent, FilterRow, Meaning, Subscriber, SubscriberState, Subscription
from digest.subscriptions import filters
from digest.subscriptions.filters import Books

MAX_TOPICS = 50
MAX_NAME = 80  #: the length of a topic's name

#: Control characters but line ends and tabs: nobody typed them, and no database keeps them all.
UNTYPED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """A named interest of one subscriber."""

    name: str
    filter_id: int
    canonical: str
    stands_for: str  #: the same, unless it uses packs
    stands_for_id: int  #: the filter that digests are decided on
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
    if text.isascii() and text.isprintable():
        return " ".join(text.split())[:200]
    visible = "".join(
        " " if char.isspace() else char
        for char in unicodedata.normalize("NFC", text)
        if char.isspace() or unicodedata.category(char)[0] != "C"
    )
    return " ".join(visible.split())[:200]


# ── their topics ────────────────────────────────────────────────────────────────────────────────


def topics_of(session: Session, subscriber: Subscriber) -> list[Topic]:
    """Return the subscriber's topics in the order of the digest's sections."""
    meant = aliased(FilterRow)
    rows = session.execute(
        select(
            Subscription.name,
            Subscription.filter_id,
            FilterRow.canonical,
            func.coalesce(meant.canonical, FilterRow.canonical).label("stands_for"),
            func.coalesce(Meaning.stands_for_id, Subscription.filter_id).label("stands_for_id"),
            Subscription.typed,
        )
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .outerjoin(Meaning, Meaning.filter_id == Subscription.filter_id)
        .outerjoin(meant, meant.id == Meaning.stands_for_id)
        .where(Subscription.subscriber_id == subscriber.id)
        .order_by(Subscription.position, Subscription.id)
    )
    return [
        Topic(
            name=row.name,
            filter_id=row.filter_id,
            canonical=row.canonical,
            stands_for=row.stands_for,
            stands_for_id=row.stands_for_id,
            typed=row.typed,
        )
        for row in rows
    ]


def put_topics(session: Session, subscriber_id: int, topics: Mapping[str, str]) -> None:
    """Give the subscriber exactly these topics, or raise BadField or BadFilter naming the wrong one."""
    checked = checked_topics(topics, Books(session))
    numbers = filters.filter_ids(session, [canonical for _, canonical, _ in checked])
    session.execute(delete(Subscription).where(Subscription.subscriber_id == subscriber_id))
    begun_anew = {"full_in_a_row": None}  # it counts by the place of topics
    session.execute(update(Subscriber).where(Subscriber.id == subscriber_id).values(begun_anew))
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


def checked_topics(topics: Mapping[str, str], books: Books) -> list[tuple[str, str, str]]:
    """Return (name, canonical filter, filter as typed) of each topic; raises BadField or BadFilter."""
    names = [one_line(name) for name in topics]
    check_names(names)
    typed = [UNTYPED.sub(" ", text) for text in topics.values()]
    return [(name, books.canonical(text), text.strip()) for name, text in zip(names, typed, strict=True)]


def check_names(names: Sequence[str]) -> None:
    """Raise BadField where topics of one subscriber cannot be called so, or are too many."""
    if len(names) > MAX_TOPICS:
        raise BadField("topics", f"{len(names)} topics are too many; {MAX_TOPICS} is the most.")
    folded = [name.casefold() for name in names]
    for name in names:
        if not name or len(name) > MAX_NAME:
            raise BadField("topics", f"a topic's name has 1 to {MAX_NAME} characters, not {len(name)}.")
        if folded.count(name.casefold()) > 1:
            raise BadField("topics", f"two topics are called {name!r}.")
