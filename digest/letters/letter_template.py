"""Compile the templates of a letter so that rendering them yields encoded mail text.

At load, everything that does not depend on a letter is done once: `extends`, blocks, includes and macros are
replaced by what they stand for, the site's values and fixed texts are filled in, premailer moves the style
sheet onto the elements of the static text, and that text is encoded. When a letter is rendered, each value is
escaped and encoded as it is printed, and the text in `{% cached NAMES %}` is kept by the values of these names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from jinja2 import Environment, Template, TemplateSyntaxError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from digest.letters.css_inlining import inline
from digest.letters.mime import encode_quoted_printable

MARK = (
    "\0"  #: with the letter after it, it stands for a value of one reader; no other text has this character
)
#: The values of one reader, which are put in last, and their marks.
PERSONAL_MARKS = {
    name: MARK + name[0]
    for name in ("paper_token", "browser_url", "recipient", "manage_url", "unsubscribe_url")
}
PERSONAL_NAMES = PERSONAL_MARKS.keys() | {"share_url"}
FIXED_NAMES = frozenset({"site", "filler", "range"})  #: the same for all letters
MARKS = re.compile(f"({MARK}.)")
NEEDS_NO_ENCODING = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:/@.-]{0,73}").fullmatch
TAGS = re.compile(
    r"</?(?!style)[a-z][a-z0-9]*", re.IGNORECASE
)  #: all but the style sheet, which premailer removes
TEXT_MARK = re.compile(r"q9text(\d+)z")
TAG_OR_VALUE = re.compile(r"\{[{%#].*?[}%#]\}")
KEY = "cached_key"  #: the name of the variable that marks a cached part
MAX_VALUE_LENGTH, VALUES_KEPT = 200, 16_384
FRAGMENTS_SIZE = 32_000_000  #: maximum number of characters that each cached part keeps
CACHED_RULE = (
    "text in {% cached %} is the same for all readers with equal values of the names after `cached`, "
    "so it may use no other names"
)
PERSONAL_RULE = (
    "a value of one reader is put in last, so a template can only print it, as {{ NAME }}, or ask whether "
    "there is one, as {% if NAME %}"
)
#: Tags that cannot be replaced by what they stand for before a letter is rendered.
UNSUPPORTED = (
    nodes.CallBlock, nodes.FilterBlock, nodes.Import, nodes.ScopedEvalContextModifier, nodes.Break, nodes.Continue,
)  # fmt: skip


def escape_html(text: str) -> str:
    """Escape `text` as lxml does, without escaping quotes; links contain no quotes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escaped(value: object) -> str:
    """Return a value as the HTML shows it; markup of a template stays markup."""
    return str(value) if isinstance(value, Markup) else escape_html(str(value))


def encoded_by_mark(own: Mapping[str, str]) -> dict[str, str]:
    """Return a reader's own values encoded, keyed by the letters of their marks."""
    return {PERSONAL_MARKS[name][1]: encode(value) for name, value in own.items()}


def filled(body: str, values: Mapping[str, str]) -> bytes:
    """Return an encoded body with one reader's values, as `encoded_by_mark` returns them, in place of their marks."""
    before, *marked = body.split(MARK)
    return "".join([before, *[values[part[0]] + part[1:] for part in marked]]).encode("ascii")


def encode(text: str) -> str:
    """Return text in quoted-printable, in a form to which more can be appended; marks stay as they are."""
    if NEEDS_NO_ENCODING(text):
        return f"{text}=\r\n"
    if MARK not in text:
        return encode_quoted_printable(text).decode("ascii")
    return "".join(
        [
            part if part[:1] == MARK else encode_quoted_printable(part).decode("ascii")
            for part in MARKS.split(text)
        ]
    )


class CachedExtension(Extension):
    """Add `{% cached NAMES %}...{% endcached %}`: its text may only depend on these names."""

    tags = {"cached"}  # noqa: RUF012 - Jinja's own attribute

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse the tag and its content to a `with` block, and refuse names that are not after `cached`."""
        line = next(parser.stream).lineno
        asked = parser.parse_tuple()
        body = parser.parse_statements(("name:endcached",), drop_needle=True)
        names = asked.items if isinstance(asked, nodes.Tuple) else [asked]
        if not names or not all(isinstance(name, nodes.Name) for name in names):
            parser.fail("only names can stand after `cached`, separated by commas", line)
        used = meta.find_undeclared_variables(nodes.Template(body, environment=self.environment))
        used |= {name.name for name in names if isinstance(name, nodes.Name) and name.name in PERSONAL_NAMES}
        named = {name.name for name in names if isinstance(name, nodes.Name)} - PERSONAL_NAMES
        if strange := sorted(used - named - FIXED_NAMES):
            parser.fail(f"{CACHED_RULE}: {', '.join(strange)}", line)
        key = names[0] if len(names) == 1 else nodes.Tuple(names, "load")
        return nodes.With([nodes.Name(KEY, "param")], [key], body).set_lineno(line)


class FragmentCache(dict[Any, str]):
    """Encoded fragments by key; all are dropped when they take too much memory."""

    size = 0

    def keep(self, fragment: str, key: object) -> str:
        """Keep an encoded fragment, and return it."""
        self.size += len(fragment)
        if self.size > FRAGMENTS_SIZE:
            self.clear()
            self.size = len(fragment)
        self[key] = fragment
        return fragment

    def encode_and_keep(self, fragment: str, key: object) -> str:
        """Keep a fragment in encoded form, and return it."""
        return self.keep(encode(fragment), key)


class EncodedValues(dict[Any, str]):
    """Values as they are printed, escaped and encoded; the short ones are kept."""

    def __init__(self, escape: Callable[[object], str]) -> None:
        super().__init__()
        self.escape = escape

    def __missing__(self, value: object) -> str:
        encoded = encode(self.escape(value))
        if type(value) is str and len(value) <= MAX_VALUE_LENGTH:  # True == 1, and Markup("<") == "<"
            if len(self) >= VALUES_KEPT:
                self.clear()
            self[value] = encoded
        return encoded


class LetterTemplate:
    """A compiled template, whose style sheet is already on its elements."""

    def __init__(self, plain: Environment, name: str, fixed: Mapping[str, Any], *, is_encoded: bool):
        """Compile a template of `plain`, the environment that renders it as it is.

        `fixed` are the values that are the same for all letters. An encoded template renders quoted-printable
        text, keeps its cached parts, and leaves the values of one reader to `filled`. Raises
        TemplateSyntaxError for what cannot be compiled.
        """
        is_html = bool(plain.autoescape)
        made = plain.overlay(autoescape=False, auto_reload=False)
        made.filters = plain.filters | {
            "escaped": escaped,
            "encoded": EncodedValues(escaped if is_html else str).__getitem__,
        }
        flattener = Flattener(made, fixed, is_html=is_html, personal=PERSONAL_NAMES if is_encoded else ())
        page = flattener.flatten(name)
        if is_html:
            inline_styles(page)
        self.fragments: list[FragmentCache] = []
        output = EncodedOutput(made, self.fragments, is_html=is_html) if is_encoded else EscapedOutput()
        page = output.visit(page)
        page.body = [nodes.Scope(page.body)]  # whose variables are local variables
        self.sources = flattener.sources
        self.compiled = Template.from_code(made, made.compile(page, name, name), dict(made.globals))

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text; an encoded one has marks in place of the values of one reader."""
        return "".join(self.compiled.root_render_func(self.compiled.new_context(values)))  # type: ignore[arg-type]

    def forget_fragments(self) -> None:
        """Drop the kept fragments; those of an earlier press would keep its cards in memory."""
        for kept in self.fragments:
            kept.clear()
            kept.size = 0

    def line_of(self, written: str) -> tuple[str, int]:
        """Return the file and the line of a template that most probably wrote this line of a letter."""
        shown = without_attributes(written)
        fits = {
            (name, number): max([len(part) for part in parts if part.strip() and part in shown], default=0)
            for name, source in self.sources.items()
            for number, line in enumerate(source.splitlines(), start=1)
            if (parts := TAG_OR_VALUE.split(without_attributes(line)))
        }
        return max(fits, key=lambda place: fits[place])


def without_attributes(line: str) -> str:
    """Return a line of HTML with the names of its elements alone."""
    return re.sub(r"(<[a-z][a-z0-9]*)[^<>]*", r"\1", line, flags=re.IGNORECASE)


class Flattener(NodeTransformer):
    """Replaces tags that refer to other templates by their content, and fixed names by their values."""

    def __init__(
        self, environment: Environment, fixed: Mapping[str, Any], *, is_html: bool, personal: Collection[str]
    ):
        self.environment, self.fixed, self.is_html, self.personal = environment, fixed, is_html, personal
        self.context = nodes.EvalContext(environment)
        self.blocks: dict[str, nodes.Block] = {}
        self.macros: dict[str, nodes.Macro] = {}
        self.sources: dict[str, str] = {}  #: the text of each file

    def flatten(self, name: str) -> nodes.Template:
        """Return a template and all that it extends, includes and imports as one tree."""
        tree = self.tree(name)
        for block in tree.find_all(nodes.Block):
            self.blocks.setdefault(block.name, block)
        for imported in tree.find_all(nodes.FromImport):
            self.visit_FromImport(imported)
        parent = tree.find(nodes.Extends)
        flat: nodes.Template = self.flatten(parent.template.as_const()) if parent else self.visit(tree)
        return flat

    def tree(self, name: str) -> nodes.Template:
        """Return a parsed template; refuse what cannot be flattened, and note the file of each text."""
        source, path, _ = self.environment.loader.get_source(self.environment, name)  # type: ignore[union-attr]
        self.sources[name] = source
        tree = self.environment.parse(source, name, path)
        for strange in tree.find_all(UNSUPPORTED):
            tag = type(strange).__name__.lower()
            raise TemplateSyntaxError(f"a letter cannot use this tag: {tag}", strange.lineno, name, path)
        for use in personal_uses(tree, self.personal):
            raise TemplateSyntaxError(f"{PERSONAL_RULE}: {use.name}", use.lineno, name, path)
        for text in tree.find_all(nodes.TemplateData):
            text.file = name  # type: ignore[attr-defined]  # for messages
        return tree

    def visit_FromImport(self, node: nodes.FromImport) -> None:
        tree = self.tree(node.template.as_const())
        self.macros |= {macro.name: macro for macro in tree.find_all(nodes.Macro)}

    def visit_Include(self, node: nodes.Include) -> list[nodes.Node]:
        return self.content(self.tree(node.template.as_const()).body)

    def visit_Block(self, node: nodes.Block) -> list[nodes.Node]:
        return self.content(self.blocks.get(node.name, node).body)

    def visit_Output(self, node: nodes.Output) -> list[nodes.Node]:
        made: list[nodes.Node] = []
        for child in node.nodes:
            called = (
                child.node.name
                if isinstance(child, nodes.Call) and isinstance(child.node, nodes.Name)
                else ""
            )
            if called in self.macros:
                made.append(self.expanded(self.macros[called], child))  # type: ignore[arg-type]
            else:
                made.append(nodes.Output([self.printed(child)], lineno=node.lineno))
        return made

    def visit_If(self, node: nodes.If) -> Any:
        self.generic_visit(node)
        try:
            is_true = node.test.as_const(self.context)  # type: ignore[attr-defined]
        except nodes.Impossible:
            return node
        if is_true:
            return node.body
        return (
            self.visit(nodes.If(node.elif_[0].test, node.elif_[0].body, node.elif_[1:], node.else_))
            if node.elif_
            else node.else_
        )

    def visit_Name(self, node: nodes.Name) -> nodes.Expr:
        return nodes.Const(self.fixed[node.name]) if node.name in self.fixed and node.ctx == "load" else node

    def printed(self, child: nodes.Expr) -> nodes.Expr:
        """Return an expression to print, as text if its value is known."""
        if isinstance(child, nodes.TemplateData):
            return child
        child = self.visit(child)
        try:
            value = child.as_const(self.context)
        except nodes.Impossible:
            return child
        text = nodes.TemplateData(escaped(value) if self.is_html else str(value), lineno=child.lineno)
        text.file = ""  # type: ignore[attr-defined]
        return text

    def expanded(self, macro: nodes.Macro, call: nodes.Call) -> nodes.Node:
        """Return the content of a macro with the values of this call."""
        names = [argument.name for argument in macro.args]
        values = dict(zip(reversed(names), reversed(macro.defaults), strict=False))
        values |= dict(zip(names, call.args, strict=False)) | {each.key: each.value for each in call.kwargs}
        targets: list[nodes.Expr] = [nodes.Name(name, "param") for name in values]
        return nodes.With(
            targets,
            [self.visit(deepcopy(value, self.kept())) for value in values.values()],
            self.content(macro.body),
        )

    def content(self, body: Sequence[nodes.Node]) -> list[nodes.Node]:
        """Return a flattened copy of these nodes."""
        return self.generic_visit(nodes.Scope(deepcopy(list(body), self.kept()))).body  # type: ignore[attr-defined,no-any-return]

    def kept(self) -> dict[int, Any]:
        """Return what a deep copy of nodes shares with them."""
        return {id(self.environment): self.environment}

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        for name, value in node.iter_fields():
            if isinstance(value, list):
                setattr(node, name, merged(value))
        return node


def personal_uses(tree: nodes.Template, personal: Collection[str]) -> Iterator[nodes.Name]:
    """Yield the places where a template does more with a reader's own value than to print or to test it."""
    plain = {id(child) for output in tree.find_all(nodes.Output) for child in output.nodes}
    plain |= {id(choice.test) for choice in tree.find_all(nodes.If)}
    for name in tree.find_all(nodes.Name):
        if name.name in personal and id(name) not in plain:
            yield name


def merged(siblings: Sequence[Any]) -> list[Any]:
    """Return these nodes with adjacent outputs and adjacent texts joined."""
    made: list[Any] = []
    for node in siblings:
        last = made[-1] if made else None
        if isinstance(node, nodes.Output) and isinstance(last, nodes.Output):
            last.nodes = merged([*last.nodes, *node.nodes])
        elif isinstance(node, nodes.TemplateData) and isinstance(last, nodes.TemplateData):
            last.data += node.data
        else:
            made.append(node)
    return made


def inline_styles(page: nodes.Template) -> None:
    """Let premailer move the style sheet onto the elements of a page's static text.

    It sees the content of every branch and loop once, and no values.
    """
    texts = list(page.find_all(nodes.TemplateData))
    marked = "".join(
        [f"q9text{number}z{text.data}" if number else text.data for number, text in enumerate(texts)]
    )
    first, *rest = TEXT_MARK.split(inline(marked))
    inlined = {"0": first, **dict(zip(rest[::2], rest[1::2], strict=True))}
    for number, text in enumerate(texts):
        styled = inlined.get(str(number), "")
        if TAGS.findall(styled) != TAGS.findall(text.data):
            raise TemplateSyntaxError(
                "the text of each branch must close the elements that it opens",
                text.lineno,
                text.file,  # type: ignore[attr-defined]
            )
        text.data = styled


class EscapedOutput(NodeTransformer):
    """Makes a flat tree of HTML print escaped values."""

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        node.nodes = [
            child if isinstance(child, nodes.TemplateData) else filtered(child, "escaped")
            for child in node.nodes
        ]
        return node


class EncodedOutput(NodeTransformer):
    """Makes a flat tree print encoded text, and look up its cached parts, each in a cache of its own."""

    def __init__(self, environment: Environment, fragments: list[FragmentCache], *, is_html: bool):
        self.environment, self.fragments, self.is_html = environment, fragments, is_html
        self.is_cached = False

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        printed = "encoded" if not self.is_cached else "escaped" if self.is_html else ""
        for place, child in enumerate(node.nodes):
            if not isinstance(child, nodes.TemplateData):
                node.nodes[place] = filtered(child, printed) if printed else child
            elif not self.is_cached:
                child.data = encode(child.data)
        return node

    def visit_With(self, node: nodes.With) -> Any:
        if not is_cached_part(node):
            return self.generic_visit(node)
        name, fragments, (key,) = f"fragment_{len(self.fragments)}", FragmentCache(), node.values
        self.fragments.append(fragments)
        is_joined = any(
            map(is_cached_part, node.find_all(nodes.With))
        )  # from cached parts, which are encoded
        keep = fragments.keep if is_joined else fragments.encode_and_keep
        self.environment.filters |= {name: fragments.get, f"keep_{name}": keep}
        self.is_cached = not is_joined
        body = self.generic_visit(node).body  # type: ignore[attr-defined]
        self.is_cached = False
        store, load = nodes.Name(name, "store"), nodes.Name(name, "load")
        is_missing = nodes.Compare(load, [nodes.Operand("eq", nodes.Const(None))])
        kept = nodes.AssignBlock(store, filtered(None, f"keep_{name}", key), body)
        return [
            nodes.Assign(store, filtered(key, name)),
            nodes.If(is_missing, [kept], [], []),
            nodes.Output([load]),
        ]


def is_cached_part(node: nodes.With) -> bool:
    """Return whether a `with` block stands for a cached part."""
    return any(isinstance(target, nodes.Name) and target.name == KEY for target in node.targets)


def filtered(value: nodes.Expr | None, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    """Return a call of a filter, which compiles to the call of a function."""
    return nodes.Filter(value, name, list(arguments), [], None, None)
