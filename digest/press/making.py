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


def make(
    ranked: Sequence[Ranked], *, site: Site, templates: Templates, as_of: datetime, note: str = ""
) -> Press:
    """Return the Press of these papers, best first; premailer runs here, and for no mail after.

    Raises Misfit if the digest letter's templates are not fit for it.
    """
    try:
        html, text = cut_digest(templates, site)
        made = Press(
            as_of=as_of,
            papers=tuple(one.paper for one in ranked),
            scores=tuple(one.score for one in ranked),
            reasons=tuple(tuple(one.reasons) for one in ranked),
            html=html,
            text=text,
            note=note,
        )
        proof.check(templates, made, site)
    except TemplateSyntaxError as error:
        where = f"{error.name}, line {error.lineno}"
        raise Misfit(f"The template {where}, has a mistake: {error.message}") from error
    except (TemplateError, KeyError) as error:
        raise Misfit(f"The digest letter's templates cannot be used: {error}") from error
    return made
