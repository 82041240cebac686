"""Explain why a subscriber did or did not get a paper or an edition."""

from digest.publishing.why.explain_paper import why
from digest.publishing.why.missing_edition import why_edition
from digest.publishing.why.question import WhyAnswer, WhyCause

__all__ = ["WhyAnswer", "WhyCause", "why", "why_edition"]
