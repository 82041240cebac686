"""Invented papers, as they were published again under other titles, and papers that only look like them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from digest.papers.same_work import Work

AUTHORS = ("Ada Okafor", "Ito, Kenji", "Lind P.")

#: (title of the preprint, title in the journal, abstract, subject and the subject of another study)
PREPRINTS = (
    (
        "Night lamps keep river eels from passing a weir",
        "Artificial light at a weir delays downstream migration",
        "Eels migrate downstream in autumn and must pass many weirs on their way to the sea. Lamps at weirs are "
        "common, but their effect on passage is not known. We followed 212 eels with radio tags at 14 weirs in "
        "two autumns while lamps were switched on or off at random. With lamps on, eels waited 3.4 nights longer "
        "and 18% of them turned back. The effect was largest on nights without rain and vanished above a flow of "
        "40 cubic metres per second. Switching lamps off between midnight and dawn removed nearly all of the "
        "delay. Managers of weirs can help eels at no cost by keeping these lamps dark in October.",
        (("eels", "trout"), ("eel", "trout"), ("river", "lake")),
    ),
    (
        "Grammar drills by telephone improve reading in the second year",
        "A randomised trial of short telephone lessons for young readers",
        "Children who read slowly in their second year at school rarely catch up. We tested short grammar drills "
        "by telephone, given by trained volunteers, in a randomised trial with 640 children at 31 schools. Each "
        "child got two calls of ten minutes a week for twelve weeks, or the usual lessons. Reading speed was "
        "measured by testers who did not know the groups. Children with calls read 11.2 words a minute faster, "
        "and the difference remained after six months. Gains were similar for girls and boys and larger where "
        "parents listened. The calls cost 38 euros a child, a fifth of the cheapest known programme. Telephone "
        "drills are a practical way to help slow readers.",
        (("telephone", "postcard"), ("calls", "postcards"), ("call", "postcard"), ("grammar", "spelling")),
    ),
    (
        "Sparse attention that forgets on purpose",
        "Learning what to discard in long sequences",
        "Models that read long sequences spend most of their memory on words that never matter again. We propose "
        "a layer that learns which keys to discard, with a loss that charges for every key that is kept. The "
        "layer needs no change to the training of the rest and adds 0.3% parameters. On five tasks with "
        "sequences of up to 64,000 words it keeps 7% of the keys and loses 0.2 points of accuracy. Discarded "
        "keys are mostly function words, and rare names are kept. A theoretical bound shows that the error "
        "grows with the logarithm of the number of discarded keys. Code and trained models are public.",
        (("keys", "layers"), ("key", "layer"), ("words", "frames"), ("attention", "depth")),
    ),
    (
        "Clay in the subsoil of terraces holds nitrate for decades",
        "Decadal retention of nitrate below terraced fields",
        "Nitrate that leaves the root zone is often assumed to reach the groundwater within a few years. We "
        "sampled 96 soil cores of up to nine metres depth below terraced fields that were fertilised since 1961. "
        "Isotopes show that nitrate of the first decade is still between four and six metres deep. Clay layers "
        "hold 61% of it, and their content of iron explains most differences between fields. A simple transport "
        "model with one parameter for clay reproduces the profiles. According to this model, concentrations in "
        "the groundwater will rise until 2045 even if no more fertiliser is used. Monitoring plans for valleys "
        "with terraces should take this delay into account.",
        (("nitrate", "phosphate"), ("clay", "peat"), ("terraces", "meadows")),
    ),
    (
        "A bound on the colours of maps with bridges",
        "Colouring maps whose regions are joined by bridges",
        "We study maps in which some pairs of regions are joined by bridges and must get different colours. For "
        "maps with at most k bridges we prove that 4 plus the square root of 2k colours are enough, and that this "
        "is best possible up to a constant. The proof colours the regions in an order that is found by removing "
        "bridges one by one, and needs no computer. As a consequence, every map with twelve bridges has a "
        "colouring with nine colours, which settles a question of several earlier authors. We also give an "
        "algorithm that finds such a colouring in time proportional to the number of regions, and we show that "
        "deciding whether one colour fewer is enough is hard even for maps with a single bridge.",
        (("bridges", "tunnels"), ("bridge", "tunnel"), ("colours", "labels"), ("colour", "label")),
    ),
    (
        "Gut bacteria of bees change with the age of the hive",
        "Succession of the gut microbiome in ageing colonies",
        "The gut of honey bees is home to few species of bacteria, which protect the bees from disease. How these "
        "species change while a hive ages is little known. We sequenced the gut bacteria of 1,180 bees from 24 "
        "hives every second week over three summers. Two species that dominate young hives decline after the "
        "first winter and are replaced by a strain that breaks down pollen walls. Hives that lost this strain "
        "were five times more likely to die. Feeding the strain to old hives restored it within nine days in 17 "
        "of 20 cases. The age of a hive should be recorded in studies of bee health, and strains may be used to "
        "support old hives.",
        (("bees", "wasps"), ("bee", "wasp"), ("hives", "nests"), ("hive", "nest"), ("pollen", "cellulose")),
    ),
)

SYNONYMS = (
    ("We", "Here we"), ("is not known", "remains unclear"), ("nearly all", "most"), ("tested", "evaluated"),
    ("measured", "assessed"), ("propose", "introduce"), ("often", "commonly"), ("show", "indicate"),
    ("study", "consider"), ("public", "freely available"), ("little known", "poorly understood"),
    ("at random", "randomly"), ("rarely", "seldom"), ("within a few years", "quickly"), ("prove", "show"),
    ("at no cost", "without expense"), ("practical", "promising"), ("dominate", "prevail in"),
)  # fmt: skip

#: Papers of series, by templates; each filler is a different paper.
SERIES = (
    (
        "Draft genome of {0} strain {1}",
        "We report the draft genome sequence of {0} strain {1}, which was isolated from {2}. The assembly has {3} "
        "contigs with a total length of {4} million base pairs and a GC content of {5}%. Annotation found {6} "
        "genes that code for proteins and 52 for transfer RNA. Genes for resistance to tetracycline were found on "
        "a plasmid. The genome will help to understand how these bacteria adapt to their environment and how "
        "resistance spreads between species in food and water. Raw reads and the assembly were deposited.",
        (
            ("Salinibacter", "KL4", "a salt pan", "31", "3.61", "58.2", "3,402"),
            ("Marinomonas", "AB12", "sea ice", "88", "4.87", "43.1", "4,511"),
            ("Deinococcus", "T7", "desert sand", "19", "3.05", "66.9", "2,987"),
            ("Salinibacter", "KL9", "a salt pan", "44", "3.70", "57.8", "3,498"),
        ),
    ),
    (
        "The northern lantern survey {0}: galaxies in the {1} field",
        "The northern lantern survey maps faint galaxies in six fields with a camera of our own design. We present "
        "the catalogue of the {1} field with positions, colours and photometric redshifts of {2} galaxies down to "
        "magnitude {3}. Sources were found with the method of the first paper, and completeness was estimated "
        "with artificial galaxies. The luminosity function agrees with that of earlier fields at the bright end. "
        "At the faint end we find {4} more galaxies than models predict. The catalogue and images are available "
        "to the community, and a companion paper studies the clustering of these galaxies.",
        (
            ("I", "Heron", "41,207", "25.1", "12%"), ("II", "Otter", "38,116", "25.3", "9%"),
            ("III", "Badger", "52,904", "24.8", "15%"), ("IV", "Heron", "12,660", "26.2", "21%"),
        ),
    ),
    (
        "Crystal structure of {0}",
        "In the title compound, {0}, the two rings make a dihedral angle of {1} degrees. The molecules are linked "
        "into chains along the {2} axis by hydrogen bonds between nitrogen and oxygen, with a distance of {3} "
        "angstrom, and chains are stacked by weak contacts between the rings. One of the methyl groups is "
        "disordered over two positions with occupancies of {4}. The structure was solved by direct methods and "
        "refined with anisotropic displacement parameters for all atoms other than hydrogen, and the absolute "
        "structure was determined from anomalous dispersion.",
        (
            ("methyl larchate", "12.4", "a", "2.871", "0.61 and 0.39"),
            ("ethyl larchate", "78.1", "b", "2.902", "0.52 and 0.48"),
            ("larchic amide", "45.0", "c", "2.845", "0.70 and 0.30"),
        ),
    ),
    (
        "Voting in the {0} region after the reform",
        "The reform of 2019 changed how seats are assigned in regional elections. We study how voters in {0} "
        "responded, with a survey of households before and after the reform and records of all polling stations. "
        "Turnout {1}, above all in {2}. Voters of small parties changed their choice more often than others, and "
        "those who had followed the debate in newspapers did so most. We find no evidence that the reform made "
        "voters more cynical. The results suggest that rules which voters can explain in a sentence are more "
        "readily accepted, and that campaigns of information should begin before a reform is decided.",
        (
            ("Westmark", "rose slightly", "rural communes"), ("Sundal", "fell", "the suburbs"),
            ("Ostrava Valley", "did not change", "towns with a university"),
        ),
    ),
)  # fmt: skip


def pairs_of_one_work() -> Iterator[tuple[str, Work, Work]]:
    """Yield preprints with journal versions whose titles and abstracts were edited."""
    for title, journal_title, abstract, _ in PREPRINTS:
        preprint = Work(title=title, abstract=abstract, authors=AUTHORS)
        sentences = abstract.split(". ")
        edited = abstract
        for word, other in SYNONYMS:
            edited = edited.replace(word, other, 1)
        versions = {
            "same abstract": abstract,
            "edited words": edited,
            "one sentence less": ". ".join(sentences[:3] + sentences[4:]),
            "one sentence more": abstract + " We discuss limits of the work and what should be done next.",
            "edited and shortened": ". ".join(edited.split(". ")[:-1]) + ".",
            "other first sentence": "This paper reports the results of several years of work. "
            + ". ".join(sentences[1:]),
        }  # fmt: skip
        for name, text in versions.items():
            authors = ("K. Ito", *(("Maria Duarte",) if "edited" in name else ("Ada Okafor",)))
            yield f"{title}: {name}", preprint, Work(title=journal_title, abstract=text, authors=authors)


def pairs_of_different_works() -> Iterator[tuple[str, Work, Work]]:
    """Yield papers of one group that share much of their text: series, follow-ups and repeated studies."""
    for title, abstract, fillers in SERIES:
        made = [
            Work(title=title.format(*filler), abstract=abstract.format(*filler), authors=AUTHORS)
            for filler in fillers
        ]
        yield from ((f"{one.title} / {other.title}", one, other) for one, other in combinations(made, 2))
    for number, (title, _, abstract, subjects) in enumerate(PREPRINTS):
        original = Work(title=title, abstract=abstract, authors=AUTHORS)
        other_title, other_text = title, abstract
        for word, other in subjects:
            other_title = other_title.replace(word, other).replace(word.title(), other.title())
            other_text = other_text.replace(word, other).replace(word.title(), other.title())
        yield (
            f"{title} / other subject",
            original,
            Work(title=other_title, abstract=other_text, authors=AUTHORS),
        )
        own = abstract.split(". ")
        following = PREPRINTS[(number + 1) % len(PREPRINTS)][2].split(". ")
        for kept in (2, 3, 4):
            text = ". ".join(own[:kept] + following[kept:])
            yield (
                f"{title} / follow-up with {kept} sentences",
                original,
                Work(title=f"Further results on {title.lower()}", abstract=text, authors=AUTHORS),
            )
        yield f"{title} / of others", original, Work(title=title, abstract=abstract, authors=("Mo Baker",))
