"""Making a press."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jinja2 import TemplateError, TemplateSyntaxError

from digest.errors import Misfit
from digest.links import Site
from digest.press import proof
from digest.press.presses import Press
from digest.press.specimen import cut_digest
from digest.ranking import Ranked
from digest.rendering import Templates
from digest.rendering.stencils import Stencil


def make(
    ranked: Sequence[Ranked], *, site: Site, templates: Templates, as_of: datetime, note: str = ""
) -> Press:
    """Return the Press of these papers, best first.

    Raises Misfit if the digest letter's templates are not fit for it.
    """
    html, text = stencils(templates, site)
    return Press(
        as_of=as_of,
        papers=tuple(one.paper for one in ranked),
        scores=tuple(one.score for one in ranked),
        reasons=tuple(tuple(one.reasons) for one in ranked),
        html=html,
        text=text,
        note=note,
    )


def stencils(templates: Templates, site: Site) -> tuple[Stencil, Stencil]:
    """Return the digest letter's stencils, HTML and text; premailer runs here, and for no mail after.

    They are cut and proven once in a process, half a second that a worker spends before its first task.
    Raises Misfit if the templates are not fit for it.
    """
    key = templates.fingerprint, site
    if key not in CUT:
        CUT.clear()  # templates or site have changed: the others will not be asked for again
        CUT[key] = proven(templates, site)
    return CUT[key]


CUT: dict[tuple[str, Site], tuple[Stencil, Stencil]] = {}


def proven(templates: Templates, site: Site) -> tuple[Stencil, Stencil]:
    """Cut the stencils, and hold a letter made with them against the templates."""
    try:
        cut = cut_digest(templates, site)
        proof.check(templates, *cut, site)
    except TemplateSyntaxError as error:
        where = f"{error.name}, line {error.lineno}"
        raise Misfit(f"The template {where}, has a mistake: {error.message}") from error
    except (TemplateError, KeyError) as error:
        raise Misfit(f"The digest letter's templates cannot be used: {error}") from error
    return cut
