"""Receive, store and process incoming mail.

 received, committed ─▶ understood: processed and deleted
                    └─▶ not understood: stored for the operator to read (`digest inbox list`)

A bounce or complaint counts only if it was sent to the signed envelope address of a delivery, contains that
address, or is a provider's signed notice. Any other complaint that quotes a letter unsubscribes the reader,
who gets the goodbye letter with an undo link. The From line is never trusted: replies go only to the address
in it, and the owner of that address can undo every command. If the sender of a sign-up is proven, the sign-up
does not wait in the queue (sender_proof).
"""
