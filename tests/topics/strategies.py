"""Random papers and random filters that share words."""

from __future__ import annotations

from datetime import UTC, date, datetime

from hypothesis import strategies as st

from digest.papers.paper_record import Announcement, Organization, Paper
from digest.topics.pack_files import Pack

WORDS = (
    "model models diffusion self attention selfattention pre training pretraining pretrained train "
    "SAM SAMs sam Sam in context free incontext LLM LLMs llm gpt GPT 4 GPT4 gpt4 3.5 Schrödinger "
    "schrodinger batch batches data set dataset datasets data's state of the art stateoftheart vision "
    "language action over fitting overfitting class classes bias biases matrix matrices policy "
    "policies naïve τ 2024 20 24 MODEL a b ab"
)
GLUES = (" ", " ", " ", "-", "-", ", ", ". ", "/", "  ", "–", " - ", " (", "_")
NAMES = (
    "Yi Wang",
    "Y. Wang",
    "Wang, Yi",
    "Yi-Lin Wang",
    "Adrian del Maestro",
    "Ana Lind",
    "A. B. Lind",
    "Li Wei",
)
CATEGORIES = ("cs.CL", "cs.LG", "cs.SY", "eess.SY", "stat.ML", "hep-th", "astro-ph.GA", "math.ST")
FOREIGN = ("der model und die SAM", "die class und das data von policy", "τ ττ τττ")
words = st.sampled_from(WORDS.split())


@st.composite
def prose(draw, most=12):
    row = draw(st.lists(words, max_size=most))
    glues = draw(st.lists(st.sampled_from(GLUES), min_size=len(row), max_size=len(row)))
    return "".join(word + glue for word, glue in zip(row, glues, strict=True))


papers = st.builds(
    Paper,
    id=st.integers(1, 10**6),
    title=prose(6),
    abstract=prose(14) | st.builds("{} {}".format, prose(5), st.sampled_from(FOREIGN)),
    authors=st.lists(st.sampled_from(NAMES), max_size=3).map(tuple),
    categories=st.lists(st.sampled_from(CATEGORIES), max_size=3, unique=True).map(tuple),
    comment=prose(3),
    journal=prose(3),
    organization=st.none() | st.builds(Organization, handle=words, name=prose(2)),
    ids=st.sampled_from([{}, {"arxiv": "2401.00001"}, {"doi": "10.1000/x1"}]),
    published=st.none() | st.dates(date(2023, 12, 1), date(2024, 3, 1)),
    announcement=st.sampled_from(list(Announcement)),
    signals=st.dictionaries(st.sampled_from(["upvotes", "stars"]), st.integers(0, 30)),
    sources=st.sampled_from([(), ("arxiv",), ("Daily Papers", "arxiv")]),
    first_seen_at=st.just(datetime(2026, 11, 20, tzinfo=UTC)),
)
batches = st.lists(papers, max_size=6)


@st.composite
def terms(draw):
    """One clause as a user might type it."""
    row = draw(st.lists(words, min_size=1, max_size=4))
    shape = draw(st.sampled_from(["word", "compound", "phrase", "phrase", "near", "star", "starred phrase"]))
    if shape == "word":
        return row[0]
    if shape == "compound":
        return "-".join(row)
    if shape == "star":
        return f"{draw(st.sampled_from(['mod', 'pretr', 'SAM', 'dat', 'sta', 'over', 'datas']))}*"
    if shape == "near":
        return f'"{" ".join(row)}"~{draw(st.integers(0, 5))}'
    glued = "".join(word + draw(st.sampled_from([" ", "-"])) for word in row).rstrip(" -")
    return f'"{glued}"' if shape == "phrase" else f'"{glued} {draw(st.sampled_from(["mod", "tra", "act"]))}*"'


fielded = st.builds(
    "{}{}".format, st.sampled_from(["", "", "", "ti:", "abs:", "all:", "co:", "jr:", "org:"]), terms()
)
others = st.sampled_from(
    [
        'au:wang au:"Wang, Y" au:wang_y au:"Yi Wang" au:"del Maestro" au:lin* 1au:lind au:"A B Lind" au:"Lind, A"',
        "    cat:cs.CL cat:cs cat:cs.* pcat:cs.LG cat:eess.SY cat:math.ST cat:stat.TH cat:hep-th cat:astro-ph",
        "    is:new is:cross id:2401.00001 doi:10.1000/X1 date:2024 date:2024-01 date:<2024-01-15 date:2023-12-15..2024-01-10",
        '    upvotes:>=20 stars:<5 upvotes:3..9 source:arxiv source:"daily papers" lang:en lang:de lang:el',
    ]
).flatmap(lambda line: st.sampled_from(_clauses(line)))


def _clauses(line):
    """Cut a line at the blanks outside of quotes."""
    found, quoted, start = [], False, 0
    for i, char in enumerate(f"{line} "):
        quoted ^= char == '"'
        if char == " " and not quoted:
            found.append(line[start:i])
            start = i + 1
    return [clause for clause in found if clause]


#: Published packs, in which filters may name one another.
SHELF = {
    "lab": {
        1: Pack(name="lab", version=1, filters={"nlp": "self"}),
        2: Pack(
            name="lab", version=2, filters={"nlp": "model* ANDNOT ti:vision", "all": "data OR use:lab/nlp"}
        ),
    },
    "few": {1: Pack(name="few", version=1, filters={"rare": "cat:cs.LG ANDNOT use:lab/nlp@1"})},
}
uses = st.sampled_from(["use:lab", "use:lab/nlp", "use:lab/nlp@1", "use:few/rare", "use:lab/all", "use:few"])


def combined(inner):
    return st.one_of(
        st.builds("{} {}".format, inner, inner),
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("{} ANDNOT ({})".format, inner, inner),
        st.builds("{} -({})".format, inner, inner),
    )


clauses = st.one_of(fielded, fielded, others)
filters = st.recursive(clauses, combined, max_leaves=8)
filters_with_packs = st.recursive(clauses | uses, combined, max_leaves=8)
