"""Is it alive, and does it do its work: what a supervisor asks."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from digest import db, probes, watching
from digest.house import House
from digest.watching import Trouble
from digest.web import house

REMEMBERED = 15  #: seconds for which a server that was asked is not asked again


async def healthz(request: Request) -> PlainTextResponse:
    """Answer as long as the process does."""
    del request
    return PlainTextResponse("ok\n")


def readyz(request: Request) -> PlainTextResponse:
    """Answer with ok once the whole house does its work, else with what does not, a line each."""
    ours = house.of(request)
    with db.reading(ours.engine) as session:
        session.execute(text("SELECT 1"))
        if db.revision(ours.engine) != db.newest_revision(ours.engine):
            return PlainTextResponse("The database has another schema: digest db upgrade\n", 503)
        found = [*watching.idle(session, ours.clock()), *unanswered(ours)]
    if found:
        return PlainTextResponse("".join(f"{trouble.wrong}\n" for trouble in found), 503)
    return PlainTextResponse("ok\n")


def unanswered(ours: House) -> list[Trouble]:
    """Return the servers we stand on that do not answer, asked at most every quarter of a minute."""
    moment = int(ours.clock().timestamp()) // REMEMBERED
    return ours.memory.once("probes", moment, lambda: list(asked(ours)))


def asked(ours: House) -> Iterator[Trouble]:
    """Ask the broker, if it is a server of its own, and what takes our mail."""
    settings = ours.settings
    if settings.broker_url is not None and (wrong := probes.broker_trouble(settings.broker)):
        mend = f"Nothing is lost, but nothing moves until it is back: {wrong}."
        yield Trouble(cause="broker", wrong="The broker does not answer", mend=mend)
    if wrong := probes.mail_trouble(settings.mail):
        mend = f"All letters wait until it is back: {wrong}. Ask: digest doctor."
        yield Trouble(cause="mail", wrong="The mail server does not answer", mend=mend)
