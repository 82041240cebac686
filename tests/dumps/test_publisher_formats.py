"""Files of publishers and reference managers are read with all fields, even if some are missing or unusual."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from digest.dumps.formats.reader_interface import RecordProblem
from digest.papers.paper_record import Organization, Record
from tests.dumps import abstract, items
from tests.dumps.test_formats import HF, KAGGLE, LISTING, RIS

OWN = {"title": "Tidal Sorting", "abstract": "We sort."}
GRAVEL = abstract("gravel")


def only(content: str | bytes) -> Record:
    """Return the one paper of a dump."""
    (found,) = items(content)
    assert isinstance(found, Record), found
    return found


def only_of(found: dict[str, Any]) -> Record:
    """Return the paper of a JSON dump with one object."""
    return only(json.dumps([found]))


def titles_and_faults(content: str | bytes) -> list[str]:
    """Return the title of every paper, and the line and reason of every problem."""
    return [
        item.title if isinstance(item, Record) else f"{item.line}: {item.reason}"  # type: ignore[attr-defined]
        for item in items(content)
    ]


# ── PubMed ──────────────────────────────────────────────────────────────────────────────────────

CITATION = "<PMID>12345678</PMID>"


def pubmed(article: str, *, citation: str = "", data: str = "") -> Record:
    """Return the paper of a PubMed file with one article."""
    return only(
        f"<PubmedArticleSet><PubmedArticle><MedlineCitation>{CITATION}<Article><ArticleTitle>Tidal Sorting"
        f"</ArticleTitle>{article}</Article>{citation}</MedlineCitation><PubmedData>{data}</PubmedData>"
        "</PubmedArticle></PubmedArticleSet>"
    )


@pytest.mark.parametrize(
    ("printed", "day"),
    [
        ("<Year>2026</Year><Month>Nov</Month><Day>16</Day>", date(2026, 11, 16)),
        ("<Year>2026</Year><Month>11</Month>", date(2026, 11, 1)),
        ("<Year>2026</Year>", date(2026, 1, 1)),
        ("<MedlineDate>2026 Sep-Oct</MedlineDate>", date(2026, 1, 1)),
        ("<MedlineDate>soon</MedlineDate>", None),
        ("", None),
    ],
)
def test_an_article_in_print_has_the_day_of_its_issue(printed: str, day: date | None) -> None:
    journal = f"<Journal><JournalIssue><PubDate>{printed}</PubDate></JournalIssue></Journal>"
    online = "<ArticleDate><Year>2025</Year><Month>12</Month><Day>31</Day></ArticleDate>"

    assert pubmed(journal).published == day
    assert pubmed(journal + online).published == date(2025, 12, 31)
    assert pubmed("").published is None


def test_people_and_groups_are_authors_of_an_article() -> None:
    authors = (
        "<Author><LastName>Okafor</LastName><ForeName>Ada</ForeName><Suffix>Jr</Suffix></Author>"
        "<Author><LastName>Ito</LastName><Initials>K</Initials></Author>"
        "<Author><CollectiveName>Gravel Collaboration</CollectiveName></Author><Author/>"
    )

    found = pubmed(f"<AuthorList>{authors}</AuthorList>")

    assert (found.authors, found.n_authors) == (("Ada Okafor Jr", "K Ito", "Gravel Collaboration"), 3)


def test_the_sections_of_an_article_s_abstract_keep_their_labels() -> None:
    found = pubmed(
        '<Abstract><AbstractText Label="AIM">To <i>sort</i>.</AbstractText><AbstractText Label="RESULTS"/>'
        "<AbstractText>Sorted.</AbstractText></Abstract>"
    )

    assert found.abstract == "AIM: To sort.\nSorted."


def test_the_ids_of_an_article_are_its_own() -> None:
    own = (
        '<ArticleIdList><ArticleId IdType="pubmed">12345678</ArticleId><ArticleId IdType="doi">10.1234/ABC'
        '</ArticleId><ArticleId IdType="pmc">PMC77</ArticleId></ArticleIdList>'
    )
    cited = '<ReferenceList><Reference><ArticleIdList><ArticleId IdType="doi">10.1234/other</ArticleId></ArticleIdList></Reference></ReferenceList>'

    assert pubmed("", data=cited + own).ids == {"pmid": "12345678", "doi": "10.1234/abc", "pmcid": "PMC77"}
    assert pubmed('<ELocationID EIdType="doi">10.1234/x</ELocationID>', data=cited).ids == {
        "pmid": "12345678",
        "doi": "10.1234/x",
    }


def test_an_article_without_a_citation_is_reported() -> None:
    assert titles_and_faults("<PubmedArticleSet>\n<PubmedArticle/></PubmedArticleSet>") == [
        "2: the record has no title"
    ]


@pytest.mark.parametrize(
    ("printed", "day"),
    [
        ("DEP - 20261116", date(2026, 11, 16)),
        ("DEP - 20261399\nDP  - 2026 Nov", date(2026, 11, 1)),
        ("DP  - 2026 Sep-Oct", date(2026, 9, 1)),
        ("DP  - 2026", date(2026, 1, 1)),
        ("DP  - soon", None),
    ],
)
def test_a_citation_in_pubmed_s_text_format_has_the_day_that_is_printed(
    printed: str, day: date | None
) -> None:
    assert only(f"PMID- 12345678\nTI  - Tidal Sorting\n{printed}\n").published == day


# ── OAI-PMH ─────────────────────────────────────────────────────────────────────────────────────


def harvest(*records: str) -> str:
    """Return an OAI-PMH answer with these records."""
    return f"<OAI-PMH><ListRecords>{''.join(f'<record>{one}</record>' for one in records)}</ListRecords></OAI-PMH>"


ARXIV = (
    "<metadata><!-- exported --><arXiv><id>2611.00001</id><title>Tidal Sorting</title><created>2026-11-16</created>"
    "<authors><author><keyname>Okafor</keyname><forenames>Ada</forenames><suffix>Jr</suffix></author><author>"
    "<keyname>Gravel Collaboration</keyname></author></authors></arXiv></metadata>"
)
DUBLIN_CORE = (
    '<metadata><oai_dc:dc xmlns:oai_dc="o" xmlns:dc="d"><dc:title>Kites</dc:title><dc:creator>Lind, Per</dc:creator>'
    "<dc:creator>Gravel Collaboration</dc:creator><dc:subject>Robotics</dc:subject><dc:description>They fly."
    "</dc:description><dc:description>Comment: 16 pages</dc:description><dc:date>2026-11-19</dc:date><dc:date>"
    "2026-11-16</dc:date><dc:identifier>http://arxiv.org/abs/2611.00002</dc:identifier><dc:identifier>"
    "doi:10.1234/ABC</dc:identifier></oai_dc:dc></metadata>"
)


def test_parsed_names_of_authors_are_written_given_name_first() -> None:
    found = only(harvest(ARXIV))

    assert found.authors == ("Ada Okafor Jr", "Gravel Collaboration")
    assert (found.ids, found.published) == ({"arxiv": "2611.00001"}, date(2026, 11, 16))


def test_a_dublin_core_record_has_its_first_day_and_its_further_descriptions_as_comment() -> None:
    found = only(harvest(DUBLIN_CORE))

    assert (found.title, found.abstract, found.comment) == ("Kites", "They fly.", "16 pages")
    assert found.authors == ("Per Lind", "Gravel Collaboration")
    assert (found.ids, found.published) == ({"arxiv": "2611.00002", "doi": "10.1234/abc"}, date(2026, 11, 16))
    assert found.categories == ("Robotics",)


def test_a_dublin_core_record_may_hold_a_title_only() -> None:
    found = only(harvest("<metadata><dc><title>Kites</title></dc></metadata>"))

    assert (found.title, found.abstract, found.published, found.ids) == ("Kites", "", None, {})


@pytest.mark.parametrize(
    "deleted",
    [f'<header status="deleted"/>{ARXIV}', '<header status="deleted"/>', "<header/><metadata/>", "<header/>"],
)
def test_a_deleted_or_empty_record_is_skipped(deleted: str) -> None:
    assert titles_and_faults(harvest(deleted, ARXIV)) == ["Tidal Sorting"]


# ── JSON of publishers ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parsed", "authors"),
    [
        ([["Okafor", "Ada", ""], ["Ito", "Kenji", "Jr", "Institute"]], ("Ada Okafor", "Kenji Ito Jr")),
        ([["Okafor", "Ada"], ["Gravel Collaboration"]], ("Ada Okafor", "Gravel Collaboration")),
        ([["Okafor", None, ""]], ("Okafor",)),
        ([["", "", ""], None, {"a": 1}, ["Okafor", "Ada", ""]], ("Ada Okafor",)),
        (None, ("Ada Okafor", "Kenji Ito")),
        ([], ("Ada Okafor", "Kenji Ito")),
    ],
)
def test_names_in_arxiv_s_snapshot_are_put_together_from_the_parts_that_are_there(
    parsed: Any, authors: tuple[str, ...]
) -> None:
    assert only_of(KAGGLE | {"authors_parsed": parsed}).authors == authors


@pytest.mark.parametrize("versions", [None, [], ["v1"], {"v1": "2026"}, [{"version": "v1"}]])
def test_a_paper_of_arxiv_s_snapshot_without_versions_has_no_day(versions: Any) -> None:
    assert only_of(KAGGLE | {"versions": versions}).published is None


@pytest.mark.parametrize(
    ("author", "name"),
    [
        ({"given": "Ada", "family": "Okafor"}, "Ada Okafor"),
        ({"given": "Jan", "non-dropping-particle": "van der", "family": "Berg", "suffix": "Jr"}, "Jan van der Berg Jr"),
        ({"literal": "Gravel Collaboration"}, "Gravel Collaboration"),
        ({"name": "Gravel Collaboration"}, "Gravel Collaboration"),
    ],
)  # fmt: skip
def test_an_author_in_csl_json_is_a_person_or_a_group(author: dict[str, str], name: str) -> None:
    found = only_of(
        {"type": "article", "title": ["Tidal Sorting"], "DOI": "10.1/x", "page": "1", "author": [author, {}]}
    )

    assert (found.title, found.authors, found.n_authors) == ("Tidal Sorting", (name,), 1)


@pytest.mark.parametrize(
    ("issued", "day"),
    [
        ({"date-parts": [[2026, 11, 16]]}, date(2026, 11, 16)),
        ({"date-parts": [[2026]]}, date(2026, 1, 1)),
        ({"raw": "2026-11-16"}, date(2026, 11, 16)),
        ({"raw": "16 Nov 2026"}, date(2026, 11, 16)),
        ({"date-parts": [[None]]}, None),
        ({"date-parts": [[]]}, None),
        ({"date-parts": []}, None),
        ("2026", date(2026, 1, 1)),
    ],
)
def test_a_day_in_csl_json_is_in_parts_or_as_it_was_written(issued: Any, day: date | None) -> None:
    item = {"type": "article", "title": "Tidal Sorting", "DOI": "10.1234/x", "page": "1"}

    assert only_of(item | {"issued": issued}).published == day


def test_an_openalex_author_without_a_profile_has_the_name_in_print() -> None:
    work = {"id": "https://openalex.org/W1", "title": "Tidal Sorting", "publication_date": "2026-11-16"}
    authorships = [
        {"author": {"display_name": "Ada Okafor"}},
        {"author": {}, "raw_author_name": "K. Ito"},
        {},
    ]

    found = only_of(work | {"authorships": authorships})

    assert (found.authors, found.n_authors) == (("Ada Okafor", "K. Ito"), 2)


@pytest.mark.parametrize(
    ("value", "organization"),
    [
        ({"name": "gravelworks", "fullname": "Gravel Works"}, ("gravelworks", "Gravel Works")),
        ({"name": "gravelworks"}, ("gravelworks", "gravelworks")),
        ("gravelworks", ("gravelworks", "gravelworks")),
        ({}, None),
        (7, None),
    ],
)
def test_an_organization_of_hugging_face_is_a_name_or_an_object(
    value: Any, organization: tuple[str, str] | None
) -> None:
    expected = organization and Organization(handle=organization[0], name=organization[1])

    paper: dict[str, Any] = dict(HF["paper"])  # type: ignore[call-overload]

    assert only_of(HF | {"paper": paper | {"organization": value}}).organization == expected


def test_an_id_may_be_a_number() -> None:
    assert only_of(OWN | {"pmid": 12345678}).ids == {"pmid": "12345678"}
    assert only_of(OWN | {"pmid": True}).ids == {}


# ── feeds ───────────────────────────────────────────────────────────────────────────────────────


def test_authors_of_a_feed_are_one_element_each_or_one_line() -> None:
    def authors(elements: str) -> tuple[str, ...]:
        return only(
            f"<rss><channel><item><title>Tidal Sorting</title>{elements}</item></channel></rss>"
        ).authors

    assert authors("<creator>Ada Okafor</creator><creator/><creator>Kenji Ito</creator>") == (
        "Ada Okafor",
        "Kenji Ito",
    )
    assert authors("<creator>Ada Okafor, Kenji Ito</creator>") == ("Ada Okafor", "Kenji Ito")
    assert authors("<author><name>Ada Okafor</name></author><creator>A. O.</creator>") == ("Ada Okafor",)


# ── arXiv's listings ────────────────────────────────────────────────────────────────────────────

ENTRY = "\\\\\narXiv:2611.0000%d\nDate: Thu, 19 Nov 2026 18:34:08 GMT   (1kb)\n\nTitle: Paper %d\n\\\\\n  %s\n\\\\\n"


def test_entries_of_a_listing_may_follow_each_other_without_rules() -> None:
    found = items("".join(ENTRY % (number, number, "They fly.") for number in (1, 2, 3)))

    assert [(item.title, item.abstract, item.ids) for item in found if isinstance(item, Record)] == [
        (f"Paper {number}", "They fly.", {"arxiv": f"2611.0000{number}"}) for number in (1, 2, 3)
    ]
    assert len(found) == 3


def test_a_line_of_an_entry_that_is_no_field_is_left_out() -> None:
    (found,) = items((ENTRY % (1, 1, "They fly.")).replace("\nTitle:", "\nan odd line\nTitle:"))

    assert isinstance(found, Record)
    assert (found.title, found.abstract) == ("Paper 1", "They fly.")


def test_an_entry_of_a_listing_that_cannot_be_read_is_a_problem_and_the_others_are_read() -> None:
    bad_line = (ENTRY % (1, 1, "caf\xe9")).encode("latin-1")
    bad_id = (ENTRY % (2, 2, "They fly.")).replace("2611.00002", "tidal").encode()

    assert titles_and_faults(bad_line + bad_id + (ENTRY % (3, 3, "They fly.")).encode()) == [
        "2: line 7: not UTF-8 (byte 0xE9 at column 6)",
        "10: 'tidal' is not an arXiv id",
        "Paper 3",
    ]


def test_an_abstract_of_too_many_lines_is_cut() -> None:
    (found,) = items(ENTRY % (1, 1, "fly\n" * 3000))

    assert isinstance(found, Record)
    assert found.abstract.count("fly") == 2000


def test_a_withdrawn_paper_of_a_listing_is_recognised_by_its_comment() -> None:
    found: list[Any] = items(LISTING.replace("16 pages", "This paper has been withdrawn"))

    assert [item.announcement.value for item in found] == ["withdrawn", "cross", "replaced"]


def test_words_after_an_entry_are_not_in_its_abstract() -> None:
    found: list[Any] = items(LISTING.replace("243kb)\n%-", "243kb)\nSee also the notes.\n%-"))

    assert found[0].abstract == "We sort by tides, and by moon."


# ── reference managers ──────────────────────────────────────────────────────────────────────────


def test_a_long_bibtex_file_is_read_to_its_last_entry_with_the_abbreviations_of_its_first_lines() -> None:
    """It is read in chunks, which end with an entry: after a hundred of them, or when they are long."""
    entries = "".join(
        f"@article{{k{number}, title = {{Paper {number}}}, journal = jgr,\n  abstract = {{{GRAVEL * 8}}}}}\n"
        for number in range(150)
    )

    found: list[Any] = items('@string{jgr = "Journal of Gravel"}\n' + entries)

    assert [item.title for item in found] == [f"Paper {number}" for number in range(150)]
    assert [item.line for item in found] == [2 + 2 * number for number in range(150)]
    assert {item.journal for item in found} == {"Journal of Gravel"}


def test_more_than_a_hundred_short_bibtex_entries_are_read() -> None:
    content = "".join(f"@misc{{k{number}, title = {{Paper {number}}}}}\n" for number in range(250))

    assert titles_and_faults(content) == [f"Paper {number}" for number in range(250)]


def test_a_bad_line_and_an_overlong_entry_of_a_bibtex_file_are_reported() -> None:
    good, bad = b"@misc{a, title = {Kites}}\n", b"@misc{b, title = {Caf\xe9}}\n"
    endless = b"@misc{c, title = {Owls}, note = {" + b"gravel\n" * 50_000 + b"}}\n"

    assert titles_and_faults(good + bad + good) == ["Kites", "2: not UTF-8 (byte 0xE9 at column 22)", "Kites"]
    assert titles_and_faults(good + bad) == ["Kites", "2: not UTF-8 (byte 0xE9 at column 22)"]
    assert titles_and_faults(endless) == ["1: an entry is too long"]


@pytest.mark.parametrize(
    ("fields", "day"),
    [
        ("date = {2026-11-16}", date(2026, 11, 16)),
        ("date = {2026}", date(2026, 1, 1)),
        ("year = 2026, month = nov, day = 16", date(2026, 11, 16)),
        ("year = 2026, month = {Spring}", date(2026, 1, 1)),
        ("note = {soon}", None),
    ],
)
def test_the_day_of_a_bibtex_entry_is_as_exact_as_it_is_written(fields: str, day: date | None) -> None:
    assert only(f"@misc{{a, title = {{Kites}}, {fields}}}\n").published == day


def test_bad_and_blank_lines_of_a_tagged_file_affect_no_other_line() -> None:
    lines = (
        RIS.encode()
        .replace(b"TI  - ", b"\nN1  - caf\xe9\nTI  - ")
        .replace(b"AB  - We sort\n", b"AB  - We sort\n\n")
    )

    found = items(lines)

    assert found[0] == RecordProblem(line=3, reason="not UTF-8 (byte 0xE9 at column 10)")
    assert isinstance(found[1], Record)
    assert (found[1].title, found[1].abstract) == ("Tidal Sorting", "We sort by tides.")
