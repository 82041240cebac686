"""Invented papers of six days, so that pages have counts, topics and something to preview."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from tests.support.product_processes import Installation

DAYS = 6
A_DAY = 14  #: papers
SUBJECTS = (
    ("Flow Matching", "cs.LG",
     "Flow matching trains image models without noise schedules. We show that flow matching {} keeps the quality of diffusion models at a third of the steps."),
    ("Household Robots", "cs.RO",
     "Household robots fail in silence. We find that robots which ask one question {} avoid half of their failures."),
    ("Language Models", "cs.CL",
     "Large language models forget what they have read. We introduce a written memory {}, and measure it on long documents."),
    ("Speech Recognition", "eess.AS",
     "Speech recognition in kitchens is hard. We present an array of microphones {}, and a public set of recordings."),
    ("Protein Motion", "q-bio.BM",
     "Protein structures move. We show how to predict their motion {}, with clinical data of nine hospitals."),
    ("Attention", "cs.LG",
     "Attention is computed for every pair of words. We prune it {}, and lose nothing that a reader would notice."),
    ("Convection", "physics.ao-ph",
     "Heavy showers are local. We train a model of convection {}, and it warns of floods two hours earlier."),
)  # fmt: skip
ENDINGS = (
    "in Twelve Lines", "Without Labels", "From One Example", "at the Edge of the Sea", "on a Small Budget",
    "for Slow Machines", "After a Long Winter", "in Bad Weather", "on a Single Card", "Across Nine Cities",
    "With a Stopwatch", "by Candlelight",
)  # fmt: skip
AUTHORS = (("Mara Ito", "Ben Okafor"), ("Nguyễn Văn An", "Ines de la Cruz"), ("Lena Holm", "Tomas Aguiar"))


def load(installation: Installation, folder: Path, *, until: datetime | None = None) -> None:
    """Load a dump for each of the six days up to a moment, by default the present."""
    last = until or datetime.now(UTC)
    for back in range(DAYS - 1, -1, -1):
        day = (last - timedelta(days=back)).date()
        path = folder / f"papers-{day}.json"
        path.write_text(json.dumps(list(papers_of(DAYS - back, f"{day}"))))
        moment = min(last, datetime.combine(day, time(6), UTC))
        installation.run(
            "intake", str(path), "--date", f"{day}", "--order", "ranked", "--now", moment.isoformat()
        )


def papers_of(number: int, day: str) -> Iterator[dict[str, Any]]:
    """Yield the papers of one day, by rank; no two papers of the week have the same title."""
    for rank in range(A_DAY):
        place = (number - 1) * A_DAY + rank
        subject, category, abstract = SUBJECTS[place % len(SUBJECTS)]
        ending = ENDINGS[place % len(ENDINGS)]
        yield {
            "title": f"{subject} {ending}",
            "abstract": abstract.format(ending.lower()),
            "authors": AUTHORS[rank % len(AUTHORS)],
            "published": "2019-05-02" if rank == 3 else day,
            "categories": [category],
            "url": f"https://arxiv.org/abs/26{number:02d}.{rank + 10000:05d}",
            "upvotes": 90 - 5 * rank,
        }


def library(subject: str = "Flow Matching") -> str:
    """Return a BibTeX library about a subject."""
    return "\n".join(
        f"@article{{key{number},\n  title = {{{subject} {ending}}},\n  author = {{Ito, Mara}},\n"
        f"  year = {{2025}}\n}}"
        for number, ending in enumerate(ENDINGS)
    )
