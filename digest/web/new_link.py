"""Mail a new settings link to somebody whose link no longer works."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import addresses, db, subscribers
from digest.errors import UsageError
from digest.letters import figures_in_words
from digest.subscribers import use_cases
from digest.web import forms, front_page, problem_pages, request_context
from digest.web.forms import field_text
from digest.web.sign_up_form import SignUpForm, error_sentence

_ = figures_in_words.TRANSLATIONS.gettext


def handle_form(request: Request, form: FormData) -> Response:
    """Mail a new link; the response does not depend on whether the address is known."""
    context, email = request_context.context_of(request), field_text(form, "email", 320)
    now = context.clock()
    try:
        addresses.parse_address(email)
    except UsageError as error:
        return problem_pages.problem_page(request, 410, email=email, error=error_sentence(error))
    if field_text(form, "website"):  # only bots fill in this hidden field
        return front_page.show_sent(request, SignUpForm(email=email))
    stamp, network = field_text(form, "made"), front_page.request_network(request)
    if not forms.is_timely(context.site, stamp, now) or forms.count_use(context.caches, "stamps", stamp):
        return problem_pages.problem_page(
            request, 410, email=email, error=_("Please press the button again.")
        )
    with db.write_session(context.engine) as session:
        is_done = use_cases.send_link_or_sign_up(
            session,
            context.site,
            email,
            network=subscribers.network_hash(context.site, network),
            may_sign_up=context.settings.signup,
            now=now,
        )
    if not is_done:
        return problem_pages.problem_page(
            request, 410, email=email, error=_("Too many requests. Try again tomorrow.")
        )
    return front_page.show_sent(request, SignUpForm(email=email))


send_new_link = forms.respond_in_steps(forms.form_endpoint(handle_form))
