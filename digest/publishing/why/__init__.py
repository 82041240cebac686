"""Explain why a subscriber did or did not get a paper or an edition."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.publishing.why.explain_paper import why
    from digest.publishing.why.missing_edition import why_edition
    from digest.publishing.why.question import WhyAnswer, WhyCause
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = ["WhyAnswer", "WhyCause", "why", "why_edition"]
