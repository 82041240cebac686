"""Share caches between the tests of one process, so that templates are compiled, inlined and split only once."""

from digest.caches import Caches
from digest.letters import Templates
from digest.letters.press import load_templates
from digest.letters.press.digest_letters import DigestTemplates
from digest.settings import Settings, templates_dir
from digest.site_profile import Site

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


compile_and_check = load_templates.compile_and_check


def compile_and_check_once(
    templates: Templates, site: Site, *, checks_letters: bool = False
) -> DigestTemplates:
    """Compile the digest's templates once per site: each command has caches of its own, and the tests run hundreds."""
    key = templates.fingerprint, site, checks_letters
    return CACHES.get_or_make(
        "compiled",
        key,
        lambda: compile_and_check(templates, site, checks_letters=checks_letters),
        bound=8,
    )
