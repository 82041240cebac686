"""`digest publish --dry-run` and `digest diff`: preview publishing, and compare the results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, terminal
from digest.cli.common_options import AsJson
from digest.errors import BadField

if TYPE_CHECKING:
    from digest.publishing.digest_preview import Preview
    from digest.publishing.dry_run import DryRunDifference, DryRunResult

INDEX = "dry-run.json"
CHANGES_SHOWN = 20  #: maximum number of changes of each kind that are shown; --json shows all

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a dry run.")]
LaterFolder = Annotated[
    Path | None,
    typer.Argument(metavar="DIR2", help="A later dry run. Default: compare the last digests sent with DIR."),
]


def write_dry_run(out: Path, now: datetime, as_json: bool) -> None:
    """Compose every due digest and write it into a folder; send nothing, and store nothing in the database.

    Each letter is written as ID.html, ID.txt and ID.eml; dry-run.json lists the recipients.
    """
    from digest.publishing import dry_run

    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    letters: list[dict[str, Any]] = []
    with command_context.open_context() as context, context.read_session() as session:
        for result, preview in dry_run.dry_run(
            session,
            site=context.site,
            templates=context.templates,
            caches=context.caches,
            signers=context.signers,
            now=now,
        ):
            letters.append(asdict(result))
            write_letter(out, result, preview)
    index = {"now": now.isoformat(), "letters": letters}
    (out / INDEX).write_text(json.dumps(index, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if as_json:
        terminal.print_json(index)
        return
    mails = sum(1 for letter in letters if letter["letter"])
    due = plurals.count(len(letters), "due subscriber")
    terminal.print_line(
        f"Dry run: {plurals.count(mails, 'letter')} for {due}, written to {out}. Nothing was sent."
    )


def write_letter(out: Path, result: DryRunResult, preview: Preview) -> None:
    """Write the files of one letter into the folder; write none if no letter would be sent."""
    if result.file:
        (out / f"{result.file}.html").write_text(preview.letter.html, encoding="utf-8")
        (out / f"{result.file}.txt").write_text(preview.letter.text, encoding="utf-8")
        (out / f"{result.file}.eml").write_bytes(preview.message)


def diff(before: Folder, after: LaterFolder = None, as_json: AsJson = False) -> None:
    """Compare two dry runs: who gains or loses mail, and whose letter changes.

    With one folder, compare the last digests sent with that dry run.

    Examples:
        digest diff tomorrow
        digest diff before after --json
    """
    from digest.publishing import dry_run

    if after is not None:
        difference = dry_run.compare_runs(read(before), read(after))
    else:
        with command_context.open_context() as context, context.read_session() as session:
            difference = dry_run.compare_runs(
                dry_run.last_published(session, site=context.site, caches=context.caches), read(before)
            )
    if as_json:
        terminal.print_json(asdict(difference))
    else:
        show(difference)


def read(folder: Path) -> Iterable[DryRunResult]:
    """Return the results of the dry run stored in a folder."""
    from digest.publishing.dry_run import DryRunResult

    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return [DryRunResult(**letter) for letter in index["letters"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadField(
            "DIR", f"{folder} contains no dry run. Make one: digest publish --dry-run --out DIR"
        ) from error


def show(difference: DryRunDifference) -> None:
    """Print the differences between two dry runs."""
    for name in ("mails", "papers", "bytes"):
        before, after = getattr(difference, name)
        terminal.print_line(f"{name:7}{before:,} → {after:,}")
    for email in difference.gains[:CHANGES_SHOWN]:
        terminal.print_line(f"gains  {email}")
    for email in difference.loses[:CHANGES_SHOWN]:
        terminal.print_line(f"loses  {email}")
    for one in difference.changed[:CHANGES_SHOWN]:
        changes = [f"{name} {pair[0]} → {pair[1]}" for name, pair in one.items() if name != "email"]
        terminal.print_line(f"       {one['email']}: {', '.join(changes)}")
    hidden = sum(
        max(0, len(some) - CHANGES_SHOWN) for some in (difference.gains, difference.loses, difference.changed)
    )
    if hidden:
        terminal.print_line(f"and {hidden} more (--json lists all)")
    terminal.print_line(f"{plurals.count(difference.same, 'letter')} unchanged")
