"""Read the papers of an uploaded library (BibTeX, RIS or CSL-JSON) without storing the library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from time import perf_counter

from starlette.datastructures import FormData, UploadFile

from digest import plurals
from digest.errors import BadField
from digest.process.caches import Caches
from digest.subscribers import library_file
from digest.subscribers.library_file import UPLOAD_LIMITS, ReadLibrary

FIELD = "library"
WAIT_SECONDS = 3.0  #: how long an upload waits for another, which keeps a processor busy for seconds


@contextmanager
def turn(caches: Caches) -> Iterator[None]:
    """Let one library be read at a time; raise BadField if others take too long."""
    lock = caches.get_or_make("library", "turn", Lock)
    if not lock.acquire(timeout=WAIT_SECONDS):
        raise BadField(FIELD, "Other libraries are being read. Try again in a minute.")
    try:
        yield
    finally:
        lock.release()


def uploaded_library(form: FormData, now: datetime) -> ReadLibrary:
    """Return the uploaded library; raise BadField if it is empty or too large, or if no papers were found in it."""
    upload = form[FIELD]
    assert isinstance(upload, UploadFile)  # noqa: S101  (`has_file` was asked)
    found = library_file.read_library(
        upload.file, name=FIELD, limits=UPLOAD_LIMITS, now=now, seconds=perf_counter
    )
    if not found.papers:
        raise BadField(FIELD, "We found no papers in this file. Export your library as BibTeX or RIS.")
    return found


def has_file(form: FormData) -> bool:
    """Return whether the visitor chose a file."""
    upload = form.get(FIELD)
    return isinstance(upload, UploadFile) and bool(upload.filename)


def sentence(library: ReadLibrary) -> str:
    """Return how many references were read, such as `We read 12 references. 1 could not be read.`"""
    read, failed = len(library.papers), len(library.problems)
    parts = [
        f"We read {plurals.count(read, 'reference')}.",
        f"{failed} could not be read." if failed else "",
        "" if library.is_complete else "The rest of the file was left out.",
    ]
    return " ".join(filter(None, parts))
