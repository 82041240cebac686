"""Write the subject of a digest, its preheader, and its headline."""

from __future__ import annotations

from collections.abc import Sequence

from digest.letters.figures_in_words import cut_at_word

MAX_SUBJECT_LENGTH = 60
MAX_PREHEADER_LENGTH = 90
CATCH_UP = "catch-up"  #: used instead of a cadence for the first digest after a pause of several days


def catch_up_counts(missed: int, papers: int, *, is_on_topics: bool) -> str:
    """Return the counts of a catch-up, such as `While you were away: the top 9 of 212 matches`.

    A digest with trending papers counts papers, since no filter matched them.
    """
    missed_in_words = f"{missed} {'matches' if is_on_topics else 'papers'}"
    if papers == 1:
        return f"While you were away: the best of {missed_in_words}"
    return f"While you were away: the top {papers} of {missed_in_words}"


def subject(cadence: str, title: str, count: int) -> str:
    """Return a subject such as `Flow Matching in Twelve Lines`; it names a paper unless this is a catch-up."""
    if cadence == CATCH_UP:
        return "While you were away: the top " + ("paper" if count == 1 else f"{count} papers")
    if cadence in ("weekly", "monthly"):
        span = "Your month" if cadence == "monthly" else "Your week"
        lead = f"{span}: {count} papers, led by " if count > 1 else f"{span}: "
        return lead + cut_title(title, MAX_SUBJECT_LENGTH - len(lead))
    return cut_title(title, MAX_SUBJECT_LENGTH)


def cut_title(title: str, max_length: int) -> str:
    """Return a title, whole or cut at a word; nothing follows a question that is whole."""
    cut = cut_at_word(title, max_length)
    return cut.removesuffix("…") if cut.endswith("?…") else cut


def preheader(titles: Sequence[str], *, is_catch_up: bool = False) -> str:
    """Return the preheader, which mail programs show after the subject: a title, and a second one if it fits.

    `titles` begins with the second paper or, in a catch-up, whose subject names no paper, with the first.
    """
    lead = "First: " if is_catch_up else "Also: "
    title = cut_at_word(titles[0], MAX_PREHEADER_LENGTH - len(lead))
    if len(titles) > 1 and len(title) <= 42:
        rest = MAX_PREHEADER_LENGTH - len(lead) - len(title) - 3
        return f"{lead}{title} · {cut_at_word(titles[1], rest)}"
    return lead + title
