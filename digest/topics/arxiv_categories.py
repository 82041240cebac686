"""List arXiv's categories, and suggest one for a misspelled name."""

from __future__ import annotations

from difflib import get_close_matches

_SUBJECTS = {
    "astro-ph": "CO EP GA HE IM SR",
    "cond-mat": "dis-nn mes-hall mtrl-sci other quant-gas soft stat-mech str-el supr-con",
    "cs": "AI AR CC CE CG CL CR CV CY DB DC DL DM DS ET FL GL GR GT HC IR IT LG LO MA MM MS NA NE NI OH OS PF "
    "PL RO SC SD SE SI SY",
    "econ": "EM GN TH",
    "eess": "AS IV SP SY",
    "gr-qc": "",
    "hep-ex": "",
    "hep-lat": "",
    "hep-ph": "",
    "hep-th": "",
    "math": "AC AG AP AT CA CO CT CV DG DS FA GM GN GR GT HO IT KT LO MG MP NA NT OA OC PR QA RA RT SG SP ST",
    "math-ph": "",
    "nlin": "AO CD CG PS SI",
    "nucl-ex": "",
    "nucl-th": "",
    "physics": "acc-ph ao-ph app-ph atm-clus atom-ph bio-ph chem-ph class-ph comp-ph data-an ed-ph flu-dyn "
    "gen-ph geo-ph hist-ph ins-det med-ph optics plasm-ph pop-ph soc-ph space-ph",
    "q-bio": "BM CB GN MN NC OT PE QM SC TO",
    "q-fin": "CP EC GN MF PM PR RM ST TR",
    "quant-ph": "",
    "stat": "AP CO ME ML OT TH",
    # Archives that arXiv has closed; old papers still belong to them.
    "adap-org": "", "alg-geom": "", "chao-dyn": "", "cmp-lg": "", "comp-gas": "", "dg-ga": "", "funct-an": "",
    "patt-sol": "", "q-alg": "", "solv-int": "", "acc-phys": "", "ao-sci": "", "atom-ph": "", "bayes-an": "",
    "chem-ph": "", "mtrl-th": "", "plasm-ph": "", "supr-con": "",
}  # fmt: skip

#: Pairs of names for the same category.
_ALIASES = (
    ("cs.SY", "eess.SY"), ("cs.NA", "math.NA"), ("cs.IT", "math.IT"), ("math.MP", "math-ph"),
    ("math.ST", "stat.TH"), ("econ.GN", "q-fin.EC"),
)  # fmt: skip

_NICKNAMES = {
    "nlp": "cs.CL", "language": "cs.CL", "linguistics": "cs.CL", "ml": "cs.LG", "learning": "cs.LG",
    "dl": "cs.LG", "vision": "cs.CV", "cv": "cs.CV", "ai": "cs.AI", "robotics": "cs.RO", "ro": "cs.RO",
    "robot": "cs.RO", "crypto": "cs.CR", "security": "cs.CR", "speech": "eess.AS", "audio": "cs.SD",
    "sound": "cs.SD", "hci": "cs.HC", "db": "cs.DB", "se": "cs.SE", "ir": "cs.IR", "retrieval": "cs.IR",
    "graphics": "cs.GR", "neural": "cs.NE", "rl": "cs.LG", "statistics": "stat", "biology": "q-bio",
    "finance": "q-fin", "economics": "econ", "astronomy": "astro-ph", "astro": "astro-ph",
    "quantum": "quant-ph", "mathematics": "math", "maths": "math", "computer-science": "cs", "hep": "hep-ph",
    "cl": "cs.CL", "lg": "cs.LG", "gr": "gr-qc", "stats": "stat", "systems": "eess.SY", "image": "eess.IV",
    "kd": "cs.LG", "dm": "cs.DB", "mining": "cs.IR", "optimization": "math.OC", "probability": "math.PR",
}  # fmt: skip

CODES: dict[str, str] = {  #: arXiv's spelling of each category, by the category in lower case
    code.lower(): code
    for archive, subjects in _SUBJECTS.items()
    for code in (archive, *(f"{archive}.{subject}" for subject in subjects.split()))
}
ARCHIVES = frozenset(archive for archive, subjects in _SUBJECTS.items() if subjects)
_ALSO = {
    code: tuple(name.lower() for name in aliases) for aliases in _ALIASES for code in map(str.lower, aliases)
}


def names_of(code: str) -> tuple[str, ...]:
    """Return all names of a category in lower case; for example, cs.SY and eess.SY are the same category."""
    return _ALSO.get(code.lower(), (code.lower(),))


def suggestion(wrong: str) -> str | None:
    """Return the category most similar to the misspelled name, or None."""
    lowered = wrong.lower().replace("_", "-")
    archive, _, subject = lowered.rpartition(".")
    nickname = _NICKNAMES.get(subject)
    if nickname and (not archive or nickname.lower().startswith(archive)):
        return nickname
    for known in _SUBJECTS:
        if f"{known}.{subject}" in CODES and subject and archive not in _SUBJECTS:
            return CODES[f"{known}.{subject}"]
    for joined in (lowered.replace("/", "."), lowered.replace("-", ".", 1), lowered.replace(" ", ".")):
        if joined in CODES:
            return CODES[joined]
    close = get_close_matches(lowered[:40], CODES, n=1, cutoff=0.6)
    return CODES[close[0]] if close else None
