"""`digest rehearse` and `digest diff`: what a run would do, and what that changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson, Now, OutDir, clock
from digest.errors import BadField

if TYPE_CHECKING:
    from digest.publishing.previews import Preview
    from digest.publishing.rehearsals import Difference, Played

INDEX = "rehearsal.json"
NAMED = 20  #: changes that a table shows

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a rehearsal.")]
Other = Annotated[
    Path | None,
    typer.Argument(metavar="DIR2", help="A later rehearsal; without it DIR is compared with the last run."),
]


def rehearse(out: OutDir, now: Now = None, as_json: AsJson = False) -> None:
    """Compose and set every due digest into a folder. Nothing is sent, nothing is remembered.

    Each subscriber's letter is there as ID.html, ID.txt and ID.eml, and rehearsal.json says whose it is.
    """
    from digest.publishing import rehearsals

    moment = clock(now)
    out.mkdir(parents=True, exist_ok=True)
    told: list[dict[str, Any]] = []
    with rooms.opened() as house, house.reading() as session:
        for played, preview in rehearsals.rehearse(
            session, site=house.site, templates=house.templates, signers=house.signers, now=moment
        ):
            told.append(played.to_json())
            keep(out, played, preview)
    index = {"now": moment.isoformat(), "letters": told}
    (out / INDEX).write_text(json.dumps(index, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if as_json:
        screen.document(index)
        return
    mails = sum(1 for one in told if one["letter"])
    screen.tell(f"{screen.count(mails, 'letter')} for {len(told)} due. Look at them: {out}")


def keep(out: Path, played: Played, preview: Preview) -> None:
    """Write one letter into the folder; one that would not be sent leaves no file."""
    if played.file:
        (out / f"{played.file}.html").write_text(preview.letter.html, encoding="utf-8")
        (out / f"{played.file}.txt").write_text(preview.letter.text, encoding="utf-8")
        (out / f"{played.file}.eml").write_bytes(preview.message)


def diff(before: Folder, after: Other = None, as_json: AsJson = False) -> None:
    """Tell who gains and loses mail, and whose letter changes, from one rehearsal to another.

    With one folder: from what everybody was last sent to that rehearsal.
    """
    from digest.publishing import rehearsals

    if after is not None:
        difference = rehearsals.differ(read(before), read(after))
    else:
        with rooms.opened() as house, house.reading() as session:
            difference = rehearsals.differ(rehearsals.last_run(session, site=house.site), read(before))
    if as_json:
        screen.document(difference.to_json())
    else:
        show(difference)


def read(folder: Path) -> Iterable[Played]:
    """Return what a rehearsal noted."""
    from digest.publishing.rehearsals import Played

    try:
        kept = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return [Played(**one) for one in kept["letters"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadField("DIR", f"{folder} holds no rehearsal. Make one: digest rehearse --out DIR") from error


def show(difference: Difference) -> None:
    """Show a difference to a person."""
    for name in ("mails", "papers", "bytes"):
        before, after = getattr(difference, name)
        screen.tell(f"{name:7}{before:,} → {after:,}")
    for email in difference.gains[:NAMED]:
        screen.tell(f"gains  {email}")
    for email in difference.loses[:NAMED]:
        screen.tell(f"loses  {email}")
    for one in difference.changed[:NAMED]:
        changes = [f"{name} {pair[0]} → {pair[1]}" for name, pair in one.items() if name != "email"]
        screen.tell(f"       {one['email']}: {', '.join(changes)}")
    hidden = sum(
        max(0, len(some) - NAMED) for some in (difference.gains, difference.loses, difference.changed)
    )
    if hidden:
        screen.tell(f"and {hidden} more (--json tells all)")
    screen.tell(f"{screen.count(difference.same, 'letter')} the same")
