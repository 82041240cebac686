"""Documents are fetched only from checked addresses of the public internet, within limits."""

from __future__ import annotations

import ssl
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from digest.dumps.sources.http_fetch import Fetcher, FetchFailed
from tests.dumps.sources.paper_server import (
    Papers,
    breaks_off,
    drips,
    packs,
    refuses,
    says,
    sends_on,
    serving,
)
from tests.support import certificates

AGENT = "paper-digest/0 (+https://digest.example.org; digest@example.org)"


def fetcher(**choices: Any) -> Fetcher:
    given: dict[str, Any] = {"agent": AGENT, "loopback": True}
    return Fetcher(**given | choices)


def test_a_document_is_written_to_the_file_and_the_server_learns_who_asks(
    papers: Papers, tmp_path: Path
) -> None:
    papers.answers["/list?day=1"] = says('[{"title": "Kites"}]', ETag='"one"')

    answer = fetcher().fetch(f"{papers.url}/list?day=1", tmp_path / "x")

    assert (answer.status, answer.etag, answer.size) == (200, '"one"', 20)
    assert (tmp_path / "x").read_text() == '[{"title": "Kites"}]'
    (request,) = papers.requests
    assert (request[1]["User-Agent"], request[1]["Accept-Encoding"]) == (AGENT, "gzip")


def test_an_unchanged_document_is_not_sent_again(papers: Papers, tmp_path: Path) -> None:
    papers.answers["/list"] = says("[]", ETag='"one"')

    answer = fetcher().fetch(
        f"{papers.url}/list", tmp_path / "x", etag='"one"', since="Fri, 20 Nov 2026 08:00:00 GMT"
    )

    assert (answer.is_unchanged, (tmp_path / "x").exists()) == (True, False)
    assert papers.requests[0][1]["If-Modified-Since"] == "Fri, 20 Nov 2026 08:00:00 GMT"


# ── where we do not go ──────────────────────────────────────────────────────────────────────────

PRIVATE = [
    "10.0.0.5", "127.0.0.1", "169.254.169.254", "172.16.3.4", "192.168.1.1", "100.64.0.1", "0.1.2.3",
    "224.0.0.1", "255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
    "::ffff:10.0.0.5", "::ffff:127.0.0.1", "2002:0a00:0001::1", "64:ff9b::a00:1", "64:ff9b::7f00:1",
    "2001:0:0a00:1::1", "fec0::1", "not an address",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_into_a_private_network_is_refused(address: str, tmp_path: Path) -> None:
    strict = fetcher(loopback=False, resolve=lambda _host, _port: [address])

    with pytest.raises(FetchFailed, match="not on the open internet"):
        strict.fetch("https://papers.example.org/", tmp_path / "x")
    assert strict.requested_hosts == []


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111"])
def test_public_addresses_may_be_fetched(address: str) -> None:
    strict = fetcher(loopback=False, resolve=lambda _host, _port: [address])

    assert strict.check_target("https://papers.example.org/list?x=1").address == address


def test_one_private_address_among_public_ones_is_enough_to_refuse(tmp_path: Path) -> None:
    strict = fetcher(loopback=False, resolve=lambda _host, _port: ["93.184.216.34", "10.0.0.5"])

    with pytest.raises(FetchFailed, match=r"10\.0\.0\.5"):
        strict.fetch("https://papers.example.org/", tmp_path / "x")


@pytest.mark.parametrize(
    "url",
    [
        "http://papers.example.org/",
        "ftp://papers.example.org/",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "gopher://papers.example.org/",
        "https://someone:secret@papers.example.org/",
        "https://papers.example.org:99999/",
        "https://[::1/",
        "//papers.example.org/",
        "",
    ],
)
def test_only_plain_https_addresses_are_fetched(url: str, tmp_path: Path) -> None:
    strict = fetcher(loopback=False, resolve=lambda _host, _port: ["93.184.216.34"])

    with pytest.raises(FetchFailed):
        strict.fetch(url, tmp_path / "x")
    assert strict.requested_hosts == []


def test_loopback_is_refused_by_default(papers: Papers, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="not an https URL"):
        fetcher(loopback=False).fetch(f"{papers.url}/list", tmp_path / "x")
    with pytest.raises(FetchFailed, match="not on the open internet"):
        fetcher(loopback=False).fetch(
            papers.url.replace("http:", "https:").replace("127.0.0.1", "localhost"), tmp_path / "x"
        )
    assert papers.requests == []


def test_a_name_is_looked_up_once_and_the_checked_address_is_where_we_connect(
    papers: Papers, tmp_path: Path
) -> None:
    """A second answer, into a private network, is what DNS rebinding would give."""
    papers.answers["/"] = says("[]")
    answers: list[list[str]] = [["127.0.0.1"], ["10.0.0.5"], ["10.0.0.5"]]
    strict = fetcher(resolve=lambda _host, _port: answers.pop(0))
    port = papers.url.rpartition(":")[2]

    strict.fetch(f"http://papers.example.org:{port}/", tmp_path / "x")

    assert (strict.requested_hosts, len(answers)) == (["127.0.0.1"], 2)
    assert papers.requests[0][1]["Host"] == f"papers.example.org:{port}"


@pytest.mark.parametrize(
    "to",
    [
        "https://10.0.0.5/latest",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.5]/",
        "http://93.184.216.34/plain",
        "https://2130706433/",
        "https://0x7f.1/",
        "file:///etc/passwd",
        "https://user:secret@93.184.216.34/",
    ],
)
def test_a_redirect_into_a_private_network_is_not_followed(to: str, papers: Papers, tmp_path: Path) -> None:
    papers.answers["/"] = sends_on(to)
    strict = Strict(agent=AGENT, loopback=True)

    with pytest.raises(FetchFailed):
        strict.fetch(papers.url, tmp_path / "x")
    assert strict.requested_hosts == ["127.0.0.1"]
    assert not (tmp_path / "x").exists()


class Strict(Fetcher):
    """Reaches the test's server the first time; from then on the rules of the open internet hold."""

    def is_allowed(self, address: str) -> bool:
        return len(self.requested_hosts) == 0 or Fetcher(agent=AGENT).is_allowed(address)

    @property
    def schemes(self) -> tuple[str, ...]:
        return ("https", "http") if not self.requested_hosts else Fetcher(agent=AGENT).schemes


def test_a_redirect_to_loopback_is_refused_in_the_same_way(papers: Papers, tmp_path: Path) -> None:
    papers.answers["/"] = sends_on("https://127.0.0.1/")
    strict = Strict(agent=AGENT, loopback=True)

    with pytest.raises(FetchFailed, match="not on the open internet"):
        strict.fetch(papers.url, tmp_path / "x")


def test_redirects_are_followed_a_few_times(papers: Papers, tmp_path: Path) -> None:
    papers.answers |= {f"/{hop}": sends_on(f"/{hop + 1}", status=301 + hop % 3) for hop in range(5)}
    papers.answers["/5"] = says("[]")

    assert fetcher().fetch(f"{papers.url}/0", tmp_path / "x").size == 2

    papers.answers["/5"] = sends_on("/0", status=308)
    with pytest.raises(FetchFailed, match="more than 5 times"):
        fetcher().fetch(f"{papers.url}/0", tmp_path / "x")


# ── certificates ────────────────────────────────────────────────────────────────────────────────


def test_the_certificate_must_be_that_of_the_name_not_of_the_address(tmp_path: Path) -> None:
    certificate = certificates.make(tmp_path, "papers.example.org")
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    strict = fetcher(resolve=lambda _host, _port: ["127.0.0.1"], trust=trust)

    with serving(certificate) as papers:
        papers.answers["/list"] = says("[]")
        port = papers.url.rpartition(":")[2]

        assert strict.fetch(f"https://papers.example.org:{port}/list", tmp_path / "x").size == 2
        with pytest.raises(FetchFailed, match=r"(?i)certificate"):
            strict.fetch(f"https://other.example.org:{port}/list", tmp_path / "x")
        with pytest.raises(FetchFailed, match=r"(?i)certificate"):
            fetcher(resolve=strict.resolve).fetch(f"https://papers.example.org:{port}/list", tmp_path / "x")


# ── what comes back ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [400, 403, 404, 410, 429, 500, 503])
def test_an_error_has_its_status_and_retry_after(status: int, papers: Papers, tmp_path: Path) -> None:
    papers.answers["/"] = refuses(status, Retry_After="120")

    with pytest.raises(FetchFailed) as failed:
        fetcher().fetch(papers.url, tmp_path / "x")

    assert (failed.value.status, failed.value.retry_after) == (status, "120")
    assert str(failed.value).startswith(f"The server returned {status} ")


def test_a_document_cut_short_leaves_no_file(papers: Papers, tmp_path: Path) -> None:
    papers.answers["/"] = breaks_off(b'[{"title": "Kites"}]', after=8)

    with pytest.raises(FetchFailed, match=r"The request to 127\.0\.0\.1 failed"):
        fetcher().fetch(papers.url, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("headers_too", [False, True], ids=["body", "headers"])
def test_a_slow_server_is_abandoned_in_time(headers_too: bool, papers: Papers, tmp_path: Path) -> None:
    papers.answers["/"] = drips(headers_too=headers_too)

    with pytest.raises(FetchFailed, match="took longer than 1 seconds"):
        fetcher(most_seconds=1.0).fetch(papers.url, tmp_path / "x")

    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_is_abandoned_in_time(papers: Papers, tmp_path: Path) -> None:
    is_over = Event()

    def stay_silent(_handler: object) -> None:
        is_over.wait()

    papers.answers["/"] = stay_silent

    with pytest.raises(FetchFailed, match="The request to"):
        fetcher(max_silence=0.5).fetch(papers.url, tmp_path / "x")
    is_over.set()


def test_a_document_that_is_too_large_is_abandoned(papers: Papers, tmp_path: Path) -> None:
    papers.answers["/"] = says(b"a" * 3_000_000)
    papers.answers["/unannounced"] = drips()
    small = fetcher(most_bytes=10)

    with pytest.raises(FetchFailed, match="larger than"):
        fetcher(most_bytes=2_000_000).fetch(papers.url, tmp_path / "x")
    with pytest.raises(FetchFailed, match="larger than"):
        small.fetch(f"{papers.url}/unannounced", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_packed_answers_are_unpacked_within_limits(papers: Papers, tmp_path: Path) -> None:
    papers.answers |= {
        "/fine": packs(b"[1, 2, 3]" * 1000),
        "/bomb": packs(b"\0" * 30_000_000),
        "/cut": packs(b"[1, 2, 3]" * 1000, cut=12),
        "/noise": says(b"no gzip at all", Content_Encoding="gzip"),
        "/odd": packs(b"[]", encoding="br"),
    }

    assert fetcher().fetch(f"{papers.url}/fine", tmp_path / "x").size == 9000
    for path, reason in {
        "bomb": "times its size",
        "cut": "truncated",
        "noise": "damaged",
        "odd": "'br'",
    }.items():
        with pytest.raises(FetchFailed, match=reason):
            fetcher().fetch(f"{papers.url}/{path}", tmp_path / path)
        assert not (tmp_path / path).exists()


def test_an_unknown_name_and_a_closed_port_are_reported(tmp_path: Path) -> None:
    def unknown(_host: str, _port: int) -> list[str]:
        raise OSError("Name or service not known")

    with pytest.raises(FetchFailed, match=r"papers\.example could not be resolved"):
        fetcher(resolve=unknown).fetch("https://papers.example/", tmp_path / "x")
    with pytest.raises(FetchFailed, match="The request to"):
        fetcher().fetch("http://127.0.0.1:1/", tmp_path / "x")
