"""Check that names and sentences are plain words: `python -m tests.lint.plain_words`.

The rule: write what an engineer, an operator or a reader in this field would say. Use no metaphor if a term
exists, no class name twice, and no file name that does not name the content.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator

from tests.lint.sentences import CODE, Text, named, texts, tracked

BANNED = (
    "houses?|rooms?|doors?|desks?|purses?|tills?|specimens?|moulds?|tells?|telling|told|whom|lapse[sd]?"
    "|mend(?:s|ed|ing)?|furnish(?:es|ed)?"
    "|of ours|of theirs|(?:is|are) wanted|parted by|do so|in peace|lets? go of|dear to|seal(?:s|ed)?|floors?"
)
BANNED_WORD = re.compile(rf"\b({BANNED})\b", re.IGNORECASE)
#: Phrases in which a banned word is allowed.
ORDINARY = re.compile(
    r"sealed (?:token|secret)|math\.floor|\bfloor\(|room for|no room|enough room|--till", re.IGNORECASE
)
WORDS_OF_A_NAME = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

FIELD_TERMS = frozenset(
    {"rendering", "publishing", "ranking", "monitoring", "throttling", "polling", "trending", "pipelining"}
)
ENTRY_POINTS = ("digest/cli/", "digest/web/", "digest/db/tables/")
MOST_FILES_OF_A_NAME = 2


def main() -> int:
    """Print everything that breaks the rule; return 1 if anything does."""
    problems = [*class_names_used_twice(), *file_names(), *banned_words()]
    for problem in problems:
        print(problem)
    print(f"Plain words: {len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}.")
    return 1 if problems else 0


def class_names_used_twice() -> Iterator[str]:
    """Yield the class names that are defined twice."""
    places = defaultdict(list)
    for path in tracked(*CODE, "tests"):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(f"{named(path)}:{node.lineno}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{where[0]}: class {name} is defined again in {', '.join(where[1:])}; give each its own name"


def file_names() -> Iterator[str]:
    """Yield the modules whose names are bare gerunds, or are used more than twice."""
    places = defaultdict(list)
    for path in tracked(*CODE):
        name = named(path)
        if path.suffix != ".py" or path.stem.startswith("__"):
            continue
        if path.stem.endswith("ing") and "_" not in path.stem and path.stem not in FIELD_TERMS:
            yield f"{name}: a bare gerund; name the thing inside"
        if not name.startswith(ENTRY_POINTS):
            places[path.stem].append(name)
    for stem, where in sorted(places.items()):
        if len(where) > MOST_FILES_OF_A_NAME:
            yield f"{where[0]}: {len(where)} files are called {stem}: {', '.join(where)}"


def banned_words() -> Iterator[str]:
    """Yield each text with a banned word."""
    for text in texts():
        for word in banned_in(text):
            yield f"{text.path}:{text.line}: {word!r} in the {text.kind}: {excerpt(text, word)}"


def banned_in(text: Text) -> list[str]:
    """Return the banned words in a text; an identifier is split into its words."""
    words = text.words
    if text.kind == "name":
        words = " ".join(WORDS_OF_A_NAME.findall(words))
    return BANNED_WORD.findall(ORDINARY.sub(" ", words))


def excerpt(text: Text, word: str) -> str:
    """Return the words around a banned word, on one line."""
    at = text.words.lower().find(word.lower())
    return " ".join(text.words[max(0, at - 40) : at + 40].split())


if __name__ == "__main__":
    sys.exit(main())
