"""Build the web application and its routes, and serve it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, StringConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from digest.app_context import AppContext, open_context
from digest.process import logs
from digest.settings import Settings
from digest.web import (
    account_page,
    confirm_page,
    feedback_page,
    feeds,
    forms,
    front_page,
    health,
    metrics,
    outbox_viewer,
    page_rendering,
    paper_page,
    problem_pages,
    provider_webhook,
    public_archive,
    reader_archive,
    saved_papers,
    settings_actions,
    settings_page,
    unsubscribe_page,
    watchdog,
    why_page,
)
from digest.web.forms import page_with_form
from digest.web.middleware import HttpMiddleware, PublicPageCompression
from digest.web.public_archive import archive_route
from digest.web.visits import route

if TYPE_CHECKING:
    import uvicorn


class IdConvertor(IntegerConvertor):
    """A number in a path, with so few digits that a database column and Python's parser accept it."""

    regex = "[0-9]{1,18}"


class FeedFormat(StringConvertor):
    """The format of a feed in a path."""

    regex = "atom|json"


class FileFormat(StringConvertor):
    """The format of a file for reference managers in a path."""

    regex = "bib|ris"


register_url_convertor("id", IdConvertor())
register_url_convertor("feed", FeedFormat())
register_url_convertor("file", FileFormat())

ROUTES: list[BaseRoute] = [
    *page_with_form("/", front_page.show_front, front_page.handle_form, writes=False, in_steps=True),
    Route("/preview", front_page.post_preview, methods=["POST"]),
    # The form for a new link is on the pages of links that do not work.
    *page_with_form(
        "/link", lambda _visit: RedirectResponse("/", 303), front_page.handle_link_form, in_steps=True
    ),
    route("/email", front_page.show_as_email),
    *page_with_form("/c/{token}", confirm_page.show_button, confirm_page.handle_button, writes=False),
    *page_with_form(
        "/u/{token}", unsubscribe_page.show_button, unsubscribe_page.handle_button, from_anywhere=True
    ),
    *page_with_form("/m/{token}/saved", saved_papers.show_list, saved_papers.handle_list_form),
    route("/m/{token}/saved.{format:file}", saved_papers.show_file),
    *page_with_form("/s/{token}/{number:id}", saved_papers.show_button, saved_papers.handle_button),
    route("/s/{token}.{format:feed}", feeds.show_saved),
    *page_with_form("/m/{token}", settings_page.show_settings, settings_actions.handle_form),
    route("/m/{token}/why", why_page.show_answer),
    *page_with_form("/d/{token}", account_page.show_account, account_page.handle_form, writes=False),
    route("/d/{token}/digest-data.json", account_page.download),
    *page_with_form("/e/{token}", account_page.show_new_address, account_page.handle_new_address),
    *page_with_form("/t/{token}", settings_page.show_settings, settings_actions.handle_form),
    *page_with_form("/l/{token}/{number:id}", feedback_page.show_less, feedback_page.less),
    *page_with_form("/l/{token}/{number:id}/more", feedback_page.show_more, feedback_page.more),
    route("/a/{token}", reader_archive.show_archive),
    archive_route("/days", public_archive.show_days),
    archive_route("/days/{day}", public_archive.show_day),
    archive_route("/topics/{topic}.{format:feed}", public_archive.show_topic_feed),
    archive_route("/topics/{topic}", public_archive.show_topic),
    route("/robots.txt", public_archive.show_robots),
    archive_route("/sitemap.xml", public_archive.show_sitemap),
    # Some programs request the icon without reading a page.
    route("/favicon.ico", lambda _visit: RedirectResponse("/static/icon.svg", 301)),
    route("/papers/{number:id}", paper_page.show_paper),
    route("/papers/{number:id}.{format:file}", paper_page.show_file),
    route("/outbox", lambda _visit: RedirectResponse("/outbox/", 301)),
    route("/outbox/", outbox_viewer.show_list),
    route("/outbox/{key}", outbox_viewer.show_message),
    route("/outbox/{key}/html", outbox_viewer.show_html),
    route("/outbox/{key}/source", outbox_viewer.show_source),
    route("/feed.{format:feed}", feeds.show_trending),
    route("/feed/{topic:path}.{format:feed}", feeds.show_shared),
    route("/f/{token}.{format:feed}", feeds.show_own),
    route("/v/{token}.{format:file}", reader_archive.show_file),
    route("/v/{token}/topics", reader_archive.show_topics),
    route("/v/{token}/{place:id}", reader_archive.show_overflow),
    route("/v/{token}", reader_archive.show_digest),
    Route("/sns", provider_webhook.receive_notice, methods=["POST"]),
    route("/privacy", front_page.show_privacy),
    Route("/healthz", health.healthz),
    route("/readyz", health.readyz),
    route("/metrics", metrics.show_metrics),
]


def create_app(
    context: AppContext, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Starlette:
    """Return the web application on a checked database; `sleep` delays the responses to forms with an address."""
    context.check_setup()
    app = Starlette(
        routes=[*ROUTES, Mount("/static", StaticFiles(directory=page_rendering.static_dir()))],
        middleware=[
            Middleware(HttpMiddleware, is_https=context.site.is_https),
            Middleware(PublicPageCompression),
        ],
        exception_handlers=problem_pages.HANDLERS,
        lifespan=watchdog.lifespan,
    )
    # Such a redirect would go to the request's Host header, which any client can set.
    app.router.redirect_slashes = False
    app.state.context = context
    app.state.sleep = sleep
    app.state.large_forms = asyncio.Semaphore(forms.LARGE_FORMS_AT_ONCE)
    app.state.archive_pages = asyncio.Semaphore(public_archive.PAGES_AT_ONCE)
    app.state.certificates = provider_webhook.CertificateCache(fetch=provider_webhook.make_fetch(context))
    return app


def serve(settings: Settings) -> None:
    """Serve the site until a signal stops the process."""
    logs.limit_warnings("uvicorn.error", "asyncio", "digest.web")
    with suppress(KeyboardInterrupt):  # uvicorn raises KeyboardInterrupt again when it has shut down
        make_server(create_app(open_context(settings)), settings).run()


def make_server(app: Starlette, settings: Settings) -> uvicorn.Server:
    """Return the HTTP server, with limits on its connections."""
    import uvicorn

    from digest.web import connection_limits

    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", connection_limits.limited_protocol(proxies=settings.proxies)),
        backlog=connection_limits.accepted_at_once(),
        log_config=None,  # our own logging configuration formats uvicorn's lines too
        host=settings.listen.host,
        port=settings.listen.port,
        access_log=False,  # an access log would contain private links
        server_header=False,
        proxy_headers=False,  # visitor_network trusts only the last DIGEST_PROXIES entries of X-Forwarded-For
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,  # slow clients delay the stop by this many seconds at most
        h11_max_incomplete_event_size=32 * 1024,
    )
    return uvicorn.Server(config)
