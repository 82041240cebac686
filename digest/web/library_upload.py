"""Read the papers of an uploaded library (BibTeX, RIS or CSL-JSON) without storing the library."""

from __future__ import annotations

from datetime import datetime
from time import perf_counter

from starlette.datastructures import FormData, UploadFile

from digest import subscribers
from digest.errors import BadField
from digest.letters.figures_in_words import TRANSLATIONS
from digest.papers import Paper

_ = TRANSLATIONS.gettext

FIELD = "library"


def uploaded_papers(form: FormData, now: datetime) -> tuple[Paper, ...]:
    """Return the papers of the uploaded library, or () if nothing was uploaded.

    Raises BadField if the file is empty or too large, or if no papers were found in it.
    """
    upload = form.get(FIELD)
    if not isinstance(upload, UploadFile) or not has_file(form):
        return ()
    found = subscribers.read_library(
        upload.file, name=FIELD, limits=subscribers.UPLOAD_LIMITS, now=now, seconds=perf_counter
    )
    if not found.papers:
        raise BadField(FIELD, _("We found no papers in this file. Export your library as BibTeX or RIS."))
    return found.papers


def has_file(form: FormData) -> bool:
    """Return whether the visitor chose a file."""
    upload = form.get(FIELD)
    return isinstance(upload, UploadFile) and bool(upload.filename)
