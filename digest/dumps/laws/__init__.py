"""Check what was read from a dump, whoever read it: nothing is lost, and every record looks like a paper."""

from __future__ import annotations

from itertools import chain

from digest.dumps.formats import page_copy
from digest.dumps.formats.reader_interface import DumpReading, Items
from digest.dumps.formats.reader_interface import RecordProblem as RecordProblem
from digest.dumps.laws import conservation, plausibility, unused_fields
from digest.papers.paper_record import Record

PAGE_FORMATS = ("page", "html")
MAX_JUDGED = 3_000  #: only this many records at the beginning of a dump are checked for plausibility


def checked(reading: DumpReading) -> Items:
    """Yield the items of a dump, then a remark for each law that they break.

    A remark that is a doubt holds the dump.
    """
    judged: list[Record] = []
    tally = conservation.Tally()
    for item in reading.records:
        if isinstance(item, Record):
            tally.count(item)
            if len(judged) < MAX_JUDGED:
                judged.append(item)
        else:
            tally.rejected += not item.is_remark
            tally.has_faulty_lines |= item.reason.startswith("line ")
        yield item
    found = chain(
        conservation.losses(reading, tally),
        plausibility.faults(
            judged, is_page=reading.format in PAGE_FORMATS, may_be_other_text=may_be_other_text(reading)
        ),
        unused_fields.remarks(reading.source.sampled),
    )
    yield from found


def may_be_other_text(reading: DumpReading) -> bool:
    """Return whether a reader that also finds titles and abstracts in other texts read an unknown page."""
    return reading.format in ("page", "list") and not page_copy.is_known_layout(reading.source.head)
