"""Render letters and build messages: templates, inlined CSS, headers, MIME, DKIM, the press.

Modules are imported on first use, because most commands render no letters.
"""
