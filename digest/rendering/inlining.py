"""CSS put onto the elements it is meant for, since many mail programs read no style sheet.

premailer is the authority, and it is slow and not safe in threads: it runs once for a stencil,
under a lock, and never for a mail.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock

WRITTEN_BY_HAND = ["width", "height", "align", "valign", "bgcolor"]
LOCK = Lock()


@lru_cache(maxsize=256)
def inline(page: str) -> str:
    """Return `page` with the style sheet in its head moved onto its elements.

    `!important` stays in the media queries, or phones and dark mode would lose to inline styles;
    nothing is fetched; no presentational attribute is invented on a tag that must not have it.
    """
    from premailer import Premailer  # a tenth of a second to import, and many commands never mail

    with LOCK:
        inlined: str = Premailer(
            page,
            allow_network=False,
            keep_style_tags=False,
            strip_important=False,
            disable_validation=True,
            disable_basic_attributes=WRITTEN_BY_HAND,
            cssutils_logging_level=50,
        ).transform()
    return inlined
