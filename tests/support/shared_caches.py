"""Share caches between the tests of one process, so that templates are split only once."""

from digest.caches import Caches

CACHES = Caches()
