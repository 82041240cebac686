"""Fetch, parse and store files of paper records, called dumps."""

import logging

# Warnings of the parser are reported as problems of the dump or library.
logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)
