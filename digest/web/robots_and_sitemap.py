"""Name the pages that crawlers may fetch, in robots.txt and in the sitemap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from xml.etree import ElementTree

from starlette.responses import PlainTextResponse, Response

from digest.web.middleware import READER_PAGES
from digest.web.public_archive import listed_days, topic_links
from digest.web.visits import Visit

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def show_robots(visit: Visit) -> Response:
    """Return robots.txt (RFC 9309): crawlers may fetch the public pages, but no reader's personal pages."""
    rules = "".join(f"Disallow: /{page}/\n" for page in READER_PAGES) + "Disallow: /outbox\n"
    has_archive = visit.context.settings.public.has_archive
    place = f"\nSitemap: {visit.site.url}/sitemap.xml\n" * has_archive
    return PlainTextResponse(f"User-agent: *\n{rules}{place}")


def show_sitemap(visit: Visit) -> Response:
    """Return the sitemap with the addresses of the public pages (sitemaps.org, protocol 0.9)."""
    root = ElementTree.Element("urlset", xmlns=SITEMAP)
    for path, changed in public_paths(listed_days(visit)):
        entry = ElementTree.SubElement(root, "url")
        ElementTree.SubElement(entry, "loc").text = visit.site.url + path
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
