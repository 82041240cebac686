"""Parse the rows of tables in Markdown that list papers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from digest.dumps.formats import field_parsing, own_columns
from digest.dumps.formats.list_entries import (
    BARE,
    BOLD,
    LINK,
    LINK_WORDS,
    as_markdown,
    clean_title,
    links_in,
    plain_text,
)
from digest.papers.identifiers import id_in
from digest.papers.paper_record import Record

TITLE_NAMES = (
    "title", "papertitle", "paper", "article", "publication", "papername", "name", "work", "论文", "标题", "题目", "论文标题", "名称",
)  # fmt: skip
#: Names of table columns, with the corresponding columns of the format `json`.
COLUMN_NAMES = {
    "publishdate": "published", "time": "published", "pubdate": "published", "submitted": "published", "day": "published",
    "conference": "journal", "conf": "journal", "pub": "journal", "publication": "journal", "publishedin": "journal",
    "institute": "organization", "institution": "organization", "affiliation": "organization", "affiliations": "organization",
    "topic": "categories", "topics": "categories", "area": "categories", "task": "categories", "tldr": "abstract",
    "作者": "authors", "摘要": "abstract", "组织": "organization", "机构": "organization", "单位": "organization", "日期": "published",
    "时间": "published", "发布日期": "published", "会议": "journal", "期刊": "journal", "引用": "citations", "引用数": "citations",
    "链接": "url", "代码": "repourl", "关键词": "categories", "领域": "categories",
    "citation": "citations", "cited": "citations", "star": "stars",
}  # fmt: skip
#: A table of papers has a column of titles and at least one of these columns.
PAPER_COLUMNS = own_columns.INDICATIVE_COLUMNS | set(own_columns.ADDRESS_COLUMNS)
CELL_END = re.compile(r"(?<!\\)\|")
ROW_NUMBER = re.compile(r"\W{0,2}\d{1,3}[.)]\s+")
LONG_CELL = 120  #: a title's cell with more characters than this may also contain a description


def cells_of(row: str) -> list[str]:
    """Return the cells of a row."""
    bare = row.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in (CELL_END.split(bare) if "\\" in bare else bare.split("|"))]


def column_names(header: Sequence[str]) -> list[str]:
    """Return the names of a table's columns; the column of titles, if any, is named `title`."""
    names = [re.sub(r"\W", "", field_parsing.folded_name(plain_text(cell))) for cell in header]
    titles = [names.index(name) for name in TITLE_NAMES if name in names]
    known = [COLUMN_NAMES.get(name, name) for name in names]
    if titles:
        known[titles[0]] = "title"
    return known


def has_paper_columns(names: Sequence[str]) -> bool:
    """Return whether a table lists papers: it has a column of titles and another known column."""
    return "title" in names and not PAPER_COLUMNS.isdisjoint(names)


def paper_in_row(names: Sequence[str], row: Sequence[str], line: int) -> Record | None:
    """Return the paper in a row of a table, or None if the row has no title."""
    cells = [as_markdown(cell) for cell in row]
    links = [link for cell in cells for link in links_in(cell)]
    described = ""
    if "title" in names and (place := names.index("title")) < len(cells):
        cells[place], described = split_title(cells[place])
    values: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=False):
        if name and name not in values and (text := cell_value(cell)):
            values[name] = text
    title = clean_title(values.pop("title", ""))
    if not title or title.casefold() in LINK_WORDS:
        return None
    if described:
        values.setdefault("abstract", plain_text(described))
    urls = list(dict.fromkeys(link.url for link in links))
    found = own_columns.record_of({**values, "title": title, "urls": urls}, line)
    return replace(found, urls=tuple(url for url in found.urls if id_in(url) is None))


def split_title(cell: str) -> tuple[str, str]:
    """Return the title and the description in the cell of a title, such as `3) **Title** - description`."""
    number = ROW_NUMBER.match(cell)
    bare = cell[number.end() :] if number else cell
    if LINK.match(bare):
        return bare, ""
    if bold := BOLD.match(bare):
        return bold["text"] or bold["quoted"], bare[bold.end() :].lstrip(" -–—:")
    if len(bare) <= LONG_CELL:
        return bare, ""
    parts = re.split(r"\s{2,}|\s[-–—]\s", bare, maxsplit=1)
    return (parts[0], parts[1]) if len(parts) > 1 else (bare, "")


def cell_value(cell: str) -> str:
    """Return the text of a cell, or "" if the cell has only a link's label, a dash or a symbol."""
    is_linked = LINK.search(cell) is not None
    text = plain_text(cell if is_linked or len(cell) > LONG_CELL else BARE.sub(" ", cell))
    is_label = (
        is_linked
        and text.casefold() in LINK_WORDS
        and all(link.word in LINK_WORDS for link in links_in(cell))
    )
    return "" if is_label or text.casefold() in ("", "-", "–", "null", "none", "n/a", "tbd", "❌") else text
