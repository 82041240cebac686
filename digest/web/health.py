"""Is it alive, and can it work: what a supervisor asks."""

from __future__ import annotations

from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from digest import db
from digest.web import house


async def healthz(request: Request) -> PlainTextResponse:
    """Answer as long as the process does."""
    del request
    return PlainTextResponse("ok\n")


def readyz(request: Request) -> PlainTextResponse:
    """Answer once the database does, at the schema this code was written for."""
    engine = house.of(request).engine
    with db.reading(engine) as session:
        session.execute(text("SELECT 1"))
    if db.revision(engine) != db.newest_revision(engine):
        return PlainTextResponse("schema\n", 503)
    return PlainTextResponse("ok\n")
