"""Decide when a digest is due and which papers it shows, and record which papers were shown."""
