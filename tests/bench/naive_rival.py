"""Mail digests in the usual way: one reader after the other, rendering everything again for each reader.

Each reader has a task (`rival_tasks.py`). It queries the topics and the new papers through the ORM, matches
every filter as regular expressions against every paper, renders the whole page with Jinja and premailer, and
takes an `EmailMessage`, an SMTP connection and a commit. This implementation shares only the pure decisions
with the product (relevance, composition, words), so its letters also check those of the product.
"""

from __future__ import annotations

import re
import smtplib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cached_property
from typing import Any

from jinja2 import Environment, Template
from premailer import Premailer
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, DeliveryState, Lane, Shown
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import FilterRow, Subscriber, Subscription
from digest.editions.compose import Digest, RankedMatches, RequestedTopic, compose
from digest.letters import personalization
from digest.letters.css_inlining import WRITTEN_BY_HAND
from digest.letters.headers import list_headers
from digest.letters.letter_rendering import FILLER, Personalization
from digest.letters.press.digest_letters import DigestLetters, DigestTemplates
from digest.letters.press.load_templates import digest_templates
from digest.letters.press.press_value import Press
from digest.letters.press.size_budget import full_plan
from digest.letters.templates import Templates
from digest.papers.paper_record import fold
from digest.process.caches import Caches
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from digest.topics import filter_parser, filter_tree
from digest.topics.paper_index import PaperIndex
from tests.support.ranked_matches import rank_matches


@dataclass(frozen=True, kw_only=True)
class Morning:
    """The prepared input of the rivals; ranking is not part of their time."""

    site: Site
    press: Press
    index: PaperIndex  #: used only to compute relevance, not to match filters
    templates: Templates
    port: int
    now: datetime

    @property
    def edition(self) -> str:
        """Return the edition of the day."""
        return f"daily-{self.now:%Y-%m-%d}"

    @cached_property
    def compiled(self) -> DigestTemplates:
        """Return what the words of letters come with; the rivals do not render it."""
        return digest_templates(self.templates, self.site, Caches())

    @cached_property
    def text(self) -> Template:
        """Return the letter's text, loaded once."""
        return unsandboxed(self.templates.text).get_template("letters/digest/body.txt")

    @cached_property
    def html(self) -> Template:
        """Return the letter's page, loaded once."""
        return unsandboxed(self.templates.html).get_template("letters/digest/body.html")


def unsandboxed(guarded: Environment) -> Environment:
    """Return the same environment without its sandbox: a rival has no untrusted templates."""
    made = Environment(
        loader=guarded.loader,
        autoescape=guarded.autoescape,  # noqa: S701  (as the product says)
        undefined=guarded.undefined,
        trim_blocks=guarded.trim_blocks,
        lstrip_blocks=guarded.lstrip_blocks,
        extensions=list(guarded.extensions),
        auto_reload=False,
    )
    made.filters.update(guarded.filters)
    return made


def send_to(session: Session, morning: Morning, subscriber_id: int) -> None:
    """Compose one reader's digest, send it over its own connection, and record it."""
    subscriber = session.get_one(Subscriber, subscriber_id)
    digest, filters = compose_digest(session, morning, subscriber)
    if digest.sections:
        message = write_message(morning, digest, personalization_of(morning, subscriber, filters))
        with smtplib.SMTP("127.0.0.1", morning.port) as server:
            server.sendmail(morning.site.sender_address, [subscriber.email], message.as_bytes(policy=SMTP))
    record_sent(session, morning, subscriber, digest)


def compose_digest(
    session: Session, morning: Morning, subscriber: Subscriber
) -> tuple[Digest, dict[int, str]]:
    """Return one reader's digest, and their filters by id."""
    ordered = select(Subscription).where(Subscription.subscriber_id == subscriber.id)
    held = session.scalars(ordered.order_by(Subscription.position)).all()
    filters = {one.filter_id: session.get_one(FilterRow, one.filter_id).canonical for one in held}
    papers = unseen_papers(session, morning, subscriber)
    wishes = [
        RequestedTopic(one.name, one.filter_id, matching_papers(morning, papers, filters[one.filter_id]))
        for one in held
    ]
    return decide_digest(morning, wishes), filters


def unseen_papers(session: Session, morning: Morning, subscriber: Subscriber) -> Sequence[PaperRow]:
    """Return the day's papers that this reader was not shown; a task carries an id and queries them."""
    had = select(Shown.paper_id).where(Shown.subscriber_id == subscriber.id)
    of_the_day = PaperRow.first_seen_at.between(morning.now - timedelta(days=1), morning.now)
    return session.scalars(select(PaperRow).where(of_the_day, PaperRow.id.not_in(had))).all()


def decide_digest(morning: Morning, wishes: list[RequestedTopic]) -> Digest:
    """Return the digest composed of the matches of each topic."""
    ids = [paper.id for paper in morning.press.papers]
    sections = compose(wishes, eligible=(1 << len(ids)) - 1, ids=ids)
    return Digest(sections=sections, checked=len(ids))


def matching_papers(morning: Morning, papers: Sequence[Any], canonical: str) -> RankedMatches:
    """Return the papers that a filter matches, testing one after the other."""
    asked, number = filter_parser.parse(canonical), morning.press.rank_of_paper
    is_wanted = predicate(asked.tree)
    matches = sum(1 << number[paper.id] for paper in papers if is_wanted(paper))
    return rank_matches(
        matches, morning.press.scores, morning.index.relevance(asked, matches) if matches else {}
    )


def predicate(node: filter_tree.Node) -> Callable[[Any], bool]:
    """Return a filter of the benchmark's kinds as regular expressions."""
    if isinstance(node, filter_tree.Not):
        unwanted = predicate(node.child)
        return lambda paper: not unwanted(paper)
    if isinstance(node, filter_tree.And | filter_tree.Or):
        parts, enough = (
            [predicate(child) for child in node.children],
            all if isinstance(node, filter_tree.And) else any,
        )
        return lambda paper: enough(part(paper) for part in parts)
    assert isinstance(node, filter_tree.TextClause)
    return clause_pattern(node)


def clause_pattern(leaf: filter_tree.TextClause) -> Callable[[Any], bool]:
    """Return a clause as a regular expression: words beside one another in title, abstract or either."""
    pattern = r"\W+".join(re.escape(token.rstrip("*")) for token in leaf.tokens)
    search = re.compile(rf"\b{pattern}" + (r"" if leaf.tokens[-1].endswith("*") else r"\b")).search
    if leaf.field == "ti":
        return lambda paper: bool(search(fold(paper.title)))
    if leaf.field == "abs":
        return lambda paper: bool(search(fold(paper.abstract)))
    return lambda paper: bool(search(fold(paper.title)) or search(fold(paper.abstract)))


def personalization_of(morning: Morning, subscriber: Any, filters: dict[int, str]) -> Personalization:
    """Return the personalization of a subscriber, from a mapped row or a plain one."""
    return personalization.personalize(
        morning.site,
        delivery_id=0,
        subscriber_id=subscriber.id,
        link_version=subscriber.link_version,
        email=subscriber.email,
        edition=morning.edition,
        dated_at=morning.now,
        schedule=subscriber_rows.schedule_of(subscriber),
        key_id=morning.site.signing_key_id,
        filters=filters,
    )


def write_message(morning: Morning, digest: Digest, copy: Personalization) -> EmailMessage:
    """Return the message, with the whole page rendered and inlined for this one reader."""
    text, html, message = rendered(morning, digest, copy)
    message.set_content(text)
    message.add_alternative(by_premailer(html), subtype="html")
    return message


def rendered(morning: Morning, digest: Digest, copy: Personalization) -> tuple[str, str, EmailMessage]:
    """Return both bodies as Jinja renders them, and a message with its headers."""
    values = DigestLetters(morning.press, morning.site, morning.compiled).values(
        digest, copy, full_plan(digest, copy.filters)
    )
    values |= {"site": morning.site, "filler": FILLER}
    message = EmailMessage()
    message["From"] = f"{morning.site.sender_name} <{morning.site.sender_address}>"
    message["To"] = copy.recipient
    message["Subject"] = values["subject"]
    message["Date"] = format_datetime(morning.now)
    message["Message-ID"] = copy.message_id
    for name, value in list_headers(morning.site, copy.unsubscribe_url, campaign=copy.edition):
        message[name] = value
    return morning.text.render(values), morning.html.render(values), message


def by_premailer(html: str) -> str:
    """Inline as for our own template pieces, with premailer's default caches."""
    inlined: str = Premailer(
        html,
        allow_network=False,
        keep_style_tags=False,
        strip_important=False,
        disable_validation=True,
        disable_basic_attributes=WRITTEN_BY_HAND,
        cssutils_logging_level=50,
    ).transform()
    return inlined


def record_sent(session: Session, morning: Morning, subscriber: Subscriber, digest: Digest) -> None:
    """Record what was sent and shown, and commit."""
    delivery = Delivery(**row_of(morning, subscriber, digest))
    session.add(delivery)
    session.flush()
    session.add_all(Shown(**row) for row in showings_of(morning, subscriber.id, delivery.id, digest))
    session.commit()


def row_of(morning: Morning, subscriber: Any, digest: Digest) -> dict[str, Any]:
    """Return the row of a delivery."""
    return {
        "subscriber_id": subscriber.id,
        "email": subscriber.email,
        "letter": "digest",
        "lane": Lane.BULK,
        "edition": morning.edition,
        "decision": digest.to_json(),
        "dated_at": morning.now,
        "state": DeliveryState.SENT if digest.papers else DeliveryState.EMPTY,
        "due_at": morning.now,
        "expires_at": morning.now,
        "settled_at": morning.now,
    }


def showings_of(
    morning: Morning, subscriber_id: int, delivery_id: int, digest: Digest
) -> list[dict[str, Any]]:
    """Return the `shown` rows of a digest."""
    day = morning.now.date()
    return [
        {"subscriber_id": subscriber_id, "paper_id": paper, "delivery_id": delivery_id, "shown_on": day}
        for paper in digest.papers
    ]
