"""Show the page that explains why a reader did or did not get a paper."""

from __future__ import annotations

import re
from datetime import date

from starlette.requests import Request
from starlette.responses import Response

from digest import db
from digest.letters import figures_in_words
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.publishing.why.explain_paper import why
from digest.publishing.why.question import WhyAnswer, WhyCause
from digest.site import links
from digest.site.site_profile import Site
from digest.web import page_rendering, request_context
from digest.web.unsubscribe_page import subscriber_of_link

_ = figures_in_words.TRANSLATIONS.gettext

MAX_REFERENCE = 500

#: The answers in words for readers; the answers for SHOWN and OVER_CAP also have details.
ANSWERS = {
    WhyCause.UNKNOWN: "No list that we read contained this paper. Write its title, its arXiv id or its DOI.",
    WhyCause.HISTORY: "We have this paper only as older work or as a new version of older work. Digests contain only new papers.",
    WhyCause.WITHDRAWN: "The authors withdrew this paper.",
    WhyCause.UNMATCHED: "None of your topics matches this paper.",
    WhyCause.TOO_OLD: "It is older than the papers that a digest covers.",
    WhyCause.OVER_CAP: "It matched, but the digest was full.",
    WhyCause.NOT_DUE: "It is new, and your next digest may have it.",
    WhyCause.BEFORE: "We first saw it before you subscribed.",
    WhyCause.LATE: "It arrived after the digests of its day were made.",
    WhyCause.UNSENT: "Its digest was made, but could not be sent.",
    WhyCause.SUPPRESSED: "We no longer send mail to your address, usually because your mail server refused it.",
    WhyCause.PENDING: "Your subscription is not confirmed yet.",
    WhyCause.PAUSED: "Your digests are paused.",
    WhyCause.UNSUBSCRIBED: "You are unsubscribed.",
}
#: The answer if the reference names no paper, but a paper has a similar title.
NOT_EXACT = "No paper has exactly this title, arXiv id or DOI."


def show_answer(request: Request) -> Response:
    """Show the form, and the answer if the URL names a paper, without changing anything."""
    context = request_context.context_of(request)
    reference = request.query_params.get("paper", "").replace("\0", "").strip()[:MAX_REFERENCE]
    with db.read_session(context.engine) as session:
        subscriber = subscriber_of_link(session, request, "manage")
        answer = (
            why(
                session,
                site=context.site,
                templates=context.templates,
                caches=context.caches,
                email=subscriber.email,
                reference=catalog_reference(context.site, reference),
                now=context.clock(),
            )
            if reference
            else None
        )
        is_unknown = answer is not None and answer.json["cause"] == WhyCause.UNKNOWN
        nearest = queries.nearest_title(session, reference) if is_unknown else None
        reader = subscriber.id, subscriber.link_version
    return page_rendering.render_page(
        request,
        "why",
        reference=reference,
        title=paper_title(answer) if answer else "",
        answer=_(NOT_EXACT) if nearest else answer_sentence(answer) if answer else "",
        nearest=display(nearest or ""),
        findings=findings(answer) if answer else (),
        settings_url=links.manage_url(context.site, *reader),
    )


def catalog_reference(site: Site, typed: str) -> str:
    """Return the paper's number if `typed` is the address of its page here; otherwise return `typed`."""
    here = re.match(rf"{re.escape(site.url)}/papers/(\d+)", typed)
    return here[1] if here else typed


def paper_title(answer: WhyAnswer) -> str:
    """Return the title of the paper; "" if the paper is unknown."""
    return display(answer.json["paper"]["title"]) if "paper" in answer.json else ""


def answer_sentence(answer: WhyAnswer) -> str:
    """Return the answer in words for readers."""
    cause, rank = answer.json["cause"], answer.json.get("rank")
    if cause == WhyCause.SHOWN:
        if "shown_on" not in answer.json:
            return _("We sent it to you in another letter.")
        day = figures_in_words.day_in_words(date.fromisoformat(answer.json["shown_on"]))
        return _("It was in your digest of %s.") % day
    if cause == WhyCause.OVER_CAP and rank:
        return _("It matched, but the digest was full: it ranked %d among the papers for you.") % int(rank)
    return _(ANSWERS[WhyCause(cause)])


def findings(answer: WhyAnswer) -> tuple[str, ...]:
    """Return those findings that explain whether each topic matches the paper."""
    return tuple(line for line in answer.lines if " matches: " in line or " does not match: " in line)
