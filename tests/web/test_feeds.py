"""Feeds, references, and a digest read in the browser."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from digest.site import links
from digest.subscribers import pack_updates, subscriber_rows, subscriber_topics
from digest.topics import pack_files as files
from tests.web.conftest import path_of

ATOM = "{http://www.w3.org/2005/Atom}"


def parsed(answer):
    return ElementTree.fromstring(answer.content)  # noqa: S314 - our own


def test_trending_papers_are_a_valid_feed(served, papers):
    answer = served.client.get("/feed.atom")

    feed = parsed(answer)
    assert answer.headers["content-type"].startswith("application/atom+xml")
    assert {child.tag.removeprefix(ATOM) for child in feed} == {
        "id",
        "title",
        "updated",
        "link",
        "author",
        "entry",
    }
    entries = feed.findall(f"{ATOM}entry")
    assert len(entries) == 10
    assert entries[0].findtext(f"{ATOM}title") == "Slow Diffusion"
    assert entries[0].find(f"{ATOM}link").get("href") == "https://arxiv.org/abs/2611.00001"
    assert len({entry.findtext(f"{ATOM}id") for entry in entries}) == 10


def test_trending_papers_are_a_valid_json_feed(served, papers):
    feed = served.client.get("/feed.json").json()

    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert feed["items"][0]["title"] == "Slow Diffusion"
    assert feed["items"][0]["authors"] == [{"name": "Ada Ito"}, {"name": "Ben Okafor"}]


def test_an_empty_catalog_has_an_empty_feed(served):
    assert parsed(served.client.get("/feed.atom")).findall(f"{ATOM}entry") == []
    assert served.client.get("/feed.rss").status_code == 404


def test_a_published_pack_filter_is_a_public_feed(served, papers):
    pack = "pack: lab\n\nslow = slow OR tides\n\nnothing = unheardof\n"
    with served.writing() as session:
        pack_updates.publish(
            session, served.site, files.read(pack), effect=lambda *_: {}, now=served.clock.now
        )
        session.commit()

    feed = served.client.get("/feed/lab/slow.json").json()
    atom = parsed(served.client.get("/feed/lab/slow.atom"))

    assert feed["items"][0]["title"] == "Slow Diffusion"
    assert len(feed["items"]) == len(atom.findall(f"{ATOM}entry")) < 12
    assert served.client.get("/feed/lab/nothing.json").json()["items"] == []


@pytest.mark.parametrize("path", ["lab/slow.json", "slow OR tides.json", "x/slow OR x.atom", "lab/slow.rss"])
def test_an_unpublished_filter_has_no_feed(served, papers, path):
    assert served.client.get(f"/feed/{path}").status_code == 404


def test_a_subscribers_feed_has_the_papers_they_were_sent_by_topic(served, digest_sent):
    dora = served.subscriber("dora@uni.edu")
    address = path_of(links.feed_url(served.site, dora.id, dora.link_version))

    answer = served.client.get(address)

    entries = parsed(answer).findall(f"{ATOM}entry")
    assert entries[0].findtext(f"{ATOM}title") == "Slow Diffusion"
    assert [entry.find(f"{ATOM}category").get("term") for entry in entries[:2]] == ["Diffusion", "Quiet"]
    assert answer.headers["cache-control"] == "no-store"
    assert served.client.get(address.replace(".atom", ".json")).json()["items"][0]["tags"] == ["Diffusion"]


def test_a_feed_token_is_invalid_for_other_pages(served, digest_sent):
    dora = served.subscriber("dora@uni.edu")
    token = (
        path_of(links.feed_url(served.site, dora.id, dora.link_version))
        .removeprefix("/f/")
        .removesuffix(".atom")
    )

    assert {served.client.get(f"/{place}/{token}").status_code for place in "mu"} == {404}
    other = path_of(links.manage_url(served.site, dora.id, dora.link_version)).removeprefix("/m/")
    assert served.client.get(f"/f/{other}.atom").status_code == 404


def test_a_paper_can_be_exported_as_ris(served, papers):
    answer = served.client.get(f"/papers/{papers[0]}.ris")

    lines = answer.text.split("\r\n")
    assert lines[:4] == ["TY  - UNPB", "TI  - Slow Diffusion", "AU  - Ada Ito", "AU  - Ben Okafor"]
    assert lines[-2:] == ["ER  - ", ""]


def test_the_page_of_a_paper_marks_the_words_that_a_filter_matches(served, papers):
    page = f"/papers/{papers[0]}"

    marked = served.client.get(page, params={"filter": "slow OR zebras"}).text

    assert '<h1><mark class="mark">Slow</mark> Diffusion</h1>' in marked
    for filter_ in ("", "zebras", '"<script>', "use:lab/none"):
        assert "<mark" not in served.client.get(page, params={"filter": filter_}).text


def test_todays_digest_is_shown_as_a_sample_mail(served, papers):
    answer = served.client.get("/email")

    assert ">Also trending<" in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
    assert served.client.get("/email").text == answer.text


def test_an_empty_catalog_has_no_sample_mail(served):
    assert served.client.get("/email").status_code == 404


def test_a_filter_can_be_tried_without_signing_up(served, papers):
    before = served.everything()

    answer = served.sign_up("", filter="title:quiet", interest="Robots", do="try")

    assert answer.status_code == 200
    assert 'About 10 papers a day</strong> <span class="soft">(based on 1 day so far)' in answer.text
    assert 'value="Robots" checked' in answer.text
    assert served.everything() == before


def test_chosen_interests_become_topics_when_confirmed(served, papers):
    served.sign_up("bob@uni.edu", interest=["Robots", "Vision", "No such one"], filter="title:quiet")

    served.client.post(path_of(links.confirm_url(served.site, 1)))

    with served.writing() as session:
        bob = subscriber_rows.get(session, "bob@uni.edu")
        names = [topic.name for topic in subscriber_topics.topics_of(session, bob)]
    assert names == ["Vision", "Robots", "title:quiet"]


def test_a_custom_filter_may_equal_a_suggested_topic(served, papers):
    assert served.sign_up("bob@uni.edu", interest="Robots", filter="robots").status_code == 200
