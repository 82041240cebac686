"""Mail trending papers once a day: a self-hosted service."""

__version__ = "0.1.0"
