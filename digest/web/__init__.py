"""Serve the web pages: today's papers, a page for each paper, and the pages to which letters link."""
