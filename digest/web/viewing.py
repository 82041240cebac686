"""A digest in the browser: the same letter, set again from the decision that was kept."""

from __future__ import annotations

import json

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest import copies, db, links, press, presses, subscriptions
from digest.composition import Digest
from digest.errors import NotFound
from digest.house import House
from digest.model import Delivery, FilterRow, Subscriber
from digest.rendering import Copy
from digest.web import house
from digest.web.shell import mail_headers


def show(request: Request) -> Response:
    """Show the digest a link names, as long as the press it was made with is kept."""
    of = house.of(request)
    number = links.unseal(of.site, "view", request.path_params["token"])
    with db.reading(of.engine) as session:
        delivery = session.get(Delivery, int(number)) if number else None
        reader = session.get(Subscriber, delivery.subscriber_id) if delivery else None
        if delivery is None or reader is None or delivery.press is None:
            raise HTTPException(404)
        try:
            made = presses.load(session, delivery.press)
        except NotFound:
            raise HTTPException(410) from None
        copy = copy_of(of, session, delivery, reader)
    letter = press.digest_letter(made, of.site, Digest.from_json(delivery.decision), copy)
    return HTMLResponse(letter.html, headers=mail_headers())


def copy_of(of: House, session: Session, delivery: Delivery, reader: Subscriber) -> Copy:
    """Return the reader's copy of that digest."""
    chosen_by = {section[1] for section in json.loads(delivery.decision)["sections"]} - {None}
    found = session.execute(select(FilterRow.id, FilterRow.canonical).where(FilterRow.id.in_(chosen_by)))
    return copies.digest_copy(
        of.site,
        delivery_id=delivery.id,
        subscriber_id=reader.id,
        epoch=reader.epoch,
        email=delivery.email or "",
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=subscriptions.schedule_of(reader),
        key_id=delivery.key_id,
        filters={row.id: row.canonical for row in found},
        message_id=delivery.message_id,
    )
