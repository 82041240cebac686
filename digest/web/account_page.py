"""Show the pages on which a subscriber downloads or erases their data, or changes their address."""

from __future__ import annotations

import json

from starlette.exceptions import HTTPException
from starlette.responses import Response

from digest.db.tables.subscribers import Subscriber
from digest.errors import BadField, UsageError
from digest.mail import addresses
from digest.site import links
from digest.subscribers import account
from digest.web.problem_pages import EXPIRED_ACCOUNT_LINK, Gone
from digest.web.sign_up_form import error_sentence
from digest.web.visits import Visit


def show_account(visit: Visit, *, email: str = "", error: str = "", erase_error: str = "") -> Response:
    """Show the page with the possible actions, and each error next to its field."""
    return visit.page(
        "account",
        status=422 if error or erase_error else 200,
        current=addresses.readable_address(subscriber_of_page(visit).email),
        email=email,
        error=error,
        erase_error=erase_error,
        is_asked=visit.done == "asked",
        path=visit.path,
    )


def subscriber_of_page(visit: Visit) -> Subscriber:
    """Return the subscriber that a link names; raise 404 for an invalid link, and 410 for an expired one."""
    try:
        subscriber = account.subscriber_of_account_link(visit.session, visit.site, visit.token, now=visit.now)
    except BadField:
        raise Gone(EXPIRED_ACCOUNT_LINK) from None
    if subscriber is None:
        raise HTTPException(404)
    return subscriber


def download(visit: Visit) -> Response:
    """Return the export of the subscriber's data as a JSON file."""
    exported = account.export_data(visit.session, subscriber_of_page(visit))
    return Response(
        json.dumps(exported, indent=2, ensure_ascii=False),
        media_type="application/json",
        headers={"content-disposition": 'attachment; filename="digest-data.json"'},
    )


def handle_form(visit: Visit) -> Response:
    """Mail a confirmation link to a new address, or erase the subscriber's data, as the button asks."""
    return erase(visit) if visit.field("do") == "erase" else request_new_address(visit)


def erase(visit: Visit) -> Response:
    """Erase the subscriber's data if the box is ticked."""
    context, email = visit.context, subscriber_of_page(visit).email
    if visit.field("sure") != "yes":
        return show_account(visit, erase_error="Tick the box to erase your data.")
    try:
        with visit.writing() as session:
            erased = account.erase(session, visit.site, email, now=visit.now)
    except UsageError as error:
        return show_account(visit, erase_error=error_sentence(error))
    account.erase_copies(context.engine, erased, mail=context.settings.mail)
    return visit.page("erased")


def request_new_address(visit: Visit) -> Response:
    """Mail a confirmation link to a new address."""
    subscriber, email = subscriber_of_page(visit), visit.field("email", 1000)
    may_sign_up = visit.context.settings.signup
    try:
        with visit.writing() as session:
            account.request_new_address(
                session, visit.site, subscriber, email, may_sign_up=may_sign_up, now=visit.now
            )
    except UsageError as error:
        return show_account(visit, email=email, error=error_sentence(error))
    return visit.back("asked")


# ── the link in the letter to the new address ───────────────────────────────────────────────────


def show_new_address(visit: Visit, *, error: str = "") -> Response:
    """Show the button that confirms the new address; loading the page changes nothing."""
    subscriber, email = new_address_of_page(visit)
    reader = subscriber.id, subscriber.link_version
    return visit.page(
        "new_address",
        status=422 if error else 200,
        email=addresses.readable_address(email),
        current=addresses.masked_address(subscriber.email),
        is_done=subscriber.email == email,
        settings_url="" if subscriber.is_group else links.manage_url(visit.site, *reader),
        error=error,
    )


def new_address_of_page(visit: Visit) -> tuple[Subscriber, str]:
    """Return the subscriber and new address that a link names; raise 410 for a link that is not valid."""
    if links.read_new_address_token(visit.site, visit.token) is None:
        raise HTTPException(404)
    found = account.new_address_of_link(visit.session, visit.site, visit.token, now=visit.now)
    if found is None:
        raise Gone(EXPIRED_ACCOUNT_LINK)
    return found


def handle_new_address(visit: Visit) -> Response:
    """Change the subscriber's address to the confirmed new address."""
    subscriber, email = new_address_of_page(visit)
    try:
        account.change_address(visit.session, visit.site, subscriber, email, now=visit.now)
    except UsageError as error:
        return show_new_address(visit, error=error_sentence(error))
    return visit.back()
