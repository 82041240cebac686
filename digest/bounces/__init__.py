"""Read bounces and complaints, score addresses, and maintain the suppression list."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.bounces.bounce_score import (
        FailureOutcome,
        count_failures,
        delete_old_failures,
        failure_report,
        lift_confirmed_suppression,
        list_failures,
        record_failure,
        score_of_address,
        store_report,
    )
    from digest.bounces.broken_domains import accept_failures, forgive_domain, frozen_domains
    from digest.bounces.failure_kinds import FailureKind, failure_kind
    from digest.bounces.opt_outs import (
        OptOutKind,
        delete_old_opt_outs,
        mark_saved,
        record_erasure,
        record_subscribers,
        subscriber_hash,
        unsaved_opt_outs,
    )
    from digest.bounces.report_parser import (
        Complaint,
        Failure,
        MailReport,
        NoActionNeeded,
        failure_of_reply,
        read_report,
    )
    from digest.bounces.ses_notices import NoticeReport, read_notice
    from digest.bounces.suppressions import (
        OWNER_CAN_LIFT,
        SuppressionEntry,
        SuppressionReason,
        address_hmac,
        end_temporary_suppressions,
        find_suppressed,
        find_suppression,
        is_suppressed,
        list_suppressions,
        suppress,
        suppress_by_operator,
        suppress_many,
        unsuppress,
        unsuppress_by_operator,
    )
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "OWNER_CAN_LIFT",
    "Complaint",
    "Failure",
    "FailureKind",
    "FailureOutcome",
    "MailReport",
    "NoActionNeeded",
    "NoticeReport",
    "OptOutKind",
    "SuppressionEntry",
    "SuppressionReason",
    "accept_failures",
    "address_hmac",
    "count_failures",
    "delete_old_failures",
    "delete_old_opt_outs",
    "end_temporary_suppressions",
    "failure_kind",
    "failure_of_reply",
    "failure_report",
    "find_suppressed",
    "find_suppression",
    "forgive_domain",
    "frozen_domains",
    "is_suppressed",
    "lift_confirmed_suppression",
    "list_failures",
    "list_suppressions",
    "mark_saved",
    "read_notice",
    "read_report",
    "record_erasure",
    "record_failure",
    "record_subscribers",
    "score_of_address",
    "store_report",
    "subscriber_hash",
    "suppress",
    "suppress_by_operator",
    "suppress_many",
    "unsaved_opt_outs",
    "unsuppress",
    "unsuppress_by_operator",
]
