"""Define what a mail provider does to letters, for `profile=ses` and `profile=postfix` in a mail URL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from digest.delivery.limits.rates import BURST_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderProfile:
    """The headers that a provider replaces, the ids that it assigns, and how it counts letters."""

    #: a DKIM signature over these headers would break, so it omits them
    rewritten_headers: frozenset[str] = frozenset()
    #: finds the provider's id of a letter in the server's reply to the final dot
    id_pattern: re.Pattern[str]
    burst: float = BURST_SECONDS  #: the capacity of token buckets in seconds of their rate


PROFILES = {
    "ses": ProviderProfile(
        rewritten_headers=frozenset({"message-id", "date"}),
        id_pattern=re.compile(r"Ok <?([\w.-]{8,100})"),
        burst=0.5,  # Amazon SES counts letters per second
    ),
    # Postfix keeps our Message-ID but logs queue ids; `digest deliveries show` finds the letter by its queue id.
    "postfix": ProviderProfile(id_pattern=re.compile(r"queued as ([\w.-]{5,100})")),
}


def provider_id_in(profile: str, reply: str) -> str:
    """Return the provider's id for an accepted letter, or an empty string if the reply has none."""
    named = PROFILES[profile].id_pattern.search(reply)
    return named[1] if named else ""
