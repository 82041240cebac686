"""Fetch, parse and store files of paper records, called dumps."""
