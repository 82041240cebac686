"""Links cannot be forged, and their MACs equal those of the standard library for the same key."""

from __future__ import annotations

import hmac
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.site import links
from digest.site.site_profile import Site


@given(key=st.binary(max_size=200), texts=st.lists(st.text(), min_size=1, max_size=3))
def test_every_mac_is_hmac_sha256_whatever_was_made_before_it(key: bytes, texts: list[str]) -> None:
    made = [links.keyed_hash(key, text) for text in texts]

    assert made == [hmac.digest(key, text.encode(), "sha256") for text in texts]


SITE = Site(
    url="https://digest.example.org",
    sender_address="digest@example.org",
    keys=(b"new", b"old"),
    inbound_domain="in.example.org",
)
RECEIVING = replace(SITE, inbound_domain="example.org")  #: receives the replies to its letters
RETIRED = replace(SITE, keys=(b"retired",))
IDS = st.integers(0, 10**9)
KEYS = st.sampled_from(list(SITE.ring))


@given(
    subscriber=IDS,
    version=IDS,
    edition=st.from_regex(r"[a-z0-9]{1,9}(-[a-z0-9]{1,4}){0,3}", fullmatch=True),
    key=KEYS,
)
def test_every_token_is_read_back_whichever_key_of_the_ring_signed_it(
    subscriber: int, version: int, edition: str, key: str
) -> None:
    manage = links.manage_url(SITE, subscriber, version, key=key).rpartition("/")[2]
    view = links.view_url(SITE, subscriber, version, edition, key=key).rpartition("/")[2]

    account = links.account_url(SITE, subscriber, version, 1_700_000_000, key=key).rpartition("/")[2]
    moving = links.new_address_url(SITE, subscriber, version, "ada-b@ünì.example", 5, key=key).rpartition(
        "/"
    )[2]

    assert links.read_subscriber_token(SITE, "manage", manage) == (subscriber, version)
    assert links.read_view_token(SITE, view) == (subscriber, version, edition)
    assert links.read_account_token(SITE, account) == (subscriber, version, 1_700_000_000)
    assert links.read_new_address_token(SITE, moving) == (subscriber, version, 5, "ada-b@ünì.example")


@given(subscriber=IDS, version=IDS, key=KEYS, at=st.integers(0, 200), letter=st.sampled_from("aZ0-._é"))
def test_a_token_that_was_changed_proves_nothing(
    subscriber: int, version: int, key: str, at: int, letter: str
) -> None:
    token = links.manage_url(SITE, subscriber, version, key=key).rpartition("/")[2]
    at %= len(token)
    changed = token[:at] + letter + token[at + 1 :]

    found = links.read_subscriber_token(SITE, "manage", changed)

    assert found == ((subscriber, version) if changed == token else None)


def test_a_token_is_for_one_purpose_only() -> None:
    token = links.manage_url(SITE, 7, 1).rpartition("/")[2]

    assert links.read_subscriber_token(SITE, "unsubscribe", token) is None
    assert links.read_view_token(SITE, token) is None
    assert links.read_account_token(SITE, token) is None
    assert links.read_new_address_token(SITE, token) is None


@pytest.mark.parametrize(
    ("token", "is_unknown"),
    [
        (links.manage_url(RETIRED, 7, 1).rpartition("/")[2], True),
        (links.manage_url(SITE, 7, 1).rpartition("/")[2], False),
        ("abcdef", False),
        ("robots.txt", False),
    ],
    ids=["of a retired key", "of ours", "no dot", "no key"],
)
def test_a_token_of_a_retired_key_differs_from_other_invalid_ones(token: str, is_unknown: bool) -> None:
    assert links.is_of_unknown_key(SITE, token) == is_unknown


@given(subscriber=IDS, version=IDS, key=KEYS)
def test_an_unsubscribe_address_survives_lower_case(subscriber: int, version: int, key: str) -> None:
    address = links.unsubscribe_address(SITE, subscriber, version, key=key)

    assert links.verify_address(SITE, "unsubscribe", address.upper()) == f"{subscriber}-{version}"
    assert links.verify_address(SITE, "bounce", address) is None
    assert links.verify_address(RETIRED, "unsubscribe", address) is None


@given(subscriber=IDS, version=IDS, key=KEYS, letter=st.sampled_from(["12", "daily-2026-11-20"]))
def test_the_address_for_replies_survives_lower_case(
    subscriber: int, version: int, key: str, letter: str
) -> None:
    reply = links.reply_address(RECEIVING, subscriber, version, letter, key=key)
    confirm = links.confirm_address(RECEIVING, subscriber, key=key)

    for address in (reply, reply.lower(), reply.upper()):
        assert links.read_reply_address(RECEIVING, address) == (subscriber, version, letter)
    for address in (confirm, confirm.lower(), confirm.upper()):
        assert links.read_confirm_address(RECEIVING, address) == subscriber
    assert links.read_reply_address(RECEIVING, confirm) is None
    assert links.read_confirm_address(RECEIVING, reply) is None


@pytest.mark.parametrize(
    "address",
    ["", "unsubscribe@in.example.org", "unsubscribe+7-1.é@in.example.org", "unsubscribe+.ab@x.example"],
)
def test_an_invented_address_proves_nothing(address: str) -> None:
    assert links.verify_address(SITE, "unsubscribe", address) is None


def test_a_site_that_receives_no_mail_has_no_addresses_of_its_own_in_letters() -> None:
    deaf = replace(SITE, inbound_domain="")

    assert links.unsubscribe_address(deaf, 7, 1) == ""
    assert links.reply_address(deaf, 7, 1, "12") == ""
    assert links.confirm_address(deaf, 5) == ""
    assert links.envelope_sender(deaf, 3) == "digest@example.org"
    assert links.verify_address(SITE, "bounce", links.envelope_sender(SITE, 3)) == "3"
