"""Hostile files cause no crash, no hang and no memory growth, and each is refused with a reason."""

from __future__ import annotations

import gzip
import html
import io
import json
import tracemalloc
from typing import Any

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from digest.dumps import laws
from digest.dumps.formats import recognition
from digest.dumps.formats.reader_interface import RecordProblem
from digest.dumps.formats.recognition import FORMATS
from digest.errors import UnreadableDump
from digest.papers.display_text import display
from digest.papers.paper_record import Record
from tests.dumps import DAY, abstract, items, meta, reading
from tests.dumps.test_formats import BIB, CSV, HF, ITEM, KAGGLE, LISTING, NBIB, RIS, RSS
from tests.support import paper_pages
from tests.support.growth import assert_proportional

GRAVEL = abstract("gravel")

#: One good dump of every format.
GOOD = {
    "hf-json": json.dumps([HF, HF], indent=1),
    "kaggle": "\n".join([json.dumps(KAGGLE)] * 3),
    "semantic-scholar": json.dumps({"data": [{"paperId": "a" * 40, "title": "T", "year": 2026, "abstract": "A"}]}),
    "openalex": json.dumps(
        {"results": [{"id": "https://openalex.org/W1", "title": "T", "publication_date": "2026-11-16"}
                     | {"abstract_inverted_index": {"We": [0], "sort": [1]}, "authorships": []}]}),
    "biorxiv": json.dumps({"messages": [], "collection": [{"doi": "10.1101/1", "title": "T", "authors": "A, B.; C, D."}]}),
    "datacite": json.dumps({"data": [{"attributes": {"doi": "10.1234/x", "titles": [{"title": "T"}], "creators": [{"name": "A"}]}}]}),
    "acl-anthology": '<collection id="x"><volume id="1"><meta><year>2026</year></meta><paper id="1"><title>T</title></paper></volume></collection>',
    "csl-json": json.dumps([{"type": "article", "title": "T", "DOI": "10.1234/x", "issued": {"date-parts": [[2026, 5]]}}]),
    "hf-page": '<!DOCTYPE html><html><head><link href="https://huggingface.co/"></head><body><div data-target="DailyPapers"'
    f' data-props="{html.escape(json.dumps({"dailyPapers": [HF, HF]}))}"></div></body></html>',
    "json": '{"title": "T", "abstract": "A", "ids": {"doi": "10.1234/x"}, "signals": {"upvotes": 3}}\n',
    "feed": RSS % (ITEM % ("new", "new")),
    "oai-pmh": "<OAI-PMH><responseDate>2026-11-20T00:00:00Z</responseDate><ListRecords><record><header/><metadata>"
    "<arXivRaw><id>2611.00001</id><title>T</title><authors>A and B</authors><abstract>A</abstract></arXivRaw>"
    "</metadata></record></ListRecords></OAI-PMH>",
    "pubmed": "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>T</ArticleTitle>"
    "<Abstract><AbstractText>A</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>",
    "arxiv-listing": LISTING,
    "nbib": NBIB,
    "ris": RIS,
    "bibtex": BIB,
    "csv": CSV,
    "html": paper_pages.page("results", paper_pages.invented_papers(4)),
    "list": "# Gravel\n\n" + "".join(f"- [A Study of Gravel {n}](https://arxiv.org/abs/2611.0000{n}) - Ada Okafor\n" for n in range(4)),
    "page": (paper_pages.FOLDER / "lines" / "lynx.txt").read_text(),
}  # fmt: skip


def test_there_is_a_good_dump_of_every_format() -> None:
    assert {format: reading(content).format for format, content in GOOD.items()} == {
        format.NAME: format.NAME for format in FORMATS
    }
    assert all(isinstance(item, Record) for content in GOOD.values() for item in items(content))


# ── a corpus ────────────────────────────────────────────────────────────────────────────────────


def problem(content: str | bytes) -> str:
    """Return why a dump, or its one bad record, is refused."""
    try:
        found = [item for item in items(content) if isinstance(item, RecordProblem)]
    except UnreadableDump as error:
        return str(error)
    return found[0].reason


def own(**fields: Any) -> str:
    return json.dumps({"title": "T", "abstract": "A", **fields})


BOMB = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(own() + "\n" + "[" * 200_000, "nested too deeply", id="deep lines"),
        pytest.param('[{"title": "T", "doi": ' + "[" * 200_000, "nested too deeply", id="deep list"),
        pytest.param('{"doi": 1,\n"title": ' + "[" * 200_000, "nested too deeply", id="deep object"),
        pytest.param(own() + '\n{"title": "T", "upvotes": ' + "9" * 5000 + "}", "Exceeds the limit", id="digits"),
        pytest.param(own(title="\ud800 half"), "characters that are not text", id="lone surrogate"),
        pytest.param(own(authors=["Ada", "\udc80 Ito"]), "characters that are not text", id="half a pair in a name"),
        pytest.param(own(comment="a\0b"), "characters that are not text", id="NUL in a remark"),
        pytest.param(own(doi="10.1234/\ud800"), "characters that are not text", id="half a pair in an id"),
        pytest.param(own(title="a\0b"), "characters that are not text", id="escaped NUL"),
        pytest.param(own() + '\n{"title": "a\0b"}', "binary", id="NUL"),
        pytest.param(json.dumps({"doi": "x", "title": "x" * 1_000_000}), "its title has 1,000,000 characters", id="long title"),
        pytest.param(own(abstract="x" * 1_000_000), "its abstract has 1,000,000 characters", id="long abstract"),
        pytest.param(own(authors=[f"A{n}" for n in range(30_000)]), "it has 20,001 authors", id="authors"),
        pytest.param(own(title=""), "the record has no title", id="no title"),
        pytest.param(own(title={"a": 1}), "the record has no title", id="title of another type"),
        pytest.param(own() + "\n" + own(x="y" * 9_000_000), "longer than 8 MiB", id="long line"),
        pytest.param('[{"title": "T", "doi": "' + "x" * 9_000_000, "longer than 8 MiB", id="long element"),
        pytest.param('[{"title": "T", "doi": "x"} oops]', "not JSON", id="no JSON"),
        pytest.param(f'<!DOCTYPE rss [<!ENTITY a0 "ha">{BOMB}]>' + RSS.partition("?>")[2] % "&a9;", "", id="entities"),
        pytest.param("<rss>" + "<a>" * 5000, "is truncated|not well-formed", id="deep XML"),
        pytest.param("title,abstract\n" + '"' + "x" * 2_000_000, "field larger than", id="long field"),
        pytest.param("title,abstract\nT,\"A\n" + "x\n" * 70_000, "field larger than", id="lost quote"),
        pytest.param(b"title,abstract\nT,caf\xe9\nU,B\n", "not UTF-8", id="mixed encodings"),
        pytest.param(json.dumps([HF]).encode("latin-1") + b"\xe9", "", id="after the end"),
        pytest.param(b'[{"title": "caf\xe9", "doi": "x"}]', "not UTF-8", id="list not UTF-8"),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_with_a_reason_at_low_cost(content: str | bytes, reason: str) -> None:
    tracemalloc.start()
    try:
        if not reason:
            list(items(content))
        else:
            import re

            assert re.search(reason, problem(content))
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak < 120 * 2**20


def test_external_entities_are_never_fetched(tmp_path: Any) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    head = f'<!DOCTYPE rss [<!ENTITY x SYSTEM "file://{secret}">]>'

    found = items(head + (RSS % (ITEM % ("new", "new"))).partition("?>")[2].replace("We sort", "We &x; sort"))

    assert "the secret" not in str(found)


def test_invalid_numbers_are_left_out() -> None:
    found: list[Any] = items(
        '{"title": "T", "abstract": "A", "upvotes": NaN, "comments": -3, "stars": 1e400, "citations": true}\n'
        '[{"title": "T", "doi": "x", "upvotes": Infinity}]'.partition("\n")[0]
    )

    assert found[0].signals == {}
    assert items('[{"title": "T", "abstract": "A", "upvotes": Infinity}]')[0].signals == {}  # type: ignore[attr-defined]


def test_the_last_of_two_equal_names_counts() -> None:
    assert items('{"title": "A", "abstract": "x", "title": "B"}')[0].title == "B"  # type: ignore[attr-defined]


def test_headers_and_markup_in_a_title_stay_text() -> None:
    (record,) = items(own(title="=?utf-8?q?Bcc:_x=40y?= <script>\r\nBcc: x\u202e\u200b"))

    assert isinstance(record, Record)
    assert record.title == "=?utf-8?q?Bcc:_x=40y?= <script> Bcc: x\u202e\u200b"
    assert display(record.title) == "=?utf-8?q?Bcc:_x=40y?= <script> Bcc: x"


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gz", "zst"])
def test_a_decompression_bomb_is_refused_without_using_much_memory(pack: Any) -> None:
    bomb = pack((own() + "\n").encode() + b'{"title": "' + b"x" * 60_000_000 + b'"}')

    tracemalloc.start()
    with pytest.raises(UnreadableDump, match="decompresses to more than 100 times its size"):
        items(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 60 * 2**20


# ── fuzzing ─────────────────────────────────────────────────────────────────────────────────────

PIECES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [
            b"\n", b"\n\n", b"\\\\\n", b"{", b"}", b"[", b"]", b'"', b"<", b">", b"&", b"###", b"](", b"\xef\xbb\xbf",
            b"\xc2\xb7\n", b"  \xe2\x80\xa2 5 authors\n", b"Nov 3\n", b"TY  - \n", b"ER  - \n", b"@article{", b"-" * 78,
            b"\0", b"\r", b"\r\n", b"\t", b",", b";", b"null", b"NaN", b"1e999", b"\\ud800", b"\xe2\x80\xa8", b"\x85",
        ]
    ),
)  # fmt: skip


@st.composite
def mangled(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good dump with pieces taken out, put in, doubled or cut off."""
    format = draw(st.sampled_from(sorted(GOOD)))
    content = GOOD[format].encode()
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40)))
        match draw(st.sampled_from(["cut", "put", "double", "end"])):
            case "cut":
                content = content[:start] + content[end:]
            case "put":
                content = content[:start] + draw(PIECES) + content[start:]
            case "double":
                content = content[:end] + content[start:]
            case "end":
                content = content[:start]
    return format, content


def read_whatever(content: bytes, format: str | None) -> None:
    """Read a dump to its end, and check every item."""
    try:
        found = recognition.read(io.BytesIO(content), name="dump", observed_on=DAY, format=format)
        for item in laws.checked(found):
            if isinstance(item, RecordProblem):
                assert item.reason
                continue
            assert item.title.strip()
            (item.title + item.abstract + "".join(item.authors)).encode()
            assert all(scheme and value for scheme, value in item.ids.items())
            display(item.title)
    except UnreadableDump as error:
        if not str(error):
            raise


@given(mangled())
def test_a_mangled_dump_is_read_or_refused_by_its_reader(case: tuple[str, bytes]) -> None:
    format, content = case

    read_whatever(content, format)
    read_whatever(content, None)


@given(st.sampled_from(sorted(GOOD)), st.lists(PIECES, max_size=30))
def test_a_reader_survives_arbitrary_bytes(format: str, pieces: list[bytes]) -> None:
    read_whatever(b"".join(pieces), format)


# ── long files ──────────────────────────────────────────────────────────────────────────────────

UNITS = {
    "pairs": f"Tidal Sorting %d\n{GRAVEL}\n",
    "blocks": f"Tidal Sorting %d\n\n{GRAVEL}\n\n{meta(5, 'Nov 3')}\n\n",
    "markdown": f"12\n\n### Tidal Sorting %d\n\n{GRAVEL}\n\n- 5 authors\n\n",
    "blank lines": "\n" * 1000,
    "open brackets": "[![" * 400,
    "backslashes": "\\" * 1000 + "\n",
    "bullets": "  • " * 300 + "\n",
    "spaces": " " * 1000,
    "links": "](" * 500,
    "names of links": "[a][b] [c" * 200 + "\n",
    "bars and dashes": "| - :-: " * 150 + "\n",
    "names of people": "by " + "Ada Okafor, " * 80 + "\n\n",
    "tags": "<p>" * 300 + "</p>\n",
    "numbers of links": "[1]a [2]b " * 100 + "\n",
    "quotation": "> > " * 200 + "\n",
    "spaced words": ("a" + " " * 998 + "b") * 30 + "\n",
}


@pytest.mark.parametrize("unit", UNITS)
def test_reading_a_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    head = "new\n\nGet trending papers in your email inbox!\n\n### [A](https://huggingface.co/papers/2611.00001)\n\n"
    if unit in ("pairs", "blocks"):
        head = head.partition("###")[0] if unit == "blocks" else "Get trending papers in your email inbox!\n"
    text = UNITS[unit]

    def read(size: int) -> None:
        read_whatever(
            (head + "".join(text.replace("%d", str(n)) for n in range(size // len(text)))).encode(), None
        )

    assert_proportional(read, 100_000)
