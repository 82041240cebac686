"""Render pages from templates."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from digest.app_context import AppContext
from digest.settings import templates_dir


def render_html(context: AppContext, name: str, **values: Any) -> str:
    """Return a page as HTML."""
    return context.templates.html.get_template(f"web/{name}.html").render(
        {
            "site": context.site,
            "style": static_url("site.css"),
            "has_archive": context.settings.public.has_archive,
            "legal_links": legal_links(context),
            "shows_outbox": shows_outbox(context),
            **values,
        }
    )


def shows_outbox(context: AppContext) -> bool:
    """Return whether all mail stays in a Maildir on this machine, so that pages may show the outbox."""
    return context.settings.mail.folder_format == "maildir" and context.site.is_local


def legal_links(context: AppContext) -> list[tuple[str, str]]:
    """Return (label, address) of the privacy notice, which may be the operator's own, and of their other links."""
    own = {"Privacy": "/privacy"}
    return list((own | dict(context.settings.footer_links)).items())


def letter_page(html: str) -> str:
    """Return a letter's HTML with the ARIA role of an email replaced by that of a page's main content."""
    return html.replace('role="article" aria-roledescription="email"', 'role="main"', 1)


def static_dir() -> Path:
    """Return the folder of static files."""
    return templates_dir() / "web" / "static"


@lru_cache(maxsize=16)  # there are only a few static files
def static_url(name: str) -> str:
    """Return the address of a static file, which changes whenever the file's content does."""
    content = (static_dir() / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:8]}"
