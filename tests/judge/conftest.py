"""The judges, and real letters and pages for them to judge."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.judge.programs import npm_package, program
from tests.processes import ROOT, Installation, installation, wait_until
from tests.servers import free_port

IS_ASKED = "JUDGE" in os.environ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.judge)
            if not IS_ASKED:
                item.add_marker(pytest.mark.skip(reason="installs programs: run by make judge"))


@pytest.fixture(scope="session")
def is_full() -> bool:
    """Whether every judge looks at everything."""
    return os.environ.get("JUDGE") == "full"


@pytest.fixture(scope="session")
def chromium() -> str:
    return program("chromium", package="chromium")


@pytest.fixture(scope="session")
def spamassassin() -> str:
    return program("spamassassin", package="spamassassin")


@pytest.fixture(scope="session")
def html_checker() -> list[str]:
    """The command of the Nu HTML checker."""
    java = program("java", package="default-jre-headless")
    return [java, "-jar", str(npm_package("vnu-jar") / "build" / "dist" / "vnu.jar")]


@dataclass(frozen=True, kw_only=True)
class Exhibits:
    """What the product makes of the sample dump."""

    digest_html: Path
    digest_eml: Path
    letters: tuple[bytes, ...]  #: the other letters, as messages
    site: str  #: where the pages are served


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with the sample papers and a few readers, its web door open."""
    port = free_port()
    settings = {"PORT": str(port), "BASE_URL": f"http://127.0.0.1:{port}"}
    with installation(tmp_path_factory.mktemp("judge") / "home", settings=settings) as ours:
        ours.run("intake", str(ROOT / "digest" / "sample" / "invented-papers.txt"))
        topics = (
            'Language models="language model*"',
            "The living world=forest OR coral OR protein* OR crop*",
        )
        chosen = [part for topic in topics for part in ("--topic", topic)]
        ours.run("subscribers", "add", "alice@example.org", *chosen, "--at", "00:00", *CONSENT)
        ours.run("subscribers", "add", "bob@example.org", "--topic", "Robots=robot*")
        yield ours


CONSENT = ("--confirmed", "--consent", "asked at the group meeting")


@pytest.fixture(scope="session")
def exhibits(house: Installation, tmp_path_factory: pytest.TempPathFactory) -> Exhibits:
    folder = tmp_path_factory.mktemp("exhibits")
    house.run("preview", "alice@example.org", "--out", str(folder))
    house.run("deliver")
    maildir = house.data_dir / "outbox" / "new"
    house.start("web")
    site = house.settings["BASE_URL"]
    wait_until("the web door", lambda: answers(f"{site}/healthz"))
    return Exhibits(
        digest_html=folder / "digest.html",
        digest_eml=folder / "digest.eml",
        letters=tuple(path.read_bytes() for path in sorted(maildir.iterdir())),
        site=site,
    )


def answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (our own server)
        return answer.status == 200
    return False
