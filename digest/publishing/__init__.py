"""Compose every due digest and write it to the outbox; sending is a separate step."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.publishing.candidate_papers import overflow_papers, positions, positions_now
    from digest.publishing.chunk_of_digests import PublishReport, publish_chunk
    from digest.publishing.cleanup import delete_old_rows, delete_old_shown, is_cleanup_overdue
    from digest.publishing.decide_digest import considered_until_of
    from digest.publishing.digest_preview import Preview, decide_for, preview
    from digest.publishing.paper_eligibility import is_news
    from digest.publishing.publish_due import CHUNK_SUBSCRIBERS, prepare_press, publish
    from digest.publishing.visitor_sample import (
        SampleDigest,
        public_sample,
        sample_digest,
        sample_letter,
    )
    from digest.publishing.welcome_papers import choose_welcome_papers, welcome_chooser, welcome_press
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "CHUNK_SUBSCRIBERS",
    "Preview",
    "PublishReport",
    "SampleDigest",
    "choose_welcome_papers",
    "considered_until_of",
    "decide_for",
    "delete_old_rows",
    "delete_old_shown",
    "is_cleanup_overdue",
    "is_news",
    "overflow_papers",
    "positions",
    "positions_now",
    "prepare_press",
    "preview",
    "public_sample",
    "publish",
    "publish_chunk",
    "sample_digest",
    "sample_letter",
    "welcome_chooser",
    "welcome_press",
]
