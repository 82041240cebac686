"""The real service serves its pages in its own process, and the links in its mails work."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.mail_bodies import body_of
from tests.support.product_processes import Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import pause, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Installation, httpx2.Client]]:
    """`digest web` on a port of its own, and a browser."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    folder = tmp_path_factory.mktemp("served")
    with installation(folder / "data", settings={"LISTEN": f"127.0.0.1:{port}", "BASE_URL": address}) as ours:
        ours.start("web")
        with httpx2.Client(base_url=address, follow_redirects=True) as client:
            wait_until("the site to answer", lambda: is_well(client))
            yield ours, client
        ours.stop(how=signal.SIGTERM)


def is_well(client: httpx2.Client) -> bool:
    try:
        return client.get("/healthz").text == "ok\n"
    except httpx2.TransportError:
        return False


def text_of(mail: Path) -> str:
    return body_of(mail.read_bytes(), "plain")


def link(content: str, prefix: str) -> str:
    found = re.search(rf"http://127\.0\.0\.1:\d+/{prefix}/[\w.-]+", content)
    assert found, content
    return found[0]


def test_a_reader_subscribes_gets_papers_and_unsubscribes_with_a_browser_and_a_mailbox(context):
    ours, client = context
    ours.run("intake", str(Path("digest/dumps/sample/invented-papers.txt").resolve()))

    (stamp,) = re.findall(r'name="made" value="([^"]+)"', client.get("/").text)
    pause(2.1, "a person needs two seconds to fill in the form")
    assert (
        "We sent a confirmation link to ada@uni.edu"
        in client.post("/", data={"made": stamp, "email": "ada@uni.edu", "filter": "diffusion"}).text
    )
    ours.run("run")  # sends the confirmation that waits
    [asked] = (ours.data_dir / "outbox").rglob("*.eml*")
    confirm = link(text_of(asked), "c")
    assert "Confirm your subscription" in client.get(confirm).text
    assert "You are subscribed" in client.post(confirm).text

    ours.run("deliver")
    welcome = next(mail for mail in (ours.data_dir / "outbox").rglob("*.eml*") if mail != asked)
    settings, leave = link(text_of(welcome), "m"), link(text_of(welcome), "u")
    assert 'value="diffusion"' in client.get(settings).text
    assert client.post(leave, data={"List-Unsubscribe": "One-Click"}).text == "Unsubscribed.\n"
    [ada] = ours.lines("subscribers", "list")
    assert (ada["email"], ada["state"]) == ("ada@uni.edu", "unsubscribed")

    for secret in (confirm, settings, leave):
        assert secret.rpartition("/")[2] not in ours.logs()


def test_malformed_requests_do_not_break_the_site(context):
    _, client = context

    assert client.head("/").status_code == 200
    assert client.get("/" + "x" * 5000).status_code == 404
    assert client.post("/", content=b"a" * 200_000, headers={"content-type": "text/plain"}).status_code in {
        413,
        422,
    }
    large = client.post(
        "/link", data={"email": "x" * 6_000_000}
    )  # read to its end, so that the client gets the page
    assert (large.status_code, "The form is too large" in large.text) == (413, True)
    assert client.request("BREW", "/").status_code == 405
    assert "server" not in client.get("/").headers
    assert is_well(client)
