"""Real payloads of every format: the key fields compared with the raw file, read independently."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from digest.dumps.formats import recognition
from digest.dumps.formats.reader_interface import Header, RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Announcement, Organization, Record
from tests.dumps import DAY, SHARED

SAMPLES = SHARED / "samples"

if not SAMPLES.is_dir():
    pytest.skip("the sample payloads are not here (../shared/samples)", allow_module_level=True)


def read(name: str) -> tuple[str, Header, list[Record]]:
    with (SAMPLES / name).open("rb") as stream:
        reading = recognition.read(stream, name=name, observed_on=DAY)
        records = list(reading.records)
    assert not [record for record in records if isinstance(record, RecordProblem) and not record.is_remark]
    return reading.format, reading.header, [record for record in records if isinstance(record, Record)]


def raw(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text())


def spaced(text: str) -> str:
    return " ".join(text.split())


# ── Hugging Face ────────────────────────────────────────────────────────────────────────────────

VARIANTS = raw("hf_text_variants/expected.json")


@pytest.mark.parametrize("name", VARIANTS)
def test_the_other_text_copies_of_a_page_are_read_as_expected(name: str) -> None:
    expected = VARIANTS[name]
    starts = [paper.pop("abstract_starts") for paper in expected["papers"]]

    format, header, records = read(f"hf_text_variants/{name}")

    assert format == "page"
    assert (header.date and header.date.isoformat()) == expected["dump_date"]
    assert [as_expected(record) for record in records] == expected["papers"]
    assert all(record.abstract.startswith(start) for record, start in zip(records, starts, strict=True))


def as_expected(record: Record) -> dict[str, Any]:
    organization = record.organization
    return {
        "arxiv_id": record.ids.get("arxiv"),
        "title": record.title,
        "abstract_kind": "ai_summary" if record.summary_by else "abstract",
        "n_authors": record.n_authors,
        "organization": organization and {"handle": organization.handle, "name": organization.name},
        "published": record.published and record.published.isoformat(),
        "published_year_inferred": record.published_inferred,
        "comments": record.signals.get("comments"),
        "upvotes": record.signals.get("upvotes"),
        "github_stars": record.signals.get("stars"),
        "github_repo": next((url for url in record.urls if "github.com" in url), None),
    }


def test_hugging_face_json_is_read_with_and_without_its_wrapper() -> None:
    (wrapped,) = raw("hf_daily_papers/daily_papers.json")
    inner = wrapped["paper"]

    (format, _, (daily,)), (other, _, (single,)) = (
        read("hf_daily_papers/daily_papers.json"),
        read("hf_daily_papers/paper.json"),
    )

    assert format == other == "hf-json"
    for record in (daily, single):
        assert (record.title, record.abstract) == (inner["title"], inner["summary"])
        assert record.ids == {"arxiv": inner["id"]}
        assert list(record.authors) == [author["name"] for author in inner["authors"]]
        assert record.organization == Organization(
            handle=inner["organization"]["name"], name=inner["organization"]["fullname"]
        )
        assert record.published == date.fromisoformat(inner["publishedAt"][:10])
        assert record.posted == date.fromisoformat(inner["submittedOnDailyAt"][:10])
        assert record.urls == (inner["githubRepo"], inner["projectPage"])
    assert daily.signals == {
        "upvotes": inner["upvotes"],
        "stars": inner["githubStars"],
        "comments": wrapped["numComments"],
    }
    assert single.signals == {"upvotes": inner["upvotes"], "stars": inner["githubStars"]}


# ── arXiv ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["arxiv_rss/math.OC.rss", "arxiv_rss/math.OC.atom"])
def test_an_announced_replacement_is_recognised(name: str) -> None:
    root = ElementTree.parse(SAMPLES / name).getroot()  # noqa: S314
    entry = next(node for node in root.iter() if node.tag.rpartition("}")[2] in ("item", "entry"))
    fields = {node.tag.rpartition("}")[2]: node.text or "" for node in entry}

    format, header, (record,) = read(name)

    assert (format, header.date) == ("feed", date(2024, 2, 23))
    assert record.title == fields["title"]
    assert record.ids == {"arxiv": "2203.01250", "doi": fields["DOI"].lower()}
    assert record.abstract == (fields.get("description") or fields["summary"]).partition("Abstract: ")[2]
    assert list(record.authors) == fields["creator"].split(", ")
    assert record.categories == ("math.AP", "math.OC")
    assert (record.announcement, record.published) == (Announcement.REPLACED, None)


def test_an_answer_of_arxiv_s_api_is_read_with_comment_and_journal() -> None:
    format, _, (record,) = read("arxiv_atom_api/query.atom")

    assert format == "feed"
    assert record.title == "Multi-Electron Production at High Transverse Momenta in ep Collisions at HERA"
    assert (record.ids, record.published) == ({"arxiv": "hep-ex/0307015"}, date(2003, 7, 7))
    assert (record.authors, record.categories) == (("H1 Collaboration",), ("hep-ex",))
    assert record.comment == "23 pages, 8 figures and 4 tables"
    assert record.journal == "Eur.Phys.J. C31 (2003) 17-29"


@pytest.mark.parametrize("path", sorted((SAMPLES / "arxiv_email").glob("*.txt")), ids=lambda path: path.stem)
def test_a_listing_gives_every_entry_with_its_id_and_title(path: Path) -> None:
    text = path.read_text()
    entries = re.findall(r"^(?:arXiv:|Paper: )(\S+)", text, re.MULTILINE)
    titles = re.findall(r"^Title: (.*(?:\n  .*)*)", text, re.MULTILINE)

    format, _, records = read(f"arxiv_email/{path.name}")

    assert format == "arxiv-listing"
    assert [record.ids["arxiv"] for record in records] == entries
    assert [record.title for record in records] == [spaced(title) for title in titles]
    assert all(record.authors and record.categories for record in records)


def test_a_listing_is_as_long_as_its_subject_says() -> None:
    _, header, records = read("arxiv_email/q-fin.new.txt")
    kinds = [record.announcement for record in records]

    assert (header.date, header.announced) == (date(2023, 3, 17), 13)
    assert (kinds.count(Announcement.NEW), kinds.count(Announcement.REPLACED)) == (13, 3)
    assert [bool(record.abstract) for record in records] == [True] * 13 + [False] * 3
    assert records[0].published == date(2023, 3, 15)


def test_the_section_distinguishes_a_cross_list_from_a_replacement() -> None:
    _, _, records = read("arxiv_email/math.AG.new.txt")

    assert [record.announcement for record in records] == [Announcement.CROSS, Announcement.REPLACED]


def test_arxiv_s_snapshot_is_read_with_ids_authors_and_first_days() -> None:
    lines = (SAMPLES / "arxiv_kaggle/arxiv-metadata-oai-snapshot.jsonl").read_text().splitlines()
    expected = [json.loads(line) for line in lines]

    format, _, records = read("arxiv_kaggle/arxiv-metadata-oai-snapshot.jsonl")

    assert format == "kaggle"
    for record, paper in zip(records, expected, strict=True):
        assert record.title == spaced(paper["title"])
        assert record.abstract == spaced(paper["abstract"])
        assert record.ids == {"arxiv": paper["id"], "doi": paper["doi"].lower()}
        assert record.categories == tuple(paper["categories"].split())
        assert len(record.authors) == len(paper["authors_parsed"])
    assert [record.published for record in records] == [date(2021, 1, 11), date(2007, 4, 2)]
    assert records[1].authors[0] == "C. Balázs"


def test_the_three_kinds_of_oai_records_are_read() -> None:
    (_, _, (raw_record,)), (_, _, (arxiv,)), (_, _, (dublin,)) = (
        read(f"arxiv_oai/{name}")
        for name in ("arXivRaw.ListRecords.xml", "arXiv.GetRecord.xml", "oai_dc.GetRecord.xml")
    )

    assert (raw_record.ids, raw_record.published) == ({"arxiv": "2501.00001"}, date(2024, 10, 7))
    assert raw_record.authors == ("A. Cabrera-Codony", "A. Valverde")
    assert arxiv.title == dublin.title == "Object Re-Use & Exchange: A Resource-Centric Approach"
    assert arxiv.ids == dublin.ids == {"arxiv": "0804.2273"}
    assert arxiv.authors == dublin.authors
    assert arxiv.published == dublin.published == date(2008, 4, 14)
    assert arxiv.abstract.startswith(dublin.abstract)


# ── other services ──────────────────────────────────────────────────────────────────────────────


def test_a_paper_of_semantic_scholar_is_read_with_ids_and_citations() -> None:
    paper = raw("semantic_scholar/graph_paper.json")

    format, _, (record,) = read("semantic_scholar/graph_paper.json")

    assert format == "semantic-scholar"
    assert (record.title, record.abstract) == (paper["title"], paper["abstract"])
    assert record.ids["doi"] == paper["externalIds"]["DOI"].lower()
    assert (record.ids["s2"], record.ids["corpusid"]) == (paper["paperId"], str(paper["corpusId"]))
    assert record.signals == {"citations": paper["citationCount"]}
    assert record.published == date.fromisoformat(paper["publicationDate"])


def test_a_manifest_of_files_is_refused() -> None:
    with pytest.raises(UnreadableDump):
        read("semantic_scholar/datasets_papers_manifest.json")


def test_openalex_abstracts_are_put_in_order() -> None:
    work = raw("openalex/work.json")
    index = {place: word for word, places in work["abstract_inverted_index"].items() for place in places}

    format, _, (record,) = read("openalex/work.json")

    assert format == "openalex"
    assert record.abstract == " ".join(index[place] for place in sorted(index))
    assert record.ids == {"openalex": "W3195810945", "doi": "10.15620/cdc:108998", "pmid": "34590997"}
    assert record.published == date(2021, 9, 29)


def test_an_answer_of_biorxiv_is_read_row_by_row() -> None:
    rows = raw("biorxiv/details.json")["collection"]

    format, _, records = read("biorxiv/details.json")

    assert format == "biorxiv"
    assert [record.ids["doi"] for record in records] == [row["doi"] for row in rows]
    assert [record.title for record in records] == [row["title"] for row in rows]
    assert records[0].authors == ("Gomez Cuautle, D. D.", "Rossi, A. R.")
    assert {record.published for record in records} == {date(2025, 1, 1)}


def test_pubmed_is_read_in_both_its_formats() -> None:
    (_, _, (article,)), (format, _, (citation,)) = (
        read("pubmed/article.xml"),
        read("pubmed/pubmed_result1.nbib"),
    )

    assert article.ids == {"pmid": "27797938", "doi": "10.1136/gutjnl-2016-312510"}
    assert article.title.endswith("gene region and risk of pancreatic cancer.")
    assert [line.partition(":")[0] for line in article.abstract.splitlines()] == [
        "OBJECTIVE",
        "RESULTS",
        "CONCLUSIONS",
    ]
    assert "ptrend=0.048" in article.abstract
    assert article.authors == ("Ying Bao", "Jennifer Prescott")
    assert (format, citation.ids) == ("nbib", {"pmid": "12230038"})
    assert citation.abstract.endswith("of the beginning biologist programmer.")
    assert (citation.published, citation.authors) == (date(2002, 9, 1), ("Mangalam, Harry",))


def test_bibtex_ris_and_csl_json_give_ids_and_authors() -> None:
    (bib, _, (one,)), (ris, _, (two,)), (csl, _, (three,)) = (
        read("bibtex/crossref.bib"),
        read("ris/example_urls.ris"),
        read("csl_json/item.json"),
    )

    assert (bib, ris, csl) == ("bibtex", "ris", "csl-json")
    assert one.ids == three.ids == {"doi": "10.1126/science.169.3946.635"}
    assert one.title.startswith("The Structure of Ordinary Water: New data")
    assert (one.authors, three.authors) == (("Frank, Henry S.",), ("Henry S. Frank",))
    assert (one.published, three.published) == (date(1970, 8, 1), date(1970, 8, 14))
    assert three.signals == {"citations": 92.0}
    assert not three.abstract.startswith("<")
    assert (two.title, two.authors) == ("A Mathematical Theory of Communication", ("Shannon, Claude E.",))
    assert (two.published, two.urls) == (date(1948, 7, 1), ("http://example.com", "http://www.example.com"))


def test_crossref_and_papers_with_code_are_read_without_readers_of_their_own() -> None:
    (_, _, (work,)), (_, _, (paper,)) = (
        read("crossref/work.json"),
        read("paperswithcode/papers-with-abstracts.json"),
    )

    item, listed = raw("crossref/work.json"), raw("paperswithcode/papers-with-abstracts.json")[0]
    item = item.get("message", item)
    assert work.ids == {"doi": item["DOI"].lower()} == {"doi": "10.1371/journal.pone.0033693"}
    assert (work.title, work.journal) == (item["title"][0], item["container-title"][0])
    assert work.authors[0] == f"{item['author'][0]['given']} {item['author'][0]['family']}"
    assert len(work.authors) == len(item["author"])
    assert work.signals == {"citations": item["is-referenced-by-count"]}
    assert (paper.title, list(paper.authors)) == (listed["title"], listed["authors"])
    assert paper.abstract == spaced(listed["abstract"])
    assert (paper.ids, paper.published) == ({"arxiv": "1805.10616"}, date(2018, 5, 27))


def test_dblp_zenodo_and_code_links_are_read_without_readers_of_their_own() -> None:
    info = raw("dblp/search_publ.json")["result"]["hits"]["hit"][0]["info"]
    zenodo, (linked,) = raw("zenodo/record.json"), raw("paperswithcode/links-between-papers-and-code.json")

    (_, _, (dblp,)), (_, _, (deposit,)), (_, _, (link,)) = (
        read("dblp/search_publ.json"),
        read("zenodo/record.json"),
        read("paperswithcode/links-between-papers-and-code.json"),
    )

    assert (dblp.title, dblp.ids) == (info["title"], {"doi": info["doi"].lower()})
    assert (dblp.journal, dblp.published) == (info["venue"], date(int(info["year"]), 1, 1))
    assert (deposit.title, deposit.ids) == (zenodo["metadata"]["title"], {"doi": zenodo["doi"]})
    assert list(deposit.authors) == [creator["name"] for creator in zenodo["metadata"]["creators"]]
    assert deposit.published == date.fromisoformat(zenodo["metadata"]["publication_date"])
    assert "<" not in deposit.abstract
    assert (link.title, link.ids) == (linked["paper_title"], {"arxiv": linked["paper_arxiv_id"]})
    assert linked["repo_url"] in link.urls


def test_a_single_paper_of_arxiv_is_read() -> None:
    text = (SAMPLES / "arxiv_abs/sample.abs").read_text()
    fields = dict(re.findall(r"^(\w+): (.*(?:\n  .*)*)", text, re.MULTILINE))

    format, _, (record,) = read("arxiv_abs/sample.abs")

    assert format == "arxiv-listing"
    assert (record.title, record.comment) == (spaced(fields["Title"]), fields["Comments"])
    assert record.authors == tuple(fields["Authors"].split(", "))
    assert record.ids == {"arxiv": re.findall(r"^arXiv:(\S+)", text, re.MULTILINE)[0], "doi": fields["DOI"]}
    assert record.categories == (fields["Categories"],)
    assert record.abstract == spaced(text.split("\\\\\n")[2])
    assert record.published == date(2007, 4, 4)


def test_every_sample_is_tested() -> None:
    named = Path(__file__).read_text()
    left_out = ("SOURCES.json", "expected.json")
    listed = {path.name for path in (SAMPLES / "arxiv_email").iterdir()} | set(
        VARIANTS
    )  # each of these is read above

    assert [
        path.name
        for path in sorted(SAMPLES.rglob("*.*"))
        if path.is_file() and path.name not in (*left_out, *listed) and path.name not in named
    ] == []
