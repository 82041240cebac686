"""Share caches between the tests of one process, so that templates are compiled, inlined and split only once."""

from digest.letters.templates import Templates
from digest.process.caches import Caches
from digest.settings import Settings, templates_dir

CACHES = Caches()


def caches_with_templates(settings: Settings) -> Caches:
    """Return caches that are empty apart from the product's templates, unless a site replaces some of them."""
    caches = Caches()
    overrides = settings.template_overrides
    if not overrides.exists():
        caches.get_or_make("templates", overrides, shared_templates)
    return caches


def shared_templates() -> Templates:
    """Return the product's templates, the same for all tests of this process."""
    return CACHES.get_or_make("templates", None, lambda: Templates(templates_dir()))
