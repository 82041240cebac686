"""A page is split at its markers, and filled again."""

from __future__ import annotations

from digest.letters.piece_templates import PieceTemplate, Placeholder, cut_at_marks, placeholder_mark
from digest.letters.templates import CLOSE_MARK, MARK_END, OPEN_MARK


def part(name: str, content: str) -> str:
    return f"{OPEN_MARK}{name}{MARK_END}{content}{CLOSE_MARK}{name}{MARK_END}"


def test_of_parts_with_the_same_name_the_first_is_kept_and_the_text_around_is_joined() -> None:
    page = f"<ul>{part('row', '<li>1</li>')}, {part('row', '<li>2</li>')}</ul>{placeholder_mark('end')}"

    assert cut_at_marks(page) == PieceTemplate(
        "page", ("<ul>", PieceTemplate("row", ("<li>1</li>",)), ", </ul>", Placeholder("end"))
    )


def test_a_page_comes_back_from_json_as_it_went_and_is_filled_the_same() -> None:
    page = cut_at_marks(f"{part('outer', 'a' + part('inner', placeholder_mark('x')) + 'b')}!")

    assert PieceTemplate.from_json(page.to_json()) == page
    assert page.fill({"outer": "rows"}) == "rows!"
    assert page.fill({}) == "!"
    assert page.parts()["inner"].fill({"x": "1"}) == "1"
