"""The web door: the page we mirror, a page per paper, and what the links in letters open."""

from digest.web.app import create_app, serve

__all__ = ["create_app", "serve"]
