"""The web application: which page answers where."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from digest import house
from digest.settings import Settings
from digest.web import (
    asking,
    confirming,
    feeds,
    front,
    health,
    leaving,
    managing,
    metrics,
    mirror,
    narrowing,
    notices,
    outbox,
    pages,
    papers,
    viewing,
    watch,
)
from digest.web.limits import Limits
from digest.web.shell import Shell

ROUTES: list[BaseRoute] = [
    Route("/", front.show),
    Route("/", front.subscribe, methods=["POST"]),
    Route("/email", front.as_email),
    Route("/c/{token}", confirming.show),
    Route("/c/{token}", confirming.confirm, methods=["POST"]),
    Route("/u/{token}", leaving.show),
    Route("/u/{token}", leaving.unsubscribe, methods=["POST"]),
    Route("/m/{token}", managing.show),
    Route("/m/{token}", managing.change, methods=["POST"]),
    Route("/t/{token}", asking.show),
    Route("/t/{token}", asking.act, methods=["POST"]),
    Route("/a/{token}", viewing.archive),
    Route("/papers/{number:int}", papers.show),
    Route("/papers/{number:int}.bib", papers.bibtex),
    Route("/papers/{number:int}.ris", papers.ris),
    Route("/outbox/", outbox.show),
    Route("/outbox/{key}", outbox.message),
    Route("/outbox/{key}/html", outbox.html),
    Route("/outbox/{key}/source", outbox.source),
    Route("/feed.{format}", feeds.show),
    Route("/feed/{topic:path}.{format}", feeds.shared),
    Route("/f/{token}.{format:str}", feeds.mine),
    Route("/v/{token}.bib", viewing.bibtex),
    Route("/v/{token}.ris", viewing.ris),
    Route("/v/{token}/narrow", narrowing.show),
    Route("/v/{token}/narrow", narrowing.change, methods=["POST"]),
    Route("/v/{token}/{place:int}", viewing.rest),
    Route("/v/{token}", viewing.show),
    Route("/sns", notices.take, methods=["POST"]),
    Route("/privacy", front.privacy),
    Route("/healthz", health.healthz),
    Route("/readyz", health.readyz),
    Route("/metrics", metrics.show),
    Route("/mirror/{token}", mirror.show),
]


def create_app(settings: Settings, *, clock: house.Clock = house.wall_clock) -> Starlette:
    """Return the site, its database opened and checked; `clock` is where time comes in."""
    opened = house.opened(settings, clock=clock)
    opened.check()
    app = Starlette(
        routes=[*ROUTES, Mount("/static", StaticFiles(directory=pages.static_dir()))],
        middleware=[Middleware(Shell, is_https=opened.site.is_https)],
        exception_handlers=pages.HANDLERS,
    )
    app.state.house, app.state.limits = opened, Limits()
    app.state.certificates = notices.Certificates(fetch=notices.fetcher(opened))
    return app


def serve(settings: Settings) -> None:
    """Serve the site until told to stop. Its own log masks the links of letters; the server's would not."""
    import uvicorn

    app = create_app(settings)
    watch.start(app.state.house)
    uvicorn.run(
        app,
        log_config=None,  # its lines go where ours go, in the form that was asked for
        host=settings.host,
        port=settings.port,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # X-Forwarded-For is believed only as far as we have proxies: see limits
        timeout_keep_alive=15,
        h11_max_incomplete_event_size=32 * 1024,
    )
