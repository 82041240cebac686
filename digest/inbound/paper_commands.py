"""Run a reader's commands on papers: why, less, more and save; test a filter; apply a proposal."""

from __future__ import annotations

from contextlib import suppress

from digest import links, subscribers, topics
from digest.errors import BadFilter, NotFound
from digest.inbound import command_arguments
from digest.inbound.mail_commands import Command, Verb
from digest.inbound.mail_rules import MailContext
from digest.inbound.reader_request import ReaderRequest, topics_of
from digest.letters import cards, figures_in_words
from digest.papers import Paper, catalog
from digest.publishing.why import WhyCause, why
from digest.subscribers import saved_papers
from digest.topics import recent_papers

_ = figures_in_words.TRANSLATIONS.gettext
ngettext = figures_in_words.TRANSLATIONS.ngettext

MAX_PROPOSALS = 3
MAX_NOTES = 3  #: maximum number of notes on a filter
MAX_REASONS = 3  #: maximum number of a topic's clauses named in an explanation


def paper_of(request: ReaderRequest, named: int | str | None) -> Paper:
    """Return a paper by its number in the answered digest, or by an identifier.

    Raises NotFound with a message for the reader.
    """
    found = catalog.find(request.session, reference_of(request, named))
    if found.is_hidden:
        raise NotFound(_("This paper was removed."))
    return found


def reference_of(request: ReaderRequest, named: int | str | None) -> str:
    """Return an identifier, or the id of the paper that has this number in the digest."""
    if not isinstance(named, int):
        return str(named)
    papers = request.answered.papers if request.answered else ()
    if not papers:
        raise NotFound(_("Write this as a reply to a digest, so that we know which paper has this number."))
    if not 1 <= named <= len(papers):
        raise NotFound(
            _("The digest has no paper %(number)d; its last paper is number %(last)d.")
            % {"number": named, "last": len(papers)}
        )
    return str(papers[named - 1])


def explain_paper(request: ReaderRequest, command: Command) -> str:
    """Explain to the reader why they did or did not get a paper."""
    paper = paper_of(request, command_arguments.parse_paper(command.argument))
    if request.rules.templates is None:
        return match_sentence(request, paper)
    found = why(
        request.session,
        site=request.site,
        templates=request.rules.templates,
        caches=request.rules.caches,
        email=request.subscriber.email,
        reference=str(paper.id),
        now=request.now,
    )
    is_shown = found.json["cause"] == WhyCause.SHOWN
    said = [match_sentence(request, paper), "" if is_shown else found.verdict]
    return f"{cards.display_title(paper)}: {' '.join(filter(None, said))}"


def match_sentence(request: ReaderRequest, paper: Paper) -> str:
    """Return a sentence with the topics and clauses that match a paper, or with the reason why none does."""
    registry, matched, failed = subscribers.FilterRegistry(request.session), list[str](), list[str]()
    for topic in subscribers.topics_of(request.session, request.subscriber):
        with suppress(BadFilter):  # a pack that the filter uses has been removed
            found = topics.explain(registry.resolve_text(topic.canonical), paper)
            reasons = ", ".join((found.why if found.matched else found.failed)[:MAX_REASONS])
            (matched if found.matched else failed).append(f"{topic.name} ({reasons})")
    if matched:
        return _("It matches %s.") % "; ".join(matched)
    return _("None of your topics matches it: %s.") % "; ".join(failed) if failed else _("It was trending.")


def test_filter(request: ReaderRequest, command: Command) -> str:
    """Say what a filter would have found lately, and how to add it."""
    _name, text = command_arguments.parse_topic(command.argument)
    return f"{matches_in_words(request, text)} {_('To get such papers: add %s') % text}"


def matches_in_words(context: MailContext, text: str) -> str:
    """Return how a filter was read, and what it finds among the recent papers; nothing found is said first.

    Raises BadFilter if the filter is invalid.
    """
    filter_ = subscribers.FilterRegistry(context.session).resolve_text(text)
    recent = recent_papers.recent_papers(context.session, context.rules.caches, now=context.now)
    found, count, of_all = (
        recent.backtest(filter_),
        recent.index.matches(filter_).bit_count(),
        len(recent.days),
    )
    read = [_("Read as: %s.") % filter_.canonical] if filter_.canonical != text.strip() else []
    notes = [
        note if note.endswith("?") else f"{note}."
        for note in (*filter_.warnings, *found.warnings)
        if not note.startswith("Based on")
    ][:MAX_NOTES]
    if not of_all:
        return " ".join([*read, *notes, _("There are no papers yet to test it on.")])
    if not count:
        nothing = (
            _("None of the last %s papers matches. Try fewer words, or OR between words.") % f"{of_all:,}"
        )
        return " ".join([nothing, *read, *notes])
    counted = _("It matches %(count)s of the last %(all)s papers")
    latest = _("the latest: %s.") % cards.display_title(recent.index.papers[found.last[0]])
    return " ".join([*read, f"{counted % {'count': f'{count:,}', 'all': f'{of_all:,}'}}; {latest}", *notes])


def save_papers(request: ReaderRequest, command: Command) -> str:
    """Save papers to the reader's list; without proof of the sender, link to the pages that save them."""
    reply, subscriber = request.reply, request.subscriber
    papers = [paper_of(request, named) for named in command_arguments.parse_papers(command.argument) or ()]
    if not reply.is_trusted:
        for paper in papers:
            page = links.save_url(request.site, subscriber.id, subscriber.link_version, paper.id)
            label = _("Save the paper") if len(papers) == 1 else _("Save: %s") % cards.display_title(paper)
            reply.add_link(label, page)
        return (
            _("Open the link below to save it.")
            if len(papers) == 1
            else _("Open the links below to save them.")
        )
    said = {True: _("Saved: %s."), False: _("You had saved it before: %s.")}
    return " ".join(
        said[saved_papers.save(request.session, subscriber.id, paper.id, now=request.now)]
        % cards.display_title(paper)
        for paper in papers
    )


# ── less and more ───────────────────────────────────────────────────────────────────────────────


def propose_change(request: ReaderRequest, command: Command) -> str:
    """Propose topic changes that give fewer or more papers like this one; a reply of `yes` applies one."""
    reply, subscriber = request.reply, request.subscriber
    paper = paper_of(request, command_arguments.parse_paper(command.argument))
    propose = subscribers.propose_less if command.verb is Verb.LESS else subscribers.propose_more
    found = propose(request.session, request.rules.caches, subscriber, paper.id, now=request.now)
    first = len(reply.proposals) + 1
    sentences = [
        f"{number}. {one.topic}: {one.clause}. {one.sentence}"
        for number, one in enumerate(found[:MAX_PROPOSALS], first)
    ]
    if not sentences:
        return _("We found no change of your topics for this paper.")
    reply.proposals += [
        {"topic": one.topic, "before": one.before, "after": one.after} for one in found[:MAX_PROPOSALS]
    ]
    choice = (
        _("To apply one, reply “yes %d”.") % first if len(sentences) > 1 else _("To apply it, reply “yes”.")
    )
    start = links.feedback_url(request.site, subscriber.id, subscriber.link_version)
    page = links.less_url(start, paper.id) if command.verb is Verb.LESS else links.more_url(start, paper.id)
    reply.add_link(_("Or choose on a page"), page)
    return " ".join([cards.display_title(paper) + ":", *sentences, choice])


def apply_proposal(request: ReaderRequest, command: Command) -> str:
    """Apply a proposal of the answered letter if its topic has not changed since and the sender is proven."""
    reply, proposals = request.reply, request.answered.proposals if request.answered else ()
    given = command.argument.rstrip(".!")
    place = int(given) - 1 if given.isdecimal() else 0
    if not 0 <= place < len(proposals):
        return _("There is nothing to confirm.")
    chosen, current = proposals[place], topics_of(request.session, request.subscriber)
    if current.get(chosen["topic"]) != chosen["before"]:
        return _(
            "This topic was changed after we proposed the filter, so the filter was not applied. Send your request again for a new proposal."
        )
    if not reply.is_trusted:
        reply.prefilled += [("name", chosen["topic"]), ("filter", chosen["after"])]
        return _("Open the link below and press Save to confirm.")
    current[chosen["topic"]] = chosen["after"]
    subscribers.edit(request.session, request.subscriber, now=request.now, topics=current)
    return _("%(topic)s is now: %(filter)s.") % {"topic": chosen["topic"], "filter": chosen["after"]}
