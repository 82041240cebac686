"""Provide the checking programs, and real letters and pages to check."""

from __future__ import annotations

import json
import os
import re
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email import message_from_bytes
from pathlib import Path

import pytest

from digest.settings import load_settings
from digest.site import links
from digest.site.site_profile import Site
from tests.judge import readme_picture
from tests.judge.installed_programs import npm_package, program
from tests.judge.journey_walks import BrowserPrograms
from tests.judge.spam import Rspamd, running
from tests.judge.thunderbird import Thunderbird
from tests.support.mail_bodies import body_of
from tests.support.product_processes import Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import wait_until

IS_ASKED = "JUDGE" in os.environ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.judge)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))  # the first run installs its judges
            if not IS_ASKED:
                item.add_marker(pytest.mark.skip(reason="installs programs: run by make judge"))


@pytest.fixture(scope="session")
def is_full() -> bool:
    """Return whether every judge checks everything."""
    return os.environ.get("JUDGE") == "full"


@pytest.fixture(scope="session")
def chromium() -> str:
    return program("chromium", package="chromium")


@pytest.fixture(scope="session")
def thunderbird(is_full: bool) -> Thunderbird | None:
    """A mail program on a virtual screen; it is large, so it runs only in the full suite."""
    if not is_full:
        return None
    return Thunderbird(
        thunderbird=program("thunderbird", package="thunderbird"),
        screen=program("Xvfb", package="xvfb"),
        camera=program("import", package="imagemagick"),
        counter=program("convert", package="imagemagick"),
    )


@pytest.fixture(scope="session")
def spamassassin() -> str:
    return program("spamassassin", package="spamassassin")


@pytest.fixture(scope="session")
def html_checker() -> list[str]:
    """The command of the Nu HTML checker."""
    java = program("java", package="default-jre-headless")
    return [java, "-jar", str(npm_package("vnu-jar") / "build" / "dist" / "vnu.jar")]


@pytest.fixture(scope="session")
def rspamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rspamd]:
    server, client = program("rspamd", package="rspamd"), program("rspamc", package="rspamd")
    if os.geteuid() != 0:
        pytest.skip("rspamd is started as its own user, which takes root")
    with (
        tempfile.TemporaryDirectory(prefix="digest-rspamd-", ignore_cleanup_errors=True) as folder,
        running(server, client, Path(folder)) as judge,
    ):
        yield judge


@pytest.fixture(scope="session")
def node() -> str:
    return program("node", package="nodejs")


@pytest.fixture(scope="session")
def axe() -> Path:
    """The script of axe-core."""
    return npm_package("axe-core") / "axe.min.js"


@pytest.fixture(scope="session")
def browser_programs(node: str, chromium: str, axe: Path) -> BrowserPrograms:
    return BrowserPrograms(node=node, chromium=chromium, axe=axe)


@dataclass(frozen=True, kw_only=True)
class Exhibits:
    """The letters and pages that the product makes from the sample dump."""

    digest_html: Path
    digest_eml: Path
    letters: Mapping[str, bytes]  #: the delivered messages, keyed by recipient
    records: Mapping[str, str]  #: the DNS records of our keys
    site: str  #: the address at which the pages are served
    pages: Mapping[str, str]  #: the path of each page on the site, keyed by name

    def html(self, name: str) -> bytes:
        """Return a page."""
        with urllib.request.urlopen(self.site + self.pages[name]) as answer:  # noqa: S310  (our own server)
            content: bytes = answer.read()
            return content


@pytest.fixture(scope="session")
def installation_with_readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with the sample papers, a few readers and a running web server."""
    port = free_port()
    settings = {"LISTEN": f"127.0.0.1:{port}", "BASE_URL": f"http://127.0.0.1:{port}"}
    with installation(tmp_path_factory.mktemp("judge") / "home", settings=settings) as ours:
        ours.run("intake", str(readme_picture.SAMPLE))
        chosen = [part for topic in readme_picture.TOPICS for part in ("--topic", topic)]
        ours.run("subscribers", "add", "alice@example.org", *chosen, "--at", "00:00", *readme_picture.CONSENT)
        ours.run("subscribers", "add", "bob@example.org", "--topic", "Robots=robot*")
        wide = ("--topic", "Whatever is new=the OR we OR of", "--at", "00:00")
        ours.run("subscribers", "add", "carol@example.org", *wide, *readme_picture.CONSENT)
        ours.run("subscribers", "edit", "carol@example.org", "--max-papers", "3")
        yield ours


@pytest.fixture(scope="session")
def exhibits(installation_with_readers: Installation, tmp_path_factory: pytest.TempPathFactory) -> Exhibits:
    folder = tmp_path_factory.mktemp("exhibits")
    installation_with_readers.run(
        "dkim", "keygen", "--ed25519", "--selector", "mail", "--out", str(folder / "key.pem")
    )
    public = replace(
        installation_with_readers,
        settings={
            **installation_with_readers.settings,
            **PUBLIC,
            "DKIM_KEYS": f"mail:{folder}/key.pem, mailed:{folder}/keyed.pem",
        },
    )
    public.run("preview", "alice@example.org", "--out", str(folder))
    public.run("publish")
    public.run("deliver")
    records = json.loads(public.run("dkim", "keygen", "--list", "--json").stdout)["records"]
    letters = {}
    for path in (installation_with_readers.data_dir / "outbox" / "new").iterdir():
        message = path.read_bytes()
        letters[message_from_bytes(message)["To"]] = message
    installation_with_readers.start("web")
    site = installation_with_readers.settings["BASE_URL"]
    wait_until("the web server", lambda: answers(f"{site}/healthz"))
    return Exhibits(
        digest_html=folder / "digest.html",
        digest_eml=folder / "digest.eml",
        letters=letters,
        records={record["name"]: record["value"] for record in records},
        site=site,
        pages=pages(load_settings({"data_dir": installation_with_readers.data_dir}).site(), letters),
    )


#: The settings of a public site: an https address, and a sender in its own domain.
PUBLIC = {
    "BASE_URL": "https://digest.example.org",
    "SENDER": "Digest <digest@digest.example.org>",
}
PAGES = (
    "first", "mail of today", "paper", "privacy", "confirm", "leave", "ask", "settings", "archive", "digest",
    "rest",
)  # fmt: skip


def pages(site: Site, letters: Mapping[str, bytes]) -> dict[str, str]:
    """Return the paths of the public pages and of those that Alice's and Bob's letters link to."""
    alice = {
        "leave": links.unsubscribe_url(site, 1, 0),
        "ask": links.topic_links_url(site, 1, 0),
        "settings": links.manage_url(site, 1, 0),
        "archive": links.archive_url(site, 1, 0),
    }
    text = {email: body_of(one, "plain") for email, one in letters.items()}
    confirm, digest, full = (
        re.findall(rf"/{place}/[\w.-]+", text[email])[0]
        for place, email in (("c", "bob@example.org"), ("v", "alice@example.org"), ("v", "carol@example.org"))
    )
    open_to_all = {"first": "/", "mail of today": "/email", "paper": "/papers/1", "privacy": "/privacy"}
    theirs = {name: url.removeprefix(site.url) for name, url in alice.items()}
    mailed = {"confirm": confirm, "digest": digest, "rest": f"{full}/1"}
    return open_to_all | theirs | mailed


def answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (our own server)
        return bool(answer.status == 200)
    return False
