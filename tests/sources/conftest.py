"""A server of papers for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sources.server import Papers, serving


@pytest.fixture
def papers() -> Iterator[Papers]:
    with serving() as ours:
        yield ours
