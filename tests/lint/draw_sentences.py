"""Draw random sentences for an editor to read: `python -m tests.lint.draw_sentences SEED [HOW_MANY]`.

The same seed draws the same sentences. At most two of sixty may need rewriting.
"""

from __future__ import annotations

import random
import sys

from tests.lint.sentences import sentences

SIXTY = 60


def main(seed: str, how_many: int = SIXTY) -> None:
    """Print this many random sentences, each with its file and line."""
    drawn = random.Random(seed).sample(list(sentences()), how_many)
    for number, text in enumerate(drawn, start=1):
        print(f"{number:2}. [{text.kind}] {text}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
