"""Show the pages on which a subscriber downloads or erases their data, or changes their address."""

from __future__ import annotations

import json

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest import db
from digest.db import Session
from digest.db.tables.subscribers import Subscriber
from digest.errors import BadField, UsageError
from digest.letters import figures_in_words
from digest.mail import addresses
from digest.site import links
from digest.subscribers import account, erasure
from digest.web import page_rendering, problem_pages, request_context
from digest.web.forms import field_text
from digest.web.sign_up_form import error_sentence

NOT_SURE = "Tick the box to erase your data."


def show_account(request: Request) -> Response:
    """Show the page with the possible actions, without changing anything."""
    with db.read_session(request_context.context_of(request).engine) as session:
        return account_page(request, subscriber_of_page(session, request))


def account_page(
    request: Request, subscriber: Subscriber, *, email: str = "", error: str = "", erase_error: str = ""
) -> Response:
    """Return the page, with each error next to its field."""
    return page_rendering.render_page(
        request,
        "account",
        status=422 if error or erase_error else 200,
        current=addresses.readable_address(subscriber.email),
        email=email,
        error=error,
        erase_error=erase_error,
        is_asked=request.query_params.get("done") == "asked",
        path=request.scope["path"],
    )


def subscriber_of_page(session: Session, request: Request) -> Subscriber:
    """Return the subscriber that a link names; raise 404 for an invalid link, and 410 for an expired one."""
    context = request_context.context_of(request)
    try:
        subscriber = account.subscriber_of_account_link(
            session, context.site, request.path_params["token"], now=context.clock()
        )
    except BadField:
        raise problem_pages.Gone(*problem_pages.EXPIRED_ACCOUNT_LINK) from None
    if subscriber is None:
        raise HTTPException(404)
    return subscriber


def download(request: Request) -> Response:
    """Return the export of the subscriber's data as a JSON file."""
    with db.read_session(request_context.context_of(request).engine) as session:
        found = account.export_data(session, subscriber_of_page(session, request))
    return Response(
        json.dumps(found, indent=2, ensure_ascii=False),
        media_type="application/json",
        headers={"content-disposition": 'attachment; filename="digest-data.json"'},
    )


def handle_form(request: Request, form: FormData) -> Response:
    """Mail a confirmation link to a new address, or erase the subscriber's data, as the button asks."""
    return erase(request, form) if field_text(form, "do") == "erase" else request_new_address(request, form)


def erase(request: Request, form: FormData) -> Response:
    """Erase the subscriber's data if the box is ticked."""
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        subscriber = subscriber_of_page(session, request)
        if field_text(form, "sure") != "yes":
            not_sure = figures_in_words.TRANSLATIONS.gettext(NOT_SURE)
            return account_page(request, subscriber, erase_error=not_sure)
        try:
            erased = erasure.erase(session, context.site, subscriber.email, now=context.clock())
        except UsageError as error:
            return account_page(request, subscriber, erase_error=error_sentence(error))
    erasure.erase_copies(context.engine, erased, mail=context.settings.mail)
    return page_rendering.render_page(request, "erased")


def request_new_address(request: Request, form: FormData) -> Response:
    """Mail a confirmation link to a new address."""
    context, email = request_context.context_of(request), field_text(form, "email", 1000)
    with db.write_session(context.engine) as session:
        subscriber = subscriber_of_page(session, request)
        try:
            account.request_new_address(
                session,
                context.site,
                subscriber,
                email,
                may_sign_up=context.settings.signup,
                now=context.clock(),
            )
        except UsageError as error:
            return account_page(request, subscriber, email=email, error=error_sentence(error))
    return page_rendering.redirect_back(request, "asked")


# ── the link in the letter to the new address ───────────────────────────────────────────────────


def show_new_address(request: Request) -> Response:
    """Show the button that confirms the new address; loading the page changes nothing."""
    with db.read_session(request_context.context_of(request).engine) as session:
        subscriber, email = new_address_of_page(session, request)
        return new_address_page(request, subscriber, email)


def new_address_page(request: Request, subscriber: Subscriber, email: str, *, error: str = "") -> Response:
    """Return the page on which a new address is confirmed."""
    return page_rendering.render_page(
        request,
        "new_address",
        status=422 if error else 200,
        email=addresses.readable_address(email),
        current=addresses.masked_address(subscriber.email),
        is_done=subscriber.email == email,
        settings_url=""
        if subscriber.is_group
        else links.manage_url(
            request_context.context_of(request).site, subscriber.id, subscriber.link_version
        ),
        error=error,
    )


def new_address_of_page(session: Session, request: Request) -> tuple[Subscriber, str]:
    """Return the subscriber and new address that a link names; raise 410 for a link that is not valid."""
    context, token = request_context.context_of(request), request.path_params["token"]
    if links.read_new_address_token(context.site, token) is None:
        raise HTTPException(404)
    found = account.new_address_of_link(session, context.site, token, now=context.clock())
    if found is None:
        raise problem_pages.Gone(*problem_pages.EXPIRED_ACCOUNT_LINK)
    return found


def handle_new_address(request: Request, form: FormData) -> Response:
    """Change the subscriber's address to the confirmed new address."""
    del form
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        subscriber, email = new_address_of_page(session, request)
        try:
            account.change_address(session, context.site, subscriber, email, now=context.clock())
        except UsageError as error:
            return new_address_page(request, subscriber, email, error=error_sentence(error))
    return page_rendering.redirect_back(request)
