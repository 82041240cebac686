"""Rewrite links, headings and emphasis of other markup as Markdown, without changing line breaks.

Pages reach the dumps folder through many tools, which write HTML, wiki markup, AsciiDoc, LaTeX, and so on.
A link becomes `[text](address)`, a heading `### text`; emphasis is removed.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Callable

TAG = re.compile(r"<(?P<closing>/?)(?P<name>[A-Za-z][A-Za-z0-9]{0,11})\b(?P<rest>[^<>]{0,4000})>")
KNOWN_TAG = re.compile(
    "a|abbr|article|aside|b|blockquote|body|br|button|center|cite|code|dd|del|details|div|dl|dt|em|figcaption|figure|"
    "font|footer|form|h[1-6]|head|header|hr|html|i|img|input|ins|label|li|main|mark|nav|ol|p|path|picture|pre|s|section|"
    "small|source|span|strong|sub|summary|sup|svg|table|tbody|td|th|thead|time|title|tr|tt|u|ul|video"
)
OPENING_TAG = re.compile(r"<(?:a|br|div|em|h[1-6]|img|li|p|span|strong|b|i|summary|td|time)\b", re.IGNORECASE)
SPACED_TAGS = frozenset(["div", "p", "li", "td", "span", "br"])
HREF = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
ALT = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
BRACKETS = re.compile(r"[\[\]]")
ENTITY = re.compile(r"&(?:#\d{1,7}|#x[\da-fA-F]{1,6}|[A-Za-z]{2,31});")

ADDRESS = r"(?:https?:/)?/[^\s\[\]|<>{}\"]{0,700}"
LABEL = r"(?:[^\[\]|!]|!(?:\[[^\[\]]{0,300}\]\(\))?){0,60000}"  #: text and images that are rewritten already
BRACES = r"(?:[^{}]|\{[^{}]{0,300}\}){0,60000}"
Rule = tuple[str, re.Pattern[str], str]


def rules(*rows: tuple[str, str, str]) -> tuple[Rule, ...]:
    """Return rules of (text that occurs in the markup, pattern, replacement)."""
    return tuple((sign, re.compile(pattern, re.MULTILINE), written) for sign, pattern, written in rows)


PICTURE = r"\.(?:png|jpe?g|gif|svg|webp)"
IMAGES = rules(
    (".. ", r"\\ ", ""),  # reStructuredText
    ("[I", r"\[(?:IMG|INLINE|IMAGE)\]", "![]()"),  # text browsers
    ("{{id", r"[ \t]*\{\{id [^{}\n]{0,300}\}\}", ""),  # XWiki
    ("''//", r"''(//)''", r"\1"),  # ZimWiki
    ("~/", r"~(?=[^\w\s~])", ""),  # XWiki, Markua
    ("section{", r"\\textless(?:\{\}| )?", "<"),  # LaTeX
    ("section{", r"\\textgreater(?:\{\}| )?", ">"),
    ("section{", r"\\([%&_$#])|\\/", r"\1"),
    ("image:", r"image::?(?<!\wimage:)(?<!\wimage::)[^\s\[]{1,900}\[([^\[\]]{0,300})(?:\[[^\[\]]{0,300}\])?\]", r"![\1]()"),  # AsciiDoc
    ("!", r"!(?:data:|(?:https?:/)?/)[^\s!|()]{1,900}(?:\|alt=([^!|\n]{0,300})|\([^()\n]{0,300}\))?!", r"![\1]()"),  # Jira, Textile
    ("[[", r"\[\[(?:File|Image|image):[^\[\]|]{1,900}(?:\|{1,2}(?:alt=\")?([^\[\]|\"]{0,300})\"?)?\]\]", r"![\1]()"),  # MediaWiki, XWiki
    ("[[", rf"\[\[(?:https?:|file:|data:)[^\[\]\s]{{1,900}}?(?:{PICTURE}|;base64,[\w+/=]*)(?:\]\[([^\[\]]{{0,300}}))?\]\]", r"![\1]()"),  # Org
    ("[http", rf"(?<!\S)([\w.-]{{1,60}}) \[https?://[^\s\[\]]{{1,900}}{PICTURE}\]", r"![\1]()"),
    ("{{", r"\{\{[^{}|\n]{1,900}(?:\|([^{}|\n]{0,300}))?\}\}", r"![\1]()"),  # DokuWiki
    (".. |", r"(?<![\w|])\|([\w.-]{1,80})\|_{0,2}(?![\w|])", r"![\1]()"),  # reStructuredText
    ("\\includegraphics", r"(?:\\pandocbounded\{)?\\includegraphics(?:\[[^\[\]\n]{0,200}\])?\{[^{}\n]{0,900}\}\}?", "![]()"),
    ("#box(", r"#box\(image\(.{0,900}?\)\)", "![]()"),  # Typst
)  # fmt: skip
LINKS = rules(
    ("\\href{", rf"\\href\{{([^{{}}]{{1,700}})\}}\{{({BRACES})\}}", r"[\2](\1)"),  # LaTeX
    ("#link(", rf'#link\("([^"]{{1,700}})"\)\[({LABEL})\]', r"[\2](\1)"),  # Typst
    (">>", rf"\[\[({LABEL}?)>>(?:url:|path:)?({ADDRESS})\]\]", r"[\1](\2)"),  # XWiki
    ("[[", rf"\[\[({ADDRESS})(?:\||\]\[)({LABEL})\]\]", r"[\2](\1)"),  # MediaWiki, DokuWiki, Org, TWiki
    ("[[", rf"\[\[(?!https?:|/)([^\s\[\]|<>]{{1,700}})\|({LABEL})\]\]", r"[\2](/\1)"),  # DokuWiki
    ("|", rf"\[({LABEL}?)\|({ADDRESS})(?:\|smart-link)?\](?!\()", r"[\1](\2)"),  # Jira
    ("|", rf"<({ADDRESS})\|((?:[^<>|]|<(?=\s)|(?<=\s)>){{0,60000}})>", r"[\2](\1)"),  # Slack
    ("[", rf"\[(?<!\]\[)({ADDRESS})[ \n]({LABEL})\](?!\()", r"[\2](\1)"),  # MediaWiki
    ("[url=", rf"\[url=({ADDRESS})\](.{{0,3000}}?)\[/url\]", r"[\2](\1)"),  # BBCode
    ("link:", rf"link:(?<!\wlink:)([^\s\[]{{1,700}})\[({LABEL})\]", r"[\2](\1)"),  # AsciiDoc
    ("://", rf"(h(?<![A-Za-z_(<\[/.%?=&]h)ttps?://[^\s\[\]()]{{1,700}})\[(?!\d{{1,3}}\])({LABEL}?)\^?\](?![\[(])", r"[\2](\1)"),
    ('":', rf'"(?:\([\w -]{{1,80}}\))?([^"\n]{{0,60000}})":({ADDRESS})', r"[\1](\2)"),  # Textile
    ("`_", rf"`((?:[^`<]|<(?=\s)){{0,60000}}?)\s?<({ADDRESS})>`__?", r"[\1](\2)"),  # reStructuredText
    ("=> ", rf"^=> ({ADDRESS})[ \t]+(\S.*)$", r"[\2](\1)"),  # Gemini
)  # fmt: skip
LATEX = "section{"
BLOCKS = rules(
    *(("\n=", rf"^[ \t]{{0,3}}={{{n}}} (\S.*?)(?: ?=+)?[ \t]*$", rf"{'#' * n} \1") for n in range(1, 7)),  # MediaWiki, AsciiDoc, Typst
    *((f"\nh{n}", rf"^h{n}(?:\([^()\n]{{0,300}}\))?\. ", "#" * n + " ") for n in range(1, 7)),  # Jira, Textile
    ("\np. ", r"^(?:p|bq)(?:\([^()\n]{0,300}\))?\.(?: |$)", ""),  # Textile
    ("'''", r"'''(?=[^\s'])([^'\n]{1,3000})'''", r"\1"),  # MediaWiki
    ("\n''", r"^[ \t]*''(?=[^\s'])((?:[^'\n]|'(?!')){1,60000})''[ \t]*$", r"\1"),  # a line in MediaWiki; within a line, these may be quotes
    ("{anchor:", r"\\([(){}\[\]!*_^~|+-])", r"\1"),  # Jira
    ("{anchor:", r"\{anchor:[^{}\n]{0,300}\}", ""),  # Jira
    ("\nbq. ", r"^bq\. ", ""),  # Jira
    ("{panel", r"\{panel(?::[^{}\n]{0,300})?\}", ""),  # Jira
    ("{quote}", r"\{quote\}", ""),  # Jira
    ("#+end_", r"^#\+(?:begin|end)_\w+$", ""),  # Org
    ("---+", r"^---\++!* ", "### "),  # TWiki
    (":PROPERTIES:", r"^\*{1,6} ", "### "),  # Org
    (":PROPERTIES:", r"^[ \t]*:[A-Z_]+:.*$", ""),
    ("]#", r"\[\.[\w.-]{1,80}\]#([^#\n]{0,3000})#", r"\1"),  # AsciiDoc
    ("#link(", r"^[ \t]*<[\w-]{1,300}>$|#horizontalrule\b", ""),  # Typst
    (LATEX, r"\\(?:begin|end|label|hspace)(?:\[[^\[\]\n]{0,80}\])?\{[^{}\n]{0,300}\}\}?|\\(?:tightlist|hypertarget\{[^{}\n]{0,300}\}\{%)", ""),
    (LATEX, r"\\item(?:\[\])?(?=\s)", "-"),
    (LATEX, r"\\(?:textbf|textit|emph|texttt|textsc)\{([^{}]{0,3000})\}", r"\1"),
    (LATEX, r"(?<![\\\w}])\{([^{}\\]{0,300})\}|\\([{}])", r"\1\2"),
    (LATEX, rf"\\texorpdfstring\s*\{{({BRACES})\}}\s*\{{{BRACES}\}}", r"\1"),
    (LATEX, rf"^\\(?:sub)*section\*?\{{({BRACES})\}}", r"### \1"),
    ("[/b]", r"\[/?(?:b|i|u|h[1-6]|list|quote|size(?:=\d+)?)\]", ""),  # BBCode
    ("** [", r"^\*{2,6} (?=\[)", "### "),  # Muse
    ("<verbatim", r"<verbatim>(.{0,300}?)</verbatim>", r"\1"),  # Muse
    ("<class", r"</?class\b[^<>]{0,300}>", ""),
    ("]{.", r"\[([^\[\]\n]{0,3000})\]\{[.#][^{}\n]{0,300}\}", r"\1"),  # Pandoc's Markdown
    ("`{", r"`([^`\n]{0,3000})`\{[^{}\n]{0,300}\}", r"\1"),  # Markua
    ("{class: ", r"`([^`\n]{0,3000})`", r"\1"),
    ("{id: ", r"^\{(?:id|alt|class): [^{}\n]{0,900}\}$", ""),
    ("%%", r"%%([^%\n]{0,300})%%", r"\1"),  # DokuWiki
    ("\n*. ", r"^\*{1,6}\. ", "- "),  # XWiki
    (".. rubric", r"^[ \t]*\.\. rubric:: ", "### "),  # reStructuredText
    (".. ", r"^[ \t]*:(?:name|class|alt|width|height|target):.*$", ""),
    (".. ", r"^[ \t]*\.\. (?:container::|raw::|image::|_|\|).*$", ""),  # reStructuredText
)  # fmt: skip
#: Words in emphasis; the marks must enclose them closely and may not stand inside a word.
EMPHASIS = (
    *(
        (mark, re.compile(rf"({mark_}(?<![\w\\{mark}/=.%&?#:-]{mark_}){mark_}{{0,2}})(?=[^\s{mark}])([^{mark}]{{0,5000}}?[^\s\\{mark}])\1(?![\w{mark}])"))
        for mark, mark_ in (("*", r"\*"), ("_", "_"))
    ),
    ("~~", re.compile(r"(~~)([^~\n]{1,3000})~~")),
)  # fmt: skip
PARAGRAPH = "\n\n"
#: Characters that are left out when a text is searched for the signs of markup, and those of lines without markup.
ORDINARY = (string.ascii_letters + string.digits + " ,.;()").encode()
PROSE = ORDINARY + b"-'\"/?:!&%$^_}]+=>*@~" + bytes(range(0x80, 0x100))
#: Signs of markup that consist of the signs of prose.
SIGNS_OF_PROSE = ("''", "%%", '":', "~/")


def as_markdown(text: str) -> str:
    """Return `text` with the links, images and headings of other markup as Markdown."""
    if "<" in text and OPENING_TAG.search(text):
        addresses: list[str] = []
        text = TAG.sub(lambda tag: rewritten_tag(tag, addresses), text)
    lines = lines_with_markup(text)
    marked = b"\n".join([b"", *lines])
    beginnings = b"".join([b"\n" + line.lstrip()[:LONGEST_SIGN] for line in lines])
    signs = marked.translate(None, ORDINARY)
    present = {
        sign
        for sign, (pattern, bare) in SIGNS.items()
        if bare in signs and pattern.search(beginnings if sign[0] == "\n" else marked)
    }
    for sign, pattern, replacement in RULES:
        if sign in present:
            text = pattern.sub(with_line_breaks(replacement), text)
    return without_entities(text)


def lines_with_markup(text: str) -> list[bytes]:
    """Return the lines that have a sign of markup, or begin unlike English prose."""
    whole = text.encode(errors="replace")
    signs = [SIGNS[sign][0] for sign in SIGNS_OF_PROSE if SIGNS[sign][0].search(whole)]
    return [
        line
        for line in whole.split(b"\n")
        if not (line[:1].isalnum() and line[1:3].isalnum())
        or line.translate(None, PROSE)
        or any(sign.search(line) for sign in signs)
    ]


RULES = (*IMAGES, *LINKS, *BLOCKS)
#: The signs of the rules, and each without ordinary characters: a text without these is much faster to search.
SIGNS = {
    sign: (re.compile(re.escape(sign).encode()), sign.encode().translate(None, ORDINARY))
    for sign in (*SIGNS_OF_PROSE, *(sign for sign, _, _ in RULES))
}
LONGEST_SIGN = max(map(len, SIGNS))


def with_line_breaks(replacement: str) -> Callable[[re.Match[str]], str]:
    """Return a replacement that keeps the line breaks of what it replaces."""

    def replaced(found: re.Match[str]) -> str:
        written = found.expand(replacement)
        return written + "\n" * (found[0].count("\n") - written.count("\n"))

    return replaced


def without_entities(text: str) -> str:
    """Return `text` with its character references replaced; a line break among them becomes a space."""
    if "&" not in text:
        return text
    return ENTITY.sub(lambda entity: html.unescape(entity[0]).replace("\n", " "), text)


def without_emphasis(text: str) -> str:
    """Return `text` without the marks around emphasised words; a text ends at a blank line."""
    for mark, pattern in EMPHASIS:
        if mark in text:
            text = pattern.sub(lambda found: found[0] if PARAGRAPH in found[2] else found[2], text)
    return text


def rewritten_tag(tag: re.Match[str], addresses: list[str]) -> str:
    """Return the Markdown for a tag; `addresses` contains the addresses of the open links."""
    name = tag["name"].casefold()
    if not KNOWN_TAG.fullmatch(name):
        return tag[0]
    markdown = " " if name in SPACED_TAGS else ""
    if name == "a" and not tag["closing"]:
        target = HREF.search(tag["rest"])
        address = next(filter(None, target.groups()), "") if target else ""
        addresses.append("".join(address.split()))
        markdown = "["
    elif name == "a" and addresses:
        markdown = f"]({addresses.pop()})"
    elif name == "img":
        alt = ALT.search(tag["rest"])
        words = BRACKETS.sub("", alt[1] or alt[2] or "") if alt else ""
        markdown = f"![{' '.join(words.split())}]()"
    elif name in ("b", "strong"):
        markdown = "**"
    elif name[0] == "h" and name[1:].isdigit() and not tag["closing"]:
        markdown = "### "
    return markdown + "\n" * tag[0].count("\n")
