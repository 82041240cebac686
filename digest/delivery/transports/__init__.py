"""Hand messages over: by SMTP or LMTP, to a Maildir, to a folder of .eml files, or to memory."""

from digest.delivery.transports.transport import (
    SERVER_SCHEMES,
    Message,
    Outcome,
    Transport,
    Verdict,
    open_transport,
    provider_profiles,
    rewritten_headers,
    server_shares,
    split_urls,
)

__all__ = [
    "SERVER_SCHEMES",
    "Message",
    "Outcome",
    "Transport",
    "Verdict",
    "open_transport",
    "provider_profiles",
    "rewritten_headers",
    "server_shares",
    "split_urls",
]
