"""Ten invented papers as a usual digest has them, to measure and to look at its letter.

`python -m tests.letters.ten_papers` prints the bytes of the letter; with a file name, it writes its HTML.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

from digest.editions.compose import Digest, Section
from digest.letters.letter_rendering import Personalization
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.templates import Templates
from digest.papers.paper_record import Paper
from digest.settings import templates_dir
from digest.site.site_profile import Site
from tests.letters.invented_papers import NOW, copy_for, letters_of, pressed

TITLES_AND_ABSTRACTS = (
    ("Flow matching in twelve lines of code", "Flow matching trains a vector field to carry noise to data. Most code for it is long. We show that twelve lines are enough to reach the quality of the usual library on four sets of images. The straight paths need half as many steps."),
    ("Robots that ask before they act break fewer cups", "Household robots act on vague requests. We present a planner that asks one short question when two plans differ in cost. In 600 trials, it broke 41% fewer cups than a planner that guesses, and people answered in three seconds."),
    ("Attention that forgets on purpose", "Long contexts fill memory with words that nobody needs again. We introduce a gate that drops keys once later layers ignore them. It halves the memory of a language model at equal perplexity, and needs no training of the rest."),
    ("How river gauges disagree, and what models learn from it", "Two gauges on one river often report different floods. We compare 312 pairs of gauges over twenty years. We find that models trained on both learn the bias of the nearer one, and that a shared offset removes two thirds of the error."),
    ("A benchmark of questions that have no answer", "Systems that answer questions seldom say that they cannot. We collect 9,000 questions without an answer from libraries. The best of eleven systems invents an answer for 38% of them; asking for a source first lowers this to 12%."),
    ("Small models check large proofs", "Proof assistants reject most proofs that language models write. We train a model of 300 million parameters to predict the first wrong step. It finds that step in 71% of failed proofs, so that only the rest of the proof is written again."),
    ("Speech without a studio: corpora from old radio", "Recordings of small languages are rare. We describe how to align broadcasts with newspaper text. The result is 1,400 hours in nine languages, and recognizers trained on it make 22% fewer errors than those trained on read speech."),
    ("What a graph network sees in a circuit", "Graph networks predict the timing of circuits, but not why. We derive an explanation that names the gates behind a prediction. Engineers who saw it fixed slow paths in 4 of 5 cases, against 2 of 5 with the usual heat map."),
    ("Planning bus lines with commuters in the loop", "Bus networks are planned from counts at stops. We let 2,100 commuters compare pairs of networks. A network learned from their answers shortens the mean journey by six minutes at the same cost, mostly for those who change twice."),
    ("Sharper lenses from cheaper glass", "Phone cameras correct cheap lenses in software. We propose to design the lens and the network that corrects it together. The pair resolves 18% more detail than the best lens alone, and its glass costs a third."),
)  # fmt: skip
AUTHORS = (
    ("Ito, Aki", "Okafor, Ngozi", "Lind, Per", "Moreau, Zoé"),
    ("Lindqvist, Mara", "Osei, Kofi"),
    ("Tanaka, Yui",),
)


def ten_papers() -> tuple[Paper, ...]:
    """Return ten papers with arXiv ids, a third of them with code."""
    return tuple(
        Paper(
            id=number,
            title=title,
            abstract=abstract,
            ids={"arxiv": f"2611.{1200 + number * 7:05d}"},
            authors=AUTHORS[number % 3],
            n_authors=7 if number % 3 == 0 else None,
            published=date(2026, 11, 19),
            categories=("cs.LG", "cs.RO", "cs.CL")[number % 3 : number % 3 + 1],
            urls=(f"https://github.com/example/paper-{number}",) if number % 3 == 0 else (),
            first_seen_at=NOW,
        )
        for number, (title, abstract) in enumerate(TITLES_AND_ABSTRACTS, start=1)
    )


def letter_of_ten(
    site: Site, templates: Templates, *, abstracts: str = "short"
) -> tuple[DigestLetters, Digest, Personalization]:
    """Return what the letter of these papers is made from: three topics, two of them with more matches."""
    figures = {
        "p1": "42 upvotes since yesterday",
        "p3": "listed two days running",
        "p6": "17 upvotes since yesterday",
    }
    sections = (
        Section("Learning", 1, (1, 3, 5, 6), 22),
        Section("Robots and sensors", 2, (2, 4, 8), 0),
        Section("Trending", None, (7, 9, 10), 4),
    )
    copy = copy_for(
        filters={1: '"flow matching" OR attention OR proof* OR questions', 2: "robot* OR gauge OR circuit"},
        paper_token="2b4b1c.7-0.Q9xK2fZc7uV1mB4tR8yLwPnE",
        browser_url="https://digest.example.org/v/2b4b1c.7-0-daily-2026-11-20.QxM3Yk9wT1pVbGFzZGZnaGpr",
        unsubscribe_address="u+2b4b1c.7-0.q9xk2fzc@example.org",
    )
    digest = Digest(sections=sections, checked=43, silent=("Speech",), abstracts=abstracts)
    return letters_of(pressed(ten_papers(), **figures), site, templates), digest, copy


if __name__ == "__main__":
    example = Site(
        name="Example Digest", url="https://digest.example.org", sender_name="Example Digest",
        sender_address="digest@example.org", postal_address="Example Lab, 1 Example Street, 0150 Oslo, Norway",
        keys=(b"key",), inbound_domain="example.org",
    )  # fmt: skip
    html = ""
    for with_commands in (False, True):
        site = example if with_commands else replace(example, inbound_domain="")
        letters, content, reader = letter_of_ten(site, Templates(templates_dir()))
        html = letters.letter(content, reader).html
        size = len(letters.message(content, reader))
        print(
            f"ten papers, {'with' if with_commands else 'without'} mail commands: {size:,} bytes, HTML {len(html.encode()):,}"
        )
    for name in sys.argv[1:]:
        Path(name).write_text(html)
