"""Links that only we can make: their MACs are those that anybody's library makes of the same key."""

from __future__ import annotations

import hmac

from hypothesis import given
from hypothesis import strategies as st

from digest import links


@given(key=st.binary(max_size=200), texts=st.lists(st.text(), min_size=1, max_size=3))
def test_every_mac_is_hmac_sha256_whatever_was_made_before_it(key: bytes, texts: list[str]) -> None:
    made = [links.keyed_hash(key, text) for text in texts]

    assert made == [hmac.digest(key, text.encode(), "sha256") for text in texts]
