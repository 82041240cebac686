"""Fingerprints: what every machine of one house must share, remembered in its database.

A machine with other keys would sign links that the web door does not know; with another pepper it
would not recognise who must not be written to; with other templates it would send other bytes on a
second attempt. Such a machine refuses to work. Nothing here commits.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.errors import Misfit
from digest.links import Site, fingerprint
from digest.model import Fingerprint

KEY, PEPPER, TEMPLATES = "signing key", "pepper", "templates"


def check(session: Session, site: Site, templates_fingerprint: str, *, now: datetime) -> None:
    """Raise Misfit, saying what to do, unless this machine fits; the first one is what fits.

    A key ring may get a new first key as long as it keeps the one that signed before.
    """
    known = recorded(session)
    ring = [fingerprint(key) for key in site.keys]
    if known.get(KEY, ring[0]) not in ring:
        raise Misfit(
            "DIGEST_SECRET_KEY lacks the key that signed the links in mails already sent."
            " Put it behind the new one, with a comma between, on every machine."
        )
    if known.get(PEPPER) not in {None, fingerprint(site.pepper)}:
        raise Misfit(
            "DIGEST_PEPPER is not the one this database was set up with, so suppressed addresses would not"
            " be recognised. Use the same on every machine; it can never change."
        )
    if known.get(TEMPLATES) not in {None, templates_fingerprint}:
        raise Misfit(
            "The templates on this machine are not those of the others. Install the same version everywhere,"
            " then run: digest db upgrade"
        )
    record(session, site, templates_fingerprint, now=now)


def record(session: Session, site: Site, templates_fingerprint: str, *, now: datetime) -> None:
    """Make this machine's signing key, pepper and templates the ones that fit from now on."""
    ours = {
        KEY: fingerprint(site.keys[0]),
        PEPPER: fingerprint(site.pepper),
        TEMPLATES: templates_fingerprint,
    }
    known = recorded(session)
    for name, value in ours.items():
        if known.get(name) != value:
            row = {"name": name, "value": value, "since": now}
            keeping = db.upsert(session, Fingerprint).values(row)
            session.execute(keeping.on_conflict_do_update(index_elements=["name"], set_=row))


def adopt_templates(session: Session, templates_fingerprint: str, *, now: datetime) -> None:
    """Make this machine's templates the ones that fit, as an upgrade does."""
    row = {"name": TEMPLATES, "value": templates_fingerprint, "since": now}
    keeping = db.upsert(session, Fingerprint).values(row)
    session.execute(keeping.on_conflict_do_update(index_elements=["name"], set_=row))


def recorded(session: Session) -> dict[str, str]:
    """Return the fingerprints in the database by name."""
    found = session.execute(select(Fingerprint.name, Fingerprint.value))
    return {row.name: row.value for row in found}
