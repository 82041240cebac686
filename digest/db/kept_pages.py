"""Keep the pages that answer forms for some minutes, readable only with a key that is not stored."""

from __future__ import annotations

import hashlib
import zlib
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select, true
from sqlalchemy.orm import Session

from digest.db.tables.service_state import KeptPage

KEEP_FOR = timedelta(minutes=15)
MAX_KEPT = 2_000  #: maximum number of kept pages; the oldest are deleted first
#: Maximum number of pages kept for one network, so that no network can delete the pages of others.
MAX_KEPT_FOR_NETWORK = 100


def keep_page(session: Session, key: str, content: bytes, *, network: str = "", now: datetime) -> None:
    """Store a page under a key that was never used before, and delete old pages.

    `network` is a hash of the visitor's network, or "" if it is unknown.
    """
    packed = zlib.compress(content)
    session.add(KeptPage(id=id_of(key), at=now, network=network, content=encrypt(packed, key)))
    session.flush()
    if network:
        delete_oldest(session, KeptPage.network == network, keep=MAX_KEPT_FOR_NETWORK, now=now)
    delete_old_pages(session, now=now)


def find_page(session: Session, key: str, *, now: datetime) -> bytes | None:
    """Return the page that was stored under a key, or None if it was never stored or is too old."""
    kept = session.get(KeptPage, id_of(key))
    return zlib.decompress(encrypt(kept.content, key)) if kept and kept.at > now - KEEP_FOR else None


def delete_old_pages(session: Session, *, now: datetime) -> int:
    """Delete the pages that are too old or too many, and return their number."""
    return delete_oldest(session, true(), keep=MAX_KEPT, now=now)


def delete_oldest(session: Session, which: ColumnElement[bool], *, keep: int, now: datetime) -> int:
    """Delete those of these pages that are too old, and all but the newest `keep`; return their number."""
    newest = select(KeptPage.at).where(which).order_by(KeptPage.at.desc())
    first = session.scalar(newest.offset(keep - 1).limit(1))
    is_old = KeptPage.at <= now - KEEP_FOR
    if first is not None:
        is_old |= KeptPage.at < first
    return session.connection().execute(delete(KeptPage).where(which, is_old)).rowcount


def id_of(key: str) -> str:
    """Return the id under which a page is stored, from which its key cannot be found."""
    return hashlib.sha256(b"id\0" + key.encode()).hexdigest()


def encrypt(content: bytes, key: str) -> bytes:
    """Encrypt a page, or decrypt it: combine it with a stream of bytes that only this key yields."""
    stream = hashlib.shake_256(b"stream\0" + key.encode()).digest(len(content))
    mixed = int.from_bytes(content, "big") ^ int.from_bytes(stream, "big")
    return mixed.to_bytes(len(content), "big")
