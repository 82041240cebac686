"""Serve the web pages: today's papers, a page for each paper, and the pages to which letters link."""

from digest.web.app import create_app, serve

__all__ = ["create_app", "serve"]
