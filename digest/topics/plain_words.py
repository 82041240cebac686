"""Read plain words as a description: `protein structure, microscopy`.

Readers type words; the filter language would look for papers with all of them. Where a reader types, several words
without operators or quotes are therefore read as `about:`, and commas separate alternatives. Stored filters, packs,
commands and imports are not read in this way.
"""

from __future__ import annotations

import re

from digest.errors import BadFilter
from digest.topics.filter_parser import parse
from digest.topics.paper_index import PaperIndex

_SIGNS = re.compile(r'["“”„():*~\[\]{}&|]|(?<!\S)(?:AND|OR|NOT|ANDNOT)(?!\S)|(?<!\S)[-!−–]')


def as_filter(written: str) -> str:
    """Return the filter for what a reader typed; one word, and anything with quotes or operators, stays as it is."""
    alternatives = [" ".join(one.split()) for one in re.split("[,;]", written) if one.strip()]
    if _SIGNS.search(written) or len(" ".join(alternatives).split()) < 2:
        return written
    read = " OR ".join([f'about:"{one}"' if " " in one else one for one in alternatives])
    try:
        return parse(read).canonical
    except BadFilter:  # for example, because it has only words such as "of the"
        return written


def both_readings(written: str, index: PaperIndex) -> str:
    """Return how plain words are read, and what both readings find; "" if there is only one reading."""
    read = as_filter(written)
    if read == written:
        return ""
    found, exact = [index.matches(parse(text)).bit_count() for text in (read, written)]
    return f"Read as {read}, which {found:,} of the last {index.size:,} papers match; {exact:,} have all of these words."
