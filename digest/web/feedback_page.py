"""Show the pages of "less like this" and "more like this", with proposed topic changes and their effects.

A forwarded digest still contains these links. Every change is therefore reported to the reader's own address,
and the page can undo only a change of the kind that it makes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import db, links, subscribers
from digest.db import Session
from digest.db.tables import Subscriber, SubscriberState
from digest.errors import UsageError
from digest.letters import cards
from digest.subscribers import LastChange, TopicProposal, use_cases
from digest.web import page_rendering, paper_page, request_context
from digest.web.forms import field_text
from digest.web.sign_up_form import error_sentence
from digest.web.unsubscribe_page import state_page, subscriber_of_link

#: The messages shown after a button was pressed, keyed by the `done` parameter.
DONE_MESSAGES = {
    "undone": "Undone. Your topic is as it was before.",
    "stale": "Your topic has changed since you opened this page, so nothing was saved.",
}


def show_proposals(request: Request, *, wants_more: bool) -> Response:
    """Show the proposed changes with their effects, without changing anything."""
    with db.read_session(request_context.context_of(request).engine) as session:
        reader = subscriber_of_link(session, request, "paper")
        if reader.state == SubscriberState.UNSUBSCRIBED:
            return state_page(request, session, reader)
        return proposals_page(request, session, reader, wants_more=wants_more)


def proposals_page(
    request: Request, session: Session, reader: Subscriber, *, wants_more: bool, error: str = ""
) -> Response:
    """Return the page with the proposals, or with the change that the reader has just made."""
    context = request_context.context_of(request)
    paper = paper_page.current_paper(session, int(request.path_params["number"]))
    done = request.query_params.get("done", "")
    change = undoable_change(session, request, reader) if done == "applied" else None
    start = links.feedback_url(context.site, reader.id, reader.link_version)
    other = links.less_url(start, paper.id) if wants_more else links.more_url(start, paper.id)
    return page_rendering.render_page(
        request,
        "feedback",
        status=422 if error else 200,
        title=cards.display_title(paper),
        wants_more=wants_more,
        change=change,
        done=DONE_MESSAGES.get(done),
        error=error,
        has_topics=bool(subscribers.topics_of(session, reader)),
        proposals=()
        if change
        else found_proposals(request, session, reader, paper.id, wants_more=wants_more),
        other_url=other,
        settings_url=links.topic_links_url(context.site, reader.id, reader.link_version),
    )


def found_proposals(
    request: Request, session: Session, reader: Subscriber, paper_id: int, *, wants_more: bool
) -> tuple[TopicProposal, ...]:
    """Return the changes to propose."""
    context = request_context.context_of(request)
    propose = subscribers.propose_more if wants_more else subscribers.propose_less
    return propose(session, context.caches, reader, paper_id, now=context.clock())


def undoable_change(session: Session, request: Request, reader: Subscriber) -> LastChange | None:
    """Return the latest change of the reader's settings, if it is one that this page could have made."""
    now = request_context.context_of(request).clock()
    change = subscribers.last_change(session, reader, now=now)
    return change if change and is_from_here(change) else None


def is_from_here(change: LastChange) -> bool:
    """Return whether a change only added clauses to topics, as every change on this page does."""
    before = {topic.name: topic.filter for topic in change.before.topics}
    changed = [
        (before.get(topic.name, ""), topic.filter)
        for topic in change.after.topics
        if before.get(topic.name) != topic.filter
    ]
    return bool(changed) and all(
        old and new.startswith((f"{old} ANDNOT ", f"({old}) ANDNOT ", f"{old} OR ")) for old, new in changed
    )


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def handle_form(request: Request, form: FormData, *, wants_more: bool) -> Response:
    """Apply the chosen proposal or undo it, and redirect to the page."""
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        reader = subscriber_of_link(session, request, "paper")
        if reader.state == SubscriberState.UNSUBSCRIBED:
            return page_rendering.redirect_back(request)
        subscribers.note_activity(session, reader, now=context.clock())
        try:
            if field_text(form, "do") == "undo":
                is_ours = undoable_change(session, request, reader) is not None
                undone = is_ours and use_cases.undo_change(session, context.site, reader, now=context.clock())
                return page_rendering.redirect_back(request, "undone" if undone else "stale")
            done = apply_choice(request, session, reader, field_text(form, "choice"), wants_more=wants_more)
        except UsageError as error:
            values: dict[str, Any] = {"wants_more": wants_more, "error": error_sentence(error)}
            return proposals_page(request, session, subscriber_of_link(session, request, "paper"), **values)
    return page_rendering.redirect_back(request, done)


def apply_choice(
    request: Request, session: Session, reader: Subscriber, choice: str, *, wants_more: bool
) -> str:
    """Apply the proposal that the form names by topic and clause; return the value of `done`."""
    context = request_context.context_of(request)
    paper = paper_page.current_paper(session, int(request.path_params["number"]))
    for proposal in found_proposals(request, session, reader, paper.id, wants_more=wants_more):
        if choice == choice_value(proposal) and use_cases.apply_proposal(
            session, context.site, reader, proposal, now=context.clock()
        ):
            return "applied"
    return "stale"


def choice_value(proposal: TopicProposal) -> str:
    """Return the form value that names a proposal by its topic and clause."""
    return f"{proposal.topic}\t{proposal.clause}"


show_less, show_more = (partial(show_proposals, wants_more=wants_more) for wants_more in (False, True))
less, more = (partial(handle_form, wants_more=wants_more) for wants_more in (False, True))
