"""Run a reader's commands on papers: why, less, more and save; test a filter."""

from __future__ import annotations

from contextlib import suppress

from digest.errors import BadFilter, NotFound
from digest.inbound import command_arguments
from digest.inbound.mail_commands import Command, FewerLikeThis, KeepPaper, MoreLikeThis
from digest.inbound.mail_rules import MailContext
from digest.inbound.reader_request import ReaderRequest
from digest.letters import cards
from digest.papers.catalog import queries
from digest.papers.paper_record import Paper
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.publishing.why.question import WhyCause
from digest.site import links
from digest.subscribers import recent_papers, saved_papers, subscriber_topics, topic_feedback, undo_changes
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics import explanation

MAX_NOTES = 3  #: maximum number of notes on a filter
MAX_REASONS = 3  #: maximum number of a topic's clauses named in an explanation


def papers_of(request: ReaderRequest, command: Command) -> list[Paper]:
    """Return the papers that a command names by their numbers in the answered digest, or by identifiers.

    Raises NotFound with a message for the reader.
    """
    named = command_arguments.parse_papers(command.argument) or ()
    found = [queries.find(request.session, reference_of(request, one)) for one in named]
    if any(paper.is_hidden for paper in found):
        raise NotFound("This paper was removed.")
    return found


def reference_of(request: ReaderRequest, named: int | str) -> str:
    """Return an identifier, or the id of the paper that has this number in the digest."""
    if not isinstance(named, int):
        return str(named)
    papers = request.answered.papers if request.answered else ()
    if not papers:
        raise NotFound("Write this as a reply to a digest, so that we know which paper has this number.")
    if not 1 <= named <= len(papers):
        raise NotFound(f"The digest has no paper {named}; its last paper is number {len(papers)}.")
    return str(papers[named - 1])


def run_for_papers(request: ReaderRequest, command: Command) -> str:
    """Explain, save or change the topics after each paper that a command names: all of them, or none."""
    papers = papers_of(request, command)
    if command.kind in {FewerLikeThis, MoreLikeThis}:
        return " ".join(changed(request, paper, is_less=command.kind is FewerLikeThis) for paper in papers)
    said = saved if command.kind is KeepPaper else explained
    return " ".join(said(request, paper) for paper in papers)


def explained(request: ReaderRequest, paper: Paper) -> str:
    """Return the title of a paper, and why the reader did or did not get it."""
    if request.rules.templates is None:
        return match_sentence(request, paper)
    publication = Publication(
        request.session,
        site=request.site,
        templates=request.rules.templates,
        caches=request.rules.caches,
        now=request.now,
    )
    found = why(publication, request.subscriber.email, str(paper.id))
    is_shown = found.json["cause"] == WhyCause.SHOWN
    said = [match_sentence(request, paper), "" if is_shown else found.verdict]
    return f"{cards.display_title(paper)}: {' '.join(filter(None, said))}"


def match_sentence(request: ReaderRequest, paper: Paper) -> str:
    """Return a sentence with the topics and clauses that match a paper, or with the reason why none does."""
    registry, matched, failed = FilterRegistry(request.session), list[str](), list[str]()
    for topic in subscriber_topics.topics_of(request.session, request.subscriber):
        with suppress(BadFilter):  # a pack that the filter uses has been removed
            found = explanation.explain(registry.resolve_text(topic.canonical), paper)
            reasons = ", ".join((found.why if found.matched else found.failed)[:MAX_REASONS])
            (matched if found.matched else failed).append(f"{topic.name} ({reasons})")
    if matched:
        return f"It matches {'; '.join(matched)}."
    return f"None of your topics matches it: {'; '.join(failed)}." if failed else "It was trending."


def test_filter(request: ReaderRequest, command: Command) -> str:
    """Say what a filter would have found lately, and how to add it."""
    _name, text = command_arguments.parse_topic(command.argument)
    return f"{matches_in_words(request, text)} To get such papers: add {text}"


def matches_in_words(context: MailContext, text: str, *, after: str = "") -> str:
    """Return how a filter was read and what it finds among the recent papers, after other sentences.

    A filter that finds nothing is said first of all. Raises BadFilter if the filter is invalid.
    """
    filter_ = FilterRegistry(context.session).resolve_text(text)
    recent = recent_papers.recent_papers(context.session, context.rules.caches, now=context.now)
    found, count = recent.backtest(filter_), recent.index.matches(filter_).bit_count()
    read = f"Read as: {filter_.canonical}." if filter_.canonical != text.strip() else ""
    if "about:" in text:
        read = f"Read as the description {filter_.canonical}; put words in quotes to find exactly these."
    noted = [note for note in (*filter_.warnings, *found.warnings) if not note.startswith("Based on")]
    notes = [note if note.endswith("?") else f"{note}." for note in noted[:MAX_NOTES]]
    of_all = f"{len(recent.days):,}"
    if not recent.days:
        said = [after, read, *notes, "There are no papers yet to test it on."]
    elif not count:
        nothing = (
            f"None of the last {of_all} papers matches. Try fewer or more general words, or OR between words."
        )
        said = [nothing, after, read, *notes]
    else:
        latest = cards.display_title(recent.index.papers[found.last[0]])
        latest = latest if latest.endswith(("?", "!", ".")) else f"{latest}."
        matches = f"It matches {count:,} of the last {of_all} papers; the latest: {latest}"
        said = [after, read, matches, *notes]
    return " ".join(filter(None, said))


def saved(request: ReaderRequest, paper: Paper) -> str:
    """Save one paper, or link to the page that saves it."""
    reply, subscriber, title = request.reply, request.subscriber, cards.display_title(paper)
    if not reply.is_trusted:
        page = links.save_url(request.site, subscriber.id, subscriber.link_version, paper.id)
        reply.add_link(f"Save: {title}", page)
        return f"{title}: Open the link below to save it."
    is_new = saved_papers.save(request.session, subscriber.id, paper.id, now=request.now)
    return f"{'Saved' if is_new else 'You had saved it before'}: {title}."


# ── less and more ───────────────────────────────────────────────────────────────────────────────


def changed(request: ReaderRequest, paper: Paper, *, is_less: bool) -> str:
    """Change the topics after one paper; without proof of the sender, link to the page that does it."""
    reply, subscriber = request.reply, request.subscriber
    find = topic_feedback.changes_for_less if is_less else topic_feedback.changes_for_more
    changes = find(request.session, request.rules.caches, subscriber, paper.id, now=request.now)
    after = topic_feedback.changed_topics(request.session, subscriber, changes)
    title = cards.display_title(paper)
    if after is None:
        said = "None of your topics matches it." if is_less else "It is an example of your topics already."
        return f"{title}: {said}"
    effects = " ".join(f"{one.topic}: {one.sentence}" for one in changes)
    if not reply.is_trusted:
        start = links.feedback_url(request.site, subscriber.id, subscriber.link_version)
        page = links.less_url(start, paper.id) if is_less else links.more_url(start, paper.id)
        reply.add_link(f"{'Less' if is_less else 'More'} like this: {title}", page)
        return f"{title}: Open the link below to change your topics. {effects}"
    undo_changes.edit(request.session, subscriber, ReaderSettings(topics=after), now=request.now)
    done = "You get fewer papers like this." if is_less else "You get more papers like this."
    return f"{title}: {done} {effects}"
