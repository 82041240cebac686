"""Decide when a digest is due and which papers it contains, and record the papers that were shown."""
