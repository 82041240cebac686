"""Delivery: what is in the outbox is rendered, and handed to the transport once.

 claim, commit ─▶ gather ─▶ render ─▶ ask again, intend, commit ─▶ send a window ─▶ settle, commit

Whoever dies between two commits leaves deliveries that come back when their lease is over: clean
before the intent, in doubt after it. Who lives and has lost the database tells it what they know when
it is back. No transaction is open while something is rendered or a server is waited for.
"""

from digest.delivery.runs import Report, deliver

__all__ = ["Report", "deliver"]
