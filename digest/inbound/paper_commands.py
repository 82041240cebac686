"""Run a reader's commands on papers: why, less, more and save; test a filter; apply a proposal."""

from __future__ import annotations

from contextlib import suppress

from digest import links, subscribers, topics
from digest.errors import BadFilter, NotFound, UsageError
from digest.inbound import command_arguments, writer_checks
from digest.inbound.mail_commands import Command, Verb
from digest.inbound.reader_request import ReaderRequest, error_text, topics_of
from digest.letters import cards, figures_in_words
from digest.papers import Paper, catalog
from digest.publishing.why import WhyCause, why
from digest.subscribers import saved_papers
from digest.topics import recent_papers

_ = figures_in_words.TRANSLATIONS.gettext
ngettext = figures_in_words.TRANSLATIONS.ngettext

MAX_PROPOSALS = 3
MAX_REASONS = 3  #: maximum number of a topic's clauses named in an explanation
MAX_TITLES = 3  #: maximum number of the latest matches shown when a filter is tested


def paper_of(request: ReaderRequest, command: Command) -> Paper:
    """Return the paper that a command names: by its number in the answered digest, or by an identifier.

    Raises NotFound with a message for the reader.
    """
    found = catalog.find(request.session, reference_of(request, command))
    if found.is_hidden:
        raise NotFound(_("This paper was removed."))
    return found


def reference_of(request: ReaderRequest, command: Command) -> str:
    """Return the identifier in a command, or the id of the paper that has this number in the digest."""
    named = command_arguments.parse_paper(command.argument)
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


def explain_paper(request: ReaderRequest, command: Command) -> None:
    """Explain to the reader why they did or did not get a paper."""
    try:
        paper = paper_of(request, command)
    except NotFound as error:
        request.reply.add_outcome(command, str(error))
        return
    if request.rules.templates is None:
        return
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
    request.reply.add_outcome(command, f"{cards.display_title(paper)}: {' '.join(filter(None, said))}")


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


def test_filter(request: ReaderRequest, command: Command) -> None:
    """Report how many papers a day a filter would have found lately, and the titles of the latest ones."""
    _name, text = command_arguments.parse_topic(command.argument)
    try:
        resolved = subscribers.FilterRegistry(request.session).resolve_text(text)
    except UsageError as error:
        request.reply.add_outcome(command, error_text(error))
        return
    recent = recent_papers.recent_papers(request.session, request.rules.caches, now=request.now)
    found = recent.backtest(resolved)
    rate = ngettext("About %s paper a day", "About %s papers a day", 1 if found.per_day.median == 1 else 2)
    days = ngettext("(based on %d day so far).", "(based on %d days so far).", found.per_day.days)
    latest = [cards.display_title(recent.index.papers[number]) for number in found.last[:MAX_TITLES]]
    said = [f"{rate % f'{found.per_day.median:g}'} {days % found.per_day.days}"]
    said += [_("The latest: %s.") % "; ".join(latest) if latest else _("No paper matched.")]
    if writer_checks.safe_quote(text) == text:
        said.append(_("To get such papers: add %s") % text)
    request.reply.add_outcome(command, " ".join(said))


def save_paper(request: ReaderRequest, command: Command) -> None:
    """Save a paper to the reader's list; without proof of the sender, link to the page that saves it."""
    reply, subscriber = request.reply, request.subscriber
    try:
        paper = paper_of(request, command)
        if not reply.is_trusted:
            page = links.save_url(request.site, subscriber.id, subscriber.link_version, paper.id)
            reply.add_outcome(command, _("Open the link below to save it."))
            reply.add_link(_("Save the paper"), page)
            return
        is_new = saved_papers.save(request.session, subscriber.id, paper.id, now=request.now)
    except (NotFound, UsageError) as error:
        reply.add_outcome(command, str(error))
        return
    said = _("Saved: %s.") if is_new else _("You had saved it before: %s.")
    reply.add_outcome(command, said % cards.display_title(paper))


# ── less and more ───────────────────────────────────────────────────────────────────────────────


def propose_change(request: ReaderRequest, command: Command) -> None:
    """Propose topic changes that give fewer or more papers like this one; a reply of `yes` applies one."""
    reply, subscriber = request.reply, request.subscriber
    try:
        paper = paper_of(request, command)
    except NotFound as error:
        reply.add_outcome(command, str(error))
        return
    propose = subscribers.propose_less if command.verb is Verb.LESS else subscribers.propose_more
    found = propose(request.session, request.rules.caches, subscriber, paper.id, now=request.now)
    first = len(reply.proposals) + 1
    sentences = [
        f"{number}. {one.topic}: {one.clause}. {one.sentence}"
        for number, one in enumerate(found[:MAX_PROPOSALS], first)
    ]
    if not sentences:
        reply.add_outcome(command, _("We found no change of your topics for this paper."))
        return
    reply.proposals += [
        {"topic": one.topic, "before": one.before, "after": one.after} for one in found[:MAX_PROPOSALS]
    ]
    choice = (
        _("To apply one, reply “yes %d”.") % first if len(sentences) > 1 else _("To apply it, reply “yes”.")
    )
    reply.add_outcome(command, " ".join([cards.display_title(paper) + ":", *sentences, choice]))
    start = links.feedback_url(request.site, subscriber.id, subscriber.link_version)
    page = links.less_url(start, paper.id) if command.verb is Verb.LESS else links.more_url(start, paper.id)
    reply.add_link(_("Or choose on a page"), page)


def apply_proposal(request: ReaderRequest, command: Command) -> None:
    """Apply a proposal of the answered letter if its topic has not changed since and the sender is proven."""
    reply, proposals = request.reply, request.answered.proposals if request.answered else ()
    given = command.argument.rstrip(".!")
    place = int(given) - 1 if given.isdecimal() else 0
    if not 0 <= place < len(proposals):
        reply.add_outcome(command, _("There is nothing to confirm."))
        return
    chosen, current = proposals[place], topics_of(request.session, request.subscriber)
    if current.get(chosen["topic"]) != chosen["before"]:
        reply.add_outcome(
            command,
            _(
                "This topic was changed after we proposed the filter, so the filter was not applied. Send your request again for a new proposal."
            ),
        )
    elif not reply.is_trusted:
        said = _("Open the link below and press Save to confirm.")
        reply.add_outcome(command, said, ("name", chosen["topic"]), ("filter", chosen["after"]))
    else:
        current[chosen["topic"]] = chosen["after"]
        subscribers.edit(request.session, request.subscriber, now=request.now, topics=current)
        reply.add_outcome(
            command,
            _("%(topic)s is now: %(filter)s.") % {"topic": chosen["topic"], "filter": chosen["after"]},
        )
