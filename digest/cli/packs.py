"""`digest topics pack`: check, publish and list versioned filter packs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, completion, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Now, current_time, number_option
from digest.cli.confirmation_prompt import DryRun, Yes, require_yes
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.db import Session
    from digest.papers import Paper
    from digest.subscribers import FilterChange, PackChange
    from digest.topics import Filter, FilterComparison, Pack, PackVersions, PaperIndex, PerDay

app = group("Versioned filter packs.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="A pack as a text file; see docs/filters.md.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the pack.", autocompletion=completion.packs)
]

MAX_FILE_BYTES = 1_000_000  #: the maximum number of bytes read from a file
WOULD_GET = "Would get the new version and a letter about it"
SHOWN = 5  #: maximum number of gained papers, and of lost papers, shown for each filter


# ── list and compare ────────────────────────────────────────────────────────────────────────────


@app.command()
def lint(path: File, as_json: AsJson = False) -> None:
    """Check a pack: print its filters in canonical form, or mark the mistake.

    Examples:
        digest topics pack lint lab.pack
        digest topics pack lint lab.pack --json
    """
    with command_context.open_context() as context, context.read_session() as session:
        taken = change_in_file(session, path)
    report = {
        "name": taken.pack.name,
        "description": taken.pack.description,
        "filters": dict(taken.pack.filters),
    }
    if as_json:
        terminal.print_json(report)
        return
    terminal.print_line(f"{taken.pack.name} can be published as version {taken.pack.version}.")
    terminal.print_facts(taken.pack.filters.items())


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List the packs, each with its newest version and its number of subscribers.

    Examples:
        digest topics pack list
        digest topics pack list --json
    """
    from digest.topics import stored_packs

    with command_context.open_context() as context, context.read_session() as session:
        versions_by_pack = stored_packs.load_packs(session)
        users = subscribers_by_pack(session)
        found = [
            {
                "name": name,
                "version": max(versions),
                "filters": list(versions[max(versions)].filters),
                "subscribers": users.get(name, 0),
                "description": versions[max(versions)].description,
            }
            for name, versions in versions_by_pack.items()
        ]
    if as_json:
        terminal.lines(found)
        return
    terminal.print_table(
        ("pack", "version#", "subscribers#", "filters", "description"),
        ([one[key] for key in ("name", "version", "subscribers", "filters", "description")] for one in found),
        shrinkable=["description", "filters"],
        empty="No packs. Publish one: digest topics pack publish FILE",
    )


@app.command()
def show(
    name: Name,
    version: Annotated[
        int | None,
        number_option("--version", "N", "The version to print. Default: the newest."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the file of a published pack.

    Examples:
        digest topics pack show lab
        digest topics pack show lab --version 2
    """
    from digest.topics import stored_packs

    with command_context.open_context() as context, context.read_session() as session:
        pack = stored_packs.get(session, name, version)
        published = stored_packs.versions(session, name)
    if as_json:
        report = {key: getattr(pack, key) for key in ("name", "version", "description", "text")}
        report |= {"filters": dict(pack.filters), "dependency_versions": dict(pack.dependency_versions)}
        report["versions"] = [{"version": number, "published_at": moment} for number, moment in published]
        terminal.print_json(report)
        return
    for line in pack.text.rstrip().splitlines():
        terminal.print_line(line.expandtabs(4).rstrip())
    newest = published[-1][0]
    terminal.print_note(
        f"Version {pack.version} of {newest}, published {terminal.format_cell(dict(published)[pack.version])}."
    )


@app.command()
def diff(path: File, now: Now = None, as_json: AsJson = False) -> None:
    """Show what publishing a file would change: filters, papers, subscribers.

    Examples:
        digest topics pack diff lab.pack
        digest topics pack diff lab.pack --json
    """
    with command_context.open_context() as context, context.read_session() as session:
        taken = change_in_file(session, path)
        report = change_report(session, taken, catalog_comparison(session, now))
    sentence = f"{report['name']} would be published as version {report['version']}."
    finish(report, sentence, as_json, caption=WOULD_GET)


# ── publish ─────────────────────────────────────────────────────────────────────────────────────


@app.command()
def publish(
    path: File, dry_run: DryRun = False, yes: Yes = False, now: Now = None, as_json: AsJson = False
) -> None:
    """Publish a file as the next version of its pack.

    Subscribers of the pack get the new version and one letter about it. Topics pinned to a version do not change.

    Examples:
        digest topics pack publish lab.pack
        digest topics pack publish lab.pack --yes
    """
    from digest import subscribers

    with command_context.open_context() as context:
        with context.read_session() as session:
            # Both steps take time, so they run before the write lock is taken.
            pack, comparison = read(session, path), catalog_comparison(session, now)
            planned = subscribers.plan_pack_change(session, pack)
            report = change_report(session, planned, comparison)
        if dry_run:
            sentence = f"{pack.name} would be published as version {report['version']}."
            finish(report, sentence, as_json, caption=WOULD_GET)
            return
        require_yes_of_followers(report, yes=yes)
        with command_context.open_write_session(context) as session:
            report = publish_pack(session, context.site, pack, None, current_time(now), comparison)
    finish(report, f"{report['name']} is published as version {report['version']}.", as_json)


@app.command()
def undo(
    name: Name, dry_run: DryRun = False, yes: Yes = False, now: Now = None, as_json: AsJson = False
) -> None:
    """Publish the previous version of a pack again, as a new version.

    Examples:
        digest topics pack undo lab --dry-run
        digest topics pack undo lab --yes
    """
    from digest import subscribers
    from digest.topics import stored_packs

    with command_context.open_context() as context:
        with context.read_session() as session:
            comparison = catalog_comparison(session, now)
            planned = subscribers.plan_pack_change(session, subscribers.previous_version(session, name))
            report = change_report(session, planned, comparison)
        if dry_run:
            sentence = (
                f"{name} version {report['version']} would be the same as version {report['version'] - 2}."
            )
            finish(report, sentence, as_json, caption=WOULD_GET)
            return
        require_yes_of_followers(report, yes=yes)
        with command_context.open_write_session(context) as session:
            former = stored_packs.get(session, name).version - 1
            report = publish_pack(
                session,
                context.site,
                subscribers.previous_version(session, name),
                former,
                current_time(now),
                comparison,
            )
    finish(report, f"{name} version {report['version']} is the same as version {former}.", as_json)


def require_yes_of_followers(report: Mapping[str, Any], *, yes: bool) -> None:
    """Ask for confirmation if publishing changes any subscriber's digests."""
    if report["is_new"] and report["subscribers"]:
        readers = plurals.count(report["subscribers"], "subscriber gets", "subscribers get")
        name, version = report["name"], report["version"]
        require_yes(f"{readers} version {version} of {name}, and a letter about it.", yes=yes)


def publish_pack(
    session: Session,
    site: Any,
    pack: Pack,
    puts_back: int | None,
    now: datetime,
    comparison: CatalogComparison,
) -> dict[str, Any]:
    """Publish a pack as its next version, and return the report of its changes."""
    from digest import subscribers

    taken = subscribers.publish(session, site, pack, effect=comparison.effect, puts_back=puts_back, now=now)
    return change_report(session, taken, comparison)


def finish(
    report: Mapping[str, Any],
    sentence: str,
    as_json: bool,
    *,
    caption: str = "Get the new version and a letter about it",
) -> None:
    """Print a new version of a pack and its changes."""
    if as_json:
        terminal.print_json(report)
    else:
        show_change(report, sentence, caption)


# ── files and comparisons ───────────────────────────────────────────────────────────────────────


def read(session: Session, path: Path) -> Pack:
    """Return the pack in a file."""
    from digest import subscribers
    from digest.topics import pack_files

    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}). Save it as UTF-8.") from None
    return pack_files.read(text, subscribers.FilterRegistry(session).expand_like)


def change_in_file(session: Session, path: Path) -> PackChange:
    """Return the change that publishing this file would make."""
    from digest import subscribers

    return subscribers.plan_pack_change(session, read(session, path))


def subscribers_by_pack(session: Session) -> dict[str, int]:
    """Return {pack name: number of subscribers who use the pack}."""
    from digest import subscribers

    return subscribers.count_pack_users(session)


@dataclass(frozen=True, kw_only=True)
class CatalogComparison:
    """The catalog's papers, on which two versions of a filter are compared."""

    papers: Sequence[Paper]
    index: PaperIndex
    days: Sequence[date]

    def compare(self, before: str | None, after: str | None) -> FilterComparison:
        """Compare the matches of two filters, either of which may be absent."""
        from digest import topics

        def parsed(canonical: str | None) -> Filter | None:
            return topics.parse(canonical) if canonical else None

        return topics.compare_filters(parsed(before), parsed(after), self.index, self.days)

    def effect(self, before: str, after: str) -> dict[str, int]:
        """Return the numbers of papers gained, papers lost, and days that have papers in the catalog."""
        found = self.compare(before, after)
        return {"gained": len(found.gained), "lost": len(found.lost), "days": len(set(self.days))}


def catalog_comparison(session: Session, now: datetime | None) -> CatalogComparison:
    """Return the papers first seen up to `now`, indexed for comparing filters."""
    from digest import topics
    from digest.papers import catalog

    papers = catalog.papers(session, until=now)
    days = [paper.first_seen_at.astimezone(UTC).date() for paper in papers]
    return CatalogComparison(papers=papers, index=topics.PaperIndex(papers), days=days)


# ── reports ─────────────────────────────────────────────────────────────────────────────────────


def change_report(session: Session, pack_change: PackChange, comparison: CatalogComparison) -> dict[str, Any]:
    """Return the changes in a new version of a pack, for JSON and for display."""
    from digest import subscribers

    return {
        "name": pack_change.pack.name,
        "version": pack_change.pack.version,
        "before": pack_change.before.version if pack_change.before else None,
        "is_new": pack_change.is_new,
        "filters": [filter_report(*change, comparison) for change in filter_changes(pack_change)],
        "subscribers": subscribers.count_followers(session, pack_change.applied),
        "blocked": [blocked_report(session, change) for change in pack_change.blocked],
    }


def filter_changes(
    change: PackChange,
) -> list[tuple[str, str, str | None, str | None, str | None, str | None]]:
    """Return (name, change, canonical before and after, resolved before and after) of each filter."""
    from digest import topics

    def resolved_filter(pack: Pack | None, name: str, versions: PackVersions) -> str | None:
        if pack is None or name not in pack.filters:
            return None
        return topics.resolved_canonical(f"use:{pack.name}/{name}", versions)

    before, after = change.before, change.pack
    old = before.filters if before else {}
    rows = []
    for name in dict.fromkeys((*old, *after.filters)):
        former, new = old.get(name), after.filters.get(name)
        resolved = (
            resolved_filter(before, name, change.packs_before),
            resolved_filter(after, name, change.packs_after),
        )
        is_same = resolved[0] == resolved[1]
        kind = "new" if former is None else "gone" if new is None else "same" if is_same else "changed"
        rows.append((name, kind, former, new, *resolved))
    return rows


def filter_report(
    name: str,
    kind: str,
    former: str | None,
    new: str | None,
    before: str | None,
    after: str | None,
    comparison: CatalogComparison,
) -> dict[str, Any]:
    """Return the change to one filter in a pack: its texts, and the effect of the resolved filters."""
    compared = comparison.compare(before, after)
    return {
        "name": name,
        "change": kind,
        "before_filter": former,
        "after_filter": new,
        "per_day": {"before": per_day_report(compared.before), "after": per_day_report(compared.after)},
        "gained": [paper_report(comparison, number) for number in compared.gained],
        "lost": [paper_report(comparison, number) for number in compared.lost],
    }


def per_day_report(per_day: PerDay) -> dict[str, float]:
    """Return the statistics of papers per day for JSON, with the same keys as in `digest topics test`."""
    return {name: getattr(per_day, name) for name in ("median", "p90", "max", "days")}


def paper_report(comparison: CatalogComparison, number: int) -> dict[str, Any]:
    """Return a gained or lost paper for JSON."""
    from digest import papers

    paper = comparison.papers[number]
    return {"id": paper.id, "day": f"{comparison.days[number]}", "title": papers.display(paper.title)}


def blocked_report(session: Session, change: FilterChange) -> dict[str, Any]:
    """Return a filter that cannot use the new version, the reason, and how many subscribers it has."""
    from digest import subscribers

    return {
        "filter": change.canonical,
        "reason": change.blocked_reason,
        "subscribers": subscribers.count_followers(session, [change]),
    }


def show_change(report: Mapping[str, Any], sentence: str, caption: str) -> None:
    """Print the changes in a new version of a pack."""
    terminal.print_line(
        sentence if report["is_new"] else f"{report['name']} is the same as its version {report['before']}."
    )
    for one in report["filters"]:
        show_filter(one)
    if report["is_new"]:
        terminal.print_line()
        terminal.print_line(f"{caption}: {plurals.count(report['subscribers'], 'subscriber')}.")
    for one in report["blocked"]:
        affected = plurals.count(one["subscribers"], "subscriber")
        terminal.print_note(f"note: {one['filter']} ({affected}) does not change: {one['reason']}")


def show_filter(one: Mapping[str, Any]) -> None:
    """Print the change of one filter of a pack."""
    terminal.print_line()
    terminal.print_line(f"{one['name']}: {CHANGE_LABELS[one['change']]}")
    if one["change"] == "changed" and one["before_filter"] == one["after_filter"]:
        terminal.print_line("  a pack that it uses has changed")
    elif one["change"] in {"changed", "gone"}:
        terminal.print_line(f"  before  {one['before_filter']}")
    if one["after_filter"]:
        terminal.print_line(f"  after   {one['after_filter']}")
    if one["change"] == "same":
        return
    before, after = one["per_day"]["before"], one["per_day"]["after"]
    span = plurals.count(int(after["days"]), "day")
    gained, lost = len(one["gained"]), len(one["lost"])
    terminal.print_line(
        f"  {plurals.count(gained, 'paper')} gained and {lost:,} lost in {span};"
        f" {after['median']:g} on a typical day, {before['median']:g} before"
    )
    for sign, some in (("+", one["gained"]), ("-", one["lost"])):
        for paper in some[:SHOWN]:
            terminal.print_line(f"  {sign} {paper['day']}  {paper['title']}")
        if len(some) > SHOWN:
            terminal.print_line(f"  {sign} and {len(some) - SHOWN:,} more")


CHANGE_LABELS = {"new": "new", "gone": "removed", "same": "unchanged", "changed": "changed"}
