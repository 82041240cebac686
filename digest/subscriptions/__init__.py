"""Subscribers: who asked for digests, of what, and when; how they come, change and leave.

The web form, the mail command and the CLI call the same functions here. Nothing here commits.
"""

from digest.addresses import key as email_key
from digest.subscriptions.asking import (
    Answer,
    Asked,
    ask,
    asked_since,
    confirm,
    confirmation_in,
    remind_unanswered,
    send_link,
)
from digest.subscriptions.changing import edit, pause, resume, schedule_with, sleepers_due, wake
from digest.subscriptions.filters import Books, filter_id, filter_ids, is_pack
from digest.subscriptions.following import Step, Turn, back, followers, publish, step, users
from digest.subscriptions.importing import Imported, Problem, import_rows, rows_in
from digest.subscriptions.leaving import can_undo, erase, leave, remove, undo, unsubscribe
from digest.subscriptions.people import (
    Topic,
    add,
    checked_topics,
    find,
    get,
    listing,
    schedule_of,
    topics_of,
)
from digest.subscriptions.telling import tell_changed, tell_paused

__all__ = [
    "Answer",
    "Asked",
    "Books",
    "Imported",
    "Problem",
    "Step",
    "Topic",
    "Turn",
    "add",
    "ask",
    "asked_since",
    "back",
    "can_undo",
    "checked_topics",
    "confirm",
    "confirmation_in",
    "edit",
    "email_key",
    "erase",
    "filter_id",
    "filter_ids",
    "find",
    "followers",
    "get",
    "import_rows",
    "is_pack",
    "leave",
    "listing",
    "pause",
    "publish",
    "remind_unanswered",
    "remove",
    "resume",
    "rows_in",
    "schedule_of",
    "schedule_with",
    "send_link",
    "sleepers_due",
    "step",
    "tell_changed",
    "tell_paused",
    "topics_of",
    "undo",
    "unsubscribe",
    "users",
    "wake",
]
