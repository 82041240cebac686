"""The fixed table of how rare words are."""

from __future__ import annotations

from pathlib import Path

import pytest

from digest.topics import word_rarity
from digest.topics.word_roots import root


@pytest.mark.parametrize(
    ("common", "rare"),
    [
        ("the", "people"),
        ("people", "kitchen"),
        ("model", "kitchen"),
        ("neural", "diffusion"),
        ("dataset", "lora"),
    ],
)
def test_a_common_word_has_fewer_bits_than_a_rare_word(common, rare):
    assert word_rarity.bits(root(common)) < word_rarity.bits(root(rare))


def test_an_unknown_word_is_rare_and_significant():
    assert word_rarity.bits("qwertz") == word_rarity.RAREST
    assert word_rarity.is_significant("qwertz")
    assert not word_rarity.is_significant(root("models"))


def test_the_table_names_its_source_and_licence_and_each_root_once():
    lines = Path(word_rarity.__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    roots = [word for _, *words in rows for word in words]

    assert "wordfreq" in lines[1]
    assert "ShareAlike 4.0" in lines[2]
    assert len(roots) == len(set(roots)) > 2000
    assert all(0 <= float(bits) < word_rarity.RAREST for bits, *_ in rows)
