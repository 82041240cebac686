"""Mail a new settings link to somebody whose link no longer works."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from digest.errors import UsageError
from digest.mail import addresses
from digest.subscribers import sign_up_queue
from digest.web import forms, front_page, problem_pages
from digest.web.sign_up_form import SignUpForm, error_sentence
from digest.web.visits import Visit


def show_front(visit: Visit) -> Response:
    """Redirect to the front page, since the form is on the pages of links that do not work."""
    del visit
    return RedirectResponse("/", 303)


def handle_form(visit: Visit) -> Response:
    """Mail a new link; the response does not depend on whether the address is known."""
    email = visit.field("email", 320)
    is_bot = bool(visit.field("website"))  # only bots fill in this hidden field
    refusal, stamp = ("", "") if is_bot else mail_link(visit, email, visit.field("made"))
    if refusal:
        return problem_pages.problem_page(visit.request, 410, email=email, stamp=stamp, error=refusal)
    return front_page.show_sent(visit, SignUpForm(email=email))


def mail_link(visit: Visit, email: str, stamp: str) -> tuple[str, str]:
    """Mail a link; return ("", "") if it was mailed, else why not, and the stamp for the next try."""
    try:
        addresses.parse_address(email)
    except UsageError as error:
        return error_sentence(error), stamp
    if not forms.is_timely(visit.site, stamp, visit.now):
        return front_page.PRESS_AGAIN, stamp
    unused = forms.form_stamp(visit.site, visit.now - forms.MIN_FORM_AGE)
    if forms.count_use(visit.context.caches, "stamps", stamp):
        return front_page.PRESS_AGAIN, unused
    is_done = sign_up_queue.send_link_or_sign_up(
        visit.session,
        visit.site,
        email,
        network=visit.network_hash,
        may_sign_up=visit.context.settings.signup,
        now=visit.now,
    )
    return ("", "") if is_done else ("Too many requests. Try again tomorrow.", unused)
