"""Write invented dumps in the layouts of real dumps, and read them."""

from __future__ import annotations

import io
from datetime import date
from pathlib import Path

from digest.dumps import laws
from digest.dumps.formats import recognition
from digest.dumps.formats.reader_interface import DumpReading, RecordProblem

SHARED = Path(__file__).parents[3] / "shared"
DAY = date(2026, 11, 20)


def reading(content: str | bytes, *, observed_on: date = DAY, format: str | None = None) -> DumpReading:
    """Read a dump from memory."""
    raw = content.encode() if isinstance(content, str) else content
    return recognition.read(io.BytesIO(raw), name="dump", observed_on=observed_on, format=format)


def items(content: str | bytes, **options: object) -> list[object]:
    """Return every record and problem of a dump."""
    return list(reading(content, **options).records)  # type: ignore[arg-type]


def doubts(content: str | bytes, **options: object) -> list[str]:
    """Return why a dump would be held."""
    found = laws.checked(reading(content, **options))  # type: ignore[arg-type]
    return [one.reason for one in found if isinstance(one, RecordProblem) and one.is_doubt]


def abstract(subject: str) -> str:
    """Return an abstract of a usual length about `subject`."""
    return (
        f"We study {subject} in a setting that earlier work left open. Our method needs no labels and no "
        f"tuning, and it carries over to {subject} at a larger scale without a change of a single constant. "
        "On four collections that we gathered for this purpose it halves the error of the strongest rival, "
        "and an ablation shows which of its three parts is to be thanked for that. We also describe where "
        "it fails, and why we believe that no method of this family can do better."
    )


def pairs(*papers: tuple[str, str]) -> str:
    """Return a dump in the layout without blank lines, the button glued to the first title."""
    head = "Get trending papers in your email inbox once a day!\nGet trending papers in your email inbox!\n"
    return head + "Subscribe" + "\n".join(f"{title}\n{text}" for title, text in papers)


def blocks(*papers: tuple[str, ...], day: str = "Nov 19") -> str:
    """Return a dump in the layout with blank lines; a paper is title, abstract and perhaps meta lines."""
    head = (
        "new\n\nGet trending papers in your email inbox!\n\nSubscribe\n\nDaily Papers\n\n"
        f"byAK and the research community\n\n{day}\n\n"
    )
    return head + "\n\n".join("\n\n".join(paper) for paper in papers)


def headings(*papers: tuple[str, ...]) -> str:
    """Return a dump in Markdown: a paper under each heading, linked, with perhaps meta lines."""
    head = "# Daily Papers\n\nGet trending papers in your email inbox!\n\n"
    return head + "\n\n".join(
        "\n\n".join((f"### [{title}](https://huggingface.co/papers/2611.{number:05d})", *rest))
        for number, (title, *rest) in enumerate(papers)
    )


def meta(n_authors: int, printed: str) -> str:
    """Return the meta lines under a paper."""
    return f"  • {n_authors} authors\n·\n{printed}"
