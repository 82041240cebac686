"""Serve the web app on a real port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from digest.app_context import open_context
from digest.settings import Settings
from digest.web.app import create_app
from tests.support.real_servers import free_port
from tests.support.waiting import wait_until


@contextmanager
def serve_site(settings: Settings) -> Iterator[int]:
    """Serve the site on its own port until the block ends."""
    port, app = free_port(), create_app(open_context(settings))
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, proxy_headers=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until("the site", lambda: server.started)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        app.state.context.engine.dispose()
