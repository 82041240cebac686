"""Show the page that explains why a reader did or did not get a paper."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from starlette.responses import Response

from digest.letters import figures_in_words
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.publishing.why.explain_paper import why
from digest.publishing.why.question import WhyAnswer, WhyCause
from digest.site import links
from digest.web.visits import Visit

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


def show_answer(visit: Visit) -> Response:
    """Show the form, and the answer if the URL names a paper, without changing anything."""
    context, reader = visit.context, visit.reader("manage")
    reference = visit.request.query_params.get("paper", "").replace("\0", "").strip()[:MAX_REFERENCE]
    values: dict[str, Any] = {"answer": ""}
    if reference:
        here = re.match(rf"{re.escape(visit.site.url)}/papers/(\d+)", reference)
        found = why(
            context.publication(visit.session, visit.now), reader.email, here[1] if here else reference
        )
        is_unknown = found.json["cause"] == WhyCause.UNKNOWN
        nearest = queries.nearest_title(visit.session, reference) if is_unknown else None
        values = {
            "title": display(found.json["paper"]["title"]) if "paper" in found.json else "",
            "answer": NOT_EXACT if nearest else answer_sentence(found),
            "nearest": display(nearest or ""),
            "findings": [line for line in found.lines if " matches: " in line or " does not match: " in line],
        }
    settings_url = links.manage_url(visit.site, reader.id, reader.link_version)
    return visit.page("why", reference=reference, settings_url=settings_url, **values)


def answer_sentence(answer: WhyAnswer) -> str:
    """Return the answer in words for readers."""
    cause, rank = answer.json["cause"], answer.json.get("rank")
    if cause == WhyCause.SHOWN:
        if "shown_on" not in answer.json:
            return "We sent it to you in another letter."
        day = figures_in_words.day_in_words(date.fromisoformat(answer.json["shown_on"]))
        return f"It was in your digest of {day}."
    if cause == WhyCause.OVER_CAP and rank:
        return f"It matched, but the digest was full: it ranked {int(rank)} among the papers for you."
    return ANSWERS[WhyCause(cause)]
