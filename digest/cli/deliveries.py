"""`digest deliveries`, `digest trace` and `digest why`: what was sent to whom, and the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.options import HIGHEST, AsJson, Limit, Now, clock

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from digest.model import Attempt, Delivery

AT_ONCE = 500  #: rows read together
app = typer.Typer(help="List every letter, its state and the reason; stop the mail, and go on.")
STATES = "queued, claimed, sending, sent, failed, expired, suppressed, stuck or empty"


@app.callback(invoke_without_command=True)
def deliveries(
    context: typer.Context,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help=f"Only those: {STATES}.", show_default=False),
    ] = None,
    email: Annotated[
        str | None, typer.Option("--email", metavar="EMAIL", help="Only to this address.", show_default=False)
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List every letter, its state and the reason, newest first; stop the mail, and go on."""
    if context.invoked_subcommand is not None:
        return
    with rooms.opened() as house, house.reading() as session:
        asked = wanted(state, email)
        if as_json:
            screen.lines(as_report(row) for row in ledger(session, asked, limit))
            return
        shown = limit or screen.LIMIT
        screen.table(
            ("id#", "letter", "to", "state", "when", "reason"),
            (
                (str(r.id), r.edition or r.letter, r.email, r.state, r.settled_at or r.due_at, r.reason)
                for r in ledger(session, asked, shown)
            ),
            give=["reason", "to"],
            empty="No deliveries.",
        )
        if (left := how_many(session, asked) - shown) > 0:
            screen.say(f"{left:,} more; --limit {left + shown} shows them all, --state and --email fewer.")


@app.command()
def stop(
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it is shown until you go on.")
    ] = "the operator said so",
    everything: Annotated[
        bool, typer.Option("--all", help="Also what people wait for: confirmations, replies.")
    ] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Stop the digests until `digest deliveries resume`."""
    from digest import rates

    covers = rates.ALL if everything else rates.BULK
    with rooms.opened() as house, rooms.writing(house) as session:
        is_new = rates.stop(session, reason, covers=covers, now=clock(now))
        session.commit()
    if as_json:
        screen.document({"stopped": is_new, "covers": covers})
    else:
        screen.tell("Stopped. Go on with: digest deliveries resume" if is_new else "It is stopped already.")


@app.command()
def resume(now: Now = None, as_json: AsJson = False) -> None:
    """Go on after a stop; what waited for that is due at once."""
    from digest import outbox, rates

    moment = clock(now)
    with rooms.opened() as house, rooms.writing(house) as session:
        lifted = rates.resume(session, now=moment)
        due = outbox.hasten(session, reason=rates.STOPPED, now=moment) if lifted else 0
        session.commit()
    if as_json:
        screen.document({"lifted": lifted, "due": due})
    elif lifted:
        screen.tell(
            f"Mail goes on; {screen.count(due, 'letter')} had waited and {'is' if due == 1 else 'are'} due."
        )
    else:
        screen.tell("Nothing is stopped.")


def wanted(state: str | None, email: str | None) -> list[ColumnElement[bool]]:
    """Return what the deliveries asked for have in common."""
    from sqlalchemy import func, select

    from digest import addresses
    from digest.errors import BadField
    from digest.model import Delivery, DeliveryState, Subscriber

    asked: list[ColumnElement[bool]] = []
    if state is not None:
        if state not in set(DeliveryState):
            raise BadField("--state", f"{state!r} is none of {STATES}.")
        asked.append(Delivery.state == DeliveryState(state))
    if email is not None:
        theirs = select(Subscriber.id).where(Subscriber.email_key == addresses.key(email))
        asked.append(
            Delivery.subscriber_id.in_(theirs) | (func.lower(Delivery.email) == email.strip().lower())
        )
    return asked


def ledger(session: Session, asked: list[ColumnElement[bool]], limit: int | None) -> Iterable[Delivery]:
    """Return the deliveries asked for, the newest first, read by hundreds."""
    from sqlalchemy import select

    from digest.model import Delivery

    query = select(Delivery).where(*asked).order_by(Delivery.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=AT_ONCE))


def how_many(session: Session, asked: list[ColumnElement[bool]]) -> int:
    """Return how many deliveries were asked for."""
    from sqlalchemy import func, select

    from digest.model import Delivery

    return session.scalar(select(func.count()).select_from(Delivery).where(*asked)) or 0


def as_report(row: Delivery) -> dict[str, Any]:
    """Return what there is to say about a delivery."""
    names = (
        "id", "letter", "edition", "email", "state", "reason", "lane", "attempts", "in_doubt", "dated_at", "due_at",
        "expires_at", "settled_at", "message_id", "provider_id",
    )  # fmt: skip
    return {name: getattr(row, name) for name in names}


def trace(
    delivery: Annotated[
        str, typer.Argument(metavar="DELIVERY", help="Its id from `digest deliveries`, or its Message-ID.")
    ],
    as_json: AsJson = False,
) -> None:
    """Tell the whole life of one letter: its state, every attempt, and what came back."""
    from digest import bounces, outbox

    with rooms.opened() as house, house.reading() as session:
        row = one(session, delivery)
        attempts = [as_attempt(attempt) for attempt in outbox.trace(session, row.id)]
        back = [bounces.as_report(bounce) for bounce, _ in bounces.history(session, delivery_id=row.id)]
        report = as_report(row) | {"press": row.press, "content_hash": row.content_hash}
    if as_json:
        screen.document(report | {"tries": attempts, "came_back": back})
        return
    screen.facts(
        [
            (name.replace("_", " "), str(value) if name == "id" else value)
            for name, value in report.items()
            if value not in {None, ""}
        ]
    )
    screen.tell()
    for at, told in sorted([*map(try_told, attempts), *map(return_told, back)]):
        screen.paragraph(f"{screen.cell(at)}  ", told)
    if not attempts:
        screen.say("Nobody has tried to deliver it yet.")


def try_told(tried: dict[str, Any]) -> tuple[datetime, str]:
    """Return when a try began, and what came of it in the server's own words."""
    said = " ".join(str(part) for part in (tried["code"], tried["reply"]) if part)
    fate = tried["verdict"] or "under way, or nobody lived to tell"
    where = f" at {tried['phase']}" if tried["phase"] else ""
    return tried["began_at"], f"{fate}{where}{': ' if said else ''}{said}"


def return_told(back: dict[str, Any]) -> tuple[datetime, str]:
    """Return when a letter came back, and why."""
    return back["at"], " ".join(
        part for part in ("came back:", back["kind"], back["status"], back["said"]) if part
    )


def one(session: Session, name: str) -> Delivery:
    """Return the delivery of that id or Message-ID, ours or the provider's, or raise NotFound."""
    from sqlalchemy import or_, select

    from digest.errors import NotFound
    from digest.model import Delivery

    ours = name.strip("<>")
    wanted = (
        Delivery.id == int(name)
        if name.isascii() and name.isdigit() and int(name) <= HIGHEST
        else or_(Delivery.message_id == f"<{ours}>", Delivery.provider_id == ours.partition("@")[0])
    )
    row = session.scalars(select(Delivery).where(wanted).limit(1)).first()
    if row is None:
        raise NotFound(f"There is no delivery {name}. See: digest deliveries")
    return row


def as_attempt(row: Attempt) -> dict[str, Any]:
    """Return what there is to say about one try."""
    names = ("began_at", "ended_at", "verdict", "phase", "code", "reply", "lease")
    return {name: getattr(row, name) for name in names}


def why(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="A subscriber's address.")],
    paper: Annotated[
        str,
        typer.Argument(metavar="PAPER", help="Our id, an arXiv id, a DOI, an address, or the exact title."),
    ],
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Say why somebody did or did not get a paper."""
    from digest import why as story

    with rooms.opened() as house, house.reading() as session:
        answer = story.why(
            session,
            site=house.site,
            templates=house.templates,
            email=email,
            reference=paper,
            now=clock(now),
        )
    if as_json:
        screen.document(answer.json)
        return
    screen.tell(answer.verdict)
    for line in answer.lines:
        screen.tell(f"  {line}")
