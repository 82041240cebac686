"""The caches that the tests of one process share, as the tasks of a worker do: templates are cut once, not for each test."""

from digest.caches import Caches

CACHES = Caches()
