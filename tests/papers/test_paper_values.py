"""Papers have stable keys, normalised ids, readable text and safe links."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.papers.display_text import display, make_readable
from digest.papers.identifiers import id_in, normalised_id
from digest.papers.paper_record import Paper, PaperLinks, links_of, title_key

SEEN = datetime(2026, 11, 20, tzinfo=UTC)


def paper(**fields: object) -> Paper:
    return Paper(id=1, title="Tidal Sorting", first_seen_at=SEEN, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tidal Sorting: A Survey!", "tidal  sorting -- a survey"),
        ("Łukasiewicz Logic, Øre by Øre", "Lukasiewicz logic ore by ore"),
        ("Naïve Straße", "naive strasse"),
    ],
)
def test_titles_that_differ_in_case_accents_and_signs_have_one_key(one: str, other: str) -> None:
    assert title_key(one) == title_key(other)


@pytest.mark.parametrize(
    ("title", "key"),
    [
        ("砾石的潮汐分选：综述", "砾石的潮汐分选 综述"),
        ("Приливы, обзор!", "приливы обзор"),
        ("β-VAE 砾石", "vae"),
        ("?!", ""),
    ],
)
def test_a_title_without_latin_letters_keeps_its_own_in_its_key(title: str, key: str) -> None:
    assert title_key(title) == key


@pytest.mark.parametrize(
    ("scheme", "value", "expected"),
    [
        ("arxiv", "2301.00001v3", ("arxiv", "2301.00001")),
        ("arXiv", "arXiv:2301.00001", ("arxiv", "2301.00001")),
        ("arxiv", "https://arxiv.org/pdf/2301.00001v1.pdf", ("arxiv", "2301.00001")),
        ("arxiv", "https://huggingface.co/papers/2609.05415#community", ("arxiv", "2609.05415")),
        ("arxiv", "math.AG/0601001v2", ("arxiv", "math/0601001")),
        ("arxiv", "hep-th/9204001", ("arxiv", "hep-th/9204001")),
        ("arxiv", "2301.1", None),
        ("doi", "https://doi.org/10.1234/ABC.Def", ("doi", "10.1234/abc.def")),
        ("doi", "10.48550/arXiv.2301.00001", ("arxiv", "2301.00001")),
        ("doi", "10.48550/arXiv.nonsense", None),
        ("arxiv", "10.48550/arXiv.2301.00001", ("arxiv", "2301.00001")),
        ("arxiv", "10.48550/arXiv.nonsense", None),
        ("doi", "not a doi", None),
        ("pmid", "12345678", ("pmid", "12345678")),
        ("pmcid", "pmc1234", ("pmcid", "PMC1234")),
        ("openalex", "https://openalex.org/W2741809807", ("openalex", "W2741809807")),
        ("dblp", "journals/x/Y", ("dblp", "journals/x/Y")),
        ("doi", "10.1234/" + "x" * 300, None),
    ],
)
def test_an_id_has_one_spelling(scheme: str, value: str, expected: tuple[str, str] | None) -> None:
    assert normalised_id(scheme, value) == expected


def test_ids_are_found_in_urls() -> None:
    urls = ["https://example.org/x", "https://arxiv.org/abs/2301.00001v2", "https://doi.org/10.1234/X"]

    assert [id_in(url) for url in urls] == [None, ("arxiv", "2301.00001"), ("doi", "10.1234/x")]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://huggingface.co/papers/2609.05415", ("arxiv", "2609.05415")),
        ("https://pubmed.ncbi.nlm.nih.gov/12345678/", ("pmid", "12345678")),
        ("https://pubmed.ncbi.nlm.nih.gov/?term=gravel", None),
        ("https://api.openalex.org/works/W2741809807", ("openalex", "W2741809807")),
        ("https://openalex.org/A1", None),
        ("https://aclanthology.org/2020.acl-main.1/", ("acl", "2020.acl-main.1")),
        ("https://aclanthology.org/events/acl-2020/", None),
        ("https://www.biorxiv.org/content/10.1101/2026.11.20.123456v1", ("doi", "10.1101/2026.11.20.123456")),
        ("https://dl.acm.org/doi/10.1145/3290605.3300233", ("doi", "10.1145/3290605.3300233")),
        ("https://journal.example/doi/list", None),
        ("https://arxiv.org/list/cs.LG/recent", None),
        ("https://doi.org/10.1234/" + "x" * 2000, None),
    ],
)
def test_the_host_of_a_url_says_which_id_is_in_it(url: str, expected: tuple[str, str] | None) -> None:
    assert id_in(url) == expected


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (r"Bal\'azs the na\"{\i}ve, Erd\H{o}s, {\v S}koda, \o re", "Balázs the naïve, Erdős, Škoda, øre"),
        (r"$M_\odot$ and $x^{2n}$ in $\mathbb{R}^d$", "M⊙ and x²ⁿ in ℝᵈ"),
        (r"{\em x}, \textbf{L}azy, $textbf{specialist}$", "x, Lazy, specialist"),
        (r"50.9\% of V\&L, able~to ask", "50.9% of V&L, able to ask"),
        ("``adaptivity gap''. We `try' it", "“adaptivity gap”. We ‘try’ it"),
        ("(leq3B parameters), C(g) ll n, 1sim 2 times", "(≤3B parameters), C(g) ≪ n, 1∼2 times"),
        ("it costs $5 and $6 here", "it costs $5 and $6 here"),
        ("MNIST < CIFAR10 and <cup, on, table>", "MNIST < CIFAR10 and <cup, on, table>"),
        ("Fish &amp; Chips", "Fish & Chips"),
        ("  two\n lines ", "two lines"),
        ("ev\u202eil\u200b te\u2066xt", "evil text"),
        (r"\methodname is ours", r"\methodname is ours"),
        ("all times are local, in the end, to be sure", "all times are local, in the end, to be sure"),
        ("$$", "$$"),
        (r"\'", r"\'"),
        ("x^2 and x^\u0661", "x² and x^\u0661"),
        ("$x$ is “tidesx2013driven''", "x is “tides–driven”"),
        (r"$x^{a!}$ and $y_Q$", "x^(a!) and y_Q"),
        (r"$\hat{\alpha}$ and \t{oo}", "α\u0302 and o\u0361o"),
        ("5--10 runs---one -- each; --help, i--", "5–10 runs—one – each; --help, i--"),
        (r"Lind et al.~\cite{a}, as \citep[p.~3]{b,c} (\cite{d}) shows", "Lind et al., as shows"),
        (r"see Fig.~\ref{fig:one}.\label{x}", "see Fig.."),
        (r"\textbf{\emph{\textit{\textsc{deep}}}}", "deep"),
        (r"\textbf{\emph{\textit{\textsc{\texttt{deeper}}}}}", r"\textbf{deeper}"),
    ],
)
def test_display_makes_text_readable(raw: str, shown: str) -> None:
    assert display(raw) == shown


@given(st.text(alphabet=st.sampled_from("\\{}$^_~`'\"ab1 %&<>()αé\u0301\u200b\ud800"), max_size=60))
def test_display_never_blanks_a_text_and_never_fails(raw: str) -> None:
    shown = display(raw)

    assert bool(shown) or not any(char.isalnum() for char in raw)
    assert shown == " ".join(shown.split())
    assert not any("\ud800" <= char <= "\udfff" for char in shown)


def test_stacked_accents_are_limited() -> None:
    assert len(display("z" + "\u0301\u0302\u0303" * 40 + "algo")) < 12


def test_a_paper_known_to_arxiv_links_there_and_to_its_code() -> None:
    urls = ("https://example.org/project", "https://github.com/tides/gravel")

    assert links_of(paper(ids={"arxiv": "2301.00001"}, urls=urls)) == PaperLinks(
        abstract="https://arxiv.org/abs/2301.00001",
        pdf="https://arxiv.org/pdf/2301.00001",
        code="https://github.com/tides/gravel",
    )


@pytest.mark.parametrize(
    ("ids", "address"),
    [
        ({"doi": "10.1234/x", "pmid": "7"}, "https://doi.org/10.1234/x"),
        ({"pmid": "7", "openalex": "W1"}, "https://pubmed.ncbi.nlm.nih.gov/7/"),
        ({"openalex": "W1", "s2": "a1"}, "https://openalex.org/W1"),
        ({"s2": "a1"}, "https://www.semanticscholar.org/paper/a1"),
        ({"dblp": "x"}, "https://example.org/project"),
    ],
)
def test_a_paper_unknown_to_arxiv_links_to_its_best_id_or_else_to_its_first_address(
    ids: dict[str, str], address: str
) -> None:
    pdf, project = "https://example.org/gravel.pdf", "https://example.org/project"

    assert links_of(paper(ids=ids, urls=(pdf, project))) == PaperLinks(abstract=address, pdf=pdf)


def test_a_paper_without_links_has_none() -> None:
    assert links_of(paper()) == PaperLinks()


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://",
        "https://user@example.org/",
        'https://example.org/"><b>',
        "http://[bad",
    ],
)
def test_an_unsafe_url_never_becomes_a_link(url: str) -> None:
    assert links_of(paper(urls=(url,))) == PaperLinks()


SCRAPS = (
    *"abz019 ()·-'\n\t\x1c\u00a0\u2003\u200b\u00ad\u0301\u0302é&$\\{}~`^_",
    *("sim", "le", "ge", "ll", "gg", "leq", "approx", "lesssim", "x2013", "xi(", "xi ·", "Omega(", "{Delta}"),
    *("cdot", "&amp;", "top", "  ", "table 5", "5 le 7", "similar", "the model", "angle", "''", "``"),
    *("e\u0301", "\u0301\u0302\u0303\u0304", "\u212b", "\ud800", "\\alpha", "\\'e", "\\emph{", "$x^2$"),
)


@given(st.lists(st.sampled_from(SCRAPS), max_size=12).map("".join) | st.text(max_size=60))
def test_a_plain_text_is_not_changed_by_the_conversion_steps(raw: str) -> None:
    display.cache_clear()
    assert display(raw) == make_readable(raw)
