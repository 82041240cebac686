"""A server of papers for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dumps.sources.paper_server import Papers, serving


@pytest.fixture
def papers() -> Iterator[Papers]:
    with serving() as server:
        yield server
