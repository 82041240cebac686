"""Look up in a fixed table how rare a word is in papers.

The rarity of a word is -log2 of the share of papers that contain it, in bits. The share is not measured in
papers. A paper is treated as ordinary English text of the same length; the word frequencies of English are in
`word_rarity.txt`. The research words below are exceptions, because they are much more common in papers.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from digest.topics import word_roots

#: Bits of a word that is not in the table: at most one paper in 256 is expected to contain the word.
RAREST = 8.0
SIGNIFICANT = 3.0  #: minimum number of bits of a word that describes a subject by itself

#: Research words, keyed by bits; the maintainers estimated the bits instead of measuring them in a
#: collection.
_RESEARCH_WORDS = {
    1.0: (
        "model learn train data network result task perform performance propose show demonstrate neural "
        "method approach improve art state base novel experiment present"
    ),
    2.5: (
        "deep large language image dataset algorithm evaluate general generalize generalization feature "
        "domain problem analysis application system framework process test design structure different "
        "represent distribution function setting sample apply efficient effective benchmark various human "
        "time high low parameter machine information knowledge architecture technique inference "
        "significant existing recent challenge achieve outperform address introduce provide require "
        "complex single multiple level real world limit compare baseline accuracy error optimize "
        "optimization classification prediction robust input output understand context code available "
        "open research strategy capability ability pre pretrained fine tune scale size search number key "
        "space local global explore classify"
    ),
    3.5: (
        "transformer attention visual vision video graph reinforcement policy agent reasoning semantic "
        "object embedding gradient loss text source target label annotation class regression supervised "
        "unsupervised self transfer adapt bias noise bound theory theoretical empirical computational "
        "cost memory layer token sequence latent dynamic temporal spatial environment simulation "
        "probabilistic uncertainty statistical estimate measure metric score question answer natural "
        "processing user prompt llm linear convolutional encoder decoder diffusion adversarial "
        "contrastive multi modal multimodal cross zero shot few unseen out in interpret explain mechanism "
        "pattern signal quality resource rate property factor interaction"
    ),
}


def bits(root: str) -> float:
    """Return the rarity of the words with this root, in bits."""
    return _table().get(root, RAREST)


def is_significant(root: str) -> bool:
    """Return whether words with this root describe a subject by themselves."""
    return bits(root) >= SIGNIFICANT


@lru_cache(maxsize=1)  # cached, because the table never changes
def _table() -> dict[str, float]:
    """Return the bits of every root in the table; any other root has `RAREST` bits."""
    found: dict[str, float] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        written, _, roots = line.partition(" ")
        if written != "#":
            found |= dict.fromkeys(roots.split(), float(written))
    for rarity, words in _RESEARCH_WORDS.items():
        for root in map(word_roots.root, words.split()):
            found[root] = min([rarity, found.get(root, RAREST)])
    return found
