"""Read the papers of an uploaded library (BibTeX, RIS or CSL-JSON) without storing the library."""

from __future__ import annotations

from datetime import datetime
from time import perf_counter

from starlette.datastructures import FormData, UploadFile

from digest import subscribers
from digest.errors import BadField
from digest.letters.figures_in_words import TRANSLATIONS
from digest.subscribers import ReadLibrary

_, ngettext = TRANSLATIONS.gettext, TRANSLATIONS.ngettext

FIELD = "library"


def uploaded_library(form: FormData, now: datetime) -> ReadLibrary | None:
    """Return the uploaded library, or None if nothing was uploaded.

    Raises BadField if the file is empty or too large, or if no papers were found in it.
    """
    upload = form.get(FIELD)
    if not isinstance(upload, UploadFile) or not has_file(form):
        return None
    found = subscribers.read_library(
        upload.file, name=FIELD, limits=subscribers.UPLOAD_LIMITS, now=now, seconds=perf_counter
    )
    if not found.papers:
        raise BadField(FIELD, _("We found no papers in this file. Export your library as BibTeX or RIS."))
    return found


def has_file(form: FormData) -> bool:
    """Return whether the visitor chose a file."""
    upload = form.get(FIELD)
    return isinstance(upload, UploadFile) and bool(upload.filename)


def sentence(library: ReadLibrary) -> str:
    """Return how many references were read, such as `We read 12 references. 1 could not be read.`"""
    read, failed = len(library.papers), len(library.problems)
    parts = [
        ngettext("We read %d reference.", "We read %d references.", read) % read,
        _("%d could not be read.") % failed if failed else "",
        "" if library.is_complete else _("The rest of the file was left out."),
    ]
    return " ".join(filter(None, parts))
