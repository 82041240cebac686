"""Encoded pieces may be joined in any order and decode to the original texts."""

from __future__ import annotations

import quopri
import re
from email import message_from_bytes, policy

from dkim import canonicalization as oracle
from hypothesis import given
from hypothesis import strategies as st

from digest.letters.mime import (
    RenderedLetter,
    build_message,
    decode_quoted_printable,
    encode_quoted_printable,
    mime_boundary,
)
from digest.site.site_profile import Site
from tests.letters.invented_papers import NOW

PIECES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=200
) | st.sampled_from(
    [
        "a  b",
        "\ta\t",
        "  two\n  three\n",
        " ",
        "x" * 75,
        "x" * 76,
        "x" * 500,
        "= \n",
        ".\n.",
        "..x\n...\n",
        "." * 200,
        "x" * 75 + ".",
        "x" * 75 + ".x",
        f".{'x' * 75}",
        " \n",
        "\t",
        "é" * 40,
        "From ",
        "=\n",
        "--=_\n",
    ]
)


@given(st.lists(PIECES, max_size=12))
def test_joined_quoted_printable_pieces_decode_to_the_joined_texts(pieces: list[str]) -> None:
    encoded = b"".join(map(encode_quoted_printable, pieces))

    assert decode_quoted_printable(encoded) == "".join(pieces)
    assert quopri.decodestring(encoded).replace(b"\r\n", b"\n").decode() == "".join(pieces)


@given(st.lists(PIECES, max_size=12))
def test_joined_pieces_have_legal_line_lengths(pieces: list[str]) -> None:
    encoded = b"".join(map(encode_quoted_printable, pieces))

    assert encoded.isascii()
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)|[ \t]\r\n", encoded)
    assert not re.search(rb"^\.", encoded, re.MULTILINE)  # SMTP would have to double it
    assert all(len(line) <= 76 for line in encoded.split(b"\r\n"))


@given(st.lists(PIECES, max_size=12))
def test_joined_pieces_are_in_the_relaxed_body_form(pieces: list[str]) -> None:
    encoded = b"".join(map(encode_quoted_printable, pieces))

    assert oracle.CanonicalizationPolicy.from_c_value(b"relaxed/relaxed").canonicalize_body(
        encoded + b"end\r\n"
    ) == (encoded + b"end\r\n")


@given(st.lists(PIECES, max_size=12), st.text(max_size=30))
def test_no_text_contains_the_boundary_of_its_part(pieces: list[str], identity: str) -> None:
    assert b"--" + mime_boundary(identity) not in b"".join(map(encode_quoted_printable, pieces))


@given(PIECES, PIECES)
def test_a_message_decodes_to_the_text_of_its_letter(text: str, html: str) -> None:
    letter = RenderedLetter(subject="s", text=text, html=html)
    raw = build_message(
        letter, site=Site(keys=(b"k",)), recipient="alice@example.edu", message_id="<1@x>", dated_at=NOW
    )

    parsed = message_from_bytes(raw, policy=policy.compat32)

    read = [part.get_payload(decode=True) for part in parsed.walk() if not part.is_multipart()]
    assert read == [text.replace("\n", "\r\n").encode(), html.replace("\n", "\r\n").encode()]
