"""Convert style sheets to inline styles, because many mail programs ignore style sheets.

premailer is slow and not thread-safe, so it runs under a lock, and once per template instead of once per
letter.
"""

from __future__ import annotations

import re
from threading import Lock

WRITTEN_BY_HAND = ["width", "height", "align", "valign", "bgcolor"]
LOCK = Lock()
STYLES = re.compile(r"""(?<= style=)(?:"[^"]*"|'[^']*')|<style.*?</style>""", re.DOTALL)
GAPS = re.compile(r"\s*([{};:,])\s+")  #: each letter has about three hundred; no mail program needs them


def inline(page: str) -> str:
    """Return `page` with the style sheet in its head moved onto its elements.

    `!important` stays in the media queries; otherwise inline styles would override the rules for phones
    and dark mode. Nothing is fetched. No presentational attributes are added; the templates contain them.
    """
    from premailer import Premailer  # the import takes 0.1 s, and many commands send no mail

    with LOCK:
        inlined: str = Premailer(
            page,
            allow_network=False,
            keep_style_tags=False,
            strip_important=False,
            disable_validation=True,
            disable_basic_attributes=WRITTEN_BY_HAND,
            cssutils_logging_level=50,
        ).transform(pretty_print=False)
    short = STYLES.sub(lambda found: GAPS.sub(r"\1", found[0]), inlined)
    return f"{short}\n"  # a text ends with a line end
