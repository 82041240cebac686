"""Serve the front page: the sign-up form and today's trending papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from digest.errors import BadField, BadFilter, UsageError
from digest.mail import addresses
from digest.papers.catalog import queries
from digest.subscribers import sign_up_limits, sign_up_queue, subscriber_topics
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics import example_topics, filter_parser
from digest.web import (
    forms,
    library_upload,
    page_rendering,
    problem_pages,
    public_archive,
    sign_up_form,
    topic_preview,
    topic_trials,
    trending_list,
)
from digest.web.middleware import mail_headers, script_headers
from digest.web.sign_up_form import (
    EMPTY_FORM,
    MAX_NAME,
    MAX_OFFERED,
    OfferedTopic,
    SignUpForm,
    error_sentence,
)
from digest.web.topic_preview import ChosenTopics, TopicPreview
from digest.web.visitor_network import is_proxied
from digest.web.visits import Visit

#: Text in the cached page that each response replaces with a stamp of the time when the form was loaded.
STAMP_PLACEHOLDER = "time-of-the-form"
TOO_MANY = "Too many requests. Try again in a minute."
PRESS_AGAIN = "Please press the button again."
NO_SAMPLE = "Nothing from the past week matches, so there is no sample. Add a topic."


@dataclass(frozen=True, kw_only=True, slots=True)
class FormErrors:
    """The errors found in a form's fields."""

    by_field: Mapping[str, str] = field(default_factory=dict)
    filter: BadFilter | None = None
    meant: str | None = None  #: the address that was probably meant, if the typed address looks mistyped

    def __bool__(self) -> bool:
        return bool(self.by_field or self.filter or self.meant)


NO_ERRORS = FormErrors()


def show_front(visit: Visit) -> Response:
    """Show the front page, cached until the catalog or the day changes, with a new form stamp."""
    page = visit.cached("front", lambda: render_front(visit, EMPTY_FORM, stamp=STAMP_PLACEHOLDER))
    stamp = forms.form_stamp(visit.site, visit.now)
    return HTMLResponse(page.replace(STAMP_PLACEHOLDER, stamp), headers=script_headers())


def offer_topics(visit: Visit, offered: Sequence[OfferedTopic]) -> Response:
    """Return the front page with these topics, which are offered and already chosen."""
    kept = frozenset(topic.value for topic in offered)
    form = replace(EMPTY_FORM, offered=tuple(offered[:MAX_OFFERED]), kept=kept, is_open=True)
    page = render_front(visit, form, stamp=forms.form_stamp(visit.site, visit.now))
    return HTMLResponse(page, headers=script_headers() | {"cache-control": "no-store"})


def render_front(
    visit: Visit,
    form: SignUpForm,
    *,
    stamp: str,
    errors: FormErrors = NO_ERRORS,
    preview: TopicPreview | None = None,
    focus: str = "",
) -> str:
    """Return the front page as HTML; the field `focus` gets the keyboard focus."""
    today = trending_list.todays_list(visit)
    return page_rendering.render_html(
        visit.context,
        "front_page",
        today=today,
        earlier=public_archive.earlier_list(visit, today.day) if today else None,
        whole_list=public_archive.whole_list(visit, today) if today else None,
        interests=topic_trials.starter_rates(visit),
        is_closed=visit.context.settings.signup == frozenset(),
        guesses_zone=form is EMPTY_FORM,
        script=page_rendering.static_url("front_page.js"),
        form=form,
        errors=errors.by_field,
        wrong=errors.filter,
        meant=errors.meant,
        preview=preview,
        stamp=stamp,
        focus=focus or next(iter(errors.by_field), "filter" if errors.filter else ""),
        settings=sign_up_form.offered_settings(),
    )


def show_again(
    visit: Visit,
    status: int,
    form: SignUpForm,
    errors: FormErrors = NO_ERRORS,
    *,
    focus: str = "",
    is_counted: bool = False,
) -> Response:
    """Return the front page with the submitted values, their errors, and a preview of valid topics.

    The preview counts towards the limit on previews, unless it was counted already.
    """
    wants_preview = status != 429 and (form.has_topics or form.is_open)
    shows_preview = wants_preview and (is_counted or may_preview(visit, has_file=False))
    html = render_front(
        visit,
        form,
        stamp=forms.stamp_again(visit.site, form.stamp, visit.now),
        errors=errors,
        preview=preview_or_none(visit, form) if shows_preview else None,
        focus=focus,
    )
    return HTMLResponse(html, status, headers=script_headers())


def preview_or_none(visit: Visit, form: SignUpForm) -> TopicPreview | None:
    """Return a preview of the topics in the form, or None if one of the filters is invalid."""
    with suppress(UsageError):
        chosen = topic_preview.chosen_topics(visit, form)
        return topic_preview.preview_topics(visit, chosen, requested_settings(form, chosen))
    return None


def requested_settings(form: SignUpForm, chosen: ChosenTopics) -> ReaderSettings:
    """Return the settings that the form requests; those with errors are left out."""
    return ReaderSettings(topics=chosen.filters or None, texts=sign_up_form.check_settings(form.texts)[0])


# ── the buttons ─────────────────────────────────────────────────────────────────────────────────


def handle_form(visit: Visit) -> Response:
    """Do what the pressed button asks for: sign up, preview the topics, show a sample, or edit again."""
    visit = sign_up_form.with_shown_fields(visit)
    do, has_file = visit.field("do"), library_upload.has_file(visit.form)
    if (do in {"try", "exact", "sample"} or has_file) and not may_preview(visit, has_file=has_file):
        errors = FormErrors(by_field={"preview": TOO_MANY})
        return show_again(visit, 429, sign_up_form.read(visit), errors)
    form, library_errors = read_with_library(visit)
    if do == "exact":
        with suppress(BadFilter):  # the words are then shown again with the error
            form, do = replace(form, filter=filter_parser.parse(form.filter).canonical), "try"
    return (
        show_again(visit, 200, form, focus="email")
        if do == "change"
        else handle_button(visit, do, form, library_errors)
    )


def handle_button(visit: Visit, do: str, form: SignUpForm, library_errors: Mapping[str, str]) -> Response:
    """Check the topics, then sign up, preview the topics or show a sample."""
    checked = check_topics(visit, form)
    errors = replace(checked, by_field={**library_errors, **checked.by_field})
    if do not in {"try", "exact", "sample"}:
        return handle_sign_up(visit, form, errors)
    if errors:
        return show_again(visit, 422, replace(form, is_open=True), errors, is_counted=True)
    if do == "try":
        return show_again(visit, 200, replace(form, is_open=True), is_counted=True)
    return show_sample(visit, form)


def read_with_library(visit: Visit) -> tuple[SignUpForm, dict[str, str]]:
    """Return the submitted form with a topic like an uploaded library, and any error in the library."""
    form = sign_up_form.read(visit)
    if not library_upload.has_file(visit.form):
        return form, {}
    try:
        with library_upload.turn(visit.context.caches):
            library = library_upload.uploaded_library(visit.form, visit.now)
            examples = queries.as_known(visit.session, example_topics.newest_of(library.papers))
            topic = example_topics.topic_like_library(examples, [*library.papers, *examples])
    except BadField as error:
        return form, {error.field: error_sentence(error)}
    found = OfferedTopic(name=topic.name[:MAX_NAME], filter=topic.filter)
    offered = tuple(dict.fromkeys((*form.offered, found)))
    kept = form.kept | {found.value}
    return replace(form, offered=offered, kept=kept, library=library_upload.sentence(library)), {}


def may_preview(visit: Visit, *, has_file: bool) -> bool:
    """Return whether this network may request a preview now."""
    cost = topic_preview.UPLOAD_COST if has_file else 1
    return topic_preview.is_allowed(visit.context.caches, visit.network, visit.now, cost=cost)


def check_topics(visit: Visit, form: SignUpForm) -> FormErrors:
    """Return the errors in a form's topics."""
    registry = FilterRegistry(visit.session)
    try:
        if form.filter:
            registry.resolve_text(form.filter)
    except BadFilter as error:
        return FormErrors(filter=error)
    try:
        subscriber_topics.check_topics(topic_preview.chosen_topics(visit, form).filters, registry)
    except UsageError as error:
        return FormErrors(by_field={"topics": error_sentence(error)})
    return NO_ERRORS


def post_fragment(visit: Visit) -> Response:
    """Return the preview as an HTML fragment, which our script puts into the page."""
    visit = sign_up_form.with_shown_fields(visit)
    values: dict[str, Any] = {"form": EMPTY_FORM, "preview": None, "wrong": None}
    if not may_preview(visit, has_file=library_upload.has_file(visit.form)):
        return visit.page("preview", status=429, error=TOO_MANY, **values)
    form, errors = read_with_library(visit)
    checked = check_topics(visit, form)
    preview = None if checked else preview_or_none(visit, form)
    values = {"form": form, "preview": preview, "wrong": checked.filter}
    return visit.page("preview", error=next(iter(errors.values()), ""), **values)


def show_sample(visit: Visit, form: SignUpForm) -> Response:
    """Show the digest that these topics would get now, looking as it would in an email."""
    chosen = topic_preview.chosen_topics(visit, form)
    html = topic_preview.sample_as_email(visit, requested_settings(form, chosen))
    if html is None:
        return show_again(visit, 200, form, FormErrors(by_field={"preview": NO_SAMPLE}), is_counted=True)
    return HTMLResponse(page_rendering.letter_page(html), headers=mail_headers())


def handle_sign_up(visit: Visit, form: SignUpForm, errors: FormErrors) -> Response:
    """Queue a sign-up; the response does not depend on whether the address is known."""
    if visit.field("website"):  # only bots fill in this hidden field
        return show_sent(visit, form)
    errors = check_form(form, errors, keeps_email=bool(visit.field("keep")))
    if not errors and not forms.is_timely(visit.site, visit.field("made"), visit.now):
        errors = FormErrors(by_field={"email": PRESS_AGAIN})
    if errors:
        return show_again(visit, 422, form, errors)
    try:
        sign_up(visit, form)
    except UsageError as error:
        name = error.field if isinstance(error, BadField) else "email"
        return show_again(visit, 422, form, FormErrors(by_field={name: error_sentence(error)}))
    return show_sent(visit, form)


def check_form(form: SignUpForm, errors: FormErrors, *, keeps_email: bool) -> FormErrors:
    """Return all errors in a sign-up, those of its topics and library included."""
    by_field, meant = dict[str, str](), None
    try:
        address = addresses.parse_address(form.email)
        meant = None if keeps_email else addresses.suggest_correction(address.email)
    except BadField as error:
        by_field["email"] = error_sentence(error)
    by_field |= {**sign_up_form.check_settings(form.texts)[1], **errors.by_field}
    return FormErrors(by_field=by_field, filter=errors.filter, meant=meant)


def sign_up(visit: Visit, form: SignUpForm) -> None:
    """Queue the sign-up that a form without errors requests."""
    settings = visit.context.settings
    requested = requested_settings(form, topic_preview.chosen_topics(visit, form))
    with visit.writing() as session:
        if is_proxied(visit.request.headers, proxies=settings.proxies):
            sign_up_queue.note_proxy_header(session, visit.now)
        sign_up_queue.request(
            session,
            form.email,
            network=visit.network_hash,
            requested=requested,
            may_sign_up=settings.signup,
            now=visit.now,
        )


def show_sent(visit: Visit, form: SignUpForm) -> Response:
    """Show what to do next; the page is the same for every address."""
    is_slow = sign_up_limits.counts(visit.session, visit.now).is_lowest
    return visit.page("request_sent", email=form.email, form=form, is_slow=is_slow)


post_preview = forms.form_endpoint(post_fragment, writes=False, is_page=False)  # our script asks for it


def show_as_email(visit: Visit) -> Response:
    """Show today's papers as they would look in an email; the page has only the email's styles."""
    html = visit.cached("email", lambda: trending_list.list_as_email(visit))
    if html is None:
        raise HTTPException(404)
    return HTMLResponse(page_rendering.letter_page(html), headers=mail_headers())


def show_privacy(visit: Visit) -> Response:
    """Show which data we store, and how to have it deleted."""
    return visit.page("privacy")


# ── a new link ───────────────────────────────────────────────────────────────────────────────────────


def handle_link_form(visit: Visit) -> Response:
    """Mail a new link; the response does not depend on whether the address is known."""
    email = visit.field("email", 320)
    is_bot = bool(visit.field("website"))  # only bots fill in this hidden field
    refusal, stamp = ("", "") if is_bot else mail_link(visit, email, visit.field("made"))
    if refusal:
        return problem_pages.problem_page(visit.request, 410, email=email, stamp=stamp, error=refusal)
    return show_sent(visit, SignUpForm(email=email))


def mail_link(visit: Visit, email: str, stamp: str) -> tuple[str, str]:
    """Mail a link; return ("", "") if it was mailed, else why not, and the stamp for the next try."""
    try:
        addresses.parse_address(email)
    except UsageError as error:
        return error_sentence(error), stamp
    if not forms.is_timely(visit.site, stamp, visit.now):
        return PRESS_AGAIN, stamp
    unused = forms.form_stamp(visit.site, visit.now - forms.MIN_FORM_AGE)
    if forms.count_use(visit.context.caches, "stamps", stamp):
        return PRESS_AGAIN, unused
    is_done = sign_up_queue.send_link_or_sign_up(
        visit.session,
        visit.site,
        email,
        network=visit.network_hash,
        may_sign_up=visit.context.settings.signup,
        now=visit.now,
    )
    return ("", "") if is_done else ("Too many requests. Try again tomorrow.", unused)
