"""Fetch, parse and store files of paper records, called dumps."""

import logging

# The log messages are not needed, since the parser's errors are reported as problems of the dump or library.
logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)
