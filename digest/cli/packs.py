"""`digest topics pack`: publish, show and list versioned filter packs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from digest import plurals
from digest.cli import completion, terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, Workspace, command, opened, reading
from digest.cli.options import CLOCK, DryRun, Now, Yes, argument, number_option
from digest.cli.results import CommandResult, Text, fields_of, listing, note
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.db import Session
    from digest.papers.paper_record import Paper
    from digest.subscribers.pack_updates import PackChange
    from digest.topics.filter_backtest import FilterComparison
    from digest.topics.pack_files import Pack
    from digest.topics.pack_resolution import PackVersions
    from digest.topics.paper_index import PaperIndex

app = group("Versioned filter packs.")

MAX_FILE_BYTES = 1_000_000  #: the maximum number of bytes read from a file
SHOWN = 5  #: maximum number of gained papers, and of lost papers, shown for each filter
CHANGE_LABELS = {"new": "new", "gone": "removed", "same": "unchanged", "changed": "changed"}


@command(reading, app, "list")
def show_list(work: Workspace) -> CommandResult:
    """List the packs, each with its newest version and its number of subscribers.

    Examples:
        digest topics pack list
        digest topics pack list --json
    """
    from digest.subscribers import pack_updates, stored_packs

    users = pack_updates.count_pack_users(work.session)
    packs = [versions[max(versions)] for versions in stored_packs.load_packs(work.session).values()]
    return listing(
        [
            fields_of(pack, "name version description")
            | {"filters": list(pack.filters), "subscribers": users.get(pack.name, 0)}
            for pack in packs
        ],
        "pack=name version# subscribers# filters description",
        shrinks="description filters",
        empty="No packs. Publish one: digest topics pack publish FILE",
    )


@command(reading, app)
def show(
    work: Workspace,
    name: str = argument("NAME", "The name of the pack.", autocompletion=completion.packs),
    version: int | None = number_option("--version N", "The version to print. Default: the newest."),
) -> CommandResult:
    """Print the file of a published pack.

    Examples:
        digest topics pack show lab
        digest topics pack show lab --version 1
    """
    from digest.subscribers import stored_packs

    pack = stored_packs.get(work.session, name, version)
    published = dict(stored_packs.versions(work.session, name))
    at = terminal.format_cell(published[pack.version])
    return CommandResult(
        {
            **fields_of(pack, "name version description text"),
            "filters": dict(pack.filters),
            "dependency_versions": dict(pack.dependency_versions),
            "versions": [{"version": number, "published_at": at} for number, at in published.items()],
        },
        (
            [line.expandtabs(4).rstrip() for line in pack.text.rstrip().splitlines()],
            note(f"Version {pack.version} of {max(published)}, published {at}."),
        ),
    )


@command(opened, app)
def publish(
    work: Opened,
    source: str = argument(
        "FILE", "A pack as a text file (docs/filters.md); with --version, the name of a pack."
    ),
    version: int | None = number_option(
        "--version N", "Publish this version of a pack again, as a new version."
    ),
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
        terminal.require_yes(
            f"{readers} version {report['version']} of {pack.name}, and a letter about it.", yes=yes
        )
    with work.writing() as session:
        change = pack_updates.publish(
            session, work.site, pack, effect=comparison.effect, puts_back=version, now=now
        )
        report = change_report(session, change, comparison)
    return CommandResult(report, change_text(report, version, "is", "Get"))


# ── files and comparisons ───────────────────────────────────────────────────────────────────────


def read(session: Session, source: str, version: int | None) -> Pack:
    """Return the pack in a file, or a published version of the pack of this name."""
    from digest.subscribers import stored_packs
    from digest.topics import pack_files

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

    index: PaperIndex
    days: Sequence[date]

    def compare(self, before: str | None, after: str | None) -> FilterComparison:
        """Compare the matches of two filters, either of which may be absent."""
        from digest.topics import filter_backtest, filter_parser

        old, new = (filter_parser.parse(text) if text else None for text in (before, after))
        return filter_backtest.compare_filters(old, new, self.index, self.days)

    def effect(self, before: str, after: str) -> dict[str, int]:
        """Return the numbers of papers gained, papers lost, and days that have papers in the catalog."""
        found = self.compare(before, after)
        return {"gained": len(found.gained), "lost": len(found.lost), "days": len(set(self.days))}

    def papers(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """Return gained or lost papers for JSON."""
        from digest.papers.display_text import display

        papers = ((number, self.index.papers[number]) for number in numbers)
        return [
            {"id": paper.id, "day": f"{self.days[number]}", "title": display(paper.title)}
            for number, paper in papers
        ]


def catalog_comparison(session: Session, now: datetime) -> CatalogComparison:
    """Return the papers first seen up to `now`, indexed for comparing filters."""
    from digest.papers.catalog import queries
    from digest.topics.paper_index import PaperIndex

    papers = queries.papers(session, until=now)
    return CatalogComparison(index=PaperIndex(papers), days=first_seen_days(papers))


def first_seen_days(papers: Iterable[Paper]) -> list[date]:
    """Return the day each paper was first seen, in UTC."""
    return [paper.first_seen_at.astimezone(UTC).date() for paper in papers]


# ── reports ─────────────────────────────────────────────────────────────────────────────────────


def change_report(session: Session, change: PackChange, comparison: CatalogComparison) -> dict[str, Any]:
    """Return the changes in a new version of a pack, for JSON and for display."""
    from digest.subscribers import pack_updates

    return {
        "name": change.pack.name,
        "version": change.pack.version,
        "before": change.before.version if change.before else None,
        "is_new": change.is_new,
        "filters": [*filter_reports(change, comparison)],
        "subscribers": pack_updates.count_followers(session, change.applied),
        "blocked": [
            {
                "filter": one.canonical,
                "reason": one.blocked_reason,
                "subscribers": pack_updates.count_followers(session, [one]),
            }
            for one in change.blocked
        ],
    }


def filter_reports(change: PackChange, comparison: CatalogComparison) -> Iterator[dict[str, Any]]:
    """Yield the change to each filter in a pack: its texts, and the effect of the resolved filters."""
    from digest.topics import filter_parser, pack_resolution

    def resolved(pack: Pack | None, name: str, versions: PackVersions) -> str | None:
        if pack is None or name not in pack.filters:
            return None
        return pack_resolution.resolve_filter(
            filter_parser.parse(f"use:{pack.name}/{name}"), versions
        ).canonical

    old, new = (change.before.filters if change.before else {}), change.pack.filters
    for name in dict.fromkeys((*old, *new)):
        before, after = (
            resolved(change.before, name, change.packs_before),
            resolved(change.pack, name, change.packs_after),
        )
        kind = (
            "new"
            if name not in old
            else "gone"
            if name not in new
            else "same"
            if before == after
            else "changed"
        )
        compared = comparison.compare(before, after)
        yield {
            "name": name,
            "change": kind,
            "before_filter": old.get(name),
            "after_filter": new.get(name),
            "per_day": {
                "before": fields_of(compared.before, PER_DAY),
                "after": fields_of(compared.after, PER_DAY),
            },
            "gained": comparison.papers(compared.gained),
            "lost": comparison.papers(compared.lost),
        }


PER_DAY = "median p90 max days"  #: the statistics of papers per day that are reported


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
        yield note(f"note: {one['filter']} ({affected}) does not change: {one['reason']}")


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
