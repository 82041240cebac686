"""Render one letter of a stored press and exit: `letters` times it as the first letter of a cold process."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from digest.editions.compose import Digest, Section
from digest.letters import Personalization, press
from digest.site_profile import Site


def main(path: Path) -> None:
    """Print the size of the letter in bytes."""
    made = press.from_bytes(path.read_bytes())
    now = datetime(2026, 11, 20, 7, tzinfo=UTC)
    section = Section(topic="T", filter_id=None, papers=tuple(range(1, 11)))
    personalization = Personalization(
        recipient="a@example.edu", edition="daily-2026-11-20", day=now.date(), dated_at=now,
        unsubscribe_url="https://x/u", manage_url="https://x/m",
    )  # fmt: skip
    site = Site(url="https://x", keys=(b"k",))
    print(
        len(
            press.LetterAssembler(made, site).message(
                Digest(sections=(section,), checked=500), personalization
            )
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
