"""Define papers, store them in the catalog and compute their trending scores."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.papers.bylines import byline
    from digest.papers.display_text import display
    from digest.papers.identifiers import SCHEMES_BY_STRENGTH, id_in, normalised_id
    from digest.papers.paper_record import (
        NO_IDS,
        Announcement,
        DumpOrder,
        Organization,
        Paper,
        PaperLinks,
        Record,
        fold,
        links_of,
        title_key,
    )
    from digest.papers.public_view import PublicPart, PublicRules
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "NO_IDS",
    "SCHEMES_BY_STRENGTH",
    "Announcement",
    "DumpOrder",
    "Organization",
    "Paper",
    "PaperLinks",
    "PublicPart",
    "PublicRules",
    "Record",
    "byline",
    "display",
    "fold",
    "id_in",
    "links_of",
    "normalised_id",
    "title_key",
]
