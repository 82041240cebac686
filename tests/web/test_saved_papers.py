"""A reader saves papers from a digest, and finds them in a private list."""

from __future__ import annotations

import pytest

from digest.papers.catalog import hidden_papers
from digest.site import links
from digest.subscribers import account, saved_papers, subscriber_rows, subscriber_topics
from tests.web.conftest import path_of


@pytest.fixture
def save_path(served, alice, papers):
    return path_of(links.save_url(served.site, alice.id, alice.link_version, papers[0]))


def test_a_paper_is_saved_by_a_button_and_removed_again(served, alice, save_path, manage_path):
    assert "Save this paper" in served.client.get(save_path).text
    assert "No saved papers yet" in served.client.get(f"{manage_path}/saved").text

    answer = served.client.post(save_path, data={"do": "save"})

    assert answer.status_code == 303
    assert "Saved to your list." in served.client.get(answer.headers["location"]).text
    assert "Slow Diffusion" in served.client.get(f"{manage_path}/saved").text
    served.client.post(save_path, data={"do": "remove"})
    assert "Slow Diffusion" not in served.client.get(f"{manage_path}/saved").text


def test_opening_a_save_link_changes_nothing(served, alice, save_path):
    before = served.everything()

    assert served.client.get(save_path).status_code == 200

    assert served.everything() == before


def test_saving_twice_lists_a_paper_once(served, alice, save_path, manage_path):
    for _ in range(2):
        served.client.post(save_path, data={"do": "save"})

    assert served.client.get(f"{manage_path}/saved").text.count(">Slow Diffusion<") == 1


def test_the_list_is_exported_for_reference_managers_and_feed_readers(served, alice, save_path, manage_path):
    served.client.post(save_path, data={"do": "save"})

    bib = served.client.get(f"{manage_path}/saved.bib")
    ris = served.client.get(f"{manage_path}/saved.ris")
    feed = path_of(links.saved_feed_url(served.site, alice.id, alice.link_version))

    assert "Slow Diffusion" in bib.text
    assert bib.headers["content-type"].startswith("application/x-bibtex")
    assert "TI  - Slow Diffusion" in ris.text
    assert "Slow Diffusion" in served.client.get(feed).text
    assert served.client.get(feed.replace(".atom", ".json")).json()["items"][0]["title"] == "Slow Diffusion"
    assert served.client.get(feed.replace(".atom", ".rss")).status_code == 404


def test_papers_are_removed_on_the_list_itself(served, alice, papers, save_path, manage_path):
    served.client.post(save_path, data={"do": "save"})

    for wrong in ("", "x", "9" * 30):
        assert served.client.post(f"{manage_path}/saved", data={"paper": wrong}).status_code == 303
    served.client.post(f"{manage_path}/saved", data={"paper": str(papers[0])})

    assert "No saved papers yet" in served.client.get(f"{manage_path}/saved").text


def test_a_save_link_shows_neither_the_list_nor_the_settings(served, alice, save_path):
    token = save_path.split("/")[2]
    served.client.post(save_path, data={"do": "save"})

    page = served.client.get(save_path).text

    assert "/m/" not in page
    assert "alice" not in page
    assert served.client.get(f"/m/{token}/saved").status_code == 404
    assert served.client.get(f"/s/{token}.atom").status_code == 404
    assert {served.client.get(f"/{place}/{token}").status_code for place in "umtavf"} == {404}


def test_a_save_link_does_not_reveal_which_papers_are_saved(served, alice, papers, save_path):
    other = f"{save_path.rpartition('/')[0]}/{papers[2]}"
    served.client.post(save_path, data={"do": "save"})

    for query in ("", "?done=saved"):
        saved, unsaved = (served.client.get(path + query).text for path in (save_path, other))
        byline = '<p class="soft" dir="auto">Ito, Okafor</p>'  # only the first paper has authors
        assert saved.replace("Slow Diffusion", "Quiet Paper 3").replace(byline, "") == unsaved.replace(
            f"/papers/{papers[2]}", f"/papers/{papers[0]}"
        )


@pytest.mark.parametrize("number", ["99999", "9" * 30])
def test_a_paper_that_does_not_exist_cannot_be_saved(served, alice, save_path, number):
    place = save_path.rpartition("/")[0]
    assert served.client.post(f"{place}/{number}", data={"do": "save"}).status_code == 404


def test_a_hidden_paper_leaves_the_list(served, alice, papers, save_path, manage_path, now):
    served.client.post(save_path, data={"do": "save"})
    with served.writing() as session:
        hidden_papers.hide(session, str(papers[0]), now=now)

    assert "Slow Diffusion" not in served.client.get(f"{manage_path}/saved").text
    for page in (served.client.get(save_path), served.client.post(save_path, data={"do": "save"})):
        assert (page.status_code, "This paper was removed" in page.text) == (410, True)
        assert "mail you a new one" not in page.text


def test_a_full_list_says_what_to_do(served, alice, papers, save_path, monkeypatch):
    monkeypatch.setattr(saved_papers, "MAX_SAVED", 1)
    served.client.post(save_path, data={"do": "save"})

    other = f"{save_path.rpartition('/')[0]}/{papers[1]}"
    answer = served.client.post(other, data={"do": "save"})

    assert answer.status_code == 422
    assert "Remove some first." in answer.text


def test_the_exported_data_contain_the_list(served, alice, papers, save_path):
    served.client.post(save_path, data={"do": "save"})

    with served.writing() as session:
        data = account.export_data(session, subscriber_rows.get(session, "alice@uni.edu"))

    assert [one["paper_id"] for one in data["saved_papers"]] == [papers[0]]
    assert data["changes"] == []


def test_erasing_a_reader_erases_the_list(served, alice, save_path):
    served.client.post(save_path, data={"do": "save"})
    with served.writing() as session:
        account.erase(session, served.site, "alice@uni.edu", now=served.clock.now)
        session.commit()
        assert saved_papers.list_saved(session, alice.id) == []

    assert served.client.get(save_path).status_code == 404


# ── a topic for saved papers ────────────────────────────────────────────────────────────────────


@pytest.fixture
def three_saved(served, alice, papers, save_path):
    place = save_path.rpartition("/")[0]
    for number in papers[2:5]:
        served.client.post(f"{place}/{number}", data={"do": "save"})


def topics_of(served) -> dict[str, str]:
    with served.writing() as session:
        reader = subscriber_rows.get(session, "alice@uni.edu")
        return {one.name: one.text for one in subscriber_topics.topics_of(session, reader)}


def test_three_saved_papers_that_no_topic_matches_lead_to_one_proposal(served, three_saved, manage_path):
    assert "Add this topic" in served.client.get(f"{manage_path}/saved").text

    served.client.post(f"{manage_path}/saved", data={"do": "add-topic"})

    assert len(topics_of(served)) == 2
    assert "Add this topic" not in served.client.get(f"{manage_path}/saved").text


def test_a_declined_topic_is_not_proposed_again(served, three_saved, manage_path):
    served.client.post(f"{manage_path}/saved", data={"do": "decline-topic"})

    assert topics_of(served) == {"Vision": "title:image*"}
    assert "Add this topic" not in served.client.get(f"{manage_path}/saved").text


def test_two_saved_papers_or_papers_of_a_topic_lead_to_no_proposal(
    served, alice, papers, three_saved, manage_path
):
    with served.writing() as session:
        subscriber_topics.replace_topics(session, alice.id, {"Quiet": "title:quiet"})
        session.commit()

    assert "Add this topic" not in served.client.get(f"{manage_path}/saved").text
