"""The rarity of a word comes from a fixed table."""

from __future__ import annotations

from pathlib import Path

import pytest

from digest.topics import word_rarity
from digest.topics.word_roots import root
from tests.conftest import ROOT
from tests.topics import english_frequencies

TABLE = Path(word_rarity.__file__).with_suffix(".txt")


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


def test_each_root_is_in_the_table_once():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    roots = [word for _, *words in rows for word in words]

    assert len(roots) == len(set(roots)) > 2000
    assert all(0 <= float(bits) < word_rarity.RAREST for bits, *_ in rows)


@pytest.mark.parametrize("path", [TABLE, ROOT / "NOTICE", ROOT / "README.md"], ids=lambda path: path.name)
def test_the_licence_and_the_author_of_the_table_are_named(path):
    text = " ".join(path.read_text(encoding="utf-8").replace("\n# ", " ").split())

    assert "https://creativecommons.org/licenses/by-sa/4.0/" in text
    assert "https://github.com/rspeer/wordfreq" in text
    assert "Robyn Speer" in text


@pytest.mark.parametrize("path", [TABLE, ROOT / "NOTICE"], ids=lambda path: path.name)
def test_the_sources_of_wordfreq_are_credited(path):
    text = " ".join(path.read_text(encoding="utf-8").replace("\n# ", " ").split())

    assert "SUBTLEX, freely available word lists by Marc Brysbaert and others" in text


def test_the_table_begins_with_the_header_that_is_written_with_it():
    assert TABLE.read_text(encoding="utf-8").startswith(english_frequencies.HEADER)
