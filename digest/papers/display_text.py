"""Convert raw text with TeX, entities and hidden characters to readable Unicode.

The catalog stores the raw text; pages and letters display the converted text. Markup that cannot be
converted is left unchanged, and so is any text that would otherwise become empty.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

# ── tables ──────────────────────────────────────────────────────────────────────────────────────

GREEK = (
    "alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι "
    "kappa κ lambda λ mu μ nu ν xi ξ pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ "
    "phi φ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ "
    "Phi Φ Psi Ψ Omega Ω"
)
SYMBOLS = (
    "leq ≤ le ≤ leqslant ≤ geq ≥ ge ≥ geqslant ≥ neq ≠ ne ≠ ll ≪ gg ≫ sim ∼ simeq ≃ approx ≈ cong ≅ "
    "equiv ≡ propto ∝ times × cdot · pm ± mp ∓ div ÷ ast ∗ star ⋆ circ ∘ bullet • oplus ⊕ otimes ⊗ "
    "odot ⊙ infty ∞ partial ∂ nabla ∇ forall ∀ exists ∃ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ "
    "supseteq ⊇ cup ∪ cap ∩ setminus ∖ emptyset ∅ varnothing ∅ to → rightarrow → leftarrow ← "
    "Rightarrow ⇒ Leftarrow ⇐ leftrightarrow ↔ Leftrightarrow ⇔ mapsto ↦ longrightarrow ⟶ uparrow ↑ "
    "downarrow ↓ iff ⇔ implies ⇒ top ⊤ bot ⊥ perp ⊥ parallel ∥ mid ∣ land ∧ wedge ∧ lor ∨ vee ∨ neg ¬ "
    "lnot ¬ sum ∑ prod ∏ int ∫ oint ∮ sqrt √ langle ⟨ rangle ⟩ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ ell ℓ "
    "hbar ℏ Re ℜ Im ℑ aleph ℵ wp ℘ dagger † ddagger ‡ prime ′ angle ∠ triangle △ square □ Box □ "
    "diamond ⋄ checkmark ✓ ldots … dots … cdots ⋯ vdots ⋮ lesssim ≲ gtrsim ≳ prec ≺ succ ≻ models ⊨ "
    "vdash ⊢ S § P ¶ copyright © pounds £ euro € degree ° textdegree ° celsius ℃ AA Å aa å AE Æ ae æ "
    "OE Œ oe œ O Ø o ø L Ł l ł ss ß i ı j ȷ DH Ð dh ð TH Þ th þ DJ Đ dj đ "
    "textendash – textemdash — textquoteleft ‘ textquoteright ’ textquotedblleft “ textquotedblright ” "
    "textbackslash \\ textasciitilde ~ textbar | textless < textgreater > textregistered ® "
    "texttrademark ™ lbrace { rbrace } vert | Vert ‖ slash / colon : backslash \\ "
    "log log ln ln exp exp sin sin cos cos tan tan min min max max arg arg argmin argmin argmax argmax "
    "lim lim sup sup inf inf det det dim dim ker ker deg deg gcd gcd Pr Pr tanh tanh LaTeX LaTeX TeX TeX"
)


def command_table(table: str) -> dict[str, str]:
    """Return {command: character} from a string in which commands and characters alternate."""
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


COMMANDS = (
    command_table(GREEK)
    | command_table(SYMBOLS)
    | dict.fromkeys(("quad", "qquad", "newline", "par", "space"), " ")
)
ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "d": "\u0323", "c": "\u0327", "k": "\u0328",
    "b": "\u0331", "t": "\u0361",
    "hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303", "widetilde": "\u0303", "bar": "\u0304",
    "overline": "\u0304", "dot": "\u0307", "ddot": "\u0308", "vec": "\u20d7", "check": "\u030c",
    "breve": "\u0306", "acute": "\u0301", "grave": "\u0300", "mathring": "\u030a",
}  # fmt: skip
RAISED = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW*",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂ*",
        strict=True,
    )
)
RAISED |= {"∘": "°", "′": "′", "⋆": "*", "∗": "*", "†": "†", "−": "⁻"}
LOWERED = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
LOWERED |= {"⊙": "⊙", "⊕": "⊕", "β": "ᵦ", "γ": "ᵧ", "ρ": "ᵨ", "φ": "ᵩ", "χ": "ᵪ"}
BLACKBOARD = {"R": "ℝ", "N": "ℕ", "Z": "ℤ", "Q": "ℚ", "C": "ℂ", "P": "ℙ", "E": "𝔼", "H": "ℍ", "F": "𝔽"}

FONT_NAMES = (
    "textbf|textit|textsc|texttt|textrm|textsf|textsl|textmd|textup|textnormal|emph|underline|uline|"
    "mathbf|mathit|mathrm|mathsf|mathtt|mathcal|mathscr|mathfrak|mathnormal|boldsymbol|bm|mbox|hbox|"
    "text|operatorname\\*?|pmb|hspace\\*?|vspace\\*?|url|href|ensuremath|footnotesize|scalebox|phantom"
)

# ── patterns ────────────────────────────────────────────────────────────────────────────────────

HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\ud800-\udfff]")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
MARKS = re.compile("([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{3})[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")  # fmt: skip

ESCAPED = re.compile(r"\\([%&_#$])")
ACCENT_SIGN = re.compile(r"\\([`'^~=.\"])\s*(?:\{\s*(\\?[A-Za-zıȷ])\s*\}|(\\[ij](?![A-Za-z])|[A-Za-zıȷ]))")
ACCENT_LETTER = re.compile(r"\\([uvHcdbkrt])(?:\s*\{\s*(\\?[A-Za-zıȷ]{1,2})\s*\}|\s+([A-Za-z])(?![A-Za-z]))")
ACCENT_WORD = re.compile(
    r"\\(hat|widehat|tilde|widetilde|bar|overline|dot|ddot|vec|check|breve|acute|grave|mathring)"
    r"\s*(?:\{\s*(\\?[A-Za-z]+)\s*\}|(\\?[A-Za-z])(?![A-Za-z]))"
)
BLACKBOARD_FONT = re.compile(r"\\mathbb\s*(?:\{\s*([A-Z])\s*\}|([A-Z]))|\\mathds\s*\{\s*([A-Z])\s*\}")
FONT = re.compile(rf"\\(?:{FONT_NAMES})\s*\{{([^{{}}]*)\}}")
STRIPPED_FONT = re.compile(r"(?<![A-Za-z\\])(?:textbf|textit|texttt|textsc|emph|mathbf|mathcal|mathrm)\{([^{}]*)\}")  # fmt: skip
STRIPPED_FONTS = ("textbf{", "textit{", "texttt{", "textsc{", "emph{", "mathbf{", "mathcal{", "mathrm{")
SWITCH = re.compile(
    r"\{\s*\\?(?:em|it|bf|sc|tt|rm|sl|sf|bfseries|itshape|cal|scshape)(?![A-Za-z])\s*([^{}]*)\}"
)
FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
COMMAND = re.compile(r"\\([A-Za-z]+)(\s*)")
ONE_LETTER = re.compile(r"\{([^\W\d_])\}")
SPACING = re.compile(r"\\[,;:! ]|\\\\")
MATHS = re.compile(  # a `$` before a space, or a closing `$` before a digit, is a currency sign
    r"(?<!\\)\$\$(.{1,400}?)(?<!\\)\$\$|(?<!\\)\$(?!\s)([^$]{1,400}?)(?<![\\\s])\$(?!\d)"
    r"|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]"
)
BRACED = re.compile(r"\{([^{}]*)\}")
SCRIPT = re.compile(r"\s*([\^_])\s*(?:\{([^{}]{1,40})\}|([^\s({\\]))")
POWER = re.compile(r"(?<=[A-Za-z0-9)])\^([0-9]{1,3})(?![\w.])")
TIE = re.compile(r"(?<=[\w.,)\]])~(?=[\w(\[\\$])")
#: Citations and references are removed, because they are useless without the list they refer to.
CITATION = re.compile(
    r"[~\s]{0,4}\\(?:[Cc]ite[a-z]*|(?:eq|[Cc]|auto|page)?ref|label)\*?\s*(?:\[[^\]]{0,80}\]\s*){0,2}\{[^{}]*\}"
)
EMPTY_BRACKETS = re.compile(r"\s?(?:\(\s*\)|\[\s*\])")
DASH = re.compile(r"(?<=[^\W_]|[)\]}.,”’])---?(?=[^\W_]|[(\[“‘])|(?<=\S )---?(?= \S)")
QUOTED = re.compile(r"``(.{1,300}?)''")
QUOTED_ONCE = re.compile(r"(?<![\w`])`([^`']{1,120})'(?!\w)")
STRIPPED_SIGN = re.compile(
    r"(?<![A-Za-z\\])(leq|geq|neq|approx|cdot|infty|lesssim|gtrsim)(?=[\s\d(A-Z])"
    r"|(?<=[\d)])\s?(sim)\s?(?=\d)|(?<=[\d)] )(ll|gg|ge|le)(?= [\dA-Za-z])|(?<![A-Za-z\\])(ge|le)(?= ?\d)"
    r"|(?<=\^)(top)(?![A-Za-z])"
)
STRIPPED_GREEK = re.compile(r"(?<![A-Za-z\\])(Omega|Theta|xi)(?=\(| ·| cdot)|\{(Delta|Gamma|Sigma|Lambda)\}")
DASH_RESIDUE = re.compile(r"(?<=\w)\s?x(201[0-9a-f])(?=\s?\w)|(?<=\s)x(201[34])(?=\s)")


#: Every text with TeX contains at least one of these strings.
TEX_SIGNS = (*"\\${}~`^_", "--")
#: Most texts in which TeX lost its backslashes contain one of these strings; few other texts do.
STRIPPED_TEX_HINTS = (
    " ll ", " gg ", " ge ", " le ", "^top", "x201", "Omega", "Theta", "xi(", "xi ·", "xi cdot",
    "{Delta", "{Gamma", "{Sigma", "{Lambda",
)  # fmt: skip
STRIPPED_TEX_FIGURE = re.compile(r"(?:sim|le|ge)\s?\d")
#: These commands also occur inside ordinary words, such as "inequality" and "approximate".
STRIPPED_TEX_WORDS = ("leq", "geq", "neq", "approx", "cdot", "infty", "lesssim", "gtrsim")
STRIPPED_TEX_WORD = re.compile(rf"(?:{'|'.join(STRIPPED_TEX_WORDS)})[\s\d(A-Z]")
MANY_MARKS = re.compile(MARKS.pattern.partition("{3})")[0] + "{4})")


@lru_cache(maxsize=8192)  # 12 MB: the titles and abstracts of the papers being indexed or shown
def display(text: str) -> str:
    """Return `text` on one line, with TeX as Unicode, entities resolved and hidden characters removed."""
    plain = text if text.isprintable() and "  " not in text else " ".join(text.split())
    return plain.strip() if is_plain(plain) else make_readable(text)


def is_plain(text: str) -> bool:
    """Return whether a one-line `text` needs no conversion, which is true of most texts."""
    if not text.isprintable() or "&" in text or contains_any(TEX_SIGNS, text):
        return False
    if restore_stripped_tex(f" {text} ") != f" {text} ":
        return False
    return text.isascii() or (unicodedata.is_normalized("NFC", text) and not MANY_MARKS.search(text))


def contains_any(candidates: Iterable[str], text: str) -> bool:
    """Return whether `text` contains any of `candidates`; the plain loop is faster than `any`."""
    for one in candidates:  # noqa: SIM110
        if one in text:
            return True
    return False


def make_readable(text: str) -> str:
    """Return the readable form of `text`, after all conversion steps."""
    shown = CONTROL.sub(" ", text)
    if "&" in shown:
        shown = html.unescape(shown)
    shown = HIDDEN.sub("", CONTROL.sub(" ", shown))
    if contains_any(TEX_SIGNS, shown):
        shown = without_tex(shown)
    shown = restore_stripped_tex(shown)
    shown = MARKS.sub(r"\1", unicodedata.normalize("NFC", shown))
    return " ".join(shown.split()) or " ".join(HIDDEN.sub("", CONTROL.sub(" ", text)).split())


def without_tex(text: str) -> str:
    """Return `text` with its TeX converted to Unicode; unknown commands are left unchanged."""
    if contains_any(("$", "\\(", "\\["), text):
        text = MATHS.sub(lambda found: flatten_formula(next(filter(None, found.groups()))), text)
    text = resolve_commands(text)
    if "`" in text:
        text = QUOTED.sub(r"“\1”", text).replace("``", "“")
    if "''" in text:
        text = re.sub(r"(?<=\S)''", "”", text)
    if "`" in text:
        text = QUOTED_ONCE.sub(r"‘\1’", text)
    if "^" in text:
        text = POWER.sub(lambda found: "".join(RAISED[digit] for digit in found[1]), text)
    if "~" in text:
        text = TIE.sub(" ", text)
    if "--" in text:
        text = DASH.sub(lambda found: "—" if "---" in found[0] else "–", text)
    return ESCAPED.sub(r"\1", text) if "\\" in text else text


def resolve_commands(text: str) -> str:
    """Return `text` with accent, font and symbol commands converted, innermost braces first."""
    if "\\" not in text and "{" not in text:
        return text
    if CITATION.search(text):
        text = EMPTY_BRACKETS.sub("", CITATION.sub("", text))
    for pattern in (ACCENT_SIGN, ACCENT_LETTER, ACCENT_WORD):
        text = pattern.sub(compose_accent, text)
    text = BLACKBOARD_FONT.sub(lambda found: double_struck(next(filter(None, found.groups()))), text)
    for _ in range(4):  # each pass removes one level of nested fonts
        before = text
        text = SWITCH.sub(r"\1", FONT.sub(r"\1", text))
        if contains_any(STRIPPED_FONTS, text):
            text = STRIPPED_FONT.sub(r"\1", text)
        text = FRACTION.sub(r"\1/\2", text)
        if text == before:
            break
    return ONE_LETTER.sub(r"\1", COMMAND.sub(resolve_command, text))


def flatten_formula(tex: str) -> str:
    """Return a formula on one line.

    The ^ or _ remains before characters that have no Unicode superscript or subscript.
    """
    text = re.sub(r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle|limits|nolimits)(?![A-Za-z])", "", tex)
    text = SPACING.sub(" ", resolve_commands(text))
    for _ in range(3):
        text = SCRIPT.sub(convert_script, text)
        text = BRACED.sub(r"\1", text)
    text = text.replace("\\{", "{").replace("\\}", "}").replace("\\|", "‖")
    return text.strip() or tex


def convert_script(found: re.Match[str]) -> str:
    """Return a superscript or subscript in Unicode if every character in it has that form.

    Otherwise, return it with its sign (^ or _), and in parentheses if it has several characters.
    """
    sign, group = found[1], (found[2] if found[2] is not None else found[3]).strip()
    table = RAISED if sign == "^" else LOWERED
    if group and all(char in table for char in group):
        return "".join(table[char] for char in group)
    return f"{sign}{group}" if len(group) == 1 else f"{sign}({group})"


def compose_accent(found: re.Match[str]) -> str:
    """Return the letter and its accent as one character."""
    letter = next(filter(None, found.groups()[1:])).removeprefix("\\")
    base = {"i": "i", "j": "j", "ı": "i", "ȷ": "j"}.get(letter, letter)
    if len(base) > 1 and found[1] != "t":
        base = COMMANDS.get(base, base)
    return unicodedata.normalize("NFC", base[:1] + ACCENTS[found[1]] + base[1:])


def double_struck(letter: str) -> str:
    """Return the double-struck form of `letter`, or `letter` if it has none."""
    return BLACKBOARD.get(letter, letter)


def resolve_command(found: re.Match[str]) -> str:
    """Return the character of a command; drop the space after a letter command, as TeX does."""
    character = COMMANDS.get(found[1])
    if character is None:
        return found[0]
    return character + ("" if character in "øØłŁåÅæÆœŒßıȷđĐðÐþÞ" else found[2])


def may_be_stripped(text: str) -> bool:
    """Return whether `text` may contain TeX without backslashes: a cheap check that skips most texts."""
    if contains_any(STRIPPED_TEX_HINTS, text) or STRIPPED_TEX_FIGURE.search(text):
        return True
    return contains_any(STRIPPED_TEX_WORDS, text) and STRIPPED_TEX_WORD.search(text) is not None


def restore_stripped_tex(text: str) -> str:
    """Return `text` with TeX that lost its backslashes converted, except where it may be an English word."""
    if not may_be_stripped(text):
        return text
    if "x201" in text:
        text = DASH_RESIDUE.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    text = STRIPPED_SIGN.sub(lambda found: COMMANDS[next(filter(None, found.groups()))], text)
    return STRIPPED_GREEK.sub(lambda found: COMMANDS[next(filter(None, found.groups()))], text)
