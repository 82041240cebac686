"""Load each dump file into the catalog once, and record the reason if a file or record is not loaded.

A dump is opened without following links, read completely before any record is stored, and identified by the
hash of its bytes. A bad file never stops the service. Files in `done/` are deleted after 30 days
(`DIGEST_KEEP`).
"""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.dumps.intake.captures import MAX_BYTES as MAX_CAPTURE_BYTES
    from digest.dumps.intake.captures import capture
    from digest.dumps.intake.dumps_folder import candidates, load_folder, prune_done, report_unread
    from digest.dumps.intake.load_dump import load
    from digest.dumps.intake.load_report import LATEST, LoadResult, failed_load
    from digest.dumps.intake.retry_dump import retry
    from digest.dumps.intake.sample_content import remove_samples
    from digest.dumps.intake.stored_dumps import get_dump, list_dumps, list_unread_records, repeated_lists
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "LATEST",
    "MAX_CAPTURE_BYTES",
    "LoadResult",
    "candidates",
    "capture",
    "failed_load",
    "get_dump",
    "list_dumps",
    "list_unread_records",
    "load",
    "load_folder",
    "prune_done",
    "remove_samples",
    "repeated_lists",
    "report_unread",
    "retry",
]
