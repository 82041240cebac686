"""Fetch dumps from servers that publish papers, if an operator has added them as sources."""
