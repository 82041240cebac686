"""Laws that hold whoever reads a dump: nothing is lost, and every record looks like a paper."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

from digest.dumps import laws
from digest.dumps.formats.reader_interface import RecordProblem
from digest.dumps.laws import plausibility
from digest.papers.paper_record import Record
from tests.dumps import abstract, doubts, reading

SUBJECTS = [
    "gravel",
    "kites",
    "owls",
    "fog",
    "bells",
    "moss",
    "tides",
    "looms",
    "anvils",
    "canals",
    "ferries",
    "lamps",
    "masts",
    "nets",
    "oars",
    "piers",
    "quays",
    "reefs",
    "sails",
    "tents",
]
RIGHT = [
    Record(
        title=f"A Study of {subject.capitalize()} (with 3 Figures), 2020: [Extended] $a<b$",
        abstract=abstract(subject),
        authors=("Ada Okafor", "Ito, K.", "The LOOM Collaboration"),
        n_authors=3,
        ids={"arxiv": f"2611.{number:05d}"},
        line=number,
    )
    for number, subject in enumerate(SUBJECTS, 1)
]


def remarks(content: str) -> list[str]:
    found = laws.checked(reading(content))
    return [one.reason for one in found if isinstance(one, RecordProblem) and one.is_remark]


def test_papers_whose_addresses_stand_in_a_list_but_were_not_read_hold_it() -> None:
    read = [
        f"- [A Study of {one.capitalize()}](https://arxiv.org/abs/2611.{n:05d})"
        for n, one in enumerate(SUBJECTS)
    ]
    lost = "See 10.5555/lost.1, arXiv:2611.77777v2 and https://openreview.net/forum?id=abcdefgh12.\n"

    assert remarks("# Kites\n" + "\n".join(read)) == []
    (few,) = remarks("# Kites\n" + "\n".join(read) + "\n\n" + lost[:20])
    assert few == (
        "21 addresses of papers stand in the file, but only 20 were read; the first that was not is on line 23: doi 10.5555/lost.1"
    )
    assert doubts("# Kites\n" + "\n".join(read) + "\n\n" + lost[:20]) == []
    (many,) = doubts("# Kites\n" + lost + "\n" + "\n".join(read))
    assert many.startswith(
        "23 addresses of papers stand in the file, but only 20 were read; the first that was not is on line 2"
    )


def test_works_that_a_paper_cites_are_not_lost_papers() -> None:
    cited = [{"DOI": f"10.5555/cited.{n}"} for n in range(30)]
    papers = [
        {
            "title": f"On {one}",
            "abstract": abstract(one) + " See 10.5555/quoted.",
            "doi": f"10.5555/{one}",
            "references": cited,
        }
        for one in SUBJECTS
    ]
    tags = "".join(f"TY  - JOUR\nTI  - On {one}\nDO  - 10.5555/{one}\nER  - \n" for one in SUBJECTS)

    assert doubts(json.dumps(papers)) == doubts(json.dumps(papers).replace("/", "\\/")) == []
    assert doubts(tags.replace("ER  -", "CR  - 10.5555/cited\n       10.5555/more\nER  -")) == []
    unread = json.dumps([{"title": f"On {one}", "n_authors": 2, "odd": f"10.5555/{one}"} for one in SUBJECTS])
    assert doubts(unread) == [
        "20 addresses of papers stand in the file, but only 0 were read; the first that was not is on line 1: doi 10.5555/gravel"
    ]


def test_fields_with_text_that_are_not_used_are_named() -> None:
    rows = "".join(
        f'"On {one}","{abstract(one)}","A short gloss about {one} for everybody",x\n' for one in SUBJECTS
    )

    assert remarks(f"title,abstract,ori_summary,code\n{rows}") == [
        "not used (number of texts): ori_summary (20)"
    ]
    entries = "".join(
        f"@article{{{one}, title={{On {one}}}, year=2026, annote={{Read this about {one} by Monday}}}}\n"
        for one in SUBJECTS
    )
    assert remarks(entries) == ["not used (number of texts): annote (20)"]
    elements = "".join(
        f"<item><title>On {one}</title><link>https://arxiv.org/abs/2611.{n:05d}</link><description>{abstract(one)}</description>"
        f"<pubDate>Fri, 20 Nov 2026 00:00:00 GMT</pubDate><editorial>Read this about {one} by Monday</editorial></item>"
        for n, one in enumerate(SUBJECTS)
    )
    assert remarks(f"<rss><channel>{elements}</channel></rss>") == [
        "not used (number of texts): editorial (20)"
    ]


#: What a misread record looks like.
WRONG = {
    "markup": {"title": "[Winds and Their Graphs]("},
    "a heading": {"title": "h3. *Winds and Their Graphs*"},
    "an address": {"title": "Winds and Their Graphs https://kites.example"},
    "a date at the end": {"title": "Winds and Their Graphs Mar 11, 2023"},
    "a count at the end": {"title": "Winds and Their Graphs 5 authors"},
    "an id": {"title": "Submitted Oct 1, 2026[arXiv:2611.08940] (pdf)"},
    "a macro": {"title": ".SS Winds and Their Graphs"},
    "cut within brackets": {"title": "Winds and Their Graphs (Technical"},
    "cut at a name": {"title": "Winds and Their Graphs (2017), F"},
    "names": {"title": "Ada Okafor,Kenji Ito, Lena Brandt"},
    "a venue": {"title": "ICLR 2024 Spotlight"},
    "a conference": {"title": "IEEE International Conference on Kites and Their Tails"},
    "a button": {"title": "Project page"},
    "a day": {"title": "[17 Nov 2022]"},
    "one token": {"abstract": "nan"},
    "captions of links": {"abstract": abstract("kites") + " arXiv PDF Code"},
    "a list of names": {"authors": ("['Ada Okafor', 'Kenji Ito']",), "n_authors": 1},
    "names in a row": {"authors": ("Okafor, A., Ito, K., & Lind, P.",), "n_authors": 1},
    "a number of authors": {"authors": ("23",), "n_authors": 1},
    "a comment among names": {"authors": ("Shi, % some comment Fazhan",), "n_authors": 1},
    "others": {"authors": ("Jo Lind et al.",), "n_authors": 1},
    "markup in the abstract": {"abstract": "<jats:p>We steer kites.</jats:p> " + abstract("kites")},
    "more authors than counted": {"n_authors": 2},
}


#: Titles of papers in which each part could be a name.
TITLES_LIKE_NAMES = (
    "Attention Is Mostly Local, Except When It Matters",
    "Quantum Error Correction With Learned, Local Decoders",
    "Bigger Models, Better Results",
)


def test_records_that_do_not_look_like_papers_hold_a_dump_and_a_few_odd_ones_do_not() -> None:
    def held(records: list[Record]) -> list[str]:
        found = plausibility.faults(records, is_page=False, may_be_other_text=False)
        return [one.reason for one in found if isinstance(one, RecordProblem)]

    assert held(RIGHT) == []
    for name, fields in WRONG.items():
        wrong = [replace(one, **fields) for one in RIGHT[:4]]  # type: ignore[arg-type]
        assert held([*wrong, *RIGHT[4:]]), name
        assert held(wrong[:2]), name
        assert not held([*wrong[:1], *RIGHT[1:]] * 3) or name in {
            "markup",
            "a heading",
            "a macro",
            "an address",
            "an id",
        }, name
    pairs = [replace(one, title=title) for one, title in zip(RIGHT, TITLES_LIKE_NAMES, strict=False)]
    assert not held([*pairs, *RIGHT[len(pairs) :]])
    assert held([replace(one, title="Ada Okafor, Kenji Ito") for one in RIGHT])
    below = [one.ids["arxiv"] for one in RIGHT[1:]]
    swallowed = [
        replace(one, abstract=f"{one.abstract} arXiv:{known} [pdf")
        for one, known in zip(RIGHT, below, strict=False)
    ]
    assert held(swallowed)
    alike = [replace(one, abstract=RIGHT[0].abstract) for one in RIGHT]
    assert held([replace(one, title=f"{n} {one.title}") for n, one in enumerate(alike)])
    assert held([replace(one, title="On Kites", abstract=f"{n}") for n, one in enumerate(RIGHT)])
    assert not held([RIGHT[0]] * 9)


def test_the_reason_counts_the_papers_read_and_shows_three_of_them() -> None:
    wrong = [replace(one, title=f"[{one.title}](", published=date(2026, 1, 1)) for one in RIGHT]

    (found, *_) = plausibility.faults(wrong, is_page=False, may_be_other_text=False)

    assert isinstance(found, RecordProblem)
    assert found.reason.startswith(
        '20 of its 20 papers have a title with markup or an address, for example line 1: "[A Study of Gravel (with 3 Figures)'
    )
    assert found.reason.count("line ") == 3


def test_dates_that_belong_to_the_neighbours_hold_a_dump() -> None:
    right = [
        replace(
            one,
            published=date(2010 + n % 14, 1 + n % 12, 3),
            ids={"arxiv": f"{10 + n % 14}{1 + n % 12:02d}.{n:05d}"},
        )
        for n, one in enumerate(RIGHT)
    ]
    days = [one.published for one in right]
    wrong = [replace(one, published=day) for one, day in zip(right, [*days[1:], None], strict=True)]

    def held(records: list[Record]) -> bool:
        return any(plausibility.faults(records, is_page=False, may_be_other_text=False))

    assert (held(right), held(wrong), held([replace(one, published=date(2026, 1, 1)) for one in right])) == (
        False,
        True,
        False,
    )


def test_dates_or_counts_that_only_one_end_of_a_page_lacks_hold_it() -> None:
    def dated(skipped: int) -> str:
        return "".join(
            f"{f'Published on Nov {n}, 2026' * (n != skipped)}\n\n### [A Study of {one.capitalize()}](https://arxiv.org/abs/2611.0000{n})\n\n{abstract(one)}\n\n"
            for n, one in enumerate(SUBJECTS[:8], 1)
        )

    counted = [replace(one, signals={"upvotes": 3.0} if n else {}) for n, one in enumerate(RIGHT)]

    def is_held(records: list[Record], *, is_page: bool = True) -> bool:
        found = plausibility.faults(records, is_page=is_page, may_be_other_text=False)
        return any("may have the count" in str(one) for one in found)

    assert is_held(counted)
    assert not is_held(counted, is_page=False)
    assert not is_held(counted[1:])
    assert not is_held(counted[:5])
    assert "since one end of the list lacks it" in " ".join(doubts(dated(0)))


def test_ids_that_belong_to_the_papers_below_hold_a_list_of_any_length() -> None:
    papers = "".join(
        f"### [A Study of {one.capitalize()}](https://arxiv.org/abs/2611.{n:05d})\n\n{abstract(one)}\n\n"
        for n, one in enumerate([*SUBJECTS, *(f"old {one}" for one in SUBJECTS)], 2)
    )
    last = f"### A Study of Zithers\n\n{abstract('zithers')}\n"

    assert not doubts(f"# Daily Papers\n\n{papers}")
    assert not doubts(f"# Daily Papers\n\narXiv:2611.00001v1\n\n{papers}")
    assert doubts(f"# Daily Papers\n\narXiv:2611.00001v1\n\n{papers}{last}")


def test_a_list_of_other_things_is_held_unless_its_entries_have_authors() -> None:
    def entries(share: float, names: str) -> str:
        return "# Reading\n\n" + "".join(
            f"- [A Study of Rarer {one.capitalize()}](https://{'arxiv.org/abs/2611.1' if n < share * len(SUBJECTS) else 'example.org/p'}{n:04d}){names}\n"
            for n, one in enumerate(SUBJECTS)
        )

    assert doubts(entries(0.4, ""))
    assert not doubts(entries(0.6, ""))
    assert not doubts(entries(0.0, " *Ada Okafor · Kenji Ito*"))
