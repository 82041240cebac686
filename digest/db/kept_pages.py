"""Keep the pages that answer forms for some minutes, readable only with a key that is not stored."""

from __future__ import annotations

import hashlib
import zlib
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from digest.db.tables import KeptPage

KEEP_FOR = timedelta(minutes=15)
MAX_KEPT = 2_000  #: maximum number of kept pages; the oldest are deleted first


def keep_page(session: Session, key: str, content: bytes, *, now: datetime) -> None:
    """Store a page under a key that was never used before, delete old pages, and commit."""
    packed = zlib.compress(content)
    session.add(KeptPage(id=id_of(key), at=now, content=encrypt(packed, key)))
    delete_old_pages(session, now=now)
    session.commit()


def find_page(session: Session, key: str, *, now: datetime) -> bytes | None:
    """Return the page that was stored under a key, or None if it was never stored or is too old."""
    kept = session.get(KeptPage, id_of(key))
    return zlib.decompress(encrypt(kept.content, key)) if kept and kept.at > now - KEEP_FOR else None


def delete_old_pages(session: Session, *, now: datetime) -> int:
    """Delete the pages that are too old or too many, and return their number."""
    first = session.scalar(select(KeptPage.at).order_by(KeptPage.at.desc()).offset(MAX_KEPT).limit(1))
    before = max(filter(None, (now - KEEP_FOR, first)))
    return session.connection().execute(delete(KeptPage).where(KeptPage.at <= before)).rowcount


def id_of(key: str) -> str:
    """Return the id under which a page is stored, from which its key cannot be found."""
    return hashlib.sha256(b"id\0" + key.encode()).hexdigest()


def encrypt(content: bytes, key: str) -> bytes:
    """Encrypt a page, or decrypt it: combine it with a stream of bytes that only this key yields."""
    stream = hashlib.shake_256(b"stream\0" + key.encode()).digest(len(content))
    return bytes(one ^ other for one, other in zip(content, stream, strict=True))
