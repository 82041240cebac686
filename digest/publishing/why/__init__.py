"""Explain why a subscriber did or did not get a paper or an edition."""
