"""The inbox: mail that arrives for us is kept until it is understood.

 taken in, committed ─▶ understood: what it asks is done, and it is not kept
                    └─▶ not understood: shunted, and shown by `digest inbox list`

Nothing counts without proof: a bounce names a delivery by an address that only we can make, a
complaint shows a letter of ours. Whoever the From line names is never believed: a command in their name is
answered to them alone, and does nothing that they cannot undo.
"""

from digest.inbox import notices
from digest.inbox.keeping import count, get, keep, listing, prune
from digest.inbox.understanding import is_for_us, look, look_through

__all__ = ["count", "get", "is_for_us", "keep", "listing", "look", "look_through", "notices", "prune"]
