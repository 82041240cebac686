"""Receive mail to the service, store it, and process it.

 received, committed ─▶ understood: processed and deleted
                    └─▶ not understood: shunted, and listed by `digest inbox list`

Nothing counts without proof: a bounce or complaint must name a delivery by its signed envelope address. A complaint
that only quotes a letter unsubscribes its reader, who gets the goodbye letter with its undo link. The From line is
never trusted: replies go only to that address, and a command does nothing that its owner cannot undo. A signature that
proves it lets a sign-up go ahead of others (sender_proof), and no more.
"""

from digest.inbound import provider_notices
from digest.inbound.classification import (
    awaits_proof,
    is_accepted_recipient,
    process_mail,
    process_stored_mails,
)
from digest.inbound.storage_quota import InboxFull, check_storage, is_full
from digest.inbound.stored_mail import (
    count_mails,
    delete_mail,
    delete_old_mails,
    get_mail,
    list_mails,
    store_mail,
)

__all__ = [
    "InboxFull",
    "awaits_proof",
    "check_storage",
    "count_mails",
    "delete_mail",
    "delete_old_mails",
    "get_mail",
    "is_accepted_recipient",
    "is_full",
    "list_mails",
    "process_mail",
    "process_stored_mails",
    "provider_notices",
    "store_mail",
]
