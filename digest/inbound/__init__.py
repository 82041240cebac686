"""Receive, store and process incoming mail.

 received, committed ─▶ understood: processed and deleted
                    └─▶ not understood: stored for the operator to read (`digest inbox list`)

A bounce or complaint counts only if it was sent to the signed envelope address of a delivery, contains that
address, or is a provider's signed notice. Any other complaint that quotes a letter unsubscribes the reader,
who gets the goodbye letter with an undo link. The From line is never trusted: replies go only to the address
in it, and the owner of that address can undo every command. If the sender of a sign-up is proven, the sign-up
does not wait in the queue (sender_proof).
"""

from digest.inbound import provider_notices
from digest.inbound.classification import (
    awaits_proof,
    is_accepted_recipient,
    may_be_kept,
    process_mail,
    process_stored_mails,
)
from digest.inbound.mail_rules import MailRules, rules_of
from digest.inbound.mail_text import ReceivedMail, read_mail
from digest.inbound.storage_quota import InboxFull, check_storage, is_full
from digest.inbound.stored_mail import (
    count_mails,
    delete_mails,
    delete_old_mails,
    find_mails,
    get_mail,
    list_mails,
    store_mail,
)

__all__ = [
    "InboxFull",
    "MailRules",
    "ReceivedMail",
    "awaits_proof",
    "check_storage",
    "count_mails",
    "delete_mails",
    "delete_old_mails",
    "find_mails",
    "get_mail",
    "is_accepted_recipient",
    "is_full",
    "list_mails",
    "may_be_kept",
    "process_mail",
    "process_stored_mails",
    "provider_notices",
    "read_mail",
    "rules_of",
    "store_mail",
]
