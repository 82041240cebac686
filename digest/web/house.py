"""The house as a request finds it."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from digest.house import House


def of(request: Request) -> House:
    """Return the house a request came to."""
    house: House = request.app.state.house
    return house


def shows_outbox(house: House) -> bool:
    """Return whether mails may be looked at here: all of them stay in a folder on this machine."""
    return urlsplit(house.settings.mail).scheme == "maildir" and house.site.is_local
