"""Trending papers in your email inbox once a day, self-hosted."""

__version__ = "0.1.0"
