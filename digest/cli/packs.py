"""`digest topics pack`: filters that a group shares, read from a file and published in versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.options import HIGHEST, AsJson, Now, clock
from digest.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.papers import Paper
    from digest.subscriptions import Step, Turn
    from digest.topics import Compared, Filter, Index, Pack, PerDay, Shelf

app = typer.Typer(help="Filters that a group shares, in versions.", no_args_is_help=True)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A pack as a plain text file; docs/filters.md has one.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the pack is called.")]

LONGEST = 1_000_000  #: characters of a file that are looked at
SHOWN = 5  #: papers gained and lost that a person is shown of each filter


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


@app.command()
def lint(path: File, as_json: AsJson = False) -> None:
    """Read a pack; print its filters in canonical form, or point at the mistake."""
    with rooms.opened() as house, house.reading() as session:
        taken = step_of(session, path)
    report = {
        "name": taken.pack.name,
        "description": taken.pack.description,
        "filters": dict(taken.pack.filters),
    }
    if as_json:
        screen.document(report)
        return
    screen.tell(f"{taken.pack.name} can be published as version {taken.pack.version}.")
    screen.facts(taken.pack.filters.items())


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List the packs, with their newest version and how many subscribers use them."""
    from digest import packs

    with rooms.opened() as house, house.reading() as session:
        shelf = packs.shelf(session)
        users = users_of(session)
        found = [
            {
                "name": name,
                "version": max(versions),
                "filters": list(versions[max(versions)].filters),
                "subscribers": users.get(name, 0),
                "description": versions[max(versions)].description,
            }
            for name, versions in shelf.items()
        ]
    if as_json:
        screen.lines(found)
        return
    screen.table(
        ("pack", "version#", "subscribers#", "filters", "for"),
        ([one[key] for key in ("name", "version", "subscribers", "filters", "description")] for one in found),
        give=["for", "filters"],
        empty="No packs. Publish one: digest topics pack publish FILE",
    )


@app.command()
def show(
    name: Name,
    version: Annotated[
        int | None,
        typer.Option("--version", max=HIGHEST, metavar="N", help="Default: the newest.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a pack as it was published: its file."""
    from digest import packs

    with rooms.opened() as house, house.reading() as session:
        pack = packs.get(session, name, version)
        published = packs.versions(session, name)
    if as_json:
        report = {key: getattr(pack, key) for key in ("name", "version", "description", "text")}
        report |= {"filters": dict(pack.filters), "stood_on": dict(pack.stood_on)}
        report["versions"] = [{"version": number, "published_at": moment} for number, moment in published]
        screen.document(report)
        return
    for line in pack.text.rstrip().splitlines():
        screen.tell(line.expandtabs(4).rstrip())
    newest = published[-1][0]
    screen.say(f"Version {pack.version} of {newest}, published {screen.cell(dict(published)[pack.version])}.")


@app.command()
def diff(path: File, now: Now = None, as_json: AsJson = False) -> None:
    """Say what publishing a file would change: filters, papers, subscribers."""
    with rooms.opened() as house, house.reading() as session:
        taken = step_of(session, path)
        report = report_of(session, taken, scale(session, now))
    if as_json:
        screen.document(report)
        return
    show_step(
        report,
        f"{report['name']} would be published as version {report['version']}.",
        "Would follow, and be told in a letter",
    )


# ── changing ────────────────────────────────────────────────────────────────────────────────────


@app.command()
def publish(path: File, now: Now = None, as_json: AsJson = False) -> None:
    """Publish a file as the next version of its pack.

    Who follows the pack is led to it and told in one letter; what is pinned stays.
    """
    with rooms.opened() as house:
        with house.reading() as session:
            pack, on = read(session, path), scale(session, now)  # before anybody else has to wait
        with rooms.writing(house) as session:
            report = published(session, house.site, pack, None, clock(now), on)
            session.commit()
    finish(report, f"{report['name']} is published as version {report['version']}.", as_json)


@app.command()
def undo(name: Name, now: Now = None, as_json: AsJson = False) -> None:
    """Put the version before the newest back, as a new version."""
    from digest import packs, subscriptions

    with rooms.opened() as house:
        with house.reading() as session:
            on = scale(session, now)
        with rooms.writing(house) as session:
            former = packs.get(session, name).version - 1
            report = published(session, house.site, subscriptions.back(session, name), former, clock(now), on)
            session.commit()
    finish(report, f"{name} holds in version {report['version']} what it held in version {former}.", as_json)


def published(
    session: Session, site: Any, pack: Pack, puts_back: int | None, now: datetime, on: Scale
) -> dict[str, Any]:
    """Publish a pack and return what that changed."""
    from digest import subscriptions

    taken = subscriptions.publish(session, site, pack, effect=on.effect, puts_back=puts_back, now=now)
    return report_of(session, taken, on)


def finish(report: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    """Report what was published."""
    if as_json:
        screen.document(report)
    else:
        show_step(report, sentence, "Follow, and are told in a letter")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def read(session: Session, path: Path) -> Pack:
    """Return the pack in a file."""
    from digest import subscriptions
    from digest.topics import packs

    try:
        with path.open("rb") as file:
            text = file.read(LONGEST).decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}). Save it as UTF-8.") from None
    return packs.read(text, subscriptions.Books(session).plain)


def step_of(session: Session, path: Path) -> Step:
    """Return what publishing a file would mean."""
    from digest import subscriptions

    return subscriptions.step(session, read(session, path))


def users_of(session: Session) -> dict[str, int]:
    """Return how many subscribers use each pack, by its name."""
    from digest import subscriptions

    return subscriptions.users(session)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The papers of the catalog, to weigh two versions on."""

    papers: Sequence[Paper]
    index: Index
    days: Sequence[date]

    def compared(self, before: str | None, after: str | None) -> Compared:
        """Return what a filter would have brought in place of another."""
        from digest import topics

        def parsed(canonical: str | None) -> Filter | None:
            return topics.parse(canonical) if canonical else None

        return topics.compared(parsed(before), parsed(after), self.index, self.days)

    def effect(self, before: str, after: str) -> dict[str, int]:
        """Return what a change would have brought, in figures."""
        found = self.compared(before, after)
        return {"gained": len(found.gained), "lost": len(found.lost), "days": len(set(self.days))}


def scale(session: Session, now: datetime | None) -> Scale:
    """Return the papers to try filters on."""
    from digest import catalog, topics

    papers = catalog.papers(session, until=now)
    days = [paper.first_seen_at.astimezone(UTC).date() for paper in papers]
    return Scale(papers=papers, index=topics.Index(papers), days=days)


# ── telling ─────────────────────────────────────────────────────────────────────────────────────


def report_of(session: Session, taken: Step, on: Scale) -> dict[str, Any]:
    """Return what a new version changes, for scripts and for people."""
    from digest import subscriptions

    return {
        "name": taken.pack.name,
        "version": taken.pack.version,
        "before": taken.before.version if taken.before else None,
        "is_new": taken.is_new,
        "filters": [filter_report(*change, on) for change in changes_of(taken)],
        "subscribers": subscriptions.followers(session, taken.changed),
        "staying": [staying_report(session, turn) for turn in taken.staying],
    }


def changes_of(taken: Step) -> list[tuple[str, str, str | None, str | None, str | None, str | None]]:
    """Return (name, what happens, canonical before and after, the same written out) of each filter."""
    from digest import topics

    def written_out(pack: Pack | None, name: str, shelf: Shelf) -> str | None:
        if pack is None or name not in pack.filters:
            return None
        return topics.written_out(f"use:{pack.name}/{name}", shelf)

    before, after = taken.before, taken.pack
    old = before.filters if before else {}
    rows = []
    for name in dict.fromkeys((*old, *after.filters)):
        was, is_ = old.get(name), after.filters.get(name)
        whole = written_out(before, name, taken.stood), written_out(after, name, taken.shelf)
        happens = (
            "new" if was is None else "gone" if is_ is None else "same" if whole[0] == whole[1] else "changed"
        )
        rows.append((name, happens, was, is_, *whole))
    return rows


def filter_report(
    name: str,
    happens: str,
    was: str | None,
    is_: str | None,
    before: str | None,
    after: str | None,
    on: Scale,
) -> dict[str, Any]:
    """Return what becomes of one filter of a pack."""
    compared = on.compared(before, after)
    return {
        "name": name,
        "change": happens,
        "was": was,
        "is": is_,
        "per_day": {"before": a_day(compared.before), "after": a_day(compared.after)},
        "gained": [paper_report(on, number) for number in compared.gained],
        "lost": [paper_report(on, number) for number in compared.lost],
    }


def a_day(per_day: PerDay) -> dict[str, float]:
    """Return how many papers a day, as `digest topics test` has it."""
    return {name: getattr(per_day, name) for name in ("median", "p90", "max", "days")}


def paper_report(on: Scale, number: int) -> dict[str, Any]:
    """Return a paper that is gained or lost."""
    from digest import papers as words

    paper = on.papers[number]
    return {"id": paper.id, "day": f"{on.days[number]}", "title": words.display(paper.title)}


def staying_report(session: Session, turn: Turn) -> dict[str, Any]:
    """Return a filter that cannot follow, and why."""
    from digest import subscriptions

    return {
        "filter": turn.canonical,
        "reason": turn.stays_because,
        "subscribers": subscriptions.followers(session, [turn]),
    }


def show_step(report: Mapping[str, Any], sentence: str, told: str) -> None:
    """Show a new version to a person."""
    screen.tell(
        sentence
        if report["is_new"]
        else f"{report['name']} is as it was published in version {report['before']}."
    )
    for one in report["filters"]:
        show_filter(one)
    if report["is_new"]:
        screen.tell()
        screen.tell(f"{told}: {screen.count(report['subscribers'], 'subscriber')}.")
    for one in report["staying"]:
        held = screen.count(one["subscribers"], "subscriber")
        screen.say(f"note: {one['filter']} ({held}) stays as it was: {one['reason']}")


def show_filter(one: Mapping[str, Any]) -> None:
    """Show what becomes of one filter."""
    screen.tell()
    screen.tell(f"{one['name']}: {TOLD[one['change']]}")
    if one["change"] == "changed" and one["was"] == one["is"]:
        screen.tell("  another pack that it uses has changed")
    elif one["change"] in {"changed", "gone"}:
        screen.tell(f"  was  {one['was']}")
    if one["is"]:
        screen.tell(f"  is   {one['is']}")
    if one["change"] == "same":
        return
    before, after = one["per_day"]["before"], one["per_day"]["after"]
    span = screen.count(int(after["days"]), "day")
    gained, lost = len(one["gained"]), len(one["lost"])
    screen.tell(
        f"  {screen.count(gained, 'paper')} gained and {lost:,} lost in {span};"
        f" {after['median']:g} on most days, {before['median']:g} before"
    )
    for sign, some in (("+", one["gained"]), ("-", one["lost"])):
        for paper in some[:SHOWN]:
            screen.tell(f"  {sign} {paper['day']}  {paper['title']}")
        if len(some) > SHOWN:
            screen.tell(f"  {sign} and {len(some) - SHOWN:,} more")


TOLD = {"new": "new", "gone": "gone", "same": "the same", "changed": "changed"}
