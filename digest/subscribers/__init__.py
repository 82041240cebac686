"""Manage subscribers: sign-up, topics, schedule, pauses, unsubscribing, import and invitations.

The web form, the mail commands and the CLI call the same functions here. Functions that commit are documented
as such.
"""

from digest.addresses import fold_address
from digest.subscribers.change_letters import queue_changed_letter, queue_paused_letter
from digest.subscribers.confirmations import (
    SignUpOutcome,
    SignUpResult,
    WelcomePapers,
    confirm,
    confirmation_in,
    is_scanner,
    queue_reminders,
    request_subscription,
    send_link,
    subscriber_of,
)
from digest.subscribers.csv_import import CsvRows, ImportProblem, ImportReport, import_rows
from digest.subscribers.pack_updates import (
    FilterChange,
    PackChange,
    count_followers,
    count_pack_users,
    plan_pack_change,
    previous_version,
    publish,
)
from digest.subscribers.preferences import (
    changed_schedule,
    check_abstracts,
    check_max_papers,
    due_to_resume,
    edit,
    pause,
    resume,
    resume_due,
)
from digest.subscribers.reading_library import ReadLibrary, read_library
from digest.subscribers.sign_up_counts import are_slow
from digest.subscribers.sign_up_limits import BY_MAIL
from digest.subscribers.sign_up_queue import (
    are_waiting,
    forget_sign_ups,
    network_hash,
    note_proxy_header,
    proxy_header_seen,
    request,
    request_proven,
    send_confirmations,
)
from digest.subscribers.subscriber_rows import (
    SubscriberTopic,
    add,
    check_topics,
    find,
    find_by_link,
    get,
    list_subscribers,
    schedule_of,
    topics_of,
    typed_topics,
)
from digest.subscribers.unsubscribe import (
    can_undo,
    erase,
    mark_unsubscribed,
    prune_unconfirmed,
    remove,
    undo,
    unsubscribe,
)
from digest.topics.filter_registry import FilterRegistry, filter_id, filter_ids, is_pack_topic

__all__ = [
    "BY_MAIL",
    "CsvRows",
    "FilterChange",
    "FilterRegistry",
    "ImportProblem",
    "ImportReport",
    "PackChange",
    "ReadLibrary",
    "SignUpOutcome",
    "SignUpResult",
    "SubscriberTopic",
    "WelcomePapers",
    "add",
    "are_slow",
    "are_waiting",
    "can_undo",
    "changed_schedule",
    "check_abstracts",
    "check_max_papers",
    "check_topics",
    "confirm",
    "confirmation_in",
    "count_followers",
    "count_pack_users",
    "due_to_resume",
    "edit",
    "erase",
    "filter_id",
    "filter_ids",
    "find",
    "find_by_link",
    "fold_address",
    "forget_sign_ups",
    "get",
    "import_rows",
    "is_pack_topic",
    "is_scanner",
    "list_subscribers",
    "mark_unsubscribed",
    "network_hash",
    "note_proxy_header",
    "pause",
    "plan_pack_change",
    "previous_version",
    "proxy_header_seen",
    "prune_unconfirmed",
    "publish",
    "queue_changed_letter",
    "queue_paused_letter",
    "queue_reminders",
    "read_library",
    "remove",
    "request",
    "request_proven",
    "request_subscription",
    "resume",
    "resume_due",
    "schedule_of",
    "send_confirmations",
    "send_link",
    "subscriber_of",
    "topics_of",
    "typed_topics",
    "undo",
    "unsubscribe",
]
