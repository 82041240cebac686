"""The public parts of a paper depend on its source."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from digest.errors import BadField
from digest.papers.paper_record import Paper
from digest.papers.public_view import PublicRules, parse_public_pages

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
ARXIV = {"arxiv": "2611.00001"}


def paper(**fields) -> Paper:
    return Paper(
        **{"id": 1, "title": "Tidal Sorting", "abstract": "Gravel moves.", "first_seen_at": MONDAY, **fields}
    )


def shown(parts: str = "", is_local: bool = False, **fields) -> tuple[str, str] | None:
    rules = PublicRules(parse_public_pages(parts).parts, is_local=is_local)
    found = rules.public_copy(paper(**fields))
    return None if found is None else (found.title, found.abstract)


def test_the_abstract_of_an_arxiv_paper_is_shown():
    assert shown(ids=ARXIV, sources=("folder",)) == ("Tidal Sorting", "Gravel moves.")


def test_only_the_title_of_other_papers_is_shown():
    assert shown(sources=("folder",)) == ("Tidal Sorting", "")
    assert shown(summary_by="a machine") == ("Tidal Sorting", "")


def test_the_invented_sample_is_shown_whole():
    assert shown(is_sample=True) == ("Tidal Sorting", "Gravel moves.")


def test_a_site_that_only_this_machine_can_reach_shows_abstracts():
    assert shown(is_local=True, sources=("folder",)) == ("Tidal Sorting", "Gravel moves.")
    assert shown("folder title", is_local=True, sources=("folder",)) == ("Tidal Sorting", "")


def test_the_operator_decides_for_each_source():
    rules = "folder abstract, internal no, arxiv:cs.LG title"
    assert shown(rules, sources=("folder",)) == ("Tidal Sorting", "Gravel moves.")
    assert shown(rules, sources=("internal",)) is None
    assert shown(rules, sources=("arxiv:cs.LG",), ids=ARXIV) == ("Tidal Sorting", "")


def test_a_paper_in_two_sources_follows_the_more_open_one():
    assert shown("internal no", sources=("folder", "internal")) == ("Tidal Sorting", "")


def test_a_hidden_paper_is_not_shown():
    assert shown(ids=ARXIV, is_hidden=True) is None


@pytest.mark.parametrize("text", ["folder", "folder maybe", "folder title; internal no", "no"])
def test_a_rule_that_cannot_be_read_is_refused(text):
    with pytest.raises(BadField, match=r"DIGEST_PUBLIC: .*for example: folder title"):
        parse_public_pages(text)
