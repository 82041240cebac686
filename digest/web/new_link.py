"""Mail a new settings link to somebody whose link no longer works."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from digest import db
from digest.errors import UsageError
from digest.letters import figures_in_words
from digest.mail import addresses
from digest.subscribers import sign_up_queue
from digest.web import forms, front_page, problem_pages, request_context
from digest.web.forms import field_text
from digest.web.sign_up_form import SignUpForm, error_sentence

_ = figures_in_words.TRANSLATIONS.gettext


def show_front(request: Request) -> Response:
    """Redirect to the front page, since the form is on the pages of links that do not work."""
    del request
    return RedirectResponse("/", 303)


def handle_form(request: Request, form: FormData) -> Response:
    """Mail a new link; the response does not depend on whether the address is known."""
    email = field_text(form, "email", 320)
    is_bot = bool(field_text(form, "website"))  # only bots fill in this hidden field
    refusal, stamp = ("", "") if is_bot else mail_link(request, email, field_text(form, "made"))
    if refusal:
        return problem_pages.problem_page(request, 410, email=email, stamp=stamp, error=refusal)
    return front_page.show_sent(request, SignUpForm(email=email))


def mail_link(request: Request, email: str, stamp: str) -> tuple[str, str]:
    """Mail a link; return ("", "") if it was mailed, else why not, and the stamp for the next try."""
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    try:
        addresses.parse_address(email)
    except UsageError as error:
        return error_sentence(error), stamp
    if not forms.is_timely(context.site, stamp, now):
        return front_page.PRESS_AGAIN, stamp
    unused = forms.form_stamp(context.site, now - forms.MIN_FORM_AGE)
    if forms.count_use(context.caches, "stamps", stamp):
        return front_page.PRESS_AGAIN, unused
    with db.write_session(context.engine) as session:
        is_done = sign_up_queue.send_link_or_sign_up(
            session,
            context.site,
            email,
            network=sign_up_queue.network_hash(context.site, request_context.network_of(request)),
            may_sign_up=context.settings.signup,
            now=now,
        )
    return ("", "") if is_done else (_("Too many requests. Try again tomorrow."), unused)
