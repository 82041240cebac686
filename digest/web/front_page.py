"""Serve the front page: the sign-up form and today's trending papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest import db
from digest.app_context import AppContext
from digest.db import Session
from digest.errors import BadField, BadFilter, UsageError
from digest.letters import figures_in_words
from digest.mail import addresses
from digest.papers.catalog import queries
from digest.subscribers import sign_up_counts, sign_up_queue, subscriber_topics
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics.filter_registry import FilterRegistry
from digest.web import (
    forms,
    library_upload,
    page_rendering,
    problem_pages,
    public_archive,
    request_context,
    sign_up_form,
    sign_up_suggestions,
    starter_topics,
    topic_preview,
    trending_list,
)
from digest.web.forms import field_text
from digest.web.middleware import mail_headers, script_headers
from digest.web.sign_up_form import EMPTY_FORM, MAX_OFFERED, OfferedTopic, SignUpForm, error_sentence
from digest.web.topic_preview import ChosenTopics, TopicPreview
from digest.web.visitor_network import is_proxied

_ = figures_in_words.TRANSLATIONS.gettext

#: Text in the cached page that each response replaces with a stamp of the time when the form was loaded.
STAMP_PLACEHOLDER = "time-of-the-form"
TOO_MANY = _("Too many requests. Try again in a minute.")
PRESS_AGAIN = _("Please press the button again.")
NO_SAMPLE = _("Nothing from the past week matches, so there is no sample. Add a topic.")


def show_front(request: Request) -> Response:
    """Show the front page from the cache, with a new form stamp."""
    context = request_context.context_of(request)
    stamp = forms.form_stamp(context.site, context.clock())
    return HTMLResponse(cached_page(context).replace(STAMP_PLACEHOLDER, stamp), headers=script_headers())


def offer_topics(context: AppContext, session: Session, offered: Sequence[OfferedTopic]) -> Response:
    """Return the front page with these topics, which are offered and already chosen."""
    kept = frozenset(topic.value for topic in offered)
    form = replace(EMPTY_FORM, offered=tuple(offered[:MAX_OFFERED]), kept=kept, is_open=True)
    stamp = forms.form_stamp(context.site, context.clock())
    page = render_front(context, session, form, stamp=stamp)
    return HTMLResponse(page, headers=script_headers() | {"cache-control": "no-store"})


def cached_page(context: AppContext) -> str:
    """Return the front page without its form stamp, cached until the catalog or the day changes."""
    with db.read_session(context.engine) as session:
        key = (queries.state(session), context.clock().date())
        return context.caches.get_or_make(
            "front", key, lambda: render_front(context, session, EMPTY_FORM, stamp=STAMP_PLACEHOLDER)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FormErrors:
    """The errors found in a form's fields."""

    by_field: Mapping[str, str] = field(default_factory=dict)
    filter: BadFilter | None = None
    meant: str | None = None  #: the address that was probably meant, if the typed address looks mistyped
    email: addresses.Address | None = None  #: the valid address

    def __bool__(self) -> bool:
        return bool(self.by_field or self.filter or self.meant)


NO_ERRORS = FormErrors()


def render_front(
    context: AppContext,
    session: Session,
    form: SignUpForm,
    *,
    stamp: str,
    errors: FormErrors = NO_ERRORS,
    preview: TopicPreview | None = None,
    focus: str = "",
) -> str:
    """Return the front page as HTML; the field `focus` gets the keyboard focus."""
    today = trending_list.todays_list(context, session)
    return page_rendering.render_html(
        context,
        "front_page",
        today=today,
        earlier=public_archive.earlier_list(context, session, today.day) if today else None,
        whole_list=public_archive.whole_list(context, session, today) if today else None,
        interests=starter_rates(context, session),
        is_closed=context.settings.signup == frozenset(),
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


def starter_rates(context: AppContext, session: Session) -> list[tuple[str, str]]:
    """Return the starter topics, each with its papers a day, cached until the catalog or the day changes."""
    return context.caches.get_or_make(
        "starter rates",
        (queries.state(session), context.clock().date()),
        lambda: starter_topics.topics_with_rates(starter_topics.recent_papers(context, session)),
    )


def show_again(
    request: Request,
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
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        wants_preview = status != 429 and (form.has_topics or form.is_open)
        shows_preview = wants_preview and (is_counted or may_preview(request, has_file=False))
        preview = preview_or_none(context, session, form) if shows_preview else None
        html = render_front(
            context,
            session,
            form,
            stamp=forms.stamp_again(context.site, form.stamp, context.clock()),
            errors=errors,
            preview=preview,
            focus=focus,
        )
        return HTMLResponse(html, status, headers=script_headers())


def preview_or_none(context: AppContext, session: Session, form: SignUpForm) -> TopicPreview | None:
    """Return a preview of the topics in the form, or None if one of the filters is invalid."""
    with suppress(UsageError):
        chosen = topic_preview.chosen_topics(context, session, form)
        return topic_preview.preview_topics(context, session, chosen, requested_settings(form, chosen))
    return None


def requested_settings(form: SignUpForm, chosen: ChosenTopics) -> ReaderSettings:
    """Return the settings that the form requests; those with errors are left out."""
    return ReaderSettings(topics=chosen.filters or None, texts=sign_up_form.check_settings(form.texts)[0])


# ── the buttons ─────────────────────────────────────────────────────────────────────────────────


def handle_form(request: Request, form: FormData) -> Response:
    """Do what the pressed button asks for: sign up, preview the topics, show a sample, or edit again."""
    form = sign_up_form.shown_fields(form)
    do, has_file = field_text(form, "do"), library_upload.has_file(form)
    if (do in {"try", "sample"} or has_file) and not may_preview(request, has_file=has_file):
        typed = sign_up_form.read(form)
        return show_again(request, 429, typed, FormErrors(by_field={"preview": TOO_MANY}))
    typed, errors = read_with_library(request, form)
    match do:
        case "try":
            return show_trial(request, replace(typed, is_open=True), errors)
        case "sample":
            return show_sample(request, typed, errors)
        case "change":
            return show_again(request, 200, typed, focus="email")
        case _:
            return handle_sign_up(request, form, typed, errors)


def read_with_library(request: Request, form: FormData) -> tuple[SignUpForm, dict[str, str]]:
    """Return the submitted form with topics made from an uploaded library, and any error in the library."""
    context = request_context.context_of(request)
    typed = sign_up_form.read(form)
    try:
        if not library_upload.has_file(form):
            return typed, {}
        with library_upload.turn(context.caches):
            library = library_upload.uploaded_library(form, context.clock())
            with db.read_session(context.engine) as session:
                found = [sign_up_suggestions.topic_of_library(session, library.papers)]
    except BadField as error:
        return typed, {error.field: error_sentence(error)}
    offered = tuple(dict.fromkeys((*typed.offered, *found)))
    kept = typed.kept | {one.value for one in found}
    return replace(typed, offered=offered, kept=kept, library=library_upload.sentence(library)), {}


def may_preview(request: Request, *, has_file: bool) -> bool:
    """Return whether this network may request a preview now."""
    context = request_context.context_of(request)
    return topic_preview.is_allowed(
        context.caches,
        request_context.network_of(request),
        context.clock(),
        cost=topic_preview.UPLOAD_COST if has_file else 1,
    )


def show_trial(request: Request, form: SignUpForm, errors: Mapping[str, str]) -> Response:
    """Show the page with the papers that the chosen topics would have sent."""
    checked = check_topics(request, form)
    wrong = FormErrors(by_field=errors, filter=checked.filter)
    return show_again(request, 422 if errors or checked else 200, form, wrong, is_counted=True)


def check_topics(request: Request, form: SignUpForm) -> FormErrors:
    """Return the errors in a form's topics."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        registry = FilterRegistry(session)
        try:
            if form.filter:
                registry.resolve_text(form.filter)
        except BadFilter as error:
            return FormErrors(filter=error)
        try:
            subscriber_topics.check_topics(
                topic_preview.chosen_topics(context, session, form).filters, registry
            )
        except UsageError as error:
            return FormErrors(by_field={"topics": error_sentence(error)})
    return NO_ERRORS


def post_fragment(request: Request, form: FormData) -> Response:
    """Return the preview as an HTML fragment, which our script puts into the page."""
    context, form = request_context.context_of(request), sign_up_form.shown_fields(form)
    if not may_preview(request, has_file=library_upload.has_file(form)):
        return page_rendering.render_page(request, "preview", status=429, **preview_values(error=TOO_MANY))
    typed, errors = read_with_library(request, form)
    checked = check_topics(request, typed)
    with db.read_session(context.engine) as session:
        preview = None if checked else preview_or_none(context, session, typed)
    values = preview_values(
        form=typed, preview=preview, wrong=checked.filter, error=next(iter(errors.values()), "")
    )
    return page_rendering.render_page(request, "preview", **values)


def preview_values(
    *,
    form: SignUpForm = EMPTY_FORM,
    preview: TopicPreview | None = None,
    wrong: BadFilter | None = None,
    error: str = "",
) -> dict[str, Any]:
    """Return the values for the preview's template."""
    return {"form": form, "preview": preview, "wrong": wrong, "error": error}


def show_sample(request: Request, form: SignUpForm, errors: Mapping[str, str]) -> Response:
    """Show the digest that these topics would get now, looking as it would in an email."""
    context = request_context.context_of(request)
    checked = check_topics(request, form)
    if errors or checked:
        wrong = FormErrors(by_field=errors, filter=checked.filter)
        return show_again(request, 422, form, wrong, is_counted=True)
    with db.read_session(context.engine) as session:
        chosen = topic_preview.chosen_topics(context, session, form)
        html = topic_preview.sample_as_email(context, session, requested_settings(form, chosen))
    if html is None:
        wrong = FormErrors(by_field={"preview": NO_SAMPLE})
        return show_again(request, 200, form, wrong, is_counted=True)
    return HTMLResponse(page_rendering.letter_page(html), headers=mail_headers())


def handle_sign_up(
    request: Request, form: FormData, typed: SignUpForm, errors: Mapping[str, str]
) -> Response:
    """Queue a sign-up; the response does not depend on whether the address is known."""
    context = request_context.context_of(request)
    now = context.clock()
    if field_text(form, "website"):  # only bots fill in this hidden field
        return show_sent(request, typed)
    found = check_form(request, typed, errors, keeps_email=bool(field_text(form, "keep")))
    if not found and not forms.is_timely(context.site, field_text(form, "made"), now):
        found = FormErrors(by_field={"email": PRESS_AGAIN})
    if found or found.email is None:
        return show_again(request, 422, typed, found)
    try:
        sign_up(request, typed, found.email.email, now)
    except UsageError as error:
        name = error.field if isinstance(error, BadField) else "email"
        return show_again(request, 422, typed, FormErrors(by_field={name: error_sentence(error)}))
    return show_sent(request, typed)


def check_form(
    request: Request, form: SignUpForm, errors: Mapping[str, str], *, keeps_email: bool
) -> FormErrors:
    """Return all errors in a sign-up, and the address if it is valid."""
    by_field: dict[str, str] = {}
    address: addresses.Address | None = None
    try:
        address = addresses.parse_address(form.email)
    except BadField as error:
        by_field["email"] = error_sentence(error)
    by_field |= sign_up_form.check_settings(form.texts)[1]
    by_field |= errors
    topics = check_topics(request, form)
    by_field |= topics.by_field
    meant = addresses.suggest_correction(address.email) if address and not keeps_email else None
    return FormErrors(by_field=by_field, filter=topics.filter, meant=meant, email=address)


def sign_up(request: Request, form: SignUpForm, email: str, now: datetime) -> None:
    """Queue the sign-up that a form without errors requests."""
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        chosen = topic_preview.chosen_topics(context, session, form)
        if is_proxied(request.headers, proxies=context.settings.proxies):
            sign_up_queue.note_proxy_header(session, now)
        sign_up_queue.request(
            session,
            email,
            network=sign_up_queue.network_hash(context.site, request_context.network_of(request)),
            requested=requested_settings(form, chosen),
            may_sign_up=context.settings.signup,
            now=now,
        )


def show_sent(request: Request, form: SignUpForm) -> Response:
    """Show what to do next; the page is the same for every address."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        is_slow = sign_up_counts.are_slow(session, context.clock())
    return page_rendering.render_page(request, "request_sent", email=form.email, form=form, is_slow=is_slow)


post_preview = forms.form_endpoint(post_fragment, is_page=False)  # our script asks for it


def show_as_email(request: Request) -> Response:
    """Show today's papers as they would look in an email; the page has only the email's styles."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        key = (queries.state(session), context.clock().date())
        html = context.caches.get_or_make("email", key, lambda: trending_list.list_as_email(context, session))
    if html is None:
        return problem_pages.problem_page(request, 404)
    return HTMLResponse(page_rendering.letter_page(html), headers=mail_headers())


def show_privacy(request: Request) -> Response:
    """Show which data we store, and how to have it deleted."""
    return page_rendering.render_page(request, "privacy")
