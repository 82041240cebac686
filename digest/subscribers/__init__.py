"""Manage subscribers: sign-up, topics, schedule, pauses, unsubscribing, import and invitations.

The web form, the mail commands and the CLI call these same functions. Callers commit, unless a function's
docstring says that it commits.
"""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.addresses import fold_address
    from digest.subscribers.account import (
        export_data,
        new_address_of_link,
        queue_account_link,
        subscriber_of_account_link,
    )
    from digest.subscribers.change_letters import queue_changed_letter, queue_paused_letter
    from digest.subscribers.confirmations import (
        Request,
        SignUpOutcome,
        SignUpResult,
        WelcomePapers,
        check_policy,
        confirm,
        confirmation_in,
        is_expired,
        is_scanner,
        queue_reminders,
        request_of,
        request_subscription,
        send_link,
        skip_reminders,
        subscriber_of,
        welcome_of,
    )
    from digest.subscribers.csv_import import (
        CsvRows,
        ImportProblem,
        ImportReport,
        JsonRows,
        file_columns,
        import_in_batches,
        sync_in_batches,
    )
    from digest.subscribers.erasure import Erasure, erase, erase_copies, erase_subscriber
    from digest.subscribers.library_file import (
        FILE_LIMITS,
        UPLOAD_LIMITS,
        LibraryLimits,
        ReadLibrary,
        read_library,
    )
    from digest.subscribers.next_digest import (
        edition_status,
        next_digest_in_words,
        next_due_times,
        promised_to,
    )
    from digest.subscribers.pack_updates import (
        FilterChange,
        PackChange,
        count_followers,
        count_pack_users,
        plan_pack_change,
        publish,
    )
    from digest.subscribers.pauses import due_to_resume, pause, resume, resume_due
    from digest.subscribers.preferences import edit, resolved_filters, settings_of
    from digest.subscribers.reader_settings import NOTHING_GIVEN, ReaderSettings
    from digest.subscribers.saved_papers import list_saved
    from digest.subscribers.sign_up_counts import are_slow
    from digest.subscribers.sign_up_limits import BY_MAIL
    from digest.subscribers.sign_up_queue import (
        are_waiting,
        forget_sign_ups,
        mail_network,
        network_hash,
        note_proxy_header,
        proxy_header_seen,
        request,
        request_proven,
        send_confirmations,
    )
    from digest.subscribers.still_reading import note_activity, note_mail
    from digest.subscribers.subscriber_rows import (
        add,
        check_owner,
        find,
        find_by_link,
        get,
        latest_consents,
        schedule_of,
    )
    from digest.subscribers.subscriber_topics import (
        SubscriberTopic,
        check_topics,
        clean_line,
        muted_topics,
        topics_of,
        typed_topics,
    )
    from digest.subscribers.topic_feedback import (
        TopicChange,
        changed_topics,
        changes_for_less,
        changes_for_more,
        propose_saved_topic,
    )
    from digest.subscribers.undo_changes import (
        UndoableChange,
        describe_change,
        find_change,
        record_change,
        undo_change,
    )
    from digest.subscribers.unsubscribe_and_undo import (
        can_undo,
        leave_with_undo,
        mark_unsubscribed,
        prune_unconfirmed,
        undo,
        unsubscribe,
    )
    from digest.topics.filter_registry import FilterRegistry, filter_id, filter_ids, is_pack_topic
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "BY_MAIL",
    "FILE_LIMITS",
    "NOTHING_GIVEN",
    "UPLOAD_LIMITS",
    "CsvRows",
    "Erasure",
    "FilterChange",
    "FilterRegistry",
    "ImportProblem",
    "ImportReport",
    "JsonRows",
    "LibraryLimits",
    "PackChange",
    "ReadLibrary",
    "ReaderSettings",
    "Request",
    "SignUpOutcome",
    "SignUpResult",
    "SubscriberTopic",
    "TopicChange",
    "UndoableChange",
    "WelcomePapers",
    "add",
    "are_slow",
    "are_waiting",
    "can_undo",
    "changed_topics",
    "changes_for_less",
    "changes_for_more",
    "check_owner",
    "check_policy",
    "check_topics",
    "clean_line",
    "confirm",
    "confirmation_in",
    "count_followers",
    "count_pack_users",
    "describe_change",
    "due_to_resume",
    "edit",
    "edition_status",
    "erase",
    "erase_copies",
    "erase_subscriber",
    "export_data",
    "file_columns",
    "filter_id",
    "filter_ids",
    "find",
    "find_by_link",
    "find_change",
    "fold_address",
    "forget_sign_ups",
    "get",
    "import_in_batches",
    "is_expired",
    "is_pack_topic",
    "is_scanner",
    "latest_consents",
    "leave_with_undo",
    "list_saved",
    "mail_network",
    "mark_unsubscribed",
    "muted_topics",
    "network_hash",
    "new_address_of_link",
    "next_digest_in_words",
    "next_due_times",
    "note_activity",
    "note_mail",
    "note_proxy_header",
    "pause",
    "plan_pack_change",
    "promised_to",
    "propose_saved_topic",
    "proxy_header_seen",
    "prune_unconfirmed",
    "publish",
    "queue_account_link",
    "queue_changed_letter",
    "queue_paused_letter",
    "queue_reminders",
    "read_library",
    "record_change",
    "request",
    "request_of",
    "request_proven",
    "request_subscription",
    "resolved_filters",
    "resume",
    "resume_due",
    "schedule_of",
    "send_confirmations",
    "send_link",
    "settings_of",
    "skip_reminders",
    "subscriber_of",
    "subscriber_of_account_link",
    "sync_in_batches",
    "topics_of",
    "typed_topics",
    "undo",
    "undo_change",
    "unsubscribe",
    "welcome_of",
]
