"""Find and add subscribers, and convert their columns to values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from sqlalchemy import ColumnElement, exists, func, or_, select
from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.db.tables.subscribers import Consent, FilterRow, Subscriber, SubscriberState, Subscription
from digest.editions.schedule import Cadence, Schedule
from digest.errors import BadField, NotFound
from digest.mail import addresses
from digest.site.site_profile import Site
from digest.subscribers import reader_settings
from digest.subscribers.reader_settings import NO_TEXTS, Texts
from digest.subscribers.subscriber_topics import clean_line, replace_topics

# ── finding ─────────────────────────────────────────────────────────────────────────────────────


def find(session: Session, email: str) -> Subscriber | None:
    """Return the subscriber with this address, however it is spelled, or None."""
    return session.scalars(
        select(Subscriber).where(Subscriber.email_key == addresses.fold_address(email))
    ).one_or_none()


def get(session: Session, email: str) -> Subscriber:
    """Return the subscriber with this address, or raise a NotFound that suggests a similar address."""
    subscriber = find(session, email)
    if subscriber is not None:
        return subscriber
    close = get_close_matches(
        addresses.fold_address(email), similar_addresses(session, email), n=1, cutoff=0.8
    )
    hint = f" Did you mean {close[0]}?" if close else " See: digest subscribers list"
    raise NotFound(f"There is no subscriber {email!r}.{hint}")


def find_by_link(session: Session, subscriber_id: int, link_version: int) -> Subscriber | None:
    """Return the subscriber that a link names, or None if the link was revoked or the subscriber erased."""
    subscriber = session.get(Subscriber, subscriber_id)
    return subscriber if subscriber is not None and subscriber.link_version == link_version else None


def similar_addresses(session: Session, email: str) -> list[str]:
    """Return up to 500 subscriber addresses that begin with the same two characters as `email`."""
    start = addresses.fold_address(email)[:2]
    like = select(Subscriber.email_key).where(Subscriber.email_key.startswith(start, autoescape=True))
    return list(session.scalars(like.limit(500)))


def groups_of(session: Session, owner: str) -> list[str]:
    """Return the group addresses that a person manages."""
    groups = select(Subscriber.email, Subscriber.owner_email).where(Subscriber.owner_email.is_not(None))
    key = addresses.fold_address(owner)
    return [row.email for row in session.execute(groups) if addresses.fold_address(row.owner_email) == key]


def latest_consents(session: Session, ids: Sequence[int]) -> dict[int, str]:
    """Return {subscriber id: how they last agreed}."""
    query = (
        select(Consent.subscriber_id, Consent.how).where(Consent.subscriber_id.in_(ids)).order_by(Consent.id)
    )
    return {row.subscriber_id: row.how for row in session.execute(query)}


# ── adding ──────────────────────────────────────────────────────────────────────────────────────


def add(  # noqa: PLR0913  (the columns of a subscriber, by keyword)
    session: Session,
    email: str,
    *,
    name: str = "",
    topics: Mapping[str, str] | None = None,
    texts: Texts = NO_TEXTS,
    state: SubscriberState = SubscriberState.PENDING,
    owner: str | None = None,
    consent: str | None = None,
    now: datetime,
    site: Site | None = None,
    is_sample: bool = False,
) -> Subscriber:
    """Add a subscriber; raise BadField or BadFilter for an invalid value or a taken or suppressed address.

    An active subscriber needs `consent`, which describes in the operator's words how they agreed. `owner` is
    the person who manages the subscription of a group address. If `site` is given, a suppressed address is
    refused. Otherwise it is added, but delivery sends it nothing except a confirmation that the
    person with this address requests.
    """
    address = addresses.parse_address(email)
    if state is SubscriberState.ACTIVE and not consent:
        raise BadField("consent", f"say how {address.email} agreed, or let them confirm by mail.")
    if site is not None and suppressions.is_suppressed(session, site, address.email):
        raise BadField("email", f"{address.email} is suppressed. See: digest suppressions list")
    subscriber = Subscriber(
        email=address.email, email_key=address.folded, name=clean_line(name), state=state,
        owner_email=check_owner(address.email, owner) if owner else None, created_at=now, is_sample=is_sample,
        **reader_settings.columns_of(texts),
    )  # fmt: skip
    if find(session, address.email) is not None:
        raise BadField("email", f"{address.email} is subscribed already. See: digest subscribers edit")
    session.add(subscriber)
    session.flush()
    replace_topics(session, subscriber.id, topics or {})
    if state is SubscriberState.ACTIVE:
        subscriber.confirmed_at = now
        session.add(Consent(subscriber_id=subscriber.id, given_at=now, how=consent or ""))
        session.flush()
    return subscriber


def check_owner(email: str, owner: str) -> str:
    """Return the owner's normalised address; raise BadField if it is invalid or the group's own address."""
    try:
        address = addresses.parse_address(owner)
    except BadField as error:
        raise BadField("owner", str(error).removeprefix("email: ")) from error
    if address.folded == addresses.fold_address(email):
        raise BadField("owner", f"{address.email} is the group's own address; name a person.")
    return address.email


def set_owner(subscriber: Subscriber, owner: str) -> bool:
    """Set the owner, which makes the address a group's; return whether the owner changed.

    Links in earlier letters are revoked, because the former owner or the members have them.
    """
    checked = check_owner(subscriber.email, owner)
    if subscriber.owner_email == checked:
        return False
    subscriber.owner_email = checked
    subscriber.link_version += 1
    return True


def schedule_of(subscriber: Subscriber) -> Schedule:
    """Return the subscriber's schedule."""
    return Schedule(
        cadence=Cadence(subscriber.cadence),
        at=subscriber.at,
        timezone=subscriber.timezone,
        weekday=subscriber.weekday,
    )


# ── searching ────────────────────────────────────────────────────────────────────────────────────────


ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Criteria:
    """The criteria for listing subscribers; None or "" matches all subscribers."""

    state: SubscriberState | None = None
    cadence: str = ""
    domain: str = ""  #: the domain of the subscriber's address
    topic: str = ""  #: part of the name or filter of one of the subscriber's topics
    pack: str = ""  #: a pack, or one of its filters: lab or lab/nlp
    text: str = ""  #: part of the subscriber's address or name, or of a topic


def find_subscribers(session: Session, criteria: Criteria) -> Iterator[Subscriber]:
    """Yield the matching subscribers, ordered by address."""
    query = select(Subscriber).where(*conditions(criteria)).order_by(Subscriber.email_key)
    yield from session.scalars(query.execution_options(yield_per=ROWS_AT_ONCE))


def count_matching(session: Session, criteria: Criteria) -> int:
    """Return the number of matching subscribers."""
    return session.scalar(select(func.count()).select_from(Subscriber).where(*conditions(criteria))) or 0


def conditions(criteria: Criteria) -> list[ColumnElement[bool]]:
    """Convert the criteria to SQL conditions on the subscriber's columns."""
    found: list[ColumnElement[bool]] = []
    if criteria.state is not None:
        found.append(Subscriber.state == criteria.state)
    if criteria.cadence:
        found.append(Subscriber.cadence == criteria.cadence)
    if criteria.domain:
        domain = addresses.ascii_domain(criteria.domain.removeprefix("@"))
        found.append(Subscriber.email_key.endswith(f"@{domain}", autoescape=True))
    if criteria.topic:
        found.append(
            has_topic(
                contains(Subscription.name, criteria.topic) | contains(Subscription.typed, criteria.topic)
            )
        )
    if criteria.pack:
        name = f"use:{criteria.pack.lower().removeprefix('use:')}"
        found.append(has_topic(uses_pack(name)))
    if criteria.text:
        in_topics = contains(Subscription.name, criteria.text) | contains(Subscription.typed, criteria.text)
        own = contains(Subscriber.email, criteria.text) | contains(Subscriber.name, criteria.text)
        found.append(own | has_topic(in_topics))
    return found


def contains(column: Any, text: str) -> ColumnElement[bool]:
    """Return the condition that a column contains `text`, ignoring case."""
    return func.lower(column).contains(text.lower(), autoescape=True)


def uses_pack(name: str) -> ColumnElement[bool]:
    """Return the condition that a filter uses a pack: all of it, or one of its filters, in any version."""
    padded = func.replace(FilterRow.canonical, "(", " ") + " "
    ends = ("/", "@", " ", ")")
    return or_(*(padded.contains(f"{name}{end}", autoescape=True) for end in ends))


def has_topic(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that a subscriber has a topic for which `condition` holds."""
    topic = select(Subscription.id).join(FilterRow, FilterRow.id == Subscription.filter_id)
    return exists(topic.where(Subscription.subscriber_id == Subscriber.id, condition))


def emails_starting(session: Session, text: str, *, limit: int) -> list[str]:
    """Return up to `limit` addresses that begin with `text`, in alphabetical order."""
    start = Subscriber.email_key.startswith(text.lower(), autoescape=True)
    query = select(Subscriber.email).where(start).order_by(Subscriber.email_key)
    return list(session.scalars(query.limit(limit)))


def topics_starting(session: Session, text: str, *, limit: int) -> list[str]:
    """Return up to `limit` topic names that begin with `text`, in alphabetical order."""
    start = func.lower(Subscription.name).startswith(text.lower(), autoescape=True)
    query = select(Subscription.name).where(start).distinct().order_by(Subscription.name)
    return list(session.scalars(query.limit(limit)))
