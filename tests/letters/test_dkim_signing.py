"""Our signatures verify with other implementations, and fail after tampering."""

from __future__ import annotations

import re
import warnings
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import dkim as oracle
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from digest.delivery.transports import mail_url
from digest.errors import BadField
from digest.letters.dkim_signing import (
    Signer,
    canonical_body,
    load_signers,
    sign_message,
    signers_for_list,
)
from digest.letters.headers import list_headers
from digest.letters.mime import RenderedLetter, build_message
from digest.site.site_profile import Site
from tests.letters.invented_papers import NOW


class Ed25519Key:
    """The one primitive that dkimpy takes from PyNaCl, a library nobody else here needs."""

    def __init__(self, encoded: bytes, encoder: object):
        self.key = ed25519.Ed25519PublicKey.from_public_bytes(b64decode(encoded))

    def verify(self, octets: bytes, seal: bytes) -> bytes:
        self.key.verify(seal, octets)
        return octets


#: Everything but that primitive is dkimpy's own: which fields, in which form, over which body.
oracle.nacl = SimpleNamespace(
    signing=SimpleNamespace(VerifyKey=Ed25519Key),
    encoding=SimpleNamespace(Base64Encoder=None),
    exceptions=SimpleNamespace(BadSignatureError=InvalidSignature, ValueError=ValueError),
)

SITE = Site(url="https://digest.example.org", sender_address="digest@example.org", keys=(b"k",))

PrivateKey = rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


@cache
def pem(kind: str) -> bytes:
    """Return a new private key."""
    make: dict[str, Callable[[], PrivateKey]] = {
        "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "short": lambda: rsa.generate_private_key(public_exponent=65537, key_size=1024),  # noqa: S505
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
    }
    return make[kind]().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def signer(kind: str, **changes: Any) -> Signer:
    return replace(Signer(domain="example.org", selector=f"{kind}-2026", pem=pem(kind)), **changes)


def plain_message(text: str = "Hello.\n", subject: str = "Flow matching – and more") -> bytes:
    return build_message(
        RenderedLetter(subject=subject, text=text, html="<p>Hello</p>\n"),
        site=SITE,
        recipient="alice@example.edu",
        message_id="<1@example.org>",
        dated_at=NOW,
        headers=list_headers(SITE, "https://digest.example.org/u/abc"),
    )


def verifies(raw: bytes, *signers: Signer, which: int = 0) -> bool:
    """Return what dkimpy says about one of the signatures."""
    records = {f"{one.dns_name}.": one.dns_record.encode() for one in signers}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return bool(oracle.DKIM(raw).verify(which, dnsfunc=lambda name, **_: records.get(name.decode())))
        except oracle.DKIMException:
            return False


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_dkimpy_verifies_what_we_sign(kind: str) -> None:
    one = signer(kind)

    assert verifies(sign_message(plain_message(), [one], dated_at=NOW), one)


@pytest.mark.parametrize(
    "name",
    [
        "From",
        "To",
        "Cc",
        "Reply-To",
        "Date",
        "Subject",
        "List-Unsubscribe",
        "List-Unsubscribe-Post",
        "Content-Type",
        "MIME-Version",
    ],
)
def test_a_header_that_is_added_on_the_way_breaks_the_signature(name: str) -> None:
    one = signer("rsa")
    raw = sign_message(plain_message(), [one], dated_at=NOW)

    for changed in (
        raw.replace(b"\r\n\r\n", f"\r\n{name}: added\r\n\r\n".encode(), 1),
        f"{name}: added\r\n".encode() + raw,
    ):
        assert not verifies(changed, one)


def test_two_signatures_on_one_message_both_verify() -> None:
    both = [signer("rsa"), signer("ed25519")]
    raw = sign_message(plain_message(), both, dated_at=NOW)

    assert [verifies(raw, *both, which=which) for which in (0, 1)] == [True, True]


@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=300),
    subject=st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
)
def test_the_signature_of_any_text_verifies(text: str, subject: str) -> None:
    one = signer("ed25519")

    raw = sign_message(plain_message(text, subject), [one], dated_at=NOW)

    assert verifies(raw, one)
    assert not re.search(rb"^\.", raw, re.MULTILINE)  # nothing is left for SMTP to double, signed or not


TAMPERED = {
    "the body": (b"Hello", b"Hallo"),
    "the subject": (b"Subject: ", b"Subject: Win! "),
    "the way out": (b"/u/abc", b"/u/xyz"),
    "the one-click header": (b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n", b""),
    "a second sender": (b"To: ", b"From: mallory@example.net\r\nTo: "),
    "a second subject": (b"To: ", b"Subject: Other\r\nTo: "),
    "the date": (b"20 Nov", b"21 Nov"),
    "the id": (b"<1@", b"<2@"),
    "the list": (b"List-Id: Digest", b"List-Id: Other"),
    "the type": (b"multipart/alternative;", b"multipart/mixed;"),
}


@pytest.mark.parametrize(("old", "new"), TAMPERED.values(), ids=TAMPERED)
@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_a_signature_fails_after_a_change_to(kind: str, old: bytes, new: bytes) -> None:
    one = signer(kind)
    raw = sign_message(plain_message(), [one], dated_at=NOW)

    changed = raw.replace(old, new)

    assert changed != raw
    assert not verifies(changed, one)


def test_a_signature_survives_refolded_headers_and_spaces() -> None:
    one = signer("rsa")
    raw = sign_message(plain_message(text="a word\n"), [one], dated_at=NOW)

    refolded = raw.replace(b"Precedence: bulk", b"Precedence:\r\n  bulk  ").replace(b"a word", b"a  word")

    assert refolded != raw
    assert verifies(refolded, one)


def test_a_relay_that_rewrites_id_and_date_leaves_the_signature_whole() -> None:
    one = signer(
        "rsa", unsigned=mail_url.parse_mail_url("smtp://mail.example.com:587?profile=ses").rewritten_headers
    )
    raw = sign_message(plain_message(), [one], dated_at=NOW)

    rewritten = raw.replace(b"<1@example.org>", b"<0100@eu.amazonses.example>").replace(b"20 Nov", b"21 Nov")

    assert verifies(rewritten, one)


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_the_same_message_is_signed_the_same_way(kind: str) -> None:
    assert sign_message(plain_message(), [signer(kind)], dated_at=NOW) == sign_message(
        plain_message(), [signer(kind)], dated_at=NOW
    )


def test_without_a_key_a_message_goes_out_as_it_is() -> None:
    assert sign_message(plain_message(), [], dated_at=NOW) == plain_message()


@pytest.mark.parametrize(
    ("key", "complaint"),
    [(pem("short"), "1024 bits"), (pem("ec"), "RSA or an Ed25519"), (b"no key", "not a private key")],
    ids=["short", "other", "none"],
)
def test_a_key_that_servers_reject_is_refused(key: bytes, complaint: str) -> None:
    with pytest.raises(BadField, match=complaint):
        _ = replace(signer("rsa"), pem=key).algorithm


def test_a_private_key_is_never_printed() -> None:
    assert "PRIVATE" not in repr(signer("rsa"))


def test_signature_lines_are_short() -> None:
    top = sign_message(plain_message(), [signer("rsa")], dated_at=NOW).partition(b"From:")[0]

    assert max(map(len, top.split(b"\r\n"))) <= 78


@pytest.mark.parametrize(
    ("body", "canonical"),
    [
        (b"", b""),
        (b"\r\n\r\n", b""),
        (b"a", b"a\r\n"),
        (b"a\r\n\r\nb\r\n", b"a\r\n\r\nb\r\n"),
    ],
    ids=["empty", "blank lines", "no line end", "nothing to do"],
)
def test_bodies_are_canonicalized_as_relaxed(body: bytes, canonical: bytes) -> None:
    assert canonical_body(body) == canonical


def test_each_key_signs_under_its_selector() -> None:
    both = load_signers(
        {"first": pem("rsa").decode(), "second": pem("ed25519").decode()}, domain="example.org"
    )

    assert [(one.selector, one.algorithm) for one in both] == [
        ("first", "rsa-sha256"),
        ("second", "ed25519-sha256"),
    ]
    raw = sign_message(plain_message(), both, dated_at=NOW)
    assert [verifies(raw, *both, which=which) for which in (0, 1)] == [True, True]


def test_keys_that_cannot_sign_are_refused_before_the_first_letter() -> None:
    for key, complaint in (("", "not a private key"), (pem("short").decode(), "1024 bits")):
        with pytest.raises(BadField, match=complaint):
            load_signers({"one": pem("rsa").decode(), "two": key}, domain="example.org")


def test_the_headers_of_a_mailing_list_break_only_the_signature_of_a_readers_letter() -> None:
    """Mailman 3 replaces the List headers and may set Reply-To; the rest of the letter stays signed."""
    one = signer("rsa")
    readers, groups = (
        sign_message(plain_message(), signers, dated_at=NOW) for signers in ([one], signers_for_list([one]))
    )
    changed = [
        re.sub(rb"List-Id: .*\r\n", b"List-Id: <lab.lists.example>\r\n", raw).replace(
            b"To: alice", b"Reply-To: lab@lists.example\r\nTo: alice"
        )
        for raw in (readers, groups)
    ]

    assert [verifies(raw, one) for raw in (readers, groups, *changed)] == [True, True, False, True]
    assert not verifies(changed[1].replace(b"Subject: ", b"Subject: [Lab] "), one)
    assert not verifies(changed[1].replace(b"Hello", b"Hullo"), one)
