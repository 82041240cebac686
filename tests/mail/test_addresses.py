"""Addresses are validated, and spellings of the same address are recognised."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digest.errors import BadField
from digest.mail import addresses


@pytest.mark.parametrize(
    ("typed", "email", "key"),
    [
        pytest.param("Ada@Uni.EDU", "Ada@uni.edu", "ada@uni.edu", id="case"),
        pytest.param("  ada@uni.edu\n", "ada@uni.edu", "ada@uni.edu", id="space around"),
        pytest.param(
            "ada@bücher.example", "ada@xn--bcher-kva.example", "ada@xn--bcher-kva.example", id="idn"
        ),
        pytest.param("ju\u0308rgen@uni.edu", "jürgen@uni.edu", "jürgen@uni.edu", id="composed"),
        pytest.param("root@localhost", "root@localhost", "root@localhost", id="at home"),
        pytest.param("Straße@uni.edu", "Straße@uni.edu", "straße@uni.edu", id="sharp s"),
        pytest.param("ﬁnn@uni.edu", "ﬁnn@uni.edu", "ﬁnn@uni.edu", id="ligature"),
    ],
)
def test_an_address_is_kept_for_the_envelope_and_folded_for_comparison(typed, email, key):
    assert addresses.parse_address(typed) == addresses.Address(email=email, folded=key)


def looked_at(spell, typed):
    """Return the address of a spelling, or the reason why it is invalid."""
    try:
        return spell(typed)
    except BadField as error:
        return str(error)


ADDRESSES = st.from_regex(
    r"[a-zA-Z0-9_.+-]{1,12}@[a-zA-Z0-9.-]{1,40}(\.(com|org|test|arpa|local))?", fullmatch=True
)


@given(ADDRESSES)
@example("ada@xn--bcher-kva.example.org")
@example("ada@localhost")
@example("Postmaster@uni.edu")
@example("a" * 64 + "@uni.edu")
def test_the_fast_path_for_plain_addresses_gives_the_same_result(typed):
    ours = looked_at(lambda text: addresses.parse_address(text).email, typed)

    assert ours == looked_at(addresses.envelope_address, typed)


def test_of_a_long_list_each_domain_is_looked_at_once():
    before = addresses.is_domain.cache_info().misses

    for number in range(100):
        addresses.parse_address(f"reader-{number}@list{number % 2}.example.org")

    assert addresses.is_domain.cache_info().misses == before + 2


@pytest.mark.parametrize(
    "typed",
    ["@", "ada", "ada@", "ada@uni", "a@b@uni.edu", "Ada <ada@uni.edu>", "ada@uni.edu,eve@uni.edu",
     "ada\r\nBcc: eve@uni.edu@uni.edu", "ada@uni.edu\0", "a" * 65 + "@uni.edu", "ada@" + "u" * 300 + ".edu",
     "ada@x..test", "ada@-x.test", "ada@http://evil.example/x.test", "ada@x>,<y.local"],
)  # fmt: skip
def test_an_invalid_address_is_refused_with_the_name_of_its_field(typed):
    with pytest.raises(BadField, match="is not a valid email address") as caught:
        addresses.parse_address(typed)

    assert caught.value.field == "email"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("typed", ["", "  "])
def test_an_empty_field_is_asked_to_be_filled_in(typed):
    with pytest.raises(BadField, match="Enter an email address"):
        addresses.parse_address(typed)


def test_folding_an_address_twice_changes_nothing():
    for email in ("ADA@BÜCHER.example", "Straße@straße.de", "x@\ud800.de", "no at sign", ""):
        assert addresses.fold_address(addresses.fold_address(email)) == addresses.fold_address(email)


def test_a_slip_of_the_finger_is_noticed_and_an_honest_domain_is_not():
    assert addresses.suggest_correction("ada@gmial.com") == "ada@gmail.com"
    assert addresses.suggest_correction("ada@gmail.com") is None
    assert addresses.suggest_correction("ada@uni.edu") is None


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("ada@xn--bcher-kva.example", "ada@bücher.example"),
        ("ada@uni.example", "ada@uni.example"),
        ("ada@xn--a.example", "ada@xn--a.example"),
    ],
)
def test_an_address_is_shown_with_its_domain_in_unicode_if_there_is_one(stored, shown):
    assert addresses.readable_address(stored) == shown
