"""Check the matching rules of docs/filters.md one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from digest.errors import BadFilter
from digest.topics import filter_parser, paper_index
from digest.topics.paper_index import PaperIndex
from tests.topics.invented_papers import KITCHEN, paper


def matches(written, *papers):
    return PaperIndex(papers).matches(filter_parser.parse(written))


@pytest.mark.parametrize(
    ("written", "text", "found"),
    [
        ("model", "Models of growth", True),
        ("models", "a model", True),
        ("batches", "a batch", True),
        ("caches", "a cache", True),
        ("matrix", "sparse matrices", True),
        ("policy", "two policies", True),
        ("bias", "many biases", True),
        ("physic", "physics", True),
        ('"models"', "a model", False),
        ('"models"', "MODELS", True),
        ('"large models"', "a large model", False),
        ('"large model*"', "Large Models", True),
        ("rag", "storage", False),
        ("general", "generalise", False),
        ("general*", "generalise", True),
        ("café", "CAFE", True),
        ("cafe", "cafe\u0301", True),
        (r"Schr\"odinger", "Schrödinger", True),
        ("schrodinger", r"Schr\"{o}dinger", True),
        ("alpha", r"the $\alpha$ and the rest", True),
        (r"$\alpha$", "the α divergence", True),
        ("lukasz", "Łukasz", True),
        ("re3sim", "Re$^3$Sim", True),
        ("model", "the model's weights", True),
        ("3.5", "GPT-3.5", True),
        ("3", "GPT-3.5", False),
        ("扩散模型", "基于扩散模型的方法", True),
        ("扩散方法", "基于扩散模型的方法", False),
    ],
)
def test_words_are_found_without_case_accents_tex_and_plurals(written, text, found):
    assert matches(written, paper(text)) == found
    assert matches(written, paper("", text)) == found


@pytest.mark.parametrize(
    "written", ["self-attention", "selfattention", '"self attention"', "self-attentions"]
)
@pytest.mark.parametrize("text", ["self-attention", "self attention", "selfattention", "Self–Attention"])
def test_hyphenated_spaced_and_joined_words_match_each_other(written, text):
    assert matches(written, paper(f"With {text} alone"))


@pytest.mark.parametrize(
    ("written", "text", "found"),
    [
        ('"in-context"', "learning in context", True),
        ('"in-context"', "in-context-learning", True),
        ('"in-context"', "in context-free grammars", False),
        ('"in-context"', "built-in context", False),
        ('"in-context"', "in, context", False),
        ('"in context"', "in, context", True),
        ("incontext", "in-context", True),
        ("incontext", "in context", False),
        ("overfitting", "over fitting", True),
        ("overfitting", "over, fitting", False),
        ("inform", "in form", False),
        ("within", "with in", False),
        ("pretrain*", "pre-trained", True),
        ("pretrain*", "pre trained", True),
        ("vision-language-action", "vision language action models", True),
        ("vision-language-action", "a vision-language-action-model", True),
        ("vision-language", "a vision language-action model", False),
        ("stateoftheart", "state-of-the-art", False),
        ("state-of-the-art", "stateoftheart", True),
        ("gpt4", "GPT-4", True),
        ("2024", "20-24", False),
        ('"pretraining objective"', "a pre-training objective", True),
        ('"question answering"', "visual-question-answering-systems", True),
        ('"batch size"', "batches of any size", False),
    ],
)
def test_a_compound_matches_only_its_own_spellings(written, text, found):
    assert matches(written, paper("", text)) == found


@pytest.mark.parametrize(
    ("written", "text", "found"),
    [
        ("SAM", "SAM segments", True),
        ("SAM", "two SAMs", True),
        ("SAM", "uncle Sam", False),
        ("SAM", "sam", False),
        ("SAM-GPT4", "SAM GPT4", True),
        ('"SAM model"', "the SAM MODEL", True),
        ("sam", "SAM", True),
        ('"SAM"', "SAMs", False),
        ("VQA*", "VQAv2", True),
        ("GPT-4", "gpt-4", False),
        ("ROBOTS", "robots", True),
        ('"SHARPNESS AWARE SAM"', "sharpness aware sam", True),
        ('"SAM optimizer"', "the Sam optimizer", False),
        ('"SAM optimizer"', "the SAM optimizer", True),
    ],
)
def test_short_acronyms_mean_themselves_as_typed(written, text, found):
    assert matches(written, paper("", text)) == found


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('"robot arms"~0', True),
        ('"arms robot"~0', True),
        ('"robot grip"~1', False),
        ('"robot grip"~2', True),
        ('"robot arms grip"~1', True),
        ('"robot gri*"~2', True),
        ('"robots grip"~2', False),
    ],
)
def test_near_words_stand_in_any_order_with_few_between(written, found):
    assert matches(written, paper("", "The robot arms can grip")) == found


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("ti:diffusion", True), ("ti:score", False), ("abs:score", True), ("abs:diffusion", False),
        ("co:workshop", True), ("workshop", False), ("all:workshop", True), ('jr:"journal of cups"', True),
        ("org:cuplab", True), ('org:"Cup Lab"', True), ("all:okafor", True), ("okafor", False),
        ("ti:(kitchen robots)", True), ("ti:(kitchen grasps)", False), ("ti:(kitchen OR grasps)", True),
        ("cat:cs.RO", True), ("cat:cs", True), ("cat:cs.*", True), ("cat:astro-ph", True), ("cat:stat", False),
        ("pcat:cs.RO", True), ("pcat:cs.SY", False), ("cat:eess.SY", True), ("pcat:cs", True), ("cat:cs.R*", None),
        ("id:2411.01234", True), ("id:2411.01234v3", True), ("doi:10.1000/KITCHEN", True), ("id:2411.99999", False),
        ("is:cross", True), ("is:new", False), ("source:daily*", None), ('source:"daily papers"', True),
        ("date:2024", True), ("date:2024-11-03", True), ("date:<2024-11-03", False), ("date:>=2024-11", True),
        ("upvotes:>=42", True), ("upvotes:>42", False), ("upvotes:40..50", True), ("comments:3", True),
        ("stars:>=0", False), ("-stars:>=0 robot", True), ("upvotes:<1k", True),
    ],
)  # fmt: skip
def test_a_field_searches_only_its_own_text(written, found):
    if found is None:
        with pytest.raises(BadFilter):
            filter_parser.parse(written)
    else:
        assert matches(written, KITCHEN) == found


def test_a_title_and_an_abstract_are_two_texts():
    assert not matches('"kitchen robots we"', KITCHEN)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("au:ito", True), ("au:yuki", True), ('au:"Ito, Y"', True), ("au:ito_y", True), ('au:"Yuki Ito"', True),
        ('au:"Y. Ito"', True), ('au:"Ito Yuki"', False), ('au:"Ito, Yoko"', False), ("au:it*", None),
        ("au:oka*", True), ("1au:ito", True), ("1au:okafor", False), ('au:"^Okafor, A"', False),
        ('au:"Lind, J P"', True), ('au:"Lind, Jean"', True), ('au:"Lind, Pierre"', False), ('au:"J Lind"', True),
        ('au:"Jean-Pierre Lind"', True), ('au:"Lind,"', True), ('au:"Pierre,"', False),
    ],
)  # fmt: skip
def test_authors_are_found_by_names_and_initials_in_order(written, found):
    if found is None:
        with pytest.raises(BadFilter):
            filter_parser.parse(written)
    else:
        assert matches(written, KITCHEN) == found


def test_a_full_name_never_finds_an_initial():
    assert not matches('au:"Wang, Yi"', paper(authors=("Y. Wang",)))
    assert matches('au:"Wang, Y"', paper(authors=("Yi Wang", "Wang, Yu")))


def test_names_are_read_in_either_order():
    written = paper(authors=("del Maestro, Adrian", "Martin King, Jr."))

    assert matches("au:del_maestro", written)
    assert matches('au:"King, M"', written)
    assert matches('au:"Adrian del Maestro"', written)


def test_the_best_paper_is_bit_0():
    batch = [paper("robots"), paper("cups"), paper("robots and cups")]

    assert matches("robot", *batch) == 0b101
    assert matches("robot cup", *batch) == 0b100
    assert matches("robot -cup", *batch) == 0b001
    assert matches("graph", *batch) == 0


def test_an_empty_batch_matches_nothing():
    assert matches("robot OR cat:cs.RO OR au:ito") == 0
    assert matches('"robot arms" "robot arms"~3 robot*', paper()) == 0


def test_earlier_filters_do_not_change_the_result_of_later_ones():
    index = PaperIndex([KITCHEN])

    assert index.matches(filter_parser.parse("robot ANDNOT cup")) == 0
    assert index.matches(filter_parser.parse("robot")) == 1
    assert index.matches(filter_parser.parse("robot ANDNOT survey")) == 1


def test_words_in_a_row_are_found_only_in_a_row():
    batch = [
        paper("Robot arms and a robot arm", "Pretraining data are flat."),
        paper("Pre training data", "Flat minima. Robot army."),
        paper(
            "Robot arm, robot arm, robot arm joint", "Arms of robots, pre-training data, flat minima robot"
        ),
    ]

    assert matches('"robot arm*"', *batch) == 0b111
    assert matches('"robot arm joint"', *batch) == 0b100
    assert matches('"pre training data"', *batch) == 0b111
    assert matches('"robot unheard"', *batch) == 0


def test_a_number_is_not_split_in_two():
    assert not matches("gpt45", paper("gpt4 5 things"))
    assert not matches("v3.5", paper("v3 .5 things"))


def test_threads_that_share_an_index_find_what_one_thread_finds():
    batch = [paper(f"word{n} and word{n + 1}") for n in range(200)]
    written = [f"word{n} OR (word{n + 1} ANDNOT word{n + 2})" for n in range(200)] * 3
    alone, shared = PaperIndex(batch), PaperIndex(batch)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: shared.matches(filter_parser.parse(text)), written))

    assert found == [alone.matches(filter_parser.parse(text)) for text in written]


def test_an_index_caches_a_limited_number_of_results_and_finds_dropped_ones_again(monkeypatch):
    monkeypatch.setattr(paper_index, "MAX_RESULTS", 5)
    index = PaperIndex([paper("slow diffusion"), paper("quiet robots")])
    written = [f'robot* OR word{number} OR about:"slow diffusion"' for number in range(20)]

    assert [index.matches(filter_parser.parse(text)) for text in written * 2] == [0b11] * 40
    assert index.leaf.cache_info().currsize == 5
