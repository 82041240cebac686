"""The rarity of a word in abstracts comes from a fixed table."""

from __future__ import annotations

from pathlib import Path

import pytest

from digest.topics import word_rarity
from digest.topics.tokenizer import root
from tests.topics import abstract_frequencies
from tests.topics.test_relevance import SHARED

TABLE = Path(word_rarity.__file__).with_suffix(".txt")


def test_a_word_of_most_abstracts_has_fewer_bits_than_a_word_of_few():
    for common, rare in (
        ("the", "people"),
        ("method", "disease"),
        ("neural", "diffusion"),
        ("model", "lora"),
    ):
        assert word_rarity.bits(root(common)) < word_rarity.bits(root(rare)), (common, rare)


def test_an_unknown_word_is_rare_and_describes_a_subject():
    assert word_rarity.bits("qwertz") == word_rarity.RAREST
    assert word_rarity.is_significant("qwertz")
    assert not word_rarity.is_significant(root("extensive"))


def test_the_table_is_small_and_has_each_root_once():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith(("#", word_rarity.COMMON))]
    roots = [word for _, *words in rows for word in words]

    assert len(roots) == len(set(roots)) > 3000
    assert all(0 <= float(bits) < word_rarity.RAREST for bits, *_ in rows)
    assert TABLE.stat().st_size <= 400_000
    assert TABLE.read_text(encoding="utf-8").startswith(abstract_frequencies.HEADER)


def test_the_table_is_made_from_the_counted_abstracts(monkeypatch, tmp_path):
    if not (SHARED / "data" / "abstract_words.tsv").exists():
        pytest.skip("needs ../shared/data")
    made = tmp_path / "word_rarity.py"
    monkeypatch.setattr(word_rarity, "__file__", str(made))

    abstract_frequencies.main()

    assert made.with_suffix(".txt").read_bytes() == TABLE.read_bytes()
