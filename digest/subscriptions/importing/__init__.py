"""Subscribers from a CSV file: bad rows are told with line and reason, good ones go on.

A file can be imported again and again: what it says already stands is left alone. It never brings
back who has left, never overrules a suppression, and never activates anybody without consent.
Rows are looked up and written by hundreds, however long it is, and of those that went well none is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from sqlalchemy.orm import Session

from digest import garbage
from digest.errors import UsageError
from digest.links import Site
from digest.subscriptions import inviting
from digest.subscriptions.importing.cells import Pages, Row, Wanted, checked, numbered, rows_in
from digest.subscriptions.importing.reports import Imported, Problem
from digest.subscriptions.importing.writing import Desk, Layer, write

__all__ = ["Imported", "Problem", "import_rows", "rows_in"]

AT_ONCE = 1_000  #: rows looked up and written together


def import_rows(
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    consent: str | None = None,
    invited_by: str = "",
    now: datetime,
) -> Imported:
    """Add and update subscribers from `rows`; `consent` says how the active ones agreed.

    Without it they come in pending, and each is asked once; `invited_by` says who put them on the list.
    Lines are counted as in the file where `rows` can tell (a `csv.DictReader`), else with the header as
    line 1.
    """
    moments = inviting.free_moments(session, now)
    desk = Desk(session, site, consent=consent or "", invited_by=invited_by, now=now, moments=moments)
    wanted = good_rows(rows, Pages(session), desk.done, may_activate=bool(consent))
    while batch := list(islice(wanted, AT_ONCE)):
        with garbage.held_off():  # a batch makes tens of thousands of values, and hardly a cycle
            for layer in layers(batch):
                write(desk, layer)
    desk.done.problems.sort(key=lambda problem: problem.line)
    return desk.done


def good_rows(rows: Iterable[Row], pages: Pages, done: Imported, *, may_activate: bool) -> Iterator[Wanted]:
    """Yield the rows that can be taken, and note why the others cannot."""
    for line, row in numbered(rows):
        try:
            yield checked(row, line, pages, may_activate=may_activate)
        except UsageError as error:
            done.reject(line, str(error))


def layers(batch: Iterable[Wanted]) -> Iterator[Layer]:
    """Yield the rows of a batch in as many layers as the same address stands in it, in their order."""
    left = list(batch)
    while left:
        layer: Layer = {}
        left = [wanted for wanted in left if layer.setdefault(wanted.address.key, wanted) is not wanted]
        yield layer
