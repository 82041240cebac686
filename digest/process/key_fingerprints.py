"""Check that all machines have the same keys, pepper and templates, by fingerprints in the database.

A machine with other keys would sign links that the web server does not accept. With another pepper, it would
not recognise suppressed addresses. With other templates, its second attempt at a letter would send different
bytes. A machine with other fingerprints therefore refuses to work. A function that commits the session says
so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.service_state import Fingerprint
from digest.errors import NotFound, SetupMismatch
from digest.site.site_profile import ID_LENGTH, Site, fingerprint

SIGNING_KEY, PEPPER, TEMPLATES = "signing key", "pepper", "templates"
RETIRED = "retired key "  #: prefix of the names under which the fingerprints of retired keys are stored


def check_fingerprints(
    session: Session,
    site: Site,
    templates_fingerprint: str,
    *,
    now: datetime,
    adopts_templates: bool = False,
) -> None:
    """Compare this machine's keys, pepper and templates with the database.

    Raises SetupMismatch if they do not match. The first machine stores its fingerprints. A key ring may get a
    new first key if the previous first key is still in the ring or was retired. With `adopts_templates`, this
    machine's templates become the required templates.
    """
    known = stored_fingerprints(session)
    check_keys(known, site)
    if not adopts_templates and known.get(TEMPLATES) not in {None, templates_fingerprint}:
        raise SetupMismatch(
            "The templates on this machine differ from the templates on the other machines. Install the same version everywhere,"
            " then run: digest db upgrade"
        )
    record_fingerprints(session, site, templates_fingerprint, now=now)


def check_keys(known: Mapping[str, str], site: Site) -> None:
    """Raise SetupMismatch unless this machine's keys and pepper match these fingerprints."""
    ring = [fingerprint(key) for key in site.keys]
    retired = {value for name, value in known.items() if name.startswith(RETIRED)}
    for key in retired.intersection(ring):
        raise SetupMismatch(
            f"Key {key[:ID_LENGTH]} was retired, and this machine still has it. Replace it in DIGEST_SECRET_KEY, or,"
            f" if it is stored in the data directory, run: digest keys retire {key[:ID_LENGTH]}"
        )
    if known.get(SIGNING_KEY, ring[0]) not in {*ring, *retired}:
        raise SetupMismatch(
            "DIGEST_SECRET_KEY lacks the key that signed the links in mails already sent."
            " Add it after the new key, separated by a comma, on every machine. If it leaked, retire it:"
            f" digest keys retire {known[SIGNING_KEY][:ID_LENGTH]}"
        )
    if known.get(PEPPER) not in {None, fingerprint(site.pepper)}:
        raise SetupMismatch(
            "DIGEST_PEPPER is not the pepper this database was set up with, so suppressed addresses would not"
            " be recognised. Use the original pepper on every machine; it can never change."
        )


def record_fingerprints(session: Session, site: Site, templates_fingerprint: str, *, now: datetime) -> None:
    """Store the fingerprints of this machine's signing key, pepper and templates."""
    own = {
        SIGNING_KEY: fingerprint(site.keys[0]),
        PEPPER: fingerprint(site.pepper),
        TEMPLATES: templates_fingerprint,
    }
    known = stored_fingerprints(session)
    for name, value in own.items():
        if known.get(name) != value:
            row = {"name": name, "value": value, "since": now}
            insert = db.upsert(session, Fingerprint).values(row)
            session.execute(insert.on_conflict_do_update(index_elements=["name"], set_=row))


def adopt_templates(session: Session, templates_fingerprint: str, *, now: datetime) -> None:
    """Make this machine's templates the required templates."""
    row = {"name": TEMPLATES, "value": templates_fingerprint, "since": now}
    insert = db.upsert(session, Fingerprint).values(row)
    session.execute(insert.on_conflict_do_update(index_elements=["name"], set_=row))


def stored_fingerprints(session: Session) -> dict[str, str]:
    """Return the stored fingerprints, keyed by name."""
    found = session.execute(select(Fingerprint.name, Fingerprint.value))
    return {row.name: row.value for row in found}


# ── keys that sign links ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """A current or former key for signing links."""

    fingerprint: str
    state: str  #: signs, verifies, missing (has signed links, but is not on this machine) or retired
    since: datetime | None  #: when the key was retired or became the signing key; None for other keys

    @property
    def id(self) -> str:
        """Return the key's id, which links contain."""
        return self.fingerprint[:ID_LENGTH]


def list_keys(session: Session, site: Site) -> list[Key]:
    """List this machine's keys (the signing key first), then former signing keys that are missing or retired."""
    rows = session.execute(select(Fingerprint.name, Fingerprint.value, Fingerprint.since)).all()
    retired = {row.value: row.since for row in rows if row.name.startswith(RETIRED)}
    signed = {row.value: row.since for row in rows if row.name == SIGNING_KEY}
    ring = [fingerprint(key) for key in site.keys]
    states = dict.fromkeys(ring, "verifies") | {ring[0]: "signs"}
    states |= {value: "missing" for value in signed if value not in ring} | dict.fromkeys(retired, "retired")
    return [
        Key(fingerprint=value, state=state, since=retired.get(value) or signed.get(value))
        for value, state in states.items()
    ]


def retire_key(session: Session, site: Site, key_id: str, *, now: datetime) -> Key:
    """Retire the key with this id; raise NotFound if there is no such key.

    No machine may use a retired key, and the links that it signed become invalid. A second call changes
    nothing.
    """
    known = list_keys(session, site)
    found = next((key for key in known if key.id == key_id.strip().lower()), None)
    if found is None:
        raise NotFound(f"There is no key {key_id!r}; the keys are {', '.join(key.id for key in known)}.")
    row = {"name": f"{RETIRED}{found.fingerprint[:16]}", "value": found.fingerprint, "since": now}
    insert = db.upsert(session, Fingerprint).values(row)
    session.execute(insert.on_conflict_do_nothing(index_elements=["name"]))
    return found
