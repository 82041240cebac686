"""Name the pages that crawlers may fetch, in robots.txt and in the sitemap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from xml.etree import ElementTree

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from digest import db
from digest.web import request_context
from digest.web.middleware import READER_PAGES
from digest.web.public_archive import listed_days, open_archive, topic_links

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def show_robots(request: Request) -> Response:
    """Return robots.txt (RFC 9309): crawlers may fetch the public pages, but no reader's personal pages."""
    context = request_context.context_of(request)
    rules = "".join(f"Disallow: /{page}/\n" for page in READER_PAGES) + "Disallow: /outbox\n"
    place = f"\nSitemap: {context.site.url}/sitemap.xml\n" * context.settings.public.has_archive
    return PlainTextResponse(f"User-agent: *\n{rules}{place}")


def show_sitemap(request: Request) -> Response:
    """Return the sitemap with the addresses of the public pages (sitemaps.org, protocol 0.9)."""
    context = open_archive(request)
    root = ElementTree.Element("urlset", xmlns=SITEMAP)
    with db.read_session(context.engine) as session:
        days = listed_days(context, session)
    for path, changed in public_paths(days):
        entry = ElementTree.SubElement(root, "url")
        ElementTree.SubElement(entry, "loc").text = context.site.url + path
        if changed:
            ElementTree.SubElement(entry, "lastmod").text = str(changed)
    content = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(content, media_type="application/xml")


def public_paths(days: list[date]) -> Iterator[tuple[str, date | None]]:
    """Yield the path of each public page, and the day on which it last changed."""
    latest = days[-1] if days else None
    yield "/", latest
    yield "/days", latest
    yield from ((link.href, latest) for link in topic_links())
    yield from ((f"/days/{day}", day) for day in reversed(days))
