"""Fetch, parse and store files of paper records, called dumps."""

import logging

# Suppress the log messages of bibtexparser, because its errors are recorded as problems of the dump.
logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)
