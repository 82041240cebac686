"""Intake: from a file to the catalog, once, and with a reason for whatever did not get there.

A dump is opened without following links, surveyed from end to end before anything is stored, and
remembered by the hash of its bytes. Whatever is wrong with a file costs that file, never the
service, and no file is ever deleted.
"""

import logging

from digest.intake.folder import collect
from digest.intake.loading import load
from digest.intake.releasing import retry
from digest.intake.reports import LATEST, Loaded
from digest.intake.samples import remove_samples

logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)  # what it warns of comes to us as problems

__all__ = ["LATEST", "Loaded", "collect", "load", "remove_samples", "retry"]
