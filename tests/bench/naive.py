"""The usual way to mail digests, done well: one reader after the other, everything anew for each.

A query per reader through the ORM, every filter as regular expressions against every paper, Jinja and
premailer over the whole page, an `EmailMessage`, an SMTP connection and a commit per letter. It is
the rival in the benchmark, and since it shares only the pure decisions with the product
(relevance, composition, words) it is an oracle too: its letters must be the same.
"""

from __future__ import annotations

import re
import smtplib
from collections.abc import Callable
from dataclasses import fields
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from premailer import Premailer
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import copies, subscriptions, topics
from digest.composition import Caps, Digest, Wish, choice, compose
from digest.model import Delivery, DeliveryState, FilterRow, Lane, Shown, Subscriber, Subscription
from digest.papers import Paper, fold
from digest.press import Press, page
from digest.rendering import Copy, Templates, list_headers
from digest.rendering.inlining import WRITTEN_BY_HAND
from digest.rendering.letters import FILLER
from tests.bench.world import NOW, SITE

EDITION = f"daily-{NOW:%Y-%m-%d}"


def send_to(
    session: Session, press: Press, index: topics.Index, templates: Templates, port: int, email: str
) -> None:
    """Compose one reader's digest, send it over a connection of its own, and write it down."""
    subscriber = session.scalars(select(Subscriber).where(Subscriber.email == email)).one()
    held = session.scalars(
        select(Subscription)
        .where(Subscription.subscriber_id == subscriber.id)
        .order_by(Subscription.position)
    )
    filters = {one.filter_id: session.get_one(FilterRow, one.filter_id).canonical for one in held}
    wishes = [
        Wish(one.name, one.filter_id, chosen(press, index, filters[one.filter_id]))
        for one in session.scalars(
            select(Subscription)
            .where(Subscription.subscriber_id == subscriber.id)
            .order_by(Subscription.position)
        )
    ]
    ids = [paper.id for paper in press.papers]
    sections = compose(wishes, eligible=(1 << len(ids)) - 1, ids=ids, caps=Caps())
    digest = Digest(sections=sections, checked=len(ids))
    if sections:
        message = written(press, templates, digest, copy_for(subscriber, filters))
        with smtplib.SMTP("127.0.0.1", port) as server:
            server.sendmail(SITE.sender_address, [email], message.as_bytes(policy=SMTP))
    remember(session, subscriber, digest)


def chosen(press: Press, index: topics.Index, canonical: str):
    """Return what a filter chooses, each paper looked at in turn."""
    is_wanted = predicate(canonical)
    matches = sum(1 << number for number, paper in enumerate(press.papers) if is_wanted(paper))
    return choice(matches, press.scores, index.relevance(topics.parse(canonical), matches))


def predicate(canonical: str) -> Callable[[Paper], bool]:
    """Return a filter of the benchmark's kinds as regular expressions."""
    if " ANDNOT " in canonical:
        wanted, unwanted = map(predicate, canonical.split(" ANDNOT "))
        return lambda paper: wanted(paper) and not unwanted(paper)
    if " OR " in canonical:
        either = [predicate(part) for part in canonical.split(" OR ")]
        return lambda paper: any(one(paper) for one in either)
    words = canonical.strip('"').rstrip("*").split()
    pattern = r"\W+".join(map(re.escape, words)) + (r"\w*" if canonical.endswith("*") else "")
    expression = re.compile(rf"\b{pattern}\b")
    return lambda paper: bool(expression.search(fold(paper.title)) or expression.search(fold(paper.abstract)))


def copy_for(subscriber: Subscriber, filters: dict[int, str]) -> Copy:
    return copies.digest_copy(
        SITE,
        delivery_id=0,
        subscriber_id=subscriber.id,
        epoch=subscriber.epoch,
        email=subscriber.email,
        edition=EDITION,
        dated_at=NOW,
        schedule=subscriptions.schedule_of(subscriber),
        key_id=SITE.signing_key_id,
        filters=filters,
    )


def written(press: Press, templates: Templates, digest: Digest, copy: Copy) -> EmailMessage:
    """Return the message: the whole page rendered, inlined and put together for this one reader."""
    told = page(press, SITE, digest, copy)
    values = {field.name: getattr(told, field.name) for field in fields(told)} | {
        "site": SITE,
        "filler": FILLER,
    }
    html = Premailer(
        templates.html.get_template("letters/digest/body.html").render(values),
        allow_network=False,
        keep_style_tags=False,
        strip_important=False,
        disable_validation=True,
        disable_basic_attributes=WRITTEN_BY_HAND,
        cssutils_logging_level=50,
    ).transform()
    message = EmailMessage()
    message["From"] = f"{SITE.sender_name} <{SITE.sender_address}>"
    message["To"] = copy.recipient
    message["Subject"] = told.subject
    message["Date"] = format_datetime(NOW)
    message["Message-ID"] = copy.message_id
    for name, value in list_headers(SITE, copy.unsubscribe_url, campaign=copy.edition):
        message[name] = value
    message.set_content(templates.text.get_template("letters/digest/body.txt").render(values))
    message.add_alternative(html, subtype="html")
    return message


def remember(session: Session, subscriber: Subscriber, digest: Digest) -> None:
    """Write down what was sent and what was shown, and commit."""
    delivery = Delivery(
        subscriber_id=subscriber.id,
        email=subscriber.email,
        letter="digest",
        lane=Lane.BULK,
        edition=EDITION,
        decision=digest.to_json(),
        dated_at=NOW,
        state=DeliveryState.SENT if digest.papers else DeliveryState.EMPTY,
        due_at=NOW,
        expires_at=NOW,
        settled_at=NOW,
    )
    session.add(delivery)
    session.flush()
    shown = [
        Shown(subscriber_id=subscriber.id, paper_id=paper, delivery_id=delivery.id, shown_on=NOW.date())
        for paper in digest.papers
    ]
    session.add_all(shown)
    session.commit()
