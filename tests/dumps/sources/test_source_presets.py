"""The requests for a source, and when they are repeated, without a server or a clock."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from digest.dumps.sources import polling_backoff, source_presets
from digest.dumps.sources.source_presets import SourceRequest
from digest.errors import BadField

TODAY = date(2026, 11, 20)
NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
HF = "https://huggingface.co/api/daily_papers"
RXIV = "https://api.biorxiv.org/details/biorxiv"


def urls(name: str, *, since: date = TODAY) -> list[str]:
    preset = source_presets.preset_for(name)
    return [
        request.url
        for request in source_presets.poll_requests(preset.kind, name, preset.url, today=TODAY, since=since)
    ]


def past(name: str, days: int) -> list[SourceRequest]:
    preset = source_presets.preset_for(name)
    return list(source_presets.history_requests(preset.kind, name, preset.url, days=days, today=TODAY))


def test_each_preset_requests_lists_that_may_have_new_papers() -> None:
    assert urls("hf-daily") == [f"{HF}?date=2026-11-{day}&limit=100" for day in (18, 19, 20)]
    assert urls("arxiv:cs.CL+cs.LG") == ["https://rss.arxiv.org/atom/cs.CL+cs.LG"]
    assert urls("biorxiv") == [f"{RXIV}/2026-11-20/2026-11-20/0/json"]
    assert urls("biorxiv", since=date(2026, 1, 1)) == [f"{RXIV}/2026-11-19/2026-11-20/0/json"]
    assert urls("https://papers.example.org/list.json") == ["https://papers.example.org/list.json"]


def test_days_before_a_source_was_turned_on_are_history() -> None:
    requests = source_presets.poll_requests("hf-daily", "hf-daily", HF, today=TODAY, since=date(2026, 11, 19))

    assert [(request.day, request.is_history) for request in requests] == [
        (date(2026, 11, 18), True),
        (date(2026, 11, 19), False),
        (date(2026, 11, 20), False),
    ]


def test_history_is_requested_day_by_day_without_today() -> None:
    assert [request.day for request in past("hf-daily", 3)] == [date(2026, 11, day) for day in (17, 18, 19)]
    assert all(request.is_history and request.has_figures for request in past("hf-daily", 3))
    assert past("https://papers.example.org/list.json", 3) == []
    assert past("hf-daily", 0) == []
    (arxiv,) = past("arxiv:cs.CL+math", 1)
    assert arxiv.url.startswith(
        "https://export.arxiv.org/api/query?search_query=%28cat%3Acs.CL+OR+cat%3Amath%2A%29"
    )
    assert "202611190000+TO+202611192359" in arxiv.url
    assert [request.url for request in past("medrxiv", 1)] == [
        "https://api.biorxiv.org/details/medrxiv/2026-11-19/2026-11-19/0/json"
    ]


@pytest.mark.parametrize(
    "name",
    ["", "hf", "arxiv", "arxiv:", "arxiv:cs.CL+", "arxiv:../x", "arxiv:cs CL", "biorxiv:x", "http://a.example/", "https://"],
)  # fmt: skip
def test_an_unknown_preset_is_refused(name: str) -> None:
    with pytest.raises(BadField):
        source_presets.preset_for(name)


def fault(name: str) -> str:
    """Return why a source is refused."""
    with pytest.raises(BadField) as refused:
        source_presets.preset_for(name)
    return str(refused.value)


def test_a_refused_source_is_named_with_the_reason_and_without_its_secrets() -> None:
    long = "https://papers.example.org/" + "x" * 2000
    archives = "arxiv:" + "+".join(["cs.CL"] * 14)

    assert "https://papers.example.org/ contains a user name or a password" in fault(
        "https://ada:hunter2@papers.example.org/"
    )
    assert "http://papers.example.org/?api_key=*** is not an https URL" in fault(
        "http://papers.example.org/?api_key=hunter2"
    )
    assert "the URL has 2,027 characters; at most 2,000 are allowed" in fault(long)
    assert "has 89 characters; at most 80 are allowed" in fault(archives)
    assert "it is not a URL" in fault("https://[papers.example.org/")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("hf-daily", "hf-daily"),
        ("https://papers.example.org/list.json", "https://papers.example.org/list.json"),
        ("https://papers.example.org/list.json?author=okafor", "https://papers.example.org/list.json?author=okafor"),
        ("https://papers.example.org/list.json?token=hunter2", "papers.example.org-"),
        ("https://papers.example.org/" + "x" * 80, "papers.example.org-"),
        ("x" * 81, "source-"),
    ],
)  # fmt: skip
def test_a_long_or_secret_url_has_its_server_and_a_hash_as_its_name(name: str, short: str) -> None:
    found = source_presets.short_name(name)

    assert found.startswith(short)
    assert len(found) == len(short) + (8 if short.endswith("-") else 0)
    assert found == source_presets.short_name(name)
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://papers.example.org/?page=2", "https://papers.example.org/?page=2"),
        ("https://ada:hunter2@papers.example.org/?page=2", "https://papers.example.org/?page=2"),
        ("https://papers.example.org/?page=2&Token=hunter2", "https://papers.example.org/?page=2&Token=***"),
        ("arxiv:cs.CL", "arxiv:cs.CL"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert source_presets.without_secrets(url) == shown


def test_requests_to_arxiv_are_three_seconds_apart_and_others_one() -> None:
    assert source_presets.pause_for("arxiv") == timedelta(seconds=3)
    assert source_presets.pause_for("url") == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (b" <rss/>", ".xml"),
        (b'{"papers": []}', ".json"),
        (b"\n[]", ".json"),
        (b"title,doi\n", ".txt"),
        (b"", ".txt"),
    ],
)
def test_an_answer_is_saved_with_the_suffix_of_its_content(content: bytes, suffix: str) -> None:
    assert source_presets.file_suffix(content) == suffix


# ── the next page ───────────────────────────────────────────────────────────────────────────────


def rxiv(count: int, total: int) -> bytes:
    messages = [{"status": "ok", "count": count, "total": str(total)}]
    return json.dumps({"messages": messages, "collection": [{"doi": "10.1101/x"}] * count}).encode()


def test_biorxiv_is_read_page_by_page_to_its_end() -> None:
    first = SourceRequest(url=f"{RXIV}/2026-11-19/2026-11-20/0/json")

    second = source_presets.next_page("biorxiv", first, rxiv(100, 157))

    assert second == SourceRequest(url=f"{RXIV}/2026-11-19/2026-11-20/100/json", page=100)
    assert source_presets.next_page("biorxiv", second, rxiv(57, 157)) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"no JSON", b"[]", b"{}", b'{"messages": []}', b'{"messages": [{"total": "x"}], "collection": []}',
     b'{"messages": [{"total": "100"}], "collection": null}', rxiv(0, 100), b"[" * 100_000],
)  # fmt: skip
def test_an_invalid_answer_has_no_next_page(content: bytes) -> None:
    assert source_presets.next_page("biorxiv", SourceRequest(url=f"{RXIV}/a/b/0/json"), content) is None


def test_arxiv_s_api_has_pages_and_its_feed_has_one() -> None:
    (request,) = past("arxiv:cs.CL", 1)
    full = b"<opensearch:totalResults>450</opensearch:totalResults>" + b"<entry>" * source_presets.PER_PAGE

    second = source_presets.next_page("arxiv", request, full)
    third = source_presets.next_page("arxiv", second, full) if second else None

    assert second is not None
    assert "start=200" in second.url
    assert third is not None
    assert "start=400" in third.url
    assert source_presets.next_page("arxiv", third, full) is None
    assert (
        source_presets.next_page("arxiv", SourceRequest(url="https://rss.arxiv.org/atom/cs.CL"), full) is None
    )


def test_paging_stops_at_a_limit() -> None:
    endless = b"<opensearch:totalResults>999999999</opensearch:totalResults>" + b"<entry>" * 200
    request: SourceRequest | None = past("arxiv:cs.CL", 1)[0]
    pages = 0

    while request is not None:
        request, pages = source_presets.next_page("arxiv", request, endless), pages + 1

    assert pages == source_presets.MAX_PAGES


def test_a_day_that_has_not_begun_at_the_server_is_not_an_error() -> None:
    (request, *_) = source_presets.poll_requests("hf-daily", "hf-daily", HF, today=TODAY, since=TODAY)

    assert source_presets.is_day_not_begun("hf-daily", request, 400)
    assert not source_presets.is_day_not_begun("hf-daily", request, 500)
    assert not source_presets.is_day_not_begun("url", request, 400)


@pytest.mark.parametrize(
    ("kind", "content_type", "fits"),
    [
        ("hf-daily", "application/json; charset=utf-8", True),
        ("hf-daily", "text/html; charset=utf-8", False),
        ("arxiv", "Application/Atom+XML", True),
        ("arxiv", "application/json", False),
        ("url", "text/plain", True),
        ("url", "application/octet-stream", True),
        ("url", "text/html", False),
        ("url", "image/png", False),
        ("url", "", True),
    ],
)
def test_the_type_of_an_answer_says_whether_it_can_hold_papers(
    kind: str, content_type: str, fits: bool
) -> None:
    assert source_presets.is_accepted_type(kind, content_type) is fits


# ── when again ──────────────────────────────────────────────────────────────────────────────────


def test_the_backoff_doubles_from_five_minutes_to_a_day() -> None:
    waits = [
        polling_backoff.next_request_at(NOW, failures=n, retry_after=None) - NOW
        for n in (1, 2, 3, 8, 9, 10, 1000)
    ]

    assert [wait.total_seconds() / 60 for wait in waits] == [5, 10, 20, 640, 1280, 1440, 1440]


def test_a_longer_retry_after_wins() -> None:
    expected = {"30": 300, "3600": 3600, "99999999999": 7 * 86400, "-5": 300, "soon": 300, "": 300,
            "Fri, 20 Nov 2026 10:00:00 GMT": 7200, "Fri, 20 Nov 2026 07:00:00 GMT": 300}  # fmt: skip

    waits = {
        value: (
            polling_backoff.next_request_at(
                NOW, failures=1, retry_after=polling_backoff.parse_retry_after(value, NOW)
            )
            - NOW
        ).total_seconds()
        for value in expected
    }

    assert waits == expected
    assert polling_backoff.parse_retry_after(None, NOW) is None
    assert timedelta(days=7) == polling_backoff.MAX_RETRY_AFTER
