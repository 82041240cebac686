"""`digest topics pack`: publish, show and list versioned filter packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import completion, terminal
from digest.cli.command_tree import group
from digest.cli.confirmation_prompt import DryRun, Yes, require_yes
from digest.cli.frame import Opened, Workspace, command, opened, reading
from digest.cli.options import CLOCK, Now, argument, number_option
from digest.cli.results import CommandResult, Note, Text, listing
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.db import Session
    from digest.papers.paper_record import Paper
    from digest.subscribers.pack_updates import FilterChange, PackChange
    from digest.topics.filter_backtest import FilterComparison, PerDay
    from digest.topics.filter_parser import Filter
    from digest.topics.pack_files import Pack
    from digest.topics.pack_resolution import PackVersions
    from digest.topics.paper_index import PaperIndex

app = group("Versioned filter packs.")

MAX_FILE_BYTES = 1_000_000  #: the maximum number of bytes read from a file
SHOWN = 5  #: maximum number of gained papers, and of lost papers, shown for each filter
CHANGE_LABELS = {"new": "new", "gone": "removed", "same": "unchanged", "changed": "changed"}


@app.command("list")
@command(reading)
def show_list(work: Workspace) -> CommandResult:
    """List the packs, each with its newest version and its number of subscribers.

    Examples:
        digest topics pack list
        digest topics pack list --json
    """
    from digest.subscribers import pack_updates
    from digest.topics import stored_packs

    users, newest = pack_updates.count_pack_users(work.session), {}
    for name, versions in stored_packs.load_packs(work.session).items():
        newest[name] = versions[max(versions)]
    return listing(
        [
            {
                "name": name,
                "version": pack.version,
                "filters": list(pack.filters),
                "subscribers": users.get(name, 0),
                "description": pack.description,
            }
            for name, pack in newest.items()
        ],
        "pack=name version# subscribers# filters description",
        shrinks="description filters",
        empty="No packs. Publish one: digest topics pack publish FILE",
    )


@app.command()
@command(reading)
def show(
    work: Workspace,
    name: Annotated[str, argument("NAME", "The name of the pack.", autocompletion=completion.packs)],
    version: Annotated[
        int | None, number_option("--version N", "The version to print. Default: the newest.")
    ] = None,
) -> CommandResult:
    """Print the file of a published pack.

    Examples:
        digest topics pack show lab
        digest topics pack show lab --version 1
    """
    from digest.topics import stored_packs

    pack = stored_packs.get(work.session, name, version)
    published = dict(stored_packs.versions(work.session, name))
    at = terminal.format_cell(published[pack.version])
    return CommandResult(
        {
            "name": pack.name,
            "version": pack.version,
            "description": pack.description,
            "text": pack.text,
            "filters": dict(pack.filters),
            "dependency_versions": dict(pack.dependency_versions),
            "versions": [{"version": number, "published_at": at} for number, at in published.items()],
        },
        (
            [line.expandtabs(4).rstrip() for line in pack.text.rstrip().splitlines()],
            Note(f"Version {pack.version} of {max(published)}, published {at}."),
        ),
    )


@app.command()
@command(opened)
def publish(
    work: Opened,
    source: Annotated[
        str, argument("FILE", "A pack as a text file (docs/filters.md); with --version, the name of a pack.")
    ],
    version: Annotated[
        int | None, number_option("--version N", "Publish this version of a pack again, as a new version.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Publish a file as the next version of its pack, or an earlier version again.

    Subscribers of the pack get the new version and one letter about it. Topics pinned to a version do not change.
    With --dry-run, show what would change: filters, papers, subscribers; or mark the mistake in the file.

    Examples:
        digest topics pack publish lab.pack --dry-run
        digest topics pack publish lab.pack
        digest topics pack publish lab --version 1
    """
    from digest.subscribers import pack_updates

    with work.reading() as session:
        # Both steps take time, so they run before the write lock is taken.
        pack, comparison = read(session, source, version), catalog_comparison(session, now)
        report = change_report(session, pack_updates.plan_pack_change(session, pack), comparison)
    if dry_run:
        return CommandResult(report, change_text(report, version, "would be", "Would get"))
    if report["is_new"] and report["subscribers"]:
        readers = plurals.count(report["subscribers"], "subscriber gets", "subscribers get")
        require_yes(f"{readers} version {report['version']} of {pack.name}, and a letter about it.", yes=yes)
    with work.writing() as session:
        change = pack_updates.publish(
            session, work.site, pack, effect=comparison.effect, puts_back=version, now=now
        )
        report = change_report(session, change, comparison)
    return CommandResult(report, change_text(report, version, "is", "Get"))


# ── files and comparisons ───────────────────────────────────────────────────────────────────────


def read(session: Session, source: str, version: int | None) -> Pack:
    """Return the pack in a file, or a published version of the pack of this name."""
    from digest.topics import pack_files, stored_packs

    if version is not None:
        return replace(stored_packs.get(session, source, version), version=0)
    try:
        with Path(source).open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode("utf-8")
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 ({error.reason}). Save it as UTF-8.") from None
    return pack_files.read(text)


@dataclass(frozen=True, kw_only=True)
class CatalogComparison:
    """The catalog's papers, on which two versions of a filter are compared."""

    papers: Sequence[Paper]
    index: PaperIndex
    days: Sequence[date]

    def compare(self, before: str | None, after: str | None) -> FilterComparison:
        """Compare the matches of two filters, either of which may be absent."""
        from digest.topics import filter_backtest, filter_parser

        def parsed(canonical: str | None) -> Filter | None:
            return filter_parser.parse(canonical) if canonical else None

        return filter_backtest.compare_filters(parsed(before), parsed(after), self.index, self.days)

    def effect(self, before: str, after: str) -> dict[str, int]:
        """Return the numbers of papers gained, papers lost, and days that have papers in the catalog."""
        found = self.compare(before, after)
        return {"gained": len(found.gained), "lost": len(found.lost), "days": len(set(self.days))}


def catalog_comparison(session: Session, now: datetime | None) -> CatalogComparison:
    """Return the papers first seen up to `now`, indexed for comparing filters."""
    from digest.papers.catalog import queries
    from digest.topics.paper_index import PaperIndex

    papers = queries.papers(session, until=now)
    days = [paper.first_seen_at.astimezone(UTC).date() for paper in papers]
    return CatalogComparison(papers=papers, index=PaperIndex(papers), days=days)


# ── reports ─────────────────────────────────────────────────────────────────────────────────────


def change_report(session: Session, pack_change: PackChange, comparison: CatalogComparison) -> dict[str, Any]:
    """Return the changes in a new version of a pack, for JSON and for display."""
    from digest.subscribers import pack_updates

    return {
        "name": pack_change.pack.name,
        "version": pack_change.pack.version,
        "before": pack_change.before.version if pack_change.before else None,
        "is_new": pack_change.is_new,
        "filters": [filter_report(*change, comparison) for change in filter_changes(pack_change)],
        "subscribers": pack_updates.count_followers(session, pack_change.applied),
        "blocked": [blocked_report(session, change) for change in pack_change.blocked],
    }


def filter_changes(
    change: PackChange,
) -> list[tuple[str, str, str | None, str | None, str | None, str | None]]:
    """Return (name, change, canonical before and after, resolved before and after) of each filter."""
    from digest.topics import pack_resolution

    def resolved_filter(pack: Pack | None, name: str, versions: PackVersions) -> str | None:
        if pack is None or name not in pack.filters:
            return None
        return pack_resolution.resolved_canonical(f"use:{pack.name}/{name}", versions)

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
    from digest.papers import display_text

    paper = comparison.papers[number]
    return {"id": paper.id, "day": f"{comparison.days[number]}", "title": display_text.display(paper.title)}


def blocked_report(session: Session, change: FilterChange) -> dict[str, Any]:
    """Return a filter that cannot use the new version, the reason, and how many subscribers it has."""
    from digest.subscribers import pack_updates

    return {
        "filter": change.canonical,
        "reason": change.blocked_reason,
        "subscribers": pack_updates.count_followers(session, [change]),
    }


def change_text(
    report: Mapping[str, Any], puts_back: int | None, verb: str, subscribers: str
) -> Iterator[Text]:
    """Yield the changes in a new version of a pack, which is published or would be."""
    name, version = report["name"], report["version"]
    if not report["is_new"]:
        yield f"{name} is the same as its version {report['before']}."
    elif puts_back:
        yield f"{name} version {version} {verb} the same as version {puts_back}."
    else:
        yield f"{name} {verb} published as version {version}."
    for one in report["filters"]:
        yield from filter_text(one)
    if report["is_new"]:
        yield ""
        followers = plurals.count(report["subscribers"], "subscriber")
        yield f"{subscribers} the new version and a letter about it: {followers}."
    for one in report["blocked"]:
        affected = plurals.count(one["subscribers"], "subscriber")
        yield Note(f"note: {one['filter']} ({affected}) does not change: {one['reason']}")


def filter_text(one: Mapping[str, Any]) -> Iterator[str]:
    """Yield the change of one filter of a pack."""
    yield ""
    yield f"{one['name']}: {CHANGE_LABELS[one['change']]}"
    if one["change"] == "changed" and one["before_filter"] == one["after_filter"]:
        yield "  a pack that it uses has changed"
    elif one["change"] in {"changed", "gone"}:
        yield f"  before  {one['before_filter']}"
    if one["after_filter"]:
        yield f"  after   {one['after_filter']}"
    if one["change"] == "same":
        return
    before, after = one["per_day"]["before"], one["per_day"]["after"]
    span = plurals.count(int(after["days"]), "day")
    gained, lost = len(one["gained"]), len(one["lost"])
    yield (
        f"  {plurals.count(gained, 'paper')} gained and {lost:,} lost in {span};"
        f" {after['median']:g} on a typical day, {before['median']:g} before"
    )
    for sign, some in (("+", one["gained"]), ("-", one["lost"])):
        for paper in some[:SHOWN]:
            yield f"  {sign} {paper['day']}  {paper['title']}"
        if len(some) > SHOWN:
            yield f"  {sign} and {len(some) - SHOWN:,} more"
