"""Make a press from ranked papers and the digest letter's templates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jinja2 import TemplateError, TemplateSyntaxError

from digest.caches import Caches
from digest.errors import SetupMismatch
from digest.letters import Templates
from digest.letters.piece_templates import PieceTemplate
from digest.letters.press import self_check
from digest.letters.press.cut_digest_templates import cut_digest_templates
from digest.letters.press.press_value import Press
from digest.papers.trending import Ranked
from digest.site_profile import Site


def make_press(
    ranked: Sequence[Ranked],
    *,
    site: Site,
    templates: Templates,
    caches: Caches,
    as_of: datetime,
    note: str = "",
) -> Press:
    """Make the press of these papers, which are sorted by rank.

    Raises SetupMismatch if the digest letter's templates cannot be split into pieces.
    """
    html, text = digest_templates(templates, site, caches)
    return Press(
        as_of=as_of,
        papers=tuple(one.paper for one in ranked),
        scores=tuple(one.score for one in ranked),
        reasons=tuple(tuple(one.reasons) for one in ranked),
        html=html,
        text=text,
        note=note,
    )


def digest_templates(templates: Templates, site: Site, caches: Caches) -> tuple[PieceTemplate, PieceTemplate]:
    """Return the digest letter's template pieces, HTML and text.

    The templates are split and checked once per process, which takes half a second. Workers call this
    function before their first task. For digests, premailer runs only here, never for a single letter. Raises
    SetupMismatch if the templates cannot be split.
    """
    key = templates.fingerprint, site
    return caches.get_or_make("digest templates", key, lambda: cut_and_check(templates, site))


def cut_and_check(templates: Templates, site: Site) -> tuple[PieceTemplate, PieceTemplate]:
    """Split the templates into pieces, and check that the pieces render the same letter."""
    try:
        cut = cut_digest_templates(templates, site)
        self_check.check_templates(templates, *cut, site)
    except TemplateSyntaxError as error:
        where = f"{error.name}, line {error.lineno}"
        raise SetupMismatch(f"Syntax error in the template {where}: {error.message}") from error
    except (TemplateError, KeyError) as error:
        raise SetupMismatch(f"The digest letter's templates cannot be used: {error}") from error
    return cut
