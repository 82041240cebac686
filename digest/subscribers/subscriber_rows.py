"""Find, list and add subscribers, and store their topics."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session, aliased

from digest import addresses, bounces
from digest.db.tables import Consent, FilterRow, ResolvedFilter, Subscriber, SubscriberState, Subscription
from digest.editions.schedule import Cadence, Schedule
from digest.errors import BadField, NotFound
from digest.site_profile import Site
from digest.topics import filter_registry
from digest.topics.filter_registry import FilterRegistry

MAX_TOPICS = 50
MAX_NAME = 80  #: maximum number of characters in a topic's name

#: Control characters and surrogates, except line ends and tabs, since some databases cannot store them.
CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class SubscriberTopic:
    """A subscriber's topic: a name and a filter."""

    name: str
    filter_id: int
    canonical: str
    resolved: str  #: the canonical filter with its packs replaced by their filters
    resolved_filter_id: int  #: id of the resolved filter, which is used for matching
    typed: str  #: the filter as typed by the subscriber
    is_muted: bool = False  #: whether digests leave out the topic

    @property
    def text(self) -> str:
        """Return the filter in the form that its owner sees."""
        return self.typed or self.canonical


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


# ── adding ──────────────────────────────────────────────────────────────────────────────────────


def add(  # noqa: PLR0913  (the columns of a subscriber, by keyword)
    session: Session,
    email: str,
    *,
    name: str = "",
    topics: Mapping[str, str] | None = None,
    schedule: Schedule | None = None,
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
    refused. In any case, delivery sends it nothing except a confirmation that its owner requests.
    """
    address = addresses.parse_address(email)
    if state is SubscriberState.ACTIVE and not consent:
        raise BadField("consent", f"say how {address.email} agreed, or let them confirm by mail.")
    if site is not None and bounces.is_suppressed(session, site, address.email):
        raise BadField("email", f"{address.email} is suppressed. See: digest suppressions list")
    subscriber = Subscriber(
        email=address.email, email_key=address.folded, name=one_line(name), state=state,
        owner_email=check_owner(address.email, owner) if owner else None, created_at=now, is_sample=is_sample, **schedule_columns(schedule or Schedule()),
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


def groups_of(session: Session, owner: str) -> list[str]:
    """Return the group addresses that a person manages."""
    groups = select(Subscriber.email, Subscriber.owner_email).where(Subscriber.owner_email.is_not(None))
    key = addresses.fold_address(owner)
    return [row.email for row in session.execute(groups) if addresses.fold_address(row.owner_email) == key]


def schedule_columns(schedule: Schedule) -> dict[str, object]:
    """Return the schedule as values of subscriber columns."""
    return {
        "cadence": str(schedule.cadence),
        "at": schedule.at,
        "timezone": schedule.timezone,
        "weekday": schedule.weekday,
        "not_after": schedule.not_after,
    }


def schedule_of(subscriber: Subscriber) -> Schedule:
    """Return the subscriber's schedule."""
    return Schedule(
        cadence=Cadence(subscriber.cadence),
        at=subscriber.at,
        timezone=subscriber.timezone,
        weekday=subscriber.weekday,
        not_after=subscriber.not_after,
    )


def one_line(text: str) -> str:
    """Return a name as one line of at most 200 characters, without control or format characters."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())[:200]
    visible = "".join(
        " " if char.isspace() else char
        for char in unicodedata.normalize("NFC", text)
        if char.isspace() or unicodedata.category(char)[0] != "C"
    )
    return " ".join(visible.split())[:200]


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def topics_of(session: Session, subscriber: Subscriber) -> list[SubscriberTopic]:
    """Return the subscriber's topics in the order of the digest's sections."""
    resolved = aliased(FilterRow)
    rows = session.execute(
        select(
            Subscription.name,
            Subscription.filter_id,
            FilterRow.canonical,
            func.coalesce(resolved.canonical, FilterRow.canonical).label("resolved"),
            func.coalesce(ResolvedFilter.resolved_filter_id, Subscription.filter_id).label(
                "resolved_filter_id"
            ),
            Subscription.typed,
            Subscription.is_muted,
        )
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .outerjoin(ResolvedFilter, ResolvedFilter.filter_id == Subscription.filter_id)
        .outerjoin(resolved, resolved.id == ResolvedFilter.resolved_filter_id)
        .where(Subscription.subscriber_id == subscriber.id)
        .order_by(Subscription.position, Subscription.id)
    )
    return [
        SubscriberTopic(
            name=row.name,
            filter_id=row.filter_id,
            canonical=row.canonical,
            resolved=row.resolved,
            resolved_filter_id=row.resolved_filter_id,
            typed=row.typed,
            is_muted=row.is_muted,
        )
        for row in rows
    ]


def typed_topics(session: Session, ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return {subscriber id: {topic: filter as typed}}, the topics in the order of the digest."""
    query = (
        select(Subscription.subscriber_id, Subscription.name, Subscription.typed)
        .where(Subscription.subscriber_id.in_(ids))
        .order_by(Subscription.subscriber_id, Subscription.position, Subscription.id)
    )
    topics: dict[int, dict[str, str]] = {}
    for row in session.execute(query):
        topics.setdefault(row.subscriber_id, {})[row.name] = row.typed
    return topics


def muted_topics(session: Session, ids: Sequence[int]) -> dict[int, list[str]]:
    """Return {subscriber id: names of muted topics}."""
    query = (
        select(Subscription.subscriber_id, Subscription.name)
        .where(Subscription.subscriber_id.in_(ids), Subscription.is_muted.is_(True))
        .order_by(Subscription.subscriber_id, Subscription.position)
    )
    found: dict[int, list[str]] = {}
    for row in session.execute(query):
        found.setdefault(row.subscriber_id, []).append(row.name)
    return found


def latest_consents(session: Session, ids: Sequence[int]) -> dict[int, str]:
    """Return {subscriber id: how they last agreed}."""
    query = (
        select(Consent.subscriber_id, Consent.how).where(Consent.subscriber_id.in_(ids)).order_by(Consent.id)
    )
    return {row.subscriber_id: row.how for row in session.execute(query)}


def muted_names(session: Session, subscriber_id: int) -> frozenset[str]:
    """Return the case-folded names of the subscriber's muted topics."""
    query = select(Subscription.name).where(
        Subscription.subscriber_id == subscriber_id, Subscription.is_muted.is_(True)
    )
    return frozenset(name.casefold() for name in session.scalars(query))


def replace_topics(
    session: Session, subscriber_id: int, topics: Mapping[str, str], *, muted: Collection[str] | None = None
) -> None:
    """Replace the subscriber's topics; raise BadField or BadFilter for an invalid topic.

    The topics named in `muted` are muted; if `muted` is None, topics that keep their name stay muted.
    """
    checked = check_topics(topics, FilterRegistry(session))
    silent = (
        muted_names(session, subscriber_id)
        if muted is None
        else frozenset(one_line(name).casefold() for name in muted)
    )
    numbers = filter_registry.filter_ids(session, [canonical for _, canonical, _ in checked])
    session.execute(delete(Subscription).where(Subscription.subscriber_id == subscriber_id))
    reset = {"full_streaks": None}  # the streaks are stored by topic position, which may have changed
    session.execute(update(Subscriber).where(Subscriber.id == subscriber_id).values(reset))
    session.add_all(
        Subscription(
            subscriber_id=subscriber_id,
            position=position,
            name=name,
            filter_id=numbers[canonical],
            typed=typed,
            is_muted=name.casefold() in silent,
        )
        for position, (name, canonical, typed) in enumerate(checked)
    )
    session.flush()


def check_topics(topics: Mapping[str, str], registry: FilterRegistry) -> list[tuple[str, str, str]]:
    """Return (name, canonical filter, filter as typed) for each topic.

    Raises BadField for too many topics or an invalid or repeated name, and BadFilter for an invalid filter.
    """
    names = [one_line(name) for name in topics]
    check_names(names)
    typed = [CONTROL_CHARS.sub(" ", text) for text in topics.values()]
    return [(name, registry.canonical(text), text.strip()) for name, text in zip(names, typed, strict=True)]


def check_names(names: Sequence[str]) -> None:
    """Raise BadField if there are too many topics, or if a name is invalid or repeated."""
    if len(names) > MAX_TOPICS:
        raise BadField("topics", f"{len(names)} topics are too many; the limit is {MAX_TOPICS}.")
    folded = [name.casefold() for name in names]
    for name in names:
        if not name or len(name) > MAX_NAME:
            raise BadField("topics", f"a topic's name must have 1 to {MAX_NAME} characters, not {len(name)}.")
        if folded.count(name.casefold()) > 1:
            raise BadField("topics", f"two topics are called {name!r}.")
